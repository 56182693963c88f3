"""`synthesize`: synthetic rows of a source, from one query for its finest cells, charged to an account.

**Theory of operation.** plan → reserve → read the cells → measure → record → fit and draw. What the account is charged for
are noisy tables; the model, the rows and their distance bounds are post-processing of the record, made again whenever they
are asked for. So a retry is free, and the same seed gives the same rows.

**One debit for the tree.** Which pairs of columns are measured depends on noisy answers, but how many tables and selections
there are, with which σ and ε, is fixed before a row is read, and one unit moves every table, and every score, by at most the
same whichever columns they are of (`TreeSynthesis.event`). So an account in an additive currency is charged the sum, and an
account of pure ε with a δ a point of the certified curve.

**Proof** that the curve holds. Fix two neighbours and everything that was answered before step i. Step i is then a Gaussian
mechanism, or an exponential one, whose sensitivity is at most that of its event, so the pair (Pᵢ, Qᵢ) of the event dominates
it: the pair bounds every function of that sensitivity, and names no columns. A sequence whose steps are dominated by the
same pairs whatever was answered is dominated by their product ∏(Pᵢ, Qᵢ) [ZDW22, Thm 10], and the curve of that product is
what is charged. This needs one pair for each step: `accounting/pld/laplace.py: BoundedRangePld` is one that dominates every
exponential mechanism of its ε. The smaller curve of [DDR20] for selections that are not adaptive would not do.

**One debit per round for the adaptive model.** Noise and number of rounds depend on the answers, so no curve of events that
is fixed before exists, and only an account in ρ can be charged (decision 2): a round is reserved before its noise is drawn
and recorded before the next one is planned; each names the entries that it rests on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from discreet._numbers import Bounds, Number, ceil_digits, check_confidence, check_int, format_up, to_rational
from discreet.accounting.cost import SHOWN_DIGITS, Cost, format_at
from discreet.accounting.currencies import Receipt, Zcdp, smallest_epsilon
from discreet.errors import BadParameter, QueryRefused
from discreet.events import Composition, compose
from discreet.ledger.entries import hash_measurement
from discreet.noise import Bits
from discreet.query.answer import IntervalOptions
from discreet.query.cells import BoundedCells, explain_cells
from discreet.query.record import LedgerReference
from discreet.query.schema import Table
from discreet.session.charging import MAX_NOISE_FACTOR, ChargeTerms
from discreet.session.executor import SEEDED, Executor, Job, ProgressCallback, RunOptions
from discreet.session.session import Session
from discreet.synthesis.adaptive import AdaptiveMeasurements, AdaptiveSynthesis, Columns, Round
from discreet.synthesis.cells import Cells
from discreet.synthesis.files import SyntheticTable
from discreet.synthesis.measuring import NoisyTable, noise_for_rho
from discreet.synthesis.metrics import bound_distances
from discreet.synthesis.model import count_rows, fit
from discreet.synthesis.raking import RakedRows
from discreet.synthesis.tree import TreeMeasurements, TreeSynthesis
from discreet.tabulation.margins import shape_of
from discreet.tabulation.measuring import noise_from_json, noise_to_json, pack, unpack
from discreet.tabulation.wanted import read_wanted

MODELS = ("tree", "adaptive")
Tables = tuple[NoisyTable, ...]
RowCount = int | Literal["auto"]

RHO_DIGITS = 6
"""Digits of 1/ρ, so that the fractions of an event stay short."""

FITTING_SEED = 0
"""The models between the rounds are post-processing. One seed for all: a retry then finds the same rounds in the record."""


@dataclass(frozen=True)
class SynthesisJob(Job[Tables]):
    """What one debit pays for: all noisy tables of a tree, or those of one round."""

    bounded: BoundedCells
    event: Composition
    spec: Mapping[str, Any]
    draw: Callable[[Cells, Receipt, Bits | None], Tables]
    cells: "CellReader"
    certified_delta: Fraction = Fraction(0)
    after: tuple[int, ...] = ()

    @property
    def table(self) -> Table:
        """What is declared about the table."""
        return self.bounded.table

    def measure(self, executor: Executor, paid: Receipt, options: RunOptions, intervals: IntervalOptions) -> Tables:
        """Read the cells, and draw what the receipt paid for."""
        return self.draw(self.cells.read(executor, options), paid, options.bits)

    def to_record(self, result: Tables) -> dict[str, Any]:
        """Return the noisy tables as plain values, in the order in which they were measured."""
        return {
            "synthesis": self.spec["synthesis"],
            "sizes": list(self.bounded.keys.sizes),
            "measured": [
                {"margin": list(table.margin), **noise_to_json(table.noise), "cells": pack(table.values)} for table in result
            ],
        }

    def from_record(self, record: Mapping[str, Any], intervals: IntervalOptions) -> Tables:
        """Return what `to_record` wrote."""
        sizes = self.bounded.keys.sizes
        return tuple(
            NoisyTable(margin, unpack(each["cells"], shape_of(sizes, margin)), noise_from_json(each))
            for each in record["measured"]
            for margin in [tuple(each["margin"])]
        )

    def list_differences(self, record: Mapping[str, Any]) -> list[str]:
        """Say how a recorded answer differs: it is no synthesis, or one of other columns."""
        if "synthesis" not in record:
            return ["it is of a query or a tabulation, and this is a synthesis"]
        same = record["sizes"] == list(self.bounded.keys.sizes)
        return [] if same else ["its columns are others"]


@dataclass
class CellReader:
    """The exact cells, read once: by the first step that is paid for and not yet recorded."""

    bounded: BoundedCells
    found: Cells | None = field(default=None, repr=False)

    def read(self, executor: Executor, options: RunOptions) -> Cells:
        """Return the cells. A failure is one of the engine, like that of a query."""
        if self.found is None:
            with executor.read(options.progress):
                self.found = Cells.join(self.bounded.keys.sizes, executor.engine.read_cells(self.bounded))
        return self.found


@dataclass(frozen=True)
class SynthesisPlan:
    """A synthesis with its noise and its cost: all that is known before it is charged."""

    session: Session
    bounded: BoundedCells
    synthesis: TreeSynthesis | AdaptiveSynthesis
    terms: ChargeTerms

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows."""
        return tuple(group.name for group in self.bounded.query.groups)

    @property
    def model(self) -> str:
        """Which model it is."""
        return "tree" if isinstance(self.synthesis, TreeSynthesis) else "adaptive"

    @cached_property
    def charge(self) -> Fraction:
        """What it costs, in the account's currency; of the adaptive model, what it costs at most."""
        if isinstance(self.synthesis, TreeSynthesis):
            return to_rational(self.terms.compute_charge(self.synthesis.event))
        return self.synthesis.rho

    @property
    def cost(self) -> Cost:
        """ε at δ, the charge, and what remains of the account's budget now."""
        budget, terms = self.session.account.budget, self.terms
        known: Composition | Bounds
        if isinstance(self.synthesis, TreeSynthesis):
            known = self.synthesis.event
        else:  # the curve of adaptive rounds is no guarantee; ρ is
            epsilon = float(smallest_epsilon(terms.currency, self.charge, terms.delta))
            known = Bounds(0.0, epsilon)
        return Cost(known, terms.delta, terms.currency, self.charge, budget.remaining, budget.limit)

    def list_notes(self) -> tuple[str, ...]:
        """What is not declared about the source, why the cost is another ε than was asked for, and what the budget does not
        promise: as for a query."""
        return self.session.list_plan_notes(self.cost, self.terms.asked, "these tables together")

    def describe(self) -> dict[str, Any]:
        """Return everything that decides what is measured, as plain values."""
        return self.session.executor.describe_bounded(self.bounded) | {"synthesis": _describe_synthesis(self.synthesis)}

    def execute(self, options: RunOptions) -> "SynthesisResult":
        """Charge the account and measure; or return what was recorded for the same plan."""
        if isinstance(self.synthesis, TreeSynthesis):
            return self._execute_tree(self.synthesis, options)
        return self._execute_rounds(self.synthesis, options)

    def _execute_tree(self, synthesis: TreeSynthesis, options: RunOptions) -> "SynthesisResult":
        def draw(cells: Cells, paid: Receipt, bits: Bits | None) -> Tables:
            return synthesis.measure(cells, paid, bits).tables

        job = SynthesisJob(
            self.bounded, synthesis.event, self.describe() | SEEDED[options.tainted], draw, CellReader(self.bounded),
            self.terms.certified_delta,
        )  # fmt: skip
        execution = self.session.executor.execute(job, options, IntervalOptions(0.95))
        columns, edges = execution.answers[: len(synthesis.sizes)], execution.answers[len(synthesis.sizes) :]
        found = TreeMeasurements(synthesis, columns, edges, options.tainted)
        return SynthesisResult(found, (execution.reference,), execution.receipt is not None)

    def _execute_rounds(self, synthesis: AdaptiveSynthesis, options: RunOptions) -> "SynthesisResult":
        executor, cells = self.session.executor, CellReader(self.bounded)
        references: list[LedgerReference] = []
        charged = False

        def run(step: Columns | Round, model: RakedRows | None) -> Tables:
            def draw(cells: Cells, paid: Receipt, bits: Bits | None) -> Tables:
                return step.run(cells, model, paid, bits)

            nonlocal charged
            spec = self.describe() | SEEDED[options.tainted] | {"step": _describe_step(step, len(references))}
            if references:
                spec["after"] = [hash_measurement(references[-1].measurement)]
            after = tuple(reference.entry for reference in references[-1:])
            job = SynthesisJob(self.bounded, step.event, spec, draw, cells, after=after)
            mine = options.for_step(f"round {len(references)}")
            if not references:
                self._check_whole(synthesis, job, mine)
            execution = executor.execute(job, mine, IntervalOptions(0.95))
            references.append(execution.reference)
            charged = charged or execution.receipt is not None
            return execution.answers

        found = synthesis.run_rounds(run, options.tainted, np.random.default_rng(FITTING_SEED))
        return SynthesisResult(found, tuple(references), charged)

    def _check_whole(self, synthesis: AdaptiveSynthesis, job: SynthesisJob, options: RunOptions) -> None:
        """Refuse, before the first step is paid, what the budget would not last for."""
        paid = self.session.account.is_paid(
            job.event, measurement=hash_measurement(job.spec), id=options.id, fresh=options.fresh, shared=False
        )
        if not paid:
            whole = noise_for_rho(synthesis.rho, synthesis.sensitivity).event(synthesis.sensitivity)
            self.session.executor.check_budget(compose(whole), self.bounded.table)


@dataclass(frozen=True)
class SynthesisResult:
    """What was measured, where the account keeps it, and whether anything was paid now."""

    measurements: TreeMeasurements | AdaptiveMeasurements
    references: tuple[LedgerReference, ...]
    charged: bool

    def sample(self, rows: RowCount, generator: np.random.Generator) -> Any:
        """Draw rows, as codes."""
        found = self.measurements
        model = fit(found) if isinstance(found, TreeMeasurements) else found.model
        return model.sample(rows, generator)


def _describe_synthesis(synthesis: TreeSynthesis | AdaptiveSynthesis) -> dict[str, Any]:
    shared = {"rows_per_unit": synthesis.rows_per_unit}
    if isinstance(synthesis, TreeSynthesis):
        noises = [noise_to_json(synthesis.column_noise)]
        if synthesis.edges == 0:
            return {"model": "tree", **shared, "noise": noises}
        chosen = {"selection": str(synthesis.selection.rate), "max_pair_cells": synthesis.max_pair_cells}
        return {"model": "tree", **shared, "noise": [*noises, noise_to_json(synthesis.edge_noise)], **chosen}
    return {
        "model": "adaptive", **shared, "rho": str(synthesis.rho), "rounds": synthesis.rounds,
        "candidates": [list(margin) for margin in synthesis.candidates], "weights": list(synthesis.weights),
    }  # fmt: skip


def _describe_step(step: Columns | Round, number: int) -> dict[str, Any]:
    if isinstance(step, Columns):
        return {"round": number, "noise": noise_to_json(step.synthesis.column_noise)}
    return {"round": number, "noise": noise_to_json(step.noise), "selection": str(step.selection.rate)}


def plan_synthesis(
    session: Session,
    columns: Sequence[str],
    *,
    epsilon: Number,
    delta: Number | None = None,
    model: str = "tree",
    computed: Mapping[str, str] | None = None,
    where: str | None = None,
) -> SynthesisPlan:
    """Find the noise of a synthesis. Nothing is charged and no row is read.

    `columns` are columns with declared keys; those in `computed` are computed, as SQL: {"decade": "age // 10"}. `where` is a
    condition in SQL. `delta` is the δ of the certified point that an account of pure ε is charged: unless given, as large a
    share of the account's δ as `epsilon` is of its ε.
    """
    if not isinstance(session, Session):
        raise BadParameter(
            "session", type(session).__name__, "rows are synthesized where the data is", "connect to the source itself"
        )
    if model not in MODELS:
        raise BadParameter("model", repr(model), "no model", 'give model="tree" or model="adaptive"')
    bounded = _bound_columns(session, columns, computed or {}, where)
    terms = ChargeTerms.of_gaussian(session, epsilon, delta, "a synthesis")
    make = _plan_tree if model == "tree" else _plan_rounds
    return SynthesisPlan(session, bounded, make(bounded, terms), terms)


def _bound_columns(session: Session, columns: Sequence[str], computed: Mapping[str, str], where: str | None) -> BoundedCells:
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise BadParameter("columns", repr(columns), "not a list of different columns", 'give columns=["sex", "age"]')
    unused = [name for name in computed if name not in names]
    if unused:
        raise BadParameter("computed", repr(unused[0]), "it is none of the columns", "add it to columns=, or leave it out")
    unknown = [name for name in names if name not in computed and name not in session.table.columns]
    if unknown:
        raise QueryRefused(f"There is no column `{unknown[0]}`", "take a column of the table, or define it with computed=")
    return read_wanted(session, [names], columns=dict(computed), where=where).bounded


def _plan_tree(bounded: BoundedCells, terms: ChargeTerms) -> TreeSynthesis:
    """The tree with the least noise that the budget buys."""

    def plan_at(factor: float) -> TreeSynthesis:
        rho = 1 / ceil_digits(Fraction(factor) ** 2, RHO_DIGITS)
        return TreeSynthesis(bounded.keys.sizes, rho, bounded.max_change, bounded.neighbours)

    def event_at(factor: float) -> Composition:
        return plan_at(factor).event

    factor = terms.find_noise_factor(event_at, terms.limit, terms.estimate_noise_factor(event_at, terms.limit))
    if not factor < MAX_NOISE_FACTOR:
        raise QueryRefused(
            f"ε = {format_up(terms.limit, SHOWN_DIGITS)} is too small for these columns", "raise epsilon, or take fewer"
        )
    return plan_at(factor)


def _plan_rounds(bounded: BoundedCells, terms: ChargeTerms) -> AdaptiveSynthesis:
    if not isinstance(terms.currency, Zcdp):
        raise BadParameter(
            "model", repr("adaptive"),
            "what its rounds cost depends on the answers, and only ρ of zCDP adds up then: this account counts another",
            'open the account with currency="zcdp", or take model="tree"',
        )  # fmt: skip
    return AdaptiveSynthesis(bounded.keys.sizes, terms.limit, bounded.max_change, bounded.neighbours)


def synthesize(
    session: Session,
    columns: Sequence[str],
    *,
    epsilon: Number,
    delta: Number | None = None,
    model: str = "tree",
    rows: RowCount = "auto",
    computed: Mapping[str, str] | None = None,
    where: str | None = None,
    confidence: Number = 0.95,
    seed: int = 0,
    id: str | None = None,
    fresh: bool = False,
    bits: Bits | None = None,
    progress: ProgressCallback | None = None,
) -> SyntheticTable:
    """Charge the account for noisy tables, and return rows that are drawn from a model of them.

    `rows` is how many are drawn: "auto" are as many as the noisy tables say. Fitting and drawing are free: the same call
    with another `seed` or number of rows is charged nothing, if the account remembers the tables.

    >>> import discreet
    >>> people = discreet.connect("examples/people.csv", unit="id", unique=True, epsilon=1, delta=1e-6,
    ...     keys={"dept": ["sales", "research", "legal"]}, bounds={"age": (18, 70)})
    >>> found = synthesize(people, ["dept", "decade"], computed={"decade": "age // 10"}, epsilon=1, rows=100)
    >>> found.names, len(found)
    (('dept', 'decade'), 100)

    Raises:
        BudgetExceeded: if the account, or a parent of it, does not hold the cost; nothing was charged.
        QueryRefused, BadParameter: if it cannot be asked; nothing was charged.
        EngineFailed: if reading the rows failed after it was charged.
    """
    drawing = Drawing(rows, seed, confidence)
    plan = plan_synthesis(session, columns, epsilon=epsilon, delta=delta, model=model, computed=computed, where=where)
    return execute_synthesis(plan, RunOptions(bits, progress, id, fresh), drawing)


@dataclass(frozen=True)
class Drawing:
    """How rows are drawn from a model, which is free: how many, with which seed, and how sure the bounds are."""

    rows: RowCount = "auto"
    seed: int = 0
    confidence: Number = 0.95

    def __post_init__(self) -> None:
        count_rows(self.rows, 1.0)
        check_int(self.seed, "seed", 0)
        check_confidence(self.confidence)

    @property
    def generator(self) -> np.random.Generator:
        """The random numbers. Privacy does not rest on them: all noise is in the tables."""
        return np.random.default_rng(self.seed)


def execute_synthesis(plan: SynthesisPlan, options: RunOptions, drawing: Drawing) -> SyntheticTable:
    """Charge the account for a plan, and draw rows."""
    found = plan.execute(options)
    codes = found.sample(drawing.rows, drawing.generator)
    tables = found.measurements.tables
    bounds = bound_distances(codes, plan.bounded.keys.sizes, tables, drawing.confidence)
    return SyntheticTable(
        codes, plan.columns, plan.bounded.keys.columns, bounds, options.tainted, tables, _state_guarantee(plan), plan.cost,
        found.charged,
    )  # fmt: skip


def _state_guarantee(plan: SynthesisPlan) -> tuple[str, ...]:
    cost = plan.cost
    epsilon = f"ε = {format_up(cost.exact_epsilon[1], SHOWN_DIGITS)}{format_at(cost.delta)}"
    stated = f"The rows, and all that is made of them, have the guarantee {epsilon}."
    return explain_cells(plan.bounded), stated, *plan.list_notes()
