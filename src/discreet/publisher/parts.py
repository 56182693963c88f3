"""The columns of a workload one by one: what each is by itself, and with how much noise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.accounting.filters import Currency
from discreet.accounting.search import smallest_where
from discreet.accuracy import MAX_EPSILON
from discreet.errors import BadParameter, QueryRefused
from discreet.exact import Number, read_positive
from discreet.mechanisms import Gaussian, Laplace, Threshold
from discreet.mechanisms.quantile import check_confidence
from discreet.pricing import AccuracyTarget
from discreet.publisher.refusals import prefix_errors
from discreet.publisher.workload import WorkloadQuery
from discreet.query.bound import BoundedQuery
from discreet.query.measure import COMPARISON_CONFIDENCE, Measurement, Noise, calibrate_query, check_scale
from discreet.query.measures import Statistic, statistics_of
from discreet.session import Session
from discreet.units import Sensitivity

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
