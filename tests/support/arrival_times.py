"""When answers arrive at clients over HTTP, from two tables that differ in everything: how many rows they have, how many of
them match, and so how long a query takes."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import httpx
from scipy.stats import ks_2samp

from tests.support.served_tables import configure
from tests.support.service_processes import Processes

FALSE_ALARM = 1e-9
TABLES = ("bare", "full")
SLOTS, ROWS, SLOW_SECONDS = 4, 20_000, 0.4
QUERY = "SELECT dept, COUNT(*) AS n, SUM(pay) AS total FROM {} WHERE pay > 50 GROUP BY dept"
POLICY = """table = "{}"
unit = "id"
max_groups = 2
max_rows = 3
[columns.id]
kind = "integer"
[columns.dept]
kind = "text"
keys = ["a", "b"]
[columns.pay]
kind = "real"
lower = 0
upper = 100
"""


def write_tables(folder: Path) -> None:
    """Write a table of two rows that do not match and one of many that do."""
    folder.mkdir()
    rows = {"bare": ["1,a,1.0", "2,b,1.0"], "full": [f"{i // 3},{'ab'[i % 2]},99.0" for i in range(ROWS)]}
    for name in TABLES:
        (folder / f"{name}.csv").write_text("\n".join(["id,dept,pay", *rows[name]]) + "\n")
        (folder / f"{name}.policy.toml").write_text(POLICY.format(name))


def measure_arrivals(
    folder: Path, classes: tuple[float, ...], asks: int, parallel: int, seed: int = 7
) -> dict[str, list[float]]:
    """Return the seconds from sending an ask to having its answer, by table. Each client asks of either table by chance, so
    a machine that is busy for a while delays both."""
    write_tables(folder / "data")
    config = replace(configure(folder / "data", classes=classes, epsilon=10_000), slots=SLOTS)
    processes = Processes(config, folder)
    processes.slow = {"full": SLOW_SECONDS}  # so that the tables differ by more than the noise of any machine
    people = [f"client{i}" for i in range(parallel)]
    processes.prepare(*people)
    found: dict[str, list[float]] = {name: [] for name in TABLES}

    def ask(client: int) -> None:
        chance, headers = (
            random.Random(seed * 1000 + client),
            {"Authorization": f"Bearer {processes.tokens[people[client]]}"},
        )
        with httpx.Client(base_url=processes.address(), headers=headers, timeout=60, trust_env=False) as http:
            for i in range(2 * asks // parallel):
                table = chance.choice(TABLES)
                epsilon = str(Fraction(10_000 + i * parallel + client, 1_000_000))
                body = {"table": table, "query": QUERY.format(table), "epsilon": epsilon}
                start = time.perf_counter()
                answered = http.post("/api/v1/asks", json=body, headers={"Prefer": "wait=30"})
                found[table].append(time.perf_counter() - start)
                assert answered.status_code == 200, answered.text
                assert answered.json()["state"] == "answered"
                time.sleep(chance.uniform(0, 0.1))

    try:
        processes.start(1, 1)
        time.sleep(1.0)
        with ThreadPoolExecutor(parallel) as clients:
            list(clients.map(ask, range(parallel)))
    finally:
        processes.stop()
    return found


def compare_arrivals(found: dict[str, list[float]]) -> float:
    """Return the probability of two samples that differ as much if both tables have the same arrival times: the two-sample
    test of Kolmogorov and Smirnov."""
    return float(ks_2samp(*(found[name] for name in TABLES)).pvalue)
