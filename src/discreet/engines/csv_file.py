"""CSV files whose columns were declared: every cell is read as text, and as what it was declared to be afterwards.

No type, delimiter or quote is guessed from values. The delimiter is the one that splits the header, which is public, into
the declared names. A cell that is not what its column holds is missing, so what a cell means depends on that cell alone;
an empty cell is missing too, with or without quotes.
"""

import csv
from collections.abc import Mapping, Sequence

import duckdb
from sqlglot import exp

from discreet.errors import SourceRefused
from discreet.query.table import Kind

DELIMITERS = (",", ";", "\t", "|")
TYPES = {
    Kind.INTEGER: "BIGINT", Kind.REAL: "DOUBLE", Kind.BOOLEAN: "BOOLEAN", Kind.TEXT: "VARCHAR", Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}  # fmt: skip


def place_csv(connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[str], kinds: Mapping[str, Kind]) -> None:
    """Read the declared columns into a table. The cast is made from a stored text: DuckDB hands a cast down to its reader
    of CSV, where a cell that does not fit raises, TRY or not."""
    delimiter, header = _header(files, kinds)
    raw = exp.to_identifier(f"{name} as text", quoted=True).sql(dialect="duckdb")
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(header)))
    listed = exp.Array(expressions=[exp.Literal.string(file) for file in files]).sql(dialect="duckdb")
    options = f"auto_detect = false, header = true, delim = '{delimiter}', quote = '\"', escape = '\"'"
    casts = [_cast(f"c{i}", column, kinds[column]) for i, column in enumerate(header) if column in kinds]
    if not casts:
        raise SourceRefused("no declared column is in the header of this file", "check the policy and the first line")
    connection.execute(f"CREATE TEMP TABLE {raw} AS SELECT * FROM read_csv({listed}, {options}, columns = {{{columns}}})")
    kept = exp.to_identifier(name, quoted=True).sql(dialect="duckdb")
    connection.execute(f"CREATE TABLE {kept} AS SELECT {', '.join(casts)} FROM {raw}")
    connection.execute(f"DROP TABLE {raw}")


def _cast(place: str, column: str, kind: Kind) -> str:
    return f"TRY_CAST({place} AS {TYPES[kind]}) AS {exp.to_identifier(column, quoted=True).sql(dialect='duckdb')}"


def _header(files: Sequence[str], kinds: Mapping[str, Kind]) -> tuple[str, list[str]]:
    found = {delimiter: [_first_line(file, delimiter) for file in files] for delimiter in DELIMITERS}
    if not files or not all(found[","]):
        raise SourceRefused("this file has no header", "put the names of the columns in its first line")
    delimiter = max(DELIMITERS, key=lambda each: len(set(found[each][0]) & set(kinds)))
    header = found[delimiter][0]
    if any(other != header for other in found[delimiter]):
        raise SourceRefused("these files have different headers", "give each the same columns in the same order")
    twice = [name for name in kinds if header.count(name) > 1]
    if twice:
        raise SourceRefused(f"two columns of this file are called {twice[0]}", "rename one of them")
    return delimiter, header


def _first_line(path: str, delimiter: str) -> list[str]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return next(csv.reader(file, delimiter=delimiter), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        raise SourceRefused("the header of this file cannot be read", "check that it is text in UTF-8") from None
