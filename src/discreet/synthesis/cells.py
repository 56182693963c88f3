"""The exact data as an engine returns it: finest cells, and the tables that are summed up from them.

Only `TreeSynthesis.measure` and `AdaptiveSynthesis.measure` read them, after payment: all others see noisy tables.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, NamedTuple, Protocol

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


MAX_GROUP_CELLS = 1 << 11
"""The joint tables from which pairs are summed up have at most so many cells: they stay in the processor's cache."""

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

    def __post_init__(self) -> None:
        known = check_domain(self.sizes)
        if len(self.columns) != len(known):
            raise BadParameter(
                "columns", f"{len(self.columns)} arrays", f"there are {len(known)} sizes", "give one for each"
            )
        for place, (column, size) in enumerate(zip(self.columns, known, strict=True)):
            if not isinstance(column, np.ndarray) or column.dtype.kind not in "iu":
                raise BadParameter("columns", f"of type {type(column).__name__}", "not integers", "take Cells.read")
            if column.size:
                _check_range(column.min(), column.max(), place, size)
            if len(column) != len(self.columns[0]):
                raise BadParameter("columns", "of different lengths", "each has one code per cell", "take Cells.read")
        _check_counts(self.counts, len(self.columns[0]))
        if float(self.counts.astype(np.float64).sum()) > MAX_TOTAL:
            raise BadParameter("counts", "too large", "there are more than 2⁵⁰ rows", "take fewer rows")

    @classmethod
    def read(cls, sizes: Sequence[int], codes: Ints, counts: Ints | None = None) -> "Cells":
        """Return the cells with these codes, one row of `codes` each; without `counts` each stands for one row.

        >>> Cells.read((2, 3), np.array([[0, 2], [1, 0]]), np.array([5, 1])).table((1,))
        array([1, 0, 5])
        """
        rows = np.asarray(codes)
        many = rows.shape[0] if rows.ndim else 0
        return cls.join(sizes, [_Block(rows, np.ones(many, np.int64) if counts is None else counts)])

    @classmethod
    def join(cls, sizes: Sequence[int], blocks: Iterable[Block]) -> "Cells":
        """Return the cells of several blocks, as `Engine.read_cells` yields them."""
        known = check_domain(sizes)
        kinds = [np.min_scalar_type(size - 1) for size in known]
        parts: list[list[NDArray[np.unsignedinteger]]] = [[] for _ in known]
        weights = [np.zeros(0, np.int64)]
        for block in blocks:
            codes = _shrink_codes(block.codes, known)
            weights.append(_check_counts(block.counts, len(codes)))
            for place, kind in enumerate(kinds):
                parts[place].append(codes[:, place].astype(kind))
        empty = [np.zeros(0, kind) for kind in kinds]
        columns = tuple(np.concatenate([none, *part]) for none, part in zip(empty, parts, strict=True))
        joined = np.concatenate(weights)
        return cls(known, columns, joined)

    def table(self, margin: Margin) -> Ints:
        """Return the exact counts by the columns of a margin; its shape is that of their sizes."""
        shape = shape_of(self.sizes, margin)
        if not margin:
            return np.asarray(self.counts.sum())
        if margin in self._joint_tables:
            return sum_to(*self._joint_tables[margin], margin)
        flat: NDArray[Any] = self.columns[margin[0]].astype(np.uint16 if prod(shape) <= 1 << 16 else np.int64)
        for column in margin[1:]:
            flat *= flat.dtype.type(self.sizes[column])
            flat += self.columns[column]
        summed = np.bincount(flat, self._weights, minlength=prod(shape))
        return summed.astype(np.int64, copy=False).reshape(shape)  # sums below 2⁵³ are exact in doubles

    def prepare_pairs(self, pairs: Sequence[Margin]) -> None:
        """Count joint tables of a few columns, from which tables of these pairs, and of single columns, are summed up: the
        cells are read once for several of them. They are small: a pair that is in no such group is counted when it is
        wanted."""
        for columns in group_pairs(self.sizes, pairs, min(MAX_GROUP_CELLS, len(self.counts))):
            if prod(shape_of(self.sizes, columns)) <= MAX_GROUP_CELLS:
                joint = columns, self.table(columns)
                for margin in (*combinations(columns, 1), *combinations(columns, 2)):
                    self._joint_tables.setdefault(margin, joint)

    @cached_property
    def _joint_tables(self) -> dict[Margin, tuple[Margin, Ints]]:
        """By margin, some columns and their joint table, from which the table of the margin is summed up."""
        return {}

    @cached_property
    def _weights(self) -> Floats | None:
        """The counts as doubles; None if every cell has one row, which is quicker to count."""
        return None if bool((self.counts == 1).all()) else self.counts.astype(np.float64)


def sum_to(columns: Margin, joint: Ints, margin: Margin) -> Ints:
    """Return the table of a margin from the joint table of some columns, among which are those of the margin.

    >>> sum_to((4, 7), np.arange(6).reshape(2, 3), (7,))
    array([3, 5, 7])
    """
    others = tuple(place for place, column in enumerate(columns) if column not in margin)
    return np.asarray(joint.sum(axis=others)) if others else joint


def group_pairs(sizes: tuple[int, ...], pairs: Sequence[Margin], max_cells: int) -> list[Margin]:
    """Return groups of columns of which each pair is in one; a group has two columns, or at most so many cells.

    >>> group_pairs((2, 3, 4), [(0, 1), (0, 2), (1, 2)], 24), group_pairs((2, 3, 4), [(0, 1), (0, 2)], 12)
    ([(0, 1, 2)], [(0, 1), (0, 2)])
    """
    open_pairs, found = dict.fromkeys(pairs), list[Margin]()
    near: dict[int, set[int]] = {}
    for left, right in pairs:
        near.setdefault(left, set()).add(right)
        near.setdefault(right, set()).add(left)
    while open_pairs:
        chosen = list(next(iter(open_pairs)))
        while True:
            room = max_cells // prod(sizes[column] for column in chosen)
            fitting = [column for column in near if sizes[column] <= room and column not in chosen]
            best = max(fitting, key=lambda column: sum(other in near[column] for other in chosen), default=None)
            if best is None or not any(other in near[best] for other in chosen):
                break
            chosen.append(best)
        found.append(tuple(sorted(chosen)))
        for left, right in combinations(found[-1], 2):
            open_pairs.pop((left, right), None)
            near[left].discard(right)
            near[right].discard(left)
    return found


def check_domain(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return how many values each column has; refuse a list without columns and a column without values."""
    if isinstance(sizes, str) or not isinstance(sizes, Sequence) or len(sizes) == 0:
        raise BadParameter("sizes", repr(sizes), "no list of sizes", "give the number of values of every column")
    return check_sizes(sizes)


def check_cells(cells: Cells, sizes: tuple[int, ...]) -> None:
    """Refuse what are no cells of these columns."""
    if not isinstance(cells, Cells):
        raise BadParameter("cells", f"of type {type(cells).__name__}", "not cells", "give cells=Cells.read(sizes, codes)")
    if cells.sizes != sizes:
        raise BadParameter(
            "cells", f"of sizes {cells.sizes}", f"the plan is for {sizes}", "read the cells with the sizes of the plan"
        )


def check_codes(codes: Any, sizes: tuple[int, ...]) -> Ints:
    """Return rows of codes, one column for each size. A refusal names a column, and shows no value: it would be one of the
    data.

    >>> check_codes(np.array([[0, 3]]), (2, 3))
    Traceback (most recent call last):
    discreet.errors.BadParameter: codes of `column 1` are outside of 0 to 2: they are places among its 3 values. Give codes \
within the sizes.
    """
    known = np.asarray(codes)
    if known.dtype.kind not in "iu":
        raise BadParameter("codes", f"of type {known.dtype}", "not integers", "give the place of each value among the keys")
    if known.ndim != 2 or known.shape[1] != len(sizes):
        raise BadParameter(
            "codes", f"of shape {known.shape}", f"there are {len(sizes)} columns", "give one row of codes per row"
        )
    if len(known):
        for place, (least, most, size) in enumerate(zip(known.min(0), known.max(0), sizes, strict=True)):
            _check_range(least, most, place, size)
    return known


def _shrink_codes(codes: Any, sizes: tuple[int, ...]) -> NDArray[np.unsignedinteger]:
    """Return rows of codes in the smallest unsigned integers that hold all values of all columns. Whether a column has codes
    beyond its own size is checked of the small integers (`Cells`): columns of large ones are slow to read."""
    kind = np.min_scalar_type(max(sizes) - 1)
    known = np.asarray(codes)
    has_shape = known.ndim == 2 and known.shape[1] == len(sizes) and known.dtype.kind in "iu"
    if not (has_shape and (known.size == 0 or (known.min() >= 0 and known.max() < max(sizes)))):
        check_codes(known, sizes)  # raises, and says why
    return known.astype(kind)


def _check_range(least: Any, most: Any, place: int, size: int) -> None:
    if not (least >= 0 and most < size):
        raise BadParameter(
            "codes", f"outside of 0 to {size - 1}", f"they are places among its {size} values",
            "give codes within the sizes", column=f"column {place}",
        )  # fmt: skip


def _check_counts(counts: Any, rows: int) -> Ints:
    known = np.asarray(counts)
    if known.dtype.kind not in "iu" or known.shape != (rows,):
        given = f"of type {known.dtype} and shape {known.shape}"
        raise BadParameter("counts", given, "not one integer per cell", "give how many rows each cell stands for")
    if known.size and known.min() < 0:
        raise BadParameter("counts", "negative", "a cell stands for 0 rows or more", "give counts of at least 0")
    return known.astype(np.int64, copy=False)
