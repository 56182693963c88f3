"""A service for tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.web_service import Service, open_service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with open_service(tmp_path) as opened:
        yield opened
