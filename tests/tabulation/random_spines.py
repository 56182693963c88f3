"""Random irregular spines, and least squares on them by dense matrices: the oracle of the two passes."""

import numpy as np
from numpy.typing import NDArray

from discreet.tabulation.spine import Spine

Floats = NDArray[np.float64]


def random_spine(rng: np.random.Generator, levels: int, most: int = 4, roots: int = 1) -> Spine:
    """A spine whose nodes have 1 to `most` children, by chance."""
    paths: list[tuple[str, ...]] = [(f"r{i}",) for i in range(roots)]
    for _ in range(levels - 1):
        paths = [(*path, f"{path[-1]}.{i}") for path in paths for i in range(rng.integers(1, most + 1))]
    return Spine.from_columns({f"level {i}": [path[i] for path in paths] for i in range(levels)})


def spine_of_widths(*widths: list[int]) -> Spine:
    """A spine with one top node, whose nodes of level i have widths[i] children each, in order."""
    paths: list[tuple[str, ...]] = [("r",)]
    for given in widths:
        pairs = zip(paths, given, strict=True)
        paths = [(*path, f"{path[-1]}.{i:04}") for path, many in pairs for i in range(many)]
    return Spine.from_columns({f"level {i}": [path[i] for path in paths] for i in range(len(widths) + 1)})


def membership(spine: Spine) -> list[Floats]:
    """By level, the matrix that adds the last level's nodes up."""
    found = [np.eye(spine.sizes[-1])]
    for level in range(len(spine.levels) - 2, -1, -1):
        adding = np.zeros((spine.sizes[level], spine.sizes[level + 1]))
        adding[spine.parents[level + 1], np.arange(spine.sizes[level + 1])] = 1
        found.insert(0, adding @ found[0])
    return found


def dense_weights(spine: Spine, precisions: Floats) -> tuple[list[Floats], Floats]:
    """By level, the matrix from all measurements (levels one after the other) to estimates; and τ of each measurement."""
    sums = membership(spine)
    design = np.concatenate(sums)
    tau = np.repeat(precisions, spine.sizes)
    solved = np.linalg.solve(design.T @ (tau[:, None] * design), design.T * tau)
    return [each @ solved for each in sums], tau
