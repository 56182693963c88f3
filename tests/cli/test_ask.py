"""`discreet ask`, run as a user runs it."""

import csv
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any

import pytest

from discreet import cli
from discreet.ledger import open_ledger
from discreet.session.session import Session
from tests.support.console import DISCREET, run, run_process
from tests.support.people import COUNTS
from tests.support.people_csv import OPTIONS, SQL


def test_ask_prints_json_only_in_the_documented_form(source: str) -> None:
    out = run("ask", source, SQL, *OPTIONS, "--epsilon", "100", "--json")
    assert out.returncode == 0, out.stderr
    shown = json.loads(out.stdout)
    assert list(shown) == ["rows", "cost", "charged", "explanation", "pipeline", "notes"]
    for row in shown["rows"]:
        assert list(row) == ["dept", "n", "mean"]
        assert abs(row["n"]["value"] - COUNTS[row["dept"]]) <= 5
        assert row["n"]["lower"] <= row["n"]["value"] <= row["n"]["upper"]
    assert shown["cost"] == {
        "epsilon": {"lower": 100.0, "upper": 100.0}, "delta": 0.0, "currency": "pure", "amount": 100.0, "remaining": 0.0,
    }  # fmt: skip


def test_ask_prints_csv_or_a_table(source: str) -> None:
    rows = list(csv.DictReader(io.StringIO(run("ask", source, SQL, *OPTIONS, "--epsilon", "100", "--csv").stdout)))
    assert [row["dept"] for row in rows] == ["a", "b", "c"]
    assert {"n", "n_lower", "n_upper", "n_reliable"} <= set(rows[0])
    shown = run("ask", source, SQL, *OPTIONS, "--error", "5%", "--size", "100", "--delta", "1e-6").stdout
    for word in ("dept", "±", "Cost: ε = ", "Adding or removing one id"):
        assert word in shown


@pytest.mark.parametrize(("name", "start"), [("chart.svg", b"<svg"), ("chart.png", b"\x89PNG"), ("chart.json", b"{")])
def test_ask_draws_a_chart(source: str, name: str, start: bytes, tmp_path: Path) -> None:
    out = run("ask", source, SQL, *OPTIONS, "--epsilon", "100", "--plot", str(tmp_path / name))
    assert out.returncode == 0, out.stderr
    assert (tmp_path / name).read_bytes().startswith(start)
    assert "Chart written to" in out.stdout
    assert "Cost: ε = 100" in out.stdout


def test_ask_draws_in_the_terminal(source: str) -> None:
    out = run("ask", source, SQL, *OPTIONS, "--epsilon", "100", "--plot", "-")
    assert "n (count) by dept\na █" in out.stdout


def test_a_chart_that_cannot_be_written_is_refused_before_anything_is_charged(source: str, tmp_path: Path) -> None:
    ledger = tmp_path / "hr.ledger"
    assert run("ledger", "open", ledger, "--account", "hr", "--epsilon", "1").returncode == 0
    paid = (*OPTIONS, "--epsilon", "1", "--ledger", str(ledger), "--account", "hr")
    for more, word in (
        (("--plot", str(tmp_path / "no" / "chart.svg")), "--plot is"),
        (("--plot", "chart.pdf"), "End the name with .svg, .png, .html, .json"),
        (("--plot", "-", "--json"), "--json and --csv print nothing else"),
    ):
        out = run("ask", source, SQL, *paid, *more)
        assert out.returncode == 2
        assert word in out.stderr
    assert json.loads(run("budget", ledger, "--json").stdout)["accounts"][0]["cost"]["amount"] == 0
    out = run("ask", source, SQL, "--unit", "nobody", "--epsilon", "1", "--plot", str(tmp_path / "chart.json"))
    assert out.returncode == 2
    assert not (tmp_path / "chart.json").exists()  # nothing is left of a refused query


Inside = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    """The console script in this process: its exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["discreet", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return call


def test_an_answer_can_be_post_processed(source: str, inside: Inside) -> None:
    options = (*OPTIONS[:4], "--keys", "dept=a,b,c,x,y,z", "--epsilon", "0.5", "--json")
    shown = json.loads(inside("ask", source, SQL, *options, "--consistent", "--non-negative", "--integers")[1])
    counts = [row["n"] for row in shown["rows"]]
    assert all(isinstance(count["value"], int) and count["value"] >= 0 <= count["lower"] for count in counts)
    assert shown["explanation"].count("post-processing") == 3
    assert shown["pipeline"][0].startswith("WITH kept AS (SELECT")


def test_an_answer_can_be_shown_as_percentages(source: str, inside: Inside) -> None:
    options = (*OPTIONS[:4], "--keys", "dept=a,b,c,x,y,z", "--epsilon", "1", "--json")
    for more in ((), ("--consistent", "--non-negative", "--integers")):
        shown = json.loads(inside("ask", source, SQL, *options, *more, "--shares")[1])
        percentages = [row["n_percent"]["value"] for row in shown["rows"]]
        assert sum(percentages) == pytest.approx(100)
        assert "shares of the sum over all declared keys" in shown["explanation"]


def test_a_budget_without_a_ledger_is_said_to_end(source: str, inside: Inside, tmp_path: Path) -> None:
    assert "This budget ends with the command" in inside("ask", source, SQL, *OPTIONS, "--epsilon", "1")[1]
    assert "This budget ends" not in inside("ask", source, SQL, *OPTIONS, "--epsilon", "1", "--json")[1]
    ledger = tmp_path / "hr.ledger"
    open_ledger(ledger, create=True).open_account("hr", 2)
    kept = inside("ask", source, SQL, *OPTIONS, "--epsilon", "1", "--ledger", str(ledger), "--account", "hr")
    assert "This budget ends" not in kept[1]
    assert "remaining" in kept[1]


def test_rows_are_ordered_and_selected_by_noisy_values(source: str, inside: Inside) -> None:
    options = (*OPTIONS[:4], "--keys", "dept=a,b,c,x,y,z", "--epsilon", "1", "--json")
    shown = json.loads(inside("ask", source, f"{SQL} ORDER BY n DESC LIMIT 3", *options)[1])
    values = [row["n"]["value"] for row in shown["rows"]]
    assert len(values) == 3
    assert values == sorted(values, reverse=True)
    assert "the 3 largest of 6 groups by noisy n" in shown["explanation"]
    assert "All intervals together" in shown["explanation"]
    quoted = json.loads(inside("quote", source, f"{SQL} ORDER BY SUM(pay)", *options)[1])
    assert [column["column"] for column in quoted["columns"]][-1] == "sum(pay)"


def test_a_pilot_needs_a_budget_that_was_fixed_beforehand(source: str, inside: Inside) -> None:
    question = ("ask", source, "SELECT AVG(pay) AS m FROM people", *OPTIONS, "--error", "5%", "--pilot", "0.5")
    code, out, err = inside(*question)
    assert (code, out) == (2, "")
    assert "Fix --budget beforehand" in err
    code, out, _ = inside(*question, "--budget", "0.51")
    assert (code, out) == (3, "")
    code, out, _ = inside(*question, "--budget", "2", "--json")
    shown = json.loads(out)
    assert code == 0
    assert "found by a private pilot count" in shown["explanation"]
    assert shown["cost"]["amount"] > 0.5
    assert shown["cost"]["amount"] + shown["cost"]["remaining"] == pytest.approx(2)


def test_currencies_and_neighbours(source: str, inside: Inside) -> None:
    options = (*OPTIONS, "--epsilon", "1", "--delta", "1e-6", "--neighbours", "replace", "--simultaneous", "--json")
    shown = json.loads(inside("ask", source, SQL, *options, "--currency", "pure")[1])
    assert shown["cost"]["currency"] == "pure"
    assert "Replacing one id" in shown["explanation"]
    assert "All intervals together" in shown["explanation"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--currency", "euro"), "Take pure, zcdp"),
        (("--currency", "rdp(1)"), "Take pure, zcdp"),
        (("--neighbours", "next"), "add-remove or replace"),
        (("--weight", "n"), "--weight n=2"),
        (("--weight", "x=2"), "no such column"),
        (("--weight", "n=0"), "positive"),
        (("--csv", "--json"), "Take one of the two"),
        (("--pilot", "0.1", "--budget", "1"), "no size is missing"),
    ],
)
def test_options_that_make_no_sense(source: str, wrong: tuple[str, ...], said: str, inside: Inside) -> None:
    code, out, err = inside("ask", source, SQL, *OPTIONS, "--epsilon", "1", "--delta", "1e-6", *wrong)
    assert (code, out) == (2, "")
    assert said in err


def test_progress_is_shown_on_stderr_only(source: str) -> None:
    ours, theirs = pty.openpty()
    command = [DISCREET, "ask", source, SQL, *OPTIONS, "--epsilon", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as running:
        out, _ = running.communicate(timeout=60)
    seen = os.read(ours, 1 << 16).decode()
    os.close(ours)
    os.close(theirs)
    assert len(json.loads(out)["rows"]) == 3
    assert "asking" in seen


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("SELECT pay FROM people", "--epsilon", "1"), 2, "line 1"),
        (("SELECT SUM(age) AS s FROM people", "--epsilon", "1"), 2, "bounds"),
        (("SELECT COUNT(*) AS n FROM people",), 2, "--epsilon or --error"),
        (("SELECT COUNT(*) AS n FROM people", "--error", "5%"), 2, "size"),
        (("SELECT COUNT(*) AS n FROM people", "--epsilon", "1", "--bounds", "pay"), 2, "--bounds pay=0:200"),
        (("SELECT COUNT(*) AS n FROM people", "--epsilon", "1", "--bounds", "day=2024-02-30:2025-01-01"), 2, "two dates"),
        (("SELECT COUNT(*) AS n FROM people", "--epsilon", "1", "--keys", "age=young"), 2, "column's type, integer"),
        (("SELECT COUNT(*) AS n FROM people", "--epsilon", "1", "--policy", "none.toml"), 4, "policy"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_exit_code(source: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    out = run("ask", source, *arguments, "--unit", "id")
    assert (out.returncode, out.stdout) == (code, "")
    assert said in out.stderr
    assert "Traceback" not in out.stderr


def test_a_missing_source_is_exit_code_4() -> None:
    out = run("ask", "nowhere.csv", SQL, "--unit", "id", "--epsilon", "1", "--json")
    assert (out.returncode, out.stdout) == (4, "")


def test_20_000_rows_from_a_cold_start(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,dept\n" + "".join(f"{i},{'abc'[i % 3]}\n" for i in range(20_000)))
    question = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
    out = run_process("ask", str(path), question, *OPTIONS[:2], *OPTIONS[4:], "--epsilon", "1")
    assert out.returncode == 0


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) AS n FROM people", "SELECT dept, AVG(pay) AS m FROM people GROUP BY dept"])
def test_nothing_is_charged_where_groups_cannot_add_up(source: str, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def paid(*_: Any, **__: Any) -> None:
        raise AssertionError("this was asked, and so paid for")

    monkeypatch.setattr("discreet.session.session.Session.ask", paid)
    question = ["discreet", "ask", source, sql, *OPTIONS, "--epsilon", "1", "--consistent"]
    monkeypatch.setattr(sys, "argv", question)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2


def test_an_answer_is_shown_where_the_terminal_has_no_greek(source: str, tmp_path: Path) -> None:
    foreign = tmp_path / "people.csv"
    foreign.write_text(Path(source).read_text(encoding="utf-8").replace(",a,", ",å,"), encoding="utf-8")
    options = ("--unit", "id", "--keys", "dept=å,b", "--unique", "--epsilon", "1")
    counted = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
    for form, shown in (("--csv", "\\xe5,"), ("--json", "\\u00e5"), ("--integers", "Cost: \\u03b5 = 1")):
        out = subprocess.run(
            [DISCREET, "ask", str(foreign), counted, *options, form],
            capture_output=True, check=False, timeout=60, env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        )  # fmt: skip
        assert out.returncode == 0, out.stderr
        assert shown in out.stdout.decode("ascii")


@pytest.mark.parametrize(("given", "words"), [([], "without a second charge"), (["--fresh"], "it stays charged")])
def test_an_interrupted_ask_says_what_became_of_its_charge(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], words: str
) -> None:
    ledger = str(tmp_path / "hr.ledger")
    open_ledger(ledger, create=True).open_account("hr", 1).store.close()
    asking = ["ask", source, SQL, *OPTIONS, "--epsilon", "0.5", "--ledger", ledger]
    with monkeypatch.context() as patched:
        patched.setattr(Session, "ask", interrupt)
        done = run_interrupted(*asking, *given)
    assert words in " ".join(done.split())
    assert run(*asking).returncode == 0


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def run_interrupted(*arguments: str) -> str:
    """What a command prints on stderr that Ctrl-C ends."""
    with redirect_stderr(io.StringIO()) as printed, suppress(KeyboardInterrupt):
        return run(*arguments).stderr
    return printed.getvalue()
