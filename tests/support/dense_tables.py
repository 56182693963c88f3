"""The oracle of tabulations: the same estimates, variances and weights from one dense least-squares problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.tabulation.margins import Margin, list_closure


def summing_matrix(sizes: tuple[int, ...], margin: Margin) -> NDArray[Any]:
    """The matrix that makes the table of a margin of the table of all columns."""
    matrix = np.ones((1, 1))
    for column, size in enumerate(sizes):
        matrix = np.kron(matrix, np.eye(size) if column in margin else np.ones((1, size)))
    return matrix


@dataclass(frozen=True)
class Dense:
    """Generalised least squares by a pseudo-inverse, over all cells of all columns."""

    sizes: tuple[int, ...]
    variances: Mapping[Margin, float]

    @cached_property
    def solver(self) -> NDArray[Any]:
        """The matrix that makes the table of all columns of the measured tables."""
        design = np.concatenate([summing_matrix(self.sizes, each) for each in self.variances])
        precisions = np.concatenate([np.full(prod(self.sizes[i] for i in a), 1 / v) for a, v in self.variances.items()])
        root = np.sqrt(precisions)
        return np.asarray(np.linalg.pinv(design * root[:, None], rcond=1e-11) * root)

    def weights(self, margin: Margin) -> dict[Margin, NDArray[Any]]:
        """The matrix by which each measured table enters the estimated one."""
        rows = summing_matrix(self.sizes, margin) @ self.solver
        ends = np.cumsum([prod(self.sizes[i] for i in each) for each in self.variances])[:-1]
        return dict(zip(self.variances, np.split(rows, ends, axis=1), strict=True))

    def estimate(self, margin: Margin, measured: Mapping[Margin, NDArray[Any]]) -> NDArray[Any]:
        total = sum(matrix @ measured[each].reshape(-1) for each, matrix in self.weights(margin).items())
        return np.asarray(total).reshape([self.sizes[i] for i in margin])

    def covariance(self, margin: Margin) -> NDArray[Any]:
        return np.asarray(sum(matrix @ matrix.T * self.variances[each] for each, matrix in self.weights(margin).items()))

    def squared_weights(self, margin: Margin) -> dict[Margin, float]:
        return {each: float((matrix[0] ** 2).sum()) for each, matrix in self.weights(margin).items()}


@dataclass(frozen=True)
class Case:
    """A random domain with some measured tables; `wanted` are all tables that can be estimated."""

    sizes: tuple[int, ...]
    measured: dict[Margin, NDArray[Any]]
    variances: dict[Margin, float]

    @property
    def wanted(self) -> list[Margin]:
        return list_closure(self.measured)


def draw_case(seed: int) -> Case:
    """One to four columns of one to five values, and any tables of them with variances from 0.01 to 100."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 5))
    sizes = tuple(rng.integers(1, 6, size=columns).tolist())
    margins = list_closure([tuple(range(columns))])
    chosen = rng.choice(len(margins), size=int(rng.integers(1, len(margins) + 1)), replace=False)
    measured = {margins[i]: rng.integers(-50, 1000, size=[sizes[k] for k in margins[i]]) for i in chosen}
    return Case(sizes, measured, {margin: float(10 ** rng.uniform(-2, 2)) for margin in measured})
