"""What starting imports, and what it must not: a start is quick because it loads only what the question needs.

Modules are compared, not seconds: a machine that is busy changes no result. `make bench` measures the seconds.
"""

import subprocess
import sys
from pathlib import Path

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
