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

*Contrasts.* Where the contrast of a table over m binary columns c was measured, by the columns B, the table is put together
as y = 2^-m Σ_{d⊆c} s_d ⊗ y_d: y_d is the contrast over d by B, and s_d has the signs of its cells. Take i ∈ c, and d without
it, with d' = d∪{i}. The parts d and d' add noise to y whose absolute values, over all cells, sum to 2^-m·2^(m−1)·Σ_B(|z_d +
z_d'| + |z_d − z_d'|) = Σ_B max(|z_d|, |z_d'|), a sum of independent numbers: Chernoff's bound gives a Q for each pair. Parts
that were not measured themselves are signed sums of other measured tables, which do not add to Σ|z|: there the Q's of both
are added up. So 2^m statements are enough for a contrast, as 1 is for a whole table. N is estimated from whole
tables, because a contrast does not say how many rows there are.

The bounds are about the data after bounding: at most k rows of each unit, within the declared keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil, comb, erfc, fsum, log, sqrt
from typing import Any

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
from discreet.tabulation.margins import (
    Contrast,
    Floats,
    Margin,
    Measured,
    columns_of,
    list_subsets,
    shape_of,
    take_contrast,
)

MAX_SUMMED_SIGMA = 4096.0
"""Up to this σ the moments of the rounded Gaussian are summed; beyond it those of |Z| + ½ bound them."""

CUT = 12.0
"""Sums stop at so many σ. What is beyond has a probability below 10⁻³², which is added."""

SLOPES = np.geomspace(1e-4, 5, 120)
"""The λ that are tried in Chernoff's bound, in units of 1/σ."""


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
    statements = 1 + sum(1 << len(table.contrast) for table in tables)
    failure = miss_probability(level, statements)
    total, error = estimate_total(tables, level, statements)
    columns = tuple(np.ascontiguousarray(column) for column in rows.T)
    measured: dict[Margin, float] = {}
    known = {table.measured: table for table in tables}
    for table in tables:
        margin, found = columns_of(table.measured), _put_together(table, known, sizes, failure)
        if found is not None:
            values, noise = found
            flat = flatten_codes(columns, sizes, margin)
            synthetic = np.bincount(flat, minlength=values.size).reshape(values.shape) / len(rows)
            measured[margin] = min(_bound(synthetic, values, noise, total, error), measured.get(margin, 1.0))
    return DistanceBounds(level, tuple(_spread(measured, len(sizes), way) for way in ways if way <= len(sizes)))


def _bound(synthetic: Floats, values: NDArray[Any], noise: float, total: float, error: float) -> float:
    """Return the bound for one table; `synthetic` holds shares, and `noise` bounds the sum of |noise| in `values`."""
    if total <= 0:
        return 1.0
    negative = -float(np.minimum(values, 0).sum())
    distance = float(np.abs(synthetic - np.maximum(values, 0) / total).sum())
    return min(1.0, (distance + (max(0.0, noise - negative) + error) / total) / 2 * SAFETY_FACTOR)


def _put_together(
    table: NoisyTable, tables: Mapping[Measured, NoisyTable], sizes: tuple[int, ...], failure: float
) -> tuple[NDArray[Any], float] | None:
    """Return a whole table with a bound on its noise: itself, or the table that a contrast is one part of; None if another
    part was not measured."""
    if not table.contrast:
        return table.values, bound_noise(table.noise, table.values.size, failure)
    margin = columns_of(table.measured)
    values, noise = np.zeros(shape_of(sizes, margin)), 0.0
    first, *others = table.contrast
    for part in list_subsets(tuple(others)):
        one, other = (_read_part(columns, table, tables) for columns in (part, (first, *part)))
        if one is None or other is None:
            return None
        values += _spread_part(one[1], part, table, sizes) + _spread_part(other[1], (first, *part), table, sizes)
        noise += _bound_pair(one[0], other[0], table, failure)
    return values, noise


def _spread_part(known: NDArray[Any], columns: Margin, table: NoisyTable, sizes: tuple[int, ...]) -> NDArray[Any]:
    """What the contrast over some columns adds to the whole table."""
    margin = columns_of(table.measured)
    signs = np.full([2 if i in table.contrast else 1 for i in margin], 0.5 ** len(table.contrast))
    for axis in (axis for axis, i in enumerate(margin) if i in columns):
        signs[(slice(None),) * axis + (1,)] *= -1
    return np.asarray(signs * known.reshape([sizes[i] if i in table.margin else 1 for i in margin]))


def _read_part(
    columns: Margin, table: NoisyTable, tables: Mapping[Measured, NoisyTable]
) -> tuple[NoisyTable, NDArray[Any]] | None:
    """The contrast over some columns by those of a table, and the measured table that it is taken from."""
    source = tables.get(Contrast(columns, table.margin) if columns else table.margin) or _find_part(columns, table, tables)
    if source is None:
        return None
    kept = {*table.margin, *columns}
    sums = source.values.sum(axis=tuple(axis for axis, i in enumerate(source.margin) if i not in kept))
    return source, take_contrast(np.asarray(sums), tuple(i for i in source.margin if i in kept), columns)


def _bound_pair(one: NoisyTable, other: NoisyTable, table: NoisyTable, failure: float) -> float:
    """Bound the sum of absolute noises that two parts of a table add."""
    if one.margin == other.margin == table.margin:
        return bound_larger_noise(one.noise, other.noise, table.values.size, failure)
    return sum(bound_noise(each.noise, each.values.size, failure) for each in (one, other))


def _find_part(part: Margin, table: NoisyTable, tables: Mapping[Measured, NoisyTable]) -> NoisyTable | None:
    """The least noisy table of which the contrast over a part, by the same columns, is a signed sum."""
    sources = [
        each
        for each in tables.values()
        if {*each.contrast} <= {*part} and {*table.margin, *part} - {*each.contrast} <= {*each.margin}
    ]
    return min(sources, key=lambda each: each.values.size * each.variance**0.5, default=None)


def _spread(measured: dict[Margin, float], columns: int, way: int) -> TableBounds:
    found: dict[Margin, float] = {}
    for margin, bound in measured.items():
        for part in combinations(margin, way):
            found[part] = min(bound, found.get(part, 1.0))
    return TableBounds(way, dict(sorted(found.items())), comb(columns, way) - len(found))


def estimate_total(tables: Sequence[NoisyTable], confidence: Number, statements: int = 1) -> tuple[float, float]:
    """Return the noisy number of rows and its half-width, where so many statements hold together with the confidence.

    The sums of all whole tables are weighted by their precisions; `rounded` and `discrete` are as in `intervals.half_width`.
    """
    whole = [table for table in tables if not table.contrast]
    if not whole:
        raise BadParameter(
            "tables", "all contrasts", "they do not say how many rows there are", "give the tables of the measurements"
        )
    precisions = [1 / (table.variance * table.values.size) for table in whole]
    shares = [precision / fsum(precisions) for precision in precisions]
    total = fsum(share * float(table.values.sum()) for share, table in zip(shares, whole, strict=True))
    rounded = discrete = squares = 0.0
    for share, table in zip(shares, whole, strict=True):
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
    slopes = SLOPES / sigma
    if isinstance(noise, Gaussian) and sigma > MAX_SUMMED_SIGMA:
        moments = (slopes * sigma) ** 2 / 2 + log(2) + log_ndtr(slopes * sigma) + slopes / 2
        return _minimise_bound(slopes, moments, cells, failure)
    law, beyond = _list_magnitudes(noise, sigma)
    return _minimise_bound(slopes, _sum_moments(slopes, law), cells, failure - cells * beyond)


@lru_cache(maxsize=1024)
def bound_larger_noise(one: CountNoise, other: CountNoise, cells: int, failure: float) -> float:
    """Return a Q with P(the sum over so many cells of the larger of two independent |noises| > Q) ≤ failure."""
    sigmas = [nearest_float(noise.sigma) for noise in (one, other)]
    if max(sigmas) > MAX_SUMMED_SIGMA:
        return sum(bound_noise(noise, cells, failure / 2) for noise in (one, other))
    (first, beyond), (second, further) = (
        _list_magnitudes(noise, sigma) for noise, sigma in zip((one, other), sigmas, strict=True)
    )
    upto = np.ones((2, max(first.size, second.size)))
    upto[0, : first.size], upto[1, : second.size] = np.cumsum(first), np.cumsum(second)
    law = np.diff(np.minimum(upto, 1.0).prod(axis=0), prepend=0.0)
    slopes = SLOPES / max(sigmas)
    return _minimise_bound(slopes, _sum_moments(slopes, law), cells, failure - cells * (beyond + further))


def _sum_moments(slopes: Floats, law: Floats) -> Floats:
    """ln E e^{λ·magnitude} for each λ."""
    return np.array([np.log(np.exp(slope * np.arange(law.size)) @ law) for slope in slopes])


def _minimise_bound(slopes: Floats, moments: Floats, cells: int, failure: float) -> float:
    """Chernoff's bound at the best λ of a grid, for a failure that may have been used up."""
    return float(((cells * moments + log(1 / failure)) / slopes).min()) * SAFETY_FACTOR if failure > 0 else float("inf")


def _list_magnitudes(noise: CountNoise, sigma: float) -> tuple[Floats, float]:
    """Return P(|z| = k) up to the cut, and a bound on what is beyond it."""
    if isinstance(noise, Gaussian):
        ends = (np.arange(ceil(CUT * sigma) + 2) - 0.5) / (sigma * sqrt(2))
        above = np.asarray(erfc_array(np.maximum(ends, 0.0)))  # P(|Z| ≥ k − ½)
        return above[:-1] - above[1:], erfc(float(ends[-1]))
    law = weights(noise.sigma**2, 128)
    total = sum(law.values)
    return np.array([value / total for value in law.values]), len(law.values) * law.error / total
