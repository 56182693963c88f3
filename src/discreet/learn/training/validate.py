"""Which models and losses can be trained: decided from the modules and on synthetic rows, before anything is charged."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from discreet.errors import BadParameter
from discreet.learn.training.bookkeeping import LossFunction, list_trained
from discreet.learn.training.rows import RowKind

BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
DROPOUTS = (nn.modules.dropout._DropoutNd,)
HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip
GLOBAL_HOOKS = tuple(f"_global{name}" for name in HOOKS)
"""Of `torch.nn.modules.module.register_module_forward_hook` and its like: for all modules of the process."""
NUMERIC = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss, nn.BCEWithLogitsLoss, nn.PoissonNLLLoss)
"""Losses whose targets are numbers, also where integers are given."""
PER_RECORD = 'give one loss per record: nn.CrossEntropyLoss(reduction="none")'
MAKERS = {
    "optimizer": ("of the weights", "give a function: optimizer=lambda weights: torch.optim.SGD(weights, lr=0.5)"),
    "scheduler": (
        "of the optimiser", "give a function: scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 100)"
    ),
}  # fmt: skip


def check_model(model: Any, loss: Any) -> None:
    """Refuse modules that mix records, draw random numbers or keep statistics, and losses that are a mean."""
    if not isinstance(model, nn.Module):
        raise BadParameter("model", f"of type {type(model).__name__}", "not a torch.nn.Module", "give the module to train")
    if not callable(loss):
        raise BadParameter("loss", f"of type {type(loss).__name__}", "cannot be called", PER_RECORD)
    reduction = getattr(loss, "reduction", "none")
    if reduction != "none":
        raise BadParameter("loss", f"reduction={reduction!r}", "the loss of a batch is no loss of one record", PER_RECORD)
    if any(getattr(nn.modules.module, hooks, None) for hooks in GLOBAL_HOOKS):
        raise BadParameter(
            "model", type(model).__name__, "a hook for all modules is registered, which sees all records of a chunk",
            "remove it while the model is trained",
        )  # fmt: skip
    for name, layer in model.named_modules():
        shown = f"{type(layer).__name__} ({name or 'the model'})"
        if isinstance(layer, nn.modules.lazy.LazyModuleMixin):
            raise BadParameter(
                "model", shown, "it has no weights before its first row", "call the model once, on invented rows",
            )  # fmt: skip
        if any(getattr(layer, hooks, None) for hooks in HOOKS):
            raise BadParameter(
                "model", shown, "it has a hook, which sees all records of a chunk",
                "remove it, and do what it does in the model's forward",
            )  # fmt: skip
        if isinstance(layer, BATCH_NORMS):
            _check_batch_norm(layer, shown)
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None:
            raise BadParameter(
                "model", shown, "max_norm= changes the weights of the tokens that it sees, without noise",
                "leave max_norm out",
            )  # fmt: skip
        if isinstance(layer, DROPOUTS) and layer.training and layer.p > 0:
            raise BadParameter(
                "model", shown, "its random numbers depend on the place of a record in the batch",
                "leave dropout out: the noise of the gradients already keeps a model from fitting single records",
            )  # fmt: skip
    if not list_trained(model):
        raise BadParameter("model", type(model).__name__, "no parameter requires a gradient", "set requires_grad")
    dtypes = {each.dtype for each in list_trained(model).values()}
    if len(dtypes) > 1 or next(iter(dtypes)) not in (torch.float32, torch.float64):
        raise BadParameter(
            "model",
            f"of {', '.join(map(str, dtypes))}",
            "half precision scales losses by what it sees",
            "call model.float()",
        )
    if any(each.device.type != "cpu" for each in model.parameters()):
        raise BadParameter("model", "not on the CPU", "exact sums are computed there", "call model.cpu()")


def check_maker(name: str, maker: Any) -> None:
    """Refuse an optimiser or a scheduler in place of a function that makes one: the weights that are trained are a copy."""
    if maker is not None and not callable(maker):
        of, hint = MAKERS[name]
        reason = f"a copy of the model is trained, so a function {of} makes it"
        raise BadParameter(name, f"of type {type(maker).__name__}", reason, hint)


def _check_batch_norm(layer: nn.Module, shown: str) -> None:
    frozen = not layer.training and layer.track_running_stats and not any(p.requires_grad for p in layer.parameters())
    if not frozen:
        raise BadParameter(
            "model", shown, "it normalises a record by the others of its batch",
            "use nn.GroupNorm, or a pre-trained one with eval() and frozen parameters",
        )  # fmt: skip


def infer_kind(
    model: nn.Module, loss: LossFunction, shape: tuple[int, ...] | None, dtype: torch.dtype | None, target: Tensor | None
) -> RowKind:
    """Return what a record looks like, from declared shapes and the types of columns, and try the model on zeros.

    `target` has the type and the shape of the targets; None before there are any, when the loss decides.
    """
    layers = [each for each in model.modules() if not list(each.children())]
    first = next((each for each in layers if list(each.parameters())), None)
    vocabularies = [each.num_embeddings for each in layers if isinstance(each, nn.Embedding)]
    if shape is None and isinstance(first, nn.Linear):
        shape = (first.in_features,)
    if shape is None:
        raise BadParameter(
            "shape", "missing", "the shape of a record is not known yet", "give shape=(1, 28, 28), for example"
        )
    own = next(iter(list_trained(model).values())).dtype
    takes_tokens = isinstance(first, nn.Embedding) if dtype is None else not dtype.is_floating_point and bool(vocabularies)
    kind = RowKind(tuple(shape), torch.int64 if takes_tokens else own, tokens=min(vocabularies) if takes_tokens else None)
    output = _try_model(model, kind)
    if target is None:
        counts = isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss)
        target_shape = (output.shape[0], *output.shape[2:]) if counts else tuple(output.shape)
        target = torch.zeros(target_shape, dtype=torch.int64 if counts else own)
    is_class = not target.dtype.is_floating_point and output.dim() == target.dim() + 1 and not isinstance(loss, NUMERIC)
    if not target.dtype.is_floating_point and not is_class and isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss):
        raise BadParameter(
            "targets", f"{target.dim()}-dimensional", "one class for each record is needed", "give a column of integers"
        )
    found = RowKind(
        kind.shape, kind.dtype, tuple(target.shape[1:]), torch.int64 if is_class else own, kind.tokens,
        int(output.shape[1]) if is_class else None,
    )  # fmt: skip
    _try_loss(model, loss, found)
    return found


def _try_model(model: nn.Module, kind: RowKind) -> Tensor:
    features, _ = kind.make_synthetic(2)
    try:
        with torch.no_grad():
            output = copy.deepcopy(model)(features)
        if isinstance(output, Tensor) and output.dim() and len(output) == 2:
            return output
        problem = "its output has no row for each record"
    except Exception as failed:  # on invented rows: it says nothing about private ones
        problem = f"it fails on records of shape {kind.shape}: {failed}"
    raise BadParameter("model", type(model).__name__, problem, "check shape=, and that the output is one tensor")


def _try_loss(model: nn.Module, loss: LossFunction, kind: RowKind) -> None:
    features, targets = kind.make_synthetic(2)
    hint = PER_RECORD
    try:
        with torch.enable_grad():
            found = loss(copy.deepcopy(model)(features), targets)
            found.sum().backward()
        if isinstance(found, Tensor) and found.dim() and len(found) == 2:
            return check_graph(found)
        problem = "it gives one number for all records"
    except BadParameter:
        raise
    except Exception as failed:  # on invented rows
        problem = f"it fails on invented targets of the type and shape of yours: {failed}"
        hint = "check the type and the shape of targets; nn.CrossEntropyLoss takes classes as integers: targets.long()"
    raise BadParameter("loss", getattr(loss, "__name__", type(loss).__name__), problem, hint)


def check_graph(losses: Tensor) -> None:
    """Refuse gradients that are computed by Python: a backward pass that sees the whole chunk."""
    waiting, seen = [losses.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            raise BadParameter(
                "model", type(node).__name__.removesuffix("Backward"), "its gradient is a function of all records",
                "write it with PyTorch's operations, without torch.autograd.Function",
            )  # fmt: skip
        waiting += [each for each, _ in node.next_functions]


def check_optimizer(make: Any, make_scheduler: Any, weights: Sequence[Tensor]) -> None:
    """Try the optimiser and the scheduler on copies of the weights, with gradients of zero."""
    copies = [nn.Parameter(each.detach().clone()) for each in weights]
    for each in copies:
        each.grad = torch.zeros_like(each)
    tried: Any = make
    try:
        tried = optimizer = make(copies)
        made = [optimizer]
        if make_scheduler is not None:
            tried = make_scheduler
            made.append(make_scheduler(optimizer))
        for tried in made * 2:
            tried.step()
    except Exception as failed:  # no record was read
        parameter = "optimizer" if tried is make or isinstance(tried, torch.optim.Optimizer) else "scheduler"
        raise BadParameter(
            parameter, type(tried).__name__, f"it fails without a loss: {failed}",
            "take one that needs gradients and the number of steps alone, such as Adam or StepLR",
        ) from None  # fmt: skip
