"""From the engine's exact integers to noisy ones, group by group.

Unknown keys pass the selection as they come, and only those that may be shown are kept: a million keys need no more room
than the ones that are shown. The exact integers are gone when this is done.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.noise import Bits
from discreet.query.cells import NoisyStatistics
from discreet.query.measure import Measurement
from discreet.query.measures import CellCounts
from discreet.query.quantiles import sum_tree_levels
from discreet.query.table import Key

Keys: TypeAlias = tuple[Key, ...]
Ints: TypeAlias = NDArray[np.int64]
BATCH_ROWS = 20_000
MAX_NODES_PER_CHUNK = 1 << 21
"""How many counts get their noise at a time."""


@dataclass(frozen=True, slots=True)
class ExactTotals:
    """What an engine returns, read as it is needed: (totals, keys) per group, and (count, cell, keys) per cell."""

    totals: Iterable[tuple[tuple[int, ...], Keys]]
    cell_counts: Mapping[CellCounts, Iterable[tuple[int, int, Keys]]]
    statements: tuple[str, ...] = ()  # what the engine runs for it


def select_partitions(
    measurement: Measurement, totals: Iterable[tuple[tuple[int, ...], Keys]], bits: Bits
) -> tuple[list[Keys], Ints]:
    """Known keys all appear, also with nothing in them; unknown ones only if the selection shows them."""
    bounded, selection = measurement.bounded, measurement.selection
    width = len(bounded.scalars)
    if bounded.keys is not None:
        found = {keys: row for row, keys in totals} if width else {}
        nothing = (0,) * width
        return list(bounded.keys), _to_array([found.get(keys, nothing) for keys in bounded.keys], width)
    assert selection is not None
    kept: list[tuple[Keys, tuple[int, ...]]] = []
    for batch in _read_batches(totals):
        units = np.array([row[-1] for row, _ in batch], np.int64)
        shown = selection.release(units, bits)
        kept += [(keys, row[:width]) for (row, keys), show in zip(batch, shown, strict=True) if show]
    kept.sort(key=lambda each: repr(each[0]))  # an order that the number of rows has no part in
    return [keys for keys, _ in kept], _to_array([row for _, row in kept], width)


def add_noise(
    measurement: Measurement,
    keys: list[Keys],
    totals: Ints,
    exact: ExactTotals,
    bits: Bits,
    confidence: float,
    joint_intervals: int | None,
) -> Iterator[tuple[list[Keys], NoisyStatistics]]:
    """The groups with their noisy totals, as many at a time as there is room for."""
    bounded = measurement.bounded
    spreads = {counts: _SparseCells.of(exact.cell_counts[counts], keys, counts) for counts in bounded.cell_counts}
    size = max(1, MAX_NODES_PER_CHUNK // max([1, *(counts.nodes for counts in spreads)]))
    for start in range(0, len(keys), size):
        chunk = slice(start, min(start + size, len(keys)))
        yield (
            keys[chunk],
            NoisyStatistics(
                measurement,
                {m: measurement.noise(m).release(totals[chunk, i], bits).tolist() for i, m in enumerate(bounded.scalars)},
                {c: measurement.noise(c).release(sum_tree_levels(c, s.to_dense(chunk)), bits) for c, s in spreads.items()},
                confidence,
                joint_intervals,
            ),
        )


@dataclass(frozen=True, slots=True)
class _SparseCells:
    """The cells that have rows, sorted by group."""

    width: int
    group: Ints
    cell: Ints
    count: Ints

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, Keys]], keys: list[Keys], counts: CellCounts) -> "_SparseCells":
        places = {key: i for i, key in enumerate(keys)}
        parts = [np.zeros((0, 3), np.int64)]
        for batch in _read_batches(rows):
            found = [(places[key], cell - counts.first_cell, count) for count, cell, key in batch if key in places]
            parts.append(_to_array(found, 3))
        everything = np.concatenate(parts)
        ordered = everything[np.argsort(everything[:, 0], kind="stable")]
        return cls(counts.cells, ordered[:, 0], ordered[:, 1], ordered[:, 2])

    def to_dense(self, chunk: slice) -> Ints:
        """One row per group of the chunk, one column per cell."""
        dense = np.zeros((chunk.stop - chunk.start, self.width), np.int64)
        first, last = np.searchsorted(self.group, (chunk.start, chunk.stop))
        dense[self.group[first:last] - chunk.start, self.cell[first:last]] = self.count[first:last]
        return dense


def _to_array(rows: Sequence[tuple[int, ...]], width: int) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), width)


def _read_batches(rows: Iterable[Any]) -> Iterator[list[Any]]:
    source = iter(rows)
    while batch := list(islice(source, BATCH_ROWS)):
        yield batch
