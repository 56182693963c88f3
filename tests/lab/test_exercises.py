"""The answers of the exercises, against the textbooks and independent computations."""

from math import exp, log, sqrt

import numpy as np
import pytest

from discreet.lab import EXERCISES
from discreet.lab.exercises import (
    Solution,
    cells,
    counties,
    names,
    no_promise,
    outcomes,
    rules_of_thumb,
    sample_sizes,
    sensitivity_quiz,
    tail_bounds,
)


def test_every_exercise_has_a_question_and_a_computed_answer() -> None:
    for exercise in EXERCISES.values():
        solution = exercise.solve()
        assert isinstance(solution, Solution)
        assert exercise.question.endswith("?")
        assert solution.work
        assert solution.numbers
        assert solution == exercise.solve(), "reproducible"


def test_outcome_range() -> None:
    found = outcomes().numbers
    assert found["P = 0.2"] == pytest.approx([0.16, 0.25], abs=1e-12)
    assert found["P = 0.5"] == pytest.approx([0.4, 0.6], abs=1e-12)
    assert outcomes(log(2), [0.2]).numbers["P = 0.2"] == pytest.approx([0.1, 0.4], abs=1e-12)


def test_sample_sizes() -> None:
    found = sample_sizes().numbers
    assert found["Laplace"] == pytest.approx(sqrt(2) / 0.001)
    assert found["randomised response"] == pytest.approx(exp(0.1) / (exp(0.1) - 1) ** 2 / 1e-4)
    assert found["check"] == pytest.approx(0.01, rel=1e-5)
    assert found["Laplace, α halved"] == pytest.approx(2)
    assert found["Laplace, ε halved"] == pytest.approx(2)
    assert found["randomised response, α halved"] == pytest.approx(4)
    assert found["randomised response, ε halved"] == pytest.approx(4, rel=1e-3)
    assert sample_sizes(0.01, 4).numbers["randomised response, ε halved"] > 7, "small ε only, as the text says"


def test_counties() -> None:
    found = counties().numbers
    assert found["scale"] == 20
    assert found["bound"] == pytest.approx(181.06, abs=0.005)
    harmonic = 20 * sum(1 / i for i in range(1, 3144))  # E max of d continuous ones is λ·H_d
    assert found["exact"] == pytest.approx(harmonic, rel=0.005)
    assert found["exact"] < found["bound"]
    a = exp(-1 / 20)
    beyond = 2 * a ** (found["95%"] + 1) / (1 + a)
    assert (1 - beyond) ** 3143 >= 0.95 > (1 - beyond / a) ** 3143


def test_names() -> None:
    found = names().numbers
    assert found["bound"] == pytest.approx(12.206, abs=5e-4)
    assert found["expected l1"] == 10_000
    assert found["exact"] == 12
    assert names(beta=0.01).numbers["bound"] == pytest.approx(log(1e6))


def test_sensitivity_quiz() -> None:
    found = sensitivity_quiz().numbers
    for name, value in (("one predicate", 1), ("two overlapping predicates", 2), ("four disjoint hair colours", 1)):
        assert found[name] == [value, value]
    assert found["salary, clamped"] == pytest.approx([100 / 3, 100 / 3])
    assert np.diff(np.log10(found["salary, unclamped"])) == pytest.approx([3, 3]), "proportional to the highest salary"


def test_tail_bounds() -> None:
    found = tail_bounds().numbers
    (laplace, formula), *others = found.values()
    assert formula == pytest.approx(exp(-2))
    assert abs(laplace - formula) < 7.5 * sqrt(formula / 200_000)
    for seen, bound in others:
        assert 0 < seen < bound
    assert found["P(|Y| > tσ) ≤ 2e^(−t²/2)"][0] == pytest.approx(0.0455, abs=7.5 * sqrt(0.0455 / 200_000))
    assert abs(laplace - exp(-2.1)) > 7.5 * sqrt(formula / 200_000), "a tail of another t is noticed"


def test_gender_and_hair() -> None:
    assert cells().numbers == {"cells": 8, "add or remove": 1, "replace": 2}
    assert cells(0.5, 3, 5).numbers == {"cells": 15, "add or remove": 0.5, "replace": 1}


def test_rules_of_thumb() -> None:
    found = rules_of_thumb().numbers
    for epsilon, most in found["advantage"].items():
        assert most == pytest.approx(np.tanh(float(epsilon) / 2), rel=1e-6)
    assert found["advantage"]["0.1"] < 0.05 < 0.4 < found["advantage"]["1"] < 0.5 < 0.99 < found["advantage"]["10"]
    assert found["between any two tables"] == pytest.approx(np.tanh(0.5), rel=1e-6)
    assert found["exposed"] == {"1/n": 1.0, "1/n²": 1e-4}


def test_no_promise() -> None:
    found = no_promise().numbers
    assert abs(found["with her"] - found["without her"]) < 2e-4, "the effect of her participation"
    assert found["with her"] > 20 * found["before"], "the effect of the study"
