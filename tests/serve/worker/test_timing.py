"""When answers arrive tells nothing of the rows: two tables that differ in everything, and a test of their arrival times.

Without a schedule the same test tells the tables apart. It is a permutation-free two-sample test of Kolmogorov and Smirnov;
its false-alarm rate is 1e-9.
"""

import time
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ks_2samp

from discreet.serve.control.model import AskState
from tests.support.served_tables import Service, configure, start_service, write_table

FALSE_ALARM = 1e-9
ASKS = 60
SLOW_SECONDS = 0.15


def measure(service: Service, table: str, asks: int, parallel: int = 4) -> list[float]:
    """Return the seconds from acceptance to arrival, of asks that are made in small groups."""
    latencies: list[float] = []
    for start in range(0, asks, parallel):
        group = [service.ask(f"p{table}{start + i}", table=table, epsilon=f"0.0{start + i + 10}") for i in range(parallel)]
        open_asks = dict(enumerate(group))
        while open_asks:
            for number, ask in list(open_asks.items()):
                if service.find(ask).state.is_final:
                    latencies.append(service.clock.now() - ask.accepted_at)
                    del open_asks[number]
            time.sleep(0.001)
        assert {service.find(ask).state for ask in group} == {AskState.ANSWERED}
    return latencies


def compare(folder: Path, classes: tuple[float, ...], asks: int) -> tuple[float, list[float], list[float]]:
    """Return the p-value of the hypothesis that both tables have the same arrival times."""
    write_table(folder, "small", rows=2, pay=1.0)
    write_table(folder, "large", rows=20_000, pay=99.0)
    with start_service(configure(folder, classes=classes, epsilon=100)) as service:
        for table in ("small", "large"):
            for i in range(asks):
                service.add_person(f"p{table}{i}", table)

        def slow(original: Any, bounded: Any) -> Any:  # so that the tables differ on any machine
            time.sleep(SLOW_SECONDS)
            return original(bounded)

        service.change_engine(slow, "large")
        small, large = measure(service, "small", asks), measure(service, "large", asks)
    return float(ks_2samp(small, large).pvalue), small, large


def test_arrival_times_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    p, small, large = compare(tmp_path / "data", (0.5, 2.0, 10.0), ASKS)
    assert p > FALSE_ALARM, (sum(small) / len(small), sum(large) / len(large))


def test_without_a_schedule_they_do(tmp_path: Path) -> None:
    p, _, _ = compare(tmp_path / "data", (), ASKS)
    assert p < FALSE_ALARM


@pytest.mark.nightly
def test_many_arrival_times_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    p, _, _ = compare(tmp_path / "data", (1.0, 5.0, 30.0), 1_000)
    assert p > FALSE_ALARM
