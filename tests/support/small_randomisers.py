"""Randomisers over a few values as exact tables: P(report | value) as rationals, for enumeration."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import TypeAlias

from discreet.events import RandomizedResponseEvent, SetResponseEvent

Table: TypeAlias = tuple[tuple[Fraction, ...], ...]
"""One row per value: the probabilities of the reports."""


def tilt(sets: dict[frozenset[int], Fraction], odds: Fraction, values: int) -> Table:
    """The set oracle with this base distribution over sets, tilted by `odds` where a set holds the value."""
    rows = []
    for x in range(values):
        weights = [base * (odds if x in y else 1) for y, base in sets.items()]
        rows.append(tuple(weight / sum(weights) for weight in weights))
    return tuple(rows)


def make_direct(odds: Fraction, values: int) -> tuple[Table, SetResponseEvent]:
    """k-RR as a set oracle."""
    sets = {frozenset({y}): Fraction(1, values) for y in range(values)}
    return tilt(sets, odds, values), SetResponseEvent(odds, Fraction(1, values), Fraction(0))


def make_unary(odds: Fraction, values: int) -> tuple[Table, SetResponseEvent]:
    """Optimised unary encoding: the base keeps every other bit with probability 1/(odds + 1)."""
    one = 1 / (odds + 1)
    sets: dict[frozenset[int], Fraction] = {}
    for bits in product((0, 1), repeat=values):
        base = Fraction(1)
        for bit in bits:
            base *= one if bit else 1 - one
        sets[frozenset(v for v, bit in enumerate(bits) if bit)] = base
    return tilt(sets, odds, values), SetResponseEvent(odds, one, one**2)


def make_subset(odds: Fraction, values: int, size: int) -> tuple[Table, SetResponseEvent]:
    """Subset selection: sets of one size, all equally likely."""
    every = [frozenset(y) for y in combinations(range(values), size)]
    sets = {y: Fraction(1, len(every)) for y in every}
    share = Fraction(size, values)
    return tilt(sets, odds, values), SetResponseEvent(odds, share, share * Fraction(size - 1, values - 1))


def make_hadamard(odds: Fraction, values: int) -> tuple[Table, SetResponseEvent]:
    """One bit of a row of the Hadamard matrix of order 4, for values 1 … 3: (row, sign)."""
    rows = []
    for x in range(1, values + 1):
        kept = odds / (odds + 1)
        signs = [1 - 2 * ((j & x).bit_count() % 2) for j in range(4)]
        rows.append(tuple((kept if sign == s else 1 - kept) / 4 for s in signs for sign in (1, -1)))
    return tuple(rows), SetResponseEvent(odds, Fraction(1, 2), Fraction(1, 4))


def make_response(truth: Fraction, choices: int) -> tuple[Table, RandomizedResponseEvent]:
    """Randomised response."""
    other = (1 - truth) / (choices - 1)
    table = tuple(tuple(truth if x == y else other for y in range(choices)) for x in range(choices))
    return table, RandomizedResponseEvent(truth, choices)


def hockey_stick(p: Sequence[Fraction], q: Sequence[Fraction], power: Fraction) -> Fraction:
    """Σ (p − e^ε·q)₊, where `power` stands for e^ε."""
    return sum((max(Fraction(0), a - power * b) for a, b in zip(p, q, strict=True)), Fraction(0))
