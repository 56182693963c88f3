"""`discreet plan`, run as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import run


def planned(*arguments: str) -> dict[str, Any]:
    out = run("plan", *arguments, "--json")
    assert out.returncode == 0, out.stderr
    assert out.stderr == ""
    found: dict[str, Any] = json.loads(out.stdout)
    return found


def test_any_two_give_the_third() -> None:
    price = planned("mean", "--bounds", "0:100", "--error", "2", "--n", "1000")
    assert (price["unknown"], price["winner"], price["rows"][0]["epsilon"]) == ("epsilon", "Laplace", 0.1498)
    people = planned("mean", "--bounds", "0:100", "--error", "2", "--epsilon", "0.1498")
    assert (people["unknown"], people["rows"][0]["n"]) == ("n", 1000)
    error = planned("mean", "--bounds", "0:100", "--n", "1000", "--epsilon", "0.1498")
    assert error["unknown"] == "error"
    assert 1.99 < error["rows"][0]["half_width"] <= 2


def test_every_kind_of_query_is_planned() -> None:
    for arguments in (
        ("count", "--error", "5%", "--size", "200"),
        ("proportion", "--rmse", "0.01", "--epsilon", "0.5"),
        ("sum", "--bounds", "-5:5", "--whole", "--epsilon", "1", "--neighbours", "replace"),
        ("histogram", "--cells", "50", "--epsilon", "0.1", "--each"),
    ):
        assert planned(*arguments)["rows"]


def test_a_person_reads_the_winner_the_crossing_and_the_warnings() -> None:
    out = run("plan", "count", "--queries", "200", "--epsilon", "12", "--delta", "1e-3", "--n", "1000")
    assert out.returncode == 0
    words = " ".join(out.stdout.split())
    for said in ("Use Gaussian", "textbook", "randomised response", "beats Laplace noise from", "is above 10", "in clear"):
        assert said in words


def test_the_plan_is_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "plan.png"
    out = run("plan", "proportion", "--error", "1%", "--epsilon", "0.5", "--delta", "1e-8", "--plot", str(picture))
    assert out.returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_help_has_examples() -> None:
    shown = run("plan", "--help").stdout
    for word in ("Examples:", "--bounds 0:100", "--each", "Query"):
        assert word in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("median", "--epsilon", "1"), "Take count, proportion, sum, mean, histogram"),
        (("mean", "--epsilon", "1", "--n", "9"), "--bounds 0:100"),
        (("count", "--epsilon", "1", "--bounds", "0:1"), "Leave it out"),
        (("count", "--epsilon", "1", "--whole"), "Leave it out"),
        (("histogram", "--epsilon", "1"), "--cells 50"),
        (("mean", "--epsilon", "1", "--n", "9", "--bounds", "5"), "Write --bounds 0:100"),
        (("mean", "--epsilon", "1", "--n", "9", "--bounds", "5:5"), "below the upper bound, 5"),
        (("count",), "two of accuracy"),
        (("count", "--epsilon", "nope"), "not a number"),
        (("count", "--error", "2", "--epsilon", "1"), "costs ε = 1.137"),
        (("count", "--error", "1", "--queries", "2000"), "At ε = 10 Laplace reaches"),
        (("count", "--epsilon", "1", "--neighbours", "friends"), "add-remove or replace"),
        (("count", "--epsilon", "1", "--plot", "plan.doc"), ".png"),
        (("count", "--epsilon", "1", "--plot", "no/such/folder/plan.png"), "folder that exists"),
    ],
)
def test_a_mistake_is_one_line_with_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    out = run("plan", *arguments)
    assert out.returncode == 2
    assert said in out.stderr
    assert "Traceback" not in out.stderr
    assert out.stdout == ""


def test_training_is_planned_from_two_of_noise_epsilon_and_steps() -> None:
    run_of = ("training", "--batch", "100", "--n", "10000", "--delta", "1e-5")
    noise = planned(*run_of, "--epochs", "5", "--epsilon", "1")
    assert (noise["unknown"], noise["rate"], noise["steps"]) == ("sigma", "1/100", 500)
    cost = planned(*run_of, "--epochs", "5", "--sigma", str(noise["sigma"]))
    assert cost["epsilon"] == noise["epsilon"]
    steps = planned(*run_of, "--sigma", str(noise["sigma"]), "--epsilon", "1")
    assert steps["steps"] >= 500


@pytest.mark.parametrize(
    ("flag", "arguments"),
    [
        ("--n", ("training", "--batch", "100", "--epochs", "5", "--epsilon", "1", "--delta", "1e-5")),
        ("--delta", ("training", "--rate", "1/10", "--epochs", "5", "--epsilon", "1")),
        ("--error", ("training", "--rate", "1/10", "--epochs", "5", "--error", "1", "--delta", "1e-5")),
        ("--plot", ("training", "--rate", "1/10", "--epochs", "5", "--plot", "x.png", "--delta", "1e-5")),
        ("--steps", ("training", "--rate", "1/10", "--epochs", "5", "--steps", "9", "--delta", "1e-5")),
        ("--sigma", ("count", "--sigma", "1", "--epsilon", "1")),
    ],
)
def test_training_names_the_flag_that_is_wrong(flag: str, arguments: tuple[str, ...]) -> None:
    out = run("plan", *arguments)
    assert out.returncode == 2
    assert out.stderr.startswith(f"discreet: {flag} is ")
