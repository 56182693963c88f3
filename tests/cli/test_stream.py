"""`discreet stream`, run as a user runs it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.console import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "visits.csv"
SOURCE = ("visits.csv", "--policy", "visits.toml", "--ledger", "hr.ledger")
INFERRED = ("visits.csv", "--unit", "id", "--ledger", "hr.ledger")
QUERY = "SELECT COUNT(*) AS n FROM visits"
DESIGN = ("--time", "day", "--start", "2026-03-01", "--steps", "30", "--epsilon", "1", "--name", "visits")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    shutil.copy(EXAMPLE.with_suffix(".toml"), tmp_path)
    assert run("ledger", "open", "hr.ledger", "--account", "hr", "--epsilon", "2", "--delta", "1e-6").returncode == 0


def test_open_tick_and_show(tmp_path: Path) -> None:
    opened = run("stream", "open", *SOURCE, QUERY, *DESIGN)
    assert opened.returncode == 0, opened.stderr
    for words in ("step 0 of 30", "Cost: ε = ", "ticks cost nothing"):
        assert words in " ".join(opened.stdout.split())
    assert "nothing was charged" in run("stream", "open", *SOURCE, QUERY, *DESIGN).stdout
    for step in (1, 2):
        ticked = json.loads(run("stream", "tick", *SOURCE, "--name", "visits", "--json").stdout)
        assert (ticked["step"], ticked["new"]) == (step, True)
    again = run("stream", "tick", *SOURCE, "--name", "visits", "--step", "2")
    assert "recorded before: nothing was measured" in again.stdout
    assert "step 2 of 30" in run("stream", "show", "hr.ledger").stdout
    shown = run("stream", "show", "hr.ledger", "--name", "visits", "--window", "2", "--plot", "chart.svg")
    assert shown.returncode == 0, shown.stderr
    assert "sum over the last 2 steps" in shown.stdout
    assert (tmp_path / "chart.svg").read_text().startswith("<svg")
    answers = json.loads(run("stream", "show", "hr.ledger", "--name", "visits", "--json").stdout)["answers"]
    assert answers[1]["estimates"] == ticked["estimates"]


def test_after_the_horizon_a_daily_job_shows_the_last_step_and_succeeds() -> None:
    design = (*DESIGN[:4], "--steps", "2", *DESIGN[6:])
    opened = run("stream", "open", *SOURCE, QUERY, *design)
    assert "ε = 1 was asked for; the certified cost of this stream alone is" in " ".join(opened.stdout.split())
    for _ in range(2):
        last = json.loads(run("stream", "tick", *SOURCE, "--name", "visits", "--json").stdout)
    over = run("stream", "tick", *SOURCE, "--name", "visits")
    assert (over.returncode, last["over"]) == (0, False)
    assert "The horizon of 2 steps is over" in " ".join(over.stdout.split())
    again = json.loads(run("stream", "tick", *SOURCE, "--name", "visits", "--json").stdout)
    assert (again["estimates"], again["over"], again["new"]) == (last["estimates"], True, False)
    refused = run("stream", "tick", *SOURCE, "--name", "visits", "--step", "3")
    assert (refused.returncode, "--step is 3" in refused.stderr) == (2, True)


def test_what_flags_do_not_give_comes_from_the_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        f'stream = {{query = "{QUERY}", name = "weekly", time = "day", every = "week", start = 2026-03-01, steps = 8, '
        "at_most = 3, apart = 2, epsilon = 0.5}\n"
    )
    opened = json.loads(run("stream", "open", *SOURCE, "--plan", "plan.toml", "--steps", "10", "--json").stdout)
    assert (opened["name"], opened["every"], opened["steps"], opened["at_most"], opened["apart"]) == (
        "weekly",
        "week",
        10,
        3,
        2,
    )
    assert opened["charged"] is True
    assert opened["cost"]["epsilon"]["upper"] <= 0.5


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("stream = {every = 3, step = 5}", ("stream.step is no parameter", "stream.every is 3", "--plan")),
        ("streams = 1", ("no key `stream`",)),
        ("stream = {", ("not TOML",)),
        ("stream = {steps = 8}", ("also needs the query, --name, --time, --start, --epsilon",)),
    ],
)
def test_all_mistakes_of_a_plan_are_listed(tmp_path: Path, plan: str, words: tuple[str, ...]) -> None:
    (tmp_path / "plan.toml").write_text(plan)
    refused = run("stream", "open", *SOURCE, "--plan", "plan.toml")
    assert refused.returncode == 2
    assert all(word in refused.stderr for word in words), refused.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("open", "visits.csv", QUERY, "--unit", "id", *DESIGN), 2, "--ledger is missing"),
        (("open", *SOURCE, QUERY, *DESIGN, "--every", "minute"), 2, "--every is 'minute'"),
        (("open", *SOURCE, QUERY, "--time", "ward", *DESIGN[2:]), 2, "--time is 'ward'"),
        (("open", *SOURCE, "SELECT id, COUNT(*) AS n FROM visits GROUP BY id", *DESIGN), 2, "--keys id=a,b"),
        (("open", *INFERRED, QUERY, *DESIGN), 2, "--policy is missing: column types were inferred"),
        (("tick", *INFERRED, "--name", "visits"), 2, "--policy is missing: column types were inferred"),
        (("open", *SOURCE, QUERY, *DESIGN[:6], *DESIGN[8:], "--epsilon", "9"), 3, "remains"),
        (("tick", *SOURCE, "--name", "none"), 2, "--name is 'none'"),
        (("show", "hr.ledger", "--plot", "chart.svg"), 2, "--plot is given: it is of one stream"),
        (("show", "other.ledger"), 4, "other.ledger"),
    ],
)
def test_mistakes_name_flags(arguments: tuple[str, ...], code: int, words: str) -> None:
    refused = run("stream", *arguments)
    assert (refused.returncode, refused.stdout) == (code, "")
    assert words in refused.stderr
