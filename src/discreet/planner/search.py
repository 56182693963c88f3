"""Solve one mechanism for the least ε or the least n that reaches a goal; find where another mechanism is better.

Every value that is returned has been tried, so it reaches the goal even where the search missed a smaller one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, exp, floor, isfinite, isqrt, log10

from discreet._numbers import smallest_where
from discreet.accounting.cost import WEAK_EPSILON
from discreet.errors import BadParameter
from discreet.planner.mechanisms import (
    CENTRAL_MECHANISMS,
    LOCAL_MECHANISM,
    CentralMechanism,
    LocalMechanism,
    Mechanism,
)
from discreet.planner.task import Accuracy, Goal, Task, reference_size
from discreet.query.calibrate import MAX_EPSILON

MIN_EPSILON = Fraction(1, 10**9)
MAX_N = 10**15
DIGITS, TOLERANCE = 4, 1e-4
_POWERS = [1 << i for i in range(MAX_EPSILON.bit_length())]


def meets_goal(mechanism: Mechanism, task: Task, goal: Goal, epsilon: Fraction, n: int | None) -> bool:
    """Whether the error at this ε, with n people, is within the goal."""
    try:
        if isinstance(mechanism, LocalMechanism):
            assert n is not None
            return mechanism.is_within(task, epsilon, n, goal.allowed_error(task.query, n))
        accuracy = mechanism.predict_accuracy(task, epsilon, n)
    except BadParameter:  # noise too wide or too narrow to be drawn
        return False
    return _is_within_goal(accuracy, task, goal, n)


def solve_epsilon(mechanism: Mechanism, task: Task, goal: Goal, n: int | None) -> Fraction | None:
    """Return the least ε that reaches the goal, to four digits and rounded up; None if no ε up to MAX_EPSILON does."""

    def is_good(epsilon: Fraction | int) -> bool:
        return MIN_EPSILON <= epsilon <= MAX_EPSILON and meets_goal(mechanism, task, goal, Fraction(epsilon), n)

    if isinstance(mechanism, CentralMechanism):
        divisor = n if task.divides_by_n and n is not None else 1
        found = _first_good_epsilon(
            mechanism.guess_epsilon(task, lambda accuracy: _is_within_goal(accuracy.divide_by(divisor), task, goal, n)),
            is_good,
        )
        if found is not None:
            return found
    # Randomised response has no scale to search; and wider noise costs less, except for a discrete Gaussian near zero.
    # Beyond MAX_EPSILON nothing is good, so the search may not leap: it starts at the first power of two that is good.
    start = next((power for power in _POWERS if is_good(power)), None)
    if start is None:
        return None
    found = _first_good_epsilon(smallest_where(lambda epsilon: is_good(Fraction(epsilon)), start, TOLERANCE / 10), is_good)
    if found is None or isinstance(mechanism, CentralMechanism) or n is None:
        return found
    # The number of reports is an integer: the error falls in steps, and between two steps it rises a little with ε. The
    # steps are about 1/√n apart, so the search can miss a smaller ε by that much.
    below = round_up(max(found * (1 - min(Fraction(1, 2), Fraction(3, max(1, isqrt(n))))), MIN_EPSILON))
    while below < found and not is_good(Fraction(float(below))):
        below += _digit_unit(below)
    return min(found, Fraction(float(below)))


def _first_good_epsilon(near: float, is_good: Callable[[Fraction], bool]) -> Fraction | None:
    """Return the first good ε with four digits from `near` on, as the double for which the noise is calibrated."""
    if not isfinite(near) or near > MAX_EPSILON:
        return None
    epsilon = round_up(max(Fraction(near), MIN_EPSILON))
    for _ in range(20):
        if is_good(Fraction(float(epsilon))):
            return Fraction(float(epsilon))
        epsilon += _digit_unit(epsilon)
    return None


def solve_n(mechanism: Mechanism, task: Task, goal: Goal, epsilon: Fraction) -> int | None:
    """Return the least n that reaches the goal at this ε; for randomised response within a part in 10⁴."""
    start, near = (
        (1, 0.0) if isinstance(mechanism, CentralMechanism) else (_guess_n(mechanism, task, goal, epsilon), TOLERANCE)
    )
    if start > MAX_N:
        return None
    step = max(1, floor(start * near))
    low, high = max(0, start - step), start
    while not meets_goal(mechanism, task, goal, epsilon, high):
        low, high, step = high, high + step, 2 * step
        if high > MAX_N:
            return None
    while low > 0 and high == start and meets_goal(mechanism, task, goal, epsilon, low):
        low, high, start, step = max(0, low - step), low, low, 2 * step
    while high - low > max(1, floor(near * high)):
        middle = (low + high) // 2
        low, high = (low, middle) if meets_goal(mechanism, task, goal, epsilon, middle) else (middle, high)
    return high


def _guess_n(mechanism: LocalMechanism, task: Task, goal: Goal, epsilon: Fraction) -> int:
    """Return where to start the search: the error of n reports, relative to the goal, falls like 1/√n."""
    n = 1024
    for _ in range(4):
        ratio = mechanism.predict_accuracy(task, epsilon, n).get(task.metric) / goal.allowed_error(task.query, n)
        n = max(1, ceil(n * ratio**2))
        if n > MAX_N:
            break
    return n


def smallest_int_where(condition: Callable[[int], bool], limit: int, scanned: int = 64) -> int | None:
    """Return the least integer from 1 on for which a condition holds: tried one by one, then by doubling and bisection."""
    for number in range(1, scanned + 1):
        if condition(number):
            return number
    low = high = scanned
    while not condition(high):
        low, high = high, 2 * high
        if high > limit:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high


def round_up(exact: Fraction, digits: int = DIGITS) -> Fraction:
    """Round up to so many leading digits.

    >>> round_up(Fraction(123456, 10**6)), round_up(Fraction(1, 4)), round_up(Fraction(0))
    (Fraction(247, 2000), Fraction(1, 4), Fraction(0, 1))
    """
    if exact == 0:
        return exact
    unit = _digit_unit(exact, digits)
    return ceil(exact / unit) * unit


def _digit_unit(exact: Fraction, digits: int = DIGITS) -> Fraction:
    return Fraction(10) ** (floor(log10(exact)) - digits + 1)


def _is_within_goal(accuracy: Accuracy, task: Task, goal: Goal, n: int | None) -> bool:
    return accuracy.get(task.metric) <= goal.allowed_error(task.query, n)


# -- crossovers and warnings ------------------------------------------------------------------------------------------------


MAX_QUERIES = 1 << 20
MIN_TRIED, MAX_TRIED = 64, 1024
"""Numbers of queries are tried up to four times the first where Gaussian noise is better, at least up to MIN_TRIED and at
most up to MAX_TRIED: on a lattice it can tie or be worse again for some later ones."""


@dataclass(frozen=True, slots=True)
class Crossover:
    """A number of queries, or of people, from which on another mechanism is better, or reaches the goal."""

    mechanism: str
    quantity: str
    at: int
    message: str

    def __str__(self) -> str:
        return self.message


def find_gaussian_crossover(task: Task, epsilon: Fraction) -> Crossover | None:
    """Find the number of queries at once from which on the error of Gaussian noise is at most that of Laplace noise.

    It is smaller there, and larger for no later number that is tried. Where these would be too many, the result is a number
    for which it is smaller and for one less it is not, and the message says nothing about later ones.
    """
    if task.delta == 0:
        return None
    laplace, gaussian, _ = CENTRAL_MECHANISMS

    def lead(queries: int) -> Fraction:
        many = replace(task, queries=queries)
        errors = [each.predict_accuracy(many, epsilon, None).get(task.metric) for each in (laplace, gaussian)]
        return errors[0] - errors[1]

    first = smallest_int_where(lambda queries: lead(queries) > 0, MAX_QUERIES)
    if first is None:
        return None
    end = max(MIN_TRIED, 4 * first)
    leads = [(queries, lead(queries)) for queries in range(first, end + 1)] if end <= MAX_TRIED else []
    at, message = _describe_leads(leads) or (first, f"beats Laplace noise from about {_format_queries(first)} at once")
    where = f"(here {task.queries:,}), at ε = {float(epsilon):.4g}, δ = {float(task.delta):g}"
    return Crossover("Gaussian", "queries", at, f"Gaussian noise {message} {where}.")


def _describe_leads(leads: list[tuple[int, Fraction]]) -> tuple[int, str] | None:
    """Say from which number of queries on it is better or equal, among those tried; None if it is worse to the end."""
    lost = max((queries for queries, by in leads if by < 0), default=0)
    tied = max((queries for queries, by in leads if by == 0), default=0)
    at = next((queries for queries, by in leads if queries > lost and by > 0), None)
    if at is None:
        return None
    start, end = f"from {_format_queries(at)} at once on", leads[-1][0]
    if tied < at:
        return at, f"beats Laplace noise {start}, as tried up to {end:,}"
    better = f", and better from {tied + 1:,} on" if tied < end else ""
    return at, f"is never worse than Laplace noise {start}{better}, as tried up to {end:,}"


def _format_queries(queries: int) -> str:
    return f"{queries:,} such quer{'ies' if queries > 1 else 'y'}"


def find_response_crossover(task: Task, goal: Goal, epsilon: Fraction) -> Crossover | None:
    """Find the number of people from which on randomised response, which needs no trusted curator, reaches the goal."""
    at = solve_n(LOCAL_MECHANISM, task, goal, epsilon)
    if at is None:
        return None
    message = f"Randomised response, which needs no trusted curator, reaches this error from about n = {at:,} on"
    return Crossover(LOCAL_MECHANISM.name, "n", at, f"{message}, at ε = {float(epsilon):.4g}.")


def find_warnings(task: Task, epsilon: Fraction, delta: Fraction, n: int | None, half_width: Fraction) -> tuple[str, ...]:
    """Return what makes a plan useless, or its guarantee weak, with the reason."""
    warnings = []
    if n is not None and epsilon * n < 1:
        warnings.append(
            f"ε = {float(epsilon):.4g} is below 1/n = {1 / n:.4g}: replacing all n people, one after the other, changes no "
            "probability by more than a factor e, so nothing useful can be learned."
        )
    if n is not None and delta * n >= 1:
        warnings.append(
            f"δ = {float(delta):g} is not below 1/n = {1 / n:.4g}: publishing one record in clear, chosen at random, would "
            "satisfy this guarantee. Choose δ far below 1/n; 1/n² is usual."
        )
    if epsilon > WEAK_EPSILON:
        factor = exp(min(float(epsilon), 700.0))
        odds = f"{factor:,.0f}" if epsilon < 20 else f"{factor:.1e}"
        warnings.append(
            f"ε = {float(epsilon):.4g} is above {WEAK_EPSILON}: an answer may be {odds} times as likely with one person's "
            "record as without it, which guarantees next to nothing."
        )
    if n is not None and half_width >= reference_size(task.query, n):
        warnings.append("The noise is as large as the answer can be: the answer says nothing about the people.")
    return tuple(warnings)
