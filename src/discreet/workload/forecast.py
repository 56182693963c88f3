"""What a plan buys at three budgets: half-widths, and how many cells would be reliable. From given sizes, never the data.

What a cell's value will be is not known, so it is taken as that of rows whose values lie evenly over their declared range:
so many rows have a sum of so many times the middle of it. It is a guess for planning, and says so.
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
"""For how many rows an average's half-width is stated where no size is given."""


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """One column of one question at one budget."""

    question: str
    column: str
    half_width: float
    unit: str
    size: int | None  # the rows that the half-width is for; None where it depends on none
    cells: int | None  # how many there will be; None where the keys are unknown
    reliable: int | None  # how many of them would be reliable; None where no size is given

    def to_dict(self) -> dict[str, Any]:
        """In plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What so much of the price buys."""

    share: Fraction  # of the plan's own price
    epsilon: float  # at the plan's δ, certified, rounded up
    columns: tuple[ForecastRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """In plain values."""
        lines = [line.to_dict() for line in self.columns]
        return {"share": float(self.share), "epsilon": to_json_number(self.epsilon), "columns": lines}


def forecast_budgets(solved: WorkloadPlan) -> tuple[Forecast, ...]:
    """Half the price, the price, and twice the price, shared out in the same way."""
    return tuple(
        _forecast_share(solved if share == 1 else solved.scale_to_budget(solved.charge * share), share)
        for share in BUDGET_SHARES
    )


def _forecast_share(solved: WorkloadPlan, share: Fraction) -> Forecast:
    epsilon = certified_epsilon(solved.event, solved.terms.delta).upper
    return Forecast(share, epsilon, tuple(_forecast_column(solved, piece) for piece in solved.columns))


def _forecast_column(solved: WorkloadPlan, column: WorkloadColumn) -> ForecastRow:
    measurement, confidence = solved.measurements[column.query_index], check_confidence(solved.workload.confidence)
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
    """Whether a cell over so many rows, spread evenly over the declared range, would have a reliable value: a half-width of
    at most a tenth of it and, for averages and quantiles, an interval of at most a quarter of the range and a count of rows
    that is reliable itself."""
    [(_, aggregate)] = column.bounded.query.aggregates
    half_width = measurement.predict(column.name, confidence, (size,)).half_widths[0][1]
    count_error = aggregate.row_count_error(measurement.statistic_noise(confidence))
    limits = aggregate.half_width_limits(column.bounded.table, size)
    return half_width <= min(limits) and (count_error is None or is_reliable_count(size, count_error))
