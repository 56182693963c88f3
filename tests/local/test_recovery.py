"""Simulated collections beside their truth."""

import numpy as np
import pytest

from discreet import BadParameter
from discreet.local import simulate_recovery
from discreet.local.recovery import spread_people
from tests.support.rounds import at_night


@pytest.mark.parametrize("truth", ["zipf", "flat"])
@pytest.mark.parametrize(("n", "values"), [(0, 3), (1, 7), (10**6 + 1, 999), (10**12, 5)])
def test_people_are_spread_in_proportion_and_add_up(n: int, values: int, truth: str) -> None:
    held = spread_people(n, values, truth)
    weights = 1 / np.arange(1, values + 1) if truth == "zipf" else np.ones(values)
    assert held.sum() == n
    assert np.abs(held - n * weights / weights.sum()).max() < 1.01


def test_what_is_covered_is_counted_from_the_rows() -> None:
    found = simulate_recovery(30, 10**5, 1, seed=2)
    rows = found.to_dict()["rows"]
    assert found.covered == sum(row["covered"] for row in rows) >= 20
    assert found.all_covered
    assert "30 intervals contain the truth" in " ".join(repr(found).split())


def test_an_estimate_that_misses_is_shown() -> None:
    found = simulate_recovery(3, 10**5, 4, truth=[10**5, 0, 0], seed=2)
    wrong = type(found)(found.answer, (0, 10**5, 0))
    assert wrong.covered < found.covered
    assert not wrong.all_covered
    assert "Not all joint intervals" in " ".join(repr(wrong).split())


def test_wrong_truths_are_refused() -> None:
    with pytest.raises(BadParameter, match="truth"):
        simulate_recovery(3, 10, 1, truth="normal")
    with pytest.raises(BadParameter, match="add up"):
        simulate_recovery(3, 10, 1, truth=[1, 2, 3])
    with pytest.raises(BadParameter, match="fewer"):
        simulate_recovery(3, 10**13, 1)
    with pytest.raises(BadParameter, match="do not fit in memory"):
        simulate_recovery(10**6 + 1, 10**7, 1)


@pytest.mark.parametrize(("values", "covered"), [(6_000, 5_430), at_night(20_000, 18_500)])
@pytest.mark.parametrize("oracle", ["hashed", "hadamard", "projective"])
def test_many_values_are_simulated_and_progress_is_reported(oracle: str, values: int, covered: int) -> None:
    told: list[float] = []
    found = simulate_recovery(values, 100_000, 4, oracle=oracle, seed=1, on_progress=told.append)
    assert len(found.truth) == values
    assert found.truth[0] > 9_000
    assert found.covered >= covered  # 95% of them, less 16 standard deviations
    assert told == sorted(told)
    assert told[-1] == 1
