"""Warnings with their reasons, refusals that say what would be possible, and the forms that a plan is shown in."""

import json
from typing import Any

import pytest

from discreet import BadParameter, Count, Histogram, Mean, Neighbours, Plan, Proportion, Sum, plan
from discreet.planner import PlannerQuery


def warned(question: PlannerQuery, **asked: Any) -> str:
    return " ".join(plan(question, **asked).warnings)


def test_an_epsilon_below_one_over_n_is_warned_of() -> None:
    assert "below 1/n" in warned(Proportion(), epsilon=0.0009, n=1000)
    assert "below 1/n" not in warned(Proportion(), epsilon=0.0011, n=1000)


def test_a_delta_of_one_over_n_is_warned_of_whatever_wins() -> None:
    found = plan(Proportion(), epsilon=1, delta=0.001, n=1000)
    assert found.winner.mechanism == "Laplace"
    assert "in clear" in " ".join(found.warnings)
    assert not plan(Proportion(), epsilon=1, delta=1e-6, n=1000).warnings


def test_an_epsilon_above_ten_is_warned_of() -> None:
    assert "22,248 times as likely" in warned(Count(), epsilon=10.01)
    assert "4.9e+08" not in warned(Count(), epsilon=10)
    assert "next to nothing" in warned(Count(), epsilon=20)


def test_noise_as_large_as_the_answer_is_warned_of() -> None:
    assert "says nothing" in warned(Proportion(), epsilon=0.01, n=100)


@pytest.mark.parametrize(
    ("question", "asked", "said"),
    [
        (Count(), {}, "two of accuracy, ε and n"),
        (Count(), {"n": 5}, "two of accuracy, ε and n"),
        (Proportion(), {"error": 0.1, "epsilon": 1, "n": 5}, "Leave one of the three out"),
        (Proportion(), {"error": 0.1}, "depends on it"),
        (Mean(0, 1), {"epsilon": 1}, "Give n"),
        (Count(), {"error": "5%"}, "Give n"),
        (Count(), {"error": 2, "epsilon": 1}, "± 3 at this ε, and this error costs ε = 1.137"),
        (Sum(0, 10), {"error": "5%", "epsilon": 1, "size": 100}, "the same for any n"),
        (Count(), {"error": 2, "size": 100}, "not relative"),
        (Count(), {"error": 2, "rmse": 2}, "one of the two"),
        (Count(), {"error": 0}, "positive"),
        (Count(), {"error": "lots"}, "not an error"),
        (Count(), {"epsilon": 0}, "positive"),
        (Count(), {"epsilon": 1, "n": 0}, "at least 1"),
        (Count(), {"epsilon": 1, "queries": 0}, "at least 1"),
        (Count(), {"epsilon": 1, "delta": 1}, "below 1"),
        (Count(), {"epsilon": 1, "delta": -0.1}, "at least 0"),
        (Count(), {"epsilon": 1, "confidence": 1}, "confidence"),
        (Mean(0, 1), {"epsilon": 1, "n": 5, "neighbours": Neighbours.ADD_REMOVE}, "a sum and a count"),
        (Count(), {"error": 1, "queries": 2000}, "At ε = 10 Laplace reaches 2114"),
        (Proportion(), {"error": 1e-6, "n": 10, "queries": 2000}, "people would do at ε = 10"),
        (Proportion(), {"error": 1e-15, "epsilon": 1e-3}, "no n up to 10^15"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_a_way_out(question: PlannerQuery, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=r"\. \S") as refused:
        plan(question, **asked)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Sum(3, 3), "below upper"),
        (lambda: Mean(0, 0.5, whole=True), "whole bounds"),
        (lambda: Histogram(1), "at least 2"),
    ],
)
def test_questions_that_make_no_sense_are_refused(make: Any, said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        make()


def test_a_mechanism_that_cannot_do_it_is_left_out_with_the_reason() -> None:
    found = plan(Mean(0, 100), error=2, n=1000)
    assert dict(found.infeasible) == {
        "Gaussian noise": "it needs a δ above 0",
        "randomised response": "even at ε = 1024 it is off by 3.201",
    }
    assert dict(plan(Count(), epsilon=1).infeasible)["randomised response"].endswith("which is not given")


def test_relative_errors_are_of_the_size_or_of_the_whole_answer() -> None:
    assert plan(Count(), error="5%", n=1000).epsilon == plan(Count(), error=50, n=1000).epsilon
    assert plan(Count(), error="5%", size=40).epsilon == plan(Count(), error=2).epsilon
    assert plan(Histogram(10), error="5%", n=1000).epsilon == plan(Histogram(10), error=5).epsilon
    assert plan(Proportion(), error="5%", n=1000).epsilon == plan(Proportion(), error="0.05", n=1000).epsilon
    assert plan(Mean(10, 60), error="5%", n=1000).epsilon == plan(Mean(10, 60), error="2.5", n=1000).epsilon
    assert plan(Sum(-20, 10), error="5%", n=10).epsilon == plan(Sum(-20, 10), error=10).epsilon


def test_replacing_somebody_moves_two_cells_and_the_width_of_a_sum() -> None:
    for question, factor in ((Histogram(5), 2.0), (Sum(-5, 10, whole=True), 1.5), (Count(), 1.0)):
        one, two = (plan(question, epsilon=1, neighbours=who).winner.scale for who in Neighbours)
        assert two == factor * one


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (Proportion(), {"epsilon": 4, "n": 1000}),
        (Mean(0, 1, whole=True), {"epsilon": 4, "n": 100}),
        (Sum(0, 5, whole=True), {"error": 0.5, "delta": 1e-6}),
    ],
    ids=str,
)
def test_an_error_of_nothing_is_a_plan_like_any_other(question: PlannerQuery, asked: dict[str, Any]) -> None:
    found = plan(question, **asked)
    assert found.half_width == 0
    assert "± 0" in str(found) or "18.32" in str(found)
    assert not [crossing for crossing in found.crossovers if crossing.quantity == "n"]
    assert "Laplace" in found._repr_html_()


@pytest.fixture(scope="module")
def shown() -> Plan:
    return plan(Histogram(5), epsilon=1, delta=1e-6, n=1000, queries=2)


def test_a_plan_is_text_and_html_and_json(shown: Plan) -> None:
    for text in (str(shown), shown._repr_html_()):
        for word in ("2 times a histogram with 5 cells", "Take Laplace", "discrete Gaussian", "± each", "privacy noise"):
            assert word in text
    known = json.loads(json.dumps(shown.to_dict()))
    assert known["winner"] == known["rows"][0]["mechanism"] == "Laplace"
    assert known["unknown"] == "error"
    assert [c["what"] for c in known["crossovers"]] == ["queries"]
    assert {row["mechanism"] for row in known["rows"]} == {"Laplace", "Gaussian", "discrete Gaussian", "randomised response"}


def test_what_is_shown_is_rounded_against_us() -> None:
    found = plan(Mean(0, 100), epsilon=0.7, n=1000)
    line = next(line for line in str(found).splitlines() if line.startswith("Laplace"))
    assert float(line.split()[2]) >= found.half_width


def test_the_winner_releases() -> None:
    found = plan(Count(), error=5)
    assert isinstance(found.winner.noise.release(100), int)


@pytest.mark.parametrize(
    "asked",
    [
        {"query": Mean(0, 100), "error": 2, "n": 1000, "delta": 1e-6},
        {"query": Histogram(5), "epsilon": 1, "n": 1000, "delta": 1e-6},
        {"query": Count(), "rmse": 3},
        {"query": Count(), "error": "5%", "epsilon": 1},
    ],
    ids=str,
)
def test_a_plan_is_drawn_with_labels(asked: dict[str, Any]) -> None:
    figure = plan(**asked).plot()
    above, below = figure.axes
    assert all(axes.get_xlabel() and axes.get_ylabel() and axes.get_title() for axes in (above, below))
    assert above.get_xlabel() == "ε"
    ((x, y),) = (line.get_xydata()[0] for line in above.get_lines() if line.get_marker() == "o")
    (curve,) = (line for line in above.get_lines() if line.get_label() == "Laplace")
    nearest = min(curve.get_xydata().tolist(), key=lambda point: abs(point[0] - x))
    assert nearest == pytest.approx([x, y], rel=1e-6)  # the plan stands on the winner's line
    assert figure.get_figwidth() * figure.dpi == 800
