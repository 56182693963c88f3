"""The fixtures of tests/engines."""

from tests.engines.conftest import _capture_owner_log, pytest_configure  # noqa: F401
from tests.support.postgres_server import cluster_address, postgres  # noqa: F401
