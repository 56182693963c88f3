"""Steps of Opacus in its four modes, in its own environment; prints JSON by network and mode."""

import json
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from torch import nn

from benchmarks.training_models import BATCH, STEPS, make_model, make_records, report, run_named, time_plain

MODES = ("hooks", "functorch", "ew", "ghost")


def time_opacus(mode: str, name: str) -> None:
    """Time steps of Opacus with Poisson batches and its own noise."""
    from opacus import PrivacyEngine

    warnings.simplefilter("ignore")
    features, targets = make_records()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(features, targets), batch_size=BATCH)
    model, loss = make_model(name), nn.CrossEntropyLoss()
    made = PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), criterion=loss, data_loader=loader,
        noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=True, grad_sample_mode=mode,
    )  # fmt: skip
    model, optimizer, *rest, loader = made
    loss = rest[0] if rest else loss
    stamps, start = [time.perf_counter()], time.perf_counter()
    for chosen, wanted in loader:
        optimizer.zero_grad()
        loss(model(chosen), wanted).backward()
        optimizer.step()
        stamps.append(time.perf_counter())
        if len(stamps) > STEPS or (time.perf_counter() - start > 30 and len(stamps) > 6):
            break
    report(stamps)


def main() -> None:
    """Run each mode on each network, in a process of its own."""
    found: dict[str, dict[str, object]] = {}
    for name in ("mlp", "cnn"):
        for method in ("plain", *MODES):
            out = subprocess.run([sys.executable, __file__, method, name], check=True, capture_output=True, text=True)
            found.setdefault(name, {})[method] = json.loads(out.stdout.splitlines()[-1])
    print(json.dumps(found))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_named({"plain": time_plain, **{mode: partial(time_opacus, mode) for mode in MODES}})
    else:
        main()
