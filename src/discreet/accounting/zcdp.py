"""Zero-concentrated DP: the least ρ with D_α(P‖P') ≤ ρα for every order α > 1, in both directions."""

from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import assert_never

from discreet.accounting.elementary import exp_neg_bounds, tanh_half_up
from discreet.accounting.pure import amplified, pure
from discreet.exact import rational
from discreet.loss import (
    BinomialLoss,
    Claim,
    Composition,
    DiscreteGaussianLoss,
    DiscreteLaplaceLoss,
    ExponentialLoss,
    GaussianLoss,
    Group,
    KeepLoss,
    LaplaceLoss,
    Loss,
    Parallel,
    PermuteAndFlipLoss,
    ResponseLoss,
    SampledWithoutReplacement,
    Subsampled,
    ThresholdLoss,
    TruncatedGeometricLoss,
    check_event,
)
from discreet.units import Sensitivity


def zcdp(loss: Loss) -> Fraction | float:
    """ρ such that the release is ρ-zCDP; ∞ where there is none. Irrational values are rounded up.

    >>> from discreet import Gaussian
    >>> zcdp(Gaussian(10).loss(1))
    Fraction(1, 200)
    """
    check_event(loss)
    match loss:
        case GaussianLoss(sigma=sigma, sensitivity=moved) | DiscreteGaussianLoss(sigma=sigma, sensitivity=moved):
            # [BS16, Prop. 1.6]; on whole numbers [CKS20, Thm 4 and Cor. 16 for vectors].
            return moved.l2_squared / (2 * sigma**2)
        case LaplaceLoss(scale=scale, sensitivity=moved):
            return _over_shapes(moved, scale, laplace_rho)
        case DiscreteLaplaceLoss(scale=scale, sensitivity=moved) | TruncatedGeometricLoss(scale=scale, sensitivity=moved):
            return _over_shapes(moved, scale, pure_rho)
        case ExponentialLoss(epsilon=epsilon):
            return epsilon**2 / 8  # [CR21, Lemma 3.4]: needs bounded range, which permute-and-flip lacks
        case PermuteAndFlipLoss() | ResponseLoss() | Claim() | KeepLoss():
            return _from_pure(pure(loss))
        case BinomialLoss() | ThresholdLoss():
            return inf  # outputs that only one neighbour can give
        case Composition(parts=parts):
            return sum((times * zcdp(part) for part, times in parts), Fraction(0))  # [BS16, Lemma 1.7]
        case Parallel(branches=branches):
            return max((zcdp(branch) for branch in branches), default=Fraction(0))
        case Group(loss=inner, size=size):
            return size**2 * zcdp(inner)  # [BS16, Prop. 1.9]
        case Subsampled(loss=inner, rate=rate) | SampledWithoutReplacement(loss=inner, rate=rate):
            # Sampling never hurts; where a pure bound survives it may be smaller, else ρ itself is all that is proven.
            return min(zcdp(inner), _from_pure(amplified(pure(inner), rate)))
        case _:
            assert_never(loss)


def pure_rho(epsilon: Fraction) -> Fraction:
    """Every ε-private mechanism is ρ-zCDP with ρ = ε·tanh(ε/2), which randomised response attains [BS16, Prop. 3.3]."""
    return epsilon * tanh_half_up(epsilon)


def _from_pure(epsilon: Fraction | float) -> Fraction | float:
    return inf if epsilon == inf else pure_rho(rational(epsilon))


def laplace_rho(epsilon: Fraction) -> Fraction:
    """Continuous Laplace at l1/scale = ε: ρ = ε + e^-ε − 1, its Kullback–Leibler divergence."""
    return epsilon + exp_neg_bounds(epsilon)[1] - 1


def _over_shapes(moved: Sensitivity, scale: Fraction, rho: Callable[[Fraction], Fraction]) -> Fraction | float:
    """The smaller of two proven readings: all of l1 on one coordinate, or l0 coordinates moved by linf each.

    Both hold: noise on a coordinate that moves farther is worse, coordinates are independent, and ρ adds.
    """
    whole = inf if moved.l1 is None else rho(moved.l1 / scale)
    return whole if moved.l0 is None else min(whole, moved.l0 * rho(moved.linf / scale))
