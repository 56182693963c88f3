"""From exact integers to an answer that may be published: noise, intervals, and the words that explain them.

Intervals cover the *bounded* total: what the question adds up after clamping, rounding to the grid and capping each
unit's share. They say nothing about rows that the bounds left out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from discreet.loss import Composition
from discreet.noise import SYSTEM, Bits
from discreet.query import plan
from discreet.query.bound import Bounded, Measure, Rows, Total, Units, Values, centre_of
from discreet.query.measure import Measurement
from discreet.query.table import Key

Totals = Iterable[tuple[tuple[int, ...], tuple[Key, ...]]]
RELIABLE = 0.1


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a measurement was paid for. Only an account makes one."""

    entry: int
    loss: Composition


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of the answer with its interval. `reliable`: the half-width is at most a tenth of the noisy value."""

    value: float
    lower: float
    upper: float

    @property
    def reliable(self) -> bool:
        return self.upper - self.lower <= 2 * RELIABLE * abs(self.value)


@dataclass(frozen=True, slots=True)
class Release:
    """An answer: one row per group, each with its keys and its cells."""

    groups: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[Key, ...], tuple[Cell, ...]], ...]
    confidence: float
    loss: Composition
    explanation: str
    tainted: bool


def release(
    measurement: Measurement, totals: Totals, receipt: Receipt, *, confidence: float = 0.95, bits: Bits | None = None
) -> Release:
    """Add the noise that was paid for."""
    if receipt.loss != measurement.loss:
        raise AssertionError("this receipt is for another measurement")
    bounded, source = measurement.bounded, bits or SYSTEM
    keys, exact = _table(measurement, totals, source)
    noisy = {m: noise.release(exact[:, i], source) for i, (m, noise) in enumerate(measurement.noises)}
    columns = [_cells(aggregate, measurement, noisy, confidence) for _, aggregate in bounded.query.aggregates]
    rows = tuple((key, tuple(column(i) for column in columns)) for i, key in enumerate(keys))
    return Release(
        tuple(group.name for group in bounded.query.groups),
        tuple(name for name, _ in bounded.query.aggregates),
        rows,
        confidence,
        measurement.loss,
        explain(bounded),
        source.tainted,
    )


def _table(measurement: Measurement, totals: Totals, source: Bits) -> tuple[list[tuple[Key, ...]], NDArray[np.int64]]:
    """Known keys all appear, also with nothing in them; unknown ones only if the selection shows them."""
    bounded, width = measurement.bounded, len(measurement.bounded.measures)
    found = {key: row for row, key in totals}
    if bounded.keys is not None:
        keys = list(bounded.keys)
        rows = [found.get(key, (0,) * width) for key in keys]
    else:
        assert measurement.selection is not None
        keys = sorted(found, key=repr)  # an order that the number of rows has no part in
        units = np.array([found[key][-1] for key in keys], np.int64)
        shown = measurement.selection.release(units, source)
        keys = [key for key, kept in zip(keys, shown, strict=True) if kept]
        rows = [found[key][:width] for key in keys]
    return keys, np.array(rows, np.int64).reshape(len(keys), width)


Column = Callable[[int], Cell]


def _cells(aggregate: plan.Aggregate, measurement: Measurement, noisy: dict[Measure, Any], confidence: float) -> Column:
    bounded = measurement.bounded

    def interval(measure: Measure, sure: float) -> tuple[NDArray[np.float64], float]:
        return np.asarray(noisy[measure], np.float64), measurement.noise(measure).error(sure)

    match aggregate:
        case plan.CountRows():
            return _plain(*interval(Rows(), confidence), 1.0)
        case plan.CountUnits():
            return _plain(*interval(Units(), confidence), 1.0)
        case plan.CountValues(value=value):
            return _plain(*interval(Values(value), confidence), 1.0)
        case plan.Sum(value=value):
            return _plain(*interval(Total(value, 0), confidence), float(bounded.span(Total(value, 0)).grid))
        case plan.Mean(value=value):
            return _mean(value, bounded, lambda m: interval(m, 1 - (1 - confidence) / 2))
        case plan.Variance(value=value, root=root):
            return _variance(value, bounded, root, lambda m: interval(m, 1 - (1 - confidence) / 3))
        case plan.Quantile() | plan.Histogram():
            raise AssertionError("bound() refuses these")
        case _:
            assert_never(aggregate)


def _plain(values: NDArray[np.float64], half: float, grid: float) -> Column:
    return lambda i: Cell(values[i] * grid, (values[i] - half) * grid, (values[i] + half) * grid)


Intervals = Callable[[Measure], tuple[NDArray[np.float64], float]]


def _mean(value: plan.Value, bounded: Bounded, interval: Intervals) -> Column:
    """centre + sum/count, clamped to the declared range; the interval is that of all sums and counts inside their own."""
    middle = centre_of(value, bounded.table)
    span = bounded.span(Total(value, middle))
    (sums, half_sum), (counts, half_count) = interval(Total(value, middle)), interval(Values(value))
    grid = float(span.grid)

    def inside(x: float) -> float:
        return min(max(x, span.lower), span.upper) * grid

    def cell(i: int) -> Cell:
        least, most = max(1.0, counts[i] - half_count), max(1.0, counts[i] + half_count)
        low, high = sums[i] - half_sum, sums[i] + half_sum
        ratios = [total / count for total in (low, high) for count in (least, most)]
        return Cell(
            inside(middle + sums[i] / max(1.0, counts[i])), inside(middle + min(ratios)), inside(middle + max(ratios))
        )

    return cell


def _variance(value: plan.Value, bounded: Bounded, root: bool, interval: Intervals) -> Column:
    """E(x − c)² − (E(x − c))², at least 0 and at most a quarter of the range squared."""
    middle = centre_of(value, bounded.table)
    span = bounded.span(Total(value, middle))
    parts = [interval(m) for m in (Total(value, middle), Total(value, middle, 2), Values(value))]
    (sums, half_sum), (squares, half_square), (counts, half_count) = parts
    grid, most = float(span.grid), (span.upper - span.lower) ** 2 / 4

    def shown(x: float) -> float:
        inside = min(max(x, 0.0), most) * grid**2
        return sqrt(inside) if root else inside

    def cell(i: int) -> Cell:
        n, fewest, many = (max(1.0, counts[i] + move) for move in (0, -half_count, half_count))
        means = [(sums[i] + a) / c for a in (-half_sum, half_sum) for c in (fewest, many)]
        second = [(squares[i] + a) / c for a in (-half_square, half_square) for c in (fewest, many)]
        nearest = 0.0 if min(means) <= 0 <= max(means) else min(m * m for m in means)
        low, high = min(second) - max(m * m for m in means), max(second) - nearest
        return Cell(shown(squares[i] / n - (sums[i] / n) ** 2), shown(low), shown(high))

    return cell


def explain(bounded: Bounded) -> str:
    """What one unit can do, in words."""
    rows = "1 row" if bounded.rows == 1 else f"{bounded.rows} rows"
    where = f"at most {bounded.groups} group{'s' * (bounded.groups > 1)} by {rows} each" if bounded.query.groups else rows
    change = "Adding or removing" if bounded.neighbours.changes == 1 else "Replacing"
    return (
        f"{change} one {bounded.table.unit} can change {where}; values are clamped to their declared bounds. "
        "Intervals cover the bounded total."
    )
