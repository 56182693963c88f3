"""Starting up: CPU seconds from a new process to the result, so that a busy disk or a busy machine counts for little."""

import os
import resource
import subprocess
import sys
from pathlib import Path

from benchmarks.asking_data import first
from benchmarks.table import Section

TRIES = 7
CALL = "import sys; sys.argv[0] = 'discreet'; from discreet.cli import main; main()"
QUESTION = "SELECT dept, COUNT(*) AS n FROM t GROUP BY dept"
OPTIONS = ("--unit", "user", "--epsilon", "1", "--table", "t", "--keys", "dept=d00,d01,d02", "--max-groups", "3")


def cpu_seconds(*command: str) -> float:
    """User and system seconds of a process and its threads, best of several."""
    best, environment = float("inf"), dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled: the first try does that here
    for _ in range(TRIES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return best


def starting() -> Section:
    """What a first call costs."""
    section = Section(
        "Starting up",
        f"CPU seconds of a new process, best of {TRIES}; the table is a CSV of 20,000 rows.",
        ["task", "CPU", "goal"],
    )
    table = str(Path(first(20_000, "csv")))
    connect = f"import discreet; discreet.connect({table!r}, table='t', unit='user', epsilon=1)"
    rows: list[tuple[str, tuple[str, ...], str]] = [
        ("Python alone", ("-c", "pass"), ""),
        ("`import discreet`", ("-c", "import discreet"), ""),
        ("`from discreet import connect, Laplace`", ("-c", "from discreet import connect, Laplace"), "≤ 0.3 s"),
        ("`import discreet; connect` and a table opened", ("-c", connect), "≤ 0.35 s"),
        ("`discreet --help`", ("-c", CALL, "--help"), "≤ 0.15 s"),
        ("`discreet ask`", ("-c", CALL, "ask", table, QUESTION, *OPTIONS), "≤ 0.7 s"),
    ]
    for task, command, goal in rows:
        section.add(task, f"{cpu_seconds(*command):.2f} s", goal)
    return section


SECTIONS = [starting]
