"""Counts of simulated people, drawn without drawing their reports: a billion people take less than a second.

A report is a draw of the base, which no value changes, with probability γ, and else a draw of the base among the sets that
contain the value: γ·base·X^[x ∈ y] = γ·base + (1 − γ)·base·[x ∈ y]/s. So the base part of all people is drawn at once, as
one multinomial over the cells, and the rest value by value. Counts of different values depend on each other as those of
real reports do: they are not drawn apart from each other, except for `Unary`, whose bits are independent.

`simulate_counts` fixes how many people have each value. `simulate_population` draws people from a population, which needs
one multinomial over the cells whatever the oracle: the faster one for many values.

Simulations use NumPy's generator, not the exact samplers of clients: they say how an estimator behaves, and protect no one.
"""

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

MAX_PART = 5 * 10**8
"""NumPy draws without replacement from fewer than 10^9 people."""


def simulate_counts(oracle: SetOracle, holders: Any, seed: int | Generator | None = None) -> Counts:
    """Draw the counts of reports of `holders[v]` people with each value v.

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
    for value in np.flatnonzero(own).tolist():
        near = list_cells(oracle, value)
        if own[value] < len(near):
            cells += np.bincount(random.choice(near, int(own[value])), minlength=len(cells))
        else:
            cells[near] += random.multinomial(int(own[value]), np.full(len(near), 1 / len(near)))
    return Counts(oracle, cells, n)


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


@lru_cache(maxsize=256)
def list_cells(oracle: SetOracle, value: int) -> Ints:
    """Return the cells whose set contains a value, of an oracle whose cells are its reports: all ways to keep the truth.

    >>> from fractions import Fraction
    >>> list_cells(Hadamard(2, Fraction(3)), 0).tolist()
    [0, 3, 4, 7]
    """
    a = oracle.odds.numerator
    match oracle:
        case Projective():
            drawn = [np.arange(oracle.line, dtype=np.int64) * a]
        case Hashed() | Hadamard():
            ways = np.arange(oracle.fields[0].below, dtype=np.int64)
            drawn = [ways, np.zeros_like(ways)]
        case _:
            drawn = [np.zeros(1, np.int64)]
    columns = select_many(oracle, np.full(len(drawn[0]), value), drawn)
    cell = np.zeros(len(drawn[0]), np.int64)
    for field in oracle.fields:
        cell = cell * field.below + columns[field.name]
    return cell


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
