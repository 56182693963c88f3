"""What starting imports, and what it must not: a start is quick because it loads only what the question needs.

Modules are compared, not seconds: a machine that is busy changes no result. `make bench` measures the seconds.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PEOPLE = str(Path(__file__).parents[2] / "examples" / "people.csv")
COUNT = "SELECT COUNT(*) AS n FROM people"
CALL = "import sys; sys.argv[1:] = {arguments!r}\nfrom discreet.cli import main\ntry: main()\nexcept SystemExit: pass\n"
CONNECT = f"import discreet\npeople = discreet.connect({PEOPLE!r}, unit='id', epsilon=1)\n"

UNUSED = {
    "pydantic", "scipy", "matplotlib", "pandas", "polars", "pyarrow", "psycopg", "pyspark", "torch", "vl_convert", "altair",
    "asyncio",
    "discreet.lab", "discreet.auditor", "discreet.planner", "discreet.workload", "discreet.testing",
    "discreet.accounting.curve", "discreet.accounting.contour", "discreet.accounting.dominating_pairs",
    "discreet.accounting.compare", "discreet.accounting.running", "discreet.accounting.risk",
    "discreet.ledger.keys", "discreet.ledger.certificate", "discreet.ledger.verify", "discreet.ledger.check",
    "discreet.engines.postgres", "discreet.engines.spark", "discreet.ledger.postgres",
}  # fmt: skip
"""What no simple query needs."""
UNUSED_TO_CONNECT = {
    "numpy", "cryptography", "sqlglot.dialects.duckdb", "typer", "rich",
    "discreet.mechanisms", "discreet.noise.bits", "discreet.accounting.pld", "discreet.accounting.sampled_moments",
    "discreet.query.parser", "discreet.query.ast", "discreet.query.aggregates", "discreet.query.estimates",
    "discreet.query.calibrate", "discreet.query.contribution", "discreet.query.answer", "discreet.query.quote",
    "discreet.query.postprocess", "discreet.query.record", "discreet.sql.expressions", "discreet.sql.totals",
    "discreet.session.executor", "discreet.session.discovery",
    "discreet.engines.duckdb.rows", "discreet.engines.duckdb.cells",
}  # fmt: skip
"""What a session fetches with its first query, and what other kinds of sources need."""
LIBRARIES = {"importlib.metadata", "numpy", "duckdb", "sqlglot", "cryptography", "msgspec", "sqlite3"}

STARTS = {
    "import discreet": ("import discreet", UNUSED | LIBRARIES | {"typer", "rich", "discreet.session", "discreet.query"}),
    "from discreet import connect, Laplace": (
        "from discreet import connect, Laplace",
        UNUSED | {"sqlglot", "duckdb", "typer", "rich", "discreet.mechanisms.gaussian", "discreet.mechanisms.calibration"},
    ),
    "import discreet; connect": (CONNECT, UNUSED | UNUSED_TO_CONNECT),
    "a query in Python": (CONNECT + f"people.ask({COUNT!r}, epsilon=1).to_csv()", UNUSED | {"typer", "rich"}),
    "discreet --version": (CALL.format(arguments=["--version"]), UNUSED | LIBRARIES | {"rich"}),
    "discreet --help": (CALL.format(arguments=["--help"]), UNUSED | LIBRARIES),
    "discreet help asking": (CALL.format(arguments=["help", "asking"]), UNUSED | LIBRARIES | {"rich"}),
    "discreet ask --help": (CALL.format(arguments=["ask", "--help"]), UNUSED | LIBRARIES),
    "discreet ask": (CALL.format(arguments=["ask", PEOPLE, COUNT, "--unit", "id", "--epsilon", "1"]), UNUSED),
    "a mistyped option": (CALL.format(arguments=["ask", PEOPLE, COUNT, "--unti", "id"]), UNUSED | LIBRARIES | {"rich"}),
}
SHOW = "import sys; print('\\n' + chr(31).join(sys.modules))"


def imported(program: str) -> set[str]:
    """The modules that are loaded at the end of a program."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{SHOW}"], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.rstrip("\n").rpartition("\n")[2].split(chr(31)))


@pytest.mark.parametrize("start", STARTS)
def test_a_start_imports_only_what_it_needs(start: str) -> None:
    program, forbidden = STARTS[start]
    assert sorted(forbidden & imported(program)) == []


def test_the_check_sees_an_import() -> None:
    assert {"scipy", "discreet.accounting.curve"} <= imported("import discreet, scipy; discreet.epsilon")


def test_a_query_imports_what_its_session_was_opened_without() -> None:
    """So each name that is forbidden to `connect` is a module: one that was renamed would forbid nothing."""
    others = {"typer", "rich", "discreet.accounting.pld", "discreet.accounting.sampled_moments", "discreet.query.quote"}
    others |= {"discreet.engines.duckdb.rows", "discreet.engines.duckdb.cells"}
    asked = imported(f"{CONNECT}people.ask({COUNT!r}, epsilon=1)")
    assert UNUSED_TO_CONNECT - others - asked == set()
    assert others <= imported(f"import {', '.join(sorted(others))}")


FROZEN = f"""import gc, sys
from importlib.abc import MetaPathFinder
class Watch(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        global before, frozen
        if name == "duckdb":
            before, frozen = set(sys.modules), gc.get_freeze_count()
sys.meta_path.insert(0, Watch())
{CALL.format(arguments=["ask", PEOPLE, COUNT, "--unit", "id", "--epsilon", "1"])}
assert frozen > 10_000 and gc.isenabled()
for name in before - {{"sys"}}: sys.modules.pop(name, None)
"""


def test_a_command_loads_its_modules_before_duckdb_and_no_collection_searches_them() -> None:
    """Only the engine is loaded afterwards, and what prints the answer."""
    later = {name for name in imported(FROZEN) if name.startswith("discreet")}
    assert {name for name in later if not name.startswith("discreet.engines.duckdb")} == set()
    assert "discreet.engines.duckdb.connection" in later


QUERY = ["ask", PEOPLE, COUNT, "--unit", "id", "--epsilon", "2"]


def end(program: str, ledger: Path, *, fits: bool) -> tuple[str, set[str]]:
    """Ask for what the account of a new ledger holds, or for more: what stderr says, and the files that are left."""
    opening = ["ledger", "open", str(ledger), "--account", "hr", "--epsilon", "3" if fits else "1"]
    subprocess.run([sys.executable, "-m", "discreet", *opening], check=True, capture_output=True, timeout=120)
    calling = CALL.format(arguments=[*QUERY, "--ledger", str(ledger)]).replace("except SystemExit: pass\n", program)
    done = subprocess.run([sys.executable, "-c", calling], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == (0 if fits else 3)
    return done.stderr, {each.name for each in ledger.parent.iterdir()}


@pytest.mark.parametrize("fits", [True, False])
def test_a_process_frees_what_duckdb_and_a_ledger_hold(fits: bool, tmp_path: Path) -> None:
    """DuckDB would report on stderr what is not freed; an open ledger leaves its write-ahead log behind."""
    said, files = end("finally: pass\n", tmp_path / "hr.ledger", fits=fits)
    assert "leaked" not in said
    assert len(said.splitlines()) == (0 if fits else 2)
    assert not {name for name in files if name.endswith(("-wal", "-shm"))}


def test_the_check_sees_what_is_frozen_too_late(tmp_path: Path) -> None:
    said, files = end("finally:\n import gc; gc.freeze()\n", tmp_path / "hr.ledger", fits=False)
    assert "leaked" in said
    assert "hr.ledger-wal" in files


@pytest.mark.parametrize("typed", ["ask --help", "ledger --help", "ledger open --help", "lab list"])
def test_the_typed_command_alone_is_built_and_says_the_same(typed: str) -> None:
    whole = "from discreet.cli import app\napp.keep_only = lambda name: app\n"
    one, all_of_them = (
        subprocess.run(
            [sys.executable, "-c", program + CALL.format(arguments=typed.split())],
            capture_output=True, text=True, check=True, timeout=120,
        ).stdout
        for program in ("", whole)
    )  # fmt: skip
    assert one == all_of_them != ""


def test_only_the_typed_command_is_built() -> None:
    from typer.main import get_command

    from discreet.cli import app

    commands: Any = vars(get_command(app))["commands"]
    for name in commands:
        assert list(vars(get_command(app.keep_only(name)))["commands"]) == [name]
    for other in ("aks", "--help", "--version", ""):
        assert app.keep_only(other) is app


AFTER_PAYING = f"""import sys
{CONNECT}
from discreet.ledger.memory import MemoryAccount
reserve = MemoryAccount.reserve
def spy(*args, **given):
    paid = reserve(*args, **given)
    global before
    before = set(sys.modules)
    return paid
MemoryAccount.reserve = spy
people.ask({COUNT!r}, epsilon=1)
for name in before - {{"sys"}}: sys.modules.pop(name, None)
"""


def test_nothing_is_imported_once_a_query_is_paid() -> None:
    """An import that failed then, for want of a file handle, would waste what was paid."""
    assert imported(AFTER_PAYING) == {"sys"}


def test_the_module_runs_like_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "discreet", "--version"], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.startswith("discreet ")
