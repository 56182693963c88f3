"""Quantiles and histograms: the interval covers as often as it says, and the value is the right one when noise is small."""

from fractions import Fraction
from math import ceil, exp, sqrt
from random import Random
from typing import Any

import numpy as np
import pytest

from discreet.mechanisms import Gaussian, Laplace
from discreet.mechanisms.weighted_sums import weighted_sum_error
from discreet.query.ast import Bin, Ref
from discreet.query.estimates import QuantileEstimator, sum_tree_levels
from discreet.query.schema import Column, Kind, Table
from discreet.query.statistics import CellCounts, build_quantile_tree
from discreet.testing import seeded_bits
from tests.query.test_answer import DRAWS, many
from tests.support.people import session

SIX = 6 * sqrt(0.05 * 0.95 / DRAWS)
TREE = CellCounts(Bin(Ref("x"), 1), 0, (8, 8))


def pmf(scale: Fraction, reach: int) -> Any:
    a = exp(-1 / float(scale))
    return np.array([(1 - a) / (1 + a) * a ** abs(k) for k in range(-reach, reach + 1)])


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7)])
@pytest.mark.parametrize(("left", "right", "apart"), [(1, 0, 1), (3, 4, 1), (5, 1, 3), (0, 8, 2)])
def test_the_error_of_a_sum_is_that_of_the_lattice_law(scale: Fraction, left: int, right: int, apart: int) -> None:
    """The reference convolves the exact law of left·X + right·(apart·Y) on the integers."""
    reach = int(60 * scale) + 2
    one, wide = pmf(scale, reach), np.zeros(2 * reach * apart + 1)
    wide[::apart] = one
    law = np.ones(1)
    for part in [one] * left + [wide] * right:
        law = np.convolve(law, part)
    middle = len(law) // 2
    for tail in (0.1, 0.025, 1e-4):
        t = weighted_sum_error(Laplace(scale), ((Fraction(1), left), (Fraction(apart), right)), tail)
        assert law[middle + int(t) + 1 :].sum() <= tail, "too small"
        tight = next(k for k in range(len(law)) if law[middle + k + 1 :].sum() <= tail)
        assert t <= tight * 1.03 + 1


def test_the_error_of_a_gaussian_sum_covers_rounding() -> None:
    noise, terms = Gaussian(20), ((Fraction(1, 2), 7), (Fraction(1, 2), 8))
    draws = sum(noise.release(np.zeros(DRAWS, np.int64), seeded_bits(70 + i)) / 2 for i in range(15))
    t = weighted_sum_error(noise, terms, 0.025)
    assert 0.5 * 0.025 < float((draws > t).mean()) <= 0.025 + 6 * sqrt(0.025 / DRAWS)


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(1, 100), Fraction(7, 9)])
def test_ranks_are_what_they_say(q: Fraction) -> None:
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 50, (3, 64))
    upto = cells.cumsum(axis=1)
    expected = float(1 - q) * upto - float(q) * (upto[:, -1:] - upto)
    assert np.allclose(QuantileEstimator(TREE, q).ranks(sum_tree_levels(TREE, cells)), expected)
    assert sum_tree_levels(TREE, cells).shape == (3, TREE.nodes)


def covered(q: str, epsilon: Any, delta: Any, seed: int) -> tuple[float, float]:
    """How often 100,000 intervals hold the truth, and their mean width, for 1,000 people aged 20 to 69, 20 of each age."""
    asked = session(epsilon=100, delta=delta, bounds={"age": (10, 73)})
    planned = asked.calibrate(f"SELECT QUANTILE(age, {q}) AS a FROM people", epsilon=epsilon)
    [tree] = planned.bounded.cell_counts
    cells = np.zeros((1, tree.cells), np.int64)
    for count, cell, _ in asked.engine.read_histogram(planned.bounded, tree):
        cells[0, cell - tree.first_cell] = count
    noise = planned.noise(tree)
    noisy = noise.release(np.tile(sum_tree_levels(tree, cells), (DRAWS, 1)), seeded_bits(seed))
    found = QuantileEstimator(tree, Fraction(q)).locate(noisy, noise, 0.025)
    truth = 9 + ceil(1000 * Fraction(q) / 20)  # the cell of the first age that so many have not passed
    assert bool(((found.first_cell <= found.cell) & (found.cell <= found.last_cell)).all())
    return float(((found.first_cell <= truth) & (truth <= found.last_cell)).mean()), float(
        (found.last_cell - found.first_cell).mean()
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0), (2, 1e-6)])
@pytest.mark.parametrize("q", ["0.5", "0.91", "0.01"])
def test_intervals_of_quantiles_cover_at_least_as_often_as_they_say(q: str, epsilon: Any, delta: Any) -> None:
    held, width = covered(q, epsilon, delta, 21)
    assert held >= 0.95 - SIX
    assert width < 10, "and says something"


def test_half_the_error_covers_too_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin: a bound that is half as wide."""
    whole = QuantileEstimator.errors
    monkeypatch.setattr(QuantileEstimator, "errors", lambda self, noise, tail: whole(self, noise, tail) / 2)
    assert covered("0.5", 1, 0, 22)[0] < 0.95 - SIX


def test_histogram_cells_cover_like_counts() -> None:
    planned, answer, _ = many("HISTOGRAM(age, 20, 40, 70) AS h", 1, 0, seeded_bits(23))
    assert answer.columns == ("h[20,40)", "h[40,70]")
    [(_, noise)] = planned.noises
    a = exp(-1 / float(noise.scale))  # type: ignore[union-attr]
    expected = 1 - 2 * a ** (noise.error(0.95) + 1) / (1 + a)
    for column, truth in enumerate((400, 600)):
        held = sum(row[column].lower <= truth <= row[column].upper for _, row in answer.rows) / len(answer)
        assert abs(held - expected) <= 6 * sqrt(expected * (1 - expected) / DRAWS)


def test_without_noise_a_quantile_is_the_value_that_has_that_rank() -> None:
    asked = session(epsilon=10**9)
    values = sorted(50 + i % 101 for i in range(1000))
    for q in ("0.0105", "0.2505", "0.5005", "0.7505", "0.9905"):  # no ties: the rank lies between two rows
        [(_, (cell,))] = asked.ask(f"SELECT QUANTILE(pay, {q}) AS p FROM people", epsilon=10**7).rows
        assert cell.lower <= values[int(1000 * Fraction(q))] <= cell.upper
        assert cell.upper - cell.lower <= 2 * 200 / 511
    answer = asked.ask("SELECT MIN(age) AS a, MEDIAN(age) AS b, MAX(age) AS c FROM people", epsilon=10**7)
    first, middle, last = answer.rows[0][1]
    assert (first.value, first.lower, first.upper) == (20, 20, 20)
    assert (last.value, last.lower, last.upper) == (69, 69, 69)
    assert middle.lower <= 44 <= middle.upper <= 45, "half of the rows lie up to 44: 45 is as good"


def test_every_value_of_a_column_has_a_cell() -> None:
    rng = Random(5)
    for _ in range(300):
        low = rng.randint(-(2**45), 2**45)
        table = Table(
            "t",
            "u",
            {
                "u": Column(Kind.INTEGER),
                "x": Column(Kind.INTEGER).with_bounds(low, low + rng.choice([1, 7, 63, 64, 511, 512, 10**6, 2**40])),
            },
        )
        tree, column = build_quantile_tree(Ref("x"), table), table.columns["x"]
        assert isinstance(tree.cell, Bin)
        assert column.lower is not None
        assert column.upper is not None
        assert (
            tree.first_cell
            <= column.lower // tree.cell.width
            <= column.upper // tree.cell.width
            < tree.first_cell + tree.cells
        )
