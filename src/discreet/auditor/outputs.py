"""Many outputs as arrays: the kind of each, a digest of each, and their numbers in named columns.

`from_array` reads the rows of an array at once, `from_objects` reads anything else one by one (`parse_output`). Both give
the same output the same kind, digest and columns.
"""

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
    ROOT,
    SMALLEST,
    SUM,
    SUMMARY,
    WHOLE,
    FailedCall,
    Floats,
    ParsedOutput,
    hash_text,
    parse_output,
)

__all__ = ["FailedCall", "Floats", "Ints", "Outputs", "concatenate", "from_array", "from_objects"]

Ints: TypeAlias = NDArray[np.int64]


class ColumnNames(Sequence[str]):
    """Names of columns: some single names, then blocks of numbered ones, which are not stored one by one."""

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
        """Return the place of a name, or None."""
        if name in self._places:
            return self._places[name]
        block, _, at = name.removesuffix("]").rpartition("[")
        size = dict(self.blocks).get(block, 0)
        return self.starts[block] + int(at) if at.isdecimal() and int(at) < size else None


@dataclass(frozen=True)
class Outputs:
    """n outputs: the kind of each, a digest of each, and their numbers in named columns (NaN where an output has none)."""

    kinds: Ints
    digests: Ints
    columns: ColumnNames
    numbers: Floats
    labels: Mapping[int, str]  # what the codes of kinds and texts stand for

    def __len__(self) -> int:
        return len(self.digests)

    def select_rows(self, start: int, stop: int) -> "Outputs":
        """Return the outputs from `start` up to `stop`."""
        cut = slice(start, stop)
        return Outputs(self.kinds[cut], self.digests[cut], self.columns, self.numbers[cut], self.labels)

    def get_numbers(self, columns: Sequence[str]) -> Floats:
        """Return the numbers in these columns."""
        numbers = np.full((len(self), len(columns)), np.nan)
        for j, name in enumerate(columns):
            place = self.columns.find(name)
            if place is not None:
                numbers[:, j] = self.numbers[:, place]
        return numbers

    def keep_columns(self, columns: tuple[str, ...]) -> "Outputs":
        """Return the same outputs with these columns only."""
        return Outputs(self.kinds, self.digests, ColumnNames(columns, ()), self.get_numbers(columns), self.labels)

    def align_columns(self, columns: ColumnNames) -> Floats:
        """Return the numbers in all of these columns, block by block."""
        if (columns.own, columns.blocks) == (self.columns.own, self.columns.blocks):
            return self.numbers
        numbers = np.full((len(self), len(columns)), np.nan)
        numbers[:, : len(columns.own)] = self.get_numbers(columns.own)
        for name, size in self.columns.blocks:
            start, at = self.columns.starts[name], columns.starts[name]
            numbers[:, at : at + size] = self.numbers[:, start : start + size]
        return numbers


def concatenate(parts: Sequence[Outputs]) -> Outputs:
    """Join several batches of outputs."""
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
    """Return every column that some batch has."""
    return _merge_names([part.columns.own for part in parts], [dict(part.columns.blocks) for part in parts])


def _merge_names(own: "Sequence[Sequence[str]]", blocks: "Sequence[Mapping[str, int]]") -> ColumnNames:
    sizes: dict[str, int] = {}
    for each in blocks:
        for name, size in each.items():
            sizes[name] = max(size, sizes.get(name, 0))
    return ColumnNames(tuple(dict.fromkeys(name for names in own for name in names)), tuple(sizes.items()))


# -- arrays -----------------------------------------------------------------------------------------------------------------


def from_array(array: NDArray[Any], columns: tuple[str, ...] | None = None) -> Outputs:
    """Read one output per row of an array of numbers; arrays of anything else are read row by row."""
    if array.dtype.kind not in "biufc" or array.ndim == 0:
        return from_objects(list(array) if array.ndim else [array.item()], columns)
    rows = array.reshape(len(array), -1)
    if array.dtype.kind == "c":
        rows = np.stack([rows.real, rows.imag], axis=2).reshape(len(array), -1)
    numbers, width = rows.astype(np.float64), rows.shape[1]
    codes = np.full(len(rows), 4 * width, np.int64)
    finite = np.isfinite(numbers)
    if not finite.all():
        codes += np.isnan(numbers).any(axis=1) + 2 * np.isinf(numbers).any(axis=1)
    kinds = ("", "NaN among ", "infinite numbers among ", "NaN and infinite numbers among ")
    labels = {4 * width + j: f"{kind}{'a number' if width == 1 else f'{width} numbers'}" for j, kind in enumerate(kinds)}
    digests = _hash_rows(rows, numbers)
    if width == 1:
        return Outputs(codes, digests, ColumnNames((WHOLE,), ()), numbers, labels)
    summary = _summarise_rows(np.where(finite, numbers, 0.0)) if width else np.zeros((len(rows), len(SUMMARY)))
    names = ColumnNames(SUMMARY, ((ROOT, width),))
    outputs = Outputs(codes, digests, names, np.concatenate([summary, numbers], axis=1), labels)
    return outputs if columns is None else outputs.keep_columns(columns)


def _summarise_rows(numbers: Floats) -> Floats:
    summary = {
        SUM: numbers.sum(axis=1), GREATEST: numbers.max(axis=1), SMALLEST: numbers.min(axis=1),
        PLACE_OF_LARGEST: numbers.argmax(axis=1), NUMBER_COUNT: np.full(len(numbers), float(numbers.shape[1])),
    }  # fmt: skip
    return np.stack([summary[name] for name in SUMMARY], axis=1).astype(np.float64)


def _hash_rows(rows: NDArray[Any], numbers: Floats) -> Ints:
    """Hash each row to 64 bits: the mixed numbers, times an odd number for each place.

    Integers that a double holds are hashed as that double, so that equal outputs have equal digests whatever the type of the
    array.
    """
    exact = to_bits(numbers)
    if rows.dtype.kind in "iu":
        exact = np.where(np.abs(numbers) < 2.0**53, exact, rows.astype(np.int64))
    if rows.shape[1] == 1:
        return np.asarray(exact[:, 0])
    keys = _mix_bits(np.arange(1, rows.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    return np.asarray((_mix_bits(exact.view(np.uint64)) * keys).sum(axis=1, dtype=np.uint64).view(np.int64))


def _mix_bits(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finaliser of SplitMix64, which spreads close numbers."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def to_bits(numbers: Floats) -> Ints:
    """Return the bit patterns of doubles as integers."""
    return np.ascontiguousarray(numbers).view(np.int64)


# -- objects ----------------------------------------------------------------------------------------------------------------


def from_objects(given: Sequence[Any], columns: tuple[str, ...] | None = None) -> Outputs:
    """Read one output per object, or per `ParsedOutput`, with its numbers in these columns, or all of its numbers."""
    if given and all(type(each) is float for each in given):
        array = np.array(given)
        if np.isfinite(array).all():
            return _from_numbers(given[0], array, to_bits(array))
    if given and all(_is_small_int(each) for each in given):
        array = np.array(given, np.int64)
        return _from_numbers(given[0], array.astype(np.float64), array)
    parsed = [each if isinstance(each, ParsedOutput) else parse_output(each, columns) for each in given]
    digests = np.array([_digest_output(each, one) for each, one in zip(given, parsed, strict=True)], np.int64)
    codes = {name: hash_text(name) for name in {one.kind for one in parsed}}
    kinds = np.array([codes[one.kind] for one in parsed], np.int64)
    labels = {code: words for one in parsed for code, words in one.labels.items()}
    labels |= {code: name for name, code in codes.items()}
    if columns is None:
        names = _merge_names(
            [tuple(one.numbers) for one in parsed],
            [{block: len(row) for block, row in one.blocks.items()} for one in parsed],
        )
    else:
        names = ColumnNames(columns, ())
    return Outputs(kinds, digests, names, _fill_table(parsed, names), labels)


def _fill_table(parsed: Sequence[ParsedOutput], names: ColumnNames) -> Floats:
    table = np.full((len(parsed), len(names)), np.nan)
    places = {name: j for j, name in enumerate(names.own)}
    for row, one in zip(table, parsed, strict=True):
        for name, value in one.numbers.items():
            row[places[name]] = value
        for block, values in one.blocks.items():
            row[names.starts[block] : names.starts[block] + len(values)] = values
    return table


def _from_numbers(first: Any, numbers: Floats, digests: Ints) -> Outputs:
    """Read numbers of one kind as each of them would be read alone."""
    name = parse_output(first).kind
    return Outputs(
        np.full(len(digests), hash_text(name)),
        digests,
        ColumnNames((WHOLE,), ()),
        numbers[:, None],
        {hash_text(name): name},
    )


def _is_small_int(each: Any) -> bool:
    return type(each) is int and abs(each) < 1 << 53


def _digest_output(output: Any, parsed: ParsedOutput) -> int:
    if type(output) is float:
        return int(to_bits(np.array([output]))[0])
    return int(output) if _is_small_int(output) else parsed.digest
