"""From a plain composition to its two directions, each with all its dominating pairs composed.

The removed direction compares the data with the unit (P) to the data without it (Q), the added direction the reverse. A fact
that treats both alike has one law for both; Poisson samples do not.
"""

from fractions import Fraction
from functools import reduce
from math import fsum

import numpy as np

from discreet.accounting.changes import max_squared_length
from discreet.accounting.either import CgfEnvelope
from discreet.accounting.ladder import CgfTable
from discreet.accounting.laws import EPS
from discreet.accounting.laws.bounded_range import BoundedRangePld
from discreet.accounting.pairs import IDENTICAL, build_component, build_gaussian_component, is_in_range, round_up_128_bits
from discreet.accounting.pieces import UNKNOWN, Component, Direction, Part, UpperBound, combine_bounds, log_finite
from discreet.accounting.samples import build_poisson_component, build_without_replacement_component
from discreet.loss import (
    Composition,
    Event,
    ExponentialEvent,
    GaussianEvent,
    Parallel,
    SampledWithoutReplacement,
    Subsampled,
)

_MAX_TIMES = 10**18


def list_directions(choice: Composition) -> tuple[Direction, ...]:
    """The removed and the added direction of a plain composition; only one where they are the same.

    >>> from discreet.loss import Claim, compose
    >>> len(list_directions(compose(Claim(Fraction(1), Fraction(0)))))
    1
    """
    match choice.parts:
        case ((ExponentialEvent(epsilon=epsilon) as only, 1),) if is_in_range(only):  # the worst range is reached at every ε
            return (Direction(((BoundedRangePld(epsilon), 1),), (0.0, 0.0)),)
    removed = build_direction(choice, removed=True)
    return (removed, build_direction(choice, removed=False)) if has_two_directions(choice) else (removed,)


def has_two_directions(event: Event) -> bool:
    """Whether the two directions may differ."""
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
    parts: list[Part] = []
    ceilings, exact = [UpperBound(())], True
    dominating, reached = Fraction(0), Fraction(0)  # Σ(l2/σ)² of all Gaussians
    kept_low, kept_high = [0.0], [0.0]
    for part, times in choice.parts:
        known = times <= _MAX_TIMES and (is_in_range(part) or not isinstance(part, GaussianEvent))
        if isinstance(part, GaussianEvent) and known:
            dominating += times * round_up_128_bits(part.sensitivity.l2_squared / part.sigma**2)
            reached += times * round_up_128_bits(max_squared_length(part.sensitivity) / part.sigma**2)
            continue
        one = _build_part(part, removed) if known else UNKNOWN
        runs = times * one.times
        if runs > _MAX_TIMES:  # past what a double can count
            one, runs = UNKNOWN, 1
        parts.extend((law, runs * count) for law, count in one.parts)
        kept_low.append(runs * log_finite(one.infinity_mass[1]) * (1 + 4 * EPS))
        kept_high.append(runs * log_finite(one.infinity_mass[0]) * (1 - 4 * EPS))
        ceilings = combine_bounds(ceilings, [ceiling.repeat(runs) for ceiling in one.upper_bounds])
        exact = exact and one.dominated_by is None
    gaussian = build_gaussian_component(dominating, reached)
    ceilings = combine_bounds(ceilings, gaussian.upper_bounds)
    kept = fsum(kept_low), fsum(kept_high)
    if exact and gaussian.dominated_by is None:
        return Direction((*parts, *gaussian.parts), kept)
    return Direction((*parts, *gaussian.parts), kept, tuple(ceilings))


def _build_part(event: Event, removed: bool) -> Component:
    match event:
        case Subsampled(event=inner, rate=rate):
            everyone = build_direction(_to_composition(inner), removed=removed)
            return build_poisson_component(inner, everyone, rate, removed, not has_two_directions(inner))
        case SampledWithoutReplacement(event=inner, rate=rate):
            everyone = build_direction(_to_composition(inner), removed=removed)
            return build_without_replacement_component(inner, everyone, rate, not has_two_directions(inner))
        case Parallel(branches=branches):
            return _build_parallel([build_direction(_to_composition(branch), removed=removed) for branch in branches])
        case _:
            return build_component(event)


def _to_composition(event: Event) -> Composition:
    return event if isinstance(event, Composition) else Composition(((event, 1),))


def _build_parallel(options: list[Direction]) -> Component:
    """One of these ran, nobody knows which: the worst K of all is a bound, all of them together dominate."""
    chosen = max(options, key=_estimate_weight)
    bounds = [option.cgf_bound for option in options]
    worst = CgfEnvelope(tuple(bound.parts for bound in bounds), worst=True)
    ceilings = [UpperBound(((worst, 1),), min(bound.log_finite_mass for bound in bounds), cgf_only=True)]
    every = [option.dominating_pair for option in options]
    if None not in every:
        ceilings.append(reduce(UpperBound.plus, [one for one in every if one is not None]))
    return Component(chosen.parts or ((IDENTICAL, 1),), 1, (chosen.infinity_mass[0], 1.0), tuple(ceilings))


def _estimate_weight(option: Direction) -> tuple[float, float]:
    """Roughly how bad one of several is: any choice is sound."""
    return option.infinity_mass[0], float(CgfTable.of(option.parts, np.array([0.5])).k[0]) if option.parts else 0.0
