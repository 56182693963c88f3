"""How far one person moves an answer: by the rule, and by trying every small data set with every neighbour."""

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import TypeVar

from discreet.lab.exercises.solution import Solution
from discreet.units import Neighbours, Sensitivity, count, counts, histogram, mean

Record = TypeVar("Record")


def brute_force_sensitivity(
    records: Sequence[Record],
    query: Callable[[tuple[Record, ...]], Sequence[float]],
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    size: int = 2,
) -> float:
    """The largest ℓ1 change of `query` between neighbours, over all data sets of `size` records and all changes of one.

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


def sensitivity_quiz() -> Solution:
    """Four queries; each sensitivity from the rule and by trying every small data set with every neighbour."""
    hair = ("black", "brown", "blond", "red")
    people = [(age, colour) for age in (20, 70) for colour in hair]
    rows: dict[str, tuple[float, float]] = {
        "one predicate": (_l1(count()), brute_force_sensitivity(people, lambda d: [sum(a > 65 for a, _ in d)])),
        "two overlapping predicates": (
            _l1(counts(2)),
            brute_force_sensitivity(people, lambda d: [sum(a > 65 for a, _ in d), sum(h == "red" for _, h in d)]),
        ),
        "four disjoint hair colours": (
            _l1(histogram()),
            brute_force_sensitivity(people, lambda d: [sum(h == colour for _, h in d) for colour in hair]),
        ),
    }
    salaries = {
        top: brute_force_sensitivity([0, top], lambda d: [sum(d) / len(d)], Neighbours.REPLACE, size=3)
        for top in (10**3, 10**6, 10**9)
    }
    clamped = (_l1(mean(0, 100, 3)), brute_force_sensitivity([0, 100], lambda d: [sum(d) / 3], Neighbours.REPLACE, size=3))
    return Solution(
        (*(f"{name}: {rule:g} by the rule, {tried:g} by trying all" for name, (rule, tried) in rows.items()),
         "average salary of 3: " + ", ".join(f"{by:,.0f} if the richest earns {top:,}" for top, by in salaries.items()),
         f"average salary of 3, clamped to [0, 100]: {clamped[0]:.4g} by the rule, {clamped[1]:.4g} by trying all"),
        "1; 2; 1; unbounded until clamped",
        {**{name: list(pair) for name, pair in rows.items()}, "salary, unclamped": list(salaries.values()),
         "salary, clamped": list(clamped)},
    )  # fmt: skip


def _l1(sensitivity: Sensitivity) -> float:
    return float(sensitivity.l1 or 0)
