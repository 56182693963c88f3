"""Which table of PostgreSQL is meant, and whether it is still the one that was opened.

A name without a schema is looked up once; from then on the table goes by its full name. What was seen of it when it was
opened must hold in the transaction of every question: types may change, and so may whose rows a role is shown.
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

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
