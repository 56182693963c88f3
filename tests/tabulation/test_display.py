"""Display values are nonnegative whole numbers that add up to the last unit, and are the closest such; what they cost is
measured."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from discreet.errors import BadParameter
from discreet.tabulation.display import (
    _round_both_ways,
    _round_exactly,
    display_children,
    display_children_with_totals,
    display_top,
    project_to_total,
    round_to_total,
    sum_to_margin,
)
from discreet.tabulation.two_pass import TwoPass
from tests.tabulation.random_spines import random_spine, spine_of_widths

Floats = NDArray[np.float64]


def project_by_listing(values: Floats, total: float) -> Floats:
    """Try every set of positive numbers, and take the closest point among those that are possible."""
    best, least = None, np.inf
    for many in range(1, len(values) + 1):
        for support in combinations(range(len(values)), many):
            point = np.zeros(len(values))
            chosen = list(support)
            point[chosen] = values[chosen] - (values[chosen].sum() - total) / many
            distance = float(((point - values) ** 2).sum())
            if point.min() >= 0 and distance < least:
                best, least = point, distance
    assert best is not None
    return best


ROWS = st.lists(st.floats(-50, 50).map(lambda x: round(x, 3)), min_size=1, max_size=6)


@settings(deadline=None)
@given(ROWS, st.integers(0, 60))
def test_the_projection_is_the_closest_point(row: list[float], total: int) -> None:
    found = project_to_total(np.array([row]), np.array([total]))[0]
    assert found.min() >= 0
    assert abs(found.sum() - total) < 1e-9
    assert np.allclose(found, project_by_listing(np.array(row), total), atol=1e-9)


@settings(deadline=None)
@given(ROWS, st.integers(0, 60))
def test_rounding_keeps_the_total_and_moves_no_number_by_a_unit(row: list[float], total: int) -> None:
    values = np.array([row])
    found = round_to_total(values, np.array([total]))[0]
    assert found.sum() == total
    assert found.min() >= 0
    assert np.abs(found - project_to_total(values, np.array([total]))[0]).max() < 1


@settings(deadline=None)
@given(ROWS, st.integers(0, 60))
def test_no_other_whole_numbers_that_add_up_are_closer_to_the_projection(row: list[float], total: int) -> None:
    """Moving one unit between any two numbers does not help, so largest remainders are optimal."""
    projected = project_to_total(np.array([row]), np.array([total]))[0]
    found = round_to_total(np.array([row]), np.array([total]))[0]
    error = found - projected
    assert error[found > 0].max(initial=-1) - error.min() <= 1 + 1e-9


@settings(deadline=None)
@given(ROWS, st.integers(0, 60))
def test_rationals_and_doubles_agree(row: list[float], total: int) -> None:
    exact = _round_exactly(np.array(row), total)
    assert sum(exact) == total
    projected = project_to_total(np.array([row]), np.array([total]))[0]
    assert max(abs(Fraction(a) - Fraction(float(b))) for a, b in zip(exact, projected, strict=True)) < 1 + Fraction(1, 10**9)


def test_doubles_of_which_the_rounding_reaches_units_add_up_too() -> None:
    rng = np.random.default_rng(0)
    values = 2.0**52 - rng.random((500, 5)) * 2.0 ** rng.integers(1, 52, (500, 1)).astype(float)
    totals = np.array([rng.integers(0, 2 ** int(power)) for power in rng.integers(1, 52, 500)])
    found = round_to_total(values, totals)
    assert np.array_equal(found.sum(axis=1), totals)
    assert found.min() >= 0


def test_clipping_each_number_is_noticed() -> None:
    """The mutant that clips and rounds does not add up."""
    values, totals = np.array([[6.5, 4.0, -2.0]]), np.array([8])
    assert np.rint(np.maximum(values, 0)).sum() != 8
    assert round_to_total(values, totals).sum() == 8


@pytest.mark.parametrize("seed", range(5))
def test_a_spine_adds_up_to_the_last_unit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 5, most=6, roots=2)
    sizes = (2, 3)
    measured = [rng.poisson(3, (size, 6)) + rng.integers(-6, 7, (size, 6)) for size in spine.sizes]
    estimates = TwoPass(spine, np.ones(5)).estimate(measured)
    shown = [display_top(estimates[0])]
    for level, starts in enumerate(spine.starts):
        shown.append(display_children(estimates[level + 1], shown[-1], starts))
    for level, starts in enumerate(spine.starts):
        for margin in [(), (0,), (1,), (0, 1)]:
            above, below = (sum_to_margin(each, sizes, margin) for each in shown[level : level + 2])
            assert np.array_equal(np.add.reduceat(below, starts[:-1], axis=0), above)
            assert np.array_equal(
                sum_to_margin(above, [sizes[i] for i in margin], ()), sum_to_margin(shown[level], sizes, ())
            )
        assert shown[level + 1].min() >= 0
    assert np.array_equal(shown[0].sum(axis=1), np.maximum(np.rint(estimates[0].sum(axis=1)), 0))


def test_subtrees_are_displayed_by_themselves_as_in_one_piece() -> None:
    rng = np.random.default_rng(3)
    spine = spine_of_widths([5], [3, 1, 3, 7, 2])
    above, below = rng.poisson(2, (5, 2, 2)), rng.normal(1, 2, (16, 2, 2))
    whole = display_children(below, above, spine.starts[1])
    assert np.array_equal(whole, display_children(below.copy(), above, spine.starts[1]))
    for v in range(5):
        where = spine.slice_subtree(1, v)
        part = display_children(below[where[1]], above[v : v + 1], spine.starts[1][v : v + 2])
        assert np.array_equal(part, whole[where[1]])


# -- totals of children ----------------------------------------------------------------------------------------------------


def random_totals(seed: int, children: int, cells: int) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Values, and sums of columns and of rows that some table of whole numbers has."""
    rng = np.random.default_rng(seed)
    table = rng.poisson(2, (children, cells))
    return rng.normal(2, 3, (children, cells)), table.sum(axis=0), table.sum(axis=1)


@pytest.mark.parametrize("seed", range(20))
def test_cells_add_up_both_ways(seed: int) -> None:
    spine = random_spine(np.random.default_rng(seed), 3, most=7)
    values, _, totals = random_totals(seed, spine.sizes[2], 4)
    above = np.add.reduceat(totals, spine.starts[1][:-1])
    cells = np.stack([np.random.default_rng(each).multinomial(each, [0.7, 0.2, 0.1, 0]) for each in above.tolist()])
    shown = display_children_with_totals(values, cells, totals, spine.starts[1])
    assert shown.min() >= 0
    assert np.array_equal(shown.sum(axis=1), totals)
    assert np.array_equal(np.add.reduceat(shown, spine.starts[1][:-1], axis=0), cells)


@pytest.mark.parametrize("seed", range(8))
def test_cells_that_add_up_both_ways_are_close_to_the_closest(seed: int) -> None:
    """No whole table is closer to the values than the closest real one; ours is not much farther."""
    values, columns, rows = random_totals(seed, 4, 3)
    shown = _round_both_ways(values, columns, rows)
    constraints = [{"type": "eq", "fun": lambda v, j=j: v.reshape(4, 3)[:, j].sum() - columns[j]} for j in range(3)]
    constraints += [{"type": "eq", "fun": lambda v, i=i: v.reshape(4, 3)[i].sum() - rows[i]} for i in range(3)]
    start = np.outer(rows, columns) / columns.sum()
    closest = minimize(
        lambda v: ((v - values.ravel()) ** 2).sum(),
        start.ravel(),
        method="SLSQP",
        bounds=[(0, None)] * 12,
        constraints=constraints,
    )
    assert closest.success
    assert closest.fun - 1e-6 <= ((shown - values) ** 2).sum() <= closest.fun + 0.5 * values.size
    assert np.abs(shown - closest.x.reshape(4, 3)).max() < 2


def test_totals_that_were_measured_well_are_kept() -> None:
    """Of 40 children with 300 cells, most of them empty, the sums of displayed cells are worse than displayed totals."""
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.full(300, 0.02))
    truth = np.stack([rng.multinomial(people, shares) for people in rng.integers(0, 80, 40).tolist()])
    starts, above = np.array([0, 40]), truth.sum(axis=0, keepdims=True)
    estimates = truth + rng.normal(0, 3, truth.shape)
    estimates += (truth.sum(axis=1, keepdims=True) + rng.normal(0, 2, (40, 1)) - estimates.sum(axis=1, keepdims=True)) / 300
    totals = display_children(estimates.sum(axis=1, keepdims=True), above.sum(axis=1, keepdims=True), starts)
    both = display_children_with_totals(estimates, above, totals, starts)
    alone = display_children(estimates, above, starts)

    def error(shown: NDArray[np.int64]) -> tuple[float, float]:
        return float((shown - truth).sum(axis=1).std()), float(np.sqrt(((shown - truth) ** 2).mean()))

    assert error(both)[0] < 0.4 * error(alone)[0]
    assert error(both)[1] < error(alone)[1]


def test_totals_that_do_not_add_up_are_refused() -> None:
    children, above, starts = np.zeros((2, 2)), np.array([[1, 2]]), np.array([0, 2])
    with pytest.raises(BadParameter, match="do not add up to their parents'"):
        display_children_with_totals(children, above, np.array([1, 1]), starts)
    with pytest.raises(BadParameter, match="not one from 0 up for each child"):
        display_children_with_totals(children, above, np.array([4, -1]), starts)


def test_a_parent_that_shows_nothing_has_children_that_show_nothing() -> None:
    assert display_children(np.full((4, 2), 9.5), np.array([[0, 3]]), np.array([0, 4])).tolist() == [[0, 1]] * 3 + [[0, 0]]


def test_what_is_refused() -> None:
    with pytest.raises(BadParameter, match=r"the parents have shape \(1, 2\) and 4 children"):
        display_children(np.zeros((3, 2)), np.zeros((1, 2), int), np.array([0, 4]))
    with pytest.raises(BadParameter, match="above is -1"):
        display_children(np.zeros((2, 1)), np.array([[-1]]), np.array([0, 2]))
    with pytest.raises(BadParameter, match="not all between"):
        display_top(np.array([[np.nan]]))
    with pytest.raises(BadParameter, match="no numbers"):
        display_top(np.zeros((0, 3)))


# -- what display values cost ----------------------------------------------------------------------------------------------

DRAWS = 20_000


def simulate(truth: Floats) -> tuple[Floats, Floats, float]:
    """Estimates of 100 children and their parent, leaf σ = 3.18, parent σ = 1.75; and the variance of a child's estimate."""
    rng = np.random.default_rng(7)
    two_pass = TwoPass(spine_of_widths([len(truth)]), [1.75**-2, 3.18**-2])
    top = truth.sum() + rng.normal(0, 1.75, (1, DRAWS))
    parent, children = two_pass.estimate([top, truth[:, None] + rng.normal(0, 3.18, (len(truth), DRAWS))])
    return parent[0], children.T, float(two_pass.variances[1][0])


def summarise(shown: Floats, truth: Floats, variance: float) -> tuple[float, ...]:
    """Bias of the small and of the large, bias of the sum, coverage of both, and RMSE."""
    error = shown - truth
    small, large = truth == truth.min(), truth == truth.max()
    inside = np.abs(error) <= 1.959964 * np.sqrt(variance)
    bias = error[:, small].mean(), error[:, large].mean(), error.sum(axis=1).mean()
    return *map(float, bias), inside[:, small].mean(), inside[:, large].mean(), float(np.sqrt((error**2).mean()))


SPARSE = np.array([0.0] * 95 + [40.0] * 5)
ALL_2, ALL_40 = np.full(100, 2.0), np.full(100, 40.0)


@pytest.mark.parametrize(
    ("truth", "method", "expected"),
    [
        (SPARSE, "least squares", (0, 0, 0, 0.950, 0.949, 3.16)),
        (SPARSE, "projected", (0.19, -3.70, 0, 0.999, 0.794, 1.28)),
        (SPARSE, "clipped", (1.27, 0, 120.6, 0.974, 0.949, 2.31)),
        (ALL_2, "projected", (0, 0, 0, 0.986, 0.986, 2.26)),
        (ALL_2, "clipped", (0.51, 0.51, 50.8, 0.974, 0.974, 2.53)),
        (ALL_40, "projected", (0, 0, 0, 0.95, 0.95, 3.17)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bias_and_coverage_are_those_in_the_documentation(truth: Floats, method: str, expected: tuple[float, ...]) -> None:
    parent, children, variance = simulate(truth)
    shown = {
        "least squares": lambda: children,
        "projected": lambda: project_to_total(children, np.maximum(parent, 0)),
        "clipped": lambda: np.maximum(children, 0),
    }[method]()
    found = summarise(shown, truth, variance)
    tolerance = (0.02, 0.04, 0.15 + 0.01 * expected[2], 0.003, 0.008, 0.02)
    assert all(abs(a - b) <= limit for a, b, limit in zip(found, expected, tolerance, strict=True)), found


def test_whole_numbers_cost_little_more() -> None:
    parent, children, variance = simulate(SPARSE)
    shown = round_to_total(children, np.maximum(np.rint(parent), 0).astype(np.int64))
    small, large, total, _, covered, rmse = summarise(shown.astype(float), SPARSE, variance)
    assert abs(small - 0.19) < 0.02
    assert abs(large + 3.70) < 0.05
    assert abs(total) < 0.15
    assert 0.77 < covered < 0.83  # errors are whole numbers: up to 6 instead of 6.2
    assert rmse < 1.34
