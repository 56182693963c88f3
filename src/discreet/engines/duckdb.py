"""DuckDB, embedded: the engine for files, frames and DuckDB's own databases.

The connection is locked down once the source is in place: no file, no network, no extension, no setting can be reached
through it afterwards. Whatever the engine raises becomes one constant message, because its text may hold a value.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import duckdb
from sqlglot import exp

from discreet.engines.csv_file import place_csv
from discreet.engines.lookup import MOST_ROWS, copy_lookup, lookup_table
from discreet.engines.owner import log
from discreet.errors import EngineFailed, SourceRefused
from discreet.query.bound import Bounded
from discreet.query.groups import Exact
from discreet.query.measures import Counts
from discreet.query.table import Column, Kind, Lookup
from discreet.sql.dialects import DUCKDB
from discreet.sql.lower import lower
from discreet.sql.spread import lower_counts

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

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        public: Mapping[str, str] = MappingProxyType({}),
        place: str | None = None,
        collated: bool = True,
    ) -> None:
        self.connection, self.table = connection, table
        self.turn = _turns.setdefault(
            connection, threading.Lock()
        )  # a connection has one result at a time, for all sessions
        self.collated = collated  # whether a text column may take different texts for equal
        self.identity = place or f"in memory, {uuid4().hex}"  # what is nowhere in particular is like nothing else
        self.public = public  # where the copies of public tables are

    @classmethod
    def open(cls, source: Any, table: str | None = None, kinds: Mapping[str, Kind] | None = None) -> "DuckDB":
        """A CSV or Parquet file (globs too), a DuckDB file or connection, an Arrow table, a pandas or Polars frame.

        `kinds` says what the columns of a CSV file hold; without them it is guessed from the values.
        """
        if isinstance(source, duckdb.DuckDBPyConnection):
            if table is None:
                raise SourceRefused("a connection holds many tables", "say which with table=")
            _refuse_collation(source)
            return cls(source, table, place=_home(source))
        if isinstance(source, str | Path):
            return cls._file(str(source), table, kinds)
        return cls(_locked(_copied(source, table or "data")), table or "data", collated=False)

    @classmethod
    def _file(cls, path: str, table: str | None, kinds: Mapping[str, Kind] | None) -> "DuckDB":
        suffix, name = Path(path).suffix.lower(), table or Path(path).stem
        if suffix in (".duckdb", ".db"):
            if table is None:
                raise SourceRefused("a database holds many tables", "say which with --table")
            return cls(_locked(_connected(path)), table, place=_absolute(path))
        if suffix not in READERS:
            raise SourceRefused(
                f"{suffix or 'no ending'} is not a kind of file that can be read", "give .csv, .parquet or .duckdb"
            )
        connection = duckdb.connect()
        try:
            files = [row[0] for row in connection.execute("SELECT file FROM glob(?)", [path]).fetchall()]
            if kinds is not None and suffix != ".parquet" and files:
                place_csv(connection, name, files, kinds)
            else:
                _place(connection, name, suffix, files)
            return cls(
                _locked(connection, files if suffix == ".parquet" else []), name, place=_absolute(path), collated=False
            )
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused(
                "this file cannot be read", "check the path and the format; the owner's log says more"
            ) from None

    def with_public(self, sources: Mapping[str, Any]) -> "tuple[DuckDB, dict[str, Lookup]]":
        """The same source beside copies of these public tables, which may be whatever a source can be. They pass through
        Python, so that the locked connection needs to reach nothing new."""
        places, lookups = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).contents()
            try:
                places[name], lookups[name] = copy_lookup(self.connection, name, kinds, rows)
            except duckdb.Error as mistake:
                log.warning("%s", mistake)
                raise SourceRefused(f"the public table {name} cannot be copied", "the owner's log says more") from None
        return DuckDB(self.connection, self.table, MappingProxyType(places), self.identity, self.collated), lookups

    def contents(self) -> tuple[dict[str, Kind], list[tuple[Any, ...]]]:
        """Every row. Only a public table is read like this."""
        kinds, types = {name: column.kind for name, column in self.columns().items()}, self._types()
        if not kinds:
            raise SourceRefused(f"no column of {self.table} can be read", "give numbers, texts, dates or truth values")
        columns = [_cast(name, _read_as(types[name])) for name in kinds]
        try:
            found = self.connection.execute(exp.select(*columns).from_(_quoted(self.table)).sql(dialect="duckdb"))
            rows = found.fetchmany(MOST_ROWS + 1)
        except duckdb.Error as mistake:
            log.warning("%s", mistake)
            raise SourceRefused(f"{self.table} cannot be read", "the owner's log says more") from None
        if len(rows) > MOST_ROWS:
            raise SourceRefused(f"{self.table} has more than {MOST_ROWS:,} rows", "join to a shorter public table")
        return kinds, rows

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
        return lower(bounded, self._source(bounded), DUCKDB).sql(dialect="duckdb", copy=False)

    def statement_of(self, bounded: Bounded, counts: Counts) -> str:
        """What will run for one spread of counts."""
        return lower_counts(bounded, counts, self._source(bounded), DUCKDB).sql(dialect="duckdb", copy=False)

    def statements(self, bounded: Bounded) -> tuple[str, ...]:
        """Everything that will run."""
        spreads = tuple(self.statement_of(bounded, counts) for counts in bounded.spreads)
        return (self.statement(bounded), *spreads) if bounded.totals else spreads

    def _source(self, bounded: Bounded) -> exp.Expr:
        """The table, with the columns of unusual types cast, joined to the public tables that the question names."""
        joins, public = bounded.query.joins, bounded.table.public
        added = {f"{join.table}.{name}" for join in joins for name in public[join.table].columns}
        own = {name: kind for name, kind in self._types().items() if name in bounded.table.columns and name not in added}
        source: exp.Expr = _quoted(self.table)
        if self.collated or any(map(_read_as, own.values())):
            columns = [self._plain(name, kind) for name, kind in own.items()]
            source = exp.select(*columns).from_(source).subquery()
        return self._joined(source, list(own), bounded) if joins else source

    def _plain(self, name: str, kind: str) -> exp.Expr:
        """A column as the type that questions know. A collation would make one group of texts that the hash and the keys
        tell apart: every person's share is bounded by the letters alone."""
        if self.collated and kind == "VARCHAR":
            letters = exp.Collate(this=exp.Column(this=exp.to_identifier(name, quoted=True)), expression=exp.Var(this="C"))
            return exp.alias_(letters, name, quoted=True)
        return _cast(name, _read_as(kind))

    def _joined(self, source: exp.Expr, own: list[str], bounded: Bounded) -> exp.Expr:
        """One plain equality per join; each copy holds a value at most once in that column, so no row becomes two."""
        homes = {name: _column(name, "own") for name in own}
        select = exp.select().from_(exp.alias_(source, "own", table=True, quoted=True))
        for i, join in enumerate(bounded.query.joins):
            same = exp.EQ(this=homes[join.here].copy(), expression=_column(join.there, f"lookup{i}"))
            other = exp.alias_(lookup_table(self.public[join.table]), f"lookup{i}", table=True, quoted=True)
            select = select.join(other, on=same, join_type="left" if join.left else "inner")
            homes |= {
                f"{join.table}.{name}": _column(name, f"lookup{i}") for name in bounded.table.public[join.table].columns
            }
        return select.select(*(exp.alias_(column, name, quoted=True) for name, column in homes.items())).subquery()

    def exact(self, bounded: Bounded) -> Exact:
        """Everything that a release of `bounded` needs, read when it is needed."""
        statements = self.statements(bounded)
        spreads = statements[1:] if bounded.totals else statements
        totals = self._totals(statements[0], len(bounded.totals)) if bounded.totals else ()
        return Exact(totals, dict(zip(bounded.spreads, map(self._counts, spreads), strict=True)), statements)

    def totals(self, bounded: Bounded) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """(totals, keys) per group. A group without rows in the engine does not appear."""
        return self._totals(self.statement(bounded), len(bounded.totals)) if bounded.totals else iter(())

    def counts(self, bounded: Bounded, counts: Counts) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """(count, cell, keys) for the cells that have rows."""
        return self._counts(self.statement_of(bounded, counts))

    def _totals(self, statement: str, width: int) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
        for row in self._rows(statement):
            yield row[:width], row[width:]

    def _counts(self, statement: str) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        for count, cell, *keys in self._rows(statement):
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


_turns: WeakKeyDictionary[duckdb.DuckDBPyConnection, threading.Lock] = WeakKeyDictionary()


def _copied(source: Any, name: str) -> duckdb.DuckDBPyConnection:
    """A frame, read once into a table: a value that the engine cannot hold is the steward's to mend when the source is
    opened, and must not make a question fail later."""
    connection = duckdb.connect()
    try:
        connection.register("given", source)
        connection.execute(f"CREATE TABLE {_quoted(name).sql(dialect='duckdb')} AS SELECT * FROM given")
        connection.unregister("given")
    except (duckdb.Error, TypeError, ValueError) as mistake:
        log.warning("%s", mistake)
        raise SourceRefused(
            "this is not a table that can be read", "give a path, a frame, an Arrow table or a connection"
        ) from None
    return connection


def _refuse_collation(connection: duckdb.DuckDBPyConnection) -> None:
    found = connection.execute("SELECT current_setting('default_collation')").fetchone()
    if found is not None and found[0]:
        raise SourceRefused("this connection has a default collation", "reset it: SET default_collation = ''")


def _absolute(path: str) -> str:
    """Where a source is, however it was named."""
    return str(Path(path).absolute())


def _home(connection: duckdb.DuckDBPyConnection) -> str | None:
    """The file of a database; None for one in memory."""
    found = connection.execute("SELECT path FROM duckdb_databases() WHERE database_name = current_database()").fetchone()
    return None if found is None or found[0] is None else _absolute(found[0])


def _quoted(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _read_as(kind: str) -> str | None:
    return READ_AS.get(kind.partition("(")[0])


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


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
