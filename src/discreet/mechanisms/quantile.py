"""How far off the largest of several independent errors may be, exactly for the lattice law that is drawn."""

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from math import expm1, log

from discreet.exact import Number, ceil_float, open_unit, rational, whole
from discreet.noise.table import Weights

CAUTION = 1 + 1e-9
"""Tails are computed in doubles; they are raised by this factor, and the allowance lowered by it."""


def largest_error(tail: Callable[[int], float], confidence: Number, size: int) -> int:
    """The least whole t with P(all of `size` independent errors ≤ t) ≥ confidence, tail(t) being P(|error| > t).

    (1 − tail)^size ≥ c exactly if tail ≤ 1 − c^{1/size}.
    """
    sure = float(open_unit(confidence, "confidence"))
    allowed = -expm1(log(sure) / whole(size, "size", 1)) / CAUTION
    high = 1
    while tail(high) * CAUTION > allowed:
        high *= 2
    low = -1 if high == 1 else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) * CAUTION <= allowed else (middle, high)
    return high


def tail_of(weights: Weights) -> Callable[[int], float]:
    """t ↦ P(|X| > t) of a tabulated law, rounded up by all that the table may have lost."""
    beyond = [*accumulate(reversed(weights.values[1:]), initial=0)][::-1]
    slack, total = len(beyond) * weights.error, sum(weights.values)
    return lambda t: ceil_float(Fraction((beyond[t] if t < len(beyond) else 0) + slack, total))


def in_units(steps: int, grid: Number) -> float:
    """Grid steps as a distance; on a grid of reals the input's own rounding adds up to half a step."""
    step = rational(grid, "grid")
    return ceil_float(steps * step if step == 1 else (steps + Fraction(1, 2)) * step)
