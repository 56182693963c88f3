"""What an analyst sees besides the noisy numbers is the same on neighbouring tables, over a million bad inputs."""

import duckdb
import pytest

from tests.support.observable_output import unlike
from tests.support.random_tables import stored


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(70_000, 71_200, 24))
def test_neighbours_look_alike_at_length(start: int) -> None:
    """A table without rows has no neighbour and is passed over."""
    connection = duckdb.connect()
    assert unlike(lambda place, name: stored(place, connection, name), range(start, start + 24), 1060) == []
