"""The columns of an answer as a reader sees them: a number per group, or a histogram with all its cells.

A histogram has one column per cell, called `age[18,30)`. A recorded answer keeps the names of its columns and nothing else
about cells, so cells are recognised by their names: the same name before the bracket, each cell beginning where the one
before ends, only the last one closed, and all of them counts.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from discreet.query.estimates import AnswerColumn
from discreet.query.postprocess import AnswerRows

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
