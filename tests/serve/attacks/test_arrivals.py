"""When answers arrive over HTTP tells nothing of the rows; with the schedule off, the same test tells the tables apart."""

from pathlib import Path

from tests.support.arrival_times import FALSE_ALARM, compare_arrivals, measure_arrivals

CLASSES = (2.4, 10.0, 60.0)


def test_arrival_times_over_http_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    found = measure_arrivals(tmp_path, CLASSES, asks=40, parallel=8)
    assert compare_arrivals(found) > FALSE_ALARM, {name: sorted(times) for name, times in found.items()}
    assert min(min(times) for times in found.values()) >= CLASSES[0]


def test_without_a_schedule_arrival_times_tell_the_tables_apart(tmp_path: Path) -> None:
    found = measure_arrivals(tmp_path, (), asks=60, parallel=2)
    assert compare_arrivals(found) < FALSE_ALARM, {name: sorted(times) for name, times in found.items()}
