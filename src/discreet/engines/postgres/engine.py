"""PostgreSQL: the engine for tables and views of a server.

The role needs SELECT on the table and nothing else, and TEMPORARY on the database if questions join to public tables.
Texts are compared byte by byte (COLLATE "C"), as everywhere; a timestamp with time zone is read as the same moment in UTC.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from sqlglot import exp

from discreet.engines.base import SAYS_MORE, ColumnReader, Fingerprint, SqlEngine, quote_table, split_table_name
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.duckdb.public_tables import clean_values
from discreet.engines.duckdb.public_tables import describe_public_table as described_lookup
from discreet.engines.postgres.connection import ReadConnection, translate_errors
from discreet.engines.postgres.types import CHARACTER, TYPES, kind_of, reader_of
from discreet.errors import SourceRefused
from discreet.query.schema import Column, Kind, PublicTable
from discreet.sql.dialects import POSTGRES

# Which table of PostgreSQL is meant, and whether it is still the one that was opened.
#
# A name without a schema is looked up once; from then on the table goes by its full name. What was seen of it when it was
# opened must hold in the transaction of every question: types may change, and so may whose rows a role is shown.


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
    """A table or view, its columns' types, the role where the rows may depend on it, and whether reading them evaluates
    expressions of the owner's: a view, a foreign table or partition, a virtual column, a row-level security policy."""

    qualified_name: tuple[str, str]
    temporary: bool
    role: str | None
    columns: tuple[tuple[Any, ...], ...]
    computed: bool

    def identity(self, *server: object) -> str:
        """On a server: schema and name as it has them, and the role if rows are shown by role. A temporary table is like
        nothing else."""
        if self.temporary:
            return f"a temporary table, {uuid4().hex}"
        return f"postgresql {json.dumps((*server, *self.qualified_name, *(() if self.role is None else (self.role,))))}"


def read_table_state(connection: psycopg.Connection[Any], name: tuple[str, ...]) -> TableState | None:
    """What is there now under this name; None if nothing is."""
    row = connection.execute(_FIND_TABLE, [sql.Identifier(*name).as_string(connection)]).fetchone()
    if row is None:
        return None
    schema, relation, number, temporary, role, computed = row
    columns = tuple(connection.execute(_COLUMNS, [number]))
    return TableState((schema, relation), temporary, role, columns, computed or role is not None)


def read_definition(connection: psycopg.Connection[Any], name: tuple[str, ...]) -> str | None:
    """What a view computes; None for a table."""
    row = connection.execute(_DEFINITION, [sql.Identifier(*name).as_string(connection)]).fetchone()
    return None if row is None else row[0]


def lock_and_describe(connection: psycopg.Connection[Any], name: tuple[str, ...]) -> list[psycopg.Column]:
    """The columns, as the server describes them: a domain counts as what it is made of. Nothing is read, but until the
    transaction ends nobody can change the table."""
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
        )
        self.connection, self.state, self.types, self.lock = connection, state, types, connection.lock
        self.padded = padded  # columns whose texts are read without the blanks at their end

    @classmethod
    def open(cls, address: str, table: str | None) -> "Postgres":
        """A table or view by its name, or by its schema and name. The address is libpq's: SSL and options go in it."""
        if table is None:
            raise SourceRefused("a database holds many tables", "say which with table=")
        place = split_table_name(table, 2)
        link = ReadConnection(address)
        with translate_errors("this database cannot be reached", f"check the address and the role; {SAYS_MORE}"):
            info = link.open().info
            if info.parameter_status("server_encoding") != "UTF8":
                raise SourceRefused("this database is not in UTF-8", "hashes of its texts would differ; use one that is")
        with translate_errors(
            "this server computes no md5", "it bounds what a person adds; a server in FIPS mode cannot be used"
        ):
            link.open().execute("SELECT pg_catalog.md5('')")
        with translate_errors("this table cannot be read", f"check its name and GRANT SELECT; {SAYS_MORE}"):
            with link.read_transaction() as connection:
                found = read_table_state(connection, place)
            if found is None:
                raise SourceRefused("there is no such table", "check its name, its schema and the search_path of the role")
            try:
                types, padded = _read_types(link, found)
            except psycopg.Error:
                link.widen_search_path()
                types, padded = _read_types(link, found)
        return cls(link, found, types, found.identity(info.host, info.port, info.dbname), padded)

    def describe_columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        return {name: Column(kind) for name, (kind, _) in self.types.items()}

    def compute_fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """A table holds what its types can hold. A view is known by its definition: that its rows can be read was seen when
        it was first opened, and whether they changed since is the owner's to know."""
        if not self.computed:
            return None
        with translate_errors("this table cannot be read", SAYS_MORE), self.connection.pinned_transaction() as connection:
            known = (self.state.columns, read_definition(connection, self.state.qualified_name))
        return Fingerprint(sha256(repr(known).encode()).hexdigest() if self.lasting else None)

    def find_unit_problem(self, unit: str) -> str | None:
        """Why the units of a column cannot be told apart; None if they can."""
        return "character(n) is read without the blanks at its end" if unit in self.padded else None

    def with_public(self, sources: Mapping[str, Any]) -> "tuple[Postgres, dict[str, PublicTable]]":
        """The same table beside copies of these public ones, which may be files or frames. A copy is a temporary table of
        this connection."""
        places, lookups = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).read_all()
            values = clean_values(kinds, rows)
            places[name] = f"discreet {len(places)} {name}"
            with translate_errors(f"the public table {name} cannot be copied", f"GRANT TEMPORARY; {SAYS_MORE}"):
                self.connection.prepare(_make_copier(places[name], kinds, values))
                unique = _find_unique_columns(self.connection, places[name], kinds)
            lookups[name] = described_lookup(name, kinds, values, unique)
        return self._beside(places), lookups

    def progress(self) -> float | None:
        """PostgreSQL keeps no count of it."""
        return None

    def _public_relation(self, name: str) -> exp.Expr:
        return quote_table("pg_temp", self.public[name])

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        plain = self.state.role is None  # neither a view, a foreign table, nor shown by row-level security
        return self.connection.execute(statement, self._is_unchanged, plain=plain)

    def _is_unchanged(self, connection: psycopg.Connection[Any]) -> bool:
        lock_and_describe(connection, self.state.qualified_name)  # from here on it stays as it is
        return read_table_state(connection, self.state.qualified_name) == self.state


def _read_types(link: ReadConnection, found: TableState) -> tuple[dict[str, tuple[Kind, ColumnReader]], frozenset[str]]:
    """How the columns are read, and which of them are texts that may be padded."""
    with link.pinned_transaction() as connection:
        columns = lock_and_describe(connection, found.qualified_name)
        enums = {row[0] for row in connection.execute("SELECT oid FROM pg_catalog.pg_type WHERE typtype = 'e'")}
    types = {}
    for column in columns:
        kind = Kind.TEXT if column.type_code in enums else kind_of(column)
        if kind is not None:
            types[column.name] = (kind, reader_of(column, kind))
    return types, frozenset(column.name for column in columns if column.type_code == CHARACTER)


def _make_copier(place: str, kinds: Mapping[str, Kind], values: Mapping[str, list[Any]]) -> Any:
    def copy(connection: psycopg.Connection[Any]) -> None:
        connection.read_only = False
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(TYPES[kind])) for name, kind in kinds.items()
        )
        at = sql.Identifier("pg_temp", place)
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(sql.SQL("CREATE TEMPORARY TABLE {} ({})").format(at, columns))
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(at)) as rows:
                for row in zip(*values.values(), strict=True):
                    rows.write_row(row)
            cursor.execute(sql.SQL("ANALYZE {}").format(at))

    return copy


def _find_unique_columns(link: ReadConnection, place: str, kinds: Mapping[str, Kind]) -> frozenset[str]:
    """Asked of the engine, whose equality is the one that will join."""
    found = set()
    with link.pinned_transaction() as connection:
        for name, kind in kinds.items():
            counts = sql.SQL("SELECT COUNT({0}), COUNT(DISTINCT {0}) FROM {1}")
            row = connection.execute(counts.format(sql.Identifier(name), sql.Identifier("pg_temp", place))).fetchone()
            if kind is not Kind.REAL and row is not None and row[0] == row[1]:
                found.add(name)
    return frozenset(found)
