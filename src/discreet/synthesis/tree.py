"""The tree model's measurements: one-way tables, a spanning tree chosen by an exact selection, two-way tables on its edges.

**Theory of operation** [MMS21]. `TreeSynthesis` is a plan: a pure function of public numbers, priced before a row is read.
`measure` draws everything that is paid for, and nothing of the data leaves it otherwise:

1. all one-way tables, with a share of ρ;
2. d − 1 selections. The score of a pair of columns is ‖M x − p‖₁, p the product of the noisy one-way tables, less half of
   the noise that the edge's table will have, √(2/π)·σ·cells (half, because the fit leaves negative counts out); among the
   pairs that join two parts of the tree, one is chosen by the exponential mechanism. Scores are integers in steps of 2⁻¹⁰,
   so that the selection is exact;
3. the two-way tables of the chosen pairs.

How far one unit moves a score is in `measuring.score_sensitivity`, with its proof: 2k if a unit is replaced, not k. What is
subtracted for noise is public and moves nothing. σ and ε of every part are fixed before, only the columns are chosen from
the answers.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import pi, sqrt

import numpy as np

from discreet._numbers import Number, check_int, check_positive, format_rational, to_rational
from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.events import Composition, ExponentialEvent, compose, repeat
from discreet.mechanisms.exponential import Exponential
from discreet.noise import Bits
from discreet.noise.bits import SYSTEM
from discreet.synthesis.cells import MAX_TOTAL, Cells, check_cells, check_domain
from discreet.synthesis.measuring import (
    NoisyTable,
    choose_epsilon,
    measure_tables,
    noise_for_rho,
    read_neighbours,
    score_sensitivity,
    spend_receipt,
    table_event,
    table_sensitivity,
)
from discreet.tabulation.intervals import CountNoise
from discreet.tabulation.margins import Floats, Margin
from discreet.units import Neighbours, Sensitivity

SCORE_STEPS = 1 << 10
"""Scores are integers, in steps of 1/SCORE_STEPS rows."""

SHARES = (Fraction(9, 20), Fraction(1, 10), Fraction(9, 20))
"""The shares of ρ for one-way tables, selections and two-way tables."""

MAX_PAIR_CELLS = 1 << 20
"""A pair of columns with more cells is no edge."""


@dataclass(frozen=True)
class TreeSynthesis:
    """A plan for a tree model: which tables are measured with which noise, for ρ.

    >>> plan = TreeSynthesis(sizes=(2, 3, 4), rho=Fraction(1, 100))
    >>> from discreet import zcdp
    >>> zcdp(plan.event) <= plan.rho, plan.edges
    (True, 2)
    """

    sizes: tuple[int, ...]
    rho: Fraction
    rows_per_unit: int = 1
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    shares: tuple[Fraction, Fraction, Fraction] = SHARES
    max_pair_cells: int = MAX_PAIR_CELLS
    edges: int = field(init=False)
    """How many edges the tree has: d − 1, or fewer where pairs are too large."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        rho: Number,
        rows_per_unit: int = 1,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        shares: tuple[Number, Number, Number] = SHARES,
        max_pair_cells: int = MAX_PAIR_CELLS,
    ) -> None:
        known = check_domain(sizes)
        fields = {
            "sizes": known, "rho": check_positive(rho, "rho"), "rows_per_unit": check_int(rows_per_unit, "rows_per_unit", 1),
            "neighbours": read_neighbours(neighbours), "shares": _check_shares(shares),
            "max_pair_cells": check_int(max_pair_cells, "max_pair_cells", 1),
        }  # fmt: skip
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "edges", len(_span(len(known), self.pairs, [0] * len(self.pairs))))

    @cached_property
    def pairs(self) -> tuple[Margin, ...]:
        """The pairs of columns that may become an edge."""
        every = combinations(range(len(self.sizes)), 2)
        return tuple(pair for pair in every if self.sizes[pair[0]] * self.sizes[pair[1]] <= self.max_pair_cells)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """How far one unit moves each table."""
        return table_sensitivity(self.rows_per_unit, self.neighbours)

    @cached_property
    def budgets(self) -> tuple[Fraction, Fraction, Fraction]:
        """ρ of all one-way tables, of all selections and of all two-way tables; without edges all goes to the first."""
        if self.edges == 0:
            return self.rho, Fraction(0), Fraction(0)
        columns, selections, edges = self.shares
        return self.rho * columns, self.rho * selections, self.rho * edges

    @cached_property
    def column_noise(self) -> CountNoise:
        """The noise of a one-way table."""
        return noise_for_rho(self.budgets[0] / len(self.sizes), self.sensitivity)

    @cached_property
    def edge_noise(self) -> CountNoise:
        """The noise of a two-way table."""
        return noise_for_rho(self.budgets[2] / self.edges, self.sensitivity)

    @cached_property
    def selection(self) -> Exponential:
        """The mechanism that chooses an edge."""
        bound = score_sensitivity(self.rows_per_unit, self.neighbours) * SCORE_STEPS
        return Exponential.for_epsilon(choose_epsilon(self.budgets[1] / self.edges), bound)

    @cached_property
    def event(self) -> Composition:
        """What is charged: all tables and all selections. Its ρ is at most that of the plan."""
        columns = repeat(table_event(self.column_noise, self.sensitivity), len(self.sizes))
        if self.edges == 0:
            return columns
        selection = self.selection.event(score_sensitivity(self.rows_per_unit, self.neighbours) * SCORE_STEPS)
        assert isinstance(selection, ExponentialEvent)
        return compose(
            columns, repeat(selection, self.edges), repeat(table_event(self.edge_noise, self.sensitivity), self.edges)
        )

    def measure(self, cells: Cells, receipt: Receipt, bits: Bits | None = None) -> "TreeMeasurements":
        """Draw all that the receipt paid for, and spend it."""
        check_cells(cells, self.sizes)
        spend_receipt(receipt, self.event)
        tainted = (SYSTEM if bits is None else bits).tainted
        cells.prepare_pairs(self.pairs)
        columns = measure_tables(cells, ((column,) for column in range(len(self.sizes))), self.column_noise, bits)
        if self.edges == 0:
            return TreeMeasurements(self, columns, (), tainted)
        scores = score_pairs(cells, self.pairs, columns, self.edge_noise)
        edges = choose_tree(self.selection, len(self.sizes), self.pairs, scores, bits)
        return TreeMeasurements(self, columns, measure_tables(cells, edges, self.edge_noise, bits), tainted)


@dataclass(frozen=True, eq=False)
class TreeMeasurements:
    """What was paid for: noisy one-way tables, and noisy two-way tables on the edges of the tree. All else is free."""

    plan: TreeSynthesis
    columns: tuple[NoisyTable, ...]
    edges: tuple[NoisyTable, ...]
    tainted: bool = False
    """Whether seeded bits made the noise."""

    @property
    def tables(self) -> tuple[NoisyTable, ...]:
        """All noisy tables."""
        return self.columns + self.edges


def estimate_columns(columns: tuple[NoisyTable, ...]) -> tuple[float, list[Floats]]:
    """Return the total and the shares of each column by the noisy one-way tables alone, without negative numbers."""
    precisions = np.array([1 / (table.variance * table.values.size) for table in columns])
    sums = np.array([float(table.values.sum()) for table in columns])
    total = min(max(1.0, float(sums @ precisions / precisions.sum())), float(MAX_TOTAL))
    return total, [project_to_simplex(table.values.astype(np.float64), total) / total for table in columns]


def project_to_simplex(values: Floats, total: float) -> Floats:
    """Return the nearest vector of nonnegative numbers that add up to `total`: max(v − θ, 0), in any shape.

    >>> project_to_simplex(np.array([3.0, 1.0, -4.0]), 2.0)
    array([2., 0., 0.])
    """
    falling = np.sort(values, axis=None)[::-1]
    thresholds = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    last = int(np.flatnonzero(falling > thresholds)[-1]) if total > 0 else 0
    return np.asarray(np.maximum(values - thresholds[last], 0.0))


def score_pairs(cells: Cells, pairs: tuple[Margin, ...], columns: tuple[NoisyTable, ...], noise: CountNoise) -> list[int]:
    """Return the exact score of each pair, in steps: its L1 distance from independence less half of its noise."""
    total, shares = estimate_columns(columns)
    scores = []
    for left, right in pairs:
        expected = np.rint(np.multiply.outer(shares[left], shares[right]) * (total * SCORE_STEPS)).astype(np.int64)
        distance = int(np.abs(cells.table((left, right)) * SCORE_STEPS - expected).sum())
        scores.append(distance - expected_noise(noise, expected.size) // 2)
    return scores


def expected_noise(noise: CountNoise, cells: int) -> int:
    """Return about how large the sum of |noise| over so many cells is, in steps: a public number."""
    return round(sqrt(2 / pi) * float(noise.sigma) * cells * SCORE_STEPS)


def choose_tree(
    selection: Exponential, columns: int, pairs: tuple[Margin, ...], scores: list[int], bits: Bits | None = None
) -> tuple[Margin, ...]:
    """Return the edges of a spanning tree, chosen one by one among the pairs that join two parts of it."""
    return _span(columns, pairs, scores, selection, bits)


def _span(
    columns: int, pairs: tuple[Margin, ...], scores: list[int], selection: Exponential | None = None,
    bits: Bits | None = None,
) -> tuple[Margin, ...]:  # fmt: skip
    """Kruskal's loop; without a mechanism it takes the first pair, which says how many edges there are."""
    part = list(range(columns))
    edges: list[Margin] = []
    while True:
        joining = [place for place, (left, right) in enumerate(pairs) if part[left] != part[right]]
        if not joining:
            return tuple(edges)
        chosen = 0 if selection is None else selection.release([scores[place] for place in joining], bits)
        left, right = pairs[joining[chosen]]
        edges.append((left, right))
        old, new = part[left], part[right]
        part = [new if where == old else where for where in part]


def _check_shares(shares: tuple[Number, Number, Number]) -> tuple[Fraction, Fraction, Fraction]:
    known = tuple(to_rational(share, "shares") for share in shares)
    if len(known) != 3 or min(known) <= 0 or sum(known) != 1:
        shown = ", ".join(map(format_rational, known))
        raise BadParameter("shares", shown, "three positive shares must add up to 1", "give 9/20, 1/10, 9/20 as fractions")
    return known[0], known[1], known[2]
