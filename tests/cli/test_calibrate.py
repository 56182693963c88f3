"""`discreet calibrate`, run as a user runs it."""

import json

import pytest

from tests.support.console import run


@pytest.mark.parametrize("name", ["gaussian", "laplace", "discrete_laplace", "discrete_gaussian"])
def test_calibrate_meets_its_target(name: str) -> None:
    out = json.loads(run("calibrate", name, "--epsilon", "1", "--delta", "1e-6", "--times", "1000", "--json").stdout)
    field = "sigma" if "gaussian" in name else "scale"
    assert out["epsilon"]["upper"] <= 1 < out["epsilon"]["upper"] + 1e-5
    check = json.loads(run("epsilon", f"1000*{name}({field}={out[field]!r})", "--delta", "1e-6", "--json").stdout)
    assert check["epsilon"]["upper"] <= 1 + 1e-9
    if name == "gaussian":
        assert out["sigma"] == pytest.approx(133.596076731, rel=1e-6)


@pytest.mark.parametrize("times", [1, 3, 7, 49])
@pytest.mark.parametrize("name", ["laplace", "discrete_laplace"])
def test_without_a_delta_the_target_is_met_exactly(name: str, times: int) -> None:
    out = json.loads(run("calibrate", name, "--epsilon", "1", "--times", str(times), "--json").stdout)
    assert (out["scale"], out["epsilon"]) == (times, {"lower": 1.0, "upper": 1.0})
    check = json.loads(run("epsilon", f"{times}*{name}(scale={times})", "--delta", "0", "--json").stdout)
    assert check["epsilon"]["lower"] <= 1 == check["epsilon"]["upper"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("poisson", "--epsilon", "1", "--delta", "1e-6"), "Take one of"),
        (("gaussian", "--epsilon", "0", "--delta", "1e-6"), "epsilon"),
        (("gaussian", "--epsilon", "1", "--delta", "0"), "delta"),
        (("gaussian", "--epsilon", "1", "--delta", "1e-6", "--sensitivity", "0"), "sensitivity"),
        (("gaussian", "--epsilon", "1", "--delta", "1e-6", "--sensitivity", "-1"), "sensitivity"),
        (("gaussian", "--epsilon", "1e400", "--delta", "1e-6"), "beyond"),
        (("gaussian", "--epsilon", "1", "--delta", "1e-999999999"), "beyond"),
    ],
)
def test_a_mistake_is_one_line_with_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    out = run("calibrate", *arguments)
    assert out.returncode == 2
    assert said in out.stderr
    assert "Traceback" not in out.stderr
    assert out.stdout == ""
