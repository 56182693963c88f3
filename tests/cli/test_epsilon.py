"""`discreet epsilon`, run as a user runs it."""

import json
from fractions import Fraction
from itertools import pairwise
from math import inf
from pathlib import Path

import pytest

from discreet._numbers import Bounds
from discreet.cli.epsilon import explain_width
from discreet.cli.help import show_topic
from tests.support.console import run

COMPOSITION = "1000*laplace(scale=31.6) + 100*gaussian(sigma=50) + subsampled(gaussian(sigma=1), rate=0.01)*10000"


def test_it_prints_an_interval_and_the_epsilon_of_every_notion() -> None:
    out = run("epsilon", COMPOSITION, "--delta", "1e-6", "--readings")
    assert out.returncode == 0
    for word in ("certified", "pure ε", "basic", "zCDP", "tCDP", "RDP", "GDP", "∞", "continuous distribution"):
        assert word in out.stdout


def test_gaussian_noise_without_a_delta_is_said_to_need_one() -> None:
    out = run("epsilon", "gaussian(sigma=5)", "--delta", "0")
    assert "∞" in out.stdout
    assert "inf" not in out.stdout
    assert "--delta 1e-6" in out.stdout
    assert "--delta 1e-6" not in run("epsilon", "laplace(scale=1)", "--delta", "0").stdout


def test_json_is_json_only_and_every_notion_is_above_the_lower_end() -> None:
    out = run("epsilon", COMPOSITION, "--delta", "1e-6", "--readings", "--json")
    shown = json.loads(out.stdout)
    low, high = shown["epsilon"]["lower"], shown["epsilon"]["upper"]
    assert 0 < high - low <= 1e-6 * high
    assert shown["delta"] == 1e-6
    assert shown["readings"]["pure ε"] == "inf"
    assert all(value == "inf" or value >= low for value in shown["readings"].values())


@pytest.mark.parametrize(
    ("expression", "delta", "truth"),
    [
        ("500*response(epsilon=1)", "1e-5", 311.767604639710743),
        ("response(epsilon=0.05)*1000", "1e-6", 8.283573346016258),
        ("10000*gaussian(sigma=1000)", "1e-6", 0.3968573776440836),
        ("gaussian(sigma=100, sensitivity=0.5)*100", "1e-5", 0.16004203445813212),
    ],
)
def test_it_reproduces_reference_values(expression: str, delta: str, truth: float) -> None:
    shown = json.loads(run("epsilon", expression, "--delta", delta, "--json").stdout)["epsilon"]
    assert shown["lower"] <= truth <= shown["upper"]


def test_it_draws_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "curve.png"
    out = run("epsilon", "100*gaussian(sigma=50)", "--delta", "1e-6", "--plot", str(picture))
    assert out.returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_no_curve_of_the_picture_hides_another_or_lies_below_the_certified_one(tmp_path: Path) -> None:
    """Every curve has a pattern of its own, and its chords lie above the certified curve."""
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    from discreet.accounting.curve import delta
    from discreet.accounting.expression import parse
    from discreet.cli import epsilon as command

    event, drawn = parse("100*gaussian(sigma=50)"), list[Axes]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyplot, "close", lambda figure: drawn.extend(figure.axes))
        command._draw_curve(event, Fraction(1, 10**6), str(tmp_path / "curve.svg"))
    _, _, *guarantees = drawn[0].lines
    pyplot.close("all")
    assert len(guarantees) > 1
    patterns = [repr(line._unscaled_dash_pattern) for line in guarantees]  # type: ignore[attr-defined]
    assert len(set(patterns)) == len(patterns)
    for line in guarantees:
        ends = list(zip(line.get_xdata(), line.get_ydata(), strict=True))  # type: ignore[arg-type]
        for (x, high), (y, low) in pairwise(ends):
            middle = float(delta(event, Fraction((x + y) / 2)))
            assert (high * low) ** 0.5 >= 0.93 * middle, "drawn on a logarithmic scale"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("epsilon", "5*gausian(sigma=1)", "--delta", "1e-6"), "column 3"),
        (("epsilon", "__import__('os')", "--delta", "1e-6"), "column"),
        (("epsilon", "gaussian(sigma=1)", "--delta", "nope"), "not a number"),
        (("epsilon", "gaussian(sigma=0)", "--delta", "1e-6"), "column"),
        (("epsilon", "subsampled(gaussian(sigma=1), rate=2)", "--delta", "1e-6"), "rate"),
        (("epsilon", "gaussian(sigma=1)", "--delta", "1e-999999999"), "beyond"),
        (("epsilon", "gaussian(sigma=1)"), "--epsilon"),
        (("epsilon", "gaussian(sigma=1)", "--delta", "1e-6", "--epsilon", "1"), "one of the two"),
        (("epsilon", "gaussian(sigma=1)", "--epsilon", "-1"), "epsilon"),
        (("epsilon", "gaussian(sigma=1)", "--epsilon", "1", "--readings"), "--delta"),
        (("epsilon", "gaussian(sigma=1)", "--delta", "1e-6", "--plot", "x.txt"), "--plot is 'x.txt': not a format"),
        (("epsilon", "gaussian(sigma=1)", "--delta", "1e-6", "--plot", "no/x.png"), "--plot is 'no/x.png': its folder"),
        (("epsilon", "group(gaussian(sigma=1), size=0)", "--epsilon", "1"), "column"),
    ],
)
def test_a_mistake_is_one_line_with_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
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
def test_it_prints_delta_at_an_epsilon(expression: str) -> None:
    at, truth = REPRODUCED[expression]
    out = run("epsilon", expression, "--epsilon", str(at), "--json")
    assert out.returncode == 0, out.stderr
    shown = json.loads(out.stdout)
    assert list(shown) == ["delta", "epsilon"]
    assert shown["epsilon"] == at
    assert shown["delta"]["lower"] - 1e-4 <= truth <= shown["delta"]["upper"] + 1e-4
    plain = run("epsilon", expression, "--epsilon", str(at)).stdout
    assert "δ at ε" in plain


def test_an_infinite_epsilon_is_inf() -> None:
    assert json.loads(run("epsilon", "gaussian(sigma=1)", "--delta", "0", "--json").stdout)["epsilon"] == {
        "lower": "inf",
        "upper": "inf",
    }


@pytest.mark.parametrize(
    "arguments", [("--delta", "1e-6", "--readings"), ("--epsilon", "1"), ("--delta", "1e-6", "--epsilon", "1")]
)
def test_the_former_name_works_the_same(arguments: tuple[str, ...]) -> None:
    now, before = (run(name, "9*gaussian(sigma=5)", *arguments, "--json") for name in ("epsilon", "account"))
    assert (before.returncode, before.stdout, before.stderr) == (now.returncode, now.stdout, now.stderr)
    assert not any(line.startswith("│ account ") for line in run("--help").stdout.splitlines())


WIDE = {
    "group(sampled(laplace(scale=1), rate=0.1), size=3)*5": "The guarantee to publish is the upper end; no ε below",
    "laplace(scale=1e300)": "No finite ε is proven.",
    "laplace(scale=1e-300)": "No finite ε is proven.",
}


@pytest.mark.parametrize("expression", WIDE)
def test_a_wide_interval_is_explained_with_the_section_about_it(expression: str) -> None:
    command = ("epsilon", expression, "--delta", "1e-6")
    shown, plain = json.loads(run(*command, "--json").stdout), " ".join(run(*command).stdout.split())
    assert list(shown) == ["epsilon", "delta", "readings"]  # both ends are there, and programs compare them
    assert WIDE[expression] in plain
    assert "inf" not in plain
    assert ("∞" in plain) == (shown["epsilon"]["upper"] == "inf")
    topic = plain.partition("discreet help ")[2].partition(" ")[0]
    assert "two ends" in show_topic(topic)


def test_which_intervals_are_wide() -> None:
    """Of any two ends: a note where they are more than 2% apart, and none where they meet, also at 0 and at ∞."""
    for lower, upper, is_wide in (
        (0.0, 0.0, False), (inf, inf, False), (1.0, 1.0, False), (1.0, 1.02, False), (1.0, 1.021, True), (0.0, 5e-324, True),
        (0.0, inf, True), (3.0, inf, True), (1e308, 1.5e308, True),
    ):  # fmt: skip
        assert bool(explain_width(Bounds(lower, upper), "ε")) == is_wide
    assert "upper end" not in run("epsilon", "gaussian(sigma=1)", "--delta", "1e-6").stdout
    assert "no δ below" in run("epsilon", "group(subsampled(gaussian(sigma=1), rate=0.1), size=3)", "--epsilon", "1").stdout
