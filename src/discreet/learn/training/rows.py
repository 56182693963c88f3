"""The records that a model is trained on: arrays with random access, read chunk by chunk after the debit.

What is refused before the debit is decided from shapes and types alone. A record with a value that is not finite, or with an
index out of range, stays in its place and contributes nothing: an error would tell that it exists.

**Poisson sampling.** Each record is in a step's batch independently, with exactly the stated probability. The amplified cost
of DP-SGD holds for this law and for no other: not for shuffled batches of a fixed size, and not for a rate that a float
rounds. Batches are of random size, and may be empty: an empty batch is a step like any other.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._numbers import to_rational
from discreet.errors import BadParameter
from discreet.learn.features import ONE, CategoryFeature, Features, NumericFeature
from discreet.learn.session_records import SessionRecords
from discreet.noise import Bits, bernoulli
from discreet.noise.bits import Ints

VALIDATED_ROWS = 4096
"""So many records are looked at at once when it is decided which of them count."""


@dataclass(frozen=True)
class RowKind:
    """What a record looks like: public, known from the model and the types of columns."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    target_shape: tuple[int, ...] = ()
    target_dtype: torch.dtype = torch.int64
    tokens: int | None = None  # features are integers below this
    classes: int | None = None  # targets are integers below this

    def make_synthetic(self, count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return so many invented records and their targets."""
        source = torch.Generator().manual_seed(seed)
        return (
            _invent((count, *self.shape), self.dtype, self.tokens, source),
            _invent((count, *self.target_shape), self.target_dtype, self.classes, source),
        )


def _invent(shape: tuple[int, ...], dtype: torch.dtype, below: int | None, source: torch.Generator) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=dtype, generator=source)
    return torch.randint(0, 2 if below is None else below, shape, dtype=dtype, generator=source)


class Chunk:
    """The buffer of one chunk: rows, targets, and which rows count."""

    def __init__(self, rows: int, kind: RowKind) -> None:
        self.features = torch.zeros((rows, *kind.shape), dtype=kind.dtype)
        self.targets = torch.zeros((rows, *kind.target_shape), dtype=kind.target_dtype)
        self.valid = torch.zeros(rows, dtype=torch.bool)
        self.count = 0
        assert self.features.data_ptr() % 64 == 0  # as PyTorch allocates

    def fill(self, features: Tensor, targets: Tensor, valid: Tensor) -> None:
        """Place records at the beginning; what is behind them, and records that are not valid, become zeros."""
        self.take(features, targets, valid, torch.arange(len(features)))

    def take(self, features: Tensor, targets: Tensor, valid: Tensor, places: Tensor) -> None:
        """Place the records at some places at the beginning, as `fill` does."""
        self.count = count = len(places)
        for own, given in ((self.features, features), (self.targets, targets), (self.valid, valid)):
            if own.dtype == given.dtype:
                torch.index_select(given, 0, places, out=own[:count])
            else:
                own[:count].copy_(given[places])
            own[count:].zero_()
        if not bool(self.valid[:count].all()):
            for each in (self.features, self.targets):
                each.masked_fill_(~self.valid.view(-1, *([1] * (each.dim() - 1))), 0)


@dataclass(eq=False)
class TrainingRows:
    """Features and targets, and which records count. They are private."""

    features: Tensor
    targets: Tensor
    kind: RowKind
    valid: Tensor

    def __repr__(self) -> str:
        return "TrainingRows (private)"

    @property
    def count(self) -> int:
        """How many records there are. It is private."""
        return len(self.features)

    @classmethod
    def of(cls, features: Tensor, targets: Tensor, kind: RowKind) -> "TrainingRows":
        """Decide for each record, from itself alone, whether it counts."""
        valid = torch.ones(len(features), dtype=torch.bool)
        for start in range(0, len(features), VALIDATED_ROWS):
            part = slice(start, start + VALIDATED_ROWS)
            valid[part] = _is_valid(features[part].to(kind.dtype), kind.tokens)
            valid[part] &= _is_valid(targets[part].to(kind.target_dtype), kind.classes)
        return cls(features, targets, kind, valid)

    def load(self, chunk: Chunk, places: Ints) -> None:
        """Place the records at these positions into a chunk."""
        chunk.take(self.features, self.targets, self.valid, torch.from_numpy(places))


def _is_valid(values: Tensor, below: int | None) -> Tensor:
    """Which rows hold finite numbers, or integers from 0 to `below`."""
    flat = values.reshape(len(values), -1)
    if values.dtype.is_floating_point:
        return torch.isfinite(flat).all(1)
    return ((flat >= 0) & (flat < below)).all(1) if below is not None else torch.ones(len(values), dtype=torch.bool)


def draw_batch(rate: Fraction, records: int, bits: Bits) -> Ints:
    """Return the positions of the records that are in a batch.

    >>> from discreet.noise import SYSTEM
    >>> draw_batch(Fraction(1), 3, SYSTEM).tolist(), draw_batch(Fraction(1, 10**9), 3, SYSTEM).tolist()
    ([0, 1, 2], [])
    """
    return np.flatnonzero(bernoulli(rate, records, bits)).astype(np.int64)


class DeclaredRows:
    """What `session.records(…)` hands over: which columns are read, and as what, from the policy alone.

    A number is scaled by its bounds to lie between −½ and ½, a category becomes one column for each declared key and one for
    all others, in the order of `columns`. A target with keys is its position among them, one with bounds a number.
    """

    def __init__(self, records: SessionRecords) -> None:
        self.records = records
        self.features = Features.of(records.declared_bounds(), records.declared_categories())
        self.target: NumericFeature | CategoryFeature
        if records.target_keys is not None:
            self.target = CategoryFeature("target", tuple(records.target_keys))
        elif records.target_bounds is not None:
            self.target = NumericFeature("target", *map(to_rational, records.target_bounds))
        else:
            raise BadParameter(
                "target", "missing", "the model predicts a column with keys or bounds in the policy",
                'name it: session.records(…, target="left")',
            )  # fmt: skip
        records.check(self.features, self.target)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a row, in their order."""
        return self.features.column_names[1:]

    def make_empty(self) -> tuple[Tensor, Tensor]:
        """Return no rows, of the right types and shapes."""
        is_class = isinstance(self.target, CategoryFeature)
        return torch.zeros(0, len(self.columns)), torch.zeros(0, dtype=torch.int64 if is_class else torch.float32)

    def read(self) -> tuple[Tensor, Tensor]:
        """Return all rows. Only a run that is paid calls it."""
        executor = self.records.session.executor
        with executor.read(None):
            rows = self.records.read_rows(executor, self.features, self.target)
        features = rows.design.to_matrix(np.float32)[:, 1:] / np.float32(ONE)
        if isinstance(self.target, CategoryFeature):
            return torch.from_numpy(features), torch.from_numpy(np.where(rows.present, rows.target, -1))
        numbers = np.where(rows.present, self.target.decode(rows.target), np.nan).astype(np.float32)
        return torch.from_numpy(features), torch.from_numpy(numbers)


def to_tensor(values: Any, name: str) -> Tensor:
    """Return an array, a tensor or a frame of numbers as a tensor, without a copy where that is possible."""
    if isinstance(values, Tensor):
        if values.layout is not torch.strided or values.device.type != "cpu" or values.is_complex() or values.is_quantized:
            raise BadParameter(name, "a tensor of another kind", "not a dense tensor of numbers on the CPU", "convert it")
        return values.detach()
    try:
        array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
        if array.dtype.kind == "b":
            array = array.astype(np.uint8)
        if array.dtype.kind not in "iuf":
            raise TypeError
        array = np.ascontiguousarray(array)
        return torch.from_numpy(array if array.flags.writeable else array.copy())  # as columns of pandas are
    except Exception:  # what a library raises may quote values
        raise BadParameter(
            name, f"of type {type(values).__name__}", "not an array of numbers", "give a NumPy array or a tensor"
        ) from None
