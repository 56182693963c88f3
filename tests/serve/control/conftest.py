"""A control database in SQLite and in PostgreSQL, with a clock that the test sets."""

from collections.abc import Iterator

import pytest

from discreet.serve.control.store import Control, open_control
from tests.support.ledger_locations import database, folder, server, sql_location

__all__ = ["database", "folder", "server", "sql_location"]

NOON = 1_800_014_400.0  # 12:00 UTC


class Clock:
    """Shows the time that the test says."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def control(sql_location: str, clock: Clock) -> Iterator[Control]:
    with open_control(sql_location, clock=clock) as opened:
        yield opened
