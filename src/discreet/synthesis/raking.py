"""A model as weighted rows: drawn down a tree, then raked to every measured table. All of it is post-processing.

The measured tables are combined by least squares (`tabulation.residuals`), so that they agree, and projected on nonnegative
numbers. Rows are drawn from a tree of the pairs that depend most on each other, as `model` does, and their weights are
multiplied until the weighted rows have the measured tables, one table after another (raking, iterative proportional
fitting). So any table of the model is at hand, measured or not. This is a heuristic: all that is proven about it is what
`metrics` bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import pi, prod, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.synthesis.measuring import NoisyTable
from discreet.synthesis.model import RowGroups, count_rows, draw_by_quota, scale_to_margins
from discreet.synthesis.tree import project_to_simplex
from discreet.tabulation.margins import Floats, Margin, Measured, columns_of, shape_of
from discreet.tabulation.residuals import Residuals, cell_variance, combine

FUSED_STEPS = 1 << 10
"""A table that was measured twice is a weighted mean, in integers of 1/FUSED_STEPS rows."""

MODEL_ROWS = 20_000
SWEEPS = 12
MAX_FACTOR = 8.0
"""A weight changes at most by this factor at a time: a cell with few rows does not run away."""


@dataclass(frozen=True, eq=False)
class RakedRows:
    """Rows with weights that add up to the noisy total."""

    sizes: tuple[int, ...]
    codes: tuple[NDArray[np.int64], ...]
    weights: Floats

    @property
    def total(self) -> float:
        """The noisy number of rows."""
        return float(self.weights.sum())

    def table(self, margin: Margin) -> Floats:
        """Return the model's counts by the columns of any margin."""
        shape = shape_of(self.sizes, margin)
        flat = flatten_codes(self.codes, self.sizes, margin)
        return np.asarray(np.bincount(flat, self.weights, minlength=prod(shape)), np.float64).reshape(shape)

    def sample(
        self, rows: int | Literal["auto"] = "auto", generator: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Return synthetic rows as codes: each model row as often as its weight says, rounded systematically.

        Rows are sorted first, so that what is rounded down is rounded up in a row like it. "auto" are as many as the noisy
        total.
        """
        draw = np.random.default_rng() if generator is None else generator
        n = count_rows(rows, self.total)
        order = np.lexsort(self.codes)
        upto = np.cumsum(self.weights[order])
        places = np.searchsorted(upto, (np.arange(n) + draw.random()) * (upto[-1] / n), side="right")
        chosen = order[np.minimum(places, len(order) - 1)]
        return draw.permutation(np.stack([column[chosen] for column in self.codes], axis=1))


def flatten_codes(codes: Sequence[NDArray[np.int64]], sizes: tuple[int, ...], margin: Margin) -> NDArray[np.int64]:
    """Return the number of the cell of each row."""
    flat = np.zeros(len(codes[0]), np.int64)
    for column in margin:
        flat = flat * sizes[column] + codes[column]
    return flat


def fit_rows(
    sizes: tuple[int, ...], tables: Sequence[NoisyTable], generator: np.random.Generator, rows: int = MODEL_ROWS
) -> RakedRows:
    """Return weighted rows that have the measured tables, as nearly as nonnegative rows can.

    The tables may be of any margins, such as those of a tabulation; a column that is in none of them is uniform.
    """
    fused, variances = fuse_tables(tables)
    residuals = combine(sizes, fused, variances)
    total = max(1.0, float(residuals.rebuild(())) / FUSED_STEPS)
    margins = [margin for margin in dict.fromkeys(map(columns_of, fused)) if residuals.has(margin)]
    targets = {margin: project_to_simplex(residuals.rebuild(margin) / FUSED_STEPS, total) / total for margin in margins}
    codes = _draw_tree(sizes, targets, residuals, total, generator, rows)
    weights = np.full(rows, 1 / rows)
    wide = [margin for margin in targets if not any(set(margin) < set(other) for other in targets)]
    places = {margin: flatten_codes(codes, sizes, margin) for margin in wide}
    for _ in range(SWEEPS):
        for margin, flat in places.items():
            wanted = targets[margin].ravel()
            found = np.bincount(flat, weights, minlength=wanted.size)
            ratio = np.divide(wanted, found, out=np.ones_like(wanted), where=found > 0)
            weights = weights * np.clip(ratio, 1 / MAX_FACTOR, MAX_FACTOR)[flat]
    return RakedRows(sizes, codes, weights * (total / weights.sum()))


def fuse_tables(tables: Sequence[NoisyTable]) -> tuple[dict[Measured, NDArray[np.int64]], dict[Measured, float]]:
    """Return each measured table and its variance, in steps; a table that was measured twice has the weighted mean."""
    sums: dict[Measured, Floats] = {}
    precisions: dict[Measured, float] = {}
    for table in tables:
        precision = 1 / table.variance
        sums[table.measured] = np.asarray(sums.get(table.measured, 0.0) + precision * table.values)
        precisions[table.measured] = precisions.get(table.measured, 0.0) + precision
    fused = {each: np.rint(value / precisions[each] * FUSED_STEPS).astype(np.int64) for each, value in sums.items()}
    return fused, {each: FUSED_STEPS**2 / precision for each, precision in precisions.items()}


def _draw_tree(
    sizes: tuple[int, ...], targets: dict[Margin, Floats], residuals: Residuals, total: float,
    generator: np.random.Generator, rows: int,
) -> tuple[NDArray[np.int64], ...]:  # fmt: skip
    """Draw rows down the maximum spanning tree of the pairs that some measured table holds."""
    shares = [_estimate_shares(sizes, column, residuals, total) for column in range(len(sizes))]
    pairs = {pair for margin in targets for pair in combinations(margin, 2)}
    tables, gaps = {}, {}
    for left, right in pairs:
        noisy = residuals.rebuild((left, right)) / FUSED_STEPS
        noise = sqrt(2 / pi * cell_variance(sizes, residuals.precisions, (left, right))) / FUSED_STEPS / total * noisy.size
        tables[left, right] = project_to_simplex(noisy, total) / total
        gaps[left, right] = float(np.abs(noisy / total - np.outer(shares[left], shares[right])).sum()) - noise
    codes: dict[int, NDArray[np.int64]] = {}
    while len(codes) < len(sizes):
        open_pairs = [pair for pair in pairs if (pair[0] in codes) != (pair[1] in codes) and gaps[pair] > 0]
        best = max(open_pairs, key=gaps.__getitem__, default=None)
        if best is None:
            column = next(column for column in range(len(sizes)) if column not in codes)
            codes[column] = draw_by_quota(RowGroups.whole(rows), shares[column][None, :], generator)
            continue
        parent, child = best if best[0] in codes else best[::-1]
        table = scale_to_margins(tables[best], shares[best[0]], shares[best[1]])
        table = table if parent == best[0] else table.T
        sums = table.sum(1, keepdims=True)
        given = np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), shares[child])
        codes[child] = draw_by_quota(RowGroups.of(codes[parent], len(given)), given, generator)
    return tuple(codes[column] for column in range(len(sizes)))


def _estimate_shares(sizes: tuple[int, ...], column: int, residuals: Residuals, total: float) -> Floats:
    if not residuals.has((column,)):
        return np.full(sizes[column], 1 / sizes[column])
    return project_to_simplex(residuals.rebuild((column,)) / FUSED_STEPS, total) / total
