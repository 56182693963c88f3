"""When do draws refute a law? A test with a proven false-alarm rate, for many events at once.

For an event of probability p under the law, n independent draws with a share of q satisfy
P(share as far out as q) ≤ 2·e^{-n·KL(q‖p)} (Chernoff). With m events a law is refuted if one of them has
n·KL(q‖p) > ln(2m/α); a true law is refuted with probability at most α (union bound), whatever the events' dependence.
"""

from collections.abc import Callable
from math import log

import numpy as np
from numpy.typing import NDArray

ALPHA = 1e-9 / 2000
"""Per refutation: at most 2,000 of them in a run keep the whole run's false-alarm rate below 1e-9."""

Cdf = Callable[[int], float]
"""P(X ≤ k)."""


TINY = 1e-14
"""Probabilities below this are raised to it: cdfs are doubles, and the bound must hold for what they lost."""


def kl(q: float, p: float) -> float:
    """KL divergence between coins of bias q and p."""
    p = min(max(p, TINY), 1 - TINY)
    heads = q * log(q / p) if q > 0 else 0.0
    return heads + ((1 - q) * log((1 - q) / (1 - p)) if q < 1 else 0.0)


def edges_of(spread: float) -> list[int]:
    """Whole numbers that cut the law into about 60 cells, far tails included."""
    reach = [0.02, 0.1, 0.3, 0.5, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 3.7, 4.5, 6.0, 8.0, 11.0]
    near = range(-6, 7)
    return sorted({*near, *(round(sign * r * spread) for r in reach for sign in (-1, 1))})


def refuted(draws: NDArray[np.int64], cdf: Cdf, edges: list[int], alpha: float = ALPHA) -> bool:
    """Whether the draws are too unlikely to come from the law with this cdf."""
    n = draws.size
    cells = np.bincount(np.searchsorted(edges, draws), minlength=len(edges) + 1) / n  # cell j: edges[j−1] < x ≤ edges[j]
    below = [0.0, *(cdf(edge) for edge in edges), 1.0]
    chances = np.diff(below)
    shares = np.cumsum(cells)
    events = [*zip(cells, chances, strict=True), *zip(shares, below[1:], strict=True)]
    middle = len(cells) // 2
    for j in range(1, middle + 1):  # the same number of cells off both ends: what a wrong scale moves most
        events.append((cells[:j].sum() + cells[-j:].sum(), chances[:j].sum() + chances[-j:].sum()))
    bar = log(2 * len(events) / alpha)
    return any(n * kl(float(min(q, 1.0)), float(p)) > bar for q, p in events)
