"""Dominating pairs of samples, from those of the release on everyone.

Where the release is one Gaussian or Laplace law or a list, the sample's pair is known exactly. Where it is not, several
bounds are: of the sample of what dominates the release, of the (ε, δ) that a sample amplifies, of the release on everyone
(sampling never hurts). Then an actual neighbour bounds from below: one that is sampled itself.
"""

from collections.abc import Callable
from fractions import Fraction
from math import fsum, inf, log1p
from typing import TypeAlias

from discreet.accounting.approx import approx
from discreet.accounting.either import EitherLaw
from discreet.accounting.laws import EPS, Law
from discreet.accounting.laws.atoms import AtomsLaw
from discreet.accounting.laws.bounded_range import BoundedRangeLaw
from discreet.accounting.laws.convolve import sampled, together
from discreet.accounting.laws.gaussian import DiscreteGaussianLaw, GaussianLaw
from discreet.accounting.laws.laplace import DiscreteLaplaceLaw, LaplaceLaw
from discreet.accounting.laws.replaced import ReplacedLaw, replaced
from discreet.accounting.laws.sampled import SampledGaussianLaw
from discreet.accounting.laws.sampled_laplace import SampledLaplaceLaw
from discreet.accounting.pairs import NOBODY, claim_piece
from discreet.accounting.pieces import UNKNOWN, Ceiling, Part, Piece, Side
from discreet.accounting.pure import amplified
from discreet.exact import rational
from discreet.loss import Loss


def poisson(inner: Loss, everyone: Side, rate: Fraction, removed: bool, mirrored: bool) -> Piece:
    """A Poisson sample; `mirrored` if the release on everyone treats both directions alike."""
    if everyone.infinite[1] >= 1:
        worst = _told_apart(rate, removed)
        return worst if everyone.kept[1] == -inf else Piece(((NOBODY, 1),), 1, (0.0, 1.0), worst.above)
    better: Ceiling | None = None
    match everyone.dominating:
        case Ceiling(parts=((BoundedRangeLaw(epsilon=ratio), 1),), kept=0.0) if mirrored:
            better = Ceiling(((SampledLaplaceLaw(ratio, rate, removed, ends=False), 1),))

    def sample(parts: tuple[Part, ...], infinite: tuple[float, float]) -> Piece | None:
        single = _single(parts)
        if single is not None and infinite[1] == 0:
            return Piece(((_sample(single, rate, removed), 1),))
        listed = listing(parts)
        if listed is None:
            return None
        law, low, high = sampled(listed[0], infinite, rate, removed)
        # What the list leaves out of P or of Q is at most this in the mixture too: all of it counts as infinite.
        return Piece(((law, 1),), 1, (low, high + listed[1]))

    exact, ceilings = _sampled_side(everyone, sample) if mirrored else (None, [])
    if exact is not None:
        return exact
    reached = _reached(everyone, rate, removed) if mirrored else NOBODY
    return Piece(((reached, 1),), 1, (0.0, 1.0), (*ceilings, *_amplified(inner, everyone, rate, better)))


def without_replacement(inner: Loss, everyone: Side, rate: Fraction, mirrored: bool) -> Piece:
    """A sample without replacement [proof in `laws.replaced`]."""
    if everyone.infinite[1] >= 1:
        return UNKNOWN

    def sample(parts: tuple[Part, ...], infinite: tuple[float, float]) -> Piece | None:
        single = _single(parts)
        if single is not None and infinite[1] == 0:
            return Piece(((ReplacedLaw(single, rate), 1),))
        listed = listing(parts)
        if listed is None:
            return None
        law, low, high = replaced(listed[0], infinite, rate)
        return Piece(((law, 1),), 1, (low, high + 2 * listed[1]))

    exact, ceilings = _sampled_side(everyone, sample) if mirrored else (None, [])
    if exact is not None:
        return exact
    # Where all others are alike, so that R = P', the Poisson sample's removed pair is reached.
    reached = _reached(everyone, rate, removed=True) if mirrored else NOBODY
    return Piece(((reached, 1),), 1, (0.0, 1.0), (*ceilings, *_amplified(inner, everyone, rate, None)))


Sample: TypeAlias = Callable[[tuple[Part, ...], tuple[float, float]], Piece | None]
"""From parts and their mass at infinity, between two doubles, to those of a sample, if they can be had."""


def _sampled_side(everyone: Side, sample: Sample) -> tuple[Piece | None, list[Ceiling]]:
    """The sample of what is both reached and worst, or else of each composition that dominates."""
    if everyone.ceilings is None:
        return sample(everyone.parts, everyone.infinite), []
    tried = (sample(one.parts, (0.0, one.infinite)) for one in everyone.ceilings if not one.moments)
    return None, [found.above[0] for found in tried if found is not None]


def _told_apart(rate: Fraction, removed: bool) -> Piece:
    """Everyone's release is told apart for certain, so only the luck of not being sampled hides anything: (1 − q)·Q against
    Q, with q at infinity; or Q against (1 − q)·Q and something else."""
    away = log1p(-float(rate))
    if removed:
        mass = float(rate) * (1 - EPS), min(1.0, float(rate) * (1 + EPS))
        return Piece(((AtomsLaw.of([away], [away]), 1),), 1, mass)
    return Piece(((AtomsLaw.of([-away], [0.0]), 1),))


def _amplified(inner: Loss, everyone: Side, rate: Fraction, better: Ceiling | None) -> tuple[Ceiling, ...]:
    """What is known of any release: one composition that dominates, and the least K of all bounds that are proven."""
    point = approx(inner)
    if point.epsilon == inf or point.delta >= 1:
        return everyone.above
    ratio = rational(amplified(point.epsilon, rate))  # [BBG18, Thms 8 and 9]
    (claim,) = claim_piece(ratio, rate * rational(point.delta)).above
    if claim.kept < 0 or everyone.bound.kept < 0:
        return (claim,)
    known = [bound for bound in (claim, everyone.bound, better) if bound is not None]
    least = EitherLaw(tuple(bound.parts for bound in known), worst=False)
    return better or claim, Ceiling(((least, 1),), moments=True)


def _reached(everyone: Side, rate: Fraction, removed: bool) -> Law:
    """The sample of neighbours that are reached: of all parts if they can be listed, else of the first one that can be
    (to ignore the others is post-processing). What is at infinity is left out: that too only bounds from below."""
    for parts in (everyone.parts, *(((law, 1),) for law, _ in everyone.parts)):
        single = _single(parts)
        if single is not None:
            return _sample(single, rate, removed)
        listed = listing(parts)
        if listed is not None and listed[1] == 0 and everyone.kept[1] == 0:
            return sampled(listed[0], (0.0, 0.0), rate, removed)[0]
    return NOBODY


def _sample(law: GaussianLaw | LaplaceLaw, rate: Fraction, removed: bool) -> Law:
    if isinstance(law, GaussianLaw):
        return SampledGaussianLaw(law.squared, rate, removed)
    return SampledLaplaceLaw(law.epsilon, rate, removed)


def _single(parts: tuple[Part, ...]) -> GaussianLaw | LaplaceLaw | None:
    match parts:
        case ((GaussianLaw() | LaplaceLaw() as law, 1),):
            return law
    return None


def listing(parts: tuple[Part, ...]) -> tuple[AtomsLaw, float] | None:
    """All parts together as a list, and what it leaves out; None where it would be too long."""
    cut = [(found, times) for law, times in parts if (found := cut_atoms(law)) is not None]
    listed = together([(law, times) for (law, _), times in cut]) if len(cut) == len(parts) else None
    return None if listed is None else (listed, 1.01 * fsum(times * lost for (_, lost), times in cut))


def cut_atoms(law: Law) -> tuple[AtomsLaw, float] | None:
    """The law as a list of atoms, and what the list leaves out."""
    if isinstance(law, DiscreteGaussianLaw):
        return law.atoms()
    finite = finite_atoms(law)
    return None if finite is None else (finite, 0.0)


def finite_atoms(law: Law) -> AtomsLaw | None:
    """The law as a list of atoms, where it is one and the list is short."""
    if isinstance(law, AtomsLaw):
        return law
    if isinstance(law, DiscreteLaplaceLaw):
        return law.atoms()
    return None
