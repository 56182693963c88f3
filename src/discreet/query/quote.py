"""What a question would cost and how good its answer would be, said before anything is paid or any row is read.

The error of counts and sums is known outright. That of an average depends on how many rows it is taken over, which is
private; so it is stated for a size that is given, or for a few.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import Any, assert_never

from discreet import formats
from discreet._numbers import ceil_float, check_int, format_down, format_rational, nearest_float, sqrt_up
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import CurrencyCost, compare_costs
from discreet.errors import BadParameter
from discreet.events import Composition
from discreet.mechanisms import Laplace
from discreet.mechanisms._tail_bounds import check_confidence, read_confidence
from discreet.query import ast
from discreet.query.answer import explain_sensitivity
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery
from discreet.query.estimates import Average, QuantileEstimator
from discreet.query.statistics import CellCounts, CentredSum, Statistic, statistic_name, statistics_of

DEFAULT_SIZES = (100, 1_000, 10_000)
MAX_SIZE = 10**15


@dataclass(frozen=True, slots=True)
class ColumnAccuracy:
    """One column of the answer: its noise, and its half-width outright (`size` None) or over so many rows."""

    column: str
    noises: tuple[tuple[str, str], ...]  # the totals it is made of, and the noise of each
    half_widths: tuple[tuple[int | None, float], ...]
    relative_to: tuple[tuple[int | None, float], ...]  # what an error in percent is a percentage of
    unit: str = ""  # of the half-widths, if not the column's own

    def to_dict(self) -> dict[str, Any]:
        """In plain values."""
        return {
            "column": self.column,
            "noise": [{"total": total, "mechanism": noise} for total, noise in self.noises],
            "half_width": [{"size": size, "value": half} for size, half in self.half_widths],
            "unit": self.unit,
        }


@dataclass(frozen=True, slots=True)
class Quote:
    """What `Session.quote` returns."""

    query_text: str
    cost: Cost
    event: Composition
    confidence: float
    columns: tuple[ColumnAccuracy, ...]
    selection: str | None  # how unknown keys are found
    explanation: str
    notes: tuple[str, ...]

    @property
    def costs(self) -> tuple[CurrencyCost, ...]:
        """The price in every currency. Found when it is first asked for: some readings are searched."""
        return compare_costs(self.event, self.cost.delta)

    def to_dict(self) -> dict[str, Any]:
        """Price, noise and half-width per column, in plain values."""
        return {
            "question": self.query_text,
            "cost": self.cost.to_dict(),
            "costs": {reading.name: reading.to_dict() for reading in self.costs},
            "confidence": float(self.confidence),
            "columns": [promise.to_dict() for promise in self.columns],
            "selection": self.selection,
            "explanation": self.explanation,
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return formats.to_json(self.to_dict())

    def __rich__(self) -> Any:
        header, lines = self._format_table()
        return formats.add_rich_notes(formats.make_rich_table(None, header, lines, left=2), self._footnotes())

    def _repr_html_(self) -> str:
        return formats.make_html_table(*self._format_table(), self._footnotes())

    def _format_table(self) -> tuple[list[str], list[formats.TableRow]]:
        sized = any(size is not None for promise in self.columns for size, _ in promise.half_widths)
        header = ["column", "noise", *(["size"] if sized else []), f"± at {format_down(float(self.confidence))}"]
        return header, [line for promise in self.columns for line in _format_lines(promise, sized)]

    def _footnotes(self) -> list[str]:
        everywhere = f"The same in every currency: {', '.join(map(str, self.costs))}."
        selection = [self.selection] if self.selection else []
        return [str(self.cost), everywhere, self.explanation, *selection, *self.notes]


def quote(
    measurement: Measurement,
    cost: Cost,
    *,
    query_text: str,
    confidence: float = 0.95,
    size: int | None = None,
    notes: tuple[str, ...] = (),
) -> Quote:
    """Everything that can be said of a measurement before it is paid for."""
    confidence = check_confidence(confidence)
    sizes = DEFAULT_SIZES if size is None else (check_size(size),)
    promises = tuple(
        predict_accuracy(measurement, name, confidence, sizes) for name, _ in measurement.bounded.query.aggregates
    )
    selection, explanation = _explain_selection(measurement, confidence), explain_sensitivity(measurement.bounded)
    return Quote(query_text, cost, measurement.event, confidence, promises, selection, explanation, notes)


def check_size(size: int) -> int:
    """A number of rows that an answer may rest on."""
    if check_int(size, "size", 1) > MAX_SIZE:
        raise BadParameter(
            "size", format_rational(Fraction(size)), "no group has so many rows", f"give at most {MAX_SIZE:,}"
        )
    return int(size)


def predict_accuracy(measurement: Measurement, name: str, confidence: float, sizes: tuple[int, ...]) -> ColumnAccuracy:
    """The noise and the half-widths of one column."""
    bounded = measurement.bounded
    aggregate = dict(bounded.query.aggregates)[name]
    measures = statistics_of(aggregate, bounded.table)
    off = [int(measurement.noise(measure).error(confidence, len(measures))) for measure in measures]
    noises = tuple((statistic_name(measure), _format_noise(measurement, measure)) for measure in measures)
    plain = tuple((None, size) for size in sizes)
    match aggregate:
        case ast.CountRows() | ast.CountUnits() | ast.CountValues():
            return ColumnAccuracy(name, noises, ((None, float(off[0])),), tuple((size, float(size)) for _, size in plain))
        case ast.Sum(value=value):
            span = bounded.grid_range(CentredSum(value, 0))
            half, most = ceil_float(off[0] * span.grid), max(span.magnitude, 1) * span.grid
            return ColumnAccuracy(name, noises, ((None, half),), tuple((size, ceil_float(size * most)) for size in sizes))
        case ast.Mean(value=value):
            average = Average.of(value, bounded)
            halves = tuple((size, ceil_float(average.mean_half_width(size, off[0], off[1]))) for size in sizes)
            return ColumnAccuracy(name, noises, halves, ((None, ceil_float(_value_range(value, bounded))),))
        case ast.Variance(value=value, root=root):
            average = Average.of(value, bounded)
            errors = [(size, average.variance_half_width(size, off[0], off[1], off[2])) for size in sizes]
            halves = tuple((size, ceil_float(sqrt_up(error) if root else error)) for size, error in errors)
            most = _value_range(value, bounded) / 2
            return ColumnAccuracy(name, noises, halves, ((None, ceil_float(most if root else most**2)),))
        case ast.Histogram():
            return ColumnAccuracy(name, noises, ((None, float(off[0])),), tuple((size, float(size)) for _, size in plain))
        case ast.Quantile(q=q):
            rank = QuantileEstimator(_require_cell_counts(measures[0]), q).rank_error(
                measurement.noise(measures[0]), float(confidence)
            )
            shares = tuple((size, min(1.0, rank / size)) for size in sizes)
            return ColumnAccuracy(name, noises, shares, ((None, 1.0),), unit="of the rows")
        case _:
            assert_never(aggregate)


def _require_cell_counts(statistic: Statistic) -> CellCounts:
    assert isinstance(statistic, CellCounts)
    return statistic


def depends_on_size(aggregate: ast.Aggregate) -> bool:
    """Whether the error of a column depends on how many rows it is taken over."""
    return isinstance(aggregate, ast.Mean | ast.Variance | ast.Quantile)


def row_count_error(measurement: Measurement, aggregate: ast.Aggregate, confidence: float) -> float | None:
    """How far the noisy count of rows behind an average, a variance or a quantile may be off; None for other aggregates."""
    measures = statistics_of(aggregate, measurement.bounded.table)
    noise = measurement.noise(measures[-1])
    match aggregate:
        case ast.Mean() | ast.Variance():
            return noise.error(confidence, len(measures))
        case ast.Quantile(q=q):
            return QuantileEstimator(_require_cell_counts(measures[-1]), q).size_error(
                noise, float((1 - read_confidence(confidence)) / 2)
            )
        case _:
            return None


def error_ratio(accuracy: ColumnAccuracy, error: Fraction, *, relative: bool) -> Fraction | float:
    """How many times the allowed error the half-width is: as it is, or as a share of what the column is relative to."""
    half = max(value for _, value in accuracy.half_widths)
    allowed = error * (Fraction(min(value for _, value in accuracy.relative_to)) if relative else 1)
    return Fraction(half) / allowed if isfinite(half) else inf


def _format_noise(measurement: Measurement, statistic: Statistic) -> str:
    """The mechanism, in the column's own units: the noise itself counts grid steps."""
    noise = measurement.noise(statistic)
    grid = (
        measurement.bounded.grid_range(statistic).grid ** statistic.power
        if isinstance(statistic, CentredSum)
        else Fraction(1)
    )
    if isinstance(noise, Laplace):
        return f"Laplace(scale={nearest_float(noise.scale * grid):.6g})"
    return f"Gaussian(sigma={nearest_float(noise.sigma * grid):.6g})"


def describe_noise(measurement: Measurement) -> tuple[str, ...]:
    """What was added to each exact total, one line each."""
    names: dict[Statistic, str] = {measure: f"total{i}" for i, measure in enumerate(measurement.bounded.scalars)}
    lines = [
        f"{names.get(m, 'counts')}: {statistic_name(m)} + {_format_noise(measurement, m)}" for m, _ in measurement.noises
    ]
    rule = measurement.selection
    chosen = [] if rule is None else [f"keys: shown if units + Laplace noise reaches {rule.threshold}"]
    return (*lines, *chosen)


def _value_range(value: ast.Value, bounded: BoundedQuery) -> Fraction:
    span = bounded.grid_range(CentredSum(value, 0))
    return max(span.upper - span.lower, 1) * span.grid


def _explain_selection(measurement: Measurement, confidence: float) -> str | None:
    rule = measurement.selection
    if rule is None:
        return None
    enough = rule.error(confidence) if confidence >= 0.5 else float(rule.threshold)
    return (
        f"Keys are not known: one is shown if its noisy number of units reaches {rule.threshold}; "
        f"a key with {enough:.0f} units is shown with probability at least {format_down(max(float(confidence), 0.5))}."
    )


def _format_lines(accuracy: ColumnAccuracy, sized: bool) -> list[formats.TableRow]:
    noise = tuple(f"{total}: {mechanism}" for total, mechanism in accuracy.noises)
    lines: list[formats.TableRow] = []
    for i, (size, half) in enumerate(accuracy.half_widths):
        first: list[str | tuple[str, ...]] = [accuracy.column, noise] if i == 0 else ["", ""]
        lines.append(
            [*first, *(["" if size is None else f"{size:,} rows"] if sized else []), f"{half:,.6g} {accuracy.unit}".rstrip()]
        )
    return lines
