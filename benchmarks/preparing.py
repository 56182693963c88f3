"""The same questions of a Parquet file and of the table that `prepare` made of it, in one process, in turns.

python -m benchmarks.preparing ROWS UNITS TURNS     one process, as JSON; UNITS is integers or texts
python benchmarks/run.py preparing                  the tables
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.asking import once
from benchmarks.asking_data import DEPARTMENTS, HOME, made, purchases
from benchmarks.table import Section
from discreet import connect, prepare

QUESTIONS = {
    "count": ("count by 50 listed departments", "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept"),
    "sum": ("sum by 50 listed departments", "SELECT dept, SUM(amount) AS s FROM t GROUP BY dept"),
    "city": ("count by 5,000 unknown cities", "SELECT city, COUNT(*) AS n FROM t GROUP BY city"),
    "where": (
        "count by departments, WHERE amount > 20",
        "SELECT dept, COUNT(*) AS n FROM t WHERE amount > 20 GROUP BY dept",
    ),
    "two": ("count by departments and unknown cities", "SELECT dept, city, COUNT(*) AS n FROM t GROUP BY dept, city"),
    "total": ("sum over all rows", "SELECT SUM(amount) AS s FROM t"),
    "median": ("median by departments", "SELECT dept, MEDIAN(amount) AS m FROM t GROUP BY dept"),
}
WITH_GOAL = ("count", "sum", "city")
"""Questions that group by one column, which are to be three times as fast at 10⁷ rows."""
DECLARED: dict[str, Any] = {
    "unit": "user", "table": "t", "keys": {"dept": DEPARTMENTS}, "bounds": {"amount": (0, 500)}, "max_groups": 3,
    "max_rows": 10, "epsilon": 10**6, "delta": 1e-6,
}  # fmt: skip
TEXTS = """SELECT 'person-' || md5("user"::VARCHAR) AS "user", * EXCLUDE ("user") FROM '{path}'"""
CASES = {10**6: 4, 10**7: 2}
"""Rows, and how many turns are taken."""
PATIENCE = 1800


def source(rows: int, units: str) -> Path:
    """Invented purchases of a tenth as many people, whose ids are integers or texts of 39 characters."""
    path = purchases(rows)
    return path if units == "integers" else made(f"zipf-texts-{rows}", TEXTS.format(path=path))


def measured(rows: int, units: str, turns: int) -> dict[str, Any]:
    """Seconds and seconds of all cores, best of the turns, of each question at both sources, and of preparing. The exact
    integers are compared."""
    path = source(rows, units)
    file = HOME / f"{path.stem}.prepared.duckdb"
    start = time.perf_counter()
    prepare(path, unit="user", table="t", output=file, force=True)
    found: dict[str, Any] = {"prepare": time.perf_counter() - start, "megabytes": file.stat().st_size / 1e6}
    plain, prepared = connect(path, **DECLARED), connect(file, **DECLARED)
    for name, (_, sql) in QUESTIONS.items():
        best: dict[str, tuple[float, ...]] = {}
        exact: dict[str, Any] = {}
        for _ in range(turns):
            for who, session in (("source", plain), ("prepared", prepared)):
                bounded = session.calibrate(sql, epsilon=1).bounded
                bounded = replace(bounded, table=replace(bounded.table, salt=prepared.table.salt))
                wall, cpu = time.perf_counter(), time.process_time()
                totals = sorted(session.engine.read_totals(bounded), key=repr)
                cells = [sorted(session.engine.read_histogram(bounded, each)) for each in bounded.cell_counts]
                took = time.perf_counter() - wall, time.process_time() - cpu
                best[who] = tuple(map(min, best.get(who, took), took))
                exact[who] = totals, cells
        assert exact["source"] == exact["prepared"], name
        found[name] = best
    return found


def prepared_tables() -> Section:
    """Beside the file that the table was made of."""
    about = (
        "Seconds of the exact part of a question, from a Parquet file and from the table that `discreet prepare` made of "
        "it, in turns in one process; best of the turns. The integers are compared and are the same. At most 3 groups of 10 "
        "rows per person, a tenth as many people as rows. The last column compares the time of all cores."
    )
    columns = ["question", "units", "rows", "source s", "prepared s", "times as fast", "goal", "by the time of cores"]
    section = Section("Preparing: beside the source", about, columns)
    for rows, turns in CASES.items():
        for units in ("integers", "texts"):
            took = once([sys.executable, "-m", "benchmarks.preparing", str(rows), units, str(turns)], PATIENCE)
            if "failure" in took:
                section.add("all", units, f"{rows:,}", took["failure"], "", "", "≥ 3", "")
                continue
            for name, (words, _) in QUESTIONS.items():
                (before, all_before), (after, all_after) = took[name]["source"], took[name]["prepared"]
                section.add(
                    words, units, f"{rows:,}", f"{before:.3f}", f"{after:.3f}", f"{before / after:.1f}",
                    "≥ 3" if rows == 10**7 and name in WITH_GOAL else "", f"{all_before / all_after:.1f}",
                )  # fmt: skip
            size = f"{took['megabytes']:.0f} MB; the source {source(rows, units).stat().st_size / 1e6:.0f} MB"
            section.add(f"preparing it, once ({size})", units, f"{rows:,}", "", f"{took['prepare']:.1f}", "", "", "")
    return section


SECTIONS = [prepared_tables]

if __name__ == "__main__":
    size, kind, repeated = sys.argv[1:]
    print(json.dumps(measured(int(size), kind, int(repeated))))
