"""What noise does to a model that is trained on invented people: the accuracy of private logistic regression against ε.

Full-batch gradient descent: in each of T steps every record's gradient is clipped to the norm C and truncated to integers on
a grid of C·2⁻¹⁶, the sum gets Gaussian noise of σ·C, and a constant divides it. The T steps cost one Gaussian of ratio √T/σ.
Of one invented population the model sees one half, and is scored on the other, which a real release would have to pay for.
"""

from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.pld.gaussian import gaussian_mu
from discreet.lab.figures.figure import EXACT, FIRST, MARK, SECOND, THIRD, Axes, Figure, Numbers
from discreet.mechanisms import Gaussian
from discreet.noise import uniform_below
from discreet.noise.bits import Bits
from discreet.testing import seeded_bits

EPSILONS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
WEIGHTS = np.array([0.8, 4.0, -3.0, 2.0, -1.0])
"""Of the intercept and four features, in the invented population."""
RUNS, GRID, CLIP, RATE = 15, 1 << 16, 0.5, 8.0
Floats = NDArray[np.float64]


def _invent_people(n: int, bits: Bits) -> tuple[Floats, Floats]:
    """An intercept and four features in [−½, ½], and a yes or no that depends on them."""
    uniform = uniform_below(GRID, 5 * n, bits).reshape(n, 5) / GRID
    features = np.hstack([np.ones((n, 1)), uniform[:, :4] - 0.5])
    return features, (uniform[:, 4] < _sigmoid(features @ WEIGHTS)).astype(float)


def _sigmoid(logits: Floats) -> Floats:
    out: Floats = 1 / (1 + np.exp(-logits))
    return out


def training_sigma(epsilon: float, delta: Fraction, steps: int) -> float:
    """The noise multiplier with which so many full-batch steps cost (ε, δ).

    >>> round(training_sigma(1, Fraction(1, 10**6), 30), 2)
    23.14
    """
    return sqrt(steps) / gaussian_mu(Fraction(epsilon), delta)


def _train(features: Floats, answers: Floats, steps: int, sigma: float, runs: int, bits: Bits) -> Floats:
    """Weights of so many runs, one column each; without noise if σ is 0."""
    weights = np.zeros((features.shape[1], runs))
    norms = np.sqrt((features**2).sum(axis=1))[:, None]
    for _ in range(steps):
        residual = answers[:, None] - _sigmoid(features @ weights)
        residual *= np.minimum(1, CLIP / np.maximum(np.abs(residual) * norms, 1e-12))
        grains = np.trunc(features[:, :, None] * residual[:, None, :] * (GRID / CLIP)).astype(np.int64)
        total = grains.sum(axis=0)
        if sigma:
            total = Gaussian(sigma * GRID).release(total.ravel(), bits).reshape(total.shape)
        weights += RATE * CLIP / GRID / len(features) * total
    return weights


def _accuracy(features: Floats, answers: Floats, weights: Floats) -> Floats:
    out: Floats = ((features @ weights > 0) == (answers[:, None] > 0.5)).mean(axis=0)
    return out


def _training(n: int = 1000, steps: int = 30, delta: Fraction = Fraction(1, 10**6)) -> dict[str, Any]:
    train, test = _invent_people(n, seeded_bits(21)), _invent_people(n, seeded_bits(22))
    private = [
        _accuracy(*test, _train(*train, steps, training_sigma(epsilon, delta, steps), RUNS, seeded_bits(23 + i)))
        for i, epsilon in enumerate(EPSILONS)
    ]
    exact = float(_accuracy(*test, _train(*train, steps, 0, 1, seeded_bits(0)))[0])
    most = max(test[1].mean(), 1 - test[1].mean())
    return {
        "ε": list(EPSILONS),
        f"private, mean of {RUNS} runs": [float(each.mean()) for each in private],
        "worst run": [float(each.min()) for each in private],
        "without noise": [exact] * len(EPSILONS),
        "always the commoner answer": [float(most)] * len(EPSILONS),
    }


def _paint_training(axes: Axes, n: Numbers) -> None:
    names = list(n)
    for name, pen in zip(names[1:], (EXACT, FIRST, SECOND, THIRD), strict=True):
        axes.plot(n["ε"], n[name], **pen, label=name)
    axes.axvline(1, **MARK)
    axes.set(xlabel="ε of the whole training", ylabel="share of right predictions for other people", xscale="log")
    axes.legend(loc="lower right")


TRAINING = Figure(
    "training",
    "Private logistic regression: {n} people, {steps} full-batch steps, δ = {delta}",
    "Gradients are clipped, added up and noised; accuracy is that on other invented people. Noise per person falls with n.",
    "[ACG16], clipped gradients with Gaussian noise",
    _training, _paint_training,
)  # fmt: skip
