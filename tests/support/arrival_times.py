"""When answers arrive, from two tables that differ in everything: how many rows they have, how many of them match, and so
how long a query takes. The same asks are made of a worker in this process and, over HTTP, of a service of real processes.

Clients choose the table of each ask by chance, so a machine that is busy for a while delays both tables. Every ask draws new
noise (`fresh`), so none is free, and all asks of a table are one measurement, which is calibrated once.
"""

import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest
from scipy.stats import ks_2samp

from discreet.serve.config import ServiceConfig
from discreet.serve.control.base import new_id
from discreet.serve.control.model import Ask, AskState, Rules
from discreet.serve.control.queue import LEASE_SECONDS
from discreet.serve.worker import delivery
from tests.support.policies import make_policy
from tests.support.served_tables import SETTINGS, Service, configure, start_service
from tests.support.service_processes import Processes

FALSE_ALARM = 1e-9
TABLES = ("bare", "full")
UNLIMITED = 1_000_000
"""Overruns after which an account is paused, here: a busy machine is late more often than three times."""
QUERY = "SELECT COUNT(*) AS n FROM {} WHERE pay > 50"
EPSILON = "1/1000"

Arrivals = dict[str, list[float]]


def make_classes(first: float) -> tuple[float, ...]:
    """Return classes in steps of 50 ms from the first on, and two long ones: an answer that is late shows by how much, to
    50 ms."""
    return (*(round(first + step / 20, 2) for step in range(40)), 30.0, 120.0)


def compare_arrivals(found: Arrivals) -> float:
    """Return the probability of two samples that differ as much if both tables have the same arrival times: the two-sample
    test of Kolmogorov and Smirnov."""
    return float(ks_2samp(*(found[name] for name in TABLES)).pvalue)


LOOKS = 4
"""How often arrival times are compared, at most, before all asks were made."""


def are_told_apart(found: Arrivals) -> bool:
    """Return whether the arrival times of both tables differ, at a quarter of the false-alarm rate: what is asked until they
    do is compared `LOOKS` times."""
    return compare_arrivals(found) < FALSE_ALARM / LOOKS


def describe_arrivals(found: Arrivals) -> str:
    """Return how many arrivals each table has, and some of their quantiles in milliseconds."""
    lines = []
    for name, times in found.items():
        ordered = sorted(times)
        quantiles = [round(1000 * ordered[int(share * (len(ordered) - 1))]) for share in (0, 0.1, 0.5, 0.9, 0.99, 1)]
        lines.append(f"{name}: {len(ordered)} asks, {quantiles} ms")
    return "; ".join(lines)


def configure_tables(folder: Path, rows_of_full: int, classes: tuple[float, ...], slots: int) -> ServiceConfig:
    """Write a table of two rows that do not match and one of many that do, and return the configuration of both."""
    folder.mkdir()
    rows = {"bare": "1,1.0\n2,1.0\n", "full": "".join(f"{i // 3},99.0\n" for i in range(rows_of_full))}
    for name in TABLES:
        (folder / f"{name}.csv").write_text("id,pay\n" + rows[name])
        (folder / f"{name}.policy.toml").write_text(make_policy(name, limits="max_groups = 1\nmax_rows = 3", pay="real"))
    config = configure(folder, classes=classes, epsilon=10_000)
    tables = {name: replace(each, rules=Rules(fresh=True)) for name, each in config.tables.items()}
    return replace(config, tables=tables, slots=slots)


def measure_in_process(
    folder: Path, classes: tuple[float, ...], asks: int, *, in_flight: int, slots: int, rows: int = 200_000,
    until_told_apart: bool = False,
) -> Arrivals:  # fmt: skip
    """Return the seconds from accepting an ask to seeing its answer in the control database, by table, with so many asks in
    flight at once; of fewer asks, if they need not be made to tell the tables apart."""
    config = configure_tables(folder / "data", rows, classes, slots)
    settings = replace(SETTINGS, slots=slots, lease_seconds=LEASE_SECONDS)
    with pytest.MonkeyPatch.context() as patch, start_service(config, "ada", settings=settings) as service:
        patch.setattr(delivery, "MAX_OVERRUNS", UNLIMITED)
        samples = {
            name: service.make_ask("ada", QUERY.format(name), table=name, epsilon=EPSILON, fresh=True) for name in TABLES
        }
        free, chance = threading.Semaphore(in_flight), random.Random(7)
        with _Watch(service, free.release) as watch:
            for number in range(2 * asks):
                assert free.acquire(timeout=120), "no answer arrives"
                if until_told_apart and number and number % (2 * asks // LOOKS) == 0 and are_told_apart(watch.found):
                    free.release()
                    break
                time.sleep(chance.uniform(0, 0.01))  # so that they are not asked in step
                watch.send(samples[chance.choice(TABLES)])
            for _ in range(in_flight):
                assert free.acquire(timeout=120), "no answer arrives"
        return watch.found


class _Watch:
    """Sends asks, and looks for answers whenever the control database changes: one thread, whatever is in flight."""

    def __init__(self, service: Service, arrived: Callable[[], None]) -> None:
        self.service, self.arrived = service, arrived
        self.found: Arrivals = {name: [] for name in TABLES}
        self._open: dict[str, Ask] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def send(self, sample: Ask) -> None:
        """Put a copy of an ask into the queue, accepted now."""
        now, seconds = self.service.clock.now(), sample.class_seconds
        moment = None if seconds is None else now + seconds
        ask = msgspec.structs.replace(sample, id=new_id(), key=new_id(), accepted_at=now, release_at=moment)
        self._open[ask.id] = ask
        self.service.control.add_ask(ask)

    def _run(self) -> None:
        reader = sqlite3.connect(self.service.config.control)
        with self.service.control.subscribe() as changed:
            while not self._ended.is_set():
                wanted = tuple(self._open)
                sql = f"SELECT id FROM control_asks WHERE state = ? AND id IN ({', '.join('?' * len(wanted))})"
                answered = reader.execute(sql, (AskState.ANSWERED, *wanted)).fetchall()
                now = self.service.clock.now()
                for (each,) in answered:
                    ask = self._open.pop(each)
                    self.found[ask.table].append(now - ask.accepted_at)
                    self.arrived()
                changed.wait(0.5)
        reader.close()

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def measure_over_http(
    folder: Path, classes: tuple[float, ...], asks: int, *, clients: int, slots: int, rows: int = 1_000_000,
    until_told_apart: bool = False,
) -> Arrivals:  # fmt: skip
    """Return the seconds from sending an ask to having its answer, by table, over HTTP; of fewer asks, if they need not be
    made to tell the tables apart. The web process looks for what the worker wrote every 50 ms, so the tables differ by more
    rows than without it."""
    processes = Processes(configure_tables(folder / "data", rows, classes, slots), folder)
    processes.max_overruns, processes.lease_seconds = UNLIMITED, LEASE_SECONDS
    people = [f"client{i}" for i in range(clients)]
    processes.prepare(*people)
    found: Arrivals = {name: [] for name in TABLES}
    has_failed, is_done = threading.Event(), threading.Event()

    def ask(client: int) -> None:
        chance, headers = random.Random(client), {"Authorization": f"Bearer {processes.tokens[people[client]]}"}
        with httpx.Client(verify=False, base_url=processes.address(), headers=headers, timeout=120, trust_env=False) as http:
            for number in range(2 * asks // clients):
                is_look = until_told_apart and number and number % (2 * asks // clients // LOOKS) == 0
                if has_failed.is_set() or is_done.is_set():
                    return
                if client == 0 and is_look and are_told_apart(found):
                    is_done.set()
                    return
                time.sleep(chance.uniform(0, 0.1))  # so that they do not ask in step
                table = chance.choice(TABLES)
                body = {"table": table, "query": QUERY.format(table), "epsilon": EPSILON, "fresh": True}
                start = time.perf_counter()
                wait = {"Prefer": "wait=60", "Idempotency-Key": new_id()}
                answered = http.post("/api/v1/asks", json=body, headers=wait)
                while answered.is_success and answered.json()["state"] in ("waiting", "running"):
                    answered = http.post("/api/v1/asks", json=body, headers=wait)  # the service holds no request for longer
                found[table].append(time.perf_counter() - start)
                if answered.status_code != 200 or answered.json()["state"] != "answered":
                    has_failed.set()  # the others need not go on
                    raise AssertionError(answered.text)

    try:
        processes.start(1, 1)
        processes.wait_for_worker()
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(ask, range(clients)))
    finally:
        processes.stop()
    return found
