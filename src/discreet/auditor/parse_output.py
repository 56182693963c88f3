"""One output of any type as numbers: every part under a name, the kind of the whole, and a digest of the whole.

Lists, mappings, sets, arrays, texts, complex numbers and the attributes of objects are taken apart, however they are nested.
Consecutive numbers form a block, so that a list of two million takes a fraction of a second. Only the content of an output
is read: the `repr` of foreign types is used only where an object has no other content, and an exception on the way is
recorded like any other part.

How an output is parsed never depends on other outputs: an event is a property of single outputs, otherwise its count would
not be binomial.
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
"""Parts of an output that get a name of their own; consecutive numbers count as one."""
MAX_DEPTH = 40
SHORT_ROW = 16
"""Up to this length a list of numbers is processed without an array, which is faster."""
NESTED_ROW = 64
"""A longer list of lists is read as one block, if its lists have equal lengths."""
LARGEST_DOUBLE = np.finfo(np.float64).max

SUM, GREATEST, SMALLEST, PLACE_OF_LARGEST, NUMBER_COUNT = (
    "the sum", "the maximum", "the minimum", "the index of the maximum", "the count of numbers",
)  # fmt: skip
SUMMARY = (SUM, GREATEST, SMALLEST, PLACE_OF_LARGEST, NUMBER_COUNT)
"""What is computed from all numbers of an output that has several."""
WHOLE = "the output"
"""The column of an output that is one number."""
ROOT = "output"
"""Where the names of the parts of an output begin: output[3], output.mean."""
TEXT_OF = "the text of "
"""A column with this prefix holds codes of texts, which are equal or not."""

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
"""How types are read: the first match counts. Everything else is an object with attributes."""
_KIND_OF_TYPE: "WeakKeyDictionary[type, str]" = WeakKeyDictionary()
_LITERAL_TYPES = frozenset([type(None), bool, int, float, str, bytes])
_NUMBER_PATTERN = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


RAISES, NO_OUTPUT = "raises ", "no output within "
"""How the name of a call begins that ended in an exception, or was too late."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that ended in an exception or did not return, as an output."""

    name: str


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """The content of one output."""

    kind: str
    digest: int
    numbers: Mapping[str, float]
    blocks: Mapping[str, Row] = field(default_factory=dict)  # number j of block b has the name b[j]
    labels: Mapping[int, str] = field(default_factory=dict)  # what the codes of texts stand for

    def keep_columns(self, columns: tuple[str, ...]) -> "ParsedOutput":
        """Return the numbers with these names only."""
        numbers = {}
        for name, block, place in _locate_columns(columns):
            if name in self.numbers:
                numbers[name] = self.numbers[name]
            elif block in self.blocks and place < len(self.blocks[block]):
                numbers[name] = float(self.blocks[block][place])
        return ParsedOutput(self.kind, self.digest, numbers, labels=self.labels)


def parse_output(output: Any, columns: tuple[str, ...] | None = None) -> ParsedOutput:
    """Parse an output, and keep all of its numbers or those with these names.

    >>> parsed = parse_output({"mean": 2.5, "cells": [3, 4]})
    >>> parsed.numbers["['mean']"], list(parsed.blocks["['cells']"]), parsed.numbers["the sum"]
    (2.5, [3.0, 4.0], 9.5)
    """
    if isinstance(output, FailedCall):
        return ParsedOutput(output.name, hash_text(output.name), {})
    walk = _OutputWalker()
    walk.visit(output, "", 0)
    if walk.several:
        walk.summarise()
    kind = f"{_describe_kind(output)}{', NaN' * walk.nan}{', infinite' * walk.infinite}"
    digest = int.from_bytes(walk.digest.digest()[:8], "little", signed=True)
    parsed = ParsedOutput(kind, digest, walk.numbers, walk.blocks, walk.labels)
    return parsed if columns is None else parsed.keep_columns(columns)


def hash_text(text: str) -> int:
    """Hash a text to 64 bits."""
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "little", signed=True)


def to_float(value: Any) -> float:
    """Return the nearest double, the largest one for larger numbers, NaN for what is not a number."""
    try:
        return float(value)
    except OverflowError:
        return LARGEST_DOUBLE if value > 0 else -LARGEST_DOUBLE
    except (TypeError, ValueError):
        return float("nan")


@lru_cache(maxsize=64)
def _locate_columns(columns: tuple[str, ...]) -> tuple[tuple[str, str, int], ...]:
    """Return each column with the block and the place where it is if it has no name of its own."""
    located = []
    for name in columns:
        block, _, place = name.removesuffix("]").rpartition("[")
        located.append((name, block, int(place)) if place.isdecimal() else (name, "", 0))
    return tuple(located)


def _classify_type(given: type) -> str:
    if given not in _KIND_OF_TYPE:
        _KIND_OF_TYPE[given] = next((name for name, types in _KINDS if issubclass(given, types)), "object")
    return _KIND_OF_TYPE[given]


def _get_name(value: Any) -> str:
    """Return the name of a constant, a class, a module or a function."""
    if value is None or isinstance(value, Enum):
        return str(value)
    return str(getattr(value, "__qualname__", getattr(value, "__name__", "")))


def _describe_kind(output: Any) -> str:
    """Describe the kind of an output: its type, with its length or its keys."""
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
    """Write a key or an element as a short text, different for different values."""
    if type(value) in _LITERAL_TYPES or (type(value) is tuple and all(type(each) in _LITERAL_TYPES for each in value)):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:40]}… {hash_text(text) & 0xFFFFFFFF:08x}"
    return f"{type(value).__name__} {parse_output(value).digest & 0xFFFFFFFFFFFFFFFF:016x}"


class _OutputWalker:
    """The content of an output that has been read so far."""

    def __init__(self) -> None:
        self.numbers: dict[str, float] = {}
        self.blocks: dict[str, Row] = {}
        self.labels: dict[int, str] = {}
        self.digest = sha256()  # done in hardware on most machines
        self.single: list[float] = []  # the numbers to summarise: single ones and those of short lists
        self.counted: list[Floats] = []  # those of long lists
        self.nan = self.infinite = self.several = False
        self.parts_remaining = MAX_PARTS

    def visit(self, value: Any, path: str, depth: int) -> None:
        """Read one part and everything in it."""
        self.parts_remaining -= 1
        if self.parts_remaining < 0:
            return None
        self._hash(type(value).__name__)
        if depth > MAX_DEPTH:
            return self._code(path, "a part that is nested too deeply")
        try:
            self._visit_kind(value, path, depth)
        except Exception as raised:  # foreign code ran: its exception is a part of the output
            self._code(path, f"a {type(value).__name__} that raises {type(raised).__name__}")

    def summarise(self) -> None:
        """Add the sum, the extremes, the index of the maximum and the count of all numbers."""
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
                self._code(path, _get_name(value))
            case _:
                self._object(value, path, depth)

    # -- parts without parts ------------------------------------------------------------------------------------------------

    def _hash(self, text: str) -> None:
        self.digest.update(text.encode(errors="replace") + b"\0")

    def _number(self, value: Any, path: str) -> None:
        number = to_float(value)
        self._hash(_format_exact(value))
        self.numbers[path or WHOLE] = number
        self._summarise_few([number])

    def _complex(self, value: Any, path: str) -> None:
        self.several = True
        for name, part in (("real", value.real), ("imag", value.imag)):
            self._number(float(part), f"{path or ROOT}.{name}")

    def _code(self, path: str, text: str) -> None:
        """Record a part that is equal to another or not."""
        self._hash(text)
        code = hash_text(text) & ((1 << 53) - 1)
        self.labels[code] = text if len(text) <= 40 else f"{text[:40]}…"
        self.numbers[f"{TEXT_OF}{path or WHOLE}"] = float(code)

    def _text(self, value: str, path: str) -> None:
        """Record its code, its length, the numbers written in it, and its characters."""
        self._code(path, f"{value!r}" if len(value) < 1000 else str(value))
        self.numbers[f"the length of {path or WHOLE}"] = float(len(value))
        self.parts_remaining -= 3
        before = f"{path} " if path else ""
        written = _NUMBER_PATTERN.findall(value)
        if written:
            self.blocks[f"{before}number"] = np.array([to_float(each) for each in written])
        if value:
            letters = np.frombuffer(value.encode("utf-32-le", "surrogatepass"), np.uint32)
            self.blocks[f"{before}character"] = letters.astype(np.float64)

    def _block(self, values: NDArray[Any], path: str) -> None:
        """Record consecutive numbers."""
        self.several = True
        self.digest.update(f"{values.dtype.str}{values.shape}".encode())
        self.digest.update(np.ascontiguousarray(values).data.cast("B") if values.size else b"")
        self._row(values.ravel().astype(np.float64, copy=False), path or ROOT)

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

    # -- parts with parts ---------------------------------------------------------------------------------------------------

    def _array(self, values: NDArray[Any], path: str, depth: int) -> None:
        if values.dtype.kind == "c":
            self._hash(str(values.shape))
            for name, part in (("real", values.real), ("imag", values.imag)):
                self._block(np.ascontiguousarray(part), f"{path or ROOT}.{name}")
        elif values.dtype.names:
            for name in values.dtype.names:
                self._array(values[name], f"{path or ROOT}.{name}", depth)
        elif values.dtype.kind in "biuf":
            self._block(values, path)
        else:
            self._hash(str(values.shape))
            self.visit(values.tolist() if values.ndim else values.item(), path, depth + 1)

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> None:
        self.several = True
        for key, part in value.items():
            if self.parts_remaining < 0:
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
        members = {f"{before}has {label}": 1.0 for label in labels[: max(0, self.parts_remaining)]}
        self.parts_remaining -= len(members)
        self.numbers |= members
        self.counted.append(np.ones(len(members)))

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
        """Record numbers at their places, NaN between them, and every other part by itself."""
        block, row = path or ROOT, np.array([to_float(each) if isinstance(each, _NUMBERS) else np.nan for each in value])
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
            elif self.parts_remaining < 0:
                break
            else:
                self.visit(each, f"{block}[{j}]", depth + 1)

    def _visit_plain_row(self, value: Sequence[Any], kinds: set[type], path: str) -> None:
        """Record integers, doubles and booleans, at the speed of arrays if there are many."""
        if len(value) <= SHORT_ROW:
            self.digest.update(marshal.dumps(list(value), 2))
            row = [to_float(each) for each in value]
            self.blocks[path or ROOT] = row
            return self._summarise_few(row)
        if kinds == {float}:
            return self._block(np.fromiter(value, np.float64, len(value)), path)
        if kinds == {int}:
            try:
                return self._block(np.fromiter(value, np.int64, len(value)), path)
            except OverflowError:
                pass
        self.digest.update(marshal.dumps(list(value), 2))
        self._row(np.array([to_float(each) for each in value], np.float64), path or ROOT)
        return None

    def _visit_as_block(self, value: Sequence[Any], path: str) -> bool:
        """Record lists of numbers with equal lengths as one block; return False for others."""
        try:
            table = np.array(value)
        except ValueError:
            return False
        if table.dtype.kind not in "biuf":
            return False
        self.digest.update(marshal.dumps([*value], 2))
        self._hash(str(table.shape))
        self._row(table.ravel().astype(np.float64), f"{path or ROOT}.flat")
        return True

    def _object(self, value: Any, path: str, depth: int) -> None:
        """Record its numbers if it converts to an array, else its attributes, else its `repr`."""
        before, parts = path or ROOT, read_attributes(value)
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
    """Return the attributes of an object, from its slots and its dictionary."""
    attributes: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            hidden = f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            if name not in ("__dict__", "__weakref__") and hasattr(value, hidden):
                attributes[name] = getattr(value, hidden)
    own = getattr(value, "__dict__", None)
    return {**attributes, **(own if isinstance(own, dict) else {})}


def _format_exact(value: Any) -> str:
    """Write a number exactly."""
    if isinstance(value, int | np.integer):
        return f"{int(value):x}"
    if isinstance(value, Fraction):
        return f"{value.numerator:x}/{value.denominator:x}"
    return str(value) if isinstance(value, Decimal) else float(value).hex()
