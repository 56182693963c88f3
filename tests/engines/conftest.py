"""One PostgreSQL cluster for the whole run, whatever the number of workers; one database for each of them."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest

from discreet.engines.base import owner_log
from tests.engines.servers import Server, cluster, database


@pytest.fixture(scope="session")
def cluster_address(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    base = tmp_path_factory.getbasetemp()
    shared: Path = base.parent if hasattr(request.config, "workerinput") else base
    with cluster(f"run{sha256(str(shared).encode()).hexdigest()[:12]}") as address:
        yield address


@pytest.fixture(scope="session")
def postgres(cluster_address: str) -> Iterator[Server]:
    owner, reader = database(cluster_address)
    connection = psycopg.connect(owner, autocommit=True)
    yield Server(connection, owner, reader)
    connection.close()  # and no commit: the server may be gone with the last worker


def pytest_configure(config: Any) -> None:
    """The wheel that brings PostgreSQL says where it puts its sockets."""
    config.addinivalue_line("filterwarnings", "ignore:XDG_RUNTIME_DIR is not set")


@pytest.fixture(autouse=True)
def _owner_listens(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The owner's log goes nowhere by itself."""
    owner_log.addHandler(caplog.handler)
    yield
    owner_log.removeHandler(caplog.handler)
