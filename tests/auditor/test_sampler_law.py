"""Batches: Poisson samples pass as rarely refuted as is stated; every other way to make batches is refuted."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from discreet.auditor import check_batches
from discreet.auditor.sampler_law import check_inclusions, list_count_tests
from discreet.errors import BadParameter
from discreet.noise import bernoulli
from discreet.testing import seeded_bits

STEPS, RECORDS, RATE = 120, 100, Fraction(1, 10)
SOURCE = np.random.default_rng(8)


def draw_poisson(rate: Fraction = RATE, seed: int = 0) -> np.ndarray:
    return bernoulli(rate, STEPS * RECORDS, seeded_bits(seed)).reshape(STEPS, RECORDS).astype(bool)


def shuffle_epochs() -> np.ndarray:
    epochs = [SOURCE.permutation(RECORDS).reshape(10, 10) for _ in range(STEPS // 10)]
    return mark([batch for epoch in epochs for batch in epoch])


def mark(batches: list) -> np.ndarray:
    included = np.zeros((len(batches), RECORDS), bool)
    for row, batch in zip(included, batches, strict=True):
        row[batch] = True
    return included


MUTANTS: dict[str, Callable[[], np.ndarray]] = {
    "shuffled epochs": shuffle_epochs,
    "fixed size, fresh each step": lambda: mark([SOURCE.permutation(RECORDS)[:10] for _ in range(STEPS)]),
    "fixed order": lambda: mark([np.arange(10) + 10 * (t % 10) for t in range(STEPS)]),
    "another rate": lambda: SOURCE.random((STEPS, RECORDS)) < 0.14,
    "the same batch twice": lambda: np.repeat(draw_poisson(seed=5)[: STEPS // 2], 2, axis=0),
    "pairs of records together": lambda: np.repeat(draw_poisson(seed=6)[:, : RECORDS // 2], 2, axis=1),
    "some records more often": lambda: SOURCE.random((STEPS, RECORDS)) < np.linspace(0, 0.2, RECORDS),
    "some steps larger": lambda: SOURCE.random((STEPS, RECORDS)) < np.linspace(0, 0.2, STEPS)[:, None],
}


@pytest.mark.parametrize("name", MUTANTS)
def test_other_samplers_are_refuted_at_once(name: str) -> None:
    found = check_inclusions(MUTANTS[name](), RATE)
    assert found.violation, found


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(1, 50)])
def test_poisson_samples_pass(rate: Fraction) -> None:
    found = check_inclusions(draw_poisson(rate), rate)
    assert not found.violation, found


def test_every_test_is_exact() -> None:
    """At α = 0.2 for each test, about that share of Poisson samples is refuted by it and no more: binomial at 10⁻⁹."""
    from scipy.stats import binom

    times, alpha = 80, 0.2
    refuted: dict[int, int] = {}
    for seed in range(times):
        for place, test in enumerate(list_count_tests(draw_poisson(seed=seed)[:40, :40], RATE)):
            refuted[place] = refuted.get(place, 0) + (test.p_value <= alpha)
    assert len(refuted) == 9
    assert max(refuted.values()) <= binom.isf(1e-9 / 9, times, alpha)
    assert max(refuted.values()) > 0.05 * times  # and the tests are not empty


def test_batches_are_read_by_position() -> None:
    assert check_batches([[0, 0]], 5, RATE).violation
    assert check_batches([[7]], 5, RATE).violation
    with pytest.raises(BadParameter, match="batch"):
        check_batches([], 5, RATE)
    with pytest.raises(BadParameter, match="rate"):
        check_batches([[1]], 5, 2)
