"""Per-record gradients of a model, without a backward pass per record.

**Book-keeping.** The gradient of a linear layer's weights for one record is the outer product of what goes in (activations)
and the gradient of what comes out. Both are known for every record after one forward and one backward pass over a chunk; the
products are summed once, after clipping. So a step costs little more than a step without privacy, and no memory for a
gradient per record [LK21, BWZK23]. Known layers: `Linear`, `Conv2d`, `Embedding`, `LayerNorm`, `GroupNorm`. A parameter that
is used several times (tied weights) has the sum of its uses as its gradient, before any norm is taken.

**vmap** computes the gradient of one record with `torch.func` and maps it over the chunk: for any other model, at the cost
of one gradient per record in memory.

Book-keeping sees a parameter only where a known layer uses it. `check_bookkeeping` compares its sum with the gradient that
autograd computes on synthetic rows; a model for which they differ is left to vmap. That is a matter of accuracy alone: the
norm of a contribution is checked in whole numbers, whatever computed it.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from torch import Tensor, nn

from discreet.learn.training.quantise import (
    Dense,
    Factors,
    FloatTotal,
    Gradient,
    Positions,
    Total,
    clip_and_quantise,
    gather_rows,
    list_blocks,
)
from discreet.learn.training.rows import Chunk

LossFunction: TypeAlias = Callable[[Any, Any], Tensor]
Method: TypeAlias = Literal["book-keeping", "vmap"]
SMALL = 1 << 9
"""Parameters of at most so many numbers are handled as one: their gradients are multiplied out, side by side."""
DENSE_LIMIT = 1 << 23
"""Up to so many numbers a chunk's gradients over positions are multiplied out: it is quicker than their inner products."""


@dataclass(slots=True)
class Use:
    """One use of a layer in a forward pass."""

    layer: nn.Module
    input: Tensor
    output: Tensor


def is_known(layer: nn.Module) -> bool:
    """Return whether book-keeping knows the gradient of a layer's parameters."""
    kind = type(layer)
    if kind is nn.Conv2d:
        return bool(layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str))
    if kind is nn.Embedding:
        return layer.max_norm is None and not bool(layer.scale_grad_by_freq) and not layer.sparse
    return kind in (nn.Linear, nn.LayerNorm, nn.GroupNorm)


def list_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers with trained parameters of their own."""
    return [each for each in model.modules() if any(p.requires_grad for p in each.parameters(recurse=False))]


def knows(model: nn.Module) -> bool:
    """Return whether book-keeping knows all layers with trained parameters."""
    return all(map(is_known, list_layers(model)))


def count_multiplied(model: nn.Module, method: Method | None, sums_floats: bool) -> int:
    """Return about how many numbers are in memory for the gradient of one record, for a choice of the chunk: all of them
    with vmap, those of the largest convolution if floats are summed, else few."""
    if method == "vmap" or not knows(model):
        return sum(each.numel() for each in list_trained(model).values())
    convolved = [each.weight.numel() for each in list_layers(model) if isinstance(each, nn.Conv2d)]
    return max(convolved, default=1) if sums_floats else 1


def list_trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained, each once, in the order of the model."""
    return {name: each for name, each in model.named_parameters() if each.requires_grad}


@dataclass
class GradientModel:
    """A copy of a model that computes contributions. The given model is left as it is."""

    model: nn.Module
    loss_function: LossFunction
    clip: float
    method: Method
    names: tuple[str, ...]
    parameters: tuple[nn.Parameter, ...]
    sums_floats: bool = False
    uses: list[Use] = field(default_factory=list)
    channels_last: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, model: nn.Module, loss: LossFunction, clip: float, method: Method | None = None, *, sums_floats: bool = False
    ) -> "GradientModel":
        """Copy the model; take book-keeping if it knows every trained layer, unless a method is given."""
        own = copy.deepcopy(model)
        trained = dict(sorted(list_trained(own).items(), key=lambda item: item[1].numel() <= SMALL))  # small ones last
        layers = list_layers(own)
        chosen: Method = method or ("book-keeping" if knows(own) else "vmap")
        for each in own.modules():
            if getattr(each, "inplace", False) is True:
                each.inplace = False  # type: ignore[assignment]  # an output that is overwritten has another gradient
        made = cls(own, loss, clip, chosen, tuple(trained), tuple(trained.values()), sums_floats)
        if chosen == "book-keeping":
            made.channels_last = {id(each.weight) for each in layers if isinstance(each, nn.Conv2d)}
            for layer in layers:
                layer.register_forward_hook(made._note_use)
            for parameter in own.parameters():
                parameter.requires_grad_(False)
        return made

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers each trained parameter has."""
        return tuple(each.numel() for each in self.parameters)

    @property
    def size(self) -> int:
        """How many numbers are trained."""
        return sum(self.sizes)

    @property
    def part_sizes(self) -> list[int]:
        """How many numbers each part of a total has: one part for each large parameter, one for all small ones."""
        large = [size for size in self.sizes if size > SMALL]
        small = self.size - sum(large)
        return [*large, small] if small else large

    def new_total(self) -> Total:
        """Return a total of contributions, at zero."""
        return Total(self.part_sizes)

    def split_parts(self, total: Tensor) -> tuple[Tensor, ...]:
        """Return the views of a vector that belong to the parts of a total."""
        return total.split(self.part_sizes)

    def split(self, total: Tensor) -> list[Tensor]:
        """Return the parts of a vector that belong to the trained parameters, in their shapes. The numbers of a convolution
        are summed with channels last, because that copies pictures in longer runs."""
        parts = zip(total.split(list(self.sizes)), self.parameters, strict=True)
        return [
            part.view(each.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2).contiguous() if id(each) in self.channels_last
            else part.view(each.shape)
            for part, each in parts
        ]  # fmt: skip

    def gradients(self, features: Tensor, targets: Tensor, count: int | None = None) -> list[Gradient]:
        """Return the gradients of a chunk's first records, in the order of `parameters`; those of small ones are one. What
        the rows behind them hold is arbitrary."""
        keeps_books = self.method == "book-keeping"
        first = len(features) if count is None else count
        found = self._keep_books(features, targets, first) if keeps_books else self._map(features, targets)
        small = [each.values for each in found if isinstance(each, Dense) and each.values.shape[1] <= SMALL]
        return [*found[: len(found) - len(small)], *([Dense(torch.cat(small, 1))] if small else [])]

    def prepare_chunk(self, total: Total, chunk: Chunk) -> Callable[[], None]:
        """Compute the contributions of a chunk's records, their clipped gradients as whole numbers; return what adds them to
        a total."""
        with torch.no_grad():
            found = self.gradients(chunk.features, chunk.targets, chunk.count)
            wholes, count = clip_and_quantise(found, self.clip, chunk.valid), chunk.count
        return lambda: total.add(wholes, count)

    def prepare_floats(self, total: FloatTotal, chunk: Chunk, wide: bool) -> Callable[[], None]:
        """Compute a chunk's gradients; return what adds the sum of the clipped ones to a total."""
        with torch.no_grad():
            found = self.gradients(chunk.features, chunk.targets, chunk.count)
        return lambda: total.add(found, self.clip, chunk.valid, chunk.count, wide)

    def _note_use(self, layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        if not output.requires_grad:
            output.requires_grad_()
        self.uses.append(Use(layer, inputs[0].detach(), output))

    def _keep_books(self, features: Tensor, targets: Tensor, count: int) -> list[Gradient]:
        self.uses.clear()
        with torch.enable_grad():
            total = self.loss_function(self.model(features), targets).sum()
            uses, self.uses = self.uses, []
            slopes = torch.autograd.grad(total, [use.output for use in uses], allow_unused=True)
        parts: dict[int, list[Gradient]] = {id(each): [] for each in self.parameters}
        shared = self._find_shared(uses)
        for use, slope in zip(uses, slopes, strict=True):
            given = torch.zeros_like(use.output) if slope is None else slope
            for parameter, gradient in list_gradients(use, given, shared, count, self.sums_floats):
                if id(parameter) in parts:
                    parts[id(parameter)].append(gradient)
        return [_merge(parts[id(each)], each, len(features)) for each in self.parameters]

    def _find_shared(self, uses: list[Use]) -> set[int]:
        """Parameters with several uses, and small ones: their gradients are multiplied out, so that they can be added."""
        seen, shared = set[int](), {id(each) for each in self.parameters if each.numel() <= SMALL}
        for use in uses:
            for each in use.layer.parameters(recurse=False):
                (shared if id(each) in seen else seen).add(id(each))
        return shared

    def _map(self, features: Tensor, targets: Tensor) -> list[Gradient]:
        frozen = {name: each.detach() for name, each in self.model.named_parameters() if name not in self.names}
        frozen |= dict(self.model.named_buffers())
        trained = {name: each.detach() for name, each in zip(self.names, self.parameters, strict=True)}

        def one_loss(weights: dict[str, Tensor], feature: Tensor, target: Tensor) -> Tensor:
            output = torch.func.functional_call(self.model, {**frozen, **weights}, (feature[None],))
            return self.loss_function(output, target[None]).sum()

        with torch.enable_grad():
            found = torch.func.vmap(torch.func.grad(one_loss), (None, 0, 0))(trained, features, targets)
        return [Dense(found[name].detach().flatten(1)) for name in self.names]


def _merge(gradients: list[Gradient], parameter: nn.Parameter, records: int) -> Gradient:
    """The gradient of a parameter: of its one use, or the sum of its uses; zero if the forward pass does not use it."""
    if not gradients:
        return Dense(torch.zeros(records, parameter.numel(), dtype=parameter.dtype))
    if len(gradients) == 1:
        return gradients[0]
    total = torch.zeros(records, parameter.numel(), dtype=parameter.dtype)
    for each in gradients:
        assert isinstance(each, Dense)
        total += each.values
    return Dense(total)


def list_gradients(
    use: Use, slope: Tensor, shared: set[int], count: int, sums_floats: bool = False
) -> list[tuple[Tensor, Gradient]]:
    """Return the gradients of a layer's parameters, from what went in and the gradient of what came out.

    Those of `shared` parameters are multiplied out; with `sums_floats` also those over several positions, because terms of
    one record that cancel out would leave the error of their sum unbounded.
    """
    layer, given = use.layer, use.input
    if isinstance(layer, nn.Embedding):
        return [(layer.weight, _differentiate_embedding(layer, given, slope, id(layer.weight) in shared))]
    if isinstance(layer, nn.LayerNorm | nn.GroupNorm):
        return _differentiate_norm(layer, given, slope)
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    found: list[tuple[Tensor, Gradient]] = []
    if isinstance(layer, nn.Conv2d):
        windows, outputs = _find_windows(layer, given), slope.flatten(2)
        if layer.bias is not None:
            found.append((layer.bias, Dense(outputs.sum(2))))
        is_dense = id(layer.weight) in shared or sums_floats or len(given) * layer.weight.numel() <= DENSE_LIMIT
        weight = _convolve(windows, outputs, count) if is_dense else _list_positions(windows, outputs)
        return [(layer.weight, weight), *found]
    inputs, outputs = given.reshape(len(given), -1, given.shape[-1]), slope.reshape(len(slope), -1, slope.shape[-1])
    if layer.bias is not None:
        found.append((layer.bias, Dense(outputs.sum(1) if outputs.shape[1] > 1 else outputs[:, 0])))
    is_shared = id(layer.weight) in shared or (sums_floats and inputs.shape[1] > 1)
    return [(layer.weight, _multiply(inputs, outputs, is_shared)), *found]


def _find_windows(layer: nn.Conv2d, given: Tensor) -> Tensor:
    """Return what each position of a convolution's output is computed from: records × positions (2) × kernel (2) × channels,
    as a view."""
    (height, width), (down, right), (tall, broad) = layer.kernel_size, layer.stride, layer.dilation
    top, left = (int(each) for each in layer.padding)  # no text: such layers are left to vmap
    padded = F.pad(given, (left, left, top, top)) if top or left else given
    rows = padded.permute(0, 2, 3, 1).contiguous()
    windows = rows.unfold(1, tall * (height - 1) + 1, down).unfold(2, broad * (width - 1) + 1, right)
    return windows[..., ::tall, ::broad].permute(0, 1, 2, 4, 5, 3)


def _list_positions(windows: Tensor, outputs: Tensor) -> Gradient:
    return Positions(windows.reshape(len(windows), outputs.shape[2], -1), outputs.mT)


def _convolve(windows: Tensor, outputs: Tensor, count: int) -> Gradient:
    """The gradients of a convolution, multiplied out block by block, with their norms; of padding, none."""
    records, channels, positions = outputs.shape
    width = windows[0, 0, 0].numel()
    values = torch.empty(records, channels, width, dtype=outputs.dtype)
    norms = torch.zeros(records, dtype=outputs.dtype)
    blocks = list_blocks(records, width * max(channels, positions), count)
    values[blocks[-1].stop if blocks else 0 :].zero_()
    for part in blocks:
        torch.bmm(outputs[part], windows[part].reshape(-1, positions, width), out=values[part])
        torch.linalg.vector_norm(values[part], dim=(1, 2), out=norms[part])
    return Dense(values.flatten(1), norms, count)


def _multiply(inputs: Tensor, outputs: Tensor, is_shared: bool) -> Gradient:
    """The gradients Σₜ Gₜ ⊗ Aₜ: as factors for one position, multiplied out where that is small or needed."""
    records, positions, width = inputs.shape
    if not is_shared and positions == 1:
        return Factors(inputs[:, 0], outputs[:, 0])
    if is_shared and positions == 1:
        return Dense((outputs[:, 0, :, None] * inputs).flatten(1))
    if is_shared or records * width * outputs.shape[2] <= DENSE_LIMIT:
        return Dense(torch.bmm(outputs.mT, inputs).flatten(1))
    return Positions(inputs, outputs)


def _differentiate_embedding(layer: nn.Embedding, places: Tensor, slope: Tensor, is_shared: bool) -> Gradient:
    places, slope = places.reshape(len(places), -1), slope.reshape(len(slope), -1, layer.embedding_dim)
    if layer.padding_idx is not None:
        slope = torch.where((places == layer.padding_idx)[:, :, None], torch.zeros((), dtype=slope.dtype), slope)
    if not is_shared:
        return gather_rows(places, slope, layer.num_embeddings)
    total = torch.zeros(len(places), layer.num_embeddings, layer.embedding_dim, dtype=slope.dtype)
    total.scatter_add_(1, places[:, :, None].expand_as(slope), slope)
    return Dense(total.flatten(1))


def _differentiate_norm(layer: nn.LayerNorm | nn.GroupNorm, given: Tensor, slope: Tensor) -> list[tuple[Tensor, Gradient]]:
    if isinstance(layer, nn.LayerNorm):
        normal = F.layer_norm(given, layer.normalized_shape, None, None, layer.eps)
        shape = (len(given), -1, layer.weight.numel())
        products, slopes = (slope * normal).reshape(shape).sum(1), slope.reshape(shape).sum(1)
    else:
        normal = F.group_norm(given, layer.num_groups, None, None, layer.eps)
        products = (slope * normal).flatten(2).sum(2) if slope.dim() > 2 else slope * normal
        slopes = slope.flatten(2).sum(2) if slope.dim() > 2 else slope
    found: list[tuple[Tensor, Gradient]] = [(layer.weight, Dense(products))]
    return [*found, (layer.bias, Dense(slopes))] if layer.bias is not None else found


def check_bookkeeping(gradients: GradientModel, features: Tensor, targets: Tensor, tolerance: float = 1e-3) -> bool:
    """Return whether book-keeping's gradients of synthetic rows sum up to autograd's."""
    total = torch.zeros(gradients.size, dtype=torch.float64)
    ones = torch.ones(len(features), dtype=torch.float64)
    try:
        with torch.no_grad():
            for part, each in zip(gradients.split_parts(total), gradients.gradients(features, targets), strict=True):
                part += each.sum_floats(ones, wide=True)
    except Exception:  # on invented rows: a layer is not what its class says
        return False
    plain = copy.deepcopy(gradients.model)
    for layer in plain.modules():
        layer._forward_hooks.clear()
    named = dict(plain.named_parameters())
    weights = [named[name].requires_grad_() for name in gradients.names]
    with torch.enable_grad():
        loss = gradients.loss_function(plain(features), targets).sum()
        expected = torch.autograd.grad(loss, weights, allow_unused=True)
    flat = torch.cat([torch.zeros(w.numel()) if e is None else e.flatten() for w, e in zip(weights, expected, strict=True)])
    summed = torch.cat([each.flatten() for each in gradients.split(total)])
    return bool((summed - flat).norm() <= tolerance * (flat.norm() + 1e-9))
