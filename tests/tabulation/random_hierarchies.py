"""Random hierarchies with noisy tables in memory, and least squares on all of it by dense matrices: the oracle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms import Gaussian
from discreet.noise import Bits
from discreet.tabulation.hierarchy_estimation import HierarchyModel
from discreet.tabulation.intervals import choose_noise
from discreet.tabulation.margins import Margin
from discreet.tabulation.regions import Regions
from tests.tabulation.random_spines import membership, random_spine

Floats = NDArray[np.float64]
Levels = Sequence[Mapping[Margin, NDArray[Any]]]


@dataclass(frozen=True)
class MemorySource:
    """Measurements of all nodes, by level."""

    model: HierarchyModel
    levels: Levels

    def read_upper(self) -> Levels:
        return self.levels[: self.model.stream_level]

    def read_subtree(self, place: int) -> Levels:
        level = self.model.stream_level
        where = self.model.spine.slice_subtree(level, place)
        pairs = zip(self.levels[level:], where, strict=True)
        return [{margin: table[nodes] for margin, table in tables.items()} for tables, nodes in pairs]


def list_margins(columns: int) -> list[Margin]:
    return [margin for n in range(columns + 1) for margin in combinations(range(columns), n)]


def random_model(seed: int, *, stream_level: int | None = None, sigmas: tuple[float, float] = (0.5, 8.0)) -> HierarchyModel:
    """A model with a random tree and random noise on random tables, on which every wanted table can be estimated."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, int(rng.integers(2, 5)), most=3)
    sizes = [int(rng.integers(1, 4)) for _ in range(rng.integers(1, 4))]
    margins, depth = list_margins(len(sizes)), len(spine.levels)
    full = margins[-1]
    noises = []
    for level in range(depth):
        chosen = [margin for margin in margins if rng.random() < 0.4]
        if level == depth - 1 and full not in chosen:
            chosen.append(full)
        each = {margin: choose_noise(Fraction(str(round(float(rng.uniform(*sigmas)), 2)))) for margin in chosen}
        noises.append(each)
    wanted = {}
    for number, margin in enumerate(margins):
        levels = sorted(rng.choice(depth, int(rng.integers(1, depth + 1)), replace=False).tolist())
        wanted[f"t{number}"] = (margin, tuple(levels))
    leaves = [np.flatnonzero(rng.random(spine.sizes[-1]) < 0.6) for _ in range(3)]
    leaves = [each if len(each) else np.array([0]) for each in leaves]
    wanted["t0"] = ((), tuple(range(depth)))
    return HierarchyModel(
        spine, tuple(f"c{i}" for i in range(len(sizes))), tuple(tuple(range(size)) for size in sizes), wanted, tuple(noises),
        0.95, Fraction(1), depth if stream_level is None else min(stream_level, depth), ("a", "b", "c"),
        Regions.cover(spine, leaves),
    )  # fmt: skip


def tables_of(model: HierarchyModel, exact: NDArray[np.int64]) -> list[dict[Margin, NDArray[np.int64]]]:
    """The exact measured tables, from cells of the last level: one row per node."""
    found = []
    for adding, noises in zip(membership(model.spine), model.noises, strict=True):
        cells = np.rint(adding @ exact).astype(np.int64)
        found.append({margin: np.rint(cells @ add_matrix(model, margin).T).astype(np.int64) for margin in noises})
    return found


def add_noise(model: HierarchyModel, exact: Levels, bits: Bits) -> list[dict[Margin, NDArray[Any]]]:
    pairs = zip(exact, model.noises, strict=True)
    return [{margin: noises[margin].release(table, bits) for margin, table in tables.items()} for tables, noises in pairs]


def add_matrix(model: HierarchyModel, margin: Margin) -> Floats:
    """The matrix that sums the cells of a node to the table of a margin."""
    found = np.ones((1, 1))
    for i, size in enumerate(model.sizes):
        found = np.kron(found, np.eye(size) if i in margin else np.ones((1, size)))
    return found


@dataclass(frozen=True)
class Dense:
    """Least squares on the cells of the last level: `solved` maps all measurements to them."""

    model: HierarchyModel
    solved: Floats
    kinds: Floats  # of each measurement: variance; σ² and 1 if it is rounded; σ² if it is discrete

    @classmethod
    def of(cls, model: HierarchyModel) -> "Dense":
        rows, precision, kinds = [], [], []
        for level, adding in enumerate(membership(model.spine)):
            for margin, noise in model.noises[level].items():
                design = np.kron(adding, add_matrix(model, margin))
                variance = model.errors[level].variances[margin]  # type: ignore[union-attr]
                rows.append(design)
                precision += [1 / variance] * len(design)
                sigma2, is_rounded = float(noise.sigma) ** 2, isinstance(noise, Gaussian)
                kinds += [[variance, sigma2 * is_rounded, float(is_rounded), sigma2 * (not is_rounded)]] * len(design)
        design, tau = np.concatenate(rows), np.array(precision)
        solved = np.linalg.solve(design.T @ (tau[:, None] * design), design.T * tau)
        return cls(model, solved, np.array(kinds))

    def weights(self, nodes: Floats, margin: Margin) -> Floats:
        """The matrix from measurements to a table of sums of nodes of the last level."""
        return np.kron(nodes, add_matrix(self.model, margin)) @ self.solved


def stack(levels: Levels) -> Floats:
    """All measurements, in the order of `Dense`."""
    return np.concatenate([table.reshape(-1) for tables in levels for table in tables.values()]).astype(float)


def region_matrix(model: HierarchyModel) -> Floats:
    """One row per region, one column per node of the last level."""
    assert model.regions is not None
    found = np.zeros((model.regions.count, model.spine.sizes[-1]))
    sums = membership(model.spine)
    for level, (which, nodes) in enumerate(zip(model.regions.sums, model.regions.nodes, strict=True)):
        np.add.at(found, which, sums[level][nodes])
    return found
