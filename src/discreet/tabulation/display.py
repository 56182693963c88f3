"""Display values: nonnegative whole numbers that add up, made from estimates by post-processing.

**Theory of operation.** From the top down, the children of a node get, for each cell of the table, the nonnegative numbers
that are closest to their estimates and add up to the parent's display value; these are rounded by largest remainders. So
every level adds up to the one above it to the last unit. Only the finest table is displayed by itself: every other table of
a node is its sum (`sum_to_margin`), so tables add up too. The cells of a top node add up to its rounded total.

The closest point of {v ≥ 0, Σv = P} is v_i = max(0, y_i − δ), with one threshold δ. **Proof**: with a multiplier δ for the
sum and λ_i ≥ 0 for the signs, v_i = y_i − δ + λ_i, where λ_i = 0 if v_i > 0. Sorted from the largest, the first k are
positive for the largest k with y_(k) > (y_(1) + … + y_(k) − P)/k, and the right side is δ. ∎

**Totals of children.** The sum of a child's cells is shown as its total. Where totals were measured much better than cells,
that sum is worse than the estimate of the total: thousands of cells, each moved a little, move it far. So totals are
displayed first on levels on which they are known at least as well as cells (`are_totals_first`: it asks for standard
deviations alone, which are public), and `display_children_with_totals` makes cells that add up both ways: to the parent's
cells and to the child's total. The closest such numbers are max(0, y_ij − δ_j − μ_i), found by projecting columns and rows
in turns; they are rounded by columns, and then units move between children inside a cell, where it costs least, until the
totals are right. A child above its total shows a 1 or more in some cell, so there always is such a move. On other levels
cells are displayed first, and a total that is known worse than they are does not bend them: with the noise of the 2020
census, that more than halves the error of the totals that blocks display (`examples/census`).

**What display values are for.** A noisy count of 0 is shown as 0 or more, and what is added to small counts is taken from
large ones: of 100 children, 95 of them empty, the other five of 40 are shown as 36.3 on average. The squared error falls,
but the bias is real, and the estimate's interval around a display value does not cover the truth as often as it says. So
the estimate and its interval stay in the publication beside the display value, which may lie outside of that interval.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

CHUNK = 1 << 18
"""How many numbers are projected at once: they fit in the cache."""
MAX_TURNS, CLOSE_ENOUGH = 50, 0.05
"""Columns and rows are projected in turns until all sums of rows are so close, or so often; units are moved anyway."""
MAX_EXACT = 2.0**52
"""Doubles up to here have whole numbers between them."""


def display_top(estimates: Floats) -> Counts:
    """Return the display values of top nodes, one row each: the total is rounded and at least 0, and the cells add up to it.

    >>> display_top(np.array([[4.2, -1.0, 2.9]])).tolist()
    [[4, 0, 2]]
    """
    rows = _check_estimates(estimates).reshape(len(estimates), -1)
    totals = np.maximum(np.rint(rows.sum(axis=1)), 0).astype(np.int64)
    return round_to_total(rows, totals).reshape(estimates.shape)


def display_children(estimates: Floats, above: Counts, starts: NDArray[np.int64]) -> Counts:
    """Return the display values of the children of some nodes, which have the display values `above`.

    Both arrays have one row per node, and cells in any further axes. The children of the i-th node are the rows from
    `starts[i] - starts[0]` on, as in `Spine.starts`.

    >>> children = np.array([[6.5, -1.0], [4.0, 0.4], [-2.0, 0.8]])
    >>> display_children(children, np.array([[10, 1]]), np.array([0, 3])).tolist()
    [[6, 0], [4, 0], [0, 1]]
    """
    values, cells, totals, first = _check_children(estimates, above, starts)
    shown = np.zeros(cells.shape, np.int64)
    widths = np.diff(first)
    for width in np.unique(widths).tolist():
        same = np.flatnonzero(widths == width)
        for some in _split(same, width * cells.shape[1]):
            _display_some(cells, totals, shown, some, first[some], width)
    return shown.reshape(values.shape)


def are_totals_first(total_sd: float, cell_sd: float) -> bool:
    """Whether the totals of a level are displayed before its cells: where a total is known at least as well as a cell.

    >>> are_totals_first(1.75, 2.02), are_totals_first(89.2, 3.18)  # block groups and blocks of a census
    (True, False)
    """
    return total_sd <= cell_sd


def display_level(cells: Floats, totals: Floats, above: Counts, starts: NDArray[np.int64], *, totals_first: bool) -> Counts:
    """Return the display values of the cells of a level, whose parents show `above`: from estimates of cells and of totals.

    >>> cells, totals = np.array([[6.5, -1.0], [4.0, 0.4]]), np.array([[8.9], [2.1]])
    >>> display_level(cells, totals, np.array([[10, 1]]), np.array([0, 2]), totals_first=True).tolist()
    [[8, 1], [2, 0]]
    >>> display_level(cells, totals, np.array([[10, 1]]), np.array([0, 2]), totals_first=False).tolist()
    [[6, 0], [4, 1]]
    """
    if not totals_first:
        return display_children(cells, above, starts)
    parents = np.asarray(above).reshape(len(above), -1).sum(axis=1, keepdims=True)
    shown = display_children(totals.reshape(-1, 1), parents, starts)
    return display_children_with_totals(cells, above, shown[:, 0], starts)


def display_children_with_totals(estimates: Floats, above: Counts, totals: Counts, starts: NDArray[np.int64]) -> Counts:
    """Return the display values of children that add up to those of their parents, `above`, and to given `totals` by child.

    The totals of the children of a node must add up to its own, as those of `display_children` do.

    >>> children = np.array([[6.5, -1.0], [4.0, 0.4], [-2.0, 0.8]])
    >>> shown = display_children_with_totals(children, np.array([[10, 1]]), np.array([7, 3, 1]), np.array([0, 3]))
    >>> shown.tolist()
    [[7, 0], [3, 0], [0, 1]]
    """
    values, cells, parents, first = _check_children(estimates, above, starts)
    wanted = np.asarray(totals, np.int64).reshape(-1)
    if len(wanted) != len(cells) or np.any(wanted < 0):
        raise BadParameter(
            "totals", f"{len(wanted)} numbers", "not one from 0 up for each child", "display the totals first"
        )
    if not np.array_equal(np.add.reduceat(wanted, first[:-1]), parents.sum(axis=1)):
        raise BadParameter("totals", "of children", "do not add up to their parents'", "display them with display_children")
    shown = np.zeros(cells.shape, np.int64)
    for parent, row in enumerate(parents):
        inside = slice(first[parent], first[parent + 1])
        filled = np.flatnonzero(row)
        if len(filled):
            shown[inside, filled] = _round_both_ways(cells[inside, filled], row[filled], wanted[inside])
    return shown.reshape(values.shape)


def _round_both_ways(values: Floats, columns: Counts, rows: Counts) -> Counts:
    """Whole numbers near the values with given sums of columns and rows, which have the same total."""
    shift = np.zeros((len(values), 1))  # μ
    for _ in range(MAX_TURNS):
        shifted = values - shift
        projected = project_to_total(np.ascontiguousarray(shifted.T), columns).T
        if np.abs(projected.sum(axis=1) - rows).max() < CLOSE_ENOUGH:
            break
        lowered = values - (shifted - projected).max(axis=0)  # δ is what was subtracted where something is left
        shift = (lowered - project_to_total(lowered, rows)).max(axis=1)[:, None]
    counts = round_to_total(np.ascontiguousarray((values - shift).T), columns).T
    _move_units(counts, projected, counts.sum(axis=1) - rows)
    return counts


def _move_units(counts: Counts, projected: Floats, excess: Counts) -> None:
    """Move units between rows inside columns, in place, until no row has an excess."""
    error = counts - projected
    while (giver := int(excess.argmax())) >= 0 and excess[giver] > 0:
        taker = int(excess.argmin())
        cost = np.where(counts[giver] > 0, error[taker] - error[giver], np.inf)
        column = int(cost.argmin())
        for row, unit in ((giver, -1), (taker, 1)):
            counts[row, column] += unit
            error[row, column] += unit
            excess[row] += unit


def _display_some(cells: Floats, totals: Counts, shown: Counts, parents: Any, first: Any, width: int) -> None:
    """Display the children of parents that have equally many. Where the parent shows 0, so do its children."""
    which, cell = np.nonzero(totals[parents])
    rows = first[which][:, None] + np.arange(width)
    columns = cell[:, None]
    shown[rows, columns] = round_to_total(cells[rows, columns], totals[parents[which], cell])


def _split(parents: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    step = max(1, CHUNK // size)
    for begin in range(0, len(parents), step):
        yield parents[begin : begin + step]


def round_to_total(values: Floats, totals: Counts) -> Counts:
    """Return, for each row, the closest nonnegative numbers that add up to its total, rounded by largest remainders.

    Of equal remainders the first are rounded up.

    >>> round_to_total(np.array([[2.5, 2.5, -3.0], [1.0, 1.0, 1.0]]), np.array([5, 2])).tolist()
    [[3, 2, 0], [1, 1, 0]]
    """
    projected = project_to_total(values, totals)
    whole = np.floor(projected)
    projected -= whole  # remainders
    counts = whole.astype(np.int64)
    short = totals - counts.sum(axis=1)
    width = values.shape[1]
    wrong = (short < 0) | (short >= width) & (short > 0)
    short[wrong] = 0
    order = np.sort(projected, axis=1)
    least = np.where(short > 0, order[np.arange(len(order)), np.minimum(width - short, width - 1)], np.inf)[:, None]
    above = projected > least
    equal = projected == least
    tied = short - above.sum(axis=1)
    equal &= np.cumsum(equal, axis=1) <= tied[:, None]
    counts += above
    counts += equal
    for row in np.flatnonzero(wrong).tolist():
        counts[row] = _round_exactly(values[row], int(totals[row]))
    return counts


def project_to_total(values: Floats, totals: NDArray[Any]) -> Floats:
    """Return, for each row, the closest nonnegative numbers that add up to its total, which is not negative.

    >>> project_to_total(np.array([[7.0, 4.0, -2.0]]), np.array([10])).tolist()
    [[6.5, 3.5, 0.0]]
    """
    falling = -np.sort(-values, axis=1)
    candidates = np.cumsum(falling, axis=1)
    candidates -= totals[:, None]
    candidates /= np.arange(1, values.shape[1] + 1)
    positive = np.maximum((falling > candidates).sum(axis=1), 1)
    found: Floats = values - candidates[np.arange(len(values)), positive - 1][:, None]
    np.maximum(found, 0, out=found)
    return found


def _round_exactly(values: Floats, total: int) -> list[int]:
    """The same in rationals, for rows in which the rounding of doubles reaches whole units."""
    exact = [Fraction(each) for each in values.tolist()]
    running, shift = Fraction(0), Fraction(0)
    for place, largest in enumerate(sorted(exact, reverse=True), 1):
        running += largest
        if place > 1 and (running - total) / place >= largest:
            break
        shift = (running - total) / place
    projected = [max(Fraction(0), each - shift) for each in exact]
    counts = [floor(each) for each in projected]
    order = sorted(range(len(counts)), key=lambda i: (counts[i] - projected[i], i))
    for i in order[: total - sum(counts)]:
        counts[i] += 1
    return counts


def sum_to_margin(shown: Counts, sizes: Sequence[int], margin: Sequence[int]) -> Counts:
    """Return the display values of a coarser table: sums of the finest one. One row per node, and an axis per column.

    >>> sum_to_margin(np.arange(6).reshape(1, 6), (2, 3), (1,)).tolist()
    [[3, 5, 7]]
    """
    table = np.asarray(shown, np.int64).reshape(-1, *sizes)
    away = tuple(axis + 1 for axis in range(len(sizes)) if axis not in set(margin))
    return np.asarray(table.sum(axis=away), np.int64)


def _check_children(
    estimates: Floats, above: Counts, starts: NDArray[np.int64]
) -> tuple[Floats, Floats, Counts, NDArray[np.int64]]:
    """Return the estimates, the same with one row per child, totals with one row per parent, and where children begin."""
    values = _check_estimates(estimates)
    cells = values.reshape(len(values), -1)
    totals = np.asarray(above, np.int64).reshape(len(above), -1)
    first = np.asarray(starts, np.int64) - starts[0]
    if len(first) != len(totals) + 1 or first[-1] != len(cells) or totals.shape[1] != cells.shape[1]:
        raise BadParameter(
            "estimates",
            f"of shape {values.shape}",
            f"the parents have shape {np.shape(above)} and {first[-1]} children",
            "give one row per child, with the cells of its parent",
        )
    if np.any(totals < 0):
        raise BadParameter("above", int(totals.min()), "display values are not negative", "display the level above first")
    return values, cells, totals, first


def _check_estimates(estimates: Floats) -> Floats:
    values = np.asarray(estimates, np.float64)
    if not values.size or values.ndim < 1:
        raise BadParameter("estimates", f"of shape {values.shape}", "no numbers", "give one row per node")
    if not max(abs(float(values.min())), abs(float(values.max()))) <= MAX_EXACT:  # also not a number
        raise BadParameter("estimates", "not all between -2^52 and 2^52", "no counts", "give estimates of counts")
    return values
