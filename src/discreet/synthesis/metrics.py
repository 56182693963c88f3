"""How far synthetic rows are from the data, as upper bounds that hold with a stated confidence. Nothing more is paid.

What is known of the data is what was measured: y = x + z, with z the noise. The distance of the rows to y, *less* what noise
usually is, would be no bound: a real distance hides in the noise. So the noise is added.

**Proof.** Let s be the synthetic counts of R rows, n the number of real rows and N its noisy estimate. x has no negative
cell. Write y⁺ for y without its negative part y⁻. For x ≥ 0, ‖y⁺ − x‖₁ = ‖y − x‖₁ − ‖y⁻‖₁, cell by cell. So

    ‖s/R − x/n‖₁ ≤ ‖s/R − y⁺/N‖₁ + (‖z‖₁ − ‖y⁻‖₁)/N + |n/N − 1|,

where Q replaces ‖z‖₁ and t replaces |n − N|, each with P(exceeded) ≤ β. Total variation is half of that. Q is Chernoff's
bound on a sum of independent |z|, whose moments are summed from the distribution that is drawn; t is a half-width of
`tabulation.intervals`. All tables hold at once: their β's add up. A table that lies in a measured one is at most as far off
as that (summing cells up moves no two tables apart); a table that lies in none has no bound, because nothing was measured of
it.

The bounds are about the data after bounding: at most k rows of each unit, within the declared keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil, comb, erfc, fsum, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc as erfc_array
from scipy.special import log_ndtr

from discreet._numbers import Number, check_confidence, nearest_float
from discreet.errors import BadParameter
from discreet.formats import count_things
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise.lattice_gaussian import weights
from discreet.synthesis.cells import check_codes, check_domain
from discreet.synthesis.measuring import NoisyTable
from discreet.synthesis.raking import flatten_codes
from discreet.tabulation.intervals import SAFETY_FACTOR, CountNoise, half_width, miss_probability
from discreet.tabulation.margins import Floats, Margin

MAX_SUMMED_SIGMA = 4096.0
"""Up to this σ the moments of the rounded Gaussian are summed; beyond it those of |Z| + ½ bound them."""

CUT = 12.0
"""Sums stop at so many σ. What is beyond has a probability below 10⁻³², which is added."""


@dataclass(frozen=True)
class TableBounds:
    """Upper bounds on the total variation between synthetic and real tables of one number of columns."""

    ways: int
    bounds: dict[Margin, float]
    """The tables that have a bound."""
    unbounded: int
    """How many tables have none, because no measured table contains them."""

    @property
    def mean(self) -> float | None:
        """The mean over the tables that have a bound."""
        return fsum(self.bounds.values()) / len(self.bounds) if self.bounds else None

    @property
    def largest(self) -> float | None:
        """The largest over the tables that have a bound."""
        return max(self.bounds.values(), default=None)

    def __str__(self) -> str:
        kind = f"{self.ways}-way table"
        if not self.bounds:
            return f"No bound for the {count_things(self.unbounded, kind)}: no measured table contains one of them."
        counted = count_things(len(self.bounds), kind)
        text = f"{counted}: total variation at most {self.mean:.3g} on average, {self.largest:.3g} at most."
        others = "1 other has" if self.unbounded == 1 else f"{self.unbounded} others have"
        rest = f" {others} no bound, because no measured table holds these columns."
        return text + (rest if self.unbounded else "")


@dataclass(frozen=True)
class DistanceBounds:
    """Bounds for tables of one, two and three columns, all of which hold together with the confidence."""

    confidence: float
    tables: tuple[TableBounds, ...]

    def __str__(self) -> str:
        first = f"With {self.confidence:.0%} confidence, all at once, against the bounded data within the declared keys:"
        return "\n".join([first, *map(str, self.tables)])


def bound_distances(
    codes: NDArray[np.int64], sizes: tuple[int, ...], tables: Sequence[NoisyTable], confidence: Number = 0.95,
    ways: tuple[int, ...] = (1, 2, 3),
) -> DistanceBounds:  # fmt: skip
    """Return upper bounds on the distance of synthetic rows from the data, by the noisy tables alone."""
    level, rows = check_confidence(confidence), check_codes(codes, check_domain(sizes))
    if len(rows) == 0:
        raise BadParameter("codes", "empty", "no rows have no distance", "draw at least one row")
    if not tables:
        raise BadParameter(
            "tables", "empty", "a bound is the distance to a noisy table", "give the tables of the measurements"
        )
    failure = miss_probability(level, len(tables) + 1)
    total, error = estimate_total(tables, level, len(tables) + 1)
    columns = tuple(np.ascontiguousarray(column) for column in rows.T)
    measured: dict[Margin, float] = {}
    for table in tables:
        flat = flatten_codes(columns, sizes, table.margin)
        synthetic = np.bincount(flat, minlength=table.values.size).reshape(table.values.shape) / len(rows)
        bound = bound_table(synthetic, table, total, error, failure)
        measured[table.margin] = min(bound, measured.get(table.margin, 1.0))
    return DistanceBounds(level, tuple(_spread(measured, len(sizes), way) for way in ways if way <= len(sizes)))


def bound_table(synthetic: Floats, table: NoisyTable, total: float, error: float, failure: float) -> float:
    """Return the bound for one measured table; `synthetic` holds shares."""
    if total <= 0:
        return 1.0
    negative = -float(np.minimum(table.values, 0).sum())
    distance = float(np.abs(synthetic - np.maximum(table.values, 0) / total).sum())
    noise = max(0.0, bound_noise(table.noise, table.values.size, failure) - negative)
    return min(1.0, (distance + (noise + error) / total) / 2 * SAFETY_FACTOR)


def _spread(measured: dict[Margin, float], columns: int, way: int) -> TableBounds:
    found: dict[Margin, float] = {}
    for margin, bound in measured.items():
        for part in combinations(margin, way):
            found[part] = min(bound, found.get(part, 1.0))
    return TableBounds(way, dict(sorted(found.items())), comb(columns, way) - len(found))


def estimate_total(tables: Sequence[NoisyTable], confidence: Number, statements: int = 1) -> tuple[float, float]:
    """Return the noisy number of rows and its half-width, where so many statements hold together with the confidence.

    The sums of all tables are weighted by their precisions; `rounded` and `discrete` are as in `intervals.half_width`.
    """
    precisions = [1 / (table.variance * table.values.size) for table in tables]
    shares = [precision / fsum(precisions) for precision in precisions]
    total = fsum(share * float(table.values.sum()) for share, table in zip(shares, tables, strict=True))
    rounded = discrete = squares = 0.0
    for share, table in zip(shares, tables, strict=True):
        own, sigma = share**2 * table.values.size, nearest_float(table.noise.sigma)
        if isinstance(table.noise, Gaussian):
            rounded, squares = rounded + own * sigma**2, squares + own
        else:
            discrete += own * sigma**2
    return total, half_width((rounded, squares), discrete, confidence, statements) * SAFETY_FACTOR


@lru_cache(maxsize=1024)
def bound_noise(noise: CountNoise, cells: int, failure: float) -> float:
    """Return a Q with P(the sum of |noise| over so many cells > Q) ≤ failure: Chernoff's bound.

    Every λ > 0 gives a bound, (cells·ln E e^{λ|z|} + ln 1/β)/λ; the smallest of a grid is taken.
    """
    sigma = nearest_float(noise.sigma)
    slopes = np.geomspace(1e-4, 5, 120) / sigma
    if isinstance(noise, Gaussian) and sigma > MAX_SUMMED_SIGMA:
        beyond, moments = 0.0, (slopes * sigma) ** 2 / 2 + log(2) + log_ndtr(slopes * sigma) + slopes / 2
    else:
        law, beyond = _list_magnitudes(noise, sigma)
        moments = np.array([np.log(np.exp(slope * np.arange(law.size)) @ law) for slope in slopes])
    left = failure - cells * beyond
    if left <= 0:
        return float("inf")
    return float(((cells * moments + log(1 / left)) / slopes).min()) * SAFETY_FACTOR


def _list_magnitudes(noise: CountNoise, sigma: float) -> tuple[Floats, float]:
    """Return P(|z| = k) up to the cut, and a bound on what is beyond it."""
    if isinstance(noise, Gaussian):
        ends = (np.arange(ceil(CUT * sigma) + 2) - 0.5) / (sigma * sqrt(2))
        above = np.asarray(erfc_array(np.maximum(ends, 0.0)))  # P(|Z| ≥ k − ½)
        return above[:-1] - above[1:], erfc(float(ends[-1]))
    law = weights(noise.sigma**2, 128)
    total = sum(law.values)
    return np.array([value / total for value in law.values]), len(law.values) * law.error / total
