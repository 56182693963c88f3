"""One answer of any kind, read as numbers: every part of it under a name, what sort of thing it is, and a hash of the whole.

Lists, mappings, sets, arrays, texts, complex numbers and the attributes of objects are taken apart, however they are nested.
Numbers in a row form a block, so that a list of two million takes a fraction of a second. Only what an answer holds is read:
no `repr` of foreign types decides anything, and whatever raises on the way is a part like any other.

How an answer is read never depends on other answers: an event is a property of single answers, or counting it would be no
binomial experiment.
"""

import marshal
import re
from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b, sha256
from math import isinf, isnan
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, TypeAlias
from uuid import UUID
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Row: TypeAlias = Floats | list[float]

MAX_PARTS = 1 << 17
"""So many parts of an answer get a name of their own; numbers in a row count as one."""
MAX_DEPTH = 40
SHORT_ROW = 16
"""Up to so many numbers in a row no array is worth its while."""
NESTED_ROW = 64
"""A longer list of lists is read as one block, if it has the shape of one."""
LARGEST_DOUBLE = np.finfo(np.float64).max

SUM, GREATEST, SMALLEST, PLACE_OF_LARGEST, NUMBER_COUNT = (
    "the sum", "the largest", "the smallest", "the place of the largest", "how many are there",
)  # fmt: skip
SUMMARY = (SUM, GREATEST, SMALLEST, PLACE_OF_LARGEST, NUMBER_COUNT)
"""What is computed from all numbers of an answer that has several."""
TEXT_OF = "the text of "
"""A column that begins so holds codes of texts, which are equal or not."""

_NUMERIC = frozenset([bool, int, float])
_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("number", (*_NUMBERS, Decimal, Fraction)),
    ("complex", (complex, np.complexfloating)),
    ("text", (str,)),
    ("bytes", (bytes, bytearray, memoryview)),
    ("array", (np.generic, np.ndarray, array)),
    ("name", (Enum, type(None), type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, GeneratorType)),
    ("text", (date, time, timedelta, UUID, PurePath, range)),
    ("mapping", (Mapping,)),
    ("set", (set, frozenset)),
    ("sequence", (list, tuple, deque)),
)
"""How types are read: the first that fits. Everything else is an object with attributes."""
_KIND_OF_TYPE: "WeakKeyDictionary[type, str]" = WeakKeyDictionary()
_LITERAL_TYPES = frozenset([type(None), bool, int, float, str, bytes])
_NUMBER_PATTERN = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that ended in an exception, or not at all."""

    name: str


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """What one answer holds."""

    kind: str
    digest: int
    numbers: Mapping[str, float]
    blocks: Mapping[str, Row] = field(default_factory=dict)  # number j of block b has the name b[j]
    labels: Mapping[int, str] = field(default_factory=dict)  # what the codes of texts stand for

    def keep_columns(self, columns: tuple[str, ...]) -> "ParsedOutput":
        """Only the numbers under these names."""
        found = {}
        for name, block, place in _locate_columns(columns):
            if name in self.numbers:
                found[name] = self.numbers[name]
            elif block in self.blocks and place < len(self.blocks[block]):
                found[name] = float(self.blocks[block][place])
        return ParsedOutput(self.kind, self.digest, found, labels=self.labels)


def parse_output(output: Any, columns: tuple[str, ...] | None = None) -> ParsedOutput:
    """Read an answer, or only its numbers under these names.

    >>> found = parse_output({"mean": 2.5, "cells": [3, 4]})
    >>> found.numbers["['mean']"], list(found.blocks["['cells']"]), found.numbers["the sum"]
    (2.5, [3.0, 4.0], 9.5)
    """
    if isinstance(output, FailedCall):
        return ParsedOutput(output.name, hash_text(output.name), {})
    walk = _OutputWalker()
    walk.visit(output, "", 0)
    if walk.several:
        walk.summarise()
    sort = f"{_describe_kind(output)}{', NaN' * walk.nan}{', infinite' * walk.infinite}"
    whole = int.from_bytes(walk.digest.digest()[:8], "little", signed=True)
    found = ParsedOutput(sort, whole, walk.numbers, walk.blocks, walk.words)
    return found if columns is None else found.keep_columns(columns)


def hash_text(text: str) -> int:
    """64 bits for a text."""
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "little", signed=True)


def to_float(value: Any) -> float:
    """The nearest double, the largest one for what is larger, NaN for what is no number."""
    try:
        return float(value)
    except OverflowError:
        return LARGEST_DOUBLE if value > 0 else -LARGEST_DOUBLE
    except (TypeError, ValueError):
        return float("nan")


@lru_cache(maxsize=64)
def _locate_columns(columns: tuple[str, ...]) -> tuple[tuple[str, str, int], ...]:
    """Where each column is found if it has no name of its own: in which block, and at which place."""
    found = []
    for name in columns:
        block, _, place = name.removesuffix("]").rpartition("[")
        found.append((name, block, int(place)) if place.isdecimal() else (name, "", 0))
    return tuple(found)


def _classify_type(given: type) -> str:
    if given not in _KIND_OF_TYPE:
        _KIND_OF_TYPE[given] = next((name for name, types in _KINDS if issubclass(given, types)), "object")
    return _KIND_OF_TYPE[given]


def _name(value: Any) -> str:
    """What a constant, a class, a module or a function is called."""
    if value is None or isinstance(value, Enum):
        return str(value)
    return str(getattr(value, "__qualname__", getattr(value, "__name__", "")))


def _describe_kind(output: Any) -> str:
    """What sort of thing an answer is: its type, and how long it is or which keys it has."""
    kind = type(output).__name__
    try:
        if isinstance(output, Mapping):
            keys = sorted(_format_label(key) for key in list(output)[:1000])
            return f"keys {{{', '.join(keys[:8])}}} of {len(output)}"
        if isinstance(output, np.ndarray) and output.ndim != 1:
            return f"{kind} of {'×'.join(map(str, output.shape))}"
        if isinstance(output, list | tuple | set | frozenset | deque | array | np.ndarray):
            return f"{kind} of {len(output)}"
    except Exception as raised:
        return f"{kind} that raises {type(raised).__name__}"
    return kind


def _format_label(value: Any) -> str:
    """A short text for a key or an element, different for what is different."""
    if type(value) in _LITERAL_TYPES or (type(value) is tuple and all(type(each) in _LITERAL_TYPES for each in value)):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:40]}… {hash_text(text) & 0xFFFFFFFF:08x}"
    return f"{type(value).__name__} {parse_output(value).digest & 0xFFFFFFFFFFFFFFFF:016x}"


class _OutputWalker:
    """What has been read of an answer so far."""

    def __init__(self) -> None:
        self.numbers: dict[str, float] = {}
        self.blocks: dict[str, Row] = {}
        self.words: dict[int, str] = {}
        self.digest = sha256()  # in hardware, on most machines
        self.single: list[float] = []  # the numbers that are summed up: those that stand alone or in a short row
        self.counted: list[Floats] = []  # and those in long rows
        self.nan = self.infinite = self.several = False
        self.left = MAX_PARTS

    def visit(self, value: Any, path: str, depth: int) -> None:
        """Read one part and all that is in it."""
        self.left -= 1
        if self.left < 0:
            return None
        self._hash(type(value).__name__)
        if depth > MAX_DEPTH:
            return self._code(path, "a part that is nested too deeply")
        try:
            self._visit_kind(value, path, depth)
        except Exception as raised:  # foreign code ran: what it did is a part of the answer
            self._code(path, f"a {type(value).__name__} that raises {type(raised).__name__}")

    def summarise(self) -> None:
        """The sum, the ends, the place of the largest and the number of all numbers."""
        alone = [np.array(self.single)] if self.single or not self.counted else []
        every = np.concatenate(parts) if len(parts := [*alone, *self.counted]) > 1 else parts[0]
        self.numbers[NUMBER_COUNT] = float(len(every))
        finite = np.where(np.isfinite(every), every, 0.0) if self.nan or self.infinite else every
        if len(every):
            with np.errstate(over="ignore"):
                self.numbers[SUM] = float(finite.sum())
            self.numbers |= {
                GREATEST: float(finite.max()),
                SMALLEST: float(finite.min()),
                PLACE_OF_LARGEST: float(finite.argmax()),
            }

    def _visit_kind(self, value: Any, path: str, depth: int) -> None:
        match _classify_type(type(value)):
            case "number":
                self._number(value, path)
            case "sequence":
                self._sequence(value, path, depth)
            case "mapping":
                self._mapping(value, path, depth)
            case "text":
                self._text(value if isinstance(value, str) else str(value), path)
            case "complex":
                self._complex(value, path)
            case "bytes":
                self._block(np.frombuffer(value, np.uint8), path)
            case "array":
                self._array(np.asarray(value), path, depth)
            case "set":
                self._set(value, path)
            case "name":
                self._code(path, _name(value))
            case _:
                self._object(value, path, depth)

    # -- leaves -------------------------------------------------------------------------------------------------------------

    def _hash(self, text: str) -> None:
        self.digest.update(text.encode(errors="replace") + b"\0")

    def _number(self, value: Any, path: str) -> None:
        found = to_float(value)
        self._hash(_format_exact(value))
        self.numbers[path or "the answer"] = found
        self._summarise_few([found])

    def _complex(self, value: Any, path: str) -> None:
        self.several = True
        for name, part in (("real", value.real), ("imag", value.imag)):
            self._number(float(part), f"{path or 'answer'}.{name}")

    def _code(self, path: str, text: str) -> None:
        """A part that is equal to another or not."""
        self._hash(text)
        code = hash_text(text) & ((1 << 53) - 1)
        self.words[code] = text if len(text) <= 40 else f"{text[:40]}…"
        self.numbers[f"{TEXT_OF}{path or 'the answer'}"] = float(code)

    def _text(self, value: str, path: str) -> None:
        """Its code, its length, the numbers that are written in it, and its characters."""
        self._code(path, f"{value!r}" if len(value) < 1000 else str(value))
        self.numbers[f"the length of {path or 'the answer'}"] = float(len(value))
        self.left -= 3
        before = f"{path} " if path else ""
        written = _NUMBER_PATTERN.findall(value)
        if written:
            self.blocks[f"{before}number"] = np.array([to_float(each) for each in written])
        if value:
            letters = np.frombuffer(value.encode("utf-32-le", "surrogatepass"), np.uint32)
            self.blocks[f"{before}character"] = letters.astype(np.float64)

    def _block(self, values: NDArray[Any], path: str) -> None:
        """Numbers in a row."""
        self.several = True
        self.digest.update(f"{values.dtype.str}{values.shape}".encode())
        self.digest.update(np.ascontiguousarray(values).data.cast("B") if values.size else b"")
        self._row(values.ravel().astype(np.float64, copy=False), path or "answer")

    def _row(self, values: Floats, block: str) -> None:
        self.blocks[block] = values
        self._summarise_row(values)

    def _summarise_few(self, values: list[float]) -> None:
        self.single += values
        self.nan |= any(map(isnan, values))
        self.infinite |= any(map(isinf, values))

    def _summarise_row(self, values: Floats) -> None:
        self.counted.append(values)
        if not np.isfinite(values).all():
            self.nan |= bool(np.isnan(values).any())
            self.infinite |= bool(np.isinf(values).any())

    # -- what holds others --------------------------------------------------------------------------------------------------

    def _array(self, values: NDArray[Any], path: str, depth: int) -> None:
        if values.dtype.kind == "c":
            self._hash(str(values.shape))
            for name, part in (("real", values.real), ("imag", values.imag)):
                self._block(np.ascontiguousarray(part), f"{path or 'answer'}.{name}")
        elif values.dtype.names:
            for name in values.dtype.names:
                self._array(values[name], f"{path or 'answer'}.{name}", depth)
        elif values.dtype.kind in "biuf":
            self._block(values, path)
        else:
            self._hash(str(values.shape))
            self.visit(values.tolist() if values.ndim else values.item(), path, depth + 1)

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> None:
        self.several = True
        for key, part in value.items():
            if self.left < 0:
                break
            label = _format_label(key)
            self._hash(label)
            self.visit(part, f"{path}[{label}]", depth + 1)

    def _set(self, value: Iterable[Any], path: str) -> None:
        self.several = True
        labels = sorted(map(_format_label, value))
        self._hash("\0".join(labels))
        self._add_members(labels, path)

    def _add_members(self, labels: Sequence[str], path: str) -> None:
        before = f"{path} " if path else ""
        found = {f"{before}has {label}": 1.0 for label in labels[: max(0, self.left)]}
        self.left -= len(found)
        self.numbers |= found
        self.counted.append(np.ones(len(found)))

    def _sequence(self, value: Sequence[Any], path: str, depth: int) -> None:
        self.several = True
        self._hash(str(len(value)))
        kinds = set(map(type, value))
        if kinds <= _NUMERIC:
            return self._visit_plain_row(value, kinds, path)
        if all(issubclass(kind, _NUMBERS) for kind in kinds):
            return self._block(np.array(value), path)
        if kinds <= {list, tuple} and len(value) > NESTED_ROW and self._visit_as_block(value, path):
            return None
        return self._visit_mixed(value, path, depth)

    def _visit_mixed(self, value: Sequence[Any], path: str, depth: int) -> None:
        """Numbers where they stand, NaN between them; and every other part by itself."""
        block, row = path or "answer", np.array([to_float(each) if isinstance(each, _NUMBERS) else np.nan for each in value])
        here = np.array([isinstance(each, _NUMBERS) for each in value])
        if here.any():
            self.blocks[block] = row
            self._summarise_row(row[here])
        texts = [_format_label(each) for each in value if type(each) is str]
        if texts and not path:
            self._add_members(texts, path)
        for j, each in enumerate(value):
            if isinstance(each, _NUMBERS):
                self._hash(f"{type(each).__name__} {_format_exact(each)}")
            elif self.left < 0:
                break
            else:
                self.visit(each, f"{block}[{j}]", depth + 1)

    def _visit_plain_row(self, value: Sequence[Any], kinds: set[type], path: str) -> None:
        """Whole numbers, doubles and booleans, at the speed of arrays if there are many."""
        if len(value) <= SHORT_ROW:
            self.digest.update(marshal.dumps(list(value), 2))
            row = [to_float(each) for each in value]
            self.blocks[path or "answer"] = row
            return self._summarise_few(row)
        if kinds == {float}:
            return self._block(np.fromiter(value, np.float64, len(value)), path)
        if kinds == {int}:
            try:
                return self._block(np.fromiter(value, np.int64, len(value)), path)
            except OverflowError:
                pass
        self.digest.update(marshal.dumps(list(value), 2))
        self._row(np.array([to_float(each) for each in value], np.float64), path or "answer")
        return None

    def _visit_as_block(self, value: Sequence[Any], path: str) -> bool:
        """Lists of numbers that are all equally long, as one block; False for others."""
        try:
            found = np.array(value)
        except ValueError:
            return False
        if found.dtype.kind not in "biuf":
            return False
        self.digest.update(marshal.dumps([*value], 2))
        self._hash(str(found.shape))
        self._row(found.ravel().astype(np.float64), f"{path or 'answer'}.flat")
        return True

    def _object(self, value: Any, path: str, depth: int) -> None:
        """Its numbers if it can become an array, its attributes, else what it says of itself."""
        before, parts = path or "answer", read_attributes(value)
        if hasattr(type(value), "__array__"):
            parts = {name: list(getattr(value, name)) for name in ("columns", "index") if hasattr(value, name)}
            self._array(np.asarray(value), path, depth)
        elif isinstance(value, BaseException):
            parts |= {"args": value.args}
        elif not parts and "__repr__" in set().union(*(kind.__dict__ for kind in type(value).__mro__[:-1])):
            self._code(path, repr(value))
        for name, part in parts.items():
            self.several = True
            self._hash(name)
            self.visit(part, f"{before}.{name}", depth + 1)


def read_attributes(value: Any) -> dict[str, Any]:
    """What an object holds, in its dictionary and its slots."""
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            hidden = f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            if name not in ("__dict__", "__weakref__") and hasattr(value, hidden):
                found[name] = getattr(value, hidden)
    held = getattr(value, "__dict__", None)
    return {**found, **(held if isinstance(held, dict) else {})}


def _format_exact(value: Any) -> str:
    """A number in letters, all of it."""
    if isinstance(value, int | np.integer):
        return f"{int(value):x}"
    if isinstance(value, Fraction):
        return f"{value.numerator:x}/{value.denominator:x}"
    return str(value) if isinstance(value, Decimal) else float(value).hex()
