"""Exercises about accuracy, against the textbooks and independent computations."""

from fractions import Fraction
from math import exp, log, sqrt

import mpmath as mp
import numpy as np
import pytest

from discreet.lab.exercises.accuracy import (
    best_order,
    brute_force_sensitivity,
    counties,
    laplace_max,
    names,
    noise_per_query,
    relative_error,
    sensitivity_quiz,
    tail_bounds,
)
from discreet.units import Neighbours


def test_counties() -> None:
    found = counties().numbers
    assert found["scale"] == found["one county"] == 20, "Suffolk's expected error"
    assert found["bound"] == pytest.approx(181.06, abs=0.005)
    harmonic = 20 * sum(1 / i for i in range(1, 3144))  # E max of d continuous ones is λ·H_d
    assert found["exact"] == pytest.approx(harmonic, rel=0.005)
    assert found["exact"] < found["bound"]
    a = exp(-1 / 20)
    beyond = 2 * a ** (found["95%"] + 1) / (1 + a)
    assert (1 - beyond) ** 3143 >= 0.95 > (1 - beyond / a) ** 3143
    assert counties(58).results[0] == pytest.approx(20 * (log(58) + 1))
    assert counties(58, Fraction(1, 10**9)).numbers["exact"] == pytest.approx(2e9 * float(mp.harmonic(58)), rel=1e-6)


def test_laplace_max() -> None:
    found = laplace_max().numbers
    assert found["threshold"] == pytest.approx(10 * (log(100) + log(20)))
    assert found["bound"] == pytest.approx(10 * (log(100) + 1))
    assert found["exact"] == pytest.approx(10 * float(mp.harmonic(100)), rel=1e-12)
    exact_miss = 1 - (1 - exp(-found["threshold"] / 10)) ** 100
    assert 0.9 * 0.05 < exact_miss <= 0.05
    mean = 10 * mp.quad(lambda x: 1 - (1 - mp.exp(-x)) ** 100, [0, 5, 20, 60])
    assert float(mean) == pytest.approx(found["exact"], rel=1e-9)


def test_names() -> None:
    found = names().numbers
    assert found["bound"] == pytest.approx(12.206, abs=5e-4)
    assert found["expected l1"] == 10_000
    assert found["exact"] == 12
    assert names(beta=Fraction(1, 100)).numbers["bound"] == pytest.approx(log(1e6))


def test_tail_bounds() -> None:
    found = tail_bounds().numbers
    (laplace, formula), *others = found.values()
    assert formula == pytest.approx(exp(-2))
    assert abs(laplace - formula) < 7.5 * sqrt(formula / 200_000)
    for seen, bound in others:
        assert 0 < seen < bound
    assert found["P(|Y| > tσ) ≤ 2e^(−t²/2)"][0] == pytest.approx(0.0455, abs=7.5 * sqrt(0.0455 / 200_000))
    assert abs(laplace - exp(-2.1)) > 7.5 * sqrt(formula / 200_000), "a tail of another t is noticed"


def test_relative_error() -> None:
    assert relative_error().results == pytest.approx((5,))
    assert relative_error(100).results == pytest.approx((10,))
    assert relative_error(epsilon=Fraction(1)).results == pytest.approx((0.5,))


def test_best_order() -> None:
    tried = {order: order * 500 / 80_000 + log(1e5) / (order - 1) for order in range(2, 101)}
    least = min(tried, key=tried.__getitem__)
    assert best_order().results == pytest.approx((least, tried[least]), rel=1e-12)
    assert best_order().results == pytest.approx((44, 0.54274), rel=1e-5)


def test_noise_per_query() -> None:
    assert noise_per_query().results == (100, 100)
    assert noise_per_query(7, Fraction(1, 2)).results == (14, 14)


# -- the quiz, by the rule and by trying all -------------------------------------------------------------------------------


def test_sensitivity_quiz() -> None:
    """Each answer names its relation: add/remove for the counts, replace for the salary."""
    found = sensitivity_quiz().numbers
    for name, add_remove, replace in (
        ("one predicate", 1, 1),
        ("two overlapping predicates", 2, 2),
        ("four disjoint hair colours", 1, 2),
    ):
        assert found[f"{name}, add-remove"] == [add_remove, add_remove]
        assert found[f"{name}, replace"] == [replace, replace]
    assert found["salary, clamped"] == pytest.approx(100 / 3)
    assert np.diff(np.log10(found["salary, unclamped"])) == pytest.approx([3, 3]), "proportional to the highest salary"
    tried = brute_force_sensitivity([0, 50], lambda d: [sum(d) / 4], Neighbours.REPLACE, size=4)
    assert sensitivity_quiz(Fraction(50), 4).results[-1] == tried == 12.5
