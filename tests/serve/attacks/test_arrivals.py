"""When answers arrive over HTTP tells nothing of the rows; with the schedule off, the same test tells the tables apart.

`tests/serve/worker/test_timing.py` has a thousand asks of each table and shorter classes; here the web process is part of
what is timed, and takes most of the processor.
"""

from pathlib import Path

from tests.support.arrival_times import FALSE_ALARM, compare_arrivals, describe_arrivals, make_classes, measure_over_http

FIRST_CLASS = 1.0


def test_arrival_times_over_http_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    found = measure_over_http(tmp_path, make_classes(FIRST_CLASS), 100, clients=12, slots=8)
    assert compare_arrivals(found) > FALSE_ALARM, describe_arrivals(found)
    assert min(min(times) for times in found.values()) >= FIRST_CLASS


def test_without_a_schedule_arrival_times_tell_the_tables_apart(tmp_path: Path) -> None:
    found = measure_over_http(tmp_path, (), 200, clients=2, slots=2)
    assert compare_arrivals(found) < FALSE_ALARM, describe_arrivals(found)
