"""`discreet account` and `discreet calibrate`, run as a user runs them."""

import json
from pathlib import Path

import pytest

from tests.end_to_end.test_cli import run

LEDGER = "1000*laplace(scale=31.6) + 100*gaussian(sigma=50) + subsampled(gaussian(sigma=1), rate=0.01)*10000"


def test_account_prints_an_interval_and_all_readings() -> None:
    out = run("account", LEDGER, "--delta", "1e-6", "--readings")
    assert out.returncode == 0
    for word in ("certified", "pure ε", "basic", "zCDP", "tCDP", "RDP", "GDP", "inf", "continuous law"):
        assert word in out.stdout


def test_account_json_is_json_only_and_every_reading_is_above_the_lower_end() -> None:
    out = run("account", LEDGER, "--delta", "1e-6", "--readings", "--json")
    shown = json.loads(out.stdout)
    low, high = shown["epsilon"]["lower"], shown["epsilon"]["upper"]
    assert 0 < high - low <= 1e-6 * high
    assert shown["delta"] == 1e-6
    assert shown["readings"]["pure ε"] == "inf"
    assert all(value == "inf" or value >= low for value in shown["readings"].values())


@pytest.mark.parametrize(
    ("ledger", "delta", "truth"),
    [
        ("500*response(epsilon=1)", "1e-5", 311.767604639710743),
        ("response(epsilon=0.05)*1000", "1e-6", 8.283573346016258),
        ("10000*gaussian(sigma=1000)", "1e-6", 0.3968573776440836),
        ("gaussian(sigma=100, sensitivity=0.5)*100", "1e-5", 0.16004203445813212),
    ],
)
def test_account_reproduces_reference_values(ledger: str, delta: str, truth: float) -> None:
    shown = json.loads(run("account", ledger, "--delta", delta, "--json").stdout)["epsilon"]
    assert shown["lower"] <= truth <= shown["upper"]


def test_account_draws_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "curve.png"
    out = run("account", "100*gaussian(sigma=50)", "--delta", "1e-6", "--plot", str(picture))
    assert out.returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["gaussian", "laplace", "discrete_laplace", "discrete_gaussian"])
def test_calibrate_meets_its_target(name: str) -> None:
    out = json.loads(run("calibrate", name, "--epsilon", "1", "--delta", "1e-6", "--times", "1000", "--json").stdout)
    field = "sigma" if "gaussian" in name else "scale"
    assert out["epsilon"]["upper"] <= 1 < out["epsilon"]["upper"] + 1e-5
    check = json.loads(run("account", f"1000*{name}({field}={out[field]!r})", "--delta", "1e-6", "--json").stdout)
    assert check["epsilon"]["upper"] <= 1 + 1e-9
    if name == "gaussian":
        assert out["sigma"] == pytest.approx(133.596076731, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("account", "5*gausian(sigma=1)", "--delta", "1e-6"), "column 3"),
        (("account", "__import__('os')", "--delta", "1e-6"), "column"),
        (("account", "gaussian(sigma=1)", "--delta", "nope"), "not a number"),
        (("account", "gaussian(sigma=0)", "--delta", "1e-6"), "column"),
        (("account", "subsampled(gaussian(sigma=1), rate=2)", "--delta", "1e-6"), "rate"),
        (("calibrate", "poisson", "--epsilon", "1", "--delta", "1e-6"), "Take one of"),
        (("calibrate", "gaussian", "--epsilon", "0", "--delta", "1e-6"), "epsilon"),
        (("calibrate", "gaussian", "--epsilon", "1", "--delta", "0"), "delta"),
        (("calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--sensitivity", "0"), "sensitivity"),
        (("calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--sensitivity", "-1"), "sensitivity"),
        (("calibrate", "gaussian", "--epsilon", "1e400", "--delta", "1e-6"), "beyond"),
        (("calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-999999999"), "beyond"),
        (("account", "gaussian(sigma=1)", "--delta", "1e-999999999"), "beyond"),
        (("account", "gaussian(sigma=1)"), "--epsilon"),
        (("account", "gaussian(sigma=1)", "--delta", "1e-6", "--epsilon", "1"), "one of the two"),
        (("account", "gaussian(sigma=1)", "--epsilon", "-1"), "epsilon"),
        (("account", "gaussian(sigma=1)", "--epsilon", "1", "--readings"), "--delta"),
        (("account", "group(gaussian(sigma=1), size=0)", "--epsilon", "1"), "column"),
    ],
)
def test_mistakes_are_told_in_one_line_with_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    out = run(*arguments)
    assert out.returncode == 2
    assert said in out.stderr
    assert "Traceback" not in out.stderr
    assert out.stdout == ""


REPRODUCED = {
    "group(subsampled(discrete_laplace(scale=1/5), rate=0.47) + discrete_laplace(scale=4/5), size=2)": (1.18, 0.75844),
    "subsampled(binomial(n=10000, sensitivity=1950), rate=1/2) + gaussian(sigma=1/3)": (3, 0.73961),
    "threshold(scale=100, threshold=2)": (0.01, 0.4975),
    "parallel(exponential(epsilon=1), claim(epsilon=0, delta=0.3))": (0.5, 0.3),
    "sampled(discrete_laplace(scale=1), rate=1/2)": (0, 0.2311),
}


@pytest.mark.parametrize("expression", REPRODUCED)
def test_account_prints_delta_at_an_epsilon(expression: str) -> None:
    at, truth = REPRODUCED[expression]
    out = run("account", expression, "--epsilon", str(at), "--json")
    assert out.returncode == 0, out.stderr
    shown = json.loads(out.stdout)
    assert list(shown) == ["delta", "epsilon"]
    assert shown["epsilon"] == at
    assert shown["delta"]["lower"] - 1e-4 <= truth <= shown["delta"]["upper"] + 1e-4
    plain = run("account", expression, "--epsilon", str(at)).stdout
    assert "δ at ε" in plain


def test_an_infinite_price_is_said_as_such() -> None:
    assert json.loads(run("account", "gaussian(sigma=1)", "--delta", "0", "--json").stdout)["epsilon"] == {
        "lower": "inf",
        "upper": "inf",
    }
