"""From a plain composition to its two directions, each with all its dominating pairs composed.

The removed direction compares the data with the unit (P) to the data without it (Q), the added direction the reverse. A fact
that treats both alike has one law for both; Poisson samples do not.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from math import fsum, inf, log1p
from typing import TypeAlias

import numpy as np

from discreet._numbers import to_rational
from discreet.accounting.basic import basic_composition
from discreet.accounting.dominating_pairs import (
    IDENTICAL,
    UNKNOWN,
    Component,
    Direction,
    Part,
    UpperBound,
    build_claim_component,
    build_component,
    build_gaussian_component,
    combine_bounds,
    is_in_range,
    log_finite,
    round_up_128_bits,
)
from discreet.accounting.pld import EPS, Pld
from discreet.accounting.pld.bounded_range import BoundedRangePld
from discreet.accounting.pld.cgf import CgfEnvelope, CgfTable
from discreet.accounting.pld.discrete import DiscretePld, convolve, sample_poisson
from discreet.accounting.pld.gaussian import DiscreteGaussianPld, GaussianPld
from discreet.accounting.pld.laplace import DiscreteLaplacePld, LaplacePld
from discreet.accounting.pld.sampled import SampledGaussianPld, SampledLaplacePld
from discreet.accounting.pld.without_replacement import WithoutReplacementPld, sample_without_replacement
from discreet.accounting.pure import amplify
from discreet.accounting.rewrite import max_squared_length
from discreet.events import (
    Composition,
    Event,
    ExponentialEvent,
    GaussianEvent,
    Parallel,
    SampledWithoutReplacement,
    Subsampled,
)

# Dominating pairs of samples, from those of the release on everyone.
#
# Where the release is one Gaussian or Laplace law or a list, the sample's pair is known exactly. Where it is not, several
# bounds are: of the sample of what dominates the release, of the (ε, δ) that a sample amplifies, of the release on everyone
# (sampling never hurts). Then an actual neighbour bounds from below: one that is sampled itself.


def build_poisson_component(inner: Event, unsampled: Direction, rate: Fraction, removed: bool, symmetric: bool) -> Component:
    """A Poisson sample; `mirrored` if the release on everyone treats both directions alike."""
    if unsampled.infinity_mass[1] >= 1:
        worst = _build_distinguishable(rate, removed)
        return (
            worst
            if unsampled.log_finite_mass[1] == -inf
            else Component(((IDENTICAL, 1),), 1, (0.0, 1.0), worst.upper_bounds)
        )
    better: UpperBound | None = None
    match unsampled.dominating_pair:
        case UpperBound(parts=((BoundedRangePld(epsilon=ratio), 1),), log_finite_mass=0.0) if symmetric:
            better = UpperBound(((SampledLaplacePld(ratio, rate, removed, ends=False), 1),))

    def sample(parts: tuple[Part, ...], infinite: tuple[float, float]) -> Component | None:
        single = _match_single(parts)
        if single is not None and infinite[1] == 0:
            return Component(((_sample_pld(single, rate, removed), 1),))
        listed = list_atoms(parts)
        if listed is None:
            return None
        law, low, high = sample_poisson(listed[0], infinite, rate, removed)
        # What the list leaves out of P or of Q is at most this in the mixture too: all of it counts as infinite.
        return Component(((law, 1),), 1, (low, high + listed[1]))

    exact, ceilings = _sample_direction(unsampled, sample) if symmetric else (None, [])
    if exact is not None:
        return exact
    reached = _sample_attained(unsampled, rate, removed) if symmetric else IDENTICAL
    return Component(((reached, 1),), 1, (0.0, 1.0), (*ceilings, *_bound_by_amplification(inner, unsampled, rate, better)))


def build_without_replacement_component(inner: Event, unsampled: Direction, rate: Fraction, symmetric: bool) -> Component:
    """A sample without replacement [proof in `laws.replaced`]."""
    if unsampled.infinity_mass[1] >= 1:
        return UNKNOWN

    def sample(parts: tuple[Part, ...], infinite: tuple[float, float]) -> Component | None:
        single = _match_single(parts)
        if single is not None and infinite[1] == 0:
            return Component(((WithoutReplacementPld(single, rate), 1),))
        listed = list_atoms(parts)
        if listed is None:
            return None
        law, low, high = sample_without_replacement(listed[0], infinite, rate)
        return Component(((law, 1),), 1, (low, high + 2 * listed[1]))

    exact, ceilings = _sample_direction(unsampled, sample) if symmetric else (None, [])
    if exact is not None:
        return exact
    # Where all others are alike, so that R = P', the Poisson sample's removed pair is reached.
    reached = _sample_attained(unsampled, rate, removed=True) if symmetric else IDENTICAL
    return Component(((reached, 1),), 1, (0.0, 1.0), (*ceilings, *_bound_by_amplification(inner, unsampled, rate, None)))


Sample: TypeAlias = Callable[[tuple[Part, ...], tuple[float, float]], Component | None]
"""From parts and their mass at infinity, between two doubles, to those of a sample, if they can be had."""


def _sample_direction(unsampled: Direction, sample: Sample) -> tuple[Component | None, list[UpperBound]]:
    """The sample of what is both reached and worst, or else of each composition that dominates."""
    if unsampled.dominated_by is None:
        return sample(unsampled.parts, unsampled.infinity_mass), []
    tried = (sample(one.parts, (0.0, one.infinity_mass)) for one in unsampled.dominated_by if not one.cgf_only)
    return None, [found.upper_bounds[0] for found in tried if found is not None]


def _build_distinguishable(rate: Fraction, removed: bool) -> Component:
    """Everyone's release is told apart for certain, so only the luck of not being sampled hides anything: (1 − q)·Q against
    Q, with q at infinity; or Q against (1 − q)·Q and something else."""
    away = log1p(-float(rate))
    if removed:
        mass = float(rate) * (1 - EPS), min(1.0, float(rate) * (1 + EPS))
        return Component(((DiscretePld.of([away], [away]), 1),), 1, mass)
    return Component(((DiscretePld.of([-away], [0.0]), 1),))


def _bound_by_amplification(
    inner: Event, unsampled: Direction, rate: Fraction, better: UpperBound | None
) -> tuple[UpperBound, ...]:
    """What is known of any release: one composition that dominates, and the least K of all bounds that are proven."""
    point = basic_composition(inner)
    if point.epsilon == inf or point.delta >= 1:
        return unsampled.upper_bounds
    ratio = to_rational(amplify(point.epsilon, rate))  # [BBG18, Thms 8 and 9]
    (claim,) = build_claim_component(ratio, rate * to_rational(point.delta)).upper_bounds
    if claim.log_finite_mass < 0 or unsampled.cgf_bound.log_finite_mass < 0:
        return (claim,)
    known = [bound for bound in (claim, unsampled.cgf_bound, better) if bound is not None]
    least = CgfEnvelope(tuple(bound.parts for bound in known), worst=False)
    return better or claim, UpperBound(((least, 1),), cgf_only=True)


def _sample_attained(unsampled: Direction, rate: Fraction, removed: bool) -> Pld:
    """The sample of neighbours that are reached: of all parts if they can be listed, else of the first one that can be
    (to ignore the others is post-processing). What is at infinity is left out: that too only bounds from below."""
    for parts in (unsampled.parts, *(((law, 1),) for law, _ in unsampled.parts)):
        single = _match_single(parts)
        if single is not None:
            return _sample_pld(single, rate, removed)
        listed = list_atoms(parts)
        if listed is not None and listed[1] == 0 and unsampled.log_finite_mass[1] == 0:
            return sample_poisson(listed[0], (0.0, 0.0), rate, removed)[0]
    return IDENTICAL


def _sample_pld(pld: GaussianPld | LaplacePld, rate: Fraction, removed: bool) -> Pld:
    if isinstance(pld, GaussianPld):
        return SampledGaussianPld(pld.squared, rate, removed)
    return SampledLaplacePld(pld.epsilon, rate, removed)


def _match_single(parts: tuple[Part, ...]) -> GaussianPld | LaplacePld | None:
    match parts:
        case ((GaussianPld() | LaplacePld() as law, 1),):
            return law
    return None


def list_atoms(parts: tuple[Part, ...]) -> tuple[DiscretePld, float] | None:
    """All parts together as a list, and what it leaves out; None where it would be too long."""
    cut = [(found, times) for law, times in parts if (found := to_atoms(law)) is not None]
    listed = convolve([(law, times) for (law, _), times in cut]) if len(cut) == len(parts) else None
    return None if listed is None else (listed, 1.01 * fsum(times * lost for (_, lost), times in cut))


def to_atoms(pld: Pld) -> tuple[DiscretePld, float] | None:
    """The law as a list of atoms, and what the list leaves out."""
    if isinstance(pld, DiscreteGaussianPld):
        return pld.atoms()
    finite = to_finite_atoms(pld)
    return None if finite is None else (finite, 0.0)


def to_finite_atoms(pld: Pld) -> DiscretePld | None:
    """The law as a list of atoms, where it is one and the list is short."""
    if isinstance(pld, DiscretePld):
        return pld
    if isinstance(pld, DiscreteLaplacePld):
        return pld.atoms()
    return None


_MAX_TIMES = 10**18


def list_directions(choice: Composition) -> tuple[Direction, ...]:
    """The removed and the added direction of a plain composition; only one where they are the same.

    >>> from discreet.events import Claim, compose
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
