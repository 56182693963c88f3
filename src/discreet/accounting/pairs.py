"""From a plain composition to its two dominating pairs, one for each direction, as privacy-loss laws.

The removed direction compares the data with the unit (P) to the data without it (Q), the added direction the reverse. A fact
that treats both alike has one law for both; samples do not. Under "replace" the sensitivity already holds both moves.

- *Noise on integers that is log-concave* (discrete Laplace, discrete Gaussian, binomial). For one coordinate the best
  test is a (randomised) threshold, so the trade-off curves of whole shifts satisfy f_{s+t} = f_s∘(1 − f_t). A vector
  of changes is reached one coordinate at a time, and a path's curve is at least that composition [DRS22, Thm 2.14],
  so one coordinate shifted by the l1 norm dominates; and as f_t falls with t, l0 coordinates each shifted by linf
  dominate too. The same holds for continuous Laplace noise.
- *Truncation* is post-processing; and for values within the range it loses nothing, for the clamped outputs all have
  the same ratio.
- *Discrete Gaussian with an l2 bound only*: see `_discrete_gaussian`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, expm1, floor, fsum, inf, log1p
from typing import assert_never

from discreet.accounting.elementary import log_bounds
from discreet.accounting.laws import EPS, Law
from discreet.accounting.laws.atoms import AtomsLaw
from discreet.accounting.laws.binomial import binomial_law
from discreet.accounting.laws.concentrated import ConcentratedLaw, Neighbour
from discreet.accounting.laws.gaussian import DiscreteGaussianLaw, GaussianLaw
from discreet.accounting.laws.laplace import DiscreteLaplaceLaw, LaplaceLaw
from discreet.accounting.laws.response import pure_law, response_law
from discreet.accounting.laws.sampled import SampledGaussianLaw
from discreet.accounting.laws.sampled_laplace import SampledLaplaceLaw
from discreet.accounting.pure import amplified, pure
from discreet.accounting.resolve import threshold_claim
from discreet.exact import nearest_float, rational
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
    Subsampled,
    ThresholdLoss,
    TruncatedGeometricLoss,
)
from discreet.units import Sensitivity

Part = tuple[Law, int]


@dataclass(frozen=True, slots=True)
class Side:
    """One direction: P's finite losses as independent parts, and ln of the mass that stays finite, between two doubles.

    Where a part is only known by a bound on K, `above` is the same composition with that bound; then `parts` holds an actual
    neighbour, so that it bounds the curve from below and `above` from above. Otherwise `above` is None and `parts` is both.
    """

    parts: tuple[Part, ...]
    kept: tuple[float, float]
    above: tuple[Part, ...] | None = None

    @property
    def infinite(self) -> tuple[float, float]:
        """The mass at +∞, 1 − Π(1 − p)^times."""
        low, high = -expm1(self.kept[1]), -expm1(self.kept[0])
        return max(0.0, low * (1 - 4 * EPS)), min(1.0, high * (1 + 4 * EPS))


def sides(choice: Composition) -> tuple[Side, ...]:
    """The removed and the added direction of a plain composition; only one where they are the same.

    >>> from discreet.loss import compose
    >>> len(sides(compose(Claim(Fraction(1), Fraction(0)))))
    1
    """
    removed = side(choice, removed=True)
    if any(isinstance(part, Subsampled) for part, _ in choice.parts):
        return removed, side(choice, removed=False)
    return (removed,)


def side(choice: Composition, *, removed: bool) -> Side:
    """One direction, with all Gaussians as one."""
    found: list[tuple[Law, int]] = []
    bound: list[tuple[Law, int]] = []
    kept_low, kept_high, squares = [0.0], [0.0], Fraction(0)
    for part, times in choice.parts:
        if times > _MOST_TIMES:  # past what a double can count: nothing is known
            kept_low.append(-inf)
            continue
        if isinstance(part, GaussianLoss):
            squares += times * _rounded(part.sensitivity.l2_squared / part.sigma**2)
            continue
        for piece in pieces(part, removed):
            if piece.law is not None:
                found.append((piece.law, times * piece.times))
            if piece.above is not None:
                bound.append((piece.above, times * piece.times))
            kept_low.append(times * piece.times * _log_kept(piece.infinite[1]) * (1 + 4 * EPS))
            kept_high.append(times * piece.times * _log_kept(piece.infinite[0]) * (1 - 4 * EPS))
    if squares:
        found.append((GaussianLaw(squares), 1))
    kept = fsum(kept_low), fsum(kept_high)
    if not bound:
        return Side(tuple(found), kept)
    exact = [(law, times) for law, times in found if not isinstance(law, Neighbour)]
    plain = tuple((law.law if isinstance(law, Neighbour) else law, times) for law, times in found)
    return Side(plain, kept, (*exact, *bound))


def _rounded(exact: Fraction) -> Fraction:
    """To about 128 bits, up: sums of thousands of unlike fractions would otherwise grow without end."""
    shift = max(0, 128 - exact.numerator.bit_length() + exact.denominator.bit_length())
    return Fraction(-((-exact.numerator << shift) // exact.denominator), 1 << shift)


def _log_kept(p: float) -> float:
    return log1p(-p) if p < 1 else -inf


@dataclass(frozen=True, slots=True)
class Piece:
    """What one fact contributes: a law (or none: everything is at infinity, or nothing happens) and its mass at infinity."""

    law: Law | None
    times: int = 1
    infinite: tuple[float, float] = (0.0, 0.0)
    above: Law | None = None


_MOST_TIMES = 10**18
HOPELESS = Piece(None, 1, (1.0, 1.0))


def pieces(loss: Loss, removed: bool) -> Iterator[Piece]:
    """The laws of one plain fact."""
    match loss:
        case LaplaceLoss(scale=scale, sensitivity=moved):
            shape = _shape(moved, whole=False)
            yield HOPELESS if shape is None else Piece(LaplaceLaw(shape[1] / scale), shape[0])
        case DiscreteLaplaceLoss(scale=scale, sensitivity=moved) | TruncatedGeometricLoss(scale=scale, sensitivity=moved):
            shape = _shape(moved, whole=True)
            yield HOPELESS if shape is None else Piece(DiscreteLaplaceLaw(scale, int(shape[1])), shape[0])
        case DiscreteGaussianLoss(sigma=sigma, sensitivity=moved):
            yield _discrete_gaussian(sigma, moved)
        case BinomialLoss(n=n, sensitivity=moved):
            shape = _shape(moved, whole=True)
            if shape is None or shape[1] > n:
                yield HOPELESS
            else:
                law, low, high = binomial_law(n, int(shape[1]))
                yield Piece(law, shape[0], (low, high))
        case GaussianLoss(sigma=sigma, sensitivity=moved):
            yield Piece(GaussianLaw(_rounded(moved.l2_squared / sigma**2)))
        case ResponseLoss(truth=truth, choices=choices):
            yield Piece(response_law(truth, choices))
        case ExponentialLoss(epsilon=epsilon) | PermuteAndFlipLoss(epsilon=epsilon):
            yield Piece(pure_law(epsilon))  # ε-private: randomised response of ε dominates [KOV15, Thm 3.3 and its proof]
        case ThresholdLoss(groups=groups):
            claim = threshold_claim(loss)
            yield _claim(claim.epsilon, claim.delta, groups)
        case KeepLoss(epsilon=epsilon, delta=delta, groups=groups):
            yield _claim(epsilon, delta, groups)
        case Claim(epsilon=epsilon, delta=delta):
            yield _claim(epsilon, delta, 1)
        case Subsampled(loss=inner, rate=rate):
            yield from _sampled(inner, rate, removed)
        case Composition() | Parallel() | Group():
            raise AssertionError("alternatives() leaves none of these at the top")
        case _:
            assert_never(loss)


def _shape(moved: Sensitivity, *, whole: bool) -> tuple[int, Fraction] | None:
    """(coordinates, shift of each) of a dominating change; None where no norm that would bound it is known."""
    up = (lambda x: Fraction(ceil(x))) if whole else (lambda x: x)
    single = None if moved.l1 is None else (1, up(moved.l1))
    if moved.l0 is None:
        return single
    many = (moved.l0 if not whole or moved.l1 is None else min(moved.l0, ceil(moved.l1)), up(moved.linf))
    return many if single is None or many[0] * many[1] ** 2 <= single[1] ** 2 else single


def _discrete_gaussian(sigma: Fraction, moved: Sensitivity) -> Piece:
    """By shape where that is good; by zCDP where only l2 says enough [CKS20, Thm 4 and Cor. 16].

    No single neighbour is worst then, so the curve is bounded from above by K ≤ ρ·c(c + 1) and from below by an
    actual neighbour, one coordinate moved by the whole part of l2.
    """
    shape = _shape(moved, whole=True)
    if shape is not None and shape[0] * shape[1] ** 2 <= Fraction(5, 4) * moved.l2_squared:
        return Piece(DiscreteGaussianLaw(sigma, int(shape[1])), shape[0])
    least = floor(moved.l2)
    while least**2 > moved.l2_squared:  # l2 is rounded up
        least -= 1
    lower = Neighbour(DiscreteGaussianLaw(sigma, least) if least else AtomsLaw.of([0.0], [0.0]))
    return Piece(lower, 1, (0.0, 0.0), ConcentratedLaw(_rounded(moved.l2_squared / (2 * sigma**2))))


def _claim(epsilon: Fraction, delta: Fraction, times: int) -> Piece:
    """The pair that dominates every (ε, δ)-private mechanism: δ at infinity, else randomised response of ε [KOV15,
    Thm 3.3]."""
    if delta >= 1:
        return HOPELESS
    response = pure_law(epsilon)
    p, shift = nearest_float(delta), nearest_float(sum(log_bounds(1 - delta), Fraction(0)) / 2)
    law = AtomsLaw.of(response.loss, response.log_mass + shift, response.loss_error, response.mass_error + 4 * EPS)
    return Piece(law, times, (p * (1 - EPS), min(1.0, p * (1 + EPS))))


def _sampled(inner: Loss, rate: Fraction, removed: bool) -> Iterator[Piece]:
    from discreet.accounting.laws.convolve import sampled, together

    choice = inner if isinstance(inner, Composition) else Composition(((inner, 1),))
    below = side(choice, removed=True)
    whole = below.kept == (0.0, 0.0) and below.above is None  # nothing at infinity, and no mere bounds
    match below.parts:
        case ((GaussianLaw(squared=squared), 1),) if whole:
            yield Piece(SampledGaussianLaw(squared, rate, removed))
            return
        case ((LaplaceLaw(epsilon=ratio), 1),) if whole:
            yield Piece(SampledLaplaceLaw(ratio, rate, removed))
            return
    cut = [(found, times) for law, times in below.parts if (found := cut_atoms(law)) is not None]
    listed = together([(law, times) for (law, _), times in cut]) if len(cut) == len(below.parts) else None
    if listed is not None and below.above is None and not any(isinstance(p, Subsampled) for p, _ in choice.parts):
        law, low, high = sampled(listed, below.infinite, rate, removed)
        # What the lists leave out of P or of Q is at most this in the mixture too: all of it counts as infinite.
        yield Piece(law, 1, (low, high + 1.01 * fsum(times * lost for (_, lost), times in cut)))
        return
    epsilon = pure(inner)
    if epsilon != inf:
        yield Piece(pure_law(rational(amplified(epsilon, rate))))  # [BBG18, Thm 8]
        return
    for part, times in choice.parts:  # sampling never hurts: the release on everyone dominates
        for piece in pieces(part, removed):
            yield Piece(piece.law, piece.times * times, piece.infinite, piece.above)


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
