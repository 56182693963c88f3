"""PostgreSQL: the engine for tables and views of a server.

The role needs SELECT on the table and nothing else, and TEMPORARY on the database if questions join to public tables.
Texts are compared byte by byte (COLLATE "C"), as everywhere; a timestamp with time zone is read as the same moment in UTC.
"""

from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql
from sqlglot import exp

from discreet.engines.duckdb import DuckDB
from discreet.engines.engine import Fingerprint, Reading, SqlEngine, quoted
from discreet.engines.lookup import described as described_lookup
from discreet.engines.lookup import held_values
from discreet.engines.names import parts_of
from discreet.engines.owner import SAYS_MORE
from discreet.engines.postgres_link import Link, refused
from discreet.engines.postgres_table import Seen, definition, described, seen
from discreet.engines.postgres_types import CHARACTER, TYPES, kind_of, reading_of
from discreet.errors import SourceRefused
from discreet.query.table import Column, Kind, Lookup
from discreet.sql.dialects import POSTGRES


class Postgres(SqlEngine):
    """One table or view of one database."""

    dialect = POSTGRES

    def __init__(
        self,
        link: Link,
        seen: Seen,
        types: Mapping[str, tuple[Kind, Reading]],
        identity: str,
        padded: frozenset[str],
        public: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.link, self.seen, self.types, self.public = link, seen, types, public
        self.padded = padded  # columns whose texts are read without the blanks at their end
        self.table, self.turn = seen.place[-1], link.turn
        self.identity, self.lasting, self.computed = identity, not seen.temporary, seen.computed

    @classmethod
    def open(cls, address: str, table: str | None) -> "Postgres":
        """A table or view by its name, or by its schema and name. The address is libpq's: SSL and options go in it."""
        if table is None:
            raise SourceRefused("a database holds many tables", "say which with table=")
        place = parts_of(table, 2)
        link = Link(address)
        with refused("this database cannot be reached", f"check the address and the role; {SAYS_MORE}"):
            info = link.open().info
            if info.parameter_status("server_encoding") != "UTF8":
                raise SourceRefused("this database is not in UTF-8", "hashes of its texts would differ; use one that is")
        with refused("this server computes no md5", "it bounds what a person adds; a server in FIPS mode cannot be used"):
            link.open().execute("SELECT pg_catalog.md5('')")
        with refused("this table cannot be read", f"check its name and GRANT SELECT; {SAYS_MORE}"):
            with link.reading() as connection:
                found = seen(connection, place)
            if found is None:
                raise SourceRefused("there is no such table", "check its name, its schema and the search_path of the role")
            try:
                types, padded = _types(link, found)
            except psycopg.Error:
                link.widen()
                types, padded = _types(link, found)
        return cls(link, found, types, found.identity(info.host, info.port, info.dbname), padded)

    def columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        return {name: Column(kind) for name, (kind, _) in self.types.items()}

    def fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """A table holds what its types can hold. A view is known by its definition: that its rows can be read was seen when
        it was first opened, and whether they changed since is the owner's to know."""
        if not self.computed:
            return None
        with refused("this table cannot be read", SAYS_MORE), self.link.pinned() as connection:
            known = (self.seen.columns, definition(connection, self.seen.place))
        return Fingerprint(sha256(repr(known).encode()).hexdigest() if self.lasting else None)

    def unit_problem(self, unit: str) -> str | None:
        """Why the units of a column cannot be told apart; None if they can."""
        return "character(n) is read without the blanks at its end" if unit in self.padded else None

    def with_public(self, sources: Mapping[str, Any]) -> "tuple[Postgres, dict[str, Lookup]]":
        """The same table beside copies of these public ones, which may be files or frames. A copy is a temporary table of
        this connection."""
        places, lookups = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).contents()
            values = held_values(kinds, rows)
            places[name] = f"discreet {len(places)} {name}"
            with refused(f"the public table {name} cannot be copied", f"GRANT TEMPORARY; {SAYS_MORE}"):
                self.link.prepare(_copying(places[name], kinds, values))
                unique = _unique(self.link, places[name], kinds)
            lookups[name] = described_lookup(name, kinds, values, unique)
        return Postgres(self.link, self.seen, self.types, self.identity, self.padded, MappingProxyType(places)), lookups

    def progress(self) -> float | None:
        """PostgreSQL keeps no count of it."""
        return None

    def _place(self) -> exp.Expr:
        return quoted(*self.seen.place)

    def _readings(self) -> dict[str, Reading]:
        return {name: read for name, (_, read) in self.types.items()}

    def _lookup(self, name: str) -> exp.Expr:
        return quoted("pg_temp", self.public[name])

    def _rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        plain = self.seen.role is None  # neither a view, a foreign table, nor shown by row-level security
        return self.link.rows(statement, self._is_still_there, plain=plain)

    def _is_still_there(self, connection: psycopg.Connection[Any]) -> bool:
        described(connection, self.seen.place)  # from here on it stays as it is
        return seen(connection, self.seen.place) == self.seen


def _types(link: Link, found: Seen) -> tuple[dict[str, tuple[Kind, Reading]], frozenset[str]]:
    """How the columns are read, and which of them are texts that may be padded."""
    with link.pinned() as connection:
        columns = described(connection, found.place)
        enums = {row[0] for row in connection.execute("SELECT oid FROM pg_catalog.pg_type WHERE typtype = 'e'")}
    types = {}
    for column in columns:
        kind = Kind.TEXT if column.type_code in enums else kind_of(column)
        if kind is not None:
            types[column.name] = (kind, reading_of(column, kind))
    return types, frozenset(column.name for column in columns if column.type_code == CHARACTER)


def _copying(place: str, kinds: Mapping[str, Kind], values: Mapping[str, list[Any]]) -> Any:
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


def _unique(link: Link, place: str, kinds: Mapping[str, Kind]) -> frozenset[str]:
    """Asked of the engine, whose equality is the one that will join."""
    found = set()
    with link.pinned() as connection:
        for name, kind in kinds.items():
            counts = sql.SQL("SELECT COUNT({0}), COUNT(DISTINCT {0}) FROM {1}")
            row = connection.execute(counts.format(sql.Identifier(name), sql.Identifier("pg_temp", place))).fetchone()
            if kind is not Kind.REAL and row is not None and row[0] == row[1]:
                found.add(name)
    return frozenset(found)
