"""Simulated collections beside their truth."""

import numpy as np
import pytest

from discreet import BadParameter
from discreet.local import simulate_recovery
from discreet.local.recovery import spread_people


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
    with pytest.raises(BadParameter, match="take long to simulate"):
        simulate_recovery(100_000, 1000, 1)
