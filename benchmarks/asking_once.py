"""One measurement in a process of its own, as JSON: seconds of each competitor, interleaved, and the peak memory.

python asking_once.py QUESTION FILE REPEATS COMPETITOR…      competitors: plain bounded engine ours; memory: rows are there
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import duckdb

from benchmarks.asking_data import AMOUNTS, DEPARTMENTS
from benchmarks.asking_sql import BOUNDED, PLAIN
from benchmarks.process_memory import peak_megabytes
from discreet import connect
from discreet.session.session import Session

IN_A_ROW = 2
"""Each competitor's second call finds its own engine as warm as the others find theirs."""

MANY = "SELECT key, COUNT(*) AS n FROM t GROUP BY key"


def session(question: str, path: str, *, in_memory: bool = False) -> Session:
    """A budget for many questions, and the bounds of the comparison. Rows are read from the file, or from memory."""
    declared: dict[str, object] = {} if question == "keys" else {"bounds": {"amount": AMOUNTS}}
    if question in ("count", "sums", "unique"):
        declared["keys"] = {"dept": DEPARTMENTS}
    declared |= {"unique": True} if question in ("unique", "keys") else {"max_groups": 3, "max_rows": 10}
    source: object = path
    if in_memory:
        source = duckdb.connect()
        source.execute("SET enable_progress_bar = false")
        source.execute(f"CREATE TABLE t AS FROM '{path}'")
    return connect(source, table="t", unit="user", epsilon=10**6, delta=1e-6, **declared)  # type: ignore[arg-type]


def competitors(question: str, path: str, wanted: list[str]) -> dict[str, Callable[[], object]]:
    """What runs when each is asked."""
    found: dict[str, Callable[[], object]] = {}
    bare = duckdb.connect()
    bare.execute("SET enable_progress_bar = false")
    bare.execute(f"CREATE VIEW t AS FROM '{path}'")
    for name, texts in (("plain", PLAIN), ("bounded", BOUNDED)):
        if name in wanted and question in texts:
            found[name] = lambda text=texts[question]: bare.execute(text).fetchall()  # type: ignore[misc]
    if {"engine", "ours"} & set(wanted):
        asked, opened = PLAIN.get(question, MANY), session(question, path, in_memory="memory" in wanted)
        statement = opened.engine.compile_totals(opened.calibrate(asked, epsilon=1).bounded)
        if "engine" in wanted:
            found["engine"] = lambda: opened.engine.connection.execute(statement).fetchall()
        if "ours" in wanted:
            found["ours"] = lambda: opened.ask(asked, epsilon=1, fresh=True)
    return found


def main(question: str, path: str, repeats: str, *wanted: str) -> None:
    running = competitors(question, path, list(wanted))
    best = dict.fromkeys(running, float("inf"))
    for _ in range(int(repeats)):
        for name, work in running.items():
            for _ in range(IN_A_ROW):
                start = time.perf_counter()
                work()
                best[name] = min(best[name], time.perf_counter() - start)
    print(json.dumps(best | {"megabytes": peak_megabytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
