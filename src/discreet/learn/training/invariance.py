"""The contribution of one record must not depend on the other records of its chunk: not on their values, not on its place.

In floating point that is a property of the kernels. A product of matrices may add up a row in another order if the row
stands elsewhere, or if the matrix has more rows; then adding one person to the data changes every other person's gradient
by a rounding error, and through a kink by more, with no bound. So

- every chunk has the same number of rows; unused ones are padding, left out by selection;
- chunks are laid out in the same buffer, aligned to 64 bytes;
- `check_invariance` runs the model on synthetic rows, in every place of the chunk and beside other rows, and compares the
  bits of what goes into and comes out of every trained layer, of the norms and of the contributions.

**What is found.** Layers and losses that compare rows; kernels that add up a row otherwise elsewhere; random numbers, and
anything else that changes from one call to the next; parameters, buffers and attributes that a forward pass changes. The
rows before and behind a row are of the size of ordinary data, bytes, zeros, the smallest and the largest floats, infinities
and NaN.

**What is assumed.** Which instructions a kernel executes depends on shapes, not on values; and a model that passes the check
computes each row alone for all values, not only for those that were tried. A module written to behave otherwise on other
values passes. The check sees no private row, so a refusal tells nothing about one.
"""

from collections.abc import Iterator
from hashlib import sha256

import torch
from torch import Tensor, nn

from discreet.errors import BadParameter
from discreet.learn.training.bookkeeping import GradientModel
from discreet.learn.training.quantise import clip_and_quantise
from discreet.learn.training.rows import Chunk, RowKind

ALL_SHIFTS = 64
"""Chunks of at most so many rows are moved by every number of places."""
FILLED = 16
"""In larger chunks, so many rows are put in all places at once."""


def check_invariance(gradients: GradientModel, kind: RowKind, rows: int) -> str | None:
    """Return what depends on the other rows of a chunk, or on earlier calls, in words; None if nothing does."""
    chunk, (features, targets) = Chunk(rows, kind), kind.make_synthetic(rows)
    everyone = torch.ones(rows, dtype=torch.bool)
    before = read_state(gradients.model)
    try:
        base = _run(gradients, chunk, features, targets, everyone)
        _run(gradients, chunk, features[:1], targets[:1], everyone[:1])
    except Exception as failed:  # on invented rows: it says nothing about private ones
        raise BadParameter(
            "model", type(gradients.model).__name__, f"it fails on invented rows: {failed}", "check model, loss and shape="
        ) from None
    if not _equal(base, _run(gradients, chunk, features, targets, everyone)):
        return "the gradients of the same rows differ from one call to the next"
    for shift in _list_shifts(rows):
        moved = _run(gradients, chunk, features.roll(shift, 0), targets.roll(shift, 0), everyone)
        if not all(torch.equal(a.roll(shift, 0), b) for a, b in zip(base, moved, strict=True)):
            return "the gradient of a row depends on its place in a chunk"
        del moved  # before the next ones are computed
    for row in range(FILLED if rows > ALL_SHIFTS else 0):
        same = torch.full((rows,), row)
        filled = _run(gradients, chunk, features[same], targets[same], everyone)
        if not all(torch.equal(a[same], b) for a, b in zip(base, filled, strict=True)):
            return "the gradient of a row depends on its place in a chunk"
        del filled
    for beside, same_rows in _list_neighbours(kind, rows, features, targets):
        try:
            changed = _run(gradients, chunk, *beside, everyone)
        except Exception:  # of rows that raise, `add_without_errors` takes care
            continue
        if not all(torch.equal(a[same_rows], b[same_rows]) for a, b in zip(base, changed, strict=True)):
            return "the gradient of a row depends on the other rows"
        del changed
    for few in {1, rows - 1}:
        alone = _run(gradients, chunk, features[:few], targets[:few], everyone[:few])
        if not all(torch.equal(a[:few], b[:few]) for a, b in zip(base, alone, strict=True)):
            return "the gradient of a row depends on the other rows"
    if not _equal(base, _run(gradients, chunk, features, targets, everyone)):
        return "the gradients of the same rows differ from one call to the next"
    if read_state(gradients.model) != before:
        return "the model keeps statistics of the rows that it sees"
    return None


def read_state(model: nn.Module) -> list[bytes]:
    """Return what a model remembers, as far as it can be seen: its parameters and buffers, and the numbers, texts and sizes
    of collections among the attributes of its modules."""
    found = [_hash_tensor(each) for each in (*model.parameters(), *model.buffers())]
    for module in model.modules():
        for name, value in sorted(vars(module).items()):
            if isinstance(value, bool | int | float | str | tuple | None):
                found.append(f"{name}={value!r}".encode())
            elif isinstance(value, Tensor):
                found.append(_hash_tensor(value))
            elif isinstance(value, list | dict | set) and not name.startswith("_"):
                found.append(f"{name}: {len(value)}".encode())
    return found


def _hash_tensor(values: Tensor) -> bytes:
    return sha256(values.detach().reshape(-1).view(torch.uint8).numpy().tobytes()).digest()


def _equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def _list_shifts(rows: int) -> list[int]:
    """By how many places rows are moved: all, or in large chunks few, powers of two, and nearly once around."""
    if rows <= ALL_SHIFTS:
        return list(range(1, rows))
    powers = [1 << bits for bits in range(4, rows.bit_length())]
    return sorted({*range(1, 9), *powers, rows // 2, rows - 1} & set(range(1, rows)))


def _list_neighbours(
    kind: RowKind, rows: int, features: Tensor, targets: Tensor
) -> Iterator[tuple[tuple[Tensor, Tensor], slice]]:
    """Other rows behind the first half, or the first, and before the last ones; and which rows are the same: ordinary
    values, extreme ones, none that is a number."""
    half = rows // 2
    others, other_targets = kind.make_synthetic(rows, seed=1)
    values = [others]
    if kind.dtype.is_floating_point:
        limits = torch.finfo(kind.dtype)
        values += [others.mul(64).round(), torch.zeros_like(others), others * limits.tiny, others * 1e18]
        values += [torch.full_like(others, each) for each in (limits.max, -limits.max, torch.inf, torch.nan)]
    elif kind.tokens is not None:
        values += [torch.zeros_like(others), torch.full_like(others, kind.tokens - 1)]
    for each in values:
        for few in (half, 1):
            yield (torch.cat([features[:few], each[few:]]), torch.cat([targets[:few], other_targets[few:]])), slice(few)
            at = rows - few
            yield (torch.cat([each[:at], features[at:]]), torch.cat([other_targets[:at], targets[at:]])), slice(at, rows)


def _run(gradients: GradientModel, chunk: Chunk, features: Tensor, targets: Tensor, valid: Tensor) -> list[Tensor]:
    """Everything that is computed for each record, up to its contribution. What the model computes is copied, as it may keep
    a tensor and overwrite it in the next call; contributions are new tensors."""
    chunk.fill(features, targets, valid)
    with torch.no_grad():
        found = gradients.gradients(chunk.features, chunk.targets, chunk.count)
        tensors = [tensor.clone() for each in found for tensor in each.tensors()]
        tensors += [each.squared_norms() for each in found]
        if not gradients.sums_floats:
            wholes = clip_and_quantise(found, gradients.clip, chunk.valid)
            tensors += [tensor for each in wholes for tensor in (*each.tensors(), each.bound_squared_norms())]
    return tensors
