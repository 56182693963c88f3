"""One analyst, one table, one budget: pay, then look, then record, then show.

The budget and its one currency are fixed when the account is opened. Every question is priced before any row is read, paid
before any row is read, and stays paid whatever happens afterwards: a refund would make the balance a function of the data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from discreet._numbers import Bounds, Number, format_rational, read_positive, to_rational
from discreet.accounting.cost import Budget
from discreet.engines.base import Engine
from discreet.errors import BadParameter, QueryRefused
from discreet.ledger.account import validate_name
from discreet.ledger.certificate import make_certificate
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.keys import SigningKey as SecretKey
from discreet.ledger.quarantine import MemoryQuarantine, Quarantine, open_quarantine
from discreet.ledger.store import Account
from discreet.noise import Bits
from discreet.query.accuracy import AccuracyTarget, Calibrator
from discreet.query.answer import Answer
from discreet.query.ast import to_sql
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.parser import QueryLike, read_query
from discreet.query.quote import Quote, quote
from discreet.query.record import LedgerReference
from discreet.query.schema import Table
from discreet.session.discovery import (
    BUDGET_SHARE,
    PILOT_CONFIDENCE,
    DiscoveredBounds,
    PaidStep,
    Pilot,
    build_bounds_query,
    build_pilot_query,
    columns_without_bounds,
    combine_costs,
    find_smallest_group,
    read_bounds,
)
from discreet.session.executor import Executor, IntervalOptions, RunOptions
from discreet.session.source import Source
from discreet.units import Neighbours


@dataclass(frozen=True, slots=True)
class Session:
    """What `connect` returns."""

    engine: Engine
    table: Table
    account: Account
    delta: Fraction
    neighbours: Neighbours
    notes: tuple[str, ...] = ()
    auto_bounds: frozenset[str] = frozenset()  # columns whose bounds shall be found privately
    quarantine: Quarantine = field(default_factory=MemoryQuarantine, repr=False, compare=False)
    label: str | None = None  # which state of the source is queried, for example "2026-11"
    _discovered_bounds: dict[str, DiscoveredBounds] = field(default_factory=dict, repr=False, compare=False)
    _columns_by_query: dict[tuple[str, Fraction, str | None], tuple[str, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )  # the columns whose bounds a query had to find when it was first asked

    @classmethod
    def of(
        cls, source: Source, account: Account, delta: Fraction, neighbours: Neighbours, label: str | None = None
    ) -> "Session":
        """A session over an open source; refused if the source is quarantined or has cells that cannot be read."""
        quarantine = open_quarantine(account, lasting=source.engine.lasting, anchor=source.engine.anchor)
        for origin in source.engine.origins:
            quarantine.check(origin)
        source.validate()
        return cls(
            source.engine, source.table, account, delta, neighbours, source.notes, source.auto_bounds, quarantine,
            None if label is None else read_label(label),
        )  # fmt: skip

    @property
    def budget(self) -> Budget:
        """The whole budget: the ε that it guarantees at δ, what is spent and what remains."""
        budget = self.account.budget
        whole = Bounds(*(budget.epsilon(self.delta),) * 2)
        return Budget(whole, self.delta, budget.currency, budget.spent, budget.remaining, budget.limit)

    @property
    def executor(self) -> Executor:
        """Where questions are paid for and answered."""
        return Executor(self.engine, self.account, self.delta, self.quarantine, self.label)

    @property
    def pricing(self) -> Calibrator:
        """Prices in this account, as it is now."""
        return self.executor.pricing

    def bound_with_placeholders(self, question: QueryLike) -> BoundedQuery:
        """The question with what one unit can do to it. Bounds that are still to be found are stood in for by others."""
        table = self._build_table(self._find_unbounded_columns(question))
        return bound_contributions(read_query(question, table), table, self.neighbours)

    def calibrate(self, question: QueryLike, *, epsilon: Number, weights: Mapping[str, Number] | None = None) -> Measurement:
        """The question with its noise and its price. No row is read."""
        return self.pricing.calibrate_to_target(self._bound_query(question), AccuracyTarget(epsilon, weights=weights))

    def quote(
        self,
        question: QueryLike,
        *,
        epsilon: Number | None = None,
        error: str | Number | None = None,
        confidence: float = 0.95,
        size: int | None = None,
        weights: Mapping[str, Number] | None = None,
        pilot: Number | None = None,
    ) -> Quote:
        """What the question would cost and how good its answer would be. Nothing is paid and no row is read."""
        if pilot is not None:
            raise QueryRefused("a quote reads no row, so it can run no pilot", "give size=, or ask with the pilot")
        bounded, prices = self._bound_query(question), self.pricing
        target = AccuracyTarget(epsilon, error, size, confidence, weights)
        spending = prices.choose_epsilon(bounded, target)
        measurement = prices.calibrate(bounded, spending.epsilon, target.column_weights(bounded))
        said = question if isinstance(question, str) else to_sql(bounded.query, bounded.table.unit)
        cost = prices.cost_of(measurement.event)
        return quote(
            measurement, cost, query_text=said, confidence=confidence, size=size, notes=(*self.notes, *spending.notes)
        )

    def ask(
        self,
        question: QueryLike,
        *,
        epsilon: Number | None = None,
        error: str | Number | None = None,
        size: int | None = None,
        pilot: Number | None = None,
        weights: Mapping[str, Number] | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        id: str | None = None,
        fresh: bool = False,
        bits: Bits | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Answer:
        """Pay for the question, then answer it. Give its price as ε, or the error that it may have.

        An error that needs a size takes it from `size`, or from a private count that costs `pilot` in ε and is paid first,
        for good; the answer's loss and price are then those of both. `weights` share the price out over the columns: one
        that weighs 2 gets twice as much of it as one that weighs 1. `progress` is told the share that is done, from 0 to 1.

        A question that was answered before is answered the same again, for free; `fresh` pays for new noise. Whoever gives
        an `id` can ask again with it after a crash: what was paid is not paid twice.
        """
        # whatever can be refused is refused before it is paid for
        target, options = AccuracyTarget(epsilon, error, size, confidence, weights), RunOptions(bits, progress, id, fresh)
        intervals = IntervalOptions(target.confidence, simultaneous)
        earlier: list[PaidStep] = [*self._discover_bounds(question, target, options)]
        rest = 1 - BUDGET_SHARE if earlier else Fraction(1)
        bounds = self._discovered_bounds | {each.column: each for each in earlier if isinstance(each, DiscoveredBounds)}
        bounded = self._bound_query(question, bounds)
        depends_on = [bounds[name].reference for name in columns_without_bounds(bounded.query, self.table) if name in bounds]
        if pilot is not None:
            found = self._run_pilot(bounded, pilot, target, options, depends_on)
            target = replace(target, size=found.size)
            earlier.append(found)
            depends_on.append(found.reference)
        spending = self.pricing.choose_epsilon(bounded, target)
        measurement = self.pricing.calibrate(bounded, spending.epsilon, target.column_weights(bounded), rest)
        answer = self.executor.run(measurement, options, intervals, depends_on)
        answer = replace(answer, explanation=" ".join((answer.explanation, *self.notes, *spending.notes)))
        return combine_costs(self.pricing, answer, earlier) if earlier else answer

    def find_bounds(
        self, column: str, *, epsilon: Number, id: str | None = None, fresh: bool = False, bits: Bits | None = None
    ) -> tuple[Fraction, Fraction]:
        """Find the bounds of a numeric column privately, for this price; later questions use them."""
        measurement = self._calibrate_discovery(column, read_positive(epsilon, "epsilon"), Fraction(1))
        options = RunOptions(bits, id=id, fresh=fresh)
        self._discovered_bounds[column] = self._discover_column(column, measurement, options.for_step(_step_name(column)))
        return self._discovered_bounds[column].bounds

    def find_epsilon(
        self,
        question: QueryLike,
        error: str | Number,
        *,
        size: int | None = None,
        confidence: float = 0.95,
        weights: Mapping[str, Number] | None = None,
    ) -> Fraction:
        """The least ε, to three digits, at which every column's half-width is at most `error`; the policy's `least_epsilon`
        if that is larger.

        "5%" is relative: to `size` for counts, to `size` times the largest value for sums, to the declared range for
        averages. A number is absolute, in the column's own unit.
        """
        return self.pricing.choose_epsilon(
            self._bound_query(question), AccuracyTarget(None, error, size, confidence, weights)
        ).epsilon

    def certify(self, answer: Answer, key: SecretKey) -> dict[str, Any]:
        """release.json for an answer of this session: signed, and checked by `discreet verify`. Only a ledger's answers
        have one."""
        if not isinstance(self.account, LedgerAccount) or answer.reference is None:
            raise BadParameter("release", "not recorded", "only a ledger's answers have a certificate", "ask with a ledger")
        paper: LedgerReference = answer.reference
        return make_certificate(
            self.account, paper.entry, measurement=paper.measurement, answer=paper.record, depends_on=paper.after,
            software=f"discreet {version('discreet')}", key=key, tainted=answer.tainted,
        )  # fmt: skip

    def _bound_query(self, question: QueryLike, bounds: Mapping[str, DiscoveredBounds] | None = None) -> BoundedQuery:
        """The question with these found bounds; those that the session has found, unless given."""
        if bounds is None and (unbounded := self._find_unbounded_columns(question)):
            raise self._bounds_missing_error(unbounded)
        table = self._build_table(bounds=bounds)
        return bound_contributions(read_query(question, table), table, self.neighbours)

    def _build_table(self, provisional: tuple[str, ...] = (), bounds: Mapping[str, DiscoveredBounds] | None = None) -> Table:
        """What is declared, and the bounds that were found."""
        found = {name: each.bounds for name, each in (self._discovered_bounds if bounds is None else bounds).items()}
        found |= dict.fromkeys(provisional, (Fraction(0), Fraction(1)))
        if not found:
            return self.table
        columns = {name: self.table.columns[name].with_bounds(*ends) for name, ends in found.items()}
        return replace(self.table, columns={**self.table.columns, **columns})

    def _find_unbounded_columns(self, question: QueryLike) -> tuple[str, ...]:
        """The columns that the question computes with, whose bounds are still to be found."""
        if not self.auto_bounds - self._discovered_bounds.keys():
            return ()
        table = self._build_table()
        return tuple(name for name in columns_without_bounds(read_query(question, table), table) if name in self.auto_bounds)

    def _bounds_missing_error(self, columns: tuple[str, ...]) -> QueryRefused:
        return QueryRefused(
            f"the bounds of {' and '.join(columns)} are still to be found, and the noise depends on them",
            f"ask with a price, a quarter of which finds them, or call find_bounds({columns[0]!r}, epsilon=0.1) first",
        )

    def _discover_bounds(
        self, question: QueryLike, target: AccuracyTarget, options: RunOptions
    ) -> tuple[DiscoveredBounds, ...]:
        """Find the bounds that a query needs first, for a part of its price. A query that is asked again finds the bounds
        that it had to find when it was first asked, so that it is the same query at the same price and continues what was
        paid: without `fresh`, whenever it is asked again; with it, under the same id."""
        unbounded = self._find_unbounded_columns(question)
        if not self.auto_bounds or target.epsilon is None:
            if unbounded:
                raise self._bounds_missing_error(unbounded)
            return ()
        outline, epsilon = self.bound_with_placeholders(question), read_positive(target.epsilon, "epsilon")
        asked = to_sql(outline.query, self.table.unit), epsilon
        anew = options.fresh and options.id is None
        columns = (
            unbounded if anew else self._columns_by_query.get((*asked, options.id if options.fresh else None), unbounded)
        )
        if not columns:
            return ()
        steps = [
            (self._calibrate_discovery(name, epsilon, BUDGET_SHARE / len(columns)), options.for_step(_step_name(name)))
            for name in columns
        ]
        self.executor.check_steps(
            steps, options.id, rest=self.pricing.calibrate_to_target(outline, target, 1 - BUDGET_SHARE)
        )
        for id in {None, options.id}:
            self._columns_by_query.setdefault((*asked, id), columns)
        found = tuple(self._discover_column(name, *step) for name, step in zip(columns, steps, strict=True))
        for each in found:
            self._discovered_bounds.setdefault(each.column, each)
        return found

    def _calibrate_discovery(self, column: str, epsilon: Fraction, part: Fraction) -> Measurement:
        return self.pricing.calibrate(
            bound_contributions(build_bounds_query(column, self.table), self.table, self.neighbours), epsilon, fraction=part
        )

    def _discover_column(self, column: str, measurement: Measurement, options: RunOptions) -> DiscoveredBounds:
        answer = self.executor.run(measurement, options, IntervalOptions(PILOT_CONFIDENCE))
        assert answer.reference is not None
        paid = to_rational(self.account.budget.currency.cost(measurement.event)[0])
        return DiscoveredBounds(column, read_bounds(measurement, answer), measurement.event, paid, answer.reference)

    def _run_pilot(
        self,
        bounded: BoundedQuery,
        pilot: Number,
        target: AccuracyTarget,
        options: RunOptions,
        depends_on: Sequence[LedgerReference],
    ) -> Pilot:
        """Find the size that the error needs, privately."""
        cost, prices = read_positive(pilot, "pilot"), self.pricing
        if target.epsilon is not None or not target.lacks_size(bounded):
            raise BadParameter(
                "pilot", format_rational(cost), "no size is missing here", 'give it with error="5%" and no size'
            )
        asked = bound_contributions(build_pilot_query(bounded), self._build_table(), self.neighbours)
        measurement, step = prices.calibrate(asked, cost, name="pilot"), options.for_step("pilot")
        prices.calibrate(
            bounded, cost, target.column_weights(bounded)
        )  # what cannot be planned is refused before the pilot is paid for
        self.executor.check_steps([(measurement, step)], options.id, depends_on)
        answer = self.executor.run(measurement, step, IntervalOptions(PILOT_CONFIDENCE), depends_on)
        assert answer.reference is not None
        rows, group = find_smallest_group(answer)
        paid = to_rational(prices.budget.currency.cost(measurement.event)[0])
        return Pilot(rows, group, cost, measurement.event, paid, answer.reference)


def read_label(label: str) -> str:
    """A label as every ledger can hold it.

    >>> read_label(202611)
    Traceback (most recent call last):
    discreet.errors.BadParameter: label is 202611: it is not a text; name the state of the source, label="2026-11"
    """
    if not isinstance(label, str):
        raise BadParameter("label", repr(label), "it is not a text", 'name the state of the source, label="2026-11"')
    return validate_name(label, "label")


def _step_name(column: str) -> str:
    """What the search for a column's bounds adds to the id of its query."""
    return f"bounds of {column}"
