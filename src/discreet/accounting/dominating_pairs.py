"""Dominating pairs: from a plain composition to its two directions, as privacy-loss distributions.

**Theory of operation.** The removed direction compares the data with the unit (P) to the data without it (Q), the added
direction the reverse. `list_directions` builds both, or one where they are alike, from the `Component` of each event. A
curve is bounded from below by neighbours that exist and from above by pairs that dominate. Where one pair does both, it is
stated once. Where none does, a `Component` and a `Direction` hold a pair that is attained, and `UpperBound`s: each of them
bounds the curve from above on its own, so the least does.

*Plain events* treat both directions alike. Under "replace" the sensitivity already holds both moves.

- *Noise on integers that is log-concave* (discrete Laplace, discrete Gaussian, binomial). **Proof.** For one coordinate the
  best test is a (randomised) threshold, so the trade-off curves of integer shifts satisfy f_{s+t} = f_s∘(1 − f_t). A vector
  of changes is reached one coordinate at a time, and a path's curve is at least that composition [DRS22, Thm 2.14], so one
  coordinate shifted by the l1 norm dominates; and as f_t falls with t, l0 coordinates each shifted by linf dominate too. The
  same holds for continuous Laplace noise.
- *Truncation* is post-processing; and for values within the range it loses nothing, for the clamped outputs all have the
  same ratio.
- *Several norms.* A change must meet all of them, so each of the two shapes is an upper bound of its own, and
  `_list_extra_bounds` has more; from below the curve is bounded by one change that all norms allow
  (`rewrite.find_attained_change`).

*Samples* start from the pair of the event on everyone. Where that is one Gaussian, one Laplace distribution or a list, the
sample's pair is known exactly. Where it is not, several bounds are: of the sample of what dominates the event, of the (ε, δ)
that a sample amplifies, of the event on everyone (sampling never hurts). Then an actual neighbour bounds from below: one
that is sampled itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from math import ceil, expm1, floor, fsum, inf, isqrt, log, log1p
from typing import TypeAlias, assert_never

import msgspec
import numpy as np

from discreet._numbers import nearest_float, to_rational
from discreet.accounting.basic import basic_composition
from discreet.accounting.contour import CgfEnvelope, CgfTable, ZcdpCgfBound
from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.accounting.pld import EPS, Interval, Part, Parts, Pld
from discreet.accounting.pld.binomial import build_binomial_pld
from discreet.accounting.pld.cells import list_cells
from discreet.accounting.pld.discrete import (
    DiscretePld,
    bound_second_mass,
    build_pure_pld,
    build_response_pld,
    build_set_pld,
    convolve,
    sample_poisson,
)
from discreet.accounting.pld.gaussian import DiscreteGaussianPld, GaussianPld
from discreet.accounting.pld.integer_changes import build_worst_change_pld
from discreet.accounting.pld.laplace import BoundedRangePld, DiscreteLaplacePld, LaplacePld
from discreet.accounting.pld.sampled import SampledGaussianPld, SampledLaplacePld
from discreet.accounting.pld.without_replacement import WithoutReplacementPld, sample_without_replacement
from discreet.accounting.pure import amplify, pure
from discreet.accounting.ranges import RepeatedRange, SampledRange
from discreet.accounting.rewrite import (
    INTEGER_NOISE,
    AdditiveNoiseEvent,
    Change,
    claim_of_threshold,
    find_attained_change,
    max_squared_length,
)
from discreet.accounting.shuffle_pairs import ShuffledPld, build_dominating_pld, build_pair, list_attained_pairs
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
)
from discreet.units import Sensitivity

_MAX_TIMES = 10**18
_RAREST = 1e-12  # a rate, or an ε, from which on no double gets lost
_MAX_LOG2 = 930  # 2^930 is about 10^280: squares and sums of a few stay doubles
_ATTAINED_SHARES = tuple((16 + j) / 32 for j in range(15))  # of ε: where the two losses of a range are tried
_MAX_LISTED_SQUARE = 48  # l2² up to which all changes of integers are listed
_MAX_LISTED_CHANGES = 64
_MAX_COMBINATIONS = 8
"""How many combinations of the components' upper bounds are followed; beyond that, each goes on with one of the next."""


@dataclass(frozen=True, slots=True)
class UpperBound:
    """Distributions that dominate, and ln of the finite mass, rounded down. With `cgf_only` they only bound K = ln M; with
    `is_cut` a mass at infinity stands for the far end of losses that are all finite."""

    parts: tuple[Part, ...]
    log_finite_mass: float = 0.0
    cgf_only: bool = False
    is_cut: bool = False

    @property
    def infinity_mass(self) -> float:
        """The mass at +∞, rounded up."""
        return max(0.0, min(1.0, -expm1(self.log_finite_mass) * (1 + 4 * EPS)))

    def repeat(self, times: int) -> "UpperBound":
        """The bound of `times` runs."""
        parts = tuple((pld, times * count) for pld, count in self.parts)
        return UpperBound(parts, times * self.log_finite_mass * (1 + 4 * EPS), self.cgf_only, self.is_cut)

    def plus(self, other: "UpperBound") -> "UpperBound":
        """The bound of both together."""
        finite = (self.log_finite_mass + other.log_finite_mass) * (1 + EPS)
        is_cut = self.is_cut or other.is_cut
        return UpperBound((*self.parts, *other.parts), finite, self.cgf_only or other.cgf_only, is_cut)


@dataclass(frozen=True, slots=True)
class Component:
    """What one event contributes, `times` times: the distributions of an actual neighbour (none: all is at infinity, or
    nothing happens) and its mass at infinity. If `dominated_by` is None, this neighbour is the worst one."""

    parts: tuple[Part, ...]
    times: int = 1
    infinity_mass: Interval = (0.0, 0.0)
    dominated_by: tuple[UpperBound, ...] | None = None

    @property
    def upper_bounds(self) -> tuple[UpperBound, ...]:
        """What bounds one run from above."""
        if self.dominated_by is not None:
            return self.dominated_by
        return (UpperBound(self.parts, log_finite(self.infinity_mass[1])),)


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a composition: its finite losses as independent parts, and ln of the mass that stays finite.

    With `dominated_by`, `parts` are an actual neighbour's and bound the curve from below only, as the larger end of
    `log_finite_mass` does.
    """

    parts: tuple[Part, ...]
    log_finite_mass: Interval
    dominated_by: tuple[UpperBound, ...] | None = None
    also_attained: tuple[tuple[Part, ...], ...] = ()
    """Losses of further neighbours that exist, which bound the curve from below as `parts` do."""
    ranges: RepeatedRange | SampledRange | None = None
    """What else bounds the curve where one exponential mechanism is repeated."""

    @property
    def infinity_mass(self) -> Interval:
        """The mass at +∞, 1 − Π(1 − p)^times."""
        low = max(0.0, -expm1(self.log_finite_mass[1]) * (1 - 4 * EPS))
        if self.dominated_by is not None:
            return low, min(bound.infinity_mass for bound in self.dominated_by)
        return low, max(0.0, min(1.0, -expm1(self.log_finite_mass[0]) * (1 + 4 * EPS)))

    @property
    def upper_bounds(self) -> tuple[UpperBound, ...]:
        """What bounds the curve from above."""
        return (UpperBound(self.parts, self.log_finite_mass[0]),) if self.dominated_by is None else self.dominated_by

    @property
    def dominating_pair(self) -> UpperBound | None:
        """Distributions that dominate, if any do."""
        return next((bound for bound in self.upper_bounds if not bound.cgf_only), None)

    @property
    def cgf_bound(self) -> UpperBound:
        """A K that is never exceeded: δ ≤ δ of one of the upper bounds, so the least K with the largest mass at infinity.
        Bounds that are cut have such a mass where others have none: they are left out."""
        bounds = [bound for bound in self.upper_bounds if not bound.is_cut] or list(self.upper_bounds)
        if len(bounds) == 1:
            return bounds[0]
        least = CgfEnvelope(tuple(bound.parts for bound in bounds), worst=False)
        return UpperBound(((least, 1),), min(bound.log_finite_mass for bound in bounds), cgf_only=True)


DISTINGUISHABLE = Component((), 1, (1.0, 1.0))
"""Neighbours can be distinguished for certain."""

UNKNOWN = Component((), 1, (0.0, 1.0))
"""Nothing is known: the honest answer where a ratio of noise to sensitivity is beyond the doubles."""

IDENTICAL = DiscretePld.of([0.0], [0.0])
"""Neighbours that give the same answers: they bound every curve from below."""


def log_finite(infinity_mass: float) -> float:
    """ln(1 − p)."""
    return log1p(-infinity_mass) if infinity_mass < 1 else -inf


def list_directions(choice: Composition) -> tuple[Direction, ...]:
    """The removed and the added direction of a plain composition; only one where they are the same.

    >>> from discreet.events import Claim, compose
    >>> len(list_directions(compose(Claim(Fraction(1), Fraction(0)))))
    1
    """
    match choice.parts:
        case ((ExponentialEvent(epsilon=epsilon) as only, 1),) if is_in_range(
            only
        ):  # the worst range is attained at every ε
            return (Direction(((BoundedRangePld(epsilon), 1),), (0.0, 0.0)),)
        case ((Subsampled(event=ExponentialEvent(epsilon=epsilon) as only, rate=rate), 1),) if (
            is_in_range(only) and epsilon > _RAREST and _RAREST < rate < 1
        ):  # sampling moves that curve [BBG18, Thm 2], so what attains it still does
            return tuple(
                Direction(((SampledLaplacePld(epsilon, rate, removed, ends=False), 1),), (0.0, 0.0))
                for removed in (True, False)
            )
        case ((Shuffled() as only, 1),):
            return _list_shuffled_directions(only)
        case ((DiscreteGaussianEvent() as only, 1),) if is_in_range(only) and (
            changes := list_integer_changes(only.sensitivity)
        ):
            return tuple(
                Direction(tuple((DiscreteGaussianPld(only.sigma, shift), times) for shift, times in change), (0.0, 0.0))
                for change in changes
            )
    removed = build_direction(choice, removed=True)
    return (removed, build_direction(choice, removed=False)) if is_two_sided(choice) else (removed,)


def is_two_sided(choice: Composition) -> bool:
    """Whether `list_directions` has the removed and the added direction of this composition."""
    return has_two_directions(choice) and any(
        isinstance(part, Subsampled | SampledWithoutReplacement | Parallel) for part, _ in choice.parts
    )


def list_integer_changes(norms: Sensitivity) -> list[list[tuple[int, int]]]:
    """All changes of integers within all norms that are not within another one, as (shift, number of coordinates); none
    where they are too many, or a norm is a fraction, which may have been meant in another unit.

    Log-concave noise: a coordinate that moves further dominates one that moves less, so the worst of all changes is the
    worst of these; and each is a change that may occur. For one event alone the curve is then the largest of theirs.

    >>> list_integer_changes(Sensitivity(l2_squared=9))
    [[(3, 1)], [(2, 2), (1, 1)], [(2, 1), (1, 5)], [(1, 9)]]
    """
    square = norms.l2_squared
    each = min(isqrt(floor(square)), floor(norms.linf))
    is_implied = norms.l0 is not None and norms.l1 is not None and norms.l1**2 >= norms.l0 * square  # it was filled in
    is_whole = norms.l1 is None or norms.l1.denominator == 1 or is_implied
    if square.denominator != 1 or not 1 < square <= _MAX_LISTED_SQUARE or not is_whole or each < 1:
        return []
    if norms.linf.denominator != 1 and norms.linf**2 < square:
        return []
    found: list[list[int]] = []

    def extend(change: list[int], left: int) -> None:
        room = len(change) < (norms.l0 or left + len(change))
        more = [r for r in range(min(each, change[-1] if change else each), 0, -1) if r * r <= left and room]
        if norms.l1 is not None:
            more = [r for r in more if sum(change) + r <= norms.l1]
        for r in more:
            extend([*change, r], left - r * r)
        if not more and change:
            found.append(change)

    extend([], int(square))
    largest = [one for one in found if not any(one != other and _is_within(one, other) for other in found)]
    if len(largest) > _MAX_LISTED_CHANGES:
        return []
    return [[(r, one.count(r)) for r in sorted(set(one), reverse=True)] for one in largest]


def _is_within(one: list[int], other: list[int]) -> bool:
    """Whether every coordinate moves at least as far in the other; both are sorted."""
    return len(one) <= len(other) and all(a <= b for a, b in zip(one, other, strict=False))


def has_two_directions(event: Event) -> bool:
    """Whether the two directions may differ: only Poisson samples make them."""
    match event:
        case Subsampled():
            return True
        case Composition(parts=parts):
            return any(has_two_directions(part) for part, _ in parts)
        case Parallel(branches=branches):
            return any(has_two_directions(branch) for branch in branches)
        case SampledWithoutReplacement(event=inner):
            return has_two_directions(inner)
        case _:
            return False


def build_direction(choice: Composition, *, removed: bool) -> Direction:
    """One direction, with all Gaussians as one."""
    components: list[tuple[Component, int]] = []
    squared, attained = Fraction(0), Fraction(0)  # Σ(l2/σ)² of all Gaussians, of what dominates and of an allowed change
    for part, times in choice.parts:
        if times > _MAX_TIMES:
            components.append((UNKNOWN, 1))
        elif isinstance(part, GaussianEvent) and is_in_range(part):
            squared += times * round_up_128_bits(part.sensitivity.l2_squared / part.sigma**2)
            attained += times * round_up_128_bits(max_squared_length(part) / part.sigma**2)
        else:
            one = build_component(part, removed=removed)
            # Past `_MAX_TIMES` a double cannot count the runs.
            components.append((one, times * one.times) if times * one.times <= _MAX_TIMES else (UNKNOWN, 1))
    parts = tuple((pld, runs * count) for one, runs in components for pld, count in one.parts)
    if attained:
        parts = (*parts, (GaussianPld(attained), 1))
    masses = [(one.infinity_mass, runs) for one, runs in components if one.infinity_mass[1] > 0]
    finite = (
        fsum(runs * log_finite(high) * (1 + 4 * EPS) for (_, high), runs in masses),
        fsum(runs * log_finite(low) * (1 - 4 * EPS) for (low, _), runs in masses),
    )
    if attained == squared and all(one.dominated_by is None for one, _ in components):
        return Direction(parts, finite)
    bounds = [UpperBound(())]
    for one, runs in components:
        bounds = combine_bounds(bounds, [bound.repeat(runs) for bound in one.upper_bounds])
    if squared:
        bounds = combine_bounds(bounds, [UpperBound(((GaussianPld(squared), 1),))])
    ranges: RepeatedRange | SampledRange | None = None
    match choice.parts:
        case ((ExponentialEvent(epsilon=epsilon) as event, times),) if is_in_range(event) and times <= _MAX_TIMES:
            ranges = RepeatedRange(nearest_float(epsilon), times)
        case ((Subsampled(event=ExponentialEvent(epsilon=epsilon) as event, rate=rate), times),) if (
            is_in_range(event) and times <= _MAX_TIMES
        ):
            ranges = SampledRange(nearest_float(epsilon), times, nearest_float(rate), removed)
    also_attained = (*_list_attained_ranges(choice, removed=removed), *_list_attained_changes(choice))
    return Direction(parts, finite, tuple(bounds), also_attained, ranges)


def _list_attained_changes(choice: Composition) -> tuple[tuple[Part, ...], ...]:
    """Of one discrete Gaussian many times: changes that move all coordinates alike, whose losses are furthest apart."""
    match choice.parts:
        case ((DiscreteGaussianEvent(sigma=sigma, sensitivity=norms) as event, times),) if (
            is_in_range(event) and times <= _MAX_TIMES
        ):
            alike = [change[0] for change in list_integer_changes(norms) if len(change) == 1]
            return tuple(((DiscreteGaussianPld(sigma, shift), times * count),) for shift, count in alike)
    return ()


def _list_attained_ranges(choice: Composition, *, removed: bool) -> tuple[tuple[Part, ...], ...]:
    """Of one exponential mechanism many times, on samples or on everyone: all choose between two candidates whose log odds
    move by ε, so that the losses are u and u − ε. Every u between 0 and ε is attained; which is worst depends on δ."""
    match choice.parts:
        case ((ExponentialEvent(epsilon=epsilon) as event, times),):
            rate = Fraction(1)
        case ((Subsampled(event=ExponentialEvent(epsilon=epsilon) as event, rate=rate), times),):
            pass
        case _:
            return ()
    if not is_in_range(event) or not 1e-9 < (eps := nearest_float(epsilon)) < 300 or times > _MAX_TIMES:
        return ()
    found = []
    for share in _ATTAINED_SHARES:
        u = share * eps
        high, low = log(expm1(u - eps) / expm1(-eps)), log(-expm1(u) / expm1(-eps)) - eps
        pld = DiscretePld.of([u, u - eps], [high, low], 4 * EPS * eps, 32 * EPS)
        found.append(pld if rate == 1 else sample_poisson(pld, (0.0, 0.0), rate, removed)[0])
    return tuple(((pld, times),) for pld in found)


def combine_bounds(some: Sequence[UpperBound], others: Sequence[UpperBound]) -> list[UpperBound]:
    """Every combination of one bound of each, or a few of the combinations: any of them bounds both together."""
    if len(some) * len(others) <= _MAX_COMBINATIONS:
        return [one.plus(other) for one, other in product(some, others)]
    return [one.plus(others[i % len(others)]) for i, one in enumerate(some)]


def is_in_range(event: Event) -> bool:
    """Whether the ratios that become doubles are ordinary ones."""
    match event:
        case (
            LaplaceEvent(scale=scale, sensitivity=sensitivity)
            | DiscreteLaplaceEvent(scale=scale, sensitivity=sensitivity)
            | TruncatedGeometricEvent(scale=scale, sensitivity=sensitivity)
        ):
            ratios = [scale, sensitivity.linf / scale, (sensitivity.l1 or sensitivity.linf) / scale]
        case (
            GaussianEvent(sigma=sigma, sensitivity=sensitivity) | DiscreteGaussianEvent(sigma=sigma, sensitivity=sensitivity)
        ):
            ratios = [sigma**2, sensitivity.l2_squared / sigma**2]
        case (
            ExponentialEvent(epsilon=epsilon)
            | PermuteAndFlipEvent(epsilon=epsilon)
            | Claim(epsilon=epsilon)
            | OptimalPartitionSelectionEvent(epsilon=epsilon)
        ):
            ratios = [epsilon] if epsilon else []
        case ThresholdEvent(scale=scale):
            ratios = [scale]
        case _:
            ratios = []
    return all(abs(ratio.numerator.bit_length() - ratio.denominator.bit_length()) < _MAX_LOG2 for ratio in ratios)


def build_component(event: Event, *, removed: bool) -> Component:
    """What one event contributes to one direction; only samples distinguish the two."""
    if not is_in_range(event):
        return UNKNOWN
    match event:
        case LaplaceEvent() | DiscreteLaplaceEvent() | TruncatedGeometricEvent() | DiscreteGaussianEvent() | BinomialEvent():
            return _build_additive(event)
        case GaussianEvent():
            raise AssertionError("`build_direction` adds these up")
        case RandomizedResponseEvent(truth=truth, choices=choices) if truth in (0, 1):
            return _certain_response(truth, choices)
        case RandomizedResponseEvent(truth=truth, choices=choices):
            return Component(((build_response_pld(truth, choices), 1),))
        case SetResponseEvent(odds=odds, share=share, pair=pair):
            return Component(((build_set_pld(odds, event.blanket * (share - pair)), 1),))
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
        case Subsampled(event=inner, rate=rate):
            return _build_poisson_component(inner, rate, removed)
        case SampledWithoutReplacement(event=inner, rate=rate):
            return _build_without_replacement_component(inner, rate, removed)
        case Parallel(branches=branches):
            return _build_parallel([build_direction(_to_composition(branch), removed=removed) for branch in branches])
        case Shuffled():
            return _shuffled(event)
        case Composition() | Group() | Memoised():
            raise AssertionError("`rewrite` takes these apart")
        case _:
            assert_never(event)


def _build_additive(event: AdditiveNoiseEvent) -> Component:
    """Noise on every coordinate: a change that all norms allow from below, changes that dominate from above."""
    sensitivity, integers = event.sensitivity, isinstance(event, INTEGER_NOISE)
    if integers and sensitivity.linf < 1:
        # Integers that move by less than one do not move at all; such a bound may have been meant in another unit, so the
        # upper end is that of a move by one.
        one = build_component(msgspec.structs.replace(event, sensitivity=_widen_to_one(sensitivity)), removed=True)
        return Component(((IDENTICAL, 1),), 1, dominated_by=tuple(bound.repeat(one.times) for bound in one.upper_bounds))
    change = find_attained_change(event)
    shapes, max_sum, max_each = _list_dominating_changes(sensitivity, integers=integers)
    if len(change) == 1 and change[0] in shapes:
        shift, count = change[0]
        one = _build_coordinate(event, shift)
        return Component(one.parts, count, one.infinity_mass)
    if isinstance(event, DiscreteGaussianEvent):
        change = _find_longest_change(sensitivity) or change
    coordinates = [(_build_coordinate(event, shift), count) for shift, count in change]
    parts = tuple((pld, count) for one, count in coordinates for pld, _ in one.parts)
    mass = -expm1(fsum(count * log_finite(one.infinity_mass[0]) for one, count in coordinates)) * (1 - 8 * EPS)
    bounds = [*_bound_all_changes(event)]
    bounds += [_bound_change(event, (shape,)) for shape in shapes if _is_worthwhile(event, shape)]
    bounds += _list_extra_bounds(event, max_sum, max_each)
    return Component(parts or ((IDENTICAL, 1),), 1, (mass, 1.0), tuple(bounds))


def _find_longest_change(norms: Sensitivity) -> Change:
    """The longest change of integers, and of these the one with the fewest coordinates, if they can be listed."""
    changes = [tuple((Fraction(shift), count) for shift, count in change) for change in list_integer_changes(norms)]
    return max(changes, key=lambda one: (sum(n * r**2 for r, n in one), -sum(n for _, n in one)), default=())


def _bound_all_changes(event: AdditiveNoiseEvent) -> tuple[UpperBound, ...]:
    """Of a discrete Gaussian the worst of all changes of integers at every ε at once (`pld.integer_changes`)."""
    if not isinstance(event, DiscreteGaussianEvent) or not (changes := list_integer_changes(event.sensitivity)):
        return ()
    found = build_worst_change_pld(event.sigma, tuple(map(tuple, changes)))
    return () if found is None else (UpperBound(((found[0], 1),), log_finite(found[1]), is_cut=True),)


def _widen_to_one(sensitivity: Sensitivity) -> Sensitivity:
    """The same shape with every moved coordinate moving by one."""
    if sensitivity.l0 is not None:
        return Sensitivity(l0=sensitivity.l0, linf=1)
    if sensitivity.l1 is not None:
        return Sensitivity(l1=max(Fraction(1), sensitivity.l1), linf=1)
    return Sensitivity(l2_squared=max(Fraction(1), sensitivity.l2_squared), linf=1)


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
            pld, low, high = build_binomial_pld(n, int(shift))
            return Component(((pld, 1),), 1, (low, high))
        case _:
            assert_never(event)


def _bound_change(event: AdditiveNoiseEvent, change: Change) -> UpperBound:
    """The bound of a change that dominates: all of its coordinates."""
    total = UpperBound(())
    for shift, count in change:
        total = total.plus(_build_coordinate(event, shift).upper_bounds[0].repeat(count))
    return total


def _list_dominating_changes(sensitivity: Sensitivity, *, integers: bool) -> tuple[Change, Fraction | None, Fraction]:
    """Changes of one shape that dominate every change within the norms; the largest sum of shifts, if it is bounded; and the
    largest shift.

    The shapes are as many coordinates as there may be, each moving by linf, and all of l1 on one coordinate. The former is
    left out where it is the longer one: it is hardly ever the better. Integers move by integers; a fraction may have been
    meant in another unit, so it is rounded up.
    """
    counts = [] if sensitivity.l0 is None else [sensitivity.l0]
    max_sum, max_each = sensitivity.l1, sensitivity.linf
    if integers:  # |v| ≥ 1 and v² ≥ |v| for every coordinate that moves
        sums = [ceil(bound) for bound in (sensitivity.l1, sensitivity.l2_squared) if bound is not None]
        counts, max_sum, max_each = counts + sums, Fraction(min(sums)), Fraction(ceil(max_each))
    single = () if max_sum is None else ((max_sum, 1),)
    if counts and (max_sum is None or min(counts) * max_each**2 < max_sum**2):
        return ((max_each, min(counts)), *single), max_sum, max_each
    return single, max_sum, max_each


def _is_worthwhile(event: AdditiveNoiseEvent, shape: tuple[Fraction, int]) -> bool:
    """A discrete Gaussian has a bound by l2 as well, beside which a much longer change is of no use."""
    return not isinstance(event, DiscreteGaussianEvent) or shape[1] * shape[0] ** 2 <= 4 * event.sensitivity.l2_squared


def _list_extra_bounds(event: AdditiveNoiseEvent, max_sum: Fraction | None, max_each: Fraction) -> tuple[UpperBound, ...]:
    """Bounds that no change of one shape gives.

    - Discrete Gaussian: K ≤ ρ·c(c + 1), ρ = l2²/2σ² [CKS20, Thm 4 and Cor. 16].
    - Laplace: a coordinate that moves by r is (r/scale)-private, so K ≤ Σ(r/scale)²·c(c + 1)/2 [BS16, Prop. 1.4]. And the K
      of one coordinate is ln(A·e^{cr/scale} + B·e^{-(c + 1)r/scale}) with A, B > 0 (`pld.laplace`): convex in r, and 0 at r
      = 0. So the sum over coordinates is Schur-convex: it is largest for the change with as many coordinates at linf as l1
      allows, which weakly majorises all others.
    - Discrete Laplace, l1 not an integer: (l1/scale)-private, as in `pure`.
    """
    sensitivity = event.sensitivity
    match event:
        case DiscreteGaussianEvent(sigma=sigma):
            return (
                UpperBound(((ZcdpCgfBound(round_up_128_bits(sensitivity.l2_squared / (2 * sigma**2))), 1),), cgf_only=True),
            )
        case BinomialEvent():
            return ()
        case LaplaceEvent(scale=scale) | DiscreteLaplaceEvent(scale=scale) | TruncatedGeometricEvent(scale=scale):
            known: list[Parts] = [((ZcdpCgfBound(round_up_128_bits(sensitivity.l2_squared / (2 * scale**2))), 1),)]
            if max_sum is not None:
                count, rest = divmod(max_sum, max_each)
                packed = ((max_each, int(count)), (rest, 1))
                known.append(_bound_change(event, tuple((shift, many) for shift, many in packed if shift and many)).parts)
            cgf = UpperBound(((CgfEnvelope(tuple(known), worst=False), 1),), cgf_only=True)
            if isinstance(event, LaplaceEvent) or sensitivity.l1 is None or sensitivity.l1.denominator == 1:
                return (cgf,)
            return cgf, UpperBound(((build_pure_pld(sensitivity.l1 / scale), 1),))
        case _:
            assert_never(event)


def _list_shuffled_directions(event: Shuffled) -> tuple[Direction, ...]:
    """One shuffled event alone: from above its pair, from below neighbours whose others all hold one value, if known."""
    worst = (UpperBound(((ShuffledPld(build_pair(event)), 1),)),)
    attained: list[Pld] = [ShuffledPld(pair) for pair in list_attained_pairs(event)]
    return tuple(Direction(((pld, 1),), (0.0, 0.0), worst) for pld in attained or [IDENTICAL])


def _shuffled(event: Shuffled) -> Component:
    """A shuffled event among others: a list of losses that dominates its pair, or its ε without any shuffling."""
    pld, log_mass = build_dominating_pld(build_pair(event))
    everyone = UpperBound(((build_pure_pld(to_rational(pure(event))), 1),))
    return Component(((IDENTICAL, 1),), 1, dominated_by=(UpperBound(((pld, 1),), log_mass), everyone))


def _permute_and_flip(epsilon: Fraction) -> Component:
    """ε-private: randomised response of ε dominates [KOV15, Thm 3.3 and its proof].

    A neighbour: two candidates with equal scores, one of which rises by ε above the other. The other one's probability falls
    from ½ to a/2, a = e^-ε, where its loss is ε.
    """
    eps, low = nearest_float(epsilon), nearest_float(exp_neg_bounds(epsilon)[0])
    attained = DiscretePld.of([eps, -log1p(1 - low)], [-log(2), -log(2)], 4 * EPS, 0.0)
    return Component(((attained, 1),), dominated_by=(UpperBound(((build_pure_pld(epsilon), 1),)),))


def _exponential(epsilon: Fraction) -> Component:
    """Every range of ε is dominated by `BoundedRangePld`, and is (ε²/8)-zCDP [CR21, Lemma 3.4]: neither is always better.

    Two candidates whose difference of scores moves from −ε/2 to ε/2 are a neighbour: randomised response of ε/2.
    """
    worst = BoundedRangePld(epsilon)
    least = CgfEnvelope((((worst, 1),), ((ZcdpCgfBound(epsilon**2 / 8), 1),)), worst=False)
    bounds = UpperBound(((worst, 1),)), UpperBound(((least, 1),), cgf_only=True)
    return Component(((build_pure_pld(epsilon / 2), 1),), dominated_by=bounds)


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
    pld = DiscretePld.of(response.loss, response.log_mass + shift, response.loss_error, response.mass_error + 4 * EPS)
    return Component(((pld, 1),), times, (p * (1 - EPS), min(1.0, p * (1 + EPS))))


def round_up_128_bits(exact: Fraction) -> Fraction:
    """To about 128 bits, up: sums of thousands of unlike fractions would otherwise grow without end."""
    shift = max(0, 128 - exact.numerator.bit_length() + exact.denominator.bit_length())
    return Fraction(-((-exact.numerator << shift) // exact.denominator), 1 << shift)


# Samples and parallel branches.


def _build_poisson_component(inner: Event, rate: Fraction, removed: bool) -> Component:
    """A Poisson sample."""
    everyone = build_direction(_to_composition(inner), removed=removed)
    symmetric = not has_two_directions(inner)
    if everyone.infinity_mass[1] >= 1:
        worst = _build_sampled_distinguishable(rate, removed)
        if everyone.log_finite_mass[1] == -inf:
            return worst
        return Component(((IDENTICAL, 1),), 1, (0.0, 1.0), worst.upper_bounds)
    better: UpperBound | None = None
    match everyone.dominating_pair:
        case UpperBound(parts=((BoundedRangePld(epsilon=ratio), 1),), log_finite_mass=0.0) if symmetric:
            better = UpperBound(((SampledLaplacePld(ratio, rate, removed, ends=False), 1),))

    def sample(parts: Parts, infinity_mass: Interval) -> Component | None:
        single = _match_single(parts)
        if single is not None and infinity_mass[1] == 0:
            return Component(((_sample_pld(single, rate, removed), 1),))
        listed = list_atoms(parts)
        if listed is None:
            return None
        pld, low, high = sample_poisson(listed[0], infinity_mass, rate, removed)
        # What the list leaves out of P or of Q is at most this in the mixture too: all of it counts as infinite.
        return Component(((pld, 1),), 1, (low, high + listed[1]))

    exact, bounds = _sample_direction(everyone, sample) if symmetric else (None, [])
    if exact is not None:
        return exact
    others = _bound_by_amplification(inner, everyone, rate, better)
    cells = None if bounds else _sample_cells(everyone, rate, removed)
    if cells is not None:
        below, mass, above = cells
        return Component(((below, 1),), 1, (mass, 1.0), (above, *others))
    attained = _sample_attained(everyone, rate, removed) if symmetric else IDENTICAL
    return Component(((attained, 1),), 1, (0.0, 1.0), (*bounds, *others))


def _sample_cells(everyone: Direction, rate: Fraction, removed: bool) -> tuple[DiscretePld, float, UpperBound] | None:
    """A Poisson sample of two short lists, between which the event on everyone lies (`pld.cells`): one that is attained and
    its mass at infinity, one that dominates. None where the event has no such lists.

    The pair of the event need not treat both directions alike: a pair that dominates at every α ≥ 0 in one direction does in
    the other, H_α(Q ‖ P) = 1 − α + α·H_{1/α}(P ‖ Q), and both directions that `build_direction` builds are one such pair.
    So [ZDW22, Thm 11] holds for the list of either. What a list leaves out, of P or of Q, counts as infinite.

    What only P has and what only Q has may differ: on samples, only one of the two is there. Both have an atom on the sample
    or are infinite; more of either only adds to a curve, less only takes away, so one end of each is enough.
    """
    worst = everyone.dominating_pair
    if worst is None or (high := list_cells(worst.parts)) is None or (low := list_cells(tuple(everyone.parts))) is None:
        return None
    least, most = everyone.infinity_mass[0], worst.infinity_mass
    second = bound_second_mass(low.below, low.omitted)[0], bound_second_mass(high.above, high.omitted)[1]
    below, mass, _ = sample_poisson(low.below, (least, least), rate, removed, (second[0], second[0]))
    above, _, infinite = sample_poisson(high.above, (most, most), rate, removed, (second[1], second[1]))
    return below, mass, UpperBound(((above, 1),), log_finite(min(1.0, infinite + 2 * high.omitted)))


def _build_without_replacement_component(inner: Event, rate: Fraction, removed: bool) -> Component:
    """A sample without replacement [proof in `pld.without_replacement`]."""
    everyone = build_direction(_to_composition(inner), removed=removed)
    symmetric = not has_two_directions(inner)
    if everyone.infinity_mass[1] >= 1:
        return UNKNOWN

    def sample(parts: Parts, infinity_mass: Interval) -> Component | None:
        single = _match_single(parts)
        if single is not None and infinity_mass[1] == 0:
            return Component(((WithoutReplacementPld(single, rate), 1),))
        listed = list_atoms(parts)
        if listed is None:
            return None
        pld, low, high = sample_without_replacement(listed[0], infinity_mass, rate)
        return Component(((pld, 1),), 1, (low, high + 2 * listed[1]))

    exact, bounds = _sample_direction(everyone, sample) if symmetric else (None, [])
    if exact is not None:
        return exact
    # Where all others are alike, so that R = P', the Poisson sample's removed pair is attained.
    attained = _sample_attained(everyone, rate, removed=True) if symmetric else IDENTICAL
    return Component(((attained, 1),), 1, (0.0, 1.0), (*bounds, *_bound_by_amplification(inner, everyone, rate, None)))


Sample: TypeAlias = Callable[[Parts, Interval], Component | None]
"""From parts and their mass at infinity to those of a sample, if they can be had."""


def _sample_direction(everyone: Direction, sample: Sample) -> tuple[Component | None, list[UpperBound]]:
    """The sample of what is both attained and worst, or else of each composition that dominates."""
    if everyone.dominated_by is None:
        return sample(everyone.parts, everyone.infinity_mass), []
    tried = (sample(bound.parts, (0.0, bound.infinity_mass)) for bound in everyone.dominated_by if not bound.cgf_only)
    return None, [found.upper_bounds[0] for found in tried if found is not None]


def _build_sampled_distinguishable(rate: Fraction, removed: bool) -> Component:
    """A sample of neighbours that can be distinguished for certain, so that only the chance of not being sampled protects:
    (1 − q)·Q against Q, with q at infinity; or Q against (1 − q)·Q and something else."""
    away = log1p(-float(rate))
    if removed:
        mass = float(rate) * (1 - EPS), min(1.0, float(rate) * (1 + EPS))
        return Component(((DiscretePld.of([away], [away]), 1),), 1, mass)
    return Component(((DiscretePld.of([-away], [0.0]), 1),))


def _bound_by_amplification(
    inner: Event, everyone: Direction, rate: Fraction, better: UpperBound | None
) -> tuple[UpperBound, ...]:
    """What is known of any sample: one composition that dominates, and the least K of all bounds that are proven."""
    point = basic_composition(inner)
    if point.epsilon == inf or point.delta >= 1:
        return everyone.upper_bounds
    ratio = to_rational(amplify(point.epsilon, rate))  # [BBG18, Thms 8 and 9]
    (claim,) = build_claim_component(ratio, rate * to_rational(point.delta)).upper_bounds
    if claim.log_finite_mass < 0 or everyone.cgf_bound.log_finite_mass < 0:
        return (claim,)
    known = [bound for bound in (claim, everyone.cgf_bound, better) if bound is not None]
    least = CgfEnvelope(tuple(bound.parts for bound in known), worst=False)
    return better or claim, UpperBound(((least, 1),), cgf_only=True)


def _sample_attained(everyone: Direction, rate: Fraction, removed: bool) -> Pld:
    """The sample of neighbours that are attained: of all parts if they can be listed, else of the first one that can be (to
    ignore the others is post-processing). What is at infinity is left out, and so is what a list leaves out: that too only
    bounds from below, as no outcome counts less than 0."""
    for parts in (everyone.parts, *(((pld, 1),) for pld, _ in everyone.parts)):
        single = _match_single(parts)
        if single is not None:
            return _sample_pld(single, rate, removed)
        listed = list_atoms(parts)
        if listed is not None and everyone.log_finite_mass[1] == 0:
            return sample_poisson(listed[0], (0.0, 0.0), rate, removed)[0]
    return IDENTICAL


def _sample_pld(pld: GaussianPld | LaplacePld, rate: Fraction, removed: bool) -> Pld:
    if isinstance(pld, GaussianPld):
        return SampledGaussianPld(pld.squared, rate, removed)
    return SampledLaplacePld(pld.epsilon, rate, removed)


def _match_single(parts: Parts) -> GaussianPld | LaplacePld | None:
    match parts:
        case ((GaussianPld() | LaplacePld() as pld, 1),):
            return pld
    return None


def list_atoms(parts: Parts) -> tuple[DiscretePld, float] | None:
    """All parts together as a list, and the mass that it leaves out; None where it would be too long."""
    listed = [(found, times) for pld, times in parts if (found := pld.atoms()) is not None]
    total = convolve([(pld, times) for (pld, _), times in listed]) if len(listed) == len(parts) else None
    return None if total is None else (total, 1.01 * fsum(times * omitted for (_, omitted), times in listed))


def _to_composition(event: Event) -> Composition:
    return event if isinstance(event, Composition) else Composition(((event, 1),))


def _build_parallel(options: list[Direction]) -> Component:
    """One of these ran, it is not known which: the worst K of all is a bound, all of them together dominate."""
    chosen = max(options, key=_estimate_weight)
    cgf_bounds = [option.cgf_bound for option in options]
    worst = CgfEnvelope(tuple(bound.parts for bound in cgf_bounds), worst=True)
    bounds = [UpperBound(((worst, 1),), min(bound.log_finite_mass for bound in cgf_bounds), cgf_only=True)]
    pairs = [pair for option in options if (pair := option.dominating_pair) is not None]
    if len(pairs) == len(options):
        bounds.append(reduce(UpperBound.plus, pairs))
    return Component(chosen.parts or ((IDENTICAL, 1),), 1, (chosen.infinity_mass[0], 1.0), tuple(bounds))


def _estimate_weight(option: Direction) -> tuple[float, float]:
    """Roughly how bad one of several is: any choice is sound."""
    return option.infinity_mass[0], float(CgfTable.of(option.parts, np.array([0.5])).k[0]) if option.parts else 0.0
