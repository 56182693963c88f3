"""DuckDB, embedded: the engine for files, frames and DuckDB's own databases.

The connection is locked down once the source is in place: no file, no network, no extension, no setting can be reached
through it afterwards. Whatever the engine raises becomes one constant message, because its text may hold a value.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from discreet.errors import EngineFailed, SourceRefused
from discreet.query.bound import Bounded
from discreet.query.groups import Exact
from discreet.query.measures import Counts
from discreet.query.table import Column, Kind, Table
from discreet.sql.dialects import DUCKDB
from discreet.sql.lower import lower
from discreet.sql.spread import lower_counts

log = logging.getLogger("discreet.owner")
"""For the owner of the data only: engine errors may quote values."""

READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}
KINDS = {
    "BOOLEAN": Kind.BOOLEAN, "VARCHAR": Kind.TEXT, "DATE": Kind.DATE, "UUID": Kind.TEXT, "TINYINT": Kind.INTEGER,
    "SMALLINT": Kind.INTEGER, "INTEGER": Kind.INTEGER, "BIGINT": Kind.INTEGER, "UTINYINT": Kind.INTEGER,
    "USMALLINT": Kind.INTEGER, "UINTEGER": Kind.INTEGER, "FLOAT": Kind.REAL, "DOUBLE": Kind.REAL,
    "TIMESTAMP": Kind.TIMESTAMP, "UBIGINT": Kind.INTEGER, "HUGEINT": Kind.INTEGER,
}  # fmt: skip
READ_AS = {"UUID": "VARCHAR", "ENUM": "VARCHAR", "DECIMAL": "DOUBLE", "TIMESTAMP_NS": "TIMESTAMP"}
"""Types that are cast before anything is compared with them. Each of these casts succeeds on every value."""

BATCH = 20_000


class DuckDB:
    """One source in one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        self.connection, self.table = connection, table
        self._question: Bounded | None = None
        self._written: dict[Counts | None, str] = {}

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
        try:
            connection.register(table or "data", source)
        except (duckdb.Error, TypeError, ValueError) as mistake:
            log.warning("%s", mistake)
            raise SourceRefused("this is not a table", "give a path, a frame, an Arrow table or a connection") from None
        return cls(_locked(connection), table or "data")

    @classmethod
    def _file(cls, path: str, table: str | None) -> "DuckDB":
        suffix, name = Path(path).suffix.lower(), table or Path(path).stem
        if suffix in (".duckdb", ".db"):
            if table is None:
                raise SourceRefused("a database holds many tables", "say which with --table")
            return cls(_locked(_connected(path)), table)
        if suffix not in READERS:
            raise SourceRefused(
                f"{suffix or 'no ending'} is not a kind of file that can be read", "give .csv, .parquet or .duckdb"
            )
        connection = duckdb.connect()
        try:
            files = [row[0] for row in connection.execute("SELECT file FROM glob(?)", [path]).fetchall()]
            _place(connection, name, suffix, files)
            return cls(_locked(connection, files if suffix == ".parquet" else []), name)
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused(
                "this file cannot be read", "check the path and the format; the owner's log says more"
            ) from None

    def columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        found = {name: _read_as(kind) or kind for name, kind in self._types().items()}
        return {name: Column(KINDS[kind]) for name, kind in found.items() if kind in KINDS}

    def _types(self) -> dict[str, str]:
        try:
            described = self.connection.sql(exp.select("*").from_(_quoted(self.table)).sql(dialect="duckdb"))
            return dict(zip(described.columns, map(str, described.types), strict=True))
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused("this table cannot be read", "check its name; the owner's log says more") from None

    def statement(self, bounded: Bounded) -> str:
        """What will run for the totals."""
        return self._once(bounded, None, lambda: lower(bounded, self._source(bounded.table), DUCKDB))

    def statement_of(self, bounded: Bounded, counts: Counts) -> str:
        """What will run for one spread of counts."""
        return self._once(bounded, counts, lambda: lower_counts(bounded, counts, self._source(bounded.table), DUCKDB))

    def statements(self, bounded: Bounded) -> tuple[str, ...]:
        """Everything that will run."""
        totals = (self.statement(bounded),) if bounded.totals else ()
        return (*totals, *(self.statement_of(bounded, counts) for counts in bounded.spreads))

    def _once(self, bounded: Bounded, counts: Counts | None, write: Callable[[], exp.Select]) -> str:
        """The statements of the last question are kept: they are shown after they ran."""
        if self._question is not bounded:
            self._question, self._written = bounded, {}
        if counts not in self._written:
            self._written[counts] = write().sql(dialect="duckdb")
        return self._written[counts]

    def _source(self, table: Table) -> exp.Expr:
        """The table, with the columns of unusual types cast."""
        types = {name: kind for name, kind in self._types().items() if name in table.columns}
        if not any(map(_read_as, types.values())):
            return _quoted(self.table)
        columns = [_cast(name, _read_as(kind)) for name, kind in types.items()]
        return exp.select(*columns).from_(_quoted(self.table)).subquery()

    def exact(self, bounded: Bounded) -> Exact:
        """Everything that a release of `bounded` needs, read when it is needed."""
        return Exact(self.totals(bounded), {counts: self.counts(bounded, counts) for counts in bounded.spreads})

    def totals(self, bounded: Bounded) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """(totals, keys) per group. A group without rows in the engine does not appear."""
        width = len(bounded.totals)
        for row in self._rows(self.statement(bounded)) if width else ():
            yield row[:width], row[width:]

    def counts(self, bounded: Bounded, counts: Counts) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """(count, cell, keys) for the cells that have rows."""
        for count, cell, *keys in self._rows(self.statement_of(bounded, counts)):
            yield count, cell, tuple(keys)

    def _rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """In batches, so that a million keys are never held at once."""
        try:
            result = self.connection.execute(statement)
            while batch := result.fetchmany(BATCH):
                yield from batch
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise EngineFailed from None

    def progress(self) -> float | None:
        """How much of the running statement is done, from 0 to 1; None if the connection keeps no count of it."""
        percent = self.connection.query_progress()
        return min(percent, 100.0) / 100 if percent >= 0 else None


def _quoted(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _read_as(kind: str) -> str | None:
    return READ_AS.get(kind.partition("(")[0])


def _cast(name: str, kind: str | None) -> exp.Expr:
    column = exp.Column(this=exp.to_identifier(name, quoted=True))
    return exp.alias_(exp.cast(column, kind, dialect="duckdb"), name, quoted=True) if kind else column


def _place(connection: duckdb.DuckDBPyConnection, name: str, suffix: str, files: list[str]) -> None:
    """Parquet stays in its files. CSV is read now: a line that does not parse is the steward's to mend, and must not make a
    question fail later."""
    listed = exp.Array(expressions=[exp.Literal.string(file) for file in files])
    reader = exp.Anonymous(this=READERS[suffix], expressions=[listed]).sql(dialect="duckdb")
    kind = "VIEW" if suffix == ".parquet" else "TABLE"
    connection.execute(f"CREATE {kind} {_quoted(name).sql(dialect='duckdb')} AS SELECT * FROM {reader}")


def _locked(connection: duckdb.DuckDBPyConnection, files: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """From here on the connection reaches these files and nothing else, and no setting can be changed back."""
    allowed = exp.Array(expressions=[exp.Literal.string(file) for file in files]).sql(dialect="duckdb")
    connection.execute(f"SET allowed_paths = {allowed}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET enable_progress_bar = true")  # kept, so that it can be asked for; never printed
    connection.execute("SET enable_progress_bar_print = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _connected(path: str) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(path, read_only=True)
    except duckdb.Error as mistake:
        log.warning("%s", mistake)
        raise SourceRefused("this database cannot be opened", "check the path; the owner's log says more") from None
