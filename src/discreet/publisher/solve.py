"""The cheapest prices of a whole workload, found together. No row is read.

Every column with a wanted error gets the most noise that still meets it; columns without one share, by weight, what the
budget has left. All of it is fixed before the first answer, so it is one plan: in an account of its own, or a pure one of a
ledger, with a δ, its price is a point of the certified curve of the whole; in any other account, its sum in the currency.

On the curve neither noise is always the cheaper one, so three plans are priced (all Laplace, all Gaussian, each column the
one that has less zCDP) and the best is taken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf, log

from discreet.accounting.calibration import find_smallest_scale
from discreet.accounting.conversions import epsilon_from_zcdp
from discreet.accounting.filters import Currency, Gdp, Pure, Zcdp, compute_cost
from discreet.accounting.search import smallest_where
from discreet.errors import BadParameter, QueryRefused
from discreet.exact import read_decimal, read_positive, to_rational
from discreet.ledger.account import compute_charge
from discreet.ledger.budget import RESERVED_DELTA_SHARE, compute_amount
from discreet.loss import Composition, compose
from discreet.pricing import explain_raised_epsilon, make_least_epsilon_error, smallest_amount
from discreet.publisher.parts import (
    RELATIVE_TOLERANCE,
    ColumnNoise,
    WorkloadColumn,
    bound_query,
    calibrate_to_error,
    merge_measurements,
    split_columns,
)
from discreet.publisher.workload import Workload
from discreet.query.bound import BoundedQuery
from discreet.query.measure import COMPARISON_CONFIDENCE, Measurement
from discreet.query.price import Cost
from discreet.session import Session

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
        if isinstance(kept.currency, Pure):
            return cls(kept.currency, delta, delta, epsilon, delta * RESERVED_DELTA_SHARE)
        most = compute_amount(kept.currency, epsilon, session.delta)
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
            return (
                min(compute_cost(Pure(), here)[0], epsilon_from_zcdp(compute_cost(Zcdp(), here)[0], self.certified_delta))
                <= limit
            )

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
        return Cost(self.event, self.terms.delta, self.terms.currency, self.charge, self.session.account.budget.remaining)

    def scale_to_budget(self, limit: Fraction) -> "WorkloadPlan":
        """The same plan with every noise larger or smaller by one factor, so that it costs `most`."""

        def scaled(noise: float) -> WorkloadPlan:
            return replace(self, noises=tuple(part.divide_noise(1 / noise) for part in self.noises))

        def loss(noise: float) -> Composition:
            return scaled(noise).event

        return scaled(self.terms.find_noise_factor(loss, limit, self.terms.estimate_noise_factor(loss, limit)))


def plan_workload(workload: Workload) -> WorkloadPlan:
    """Open the source and the account, and find the prices. Whatever can be refused is refused here, unpaid.

    >>> from discreet.publisher import WorkloadQuery
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
    curve, pure = terms.certified_delta > 0, isinstance(terms.currency, Pure)
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
        return compute_cost(judge, part.measurement.event)[0]

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
        power = 1 if isinstance(currency, Pure) else 0.5  # ε is proportional to 1/scale; ρ, μ² and divergences to its square
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
