"""Noisy tables combined by least squares, residual by residual, so that all tables add up.

*Theory of operation.* Let M_A x be the exact table of a margin A and n_i the number of values of column i. The residual of
b is r_b = (⊗_{i∈b} C_i) M_b x, where C_i = I − J/n_i subtracts the mean along column i. A table is the sum of its
residuals:

    M_B x [cell] = Σ_{b⊆B} r_b[cell restricted to b] / N_{B∖b},        N_D = ∏_{i∈D} n_i.

Every measured table y_A = M_A x + noise holds a copy of r_b for each b ⊆ A: sum it down to b and centre it. Weighted with
a_A/N_{A∖b}, where a_A = 1/variance of the noise, and divided by τ_b = Σ_{A⊇b} a_A/N_{A∖b}, these copies give the estimate
of r_b, and the residuals of B give the estimate of any table B that lies in a measured one.

**Proof** that this is generalised least squares, for noise that is uncorrelated with one variance per table. The
projections P_b = (⊗_{i∈b} C_i) ⊗ (⊗_{i∈A∖b} J/n_i), b ⊆ A, are orthogonal to each other and sum to I. So the 2^|A| centred
parts of y_A are uncorrelated, the unknowns r_b are free of each other, and the least-squares problem splits into one per
residual. In the problem of b, table A observes r_b with noise of variance N_{A∖b}/a_A on every cell, centred: independent
observations of one vector, whose best combination weights each by its precision a_A/N_{A∖b}. ∎

Hence what is known of r_b is as good as noise of variance 1/τ_b on every cell, centred, and with p_b = ∏_{i∈b}(1 − 1/n_i)

    Var of each cell of B = Σ_{b⊆B} p_b / (τ_b N_{B∖b}²).

The estimate of a cell is its exact count plus Σ_j l_j z_j over the noises z of all measured tables. The l of table A is a
sum of orthogonal vectors, one per b ⊆ A∩B, of squared length p_b N_{A∖b}·(a_A/(N_{A∖b} τ_b N_{B∖b}))²; `squared_weights`
adds these up. The l of a contrast are of squared length 2^|c|·p_b N_{A∖b}·(a/(N_{A∖b} τ_b N_{B∖b}))².

*Contrasts.* A binary column i has residuals of the form (d/2)·(1, −1), where d is the difference between its two values. So
the contrast of A over binary columns c, with noise of variance v on each cell, holds r_b for each b with c ⊆ b ⊆ A: sum it
down to b∖c, multiply it by ⊗_{i∈c}(½, −½), and centre it.

**Proof** that such a copy has the precision 2^|c|/(v·N_{A∖b}), and that least squares is as above. The map from tables of b
to their contrasts, ⊗_{i∈c}(1, −1), takes noise of variance s on every cell to noise of variance 2^|c|·s, and is one to one
on vectors of the form r_b. The contrast, summed down, has noise of variance v·N_{A∖b} on each cell: that of a table of b in
which every cell has s = v·N_{A∖b}/2^|c|. Centring along the columns b∖c is orthogonal for different b as before, and the
noise of one measured table is independent of that of another; so each b is still a problem of its own. ∎

Hence τ_b is the sum of a_A/N_{A∖b} over whole tables that contain b and of 2^|c|·a/N_{A∖b} over contrasts with c ⊆ b ⊆ A
(`Lattice.add_up`), and all that follows from τ holds as it stands. Since the copy is worth 2^|c|·a/N_{A∖b} and has the
factor 2^-|c|, it enters with the weight a/N_{A∖b} and the signs of ⊗(1, −1).

*Rounding.* Tables are summed as 64-bit integers, exactly, and only then weighted in doubles. Each estimate carries a bound
on its own rounding error (`Residuals.rounding_error`): with u = 2^-53, k sums of magnitude at most m make an error of at
most (k + 8)·u·m, centring along n values turns an error e into 2e + (n + 3)·u·m and m into 2m, and rebuilding adds u·m for
each part that is added.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter
from discreet.tabulation.margins import (
    AnyMeasured,
    Contrast,
    Floats,
    Ints,
    Lattice,
    Margin,
    Measured,
    axes_of,
    centred_share,
    check_margin,
    check_measured,
    check_sizes,
    count_cells,
    drop_single_columns,
    list_subsets,
    shape_of,
)

UNIT = 2.0**-53
BATCH_CELLS = 1 << 16
"""Tables of one shape are summed together, about so many cells at a time."""


def residual_precisions(sizes: Sequence[int], precisions: Mapping[AnyMeasured, float]) -> dict[Margin, float]:
    """Return τ, the precision of each residual, from the precisions 1/variance of the measured tables.

    Residuals that no table of positive precision holds have τ = 0.

    >>> residual_precisions((2, 4), {(0, 1): 1.0, (0,): 0.5})
    {(): 0.375, (0,): 0.75, (1,): 0.5, (0, 1): 1.0}
    """
    for margin, precision in precisions.items():
        if not 0 <= precision < inf:
            raise BadParameter("precisions", f"{precision} for {margin}", "must be at least 0 and finite", "give 1/variance")
    lattice = Lattice.of(sizes, precisions)
    return dict(zip(lattice.margins, lattice.add_up(precisions).tolist(), strict=True))


@dataclass(frozen=True)
class Residuals:
    """Estimates of residuals: one array per margin, with what is known of their precision and rounding.

    Columns of one value are left out of the margins of `parts`.
    """

    sizes: tuple[int, ...]
    parts: dict[Margin, Floats]
    precisions: dict[Margin, float]
    roundings: dict[Margin, tuple[float, float]]  # a bound on the error of doubles, and on the magnitude of the values

    def rebuild(self, margin: Margin) -> Floats:
        """Return the estimated table of a margin that lies in a measured one.

        >>> noisy = {(0, 1): np.array([[3, 1, 0], [2, 5, 1]]), (0,): np.array([5, 7])}
        >>> residuals = combine((2, 3), noisy, {(0, 1): 1.0, (0,): 1.0})
        >>> residuals.rebuild((0,)).round(6).tolist(), residuals.rebuild(()).round(6).tolist()
        ([4.75, 7.25], 12.0)
        """
        kept = drop_single_columns(self.sizes, check_margin(margin, len(self.sizes)))
        check_estimable(self.precisions, kept)
        out = self.parts[kept].copy()
        for b in list_subsets(kept)[:-1]:
            part = self.parts[b]
            out += (part * (part.size / out.size)).reshape([self.sizes[i] if i in b else 1 for i in kept])
        return out.reshape(shape_of(self.sizes, margin))

    def has(self, margin: Margin) -> bool:
        """Return whether the table of a margin can be rebuilt."""
        return is_estimable(self.precisions, drop_single_columns(self.sizes, check_margin(margin, len(self.sizes))))

    def rebuild_all(self, margins: Iterable[Margin]) -> Iterator[tuple[Margin, Floats]]:
        """Yield each margin with its estimated table."""
        return ((margin, self.rebuild(margin)) for margin in margins)

    def rounding_error(self, margin: Margin) -> float:
        """Return how far doubles may have moved a cell of the rebuilt table from the exact least-squares estimate."""
        kept = drop_single_columns(self.sizes, check_margin(margin, len(self.sizes)))
        check_estimable(self.precisions, kept)
        cells, error = count_cells(self.sizes, kept), 0.0
        for b in list_subsets(kept):
            own, magnitude = self.roundings[b]
            error += (own + ((1 << len(kept)) + 3) * UNIT * magnitude) * count_cells(self.sizes, b) / cells
        return error * 1.01  # terms of second order


def is_estimable(precisions: Mapping[Margin, float], margin: Margin) -> bool:
    """Return whether all residuals of a table were measured."""
    return all(precisions.get(b, 0.0) > 0 for b in list_subsets(margin))


def check_estimable(precisions: Mapping[Margin, float], margin: Margin) -> None:
    """Refuse a table that does not lie in a measured one, nor follows from contrasts."""
    if not is_estimable(precisions, margin):
        raise BadParameter(
            "margin", margin, "no measured table contains these columns", "measure a table by these columns, or a finer one"
        )


def combine(sizes: Sequence[int], measured: Mapping[AnyMeasured, Ints], variances: Mapping[AnyMeasured, float]) -> Residuals:
    """Return the least-squares residuals of noisy tables, given the variance of each table's noise."""
    known = check_sizes(sizes)
    tables = {each: _check_table(known, each, table) for each, table in measured.items()}
    precisions = {each: 1 / _check_variance(each, variances) for each in tables}
    lattice = Lattice.of(known, tables)
    tau = lattice.add_up(precisions)
    blocks, parts = _allocate_blocks(lattice)
    scales: dict[Margin, float] = defaultdict(float)
    terms: dict[Margin, int] = defaultdict(int)
    for batch in _list_batches(known, tables):
        _add_batch(known, batch, precisions, parts, scales, terms)
    divisors = dict(zip(lattice.margins, tau.tolist(), strict=True))
    for shape, (members, block) in blocks.items():
        block /= np.array([divisors[b] or 1.0 for b in members]).reshape(-1, *(1 for _ in shape))
        for axis in range(1, block.ndim):
            block -= block.mean(axis=axis, keepdims=True)
    roundings = {b: _bound_rounding(known, b, terms[b], scales[b] / (divisors[b] or 1.0)) for b in lattice.margins}
    return Residuals(known, parts, divisors, roundings)


def _check_table(sizes: tuple[int, ...], measured: Measured, table: Any) -> NDArray[Any]:
    array, shape = np.asarray(table), shape_of(sizes, axes_of(check_measured(measured, sizes)))
    if array.dtype.kind not in "iu" or array.shape != shape:
        raise BadParameter(
            "measured", f"an array of {array.dtype} of shape {array.shape} for {measured}",
            f"must be integers of shape {shape}", "give the noisy counts, one axis per column of the margin",
        )  # fmt: skip
    return array


def _check_variance(measured: AnyMeasured, variances: Mapping[AnyMeasured, float]) -> float:
    variance = float(variances.get(measured, 0.0))
    if not (variance > 0 and isfinite(variance) and isfinite(1 / variance)):
        raise BadParameter(
            "variances",
            f"{variance} for {measured}",
            "must be positive",
            "give the variance of the noise of each measured table",
        )
    return variance


def _allocate_blocks(
    lattice: Lattice,
) -> tuple[dict[tuple[int, ...], tuple[list[Margin], Floats]], dict[Margin, Floats]]:
    """Zeros for every residual. Those of one shape share a block, so that they are centred together."""
    members: dict[tuple[int, ...], list[Margin]] = defaultdict(list)
    for b in lattice.margins:
        members[shape_of(lattice.sizes, b)].append(b)
    blocks = {shape: (each, np.zeros((len(each), *shape))) for shape, each in members.items()}
    return blocks, {b: block[place, ...] for each, block in blocks.values() for place, b in enumerate(each)}


def _list_batches(
    sizes: tuple[int, ...], tables: Mapping[AnyMeasured, NDArray[Any]]
) -> Iterator[list[tuple[AnyMeasured, NDArray[Any]]]]:
    """Yield tables of equal shape together, without axes of length 1."""
    groups: dict[tuple[int, ...], list[tuple[AnyMeasured, NDArray[Any]]]] = defaultdict(list)
    for measured, table in tables.items():
        shape = shape_of(sizes, drop_single_columns(sizes, axes_of(measured)))
        groups[shape].append((measured, table.reshape(shape)))
    for shape, group in groups.items():
        step = max(1, BATCH_CELLS // prod(shape))
        yield from (group[start : start + step] for start in range(0, len(group), step))


def _add_batch(
    sizes: tuple[int, ...],
    batch: list[tuple[AnyMeasured, NDArray[Any]]],
    precisions: Mapping[AnyMeasured, float],
    parts: dict[Margin, Floats],
    scales: dict[Margin, float],
    terms: dict[Margin, int],
) -> None:
    """Add the weighted sums of some tables of one shape to the residuals that they hold."""
    stack = _stack(batch)
    margins = [drop_single_columns(sizes, axes_of(measured)) for measured, _ in batch]
    contrasted = [measured.columns if isinstance(measured, Contrast) else () for measured, _ in batch]
    weights = np.array([precisions[measured] for measured, _ in batch])
    flat = abs(stack.reshape(len(batch), -1).astype(np.float64))
    largest, total = (weights * flat.max(axis=1)).tolist(), (weights * flat.sum(axis=1)).tolist()
    for axes, sums in _sum_down(stack):
        share = prod(sums.shape[1:]) / flat.shape[1]
        weighted = sums.astype(np.float64)  # a copy: the sums are exact integers until here
        weighted *= (weights * share).reshape(-1, *(1 for _ in axes))
        for place, margin in enumerate(margins):
            kept = tuple([margin[axis] for axis in axes])
            b = tuple(sorted(kept + contrasted[place])) if contrasted[place] else kept
            parts[b] += _sign(weighted[place], kept, contrasted[place], b) if contrasted[place] else weighted[place]
            scales[b] += min(largest[place], total[place] * share)  # no sum of N cells is more than N times the largest
            terms[b] += 1


def _sign(table: Floats, kept: Margin, contrasted: Margin, margin: Margin) -> Floats:
    """The table by a margin that a contrast stands for: itself at the first value of a column, and its negative at the
    second."""
    signs = np.ones([2 if i in contrasted else 1 for i in margin])
    for axis, i in enumerate(margin):
        if i in contrasted:
            signs *= np.array([1.0, -1.0]).reshape([2 if each == axis else 1 for each in range(len(margin))])
    spread = iter(table.shape)
    return np.asarray(signs * table.reshape([next(spread) if i in kept else 1 for i in margin]))


def _stack(batch: Sequence[tuple[AnyMeasured, NDArray[Any]]]) -> NDArray[Any]:
    """The tables as one array of int64; of Python's integers where sums may not fit."""
    stack = np.stack([table for _, table in batch]) if len(batch) > 1 else batch[0][1][np.newaxis]
    largest = max(-int(stack.min()), int(stack.max()))
    return stack.astype(np.int64 if largest * batch[0][1].size < 1 << 63 else object, copy=False)


def _sum_down(stack: NDArray[Any]) -> Iterator[tuple[tuple[int, ...], NDArray[Any]]]:
    """Yield the sums of the tables over every set of axes, with the axes that are left: each from the next larger."""
    shape, width = stack.shape[1:], stack.ndim - 1
    known = {tuple(range(width)): stack}
    yield tuple(range(width)), stack
    for length in range(width - 1, -1, -1):
        larger, known = known, {}
        for axes in combinations(range(width), length):
            extra = min((axis for axis in range(width) if axis not in axes), key=lambda axis: shape[axis])
            whole = tuple(sorted((*axes, extra)))
            known[axes] = np.add.reduce(larger[whole], axis=1 + whole.index(extra))
            yield axes, known[axes]


def _bound_rounding(sizes: tuple[int, ...], b: Margin, terms: int, magnitude: float) -> tuple[float, float]:
    error = (terms + 8) * UNIT * magnitude
    for i in b:
        error, magnitude = 2 * error + (sizes[i] + 3) * UNIT * magnitude, 2 * magnitude
    return error, magnitude


def cell_variance(sizes: Sequence[int], precisions: Mapping[Margin, float], margin: Margin) -> float:
    """Return the variance of each cell of an estimated table, from the precisions τ of the residuals.

    >>> tau = residual_precisions((2, 3), {(0, 1): 1.0})
    >>> cell_variance((2, 3), tau, (0, 1)), cell_variance((2, 3), tau, (0,))
    (1.0, 3.0)
    """
    cell = (0,) * len(margin)
    return cell_covariance(sizes, precisions, margin, cell, cell)


def cell_covariance(
    sizes: Sequence[int], precisions: Mapping[Margin, float], margin: Margin, one: Sequence[int], other: Sequence[int]
) -> float:
    """Return the covariance of two cells of an estimated table: Σ_b (1/τ_b) ∏_{i∈b}(1[same value] − 1/n_i)/N_{B∖b}²."""
    known = check_sizes(sizes)
    same = {i: float(one[axis] == other[axis]) for axis, i in enumerate(check_margin(margin, len(known)))}
    kept = drop_single_columns(known, margin)
    check_estimable(precisions, kept)
    cells = count_cells(known, kept)
    return sum(
        prod(same[i] - 1 / known[i] for i in b) / precisions[b] * (count_cells(known, b) / cells) ** 2
        for b in list_subsets(kept)
    )


def squared_weights(
    sizes: Sequence[int], variances: Mapping[AnyMeasured, float], margin: Margin
) -> dict[AnyMeasured, float]:
    """Return Σ l² of each measured table: how much of its noise is in each cell of an estimated table.

    The variance of the cell is Σ over tables of Σ l² times the variance of the table.

    >>> squared_weights((2, 3), {(0, 1): 1.0, (0,): 1.0}, (0,))
    {(0, 1): 0.1875, (0,): 0.5625}
    """
    known = check_sizes(sizes)
    precisions = {each: 1 / _check_variance(each, variances) for each in variances}
    tau = residual_precisions(known, precisions)
    kept = drop_single_columns(known, check_margin(margin, len(known)))
    check_estimable(tau, kept)
    cells = count_cells(known, kept)
    out = {}
    for measured, precision in precisions.items():
        own = drop_single_columns(known, axes_of(measured))
        columns = measured.columns if isinstance(measured, Contrast) else ()
        held = list_subsets(tuple(i for i in kept if i in own)) if set(columns) <= set(kept) else []
        out[measured] = sum(
            centred_share(known, b)
            * (precision / tau[b]) ** 2
            * (count_cells(known, b) / cells) ** 2
            * (count_cells(known, b) / count_cells(known, own))
            for b in (tuple(sorted(part + columns)) for part in held)
        )
    return out
