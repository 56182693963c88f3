"""Daily budgets and averaged reports, against independent sums."""

from math import exp

import pytest
from scipy import stats

from discreet.errors import BadParameter
from discreet.lab import EXERCISES
from discreet.lab.exercises.local import count_reports_needed


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
