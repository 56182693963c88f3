"""Digits with a small convolutional network, trained with differential privacy: python examples/digits.py [STEPS]."""

import sys

from discreet.learn.training import PrivateTrainer  # before PyTorch is used

import torch  # isort: skip
from sklearn.datasets import load_digits
from torch import nn

TRAINED = 1500  # the rest is kept apart: these pictures are public


def main(steps: int = 60) -> float:
    """Train, print the quote and the guarantee, and return the accuracy on the pictures that were kept apart."""
    pictures, digits = load_digits(return_X_y=True)
    features = torch.tensor(pictures / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    targets = torch.tensor(digits)
    torch.manual_seed(0)  # of the initial weights, which are public; noise and batches are never seeded
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 10),
    )  # fmt: skip
    trainer = PrivateTrainer(
        network, nn.CrossEntropyLoss(reduction="none"), expected=TRAINED, rate="1/10", steps=steps, epsilon=3, delta=1e-5,
        shape=(1, 8, 8), optimizer=lambda weights: torch.optim.SGD(weights, lr=0.15, momentum=0.9),
    )  # fmt: skip
    print(trainer.quote())
    trained = trainer.train(features[:TRAINED], targets[:TRAINED])
    print(trained.guarantee)
    with torch.no_grad():
        right = (trained.model(features[TRAINED:]).argmax(1) == targets[TRAINED:]).float().mean().item()
    print(f"{right:.0%} of {len(features) - TRAINED} other pictures are recognised.")
    return right


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
