"""k-means: a noisy histogram finds where the clusters are, two noisy rounds of Lloyd's algorithm place their centres.

**Theory of operation.** Numbers are u, parts of their half-range from the middle of their bounds, from −1 to 1.

1. *Histogram* (half of μ²). Rows are counted in the cells of a public grid. Beyond `GRID_COLUMNS` columns, or where noise
allows few cells, they are first projected onto as many public directions of signs. Cells below three deviations of the
noise are dropped; k-means++ with restarts on the others, weighted by their noisy counts, is post-processing and free. 2.
*Two rounds* (the other half). Every row goes to its nearest centre, the first time in the space of the histogram. Count and
sum of each cluster are released, and move its centre, the less the fewer records it has beside the noise.

**Proof** of the sensitivity. A record is in one cell: it moves the histogram by 1, replaced by √2. In a round it adds (κ,
u) to the block of its cluster, where κ ≤ √p: its squared length is at most 2p. Replaced within its cluster, κ does not move
and u moves by at most 2√p; with another cluster both lengths add up: 4p in both cases. Which cluster that is depends on its
own row and on released centres alone: centres, directions and rows are integers, and products in doubles stay below 2⁵³, so
they are exact, whatever other rows there are. With k records of a unit all that is k times as far. ∎

The grid is finer the more records are expected beside the noise, which is public: cells ≈ `expected`/(σ·`CELL_NOISE`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number, check_int
from discreet.errors import BadParameter
from discreet.learn.charging import FitPlan, NoisyVector, Payer, Released, bound_unit
from discreet.learn.estimator import Declaration, PrivateEstimator
from discreet.learn.features import HALF, ColumnBounds, Design, Ints
from discreet.learn.moments import list_scales
from discreet.learn.naive_bayes import require_numbers
from discreet.learn.records import Rows
from discreet.learn.scoring import Floats, choose_first_best
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits
from discreet.units import Neighbours

GRID_COLUMNS = 6
"""Columns of the grid of the histogram; beyond them rows are projected."""

ROUNDS = 2
"""Noisy rounds of Lloyd's algorithm."""

MAX_CLUSTERS = 1 << 12
"""Clusters: each has a count and a sum in every round, with noise."""

MAX_CELLS = 1 << 18
MAX_BINS = 32
MIN_BINS = 4
"""Bins of each direction of a projection: where the noise allows fewer, there are fewer directions."""

CELL_NOISE = 1.0
"""How many deviations of noise there is one cell for, of the expected records."""

RESTARTS = 10
LLOYD_STEPS = 30
SPREAD = 1.5
"""Projected rows are clamped at this many times √p half-ranges: beyond, almost none lie."""

PUBLIC_SEED = 20_260
"""Of the projection and of the starts on noisy cells: neither needs to be secret."""


@dataclass(frozen=True)
class PublicGrid:
    """The cells of the histogram: a projection, if there are many columns, and bins of equal width in each direction."""

    columns: int
    directions: int
    bins: int

    @classmethod
    def choose(cls, columns: int, expected: int, sigma: float) -> "PublicGrid":
        """Return the grid with about one cell for each `CELL_NOISE`·σ of the expected records: from public numbers alone.

        >>> PublicGrid.choose(2, 10_000, 4.0), PublicGrid.choose(5, 10_000, 40.0)
        (PublicGrid(columns=2, directions=2, bins=32), PublicGrid(columns=5, directions=5, bins=3))
        """
        cells = min(max(expected / (CELL_NOISE * sigma), 2.0), MAX_CELLS)
        directions = min(columns, GRID_COLUMNS)
        if directions < columns or cells < 3**directions:
            directions = int(np.clip(int(log(cells, MIN_BINS) + 1e-9), 1, directions))
        return cls(columns, directions, int(np.clip(int(cells ** (1 / directions) + 1e-9), 2, MAX_BINS)))

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.bins**self.directions)

    @property
    def is_projected(self) -> bool:
        """Whether rows are projected."""
        return self.columns > self.directions

    @property
    def limit(self) -> int:
        """The largest coordinate of a row in the grid, on the grid of rows."""
        return int(SPREAD * HALF * self.columns**0.5) if self.is_projected else HALF

    def project(self, numbers: NDArray[np.int32]) -> Floats:
        """Return the coordinates of rows: integers, clamped. They are sums of whole columns, or the columns themselves."""
        rows = numbers.astype(np.float64)
        if not self.is_projected:
            return rows
        signs = np.random.default_rng(PUBLIC_SEED).choice([-1.0, 1.0], (self.columns, self.directions))
        clamped: Floats = np.clip(rows @ signs, -self.limit, self.limit)
        return clamped

    def count_rows(self, projected: Floats) -> Ints:
        """Return how many rows are in each cell."""
        steps = (projected.astype(np.int64) + self.limit) * self.bins // (2 * self.limit + 1)
        places = np.zeros(len(steps), np.int64)
        for place in range(self.directions):
            places = places * self.bins + steps[:, place]
        return np.bincount(places, minlength=self.cells).astype(np.int64)

    def list_middles(self, cells: NDArray[np.intp]) -> Floats:
        """Return the middles of cells, in the coordinates of projected rows."""
        found = np.empty((len(cells), self.directions))
        rest = cells
        for place in reversed(range(self.directions)):
            found[:, place] = (rest % self.bins + 0.5) * (2 * self.limit / self.bins) - self.limit
            rest = rest // self.bins
        return found


def find_start(grid: PublicGrid, counts: Ints, sigma: float, clusters: int) -> Floats:
    """Return centres in the grid, from noisy counts: k-means++ with restarts, then Lloyd's algorithm on weighted cells."""
    weights = counts.astype(np.float64)
    kept = np.flatnonzero(weights > 3 * sigma)
    if len(kept) < clusters:
        kept = np.argsort(-weights, kind="stable")[: min(4 * clusters, grid.cells)]
    points, weights = grid.list_middles(kept), np.maximum(weights[kept], 1.0)
    generator = np.random.default_rng(PUBLIC_SEED)
    best, lowest = points[:1], np.inf
    for _ in range(RESTARTS):
        centres = start_apart(points, weights, clusters, generator)
        for _ in range(LLOYD_STEPS):
            nearest = np.argmin(measure_distances(points, centres), axis=1)
            held = np.bincount(nearest, weights, clusters)
            sums = np.stack([np.bincount(nearest, weights * column, clusters) for column in points.T], axis=1)
            moved = np.where(held[:, None] > 0, sums / np.maximum(held, 1e-9)[:, None], centres)
            if np.allclose(moved, centres, atol=1.0):
                break
            centres = moved
        spread = float(weights @ measure_distances(points, centres).min(axis=1))
        if spread < lowest:
            best, lowest = centres, spread
    return best


def start_apart(points: Floats, weights: Floats, clusters: int, generator: np.random.Generator) -> Floats:
    """Return centres drawn one by one, in proportion to the squared distance from those before: k-means++."""
    centres = np.empty((clusters, points.shape[1]))
    centres[0] = points[generator.choice(len(points), p=weights / weights.sum())]
    nearest = ((points - centres[0]) ** 2).sum(axis=1)
    for place in range(1, clusters):
        chances = weights * nearest
        total = chances.sum()
        shares = chances / total if total > 0 else weights / weights.sum()
        centres[place] = points[generator.choice(len(points), p=shares)]
        nearest = np.minimum(nearest, ((points - centres[place]) ** 2).sum(axis=1))
    return centres


def measure_distances(points: Floats, centres: Floats) -> Floats:
    """Return squared distances of public points from public centres."""
    squares: Floats = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2)
    return squares


def find_nearest(rows: Floats, centres: Floats) -> NDArray[np.intp]:
    """Return the nearest of integer centres for rows of integers, exactly: the largest 2⟨u, c⟩ − ‖c‖²."""
    whole = np.rint(centres)
    return choose_first_best(2 * (rows @ whole.T) - (whole * whole).sum(axis=1))


@dataclass(frozen=True)
class Lloyd:
    """The noisy rounds: what is summed, and how released sums move centres."""

    columns: int
    clusters: int

    @property
    def count_scale(self) -> int:
        """κ, what a record adds to the count of its cluster: at most √p half-ranges, on the grid."""
        return isqrt(self.columns * HALF * HALF)

    def sum_clusters(self, numbers: NDArray[np.int32], nearest: NDArray[np.intp]) -> Ints:
        """Return κ·count and sums of each cluster."""
        sums = np.zeros((self.clusters, 1 + self.columns), np.int64)
        sums[:, 0] = np.bincount(nearest, minlength=self.clusters) * self.count_scale
        for place in range(self.columns):  # integers below 2¹⁵ times the rows: exact in doubles up to 2³⁷ rows
            sums[:, 1 + place] = np.bincount(nearest, numbers[:, place], self.clusters).astype(np.int64)
        return sums

    def move_centres(self, sums: Ints, before: Floats, error: float, sigma: float) -> Floats:
        """Return the centres that released sums give, averaged with those before by the inverse of their variances.

        `error` is the variance of a coordinate of those before, in squared half-ranges; that of a noisy mean of m records is
        (σ/m)².
        """
        noise = sigma / HALF
        held = np.maximum(sums[:, 0] / self.count_scale, 1.0)
        found = np.clip(sums[:, 1:] / held[:, None], -HALF, HALF)
        trust = error / (error + (noise / held) ** 2)
        centres: Floats = np.rint(before + trust[:, None] * (found - before))
        return centres

    def follow(self, grid: PublicGrid, start: Floats, rounds: Sequence[Ints], sigma: float) -> Floats:
        """Return where released sums take the centres: post-processing, the same while rows are read and afterwards."""
        if grid.is_projected:  # the start is in another space; what is known of the centres is where all rows lie
            held = max(float(rounds[0][:, 0].sum()) / self.count_scale, 1.0)
            overall = np.clip(rounds[0][:, 1:].sum(axis=0) / held, -HALF, HALF)
            centres, error = np.repeat(overall[None], self.clusters, axis=0), 1 / 3
        else:
            centres, error = start, (1 / grid.bins) ** 2 / 3
        for sums in rounds:
            centres = self.move_centres(sums, centres, error, sigma)
            error = (1 / grid.bins) ** 2 / 12
        return centres


class KMeans(PrivateEstimator):
    """k-means clustering of declared numbers, each in half-ranges of its bounds.

    `cluster_centers_` are in the units of the data. The inertia of private records is a release of its own: see
    `discreet.learn.release_metrics`.

    >>> import numpy as np
    >>> from discreet.testing import seeded_bits
    >>> generator = np.random.default_rng(0)
    >>> X = np.concatenate([generator.normal(place, 0.3, (3000, 2)) for place in (-2, 2)])
    >>> model = KMeans(2, epsilon=1, delta=1e-6, bounds=(-4, 4), expected=6_000).fit(X, bits=seeded_bits(1))
    >>> sorted(model.cluster_centers_.round().tolist()), len(set(model.predict([[-2, -2], [2, 2]])))
    ([[-2.0, -2.0], [2.0, 2.0]], 2)
    """

    KIND = "clusterer"
    NEEDS_TARGET = False

    cluster_centers_: Floats

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        expected: int | None = None,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.n_clusters, self.epsilon, self.delta, self.bounds = n_clusters, epsilon, delta, bounds
        self.expected, self.neighbours, self.account = expected, neighbours, account

    categories = None

    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        numbers = require_numbers(declared, "distances are those of numbers", "leave them out")
        if check_int(self.n_clusters, "n_clusters", 1) > MAX_CLUSTERS:
            reason = f"at most {MAX_CLUSTERS:,} are found in noisy counts"
            raise BadParameter("n_clusters", self.n_clusters, reason, "take fewer")
        cell = bound_unit(1, declared.neighbours, declared.max_rows, nonnegative=True)
        round_length = (2 if declared.neighbours is Neighbours.ADD_REMOVE else 4) * numbers
        moved = Fraction(round_length * HALF * HALF * declared.max_rows**2)
        return (NoisyVector("cells", cell, Fraction(1, 2)), NoisyVector("rounds", moved, Fraction(1, 2), ROUNDS))

    def _make_grid(self, declared: Declaration, noise: Gaussian) -> PublicGrid:
        return PublicGrid.choose(len(declared.features.numbers), declared.expected, float(noise.sigma))

    def _list_shapes(self, declared: Declaration) -> Mapping[str, tuple[int, ...]]:
        return self.list_shapes(declared, self._plan(declared, self._list_vectors(declared)).noises)

    def list_shapes(self, declared: Declaration, noises: Mapping[str, Gaussian]) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of what is released: the grid is finer with less noise."""
        grid = self._make_grid(declared, noises["cells"])
        return {"cells": (grid.cells,), "rounds": (ROUNDS, self.n_clusters, 1 + grid.columns)}

    def _release(self, declared: Declaration, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        grid = self._make_grid(declared, noises["cells"])
        lloyd = Lloyd(grid.columns, self.n_clusters)
        numbers, sigma = rows.design.numbers, float(noises["rounds"].sigma)
        projected = grid.project(numbers)
        cells = noises["cells"].release(grid.count_rows(projected), bits)
        start = find_start(grid, cells, float(noises["cells"].sigma), self.n_clusters)
        nearest, rounds = find_nearest(projected, start), []
        for _ in range(ROUNDS):
            rounds.append(noises["rounds"].release(lloyd.sum_clusters(numbers, nearest), bits))
            nearest = find_nearest(numbers.astype(np.float64), lloyd.follow(grid, start, rounds, sigma))
        return {"cells": cells, "rounds": np.stack(rounds)}

    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        cell_noise, sigma = float(plan.noises["cells"].sigma), float(plan.noises["rounds"].sigma)
        grid = self._make_grid(declared, plan.noises["cells"])
        start = find_start(grid, released["cells"], cell_noise, self.n_clusters)
        self._centres = Lloyd(grid.columns, self.n_clusters).follow(grid, start, [*released["rounds"]], sigma)
        scales = list_scales(declared.features)
        self.cluster_centers_ = scales.middles + scales.halves * (self._centres / HALF)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the cluster of each row, which is the caller's own."""
        return choose_first_best(self.score_rows(self._encode(X)))

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> NDArray[np.intp]:
        """Fit, for one debit, and return the clusters of the rows: of the private rows themselves."""
        return self.fit(X, None, **options).predict(X)

    def score_rows(self, design: Design) -> Floats:
        """Return minus the squared distance of each row from each centre, in squared half-ranges, column by column."""
        scores = np.zeros((design.rows, len(self._centres)))
        for place in range(design.numbers.shape[1]):
            offsets = (design.numbers[:, place, None] - self._centres[None, :, place]) * (1 / HALF)
            scores -= offsets * offsets
        return scores
