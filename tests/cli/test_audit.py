"""`discreet audit`, run as a user runs it."""

import json
import subprocess
import sys
from contextlib import chdir
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pytest

from discreet.local.collection import Collection, Lifetime
from discreet.local.domains import Listed
from discreet.local.oracles import Direct
from tests.support import console

BOXES = """
from discreet.mechanisms import Laplace
print("a module that talks")
QUIET, LOUD = Laplace(10), Laplace(1)
def short(xs):
    print("a function that talks")
    return LOUD.release(len(xs))
def broken(xs):
    raise KeyError("typo")
def right(xs):
    return QUIET.release(len(xs))
"""


def run(place: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (place / "boxes.py").write_text(BOXES)
    program = [sys.executable, "-c", "from discreet.cli import main; main()"]
    return subprocess.run(
        [*program, "audit", *arguments], capture_output=True, text=True, cwd=place, timeout=120, check=False
    )


def run_here(place: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """As `run`, in this process."""
    (place / "boxes.py").write_text(BOXES)
    with chdir(place), patch.object(sys, "path", [*sys.path]):
        try:
            return console.run("audit", *arguments)
        finally:
            for name in ("boxes", "trained"):
                sys.modules.pop(name, None)


def test_a_false_claim_is_told_in_json_and_by_the_exit_code(tmp_path: Path) -> None:
    out = run(tmp_path, "boxes:short", "--epsilon", "0.1", "--seconds", "20", "--json")
    told = json.loads(out.stdout)
    assert out.returncode == 1
    assert told["violation"] is True
    assert 0.1 < told["certified_epsilon"] <= 1
    assert {"pair", "event", "resolution"} <= told.keys()


def test_given_pairs_a_grade_and_a_report(tmp_path: Path) -> None:
    (tmp_path / "pairs.json").write_text("[[[1], [1, 1]]]")
    out = run(
        tmp_path, "boxes:right", "--epsilon", "0.1", "--seconds", "4", "--confidence", "0.9999999", "--pairs", "pairs.json",
        "--grade", "--report", "page.png",
    )  # fmt: skip
    assert out.returncode == 0
    assert out.stdout.startswith("Passed")
    assert (tmp_path / "page.png").exists()


def test_a_function_that_always_raises_has_not_passed(tmp_path: Path) -> None:
    for more in ((), ("--grade",)):
        out = run_here(tmp_path, "boxes:broken", "--epsilon", "1", "--seconds", "1", *more)
        assert out.returncode == 2
        assert out.stdout.startswith("Every call failed (raises KeyError")
        assert "Passed" not in out.stdout


def write_collection(place: Path) -> str:
    mechanism = Direct(3, Fraction(3))
    colours = Collection("colours", 1, mechanism, Listed(("red", "green")), Lifetime.of(mechanism, 4))
    (place / "colours.json").write_bytes(colours.to_json())
    return "colours.json"


def test_the_client_of_a_collection_is_audited(tmp_path: Path) -> None:
    """A false alarm has probability 1e-9: the noise is fresh."""
    (tmp_path / "pairs.json").write_text('[["red", "green"]]')
    out = run(
        tmp_path, "--collection", write_collection(tmp_path), "--seconds", "4", "--confidence", "0.999999999", "--pairs",
        "pairs.json", "--json",
    )  # fmt: skip
    told = json.loads(out.stdout)
    assert out.returncode == 0
    assert told["violation"] is False
    names = [game.split(":")[0] for game in told["games"]]
    assert names[:7] == ["messages", "retries", "budget", "nonces", "one report", "retries", "averaging"]
    assert all(name.startswith("report ") for name in names[7:])
    assert len(names) == 10


def test_a_command_that_reveals_its_values_is_refuted(tmp_path: Path) -> None:
    (tmp_path / "truth.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    place = ['red', 'green', 'other'].index(json.loads(line)['value'])\n"
        "    print(json.dumps({'report': [place]}), flush=True)\n"
    )
    command = f"{sys.executable} truth.py"
    out = run(
        tmp_path, "--collection", write_collection(tmp_path), "--command", command, "--seconds", "6", "--confidence",
        "0.99", "--grade",
    )  # fmt: skip
    assert out.returncode == 1
    assert "Not private enough" in out.stdout


def test_mistakes_about_collections_are_told(tmp_path: Path) -> None:
    path = write_collection(tmp_path)
    for wrong, words in (
        ((), "FUNCTION is missing"),
        (("boxes:right", "--collection", path), "given with the function boxes:right"),
        (("boxes:right", "--epsilon", "1", "--command", "node x.js"), "given with --command"),
        (("--collection", path, "--epsilon", "1"), "--epsilon is 1: not for collections"),
        (("--collection", "nowhere.json"), "--collection is 'nowhere.json'"),
        (("--collection", "boxes.py"), "--collection is no collection"),
        (("--collection", path, "--command", "/nowhere/at/all", "--seconds", "2"), "--command is"),
    ):
        out = run_here(tmp_path, *wrong)
        assert out.returncode == 2, out
        assert words in out.stderr.replace("\n", " "), out.stderr
        assert "Traceback" not in out.stderr


def test_mistakes_are_told(tmp_path: Path) -> None:
    for wrong in (
        ("boxes:nothing", "--epsilon", "1"),
        ("boxes", "--epsilon", "1"),
        ("boxes:right",),
        ("boxes:right", "--domain", "x"),
        ("boxes:short", "--epsilon", "1", "--seconds", "60", "--report", "page.html"),
        ("boxes:short", "--epsilon", "1", "--seconds", "60", "--report", "nowhere/page.png"),
    ):
        out = run_here(tmp_path, *wrong)
        assert out.returncode == 2
        assert out.stdout == "", "refused before the audit"
        assert "Traceback" not in out.stderr


def test_a_report_that_cannot_be_written_does_not_change_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "page.png").mkdir()
    out = run_here(tmp_path, "boxes:short", "--epsilon", "0.1", "--seconds", "20", "--report", "page.png")
    assert out.returncode == 1
    assert "page.png" in out.stderr


TRAINING = """
import numpy as np
from discreet.auditor import TrainingClaim
from discreet.learn import LinearRegression

def release(rows, seed):
    return rows.sum(0)[None]  # neither clipping nor noise

leaky = release, TrainingClaim(rate=1, noise=1, steps=1)

def bare():
    return fitted()[0]

def fitted():
    model = LinearRegression(epsilon=1, delta=1e-6, bounds={"x": (0, 1)}, target_bounds=(0, 1), expected=10, steps=2)
    return model, ({"x": np.linspace(0, 1, 10)}, np.linspace(0, 1, 10))
"""


def test_training_is_audited(tmp_path: Path) -> None:
    (tmp_path / "trained.py").write_text(TRAINING)
    out = run_here(tmp_path, "--training", "trained:leaky", "--json")
    told = json.loads(out.stdout)
    assert (out.returncode, told["violation"], told["checks"]["canary"]["violation"]) == (1, True, True)
    out = run_here(tmp_path, "--training", "trained:fitted")
    assert out.returncode == 0
    assert out.stdout.splitlines()[0].startswith("sensitivity: Passed")
    for more in (("trained:release",), ("trained:missing",), ("trained:leaky", "--epsilon", "1"), ("math:pi",)):
        out = run_here(tmp_path, "--training", *more)
        assert out.returncode == 2, out
        assert "--training" in out.stderr or "--epsilon" in out.stderr
    out = run_here(tmp_path, "--training", "trained:bare")
    assert "Name a pair: (model, (features, targets))" in out.stderr
    assert "See: discreet help auditing#training" in out.stderr


@pytest.mark.parametrize("flag", [("--seconds", "5"), ("--delta", "0"), ("--restart",), ("--domain", "0:1")])
def test_a_flag_without_effect_is_refused(tmp_path: Path, flag: tuple[str, ...]) -> None:
    (tmp_path / "trained.py").write_text(TRAINING)
    out = run_here(tmp_path, "--training", "trained:leaky", *flag)
    assert out.returncode == 2
    assert f"{flag[0]} is" in out.stderr
    assert f"Leave {flag[0]} out." in out.stderr
