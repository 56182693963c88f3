"""Margins: sets of columns, the tables that count by them, and how the tables of a closure contain each other.

A margin is a sorted tuple of column numbers; () is the table of one cell, the total. A margin A contains b where b ⊆ A: then
the table of b is the table of A, summed over the columns A∖b. The closure of some margins is all margins that they contain.

A column of one value adds nothing to a table but an axis of length 1. `drop_single_columns` leaves such columns out, so that
one table has one margin; `Lattice` does so with all of its margins.

A binary column has two values. The *contrast* of a table over some binary columns is the difference between the two values
of each: the table by the other columns of (⊗(1, −1)) x, first value minus second. Contrasts are integers, of which residuals
of binary columns are multiples (`residuals`), and one row moves one cell of a contrast by 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discreet._numbers import check_int
from discreet.errors import BadParameter

Margin: TypeAlias = tuple[int, ...]
"""Column numbers in rising order; () is the total."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """The difference between the values of some binary columns, by other columns."""

    columns: Margin  # at least one, each of two values
    by: Margin = ()  # the axes of its table

    def __post_init__(self) -> None:
        if not self.columns or set(self.columns) & set(self.by):
            raise BadParameter(
                "contrast", self, "it has no column of its own", "name binary columns that it is not by; or take a margin"
            )


Measured: TypeAlias = Margin | Contrast
"""What may be measured: a whole table, by its margin, or a contrast."""

AnyMeasured = TypeVar("AnyMeasured", bound=Measured)

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

MAX_PAIRS = 1 << 24
"""How many pairs of margins, one in the other, a closure may have: above it, memory runs to gigabytes."""


def check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return how many values each column has; refuse a column without values."""
    return tuple(check_int(size, "sizes", 1) for size in sizes)


def check_margin(margin: Sequence[int], columns: int) -> Margin:
    """Return a margin; refuse column numbers that do not exist, repeat or fall.

    >>> check_margin((2, 0), 3)
    Traceback (most recent call last):
    discreet.errors.BadParameter: margin is (2, 0): its columns must rise from 0 to at most 2. Give a sorted tuple of \
column numbers, each once.
    """
    found = tuple(margin)
    if (
        any(type(i) is not int for i in found)
        or list(found) != sorted(set(found))
        or (found and not 0 <= found[0] <= found[-1] < columns)
    ):
        raise BadParameter(
            "margin",
            found,
            f"its columns must rise from 0 to at most {columns - 1}",
            "give a sorted tuple of column numbers, each once",
        )
    return found


def drop_single_columns(sizes: Sequence[int], margin: Margin) -> Margin:
    """Return the margin without the columns that have one value: its table has the same cells.

    >>> drop_single_columns((2, 1, 3), (0, 1, 2))
    (0, 2)
    """
    return tuple(i for i in margin if sizes[i] > 1)


def axes_of(measured: Measured) -> Margin:
    """Return the columns along which a measured table lies."""
    return measured.by if isinstance(measured, Contrast) else measured


def columns_of(measured: Measured) -> Margin:
    """Return all columns of a measured table: those of the whole table that it is, or is a contrast of.

    >>> columns_of((0, 2)), columns_of(Contrast((1,), (0, 2)))
    ((0, 2), (0, 1, 2))
    """
    return tuple(sorted((*measured.columns, *measured.by))) if isinstance(measured, Contrast) else measured


def check_measured(measured: Measured, sizes: Sequence[int]) -> Measured:
    """Return what may be measured; refuse margins as `check_margin` does, and contrasts of columns that are not binary.

    >>> check_measured(Contrast((1,)), (2, 3))
    Traceback (most recent call last):
    discreet.errors.BadParameter: contrast is Contrast(columns=(1,), by=()): column 1 has 3 values. Take columns of two.
    """
    check_margin(columns_of(measured), len(sizes))
    if isinstance(measured, Contrast):
        for part in (measured.columns, measured.by):
            check_margin(part, len(sizes))
        for i in measured.columns:
            if sizes[i] != 2:
                reason = f"column {i} has {sizes[i]} values"
                raise BadParameter("contrast", measured, reason, "take columns of two")
    return measured


def take_contrast(table: NDArray[Any], margin: Margin, columns: Margin) -> NDArray[Any]:
    """Return the contrast of a table over some of its columns: first value minus second, along each.

    >>> take_contrast(np.array([[5, 1, 2], [3, 4, 0]]), (0, 1), (0,)).tolist()
    [2, -3, 2]
    """
    for axis in reversed(range(len(margin))):
        if margin[axis] in columns:
            table = np.take(table, 0, axis=axis) - np.take(table, 1, axis=axis)
    return np.asarray(table)


def list_subsets(margin: Margin) -> list[Margin]:
    """List the margins that a margin contains, small ones first.

    >>> list_subsets((0, 2))
    [(), (0,), (2,), (0, 2)]
    """
    return [subset for length in range(len(margin) + 1) for subset in combinations(margin, length)]


def list_closure(margins: Iterable[Margin]) -> list[Margin]:
    """List all margins that some margins contain, small ones first.

    >>> list_closure([(0, 1), (2,)])
    [(), (0,), (1,), (2,), (0, 1)]
    """
    found: set[Margin] = set()
    for margin in sorted(set(margins), key=len, reverse=True):
        if margin not in found:
            _check_pairs(len(found) + (1 << len(margin)))
            found.update(list_subsets(margin))
    return sorted(found, key=lambda margin: (len(margin), margin))


def count_cells(sizes: Sequence[int], margin: Margin) -> int:
    """Return how many cells the table of a margin has.

    >>> count_cells((2, 3, 4), (0, 2)), count_cells((2, 3, 4), ())
    (8, 1)
    """
    return prod(sizes[i] for i in margin)


def shape_of(sizes: Sequence[int], margin: Margin) -> tuple[int, ...]:
    """Return the shape of the table of a margin."""
    return tuple(sizes[i] for i in margin)


def centred_share(sizes: Sequence[int], margin: Margin) -> float:
    """Return p = ∏(1 − 1/n): the share of a cell's noise that is left in the residual of the margin."""
    return prod(1 - 1 / sizes[i] for i in margin)


@dataclass(frozen=True)
class Lattice:
    """The closure of some margins, and which of its margins contain which, as arrays."""

    sizes: tuple[int, ...]
    margins: list[Margin]

    @classmethod
    def of(cls, sizes: Sequence[int], measured: Iterable[Measured]) -> "Lattice":
        """Return the lattice of the closure, without columns of one value."""
        known = check_sizes(sizes)
        margins = (columns_of(check_measured(each, known)) for each in measured)
        return cls(known, list_closure(drop_single_columns(known, margin) for margin in margins))

    def drop(self, margin: Margin) -> Margin:
        """Return a margin as it stands in the list: without columns of one value."""
        return drop_single_columns(self.sizes, margin)

    @cached_property
    def index(self) -> dict[Margin, int]:
        """The place of each margin in the list."""
        return {margin: place for place, margin in enumerate(self.margins)}

    @cached_property
    def cells(self) -> Floats:
        """N, the number of cells of each table."""
        return np.array([count_cells(self.sizes, margin) for margin in self.margins], float)

    @cached_property
    def shares(self) -> Floats:
        """p of each margin; see `centred_share`."""
        return np.array([centred_share(self.sizes, margin) for margin in self.margins])

    @cached_property
    def averaging(self) -> csr_array:
        """The matrix with 1/N_{A∖b} in row b and column A where A contains b: τ = averaging @ precisions."""
        _check_pairs(sum(1 << len(margin) for margin in self.margins))
        lower = [self.index[b] for margin in self.margins for b in list_subsets(margin)]
        upper = np.repeat(np.arange(len(self.margins)), [1 << len(margin) for margin in self.margins])
        values = self.cells[lower] / self.cells[upper]
        return csr_array((values, (lower, upper)), shape=(len(self.margins), len(self.margins)))

    @cached_property
    def binary(self) -> Ints:
        """How many binary columns each margin has."""
        return np.array([sum(self.sizes[i] == 2 for i in margin) for margin in self.margins], np.int64)

    @cached_property
    def contrasts(self) -> list[Measured]:
        """For each margin its contrast over all of its binary columns; the margin itself if it has none."""
        found: list[Measured] = []
        for margin, count in zip(self.margins, self.binary.tolist(), strict=True):
            columns = tuple(i for i in margin if self.sizes[i] == 2)
            found.append(Contrast(columns, tuple(i for i in margin if self.sizes[i] != 2)) if count else margin)
        return found

    @cached_property
    def contrasting(self) -> csr_array:
        """The matrix that `averaging` is for whole tables, for `contrasts`: τ = contrasting @ precisions of the contrasts.

        A contrast of c binary columns holds the residuals that have all of them, 2^c times as precisely as a whole table.
        """
        pairs = self.averaging.tocoo()
        kept = self.binary[pairs.row] == self.binary[pairs.col]
        values = (pairs.data * 2.0 ** self.binary[pairs.col])[kept]
        return csr_array((values, (pairs.row[kept], pairs.col[kept])), shape=pairs.shape)

    def list_held(self, contrast: Contrast) -> list[tuple[int, float]]:
        """List the places of the residuals that a contrast holds, each with its factor N_c/N_{A∖b}: see `residuals`."""
        by, factor = self.drop(contrast.by), count_cells(self.sizes, contrast.columns)
        whole = count_cells(self.sizes, by)
        return [
            (self.index[columns_of(Contrast(contrast.columns, part))], factor * count_cells(self.sizes, part) / whole)
            for part in list_subsets(by)
        ]

    def add_up(self, values: Mapping[AnyMeasured, float]) -> Floats:
        """Return for each residual Σ value/N_{A∖b} over the measured tables A that hold it: τ, if values are precisions.

        A contrast counts as often as its columns have cells.
        """
        out = np.asarray(self.averaging @ self.spread({m: v for m, v in values.items() if not isinstance(m, Contrast)}))
        for measured, value in values.items():
            if isinstance(measured, Contrast):
                for place, factor in self.list_held(measured):
                    out[place] += value * factor
        return out

    @cached_property
    def rebuilding(self) -> csr_array:
        """The matrix with p_b/N_{B∖b}² in row B and column b: variances of cells = rebuilding @ variances of residuals."""
        squares = self.averaging.copy()
        squares.data **= 2
        return csr_array(squares.T.tocsr().multiply(self.shares[None, :]))

    def spread(self, values: Mapping[Margin, float]) -> Floats:
        """Return an array with the sum of the values of each margin, 0 for the others."""
        out = np.zeros(len(self.margins))
        for margin, value in values.items():
            out[self.index[self.drop(margin)]] += value
        return out


def _check_pairs(pairs: int) -> None:
    if pairs > MAX_PAIRS:
        raise BadParameter(
            "margins",
            f"too many: their closure has over {MAX_PAIRS} pairs of tables",
            "it does not fit in memory",
            "take margins of fewer columns",
        )
