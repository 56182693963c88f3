"""The only search: where a monotone condition on a positive number begins to hold."""

from collections.abc import Callable
from math import inf, sqrt

SMALLEST, LARGEST = 1e-300, 1e300


def smallest_where(
    holds: Callable[[float], bool], start: float = 1.0, tolerance: float = 2.0**-50, guess: float | None = None
) -> float:
    """A number where `holds` is true, at most about `nearness` (relative) above the least such; ∞ if there is none.

    `holds` must stay true once it is true. The answer is one that was tried, so a condition that bounds something from
    above is met for certain, whatever the search missed. `near` is a guess at the answer: a good one saves most of the
    looks, and no guess changes what is found.

    >>> smallest_where(lambda x: x * x >= 2)
    1.4142135623730958
    """
    if guess is not None and 0 < guess < inf:
        holds = _narrow_to_bracket(holds, guess, tolerance / 4)
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
    while high > low * (1 + tolerance):
        middle = sqrt(low) * sqrt(high) if high > 2 * low else (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _narrow_to_bracket(holds: Callable[[float], bool], guess: float, width: float) -> Callable[[float], bool]:
    """The same condition, answered outside a bracket around `near` by what it was at the ends."""
    low, high = 0.0, inf

    def known(x: float) -> bool:
        nonlocal low, high
        if low < x < high:
            low, high = (low, x) if holds(x) else (x, high)
        return x >= high

    for _ in range(3):
        known(guess * (1 - width))
        known(guess * (1 + width))
        if low > 0 and high < inf:
            break
        width *= 64
    return known


def largest_where(holds: Callable[[float], bool], start: float = 1.0) -> float:
    """The mirror image: a number where `holds` is true, just below the largest such; 0 if there is none."""
    inverse = smallest_where(lambda x: holds(1 / x), 1 / start)
    return 0.0 if inverse == inf else 1 / inverse
