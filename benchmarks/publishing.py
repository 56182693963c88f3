"""A whole publication of a census-like table: `python benchmarks/publishing.py` prints the table.

A million invented persons, thirty questions, one plan, one ledger: `discreet publish plan.toml --yes`, a process of its own.

A cell's flag is *right* if it says of the released interval what is true of it against the true bounded value: reliable, and
the half-width is at most a tenth of the true value; or not reliable, and it is more. The flag itself is computed from the
noisy value only. The true values are those of the same questions with next to no noise (ε = 10⁶), which nobody publishes.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.asking_data import made  # noqa: E402
from benchmarks.table import Section  # noqa: E402
from discreet import read_workload  # noqa: E402
from discreet.ledger import open_ledger  # noqa: E402
from discreet.query.estimates import Estimate  # noqa: E402
from discreet.query.record import key_from_json  # noqa: E402
from discreet.workload import Workload  # noqa: E402

ROWS = 1_000_000
PERSONS = """
WITH bits AS (SELECT i, md5_number_lower('c' || i) AS a, md5_number_upper('c' || i) AS b FROM range({rows}) t(i)),
uniform AS (
    SELECT i, ((a & 65535) + 0.5) / 65536 AS r, ((a >> 16 & 65535) + 0.5) / 65536 AS g,
           ((a >> 32 & 65535) + 0.5) / 65536 AS e, ((a >> 48) + 0.5) / 65536 AS s,
           ((b & 65535) + 0.5) / 65536 AS x, ((b >> 16 & 65535) + 0.5) / 65536 AS y,
           ((b >> 32 & 65535) + 0.5) / 65536 AS h, ((b >> 48) + 0.5) / 65536 AS m FROM bits
)
SELECT i AS person, printf('r%02d', floor(20 * r * r * r)::BIGINT) AS region, floor(100 * g * sqrt(g))::INTEGER AS age,
       list_extract(['none', 'school', 'trade', 'college', 'master', 'doctor'], 1 + floor(6 * e * sqrt(e))::INTEGER) AS edu,
       s < 0.51 AS woman, greatest(0, least(80, 36 + 12 * sqrt(-2 * ln(x)) * sin(2 * pi() * y)))::INTEGER AS hours,
       exp(3.2 + 0.8 * sqrt(-2 * ln(x)) * cos(2 * pi() * y)) AS income, 1 + floor(7 * h * h)::INTEGER AS household,
       CASE WHEN m < 0.45 THEN 'married' WHEN m < 0.85 THEN 'single' WHEN m < 0.96 THEN 'divorced' ELSE 'widowed' END
           AS status
FROM uniform
"""
PLAN = """
title = "A census of invented persons"
source = {source}
unit = "person"
unique = true
[bounds]
age = [0, 100]
hours = [0, 80]
income = [0, 200]
household = [1, 8]
[keys]
region = {regions}
edu = ["none", "school", "trade", "college", "master", "doctor"]
status = ["married", "single", "divorced", "widowed"]
household = [1, 2, 3, 4, 5, 6, 7, 8]
[budget]
epsilon = 0.5
delta = 1e-9
ledger = "census.ledger"
account = "census"
"""
GROUPS = (
    "region", "edu", "status", "woman", "household", "age // 5", "region, woman", "region, edu", "region, status",
    "edu, status", "region, edu, woman", "region, age // 5, woman", "region, household", "edu, age // 10, woman",
)  # fmt: skip
OTHERS = (
    "SELECT COUNT(*) AS n, AVG(income) AS mean, STDDEV(income) AS deviation FROM persons",
    "SELECT MEDIAN(income) AS median, QUANTILE(income, 0.9) AS top FROM persons",
    "SELECT region, MEDIAN(income) AS median FROM persons GROUP BY region",
    "SELECT HISTOGRAM(income, 10) AS income FROM persons",
    "SELECT woman, HISTOGRAM(hours, 0, 10, 20, 30, 40, 50, 60, 80) AS hours FROM persons GROUP BY woman",
    "SELECT region, AVG(income) AS mean FROM persons GROUP BY region",
    "SELECT edu, AVG(income) AS mean, AVG(hours) AS hours FROM persons GROUP BY edu",
    "SELECT region, edu, AVG(income) AS mean FROM persons GROUP BY region, edu",
    "SELECT woman, status, AVG(income) AS mean FROM persons GROUP BY woman, status",
    "SELECT age // 5 AS band, AVG(hours) AS hours FROM persons GROUP BY age // 5",
    "SELECT region, COUNT(*) AS pensioners FROM persons WHERE age >= 65 GROUP BY region",
    "SELECT region, COUNT(*) AS poor FROM persons WHERE income < 8 GROUP BY region",
    "SELECT edu, woman, COUNT(*) AS part_time FROM persons WHERE hours < 20 GROUP BY edu, woman",
    "SELECT region, SUM(income) AS income FROM persons GROUP BY region",
    "SELECT status, STDDEV(income) AS deviation FROM persons GROUP BY status",
    "SELECT region, SUM(household) AS people FROM persons WHERE woman GROUP BY region",
)


def questions() -> str:
    """Thirty of them: some with a wanted error, the others sharing what is left."""
    counts = []
    for group in GROUPS:
        shown = ", ".join(f"{part} AS band" if "//" in part else part for part in group.split(", "))
        counts.append(f"SELECT {shown}, COUNT(*) AS n FROM persons GROUP BY {group}")
    text = ""
    for i, sql in enumerate((*counts, *OTHERS)):
        wanted = "error = 150\n" if i < 6 else ""
        text += f"[questions.q{i:02d}]\nsql = {json.dumps(sql)}\n{wanted}"
    return text


def planned(folder: Path) -> Path:
    """The plan and its ledger."""
    source = made(f"census-{ROWS}", PERSONS.format(rows=ROWS))
    regions = json.dumps([f"r{i:02d}" for i in range(20)])
    named = folder / "persons.parquet"
    named.symlink_to(source.resolve())
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(source='"persons.parquet"', regions=regions) + questions(), encoding="utf-8")
    from discreet.accounting.currencies import Pure

    open_ledger(folder / "census.ledger", create=True).open_account("census", 2, 1e-9, Pure())
    return plan


def census() -> Section:
    """Seconds, and how many flags are right."""
    section = Section(
        f"Publishing 30 tables about {ROWS:,} persons",
        "`discreet publish plan.toml --yes`, the whole process: prices, payment in a ledger, 30 questions, files and "
        "pictures, card, certificate. A flag is right if the truth gives the same one: the half-width is at most a tenth of "
        "the true bounded value, or it is not. Wanted: at least 94% of the flags right.",
        ["seconds", "goal", "ε at δ = 10⁻⁹", "cells", "flagged reliable", "flags that are right"],
    )
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        plan = planned(Path(name))
        out = Path(name) / "out"
        command = [sys.executable, "-c", "from discreet.cli import main; main()", "publish", str(plan), "--to", str(out)]
        start = time.perf_counter()
        subprocess.run([*command, "--yes", "--json"], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        signed = json.loads((out / "release.json").read_text(encoding="utf-8"))
        flags = [*right_flags(read_workload(plan), signed["release"]["answers"])]
    reliable, right = sum(flag for flag, _ in flags), sum(good for _, good in flags)
    epsilon = signed["guarantee"]["epsilon"]
    section.add(f"{seconds:.1f}", "≤ 6", f"{epsilon:.3f}", f"{len(flags):,}", f"{reliable:,}", f"{right / len(flags):.1%}")
    return section


def right_flags(workload: Workload, answers: list[dict]) -> list[tuple[bool, bool]]:
    """For every cell: what its flag says, and whether that is right."""
    from dataclasses import replace

    session = replace(workload, ledger=None, account=None, epsilon=10**9, delta=0).open_session()
    found = []
    for asked, answer in zip(workload.questions, answers, strict=True):
        truth = dict(session.ask(asked.sql, epsilon=10**6).rows)
        for keys, cells in answer["rows"]:
            for cell, true in zip(cells, truth[tuple(map(key_from_json, keys))], strict=True):
                shown = Estimate(*cell)
                found.append((shown.reliable, shown.reliable == (5 * (shown.upper - shown.lower) <= abs(true.value))))
    return found


SECTIONS = [census]

if __name__ == "__main__":
    for make in SECTIONS:
        print(make().markdown(), flush=True)
