"""PostgreSQL: the engine for tables and views of a server.

The role needs SELECT on the table and nothing else, and TEMPORARY on the database if queries join to public tables. Texts
are compared byte by byte (COLLATE "C"), as everywhere; a timestamp with time zone is read as the same moment in UTC.

**Which table is meant.** A name without a schema is looked up once; from then on the table goes by its full name. What was
seen of it when it was opened must still hold in the transaction of every query: types may change, and so may the rows that
a role is shown.

**Which types are read.** `KINDS` lists them; a column of any other type (arrays, JSON, money …) is hidden. numeric(p, 0)
holds whole numbers, any other numeric is a real. character(n) is read without its padding.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self
from uuid import uuid4

import psycopg
from psycopg import sql
from sqlglot import exp

from discreet.engines.base import SAYS_MORE, ColumnReader, Fingerprint, SqlEngine, quote_table, split_table_name
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.duckdb.public_tables import clean_values, describe_public_table
from discreet.engines.postgres.connection import ReadConnection, translate_errors
from discreet.errors import SourceRefused
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
