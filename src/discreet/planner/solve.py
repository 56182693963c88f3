"""Two of accuracy, ε and n give the third, for one mechanism.

What is returned was tried: it holds, whatever the search missed.
"""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, isfinite, log10

from discreet.accounting.search import least
from discreet.accuracy import MOST_EPSILON
from discreet.errors import BadParameter
from discreet.planner.central import Central
from discreet.planner.local import Local
from discreet.planner.task import Accuracy, Goal, Task

LEAST_EPSILON = Fraction(1, 10**9)
MOST_N = 10**15
DIGITS, NEAR = 4, 1e-4
Way = Central | Local
_POWERS = [1 << i for i in range(MOST_EPSILON.bit_length())]


def reached(way: Way, task: Task, goal: Goal, epsilon: Fraction, n: int | None) -> bool:
    """Whether the error at this price, with so many people, is at most what is allowed."""
    try:
        found = way.accuracy(task, epsilon, n)
    except BadParameter:  # noise too wide or too narrow to be drawn
        return False
    return _within(found, task, goal, n)


def least_epsilon(way: Way, task: Task, goal: Goal, n: int | None) -> Fraction | None:
    """The least ε, to four digits and rounded up, that reaches the goal; none if none up to MOST_EPSILON does."""

    def good(epsilon: Fraction | int) -> bool:
        return LEAST_EPSILON <= epsilon <= MOST_EPSILON and reached(way, task, goal, Fraction(epsilon), n)

    if isinstance(way, Central):
        divisor = n if task.divides and n is not None else 1
        found = _settled(way.guess(task, lambda totals: _within(totals.over(divisor), task, goal, n)), good)
        if found is not None:
            return found
    # Reports have no noise to be read off; and wider noise costs less, except for a discrete Gaussian that is all but zero.
    # Past MOST_EPSILON nothing is good, so the search may not leap: it begins at the first power of two that is.
    start = next((power for power in _POWERS if good(power)), None)
    return None if start is None else _settled(least(lambda epsilon: good(Fraction(epsilon)), start, NEAR / 10), good)


def _settled(near: float, good: Callable[[Fraction], bool]) -> Fraction | None:
    """The first ε with four digits from `near` on that is good, as a double: what counts is the noise that it buys."""
    if not isfinite(near) or near > MOST_EPSILON:
        return None
    epsilon = rounded_up(max(Fraction(near), LEAST_EPSILON))
    for _ in range(20):
        if good(Fraction(float(epsilon))):
            return Fraction(float(epsilon))
        epsilon += _unit(epsilon)
    return None


def least_n(way: Way, task: Task, goal: Goal, epsilon: Fraction) -> int | None:
    """The least number of people that reaches the goal at this ε; for randomised response within a part in 10⁴."""
    start, near = (1, 0.0) if isinstance(way, Central) else (_likely(way, task, goal, epsilon), NEAR)
    if start > MOST_N:
        return None
    step = max(1, floor(start * near))
    low, high = max(0, start - step), start
    while not reached(way, task, goal, epsilon, high):
        low, high, step = high, high + step, 2 * step
        if high > MOST_N:
            return None
    while low > 0 and high == start and reached(way, task, goal, epsilon, low):
        low, high, start, step = max(0, low - step), low, low, 2 * step
    while high - low > max(1, floor(near * high)):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(way, task, goal, epsilon, middle) else (middle, high)
    return high


def _likely(way: Local, task: Task, goal: Goal, epsilon: Fraction) -> int:
    """Where to begin: the error of n reports, beside what is allowed, falls like 1/√n."""
    n = 1024
    for _ in range(4):
        ratio = way.accuracy(task, epsilon, n).aimed(task.aim) / goal.allowed(task.question, n)
        n = max(1, ceil(n * ratio**2))
        if n > MOST_N:
            break
    return n


def least_whole(holds: Callable[[int], bool], most: int, scanned: int = 64) -> int | None:
    """The least whole number from 1 on for which it holds: tried one by one at first, then by doubling and halving."""
    for number in range(1, scanned + 1):
        if holds(number):
            return number
    low = high = scanned
    while not holds(high):
        low, high = high, 2 * high
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def rounded_up(exact: Fraction, digits: int = DIGITS) -> Fraction:
    """At or above, with so many leading digits.

    >>> rounded_up(Fraction(123456, 10**6)), rounded_up(Fraction(1, 4)), rounded_up(Fraction(0))
    (Fraction(247, 2000), Fraction(1, 4), Fraction(0, 1))
    """
    if exact == 0:
        return exact
    unit = _unit(exact, digits)
    return ceil(exact / unit) * unit


def _unit(exact: Fraction, digits: int = DIGITS) -> Fraction:
    return Fraction(10) ** (floor(log10(exact)) - digits + 1)


def _within(found: Accuracy, task: Task, goal: Goal, n: int | None) -> bool:
    return found.aimed(task.aim) <= goal.allowed(task.question, n)
