"""The only search: where a monotone condition on a positive number begins to hold."""

from collections.abc import Callable
from math import inf, sqrt

SMALLEST, LARGEST = 1e-300, 1e300


def least(holds: Callable[[float], bool], start: float = 1.0, nearness: float = 2.0**-50) -> float:
    """A number where `holds` is true, at most about `nearness` (relative) above the least such; ∞ if there is none.

    `holds` must stay true once it is true. The answer is one that was tried, so a condition that bounds something from
    above is met for certain, whatever the search missed.

    >>> least(lambda x: x * x >= 2)
    1.4142135623730958
    """
    low = high = start
    step = 2.0
    if holds(start):
        while low > SMALLEST and holds(low := low / step):
            high, step = low, step * step if step < 1e8 else step
        if low <= SMALLEST:
            return high
    else:
        while high < LARGEST and not holds(high := high * step):
            low, step = high, step * step if step < 1e8 else step
        if not holds(high):
            return inf
    while high > low * (1 + nearness):
        middle = sqrt(low) * sqrt(high) if high > 2 * low else (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def most(holds: Callable[[float], bool], start: float = 1.0) -> float:
    """The mirror image: a number where `holds` is true, just below the largest such; 0 if there is none."""
    inverse = least(lambda x: holds(1 / x), 1 / start)
    return 0.0 if inverse == inf else 1 / inverse
