"""Counts of simulated people, drawn without drawing their reports: a billion people take less than a second.

A report is a draw of the base, which no value changes, with probability γ, and else a draw of the base among the sets that
contain the value: γ·base·X^[x ∈ y] = γ·base + (1 − γ)·base·[x ∈ y]/s. So the base part of all people is drawn at once, as
one multinomial over the cells, and the rest value by value. Counts of different values depend on each other as those of
real reports do: they are not drawn apart from each other, except for `Unary`, whose bits are independent.

`simulate_counts` fixes how many people have each value. `simulate_population` draws people from a population, which needs
one multinomial over the cells whatever the oracle: the faster one for many values.

Simulations use NumPy's generator, not the exact samplers of clients: they say how an estimator behaves, and protect no one.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from discreet._numbers import check_int
from discreet.errors import BadParameter
from discreet.local.bulk import select_many
from discreet.local.counting import Counts, count_kinds, sum_values
from discreet.local.fields import Ints
from discreet.local.oracles import Direct, Hadamard, Hashed, Projective, SetOracle, Subset, Unary

PEOPLE_AT_ONCE = 1 << 20
MAX_PART = 5 * 10**8
"""NumPy draws without replacement from fewer than 10^9 people."""


def simulate_counts(
    oracle: SetOracle,
    holders: Any,
    seed: int | Generator | None = None,
    *,
    on_progress: Callable[[float], None] | None = None,
) -> Counts:
    """Draw the counts of reports of `holders[v]` people with each value v.

    The time grows with the number of values times that of cells, or with the number of people if that is less;
    `on_progress` receives the share that is done.

    >>> from fractions import Fraction
    >>> counts = simulate_counts(Direct(3, Fraction(3)), [10**9, 0, 0], seed=1)
    >>> [round(int(count) / 1e9, 3) for count in counts.supports]
    [0.6, 0.2, 0.2]
    """
    held, random = _check_holders(oracle, holders), default_rng(seed)
    n, cells = int(held.sum()), np.zeros(count_kinds(oracle), np.int64)
    if isinstance(oracle, Unary):
        p, q = float(oracle.truth_support), float(oracle.other_support)
        return Counts(oracle, random.binomial(held, p) + random.binomial(n - held, q), n)
    if isinstance(oracle, Subset):
        parts = max(1, -(-n // MAX_PART))
        for part in range(parts):
            cells += _simulate_subsets(oracle, held * (part + 1) // parts - held * part // parts, random)
        return Counts(oracle, cells, n)
    own = random.binomial(held, float(1 - oracle.blanket))
    cells += random.multinomial(n - int(own.sum()), np.full(len(cells), 1 / len(cells)))
    if isinstance(oracle, Direct):
        return Counts(oracle, cells + own, n)
    _add_truths(oracle, own, cells, random, on_progress)
    return Counts(oracle, cells, n)


def _add_truths(
    oracle: SetOracle, own: Ints, cells: Ints, random: Generator, on_progress: Callable[[float], None] | None
) -> None:
    """Add the reports of `own[v]` people whose set contains their value v, each equally likely in all ways.

    Where more people than ways have a value, its ways are drawn at once as a multinomial. All other people draw theirs one
    by one, many values together.
    """
    ways = count_ways(oracle)
    many, few = np.flatnonzero(own >= ways), np.flatnonzero((own > 0) & (own < ways))
    work, done = len(many) * ways + int(own[few].sum()), 0

    def count(step: int) -> None:
        nonlocal done
        done += step
        if on_progress is not None:
            on_progress(done / work)

    for value in many.tolist():
        cells[list_cells(oracle, value)] += random.multinomial(int(own[value]), np.full(ways, 1 / ways))
        count(ways)
    ends = np.cumsum(own[few])
    for start in range(0, int(own[few].sum()), PEOPLE_AT_ONCE):
        people = np.arange(start, min(start + PEOPLE_AT_ONCE, int(ends[-1])))
        values = few[np.searchsorted(ends, people, side="right")]
        cells += np.bincount(find_cells(oracle, values, random.integers(ways, size=len(people))), minlength=len(cells))
        count(len(people))


def simulate_population(oracle: SetOracle, n: int, weights: Any, seed: int | Generator | None = None) -> Counts:
    """Draw the counts of reports of n people from a population, in which value v has the share weights[v]/Σ weights.

    >>> from fractions import Fraction
    >>> counts = simulate_population(Projective.optimised(100, Fraction(3)), 10**9, range(100), seed=1)
    >>> counts.n
    1000000000
    """
    held, random, people = _check_holders(oracle, weights, "weights"), default_rng(seed), check_int(n, "n")
    total = int(held.sum())
    if total == 0:
        raise BadParameter("weights", "all 0", "not shares of a population", "give each value a weight")
    if isinstance(oracle, Unary | Subset):
        return simulate_counts(oracle, random.multinomial(people, held / total), random)
    # A cell is reported with probability γ·base·(1 + (X − 1)·(the share of people whose value it holds)).
    chances = 1 + float(oracle.odds - 1) * sum_values(oracle, held) / total
    return Counts(oracle, random.multinomial(people, chances / chances.sum()).astype(np.int64), people)


def count_ways(oracle: SetOracle) -> int:
    """Return how many reports contain a value, of an oracle whose cells are its reports: the same number for every value."""
    match oracle:
        case Projective():
            return oracle.line
        case Hashed() | Hadamard():
            return oracle.fields[0].below
        case _:
            return 1


def find_cells(oracle: SetOracle, values: Ints, ways: Ints) -> Ints:
    """Return, for each value, one of the cells whose set contains it: the one of this number below `count_ways`.

    >>> from fractions import Fraction
    >>> find_cells(Hadamard(2, Fraction(3)), np.array([0, 0]), np.array([1, 3])).tolist()
    [3, 7]
    """
    match oracle:
        case Projective():
            drawn = [ways * oracle.odds.numerator]
        case Hashed() | Hadamard():
            drawn = [ways, np.zeros_like(ways)]
        case _:
            drawn = [np.zeros_like(ways)]
    columns = select_many(oracle, values, drawn)
    cell = np.zeros(len(values), np.int64)
    for field in oracle.fields:
        cell = cell * field.below + columns[field.name]
    return cell


@lru_cache(maxsize=256)
def list_cells(oracle: SetOracle, value: int) -> Ints:
    """Return the cells whose set contains a value: all ways to keep the truth.

    >>> from fractions import Fraction
    >>> list_cells(Hadamard(2, Fraction(3)), 0).tolist()
    [0, 3, 4, 7]
    """
    ways = np.arange(count_ways(oracle), dtype=np.int64)
    return find_cells(oracle, np.full(len(ways), value), ways)


def _check_holders(oracle: SetOracle, holders: Any, name: str = "holders") -> Ints:
    held = np.asarray(list(holders) if isinstance(holders, range) else holders)
    if held.shape != (oracle.values,) or held.dtype.kind not in "iu" or (held.size and int(held.min()) < 0):
        raise BadParameter(name, f"of shape {held.shape}", f"not a number of people for each of {oracle.values} values",
                           "give one integer of at least 0 per value")  # fmt: skip
    return held.astype(np.int64)


def _simulate_subsets(oracle: Subset, held: Ints, random: Generator) -> Ints:
    """Decide value by value who has it in their set. People are counted by how many values their set still lacks.

    A uniform set of r of the m values that are left contains the next one with probability r/m, and what follows is a
    uniform set of what is left. Those who report the base are one group. Those whose set contains their own value hold a
    uniform set of w − 1 of the other d − 1: before their value comes, m leaves it out. Within a group people differ in
    nothing but r, so those whose value is the next are drawn from it without replacement.
    """
    d, w = oracle.values, oracle.size
    own = random.binomial(held, float(1 - oracle.blanket))
    base, before, after = (np.zeros(w + 1, np.int64) for _ in range(3))
    base[w], before[w - 1] = int(held.sum()) - int(own.sum()), int(own.sum())
    out = np.zeros(d, np.int64)

    def take(group: Ints, left: int) -> int:
        lacking = np.flatnonzero(group)
        if not lacking.size or not left:
            return 0
        first, end = int(lacking[0]), int(lacking[-1]) + 1  # few different numbers occur
        chosen = random.binomial(group[first:end], np.minimum(np.arange(first, end) / left, 1.0))
        group[first:end] -= chosen
        group[max(first - 1, 0) : end - 1] += chosen[first == 0 :]
        return int(chosen.sum())

    for value in range(d):
        reached = np.zeros_like(before)
        if own[value]:
            present = np.flatnonzero(before)
            reached[present] = random.multivariate_hypergeometric(before[present], int(own[value]), method="marginals")
        before -= reached
        out[value] = own[value] + take(base, d - value) + take(after, d - value) + take(before, d - value - 1)
        after += reached
    return out
