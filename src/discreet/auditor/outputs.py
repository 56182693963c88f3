"""Many answers as arrays: the sort of each, a hash of each, and their numbers under named columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from discreet.auditor.parse_output import (
    GREATEST,
    NUMBER_COUNT,
    PLACE_OF_LARGEST,
    SMALLEST,
    SUM,
    SUMMARY,
    FailedCall,
    Floats,
    ParsedOutput,
    hash_text,
    parse_output,
)

__all__ = ["FailedCall", "Floats", "Ints", "Outputs", "concatenate", "from_array", "from_objects"]

Ints: TypeAlias = NDArray[np.int64]


class ColumnNames(Sequence[str]):
    """Names of columns: some texts, then blocks of numbered ones, which are not written out."""

    def __init__(self, own: tuple[str, ...], blocks: tuple[tuple[str, int], ...]) -> None:
        self.own, self.blocks = own, blocks
        firsts = accumulate((size for _, size in blocks), initial=len(own))
        self.starts = {name: first for (name, _), first in zip(blocks, firsts, strict=False)}
        self._places = {name: j for j, name in enumerate(own)}

    def __len__(self) -> int:
        return len(self.own) + sum(size for _, size in self.blocks)

    @overload
    def __getitem__(self, j: int) -> str: ...
    @overload
    def __getitem__(self, j: slice) -> tuple[str, ...]: ...
    def __getitem__(self, j: int | slice) -> str | tuple[str, ...]:
        if isinstance(j, slice):
            return tuple(self[k] for k in range(*j.indices(len(self))))
        if j < len(self.own):
            return self.own[j]
        for name, size in self.blocks:
            start = self.starts[name]
            if j < start + size:
                return f"{name}[{j - start}]"
        raise IndexError(j)

    def find(self, name: str) -> int | None:
        """Where a name stands, if it does."""
        if name in self._places:
            return self._places[name]
        block, _, at = name.removesuffix("]").rpartition("[")
        size = dict(self.blocks).get(block, 0)
        return self.starts[block] + int(at) if at.isdecimal() and int(at) < size else None


@dataclass(frozen=True)
class Outputs:
    """n answers: the sort of each, a hash of each, and their numbers under named columns (NaN where one has none)."""

    kinds: Ints
    digests: Ints
    columns: ColumnNames
    numbers: Floats
    labels: Mapping[int, str]  # what sorts, and the codes of texts, stand for

    def __len__(self) -> int:
        return len(self.digests)

    def select_rows(self, start: int, stop: int) -> "Outputs":
        """Some of them, in order."""
        cut = slice(start, stop)
        return Outputs(self.kinds[cut], self.digests[cut], self.columns, self.numbers[cut], self.labels)

    def get_numbers(self, columns: Sequence[str]) -> Floats:
        """The numbers under these columns."""
        found = np.full((len(self), len(columns)), np.nan)
        for j, name in enumerate(columns):
            place = self.columns.find(name)
            if place is not None:
                found[:, j] = self.numbers[:, place]
        return found

    def keep_columns(self, columns: tuple[str, ...]) -> "Outputs":
        """The same answers with these columns."""
        return Outputs(self.kinds, self.digests, ColumnNames(columns, ()), self.get_numbers(columns), self.labels)

    def align_columns(self, columns: ColumnNames) -> Floats:
        """The numbers under all of these columns, block by block."""
        if (columns.own, columns.blocks) == (self.columns.own, self.columns.blocks):
            return self.numbers
        found = np.full((len(self), len(columns)), np.nan)
        found[:, : len(columns.own)] = self.get_numbers(columns.own)
        for name, size in self.columns.blocks:
            start, at = self.columns.starts[name], columns.starts[name]
            found[:, at : at + size] = self.numbers[:, start : start + size]
        return found


def concatenate(parts: Sequence[Outputs]) -> Outputs:
    """All of them, one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = merge_columns(parts)
    return Outputs(
        np.concatenate([part.kinds for part in parts]),
        np.concatenate([part.digests for part in parts]),
        columns,
        np.concatenate([part.align_columns(columns) for part in parts]),
        {code: name for part in parts for code, name in part.labels.items()},
    )


def merge_columns(parts: Sequence[Outputs]) -> ColumnNames:
    """The columns that some of them have."""
    return _merge_names([part.columns.own for part in parts], [dict(part.columns.blocks) for part in parts])


def _merge_names(own: "Sequence[Sequence[str]]", blocks: "Sequence[Mapping[str, int]]") -> ColumnNames:
    sizes: dict[str, int] = {}
    for each in blocks:
        for name, size in each.items():
            sizes[name] = max(size, sizes.get(name, 0))
    return ColumnNames(tuple(dict.fromkeys(name for names in own for name in names)), tuple(sizes.items()))


# -- arrays -----------------------------------------------------------------------------------------------------------------


def from_array(array: NDArray[Any], columns: tuple[str, ...] | None = None) -> Outputs:
    """One answer per row of an array of numbers; arrays of anything else are read row by row."""
    if array.dtype.kind not in "biufc" or array.ndim == 0:
        return from_objects(list(array) if array.ndim else [array.item()], columns)
    rows = array.reshape(len(array), -1)
    if array.dtype.kind == "c":
        rows = np.stack([rows.real, rows.imag], axis=2).reshape(len(array), -1)
    numbers, width = rows.astype(np.float64), rows.shape[1]
    sort = np.full(len(rows), 4 * width, np.int64)
    finite = np.isfinite(numbers)
    if not finite.all():
        sort += np.isnan(numbers).any(axis=1) + 2 * np.isinf(numbers).any(axis=1)
    kinds = ("", "NaN among ", "infinite numbers among ", "NaN and infinite numbers among ")
    sorts = {4 * width + j: f"{kind}{'a number' if width == 1 else f'{width} numbers'}" for j, kind in enumerate(kinds)}
    whole = _hash_rows(rows, numbers)
    if width == 1:
        return Outputs(sort, whole, ColumnNames(("the answer",), ()), numbers, sorts)
    summed = _summarise_rows(np.where(finite, numbers, 0.0)) if width else np.zeros((len(rows), len(SUMMARY)))
    found = Outputs(
        sort, whole, ColumnNames(SUMMARY, (("answer", width),)), np.concatenate([summed, numbers], axis=1), sorts
    )
    return found if columns is None else found.keep_columns(columns)


def _summarise_rows(numbers: Floats) -> Floats:
    every = {
        SUM: numbers.sum(axis=1), GREATEST: numbers.max(axis=1), SMALLEST: numbers.min(axis=1),
        PLACE_OF_LARGEST: numbers.argmax(axis=1), NUMBER_COUNT: np.full(len(numbers), float(numbers.shape[1])),
    }  # fmt: skip
    return np.stack([every[name] for name in SUMMARY], axis=1).astype(np.float64)


def _hash_rows(rows: NDArray[Any], numbers: Floats) -> Ints:
    """64 bits per row: the numbers, mixed, times an odd number of each place. Whole numbers that a double holds count as it,
    so that the same answer has the same hash whatever the type of the array that it comes in."""
    exact = to_bits(numbers)
    if rows.dtype.kind in "iu":
        exact = np.where(np.abs(numbers) < 2.0**53, exact, rows.astype(np.int64))
    if rows.shape[1] == 1:
        return np.asarray(exact[:, 0])
    keys = _mix_bits(np.arange(1, rows.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    return np.asarray((_mix_bits(exact.view(np.uint64)) * keys).sum(axis=1, dtype=np.uint64).view(np.int64))


def _mix_bits(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: close numbers become far ones."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def to_bits(numbers: Floats) -> Ints:
    """Doubles as whole numbers, bit by bit."""
    return np.ascontiguousarray(numbers).view(np.int64)


# -- objects ----------------------------------------------------------------------------------------------------------------


def from_objects(found: Sequence[Any], columns: tuple[str, ...] | None = None) -> Outputs:
    """One answer per object, or per reading of one under these columns; its numbers under them, or all of its numbers."""
    if found and all(type(each) is float for each in found):
        array = np.array(found)
        if np.isfinite(array).all():
            return _from_numbers(found[0], array, to_bits(array))
    if found and all(_is_small_int(each) for each in found):
        array = np.array(found, np.int64)
        return _from_numbers(found[0], array.astype(np.float64), array)
    readings = [each if isinstance(each, ParsedOutput) else parse_output(each, columns) for each in found]
    exact = np.array([_digest_output(each, reading) for each, reading in zip(found, readings, strict=True)], np.int64)
    sorts = {code: words for reading in readings for code, words in reading.labels.items()}
    codes = {name: hash_text(name) for name in {reading.kind for reading in readings}}
    sort = np.array([codes[reading.kind] for reading in readings], np.int64)
    sorts |= {code: name for name, code in codes.items()}
    if columns is None:
        names = _merge_names(
            [tuple(each.numbers) for each in readings], [{b: len(r) for b, r in e.blocks.items()} for e in readings]
        )
    else:
        names = ColumnNames(columns, ())
    return Outputs(sort, exact, names, _fill_table(readings, names), sorts)


def _fill_table(readings: Sequence[ParsedOutput], names: ColumnNames) -> Floats:
    table = np.full((len(readings), len(names)), np.nan)
    places = {name: j for j, name in enumerate(names.own)}
    for row, reading in zip(table, readings, strict=True):
        for name, value in reading.numbers.items():
            row[places[name]] = value
        for block, values in reading.blocks.items():
            row[names.starts[block] : names.starts[block] + len(values)] = values
    return table


def _from_numbers(first: Any, numbers: Floats, exact: Ints) -> Outputs:
    """Numbers of one sort, read as each of them would be alone."""
    name = parse_output(first).kind
    return Outputs(
        np.full(len(exact), hash_text(name)),
        exact,
        ColumnNames(("the answer",), ()),
        numbers[:, None],
        {hash_text(name): name},
    )


def _is_small_int(each: Any) -> bool:
    return type(each) is int and abs(each) < 1 << 53


def _digest_output(each: Any, reading: ParsedOutput) -> int:
    """A code for the whole answer."""
    if type(each) is float:
        return int(to_bits(np.array([each]))[0])
    return int(each) if _is_small_int(each) else reading.digest
