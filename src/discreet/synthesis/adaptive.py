"""The adaptive model: rounds choose the table that the model gets most wrong, measure it, and fit the model again.

**Theory of operation.** The loop is that of AIM [MMSM22], the reconstruction that of residuals [MFX24]. After all one-way
tables, each round

1. scores every candidate r by w_r·(‖M_r x − M_r p‖₁ − √(2/π)·σ·cells), p the model so far, scaled to its noisy total, and
   w_r a public integer; chooses one by the exponential mechanism; and measures its table with noise σ;
2. combines all measured tables by least squares (`tabulation.residuals`) and fits the model to them;
3. doubles the ε of a selection and halves σ, if the table taught the model less than the noise in it.

**Price.** What a round costs depends on the answers of earlier ones, so nothing but ρ adds up: a filter [FZ21, WRRW23] takes
the event of each round before its noise is drawn, and the last round spends what remains. The certified curve of these
events is *not* a guarantee, because their parameters are adaptive (docs/decisions/0002-no-filter-on-the-curve.md): debit
each round from an account in ρ, or ρ as a whole.

**Sensitivity of a score**: max_r w_r·k, doubled if a unit is replaced (`measuring.score_sensitivity`). The model is a
function of noisy tables and of random numbers, and what is subtracted for noise is public, so neither moves.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

import numpy as np

from discreet._numbers import Number, check_int, check_positive
from discreet.accounting.currencies import Receipt, zcdp_filter
from discreet.errors import BadParameter
from discreet.events import Composition, ExponentialEvent, compose, repeat
from discreet.mechanisms.exponential import Exponential
from discreet.noise import Bits
from discreet.noise.bits import SYSTEM
from discreet.synthesis.cells import Cells, check_cells, check_domain
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
from discreet.synthesis.raking import RakedRows, fit_rows
from discreet.synthesis.tree import SCORE_STEPS, expected_noise
from discreet.tabulation.intervals import CountNoise
from discreet.tabulation.margins import Margin, count_cells
from discreet.units import Neighbours, Sensitivity

SELECTION_SHARE = Fraction(1, 10)
"""The share of a round's ρ that chooses the table; the rest measures it."""

COLUMN_SHARE = Fraction(1, 4)
"""The share of ρ for the one-way tables."""

HELD_BACK = Fraction(1, 1 << 40)
"""The share of ρ that is not spent: an account rounds its sums up, and the last round must still fit."""

MAX_TABLE_CELLS = 1 << 16
"""A table with more cells is no candidate."""

Pay = Callable[[Composition], Receipt]
"""Debits an event and returns the receipt; raises where the budget does not suffice."""

Draw: TypeAlias = "Callable[[Columns | Round, RakedRows | None], tuple[NoisyTable, ...]]"
"""Debits what a step costs, and draws it, given the model so far."""


@dataclass(frozen=True)
class AdaptiveSynthesis:
    """A plan for an adaptive model: at most ρ is spent, in rounds whose number and noise depend on the answers.

    >>> AdaptiveSynthesis(sizes=(2, 3, 4), rho=Fraction(1, 100)).candidates
    ((0, 1), (0, 2), (1, 2))
    """

    sizes: tuple[int, ...]
    rho: Fraction
    rows_per_unit: int
    neighbours: Neighbours
    candidates: tuple[Margin, ...]
    weights: tuple[int, ...]
    rounds: int
    """How many rounds ρ would last for if no round cost more than the first."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        rho: Number,
        rows_per_unit: int = 1,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        candidates: Iterable[Margin] | None = None,
        weights: Mapping[Margin, int] | None = None,
        rounds: int | None = None,
        max_table_cells: int = MAX_TABLE_CELLS,
    ) -> None:
        known, largest = check_domain(sizes), check_int(max_table_cells, "max_table_cells", 1)
        listed = combinations(range(len(known)), 2) if candidates is None else map(tuple, candidates)
        chosen = tuple(_check_candidate(margin, known) for margin in listed)
        kept = tuple(margin for margin in chosen if count_cells(known, margin) <= largest)
        heavy = {} if weights is None else weights
        fields = {
            "sizes": known, "rho": check_positive(rho, "rho"), "rows_per_unit": check_int(rows_per_unit, "rows_per_unit", 1),
            "neighbours": read_neighbours(neighbours), "candidates": kept,
            "weights": tuple(check_int(heavy.get(margin, 1), "weights", 1) for margin in kept),
            "rounds": 2 * len(known) if rounds is None else check_int(rounds, "rounds", 1),
        }  # fmt: skip
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """How far one unit moves each table."""
        return table_sensitivity(self.rows_per_unit, self.neighbours)

    @cached_property
    def score_sensitivity(self) -> int:
        """How far one unit moves each score, in steps."""
        return max(self.weights, default=1) * score_sensitivity(self.rows_per_unit, self.neighbours) * SCORE_STEPS

    @cached_property
    def column_noise(self) -> CountNoise:
        """The noise of a one-way table."""
        share = COLUMN_SHARE if self.candidates else 1 - HELD_BACK
        return noise_for_rho(self.rho * share / len(self.sizes), self.sensitivity)

    def measure(
        self, cells: Cells, pay: Pay, bits: Bits | None = None, generator: np.random.Generator | None = None
    ) -> "AdaptiveMeasurements":
        """Run the rounds; each is paid for before its noise is drawn. `generator` is for the model, which is free."""
        check_cells(cells, self.sizes)
        if not callable(pay):
            raise BadParameter(
                "pay", f"of type {type(pay).__name__}", "every round is paid for by itself", "give pay=account.pay"
            )

        def draw(step: Columns | Round, model: RakedRows | None) -> tuple[NoisyTable, ...]:
            return step.run(cells, model, pay(step.event), bits)

        return self.run_rounds(draw, (SYSTEM if bits is None else bits).tainted, generator)

    def run_rounds(
        self, draw: Draw, tainted: bool = False, generator: np.random.Generator | None = None
    ) -> "AdaptiveMeasurements":
        """Run the rounds with a function that pays for each and draws it: the same tables and the same generator, the same
        next round."""
        models = np.random.default_rng() if generator is None else generator
        first = Columns(self)
        budget, events = zcdp_filter(self.rho * (1 - HELD_BACK)).charge(first.event), [first.event]
        tables = list(draw(first, None))
        model = fit_rows(self.sizes, tables, models)
        each = budget.remaining / self.rounds
        while self.candidates and budget.remaining > 0:
            last = budget.remaining < 2 * each
            step = Round.plan(self, budget.remaining if last else each)
            budget, events = budget.charge(step.event), [*events, step.event]
            [table] = draw(step, model)
            before = model.table(table.margin)
            tables.append(table)
            model = fit_rows(self.sizes, tables, models)
            learned = int(np.abs(model.table(table.margin) - before).sum() * SCORE_STEPS)
            if last:
                break
            each *= 4 if learned <= expected_noise(table.noise, table.values.size) else 1
        return AdaptiveMeasurements(self, tuple(tables), compose(*events), model, tainted)


@dataclass(frozen=True)
class Columns:
    """What is measured before the first round: all one-way tables."""

    synthesis: AdaptiveSynthesis

    @cached_property
    def event(self) -> Composition:
        """What they cost."""
        return repeat(table_event(self.synthesis.column_noise, self.synthesis.sensitivity), len(self.synthesis.sizes))

    def run(self, cells: Cells, model: RakedRows | None, receipt: Receipt, bits: Bits | None) -> tuple[NoisyTable, ...]:
        """Measure them, and spend the receipt; there is no model yet."""
        spend_receipt(receipt, self.event)
        columns = ((column,) for column in range(len(self.synthesis.sizes)))
        return measure_tables(cells, columns, self.synthesis.column_noise, bits)


@dataclass(frozen=True)
class Round:
    """One round: a selection and a table, with their noise."""

    synthesis: AdaptiveSynthesis
    selection: Exponential
    noise: CountNoise

    @classmethod
    def plan(cls, synthesis: AdaptiveSynthesis, rho: Fraction) -> "Round":
        """Return the round that costs at most ρ."""
        selection = Exponential.for_epsilon(choose_epsilon(rho * SELECTION_SHARE), synthesis.score_sensitivity)
        return cls(synthesis, selection, noise_for_rho(rho * (1 - SELECTION_SHARE), synthesis.sensitivity))

    @cached_property
    def event(self) -> Composition:
        """What the round costs."""
        selection = self.selection.event(self.synthesis.score_sensitivity)
        assert isinstance(selection, ExponentialEvent)
        return compose(selection, table_event(self.noise, self.synthesis.sensitivity))

    def run(self, cells: Cells, model: RakedRows | None, receipt: Receipt, bits: Bits | None) -> tuple[NoisyTable, ...]:
        """Choose the table that the model gets most wrong, and measure it; spend the receipt."""
        spend_receipt(receipt, self.event)
        assert model is not None
        chosen = self.selection.release(score_candidates(self.synthesis, cells, model, self.noise), bits)
        return measure_tables(cells, [self.synthesis.candidates[chosen]], self.noise, bits)


def score_candidates(synthesis: AdaptiveSynthesis, cells: Cells, model: RakedRows, noise: CountNoise) -> list[int]:
    """Return the exact score of each candidate, in steps."""
    scores = []
    for margin, weight in zip(synthesis.candidates, synthesis.weights, strict=True):
        expected = np.rint(model.table(margin) * SCORE_STEPS).astype(np.int64)
        distance = int(np.abs(cells.table(margin) * SCORE_STEPS - expected).sum())
        scores.append(weight * (distance - expected_noise(noise, expected.size)))
    return scores


@dataclass(frozen=True, eq=False)
class AdaptiveMeasurements:
    """What was paid for: noisy tables, in the order of the rounds, with the event of all of them and the model."""

    plan: AdaptiveSynthesis
    tables: tuple[NoisyTable, ...]
    event: Composition
    model: RakedRows
    tainted: bool = False
    """Whether seeded bits made the noise."""


def _check_candidate(margin: Margin, sizes: tuple[int, ...]) -> Margin:
    if len(margin) < 2 or list(margin) != sorted(set(margin)) or not 0 <= margin[0] <= margin[-1] < len(sizes):
        reason = f"a candidate has two or more columns of 0 to {len(sizes) - 1}, in rising order"
        raise BadParameter("candidates", margin, reason, "give tuples of column numbers, such as (0, 2)")
    return margin
