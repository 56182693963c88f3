"""`discreet lab`: JSON alone on stdout, errors in one line, pictures in the given files."""

import json
import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES
from discreet.lab.figures import figure
from tests.support import console

run = partial(console.run, "lab")


def test_the_list_names_everything() -> None:
    listed = json.loads(run("list", "--json").stdout)
    assert {kind: list(names) for kind, names in listed.items()} == {
        "figures": list(FIGURES), "errata": list(ERRATA), "exercises": list(EXERCISES), "attacks": list(ATTACKS),
    }  # fmt: skip
    words = run("list").stdout
    assert all(name in words for name in (*FIGURES, *ERRATA, *EXERCISES, *ATTACKS))


def test_a_figure_is_shown_and_saved(tmp_path: Path) -> None:
    shown = json.loads(run("show", "noise-l1", "--save", tmp_path / "a.png", "--json").stdout)
    assert shown["numbers"]["vectorised"] == list(range(10, 101, 10))
    assert shown["parameters"] == {"epsilon": 0.1, "k": 10}
    assert "Erratum 5" in shown["caption"]
    assert (tmp_path / "a.png").read_bytes() == figure.render_png(FIGURES["noise-l1"])
    saved = " ".join(run("show", "indistinguishable", "--save", tmp_path / "b.png").stdout.split())
    assert f"Picture written to {(tmp_path / 'b.png').resolve()}." in saved.replace(" /", "/").replace("to/", "to /")
    assert "--save" in run("show", "k-anonymity").stdout
    assert run("show", "averaging", "--answers", "20").returncode == 0, "a figure and an attack have this name"


def test_a_figure_is_drawn_in_the_terminal_at_its_parameters() -> None:
    shown = run("show", "noise-l1", "--epsilon", "0.2", "--k=5").stdout
    assert "at ε = 0.2" in shown
    assert "└────" in shown
    assert "Parameters: --epsilon 0.2 --k 5" in shown
    numbers = json.loads(run("show", "--k", "5", "noise-l1", "--epsilon", "1/5", "--json").stdout)["numbers"]
    assert numbers["sequential"] == [5, 10, 15, 20, 25]


@pytest.mark.parametrize("name", ERRATA)
def test_an_erratum_shows_claim_correction_and_proof(name: str) -> None:
    shown = json.loads(run("show", name, "--json").stdout)
    assert shown["evidence"]
    words = run("show", name).stdout
    assert all(part in words for part in ("The text says", "True is", "How we know"))


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_hides_its_solution_until_it_is_asked_for(name: str) -> None:
    solution = EXERCISES[name].solve()
    words = " ".join(run("exercise", name).stdout.split())
    assert EXERCISES[name].question in words
    assert "Answer:" not in words
    assert solution.work[-1][:20] not in words
    assert set(json.loads(run("exercise", name, "--json").stdout)) == {
        "exercise", "source", "question", "asks", "hint", "parameters",
    }  # fmt: skip
    solved = run("exercise", name, "--solution", "--hint").stdout
    assert f"Answer: {solution.answer}" in " ".join(solved.split())
    assert "Hint: " in solved
    shown = json.loads(run("exercise", name, "--solution", "--json").stdout)
    assert shown["answer"] == solution.answer
    assert shown["results"] == list(solution.results)


def test_an_answer_is_checked_with_feedback() -> None:
    right = run("exercise", "counties", "--check", "181.06")
    assert (right.returncode, right.stdout) == (0, "Right: E max ≤ 181.06 people.\n")
    wrong = run("exercise", "counties", "--check", "90.5")
    assert wrong.returncode == 1
    assert wrong.stdout.startswith("Not yet: with Δ₁ = 1 in place of 2.")
    assert "181" not in wrong.stdout
    other = run("exercise", "counties", "--d", "58", "--check", "101.2", "--json")
    assert json.loads(other.stdout)["right"]
    assert "number 3" in run("exercise", "sensitivity-quiz", "--check", "1,2,2,33.3").stdout
    assert "asks for 4 numbers" in run("exercise", "sensitivity-quiz", "--check", "1").stdout


def test_the_set_for_a_class() -> None:
    listed = json.loads(run("exercise", "--list", "--json").stdout)["exercises"]
    assert [each["exercise"] for each in listed] == list(EXERCISES)
    assert all("answer" not in each and each["hint"] for each in listed)
    solved = json.loads(run("exercise", "--list", "--solution", "--json").stdout)["exercises"]
    assert [each["answer"] for each in solved] == [exercise.solve().answer for exercise in EXERCISES.values()]
    words = run("exercise", "--list").stdout
    assert all(name in words for name in EXERCISES)
    assert "Answer" not in words


def test_every_figure_into_a_folder(tmp_path: Path) -> None:
    few = {name: FIGURES[name] for name in ("noise-l1", "exp-bounds")}
    with patch("discreet.lab.FIGURES", few):
        written = json.loads(run("all", "--out", tmp_path / "new" / "pictures", "--json").stdout)["pictures"]
    assert [Path(path).name for path in written] == ["noise-l1.png", "exp-bounds.png"]
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in written)


def test_an_attack_is_run() -> None:
    name = next(iter(ATTACKS))
    played = json.loads(run("attack", name, "--json").stdout)
    assert played["attack"] == name
    assert played["lines"]
    assert played["title"] in " ".join(run("attack", name).stdout.split())
    few = json.loads(run("attack", "averaging", "--answers", "40", "--epsilon", "0.5", "--json").stdout)["numbers"]
    assert (few["answers"], few["epsilon_each"]) == (40, 0.5)


def test_errors_have_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, words in (
        (("show", "countes"), "Did you mean counties?"),
        (("show", "zzz"), "See discreet lab list"),
        (("show", "float-grid"), "discreet lab attack float-grid"),
        (("show", "counties"), "discreet lab exercise counties"),
        (("show", "noise-l1", "--speed", "3"), "--speed is 3: no such flag here. The flags are --epsilon 0.1 --k 10"),
        (("show", "noise-l1", "--k", "0"), "--k is 0: must be at least 1"),
        (("show", "noise-l1", "--k", "2.5"), "--k is 2.5: not a whole number"),
        (("show", "noise-l1", "--epsilon", "x"), "--epsilon is 'x': not a number"),
        (("show", "noise-l1", "--epsilon", "-1"), "--epsilon is -1: must be positive"),
        (("show", "noise-l1", "--epsilon"), "--epsilon is missing"),
        (("show", "noise-l1", "exp-bounds"), "one name is wanted"),
        (("show", "composition-100", "--k", "30000"), "--k is "),
        (("show", "erratum-1", "--k", "3"), "an erratum has no parameters"),
        (("exercise",), "discreet lab exercise --list"),
        (("exercise", "countys"), "Did you mean counties?"),
        (("exercise", "counties", "--check", "x"), "--check is 'x': not a number"),
        (("exercise", "counties", "--delta", "2"), "--delta is 2: no such flag here"),
        (("exercise", "names", "--beta", "2"), "--beta is 2: must lie strictly between 0 and 1"),
        (("attack", "averaging", "--answers", "1"), "--answers is 1"),
        (("attack", "averaging", "--speed", "1"), "--speed is 1: no such flag here"),
        (("show", "erratum-1", "--save", "x.png"), "is no figure"),
        (("show", "noise-l1", "--save", tmp_path / "no" / "x.png"), "folder that exists"),
        (("all", "--out", tmp_path / "file" / "x"), "folder that can be made"),
        (("attack", "zzz"), "See discreet lab list"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert words in done.stderr.splitlines()[0]
        assert "Traceback" not in done.stderr


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("show", "noise-l1", "--save", tmp_path / "a.png")
    assert done.returncode == 2
    assert "pip install 'discreet[lab]'" in done.stderr
    assert json.loads(run("show", "noise-l1", "--json").stdout)["numbers"]


@pytest.mark.parametrize("name", ["a.jpg", "a.svg", "a"])
def test_a_picture_is_a_png_or_is_refused(tmp_path: Path, name: str) -> None:
    done = run("show", "noise-l1", "--save", tmp_path / name)
    assert done.returncode == 2
    assert ".png" in done.stderr
    assert not list(tmp_path.iterdir())
    assert run("show", "noise-l1", "--save", tmp_path / "a.PNG").returncode == 0
