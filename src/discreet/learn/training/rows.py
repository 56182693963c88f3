"""The records that a model is trained on: arrays with random access, read chunk by chunk after the debit.

What is refused before the debit is decided from shapes and types alone. A record with a value that is not finite, or with an
index out of range, stays in its place and contributes nothing: an error would tell that it exists.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet.errors import BadParameter
from discreet.learn.training.invariance import Chunk, RowKind
from discreet.noise.bits import Ints

VALIDATED_ROWS = 4096
"""So many records are looked at at once when it is decided which of them count."""


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
        where = torch.from_numpy(places)
        chunk.fill(self.features[where], self.targets[where], self.valid[where])


def _is_valid(values: Tensor, below: int | None) -> Tensor:
    """Which rows hold finite numbers, or integers from 0 to `below`."""
    flat = values.reshape(len(values), -1)
    if values.dtype.is_floating_point:
        return torch.isfinite(flat).all(1)
    return ((flat >= 0) & (flat < below)).all(1) if below is not None else torch.ones(len(values), dtype=torch.bool)


def to_tensor(values: Any, name: str) -> Tensor:
    """Return an array, a tensor or a frame of numbers as a tensor, without a copy where that is possible."""
    if isinstance(values, Tensor):
        return values.detach()
    try:
        array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
        if array.dtype.kind == "b":
            array = array.astype(np.uint8)
        if array.dtype.kind not in "iuf":
            raise TypeError
        return torch.from_numpy(np.ascontiguousarray(array))
    except Exception:  # what a library raises may quote values
        raise BadParameter(
            name, f"of type {type(values).__name__}", "not an array of numbers", "give a NumPy array or a tensor"
        ) from None
