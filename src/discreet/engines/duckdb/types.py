"""How a cell of any DuckDB type is read: as the kind that its column is declared to hold, and as the identity of a unit.

Both are total functions of the one cell and of what is declared. A cell that does not fit its declared kind is NULL. Neither
depends on the type that a column happens to have, because one person's odd or missing cell decides that type: pandas turns
whole numbers beside a missing one into floats, and numbers beside a text into objects.

**Identity of a unit.** Contribution bounds hold per unit, so two people with ids that read as one would be bounded as one,
and one of them could move a sum by more than the stated sensitivity. The identity is therefore injective in what the source
holds. In a text file it is the cell's own text: "1", "01" and " 1 " are three units. In a frame, a cell of the declared
kind's own family is its one text (a whole number has the same one as a float), and a cell of another family is marked by a
leading NUL and the name of its family: the text "1" among numbers is not the number 1.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from discreet.engines.base import ColumnReader
from discreet.query.schema import Kind

TYPES = {
    Kind.INTEGER: "BIGINT", Kind.REAL: "DOUBLE", Kind.BOOLEAN: "BOOLEAN", Kind.TEXT: "VARCHAR", Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}  # fmt: skip
"""The DuckDB type of each kind."""

ZONED = "TIMESTAMP WITH TIME ZONE"
ZONED_NS = "TIMESTAMPTZ_NS"
NANOSECONDS = ("TIMESTAMP_NS", ZONED_NS)
BIGINTS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"})
"""Whole numbers that a BIGINT holds."""
EXACT_LIMIT = 1 << 53
"""Up to here a double holds every whole number."""
WHOLE_NUMBERS = BIGINTS | {"HUGEINT", "UBIGINT", "UHUGEINT"}
FAMILIES = {
    **dict.fromkeys((*WHOLE_NUMBERS, "FLOAT", "DOUBLE", "DECIMAL"), "number"),
    **dict.fromkeys(("VARCHAR", "ENUM", "UUID"), "text"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", *NANOSECONDS, ZONED), "moment"),
    "BOOLEAN": "boolean",
    "DATE": "date",
}
"""The family of each DuckDB type; lists, structs, blobs, intervals and others have none and are read as NULL."""

KINDS = {
    **dict.fromkeys(WHOLE_NUMBERS - {"UHUGEINT"}, Kind.INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), Kind.REAL),
    **dict.fromkeys(("VARCHAR", "ENUM", "UUID"), Kind.TEXT),
    **dict.fromkeys(("TIMESTAMP", *NANOSECONDS, ZONED), Kind.TIMESTAMP),
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
}
"""The kind of each DuckDB type; a column of any other type is hidden."""

READ_AS = {
    "UUID": "VARCHAR",
    "ENUM": "VARCHAR",
    "DECIMAL": "DOUBLE",
    "TIMESTAMP_NS": "TIMESTAMP",
}
"""Types of stored columns that are read as others before anything is compared with them; each cast succeeds on every
value."""

ALLOWED = {
    Kind.INTEGER: ("number", "text"),
    Kind.REAL: ("number", "text"),
    Kind.BOOLEAN: ("boolean", "number", "text"),
    Kind.TEXT: ("text", "number", "boolean", "date", "moment"),
    Kind.DATE: ("date", "moment", "text"),
    Kind.TIMESTAMP: ("moment", "date", "text"),
}
"""The families of cells that can be read as a kind; the first is the kind's own."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a source became a table of."""

    identities: Mapping[str, str]  # for each column of a unit that does not identify it as it is read, the one that does
    names: Collection[str]  # of all columns of the source, also of those that are not declared
    part: str | None = None  # which part of its file was read, for the identity of the source: a sheet
    problem: str | None = None  # why two units could be read as one


def quote_name(name: str) -> str:
    """Quote a name for DuckDB.

    >>> quote_name('an "id" here')
    '"an ""id"" here"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """A constant text for DuckDB, in which a backslash is a character like others.

    >>> quote_text("o'clock")
    "'o''clock'"
    """
    return "'" + text.replace("'", "''") + "'"


def quote_texts(texts: Iterable[str]) -> str:
    """A constant list of texts for DuckDB."""
    return f"[{', '.join(map(quote_text, texts))}]"


def kind_of(type_name: str) -> Kind | None:
    """The kind that a column of this DuckDB type holds; None if it is hidden."""
    return KINDS.get(type_name.partition("(")[0])


def family_prefix(family: str) -> str:
    """The prefix of the identity of a cell whose family is not the declared kind's own."""
    return f"\0{family}:"


def read_text_as(kind: Kind, text: str) -> str:
    """SQL that reads a text as a kind. A whole number is a sign and digits: TRY_CAST alone accepts 1.4, 1e0, 0x1 and 1_000
    too. A timestamp with a UTC offset is the same moment in UTC; one without is taken to be in UTC."""
    match kind:
        case Kind.TEXT:
            return text
        case Kind.INTEGER:
            return rf"TRY_CAST(CASE WHEN regexp_full_match({text}, '\s*[+-]?[0-9]+\s*') THEN {text} END AS BIGINT)"
        case Kind.TIMESTAMP:
            return f"(TRY_CAST({text} AS TIMESTAMPTZ) AT TIME ZONE 'UTC')"
        case _:
            return f"TRY_CAST({text} AS {TYPES[kind]})"


def read_as(kind: Kind, type_name: str, cell: str) -> str:
    """SQL that reads a cell of a DuckDB type as a kind."""
    family = _family(type_name)
    if family not in ALLOWED[kind]:
        return f"NULL::{TYPES[kind]}"
    if kind is Kind.TEXT or family == "text" or type_name in NANOSECONDS:  # a cast rounds nanoseconds, a text's are cut off
        return read_text_as(kind, _to_text(type_name, cell))
    if kind is Kind.BOOLEAN and family == "number":
        return f"CASE {_to_double(cell)} WHEN 0 THEN false WHEN 1 THEN true END"
    if kind is Kind.INTEGER and type_name not in WHOLE_NUMBERS:
        return _to_whole(_to_double(cell))
    return f"TRY_CAST({_to_utc(type_name, cell)} AS {TYPES[kind]})"


def read_identity(kind: Kind, type_name: str, cell: str) -> str | None:
    """SQL that reads the identity of a unit; None if the column, read as its kind, is its own identity."""
    family = _family(type_name)
    if family == ALLOWED[kind][0] and (type_name == TYPES[kind] or type_name in BIGINTS) and family != "text":
        return None
    if family is None:
        return "NULL::VARCHAR"
    text = _to_text(type_name, cell)
    if family != ALLOWED[kind][0]:
        return f"{_family_prefix_sql(family)} || {text}"
    marked = f"CASE WHEN starts_with({text}, chr(0)) THEN {_family_prefix_sql(family)} ELSE '' END"
    return f"{marked} || {text}" if family == "text" else text


def _family(type_name: str) -> str | None:
    return FAMILIES.get(type_name.partition("(")[0])


def _family_prefix_sql(family: str) -> str:
    return f"chr(0) || '{family}:'"


def _to_text(type_name: str, cell: str) -> str:
    """SQL for the text of a cell, the same for equal cells whatever type their column has."""
    if type_name in ("FLOAT", "DOUBLE"):
        number = _to_double(cell)
        return f"CASE WHEN NOT isnan({number}) THEN coalesce({_to_whole(number)}::VARCHAR, {number}::VARCHAR) END"
    return f"{_to_utc(type_name, cell)}::VARCHAR" + (" || '+00'" if type_name in (ZONED, ZONED_NS) else "")


def _to_double(cell: str) -> str:
    return f"TRY_CAST({cell} AS DOUBLE)"


def _to_whole(number: str) -> str:
    """SQL for a double as a whole number; NaN, infinities and fractions are NULL."""
    return f"TRY_CAST(CASE WHEN isfinite({number}) AND {number} = floor({number}) THEN {number} END AS BIGINT)"


def _to_utc(type_name: str, cell: str) -> str:
    return f"({cell} AT TIME ZONE 'UTC')" if type_name in (ZONED, ZONED_NS) else cell


# -- columns that DuckDB stores --------------------------------------------------------------------------------------------


def reader_of(type_name: str, collated: bool) -> ColumnReader:
    """How a stored column of this type is read; None if it is read as it is. A text may have a collation."""
    if type_name == "VARCHAR" and collated:
        return _without_collation
    if type_name == ZONED:
        return _to_utc_timestamp
    if type_name == ZONED_NS:
        return lambda column: exp.cast(_at_utc(column), "TIMESTAMP", dialect="duckdb")
    other = READ_AS.get(type_name.partition("(")[0])
    return None if other is None else lambda column: exp.cast(column, other, dialect="duckdb")


def identity_reader_of(type_name: str) -> ColumnReader:
    """How a unit is identified in a stored column of this type; None if the column, as it is read, does so. A timestamp is
    read without its nanoseconds, which would make one unit of two."""
    if type_name == ZONED_NS:
        return lambda column: _as_text(_at_utc(column))
    return _as_text if type_name == "TIMESTAMP_NS" else None


def _without_collation(column: exp.Expr) -> exp.Expr:
    """A text without its collation, which would make one group of texts that the hash and the keys tell apart:
    contributions are bounded per text, byte by byte."""
    return exp.Collate(this=column, expression=exp.Var(this="C"))


def _to_utc_timestamp(column: exp.Expr) -> exp.Expr:
    """The same moment in UTC, without a zone. A cast would take the connection's zone; microseconds have none."""
    ends = [exp.Literal.string(text) for text in ("infinity", "-infinity")]
    ifs = [
        exp.If(this=exp.EQ(this=column, expression=exp.cast(end, "TIMESTAMPTZ")), true=exp.cast(end, "TIMESTAMP"))
        for end in ends
    ]
    micros = exp.Anonymous(this="epoch_us", expressions=[column])
    return exp.Case(ifs=ifs, default=exp.Anonymous(this="make_timestamp", expressions=[micros]))


def _as_text(column: exp.Expr) -> exp.Expr:
    return exp.cast(column, "VARCHAR", dialect="duckdb")


def _at_utc(column: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.AtTimeZone(this=column, zone=exp.Literal.string("UTC")))
