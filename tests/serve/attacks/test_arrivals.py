"""When answers arrive over HTTP tells nothing of the rows; with the schedule off, the same test tells the tables apart.

`tests/serve/worker/test_timing.py` has more asks of each table and shorter classes; here the web process is part of what is
timed, and takes most of the processor. With the schedule off, D was 0.93 on a busy machine; the limit for 48 asks of each
table is 0.65. By night there are a hundred.
"""

from pathlib import Path

import pytest

from tests.support.arrival_times import FALSE_ALARM, compare_arrivals, describe_arrivals, make_classes, measure_over_http

FIRST_CLASS = 1.0
ASKS = 48


@pytest.mark.parametrize("asks", [ASKS, pytest.param(100, marks=pytest.mark.nightly)])
def test_arrival_times_over_http_do_not_depend_on_the_rows(tmp_path: Path, asks: int) -> None:
    found = measure_over_http(tmp_path, make_classes(FIRST_CLASS), asks, clients=12, slots=8)
    assert compare_arrivals(found) > FALSE_ALARM, describe_arrivals(found)
    assert min(min(times) for times in found.values()) >= FIRST_CLASS


def test_without_a_schedule_arrival_times_tell_the_tables_apart(tmp_path: Path) -> None:
    found = measure_over_http(tmp_path, (), 2 * ASKS, clients=2, slots=2, until_told_apart=True)
    assert compare_arrivals(found) < FALSE_ALARM, describe_arrivals(found)
