"""DP-SGD by Opacus on the loss ⟨w, x⟩: one line of JSON for each run. It runs in an environment of its own."""

import json
import sys

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recorded(TensorDataset):
    """Rows that say which of them are read."""

    def __getitem__(self, place):
        return (*super().__getitem__(place), torch.tensor(place))


def train(rows, dimension: int, seed: int, settings: dict) -> dict:
    """Return the updates of all steps times the declared divisor, or else Opacus's own; and the batches."""
    torch.manual_seed(seed)
    features = torch.tensor(rows, dtype=torch.float32).reshape(-1, dimension)
    model = nn.Linear(dimension, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    size = max(1, round(len(features) * settings["rate"]))
    loader = DataLoader(Recorded(features), batch_size=size, shuffle=settings["fault"] == "shuffle")
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=settings["noise"] * (0.1 if settings["fault"] == "noise" else 1),
        max_grad_norm=1.0,
        poisson_sampling=settings["fault"] != "shuffle",
    )
    if settings["fault"] != "shuffle":  # the rate is the claimed one, not one over the number of batches
        loader.batch_sampler.sample_rate = settings["rate"]
    updates, batches = [], []
    while len(updates) < settings["steps"]:
        for given, places in loader:
            if len(updates) == settings["steps"]:
                break
            before = next(model.parameters()).detach().clone()
            optimizer.zero_grad()
            if len(given):
                model(given).mean().backward()
            else:
                model.zero_grad()
                for parameter in model.parameters():
                    parameter.grad_sample = torch.zeros((0, *parameter.shape))
            optimizer.step()
            moved = before - next(model.parameters()).detach()
            divisor = settings["divisor"] or optimizer.expected_batch_size
            updates.append((moved.flatten() * divisor).tolist())
            batches.append(places.tolist())
    return {"updates": updates, "batches": batches}


def main() -> None:
    torch.set_num_threads(1)
    settings = json.loads(sys.argv[1])
    for line in sys.stdin:
        given = json.loads(line)
        print(json.dumps(train(given["rows"], given["dimension"], given["seed"], settings)), flush=True)


if __name__ == "__main__":
    main()
