"""How far off the largest of several independent errors may be, exactly for the lattice law that is drawn."""

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from math import ceil, expm1, inf, log, log1p, log2, nextafter

from discreet._numbers import Number, ceil_float, check_int, check_probability, format_rational, is_power_of_two, to_rational
from discreet.errors import BadParameter
from discreet.noise.table import WeightFunction, Weights

SAFETY_FACTOR = 1 + 1e-9
"""Tails are computed in doubles; they are raised by this factor, and the allowance lowered by it."""


MIN_CONFIDENCE, MAX_CONFIDENCE = Fraction(1, 10**6), 1 - Fraction(1, 10**12)
"""The confidences that a question may ask for: shared out over 10^9 intervals, what may be missed is still an ordinary
double, and nothing that is computed from it can fail after the question was paid for."""


def read_confidence(confidence: Number) -> Fraction:
    """The rational that a confidence stands for. A double stands for the shortest decimal that is read as it.

    >>> read_confidence(0.95)
    Fraction(19, 20)
    """
    exact = to_rational(confidence, "confidence")  # refuses what is no finite number
    return Fraction(repr(float(confidence))) if isinstance(confidence, float) else exact


def check_confidence(confidence: Number) -> float:
    """Check a question's confidence, and return the double that stands for it or for the next decimal above it.

    >>> check_confidence(Fraction(3, 4)), check_confidence(Fraction(19, 20))
    (0.75, 0.95)
    >>> check_confidence(1)
    Traceback (most recent call last):
    discreet.errors.BadParameter: confidence is 1: must lie between 1e-6 and 1 - 1e-12; give one that does, for example 0.95
    """
    exact = read_confidence(confidence)
    if not MIN_CONFIDENCE <= exact <= MAX_CONFIDENCE:
        raise BadParameter(
            "confidence",
            format_rational(exact),
            "must lie between 1e-6 and 1 - 1e-12",
            "give one that does, for example 0.95",
        )
    nearest = float(exact)
    return nearest if read_confidence(nearest) >= exact else nextafter(nearest, 1.0)


def failure_probability(confidence: Number) -> float:
    """1 − confidence as a double above 0."""
    missed = float(1 - check_probability(read_confidence(confidence), "confidence"))
    if missed == 0:
        raise BadParameter("confidence", "1 within a double", "nothing is that sure", "give one further from 1")
    return missed


def tail_per_error(confidence: Number, size: int) -> float:
    """How often one error may be too large if all of `size` shall hold: (1 − tail)^size ≥ c is tail ≤ 1 − c^{1/size}."""
    sure = check_probability(read_confidence(confidence), "confidence")
    missed = failure_probability(confidence)
    logarithm = log1p(-missed) if missed < 0.5 else log(ceil_float(sure))  # each is the accurate one there
    return -expm1(logarithm / check_int(size, "size", 1)) / SAFETY_FACTOR


MIN_WIDTH = 1e-300
"""A width below which no error of a whole step is likely at any confidence."""

MAX_ERROR = 1 << 1000
"""Errors past this are beyond the doubles, or nearly so: they are said to be infinite."""


def max_error_quantile(tail: Callable[[int], float], confidence: Number, size: int) -> int | float:
    """The least whole t with P(all of `size` independent errors ≤ t) ≥ confidence; tail(t), P(|error| > t), falls to 0.
    Infinite where it is past `MAX_ERROR`."""
    allowed = tail_per_error(confidence, size)
    high = 1
    while tail(high) * SAFETY_FACTOR > allowed:
        high *= 2
        if high > MAX_ERROR:
            return inf
    low = -1 if high == 1 else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) * SAFETY_FACTOR <= allowed else (middle, high)
    return high


def tabulated_max_error_quantile(weights_at: WeightFunction, confidence: Number, size: int) -> int | float:
    """The same for a tabulated law, with enough bits that what the table leaves out stays far below what is allowed."""
    bits = 64 + ceil(-log2(tail_per_error(confidence, size)))
    return max_error_quantile(tail_from_weights(weights_at(bits)), confidence, size)


def tail_from_weights(weights: Weights) -> Callable[[int], float]:
    """t ↦ P(|X| > t) of a tabulated law, rounded up by all that the table may have lost."""
    beyond = [*accumulate(reversed(weights.values[1:]), initial=0)][::-1]
    slack, total = len(beyond) * weights.error, sum(weights.values)
    return lambda t: ceil_float(Fraction((beyond[t] if t < len(beyond) else 0) + slack, total))


def steps_to_distance(steps: int | float, grid: Number) -> float:
    """Grid steps as a distance; on a grid of reals the input's own rounding adds up to half a step."""
    step = check_grid(grid)
    if isinstance(steps, float):
        return steps  # infinite
    return ceil_float(steps * step if step == 1 else (steps + Fraction(1, 2)) * step)


def check_grid(grid: Number) -> Fraction:
    """`grid` as a rational, refused unless it is a power of two."""
    step = to_rational(grid, "grid")
    if not is_power_of_two(step):
        raise BadParameter("grid", format_rational(step), "must be a power of two", "take 2^k, for example 1/1024")
    return step
