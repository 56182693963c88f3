"""The exact data as an engine returns it: finest cells, and the tables that are summed up from them.

Only `TreeSynthesis.measure` and `AdaptiveSynthesis.measure` read them, after payment: all others see noisy tables.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter
from discreet.tabulation.margins import Floats, Ints, Margin, check_sizes, shape_of


class Block(Protocol):
    """Some cells: `codes` has one row for each and one column per column, `counts` how many rows it stands for."""

    @property
    def codes(self) -> Ints:
        """Which key of each column a cell has, as its place among them."""
        ...

    @property
    def counts(self) -> Ints:
        """How many rows each cell has."""
        ...


class _Block(NamedTuple):
    codes: Ints
    counts: Ints


MAX_TOTAL = 1 << 50
"""Above so many rows a sum in doubles, and a score in steps of 2⁻¹⁰, could be inexact."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The combinations of values that occur, and how many rows have each, each unit's rows bounded to k.

    A column is kept in the smallest integers that hold its codes: 10⁷ cells of 13 columns take 130 MB.
    """

    sizes: tuple[int, ...]
    columns: tuple[NDArray[np.unsignedinteger], ...]
    counts: Ints

    @classmethod
    def read(cls, sizes: Sequence[int], codes: Ints, counts: Ints | None = None) -> "Cells":
        """Return the cells with these codes, one row of `codes` each; without `counts` each stands for one row.

        >>> Cells.read((2, 3), np.array([[0, 2], [1, 0]]), np.array([5, 1])).table((1,))
        array([1, 0, 5])
        """
        return cls.join(sizes, [_Block(codes, np.ones(len(codes), np.int64) if counts is None else counts)])

    @classmethod
    def join(cls, sizes: Sequence[int], blocks: Iterable[Block]) -> "Cells":
        """Return the cells of several blocks, as `Engine.read_cells` yields them."""
        known = check_domain(sizes)
        kinds = [np.min_scalar_type(size - 1) for size in known]
        parts: list[list[NDArray[np.unsignedinteger]]] = [[] for _ in known]
        weights = [np.zeros(0, np.int64)]
        for block in blocks:
            _check_block(known, block.codes, block.counts)
            weights.append(np.asarray(block.counts, np.int64))
            for place, kind in enumerate(kinds):
                parts[place].append(block.codes[:, place].astype(kind))
        empty = [np.zeros(0, kind) for kind in kinds]
        columns = tuple(np.concatenate([none, *part]) for none, part in zip(empty, parts, strict=True))
        joined = np.concatenate(weights)
        if float(joined.astype(np.float64).sum()) > MAX_TOTAL:
            raise AssertionError(f"there are more than {MAX_TOTAL} rows")
        return cls(known, columns, joined)

    def table(self, margin: Margin) -> Ints:
        """Return the exact counts by the columns of a margin; its shape is that of their sizes."""
        shape = shape_of(self.sizes, margin)
        if not margin:
            return np.asarray(self.counts.sum())
        flat = self.columns[margin[0]].astype(np.int64)
        for column in margin[1:]:
            flat *= self.sizes[column]
            flat += self.columns[column]
        summed = np.bincount(flat, self._weights, minlength=prod(shape))
        return summed.astype(np.int64, copy=False).reshape(shape)  # sums below 2⁵³ are exact in doubles

    @cached_property
    def _weights(self) -> Floats | None:
        """The counts as doubles; None if every cell has one row, which is quicker to count."""
        return None if bool((self.counts == 1).all()) else self.counts.astype(np.float64)


def check_domain(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return how many values each column has; refuse a list without columns and a column without values."""
    if isinstance(sizes, str) or not isinstance(sizes, Sequence) or len(sizes) == 0:
        raise BadParameter("sizes", repr(sizes), "no list of sizes", "give the number of values of every column")
    return check_sizes(sizes)


def _check_block(sizes: tuple[int, ...], codes: Ints, counts: Ints) -> None:
    """Refuse what no engine returns. The message shows no value, because it would show one of the data."""
    fits = codes.ndim == 2 and codes.shape == (len(counts), len(sizes)) and codes.dtype.kind in "iu"
    if not fits or (len(counts) > 0 and not _within(sizes, codes, counts)):
        raise AssertionError("cells must be codes within the sizes of the columns, with counts of at least 0")


def _within(sizes: tuple[int, ...], codes: Ints, counts: Ints) -> bool:
    return bool(codes.min() >= 0 and (codes.max(axis=0) < np.array(sizes)).all() and np.asarray(counts).min() >= 0)
