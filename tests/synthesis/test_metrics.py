"""Bounds on the distance of synthetic rows from the data hold as often as they say; what was not measured has none."""

from fractions import Fraction
from math import comb, sqrt

import numpy as np
import pytest

from discreet.accounting.currencies import Receipt
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian
from discreet.synthesis import metrics
from discreet.synthesis.cells import Cells
from discreet.synthesis.measuring import NoisyTable, measure_tables
from discreet.synthesis.metrics import bound_distances, bound_noise, estimate_total
from discreet.synthesis.model import fit
from discreet.synthesis.tree import TreeSynthesis
from discreet.tabulation.intervals import CountNoise
from discreet.tabulation.margins import Floats, Margin
from discreet.testing import seeded_bits

NOISES: list[CountNoise] = [Gaussian(3), Gaussian(40), Gaussian(9000), DiscreteGaussian(Fraction(1, 2)), DiscreteGaussian(2)]


def allowed_misses(draws: int, failure: float) -> float:
    """More misses than this happen with probability below 10⁻⁹."""
    return draws * failure + 6 * sqrt(draws * failure) + 6


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("cells", [1, 12, 400])
def test_the_noise_of_a_table_exceeds_its_bound_as_rarely_as_stated(noise: CountNoise, cells: int) -> None:
    draws, failure = 2000, 0.05
    sums = np.abs(noise.release(np.zeros((draws, cells), np.int64), seeded_bits(cells))).sum(1)
    bound = bound_noise(noise, cells, failure)
    assert (sums > bound).sum() <= allowed_misses(draws, failure)
    assert (sums > sums.mean()).sum() > allowed_misses(draws, failure), "the mutant: the mean is no bound"
    mean, spread = float(sums.mean()), float(sums.std())
    assert bound <= mean + 4.5 * spread + 1, "and it is not far above what is drawn"


def test_the_rounded_gaussian_is_bounded_alike_by_sums_and_by_its_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    summed = bound_noise(Gaussian(1000), 50, 0.01)
    monkeypatch.setattr(metrics, "MAX_SUMMED_SIGMA", 1.0)
    bound_noise.cache_clear()
    closed = bound_noise(Gaussian(1000), 50, 0.01)
    bound_noise.cache_clear()
    assert summed <= closed <= summed * 1.001


def test_the_number_of_rows_is_within_its_error_as_often_as_stated() -> None:
    cells, bits, draws, failure = Cells.read((2, 5), np.zeros((700, 2), np.int64)), seeded_bits(1), 2000, 0.05
    for one, other in ((Gaussian(4), DiscreteGaussian(1)), (Gaussian(4), Gaussian(9)), (DiscreteGaussian(2),) * 2):
        misses = 0
        for _ in range(draws):
            tables = [*measure_tables(cells, [(0,)], one, bits), *measure_tables(cells, [(1,)], other, bits)]
            total, error = estimate_total(tables, 1 - failure)
            misses += abs(total - 700) > error
        assert misses <= allowed_misses(draws, failure)


def draw_data(seed: int) -> Cells:
    generator = np.random.default_rng(seed)
    codes = np.stack([generator.choice(size, 400, p=weights(size)) for size in SIZES], axis=1)
    codes[:, 1] = (codes[:, 0] + codes[:, 1] // 2) % SIZES[1]
    return Cells.read(SIZES, codes)


def weights(size: int) -> Floats:
    falling = 1 / np.arange(1, size + 1) ** 2
    return falling / falling.sum()


SIZES = (3, 6, 4, 8)


def distance(rows: Cells, cells: Cells, margin: Margin) -> float:
    one, other = rows.table(margin), cells.table(margin)
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


@pytest.mark.parametrize("rho", [Fraction(1, 200), Fraction(1, 10), 5])
def test_all_bounds_hold_at_once_as_often_as_stated(rho: Fraction) -> None:
    """The mutant takes the usual size of the noise off: it is exceeded far more often."""
    cells, draws, misses, wrong, slack = draw_data(1), 150, 0, 0, []
    plan, bits, generator = TreeSynthesis(SIZES, rho), seeded_bits(9), np.random.default_rng(3)
    for _ in range(draws):
        found = plan.measure(cells, Receipt(0, plan.event), bits)
        codes = fit(found).sample(generator=generator)
        rows = Cells.read(SIZES, codes)
        bounds = bound_distances(codes, SIZES, found.tables, 0.9)
        exact = {margin: distance(rows, cells, margin) for table in bounds.tables for margin in table.bounds}
        claimed = {margin: bound for table in bounds.tables for margin, bound in table.bounds.items()}
        misses += any(exact[margin] > claimed[margin] for margin in exact)
        slack += [claimed[margin] - exact[margin] for margin in exact]
        wrong += any(exact[t.margin] > subtract_noise(t, rows) for t in found.tables)
    assert misses <= allowed_misses(draws, 0.1)
    assert wrong > allowed_misses(draws, 0.1)
    assert np.mean(slack) < 1 if rho < 1 else np.mean(slack) < 0.12


def subtract_noise(table: NoisyTable, rows: Cells) -> float:
    """The dishonest metric: the distance to the noisy table, less what noise usually is."""
    total = max(1.0, float(table.values.sum()))
    noisy = np.abs(rows.table(table.margin) / rows.counts.sum() - table.values / total).sum()
    return float(noisy - table.values.size * float(table.noise.sigma) * sqrt(2 / np.pi) / total) / 2


def test_tables_that_lie_in_no_measured_one_have_no_bound() -> None:
    plan = TreeSynthesis(SIZES, 5)
    found = plan.measure(draw_data(2), Receipt(0, plan.event), seeded_bits(1))
    codes = fit(found).sample()
    bounds = bound_distances(codes, SIZES, found.tables)
    one, two, three = bounds.tables
    assert (len(one.bounds), one.unbounded) == (4, 0)
    assert (set(two.bounds), two.unbounded) == ({table.margin for table in found.edges}, comb(4, 2) - 3)
    assert (three.bounds, three.unbounded, three.mean, three.largest) == ({}, 4, None, None)
    assert "No bound for the 4 3-way tables: no measured table contains one of them." in str(bounds)
    assert "3 others have no bound" in str(bounds)


def test_a_table_inside_a_measured_one_has_its_bound() -> None:
    cells = draw_data(3)
    tables = measure_tables(cells, [(0, 1, 2)], Gaussian(3), seeded_bits(1))
    bounds = bound_distances(np.zeros((10, 4), np.int64), SIZES, tables)
    assert set(bounds.tables[1].bounds) == {(0, 1), (0, 2), (1, 2)}
    assert len(set(bounds.tables[1].bounds.values())) == 1
    assert (bounds.tables[0].unbounded, bounds.tables[1].unbounded, bounds.tables[2].unbounded) == (1, 3, 3)


def test_where_noise_drowns_everything_the_bound_is_one() -> None:
    tables = [NoisyTable((0,), np.array([-40, 3, 2]), Gaussian(100))]
    assert bound_distances(np.zeros((10, 4), np.int64), SIZES, tables).tables[0].bounds == {(0,): 1.0}
