"""PostgreSQL, and what every test of an engine needs: the owner's log goes nowhere by itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from discreet.engines.base import owner_log
from tests.support.postgres_server import cluster_address, postgres  # noqa: F401


def pytest_configure(config: Any) -> None:
    """Ignore a warning of the wheel that brings PostgreSQL, which says where it puts its sockets."""
    config.addinivalue_line("filterwarnings", "ignore:XDG_RUNTIME_DIR is not set")


@pytest.fixture(autouse=True)
def _capture_owner_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    owner_log.addHandler(caplog.handler)
    yield
    owner_log.removeHandler(caplog.handler)
