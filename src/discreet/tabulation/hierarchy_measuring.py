"""The measurements of a hierarchy: one pass over the rows, subtree by subtree, into a folder that one debit is bound to.

**Theory of operation.** `SpoolJob` is a debit of no cost, whose answer is the random identity of the folder; `HierarchyJob`
is the debit that is paid, for measurements in that folder (`spool.py` says why there are two). The engine returns the cells
that have rows in the order of the nodes of the last level. So the cells of one subtree follow each other: they are summed up
to all its levels and tables in 64-bit integers, noise is added, and the part is durable before the next one is drawn. Sums
for the levels above are kept until the end, and measured last. Subtrees without rows are measured as all others.

What the account records are the hashes of the parts and their Merkle root: the numbers are in the folder.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.currencies import Receipt
from discreet.engines.base import owner_log
from discreet.events import Composition, compose
from discreet.noise import SYSTEM, Bits
from discreet.query.answer import IntervalOptions
from discreet.query.cells import CellBlock
from discreet.query.schema import Table
from discreet.session.executor import Executor, Job, RunOptions
from discreet.tabulation.hierarchy import HierarchyWanted
from discreet.tabulation.intervals import CountNoise
from discreet.tabulation.margins import Ints, Margin, count_cells, shape_of
from discreet.tabulation.measuring import choose_counting, number_cells
from discreet.tabulation.spool import UPPER, DataChanged, Spool, merkle_root, name_subtree

LevelNoises = tuple[Mapping[Margin, CountNoise], ...]
NOTHING = compose()
UNITS = "units"
"""What the hash of units is called among the cells of a part."""
Cells = dict[Margin, Ints]
"""Tables of some nodes: one row per node, and flat cells."""


def make_hierarchy_event(wanted: HierarchyWanted, noises: LevelNoises) -> Composition:
    """Return the event of measuring these tables of all levels: one independent noise per cell, one event per table."""
    return compose(
        *(
            noise.event(wanted.sensitivity(level, margin))
            for level, each in enumerate(noises)
            for margin, noise in each.items()
        )
    )


@dataclass(frozen=True)
class SpoolJob(Job[str]):
    """A folder for the measurements of a plan, made and recorded before anything is paid."""

    declared: Table
    folder: Path
    plan: str  # its hash
    spec: Mapping[str, Any]
    event: Composition = NOTHING
    certified_delta: Fraction = Fraction(0)
    after: tuple[int, ...] = ()

    @property
    def table(self) -> Table:
        """What is declared about the table."""
        return self.declared

    def measure(self, executor: Executor, paid: Receipt, options: RunOptions, intervals: IntervalOptions) -> str:
        """Make the folder. Nothing is read."""
        return Spool.create(self.folder, self.plan, reuse=not options.fresh).identity

    def to_record(self, result: str) -> dict[str, Any]:
        """Return the identity as plain values."""
        return {"spool": result}

    def from_record(self, record: Mapping[str, Any], intervals: IntervalOptions) -> str:
        """Return what `to_record` wrote."""
        return str(record["spool"])


@dataclass(frozen=True)
class HierarchyJob(Job[dict[str, str]]):
    """What one debit pays for: the noisy tables of all measured margins on all levels. It returns the hash of each part."""

    wanted: HierarchyWanted
    noises: LevelNoises
    stream_level: int
    spool: Spool
    event: Composition
    spec: Mapping[str, Any]
    certified_delta: Fraction = Fraction(0)
    after: tuple[int, ...] = ()

    @property
    def table(self) -> Table:
        """What is declared about the table."""
        return self.wanted.bounded.table

    @property
    def part_names(self) -> list[str]:
        """The parts in the order in which they are drawn."""
        return list_part_names(self.wanted.hierarchy.spine.sizes, self.stream_level)

    def measure(self, executor: Executor, paid: Receipt, options: RunOptions, intervals: IntervalOptions) -> dict[str, str]:
        """Draw the parts that are missing, and return the hashes of all."""
        paid.spend(make_hierarchy_event(self.wanted, self.noises))
        with self.spool.lock():
            if not all(map(self.spool.has_part, self.part_names)):
                with executor.read(options.progress):
                    blocks = executor.engine.read_cells(self.wanted.bounded, ordered_columns=1, hash_units=True)
                    self._draw_parts(blocks, SYSTEM if options.bits is None else options.bits)
            return self.spool.finish(self.part_names)

    def _draw_parts(self, blocks: Iterable[CellBlock], bits: Bits) -> None:
        adder = LevelAdder(self.wanted, self.noises, self.stream_level)
        try:
            for place, cells in adder.iterate_subtrees(blocks):
                checked = cells | {UNITS: adder.unit_hashes[-1:]}
                self._draw_part(name_subtree(place), adder.sum_subtree(place, cells), self.stream_level, checked, bits)
            self._draw_part(UPPER, adder.sum_upper(), 0, adder.upper | {UNITS: adder.unit_hashes}, bits)
        except DataChanged as changed:
            owner_log.error("%s", changed)
            raise

    def _draw_part(self, name: str, exact: list[Cells], first_level: int, checked: Mapping[Any, Ints], bits: Bits) -> None:
        """Draw a part, unless it is there; then compare what it was made from: its cells, and which units are in them."""
        if self.spool.has_part(name):
            self.spool.check_cells(name, checked)
            return
        noisy = [
            {margin: self.noises[level][margin].release(table, bits) for margin, table in tables.items()}
            for level, tables in enumerate(exact, first_level)
        ]
        self.spool.write_part(name, noisy, first_level, checked)

    def to_record(self, result: dict[str, str]) -> dict[str, Any]:
        """Return the folder's identity, the hashes of its parts and their Merkle root; and what the numbers in them are: the
        columns of the cells, and what one step of the grid is worth."""
        step = self.wanted.bounded.step
        described = {"columns": list(self.wanted.columns), "step": str(step)}
        return {"spool": self.spool.identity, "root": merkle_root(result), "parts": result} | described

    def from_record(self, record: Mapping[str, Any], intervals: IntervalOptions) -> dict[str, str]:
        """Return what `to_record` wrote."""
        return dict(record["parts"])

    def list_differences(self, record: Mapping[str, Any]) -> list[str]:
        """Say how a recorded answer differs: it is none of a hierarchy, or of other subtrees."""
        if "parts" not in record:
            return ["it is of a query, and this is a tabulation of a hierarchy"]
        return [] if [*record["parts"]] == self.part_names else ["its subtrees are others"]


def list_part_names(sizes: Sequence[int], stream_level: int) -> list[str]:
    """Return the names of the parts of a spine with levels of these sizes, in the order in which they are drawn."""
    subtrees = sizes[stream_level] if stream_level < len(sizes) else 0
    return [*map(name_subtree, range(subtrees)), UPPER]


def hash_units(block: CellBlock, begin: int = 0, end: int | None = None) -> int:
    """Return one number for which units are in which cells of a part of a block; 0 if the block does not say.

    It is a sum over the cells, in whatever order an engine returns them: of a 64-bit hash of the codes of the cell, its
    total and the hash of its units.
    """
    if block.units is None:
        return 0
    mixed = np.zeros(len(block.units[begin:end]), np.uint64)
    for numbers in (*block.codes.T, block.counts, block.units):
        mixed = _mix(mixed ^ np.ascontiguousarray(numbers[begin:end], np.int64).view(np.uint64))
    return int(mixed.sum(dtype=np.uint64))


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Send 64-bit integers to others, one to one, so that each bit depends on all (the finaliser of SplitMix64)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


class LevelAdder:
    """Sums up cells of the last level to all levels and measured tables. All numbers in it are exact, and private.

    Tables that no other measured one contains are counted from the cells; all others are sums of these.
    """

    def __init__(self, wanted: HierarchyWanted, noises: LevelNoises, stream_level: int) -> None:
        self.spine, self.sizes, self.noises, self.level = wanted.hierarchy.spine, wanted.sizes, noises, stream_level
        margins = sorted({margin for each in noises for margin in each}, key=lambda margin: (-len(margin), margin))
        self.largest = [a for a in margins if not any(set(a) < set(b) for b in margins)]
        self.upper = self._zeros(self.spine.sizes[stream_level - 1])
        """The cells of the level above the subtrees, as far as they were added."""
        self.unit_hashes = np.zeros(0, np.int64)
        """A hash of which units are in which cells, for each subtree that was returned; one if there are no subtrees."""

    def _zeros(self, nodes: int) -> Cells:
        return {margin: np.zeros((nodes, count_cells(self.sizes, margin)), np.int64) for margin in self.largest}

    def iterate_subtrees(self, blocks: Iterable[CellBlock]) -> Iterator[tuple[int, Cells]]:
        """Yield the cells of the last level of each subtree, empty ones too, and add them to the levels above.

        Raises:
            AssertionError: cells do not come in the order of the nodes.
        """
        if self.level == len(self.spine.levels):  # no subtrees: the level above them is the last one
            hashed = 0
            for block in blocks:
                self._count(block.codes, block.counts, 0, self.upper)
                hashed += hash_units(block)
            self._keep_hash(hashed)
            return
        ends = self._list_ends()
        place, cells, last, hashed = 0, self._zeros(ends[0]), -1, 0
        for block in blocks:
            leaf = block.codes[:, 0]
            if not len(leaf):
                continue
            if leaf[0] < last or np.any(leaf[1:] < leaf[:-1]):
                raise AssertionError("the engine did not return cells in the order of the nodes")
            last, begin = int(leaf[-1]), 0
            while begin < len(leaf):
                while leaf[begin] >= ends[place]:
                    self._keep_hash(hashed)
                    yield place, self._add_above(place, cells)
                    place, hashed = place + 1, 0
                    cells = self._zeros(ends[place] - ends[place - 1])
                end = int(np.searchsorted(leaf, ends[place]))
                first = ends[place - 1] if place else 0
                self._count(block.codes[begin:end], block.counts[begin:end], first, cells)
                hashed += hash_units(block, begin, end)
                begin = end
        while place < len(ends):
            self._keep_hash(hashed)
            yield place, self._add_above(place, cells)
            place, hashed = place + 1, 0
            if place < len(ends):
                cells = self._zeros(ends[place] - ends[place - 1])

    def _keep_hash(self, hashed: int) -> None:
        self.unit_hashes = np.append(self.unit_hashes, np.array([hashed % 2**64], np.uint64).view(np.int64))

    def _list_ends(self) -> list[int]:
        """Where on the last level each subtree ends."""
        ends = np.arange(1, self.spine.sizes[self.level] + 1)
        for starts in self.spine.starts[self.level :]:
            ends = starts[ends]
        return [int(each) for each in ends]

    def _count(self, codes: Ints, counts: Ints, first: int, cells: Cells) -> None:
        count = choose_counting(counts)
        columns = [codes[:, 0] - first, *(np.ascontiguousarray(codes[:, i]) for i in range(1, codes.shape[1]))]
        for margin, table in cells.items():
            place = number_cells(columns, (len(table), *self.sizes), (0, *(i + 1 for i in margin)), len(counts))
            table += count(place, table.size).reshape(table.shape)

    def _add_above(self, place: int, cells: Cells) -> Cells:
        parent = self.spine.parents[self.level][place]
        for margin, table in cells.items():
            self.upper[margin][parent] += table.sum(axis=0)
        return cells

    def sum_subtree(self, place: int, cells: Cells) -> list[Cells]:
        """Return the exact measured tables of a subtree, from its own level down."""
        where = self.spine.slice_subtree(self.level, place)
        return self._sum_levels(cells, where, self.level)

    def sum_upper(self) -> list[Cells]:
        """Return those of the levels above the subtrees, once all of them were added."""
        return self._sum_levels(self.upper, self.spine.slice_subtree(0, 0, self.spine.sizes[0])[: self.level], 0)

    def _sum_levels(self, cells: Cells, where: Sequence[slice], first: int) -> list[Cells]:
        found: list[Cells] = []
        for level in range(first + len(where) - 1, first - 1, -1):
            if found:
                starts = self.spine.starts[level][where[level - first]]
                cells = {margin: np.add.reduceat(table, starts - starts[0], axis=0) for margin, table in cells.items()}
            found.insert(0, {margin: self._sum_to(cells, margin) for margin in self.noises[level]})
        return found

    def _sum_to(self, cells: Cells, margin: Margin) -> Ints:
        if margin in cells:
            return cells[margin]
        whole = min((each for each in cells if set(margin) < set(each)), key=lambda each: cells[each].shape[1])
        table = cells[whole].reshape(-1, *shape_of(self.sizes, whole))
        away = tuple(1 + axis for axis, i in enumerate(whole) if i not in margin)
        return np.asarray(table.sum(axis=away).reshape(len(table), -1))
