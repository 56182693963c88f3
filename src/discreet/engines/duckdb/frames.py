"""Frames: pandas, Polars and Arrow tables, copied once into a table of DuckDB's own.

With a policy, every column is read by its declared kind, as in a CSV file (see `types`); without one, by its own type. A
value that the engine cannot hold is found when the source is opened, and cannot make a query fail later.

A pandas column of Python objects is read cell by cell, each as a text that depends on that cell alone. DuckDB would infer
the type of such a column from a sample of its cells, round 1.5 to 2 where it inferred whole numbers, and fail where a cell
does not fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

import duckdb
import numpy

from discreet.engines.base import identity_column
from discreet.engines.duckdb.types import (
    ALLOWED,
    ZONED_NS,
    family_prefix,
    kind_of,
    quote_name,
    read_as,
    read_identity,
)
from discreet.errors import SourceRefused
from discreet.query.schema import Kind

BIGINT_LIMIT = 1 << 63
DIGITS_LIMIT = 1 << 256
"""From here on whole numbers are written in hexadecimal: Python writes no more than 4,300 decimal digits."""
EXACT_LIMIT = 1 << 53
"""Up to here a double holds every whole number."""
FAMILY_KINDS = {"text": Kind.TEXT, "boolean": Kind.BOOLEAN, "date": Kind.DATE, "moment": Kind.TIMESTAMP}


def copy_frame(
    connection: duckdb.DuckDBPyConnection, name: str, frame: Any, kinds: Mapping[str, Kind] | None, unit: str | None
) -> str | None:
    """Copy the declared columns of a frame, or all of them, into a table.

    Returns:
        The column that holds the units' identities; None if the units' own column does.
    """
    given = _Frame(frame, {} if kinds is None else dict(kinds), declared=kinds is not None)
    names = list(frame.columns) if _is_pandas(frame) else [field.name for field in _arrow_fields(frame)]
    if len(set(names)) < len(names):  # DuckDB would give the second column another name
        raise SourceRefused("two columns of this frame have the same name", "rename one of them")
    if _is_pandas(frame):
        given = given.without_objects(unit)
    connection.register("given", given.frame)
    types = {row[0]: row[1] for row in connection.execute("DESCRIBE FROM given").fetchall()}
    columns = given.select_columns(types)
    identities = given.identities
    if (
        identities is None
        and unit is not None
        and (kind := given.kinds.get(unit) or kind_of(types.get(unit, ""))) is not None
    ):
        if types[unit] in ("FLOAT", "DOUBLE"):
            _check_float_units(connection, unit)
        read = read_identity(kind, types[unit], quote_name(unit))
        identities = None if read is None else identity_column(unit, types)
        columns += [] if identities is None else [f"{read} AS {quote_name(identities)}"]
    connection.execute(f"CREATE TABLE {quote_name(name)} AS SELECT {', '.join(columns) or '*'} FROM given")
    connection.unregister("given")
    return identities


def _check_float_units(connection: duckdb.DuckDBPyConnection, unit: str) -> None:
    """Refuse floats beyond 2^53, where several ids are one float. In pandas, whole numbers beside a missing one are
    floats."""
    beyond = f"SELECT count(*) FROM given WHERE isfinite({quote_name(unit)}) AND abs({quote_name(unit)}) >= {EXACT_LIMIT}"
    if connection.execute(beyond).fetchall() != [(0,)]:
        raise SourceRefused(
            f"the units in {unit} are floats, which do not tell large ids apart",
            "store them as texts, or in pandas as Int64",
        )


def find_frame_unit_problem(frame: Any, unit: str | None) -> str | None:
    """Say why two units of a frame could be read as one; None if they cannot."""
    fields = {field.name: str(field.type) for field in _arrow_fields(frame)}
    return "date64 is read without its time of day" if fields.get(unit or "") == "date64[ms]" else None


def _is_pandas(frame: Any) -> bool:
    return type(frame).__module__.partition(".")[0] == "pandas"


def _arrow_fields(frame: Any) -> list[Any]:
    """The fields of an Arrow table, reader or dataset. None of a Polars frame, which has unique names: a lazy one would
    compute its schema, with a warning."""
    schema = () if type(frame).__module__.partition(".")[0] in ("pandas", "polars") else getattr(frame, "schema", ())
    return [field for field in schema if hasattr(field, "type")]


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame, the kinds that are known of its columns, and the column of the units' identities, if it has one."""

    frame: Any
    kinds: dict[str, Kind]
    declared: bool
    identities: str | None = None

    def select_columns(self, types: Mapping[str, str]) -> list[str]:
        """The columns in SQL: read by kind where one is known, else as they are, or left out if columns are declared."""
        kinds = {name: Kind.TIMESTAMP for name, kind in types.items() if kind == ZONED_NS and not self.declared} | self.kinds
        known = {name: read_as(kinds[name], kind, quote_name(name)) for name, kind in types.items() if name in kinds}
        return [
            f"{known[name]} AS {quote_name(name)}" if name in known else quote_name(name)
            for name in types
            if name in known or name == self.identities or not self.declared
        ]

    def without_objects(self, unit: str | None) -> "_Frame":
        """The same frame with texts in place of pandas objects."""
        import pandas

        texts, kinds, identities = self.frame.copy(deep=False), dict(self.kinds), None
        for name in self.frame.columns:
            if not _holds_objects(self.frame[name].dtype) or (self.declared and name not in kinds):
                continue
            cells = [read_cell(cell) for cell in self.frame[name].astype(object)]
            kind = kinds[name] = kinds[name] if self.declared else _infer_kind(cells)
            texts[name] = pandas.array([_value_text(kind, *cell) for cell in cells], dtype="string")
            if unit is not None and name == unit:
                identities = identity_column(unit, self.frame.columns)
                texts[identities] = pandas.array([_identity_text(kind, *cell) for cell in cells], dtype="string")
        return _Frame(texts, kinds, self.declared, identities)


def read_cell(cell: Any) -> tuple[str | None, str | None]:
    """Return the family and the text of a cell; (None, None) if it is missing or of no family.

    >>> read_cell(1), read_cell(1.0), read_cell("1"), read_cell(1.5), read_cell(b"1")
    (('number', '1'), ('number', '1'), ('text', '1'), ('number', '1.5'), (None, None))
    """
    if isinstance(cell, bool | numpy.bool_):
        return "boolean", "true" if cell else "false"
    if isinstance(cell, str):
        return "text", str.__str__(cell)
    if isinstance(cell, int | numpy.integer):
        return "number", str(int(cell)) if abs(int(cell)) < DIGITS_LIMIT else hex(cell)
    if isinstance(cell, float | numpy.floating):
        return (None, None) if isnan(cell) else ("number", _format_float(float(cell)))
    if isinstance(cell, Decimal):
        return ("number", format(cell, "f")) if cell.is_finite() else (None, None)
    if isinstance(cell, datetime):
        text = _format_moment(cell) if cell == cell else None  # NaT is a datetime that equals nothing
        return (None, None) if text is None else ("moment", text)
    return ("date", cell.isoformat()) if isinstance(cell, date) else (None, None)


def _format_float(number: float) -> str:
    return str(int(number)) if number.is_integer() and -BIGINT_LIMIT <= number < BIGINT_LIMIT else repr(number)


def _format_moment(moment: datetime) -> str | None:
    """Format a moment as DuckDB does: in UTC if it has a zone, without zeros after the last digit. None if no year holds
    it."""
    try:
        naive = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (OverflowError, ValueError):
        return None
    day = f"{naive.year if naive.year > 0 else 1 - naive.year:04d}-{naive.month:02d}-{naive.day:02d}"
    era = "" if naive.year > 0 else " (BC)"
    digits = f"{naive.microsecond:06d}{getattr(naive, 'nanosecond', 0):03d}".rstrip("0")
    time = f"{naive.hour:02d}:{naive.minute:02d}:{naive.second:02d}" + (f".{digits}" if digits else "")
    return f"{day}{era} {time}" + ("" if moment.tzinfo is None else "+00")


def _value_text(kind: Kind, family: str | None, text: str | None) -> str | None:
    return text if family in ALLOWED[kind] and text is not None and _is_utf8(text) else None


def _identity_text(kind: Kind, family: str | None, text: str | None) -> str | None:
    if family is None or text is None:
        return None
    if not _is_utf8(text):
        return family_prefix("escaped") + text.encode("unicode_escape").decode()
    plain = family == ALLOWED[kind][0] and not text.startswith("\0")
    return text if plain else family_prefix(family) + text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _infer_kind(cells: Sequence[tuple[str | None, str | None]]) -> Kind:
    """The kind of the one family that the cells have, without a policy; text if they have several."""
    families = {family for family, _ in cells if family is not None}
    if families == {"number"}:
        whole = all(text is None or text.lstrip("-").isdecimal() for _, text in cells)
        return Kind.INTEGER if whole else Kind.REAL
    return FAMILY_KINDS.get(families.pop(), Kind.TEXT) if len(families) == 1 else Kind.TEXT


def _holds_objects(dtype: Any) -> bool:
    """Whether a column holds objects, categories, intervals or periods, and not numbers, truth values, moments or texts of
    one type. Moments in a zone count as objects: DuckDB would read them without their nanoseconds."""
    if str(dtype).startswith("datetime64[ns, "):
        return True
    return str(dtype) in ("object", "category") or (dtype.kind == "O" and not str(dtype).startswith(("str", "string")))
