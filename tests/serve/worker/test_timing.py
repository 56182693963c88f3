"""When answers leave a worker tells nothing of the rows: asks of two tables that differ in everything, and a two-sample test
of their arrival times with a false-alarm rate of 1e-9. Without a schedule the same test tells them apart from as many asks,
or fewer. By night there are a thousand asks of each table. That every moment is kept exactly, whatever the rows, is tested
with a clock that the test moves: `test_asks.py`, `tests/serve/attacks/test_taken_over.py`.

**The class.** Classes have steps of 50 ms. On two cores with a load of 5 to 8, one run of 600 asks each gave these
distances D of the two samples: 0.32 (p = 4e-14, 245 overruns) with a first class of 50 ms, because whether an answer is late
depends on the rows; 0.16 (p = 9e-4) with 100 ms; 0.04 (p = 0.97) with 250 ms. So the first class is 250 ms. A machine that
is busier yet delays asks of both tables in the same queue: with a load of 16, one run of 800 asks logged 298 overruns, and D
was 0.07 (p = 0.23). The limit is D = 0.146 for a thousand asks of each table,
and 0.38 for 150; without a schedule D was 0.65 or more on a busy machine.
"""

from pathlib import Path

import pytest

from tests.support.arrival_times import FALSE_ALARM, compare_arrivals, describe_arrivals, make_classes, measure_in_process

FIRST_CLASS = 0.25
ASKS = 150


@pytest.mark.parametrize("asks", [ASKS, pytest.param(1_000, marks=pytest.mark.nightly)])
def test_arrival_times_do_not_depend_on_the_rows(tmp_path: Path, asks: int) -> None:
    found = measure_in_process(tmp_path, make_classes(FIRST_CLASS), asks, in_flight=12, slots=8)
    assert compare_arrivals(found) > FALSE_ALARM, describe_arrivals(found)
    assert min(min(times) for times in found.values()) >= FIRST_CLASS


def test_without_a_schedule_they_do(tmp_path: Path) -> None:
    found = measure_in_process(tmp_path, (), ASKS, in_flight=2, slots=2, until_told_apart=True)
    assert compare_arrivals(found) < FALSE_ALARM, describe_arrivals(found)
