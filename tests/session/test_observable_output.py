"""What an analyst sees besides the noisy numbers is the same on neighbouring tables: columns, cost and errors."""

from typing import Any

import duckdb
import pytest

from discreet.session.session import Session
from tests.support.observable_output import Storing, seen, unlike
from tests.support.random_tables import stored
from tests.support.rounds import at_night, every_nth_by_day


def _in_duckdb() -> Storing:
    connection = duckdb.connect()
    return lambda place, name: stored(place, connection, name)


@pytest.mark.parametrize("each", [40, at_night(100)])
@pytest.mark.parametrize("start", every_nth_by_day(range(60_000, 60_128, 16), 4))
def test_neighbours_look_alike(start: int, each: int) -> None:
    """1,300 bad inputs by day, 10,000 at night, each on a table and its neighbour."""
    assert unlike(_in_duckdb(), range(start, start + 16), each) == []


def test_an_error_with_a_value_in_it_is_noticed() -> None:
    """The mutant says how many rows there were."""

    def telling(session: Session, question: Any, epsilon: Any) -> tuple[Any, ...]:
        count = session.engine.connection.execute(f'SELECT COUNT(*) FROM "{session.engine.table}"').fetchone()
        return (*seen(session, question, epsilon), count)

    assert unlike(_in_duckdb(), range(60_000, 60_005), 3, telling)
