"""Plans for DP-SGD: every number that is shown is certified, and one step or one digit more would not be."""

from fractions import Fraction
from typing import Any

import pytest

import discreet
from discreet import Training, plan
from discreet.errors import BadParameter
from discreet.planner import training as planning
from discreet.planner.training import TrainingPlan, solve_sigma, solve_steps

RUN: dict[str, Any] = {"batch": 100, "n": 10_000}


def meets_the_target(found: TrainingPlan, epsilon: float) -> bool:
    """The shown run is certified within the target, computed afresh from the numbers that are shown."""
    event = discreet.dpsgd(sigma=found.exact_sigma, rate=found.rate, steps=found.steps)
    return event == found.event and discreet.epsilon(event, 1e-5).upper == found.epsilon <= epsilon


def test_a_planned_sigma_is_certified_and_least():
    found = plan(Training(**RUN, epochs=5), epsilon=1, delta=1e-5)
    assert found.unknown == "sigma"
    assert meets_the_target(found, 1)
    assert found.exact_sigma == Fraction(str(found.sigma))  # what a person copies is what was certified
    less = discreet.dpsgd(sigma=found.exact_sigma - Fraction(1, 10**4), rate=found.rate, steps=found.steps)
    assert discreet.epsilon(less, 1e-5).lower > 1


def test_a_planned_number_of_steps_is_certified_and_largest():
    found = plan(Training(sigma=2, **RUN), epsilon=1, delta=1e-5)
    assert found.unknown == "steps"
    assert meets_the_target(found, 1)
    assert discreet.epsilon(discreet.dpsgd(sigma=2, **RUN, steps=found.steps + 1), 1e-5).upper > 1
    assert found.epochs == found.steps * Fraction(1, 100)


def test_a_planned_epsilon_is_that_of_the_event():
    found = plan(Training(sigma=2, **RUN, epochs=5), delta=1e-5)
    assert found.unknown == "epsilon"
    assert found.bounds == discreet.epsilon(discreet.dpsgd(sigma=2, **RUN, epochs=5), 1e-5)


def test_rounding_to_the_other_side_would_be_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(planning, "ceil_digits", lambda exact, digits: Fraction(round(float(exact), 2)) - Fraction(1, 50))
    assert not meets_the_target(plan(Training(**RUN, epochs=5), epsilon=1, delta=1e-5), 1)


def test_the_guess_does_not_decide(monkeypatch: pytest.MonkeyPatch):
    run, half = Training(sigma=2, **RUN), Fraction(1, 2)
    found = solve_steps(run, half, Fraction(1, 10**5))
    monkeypatch.setattr(planning, "gaussian_mu", lambda epsilon, delta: 1e-3)
    assert solve_steps(run, half, Fraction(1, 10**5)) == found


@pytest.mark.parametrize(
    ("name", "training", "given"),
    [
        ("delta", {"sigma": 1, "epochs": 1}, {}),
        ("delta", {"sigma": 1, "epochs": 1}, {"delta": 1}),
        ("epsilon", {"sigma": 1, "epochs": 1}, {"delta": 1e-5, "epsilon": 1}),
        ("epsilon", {"sigma": 1}, {"delta": 1e-5}),
        ("sigma", {"epochs": 1}, {"delta": 1e-5}),
        ("sigma", {}, {"delta": 1e-5, "epsilon": 1}),
        ("epsilon", {"sigma": "1/10"}, {"delta": 1e-5, "epsilon": 1e-3}),
        ("n", {"sigma": 1, "epochs": 1}, {"delta": 1e-5, "n": 10}),
        ("error", {"sigma": 1, "epochs": 1}, {"delta": 1e-5, "error": 10}),
        ("queries", {"sigma": 1, "epochs": 1}, {"delta": 1e-5, "queries": 2}),
        ("neighbours", {"sigma": 1, "epochs": 1}, {"delta": 1e-5, "neighbours": "replace"}),
    ],
)
def test_a_refusal_names_the_parameter(name: str, training: dict[str, Any], given: dict[str, Any]):
    with pytest.raises(BadParameter) as refused:
        plan(Training(**RUN, **training), **given)
    assert refused.value.name == name


def test_a_plan_is_shown_with_the_same_numbers_everywhere():
    found = plan(Training(**RUN, epochs=5), epsilon=1, delta=1e-5)
    assert found.sigma == float(solve_sigma(Training(**RUN, epochs=5), Fraction(1), Fraction(1, 10**5)))
    shown = found.to_dict()
    assert (shown["sigma"], shown["steps"], shown["rate"], shown["delta"]) == (found.sigma, 500, "1/100", 1e-5)
    assert shown["epsilon"] == {"lower": found.bounds.lower, "upper": found.bounds.upper}
    for text in (str(found), found._repr_html_()):
        assert f"{found.sigma:g}" in text
        assert "1/100" in text
        assert "Poisson" in text
    assert str(Training(sigma=2, **RUN)) == "DP-SGD, σ = 2, q = 1/100 = 0.01"
