"""Exact selection of one candidate by score: the exponential mechanism and permute-and-flip.

With x_i = −rate·(best − score_i) ≤ 0 and independent uniforms U_i, each candidate has a key, and the largest key wins:
    argmax x_i − ln(−ln U_i)   is distributed as in the exponential mechanism, P(i) ∝ e^{x_i} (Gumbel's trick), and
    argmax x_i − ln U_i        as in permute-and-flip [DKS21, Prop. 4].
Doubles with an error bound settle most selections; the candidates that remain are compared in fixed point, with more bits of
their U until one key is the largest.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from math import inf

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_positive, to_rational
from discreet.errors import BadParameter
from discreet.noise import fixed
from discreet.noise.bits import SYSTEM, Bits, LazyUniform, check_bits

MAX_DEFICIT = 1e9


class SelectionRule(Enum):
    """How the winner is distributed.

    >>> SelectionRule("permute-and-flip")
    <SelectionRule.PERMUTE_AND_FLIP: 'permute-and-flip'>
    """

    EXPONENTIAL = "exponential"
    PERMUTE_AND_FLIP = "permute-and-flip"


def select(
    scores: Sequence[Number] | NDArray[np.int64],
    rate: Number,
    rule: SelectionRule = SelectionRule.EXPONENTIAL,
    bits: Bits | None = None,
) -> int:
    """Return the index of the winner: a higher score, in steps of 1/rate, is exponentially likelier.

    >>> select([0, 1000, 0], rate=1)
    1
    """
    exact = [score if type(score) is int else to_rational(score, "score") for score in scores]
    if not exact:
        raise BadParameter("scores", "empty", "no candidate to choose", "give at least one candidate")
    steepness, best, source = check_positive(rate, "rate"), max(exact), SYSTEM if bits is None else check_bits(bits)
    words = source.words(len(exact))
    low, high = _float_key_bounds([_to_float(best - score, steepness) for score in exact], words, rule)
    candidates = np.flatnonzero(high >= low.max())
    if candidates.size == 1:
        return int(candidates[0])
    deficits = {int(i): steepness * (best - exact[i]) for i in candidates}
    return settle({i: LazyUniform(source, int(words[i]), 64) for i in deficits}, deficits, rule)


def _to_float(gap: int | Fraction, rate: Fraction) -> float:
    """Return the double that is nearest to gap · rate; ∞ past the largest one. Python divides integers correctly rounded."""
    try:
        return gap.numerator * rate.numerator / (gap.denominator * rate.denominator)
    except OverflowError:
        return inf


def _float_key_bounds(
    deficits: list[float], words: NDArray[np.uint64], rule: SelectionRule
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return intervals around the keys, in doubles; each deficit is the nearest double.

    With E = −ln U, conversion and undrawn bits move E by 2^-53 + 2^-64/u, and np.log by its ulps. For Gumbel's trick the
    relative error of E is the absolute one of ln E. All bounds are doubled to cover their own rounding.
    """
    x = -np.minimum(deficits, MAX_DEFICIT)
    u = np.maximum(words.astype(np.float64), 0.5) * 2.0**-64
    e = np.maximum(-np.log(u), 2.0**-64)
    error = fixed.HALF_ULP + 2.0**-64 / u + fixed.FUNCTION_ERROR * e
    key = e
    if rule is SelectionRule.EXPONENTIAL:
        key = -np.log(e)
        error = np.where(error < e / 4, 2 * error / e, np.inf) + fixed.FUNCTION_ERROR * np.abs(key)
    error = 2 * (error + 4 * fixed.HALF_ULP * (np.abs(x) + np.abs(key)))
    error[words == 0] = np.inf
    lower = np.where(x > -MAX_DEFICIT, x + key - error, -np.inf)
    return lower, x + key + error


def settle(candidates: dict[int, LazyUniform], deficits: Mapping[int, Fraction], rule: SelectionRule) -> int:
    """Return the candidate with the largest key. Keys are equal with probability zero, so refining ends."""
    while True:
        intervals = {i: _exact_key_bounds(u, deficits[i], rule) for i, u in candidates.items()}
        best = max(low for low, _ in intervals.values())
        candidates = {i: candidates[i] for i, (_, high) in intervals.items() if high >= best}
        if len(candidates) == 1:
            return next(iter(candidates))
        for u in candidates.values():
            u.refine()


def _exact_key_bounds(u: LazyUniform, deficit: Fraction, rule: SelectionRule) -> tuple[Fraction | float, Fraction | float]:
    """Bound the key of one candidate."""
    while not u.number:
        u.refine()
    precision = u.known + 64
    low, high = u.neg_log(precision)
    if rule is SelectionRule.PERMUTE_AND_FLIP:
        return Fraction(low, 1 << precision) - deficit, Fraction(high, 1 << precision) - deficit
    return -_log_bounds(high, precision)[1] - deficit, (-_log_bounds(low, precision)[0] - deficit) if low else inf


def _log_bounds(value: int, precision: int) -> tuple[Fraction, Fraction]:
    """Bound ln(value/2^P)."""
    near, slack = fixed.log_int(value, precision) - precision * fixed.ln2(precision), precision + 1
    return Fraction(near - slack, 1 << precision), Fraction(near + slack, 1 << precision)
