"""Steps of plain PyTorch and of `PrivateTrainer`: python benchmarks/training_own.py plain|exact|float mlp|cnn."""

import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from torch import nn

from benchmarks.training_models import BATCH, RECORDS, STEPS, make_model, make_records, report, run_named, time_plain


def time_own(sums: str, name: str) -> None:
    """Time whole steps of a run: Poisson batches, gradients, exact noise drawn ahead, optimiser. Plain steps run without
    discreet in the process, and without its setting for reproducible kernels."""
    from discreet.learn.training import PrivateTrainer, trainer

    stamps: list[float] = []
    apply = trainer._Run._apply

    def note(self, noisy) -> None:  # type: ignore[no-untyped-def]
        apply(self, noisy)
        stamps.append(time.perf_counter())

    trainer._Run._apply = note  # type: ignore[method-assign]
    PrivateTrainer(
        make_model(name), nn.CrossEntropyLoss(reduction="none"), expected=RECORDS, rate=f"{BATCH}/{RECORDS}", steps=STEPS,
        noise=1, delta=1e-5, sums=sums, shape=(1, 28, 28), optimizer=partial(torch.optim.SGD, lr=0.1),
    ).train(*make_records())  # type: ignore[arg-type]  # fmt: skip
    report(stamps)


if __name__ == "__main__":
    run_named({"plain": time_plain, "exact": partial(time_own, "exact"), "float": partial(time_own, "float")})
