"""From a plain fact to its dominating pair, as a privacy-loss law. Plain facts treat both directions alike.

Under "replace" the sensitivity already holds both moves.

- *Noise on integers that is log-concave* (discrete Laplace, discrete Gaussian, binomial). For one coordinate the best
  test is a (randomised) threshold, so the trade-off curves of whole shifts satisfy f_{s+t} = f_s∘(1 − f_t). A vector
  of changes is reached one coordinate at a time, and a path's curve is at least that composition [DRS22, Thm 2.14],
  so one coordinate shifted by the l1 norm dominates; and as f_t falls with t, l0 coordinates each shifted by linf
  dominate too. The same holds for continuous Laplace noise.
- *Truncation* is post-processing; and for values within the range it loses nothing, for the clamped outputs all have
  the same ratio.
- *Several norms.* A change must meet all of them, so each of the two shapes is a bound from above of its own, and
  `_further` has more; from below the curve is bounded by one change that all norms allow (`changes`).
"""

from fractions import Fraction
from math import ceil, expm1, fsum, log, log1p
from typing import assert_never

import msgspec

from discreet.accounting.changes import Change, Shifted, reached_change
from discreet.accounting.either import EitherLaw
from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.accounting.laws import EPS
from discreet.accounting.laws.atoms import AtomsLaw
from discreet.accounting.laws.binomial import binomial_law
from discreet.accounting.laws.bounded_range import BoundedRangeLaw
from discreet.accounting.laws.concentrated import ConcentratedLaw
from discreet.accounting.laws.gaussian import DiscreteGaussianLaw, GaussianLaw
from discreet.accounting.laws.laplace import DiscreteLaplaceLaw, LaplaceLaw
from discreet.accounting.laws.response import pure_law, response_law
from discreet.accounting.pieces import HOPELESS, UNKNOWN, Ceiling, Part, Piece, log_kept
from discreet.accounting.resolve import threshold_claim
from discreet.exact import nearest_float
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
)
from discreet.units import Sensitivity

NOBODY = AtomsLaw.of([0.0], [0.0])
"""Neighbours that give the same answers: they bound every curve from below."""


def piece(loss: Loss) -> Piece:
    """The law of one plain fact."""
    if not in_range(loss):
        return UNKNOWN
    moved = getattr(loss, "sensitivity", None)
    if moved is not None and moved.linf < 1 and isinstance(loss, _WHOLE):
        # Whole answers that move by less than one do not move at all; who states that may have meant another unit, so
        # the upper end is that of a move by one.
        one = piece(msgspec.structs.replace(loss, sensitivity=_stretched(moved)))
        return Piece(((NOBODY, 1),), 1, ceilings=tuple(ceiling.repeat(one.times) for ceiling in one.above))
    return _piece(loss)


_WHOLE = (DiscreteLaplaceLoss, TruncatedGeometricLoss, DiscreteGaussianLoss, BinomialLoss)
_BITS = 930  # 2^930 is about 10^280: squares and sums of a few stay doubles


def _stretched(moved: Sensitivity) -> Sensitivity:
    """The same shape with every moved coordinate moving by one."""
    if moved.l0 is not None:
        return Sensitivity(l0=moved.l0, linf=1)
    if moved.l1 is not None:
        return Sensitivity(l1=max(Fraction(1), moved.l1), linf=1)
    return Sensitivity(l2_squared=max(Fraction(1), moved.l2_squared), linf=1)


def in_range(loss: Loss) -> bool:
    """Whether the ratios that become doubles are ordinary ones."""
    match loss:
        case LaplaceLoss(scale=scale, sensitivity=moved) | DiscreteLaplaceLoss(scale=scale, sensitivity=moved):
            ratios = [scale, moved.linf / scale, (moved.l1 or moved.linf) / scale]
        case TruncatedGeometricLoss(scale=scale, sensitivity=moved):
            ratios = [scale, moved.linf / scale, (moved.l1 or moved.linf) / scale]
        case GaussianLoss(sigma=sigma, sensitivity=moved) | DiscreteGaussianLoss(sigma=sigma, sensitivity=moved):
            ratios = [sigma**2, moved.l2_squared / sigma**2]
        case ExponentialLoss(epsilon=epsilon) | PermuteAndFlipLoss(epsilon=epsilon) | Claim(epsilon=epsilon):
            ratios = [epsilon] if epsilon else []
        case KeepLoss(epsilon=epsilon):
            ratios = [epsilon] if epsilon else []
        case ThresholdLoss(scale=scale):
            ratios = [scale]
        case _:
            ratios = []
    return all(abs(ratio.numerator.bit_length() - ratio.denominator.bit_length()) < _BITS for ratio in ratios)


def _piece(loss: Loss) -> Piece:
    match loss:
        case LaplaceLoss() | DiscreteLaplaceLoss() | TruncatedGeometricLoss() | DiscreteGaussianLoss() | BinomialLoss():
            return _shifted(loss)
        case GaussianLoss():
            raise AssertionError("`sides` adds these up")
        case ResponseLoss(truth=truth, choices=choices) if truth in (0, 1):
            return _certain_response(truth, choices)
        case ResponseLoss(truth=truth, choices=choices):
            return Piece(((response_law(truth, choices), 1),))
        case PermuteAndFlipLoss(epsilon=epsilon):
            return _permute_and_flip(epsilon)
        case ExponentialLoss(epsilon=epsilon):
            return _exponential(epsilon)
        case ThresholdLoss(groups=groups):
            claim = threshold_claim(loss)
            return claim_piece(claim.epsilon, claim.delta, groups)
        case KeepLoss(epsilon=epsilon, delta=delta, groups=groups):
            return claim_piece(epsilon, delta, groups)
        case Claim(epsilon=epsilon, delta=delta):
            return claim_piece(epsilon, delta, 1)
        case Subsampled() | SampledWithoutReplacement() | Composition() | Parallel() | Group():
            raise AssertionError("`sides` takes these apart")
        case _:
            assert_never(loss)


def _shifted(loss: Shifted) -> Piece:
    """Noise on every coordinate: a change that all norms allow from below, changes that dominate from above."""
    shapes = _shapes(loss.sensitivity, whole=isinstance(loss, _WHOLE))
    change = reached_change(loss)
    if len(change) == 1 and change[0] in shapes:
        shift, count = change[0]
        one = _coordinate(loss, shift)
        return Piece(one.parts, count, one.infinite)
    moved = [(_coordinate(loss, shift), count) for shift, count in change]
    parts = tuple((law, count) for one, count in moved for law, _ in one.parts)
    told = -expm1(fsum(count * log_kept(one.infinite[0]) for one, count in moved)) * (1 - 8 * EPS)
    ceilings = tuple(_all_coordinates(loss, (shape,)) for shape in shapes if _worthwhile(loss, shape))
    return Piece(parts or ((NOBODY, 1),), 1, (told, 1.0), (*ceilings, *_further(loss)))


def _coordinate(loss: Shifted, shift: Fraction) -> Piece:
    """One coordinate that moves by `shift`."""
    match loss:
        case LaplaceLoss(scale=scale):
            return Piece(((LaplaceLaw(shift / scale), 1),))
        case DiscreteLaplaceLoss(scale=scale) | TruncatedGeometricLoss(scale=scale):
            return Piece(((DiscreteLaplaceLaw(scale, int(shift)), 1),))
        case DiscreteGaussianLoss(sigma=sigma):
            return Piece(((DiscreteGaussianLaw(sigma, int(shift)), 1),))
        case BinomialLoss(n=n):
            if shift > n:
                return HOPELESS
            law, low, high = binomial_law(n, int(shift))
            return Piece(((law, 1),), 1, (low, high))
        case _:
            assert_never(loss)


def _all_coordinates(loss: Shifted, change: Change) -> Ceiling:
    """All coordinates of a change that dominates."""
    total = Ceiling(())
    for shift, count in change:
        total = total.plus(_coordinate(loss, shift).above[0].repeat(count))
    return total


def _shapes(moved: Sensitivity, *, whole: bool) -> Change:
    """Changes of one shape that dominate everything within the norms: as many coordinates as there may be, each moving by
    linf, and all of l1 on one coordinate. The former is left out where it is the longer one: it is hardly ever the better.
    """
    counts = [] if moved.l0 is None else [moved.l0]
    if whole:  # |v| ≥ 1 and v² ≥ |v| for every coordinate that moves
        counts += [ceil(bound) for bound in (moved.l1, moved.l2_squared) if bound is not None]
    single, each = _largest_sum(moved, whole=whole), _largest_shift(moved, whole=whole)
    if counts and (single is None or min(counts) * each**2 < single**2):
        return ((each, min(counts)),) if single is None else ((each, min(counts)), (single, 1))
    return () if single is None else ((single, 1),)


def _largest_sum(moved: Sensitivity, *, whole: bool) -> Fraction | None:
    """l1. Whole answers move by whole numbers; a fraction may have been meant in another unit, so it is rounded up."""
    if whole:
        return Fraction(min(ceil(bound) for bound in (moved.l1, moved.l2_squared) if bound is not None))
    return moved.l1


def _largest_shift(moved: Sensitivity, *, whole: bool) -> Fraction:
    return Fraction(ceil(moved.linf)) if whole else moved.linf


def _worthwhile(loss: Shifted, shape: tuple[Fraction, int]) -> bool:
    """A discrete Gaussian has a bound by l2 as well, beside which a much longer change is of no use."""
    return not isinstance(loss, DiscreteGaussianLoss) or shape[1] * shape[0] ** 2 <= 4 * loss.sensitivity.l2_squared


def _further(loss: Shifted) -> tuple[Ceiling, ...]:
    """Bounds that no change of one shape gives.

    - Discrete Gaussian: K ≤ ρ·c(c + 1), ρ = l2²/2σ² [CKS20, Thm 4 and Cor. 16].
    - Laplace: a coordinate that moves by r is (r/scale)-private, so K ≤ Σ(r/scale)²·c(c + 1)/2 [BS16, Prop. 1.4]. And the K
      of one coordinate is ln(A·e^{cr/scale} + B·e^{-(c + 1)r/scale}) with A, B > 0 (`laws.laplace`): convex in r, and 0 at
      r = 0. So the sum over coordinates is Schur-convex: it is largest for the change with as many coordinates at linf as
      l1 allows, which weakly majorises all others.
    - Discrete Laplace, l1 not whole: (l1/scale)-private, as `pure` reads it.
    """
    moved, whole = loss.sensitivity, isinstance(loss, _WHOLE)
    match loss:
        case DiscreteGaussianLoss(sigma=sigma):
            return (Ceiling(((ConcentratedLaw(rounded(moved.l2_squared / (2 * sigma**2))), 1),), moments=True),)
        case BinomialLoss():
            return ()
        case LaplaceLoss(scale=scale) | DiscreteLaplaceLoss(scale=scale) | TruncatedGeometricLoss(scale=scale):
            known: list[tuple[Part, ...]] = [((ConcentratedLaw(rounded(moved.l2_squared / (2 * scale**2))), 1),)]
            total = _largest_sum(moved, whole=whole)
            if total is not None:
                known.append(_all_coordinates(loss, _packed(total, _largest_shift(moved, whole=whole))).parts)
            moments = Ceiling(((EitherLaw(tuple(known), worst=False), 1),), moments=True)
            if not whole or moved.l1 is None or moved.l1.denominator == 1:
                return (moments,)
            return moments, Ceiling(((pure_law(moved.l1 / scale), 1),))
        case _:
            assert_never(loss)


def _packed(total: Fraction, each: Fraction) -> Change:
    """As many coordinates as possible at `each`, and the rest of `total` on one more."""
    count, rest = divmod(total, each)
    full = ((each, int(count)),) if count else ()
    return (*full, (rest, 1)) if rest else full


def gaussian_piece(squared: Fraction, reached: Fraction) -> Piece:
    """All Gaussians together: (l2/σ)² of what dominates, and of a change that all norms allow."""
    parts = ((GaussianLaw(reached), 1),) if reached else ()
    return Piece(parts) if reached == squared else Piece(parts, ceilings=(Ceiling(((GaussianLaw(squared), 1),)),))


def _permute_and_flip(epsilon: Fraction) -> Piece:
    """ε-private: randomised response of ε dominates [KOV15, Thm 3.3 and its proof].

    A neighbour: two candidates with equal scores, one of which rises by ε above the other. The other one's probability
    falls from ½ to a/2, a = e^-ε, where its loss is ε.
    """
    eps, low = nearest_float(epsilon), nearest_float(exp_neg_bounds(epsilon)[0])
    reached = AtomsLaw.of([eps, -log1p(1 - low)], [-log(2), -log(2)], 4 * EPS, 0.0)
    return Piece(((reached, 1),), ceilings=(Ceiling(((pure_law(epsilon), 1),)),))


def _exponential(epsilon: Fraction) -> Piece:
    """Every range of ε is dominated by `BoundedRangeLaw`, and is (ε²/8)-zCDP [CR21, Lemma 3.4]: neither is always better.

    Two candidates whose difference of scores moves from −ε/2 to ε/2 are a neighbour: randomised response of ε/2.
    """
    worst = BoundedRangeLaw(epsilon)
    least = EitherLaw((((worst, 1),), ((ConcentratedLaw(epsilon**2 / 8), 1),)), worst=False)
    ceilings = Ceiling(((worst, 1),)), Ceiling(((least, 1),), moments=True)
    return Piece(((pure_law(epsilon / 2), 1),), ceilings=ceilings)


def _certain_response(truth: Fraction, choices: int) -> Piece:
    """The truth always or never: an answer that only one of two inputs can give is certain, or has mass 1/(choices − 1).
    The answers that both can give are equally likely for both."""
    return HOPELESS if truth == 1 or choices == 2 else claim_piece(Fraction(0), Fraction(1, choices - 1))


def claim_piece(epsilon: Fraction, delta: Fraction, times: int = 1) -> Piece:
    """The pair that dominates every (ε, δ)-private mechanism: δ at infinity, else randomised response of ε [KOV15,
    Thm 3.3]."""
    if delta >= 1:
        return HOPELESS
    response = pure_law(epsilon)
    p, shift = nearest_float(delta), nearest_float(sum(log_bounds(1 - delta), Fraction(0)) / 2)
    law = AtomsLaw.of(response.loss, response.log_mass + shift, response.loss_error, response.mass_error + 4 * EPS)
    return Piece(((law, 1),), times, (p * (1 - EPS), min(1.0, p * (1 + EPS))))


def rounded(exact: Fraction) -> Fraction:
    """To about 128 bits, up: sums of thousands of unlike fractions would otherwise grow without end."""
    shift = max(0, 128 - exact.numerator.bit_length() + exact.denominator.bit_length())
    return Fraction(-((-exact.numerator << shift) // exact.denominator), 1 << shift)
