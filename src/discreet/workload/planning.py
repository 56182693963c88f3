"""The cheapest prices of a whole workload, found together. No row is read.

Every column with a wanted error gets the most noise that still meets it; columns without one share, by weight, what the
budget has left. All of it is fixed before the first answer, so it is one plan: in an account of its own, or a pure one of a
ledger, with a δ, its price is a point of the certified curve of the whole; in any other account, its sum in the currency.

On the curve neither noise is always the cheaper one, so three plans are priced (all Laplace, all Gaussian, each column the
one that has less zCDP) and the best is taken.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf, log

from discreet._numbers import Number, read_decimal, read_positive, smallest_where, to_rational
from discreet.accounting.conversions import epsilon_from_zcdp
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import RESERVED_DELTA_SHARE, Currency, Gdp, Pure, Zcdp
from discreet.errors import BadParameter, QueryRefused
from discreet.events import Composition, compose
from discreet.ledger.account import compute_charge
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.mechanisms._tail_bounds import check_confidence
from discreet.mechanisms.calibrate import find_smallest_scale
from discreet.query.accuracy import (
    MAX_EPSILON,
    AccuracyTarget,
    explain_raised_epsilon,
    make_least_epsilon_error,
    smallest_amount,
)
from discreet.query.calibrate import COMPARISON_CONFIDENCE, Measurement, Noise, calibrate_query, check_scale
from discreet.query.contribution import BoundedQuery
from discreet.query.statistics import Statistic, statistics_of
from discreet.session.session import Session
from discreet.units import Sensitivity
from discreet.workload.spec import Workload, WorkloadQuery, prefix_errors

# The columns of a workload one by one: what each is by itself, and with how much noise.


RELATIVE_TOLERANCE = 2.0**-14
"""How near, relatively, the noise comes to the largest that a budget or an error allows."""

REFERENCE_AMOUNT = Fraction(1, 100)
"""How much of a currency the noises are compared at: as little as a column of a publication gets."""


@dataclass(frozen=True, slots=True)
class WorkloadColumn:
    """One column of one question by itself."""

    query_index: int
    query: WorkloadQuery
    name: str
    bounded: BoundedQuery  # the question with this column only
    target: AccuracyTarget | None
    share: Fraction  # of what is left, if no error is wanted

    def calibrate_noise(self, currency: Currency, selection_delta: Fraction) -> "ColumnNoise":
        """The noise that a little of this currency buys, to be made louder or quieter."""
        with prefix_errors(self.query.toml_key()):
            return ColumnNoise(
                calibrate_query(self.bounded, currency, REFERENCE_AMOUNT, selection_delta), 1.0, selection_delta
            )


@dataclass(frozen=True, slots=True)
class ColumnNoise:
    """A column's noise: that of `base`, divided by `factor`."""

    base: Measurement
    factor: float
    selection_delta: Fraction  # the δ of selecting unknown keys

    def divide_noise(self, factor: float) -> "ColumnNoise":
        """With the noise divided once more."""
        return replace(self, factor=self.factor * factor)

    @property
    def measurement(self) -> Measurement:
        """The column with this noise."""
        by, base = Fraction(self.factor), self.base
        noises = tuple((measure, _divide_noise(noise, by)) for measure, noise in base.noises)
        return Measurement(
            base.bounded, noises, None if base.selection is None else self._scale_selection(base.selection, by)
        )

    @property
    def is_drawable(self) -> bool:
        """Whether the samplers are made for it."""
        return self.refusal is None

    @property
    def refusal(self) -> QueryRefused | None:
        """Why they are not."""
        found = self.measurement
        widths = [noise.sigma if isinstance(noise, Gaussian) else noise.scale for _, noise in found.noises]
        try:
            for width in (*widths, *([] if found.selection is None else [found.selection.scale])):
                check_scale(width)
        except QueryRefused as refused:
            return refused
        return None

    def _scale_selection(self, rule: Threshold, by: Fraction) -> Threshold:
        bounded = self.base.bounded
        moved = Sensitivity(l0=bounded.max_groups * bounded.neighbours.differing_units, linf=1)
        return Threshold.for_epsilon(
            bounded.max_groups * bounded.neighbours.differing_units * by / rule.scale, self.selection_delta, moved
        )


def _divide_noise(noise: Noise, by: Fraction) -> Noise:
    return Gaussian(noise.sigma / by) if isinstance(noise, Gaussian) else Laplace(noise.scale / by)


def bound_query(query: WorkloadQuery, session: Session) -> BoundedQuery:
    """The question with what one unit can do to it, if what is wanted of it makes sense."""
    with prefix_errors(query.toml_key("sql")):
        found = session.bound_with_placeholders(query.sql)
    columns = [name for name, _ in found.query.aggregates]
    for name in query.error if isinstance(query.error, Mapping) else ():
        if name not in columns:
            raise BadParameter(
                query.toml_key(f"error.{name}"), "given", "the question has no such column", f"take {', '.join(columns)}"
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
    """The columns of one question."""
    size, columns = min(query.sizes, default=None), bounded.query.aggregates
    for name, aggregate in columns:
        only = replace(bounded.query, aggregates=((name, aggregate),))
        alone = replace(bounded, query=only, statistics=statistics_of(aggregate, bounded.table))
        error = query.get_error(name)
        wanted = None if error is None else AccuracyTarget(None, error, size, check_confidence(confidence))
        yield WorkloadColumn(query_index, query, name, alone, wanted, read_positive(query.weight, "weight") / len(columns))


def calibrate_to_error(column: WorkloadColumn, currency: Currency, selection_delta: Fraction) -> ColumnNoise | None:
    """The most noise of this kind that meets the wanted error; None where none is wanted."""
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
    """The columns of a question together. A total that several of them need gets the least of their noises."""
    found: dict[Statistic, Noise] = {}
    for total, noise in (pair for each in alone for pair in each.noises):
        if total not in found or noise.error(COMPARISON_CONFIDENCE) < found[total].error(COMPARISON_CONFIDENCE):
            found[total] = noise
    selections = [each.selection for each in alone if each.selection is not None]
    noises = tuple((total, found[total]) for total in bounded.statistics)
    return Measurement(bounded, noises, min(selections, key=lambda rule: rule.scale, default=None))


MAX_NOISE_FACTOR = 2.0**50
"""Noise beyond this is none that anybody could use: nothing was left to pay for less."""

DOMINATED_RATIO = 1.5
"""A plan whose noises are estimated to be so many times as large, on average, is not looked at again."""


@dataclass(frozen=True, slots=True)
class ChargeTerms:
    """How an account charges a plan, and the most that this one may cost."""

    currency: Currency
    delta: Fraction  # at which ε is read
    certified_delta: Fraction  # the δ of the certified point; 0 where the currency's own sum is charged
    limit: Fraction
    selection_delta: Fraction  # the δ that selecting unknown keys may take

    @classmethod
    def of(cls, workload: Workload, session: Session) -> "ChargeTerms":
        """The terms of the session's account. Nothing of it depends on what was spent: a retry finds the same plan."""
        kept = session.account.budget
        epsilon, delta = read_positive(workload.epsilon, "epsilon"), read_decimal(workload.delta)
        if kept.currency.counts_epsilon:
            return cls(kept.currency, delta, delta, epsilon, delta * RESERVED_DELTA_SHARE)
        most = kept.currency.amount(epsilon, session.delta)
        return cls(kept.currency, session.delta, Fraction(0), most, kept.delta_limit * min(Fraction(1), most / kept.limit))

    def compute_charge(self, event: Composition) -> Fraction | float:
        """What a plan costs."""
        return compute_charge(self.currency, event, self.certified_delta)[0]

    def estimate_noise_factor(self, event_at: Callable[[float], Composition], limit: Fraction) -> float:
        """A factor on some noises at which the plan surely costs no more than `most`; ∞ if none is found.

        A reading of the curve takes its time, so there only pure ε and zCDP are asked, which is quick."""

        def surely(noise: float) -> bool:
            here = event_at(noise)
            if not self.certified_delta:
                return self.compute_charge(here) <= limit
            return min(Pure().cost(here)[0], epsilon_from_zcdp(Zcdp().cost(here)[0], self.certified_delta)) <= limit

        return smallest_where(surely, 1.0, 2.0**-5 if self.certified_delta else RELATIVE_TOLERANCE)

    def find_noise_factor(self, event_at: Callable[[float], Composition], limit: Fraction, estimate: float) -> float:
        """The least such factor, looked for around `near`; ∞ if no factor does."""
        if not self.certified_delta:
            return estimate
        try:
            start = estimate if estimate < MAX_NOISE_FACTOR else 1.0
            return float(find_smallest_scale(lambda noise: event_at(float(noise)), limit, self.certified_delta, start))
        except BadParameter:  # no noise is enough
            return inf


@dataclass(frozen=True)
class WorkloadPlan:
    """A workload with its noise and its price: all that is known before it is paid for."""

    workload: Workload
    session: Session
    terms: ChargeTerms
    bounded_queries: tuple[BoundedQuery, ...]  # the questions
    columns: tuple[WorkloadColumn, ...]  # their columns
    noises: tuple[ColumnNoise, ...]  # the noise of each column
    is_raised: bool = False  # the wanted errors need less than the policy's least ε, which is what the plan now costs

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        """One per question."""
        mine: list[list[Measurement]] = [[] for _ in self.bounded_queries]
        for piece, part in zip(self.columns, self.noises, strict=True):
            mine[piece.query_index].append(part.measurement)
        return tuple(merge_measurements(bounded, alone) for bounded, alone in zip(self.bounded_queries, mine, strict=True))

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
        """Whether that is within the plan's own budget. What the account has left is the account's to say."""
        return self.charge <= self.terms.limit

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said about the plan and its source."""
        least = self.session.table.least_epsilon
        return (*self.session.notes, *([explain_raised_epsilon(least)] if self.is_raised else []))

    @property
    def cost(self) -> Cost:
        """The same as everywhere: ε at δ, the charge, and what the account has left now."""
        budget = self.session.account.budget
        return Cost(self.event, self.terms.delta, self.terms.currency, self.charge, budget.remaining, budget.limit)

    def scale_to_budget(self, limit: Fraction) -> "WorkloadPlan":
        """The same plan with every noise larger or smaller by one factor, so that it costs `most`."""

        def scaled(noise: float) -> WorkloadPlan:
            return replace(self, noises=tuple(part.divide_noise(1 / noise) for part in self.noises))

        def loss(noise: float) -> Composition:
            return scaled(noise).event

        return scaled(self.terms.find_noise_factor(loss, limit, self.terms.estimate_noise_factor(loss, limit)))


def plan_workload(workload: Workload) -> WorkloadPlan:
    """Open the source and the account, and find the prices. Whatever can be refused is refused here, unpaid.

    >>> from discreet.workload import WorkloadQuery
    >>> plan = plan_workload(Workload(source="examples/people.csv", unit="id", unique=True, epsilon=1, questions=(
    ...     WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people", error=20),)))
    >>> plan.measurements[0].noises[0][1].error(0.95), float(plan.charge) < 0.15
    (20.0, True)
    """
    session = workload.open_session()
    least_allowed, most = session.table.least_epsilon, read_positive(workload.epsilon, "budget.epsilon")
    if most < least_allowed:
        raise make_least_epsilon_error("budget.epsilon", most, least_allowed)
    terms = ChargeTerms.of(workload, session)
    bounded = tuple(bound_query(asked, session) for asked in workload.questions)
    asked = zip(workload.questions, bounded, strict=True)
    pieces = tuple(piece for i, each in enumerate(asked) for piece in split_columns(i, *each, workload.confidence))
    leak = terms.selection_delta / max(1, sum(each.keys is None for each in bounded))
    empty = WorkloadPlan(workload, session, terms, bounded, pieces, ())
    drafts = [_Draft.of(empty, wanted, kind, leak) for wanted, kind in _list_noise_choices(pieces, terms, leak)]
    plans = [plan for draft in _drop_dominated(drafts) if (plan := draft.fill_budget()) is not None]
    if not plans:
        raise _explain_refusal(drafts[0])
    return _raise_to_least_epsilon(min(plans, key=lambda plan: (not plan.fits, _free_columns_log_error(plan), plan.charge)))


def _raise_to_least_epsilon(plan: WorkloadPlan) -> WorkloadPlan:
    """The plan, with as much less noise as makes its one debit cost what the policy's least ε buys."""
    floor = smallest_amount(plan.terms.currency, plan.session.table.least_epsilon, plan.session.delta)
    if plan.charge >= floor:
        return plan
    return replace(
        plan.scale_to_budget(min(plan.terms.limit, floor * (1 + Fraction(4 * RELATIVE_TOLERANCE)))), is_raised=True
    )


def _list_noise_choices(
    columns: Sequence[WorkloadColumn], terms: ChargeTerms, selection_delta: Fraction
) -> Iterator[tuple[list[ColumnNoise | None], Currency]]:
    """The noise of the columns with a wanted error, and the kind of noise of the others."""
    curve, pure = terms.certified_delta > 0, terms.currency.counts_epsilon
    laplace = [calibrate_to_error(piece, Pure(), selection_delta) for piece in columns]
    if pure:
        yield laplace, Pure()
    if pure and not curve:
        return
    gaussian = [calibrate_to_error(piece, Gdp(), selection_delta) for piece in columns]
    if curve:
        yield gaussian, Gdp()
    judge: Currency = Zcdp() if curve else terms.currency

    def cost(part: ColumnNoise) -> Fraction | float:
        return judge.cost(part.measurement.event)[0]

    both = zip(laplace, gaussian, strict=True)
    yield [None if one is None or other is None else min(one, other, key=cost) for one, other in both], judge


@dataclass(frozen=True)
class _Draft:
    """A plan in which the columns without a wanted error are still to get, by their shares, what the budget has left."""

    skeleton: WorkloadPlan
    noises: tuple[ColumnNoise, ...]
    free: tuple[bool, ...]  # which of them

    @classmethod
    def of(
        cls, skeleton: WorkloadPlan, fixed: Sequence[ColumnNoise | None], currency: Currency, selection_delta: Fraction
    ) -> "_Draft":
        power = 1 / currency.noise_power
        parts = (
            piece.calibrate_noise(currency, selection_delta).divide_noise(float(piece.share) ** power)
            if part is None
            else part
            for piece, part in zip(skeleton.columns, fixed, strict=True)
        )
        return cls(skeleton, tuple(parts), tuple(part is None for part in fixed))

    def scale_free_noise(self, noise: float) -> WorkloadPlan:
        """With the noise of the free columns so many times as large."""
        found = (part.divide_noise(1 / noise) if free else part for part, free in zip(self.noises, self.free, strict=True))
        return replace(self.skeleton, noises=tuple(found))

    def event_at(self, noise: float) -> Composition:
        return self.scale_free_noise(noise).event

    @cached_property
    def estimated_factor(self) -> float:
        """About how large the noise has to be; 1 where none is free."""
        return self.skeleton.terms.estimate_noise_factor(self.event_at, self.skeleton.terms.limit) if any(self.free) else 1.0

    def fill_budget(self) -> WorkloadPlan | None:
        """The plan that uses the budget up; None if nothing is left for the free columns."""
        if not any(self.free):
            return self.scale_free_noise(1.0)
        found = self.skeleton.terms.find_noise_factor(self.event_at, self.skeleton.terms.limit, self.estimated_factor)
        return (
            self.scale_free_noise(found)
            if found < MAX_NOISE_FACTOR and all(part.is_drawable for part in self.scale_free_noise(found).noises)
            else None
        )


def _explain_refusal(draft: _Draft) -> QueryRefused:
    """Why no noise for the free columns is both within the budget and drawable."""
    free = [piece for piece, is_free in zip(draft.skeleton.columns, draft.free, strict=True) if is_free]
    names = ", ".join(dict.fromkeys(piece.query.toml_key() for piece in free))
    for piece, part in (
        zip(draft.skeleton.columns, draft.scale_free_noise(draft.estimated_factor).noises, strict=True)
        if draft.estimated_factor < MAX_NOISE_FACTOR
        else ()
    ):
        if piece in free and (refusal := part.refusal) is not None:
            hint = "lower budget.epsilon" if "narrower" in refusal.reason else "raise its weight or budget.epsilon"
            return QueryRefused(f"budget.epsilon: {refusal.reason} ({piece.query.toml_key()})", hint)
    if all(draft.free):
        return QueryRefused(f"budget.epsilon is too small for any answer to {names}", "raise it, or ask for less")
    return QueryRefused(
        f"the wanted errors use up budget.epsilon, and nothing is left for {names}",
        "raise the budget, allow larger errors, or leave these questions out",
    )


def _drop_dominated(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Those that are not already seen to be far louder than another: their exact readings are saved."""
    loud = {
        i: _free_columns_log_error(draft.scale_free_noise(draft.estimated_factor))
        for i, draft in enumerate(drafts)
        if draft.estimated_factor < MAX_NOISE_FACTOR
    }
    noises = sum(len(part.base.noises) for part, free in zip(drafts[0].noises, drafts[0].free, strict=True) if free)
    most = min(loud.values(), default=inf) + noises * log(DOMINATED_RATIO)
    return [draft for i, draft in enumerate(drafts) if loud.get(i, most) <= most]


def _free_columns_log_error(plan: WorkloadPlan) -> float:
    """How loud the noise is where no error is wanted: what the choice between plans of the same price turns on."""
    free = [part for piece, part in zip(plan.columns, plan.noises, strict=True) if piece.target is None]
    return sum(log(1 + noise.error(COMPARISON_CONFIDENCE)) for part in free for _, noise in part.measurement.noises)
