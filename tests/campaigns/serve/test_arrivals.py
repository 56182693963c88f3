"""A thousand asks over HTTP of each of two tables that differ in everything, with classes of one second and more."""

from pathlib import Path

import pytest

from tests.support.arrival_times import FALSE_ALARM, compare_arrivals, describe_arrivals, make_classes, measure_over_http


@pytest.mark.nightly
def test_many_arrival_times_over_http_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    found = measure_over_http(tmp_path, make_classes(1.0), 1_000, clients=12, slots=8)
    assert compare_arrivals(found) > FALSE_ALARM, describe_arrivals(found)
    assert min(min(times) for times in found.values()) >= 1.0
