"""When answers arrive over HTTP tells nothing of the rows; with the schedule off, the same test tells the tables apart."""

from pathlib import Path

from tests.support.arrival_times import FALSE_ALARM, compare_arrivals, measure_arrivals


def test_arrival_times_over_http_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    found = measure_arrivals(tmp_path, (1.2, 5.0, 30.0), asks=60)
    assert compare_arrivals(found) > FALSE_ALARM, {name: sorted(times) for name, times in found.items()}
    assert min(min(times) for times in found.values()) >= 1.2


def test_without_a_schedule_arrival_times_tell_the_tables_apart(tmp_path: Path) -> None:
    found = measure_arrivals(tmp_path, (), asks=100)
    assert compare_arrivals(found) < FALSE_ALARM, {name: sorted(times) for name, times in found.items()}
