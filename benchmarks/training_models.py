"""The two networks whose steps are timed, their records, and a clock; used in discreet's environment and in others'."""

import json
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.process_memory import peak_megabytes

BATCH, RECORDS = 256, 25_600
STEPS, BLOCK = 40, 5


def make_model(name: str) -> nn.Module:
    """The network: an MLP of 203,530 parameters, or Opacus's MNIST example of 26,010."""
    torch.manual_seed(0)
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, 3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def make_records() -> tuple[torch.Tensor, torch.Tensor]:
    """Invented pictures of digits."""
    source = torch.Generator().manual_seed(0)
    features = torch.rand(RECORDS, 1, 28, 28, generator=source)
    return features, torch.randint(0, 10, (RECORDS,), generator=source)


def best_block(stamps: list[float]) -> float:
    """Seconds per step in the quickest block of steps: what a busy machine disturbs least."""
    return min((stamps[i + BLOCK] - stamps[i]) / BLOCK for i in range(len(stamps) - BLOCK))


def report(stamps: list[float]) -> None:
    """Print seconds per step, and the peak memory of this process in MB."""
    print(json.dumps({"seconds": best_block(stamps), "memory": peak_megabytes()}))


def time_plain(name: str) -> None:
    """Time plain PyTorch: random batches of a fixed size."""
    model, (features, targets) = make_model(name), make_records()
    optimizer, loss = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    stamps = [time.perf_counter()]
    for _ in range(STEPS):
        chosen = torch.randint(0, RECORDS, (BATCH,))
        optimizer.zero_grad()
        loss(model(features[chosen]), targets[chosen]).backward()
        optimizer.step()
        stamps.append(time.perf_counter())
    report(stamps)


def run_named(methods: dict[str, Callable[[str], None]]) -> None:
    """Run the method and the model that the command line names, in one thread."""
    torch.set_num_threads(1)
    methods[sys.argv[1]](sys.argv[2])
