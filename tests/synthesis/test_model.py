"""The tree model: exact without noise, least squares with it, and rows that have its tables."""

from fractions import Fraction
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.mechanisms.gaussian import Gaussian
from discreet.synthesis.cells import Cells
from discreet.synthesis.measuring import NoisyTable
from discreet.synthesis.model import RowGroups, TreeModel, draw_by_quota, fit, fuse_columns, round_quotas, scale_to_margins
from discreet.synthesis.tree import TreeMeasurements, TreeSynthesis
from discreet.tabulation.margins import Floats, Margin
from discreet.tabulation.residuals import combine
from discreet.testing import seeded_bits

SIZES = (3, 4, 2, 5)
EDGES: tuple[Margin, ...] = ((0, 1), (1, 2), (1, 3))


def draw_chain(rows: int, seed: int = 1) -> Cells:
    """Rows of columns that depend on each other along EDGES."""
    generator = np.random.default_rng(seed)
    codes = np.zeros((rows, len(SIZES)), np.int64)
    codes[:, 0] = generator.choice(3, rows, p=[0.6, 0.3, 0.1])
    for parent, child in EDGES:
        table = generator.dirichlet(np.full(SIZES[child], 0.7), SIZES[parent])
        upto = table.cumsum(1)
        codes[:, child] = np.minimum((generator.random(rows)[:, None] >= upto[codes[:, parent]]).sum(1), SIZES[child] - 1)
    return Cells.read(SIZES, codes)


def without_noise(cells: Cells) -> TreeMeasurements:
    """The exact tables, as if they were noisy ones: never to be published."""
    tables = [NoisyTable(margin, cells.table(margin), Gaussian(3)) for margin in (*((c,) for c in range(4)), *EDGES)]
    return TreeMeasurements(TreeSynthesis(SIZES, 1), tuple(tables[:4]), tuple(tables[4:]))


def joint(model: TreeModel) -> Floats:
    """The model's distribution over all cells, by enumeration."""
    out = np.ones(SIZES)
    for column, parent in model.order:
        shares = model.columns[column] if parent is None else model.conditional(column, parent)
        axes = [column] if parent is None else [parent, column]
        shape = [SIZES[axis] if axis in axes else 1 for axis in range(4)]
        ordered = shares if parent is None or parent < column else shares.T
        out = out * ordered.reshape(shape)
    return out


def test_without_noise_the_model_is_the_exact_conditional_distribution() -> None:
    cells = draw_chain(2000)
    model = fit(without_noise(cells))
    exact = np.ones(SIZES) * (cells.table((0,)) / 2000).reshape(3, 1, 1, 1)
    for parent, child in EDGES:
        table = cells.table((parent, child))
        given_parent = table / np.maximum(table.sum(1, keepdims=True), 1)
        exact = exact * given_parent.reshape([SIZES[axis] if axis in (parent, child) else 1 for axis in range(4)])
    assert model.total == pytest.approx(2000)
    assert np.abs(joint(model) - exact).sum() < 1e-6
    for edge in EDGES:
        assert np.abs(model.edges[edge] * 2000 - cells.table(edge)).max() < 1e-5
    independent = reduce(np.multiply, np.ix_(*(cells.table((column,)) / 2000 for column in range(4))))
    assert np.abs(independent - exact).sum() > 0.1, "the mutant: independent columns"


def test_pairs_along_a_path_are_those_of_the_joint_distribution() -> None:
    model = fit(without_noise(draw_chain(500)))
    full = joint(model)
    for left, right in combinations(range(4), 2):
        others = tuple(axis for axis in range(4) if axis not in (left, right))
        assert np.abs(model.pair(left, right) - full.sum(others)).max() < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_fused_as_least_squares_by_residuals_does(seed: int) -> None:
    plan = TreeSynthesis(SIZES, Fraction(1, 10))
    found = plan.measure(draw_chain(3000), Receipt(0, plan.event), seeded_bits(seed))
    edges = {table.margin: table.values.astype(float) for table in found.edges}
    columns = [table.values.astype(float) for table in found.columns]
    total, sums = fuse_columns(columns, edges, found.columns, found.edges)
    residuals = combine(SIZES, {t.margin: t.values for t in found.tables}, {t.margin: t.variance for t in found.tables})
    assert total == pytest.approx(float(residuals.rebuild(())))
    for column, values in enumerate(sums):
        assert values == pytest.approx(residuals.rebuild((column,)))
        assert values != pytest.approx(found.columns[column].values, abs=0.5), "the mutant: the one-way table alone"


@settings(deadline=None, max_examples=30)
@given(rho=st.sampled_from([Fraction(1, 10**5), Fraction(1, 100), 1]), seed=st.integers(0, 100))
def test_whatever_the_noise_the_tables_of_a_model_agree(rho: Fraction, seed: int) -> None:
    plan = TreeSynthesis(SIZES, rho)
    model = fit(plan.measure(draw_chain(300), Receipt(0, plan.event), seeded_bits(seed)))
    for column in range(4):
        assert model.columns[column].min() >= 0
        assert model.columns[column].sum() == pytest.approx(1)
    for (left, right), table in model.edges.items():
        assert table.min() >= 0
        assert table.sum(1) == pytest.approx(model.columns[left], abs=1e-6)
        assert table.sum(0) == pytest.approx(model.columns[right], abs=1e-6)
    assert joint(model).sum() == pytest.approx(1, abs=1e-6)
    assert (model.sample(50, np.random.default_rng(1)) < np.array(SIZES)).all()


# -- sampling ----------------------------------------------------------------------------------------------------------


def test_tables_of_sampled_rows_converge_to_the_model() -> None:
    model, generator = fit(without_noise(draw_chain(2000))), np.random.default_rng(4)
    for rows, limit in ((100, 0.2), (1000, 0.05), (100_000, 0.006)):
        codes = Cells.read(SIZES, model.sample(rows, generator))
        assert np.abs(codes.table((0, 1, 2, 3)) / rows - joint(model)).sum() / 2 < 3 * limit
        for column in range(4):
            assert np.abs(codes.table((column,)) - model.columns[column] * rows).max() < 4
        for edge in EDGES:
            assert np.abs(codes.table(edge) - model.edges[edge] * rows).max() < 6


def test_columns_that_share_a_parent_are_independent_given_it() -> None:
    """Quotas fix how many rows get a value, and chance decides which: else siblings would move together."""
    generator = np.random.default_rng(5)
    whole = RowGroups.whole(20_000)
    one, other = (draw_by_quota(whole, np.array([[0.5, 0.5]]), generator) for _ in range(2))
    assert one.sum() == other.sum() == 10_000
    assert abs(int((one * other).sum()) - 5000) < 6 * np.sqrt(20_000 / 16)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=6), st.integers(0, 40))
def test_quotas_add_up_and_errors_do_not(shares: list[list[float]], size: int) -> None:
    weights = np.array(shares) + 1e-3
    groups = np.arange(size, size + len(shares))
    quotas = weights / weights.sum(1, keepdims=True) * groups[:, None]
    counts = round_quotas(quotas, groups)
    assert (counts.sum(1) == groups).all()
    assert np.abs(counts - quotas).max() < 1
    assert counts.min() >= 0
    assert np.abs(counts.sum(0) - quotas.sum(0)).max() < 2.5


def test_scaling_reaches_its_margins() -> None:
    rows, columns = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75])
    scaled = scale_to_margins(np.array([[1.0, 0.0], [0.2, 0.3], [0.1, 0.1]]), rows, columns)
    assert scaled.sum(1) == pytest.approx(rows, abs=1e-6)
    assert scaled.sum(0) == pytest.approx(columns, abs=1e-6)


def test_the_number_of_rows_is_that_of_noisy_tables() -> None:
    model = fit(without_noise(draw_chain(2000)))
    assert len(model.sample(generator=np.random.default_rng(1))) == 2000
    assert len(model.sample(7)) == 7
    for wrong in ("many", 0, -1):
        with pytest.raises(BadParameter, match="rows"):
            model.sample(wrong)  # type: ignore[arg-type]
