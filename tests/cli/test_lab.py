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
    assert shown["numbers"]["vectorised"] == list(range(1, 101))
    assert "Erratum 5" in shown["caption"]
    assert (tmp_path / "a.png").read_bytes() == figure.render_png(FIGURES["noise-l1"])
    assert "Picture written" in run("show", "indistinguishable", "--save", tmp_path / "b.png").stdout
    assert "--save" in run("show", "k-anonymity").stdout


@pytest.mark.parametrize("name", ERRATA)
def test_an_erratum_shows_claim_correction_and_proof(name: str) -> None:
    shown = json.loads(run("show", name, "--json").stdout)
    assert shown["evidence"]
    words = run("show", name).stdout
    assert all(part in words for part in ("The text says", "True is", "How we know"))


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_shows_question_work_and_answer(name: str) -> None:
    shown = json.loads(run("show", name, "--json").stdout)
    assert shown["answer"] == EXERCISES[name].solve().answer
    words = " ".join(run("show", name).stdout.split())
    assert f"Answer: {shown['answer']}" in words


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


def test_errors_have_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, words in (
        (("show", "countes"), "Did you mean counties?"),
        (("show", "zzz"), "See discreet lab list"),
        (("show", "float-grid"), "discreet lab attack float-grid"),
        (("show", "erratum-1", "--save", "x.png"), "is no figure"),
        (("show", "noise-l1", "--save", tmp_path / "no" / "x.png"), "folder that exists"),
        (("all", "--out", tmp_path / "file" / "x"), "folder that can be made"),
        (("attack", "zzz"), "Take one of"),
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
