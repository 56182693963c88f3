"""The noise of all tables of a tabulation, found together, at one cost. No row is read.

**Theory of operation.** `allocation` divides a budget over the tables that may be measured: the wanted ones and those that
they contain. Only the proportions count, so one factor on all standard deviations is left. It is the least at which the
whole costs what the account may pay: a point of the certified curve, or an amount of its currency (`session/charging.py`).
With wanted errors it is the largest at which every half-width is within its error.

Each table that is measured gets independent noise on all of its cells, of the law that has the narrower intervals at its σ
(`intervals.choose_noise`). Where units are added or removed, it may be the contrast of a table over its binary columns that
is measured in its place; where a unit is replaced, contrasts have another sensitivity, and whole tables alone are measured
(`_allows_contrasts`). σ is rounded up to a short decimal, which costs a little less than the budget, and can be copied into
a paper.

All noise is Gaussian: a budget of pure ε without δ cannot pay for it, and is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from discreet._numbers import (
    Number,
    ceil_digits,
    check_confidence,
    format_down,
    format_up,
    largest_where,
    read_positive,
)
from discreet.accounting.currencies import smallest_epsilon
from discreet.errors import BadParameter, QueryRefused
from discreet.events import Composition
from discreet.query.answer import IntervalOptions
from discreet.query.calibrate import explain_raised_epsilon
from discreet.session.charging import MAX_NOISE_FACTOR, ChargeTerms
from discreet.session.executor import SEEDED, Execution, RunOptions
from discreet.session.session import Session
from discreet.tabulation.allocation import Allocation, allocate, allocate_for_errors
from discreet.tabulation.intervals import CountNoise, ErrorModel, NoiseParts, choose_noise
from discreet.tabulation.margins import Contrast, Ints, Margin, Measured, axes_of, columns_of, count_cells
from discreet.tabulation.measuring import TabulationJob, make_event, measured_to_json, noise_to_json
from discreet.tabulation.priced_plan import PricedPlan
from discreet.tabulation.wanted import TablesLike, WantedTables, read_wanted
from discreet.units import Neighbours

SIGMA_DIGITS = 5
"""Digits of a σ."""

MIN_CONTINUOUS_SIGMA = 1
"""Below it the variance of the discrete Gaussian is far less than σ², which is what the allocation divides: then plans with
and without contrasts are compared by the variances that they have."""

MAX_WEIGHT_RATIO = 10**6
"""A table whose weight is further below the largest is named: its noise is about a thousand times as large."""

MAX_MEASURED_CELLS = 10_000_000
"""Cells of all measured tables together, which are held in memory and recorded; and of each table that a contrast is of."""


@dataclass(frozen=True)
class TabulationPlan(PricedPlan):
    """A tabulation with its noise and its cost: all that is known before it is charged."""

    session: Session
    wanted: WantedTables
    noises: Mapping[Measured, CountNoise]  # of each table or contrast that is measured
    terms: ChargeTerms
    confidence: float
    allocation: Allocation
    is_raised: bool = False  # the wanted errors need less than the policy's least ε, which is what the plan costs

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many keys each column has."""
        return self.wanted.bounded.keys.sizes

    @cached_property
    def event(self) -> Composition:
        """What will have happened once the tables are measured."""
        return make_event(self.wanted.bounded, self.noises)

    @cached_property
    def errors(self) -> ErrorModel:
        """The noise in every cell of every table."""
        return ErrorModel(self.sizes, self.noises)

    def parts(self, margin: Margin) -> NoiseParts:
        """Return the noise in each cell of a table, in steps of the grid."""
        return self.errors.parts(margin)

    def half_width(self, margin: Margin) -> float:
        """Return the half-width of the interval of each cell of a table, in steps of the grid."""
        return self.parts(margin).half_width(self.confidence)

    @property
    def step(self) -> Fraction:
        """What one step of the grid is worth: 1 for counts."""
        return self.wanted.bounded.step

    def list_notes(self) -> tuple[str, ...]:
        """What is not declared about the source, why the cost is another ε than was asked for, and what the budget does not
        promise: as for a query."""
        asked = self.terms.asked if self.wanted.tables[0].error is None else None
        raised = [explain_raised_epsilon(self.session.table.least_epsilon)] if self.is_raised else []
        notes = self.session.list_plan_notes(self.cost, asked, "these tables together", grouped=bool(self.wanted.columns))
        return (*raised, *self._warn_of_weights(), *notes)

    def _warn_of_weights(self) -> list[str]:
        """Name tables that get next to nothing of the budget because of their weight."""
        weights = {table.name: read_positive(table.weight, "weight") for table in self.wanted.tables}
        if self.wanted.tables[0].error is not None or min(weights.values()) * MAX_WEIGHT_RATIO >= max(weights.values()):
            return []
        light = [name for name, weight in weights.items() if weight * MAX_WEIGHT_RATIO < max(weights.values())]
        return [f"The weight of {', '.join(light)} is so small beside the largest that its cells hold little but noise."]

    def describe(self) -> dict[str, Any]:
        """Return everything that decides what is measured, as plain values."""
        measured = [{**measured_to_json(each), **noise_to_json(noise)} for each, noise in self.noises.items()]
        return self.session.executor.describe_bounded(self.wanted.bounded) | {"measured": measured}

    def execute(self, options: RunOptions) -> Execution[dict[Measured, Ints]]:
        """Charge the account once, and measure all tables; or return what was recorded for the same plan."""
        spec = self.describe() | SEEDED[options.tainted]
        job = TabulationJob(self.wanted.bounded, self.noises, self.event, spec, self.terms.certified_delta)
        return self.session.executor.execute(job, options, IntervalOptions(self.confidence))


def plan_tabulation(
    session: Session,
    tables: TablesLike,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    weight: str | None = None,
    confidence: Number = 0.95,
) -> TabulationPlan:
    """Find the noise of all tables together. Nothing is charged and no row is read.

    `tables`, `columns`, `where` and `weight` are those of `read_wanted`. `epsilon` is the most that all of it may cost; it
    may be left out if every table has an error. `delta` is the δ of the certified point that an account of pure ε is
    charged: unless given, as large a share of the account's δ as `epsilon` is of its ε.
    """
    if not isinstance(session, Session):
        raise BadParameter(
            "session", f"of type {type(session).__name__}", "tables are tabulated where the rows are",
            "give what connect() returns for a file or a database; a service does not tabulate",
        )  # fmt: skip
    wanted = read_wanted(session, tables, columns=columns, where=where, weight=weight)
    level = check_confidence(confidence)
    terms = _make_terms(session, epsilon, delta, wanted)
    plan = _plan_by_errors if wanted.tables[0].error is not None else _plan_by_weights
    return plan(session, wanted, terms, level)


def _make_terms(session: Session, epsilon: Number | None, delta: Number | None, wanted: WantedTables) -> ChargeTerms:
    if epsilon is None:
        if wanted.tables[0].error is None:
            raise BadParameter("epsilon", "missing", "no table has an error", "give epsilon=, or an error for every table")
        epsilon = session.remaining.epsilon
    return ChargeTerms.of_gaussian(session, epsilon, delta, "a tabulation")


def _plan_by_weights(session: Session, wanted: WantedTables, terms: ChargeTerms, confidence: float) -> TabulationPlan:
    """The least weighted variance that the budget buys."""
    sizes = wanted.bounded.keys.sizes
    weights: dict[Margin, float] = {}
    for margin, table in zip(wanted.margins, wanted.tables, strict=True):
        weights[margin] = weights.get(margin, 0.0) + float(read_positive(table.weight, "weight"))

    def make_plan(*, contrasts: bool) -> TabulationPlan:
        allocation = allocate(sizes, weights, contrasts=contrasts)
        _check_cells(sizes, allocation)
        factor = _find_factor(wanted, allocation, terms)
        noises = _scale_noises(allocation, factor, SIGMA_DIGITS)
        return TabulationPlan(session, wanted, noises, terms, confidence, allocation)

    plan = make_plan(contrasts=_allows_contrasts(wanted))
    has_contrasts = any(isinstance(measured, Contrast) for measured in plan.noises)
    if has_contrasts and any(noise.sigma < MIN_CONTINUOUS_SIGMA for noise in plan.noises.values()):

        def sum_variances(each: TabulationPlan) -> float:
            return sum(
                weight * count_cells(sizes, margin) * each.parts(margin).variance for margin, weight in weights.items()
            )

        plan = min(plan, make_plan(contrasts=False), key=sum_variances)
    return plan


def _find_factor(wanted: WantedTables, allocation: Allocation, terms: ChargeTerms) -> float:
    """The least factor on all σ at which the budget pays for the tables."""

    def event_at(factor: float) -> Composition:
        return make_event(wanted.bounded, _scale_noises(allocation, factor))

    factor = terms.find_noise_factor(event_at, terms.limit, terms.estimate_noise_factor(event_at, terms.limit))
    if not factor < MAX_NOISE_FACTOR:
        raise QueryRefused(
            f"ε = {format_up(terms.asked or terms.limit, 3)} is too small for these tables",
            "raise epsilon, or tabulate fewer columns",
        )
    return factor


def _plan_by_errors(session: Session, wanted: WantedTables, terms: ChargeTerms, confidence: float) -> TabulationPlan:
    """The least cost at which every half-width is within its error."""
    sizes, step = wanted.bounded.keys.sizes, wanted.bounded.step
    errors: dict[Margin, float] = {}
    for margin, table in zip(wanted.margins, wanted.tables, strict=True):
        assert table.error is not None
        errors[margin] = min(errors.get(margin, float("inf")), float(read_positive(table.error, "error") / step))
    kinds = (True, False) if _allows_contrasts(wanted) else (False,)
    found = [
        TabulationPlan(session, wanted, noises, terms, confidence, allocation)
        for contrasts in kinds
        for allocation, noises in _list_noises_for_errors(sizes, errors, confidence, contrasts=contrasts)
    ]
    if not found:
        raise QueryRefused("No noise that can be drawn makes the errors this small", "allow larger errors")
    plan = min(found, key=lambda each: each.charge)
    if not plan.fits:
        limit = terms.limit
        given = limit if terms.currency.counts_epsilon else smallest_epsilon(terms.currency, limit, terms.delta)
        raise QueryRefused(
            f"The errors cost ε = {format_up(plan.sufficient_epsilon, 3)}, and ε = {format_down(given, 3)} is given",
            "allow larger errors, or raise epsilon",
        )
    return plan


def _list_noises_for_errors(
    sizes: tuple[int, ...], errors: Mapping[Margin, float], confidence: float, *, contrasts: bool
) -> Iterator[tuple[Allocation, dict[Measured, CountNoise]]]:
    """Yield allocations with the largest noise at which every half-width is within its error.

    A half-width is not in proportion to the standard deviation: noise that was rounded, or is discrete, is wider by a
    little, which differs by table. So the first allocation, for equal proportions, is followed by one for those that it
    had.
    """
    unit = NoiseParts(1.0, 1.0, 0.0, 0.0).half_width(confidence)
    variances = {margin: (error / unit) ** 2 for margin, error in errors.items()}
    for _ in range(2):
        allocation = allocate_for_errors(sizes, variances, contrasts=contrasts)
        _check_cells(sizes, allocation)

        def meets(factor: float, tried: Allocation = allocation) -> bool:
            model = ErrorModel(sizes, _scale_noises(tried, factor, SIGMA_DIGITS))
            return all(model.parts(margin).half_width(confidence) <= error for margin, error in errors.items())

        factor = largest_where(meets)
        if not factor > 0:
            return
        noises = _scale_noises(allocation, factor, SIGMA_DIGITS)
        yield allocation, noises
        parts = {margin: ErrorModel(sizes, noises).parts(margin) for margin in errors}
        variances = {  # Σ l²σ², as the allocation counts, and not the variance of the integers
            margin: (each.rounded_variance + each.discrete_variance) * (errors[margin] / each.half_width(confidence)) ** 2
            for margin, each in parts.items()
        }


def _allows_contrasts(wanted: WantedTables) -> bool:
    """Whether the precision of a contrast costs what that of the whole table costs; the proofs are in `query/cells.py`.

    It does where one unit is added or removed, unless the table is the finest and a unit may be in several of its cells:
    that table costs less than all others, and than its contrast.
    """
    bounded, columns = wanted.bounded, len(wanted.columns)
    has_cheaper_table = bounded.max_groups > 1 and any(len(margin) == columns for margin in wanted.margins)
    return bounded.neighbours is Neighbours.ADD_REMOVE and not has_cheaper_table


def _scale_noises(allocation: Allocation, factor: float, digits: int | None = None) -> dict[Measured, CountNoise]:
    """The noise of each table at a factor on all σ; rounded up to so many digits, if they are given."""
    scaled = {margin: Fraction(factor * each**-0.5) for margin, each in allocation.precisions.items()}
    return {
        margin: choose_noise(sigma if digits is None else ceil_digits(sigma, digits)) for margin, sigma in scaled.items()
    }


def _check_cells(sizes: tuple[int, ...], allocation: Allocation) -> None:
    cells = sum(count_cells(sizes, axes_of(measured)) for measured in allocation.precisions)
    cells = max(cells, *(count_cells(sizes, columns_of(measured)) for measured in allocation.precisions))
    if cells > MAX_MEASURED_CELLS:
        raise QueryRefused(
            f"The measured tables have {cells:,} cells, and at most {MAX_MEASURED_CELLS:,} are recorded",
            "want tables of fewer columns, or of fewer keys",
        )
