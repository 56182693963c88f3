"""Rényi DP at many orders, and the (ε, δ) point of the best one.

Choosing the order after the whole plan is known is fine: the theorem holds at every order. Choosing it while the analyst
still adapts is not (see `filters`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import inf

from discreet.accounting.conversions import epsilon_from_rdp
from discreet.accounting.renyi import renyi
from discreet.exact import Number, ceil_float, check_probability
from discreet.loss import Event

ORDERS: tuple[float, ...] = (
    *(1 + 2.0**-j for j in range(10, 0, -1)),
    *range(2, 17),
    *(round(16 * 2 ** (j / 4)) for j in range(1, 33)),
    *(4096 * 4.0**j for j in range(1, 12)),
)
"""Where the search begins: close to 1 for large ε, the usual 2…100, and far beyond for small ε."""

PATIENCE = 6
"""How many orders in a row may fail to improve before the first pass stops."""


@dataclass(frozen=True, slots=True)
class BestOrder:
    """The least ε found, and the order that gave it."""

    epsilon: float
    order: float


def renyi_curve(event: Event, orders: Iterable[Number] = ORDERS) -> Iterator[tuple[Number, float]]:
    """(α, ε̄) at each order, rounded up.

    >>> from discreet.loss import GaussianEvent
    >>> from discreet.units import to_sensitivity
    >>> dict(renyi_curve(GaussianEvent(Fraction(1), to_sensitivity(1)), [2, 4]))
    {2: 1.0, 4: 2.0}
    """
    for order in orders:
        yield order, ceil_float(renyi(event, order))


def find_best_order(event: Event, delta: Number, orders: Iterable[float] = ORDERS, refine: int = 24) -> BestOrder:
    """The smallest ε at δ over the orders, then by bisecting towards the best one; every ε tried is a valid one.

    >>> from discreet.loss import GaussianEvent
    >>> from discreet.units import to_sensitivity
    >>> best = find_best_order(GaussianEvent(Fraction(200), to_sensitivity(1)) * 500, 1e-5)
    >>> round(best.epsilon, 4), 30 < best.order < 60
    (0.4233, True)
    """
    target = check_probability(delta, "delta")
    tried: dict[float, float] = {}
    for order in orders:
        tried[order] = _epsilon(event, order, target)
        if len(tried) > PATIENCE and min(tried.values()) < min(list(tried.values())[-PATIENCE:]):
            break
    for _ in range(refine):
        for middle in _midpoints_near_best(tried):
            tried[middle] = _epsilon(event, middle, target)
    order = min(tried, key=tried.__getitem__)
    return BestOrder(tried[order], order)


def _epsilon(event: Event, order: float, delta: Fraction) -> float:
    divergence = renyi(event, order)
    return inf if divergence == inf else epsilon_from_rdp(order, divergence, delta)


def _midpoints_near_best(tried: dict[float, float]) -> list[float]:
    """The middles of the two gaps beside the best order so far."""
    best = min(tried, key=tried.__getitem__)
    gaps = pairwise(sorted(tried))
    return [(low + high) / 2 for low, high in gaps if best in (low, high) and high - low > 1e-9 * high]
