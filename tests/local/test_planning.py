"""Plans of collections: the error is that of simulated reports, and two of n, ε and error give the third."""

from math import sqrt
from statistics import NormalDist

import pytest

from discreet import BadParameter
from discreet.local import choose_oracle, list_oracles, plan_collection, simulate_recovery


@pytest.mark.parametrize("values", [2, 3, 40, 5000, 100_000])
def test_the_recommended_oracle_is_that_of_the_name(values: int) -> None:
    for epsilon in (0.01, 0.1, 1, 4, 8):
        plan = plan_collection(values, n=1000, epsilon=epsilon)
        assert plan.recommended.oracle == choose_oracle(values, epsilon)
        assert plan.recommended.half_width <= 1.12 * plan.rows[0].half_width
        for row in plan.rows:
            assert choose_oracle(values, epsilon, row.name) == row.oracle
            assert row.oracle.epsilon <= epsilon


def test_the_half_width_is_that_of_simulated_reports() -> None:
    z = NormalDist().inv_cdf(0.975)
    for name, oracle in list_oracles(200, 1).items():
        found = simulate_recovery(200, 10**6, 1, oracle=name, truth="flat", seed=5)
        [row] = [row for row in plan_collection(200, n=10**6, epsilon=1).rows if row.name == name]
        assert row.half_width == pytest.approx(z * sqrt(oracle.variance(10**6)))
        # 200 squared errors: their mean is within 60% of its expectation (the seed is fixed)
        assert 0.4 < (found.rmse / (row.half_width / z)) ** 2 < 1.9, name


def test_fewer_than_two_and_all_three_are_refused() -> None:
    for given in ({"n": 5}, {"n": 5, "epsilon": 1, "error": 0.1}):
        with pytest.raises(BadParameter, match="exactly one of the three"):
            plan_collection(10, **given)
    with pytest.raises(BadParameter, match="more than"):
        plan_collection(10, epsilon=0.01, error=1e-9)
    with pytest.raises(BadParameter, match="cannot show"):
        plan_collection(10, n=10, error=1e-9)


def test_an_oracle_whose_reports_would_be_long_says_so() -> None:
    with pytest.raises(BadParameter, match="long"):
        choose_oracle(10**6, 1, "subset")
    with pytest.raises(BadParameter, match="not a known oracle"):
        choose_oracle(10, 1, "oracle")


def test_a_plan_says_what_it_recommends_and_what_cannot_be_seen() -> None:
    shown = repr(plan_collection(10_000, n=10_000, epsilon=1))
    for word in ("Use projective", "trusted curator", "Nothing below"):
        assert word in " ".join(shown.split())


def test_a_curator_is_praised_only_where_one_is_better() -> None:
    for epsilon in (1, 16):
        plan = plan_collection(100, n=1000, epsilon=epsilon)
        better = plan.central_half_width < plan.recommended.half_width
        assert ("trust no curator" in repr(plan)) == better == (epsilon == 1)


def test_an_error_is_a_share() -> None:
    with pytest.raises(BadParameter, match="below 1"):
        plan_collection(100, n=1000, error=1)
