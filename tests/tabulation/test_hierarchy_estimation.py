"""Tables of a hierarchy are dense least squares on all its measurements, whole or by subtree; their intervals cover; display
values add up over levels and tables."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from discreet.tabulation.hierarchy_estimation import REGIONS, HierarchyModel, TableBlock, estimate_blocks
from discreet.tabulation.intervals import choose_noise
from discreet.tabulation.regions import Regions
from discreet.tabulation.spine import Spine
from discreet.testing import seeded_bits
from tests.support.chance import FALSE_POSITIVE
from tests.tabulation.random_hierarchies import (
    Dense,
    MemorySource,
    add_matrix,
    add_noise,
    random_model,
    region_matrix,
    stack,
    tables_of,
)
from tests.tabulation.random_spines import membership

SEEDS = range(12)
Found = dict[tuple[str, int], TableBlock]


def random_exact(model: HierarchyModel, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    cells = int(np.prod(model.sizes))
    return rng.poisson(rng.gamma(0.5, 6, (model.spine.sizes[-1], cells)))


def join_blocks(blocks: list[TableBlock]) -> TableBlock:
    assert [block.first for block in blocks] == np.cumsum([0, *(len(block.estimate) for block in blocks[:-1])]).tolist()
    if len(blocks) == 1:
        return blocks[0]
    joined = {
        name: None if getattr(blocks[0], name) is None else np.concatenate([getattr(block, name) for block in blocks])
        for name in ("estimate", "sd", "half_width", "lower", "upper", "reliable", "display")
    }
    return replace(blocks[0], **joined)


def estimate(model: HierarchyModel, measured: Any) -> Found:
    found: dict[tuple[str, int], list[TableBlock]] = {}
    for block in estimate_blocks(model, MemorySource(model, measured)):
        found.setdefault((block.name, block.level), []).append(block)
    return {key: join_blocks(blocks) for key, blocks in found.items()}


def nodes_of(model: HierarchyModel, level: int) -> Any:
    return region_matrix(model) if level == REGIONS else membership(model.spine)[level]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stream_level", [None, 1, 2])
def test_estimates_are_dense_least_squares(seed: int, stream_level: int | None) -> None:
    model = random_model(seed, stream_level=stream_level)
    measured = add_noise(model, tables_of(model, random_exact(model, seed)), seeded_bits(seed))
    dense, y = Dense.of(model), stack(measured)
    found = estimate(model, measured)
    expected = {(name, level) for name, (_, levels) in model.tables.items() for level in levels}
    assert {key for key in found if key[1] != REGIONS} == expected
    assert any(level == REGIONS for _, level in found)
    for (name, level), block in found.items():
        weights = dense.weights(nodes_of(model, level), model.tables[name][0])
        assert np.allclose(block.estimate.reshape(-1), weights @ y, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_noise_in_every_cell_is_that_of_dense_weights(seed: int) -> None:
    model = random_model(seed)
    dense = Dense.of(model)
    for margin, levels in model.tables.values():
        for level in levels:
            squares = dense.weights(nodes_of(model, level), margin) ** 2 @ dense.kinds
            squares = squares.reshape(model.spine.sizes[level], -1, 4)
            assert np.allclose(squares, squares[:, :1], rtol=1e-9)  # the same for every cell of a node
            parts = model.list_parts(level, margin)[model.spine.paths.of_node[level]]
            assert np.allclose(parts, squares[:, 0], rtol=1e-7, atol=1e-12)
    for margin in model.region_tables.values():
        squares = dense.weights(region_matrix(model), margin) ** 2 @ dense.kinds
        assert np.allclose(model.list_region_parts(margin), squares.reshape(3, -1, 4)[:, 0], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_of_subtrees_is_the_whole_at_once(seed: int) -> None:
    whole = random_model(seed)
    measured = add_noise(whole, tables_of(whole, random_exact(whole, seed)), seeded_bits(seed))
    found = estimate(whole, measured)
    for level in range(1, len(whole.spine.levels)):
        for key, block in estimate(replace(whole, stream_level=level), measured).items():
            assert np.allclose(block.estimate, found[key].estimate, atol=1e-9)
            for name in ("lower", "upper", "reliable", "display"):
                assert np.array_equal(getattr(block, name), getattr(found[key], name)), name


def displays_differ(model: HierarchyModel, found: Found) -> bool:
    """Whether display values of two tables or levels do not add up to the last unit, or one is negative or no integer."""
    shown = {key: block.display for key, block in found.items() if key[1] != REGIONS}
    if any(each is None or each.dtype.kind != "i" or each.min() < 0 for each in shown.values()):
        return True
    for (name, level), each in shown.items():
        margin = model.tables[name][0]
        for (other, other_level), finer in shown.items():
            other_margin = model.tables[other][0]
            if not set(margin) <= set(other_margin) or other_level < level:
                continue
            sums, below = membership(model.spine)[level], membership(model.spine)[other_level]
            nodes = (sums @ below.T > 0).astype(int)  # which nodes of the lower level are below which of the upper
            kept = (add_matrix(model, margin) @ add_matrix(model, other_margin).T > 0).astype(int)
            if not np.array_equal(nodes @ finer @ kept.T, each):
                return True
    return False


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stream_level", [None, 1])
def test_display_values_add_up_over_levels_and_tables(seed: int, stream_level: int | None) -> None:
    model = random_model(seed, stream_level=stream_level)
    measured = add_noise(model, tables_of(model, random_exact(model, seed)), seeded_bits(seed))
    found = estimate(model, measured)
    assert not displays_differ(model, found)
    for name, margin in model.region_tables.items():
        below = [key for key in found if key[0] == name and key[1] == len(model.spine.levels) - 1]
        for key in below:
            assert np.array_equal(region_matrix(model) @ found[key].display, found[name, REGIONS].display), margin


def test_rounded_estimates_do_not_add_up() -> None:
    """The mutant: each estimate rounded by itself, and cut at 0."""
    noticed = 0
    for seed in SEEDS:
        model = random_model(seed)
        measured = add_noise(model, tables_of(model, random_exact(model, seed)), seeded_bits(seed))
        found = {
            key: replace(block, display=np.maximum(np.rint(block.estimate), 0).astype(np.int64))
            for key, block in estimate(model, measured).items()
        }
        noticed += displays_differ(model, found)
    assert noticed >= len(SEEDS) - 2


# -- coverage --------------------------------------------------------------------------------------------------------------

SIMULATIONS = 2_000
CODES = ["1111", "1112", "1121", "1211", "1212", "1213", "2111", "2112", "2211"]
OFF_SPINE = [[0, 3, 8], [1, 2, 4, 5, 6, 7]]


def make_model(sigmas: tuple[float, ...], copies: int = 1) -> HierarchyModel:
    """Four levels, a table of two columns and its total, and regions that no node is; one σ per level, twice for totals.

    Copies of the tree stand beside each other, under top nodes of their own: each is a simulation.
    """
    codes = [f"{copy:04}{code}" for copy in range(copies) for code in CODES]
    spine = Spine.from_codes(codes, [4, 5, 6, 8], ["nation", "state", "county", "block"])
    noises = tuple(
        {(0, 1): choose_noise(Fraction(str(sigma))), (): choose_noise(Fraction(str(2 * sigma)))} for sigma in sigmas
    )
    everywhere = (0, 1, 2, 3)
    tables = {"detail": ((0, 1), everywhere), "first": ((0,), everywhere), "total": ((), everywhere)}
    leaves = [[copy * len(CODES) + leaf for leaf in region] for copy in range(copies) for region in OFF_SPINE]
    names = tuple(map(str, range(len(leaves))))
    regions = Regions.cover(spine, leaves)
    return HierarchyModel(
        spine, ("a", "b"), ((0, 1), (0, 1, 2)), tables, noises, 0.95, Fraction(1), 4, names, regions
    )  # fmt: skip


def count_misses(sigmas: tuple[float, ...], narrowed: float = 1.0) -> dict[tuple[str, int], Any]:
    """How often the interval of each cell misses the truth. `narrowed` makes a mutant of it."""
    one, many = make_model(sigmas), make_model(sigmas, SIMULATIONS)
    exact = random_exact(one, 5)
    tables = [{margin: np.tile(table, (SIMULATIONS, 1)) for margin, table in each.items()} for each in tables_of(one, exact)]
    misses = {}
    for key, block in estimate(many, add_noise(many, tables, seeded_bits(11))).items():
        truth = nodes_of(one, key[1]) @ exact @ add_matrix(one, one.tables[key[0]][0]).T
        lower, upper = block.lower, block.upper
        if narrowed < 1:
            width = block.half_width[:, None] * narrowed
            lower, upper = np.ceil(block.estimate - width), np.floor(block.estimate + width)
        lower, upper = (each.reshape(SIMULATIONS, *truth.shape) for each in (lower, upper))
        misses[key] = ((truth < lower) | (truth > upper)).sum(axis=0)
    return misses


def most_misses(cells: int) -> int:
    """So many that one of these cells misses more often with a probability of at most 1e-9, if each covers 95%."""
    return int(binom.isf(float(FALSE_POSITIVE) / cells, SIMULATIONS, 0.05))


@pytest.mark.parametrize(
    "sigmas", [(0.6, 0.8, 0.7, 0.5), (1.1, 2.5, 4.0, 1.7), (9.0, 6.0, 12.0, 8.0)], ids=["small", "mixed", "rounded"]
)
def test_intervals_cover_on_every_level_off_the_spine_and_of_totals(sigmas: tuple[float, ...]) -> None:
    misses = count_misses(sigmas)
    assert {level for _, level in misses} == {REGIONS, 0, 1, 2, 3}
    cells = sum(each.size for each in misses.values())
    assert max(int(each.max()) for each in misses.values()) <= most_misses(cells)


def test_intervals_that_are_too_narrow_are_noticed() -> None:
    misses = count_misses((9.0, 6.0, 12.0, 8.0), narrowed=0.7)
    cells = sum(each.size for each in misses.values())
    assert all(int(each.max()) > most_misses(cells) for each in misses.values())


def test_the_rounding_of_doubles_is_far_below_one() -> None:
    model = make_model((9.0, 6.0, 12.0, 8.0))
    exact = random_exact(model, 1) * 1_000_000
    found = estimate(model, add_noise(model, tables_of(model, exact), seeded_bits(1)))
    block = found["detail", 3]
    slack = (block.half_width[:, None] + 1e-3) - (block.upper - block.estimate)
    assert slack.min() >= 0
