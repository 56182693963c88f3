"""Zero-concentrated DP: the least ρ with D_α(P‖P') ≤ ρα for every order α > 1, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import assert_never

from discreet._numbers import add_up, to_rational
from discreet.accounting.elementary import exp_neg_bounds, tanh_half_up
from discreet.accounting.neighbours import to_replace_neighbours
from discreet.accounting.pure import amplify, pure
from discreet.events import (
    BinomialEvent,
    Claim,
    Composition,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    Memoised,
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    SetResponseEvent,
    Shuffled,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
    check_event,
)
from discreet.units import Sensitivity


def zcdp(event: Event) -> Fraction | float:
    """ρ such that the event is ρ-zCDP; ∞ where there is none. Irrational values are rounded up.

    >>> from discreet import Gaussian
    >>> zcdp(Gaussian(10).event(1))
    Fraction(1, 200)
    """
    check_event(event)
    event = to_replace_neighbours(event)
    match event:
        case (
            GaussianEvent(sigma=sigma, sensitivity=sensitivity) | DiscreteGaussianEvent(sigma=sigma, sensitivity=sensitivity)
        ):
            # [BS16, Prop. 1.6]; on integers [CKS20, Thm 4 and Cor. 16 for vectors].
            return sensitivity.l2_squared / (2 * sigma**2)
        case LaplaceEvent(scale=scale, sensitivity=sensitivity):
            return _min_over_shapes(sensitivity, scale, laplace_rho)
        case (
            DiscreteLaplaceEvent(scale=scale, sensitivity=sensitivity)
            | TruncatedGeometricEvent(scale=scale, sensitivity=sensitivity)
        ):
            return _min_over_shapes(sensitivity, scale, pure_rho)
        case ExponentialEvent(epsilon=epsilon):
            return epsilon**2 / 8  # [CR21, Lemma 3.4]: needs bounded range, which permute-and-flip lacks
        case (
            PermuteAndFlipEvent()
            | RandomizedResponseEvent()
            | SetResponseEvent()
            | Shuffled()
            | Claim()
            | OptimalPartitionSelectionEvent()
        ):
            return _from_pure(pure(event))
        case BinomialEvent() | ThresholdEvent():
            return inf  # outputs that only one neighbour can give
        case Composition(parts=parts):
            return add_up(times * zcdp(part) for part, times in parts)  # [BS16, Lemma 1.7]
        case Parallel(branches=branches):
            return max((zcdp(branch) for branch in branches), default=Fraction(0))
        case Group(event=inner, size=size):
            return size**2 * zcdp(inner)  # [BS16, Prop. 1.9]
        case Memoised():
            return zcdp(event.unconditional)
        case Subsampled(event=inner, rate=rate) | SampledWithoutReplacement(event=inner, rate=rate):
            # Sampling never hurts; where a pure bound survives it may be smaller, else ρ itself is all that is proven.
            return min(zcdp(inner), _from_pure(amplify(pure(inner), rate)))
        case _:
            assert_never(event)


def pure_rho(epsilon: Fraction) -> Fraction:
    """Every ε-private mechanism is ρ-zCDP with ρ = ε·tanh(ε/2), which randomised response attains [BS16, Prop. 3.3]."""
    return epsilon * tanh_half_up(epsilon)


def _from_pure(epsilon: Fraction | float) -> Fraction | float:
    return inf if epsilon == inf else pure_rho(to_rational(epsilon))


def laplace_rho(epsilon: Fraction) -> Fraction:
    """Continuous Laplace at l1/scale = ε: ρ = ε + e^-ε − 1, its Kullback–Leibler divergence."""
    return epsilon + exp_neg_bounds(epsilon)[1] - 1


def _min_over_shapes(sensitivity: Sensitivity, scale: Fraction, rho: Callable[[Fraction], Fraction]) -> Fraction | float:
    """The smaller of two proven bounds: all of l1 on one coordinate, or l0 coordinates moved by linf each.

    Both hold: noise on a coordinate that moves farther is worse, coordinates are independent, and ρ adds.
    """
    one_shift = inf if sensitivity.l1 is None else rho(sensitivity.l1 / scale)
    return one_shift if sensitivity.l0 is None else min(one_shift, sensitivity.l0 * rho(sensitivity.linf / scale))
