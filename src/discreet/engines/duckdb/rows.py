"""Files whose cells have types of their own but whose columns have none: JSON lines and spreadsheets.

A cell is read as in a pandas column of objects (see `cells`): its family and text depend on that cell alone, and with a
policy the kind of a column is the declared one. Without a policy, a column has the kind of the one family that its cells
have, found by reading the file once more. A missing cell, and a cell of no family (a list, an object, a time of day, an
error of a formula), is NULL.

**JSON lines.** One object per line. Numbers are exact: 1, 1.0 and 1e0 are one number, and 9007199254740993 is not
9007199254740992. JSON has no dates: as the identity of a unit, a date is its text. A name that a line lacks is missing
there; with a policy every declared column exists, because whether a name occurs depends on the rows.

**Spreadsheets** hold every number as a double and every date as a number, so ids that a double does not tell apart, and
dates as ids, are refused. An empty text is an empty cell. The first row has the names; a column without one is left out.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any, TypeAlias

import duckdb

from discreet.engines.base import SAYS_MORE, identity_columns, owner_log
from discreet.engines.duckdb.cells import Cell, KindFinder, identity_text, read_cell, value_text
from discreet.engines.duckdb.files import open_lines
from discreet.engines.duckdb.frames import large_float_error
from discreet.engines.duckdb.types import EXACT_LIMIT, Loaded, quote_name, read_text_as
from discreet.errors import SourceRefused
from discreet.query.schema import Kind

Row: TypeAlias = Mapping[str, Cell]
CHUNK = 20_000
"""So many rows are held at once."""
MISSING: Cell = (None, None)


def load_json_lines(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    kinds: Mapping[str, Kind] | None,
    units: Sequence[str] = (),
) -> Loaded:
    """Read the declared names of every line, or all of them, into a table."""

    def rows() -> Iterator[Row]:
        return (row for file in files for row in _read_json_lines(file))

    own = {Kind.DATE: "text", Kind.TIMESTAMP: "text"}
    return _load_rows(connection, name, rows, None if kinds is None else list(kinds), kinds, units, own)


def load_sheet(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[str],
    kinds: Mapping[str, Kind] | None,
    units: Sequence[str] = (),
    *,
    sheet: str | None = None,
) -> Loaded:
    """Read one sheet of a workbook into a table."""
    if len(files) > 1:
        raise SourceRefused("several workbooks are no table", "name one of them")
    chosen, rows = _read_sheet(files[0], sheet)
    if not rows:
        raise SourceRefused("this sheet is empty: it has no header", "put the names of the columns in its first row")
    header = [read_cell(each)[1] or "" for each in rows[0]]
    if duplicates := [each for each in header if each and header.count(each) > 1]:
        raise SourceRefused(f"two columns of this sheet are called {duplicates[0]}", "rename one of them")
    names = [each for each in header if each]
    for unit in units:
        if unit in header:
            _check_sheet_units(unit, [row[header.index(unit)] for row in rows[1:]])

    def cells() -> Iterator[Row]:
        return ({key: _read_sheet_cell(cell) for key, cell in zip(header, row, strict=True) if key} for row in rows[1:])

    wanted = names if kinds is None else [each for each in names if each in kinds]
    if not wanted:
        raise SourceRefused("the header of this sheet has no declared column", "check the policy and the first row")
    loaded = _load_rows(connection, name, cells, wanted, kinds, units, {})
    return Loaded(loaded.identities, names, part=f"#{chosen}")


def _load_rows(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    rows: Callable[[], Iterator[Row]],
    names: Sequence[str] | None,
    kinds: Mapping[str, Kind] | None,
    units: Sequence[str],
    own: Mapping[Kind, str],
) -> Loaded:
    """Store cells as texts, and then read them as their kinds. `own` are families that count as those of a kind."""
    if kinds is None:
        finders: dict[str, KindFinder] = {each: KindFinder() for each in names or ()}
        for row in rows():
            for key, cell in row.items():
                finders.setdefault(key, KindFinder()).add(*cell)
        kinds = {key: finder.kind for key, finder in finders.items()}
        names = list(kinds)
        if len({key.lower() for key in names}) < len(names):
            raise SourceRefused("two names differ in the case of letters only", "rename one of them, or declare a policy")
    if not names:
        raise SourceRefused("this file is empty: without a row it has no columns", "declare the columns in a policy")
    identities = identity_columns([unit for unit in units if unit in names], names)
    texts = {f"c{i}": (key, kinds[key], None) for i, key in enumerate(names)}
    ids = {f"i{i}": (key, kinds[key], own.get(kinds[key])) for i, key in enumerate(identities)}
    raw, listed = quote_name(f"{name} as text"), ", ".join(f"{each} VARCHAR" for each in (*texts, *ids))
    connection.execute(f"CREATE TEMP TABLE {raw} ({listed})")
    insert = f"INSERT INTO {raw} SELECT {', '.join('unnest(?::VARCHAR[])' for _ in (*texts, *ids))}"
    remaining, seen = rows(), set(names)
    while chunk := list(islice(remaining, CHUNK)):
        seen.update(*chunk)
        values = [[value_text(kind, *row.get(key, MISSING)) for row in chunk] for key, kind, _ in texts.values()]
        values += [
            [identity_text(kind, *row.get(key, MISSING), plain) for row in chunk] for key, kind, plain in ids.values()
        ]
        connection.execute(insert, values)
    columns = [f"{read_text_as(kind, each)} AS {quote_name(key)}" for each, (key, kind, _) in texts.items()]
    columns += [f"{each} AS {quote_name(identity)}" for each, identity in zip(ids, identities.values(), strict=True)]
    connection.execute(f"CREATE TABLE {quote_name(name)} AS SELECT {', '.join(columns)} FROM {raw}")
    connection.execute(f"DROP TABLE {raw}")
    return Loaded(identities, seen)


# -- JSON lines ------------------------------------------------------------------------------------------------------------


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _read_json_lines(file: str) -> Iterator[Row]:
    """Yield the cells of each line.

    Raises:
        SourceRefused: a line is no object. The owner's log says which.
    """
    decode = json.JSONDecoder(parse_float=_Number, parse_int=_Number).decode
    with open_lines(file) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found = decode(line)
                line.encode()  # what is not UTF-8 was read as a surrogate
            except (ValueError, RecursionError) as error:
                owner_log.warning("line %s of %s: %s", number, file, error)
                found = None
            if not isinstance(found, dict):
                raise SourceRefused(
                    "a line of this file is not a JSON object in UTF-8", f"put one object on each line; {SAYS_MORE}"
                )
            yield {key: _read_json_cell(value) for key, value in found.items()}


def _read_json_cell(value: Any) -> Cell:
    if isinstance(value, _Number):
        return "number", format_exact(value)
    return read_cell(value)


_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
MAX_ZEROS = 400
"""A number with more zeros before or after its digits is written with an exponent."""


def format_exact(number: str) -> str:
    """The one text of a JSON number, however it is written: the same text for equal numbers, another for any other.

    >>> [format_exact(each) for each in ("1", "1.0", "10e-1", "1.50", "-0.0", "9007199254740993", "1e999")]
    ['1', '1', '1', '1.5', '0', '9007199254740993', '1E999']
    """
    if _WHOLE.fullmatch(number):
        return "0" if number == "-0" else number
    try:
        sign, digits, exponent = Decimal(number).as_tuple()
    except InvalidOperation:  # an exponent of more than 18 digits
        return number
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    if not stripped:
        return "0"
    minus = "-" * sign
    if 0 <= exponent <= MAX_ZEROS:
        return f"{minus}{stripped}{'0' * exponent}"
    if -MAX_ZEROS <= exponent < 0:
        padded = stripped.rjust(1 - exponent, "0")
        return f"{minus}{padded[:exponent]}.{padded[exponent:]}"
    return f"{minus}{stripped}E{exponent}"


# -- spreadsheets ----------------------------------------------------------------------------------------------------------


def _read_sheet(file: str, sheet: str | None) -> tuple[str, list[list[Any]]]:
    """The name of a sheet, the only one unless given, and its rows, all of one length."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise SourceRefused("python-calamine is not installed", "pip install 'discreet[excel]'") from None

    try:
        workbook = CalamineWorkbook.from_path(file)
        names = list(workbook.sheet_names)
        if sheet is None and len(names) == 1:
            sheet = names[0]
        elif sheet not in names:
            owner_log.warning("the sheets of %s are %s", file, names)
            reason = "this workbook has several sheets" if sheet is None else f"this workbook has no sheet {sheet!r}"
            raise SourceRefused(reason, f"say which after a #, such as people.xlsx#Sheet1; {SAYS_MORE}")
        return sheet, list(workbook.get_sheet_by_name(sheet).iter_rows())
    except (CalamineError, OSError, ValueError) as error:
        owner_log.warning("%s", error)
        raise SourceRefused("this workbook cannot be read", f"check that it is .xlsx; {SAYS_MORE}") from None


def _read_sheet_cell(cell: Any) -> Cell:
    return MISSING if cell == "" else read_cell(cell)


def _check_sheet_units(unit: str, cells: Sequence[Any]) -> None:
    """Refuse ids that the format does not tell apart."""
    if any(isinstance(cell, float | int) and math.isfinite(cell) and abs(cell) >= EXACT_LIMIT for cell in cells):
        raise large_float_error(unit)
    if any(isinstance(cell, date | datetime) for cell in cells):
        reason = f"the units in {unit} are dates of a spreadsheet, which are rounded numbers"
        raise SourceRefused(reason, "store them as texts")
