"""The forecast of a plan at three budgets: half-widths, and how many estimates would be reliable. No data is read.

The values themselves are not known. They are taken as those of rows whose values are spread evenly over their declared
bounds, so that n rows have a sum of n times the middle. The forecast is for planning only, and is labelled as such.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet._numbers import check_confidence
from discreet.accounting.currencies import certified_epsilon, to_json_number
from discreet.query.calibrate import Measurement
from discreet.query.estimates import is_reliable_count
from discreet.workload.planning import WorkloadColumn, WorkloadPlan

BUDGET_SHARES = (Fraction(1, 2), Fraction(1), Fraction(2))
DEFAULT_SIZE = 1_000
"""The number of rows for which the half-width of an average is stated where no size is given."""


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """One column of one query at one budget."""

    query: str
    column: str
    half_width: float
    unit: str
    size: int | None  # the number of rows that the half-width is for; None where it does not depend on it
    cells: int | None  # how many estimates there are; None where the keys are not declared
    reliable: int | None  # how many of them would be reliable; None where no size is given

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a share of the plan's cost buys."""

    share: Fraction  # of the plan's own cost
    epsilon: float  # at the plan's δ, certified, rounded up
    columns: tuple[ForecastRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        columns = [row.to_dict() for row in self.columns]
        return {"share": float(self.share), "epsilon": to_json_number(self.epsilon), "columns": columns}


def forecast_budgets(plan: WorkloadPlan) -> tuple[Forecast, ...]:
    """Forecast half the cost, the cost and twice the cost of a plan, divided over its columns in the same way."""
    return tuple(
        _forecast_share(plan if share == 1 else plan.scale_to_budget(plan.charge * share), share) for share in BUDGET_SHARES
    )


def _forecast_share(plan: WorkloadPlan, share: Fraction) -> Forecast:
    epsilon = certified_epsilon(plan.event, plan.terms.delta).upper
    return Forecast(share, epsilon, tuple(_forecast_column(plan, column) for column in plan.columns))


def _forecast_column(plan: WorkloadPlan, column: WorkloadColumn) -> ForecastRow:
    measurement, confidence = plan.measurements[column.query_index], check_confidence(plan.workload.confidence)
    aggregate, sizes = column.bounded.query.aggregates[0][1], column.query.sizes
    accuracy = measurement.predict(column.name, confidence, (min(sizes, default=DEFAULT_SIZE),))
    size, half_width = accuracy.half_widths[0]
    width, keys = len(column.bounded.columns), column.bounded.keys
    groups = len(sizes) if keys is None else len(keys)
    each = sizes * groups if len(sizes) == 1 else sizes
    reliable = sum(width * predict_reliable(measurement, column, n, confidence) for n in each) if sizes else None
    size = size if aggregate.depends_on_size else None
    return ForecastRow(column.query.name, column.name, half_width, accuracy.unit, size, groups * width or None, reliable)


def predict_reliable(measurement: Measurement, column: WorkloadColumn, size: int, confidence: float) -> bool:
    """Predict whether an estimate over so many rows, spread evenly over the declared bounds, would be reliable.

    Its half-width must be at most a tenth of the value and, for averages and quantiles, its interval at most a quarter of
    the bounds and the count of rows reliable itself.
    """
    [(_, aggregate)] = column.bounded.query.aggregates
    half_width = measurement.predict(column.name, confidence, (size,)).half_widths[0][1]
    count_error = aggregate.row_count_error(measurement.statistic_noise(confidence))
    limits = aggregate.half_width_limits(column.bounded.table, size)
    return half_width <= min(limits) and (count_error is None or is_reliable_count(size, count_error))
