"""From exact integers to an answer that may be published: noise, intervals, and the words that explain them.

Intervals cover the *bounded* total: what the question adds up after clamping, rounding to the grid and capping each unit's
share. They say nothing about rows that the bounds left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import formats
from discreet._numbers import Number, format_down
from discreet.accounting.cost import Cost
from discreet.events import Composition, compose
from discreet.mechanisms._tail_bounds import check_confidence
from discreet.noise import SYSTEM, Bits
from discreet.query import ast, postprocess
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery
from discreet.query.estimates import (
    Estimate,
    NoisyStatistics,
    column_names,
    estimate,
    is_count,
    lower_limit_of,
    sum_tree_levels,
)
from discreet.query.schema import Key
from discreet.query.statistics import CellCounts
from discreet.query.validate import INTERVAL_SUFFIXES
from discreet.units import Neighbours

# From the engine's exact integers to noisy ones, group by group.
#
# Unknown keys pass the selection as they come, and only those that may be shown are kept: a million keys need no more room
# than the ones that are shown. The exact integers are gone when this is done.


Keys: TypeAlias = tuple[Key, ...]
Ints: TypeAlias = NDArray[np.int64]
BATCH_ROWS = 20_000
MAX_NODES_PER_CHUNK = 1 << 21
"""How many counts get their noise at a time."""


@dataclass(frozen=True, slots=True)
class ExactTotals:
    """What an engine returns, read as it is needed: (totals, keys) per group, and (count, cell, keys) per cell."""

    totals: Iterable[tuple[tuple[int, ...], Keys]]
    cell_counts: Mapping[CellCounts, Iterable[tuple[int, int, Keys]]]
    statements: tuple[str, ...] = ()  # what the engine runs for it


def select_partitions(
    measurement: Measurement, totals: Iterable[tuple[tuple[int, ...], Keys]], bits: Bits
) -> tuple[list[Keys], Ints]:
    """Known keys all appear, also with nothing in them; unknown ones only if the selection shows them."""
    bounded, selection = measurement.bounded, measurement.selection
    width = len(bounded.scalars)
    if bounded.keys is not None:
        found = {keys: row for row, keys in totals} if width else {}
        nothing = (0,) * width
        return list(bounded.keys), _to_array([found.get(keys, nothing) for keys in bounded.keys], width)
    assert selection is not None
    kept: list[tuple[Keys, tuple[int, ...]]] = []
    for batch in _read_batches(totals):
        units = np.array([row[-1] for row, _ in batch], np.int64)
        shown = selection.release(units, bits)
        kept += [(keys, row[:width]) for (row, keys), show in zip(batch, shown, strict=True) if show]
    kept.sort(key=lambda each: repr(each[0]))  # an order that the number of rows has no part in
    return [keys for keys, _ in kept], _to_array([row for _, row in kept], width)


def add_noise(
    measurement: Measurement,
    keys: list[Keys],
    totals: Ints,
    exact: ExactTotals,
    bits: Bits,
    confidence: float,
    joint_intervals: int | None,
) -> Iterator[tuple[list[Keys], NoisyStatistics]]:
    """The groups with their noisy totals, as many at a time as there is room for."""
    bounded = measurement.bounded
    spreads = {counts: _SparseCells.of(exact.cell_counts[counts], keys, counts) for counts in bounded.cell_counts}
    size = max(1, MAX_NODES_PER_CHUNK // max([1, *(counts.nodes for counts in spreads)]))
    for start in range(0, len(keys), size):
        chunk = slice(start, min(start + size, len(keys)))
        yield (
            keys[chunk],
            NoisyStatistics(
                measurement,
                {m: measurement.noise(m).release(totals[chunk, i], bits).tolist() for i, m in enumerate(bounded.scalars)},
                {c: measurement.noise(c).release(sum_tree_levels(c, s.to_dense(chunk)), bits) for c, s in spreads.items()},
                confidence,
                joint_intervals,
            ),
        )


@dataclass(frozen=True, slots=True)
class _SparseCells:
    """The cells that have rows, sorted by group."""

    width: int
    group: Ints
    cell: Ints
    count: Ints

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, Keys]], keys: list[Keys], counts: CellCounts) -> "_SparseCells":
        places = {key: i for i, key in enumerate(keys)}
        parts = [np.zeros((0, 3), np.int64)]
        for batch in _read_batches(rows):
            found = [(places[key], cell - counts.first_cell, count) for count, cell, key in batch if key in places]
            parts.append(_to_array(found, 3))
        everything = np.concatenate(parts)
        ordered = everything[np.argsort(everything[:, 0], kind="stable")]
        return cls(counts.cells, ordered[:, 0], ordered[:, 1], ordered[:, 2])

    def to_dense(self, chunk: slice) -> Ints:
        """One row per group of the chunk, one column per cell."""
        dense = np.zeros((chunk.stop - chunk.start, self.width), np.int64)
        first, last = np.searchsorted(self.group, (chunk.start, chunk.stop))
        dense[self.group[first:last] - chunk.start, self.cell[first:last]] = self.count[first:last]
        return dense


def _to_array(rows: Sequence[tuple[int, ...]], width: int) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), width)


def _read_batches(rows: Iterable[Any]) -> Iterator[list[Any]]:
    source = iter(rows)
    while batch := list(islice(source, BATCH_ROWS)):
        yield batch


__all__ = ["Answer", "Estimate", "Receipt", "explain_sensitivity", "release"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a measurement was paid for. Only an account makes one."""

    entry: int
    event: Composition
    remaining: Fraction | None = None  # in the account's currency, right after this entry

    def split(self, events: Sequence[Composition]) -> "tuple[Receipt, ...]":
        """One for each measurement of a plan that was paid for as one."""
        if compose(*events) != self.event:
            raise AssertionError("this receipt is for another plan")
        return tuple(replace(self, event=loss) for loss in events)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: one row per group, each with its keys and its cells."""

    groups: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[Key, ...], tuple[Estimate, ...]], ...]
    confidence: float
    event: Composition
    explanation: str
    tainted: bool
    cost: Cost | None = None
    simultaneous: bool = False
    lower_limits: tuple[Fraction | None, ...] = ()  # per column: what everybody knows it cannot be below
    is_count: tuple[bool, ...] = ()  # per column: whether it counts something
    additive: tuple[bool, ...] = ()  # per column: whether the groups add up to the whole
    keys_selected: bool = False  # whether there may be keys that are not shown
    fixed_totals: tuple[Fraction | None, ...] = ()  # per column: the total that `consistent` made it add up to
    pipeline: tuple[str, ...] = ()  # what ran: the engine's statement, then the noise of each total
    reference: Any = None  # what the account keeps of it: a `record.LedgerReference`

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per row: keys as they are, numbers as {"value", "lower", "upper", "reliable"}."""
        return [
            dict(zip(self.groups, keys, strict=True))
            | {
                name: {"value": cell.value, "lower": cell.lower, "upper": cell.upper, "reliable": cell.reliable}
                for name, cell in zip(self.columns, row, strict=True)
            }
            for keys, row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Rows, cost, explanation, and the pipeline that ran."""
        cost = None if self.cost is None else self.cost.to_dict()
        pipeline = list(self.pipeline)
        return {"rows": self.to_dicts(), "cost": cost, "explanation": self.explanation, "pipeline": pipeline}

    def to_json(self) -> str:
        """`to_dict` as JSON; dates in ISO form."""
        return formats.to_json(self.to_dict())

    @property
    def header(self) -> tuple[str, ...]:
        """The flat columns of a table of this answer: n, n_lower, n_upper, n_reliable."""
        return (*self.groups, *(f"{name}{end}" for name in self.columns for end in ("", *INTERVAL_SUFFIXES)))

    @property
    def records(self) -> list[tuple[Any, ...]]:
        """The rows under `header`."""
        return [
            (*keys, *(part for cell in row for part in (cell.value, cell.lower, cell.upper, cell.reliable)))
            for keys, row in self.rows
        ]

    def to_pandas(self) -> Any:
        """A pandas frame under `header`."""
        return formats.to_pandas(self.header, self.records)

    def to_polars(self) -> Any:
        """A Polars frame under `header`."""
        return formats.to_polars(self.header, self.records)

    def to_arrow(self) -> Any:
        """An Arrow table under `header`."""
        return formats.to_arrow(self.header, self.records)

    def to_csv(self, path: Any = None, *, spreadsheet: bool = False) -> str:
        """The table as CSV text, also written to `path` if one is given.

        Keys are written as they are. A spreadsheet takes one that begins with =, +, - or @ for a formula: give
        `spreadsheet=True` for a file that is opened in one, and such keys get an apostrophe before them.
        """
        return formats.to_csv(self.header, self.records, path, spreadsheet=spreadsheet)

    def to_parquet(self, path: Any) -> None:
        """The table as a Parquet file."""
        formats.write_parquet(self.header, self.records, path)

    def plot(self, column: str | None = None, axes: Any = None) -> Any:
        """Bars with their intervals, of the first column unless another is named. Returns the matplotlib axes."""
        i = 0 if column is None else postprocess.find_column(self, column)
        bars = [(" · ".join(map(str, keys)), row[i].value, row[i].lower, row[i].upper) for keys, row in self.rows]
        return formats.draw_bars(bars, self.columns[i], f"{self.confidence:.0%} intervals of the bounded total", axes)

    def non_negative(self, *columns: str) -> "Answer":
        """What cannot be negative is shown as at least 0: counts, variances, sums and means of values that are not negative.

        Post-processing: it costs nothing, the intervals still cover, but small values are biased upward.
        """
        return self._with_result(postprocess.clip_negative(self, columns))

    def integers(self, *columns: str) -> "Answer":
        """Counts (or the named columns) as whole numbers, the intervals rounded outward. Post-processing.

        After `consistent` the whole numbers still add up to the same total, rounded.
        """
        return self._with_result(postprocess.round_to_integers(self, columns))

    def consistent(self, total: Mapping[str, Number] | None = None) -> "Answer":
        """Counts and sums that add up over the groups: to the sum of the noisy cells, or to a `total` that was published
        elsewhere, {"n": 1000}; none is negative where that is known. Post-processing.

        The values move as little as they can, in Euclidean distance. Intervals stay as they were.
        """
        return self._with_result(postprocess.make_consistent(self, total))

    def _with_result(self, result: postprocess.PostprocessedAnswer) -> "Answer":
        return replace(self, rows=result.rows, explanation=result.explanation, fixed_totals=result.fixed_totals)

    def __rich__(self) -> Any:
        return formats.render_rich_answer(self)

    def _repr_html_(self) -> str:
        return formats.render_html_answer(self)


def release(
    measurement: Measurement,
    exact: ExactTotals,
    receipt: Receipt,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
    bits: Bits | None = None,
) -> Answer:
    """Add the noise that was paid for. `simultaneous`: all intervals of the answer hold together with the confidence."""
    if receipt.event != measurement.event:
        raise AssertionError("this receipt is for another measurement")
    confidence = check_confidence(confidence)
    bounded, source = measurement.bounded, SYSTEM if bits is None else bits
    keys, totals = select_partitions(measurement, exact.totals, source)
    named = [(column, aggregate) for name, aggregate in bounded.query.aggregates for column in column_names(name, aggregate)]
    together = max(1, len(keys)) * _count_intervals(bounded) if simultaneous else None
    rows = []
    for chunk, noisy in add_noise(measurement, keys, totals, exact, source, confidence, together):
        columns = [estimate(aggregate, noisy) for _, aggregate in bounded.query.aggregates]
        rows += [(key, tuple(chain(*row))) for key, *row in zip(chunk, *columns, strict=True)]
    return Answer(
        groups=tuple(group.name for group in bounded.query.groups),
        columns=tuple(column for column, _ in named),
        rows=tuple(rows),
        confidence=confidence,
        event=measurement.event,
        explanation=f"{explain_sensitivity(bounded)} {_explain_intervals(confidence, simultaneous)}",
        tainted=source.tainted,
        simultaneous=simultaneous,
        lower_limits=tuple(lower_limit_of(aggregate, bounded) for _, aggregate in named),
        is_count=tuple(is_count(aggregate) for _, aggregate in named),
        additive=tuple(postprocess.is_additive(aggregate, bounded) for _, aggregate in named),
        keys_selected=bounded.keys is None,
    )


def _count_intervals(bounded: BoundedQuery) -> int:
    """How many errors per group an answer leans on: one per total and per cell of a histogram, one per quantile."""
    quantiles = sum(isinstance(aggregate, ast.Quantile) for _, aggregate in bounded.query.aggregates)
    return len(bounded.scalars) + sum(c.cells for c in bounded.cell_counts if len(c.branching) == 1) + quantiles


ADJUSTED_POLICY_NOTE = (
    "The data owner changed the policy after looking at the data: its bounds, keys and limits depend on the data, and the "
    "guarantee does not cover what they tell."
)


def explain_sensitivity(bounded: BoundedQuery) -> str:
    """What one unit can do, in words."""
    unit, rows = bounded.table.unit, "1 row" if bounded.max_rows == 1 else f"{bounded.max_rows} rows"
    groups = f"at most {bounded.changed_groups} group{'s' * (bounded.changed_groups > 1)}"
    if bounded.neighbours is Neighbours.ADD_REMOVE:
        change = f"Adding or removing one {unit} can change {f'{groups} by {rows} each' if bounded.query.groups else rows}"
    elif bounded.query.groups:
        change = f"Replacing one {unit} can change {groups}, each of which loses at most {rows} and gains at most {rows}"
    else:
        change = f"Replacing one {unit} can remove {rows} and add {rows}"
    said = f"{change}; values are clamped to their declared bounds."
    return f"{said} {ADJUSTED_POLICY_NOTE}" if bounded.table.adjusted_after_looking else said


def _explain_intervals(confidence: float, simultaneous: bool) -> str:
    share = format_down(float(confidence), 6)
    which = "All intervals together" if simultaneous else "Each interval"
    cover = "cover their bounded totals" if simultaneous else "covers its bounded total"
    return f"{which} {cover} with probability at least {share}; they say nothing about rows that the bounds left out."
