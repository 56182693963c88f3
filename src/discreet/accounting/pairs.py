"""From a plain fact to its dominating pair, as a privacy-loss law. Plain facts treat both directions alike.

Under "replace" the sensitivity already holds both moves.

- *Noise on integers that is log-concave* (discrete Laplace, discrete Gaussian, binomial). For one coordinate the best
  test is a (randomised) threshold, so the trade-off curves of whole shifts satisfy f_{s+t} = f_s∘(1 − f_t). A vector
  of changes is reached one coordinate at a time, and a path's curve is at least that composition [DRS22, Thm 2.14],
  so one coordinate shifted by the l1 norm dominates; and as f_t falls with t, l0 coordinates each shifted by linf
  dominate too. The same holds for continuous Laplace noise.
- *Truncation* is post-processing; and for values within the range it loses nothing, for the clamped outputs all have
  the same ratio.
- *Discrete Gaussian with an l2 bound only*: see `_discrete_gaussian`.
"""

from fractions import Fraction
from math import floor, isqrt
from typing import assert_never

import msgspec

from discreet.accounting.either import EitherLaw
from discreet.accounting.elementary import log_bounds
from discreet.accounting.laws import EPS
from discreet.accounting.laws.atoms import AtomsLaw
from discreet.accounting.laws.binomial import binomial_law
from discreet.accounting.laws.bounded_range import BoundedRangeLaw
from discreet.accounting.laws.concentrated import ConcentratedLaw, Neighbour
from discreet.accounting.laws.gaussian import DiscreteGaussianLaw, GaussianLaw
from discreet.accounting.laws.laplace import DiscreteLaplaceLaw, LaplaceLaw
from discreet.accounting.laws.response import pure_law, response_law
from discreet.accounting.pieces import HOPELESS, UNKNOWN, Piece
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

NOBODY = Neighbour(AtomsLaw.of([0.0], [0.0]))
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
        parts = () if one.law is None else ((one.law, one.times),)
        return Piece(NOBODY, 1, (0.0, one.infinite[1]), parts, parts)
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
        case LaplaceLoss(scale=scale, sensitivity=moved):
            shape = _shape(moved, whole=False)
            return HOPELESS if shape is None else Piece(LaplaceLaw(shape[1] / scale), shape[0])
        case DiscreteLaplaceLoss(scale=scale, sensitivity=moved) | TruncatedGeometricLoss(scale=scale, sensitivity=moved):
            shape = _shape(moved, whole=True)
            return HOPELESS if shape is None else Piece(DiscreteLaplaceLaw(scale, int(shape[1])), shape[0])
        case DiscreteGaussianLoss(sigma=sigma, sensitivity=moved):
            return _discrete_gaussian(sigma, moved)
        case BinomialLoss(n=n, sensitivity=moved):
            shape = _shape(moved, whole=True)
            if shape is None or shape[1] > n:
                return HOPELESS
            law, low, high = binomial_law(n, int(shape[1]))
            return Piece(law, shape[0], (low, high))
        case GaussianLoss(sigma=sigma, sensitivity=moved):
            return Piece(GaussianLaw(rounded(moved.l2_squared / sigma**2)))
        case ResponseLoss(truth=truth, choices=choices) if truth in (0, 1):
            return _certain_response(truth, choices)
        case ResponseLoss(truth=truth, choices=choices):
            return Piece(response_law(truth, choices))
        case PermuteAndFlipLoss(epsilon=epsilon):
            return Piece(pure_law(epsilon))  # ε-private: randomised response of ε dominates [KOV15, Thm 3.3 and its proof]
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


def _shape(moved: Sensitivity, *, whole: bool) -> tuple[int, Fraction] | None:
    """(coordinates, shift of each) of a dominating change; None where no norm that would bound it is known."""
    down = (lambda x: Fraction(floor(x))) if whole else (lambda x: x)  # whole answers move by whole numbers
    single = None if moved.l1 is None else (1, down(moved.l1))
    if moved.l0 is None:
        return single
    many = (moved.l0 if not whole or moved.l1 is None else min(moved.l0, floor(moved.l1)), down(moved.linf))
    return many if single is None or many[0] * many[1] ** 2 <= single[1] ** 2 else single


def _discrete_gaussian(sigma: Fraction, moved: Sensitivity) -> Piece:
    """By shape where that is good; by zCDP where only l2 says enough [CKS20, Thm 4 and Cor. 16].

    No single neighbour is worst then, so the curve is bounded from above by K ≤ ρ·c(c + 1) and from below by an
    actual neighbour: as many coordinates as all norms allow, each moved by the same whole number.
    """
    shape = _shape(moved, whole=True)
    if shape is not None and shape[0] * shape[1] ** 2 <= Fraction(5, 4) * moved.l2_squared:
        return Piece(DiscreteGaussianLaw(sigma, int(shape[1])), shape[0])
    least = min(isqrt(floor(moved.l2_squared)), floor(moved.linf))
    above = ((ConcentratedLaw(rounded(moved.l2_squared / (2 * sigma**2))), 1),)
    if least == 0:
        return Piece(NOBODY, 1, (0.0, 0.0), above)
    most = [floor(moved.l2_squared / least**2), moved.l0 or 1]
    most += [] if moved.l1 is None else [floor(moved.l1 / least)]
    return Piece(Neighbour(DiscreteGaussianLaw(sigma, least)), min(most), (0.0, 0.0), above)


def _exponential(epsilon: Fraction) -> Piece:
    """Every range of ε is dominated by `BoundedRangeLaw`, and is (ε²/8)-zCDP [CR21, Lemma 3.4]: neither is always better.

    Two candidates whose difference of scores moves from −ε/2 to ε/2 are a neighbour: randomised response of ε/2.
    """
    worst = BoundedRangeLaw(epsilon)
    above = EitherLaw((((worst, 1),), ((ConcentratedLaw(epsilon**2 / 8), 1),)), worst=False)
    return Piece(Neighbour(pure_law(epsilon / 2)), 1, (0.0, 0.0), ((above, 1),), ((worst, 1),))


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
    return Piece(law, times, (p * (1 - EPS), min(1.0, p * (1 + EPS))))


def rounded(exact: Fraction) -> Fraction:
    """To about 128 bits, up: sums of thousands of unlike fractions would otherwise grow without end."""
    shift = max(0, 128 - exact.numerator.bit_length() + exact.denominator.bit_length())
    return Fraction(-((-exact.numerator << shift) // exact.denominator), 1 << shift)
