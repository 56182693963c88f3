"""Count how much of discreet a call enters.

    python tools/trace_calls.py            print the table
    python tools/trace_calls.py --write    write it between the markers `trace` of ARCHITECTURE.md
    python tools/trace_calls.py --list     name the functions of every road, file by file

What is counted, by `sys.setprofile`, from the call to its return:

- *functions*: distinct functions and methods whose source is under src/discreet. A lambda, a comprehension or a generator
  expression counts as the function that holds it; a lambda outside of functions counts as one. Bodies of modules and classes
  do not count, and neither do functions without a file, such as the `__init__` that `dataclass` writes.
- *files*: the distinct files of those functions.
- *changes of file*: how often a function is entered that stands in another file than the one entered before it. A generator
  is entered again whenever it goes on.

The same road is first taken by another instance (another session, another event), so that every module is imported. Then the
caches of `functools` are emptied: what the first instance computed does not shorten the road of the second. Tables that a
module builds once, outside these caches, stay built.
"""

import argparse
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

from marked_block import ROOT, write_block

BLOCK = "trace"
SOURCE = ROOT / "src" / "discreet"
Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Trace:
    """The functions that a call entered, in order, each as its file and its qualified name."""

    entered: tuple[tuple[str, str], ...]

    @property
    def functions(self) -> int:
        """How many distinct functions were entered."""
        return len(set(self.entered))

    @property
    def files(self) -> int:
        """In how many files they stand."""
        return len({file for file, _ in self.entered})

    @property
    def changes(self) -> int:
        """How often the file changed from one entry to the next."""
        return sum(one != two for (one, _), (two, _) in pairwise(self.entered))


@dataclass(frozen=True, slots=True)
class Road:
    """A call that is traced. `prepare` makes an instance and returns the call on it; what it does is not counted."""

    name: str
    prepare: Callable[[bool], Call]  # False makes the instance that only warms up
    goal: tuple[int, int] | None = None  # at most so many functions in so many files


def trace(call: Call, under: Path = SOURCE) -> Trace:
    """Run a call and record every function under a folder that it enters."""
    prefix = f"{under}{os.sep}"
    entered: list[tuple[str, str]] = []

    def record(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and (name := _function(code)) is not None:
            entered.append((code.co_filename.removeprefix(prefix), name))

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Trace(tuple(entered))


def _function(code: CodeType) -> str | None:
    """The qualified name of the function that the code belongs to; None for the body of a module or a class."""
    name = code.co_qualname
    while name.endswith(">") and ".<locals>." in name:
        name = name.rpartition(".<locals>.")[0]
    if name.endswith("<lambda>"):
        return f"{name} in line {code.co_firstlineno}"
    return name if code.co_flags & CO_OPTIMIZED and not name.endswith(">") else None


def clear_caches() -> None:
    """Empty every `functools` cache at the top of a module of discreet."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "discreet"]
    for value in [value for module in modules for value in vars(module).values()]:
        if callable(clear := getattr(value, "cache_clear", None)):
            clear()


def measure(road: Road) -> Trace:
    """Take the road with one instance to import what it needs, then trace it with another."""
    road.prepare(False)()
    call = road.prepare(True)
    clear_caches()
    return trace(call)


def _ask(_: bool) -> Call:
    """One grouped query on a session in memory. Opening the session is not counted."""
    from discreet import connect

    session = connect(
        ROOT / "examples" / "people.csv",
        unit="id",
        epsilon=2,
        unique=True,
        bounds={"pay": (0, 200)},
        keys={"dept": ("sales", "research", "legal")},
    )
    query = "SELECT dept, COUNT(*) AS n, SUM(pay) AS total FROM people GROUP BY dept"
    return lambda: session.ask(query, epsilon=1)


def _epsilon(noise: str) -> Callable[[bool], Call]:
    """ε of a hundredfold composition. Reading the text is not counted."""

    def prepare(traced: bool) -> Call:
        from discreet import epsilon
        from discreet.accounting.expression import parse

        event = parse(f"100*{noise}(scale={30 if traced else 40})")
        return lambda: epsilon(event, 1e-6)

    return prepare


def _publish(_: bool) -> Call:
    """The planning of a publication, from the command line to its JSON."""
    from typer.testing import CliRunner

    from discreet.cli import app

    def call() -> None:
        plan = str(ROOT / "examples" / "publish.toml")
        done = CliRunner().invoke(app, ["publish", plan, "--dry-run", "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output

    return call


ROADS = (
    Road("`ask`, a grouped COUNT and SUM", _ask, (120, 25)),
    Road("`epsilon(100*laplace)`, continuous", _epsilon("laplace"), (35, 7)),
    Road("`epsilon(100*laplace)`, discrete", _epsilon("discrete_laplace"), (35, 7)),
    Road("`publish --dry-run`", _publish),
)


def measure_all() -> dict[Road, Trace]:
    """Trace every road, with an owner's state of its own."""
    with TemporaryDirectory() as state, patch.dict(os.environ, DISCREET_STATE=state):
        return {road: measure(road) for road in ROADS}


def format_table(traces: dict[Road, Trace]) -> str:
    """The figures as Markdown, the goals beside them."""
    lines = ["| road | functions | files | changes of file | goal |", "|---|---:|---:|---:|---|"]
    for road, found in traces.items():
        goal = "" if road.goal is None else f"at most {road.goal[0]} functions in {road.goal[1]} files"
        lines.append(f"| {road.name} | {found.functions} | {found.files} | {found.changes} | {goal} |")
    return "\n".join(lines)


def format_list(found: Trace) -> str:
    """The functions by file, in the order in which the files were first entered."""
    by_file: dict[str, dict[str, None]] = defaultdict(dict)
    for file, function in found.entered:
        by_file[file][function] = None
    return "\n".join(f"  {file}: {', '.join(functions)}" for file, functions in by_file.items())


def main() -> None:
    """Print the table or the functions, or write the table."""
    options = argparse.ArgumentParser(description="Count how much of discreet a call enters.")
    options.add_argument("--write", action="store_true", help="write the table into ARCHITECTURE.md")
    options.add_argument("--list", action="store_true", help="name the functions of every road, file by file")
    chosen = options.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    traces = measure_all()
    if chosen.list:
        for road, found in traces.items():
            print(f"{road.name}: {found.functions} functions in {found.files} files\n{format_list(found)}\n")
    elif chosen.write:
        write_block(BLOCK, format_table(traces))
    else:
        print(format_table(traces))


if __name__ == "__main__":
    main()
