"""Two passes over a spine are dense generalised least squares: estimates, variances, squared weights, sums; in one piece and
as a stream of subtrees."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from discreet.errors import BadParameter
from discreet.tabulation.regions import Regions
from discreet.tabulation.two_pass import TwoPass
from tests.tabulation.random_spines import dense_weights, random_spine, spine_of_widths

SEEDS = range(12)


def random_problem(seed: int, cells: int = 3) -> tuple[Any, Any, list[Any]]:
    """A spine, precisions of which some but not the last are 0, and measurements."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, int(rng.integers(1, 6)), roots=int(rng.integers(1, 3)))
    precisions = np.exp(rng.normal(0, 2, len(spine.levels))) * (rng.random(len(spine.levels)) < 0.7)
    precisions[-1] = np.exp(rng.normal())
    measured = [rng.integers(-20, 50, (size, cells)) for size in spine.sizes]
    return spine, precisions, [y if tau else None for y, tau in zip(measured, precisions, strict=True)]


def stack(spine: Any, measured: list[Any], cells: int = 3) -> Any:
    pairs = zip(measured, spine.sizes, strict=True)
    return np.concatenate([np.zeros((size, cells)) if y is None else y for y, size in pairs])


def estimates_differ(seed: int, estimate: Callable[..., Any]) -> float:
    spine, precisions, measured = random_problem(seed)
    weights, _ = dense_weights(spine, precisions)
    y = stack(spine, measured)
    found = estimate(TwoPass(spine, precisions), measured)
    return max(np.abs(a - w @ y).max() for a, w in zip(found, weights, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_estimates_are_dense_least_squares(seed: int) -> None:
    assert estimates_differ(seed, TwoPass.estimate) < 1e-9


def test_estimates_of_the_up_pass_alone_are_noticed() -> None:
    def up_alone(two_pass: TwoPass, measured: list[Any]) -> Any:
        return two_pass._up(measured, two_pass.spine.slice_subtree(0, 0, two_pass.spine.sizes[0]), 0)[0]

    assert max(estimates_differ(seed, up_alone) for seed in SEEDS) > 1e-3


@pytest.mark.parametrize("seed", SEEDS)
def test_children_add_up_to_their_parent(seed: int) -> None:
    spine, precisions, measured = random_problem(seed)
    found = TwoPass(spine, precisions).estimate(measured)
    for level, starts in enumerate(spine.starts):
        assert np.allclose(np.add.reduceat(found[level + 1], starts[:-1], axis=0), found[level], atol=1e-9, rtol=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_variances_and_squared_weights_are_dense_ones(seed: int) -> None:
    spine, precisions, _ = random_problem(seed)
    weights, tau = dense_weights(spine, precisions)
    two_pass = TwoPass(spine, precisions)
    variance = np.divide(1, tau, out=np.zeros_like(tau), where=tau > 0)
    omega = np.stack([np.ones(len(precisions)), np.random.default_rng(seed).random(len(precisions))], axis=1)
    per_measurement = np.repeat(omega, spine.sizes, axis=0)
    for level, w in enumerate(weights):
        assert np.allclose(two_pass.variances[level], w**2 @ variance, rtol=1e-9)
        assert np.allclose(two_pass.squared_weights(omega)[level], w**2 @ per_measurement, rtol=1e-9)
        assert np.allclose(two_pass.squared_weights(omega[:, 0])[level], (w**2).sum(axis=1), rtol=1e-9)


def test_the_recursion_of_variances_is_no_recursion_of_squared_weights() -> None:
    """The mutant: variances with ω in place of 1/τ. It is far too small."""
    spine = spine_of_widths([6], [3, 1, 2, 5, 4, 2])
    precisions = np.array([10.0, 0.1, 1.0])
    as_if = TwoPass(spine, np.ones(3)).variances[2]
    right = TwoPass(spine, precisions).squared_weights(np.ones(3))[2]
    assert np.abs(as_if / right - 1).max() > 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_of_nodes_have_dense_variances(seed: int) -> None:
    spine, precisions, measured = random_problem(seed)
    rng = np.random.default_rng(seed)
    weights, tau = dense_weights(spine, precisions)
    leaves = [np.flatnonzero(rng.random(spine.sizes[-1]) < share) for share in (0, 0.2, 0.5, 0.9, 1)]
    regions = Regions.cover(spine, leaves)
    two_pass = TwoPass(spine, precisions)
    rows = np.stack([weights[-1][each].sum(axis=0) for each in leaves])
    variance = np.divide(1, tau, out=np.zeros_like(tau), where=tau > 0)
    assert np.allclose(two_pass.sum_variances(regions), rows**2 @ variance, rtol=1e-9, atol=1e-12)
    omega = rng.random((len(precisions), 2))
    found = two_pass.sum_squared_weights(regions, omega)
    assert np.allclose(found, rows**2 @ np.repeat(omega, spine.sizes, axis=0), rtol=1e-9, atol=1e-12)
    estimates = two_pass.estimate(measured)
    assert np.allclose(regions.sum_estimates(estimates), rows @ stack(spine, measured), atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_weighted_sums_on_all_levels_have_dense_variances(seed: int) -> None:
    """Also of a node and its own descendants at once, such as the difference of a child and its parent's share."""
    spine, precisions, _ = random_problem(seed)
    rng = np.random.default_rng(seed)
    weights, tau = dense_weights(spine, precisions)
    many = [int(rng.integers(0, 2 * size + 1)) for size in spine.sizes]
    regions = Regions(
        3,
        tuple(rng.integers(0, 3, n) for n in many),
        tuple(rng.integers(0, size, n) for n, size in zip(many, spine.sizes, strict=True)),
        tuple(rng.normal(size=n) for n in many),
    )
    rows = np.zeros((3, len(tau)))
    for w, sums, nodes, factors in zip(weights, regions.sums, regions.nodes, regions.factors, strict=True):
        np.add.at(rows, sums, factors[:, None] * w[nodes])
    variance = np.divide(1, tau, out=np.zeros_like(tau), where=tau > 0)
    assert np.allclose(TwoPass(spine, precisions).sum_variances(regions), rows**2 @ variance, rtol=1e-8, atol=1e-11)


def test_a_minimal_cover_has_the_leaves_and_no_sibling_group() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        spine = random_spine(rng, 4)
        leaves = np.flatnonzero(rng.random(spine.sizes[-1]) < 0.7)
        cover = Regions.cover(spine, [leaves])
        held = [spine.slice_subtree(level, v)[-1] for level, nodes in enumerate(cover.nodes) for v in nodes.tolist()]
        assert sorted(i for each in held for i in range(each.start, each.stop)) == leaves.tolist()
        for level, starts in enumerate(spine.starts):
            inside = np.isin(np.arange(spine.sizes[level + 1]), cover.nodes[level + 1])
            assert not np.any(np.logical_and.reduceat(inside, starts[:-1]))


def test_leaves_that_do_not_exist_are_refused() -> None:
    with pytest.raises(BadParameter, match="leaves is 9: no place on the last level"):
        Regions.cover(spine_of_widths([3]), [[0, 9]])


@pytest.mark.parametrize("keep_level", [False, True])
@pytest.mark.parametrize("seed", range(20, 32))
def test_a_stream_of_subtrees_gives_the_same_doubles(seed: int, keep_level: bool) -> None:
    spine, precisions, measured = random_problem(seed)
    two_pass = TwoPass(spine, precisions)
    whole = two_pass.estimate(measured)
    for level in range(1, len(spine.levels)):
        subtrees = []
        for v in range(spine.sizes[level]):
            where = spine.slice_subtree(level, v)
            pairs = zip(measured[level:], where, strict=True)
            subtrees.append([None if y is None else y[each] for y, each in pairs])
        up = two_pass.open_stream(level, 3, keep_level=keep_level)
        for v, below in enumerate(subtrees):
            up.add(v, below)
        down = up.close(measured[:level])
        for a, b in zip(down.top, whole, strict=False):
            assert np.array_equal(a, b)
        assert len(down.top) == level + keep_level
        parts = [down.estimate(v, below) for v, below in enumerate(subtrees)]
        for place in range(level, len(spine.levels)):
            assert np.array_equal(np.concatenate([part[place - level] for part in parts]), whole[place])


def test_a_stream_takes_each_subtree_once() -> None:
    spine = spine_of_widths([3], [2, 1, 2])
    two_pass = TwoPass(spine, [1, 1, 1])
    up = two_pass.open_stream("level 1", 1)
    below = [np.zeros((1, 1)), np.zeros((2, 1))]
    up.add(0, below)
    with pytest.raises(BadParameter, match="added before"):
        up.add(0, below)
    with pytest.raises(BadParameter, match="without 2 subtrees"):
        up.close([np.zeros((1, 1))])
    with pytest.raises(BadParameter, match="no subtrees to be added"):
        two_pass.open_stream(0, 1)


# -- levels that are not measured ------------------------------------------------------------------------------------------


def test_an_only_child_that_is_not_measured_is_its_parent() -> None:
    spine = spine_of_widths([3], [1, 1, 1])
    two_pass = TwoPass(spine, [2.0, 1.0, 0.0])
    nation, state, county = two_pass.estimate([np.array([9]), np.array([1, 2, 3]), None])
    assert np.array_equal(state, county)
    assert np.allclose(nation, state.sum())
    assert np.array_equal(two_pass.variances[1], two_pass.variances[2])
    assert np.allclose(two_pass.sum_variances(Regions.cover(spine, [[0], [0, 2]]))[0], two_pass.variances[1][0])


def test_siblings_that_are_not_measured_cannot_be_estimated() -> None:
    spine = spine_of_widths([3], [1, 2, 1])
    with pytest.raises(BadParameter, match="nodes of level `level 2` cannot be estimated from the sum of several"):
        TwoPass(spine, [2.0, 1.0, 0.0])
    above = TwoPass(spine, [2.0, 1.0, 0.0], lowest="level 1").estimate([np.array([9]), np.array([1, 2, 3])])
    assert [len(each) for each in above] == [1, 3]


def test_lower_levels_inform_a_level_that_is_the_lowest_estimated() -> None:
    spine = spine_of_widths([3], [1, 2, 1])
    whole = TwoPass(spine, [2.0, 0.0, 1.0])
    measured = [np.array([9]), None, np.array([4, 3, 2, 1])]
    upper = TwoPass(spine, [2.0, 0.0, 1.0], lowest=1)
    assert all(np.array_equal(a, b) for a, b in zip(upper.estimate(measured), whole.estimate(measured), strict=False))
    assert len(upper.variances) == 2
    with pytest.raises(BadParameter, match="regions is below level `level 1`"):
        upper.sum_variances(Regions.cover(spine, [[1]]))


@pytest.mark.parametrize(
    ("precisions", "message"),
    [([1.0], "one number per level"), ([0.0, 0.0], "one above 0"), ([-1.0, 1.0], "from 0 up"), ([np.inf, 1.0], "finite")],
)
def test_precisions_that_are_none(precisions: list[float], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        TwoPass(spine_of_widths([2]), precisions)


def test_measurements_that_do_not_fit() -> None:
    two_pass = TwoPass(spine_of_widths([2]), [1, 1])
    with pytest.raises(BadParameter, match=r"measured is missing of level `level 1`"):
        two_pass.estimate([np.zeros(1)])
    with pytest.raises(BadParameter, match=r"3 rows of level `level 1`: there are 2 nodes"):
        two_pass.estimate([np.zeros(1), np.zeros(3)])


# -- shapes ----------------------------------------------------------------------------------------------------------------


def test_variances_are_computed_once_per_shape() -> None:
    """A regular spine of 111,111 nodes has one shape and one path per level."""
    spine = spine_of_widths([10], [10] * 10, [10] * 100, [100] * 1000)
    assert [len(each) for each in spine.shapes.counts] == [1] * 5
    assert [len(each) for each in spine.paths.shapes] == [1] * 5
    assert len(np.unique(TwoPass(spine, [1, 1, 1, 1, 1]).variances[-1])) == 1


def test_shapes_are_those_of_subtrees_up_to_the_order_of_children() -> None:
    spine = spine_of_widths([4], [2, 2, 1, 2], [3, 1, 1, 3, 4, 3, 2])
    assert spine.shapes.counts[1].tolist() == [2, 1, 1]
    first, second, third, fourth = spine.shapes.of_node[1]
    assert first == second
    assert len({first, third, fourth}) == 3
    for level, children in enumerate(spine.shapes.children):
        assert np.array_equal(children.sum(axis=1)[spine.shapes.of_node[level]], np.diff(spine.starts[level]))
