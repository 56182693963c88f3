"""Margins: sets of columns, the tables that count by them, and how the tables of a closure contain each other.

A margin is a sorted tuple of column numbers; () is the table of one cell, the total. A margin A contains b where b ⊆ A: then
the table of b is the table of A, summed over the columns A∖b. The closure of some margins is all margins that they contain.

A column of one value adds nothing to a table but an axis of length 1. `drop_single_columns` leaves such columns out, so that
one table has one margin; `Lattice` does so with all of its margins.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discreet._numbers import check_int
from discreet.errors import BadParameter

Margin: TypeAlias = tuple[int, ...]
"""Column numbers in rising order; () is the total."""

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
    def of(cls, sizes: Sequence[int], margins: Iterable[Margin]) -> "Lattice":
        """Return the lattice of the closure, without columns of one value."""
        known = check_sizes(sizes)
        return cls(known, list_closure(drop_single_columns(known, check_margin(each, len(known))) for each in margins))

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
