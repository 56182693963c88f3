"""PostgreSQL: the engine for tables and views of a server.

The role needs SELECT on the table and nothing else, and TEMPORARY on the database if queries join to public tables. Texts
are compared byte by byte (COLLATE "C"), as everywhere; a timestamp with time zone is read as the same moment in UTC.

**Which table is meant.** A name without a schema is looked up once; from then on the table goes by its full name. What was
seen of it when it was opened must still hold in the transaction of every query: types may change, and so may the rows that
a role is shown.

**Which types are read.** `KINDS` lists them; a column of any other type (arrays, JSON, money …) is hidden. numeric(p, 0)
holds whole numbers, any other numeric is a real. character(n) is read without its padding.

**The connection** reads, and writes nothing but its own copies of public tables. Every query runs in a read-only
transaction. Its settings hold for that transaction alone, and decide the text of dates and the meaning of constants and
functions. A connection that was lost is opened again for the next query.
"""

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from os import getpid
from typing import Any, Self, TypeAlias
from uuid import uuid4
from weakref import finalize

import psycopg
from psycopg import sql
from psycopg.adapt import Buffer, Loader
from sqlglot import exp

from discreet.engines.base import (
    SAYS_MORE,
    ColumnReader,
    Fingerprint,
    OutOfResources,
    SqlEngine,
    owner_log,
    quote_table,
    split_table_name,
)
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.duckdb.public_tables import clean_values, describe_public_table
from discreet.errors import EngineFailed, SourceRefused
from discreet.paths import is_unambiguous
from discreet.query.schema import Column, Kind, PublicTable
from discreet.sql.dialects import POSTGRES

_FIND_TABLE = """SELECT n.nspname, c.relname, c.oid, c.relpersistence = 't',
    CASE WHEN c.relkind IN ('v', 'f') OR pg_catalog.row_security_active(c.oid) THEN current_user END,
    EXISTS (SELECT FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid AND a.attgenerated = 'v') OR EXISTS (
      WITH RECURSIVE parts (oid) AS (SELECT c.oid UNION ALL SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i, parts
        WHERE i.inhparent = parts.oid)
      SELECT FROM parts JOIN pg_catalog.pg_class AS part ON part.oid = parts.oid WHERE part.relkind = 'f')
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE c.oid = pg_catalog.to_regclass(%s)"""
_DEFINITION = "SELECT pg_catalog.pg_get_viewdef(pg_catalog.to_regclass(%s))"
_COLUMNS = """SELECT attname, atttypid, atttypmod, attcollation FROM pg_catalog.pg_attribute
  WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""


# -- the connection --------------------------------------------------------------------------------------------------------

BATCH = 20_000
LIBPQ_WITH_BATCHES = 170_000
"""From this version of libpq on, rows come in batches."""
TIMEOUT = "1h"
"""How long a statement may run, unless the role, the database or the address says otherwise
(options=-cstatement_timeout=60s)."""

Prepare: TypeAlias = Callable[[psycopg.Connection[Any]], None]

_SETTINGS = f"""SELECT set_config('DateStyle', 'ISO, YMD', true), set_config('TimeZone', 'UTC', true),
  set_config('standard_conforming_strings', 'on', true), set_config('statement_timeout', COALESCE(
    NULLIF(current_setting('statement_timeout'), '0'), '{TIMEOUT}'), true)"""
_PATH = "SELECT pg_catalog.set_config('search_path', %s, true)"
_OWN_PATH = "SELECT pg_catalog.current_setting('search_path')"


class ReadConnection:
    """A connection to one database."""

    def __init__(self, address: str) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self._address = _check_address(address)
        self.lock = threading.Lock()
        self.path = "pg_catalog, pg_temp"  # no other function, operator or type is taken for one of PostgreSQL's own
        self._prepared: list[Prepare] = []  # steps that every new connection repeats

    def open(self) -> psycopg.Connection[Any]:
        """Return the connection, and open it again if it was lost."""
        if self._connection is not None and _is_alive(self._connection):
            return self._connection
        connection = psycopg.connect(
            self._address,
            autocommit=True,
            prepare_threshold=None,
            client_encoding="UTF8",
            fallback_application_name="discreet",
        )
        connection.adapters.register_loader("numeric", _IntegerLoader)
        try:
            for prepare in self._prepared:
                prepare(connection)
        except psycopg.Error:
            connection.close()  # half prepared, it would serve no later query either
            raise
        self._connection = connection
        finalize(self, _close_if_owner, connection, getpid())  # holds it, so that it is not gone before it is closed
        return connection

    def prepare(self, step: Prepare) -> None:
        """Run a step now, and again whenever the connection is opened."""
        step(self.open())
        self._prepared.append(step)

    @contextmanager
    def read_transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Begin a read-only transaction."""
        connection = self.open()
        connection.read_only = True
        with connection.transaction():
            connection.execute(_SETTINGS)
            yield connection

    @contextmanager
    def pinned_transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Begin a read-only transaction in which names are PostgreSQL's own."""
        with self.read_transaction() as connection:
            connection.execute(_PATH, [self.path])
            yield connection

    def widen_search_path(self) -> None:
        """Look names up in the role's own path too, after PostgreSQL's: a function behind a view may need that."""
        with self.read_transaction() as connection:
            row = connection.execute(_OWN_PATH).fetchone()
        self.path = f"pg_catalog, {row[0]}" if row is not None and row[0] else self.path

    def execute(
        self, statement: str, is_unchanged: Callable[[psycopg.Connection[Any]], bool], *, plain: bool
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows as they come, so that a million keys are never held at once.

        `is_unchanged` says, in the same transaction, whether the table is the one that was opened; `plain`, that reading it
        calls no function of the owner's.
        """
        try:
            with self.read_transaction() as connection:
                own = connection.execute(_OWN_PATH).fetchone()
                connection.execute(_PATH, [self.path])
                if not is_unchanged(connection):
                    owner_log.warning("the table has changed since it was opened: connect again")
                    raise OutOfResources
                yield from _stream(connection, statement) if plain else _fetch_by_cursor(connection, statement, own)
        except psycopg.Error as error:
            owner_log.warning("%s", error)
            raise (OutOfResources if _is_resource(error) else EngineFailed) from None

    def cancel(self) -> None:
        """Ask the server to end the running statement. Any thread may ask."""
        if self._connection is not None:
            try:
                self._connection.cancel_safe(timeout=5.0)
            except psycopg.Error as error:
                owner_log.warning("%s", error)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def _stream(connection: psycopg.Connection[Any], statement: str) -> Iterator[tuple[Any, ...]]:
    """Stream without a cursor on the server, which would exclude parallel workers. Before libpq 17 rows come one by one."""
    with connection.cursor() as cursor:  # the statement is generated, and has no parameters
        yield from cursor.stream(statement, size=BATCH if psycopg.pq.version() >= LIBPQ_WITH_BATCHES else 1)


def _fetch_by_cursor(connection: psycopg.Connection[Any], statement: str, path: Any) -> Iterator[tuple[Any, ...]]:
    """Fetch through a cursor on the server: once the statement is parsed, a function behind a view may need the role's own
    path."""
    with connection.cursor(name="discreet") as cursor:
        cursor.execute(statement)
        connection.execute(_PATH, path)
        while batch := cursor.fetchmany(BATCH):
            yield from batch


RESOURCES = ("08", "25P", "40", "42501", "42P01", "53", "55", "57", "58")
"""Prefixes of the error codes of failures that no row causes: connections, deadlocks, names, permissions, memory, locks,
time-outs and shutdowns. https://www.postgresql.org/docs/current/errcodes-appendix.html"""


def _is_resource(error: psycopg.Error) -> bool:
    """Whether no row caused the failure. One without a code arose in this process: the connection is lost."""
    return error.sqlstate.startswith(RESOURCES) if error.sqlstate else not isinstance(error, psycopg.DataError)


def _close_if_owner(connection: psycopg.Connection[Any], owner: int) -> None:
    """Close a connection, unless this process is a fork of the one that opened it: that would close it for both."""
    if getpid() == owner:
        connection.close()


def _check_address(address: str) -> str:
    """Refuse an address that libpq cannot parse. Its own message would repeat what it could not, which may be the
    password."""
    try:
        known = is_unambiguous(address, psycopg.conninfo.conninfo_to_dict(address))
    except (psycopg.Error, ValueError):
        known = False
    if not known:
        owner_log.warning("the address of a database could not be parsed")
        raise SourceRefused(
            "this address of a database cannot be read", "write @, / and : in a password as %40, %2F and %3A, and check it"
        )
    return address


@contextmanager
def translate_errors(reason: str, hint: str) -> Iterator[None]:
    """Refuse the source for what the server raises, and write its message to the owner's log."""
    try:
        yield
    except psycopg.Error as error:
        owner_log.warning("%s", error)
        raise SourceRefused(reason, hint) from None


class _IntegerLoader(Loader):
    """Loads a numeric as an int: only whole numbers leave the server."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data))


def _is_alive(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError as error:
        owner_log.warning("%s", error)
        connection.close()
        return False
    return True


# -- the engine ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableState:
    """A table or view as the catalog describes it."""

    qualified_name: tuple[str, str]
    temporary: bool
    role: str | None  # where the rows may depend on it: a view, a foreign table, row-level security
    columns: tuple[tuple[Any, ...], ...]  # names and types
    computed: (
        bool  # whether reading evaluates the owner's expressions: as for `role`, or a foreign partition, virtual column
    )

    def identity(self, *server: object) -> str:
        """Where the table is: schema and name as the server has them, and the role if it decides which rows are shown. A
        temporary table is like no other."""
        if self.temporary:
            return f"a temporary table, {uuid4().hex}"
        return f"postgresql {json.dumps((*server, *self.qualified_name, *(() if self.role is None else (self.role,))))}"


def read_table_state(connection: psycopg.Connection[Any], name: tuple[str, ...]) -> TableState | None:
    """Return what is there now under this name; None if nothing is."""
    row = connection.execute(_FIND_TABLE, [sql.Identifier(*name).as_string(connection)]).fetchone()
    if row is None:
        return None
    schema, relation, number, temporary, role, computed = row
    columns = tuple(connection.execute(_COLUMNS, [number]))
    return TableState((schema, relation), temporary, role, columns, computed or role is not None)


def read_definition(connection: psycopg.Connection[Any], name: tuple[str, ...]) -> str | None:
    """Return what a view computes; None for a table."""
    row = connection.execute(_DEFINITION, [sql.Identifier(*name).as_string(connection)]).fetchone()
    return None if row is None else row[0]


def lock_and_describe(connection: psycopg.Connection[Any], name: tuple[str, ...]) -> list[psycopg.Column]:
    """Return the columns as the server describes them: a domain counts as its base type. No row is read, but until the
    transaction ends the table cannot be changed."""
    found = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(sql.Identifier(*name))).description
    return found or []


class Postgres(SqlEngine):
    """One table or view of one database."""

    dialect = POSTGRES

    def __init__(
        self,
        connection: ReadConnection,
        state: TableState,
        types: Mapping[str, tuple[Kind, ColumnReader]],
        identity: str,
        padded: frozenset[str],
    ) -> None:
        super().__init__(
            state.qualified_name[-1],
            identity,
            quote_table(*state.qualified_name),
            {name: read for name, (_, read) in types.items()},
            lasting=not state.temporary,
            computed=state.computed,
            names=[each[0] for each in state.columns],
        )
        self.connection, self.state, self.types, self.lock = connection, state, types, connection.lock
        self.padded = padded  # columns of texts that are read without the blanks at their end

    @classmethod
    def open(cls, address: str, table: str | None) -> "Postgres":
        """Open a table or view by its name, or by its schema and name. The address is libpq's: SSL and options go in it."""
        if table is None:
            raise SourceRefused("a database holds many tables", "say which with table=")
        name = split_table_name(table, 2)
        connection = ReadConnection(address)
        with translate_errors("this database cannot be reached", f"check the address and the role; {SAYS_MORE}"):
            info = connection.open().info
            if info.parameter_status("server_encoding") != "UTF8":
                raise SourceRefused("this database is not in UTF-8", "hashes of its texts would differ; use one that is")
        with translate_errors(
            "this server computes no md5", "contribution bounding needs it; a server in FIPS mode cannot be used"
        ):
            connection.open().execute("SELECT pg_catalog.md5('')")
        with translate_errors("this table cannot be read", f"check its name and GRANT SELECT; {SAYS_MORE}"):
            with connection.read_transaction() as transaction:
                state = read_table_state(transaction, name)
            if state is None:
                raise SourceRefused(
                    f"there is no table {table!r}", "check its name, its schema and the search_path of the role"
                )
            try:
                types, padded = _read_types(connection, state)
            except psycopg.Error:
                connection.widen_search_path()
                types, padded = _read_types(connection, state)
        return cls(connection, state, types, state.identity(info.host, info.port, info.dbname), padded)

    def describe_columns(self) -> dict[str, Column]:
        """Return the names and kinds of the columns. No value is read."""
        return {name: Column(kind) for name, (kind, _) in self.types.items()}

    def find_unit_problem(self, unit: str) -> str | None:
        """Say why two units of this column could be read as one; None if they cannot."""
        return "character(n) is read without the blanks at its end" if unit in self.padded else None

    def compute_fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """A table holds what its types can hold. A view is known by its definition: its rows were read once when it was
        first opened, and whether they changed since is for the owner to know."""
        if not self.computed:
            return None
        with translate_errors("this table cannot be read", SAYS_MORE), self.connection.pinned_transaction() as connection:
            known = (self.state.columns, read_definition(connection, self.state.qualified_name))
        return Fingerprint(sha256(repr(known).encode()).hexdigest() if self.lasting else None)

    def with_public(self, sources: Mapping[str, Any]) -> tuple[Self, dict[str, PublicTable]]:
        """Return the same table beside copies of these public ones, which may be files or frames. A copy is a temporary
        table of this connection."""
        names, tables = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).read_all()
            values = clean_values(kinds, rows)
            names[name] = f"discreet {len(names)} {name}"
            with translate_errors(f"the public table {name} cannot be copied", f"GRANT TEMPORARY; {SAYS_MORE}"):
                self.connection.prepare(_make_copier(names[name], kinds, values))
                unique = _find_unique_columns(self.connection, names[name], kinds)
            tables[name] = describe_public_table(name, kinds, values, unique)
        return self._beside(names), tables

    def progress(self) -> float | None:
        """PostgreSQL does not count progress."""
        return None

    def cancel(self) -> None:
        """As in `Engine`."""
        self.connection.cancel()

    def _public_relation(self, name: str) -> exp.Expr:
        return quote_table("pg_temp", self.public[name])

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        plain = self.state.role is None  # neither a view, a foreign table, nor under row-level security
        return self.connection.execute(statement, self._is_unchanged, plain=plain)

    def _is_unchanged(self, connection: psycopg.Connection[Any]) -> bool:
        lock_and_describe(connection, self.state.qualified_name)  # from here on it stays as it is
        return read_table_state(connection, self.state.qualified_name) == self.state


def _read_types(
    connection: ReadConnection, state: TableState
) -> tuple[dict[str, tuple[Kind, ColumnReader]], frozenset[str]]:
    """Return how the columns are read, and which of them are texts that may be padded."""
    with connection.pinned_transaction() as transaction:
        columns = lock_and_describe(transaction, state.qualified_name)
        enums = {row[0] for row in transaction.execute("SELECT oid FROM pg_catalog.pg_type WHERE typtype = 'e'")}
    types = {}
    for column in columns:
        kind = Kind.TEXT if column.type_code in enums else kind_of(column)
        if kind is not None:
            types[column.name] = (kind, reader_of(column, kind))
    return types, frozenset(column.name for column in columns if column.type_code == CHARACTER)


# -- copies of public tables -----------------------------------------------------------------------------------------------


def _make_copier(name: str, kinds: Mapping[str, Kind], values: Mapping[str, list[Any]]) -> Any:
    def copy(connection: psycopg.Connection[Any]) -> None:
        connection.read_only = False
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(TYPES[kind])) for column, kind in kinds.items()
        )
        table = sql.Identifier("pg_temp", name)
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(sql.SQL("CREATE TEMPORARY TABLE {} ({})").format(table, columns))
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(table)) as rows:
                for row in zip(*values.values(), strict=True):
                    rows.write_row(row)
            cursor.execute(sql.SQL("ANALYZE {}").format(table))

    return copy


def _find_unique_columns(connection: ReadConnection, name: str, kinds: Mapping[str, Kind]) -> frozenset[str]:
    """The columns in which no value occurs twice. The engine decides, because its equality is the one that joins."""
    unique = set()
    with connection.pinned_transaction() as transaction:
        for column, kind in kinds.items():
            counts = sql.SQL("SELECT COUNT({0}), COUNT(DISTINCT {0}) FROM {1}")
            row = transaction.execute(counts.format(sql.Identifier(column), sql.Identifier("pg_temp", name))).fetchone()
            if kind is not Kind.REAL and row is not None and row[0] == row[1]:
                unique.add(column)
    return frozenset(unique)


# -- types -----------------------------------------------------------------------------------------------------------------

TYPES = {
    Kind.INTEGER: "bigint", Kind.REAL: "double precision", Kind.BOOLEAN: "boolean", Kind.TEXT: 'text COLLATE "C"',
    Kind.DATE: "date", Kind.TIMESTAMP: "timestamp",
}  # fmt: skip
"""The type of each kind in a copy of a public table."""

NUMERIC, TIMESTAMPTZ, CHARACTER = 1700, 1184, 1042
KINDS = {
    16: Kind.BOOLEAN, 20: Kind.INTEGER, 21: Kind.INTEGER, 23: Kind.INTEGER, 700: Kind.REAL, 701: Kind.REAL,
    NUMERIC: Kind.REAL, 25: Kind.TEXT, 1043: Kind.TEXT, CHARACTER: Kind.TEXT, 19: Kind.TEXT, 2950: Kind.TEXT,
    1082: Kind.DATE, 1114: Kind.TIMESTAMP, TIMESTAMPTZ: Kind.TIMESTAMP,
}  # fmt: skip
"""The kind of each type, by the type's number, which is the same on every server."""

SAFE_DIGITS = 300
"""A numeric of so many digits on either side of its point is within the range of a double."""


def kind_of(column: psycopg.Column) -> Kind | None:
    """The kind that a column holds; None if it is hidden."""
    if column.type_code == NUMERIC and column.precision is not None and column.scale == 0:
        return Kind.INTEGER
    return KINDS.get(column.type_code)


def reader_of(column: psycopg.Column, kind: Kind) -> ColumnReader:
    """How a column is read; None if it is read as it is."""
    if kind is Kind.TEXT:
        return _compare_bytewise
    if column.type_code == TIMESTAMPTZ:
        return lambda moment: exp.AtTimeZone(this=moment, zone=exp.Literal.string("UTC"))
    if column.type_code != NUMERIC:
        return None
    if kind is Kind.INTEGER:
        return _to_whole
    return _to_double if _fits_double(column.precision, column.scale) else _to_double_guarded


def _fits_double(precision: int | None, scale: int | None) -> bool:
    """Whether every value is in the range of a double. numeric(3, -400) has few digits before many zeros."""
    return precision is not None and scale is not None and 0 <= scale <= SAFE_DIGITS and precision - scale <= SAFE_DIGITS


def _compare_bytewise(text: exp.Expr) -> exp.Expr:
    return exp.Collate(this=exp.cast(text, exp.DType.TEXT), expression=exp.to_identifier("C", quoted=True))


def _to_whole(number: exp.Expr) -> exp.Expr:
    """Without NaN, which even a numeric without digits after the point can be."""
    nan = exp.If(this=exp.EQ(this=number, expression=_numeric("NaN")), true=exp.Null())
    return exp.Case(ifs=[nan], default=number.copy())


def _to_double(number: exp.Expr) -> exp.Expr:
    return exp.cast(number, exp.DType.DOUBLE)


def _to_double_guarded(number: exp.Expr) -> exp.Expr:
    """A double also of what a double cannot hold: NaN, too large, too small. The cast would raise there, and the failure
    would reveal the row."""
    nan = exp.EQ(this=number, expression=_numeric("NaN"))
    above = exp.GT(this=number, expression=_numeric("1.7976931348623157e308"))
    below = exp.LT(this=number, expression=_numeric("-1.7976931348623157e308"))
    tiny = exp.LT(this=exp.Abs(this=number), expression=_numeric("5e-324"))
    cases = ((nan, "NaN"), (above, "Infinity"), (below, "-Infinity"), (tiny, "0"))
    ifs = [exp.If(this=test, true=exp.cast(exp.Literal.string(text), exp.DType.DOUBLE)) for test, text in cases]
    return exp.Case(ifs=ifs, default=_to_double(number))


def _numeric(text: str) -> exp.Expr:
    return exp.cast(exp.Literal.string(text), exp.DType.DECIMAL)
