"""Kills at every step of measuring a hierarchy: `python -m tests.tabulation.killed_spools EVERY` prints problems as JSON.

A child measures into a folder, charged to a ledger, and ends without warning at the n-th step; a second child runs the
same call to its end. What was complete must stay as it is, the account must have paid once, and the tables must follow from
the folder. Steps are all writes of the folder, before and after each file has its name, and what the ledger reserves and
records.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import discreet
from discreet.accounting.currencies import round_up
from discreet.ledger import open_ledger
from discreet.ledger.chain import LedgerAccount
from discreet.tabulation import spool as spools
from discreet.tabulation.hierarchical import HierarchyTabulation, tabulate_hierarchy
from discreet.tabulation.hierarchy import Hierarchy, LevelTable
from discreet.tabulation.hierarchy_files import reproduce_hierarchy

for each in ("pandas", "discreet.accounting.curve", "discreet.engines.duckdb.engine", "discreet.session.connect"):
    import_module(each)  # what a child would import: it is forked with it

CODES = ["11", "12", "21", "31", "32"]
KILLED = 3


def invent_people(folder: Path) -> None:
    rng = np.random.default_rng(3)
    codes = [CODES[i] for i in rng.integers(0, 4, 200)]
    parquet.write_table(pa.table({"id": np.arange(200), "geo": codes, "sex": rng.integers(0, 2, 200)}), folder / "p.parquet")
    with_account = open_ledger(folder / "people.ledger", create=True)
    with_account.open_account("census", 3, 1e-6)
    with_account.close()


def run(
    folder: Path,
    name: str = "out",
    *,
    declared: Mapping[str, Any] = MappingProxyType({}),
    epsilon: float = 1,
    **options: Any,
) -> HierarchyTabulation:
    """Measure, and write the tables."""
    given: dict[str, Any] = {"unit": "id", "unique": True, "keys": {"sex": [0, 1]}} | dict(declared)
    session = discreet.connect(folder / "p.parquet", ledger=folder / "people.ledger", account="census", **given)
    hierarchy = Hierarchy.read("nation > county > block", CODES, column="geo", lengths=[0, 1, 2])
    tables = {"sex": LevelTable(("sex",)), "total": LevelTable()}
    found = tabulate_hierarchy(session, hierarchy, tables, folder / name, epsilon=epsilon, stream_level="county", **options)
    found.write()
    return found


def hash_parts(folder: Path) -> dict[str, str]:
    found = sorted((folder / "out" / "measurements").glob("*.npz"))
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in found}


def in_child(act: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at(step: int) -> None:
    """End this process at its n-th step."""
    passed = 0

    def pause(*_: Any) -> None:
        nonlocal passed
        passed += 1
        if passed == step:
            os._exit(KILLED)

    def around(method: Callable[..., Any]) -> Callable[..., Any]:
        def run_between(*args: Any, **given: Any) -> Any:
            pause()
            found = method(*args, **given)
            pause()
            return found

        return run_between

    spools._pause = pause
    for name in ("reserve", "record"):
        setattr(LedgerAccount, name, around(getattr(LedgerAccount, name)))


def redraw_parts() -> None:
    """The mutant: a part is drawn again though it is complete."""
    write = spools._write_durably
    spools.Spool.has_part = lambda self, name: False  # type: ignore[method-assign]
    spools._write_durably = lambda path, content, *, replace: write(path, content, replace=True)  # type: ignore[assignment]


def find_problems(people: Path, step: int, is_mutant: bool) -> list[str] | None:
    """What is wrong after a kill at a step and a second run; None if there is no such step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(people, folder, dirs_exist_ok=True)
        killed = in_child(lambda: (kill_at(step), run(folder))[0])
        if killed == 0:
            return None
        if killed != KILLED:
            return [f"step {step}: the first run failed with {killed}"]
        before = hash_parts(folder)

        def finish() -> None:
            if is_mutant:
                redraw_parts()
            found = run(folder)
            again = run(folder)
            assert reproduce_hierarchy(folder / "out").is_complete
            reports = {"root": found.root, "again": again.root, "charged": again.charged, "recorded": found.reference.record}
            (folder / "report.json").write_text(json.dumps(reports | {"cost": str(round_up(found.plan.charge))}))

        problems = []
        if in_child(finish) != 0:
            return [f"step {step}: the second run failed"]
        after, report = hash_parts(folder), json.loads((folder / "report.json").read_text())
        problems += [f"step {step}: {part} was drawn again" for part in before if before[part] != after.get(part)]
        if report["root"] != report["again"] or report["charged"] or report["recorded"]["root"] != report["root"]:
            problems.append(f"step {step}: the record is not what is there")
        if [path for path in (folder / "out").rglob("*") if path.suffix == ".draft" or path.name == "private"]:
            problems.append(f"step {step}: drafts or private files were left")
        ledger = open_ledger(folder / "people.ledger")
        spent = ledger.get_account("census").budget.spent
        ledger.close()
        if str(spent) != report["cost"]:
            problems.append(f"step {step}: {spent} was charged, and the cost is {report['cost']}")
        return problems


MUTANT_FROM = 14
"""The first step at which the mutant is killed: a part is complete there, or soon after."""


def main() -> None:
    """Kill at every step or every so many, one after the other; the mutant at every step until it is found."""
    is_mutant, problems = "mutant" in sys.argv, list[str]()
    every = 1 if is_mutant else int(sys.argv[1])
    step = MUTANT_FROM - 1 if is_mutant else 0
    with tempfile.TemporaryDirectory() as name:
        people = Path(name)
        in_child(lambda: invent_people(people))
        while (found := find_problems(people, step + 1, is_mutant)) is not None:
            step += every
            problems += found
            if is_mutant and problems:
                break
    print(json.dumps({"steps": step, "problems": problems}))


if __name__ == "__main__":
    main()
