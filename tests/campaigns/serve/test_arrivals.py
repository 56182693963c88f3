"""A thousand asks of each of two tables that differ in everything, with classes of one second and more."""

from pathlib import Path

import pytest

from tests.support.arrival_times import FALSE_ALARM, compare_arrivals, measure_arrivals


@pytest.mark.nightly
def test_many_arrival_times_over_http_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    found = measure_arrivals(tmp_path, (2.4, 10.0, 60.0), asks=1_000, parallel=8)
    assert compare_arrivals(found) > FALSE_ALARM
