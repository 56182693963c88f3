"""What a newcomer does, from the wheel in a clean environment: the first day, the second day, a publication, a policy."""

import json
import shutil
from pathlib import Path

import pytest

from discreet.session.policy_check import Verdict
from tests.support.wheel import ROOT, Environment

COUNTS = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
DECLARED = ("--unit", "id", "--unique", "--keys", "dept=sales,research,legal")
TABLES = 12
PLAN = """title = "People"
source = "people.csv"
unit = "id"
unique = true
[bounds]
pay = [0, 200]
[keys]
dept = ["sales", "research", "legal"]
[budget]
epsilon = 2
ledger = "hr.ledger"
account = "hr"
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a table and nothing else."""
    shutil.copy(ROOT / "examples" / "people.csv", tmp_path)
    return tmp_path


def test_the_wheel_is_what_runs(installed: Environment, here: Path) -> None:
    where = installed.run("-c", "import discreet; print(discreet.__file__)", cwd=here, program="python")
    assert Path(where.stdout.strip()).is_relative_to(installed.folder), where.stderr
    assert not Path(where.stdout.strip()).is_relative_to(ROOT)
    version = installed.run("--version", cwd=here)
    assert version.stdout == installed.run("-m", "discreet", "--version", cwd=here, program="python").stdout != ""


def test_from_a_csv_to_an_answer_to_a_ledger_to_the_second_day(installed: Environment, here: Path) -> None:
    wrong = installed.run("ask", "people.csv", COUNTS, "--epsilon", "0.5", cwd=here)
    assert wrong.returncode == 2
    assert "--unit" in wrong.stderr
    topic = wrong.stderr.strip().rpartition("discreet help ")[2]
    assert installed.run("help", topic, cwd=here).stdout.startswith("#"), "the page that the error names is in the wheel"

    plot = ("--plot", "chart.svg") if "--plot" in installed.run("ask", "--help", cwd=here).stdout else ()
    first = installed.run("ask", "people.csv", COUNTS, *DECLARED, "--epsilon", "0.5", *plot, cwd=here)
    assert first.returncode == 0, first.stderr
    assert all(dept in first.stdout for dept in ("sales", "research", "legal"))
    if plot:
        assert "<svg" in (here / "chart.svg").read_text(encoding="utf-8")

    opened = installed.run("ledger", "open", "hr.ledger", "--account", "hr", "--epsilon", "1", cwd=here)
    assert opened.returncode == 0, opened.stderr
    paid = ("ask", "people.csv", COUNTS, *DECLARED, "--epsilon", "0.6", "--ledger", "hr.ledger", "--json")
    monday, tuesday = (json.loads(installed.run(*paid, cwd=here).stdout) for _ in range(2))
    assert monday["rows"] == tuesday["rows"], "the same question has the same answer"
    budget = json.loads(installed.run("budget", "hr.ledger", "--json", cwd=here).stdout)["accounts"]
    assert [account["entries"] for account in budget] == [1], "and is charged once"
    assert float(budget[0]["cost"]["remaining"]) == pytest.approx(0.4)
    beyond = installed.run("ask", "people.csv", COUNTS, *DECLARED, "--epsilon", "0.5", "--ledger", "hr.ledger", cwd=here)
    assert beyond.returncode == 3, "the budget is remembered"


def test_twelve_tables_are_published_and_verified_with_the_folder_and_the_public_key(
    installed: Environment, here: Path
) -> None:
    queries = [f'[questions.older{age}]\nsql = "SELECT dept, COUNT(*) AS n FROM people WHERE age > {age} GROUP BY dept"\n'
               for age in range(20, 20 + 3 * TABLES, 3)]  # fmt: skip
    (here / "plan.toml").write_text(PLAN + "".join(queries), encoding="utf-8")
    assert installed.run("ledger", "open", "hr.ledger", "--account", "hr", "--epsilon", "3", cwd=here).returncode == 0
    published = installed.run("publish", "plan.toml", "--to", "people-2026", "--yes", "--json", cwd=here)
    assert published.returncode == 0, published.stderr
    assert len(list((here / "people-2026").glob("*.csv"))) == TABLES
    public = json.loads(installed.run("ledger", "key", "hr.ledger", cwd=here).stdout)["public_key"]

    reader = here / "reader"
    shutil.move(here / "people-2026", reader)
    for name in ("people.csv", "hr.ledger", "hr.ledger.key", "plan.toml"):
        (here / name).unlink()
    good = installed.run("verify", "release.json", "--key", public, cwd=reader)
    assert good.returncode == 0, good.stdout
    assert good.stdout.splitlines()[-1].startswith("VALID SO FAR: ")
    changed = json.loads((reader / "release.json").read_text(encoding="utf-8"))
    changed["guarantee"]["epsilon"] /= 2
    (reader / "changed.json").write_text(json.dumps(changed), encoding="utf-8")
    bad = installed.run("verify", "changed.json", "--key", public, cwd=reader)
    assert bad.returncode == 1
    assert bad.stdout.splitlines()[-1].startswith("INVALID: ")
    other = "A" * 43 + "="
    assert installed.run("verify", "release.json", "--key", other, cwd=reader).returncode == 1


def test_a_policy_check_finds_a_false_unique(installed: Environment, here: Path) -> None:
    lines = (here / "people.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    assert installed.run("policy", "init", "people.csv", "--unit", "id", cwd=here).returncode == 0
    policy = (here / "policy.toml").read_text(encoding="utf-8")
    (here / "policy.toml").write_text(f"unique = true\n{policy.replace('unique = false', '# unique = false')}", "utf-8")
    checked = installed.run("policy", "check", "people.csv", "policy.toml", cwd=here)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (here / "people.csv").write_text("".join([*lines, lines[1]]), encoding="utf-8")
    checked = installed.run("policy", "check", "people.csv", "policy.toml", "--json", cwd=here)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    verdicts = {each["subject"]: each["verdict"] for each in json.loads(checked.stdout)["checks"]}
    assert verdicts["unique"] == Verdict.BROKEN.value
