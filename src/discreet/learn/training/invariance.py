"""The contribution of one record must not depend on the other records of its chunk: not on their values, not on its place.

In floating point that is a property of the kernels. A product of matrices may add up a row in another order if the row
stands elsewhere, or if the matrix has more rows; then adding one person to the data changes every other person's gradient
by a rounding error, and through a kink by more, with no bound. So

- every chunk has the same number of rows; unused ones are padding, left out by selection;
- chunks are laid out in the same buffer, aligned to 64 bytes;
- `check_invariance` runs the model on synthetic rows, in every place of the chunk and beside other rows, and compares the
  bits of what goes into and comes out of every trained layer, of the norms and of the contributions.

That the check on synthetic rows speaks for all rows is an assumption about kernels: which instructions they execute depends
on shapes, not on values. The check sees no private row, so a refusal tells nothing about one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from discreet.learn.training.bookkeeping import GradientModel
from discreet.learn.training.quantise import clip_and_quantise


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
        assert self.features.data_ptr() % 64 == 0  # as PyTorch allocates

    def fill(self, features: Tensor, targets: Tensor, valid: Tensor) -> None:
        """Place records at the beginning; what is behind them, and records that are not valid, become zeros."""
        count = len(features)
        self.features[:count].copy_(features)
        self.features[count:].zero_()
        self.targets[:count].copy_(targets)
        self.targets[count:].zero_()
        self.valid[:count].copy_(valid)
        self.valid[count:].zero_()
        if not bool(valid.all()):
            for each in (self.features, self.targets):
                each.masked_fill_(~self.valid.view(-1, *([1] * (each.dim() - 1))), 0)


def check_invariance(gradients: GradientModel, kind: RowKind, rows: int) -> str | None:
    """Return what depends on the other rows of a chunk, in words; None if nothing does."""
    chunk, (features, targets) = Chunk(rows, kind), kind.make_synthetic(rows)
    everyone = torch.ones(rows, dtype=torch.bool)
    before = [each.clone() for each in gradients.model.buffers()]
    base = _run(gradients, chunk, features, targets, everyone)
    for shift in range(1, rows):
        moved = _run(gradients, chunk, features.roll(shift, 0), targets.roll(shift, 0), everyone)
        if not all(torch.equal(a.roll(shift, 0), b) for a, b in zip(base, moved, strict=True)):
            return "the gradient of a row depends on its place in a chunk"
    for beside, few in _list_neighbours(kind, rows, features, targets):
        changed = _run(gradients, chunk, *beside, everyone)
        if not all(torch.equal(a[:few], b[:few]) for a, b in zip(base, changed, strict=True)):
            return "the gradient of a row depends on the other rows"
    alone = _run(gradients, chunk, features[:1], targets[:1], everyone[:1])
    if not all(torch.equal(a[:1], b[:1]) for a, b in zip(base, alone, strict=True)):
        return "the gradient of a row depends on the other rows"
    if not all(torch.equal(a, b) for a, b in zip(before, gradients.model.buffers(), strict=True)):
        return "the model keeps statistics of the rows that it sees"
    return None


def _list_neighbours(
    kind: RowKind, rows: int, features: Tensor, targets: Tensor
) -> Iterator[tuple[tuple[Tensor, Tensor], int]]:
    """Other rows beside the first half, or beside the first: other values, huge ones, none that is a number."""
    half = rows // 2
    others, other_targets = kind.make_synthetic(rows, seed=1)
    values = [others] if not kind.dtype.is_floating_point else [others, others * 1e18, others * torch.nan]
    for each in values:
        for few in (half, 1):
            yield (torch.cat([features[:few], each[few:]]), torch.cat([targets[:few], other_targets[few:]])), few


def _run(gradients: GradientModel, chunk: Chunk, features: Tensor, targets: Tensor, valid: Tensor) -> list[Tensor]:
    """Everything that is computed for each record, up to its contribution."""
    chunk.fill(features, targets, valid)
    with torch.no_grad():
        found = gradients.gradients(chunk.features, chunk.targets)
        tensors = [tensor.clone() for each in found for tensor in each.tensors()]
        tensors += [each.squared_norms_of_floats() if gradients.sums_floats else each.squared_norms() for each in found]
        if not gradients.sums_floats:
            wholes = clip_and_quantise(found, gradients.clip, chunk.valid)
            tensors += [tensor.clone() for each in wholes for tensor in each.tensors()]
    return tensors
