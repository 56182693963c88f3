"""Dominating pairs of samples, from those of the release on everyone.

Where the release is one Gaussian or Laplace law or a list, the sample's pair is known exactly. Where it is not, several
bounds are: of the sample of what dominates the release, of the (ε, δ) that a sample amplifies, of the release on everyone
(sampling never hurts). Then an actual neighbour bounds from below: one that is sampled itself.
"""

from collections.abc import Callable
from fractions import Fraction
from math import fsum, inf, log1p
from typing import TypeAlias

from discreet.accounting.approx import basic_composition
from discreet.accounting.either import CgfEnvelope
from discreet.accounting.laws import EPS, Pld
from discreet.accounting.laws.atoms import DiscretePld
from discreet.accounting.laws.bounded_range import BoundedRangePld
from discreet.accounting.laws.convolve import convolve, sample_poisson
from discreet.accounting.laws.gaussian import DiscreteGaussianPld, GaussianPld
from discreet.accounting.laws.laplace import DiscreteLaplacePld, LaplacePld
from discreet.accounting.laws.replaced import WithoutReplacementPld, sample_without_replacement
from discreet.accounting.laws.sampled import SampledGaussianPld
from discreet.accounting.laws.sampled_laplace import SampledLaplacePld
from discreet.accounting.pairs import IDENTICAL, build_claim_component
from discreet.accounting.pieces import UNKNOWN, Component, Direction, Part, UpperBound
from discreet.accounting.pure import amplify
from discreet.exact import to_rational
from discreet.loss import Event


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
