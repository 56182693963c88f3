"""Answers as JSON, CSV, frames, terminal tables and HTML.

Each function takes a header and records, or an answer. The library of a format is imported when the format is used.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from html import escape
from math import inf, isfinite, nextafter
from types import SimpleNamespace
from typing import Any, NamedTuple

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


class EstimateText(NamedTuple):
    """An estimate as people read it: its value, its interval, and whether it is marked as not reliable."""

    value: str
    interval: str
    unreliable: bool = False

    def __str__(self) -> str:
        return f"{self.value} {self.interval}{' ?' if self.unreliable else ''}"


TableCell = str | EstimateText | tuple[str, ...]
TableRow = Sequence[TableCell]
"""The cells of one row of a table; a tuple is a cell of several lines."""

MAX_PRINTED_ROWS = 200
"""How many rows `print`, a shell and a notebook show; the command line and the exports show all."""

MAX_TABLE_WIDTH = 1 << 16
"""The width at which a table is measured: no table needs more."""

DEFAULT_WIDTH = 100
"""The width of printed text where there is no terminal."""


def missing_library_error(library: str, extra: str, name: str = "format", value: str | None = None) -> BadParameter:
    """Return the error for a library that is not installed; `name` and `value` are the parameter that needs it."""
    reason = f"{library} is not installed" if value is None else f"it needs {library}, which is not installed"
    return BadParameter(name, library if value is None else value, reason, f"install it: pip install '{extra}'")


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
    """Format a number and its interval, with the digits that the interval justifies, its ends rounded outward.

    >>> format_interval(1652, 1628, 1676), format_interval(0, 0, 6), format_interval(99.93, 98.12, 101.76)
    ('1,652 ± 24', '0 [0, 6]', '99.9 [98.1, 101.8]')
    >>> format_interval(40, 40, 40), format_interval(42.5, 42.5, 42.5)
    ('40 ± 0', '42.5 [42.5, 42.5]')
    >>> format_interval(-20.329222, 0, 0)
    '-20 [0, 0]'
    >>> format_interval(5.25, 1, inf)
    '5.25 [1.00, inf]'
    """
    return str(_format_estimate(value, lower, upper))


def format_value(value: float, lower: float, upper: float) -> str:
    """Format a number without its interval, with the digits that the interval justifies.

    >>> format_value(1652, 1628, 1676), format_value(99.93, 98.12, 101.76)
    ('1,652', '99.9')
    """
    return _format_estimate(value, lower, upper).value


def _format_estimate(value: float, lower: float, upper: float, reliable: bool = True) -> EstimateText:
    if isinstance(value, int) and isinstance(lower, int) and isinstance(upper, int):
        symmetric = upper - value == value - lower
        return EstimateText(f"{value:,}", f"± {upper - value:,}" if symmetric else f"[{lower:,}, {upper:,}]", not reliable)
    width = upper - lower or 2 * abs(value - lower)  # a number outside an interval without width: how far it is from it
    digits = max(0, min(9, 1 - _decimal_exponent(width / 2))) if 0 < width < inf else _decimals_of(value)
    shown, low, high = (
        _format_decimal(number, digits, rounding)
        for number, rounding in ((value, ROUND_HALF_EVEN), (lower, ROUND_FLOOR), (upper, ROUND_CEILING))
    )
    return EstimateText(shown, f"[{low}, {high}]", not reliable)


def _format_decimal(number: float, digits: int, rounding: str) -> str:
    """Round to so many digits after the point, exactly: a double in steps of a tenth need not be a multiple of one."""
    exact = Decimal(number)
    if not exact.is_finite():
        return str(number)
    rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding=rounding, context=Context(prec=400))
    return f"{rounded if rounded else abs(rounded):,.{digits}f}"


def _decimals_of(number: float) -> int:
    """How many digits after the point, at most six, a number has where it is shown alone."""
    return len(f"{number:.6f}".rstrip("0").partition(".")[2])


def _decimal_exponent(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def count_things(number: int, singular: str) -> str:
    """A number of things, in words.

    >>> count_things(1, "key"), count_things(1200, "key")
    ('1 key', '1,200 keys')
    """
    return f"{number:,} {singular}{'s' * (number != 1)}"


def count_people(number: int, kind: str = "") -> str:
    """A number of people, in words.

    >>> count_people(1), count_people(1200, "honest ")
    ('1 person', '1,200 honest people')
    """
    return f"{number:,} {kind}{'person' if number == 1 else 'people'}"


def _format_rows(answer: Any, limit: int | None) -> tuple[list[str], list[TableRow]]:
    lines: list[TableRow] = []
    for keys, row in answer.rows[:limit]:
        line: list[TableCell] = ["NULL" if key is None else str(key) for key in keys]
        line += [_format_estimate(c.value, c.lower, c.upper, c.reliable) for c in row]
        lines.append(line)
    units = [f"{column.name} ({column.unit})" if column.unit else column.name for column in answer.schema]
    return [*answer.groups, *units], lines


def _format_notes(answer: Any, limit: int | None) -> list[str]:
    unreliable = any(not estimate.reliable for _, row in answer.rows for estimate in row)
    lines = [] if limit is None or len(answer.rows) <= limit else [f"The first {limit:,} of {len(answer.rows):,} rows."]
    lines += [*answer.list_costs(), *answer.list_notes(), answer.explanation]
    lines += [UNRELIABLE_NOTE] if unreliable else []
    lines += ["Made with reproducible bits: for tests, never for publication."] if answer.tainted else []
    return lines


def render_rich_answer(answer: Any, limit: int | None = None) -> Any:
    """Return a rich table of an answer with its cost and its explanation below it; all rows, unless there is a limit."""
    header, lines = _format_rows(answer, limit)
    return add_rich_notes(_FittingTable(header, lines, len(answer.groups)), _format_notes(answer, limit))


class _FittingTable(NamedTuple):
    """A table that is long where it is too wide for the terminal: a line for each column of each row."""

    header: Header
    lines: Sequence[TableRow]
    left: int

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        wide = make_rich_table(None, self.header, self.lines, left=self.left)
        fits = console.measure(wide, options=options.update(width=MAX_TABLE_WIDTH)).maximum <= options.max_width
        yield wide if fits or len(self.header) == self.left + 1 else self._make_long()

    def _make_long(self) -> Any:
        lines = [
            [*(line[: self.left] if i == self.left else [""] * self.left), self.header[i], line[i]]
            for line in self.lines
            for i in range(self.left, len(self.header))
        ]
        return make_rich_table(None, [*self.header[: self.left], "column", "value"], lines, left=self.left + 1)


def render_text(shown: Any) -> str:
    """Return what rich prints of something, as wide as the terminal, without colours: the text of `print` and of a shell."""
    from io import StringIO
    from shutil import get_terminal_size

    from rich.console import Console

    width = get_terminal_size((DEFAULT_WIDTH, 24)).columns
    console = Console(file=StringIO(), width=width, color_system=None, force_jupyter=False, highlight=False)
    console.print(shown)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip("\n").split("\n"))  # type: ignore[attr-defined]


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


def _split_cell(cell: TableCell) -> list[str]:
    parts = (str(cell),) if isinstance(cell, str | EstimateText) else cell
    return [to_printable(part) for part in parts]


def render_html_answer(answer: Any) -> str:
    """Return a table of an answer in HTML, for a notebook."""
    header, lines = _format_rows(answer, MAX_PRINTED_ROWS)
    return make_html_table(header, lines, _format_notes(answer, MAX_PRINTED_ROWS), left=len(answer.groups))


HTML_STYLE = """<style>
.discreet{--ink:var(--jp-content-font-color1,var(--vscode-editor-foreground,#1b1b1b));\
--paper:var(--jp-layout-color0,var(--vscode-editor-background,#fff));\
--pale:var(--jp-content-font-color2,var(--vscode-descriptionForeground,#555));\
--rule:var(--jp-border-color1,var(--vscode-panel-border,#bbb))}
@media (prefers-color-scheme:dark){.discreet{--ink:var(--jp-content-font-color1,var(--vscode-editor-foreground,#e6e6e6));\
--paper:var(--jp-layout-color0,var(--vscode-editor-background,#151515));\
--pale:var(--jp-content-font-color2,var(--vscode-descriptionForeground,#ababab));\
--rule:var(--jp-border-color1,var(--vscode-panel-border,#505050))}}
.discreet{display:inline-block;max-width:60em;overflow-x:auto;padding:.5em .75em;color:var(--ink);background:var(--paper);\
font-family:system-ui,sans-serif}
.discreet table{border-collapse:collapse;margin:0 0 .5em;color:inherit;background:none;\
font-variant-numeric:tabular-nums}
.discreet th,.discreet td{padding:.2em .75em;text-align:right;white-space:nowrap;vertical-align:top;\
color:inherit;background:none}
.discreet th{border-bottom:1px solid var(--rule);font-weight:600}
.discreet .key{text-align:left}
.discreet .interval,.discreet p{color:var(--pale)}
.discreet .unreliable{opacity:.75;font-style:italic}
.discreet p{margin:.15em 0;font-size:.9em;white-space:normal}
</style>"""
"""One look for every place: a notebook's theme decides by its own variables (Jupyter, VS Code), a page by its reader's
preference for light or dark. The background is set with the ink, so that one never meets the other's opposite."""


def make_html_table(header: Header, lines: Sequence[TableRow], notes: Sequence[str], left: int = 1) -> str:
    """Return a table in HTML with notes below it, the first `left` columns aligned to the left; every text is escaped."""
    names = [_html_cell("th", escape(to_printable(name)), i < left) for i, name in enumerate(header)]
    rows = [[_html_cell("td", _html_text(cell), i < left) for i, cell in enumerate(line)] for line in lines]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{''.join(names)}</tr></thead><tbody>{body}</tbody></table>"
    return f'{HTML_STYLE}<div class="discreet">{table}{_html_notes(notes)}</div>'


def make_html_notes(notes: Sequence[str]) -> str:
    """Return sentences in HTML, in the look of a table's notes; every text is escaped."""
    return f'{HTML_STYLE}<div class="discreet">{_html_notes(notes)}</div>'


def _html_notes(notes: Sequence[str]) -> str:
    return "".join(f"<p>{escape(to_printable(line))}</p>" for line in notes)


def _html_cell(tag: str, content: str, is_key: bool) -> str:
    """The alignment stands in the cell too: some viewers drop the style sheet."""
    side = ("key", "left") if is_key else ("number", "right")
    return f'<{tag} class="{side[0]}" style="text-align:{side[1]}">{content}</{tag}>'


def _html_text(cell: TableCell) -> str:
    if not isinstance(cell, EstimateText):
        return "<br/>".join(map(escape, _split_cell(cell)))
    text = f'{escape(cell.value)} <span class="interval">{escape(cell.interval)}</span>'
    return f'<span class="unreliable">{text} ?</span>' if cell.unreliable else text
