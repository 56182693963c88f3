"""Discovery: what a query lacks, found privately before it is answered, as measurements of their own.

*Bounds* of a column are found from a noisy histogram over powers of two. The magnitudes that hold clearly more rows than
noise alone would show are kept; what lies outside is clipped, so a few extreme values cost nothing but themselves.

A *pilot* is a small private count. An error in percent must be relative to a number of rows, which is private; the count
finds it for a cost of its own.

**Why this is sound.** The query proper is chosen after seeing these answers: its bounds, or its ε, depend on them. That is
adaptive. Sums of costs chosen in advance say nothing about it; filters do, and every account here is one [RRUV16; WRRW23,
Thm 1; FZ21; ST22; KTH23], see `accounting.currencies`. The guarantee is the budget, which was fixed before the first
answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TypeAlias

from discreet._numbers import Bounds, Number, format_rational, read_positive, to_rational
from discreet.errors import BadParameter, QueryRefused
from discreet.events import Composition, compose
from discreet.query import ast
from discreet.query.aggregates import CountRows, Histogram
from discreet.query.answer import Answer, IntervalOptions
from discreet.query.ast import to_sql
from discreet.query.calibrate import AccuracyTarget, Calibrator, Measurement
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.missing import columns_without_bounds
from discreet.query.parser import QueryLike, read_query
from discreet.query.record import LedgerReference
from discreet.query.schema import Key, Kind, Table
from discreet.session.discovery_state import DiscoveredBounds, DiscoveryState
from discreet.session.executor import Executor, RunOptions
from discreet.units import Neighbours

BUDGET_SHARE = Fraction(1, 4)
"""The part of a query's cost that discovers bounds, where some must be discovered."""

MAX_EXPONENT, MIN_EXPONENT = 40, -10
DETECTION_CONFIDENCE = 0.99
"""How often no empty magnitude at all is mistaken for one that holds rows."""

STEP_CONFIDENCE = 0.95
"""The confidence of the intervals of a step on the way to an answer."""


def build_bounds_query(column: str, table: Table) -> ast.Query:
    """Return the histogram of a column's magnitudes, from ±2^-10 (±1 for whole numbers) to ±2^40."""
    known = table.columns.get(column) if isinstance(column, str) else None
    if known is None or known.kind not in (Kind.INTEGER, Kind.REAL):
        raise QueryRefused(f"`{column}` is not a column of numbers", f"take one of {', '.join(table.columns)}")
    finest = 0 if known.kind is Kind.INTEGER else MIN_EXPONENT
    sizes = [Fraction(2) ** k for k in range(finest, MAX_EXPONENT + 1)]
    edges = (*(-size for size in reversed(sizes)), Fraction(0), *sizes)
    return ast.Query(table.name, ((column, Histogram(ast.Ref(column), edges)),))


def read_bounds(measurement: Measurement, answer: Answer) -> tuple[Fraction, Fraction]:
    """Return the outer edges of the first and the last magnitude with clearly more rows than noise."""
    [(column, histogram)] = measurement.bounded.query.aggregates
    assert isinstance(histogram, Histogram)
    [counts] = measurement.bounded.cell_counts
    enough = measurement.noise(counts).error(DETECTION_CONFIDENCE, counts.cells)
    [(_, row)] = answer.rows
    magnitudes = [i for i, estimate in enumerate(row) if estimate.value > enough]
    if not magnitudes:
        raise QueryRefused(
            f"No magnitude of {column} stands out from the noise at this ε",
            f'the discovery was charged; give a larger ε, or declare the bounds: bounds={{"{column}": (0, 100)}}',
            parameter="bounds",
        )
    return histogram.edges[magnitudes[0]], histogram.edges[magnitudes[-1] + 1]


@dataclass(frozen=True, slots=True)
class Pilot:
    """The number of rows that a pilot count found, and what was paid for it."""

    size: int
    group: tuple[Key, ...]  # the group that has it; empty where there are no groups
    epsilon: Fraction
    event: Composition
    amount: Fraction  # in the account's currency
    reference: LedgerReference
    charged: bool  # whether it was paid now; False: it was recorded before

    def __str__(self) -> str:
        where = f" in the smallest reliable group, {' · '.join(map(str, self.group))}" if self.group else ""
        return (
            f"The size was found by a private pilot count at ε = {float(self.epsilon):.6g}, part of the cost: "
            f"at least {self.size:,} rows{where}."
        )


def build_pilot_query(bounded: BoundedQuery) -> ast.Query:
    """Return COUNT(*) over the same rows and groups. Discovering keys would cost δ, so they must be declared."""
    if bounded.keys is None:
        raise QueryRefused(
            "A pilot needs declared keys",
            'declare them, for example keys={"dept": ["a", "b", "c"]}, or give size=',
            parameter="keys",
        )
    return replace(bounded.query, aggregates=(("n", CountRows()),), view=ast.WHOLE_ANSWER)


def find_smallest_group(answer: Answer) -> tuple[int, tuple[Key, ...]]:
    """Return the lower end of the count, at least 1, or that of the smallest reliable group; and which group that is."""
    if not answer.groups:
        [(_, (count,))] = answer.rows
        return max(1, floor(count.lower)), ()
    reliable = [(row[0].lower, keys) for keys, row in answer.rows if row[0].reliable and row[0].lower >= 1]
    if not reliable:
        raise QueryRefused("No group is large enough for the pilot count", "take a larger pilot, or give a size")
    lower, keys = min(reliable, key=lambda found: found[0])
    return floor(lower), keys


PaidStep: TypeAlias = DiscoveredBounds | Pilot
"""What was paid on the way to an answer."""


def combine_costs(calibrator: Calibrator, answer: Answer, steps: Sequence[PaidStep]) -> Answer:
    """Return an answer with the steps that were paid on the way to it. ε at δ is what the account's currency says of the
    sum: costs that depend on answers have a filter in one currency, and none on the certified curve."""
    assert answer.cost is not None
    amount = sum((step.amount for step in steps), to_rational(answer.cost.amount))
    epsilon = replace(calibrator.budget, limit=amount, spent=Fraction(0)).epsilon(calibrator.delta)
    cost = replace(answer.cost, event_or_bounds=Bounds(epsilon, epsilon), amount=amount)
    event = compose(*(step.event for step in steps), answer.event)
    explanation, charged = " ".join([answer.explanation, *map(str, steps)]), answer.charged or any(s.charged for s in steps)
    return replace(answer, event=event, cost=cost, explanation=explanation, charged=charged)


@dataclass(frozen=True, slots=True)
class Discovery:
    """Discovers what the queries of one session lack."""

    executor: Executor
    table: Table  # as declared
    neighbours: Neighbours
    auto_bounds: frozenset[str]  # the columns whose bounds shall be discovered
    state: DiscoveryState

    def bound(self, query: QueryLike, bounds: Mapping[str, DiscoveredBounds] | None = None) -> BoundedQuery:
        """Return a query with these discovered bounds; with those of the session, unless given. Refuse one that lacks
        some."""
        if bounds is None and (missing := self.find_missing(query)):
            raise _bounds_missing_error(missing)
        bounds = self.state.bounds if bounds is None else bounds
        table = self._build_table(bounds) if bounds else self.table
        return bound_contributions(read_query(query, table), table, self.neighbours)

    def outline(self, query: QueryLike) -> BoundedQuery:
        """Return a query in which placeholders stand for bounds that are still to be discovered."""
        table = self._build_table(self.state.bounds, self.find_missing(query))
        return bound_contributions(read_query(query, table), table, self.neighbours)

    def find_missing(self, query: QueryLike) -> tuple[str, ...]:
        """Return the columns that a query computes with, whose bounds are still to be discovered."""
        if not self.auto_bounds - self.state.bounds.keys():
            return ()
        table = self._build_table(self.state.bounds)
        return tuple(name for name in columns_without_bounds(read_query(query, table), table) if name in self.auto_bounds)

    def discover_for_query(
        self, query: QueryLike, target: AccuracyTarget, options: RunOptions
    ) -> tuple[DiscoveredBounds, ...]:
        """Discover the bounds that a query lacks, for a part of its cost.

        A query that is asked again discovers the bounds that it had to discover when it was first asked, so that it is the
        same query at the same cost and continues what was paid: without `fresh`, whenever it is asked again; with it, under
        the same id.
        """
        missing = self.find_missing(query)
        if target.epsilon is None:
            if missing:
                raise _bounds_missing_error(missing)
            return ()
        outline, epsilon = self.outline(query), read_positive(target.epsilon, "epsilon")
        asked = to_sql(outline.query, self.table.unit), epsilon
        known = self.state.columns_by_query.get((*asked, options.id if options.fresh else None), missing)
        columns = missing if options.fresh and options.id is None else known
        if not columns:
            return ()
        share, calibrator = BUDGET_SHARE / len(columns), self.executor.calibrator
        steps = [(self._calibrate(name, epsilon, share), options.for_step(f"bounds of {name}")) for name in columns]
        choice = calibrator.choose_epsilon(outline, target)
        rest = calibrator.calibrate(outline, choice.epsilon, choice.weights, 1 - BUDGET_SHARE)
        self.executor.check_steps(steps, options.id, rest=rest)
        for id in {None, options.id}:
            self.state.columns_by_query.setdefault((*asked, id), columns)
        found = tuple(self._discover(name, *step) for name, step in zip(columns, steps, strict=True))
        for each in found:
            self.state.bounds.setdefault(each.column, each)
        return found

    def discover_column(self, column: str, epsilon: Number, options: RunOptions) -> DiscoveredBounds:
        """Discover the bounds of a column at this ε; later queries use them."""
        measurement = self._calibrate(column, read_positive(epsilon, "epsilon"), Fraction(1))
        found = self._discover(column, measurement, options.for_step(f"bounds of {column}"))
        self.state.bounds[column] = found
        return found

    def run_pilot(
        self,
        bounded: BoundedQuery,
        pilot: Number,
        target: AccuracyTarget,
        options: RunOptions,
        depends_on: Sequence[LedgerReference],
    ) -> Pilot:
        """Find the size that the error is relative to, by a private count."""
        epsilon, calibrator = read_positive(pilot, "pilot"), self.executor.calibrator
        if target.epsilon is not None or not target.lacks_size(bounded):
            raise BadParameter(
                "pilot", format_rational(epsilon), "no size is missing here", 'give it with error="5%" and without size='
            )
        count = bound_contributions(build_pilot_query(bounded), self._build_table(self.state.bounds), self.neighbours)
        measurement, step = calibrator.calibrate(count, epsilon, name="pilot"), options.for_step("pilot")
        # what cannot be calibrated is refused before the pilot is paid for
        choice = calibrator.choose_epsilon(bounded, replace(target, epsilon=epsilon, error=None))
        calibrator.calibrate(bounded, choice.epsilon, choice.weights)
        self.executor.check_steps([(measurement, step)], options.id, depends_on)
        answer = self.executor.run(measurement, step, IntervalOptions(STEP_CONFIDENCE), depends_on)
        size, group = find_smallest_group(answer)
        return Pilot(size, group, epsilon, measurement.event, self._amount(measurement), answer.reference, answer.charged)

    def _build_table(self, bounds: Mapping[str, DiscoveredBounds], placeholders: Sequence[str] = ()) -> Table:
        """Return what is declared, with discovered bounds and placeholders for those still to be discovered."""
        ends = {name: each.bounds for name, each in bounds.items()}
        ends |= dict.fromkeys(placeholders, (Fraction(0), Fraction(1)))
        if not ends:
            return self.table
        columns = {name: self.table.columns[name].with_bounds(*each) for name, each in ends.items()}
        return replace(self.table, columns={**self.table.columns, **columns}, discovered=frozenset(bounds))

    def _calibrate(self, column: str, epsilon: Fraction, share: Fraction) -> Measurement:
        bounded = bound_contributions(build_bounds_query(column, self.table), self.table, self.neighbours)
        return self.executor.calibrator.calibrate(bounded, epsilon, fraction=share)

    def _discover(self, column: str, measurement: Measurement, options: RunOptions) -> DiscoveredBounds:
        answer = self.executor.run(measurement, options, IntervalOptions(STEP_CONFIDENCE))
        bounds = read_bounds(measurement, answer)
        return DiscoveredBounds(
            column, bounds, measurement.event, self._amount(measurement), answer.reference, answer.charged
        )

    def _amount(self, measurement: Measurement) -> Fraction:
        return to_rational(self.executor.account.budget.currency.cost(measurement.event)[0])


def _bounds_missing_error(columns: tuple[str, ...]) -> QueryRefused:
    return QueryRefused(
        f"The bounds of {' and '.join(columns)} are still to be discovered, and the noise depends on them",
        f"ask with an ε, a quarter of which discovers them, or call find_bounds({columns[0]!r}, epsilon=0.1) first",
    )
