"""Exercises about randomised response, against the textbook, enumeration and simulation.

Daily budgets and averaged reports, against independent sums.
"""

from fractions import Fraction
from itertools import product
from math import exp, log, sqrt

import pytest
from scipy import stats

from discreet.errors import BadParameter
from discreet.lab import EXERCISES
from discreet.lab.exercises.response import any_epsilon, count_reports_needed, response_tail, sample_sizes, two_thirds


def moments(bits: tuple[int, ...], truth: Fraction) -> tuple[Fraction, Fraction]:
    """Mean and variance of the estimate over every pattern of lies, exactly."""
    mean = square = Fraction(0)
    for lies in product((0, 1), repeat=len(bits)):
        share = Fraction(1)
        for lie in lies:
            share *= 1 - truth if lie else truth
        reports = sum(bit ^ lie for bit, lie in zip(bits, lies, strict=True))
        estimate = (reports - len(bits) * (1 - truth)) / (2 * truth - 1)
        mean, square = mean + share * estimate, square + share * estimate**2
    return mean, square - mean**2


@pytest.mark.parametrize("bits", [(0,), (1, 0), (1, 1, 0, 1)])
def test_the_estimate_is_unbiased_with_the_proven_variance(bits: tuple[int, ...]) -> None:
    for truth in (Fraction(2, 3), Fraction(7, 8)):
        mean, variance = moments(bits, truth)
        assert mean == sum(bits)
        epsilon = log(truth / (1 - truth))
        assert float(variance) == pytest.approx(len(bits) * exp(epsilon) / (exp(epsilon) - 1) ** 2, rel=1e-12)
        assert any_epsilon(len(bits), Fraction(epsilon)).results[0] == pytest.approx(sqrt(variance), rel=1e-6)
    assert two_thirds(len(bits)).results[0] == pytest.approx(sqrt(2 * len(bits)), rel=1e-12)
    assert two_thirds(len(bits)).results[0] ** 2 == pytest.approx(float(moments(bits, Fraction(2, 3))[1]), rel=1e-12)


def test_response_tail() -> None:
    found = response_tail().numbers
    t = sqrt(log(40) / 2)
    assert found["reach"] == pytest.approx(t * (exp(1) + 1) / (exp(1) - 1) * 100, rel=1e-12)
    assert found["bound"] == pytest.approx(0.05, rel=1e-12)
    assert 0 < found["drawn beyond"] < 0.05


def test_sample_sizes() -> None:
    found = sample_sizes().numbers
    assert found["Laplace"] == pytest.approx(sqrt(2) / 0.001)
    assert found["randomised response"] == pytest.approx(exp(0.1) / (exp(0.1) - 1) ** 2 / 1e-4)
    assert found["1/(αε)²"] == pytest.approx(1e6)
    assert found["randomised response"] / found["1/(αε)²"] == pytest.approx(1 - 0.1**2 / 12, abs=1e-6), "ex. 2.6, ε → 0"
    assert found["check"] == pytest.approx(0.01, rel=1e-5)
    assert found["Laplace, α halved"] == pytest.approx(2)
    assert found["Laplace, ε halved"] == pytest.approx(2)
    assert found["randomised response, α halved"] == pytest.approx(4)
    assert found["randomised response, ε halved"] == pytest.approx(4, rel=1e-3)
    assert sample_sizes(0.01, 4).numbers["randomised response, ε halved"] > 7, "small ε only, as the text says"


def test_a_daily_budget_adds_up() -> None:
    exercise = EXERCISES["daily-budget"]
    solution = exercise.solve()
    assert solution.results == (5840.0,)
    assert solution.numbers["sure after one datum"] == pytest.approx(exp(2) / (1 + exp(2)))
    assert 1 - solution.numbers["sure after one day"] == pytest.approx(exp(-16), rel=1e-6)
    assert exercise.with_options(days=730).check(11_680).right
    assert "all four applications together" in exercise.check(4 * 5840).message
    for unit in ("one datum", "one device and one day", "of one device"):
        assert unit in " ".join(solution.work)


def errs_at_most(reports: int, p: float, q: float, error: float) -> bool:
    """Whether some threshold errs at most so often on both sides."""
    return any(
        stats.binom.sf(k - 1, reports, p) <= error and stats.binom.cdf(k - 1, reports, q) <= error
        for k in range(reports + 2)
    )


@pytest.mark.parametrize(("p", "q", "error"), [(0.5, 0.75, 0.01), (0.25, 0.75, 0.01), (0.5, 0.75, 0.1)])
def test_so_many_reports_tell_a_bit(p: float, q: float, error: float) -> None:
    found = count_reports_needed(p, q, error)
    assert errs_at_most(found, p, q, error)
    assert not any(errs_at_most(reports, p, q, error) for reports in range(1, found))
    solution = EXERCISES["averaged-reports"].solve(p=p, q=q, error=error)
    assert solution.numbers["exact"] == found
    assert solution.results[0] == pytest.approx((stats.norm.isf(error) / (q - p)) ** 2)
    assert 0.5 * found <= solution.results[0] <= 2 * found


def test_the_texts_numbers() -> None:
    assert EXERCISES["averaged-reports"].solve().results[0] == pytest.approx(86.6, abs=0.05)


def test_reports_that_never_tell_are_refused() -> None:
    exercise = EXERCISES["averaged-reports"]
    for wrong in ({"p": 0.8}, {"q": 1}, {"error": 0.5}):
        with pytest.raises(BadParameter):
            exercise.solve(**wrong)
    assert "exact" not in exercise.solve(q=0.51).numbers
