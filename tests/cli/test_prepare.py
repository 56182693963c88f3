"""`discreet prepare`, and `discreet ask` on what it wrote; once in processes of their own, as a user runs them."""

import json
import stat
from pathlib import Path

from tests.support.console import run, run_process

COUNT = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"


def test_a_table_is_prepared_and_asked_with_a_ledger(source: str, tmp_path: Path) -> None:
    file, ledger = tmp_path / "people.prepared.duckdb", tmp_path / "hr.ledger"
    done = run_process("prepare", source, "--unit", "id", "--output", str(file), "--group-by", "dept")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 2
    assert "GROUP BY is fast for dept. To choose other columns, add --group-by." in done.stdout
    assert not any(character.isdigit() for character in done.stdout.replace(str(file), "")), "nothing is counted"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    opened = run("ledger", "open", str(ledger), "--account", "hr", "--epsilon", "2")
    assert opened.returncode == 0
    asking = ["ask", str(file), COUNT, "--keys", "dept=a,b", "--ledger", str(ledger), "--epsilon", "1", "--json"]
    answers = [json.loads(ask(*asking).stdout) for ask in (run_process, run)]
    assert [row["dept"] for row in answers[0]["rows"]] == ["a", "b"]
    assert answers[0]["rows"] == answers[1]["rows"], "the second is the recorded one"


def test_a_policy_of_a_prepared_table_has_its_salt(source: str, tmp_path: Path) -> None:
    file, policy = tmp_path / "people.prepared.duckdb", tmp_path / "policy.toml"
    assert run("prepare", source, "--unit", "id", "--output", str(file)).returncode == 0
    assert run("policy", "init", str(file), "--out", str(policy)).returncode == 0, "it has its unit"
    assert stat.S_IMODE(policy.stat().st_mode) == 0o600, "it holds the salt"
    asking = ["ask", str(file), "SELECT COUNT(*) AS n FROM people", "--policy", str(policy), "--epsilon", "1", "--json"]
    assert run(*asking).returncode == 0
    assert run("prepare", source, "--policy", str(policy), "--output", str(file), "--force").returncode == 0
    assert run(*asking).returncode == 0
    assert run("policy", "init", source, "--unit", "id", "--out", str(tmp_path / "other.toml")).returncode == 0
    refused = run(*asking[:4], str(tmp_path / "other.toml"), *asking[5:])
    assert refused.returncode == 4
    assert "discreet prepare --policy" in refused.stderr


def test_a_replaced_file_of_another_unit_or_salt_is_said_to_be_forgotten(source: str, tmp_path: Path) -> None:
    file, policy = str(tmp_path / "people.prepared.duckdb"), str(tmp_path / "policy.toml")
    assert run("policy", "init", source, "--unit", "id", "--out", policy).returncode == 0
    again, is_first = ["prepare", source, "--output", file, "--force"], True
    for given, words in (
        (["--unit", "id"], None),
        (["--unit", "id"], None),
        (["--unit", "dept"], "replaced was prepared for the unit id:"),
        (["--unit", "dept", "--table", "others"], "replaced has the table people:"),
        (["--unit", "dept"], "replaced has the table others:"),
        (["--unit", "id"], "replaced was prepared for the unit dept:"),
        (["--policy", policy], "replaced has another salt than the policy:"),
        (["--policy", policy], None),
    ):
        done = run(*again, *given)
        assert done.returncode == 0
        said = " ".join(done.stdout.split())
        assert ("not found again, and cost budget again" in said) == (words is not None)
        assert (words or "Wrote") in said
        is_kept = words is None and not is_first
        assert ("are still given, for free. If the data changed, ask with --label" in said) == is_kept
        is_first = False


def test_refusals_name_flags(source: str, tmp_path: Path) -> None:
    file = str(tmp_path / "people.prepared.duckdb")
    written = json.loads(run("prepare", source, "--unit", "id", "--output", file, "--json").stdout)
    about = {"source": source, "prepared": file, "table": "people", "unit": "id"}
    assert written == about | {"group_by": ["dept"], "replaced": False, "answers_kept": False}
    for given, words in (
        (["--unit", "id", "--output", file], "--output is"),
        (["--output", file, "--force"], "--unit is missing"),
        (["--output", file], "--unit is missing"),
        (["--unit", "id", "--output", file, "--force", "--group-by", "depth"], "--group-by is 'depth'"),
    ):
        refused = run("prepare", source, *given)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr
    refused = run("prepare", source, "--output", file, "--policy", "none.toml")
    assert refused.returncode == 4
    assert "none.toml" in refused.stderr


def test_all_that_a_query_of_a_prepared_table_lacks_is_said_at_once(source: str, tmp_path: Path) -> None:
    file = str(tmp_path / "people.prepared.duckdb")
    assert run("prepare", source, "--unit", "id", "--output", file).returncode == 0
    asking = "SELECT dept, AVG(pay) AS mean FROM people GROUP BY dept"
    refused, of_source = run("ask", file, asking), run("ask", source, asking, "--unit", "id")
    assert (refused.returncode, refused.stderr) == (
        2,
        of_source.stderr.replace(f"{source} ", f"{file} ").replace(" --unit id", ""),
    )
    assert all(words in refused.stderr for words in ("--bounds for `pay`", "--keys for `dept`", "--epsilon are missing"))
