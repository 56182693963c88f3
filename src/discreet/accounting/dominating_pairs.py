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
  `_extra_bounds` has more; from below the curve is bounded by one change that all norms allow (`changes`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, expm1, fsum, inf, log, log1p
from typing import assert_never

import msgspec

from discreet._numbers import nearest_float
from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.accounting.pld import EPS, Pld
from discreet.accounting.pld.binomial import build_binomial_pld
from discreet.accounting.pld.bounded_range import BoundedRangePld
from discreet.accounting.pld.cgf import CgfEnvelope, ZcdpCgfBound
from discreet.accounting.pld.discrete import DiscretePld, build_pure_pld, build_response_pld
from discreet.accounting.pld.gaussian import DiscreteGaussianPld, GaussianPld
from discreet.accounting.pld.laplace import DiscreteLaplacePld, LaplacePld
from discreet.accounting.rewrite import AdditiveNoiseEvent, Change, claim_of_threshold, find_attained_change
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
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
)
from discreet.units import Sensitivity

# What events contribute to one direction of a composition, and the composition itself.
#
# A curve is bounded from below by neighbours that exist and from above by pairs that dominate. Where one pair is both, it
# is stated once. Where none is, a `Component` and a `Direction` hold a pair that is reached, and `UpperBound`s: each of them
# bounds the curve from above on its own, so the least does.


Part = tuple[Pld, int]

_MAX_COMBINATIONS = 8
"""Combinations of the pieces' ceilings that are followed; past that, each that is followed goes on with one of them."""


@dataclass(frozen=True, slots=True)
class UpperBound:
    """Laws that dominate, and ln of the mass that stays finite, rounded down. With `moments` they only bound K = ln M."""

    parts: tuple[Part, ...]
    log_finite_mass: float = 0.0
    cgf_only: bool = False

    @property
    def infinity_mass(self) -> float:
        """The mass at +∞, rounded up."""
        return max(0.0, min(1.0, -expm1(self.log_finite_mass) * (1 + 4 * EPS)))

    def repeat(self, times: int) -> "UpperBound":
        """The same, `times` times."""
        parts = tuple((law, times * count) for law, count in self.parts)
        return UpperBound(parts, times * self.log_finite_mass * (1 + 4 * EPS), self.cgf_only)

    def plus(self, other: "UpperBound") -> "UpperBound":
        """Both together."""
        kept = (self.log_finite_mass + other.log_finite_mass) * (1 + EPS)
        return UpperBound((*self.parts, *other.parts), kept, self.cgf_only or other.cgf_only)


@dataclass(frozen=True, slots=True)
class Component:
    """What one fact contributes, `times` times: the laws of an actual neighbour (none: all is at infinity, or nothing
    happens) and its mass at infinity between two doubles. No `ceilings` means that this neighbour is the worst one."""

    parts: tuple[Part, ...]
    times: int = 1
    infinity_mass: tuple[float, float] = (0.0, 0.0)
    dominated_by: tuple[UpperBound, ...] | None = None

    @property
    def upper_bounds(self) -> tuple[UpperBound, ...]:
        """What bounds one run from above."""
        return (
            (UpperBound(self.parts, log_finite(self.infinity_mass[1])),) if self.dominated_by is None else self.dominated_by
        )


DISTINGUISHABLE = Component((), 1, (1.0, 1.0))
"""Neighbours are told apart for certain."""

UNKNOWN = Component((), 1, (0.0, 1.0))
"""Nothing is known: the honest answer where a ratio of noise to sensitivity is past the doubles."""


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction: P's finite losses as independent parts, and ln of the mass that stays finite, between two doubles.

    With `ceilings`, `parts` are an actual neighbour's and bound the curve from below only, as the larger of `kept` does.
    """

    parts: tuple[Part, ...]
    log_finite_mass: tuple[float, float]
    dominated_by: tuple[UpperBound, ...] | None = None

    @property
    def infinity_mass(self) -> tuple[float, float]:
        """The mass at +∞, 1 − Π(1 − p)^times."""
        low = max(0.0, -expm1(self.log_finite_mass[1]) * (1 - 4 * EPS))
        return low, min(ceiling.infinity_mass for ceiling in self.upper_bounds)

    @property
    def upper_bounds(self) -> tuple[UpperBound, ...]:
        """What bounds the curve from above."""
        return (UpperBound(self.parts, self.log_finite_mass[0]),) if self.dominated_by is None else self.dominated_by

    @property
    def dominating_pair(self) -> UpperBound | None:
        """Laws that dominate, if any do."""
        return next((ceiling for ceiling in self.upper_bounds if not ceiling.cgf_only), None)

    @property
    def cgf_bound(self) -> UpperBound:
        """A K that is never exceeded: δ ≤ δ of one of the ceilings, so the least K with the largest mass at infinity."""
        if len(self.upper_bounds) == 1:
            return self.upper_bounds[0]
        least = CgfEnvelope(tuple(ceiling.parts for ceiling in self.upper_bounds), worst=False)
        return UpperBound(((least, 1),), min(ceiling.log_finite_mass for ceiling in self.upper_bounds), cgf_only=True)


def combine_bounds(so_far: Sequence[UpperBound], more: Sequence[UpperBound]) -> list[UpperBound]:
    """Every combination of one ceiling of each, or a few of the combinations: any of them is a ceiling of both."""
    if len(so_far) * len(more) <= _MAX_COMBINATIONS:
        return [one.plus(two) for one, two in product(so_far, more)]
    return [one.plus(more[i % len(more)]) for i, one in enumerate(so_far)]


def log_finite(infinity_mass: float) -> float:
    """ln(1 − p)."""
    return log1p(-infinity_mass) if infinity_mass < 1 else -inf


IDENTICAL = DiscretePld.of([0.0], [0.0])
"""Neighbours that give the same answers: they bound every curve from below."""


def build_component(event: Event) -> Component:
    """The law of one plain fact."""
    if not is_in_range(event):
        return UNKNOWN
    moved = getattr(event, "sensitivity", None)
    if moved is not None and moved.linf < 1 and isinstance(event, _INTEGER_NOISE):
        # Whole answers that move by less than one do not move at all; who states that may have meant another unit, so
        # the upper end is that of a move by one.
        one = build_component(msgspec.structs.replace(event, sensitivity=_widen_to_one(moved)))
        return Component(((IDENTICAL, 1),), 1, dominated_by=tuple(ceiling.repeat(one.times) for ceiling in one.upper_bounds))
    return _build_plain_component(event)


_INTEGER_NOISE = (DiscreteLaplaceEvent, TruncatedGeometricEvent, DiscreteGaussianEvent, BinomialEvent)
_MAX_LOG2 = 930  # 2^930 is about 10^280: squares and sums of a few stay doubles


def _widen_to_one(sensitivity: Sensitivity) -> Sensitivity:
    """The same shape with every moved coordinate moving by one."""
    if sensitivity.l0 is not None:
        return Sensitivity(l0=sensitivity.l0, linf=1)
    if sensitivity.l1 is not None:
        return Sensitivity(l1=max(Fraction(1), sensitivity.l1), linf=1)
    return Sensitivity(l2_squared=max(Fraction(1), sensitivity.l2_squared), linf=1)


def is_in_range(event: Event) -> bool:
    """Whether the ratios that become doubles are ordinary ones."""
    match event:
        case LaplaceEvent(scale=scale, sensitivity=moved) | DiscreteLaplaceEvent(scale=scale, sensitivity=moved):
            ratios = [scale, moved.linf / scale, (moved.l1 or moved.linf) / scale]
        case TruncatedGeometricEvent(scale=scale, sensitivity=moved):
            ratios = [scale, moved.linf / scale, (moved.l1 or moved.linf) / scale]
        case GaussianEvent(sigma=sigma, sensitivity=moved) | DiscreteGaussianEvent(sigma=sigma, sensitivity=moved):
            ratios = [sigma**2, moved.l2_squared / sigma**2]
        case ExponentialEvent(epsilon=epsilon) | PermuteAndFlipEvent(epsilon=epsilon) | Claim(epsilon=epsilon):
            ratios = [epsilon] if epsilon else []
        case OptimalPartitionSelectionEvent(epsilon=epsilon):
            ratios = [epsilon] if epsilon else []
        case ThresholdEvent(scale=scale):
            ratios = [scale]
        case _:
            ratios = []
    return all(abs(ratio.numerator.bit_length() - ratio.denominator.bit_length()) < _MAX_LOG2 for ratio in ratios)


def _build_plain_component(event: Event) -> Component:
    match event:
        case LaplaceEvent() | DiscreteLaplaceEvent() | TruncatedGeometricEvent() | DiscreteGaussianEvent() | BinomialEvent():
            return _build_additive(event)
        case GaussianEvent():
            raise AssertionError("`sides` adds these up")
        case RandomizedResponseEvent(truth=truth, choices=choices) if truth in (0, 1):
            return _certain_response(truth, choices)
        case RandomizedResponseEvent(truth=truth, choices=choices):
            return Component(((build_response_pld(truth, choices), 1),))
        case PermuteAndFlipEvent(epsilon=epsilon):
            return _permute_and_flip(epsilon)
        case ExponentialEvent(epsilon=epsilon):
            return _exponential(epsilon)
        case ThresholdEvent(groups=groups):
            claim = claim_of_threshold(event)
            return build_claim_component(claim.epsilon, claim.delta, groups)
        case OptimalPartitionSelectionEvent(epsilon=epsilon, delta=delta, groups=groups):
            return build_claim_component(epsilon, delta, groups)
        case Claim(epsilon=epsilon, delta=delta):
            return build_claim_component(epsilon, delta, 1)
        case Subsampled() | SampledWithoutReplacement() | Composition() | Parallel() | Group():
            raise AssertionError("`sides` takes these apart")
        case _:
            assert_never(event)


def _build_additive(event: AdditiveNoiseEvent) -> Component:
    """Noise on every coordinate: a change that all norms allow from below, changes that dominate from above."""
    shapes = _dominating_changes(event.sensitivity, whole=isinstance(event, _INTEGER_NOISE))
    change = find_attained_change(event)
    if len(change) == 1 and change[0] in shapes:
        shift, count = change[0]
        one = _build_coordinate(event, shift)
        return Component(one.parts, count, one.infinity_mass)
    moved = [(_build_coordinate(event, shift), count) for shift, count in change]
    parts = tuple((law, count) for one, count in moved for law, _ in one.parts)
    told = -expm1(fsum(count * log_finite(one.infinity_mass[0]) for one, count in moved)) * (1 - 8 * EPS)
    ceilings = tuple(_bound_coordinates(event, (shape,)) for shape in shapes if _is_worthwhile(event, shape))
    return Component(parts or ((IDENTICAL, 1),), 1, (told, 1.0), (*ceilings, *_extra_bounds(event)))


def _build_coordinate(event: AdditiveNoiseEvent, shift: Fraction) -> Component:
    """One coordinate that moves by `shift`."""
    match event:
        case LaplaceEvent(scale=scale):
            return Component(((LaplacePld(shift / scale), 1),))
        case DiscreteLaplaceEvent(scale=scale) | TruncatedGeometricEvent(scale=scale):
            return Component(((DiscreteLaplacePld(scale, int(shift)), 1),))
        case DiscreteGaussianEvent(sigma=sigma):
            return Component(((DiscreteGaussianPld(sigma, int(shift)), 1),))
        case BinomialEvent(n=n):
            if shift > n:
                return DISTINGUISHABLE
            law, low, high = build_binomial_pld(n, int(shift))
            return Component(((law, 1),), 1, (low, high))
        case _:
            assert_never(event)


def _bound_coordinates(event: AdditiveNoiseEvent, change: Change) -> UpperBound:
    """All coordinates of a change that dominates."""
    total = UpperBound(())
    for shift, count in change:
        total = total.plus(_build_coordinate(event, shift).upper_bounds[0].repeat(count))
    return total


def _dominating_changes(sensitivity: Sensitivity, *, whole: bool) -> Change:
    """Changes of one shape that dominate everything within the norms: as many coordinates as there may be, each moving by
    linf, and all of l1 on one coordinate. The former is left out where it is the longer one: it is hardly ever the better.
    """
    counts = [] if sensitivity.l0 is None else [sensitivity.l0]
    if whole:  # |v| ≥ 1 and v² ≥ |v| for every coordinate that moves
        counts += [ceil(bound) for bound in (sensitivity.l1, sensitivity.l2_squared) if bound is not None]
    single, each = _largest_sum(sensitivity, whole=whole), _largest_shift(sensitivity, whole=whole)
    if counts and (single is None or min(counts) * each**2 < single**2):
        return ((each, min(counts)),) if single is None else ((each, min(counts)), (single, 1))
    return () if single is None else ((single, 1),)


def _largest_sum(sensitivity: Sensitivity, *, whole: bool) -> Fraction | None:
    """l1. Whole answers move by whole numbers; a fraction may have been meant in another unit, so it is rounded up."""
    if whole:
        return Fraction(min(ceil(bound) for bound in (sensitivity.l1, sensitivity.l2_squared) if bound is not None))
    return sensitivity.l1


def _largest_shift(sensitivity: Sensitivity, *, whole: bool) -> Fraction:
    return Fraction(ceil(sensitivity.linf)) if whole else sensitivity.linf


def _is_worthwhile(event: AdditiveNoiseEvent, shape: tuple[Fraction, int]) -> bool:
    """A discrete Gaussian has a bound by l2 as well, beside which a much longer change is of no use."""
    return not isinstance(event, DiscreteGaussianEvent) or shape[1] * shape[0] ** 2 <= 4 * event.sensitivity.l2_squared


def _extra_bounds(event: AdditiveNoiseEvent) -> tuple[UpperBound, ...]:
    """Bounds that no change of one shape gives.

    - Discrete Gaussian: K ≤ ρ·c(c + 1), ρ = l2²/2σ² [CKS20, Thm 4 and Cor. 16].
    - Laplace: a coordinate that moves by r is (r/scale)-private, so K ≤ Σ(r/scale)²·c(c + 1)/2 [BS16, Prop. 1.4]. And the K
      of one coordinate is ln(A·e^{cr/scale} + B·e^{-(c + 1)r/scale}) with A, B > 0 (`laws.laplace`): convex in r, and 0 at
      r = 0. So the sum over coordinates is Schur-convex: it is largest for the change with as many coordinates at linf as
      l1 allows, which weakly majorises all others.
    - Discrete Laplace, l1 not whole: (l1/scale)-private, as `pure` reads it.
    """
    moved, whole = event.sensitivity, isinstance(event, _INTEGER_NOISE)
    match event:
        case DiscreteGaussianEvent(sigma=sigma):
            return (UpperBound(((ZcdpCgfBound(round_up_128_bits(moved.l2_squared / (2 * sigma**2))), 1),), cgf_only=True),)
        case BinomialEvent():
            return ()
        case LaplaceEvent(scale=scale) | DiscreteLaplaceEvent(scale=scale) | TruncatedGeometricEvent(scale=scale):
            known: list[tuple[Part, ...]] = [((ZcdpCgfBound(round_up_128_bits(moved.l2_squared / (2 * scale**2))), 1),)]
            total = _largest_sum(moved, whole=whole)
            if total is not None:
                known.append(_bound_coordinates(event, _pack_changes(total, _largest_shift(moved, whole=whole))).parts)
            moments = UpperBound(((CgfEnvelope(tuple(known), worst=False), 1),), cgf_only=True)
            if not whole or moved.l1 is None or moved.l1.denominator == 1:
                return (moments,)
            return moments, UpperBound(((build_pure_pld(moved.l1 / scale), 1),))
        case _:
            assert_never(event)


def _pack_changes(total: Fraction, each: Fraction) -> Change:
    """As many coordinates as possible at `each`, and the rest of `total` on one more."""
    count, rest = divmod(total, each)
    full = ((each, int(count)),) if count else ()
    return (*full, (rest, 1)) if rest else full


def build_gaussian_component(squared: Fraction, reached: Fraction) -> Component:
    """All Gaussians together: (l2/σ)² of what dominates, and of a change that all norms allow."""
    parts = ((GaussianPld(reached), 1),) if reached else ()
    return (
        Component(parts)
        if reached == squared
        else Component(parts, dominated_by=(UpperBound(((GaussianPld(squared), 1),)),))
    )


def _permute_and_flip(epsilon: Fraction) -> Component:
    """ε-private: randomised response of ε dominates [KOV15, Thm 3.3 and its proof].

    A neighbour: two candidates with equal scores, one of which rises by ε above the other. The other one's probability
    falls from ½ to a/2, a = e^-ε, where its loss is ε.
    """
    eps, low = nearest_float(epsilon), nearest_float(exp_neg_bounds(epsilon)[0])
    reached = DiscretePld.of([eps, -log1p(1 - low)], [-log(2), -log(2)], 4 * EPS, 0.0)
    return Component(((reached, 1),), dominated_by=(UpperBound(((build_pure_pld(epsilon), 1),)),))


def _exponential(epsilon: Fraction) -> Component:
    """Every range of ε is dominated by `BoundedRangePld`, and is (ε²/8)-zCDP [CR21, Lemma 3.4]: neither is always better.

    Two candidates whose difference of scores moves from −ε/2 to ε/2 are a neighbour: randomised response of ε/2.
    """
    worst = BoundedRangePld(epsilon)
    least = CgfEnvelope((((worst, 1),), ((ZcdpCgfBound(epsilon**2 / 8), 1),)), worst=False)
    ceilings = UpperBound(((worst, 1),)), UpperBound(((least, 1),), cgf_only=True)
    return Component(((build_pure_pld(epsilon / 2), 1),), dominated_by=ceilings)


def _certain_response(truth: Fraction, choices: int) -> Component:
    """The truth always or never: an answer that only one of two inputs can give is certain, or has mass 1/(choices − 1).
    The answers that both can give are equally likely for both."""
    return DISTINGUISHABLE if truth == 1 or choices == 2 else build_claim_component(Fraction(0), Fraction(1, choices - 1))


def build_claim_component(epsilon: Fraction, delta: Fraction, times: int = 1) -> Component:
    """The pair that dominates every (ε, δ)-private mechanism: δ at infinity, else randomised response of ε [KOV15,
    Thm 3.3]."""
    if delta >= 1:
        return DISTINGUISHABLE
    response = build_pure_pld(epsilon)
    p, shift = nearest_float(delta), nearest_float(sum(log_bounds(1 - delta), Fraction(0)) / 2)
    law = DiscretePld.of(response.loss, response.log_mass + shift, response.loss_error, response.mass_error + 4 * EPS)
    return Component(((law, 1),), times, (p * (1 - EPS), min(1.0, p * (1 + EPS))))


def round_up_128_bits(exact: Fraction) -> Fraction:
    """To about 128 bits, up: sums of thousands of unlike fractions would otherwise grow without end."""
    shift = max(0, 128 - exact.numerator.bit_length() + exact.denominator.bit_length())
    return Fraction(-((-exact.numerator << shift) // exact.denominator), 1 << shift)
