"""Planning: the noise of a whole workload, found together, at one cost. No row is read.

**Theory of operation.** Every column with a target error gets the most noise that still meets it; columns without one share,
by weight, what remains of the budget. All noise is fixed before the first answer, so the workload is one plan. In an account
in memory, or a pure account of a ledger with a δ, it costs a point of the certified curve of the whole; in any other
account, its sum in the currency.

On the curve neither kind of noise is always cheaper, so three plans are compared (all Laplace, all Gaussian, each column the
one that has less zCDP) and the best is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf, log
from os import PathLike
from pathlib import Path

from discreet._numbers import (
    Number,
    check_confidence,
    format_down,
    format_up,
    read_positive,
    smallest_where,
    to_rational,
)
from discreet.accounting.cost import SHOWN_DIGITS, Cost, format_at
from discreet.accounting.currencies import (
    Currency,
    Gdp,
    Pure,
    Zcdp,
    amount_or_zero,
    certified_epsilon,
    smallest_epsilon,
)
from discreet.errors import BadParameter, Problems, QueryRefused
from discreet.events import Composition, compose
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.query.ast import to_sql
from discreet.query.calibrate import (
    COMPARISON_CONFIDENCE,
    MAX_EPSILON,
    AccuracyTarget,
    Measurement,
    calibrate_query,
    check_drawable,
    explain_raised_epsilon,
    make_least_epsilon_error,
)
from discreet.query.contribution import BoundedQuery
from discreet.query.estimates import Noise
from discreet.query.statistics import Statistic
from discreet.session.charging import MAX_NOISE_FACTOR, RELATIVE_TOLERANCE, ChargeTerms
from discreet.session.session import Session
from discreet.workload.accounts import find_account
from discreet.workload.spec import (
    PLACEHOLDERS,
    Workload,
    WorkloadQuery,
    parse_sound_parts,
    prefix_errors,
    read_plan_file,
)

REFERENCE_AMOUNT = Fraction(1, 100)
"""The amount of a currency at which noises are compared: as little as a column of a publication gets."""


@dataclass(frozen=True, slots=True)
class WorkloadColumn:
    """One column of one query by itself."""

    query_index: int
    query: WorkloadQuery
    name: str
    bounded: BoundedQuery  # the query with this column only
    target: AccuracyTarget | None
    share: Fraction  # of what remains of the budget, if it has no target

    def calibrate_noise(self, currency: Currency, selection_delta: Fraction) -> "ColumnNoise":
        """Return the noise that a little of this currency buys, to be scaled later."""
        with prefix_errors(self.query.toml_key()):
            return ColumnNoise(
                calibrate_query(self.bounded, currency, REFERENCE_AMOUNT, selection_delta), 1.0, selection_delta
            )


@dataclass(frozen=True, slots=True)
class ColumnNoise:
    """A column's noise: that of `base`, divided by `factor`."""

    base: Measurement
    factor: float
    selection_delta: Fraction  # the δ of partition selection

    def divide_noise(self, factor: float) -> "ColumnNoise":
        """Return it with the noise divided once more."""
        return replace(self, factor=self.factor * factor)

    @property
    def measurement(self) -> Measurement:
        """The column with this noise."""
        by, base = Fraction(self.factor), self.base
        noises = tuple((statistic, _divide_noise(noise, by)) for statistic, noise in base.noises)
        return Measurement(
            base.bounded, noises, None if base.selection is None else self._scale_selection(base.selection, by)
        )

    @property
    def is_drawable(self) -> bool:
        """Whether the samplers can draw it."""
        return self.refusal is None

    @property
    def refusal(self) -> QueryRefused | None:
        """Why they cannot; None if they can."""
        try:
            check_drawable(self.measurement)
        except QueryRefused as refused:
            return refused
        return None

    def _scale_selection(self, selection: Threshold, by: Fraction) -> Threshold:
        bounded = self.base.bounded
        changed_groups = bounded.max_groups * bounded.neighbours.differing_units
        return Threshold.for_epsilon(
            changed_groups * by / selection.scale, self.selection_delta, bounded.selection_sensitivity
        )


def _divide_noise(noise: Noise, by: Fraction) -> Noise:
    return Gaussian(noise.sigma / by) if isinstance(noise, Gaussian) else Laplace(noise.scale / by)


def bound_query(query: WorkloadQuery, session: Session) -> BoundedQuery:
    """Return a query with its sensitivities. Refuse targets for columns that it does not have."""
    with prefix_errors(query.toml_key("sql")):
        found = session.outline(query.sql)
    columns = [name for name, _ in found.query.aggregates]
    for name in query.error if isinstance(query.error, Mapping) else ():
        if name not in columns:
            raise BadParameter(
                query.toml_key(f"error.{name}"), "given", "the query has no such column", f"take {', '.join(columns)}"
            )
    if len(query.sizes) > 1 and found.keys is not None and len(query.sizes) != len(found.keys):
        raise BadParameter(
            query.toml_key("size"),
            f"{len(query.sizes)} sizes",
            f"there are {len(found.keys)} groups",
            "give one for each, or one",
        )
    return found


def split_columns(
    query_index: int, query: WorkloadQuery, bounded: BoundedQuery, confidence: Number
) -> Iterator[WorkloadColumn]:
    """Yield the columns of one query."""
    size, columns = min(query.sizes, default=None), bounded.query.aggregates
    for name, _ in columns:
        error = query.get_error(name)
        target = None if error is None else AccuracyTarget(None, error, size, check_confidence(confidence))
        yield WorkloadColumn(
            query_index, query, name, bounded.only(name), target, read_positive(query.weight, "weight") / len(columns)
        )


def calibrate_to_error(column: WorkloadColumn, currency: Currency, selection_delta: Fraction) -> ColumnNoise | None:
    """Return the most noise of this kind that meets the target error; None where there is no target."""
    if column.target is None:
        return None
    with prefix_errors(column.query.toml_key("error")):
        met = column.target.make_accuracy_check(column.bounded)
    bare = column.calibrate_noise(currency, selection_delta)

    found = bare.divide_noise(
        smallest_where(lambda factor: met(bare.divide_noise(factor).measurement), tolerance=RELATIVE_TOLERANCE)
    )
    if not (found.factor < MAX_EPSILON / REFERENCE_AMOUNT and found.is_drawable):
        raise QueryRefused(
            f"{column.query.toml_key('error')}: no ε up to {MAX_EPSILON} makes the error of {column.name} this small",
            "allow a larger error, or declare tighter bounds",
        )
    return found


def merge_measurements(bounded: BoundedQuery, alone: Sequence[Measurement]) -> Measurement:
    """Return the columns of a query together. A statistic that several of them need gets the least of their noises."""
    found: dict[Statistic, Noise] = {}
    for total, noise in (pair for each in alone for pair in each.noises):
        if total not in found or noise.error(COMPARISON_CONFIDENCE) < found[total].error(COMPARISON_CONFIDENCE):
            found[total] = noise
    selections = [each.selection for each in alone if each.selection is not None]
    noises = tuple((total, found[total]) for total in bounded.statistics)
    return Measurement(bounded, noises, min(selections, key=lambda rule: rule.scale, default=None))


DOMINATED_RATIO = 1.5
"""A plan whose noises are estimated to be so many times as large, on average, is dropped."""


@dataclass(frozen=True)
class WorkloadPlan:
    """A workload with its noise and its cost: all that is known before it is charged."""

    workload: Workload
    session: Session
    terms: ChargeTerms
    bounded_queries: tuple[BoundedQuery, ...]  # one per query
    columns: tuple[WorkloadColumn, ...]  # of all queries
    noises: tuple[ColumnNoise, ...]  # the noise of each column
    is_raised: bool = False  # the target errors need less than the policy's least ε, which is what the plan costs
    assumed: str = ""  # why the account is an assumed one, and what to do; empty if the account is the real one

    @property
    def selection_delta(self) -> Fraction:
        """The δ that partition selection may spend on each query whose keys are not declared."""
        return self.terms.selection_delta / max(1, sum(each.keys is None for each in self.bounded_queries))

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        """One per query."""
        by_query: list[list[Measurement]] = [[] for _ in self.bounded_queries]
        for column, noise in zip(self.columns, self.noises, strict=True):
            by_query[column.query_index].append(noise.measurement)
        pairs = zip(self.bounded_queries, by_query, strict=True)
        return tuple(merge_measurements(bounded, alone) for bounded, alone in pairs)

    @cached_property
    def event(self) -> Composition:
        """What will have happened once all of it is released."""
        return compose(*(measurement.event for measurement in self.measurements))

    @cached_property
    def charge(self) -> Fraction:
        """What the plan costs, in the account's currency."""
        return to_rational(self.terms.compute_charge(self.event))

    @property
    def fits(self) -> bool:
        """Whether that is within the plan's own budget. What remains of the account's is for the account to say."""
        return self.charge <= self.terms.limit

    @property
    def notes(self) -> tuple[str, ...]:
        """What readers must know about the plan and its source."""
        least = self.session.table.least_epsilon
        raised = [explain_raised_epsilon(least)] if self.is_raised else []
        assumed = [self.assumed] if self.assumed else []
        grouped = any(bounded.query.groups for bounded in self.bounded_queries)
        return (
            *self.session.list_notes(grouped=grouped),
            *self.session.list_account_notes(),
            *raised,
            *assumed,
            *self._list_repeated(),
        )

    def _list_repeated(self) -> list[str]:
        """Say which queries measure the same: each gets noise of its own, because each may have an error of its own."""
        names: dict[str, list[str]] = {}
        for query, bounded in zip(self.workload.questions, self.bounded_queries, strict=True):
            names.setdefault(to_sql(bounded.query, bounded.table.unit), []).append(query.name)
        return [
            f"The queries {', '.join(same)} measure the same, and each is charged and gets noise of its own, so their "
            "values differ. To pay once, keep one of them: rows of its table can be sorted and selected afterwards."
            for same in names.values()
            if len(same) > 1
        ]

    @property
    def cost(self) -> Cost:
        """ε at δ, the charge, and what remains of the account's budget now."""
        budget = self.session.account.budget
        return Cost(self.event, self.terms.delta, self.terms.currency, self.charge, budget.remaining, budget.limit)

    def scale_to_budget(self, limit: Fraction) -> "WorkloadPlan":
        """Return the plan with every noise scaled by one factor, so that it costs the limit."""

        def scale(noise: float) -> WorkloadPlan:
            return replace(self, noises=tuple(each.divide_noise(1 / noise) for each in self.noises))

        def event_at(noise: float) -> Composition:
            return scale(noise).event

        estimate = self.terms.estimate_noise_factor(event_at, limit)
        return scale(self.terms.find_noise_factor(event_at, limit, estimate))


def plan_workload(workload: Workload) -> WorkloadPlan:
    """Open the source and the account, and find the noise. Whatever can be refused is refused here, before any charge.

    >>> from discreet.workload import WorkloadQuery
    >>> plan = plan_workload(Workload(source="examples/people.csv", unit="id", unique=True, epsilon=1, questions=(
    ...     WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people", error=20),)))
    >>> plan.measurements[0].noises[0][1].error(0.95), float(plan.charge) < 0.15
    (20.0, True)

    Raises:
        PlanRefused: it has several problems, which are listed. One alone is raised as itself.
    """
    return find_noise(open_plan(workload))


def plan_for_session(workload: Workload, session: Session) -> WorkloadPlan:
    """Find the noise of a workload on a session that is open. The workload's own source and account are not looked at."""
    return find_noise(_bound_queries(workload, session, ""))


def read_plan(path: "str | PathLike[str]", *, assume_account: bool = False) -> WorkloadPlan:
    """Read a plan.toml and open its source and its account; its noise is still to be found, by `find_noise`.

    With `assume_account` an account that is not open yet, or a ledger that does not exist yet, is taken to have the plan's
    own budget: such a plan can be looked at and not published.

    Raises:
        PlanRefused: it has several problems, in the file, its account, its source or its queries; all are listed.
    """
    workload, problems = parse_sound_parts(read_plan_file(path), Path(path).parent, str(path))
    if workload is None:
        problems.raise_all()
    assert workload is not None
    return open_plan(workload, problems, assume_account=assume_account)


def open_plan(workload: Workload, problems: Problems | None = None, *, assume_account: bool = False) -> WorkloadPlan:
    """Open the source and the account, and bound every query. Its noise is still to be found.

    What is wrong is collected first, so that it is all listed: the queries are looked at even if there is no account.
    """
    problems = Problems() if problems is None else problems
    account, assumed = workload.assume_account(), ""
    with problems.collect():
        account, assumed = find_account(workload, assume=assume_account)
    session = plan = None
    if workload.source is not PLACEHOLDERS["source"]:
        with problems.collect():
            session = workload.open_session(account)
    if session is not None:
        with problems.collect():
            plan = _bound_queries(workload, session, assumed)
    problems.raise_all()
    assert plan is not None
    return plan


def _bound_queries(workload: Workload, session: Session, assumed: str) -> WorkloadPlan:
    problems = Problems()
    least, epsilon = session.table.least_epsilon, read_positive(workload.epsilon, "budget.epsilon")
    with problems.collect():
        if epsilon < least:
            raise make_least_epsilon_error("budget.epsilon", epsilon, least)
    bounded: list[BoundedQuery] = []
    for query in workload.questions:
        with problems.collect():
            bounded.append(bound_query(query, session))
    problems.raise_all()
    pairs = enumerate(zip(workload.questions, bounded, strict=True))
    columns = tuple(column for i, pair in pairs for column in split_columns(i, *pair, workload.confidence))
    return WorkloadPlan(
        workload,
        session,
        ChargeTerms.of(workload.epsilon, workload.delta, session),
        tuple(bounded),
        columns,
        (),
        assumed=assumed,
    )


def find_noise(plan: WorkloadPlan) -> WorkloadPlan:
    """Return an opened plan with its noise."""
    choices = _list_noise_choices(plan.columns, plan.terms, plan.selection_delta)
    drafts = [_Draft.of(plan, noises, currency, plan.selection_delta) for noises, currency in choices]
    plans = [found for draft in _drop_dominated(drafts) if (found := draft.fill_budget()) is not None]
    if not plans:
        raise _explain_refusal(drafts[0])
    return _raise_to_least_epsilon(min(plans, key=lambda plan: (not plan.fits, _free_columns_log_error(plan), plan.charge)))


@dataclass(frozen=True, slots=True)
class TargetCost:
    """What the target error of one column costs by itself, or those of all columns together."""

    column: WorkloadColumn | None  # None: all of them
    charge: Fraction  # in the account's currency
    epsilon: float  # at the plan's δ, certified, rounded up


def price_targets(plan: WorkloadPlan) -> tuple[TargetCost, ...]:
    """Return the least cost of each target error by itself, then that of all together; nothing if there is no target."""
    choices = [noises for noises, _ in _list_noise_choices(plan.columns, plan.terms, plan.selection_delta)]
    wanted = [i for i, column in enumerate(plan.columns) if column.target is not None]
    if not wanted:
        return ()
    alone = [(plan.columns[i], [_compose_noises(noises[i : i + 1]) for noises in choices]) for i in wanted]
    return tuple(
        _find_least_cost(plan.terms, column, events)
        for column, events in [*alone, (None, [_compose_noises(noises) for noises in choices])]
    )


def _compose_noises(noises: Sequence[ColumnNoise | None]) -> Composition:
    return compose(*(noise.measurement.event for noise in noises if noise is not None))


def _find_least_cost(terms: ChargeTerms, column: WorkloadColumn | None, events: Sequence[Composition]) -> TargetCost:
    charge, event = min(((to_rational(terms.compute_charge(event)), event) for event in events), key=lambda pair: pair[0])
    return TargetCost(column, charge, certified_epsilon(event, terms.delta).upper)


def _raise_to_least_epsilon(plan: WorkloadPlan) -> WorkloadPlan:
    """Return the plan with so much less noise that its debit costs what the policy's least ε buys."""
    floor = amount_or_zero(plan.terms.currency, plan.session.table.least_epsilon, plan.session.delta)
    if plan.charge >= floor:
        return plan
    return replace(
        plan.scale_to_budget(min(plan.terms.limit, floor * (1 + Fraction(4 * RELATIVE_TOLERANCE)))), is_raised=True
    )


def _list_noise_choices(
    columns: Sequence[WorkloadColumn], terms: ChargeTerms, selection_delta: Fraction
) -> Iterator[tuple[list[ColumnNoise | None], Currency]]:
    """Yield the noise of the columns with a target error, and the currency that decides the noise of the others."""
    curve, pure = terms.certified_delta > 0, terms.currency.counts_epsilon
    laplace = _calibrate_all(columns, Pure(), selection_delta)
    if pure:
        yield laplace, Pure()
    if pure and not curve:
        return
    gaussian = _calibrate_all(columns, Gdp(), selection_delta)
    if curve:
        yield gaussian, Gdp()
    currency: Currency = Zcdp() if curve else terms.currency

    def cost(noise: ColumnNoise) -> Fraction | float:
        return currency.cost(noise.measurement.event)[0]

    both = zip(laplace, gaussian, strict=True)
    yield [None if one is None or other is None else min(one, other, key=cost) for one, other in both], currency


def _calibrate_all(
    columns: Sequence[WorkloadColumn], currency: Currency, selection_delta: Fraction
) -> list[ColumnNoise | None]:
    """Return the noise of each target error; refuse all that cannot be met at once."""
    problems, found = Problems(), list[ColumnNoise | None]()
    for column in columns:
        with problems.collect():
            found.append(calibrate_to_error(column, currency, selection_delta))
    problems.raise_all()
    return found


@dataclass(frozen=True)
class _Draft:
    """A plan in which the columns without a target still get, by their shares, what remains of the budget."""

    skeleton: WorkloadPlan
    noises: tuple[ColumnNoise, ...]
    free: tuple[bool, ...]  # which of them

    @classmethod
    def of(
        cls, skeleton: WorkloadPlan, fixed: Sequence[ColumnNoise | None], currency: Currency, selection_delta: Fraction
    ) -> "_Draft":
        power = 1 / currency.noise_power
        noises = (
            column.calibrate_noise(currency, selection_delta).divide_noise(float(column.share) ** power)
            if noise is None
            else noise
            for column, noise in zip(skeleton.columns, fixed, strict=True)
        )
        return cls(skeleton, tuple(noises), tuple(noise is None for noise in fixed))

    def scale_free_noise(self, noise: float) -> WorkloadPlan:
        """Return the plan with the noise of the free columns so many times as large."""
        noises = zip(self.noises, self.free, strict=True)
        scaled = tuple(each.divide_noise(1 / noise) if free else each for each, free in noises)
        return replace(self.skeleton, noises=scaled)

    def event_at(self, noise: float) -> Composition:
        """Return the event of that plan."""
        return self.scale_free_noise(noise).event

    @cached_property
    def estimated_factor(self) -> float:
        """About how large the noise has to be; 1 where none is free."""
        return self.skeleton.terms.estimate_noise_factor(self.event_at, self.skeleton.terms.limit) if any(self.free) else 1.0

    def fill_budget(self) -> WorkloadPlan | None:
        """Return the plan that uses the budget up; None if nothing remains for the free columns."""
        if not any(self.free):
            return self.scale_free_noise(1.0)
        found = self.skeleton.terms.find_noise_factor(self.event_at, self.skeleton.terms.limit, self.estimated_factor)
        plan = self.scale_free_noise(found) if found < MAX_NOISE_FACTOR else None
        return None if plan is None or not all(noise.is_drawable for noise in plan.noises) else plan


def _explain_refusal(draft: _Draft) -> QueryRefused:
    """Return why no noise for the free columns is both within the budget and drawable."""
    free = [column for column, is_free in zip(draft.skeleton.columns, draft.free, strict=True) if is_free]
    names = ", ".join(dict.fromkeys(column.query.toml_key() for column in free))
    if draft.estimated_factor < MAX_NOISE_FACTOR:
        plan = draft.scale_free_noise(draft.estimated_factor)
        for column, noise in zip(plan.columns, plan.noises, strict=True):
            if column in free and (refusal := noise.refusal) is not None:
                hint = "lower budget.epsilon" if "narrower" in refusal.reason else "raise its weight or budget.epsilon"
                return QueryRefused(f"budget.epsilon: {refusal.reason} ({column.query.toml_key()})", hint)
    if all(draft.free):
        return QueryRefused(f"budget.epsilon is too small for any answer to {names}", "raise it, or ask for less")
    refused = QueryRefused(
        f"The target errors cost {describe_shortfall(draft.skeleton)}; nothing remains for {names}",
        "raise the budget, allow larger errors, or leave these queries out",
    )
    refused.see = "docs/publishing.md#the-dry-run"
    return refused


def describe_shortfall(plan: WorkloadPlan) -> str:
    """Say what the target errors cost together, and how much of that the plan's own budget does not cover."""
    *_, together = price_targets(plan)
    terms, epsilon = plan.terms, read_positive(plan.workload.epsilon, "epsilon")
    cost = f"ε = {format_up(together.epsilon, 3)}{format_at(terms.delta)}, of budget.epsilon = {float(epsilon):.6g}"
    missing = together.charge - terms.limit
    if missing <= 0:
        return cost
    if terms.currency.counts_epsilon:
        return f"{cost}: ε = {format_up(missing, 3)} is missing"
    needed = to_rational(terms.currency.epsilon(together.charge, terms.delta))
    return (
        f"{cost}: ε = {format_up(needed - epsilon, 3)} ({terms.currency.symbol} = {format_up(missing, 3)}) is missing, "
        f"because the account counts {terms.currency.symbol}, by which they need budget.epsilon = {format_up(needed, 3)}"
    )


def describe_shortage(plan: WorkloadPlan) -> str:
    """Say how much of a plan's cost the account no longer has, first in ε; nothing if the plan fits."""
    remaining, currency = plan.session.remaining, plan.terms.currency
    if plan.charge <= remaining.amount:
        return ""
    needed = format_up(smallest_epsilon(currency, plan.charge, plan.session.delta), SHOWN_DIGITS)
    left = format_down(remaining.epsilon, SHOWN_DIGITS)
    amounts = (format_down(amount, SHOWN_DIGITS) for amount in (remaining.amount, remaining.limit))
    amount = "" if currency.counts_epsilon else f" ({currency.symbol} = {' of '.join(amounts)})"
    return (
        f"The account does not have that much: the plan needs ε = {needed}{format_at(plan.session.delta)}, and ε = {left} "
        f"remains{amount}. It will be refused, unless this publication was charged before."
    )


def _drop_dominated(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Return the drafts whose noise is not estimated to be far larger than another's: the rest need no exact costs."""
    loudness = {
        i: _free_columns_log_error(draft.scale_free_noise(draft.estimated_factor))
        for i, draft in enumerate(drafts)
        if draft.estimated_factor < MAX_NOISE_FACTOR
    }
    pairs = zip(drafts[0].noises, drafts[0].free, strict=True)
    noises = sum(len(each.base.noises) for each, free in pairs if free)
    limit = min(loudness.values(), default=inf) + noises * log(DOMINATED_RATIO)
    return [draft for i, draft in enumerate(drafts) if loudness.get(i, limit) <= limit]


def _free_columns_log_error(plan: WorkloadPlan) -> float:
    """Return how large the errors are where there is no target: it decides between plans of the same cost."""
    free = [noise for column, noise in zip(plan.columns, plan.noises, strict=True) if column.target is None]
    return sum(log(1 + each.error(COMPARISON_CONFIDENCE)) for noise in free for _, each in noise.measurement.noises)
