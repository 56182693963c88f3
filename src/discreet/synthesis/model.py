"""The tree model: fitted to noisy tables in closed form, and sampled down the tree. All of it is post-processing.

**Fitting.** Least squares by residuals: every table of a tree is a sum of its total, the centred parts of its columns, and
what is left of it. The total, and the centred part of a column, are seen by several tables: the column's own with precision
1/σ², an edge's with 1/(σ²·n), n being the size of the other column. Their means weighted by precision are the generalised
least-squares estimate, because the centred parts of independent noise are uncorrelated (`tabulation.residuals`, here without
its bookkeeping). What is left of an edge is seen once. Then each table is projected on nonnegative numbers with the
estimated total, and each edge is scaled to the margins of its columns (iterative proportional fitting of one table), so that
all of them agree. Without noise every step is the identity: the model's conditional distributions are those of the data.

**Sampling.** Columns are drawn from the root down, given their parent, by quotas: how many rows with a value of the parent
get each value of the child is the expected number, rounded so that errors do not add up, and which of these rows is random.
So the tables on the edges come out as the model has them, to about one row a cell; rows are not drawn independently.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import check_int
from discreet.errors import BadParameter
from discreet.synthesis.measuring import NoisyTable
from discreet.synthesis.tree import TreeMeasurements, project_to_simplex
from discreet.tabulation.margins import Floats, Margin

SCALING_ROUNDS = 20
SCALING_ERROR = 1e-9
"""Edges are scaled to the margins of their columns until they are so near, in shares, or so often."""


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A distribution over all columns: shares of each column's values, and of each edge's pairs of values."""

    measurements: TreeMeasurements
    total: float
    columns: tuple[Floats, ...]
    edges: Mapping[Margin, Floats]

    @property
    def order(self) -> list[tuple[int, int | None]]:
        """The columns with their parents, from the roots down."""
        near: dict[int, list[int]] = {column: [] for column in range(len(self.columns))}
        for left, right in self.edges:
            near[left].append(right)
            near[right].append(left)
        found: dict[int, int | None] = {}
        for root in sorted(near, key=lambda column: -len(near[column])):
            todo: list[tuple[int, int | None]] = [] if root in found else [(root, None)]
            while todo:
                column, parent = todo.pop()
                found[column] = parent
                todo += [(child, column) for child in near[column] if child not in found]
        return list(found.items())

    def conditional(self, child: int, parent: int) -> Floats:
        """Return the shares of the child's values, one row for each value of the parent."""
        edge = self.edges[parent, child] if parent < child else self.edges[child, parent].T
        sums = edge.sum(1, keepdims=True)
        return np.where(sums > 0, edge / np.where(sums > 0, sums, 1.0), self.columns[child])

    def pair(self, left: int, right: int) -> Floats:
        """Return the model's shares of the pairs of values of any two columns, along the path between them."""
        reached = {left: np.diag(self.columns[left])}
        todo = [left]
        while todo:
            here = todo.pop()
            for edge in self.edges:
                if here in edge:
                    there = edge[1] if edge[0] == here else edge[0]
                    if there not in reached:
                        reached[there] = reached[here] @ self.conditional(there, here)
                        todo.append(there)
        return reached[right] if right in reached else np.outer(self.columns[left], self.columns[right])

    def sample(
        self, rows: int | Literal["auto"] = "auto", generator: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Return synthetic rows as codes, one column each; "auto" are as many as the noisy total, never the exact one.

        Sampling is post-processing, so any generator will do; by default it is seeded by the operating system.
        """
        n = count_rows(rows, self.total)
        draw = np.random.Generator(np.random.SFC64()) if generator is None else generator
        codes = np.zeros((len(self.columns), n), np.int64)
        whole, by_parent = RowGroups.whole(n), dict[int, RowGroups]()
        for column, parent in self.order:
            if parent is None:
                codes[column] = draw_by_quota(whole, self.columns[column][None, :], draw)
                continue
            if parent not in by_parent:
                by_parent[parent] = RowGroups.of(codes[parent], len(self.columns[parent]))
            codes[column] = draw_by_quota(by_parent[parent], self.conditional(column, parent), draw)
        return codes.T


def count_rows(rows: int | Literal["auto"], total: float) -> int:
    """Return how many rows are drawn: the number that is given, or the noisy total.

    >>> count_rows("auto", 99.6), count_rows(7, 99.6)
    (100, 7)
    """
    if rows == "auto":
        return max(1, round(total))
    if isinstance(rows, str):
        raise BadParameter("rows", repr(rows), "no number of rows", 'give a number, or "auto" for the noisy total')
    return check_int(rows, "rows", 1)


def fit(measurements: TreeMeasurements) -> TreeModel:
    """Return the tree model of the measurements."""
    columns = [table.values.astype(np.float64) for table in measurements.columns]
    edges = {table.margin: table.values.astype(np.float64) for table in measurements.edges}
    total, sums = fuse_columns(columns, edges, measurements.columns, measurements.edges)
    shares = tuple(project_to_simplex(values, total) / total for values in sums)
    fitted: dict[Margin, Floats] = {}
    for edge, table in edges.items():
        left, right = edge
        agreeing = table + (sums[left] - table.sum(1))[:, None] / table.shape[1]
        agreeing = agreeing + (sums[right] - agreeing.sum(0)) / table.shape[0]
        fitted[edge] = scale_to_margins(project_to_simplex(agreeing, total) / total, shares[left], shares[right])
    return TreeModel(measurements, total, shares, fitted)


def fuse_columns(
    columns: list[Floats], edges: Mapping[Margin, Floats], column_tables: tuple[NoisyTable, ...],
    edge_tables: tuple[NoisyTable, ...],
) -> tuple[float, list[Floats]]:  # fmt: skip
    """Return the least-squares estimates of the total and of the one-way tables from all tables that see them."""
    seen: list[list[tuple[float, Floats]]] = [
        [(1 / table.variance, values)] for table, values in zip(column_tables, columns, strict=True)
    ]
    totals = [
        (1 / (table.variance * values.size), values.sum()) for table, values in zip(column_tables, columns, strict=True)
    ]
    for table in edge_tables:
        (left, right), values = table.margin, edges[table.margin]
        seen[left].append((1 / (table.variance * values.shape[1]), values.sum(1)))
        seen[right].append((1 / (table.variance * values.shape[0]), values.sum(0)))
        totals.append((1 / (table.variance * values.size), values.sum()))
    total = max(1.0, float(sum(weight * value for weight, value in totals) / sum(weight for weight, _ in totals)))
    sums = []
    for views in seen:
        mean = np.asarray(sum(weight * values for weight, values in views) / sum(weight for weight, _ in views))
        sums.append(mean - mean.mean() + total / mean.size)
    return total, sums


def scale_to_margins(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return a table with these sums of its rows and columns, near the one that is given.

    Rows and columns are scaled in turn, starting a little inside where the table is 0. What is missing in the end is added
    as a product, which makes the sums exact [AWR17, Alg. 2].
    """
    scaled = table + 1e-9 * np.outer(rows, columns)
    for _ in range(SCALING_ROUNDS):
        scaled *= _divide(rows, scaled.sum(1))[:, None]
        sums = scaled.sum(0)
        scaled *= _divide(columns, sums)
        if np.abs(sums - columns).sum() < SCALING_ERROR:
            break
    scaled *= np.minimum(_divide(rows, scaled.sum(1)), 1.0)[:, None]
    scaled *= np.minimum(_divide(columns, scaled.sum(0)), 1.0)
    short, narrow = np.maximum(rows - scaled.sum(1), 0.0), np.maximum(columns - scaled.sum(0), 0.0)
    missing = max(float(short.sum()), float(narrow.sum()))
    return scaled + np.outer(short, narrow) / missing if missing > SCALING_ERROR**2 else scaled


def _divide(wanted: Floats, found: Floats) -> Floats:
    """Return by how much sums must be scaled. A sum of 0 stays 0 whatever it is multiplied by, so it only must be finite."""
    return wanted / (found + 1e-300)


class RowGroups(NamedTuple):
    """Rows by the value of a column: which rows, one value after the other, and how many have each."""

    places: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, codes: NDArray[np.int64], values: int) -> "RowGroups":
        """Return the rows by a column of so many values."""
        small = codes.astype(np.min_scalar_type(values))  # small integers are sorted by radix
        return cls(np.argsort(small, kind="stable"), np.bincount(codes, minlength=values))

    @classmethod
    def whole(cls, rows: int) -> "RowGroups":
        """Return all rows as one group."""
        return cls(np.arange(rows), np.array([rows]))


def draw_by_quota(groups: RowGroups, shares: Floats, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return a value for each row, given its parent's value: as many of each as `shares` says, at random places."""
    counts = round_quotas(shares * groups.sizes[:, None], groups.sizes)
    values = np.repeat(np.tile(np.arange(shares.shape[1]), len(shares)), counts.ravel())
    start = 0
    for size in groups.sizes.tolist():
        generator.shuffle(values[start : start + size])
        start += size
    drawn = np.empty(len(values), np.int64)
    drawn[groups.places] = values
    return drawn


def round_quotas(quotas: Floats, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round to integers whose rows add up to `groups`; what a column lost in one row it is owed in the next.

    >>> round_quotas(np.array([[0.5, 0.5], [1.5, 0.5]]), np.array([1, 2]))
    array([[1, 0],
           [1, 1]])
    """
    low = np.floor(quotas)
    counts, fractions = low.astype(np.int64), quotas - low
    missing = groups - counts.sum(1)
    barred = np.where(quotas > 0, 0.0, np.inf)
    owed = np.zeros(quotas.shape[1])
    for place, many in enumerate(missing.tolist()):
        owed += fractions[place]
        if many > 0:
            chosen = np.argpartition(barred[place] - owed, many - 1)[:many]
            counts[place, chosen] += 1
            owed[chosen] -= 1
    return counts
