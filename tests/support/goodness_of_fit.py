"""When do draws refute a distribution? A test with a proven false-alarm rate, for many outcomes at once.

For an outcome of probability p under the distribution, n independent draws with a share of q satisfy
P(share as far out as q) ≤ 2·e^{-n·KL(q‖p)} (Chernoff). With m outcomes a distribution is rejected if one of them has
n·KL(q‖p) > ln(2m/α); the true distribution is rejected with probability at most α (union bound), whatever the dependence of
the outcomes.
"""

from collections.abc import Callable
from math import log

import numpy as np
from numpy.typing import NDArray

ALPHA = 1e-9 / 2000
"""For one test: at most 2,000 tests in a run keep the false-alarm rate of the whole run below 1e-9."""


Cdf = Callable[[int], float]
"""P(X ≤ k)."""


TINY = 1e-14
"""Probabilities below this are raised to it: cdfs are doubles, and the bound must hold in spite of their rounding."""


def kl(q: float, p: float) -> float:
    """Return the KL divergence between coins of bias q and p."""
    p = min(max(p, TINY), 1 - TINY)
    heads = q * log(q / p) if q > 0 else 0.0
    return heads + ((1 - q) * log((1 - q) / (1 - p)) if q < 1 else 0.0)


def edges_of(spread: float) -> list[int]:
    """Return integers that cut the distribution into about 60 cells, far tails included."""
    distances = [0.02, 0.1, 0.3, 0.5, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 3.7, 4.5, 6.0, 8.0, 11.0]
    near = range(-6, 7)
    return sorted({*near, *(round(sign * r * spread) for r in distances for sign in (-1, 1))})


def rejects(draws: NDArray[np.int64], cdf: Cdf, edges: list[int], alpha: float = ALPHA) -> bool:
    """Say whether the draws are too unlikely to come from the distribution with this cdf."""
    n = draws.size
    cells = np.bincount(np.searchsorted(edges, draws), minlength=len(edges) + 1) / n  # cell j: edges[j−1] < x ≤ edges[j]
    below = [0.0, *(cdf(edge) for edge in edges), 1.0]
    probabilities = np.diff(below)
    shares = np.cumsum(cells)
    outcomes = [*zip(cells, probabilities, strict=True), *zip(shares, below[1:], strict=True)]
    middle = len(cells) // 2
    for j in range(1, middle + 1):  # the same number of cells off both ends: what a wrong scale moves most
        outcomes.append((cells[:j].sum() + cells[-j:].sum(), probabilities[:j].sum() + probabilities[-j:].sum()))
    limit = log(2 * len(outcomes) / alpha)
    return any(n * kl(float(min(q, 1.0)), float(p)) > limit for q, p in outcomes)
