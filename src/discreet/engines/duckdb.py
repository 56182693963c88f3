"""DuckDB, embedded: the engine for files, frames and DuckDB's own databases.

The connection is locked down once the source is in place: no file, no network, no extension, no setting can be reached
through it afterwards. Whatever the engine raises becomes one constant message, because its text may hold a value.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from discreet.errors import EngineFailed, SourceRefused
from discreet.query.bound import Bounded
from discreet.query.table import Column, Kind
from discreet.sql.dialects import DUCKDB
from discreet.sql.lower import lower

log = logging.getLogger("discreet.owner")
"""For the owner of the data only: engine errors may quote values."""

READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}
KINDS = {
    "BOOLEAN": Kind.BOOLEAN, "VARCHAR": Kind.TEXT, "DATE": Kind.DATE, "UUID": Kind.TEXT, "TINYINT": Kind.INTEGER,
    "SMALLINT": Kind.INTEGER, "INTEGER": Kind.INTEGER, "BIGINT": Kind.INTEGER, "UTINYINT": Kind.INTEGER,
    "USMALLINT": Kind.INTEGER, "UINTEGER": Kind.INTEGER, "FLOAT": Kind.REAL, "DOUBLE": Kind.REAL,
    "TIMESTAMP": Kind.TIMESTAMP,
}  # fmt: skip


class DuckDB:
    """One source in one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        self.connection, self.table = connection, table

    @classmethod
    def open(cls, source: Any, table: str | None = None) -> "DuckDB":
        """A CSV or Parquet file (globs too), a DuckDB file or connection, an Arrow table, a pandas or Polars frame."""
        if isinstance(source, duckdb.DuckDBPyConnection):
            if table is None:
                raise SourceRefused("a connection holds many tables", "say which with table=")
            return cls(source, table)
        if isinstance(source, str | Path):
            return cls._file(str(source), table)
        connection = duckdb.connect()
        connection.register(table or "data", source)
        return cls(connection, table or "data")

    @classmethod
    def _file(cls, path: str, table: str | None) -> "DuckDB":
        suffix, name = Path(path).suffix.lower(), table or Path(path).stem
        if suffix in (".duckdb", ".db"):
            if table is None:
                raise SourceRefused("a database holds many tables", "say which with --table")
            return cls(_connected(path), table)
        if suffix not in READERS:
            raise SourceRefused(
                f"{suffix or 'no ending'} is not a kind of file that can be read", "give .csv, .parquet or .duckdb"
            )
        connection = duckdb.connect()
        reader = exp.Anonymous(this=READERS[suffix], expressions=[exp.Literal.string(path)]).sql(dialect="duckdb")
        view = exp.to_identifier(name, quoted=True).sql(dialect="duckdb")
        try:
            connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {reader}")
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused(
                "this file cannot be read", "check the path and the format; the owner's log says more"
            ) from None
        return cls(connection, name)

    def columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        described = self.connection.table(self.table)
        return {
            name: Column(KINDS[str(kind)])
            for name, kind in zip(described.columns, described.types, strict=True)
            if str(kind) in KINDS
        }

    def statement(self, bounded: Bounded) -> str:
        """What will run."""
        return lower(bounded, exp.to_table(self.table), DUCKDB).sql(dialect="duckdb")

    def totals(self, bounded: Bounded) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """(totals, keys) per group. A group without rows in the engine does not appear; SUM over nothing is zero."""
        width = len(bounded.totals)
        try:
            rows = self.connection.execute(self.statement(bounded)).fetchall()
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise EngineFailed from None
        for row in rows:
            yield tuple(int(total or 0) for total in row[:width]), tuple(row[width:])


def _connected(path: str) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(path, read_only=True)
    except duckdb.Error as mistake:
        log.warning("%s", mistake)
        raise SourceRefused("this database cannot be opened", "check the path; the owner's log says more") from None
