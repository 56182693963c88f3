"""The oracle of tabulations: the same estimates, variances and weights from one dense least-squares problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.tabulation.margins import Contrast, Margin, Measured, axes_of, list_closure


def summing_matrix(sizes: tuple[int, ...], measured: Measured) -> NDArray[Any]:
    """The matrix that makes the table of a margin, or a contrast, of the table of all columns."""
    matrix, contrasted = np.ones((1, 1)), measured.columns if isinstance(measured, Contrast) else ()
    for column, size in enumerate(sizes):
        summed = np.array([[1.0, -1.0]]) if column in contrasted else np.ones((1, size))
        matrix = np.kron(matrix, np.eye(size) if column in axes_of(measured) else summed)
    return matrix


@dataclass(frozen=True)
class Dense:
    """Generalised least squares by a pseudo-inverse, over all cells of all columns."""

    sizes: tuple[int, ...]
    variances: Mapping[Any, float]

    @cached_property
    def solver(self) -> NDArray[Any]:
        """The matrix that makes the table of all columns of the measured tables."""
        design = np.concatenate([summing_matrix(self.sizes, each) for each in self.variances])
        precisions = np.concatenate(
            [np.full(prod(self.sizes[i] for i in axes_of(a)), 1 / v) for a, v in self.variances.items()]
        )
        root = np.sqrt(precisions)
        return np.asarray(np.linalg.pinv(design * root[:, None], rcond=1e-11) * root)

    def weights(self, margin: Margin) -> dict[Any, NDArray[Any]]:
        """The matrix by which each measured table enters the estimated one."""
        rows = summing_matrix(self.sizes, margin) @ self.solver
        ends = np.cumsum([prod(self.sizes[i] for i in axes_of(each)) for each in self.variances])[:-1]
        return dict(zip(self.variances, np.split(rows, ends, axis=1), strict=True))

    def estimate(self, margin: Margin, measured: Mapping[Any, NDArray[Any]]) -> NDArray[Any]:
        total = sum(matrix @ measured[each].reshape(-1) for each, matrix in self.weights(margin).items())
        return np.asarray(total).reshape([self.sizes[i] for i in margin])

    def covariance(self, margin: Margin) -> NDArray[Any]:
        return np.asarray(sum(matrix @ matrix.T * self.variances[each] for each, matrix in self.weights(margin).items()))

    def squared_weights(self, margin: Margin) -> dict[Any, float]:
        return {each: float((matrix[0] ** 2).sum()) for each, matrix in self.weights(margin).items()}


@dataclass(frozen=True)
class Case:
    """A random domain with some measured tables; `wanted` are all tables that can be estimated."""

    sizes: tuple[int, ...]
    measured: dict[Any, NDArray[Any]]
    variances: dict[Any, float]

    @property
    def wanted(self) -> list[Margin]:
        if any(isinstance(each, Contrast) for each in self.measured):
            return self.list_estimable()
        return list_closure(self.measured)

    def list_estimable(self) -> list[Margin]:
        """The margins whose tables are linear functions of what was measured, by the rank of a matrix."""
        design = np.concatenate([summing_matrix(self.sizes, each) for each in self.measured])
        held = np.linalg.matrix_rank(design)
        tables = {margin: summing_matrix(self.sizes, margin) for margin in list_closure([tuple(range(len(self.sizes)))])}
        return [margin for margin, rows in tables.items() if np.linalg.matrix_rank(np.concatenate([design, rows])) == held]


def draw_case(seed: int) -> Case:
    """One to four columns of one to five values, and any tables of them with variances from 0.01 to 100."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 5))
    sizes = tuple(rng.integers(1, 6, size=columns).tolist())
    margins = list_closure([tuple(range(columns))])
    chosen = rng.choice(len(margins), size=int(rng.integers(1, len(margins) + 1)), replace=False)
    measured = {margins[i]: rng.integers(-50, 1000, size=[sizes[k] for k in margins[i]]) for i in chosen}
    return Case(sizes, measured, {margin: float(10 ** rng.uniform(-2, 2)) for margin in measured})


def list_measurable(sizes: tuple[int, ...], margins: list[Margin]) -> list[Measured]:
    """All whole tables, and all contrasts of them over any of their binary columns."""
    found: list[Measured] = []
    for margin in margins:
        for columns in list_closure([tuple(i for i in margin if sizes[i] == 2)]):
            by = tuple(i for i in margin if i not in columns)
            found.append(Contrast(columns, by) if columns else margin)
    return found


def draw_contrast_case(seed: int) -> Case:
    """One to four columns, most of them binary, and any whole tables and contrasts of them; the total is among them."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.choice([1, 2, 2, 2, 3, 4], size=int(rng.integers(1, 5))).tolist())
    measurable = list_measurable(sizes, list_closure([tuple(range(len(sizes)))]))
    chosen = rng.choice(len(measurable), size=int(rng.integers(1, min(12, len(measurable)) + 1)), replace=False)
    keys = [*dict.fromkeys([(), *(measurable[i] for i in chosen)])]
    measured = {each: rng.integers(-500, 1000, size=[sizes[k] for k in axes_of(each)]) for each in keys}
    return Case(sizes, measured, {each: float(10 ** rng.uniform(-2, 2)) for each in measured})
