"""A hundred thousand mangled texts: each is refused, or answered without an error of the engine."""

import duckdb
import pytest

from tests.support.mangled_queries import fuzz
from tests.support.random_tables import stored


@pytest.mark.nightly
def test_no_statement_reaches_the_engine_and_raises_at_length() -> None:
    connection = duckdb.connect()
    assert fuzz(lambda place: stored(place, connection), range(50_000, 51_000), 100) > 1000
