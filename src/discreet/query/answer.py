"""From exact statistics to an answer: partition selection, noise, estimates with intervals, and the words that explain them.

An interval covers the *clipped* statistic: what the query computes after clipping values to their bounds, rounding to the
grid and bounding each unit's contribution. The error that clipping makes is not included.

Keys that are not declared pass partition selection as they come from the engine, and only the selected ones are stored: a
million keys need no more memory than the ones that are shown. The exact integers are gone when `release` returns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import formats
from discreet._numbers import Number, check_confidence, check_int, format_down
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.events import Composition, ThresholdEvent
from discreet.mechanisms import Threshold
from discreet.noise import SYSTEM, Bits
from discreet.query import postprocess
from discreet.query.aggregates import Quantile
from discreet.query.ast import WHOLE_ANSWER, All, View
from discreet.query.builder import Condition, to_condition, to_sort_keys
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery, explain_outside, explain_sensitivity, list_clipped
from discreet.query.estimates import AnswerColumn, NoisyStatistics, sum_tree_levels
from discreet.query.postprocess import AnswerRows, select_rows
from discreet.query.schema import Key
from discreet.query.statistics import CellCounts
from discreet.query.validate import INTERVAL_SUFFIXES
from discreet.vega import Chart

Keys: TypeAlias = tuple[Key, ...]
Ints: TypeAlias = NDArray[np.int64]
BATCH_ROWS = 20_000
MAX_NODES_PER_CHUNK = 1 << 21
"""How many counts get their noise at a time."""


@dataclass(frozen=True, slots=True)
class ExactTotals:
    """The exact statistics that an engine returns, read as they are needed: (totals, keys) per group, and (count, cell,
    keys) per cell."""

    totals: Iterable[tuple[tuple[int, ...], Keys]]
    cell_counts: Mapping[CellCounts, Iterable[tuple[int, int, Keys]]]
    statements: tuple[str, ...] = ()  # what the engine runs for it


def select_partitions(
    measurement: Measurement, totals: Iterable[tuple[tuple[int, ...], Keys]], bits: Bits
) -> tuple[list[Keys], Ints]:
    """Return the keys to show with their totals: all declared keys, also empty ones; others only if they are selected."""
    bounded, selection = measurement.bounded, measurement.selection
    width = len(bounded.scalars)
    if bounded.keys is not None:
        found = {keys: row for row, keys in totals} if width else {}
        empty = (0,) * width
        return list(bounded.keys), _to_array([found.get(keys, empty) for keys in bounded.keys], width)
    assert selection is not None
    selected: list[tuple[Keys, tuple[int, ...]]] = []
    for batch in _read_batches(totals):
        units = np.array([row[-1] for row, _ in batch], np.int64)
        passes = selection.release(units, bits)
        selected += [(keys, row[:width]) for (row, keys), passed in zip(batch, passes, strict=True) if passed]
    selected.sort(key=lambda each: [rank_key(key) for key in each[0]])  # an order that does not depend on the rows
    return [keys for keys, _ in selected], _to_array([row for _, row in selected], width)


def rank_key(key: Any) -> tuple[bool, str, Any]:
    """Return the place of a group key among those of its column: numbers and dates by size, texts by their letters, NULL
    last. Values of different kinds are never compared with each other.

    >>> sorted(["b", "a", None], key=rank_key), sorted([10, 2, None, 1], key=rank_key)
    (['a', 'b', None], [1, 2, 10, None])
    """
    if key is None:
        return True, "", ""
    return False, "number" if isinstance(key, int) else type(key).__name__, key


def add_noise(
    measurement: Measurement,
    keys: list[Keys],
    totals: Ints,
    exact: ExactTotals,
    bits: Bits,
    confidence: float,
    joint_intervals: int | None,
) -> Iterator[tuple[list[Keys], NoisyStatistics]]:
    """Yield the groups with their noisy statistics, as many at a time as there is room for."""
    bounded, noises = measurement.bounded, measurement.noise_by_statistic
    cells = {counts: _SparseCells.of(exact.cell_counts[counts], keys, counts) for counts in bounded.cell_counts}
    size = max(1, MAX_NODES_PER_CHUNK // max([1, *(counts.nodes for counts in cells)]))
    for start in range(0, len(keys), size):
        chunk = slice(start, min(start + size, len(keys)))
        yield (
            keys[chunk],
            NoisyStatistics(
                bounded.table,
                noises,
                confidence,
                joint_intervals,
                scalars={m: noises[m].release(totals[chunk, i], bits).tolist() for i, m in enumerate(bounded.scalars)},
                cell_counts={
                    counts: noises[counts].release(sum_tree_levels(counts, sparse.to_dense(chunk)), bits)
                    for counts, sparse in cells.items()
                },
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


CONFIDENCE_TOLERANCE = 2.0**-52
"""A confidence is a double: 0.95 and the fraction 19/20 are the same one."""


@dataclass(frozen=True, slots=True)
class IntervalOptions:
    """What the intervals of an answer promise: each its confidence, or with `simultaneous` all of them together."""

    confidence: float = 0.95
    simultaneous: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", check_confidence(self.confidence))
        if not isinstance(self.simultaneous, bool):
            raise BadParameter("simultaneous", repr(self.simultaneous), "neither True nor False", "give one of them")

    def check(self, recorded: "IntervalOptions") -> None:
        """Refuse if a recorded answer has intervals that promise less, or another confidence. Intervals that hold together
        hold each on its own too."""
        for name in ("confidence", "simultaneous"):
            asked, found = getattr(self, name), getattr(recorded, name)
            if abs(asked - found) > CONFIDENCE_TOLERANCE and found is not True:
                hint = f"ask with {name}={found}, or pay again with fresh=True"
                raise BadParameter(name, asked, f"this query was answered before, with {found}", hint)

    def explain(self, *, clips: bool = True, limits: bool = True) -> str:
        """Say it in words. `clips`: whether values are clipped to bounds, which counts have none of. `limits`: whether there
        are limits on contributions, which units with one row each have none of.

        >>> IntervalOptions().explain(clips=False)
        'Each interval contains the count within the limits with probability ≥ 95%.'
        """
        share = format_down(100 * Fraction(repr(self.confidence)), 6)
        within = " within the limits" if limits else ""
        each, all_of_them = (CLIPPED, "clipped statistics") if clips else (f"{COUNTED}{within}", f"counts{within}")
        which = f"All intervals together contain their {all_of_them}" if self.simultaneous else each
        return f"{which} with probability ≥ {share}%{'; error from clipping is not included' if clips else ''}."


CLIPPED = "Each interval contains the clipped statistic"
COUNTED = "Each interval contains the count"
JOINT_NOTE = (
    "Noisy values decided which rows are shown or come first, so the intervals hold together over all rows of the whole "
    "answer."
)


def explain_conditional(columns: Sequence[str]) -> str:
    """Say that the intervals of selected rows promise nothing about these rows."""
    return (
        f"Noisy values decided which rows are shown or come first: the intervals of {', '.join(columns)} are conditional on "
        "that, so they miss more often than stated, and so do their marks of reliability. Intervals that hold for selected "
        "rows are simultaneous ones (simultaneous=True, --simultaneous), which a recorded answer has if it was asked for "
        "them first."
    )


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """An answer: one row per group, each with its keys and its estimates. `print`, a shell and a notebook show the table."""

    groups: tuple[str, ...]
    schema: tuple[AnswerColumn, ...]
    rows: AnswerRows
    intervals: IntervalOptions
    event: Composition
    explanation: str
    tainted: bool  # whether the noise may be repeatable: made with bits other than the system's
    keys_selected: bool = False  # whether there may be keys that are not shown
    cost: Cost | None = None
    pipeline: tuple[str, ...] = ()  # what ran: the engine's statement, then the noise of each statistic
    reference: Any = None  # where the account keeps it: a `record.LedgerReference`
    notes: tuple[str, ...] = ()  # what was said when it was asked, beside what is recorded with it
    view: View = WHOLE_ANSWER  # which rows and columns of the whole answer these are
    view_note: str = ""  # what the view shows, and what that means for the intervals
    charged: bool = True  # whether anything was charged for it now; False: all of it was recorded before
    outside_note: str = ""  # where values outside of the declared bounds are; also part of the explanation

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns beside the group keys."""
        return tuple(column.name for column in self.schema)

    @property
    def confidence(self) -> float:
        """The probability that an interval (or, with `simultaneous`, all of them) promises."""
        return self.intervals.confidence

    @property
    def simultaneous(self) -> bool:
        """Whether all intervals hold together with the confidence."""
        return self.intervals.simultaneous

    def __len__(self) -> int:
        return len(self.rows)

    def list_notes(self) -> list[str]:
        """How many keys are shown, what an undeclared key had to reach, and what was said when it was asked.

        All of it was known before any row was read, but for the number of keys that are shown. How many keys there are, and
        what was clipped or dropped, is private.
        """
        if not self.groups:
            return [*self.notes]
        shown = f"{formats.count_things(len(self.rows), 'key')} shown"
        events = [part for part, _ in self.event.parts if isinstance(part, ThresholdEvent)]
        selections = [Threshold(event.scale, event.threshold) for event in events]
        needed = [explain_threshold(selection, self.confidence) for selection in selections[:1]]
        return ["; ".join([shown, *needed]) + ".", *self.notes]

    def list_costs(self) -> list[str]:
        """What it cost, or that it is free because it was recorded before; and how the costs of its account add up."""
        if self.cost is None:
            return []
        entry = "" if self.reference is None else f" (entry {self.reference.entry})"
        lead = str(self.cost) if self.charged else self.cost.describe_free(entry)
        return [lead, *self.cost.explain_addition()]

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
        """Rows, cost, explanation, the pipeline that ran, and notes."""
        return {
            "rows": self.to_dicts(),
            "cost": None if self.cost is None else self.cost.to_dict(),
            "charged": self.charged,
            "explanation": self.explanation,
            "pipeline": list(self.pipeline),
            "notes": self.list_notes(),
        }

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

    def plot(self, path: Any = None, *, column: str | None = None, title: str | None = None) -> Chart:
        """Draw the answer: bars with intervals, lines along ordered keys, histograms with all their cells.

        Returns the chart, which a notebook shows. With a path it is also written there, as .svg, .png, .html or .json (all
        but the last need the extra `plot`). All columns are drawn, or the one that is named.
        """
        from discreet.query.chart import choose_column, make_spec

        chart = Chart(make_spec(self if column is None else choose_column(self, column), title))
        if path is not None:
            chart.save(path)
        return chart

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

    def having(self, condition: Condition) -> "Answer":
        """Show the rows whose keys and noisy values meet a condition, `col("n") > 100`. Post-processing.

        Intervals of rows that noisy values select hold together over the whole answer, or the answer says that they do not.
        """
        return self.apply_view(View(having=to_condition(condition).node))

    def order_by(self, *columns: str, descending: bool = False, nulls_first: bool = False) -> "Answer":
        """Sort the rows by keys and noisy values; rows that tie stay as they were. Post-processing.

        The first of the rows that noisy values sort are selected by their noise: intervals hold together over the whole
        answer, or the answer says that they do not.
        """
        return self.apply_view(View(order_by=to_sort_keys(columns, descending, nulls_first)))

    def limit(self, rows: int, offset: int = 0) -> "Answer":
        """Show so many rows, after leaving out `offset` of them: `answer.order_by("n", descending=True).limit(3)`.

        Post-processing. Intervals of rows that noisy values select hold together over the whole answer, or the answer says
        that they do not.
        """
        return self.apply_view(View(limit=check_int(rows, "rows", 1), offset=check_int(offset, "offset", 0)))

    def shares(self, *columns: str, total: "Answer | None" = None) -> "Answer":
        """Counts and sums (or the named columns) as percentages of their total, in columns called n_percent.

        The total is that of all declared keys, or a `total` that was asked for: an answer with one row, and with a column
        of the same name. Post-processing: all intervals of the shares hold together, with the confidence that the result
        states.
        """
        shares, confidence = postprocess.compute_shares(self, columns, total)
        intervals = IntervalOptions(confidence, simultaneous=True)
        explanation = _restate_intervals(shares.explanation, self.intervals, intervals)
        return replace(self._with_result(shares), intervals=intervals, explanation=explanation)

    def apply_view(self, view: View) -> "Answer":
        """Show the rows and columns of a view. `postprocess` has the proof for the intervals of rows that noise selects."""
        sorted_by = (*view.order_by, *self.view.order_by)
        shown = select_rows(
            self.groups, self.columns, self.rows, view, keys_selected=self.keys_selected, sorted_before=self.view.order_by
        )
        selected = replace(view, order_by=sorted_by).selects_by_noise(self.groups)
        whole = self._widen() if selected else self
        kept = [i for i, name in enumerate(self.columns) if name not in view.hidden]
        rows = tuple((keys, tuple(row[i] for i in kept)) for keys, row in (whole.rows[place] for place in shown.places))
        conditional = [whole.columns[i] for i in kept if whole.schema[i].joint_margin is None]
        notes = [shown.explanation] if shown.explanation else []
        if selected:
            note = explain_conditional(conditional) if conditional else JOINT_NOTE
            notes += [] if note in self.view_note else [note]
        havings = tuple(each for each in (self.view.having, view.having) if each is not None)
        done = View(
            havings[0] if len(havings) == 1 else All(havings) if havings else None, sorted_by,
            self.view.limit if view.limit is None else view.limit, self.view.offset + view.offset,
            (*self.view.hidden, *view.hidden),
        )  # fmt: skip
        schema = tuple(whole.schema[i] for i in kept)
        explanation, note = " ".join((whole.explanation, *notes)), " ".join((*filter(None, [self.view_note]), *notes))
        return replace(whole, rows=rows, schema=schema, explanation=explanation, view=done, view_note=note)

    def _widen(self) -> "Answer":
        """Return the answer with intervals that hold together, as far as that can be known from it."""
        rows, schema = postprocess.widen_intervals(self)
        if any(column.joint_margin is None for column in schema):
            return replace(self, rows=rows, schema=schema)
        intervals = replace(self.intervals, simultaneous=True)
        explanation = _restate_intervals(self.explanation, self.intervals, intervals)
        return replace(self, rows=rows, schema=schema, intervals=intervals, explanation=explanation)

    def _with_result(self, result: postprocess.PostprocessedAnswer) -> "Answer":
        return replace(self, rows=result.rows, schema=result.schema, explanation=result.explanation)

    def __rich__(self) -> Any:
        return formats.render_rich_answer(self)

    def __repr__(self) -> str:
        return formats.render_text(formats.render_rich_answer(self, formats.MAX_PRINTED_ROWS))

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
    receipt.spend(measurement.event)
    bounded, source = measurement.bounded, SYSTEM if bits is None else bits
    intervals = IntervalOptions(confidence, simultaneous)
    keys, totals = select_partitions(measurement, exact.totals, source)
    joint = _count_intervals(bounded, len(keys)) if simultaneous else None
    rows = []
    for chunk, noisy in add_noise(measurement, keys, totals, exact, source, intervals.confidence, joint):
        columns = [aggregate.estimate(noisy) for _, aggregate in bounded.query.aggregates]
        rows += [(key, tuple(chain(*row))) for key, *row in zip(chunk, *columns, strict=True)]
    covered = intervals.explain(clips=bool(list_clipped(bounded)), limits=not bounded.table.unique)
    answer = Answer(
        groups=tuple(group.name for group in bounded.query.groups),
        schema=bounded.columns,
        rows=tuple(rows),
        intervals=intervals,
        event=measurement.event,
        explanation=f"{explain_sensitivity(bounded)} {covered}",
        tainted=source.tainted,
        keys_selected=bounded.keys is None,
    )
    return complete_answer(answer, measurement)


def _count_intervals(bounded: BoundedQuery, groups: int) -> int:
    """Return how many errors an answer leans on: in each group one per scalar statistic, per cell of a histogram, per
    quantile."""
    quantiles = sum(isinstance(aggregate, Quantile) for _, aggregate in bounded.query.aggregates)
    per_group = len(bounded.scalars) + sum(c.cells for c in bounded.cell_counts if len(c.branching) == 1) + quantiles
    return max(1, groups) * per_group


def complete_answer(answer: Answer, measurement: Measurement) -> Answer:
    """Return an answer with what its measurement says of it: where values outside of the bounds are, and how much wider the
    intervals of its columns are where all of them hold together.

    The noise decides the latter, for the columns whose one statistic is their estimate: counts, sums, cells of histograms.
    Both are not recorded, because the measurement is at hand whenever an answer is.
    """
    bounded, intervals = measurement.bounded, answer.intervals
    alone = measurement.statistic_noise(intervals.confidence)
    together = replace(alone, joint_intervals=_count_intervals(bounded, len(answer.rows)))
    margins: list[Fraction | None] = []
    for (name, aggregate), statistics in zip(bounded.query.aggregates, bounded.statistics_by_column, strict=True):
        margin = Fraction(0) if intervals.simultaneous else None
        if not intervals.simultaneous and not aggregate.depends_on_size:
            [statistic] = statistics
            margin = (together.error(statistic) - alone.error(statistic)) * statistic.step_size(bounded.table)
        margins += [margin] * len(aggregate.columns(name, bounded.table, bounded.max_groups))
    schema = tuple(replace(each, joint_margin=margin) for each, margin in zip(answer.schema, margins, strict=True))
    return replace(answer, schema=schema, outside_note=explain_outside(bounded))


def measures_jointly(measurement: Measurement) -> bool:
    """Return whether intervals must be simultaneous from the start: where noisy values select or sort the rows, and the
    intervals of some shown column cannot be widened afterwards."""
    query = measurement.bounded.query
    shown = [aggregate for name, aggregate in query.aggregates if name not in query.view.hidden]
    return any(aggregate.depends_on_size for aggregate in shown) and query.selects_by_noise


def _restate_intervals(explanation: str, old: IntervalOptions, new: IntervalOptions) -> str:
    """Return the explanation of an answer with what its intervals promise now."""
    for words in ({"clips": True}, {"clips": False}, {"clips": False, "limits": False}):
        explanation = explanation.replace(old.explain(**words), new.explain(**words))
    return explanation


def require_answer(given: object) -> Answer:
    """Return an answer; refuse anything else, such as the id that it was asked with."""
    if not isinstance(given, Answer):
        raise BadParameter("answer", f"of type {type(given).__name__}", "not an answer", "give what ask() returned")
    return given


def explain_recorded(entry: int) -> str:
    """Say which state of the data a recorded answer is about: a ledger knows sources by name, and not their rows."""
    return (
        f"This answer is about the data as of entry {entry}. If the data changed since, label= names their new state, under "
        "which the query is charged and answered anew."
    )


def explain_recorded_on_service(entry: int) -> str:
    """Say the same to who asks a service, where the owner names the state of the data."""
    return f"This answer is about the data as of entry {entry}. If the data changed since, fresh=True pays for a new answer."


def explain_threshold(selection: Threshold, confidence: float) -> str:
    """Say what a key that is not declared must reach to be shown.

    >>> explain_threshold(Threshold.for_epsilon(1, 1e-6, sensitivity=1), 0.95)
    'a key needs about 15 units (partition selection), and one with 17 is shown with probability ≥ 95%'
    """
    share = max(Fraction(repr(float(confidence))), Fraction(1, 2))
    enough = selection.error(share)
    return (
        f"a key needs about {selection.threshold:,} units (partition selection), and one with {enough:,.0f} is shown with "
        f"probability ≥ {format_down(100 * share, 6)}%"
    )
