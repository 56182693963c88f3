"""The columns of an answer as a reader sees them: a number per group, or a histogram with all its cells.

A histogram has one column per cell, called `age[18,30)`. A recorded answer keeps the names of its columns and nothing else
about cells, so cells are recognised by their names: the same name before the bracket, each cell beginning where the one
before ends, only the last one closed, and all of them counts.

`draw_text_chart` draws them for a terminal: one bar per estimate, with its interval in numbers.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from discreet.formats import format_interval
from discreet.query.estimates import AnswerColumn, Estimate
from discreet.query.postprocess import AnswerRows
from discreet.text import to_printable

if TYPE_CHECKING:
    from discreet.query.answer import Answer

_CELL = re.compile(r"(?s)(.*)\[(-?[0-9.]+(?:e[+-]?\d+)?),(-?[0-9.]+(?:e[+-]?\d+)?)([)\]])")


class CellEdges(NamedTuple):
    """The edges of a cell of a histogram."""

    lower: float
    upper: float
    is_closed: bool  # whether the upper edge belongs to it

    def __str__(self) -> str:
        return f"[{self.lower:.12g}, {self.upper:.12g}{']' if self.is_closed else ')'}"


@dataclass(frozen=True, slots=True)
class Series:
    """One column, or the columns of one histogram."""

    name: str
    first: int  # the position of its first column in the answer
    columns: tuple[AnswerColumn, ...]
    cells: tuple[CellEdges, ...] = ()  # of a histogram, in order

    @property
    def title(self) -> str:
        """The name and, of a histogram that is not called so, the values that it counts."""
        counted = self.columns[0].histogram_of
        return f"{self.name}, histogram of {counted}" if counted not in ("", self.name) else self.name

    @property
    def label(self) -> str:
        """The name and, where the column says it, what the numbers are."""
        column = self.columns[0]
        if self.cells:
            return f"{self.name} (count per cell)"
        if column.is_count:
            return f"{self.name} (count)"
        return f"{self.name} (sum)" if column.is_additive else self.name


def split_series(schema: Sequence[AnswerColumn]) -> tuple[Series, ...]:
    """Return the series of an answer, in the order of its columns.

    >>> names = ("n", "age[18,30)", "age[30,65.5]", "pay")
    >>> [(series.name, len(series.cells)) for series in split_series([AnswerColumn(name, is_count=True) for name in names])]
    [('n', 0), ('age', 2), ('pay', 0)]
    """
    found, start = [], 0
    while start < len(schema):
        name, cells = _read_cells(schema[start:])
        width = max(1, len(cells))
        found.append(Series(name, start, tuple(schema[start : start + width]), cells))
        start += width
    return tuple(found)


def _read_cells(schema: Sequence[AnswerColumn]) -> tuple[str, tuple[CellEdges, ...]]:
    """Return the name and the cells of the histogram that begins here; no cells if none does."""
    name, cells = "", list[CellEdges]()
    for column in schema:
        match = _CELL.fullmatch(column.name) if column.is_count else None
        if match is None or (cells and (match[1] != name or float(match[2]) != cells[-1].upper)):
            break
        name = match[1]
        cells.append(CellEdges(float(match[2]), float(match[3]), match[4] == "]"))
        if cells[-1].is_closed:
            return name, tuple(cells)
    return schema[0].name, ()


def has_histogram(schema: Sequence[AnswerColumn]) -> bool:
    """Return whether the answer has a histogram."""
    return any(series.cells for series in split_series(schema))


def to_long_table(
    groups: Sequence[str], schema: Sequence[AnswerColumn], rows: AnswerRows
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the header and the records of a table with one row per estimate.

    Its columns are the group keys, the edges of the cell, and value, lower, upper, reliable. If the answer has other columns
    than one histogram, `column` names each, and the edges of what is no cell are missing.
    """
    series = split_series(schema)
    many = len(series) > 1
    fields = (*(["column"] if many else []), "lower_edge", "upper_edge", "value", "lower", "upper", "reliable")
    header = (*groups, *(_avoid(name, groups) for name in fields))
    records = [
        (*keys, *([each.name] if many else []), *edges, cell.value, cell.lower, cell.upper, cell.reliable)
        for keys, row in rows
        for each in series
        for edges, cell in zip(_list_edges(each), row[each.first :], strict=False)
    ]
    return header, records


def _list_edges(series: Series) -> Iterator[tuple[float | None, float | None]]:
    if not series.cells:
        yield None, None
    for cell in series.cells:
        yield cell.lower, cell.upper


def _avoid(name: str, taken: Sequence[str]) -> str:
    """Return the name with as many underscores as it needs to differ from the group keys'."""
    while name in taken:
        name += "_"
    return name


# -- the chart as lines of text --------------------------------------------------------------------------------------------

SOLID, PALE, EIGHTHS = "█", "░", " ▏▎▍▌▋▊▉"
MAX_LABEL, MIN_BAR, MAX_BAR = 30, 10, 50


def draw_text_chart(answer: "Answer", width: int = 80) -> list[str]:
    """Return the lines of the chart. Pale bars are not reliable; a negative value has no bar.

    >>> from types import SimpleNamespace
    >>> from discreet.query.estimates import AnswerColumn
    >>> rows = ((("sales",), (Estimate(80, 75, 85, True),)), (("legal",), (Estimate(10, 5, 15, False),)))
    >>> answer = SimpleNamespace(groups=("dept",), schema=(AnswerColumn("n", is_count=True),), rows=rows)
    >>> print("\\n".join(draw_text_chart(answer, 40)))
    n (count) by dept
    sales █████████████████████████ 80 ± 5
    legal ░░░ 10 ± 5 ?
    """
    lines: list[str] = []
    for series in split_series(answer.schema):
        by = f" by {', '.join(answer.groups)}" if answer.groups else ""
        lines.append(to_printable(series.label + by))
        cells = [f" {cell}" for cell in series.cells] or [""]
        bars = [
            (_label(keys, cell), estimate)
            for keys, row in answer.rows
            for cell, estimate in zip(cells, row[series.first :], strict=False)
        ]
        lines += _draw_bars(bars, width)
    return lines


def _label(keys: tuple[object, ...], cell: str) -> str:
    text = to_printable(" · ".join("NULL" if key is None else str(key) for key in keys) + cell).strip() or "all"
    return text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"


def _draw_bars(bars: list[tuple[str, Estimate]], width: int) -> list[str]:
    numbers = [format_interval(each.value, each.lower, each.upper) + ("" if each.reliable else " ?") for _, each in bars]
    side = max((len(label) for label, _ in bars), default=0)
    room = min(MAX_BAR, max(MIN_BAR, width - side - max(map(len, numbers), default=0) - 2))
    greatest = max((each.value for _, each in bars), default=0)
    return [
        f"{label:<{side}} {_draw_bar(each, greatest, room)}{text}" for (label, each), text in zip(bars, numbers, strict=True)
    ]


def _draw_bar(estimate: Estimate, greatest: float, room: int) -> str:
    """A bar with a space behind it, to an eighth of a character; a pale one to a whole one."""
    if estimate.value <= 0:
        return ""
    eighths = round(8 * room * (estimate.value / greatest))
    if not estimate.reliable:
        return f"{PALE * max(1, eighths // 8)} "
    return f"{SOLID * (eighths // 8)}{EIGHTHS[eighths % 8].strip()} "
