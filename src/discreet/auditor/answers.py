"""Answers of any kind as arrays: what sort of thing each is, the numbers in it, and a hash of the whole.

The sort names the type, the length, the keys, NaN and infinities, or the class of an exception; so whatever a black box does
is an answer. How one answer is read never depends on its neighbours in the array: an event is a property of single answers,
or counting it would be no binomial experiment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite, isnan
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
MOST_COLUMNS = 64
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Raised:
    """A call that ended in an exception, or not at all."""

    name: str


@dataclass(frozen=True)
class Answers:
    """n answers: the sort of each, a hash of each, and their numbers under named columns (NaN where one has none)."""

    sort: Ints
    whole: Ints
    columns: tuple[str, ...]
    numbers: Floats
    sorts: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.whole)

    def part(self, start: int, stop: int) -> "Answers":
        """Some of them, in order."""
        cut = slice(start, stop)
        return Answers(self.sort[cut], self.whole[cut], self.columns, self.numbers[cut], self.sorts)

    def under(self, columns: tuple[str, ...]) -> Floats:
        """The numbers under these columns."""
        if columns == self.columns:
            return self.numbers
        found = np.full((len(self), len(columns)), np.nan)
        places = {name: j for j, name in enumerate(self.columns)}
        for j, name in enumerate(columns):
            if name in places:
                found[:, j] = self.numbers[:, places[name]]
        return found


def together(parts: Sequence[Answers]) -> Answers:
    """All of them, one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = tuple(dict.fromkeys(name for part in parts for name in part.columns))
    return Answers(
        np.concatenate([part.sort for part in parts]),
        np.concatenate([part.whole for part in parts]),
        columns,
        np.concatenate([part.under(columns) for part in parts]),
        {code: name for part in parts for code, name in part.sorts.items()},
    )


def of_array(array: NDArray[Any]) -> Answers:
    """One answer per row of an array of numbers."""
    rows = array.reshape(len(array), -1)
    numbers = rows.astype(np.float64)
    exact = (rows.astype(np.int64) if rows.dtype.kind in "bui" else _bits(numbers)).view(np.uint64)
    whole = exact[:, 0].copy() if exact.shape[1] else np.zeros(len(rows), np.uint64)
    for j in range(1, exact.shape[1]):
        whole = (whole ^ (whole >> np.uint64(29))) * _MIX + exact[:, j]
    names = ("the answer",) if rows.shape[1] == 1 else tuple(f"answer[{j}]" for j in range(min(rows.shape[1], MOST_COLUMNS)))
    sort = np.zeros(len(rows), np.int64)
    sorts = {0: "a number" if rows.shape[1] == 1 else f"{rows.shape[1]} numbers"}
    if numbers.size and not np.isfinite(numbers).all():
        sort += np.isnan(numbers).any(axis=1) + 2 * np.isinf(numbers).any(axis=1)
        sorts |= {1: "NaN", 2: "infinite", 3: "NaN and infinite"}
    return Answers(sort, whole.view(np.int64), names, numbers[:, :MOST_COLUMNS], sorts)


def of_objects(found: Sequence[Any], columns: tuple[str, ...] | None = None) -> Answers:
    """One answer per object, whatever it is; its numbers under these columns, or under the first that come."""
    if found and all(type(each) is float for each in found):
        array = np.array(found)
        if np.isfinite(array).all():
            return _alike(found[0], array, _bits(array))
    if found and all(_small(each) for each in found):
        array = np.array(found, np.int64)
        return _alike(found[0], array.astype(np.float64), array)
    read = [_read(each) for each in found]
    if columns is None:  # good enough to learn from; what is counted names its columns
        columns = tuple(dict.fromkeys(name for _, numbers in read for name in numbers))[:MOST_COLUMNS]
    table = np.array([[numbers.get(name, np.nan) for name in columns] for _, numbers in read], np.float64)
    code = _cached(_hash)
    sort = np.array([code(name) for name, _ in read], np.int64)
    exact = np.array([_exact(each) for each in found], np.int64)
    return Answers(sort, exact, columns, table.reshape(len(found), len(columns)), {code(name): name for name, _ in read})


def _alike(first: Any, numbers: Floats, exact: Ints) -> Answers:
    """Numbers of one sort, read as each of them would be alone."""
    name, _ = _read(first)
    return Answers(np.full(len(exact), _hash(name)), exact, ("the answer",), numbers[:, None], {_hash(name): name})


def _small(each: Any) -> bool:
    return type(each) is int and abs(each) < 1 << 53


def _exact(each: Any) -> int:
    """A code for the whole answer."""
    if type(each) is float:
        return int(_bits(np.array([each]))[0])
    if _small(each):
        return int(each)
    return _hash(repr(sorted(each, key=repr) if isinstance(each, set | frozenset) else each))


def _read(each: Any) -> tuple[str, dict[str, float]]:
    """The sort of an object and its numbers by name."""
    if isinstance(each, Raised):
        return each.name, {}
    if isinstance(each, bool | int | float | np.generic) and not isinstance(each, np.str_ | np.bytes_):
        return f"{type(each).__name__}{_special([each])}", {"the answer": _number(each)}
    if isinstance(each, Mapping):
        shown = ", ".join(sorted(map(repr, each))[:8])
        return f"keys {{{shown}}} of {len(each)}{_special(each.values())}", {
            f"[{key!r}]": _number(value) for key, value in each.items()
        }
    if isinstance(each, list | tuple | set | frozenset | np.ndarray):
        parts = (
            list(each.ravel())
            if isinstance(each, np.ndarray)
            else sorted(each, key=repr)
            if isinstance(each, set | frozenset)
            else list(each)
        )
        numeric = all(isinstance(part, bool | int | float | np.generic) for part in parts) and not isinstance(
            each, set | frozenset
        )
        name = f"{type(each).__name__} of {len(parts)}{_special(parts)}"
        if numeric:
            return name, {f"answer[{j}]": _number(part) for j, part in enumerate(parts)}
        return name, {f"has {part!r}": 1.0 for part in parts}
    return type(each).__name__, {"the length": float(len(each))} if isinstance(each, str | bytes) else {}


def _special(parts: Iterable[Any]) -> str:
    numbers = [float(part) for part in parts if isinstance(part, float | np.floating)]
    words = [", NaN"] * any(isnan(x) for x in numbers) + [", infinite"] * any(
        not isfinite(x) and not isnan(x) for x in numbers
    )
    return "".join(words)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "little", signed=True)


def _cached(code: Callable[[str], int]) -> Callable[[str], int]:
    known: dict[str, int] = {}
    return lambda text: known[text] if text in known else known.setdefault(text, code(text))


def _bits(numbers: Floats) -> Ints:
    return np.ascontiguousarray(numbers).view(np.int64)
