"""Shuffled reports by enumeration, in integers: the exact δ of the mechanism and of the pairs that dominate it.

Nothing here is shared with `accounting.shuffle_pairs`: the multiset is counted report by report.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, permutations
from math import comb, lcm
from typing import TypeAlias

from tests.support.small_randomisers import Table

Outcomes: TypeAlias = dict[tuple[int, ...], int]
"""Counts of reports, and their probability over a common denominator."""


def add_report(outcomes: Outcomes, row: Sequence[int]) -> Outcomes:
    """One more report with these integer probabilities."""
    out: Outcomes = {}
    for counts, weight in outcomes.items():
        for y, p in enumerate(row):
            if p:
                more = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                out[more] = out.get(more, 0) + weight * p
    return out


def to_integers(rows: Sequence[Sequence[Fraction]]) -> tuple[list[tuple[int, ...]], int]:
    """Rows over their common denominator."""
    bottom = lcm(*(p.denominator for row in rows for p in row))
    return [tuple(int(p * bottom) for p in row) for row in rows], bottom


def compare(one: Outcomes, two: Outcomes, total: int, power: Fraction) -> Fraction:
    """Σ (p − power·q)₊ of two distributions over the same denominator."""
    top, bottom = power.numerator, power.denominator
    found = sum(max(0, bottom * p - top * two.get(key, 0)) for key, p in one.items())
    return Fraction(found, total * bottom)


def list_worst_deltas(table: Table, users: int, powers: Sequence[Fraction]) -> list[Fraction]:
    """The largest δ over all pairs of values and all values of the others, one for each e^ε."""
    rows, bottom = to_integers(table)
    empty: Outcomes = {(0,) * len(rows[0]): 1}

    @cache
    def outcomes_of(values: tuple[int, ...]) -> Outcomes:
        return add_report(outcomes_of(values[:-1]), rows[values[-1]]) if values else empty

    worst = [Fraction(0)] * len(powers)
    for others in combinations_with_replacement(range(len(rows)), users - 1):
        options = [add_report(outcomes_of(others), row) for row in rows]
        for one, two in permutations(options, 2):
            worst = [max(w, compare(one, two, bottom**users, power)) for w, power in zip(worst, powers, strict=True)]
    return worst


def pair_deltas(
    blanket: Fraction,
    base: Sequence[Fraction],
    own: Sequence[Fraction],
    other: Sequence[Fraction],
    users: int,
    power: Fraction,
) -> tuple[Fraction, Fraction]:
    """δ of the pair in both orders: m of n − 1 others from `base`, and one report from `own` or from `other`."""
    rows, bottom = to_integers([base, own, other])
    outcomes: Outcomes = {(0,) * len(rows[0]): 1}
    totals = [Fraction(0), Fraction(0)]
    for m in range(users):
        chance = comb(users - 1, m) * blanket**m * (1 - blanket) ** (users - 1 - m)
        first, second = add_report(outcomes, rows[1]), add_report(outcomes, rows[2])
        totals[0] += chance * compare(first, second, bottom ** (m + 1), power)
        totals[1] += chance * compare(second, first, bottom ** (m + 1), power)
        outcomes = add_report(outcomes, rows[0])
    return totals[0], totals[1]
