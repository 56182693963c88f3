"""`discreet publish`, run as a user runs it."""

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from runpy import run_path
from unittest.mock import patch

import pytest
import typer

from discreet.cli.publish import _confirm
from discreet.ledger import open_ledger
from discreet.ledger.keys import default_key_path, load_key
from discreet.workload import WorkloadQuery, plan_workload, publish
from tests.support.console import DISCREET, run
from tests.support.workloads import TOML, make_workload, write_plan

ROOT = Path(__file__).parent.parent.parent


def test_a_dry_run_shows_three_budgets_and_writes_nothing(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    shown = run("publish", str(plan), "--dry-run", "--to", str(tmp_path / "out"))
    assert shown.returncode == 0, shown.stderr
    for word in ("heads", "ε = 0.75", "ε = 1.5", "ε = 3", "1/2/2 of 3", "forecast from the sizes in the plan"):
        assert word in shown.stdout
    found = json.loads(run("publish", str(plan), "--dry-run", "--json").stdout)
    assert list(found) == ["cost", "fits", "raised", "budgets", "targets", "missing", "assumed"]
    assert [each["share"] for each in found["budgets"]] == [0.5, 1, 2]
    assert found["cost"]["epsilon"]["upper"] <= 1.5
    assert not (tmp_path / "out").exists()


def test_a_dry_run_says_what_each_error_costs_and_what_is_missing(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, budget='ledger = "hr.ledger"\naccount = "hr"')  # there is none yet
    shown = run("publish", str(plan), "--dry-run")
    assert shown.returncode == 0, shown.stderr
    for word in ("costs by itself", "Together the allowed errors cost ε = ", "not open yet", "discreet ledger open"):
        assert word in shown.stdout
    found = json.loads(run("publish", str(plan), "--dry-run", "--json").stdout)
    assert [(each["question"], each["column"]) for each in found["targets"]] == [("heads", "n"), (None, None)]
    assert found["missing"] == {"plan": 0.0, "account": 0.0}
    assert run("publish", str(plan), "--yes").returncode == 4
    poor = write_plan(tmp_path, TOML.replace("epsilon = 1.5", "epsilon = 0.01"))
    refused = run("publish", str(poor), "--dry-run")
    assert refused.returncode == 2
    assert "ε = " in refused.stdout
    assert "is missing" in refused.stdout
    assert "is missing; nothing remains for questions.pay" in refused.stderr


def test_all_problems_are_listed_with_one_exit_code(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, TOML.replace("error = 20", "eror = 20").replace("AVG(pay)", "AVG(pays)"))
    for mode in ("--dry-run", "--yes"):
        out = run("publish", str(plan), mode)
        assert out.returncode == 2
        assert "The plan has 2 problems:\n  questions.heads.eror is given" in out.stderr
        assert "questions.pay.sql: " in out.stderr


def test_it_publishes_once_and_verifies(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, TOML.replace("delta = 1e-6\n", ""), 'ledger = "hr.ledger"\naccount = "hr"')
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, 1e-6)
    out = run("publish", str(plan), "--to", str(tmp_path / "out"), "--yes", "--json")
    assert out.returncode == 0, out.stderr
    found = json.loads(out.stdout)
    assert {"heads.csv", "heads.parquet", "heads.svg", "guarantee.md", "release.json", "plan.toml", "again.py"} <= {
        *found["files"]
    }
    assert run("verify", str(tmp_path / "out" / "release.json"), "--ledger", str(tmp_path / "hr.ledger")).returncode == 0
    assert run("publish", str(plan), "--to", str(tmp_path / "out"), "--yes").returncode == 2  # it exists
    again = run("publish", str(plan), "--to", str(tmp_path / "out"), "--yes", "--force")
    assert "nothing was charged" in again.stdout
    assert re.search(r"about the data as of entry \d+.* another label", again.stdout)
    assert "certified cost of this publication alone" in again.stdout.replace("\n", " "), (
        "ε = 1.5 is asked for and not shown"
    )


@pytest.mark.parametrize(
    ("query", "hint"),
    [("", r"budget\.epsilon = 0\.5 would fit"), ("error = 2\n", "errors cost more than remains: allow larger errors")],
)
def test_a_publication_over_the_budget_names_a_budget_that_fits(tmp_path: Path, query: str, hint: str) -> None:
    text = f'source = "people.parquet"\nunit = "id"\n[questions.all]\n{query}sql = "SELECT COUNT(*) AS n FROM people"\n'
    write_plan(tmp_path)  # with its table
    plan = tmp_path / "over.toml"
    plan.write_text(f'{text}[budget]\nepsilon = 5\nledger = "small.ledger"\naccount = "hr"\n')
    with open_ledger(tmp_path / "small.ledger", create=True) as ledger:
        ledger.open_account("hr", 0.5)
    refused = run("publish", str(plan), "--to", str(tmp_path / "out"), "--yes")
    assert refused.returncode == 3
    assert re.search(hint, refused.stderr)
    assert "epsilon=" not in refused.stderr
    assert refused.stderr.endswith("See: discreet help publishing#the-dry-run\n")
    if not query:
        plan.write_text(plan.read_text().replace("epsilon = 5", "epsilon = 0.5"))
        assert run("publish", str(plan), "--to", str(tmp_path / "out"), "--yes").returncode == 0, "what is named fits"


def test_again_py_reproduces_the_publication(tmp_path: Path) -> None:
    out = run("publish", str(ROOT / "examples/publish.toml"), "--to", str(tmp_path / "out"), "--yes")
    assert out.returncode == 0, out.stderr
    assert "4 tables" in out.stdout
    command = [sys.executable, str(tmp_path / "out" / "again.py"), str(ROOT / "examples")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "again").iterdir()} == {path.name for path in (tmp_path / "out").iterdir()}


def test_again_py_signs_with_the_same_key_and_creates_none(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, TOML.replace("delta = 1e-6\n", ""), 'ledger = "hr.ledger"\naccount = "hr"')
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, 1e-6)
    key, beside = tmp_path / "elsewhere.key", default_key_path(tmp_path / "hr.ledger")
    load_key(key)
    made = publish(plan, tmp_path / "out", key=key)

    def again(*arguments: object) -> str | None:
        """Run the program in this process; what it says as it ends, or None if it ends well."""
        program = str(made.folder / "again.py")
        with chdir(tmp_path), patch.object(sys, "argv", [program, *map(str, arguments)]):
            try:
                run_path(program, run_name="__main__")
            except SystemExit as ended:
                return None if ended.code in (None, 0) else str(ended.code)
        return None

    for arguments, message in (
        ((), "usage: "),
        ((tmp_path,), "no key"),
        ((tmp_path, "nowhere.key"), "no key"),
        (("--help",), "usage: "),
    ):
        said = again(*arguments)
        assert said is not None
        assert message in said
        assert not beside.exists()
        assert not (tmp_path / "nowhere.key").exists()
    load_key(beside)  # another one
    assert "signed with another key" in (again(tmp_path) or "")
    assert not (tmp_path / "again").exists()
    command = [sys.executable, str(made.folder / "again.py"), str(tmp_path), str(key)]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0, "in its own process too"
    assert (tmp_path / "again" / "release.json").read_bytes() == (made.folder / "release.json").read_bytes()


def test_errors_are_one_line_with_an_exit_code(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    for options, code, message in (
        (("--to", str(tmp_path / "out")), 2, "--yes"),
        (("--json",), 2, "--dry-run"),
    ):
        out = run("publish", str(plan), *options)
        assert out.returncode == code
        assert "Traceback" not in out.stderr
        assert message in out.stderr
    costly = write_plan(tmp_path, TOML.replace("error = 20", "error = 1").partition("[questions.pay]")[0])
    out = run("publish", str(costly), "--to", str(tmp_path / "out"), "--yes")
    assert out.returncode == 3
    assert "cost more than budget.epsilon" in out.stdout
    assert "budget.epsilon" in out.stderr
    assert run("publish", str(tmp_path / "nowhere.toml"), "--yes").returncode == 4
    assert not (tmp_path / "out").exists()


def test_the_user_confirms(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    for answer, made in ((b"n\n", False), (b"y\n", True)):
        ours, theirs = pty.openpty()
        command = [DISCREET, "publish", str(plan), "--to", str(tmp_path / "out")]
        with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            os.write(ours, answer)
            _, stderr = running.communicate()
        os.close(ours)
        os.close(theirs)
        assert "and publish?" in stderr.decode()
        assert (tmp_path / "out").exists() is made


def test_the_cost_to_confirm_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts: list[str] = []
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(typer, "confirm", lambda text, **_: prompts.append(text))
    for error in (20, 23, 25, 27, 31):
        plan = plan_workload(make_workload(WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people", error=error)))
        _confirm(plan.cost)
        assert float(prompts[-1].split()[3]) >= plan.cost.epsilon.upper


def test_a_second_plan_that_the_account_cannot_pay_is_refused_in_epsilon(tmp_path: Path) -> None:
    text = TOML.replace("delta = 1e-6\n", "")
    plan = write_plan(tmp_path, text, f'ledger = "{tmp_path}/hr.ledger"\naccount = "hr"')
    assert (
        run("ledger", "open", tmp_path / "hr.ledger", "--account", "hr", "--epsilon", "1.5", "--delta", "1e-6").returncode
        == 0
    )
    assert run("publish", plan, "--to", tmp_path / "first", "--yes").returncode == 0
    plan.write_text(plan.read_text("utf-8").replace("error = 20", "error = 19"), "utf-8")
    second = run("publish", plan, "--to", tmp_path / "second", "--yes")
    assert second.returncode == 3
    said = " ".join(second.stdout.split())
    [sentence] = re.findall(r"The account does not have that much:[^:]*?, unless this publication was charged before", said)
    for text in (sentence, second.stderr):
        assert "ε = " in text
        assert "ρ" not in text[: text.index("ε = ")]
