"""How far one person moves a query: the quiz of [B2], by the rule and by trying every small data set."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import TypeVar

from discreet.lab.exercises.exercise import Exercise, Solution
from discreet.units import Neighbours, Sensitivity, count, counts, histogram, mean

Record = TypeVar("Record")
BOTH = (Neighbours.ADD_REMOVE, Neighbours.REPLACE)


def brute_force_sensitivity(
    records: Sequence[Record],
    query: Callable[[tuple[Record, ...]], Sequence[float]],
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    size: int = 2,
) -> float:
    """Return the largest ℓ1 change of `query` between neighbours, over all data sets of `size` records.

    >>> brute_force_sensitivity([0, 1], lambda data: [sum(data)])
    1.0
    """
    base = combinations_with_replacement(records, size - (neighbours is Neighbours.REPLACE))
    pairs = (
        (after, before)
        for rest in base
        for after in ((*rest, record) for record in records)
        for before in ([rest] if neighbours is Neighbours.ADD_REMOVE else [(*rest, record) for record in records])
    )
    return max(float(sum(abs(a - b) for a, b in zip(query(x), query(y), strict=True))) for x, y in pairs)


def sensitivity_quiz(bound: Fraction = Fraction(100), n: int = 3) -> Solution:
    """Compute the sensitivity of four queries, by the rule and by trying every small data set with every neighbour."""
    hair = ("black", "brown", "blond", "red")
    people = [(age, colour) for age in (20, 70) for colour in hair]
    queries: dict[str, tuple[Callable[[Neighbours], Sensitivity], Callable[..., Sequence[float]]]] = {
        "one predicate": (count, lambda d: [sum(a > 65 for a, _ in d)]),
        "two overlapping predicates": (
            lambda relation: counts(2, relation), lambda d: [sum(a > 65 for a, _ in d), sum(h == "red" for _, h in d)]
        ),
        "four disjoint hair colours": (histogram, lambda d: [sum(h == colour for _, h in d) for colour in hair]),
    }  # fmt: skip
    rows = {
        f"{name}, {relation.value}": (_l1(rule(relation)), brute_force_sensitivity(people, query, relation))
        for name, (rule, query) in queries.items()
        for relation in BOTH
    }
    salaries = {
        top: brute_force_sensitivity([0, top], lambda d: [sum(d) / len(d)], Neighbours.REPLACE, size=3)
        for top in (10**3, 10**6, 10**9)
    }
    clipped = _l1(mean(0, bound, n))
    return Solution(
        (*(f"{name}: {rule:g} by the rule, {tried:g} by trying all" for name, (rule, tried) in rows.items()),
         "average salary of 3, replace: "
         + ", ".join(f"{by:,.0f} if the highest is {top:,}" for top, by in salaries.items()),
         f"average salary of {n:,}, clipped to [0, {float(bound):g}], replace: {clipped:.4g} by the rule, R/n"),
        f"1, 2, 1 if one person is added or removed (1, 2, 2 if replaced); the salary, replaced, {clipped:.4g} once "
        "clipped, "
        "unbounded before",
        {**{name: list(pair) for name, pair in rows.items()}, "salary, unclamped": list(salaries.values()),
         "salary, clamped": clipped},
        (1.0, 2.0, 1.0, clipped),
        {},
    )  # fmt: skip


def _l1(sensitivity: Sensitivity) -> float:
    return float(sensitivity.l1 or 0)


SENSITIVITY = (
    Exercise(
        "sensitivity-quiz", "B2",
        "What is the ℓ1 sensitivity of: one predicate; two that overlap; four disjoint hair colours (each if one person "
        "is added "
        "or removed); an average salary of {n} people, clipped to [0, {bound}] (if one is replaced)?",
        "the four sensitivities", "How many numbers does one person change, and by how much each?", sensitivity_quiz,
    ),
)  # fmt: skip
