"""Answers as JSON, CSV, frames, terminal tables and HTML.

Each function takes a header and records, or an answer. The library of a format is imported when the format is used.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from html import escape
from math import inf, isfinite, nextafter
from types import SimpleNamespace
from typing import Any

from discreet.errors import BadParameter
from discreet.paths import reason_of
from discreet.text import escape_formula, to_printable

Header = Sequence[str]
Records = Sequence[tuple[Any, ...]]
CRLF = "\r\n"
UNRELIABLE_NOTE = (
    "? marks values that are not reliable: their interval is wider than a tenth of them either way, or the count behind "
    "them is too small."
)
TableRow = Sequence[str | tuple[str, ...]]
"""The cells of one row of a table; a tuple is a cell of several lines."""


def missing_library_error(library: str, extra: str) -> BadParameter:
    """Return the error for a library that is not installed."""
    return BadParameter("format", library, f"{library} is not installed", f"pip install '{extra}'")


def to_json_value(value: Any) -> Any:
    """Return the value with JSON's types only; infinity is the string "inf", dates are in ISO form."""
    if isinstance(value, dict):
        return {str(name): to_json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(part) for part in value]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value.isoformat() if isinstance(value, date) else value


def to_json(value: Any) -> str:
    """Return the value as one line of JSON."""
    return json.dumps(to_json_value(value), allow_nan=False)


def to_csv(header: Header, records: Records, path: Any = None, *, spreadsheet: bool = False) -> str:
    """Return CSV with a header, and write it to `path` if that is given. A missing key is an empty field.

    Texts stay as they are, unless they are for a spreadsheet: then all are quoted, and one that a spreadsheet would take for
    a formula has an apostrophe before it.
    """
    lines: list[str] = []
    writer = csv.writer(
        SimpleNamespace(write=lines.append),
        lineterminator=CRLF,  # so that a field with either character is quoted
        quoting=csv.QUOTE_NONNUMERIC if spreadsheet else csv.QUOTE_MINIMAL,
    )
    for row in (header, *records):
        fields = ("" if part is None else to_json_value(part) for part in row)
        writer.writerow([escape_formula(part) if spreadsheet and isinstance(part, str) else part for part in fields])
    text = "".join(f"{line.removesuffix(CRLF)}\n" for line in lines)
    if path is not None:
        with refuse_unwritable(path), open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    return text


@contextmanager
def refuse_unwritable(path: Any, name: str = "path") -> Iterator[None]:
    """Turn what the system says of a path that cannot be written into an error that names it."""
    try:
        yield
    except OSError as error:
        reason = f"it cannot be written ({reason_of(error)})"
        raise BadParameter(name, repr(str(path)), reason, "name a file that can be written") from None


def to_pandas(header: Header, records: Records) -> Any:
    """Return a pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise missing_library_error("pandas", "pandas") from None
    return pandas.DataFrame.from_records(records, columns=list(header))


def to_polars(header: Header, records: Records) -> Any:
    """Return a Polars DataFrame."""
    try:
        import polars
    except ImportError:
        raise missing_library_error("polars", "polars") from None
    return polars.DataFrame(_columns(header, records), strict=False)


def to_arrow(header: Header, records: Records) -> Any:
    """Return a table of Arrow."""
    try:
        import pyarrow
    except ImportError:
        raise missing_library_error("pyarrow", "discreet[arrow]") from None
    return pyarrow.table(_columns(header, records))


def write_parquet(header: Header, records: Records, path: Any) -> None:
    """Write a Parquet file."""
    table = to_arrow(header, records)
    from pyarrow import parquet

    with refuse_unwritable(path):
        parquet.write_table(table, path)


def _columns(header: Header, records: Records) -> dict[str, list[Any]]:
    return {name: _fit_int64(name, [row[i] for row in records]) for i, name in enumerate(header)}


def _fit_int64(name: str, values: list[Any]) -> list[Any]:
    """Turn integers beyond 64 bits, which no frame holds, into doubles: lower ends rounded down, upper ends up."""
    if not any(isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 for value in values):
        return values
    return [_round_to_double(value, name) if isinstance(value, int) else value for value in values]


def _round_to_double(value: int, name: str) -> float:
    nearest = float(value)
    if name.endswith("lower") and nearest > value:
        return nextafter(nearest, -inf)
    return nextafter(nearest, inf) if name.endswith("upper") and nearest < value else nearest


def format_interval(value: float, lower: float, upper: float) -> str:
    """Format a number and its interval, with the digits that the interval justifies: "1,652 ± 24", "99.9 [98.1, 101.8]".

    >>> format_interval(1652, 1628, 1676), format_interval(0, 0, 6), format_interval(99.93, 98.12, 101.76)
    ('1,652 ± 24', '0 [0, 6]', '99.9 [98.1, 101.8]')
    """
    if isinstance(value, int) and upper - value == value - lower:
        return f"{value:,} ± {upper - value:,}"
    if isinstance(value, int) and isinstance(lower, int) and isinstance(upper, int):
        return f"{value:,} [{lower:,}, {upper:,}]"
    digits = 6 if upper <= lower else max(0, min(9, 1 - _decimal_exponent((upper - lower) / 2)))
    step = 10.0**-digits
    return f"{value:,.{digits}f} [{lower // step * step:,.{digits}f}, {-(-upper // step) * step:,.{digits}f}]"


def _decimal_exponent(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def _format_rows(answer: Any) -> tuple[list[str], list[TableRow]]:
    lines: list[TableRow] = []
    for keys, row in answer.rows:
        line = ["NULL" if key is None else str(key) for key in keys]
        line += [format_interval(c.value, c.lower, c.upper) + ("" if c.reliable else " ?") for c in row]
        lines.append(line)
    return [*answer.groups, *answer.columns], lines


def _format_notes(answer: Any) -> list[str]:
    unreliable = any(not estimate.reliable for _, row in answer.rows for estimate in row)
    lines = [] if answer.cost is None else [str(answer.cost)]
    lines.append(answer.explanation)
    lines += [UNRELIABLE_NOTE] if unreliable else []
    lines += ["Made with reproducible bits: for tests, never for publication."] if answer.tainted else []
    return lines


def render_rich_answer(answer: Any) -> Any:
    """Return a rich table of an answer with its cost and its explanation below it."""
    header, lines = _format_rows(answer)
    return add_rich_notes(make_rich_table(None, header, lines, left=len(answer.groups)), _format_notes(answer))


def add_rich_notes(table: Any, notes: Sequence[str]) -> Any:
    """Return a rich table with notes below it."""
    from rich.console import Group
    from rich.text import Text

    return Group(table, *(Text(to_printable(line), style="dim") for line in notes))


def make_rich_table(title: str | None, header: Header, lines: Sequence[TableRow], left: int = 1) -> Any:
    """Return a rich table, the first `left` columns aligned to the left."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None if title is None else Text(to_printable(title)))
    for i, name in enumerate(header):
        table.add_column(Text(to_printable(name)), justify="left" if i < left else "right")
    for line in lines:
        table.add_row(*(Text("\n".join(_split_cell(cell))) for cell in line))
    return table


def _split_cell(cell: str | tuple[str, ...]) -> list[str]:
    return [to_printable(part) for part in (cell if isinstance(cell, tuple) else (cell,))]


def render_html_answer(answer: Any) -> str:
    """Return a table of an answer in HTML, for a notebook."""
    return make_html_table(*_format_rows(answer), _format_notes(answer))


def make_html_table(header: Header, lines: Sequence[TableRow], notes: Sequence[str]) -> str:
    """Return a table in HTML with notes below it; every text is escaped."""
    head = "".join(f"<th>{escape(to_printable(name))}</th>" for name in header)
    cells = ("".join(f"<td>{'<br>'.join(map(escape, _split_cell(cell)))}</td>" for cell in line) for line in lines)
    below = "".join(f"<p>{escape(to_printable(line))}</p>" for line in notes)
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
