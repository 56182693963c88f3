"""Many answers as arrays: the sort of each, a hash of each, and their numbers under named columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from discreet.auditor.reading import GREATEST, MANY, PLACE, SMALLEST, SUM, SUMMARY, Floats, Raised, Reading, code_of, read

__all__ = ["Answers", "Floats", "Ints", "Raised", "of_array", "of_objects", "together"]

Ints: TypeAlias = NDArray[np.int64]


class Names(Sequence[str]):
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

    def place(self, name: str) -> int | None:
        """Where a name stands, if it does."""
        if name in self._places:
            return self._places[name]
        block, _, at = name.removesuffix("]").rpartition("[")
        size = dict(self.blocks).get(block, 0)
        return self.starts[block] + int(at) if at.isdecimal() and int(at) < size else None


@dataclass(frozen=True)
class Answers:
    """n answers: the sort of each, a hash of each, and their numbers under named columns (NaN where one has none)."""

    sort: Ints
    whole: Ints
    columns: Names
    numbers: Floats
    sorts: Mapping[int, str]  # what sorts, and the codes of texts, stand for

    def __len__(self) -> int:
        return len(self.whole)

    def part(self, start: int, stop: int) -> "Answers":
        """Some of them, in order."""
        cut = slice(start, stop)
        return Answers(self.sort[cut], self.whole[cut], self.columns, self.numbers[cut], self.sorts)

    def under(self, columns: Sequence[str]) -> Floats:
        """The numbers under these columns."""
        found = np.full((len(self), len(columns)), np.nan)
        for j, name in enumerate(columns):
            place = self.columns.place(name)
            if place is not None:
                found[:, j] = self.numbers[:, place]
        return found

    def only(self, columns: tuple[str, ...]) -> "Answers":
        """The same answers with these columns."""
        return Answers(self.sort, self.whole, Names(columns, ()), self.under(columns), self.sorts)

    def spread_over(self, columns: Names) -> Floats:
        """The numbers under all of these columns, block by block."""
        if (columns.own, columns.blocks) == (self.columns.own, self.columns.blocks):
            return self.numbers
        found = np.full((len(self), len(columns)), np.nan)
        found[:, : len(columns.own)] = self.under(columns.own)
        for name, size in self.columns.blocks:
            start, at = self.columns.starts[name], columns.starts[name]
            found[:, at : at + size] = self.numbers[:, start : start + size]
        return found


def together(parts: Sequence[Answers]) -> Answers:
    """All of them, one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = all_columns(parts)
    return Answers(
        np.concatenate([part.sort for part in parts]),
        np.concatenate([part.whole for part in parts]),
        columns,
        np.concatenate([part.spread_over(columns) for part in parts]),
        {code: name for part in parts for code, name in part.sorts.items()},
    )


def all_columns(parts: Sequence[Answers]) -> Names:
    """The columns that some of them have."""
    return _names([part.columns.own for part in parts], [dict(part.columns.blocks) for part in parts])


def _names(own: "Sequence[Sequence[str]]", blocks: "Sequence[Mapping[str, int]]") -> Names:
    sizes: dict[str, int] = {}
    for each in blocks:
        for name, size in each.items():
            sizes[name] = max(size, sizes.get(name, 0))
    return Names(tuple(dict.fromkeys(name for names in own for name in names)), tuple(sizes.items()))


# -- arrays -----------------------------------------------------------------------------------------------------------------


def of_array(array: NDArray[Any], columns: tuple[str, ...] | None = None) -> Answers:
    """One answer per row of an array of numbers; arrays of anything else are read row by row."""
    if array.dtype.kind not in "biufc" or array.ndim == 0:
        return of_objects(list(array) if array.ndim else [array.item()], columns)
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
    whole = _row_hash(rows, numbers)
    if width == 1:
        return Answers(sort, whole, Names(("the answer",), ()), numbers, sorts)
    summed = _summary(np.where(finite, numbers, 0.0)) if width else np.zeros((len(rows), len(SUMMARY)))
    found = Answers(sort, whole, Names(SUMMARY, (("answer", width),)), np.concatenate([summed, numbers], axis=1), sorts)
    return found if columns is None else found.only(columns)


def _summary(numbers: Floats) -> Floats:
    every = {
        SUM: numbers.sum(axis=1), GREATEST: numbers.max(axis=1), SMALLEST: numbers.min(axis=1),
        PLACE: numbers.argmax(axis=1), MANY: np.full(len(numbers), float(numbers.shape[1])),
    }  # fmt: skip
    return np.stack([every[name] for name in SUMMARY], axis=1).astype(np.float64)


def _row_hash(rows: NDArray[Any], numbers: Floats) -> Ints:
    """64 bits per row: the numbers, mixed, times an odd number of each place. Whole numbers that a double holds count as it,
    so that the same answer has the same hash whatever the type of the array that it comes in."""
    exact = bits(numbers)
    if rows.dtype.kind in "iu":
        exact = np.where(np.abs(numbers) < 2.0**53, exact, rows.astype(np.int64))
    if rows.shape[1] == 1:
        return np.asarray(exact[:, 0])
    keys = _mixed(np.arange(1, rows.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    return np.asarray((_mixed(exact.view(np.uint64)) * keys).sum(axis=1, dtype=np.uint64).view(np.int64))


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: close numbers become far ones."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def bits(numbers: Floats) -> Ints:
    """Doubles as whole numbers, bit by bit."""
    return np.ascontiguousarray(numbers).view(np.int64)


# -- objects ----------------------------------------------------------------------------------------------------------------


def of_objects(found: Sequence[Any], columns: tuple[str, ...] | None = None) -> Answers:
    """One answer per object, or per reading of one under these columns; its numbers under them, or all of its numbers."""
    if found and all(type(each) is float for each in found):
        array = np.array(found)
        if np.isfinite(array).all():
            return _alike(found[0], array, bits(array))
    if found and all(_small(each) for each in found):
        array = np.array(found, np.int64)
        return _alike(found[0], array.astype(np.float64), array)
    readings = [each if isinstance(each, Reading) else read(each, columns) for each in found]
    exact = np.array([_exact(each, reading) for each, reading in zip(found, readings, strict=True)], np.int64)
    sorts = {code: words for reading in readings for code, words in reading.words.items()}
    codes = {name: code_of(name) for name in {reading.sort for reading in readings}}
    sort = np.array([codes[reading.sort] for reading in readings], np.int64)
    sorts |= {code: name for name, code in codes.items()}
    if columns is None:
        names = _names(
            [tuple(each.numbers) for each in readings], [{b: len(r) for b, r in e.blocks.items()} for e in readings]
        )
    else:
        names = Names(columns, ())
    return Answers(sort, exact, names, _table(readings, names), sorts)


def _table(readings: Sequence[Reading], names: Names) -> Floats:
    table = np.full((len(readings), len(names)), np.nan)
    places = {name: j for j, name in enumerate(names.own)}
    for row, reading in zip(table, readings, strict=True):
        for name, value in reading.numbers.items():
            row[places[name]] = value
        for block, values in reading.blocks.items():
            row[names.starts[block] : names.starts[block] + len(values)] = values
    return table


def _alike(first: Any, numbers: Floats, exact: Ints) -> Answers:
    """Numbers of one sort, read as each of them would be alone."""
    name = read(first).sort
    return Answers(
        np.full(len(exact), code_of(name)), exact, Names(("the answer",), ()), numbers[:, None], {code_of(name): name}
    )


def _small(each: Any) -> bool:
    return type(each) is int and abs(each) < 1 << 53


def _exact(each: Any, reading: Reading) -> int:
    """A code for the whole answer."""
    if type(each) is float:
        return int(bits(np.array([each]))[0])
    return int(each) if _small(each) else reading.whole
