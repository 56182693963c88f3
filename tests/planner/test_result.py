"""The forms in which a plan is shown: text, HTML, JSON and a chart."""

import json
from typing import Any

import pytest

from discreet import Count, Histogram, Mean, Plan, plan


@pytest.fixture(scope="module")
def example() -> Plan:
    return plan(Histogram(5), epsilon=1, delta=1e-6, n=1000, queries=2)


def test_a_plan_is_text_and_html_and_json(example: Plan) -> None:
    for text in (str(example), example._repr_html_()):
        for word in ("2 times a histogram with 5 cells", "Use Laplace", "discrete Gaussian", "± each", "privacy noise"):
            assert word in text
    document = json.loads(json.dumps(example.to_dict()))
    assert document["winner"] == document["rows"][0]["mechanism"] == "Laplace"
    assert document["unknown"] == "error"
    assert [c["what"] for c in document["crossovers"]] == ["queries"]
    assert {row["mechanism"] for row in document["rows"]} == {
        "Laplace",
        "Gaussian",
        "discrete Gaussian",
        "randomised response",
    }


def test_errors_are_shown_rounded_up() -> None:
    found = plan(Mean(0, 100), epsilon=0.7, n=1000)
    line = next(line for line in str(found).splitlines() if line.startswith("Laplace"))
    assert float(line.split()[2]) >= found.half_width


def test_the_winner_releases() -> None:
    found = plan(Count(), error=5)
    assert isinstance(found.winner.noise.release(100), int)


@pytest.mark.parametrize(
    "parameters",
    [
        {"query": Mean(0, 100), "error": 2, "n": 1000, "delta": 1e-6},
        {"query": Histogram(5), "epsilon": 1, "n": 1000, "delta": 1e-6},
        {"query": Count(), "rmse": 3},
        {"query": Count(), "error": "5%", "epsilon": 1},
    ],
    ids=str,
)
def test_a_plan_is_drawn_with_labels(parameters: dict[str, Any]) -> None:
    figure = plan(**parameters).plot()
    above, below = figure.axes
    assert all(axes.get_xlabel() and axes.get_ylabel() and axes.get_title() for axes in (above, below))
    assert above.get_xlabel() == "ε"
    ((x, y),) = (line.get_xydata()[0] for line in above.get_lines() if line.get_marker() == "o")
    (curve,) = (line for line in above.get_lines() if line.get_label() == "Laplace")
    nearest = min(curve.get_xydata().tolist(), key=lambda point: abs(point[0] - x))
    assert nearest == pytest.approx([x, y], rel=1e-6)  # the plan lies on the winner's line
    assert figure.get_figwidth() * figure.dpi == 800
