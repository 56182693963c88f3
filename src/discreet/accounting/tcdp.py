"""Truncated concentrated DP: (ρ, ω) with D_α ≤ ρα for every order 1 < α < ω, in both directions [BDRS18].

Here ω is given and ρ is computed. Noise that concentrates at all orders has its zCDP ρ; a Poisson sample, which gains almost
nothing at all orders, gains much at the small ones.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, inf, log

from discreet._numbers import Number, add_up, ceil_float, to_rational
from discreet.accounting.neighbours import to_replace_neighbours
from discreet.accounting.renyi import renyi
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.events import Composition, DiscreteGaussianEvent, Event, GaussianEvent, LaplaceEvent, Parallel, check_event

ORDER_RATIO = Fraction(33, 32)
"""Ratio of neighbouring orders: D_α grows with α, so on [a, b] D_α/α ≤ D_b/a, which overstates by at most this ratio."""

LARGEST_OMEGA = 1 << 12
_FIRST_ORDER = Fraction(5, 4)  # a wide step from 1 would cost its whole ratio
_SLACK = 2.0**-40  # for a handful of roundings


def tcdp(event: Event, omega: Number, step: Fraction = ORDER_RATIO) -> Fraction | float:
    """ρ such that the event is (ρ, ω)-tCDP; ∞ where there is none. Rounded up; never above the zCDP ρ.

    >>> from discreet.events import GaussianEvent, Subsampled
    >>> from discreet.units import to_sensitivity
    >>> step = Subsampled(GaussianEvent(Fraction(2), to_sensitivity(1)), Fraction(1, 100))
    >>> float(tcdp(step, 8)) < float(zcdp(step)) / 1000
    True
    """
    check_event(event)
    if isinstance(omega, float) and omega == inf:
        return zcdp(event)
    top = to_rational(omega, "omega")
    if top <= 1:
        raise BadParameter("omega", omega, "must exceed 1", "take an omega above 1, or infinity for zCDP")
    return _tcdp(to_replace_neighbours(event), top, step)


def _tcdp(event: Event, omega: Fraction, step: Fraction) -> Fraction | float:
    match event:
        case Composition(parts=parts):
            return add_up(times * _tcdp(part, omega, step) for part, times in parts if times)  # [BDRS18]
        case Parallel(branches=branches):
            return max((_tcdp(branch, omega, step) for branch in branches), default=Fraction(0))
        case GaussianEvent() | DiscreteGaussianEvent():
            return zcdp(event)  # D_α/α is the same at every order, as far as it is known
        case LaplaceEvent():
            return zcdp(event)  # it is the limit of D_α/α at α = 1: no ω makes it less
        case _:
            return min(zcdp(event), _largest_slope(event, omega, step))


def _largest_slope(event: Event, omega: Fraction, step: Fraction) -> Fraction | float:
    """sup of D_α/α over 1 < α < ω, by a finite cover: on [a, b] D_α ≤ D_b, as D_α grows with α, and α ≥ a.

    **Proof** of D_b between two orders whose D is known, where `step` leaves a gap: (α − 1)·D_α = ln E_Q[(P/Q)^α] is convex
    in α (Hölder) and 0 at α = 1, so its chord is not below it.
    """
    if omega > LARGEST_OMEGA:
        return inf
    orders = _cover_orders(omega, step)
    if step <= ORDER_RATIO:
        return max(renyi(event, high) / low for low, high in pairwise(orders))
    known = [(1.0, 0.0), *((float(order), ceil_float((order - 1) * renyi(event, order))) for order in orders[1:])]
    if known[-1][1] == inf:
        return inf
    return max(_largest_slope_of_chord(*pair) for pair in pairwise(known)) * (1 + _SLACK)


@lru_cache
def _cover_orders(omega: Fraction, step: Fraction) -> tuple[Fraction, ...]:
    """Orders from 1 to ω, each at most `step` times the one before; where steps are wide, also one near 1."""
    orders = [Fraction(1)]
    while orders[-1] < omega:
        orders.append(min(omega, orders[-1] * step))
    if step > ORDER_RATIO and orders[1] > _FIRST_ORDER:
        orders.insert(1, _FIRST_ORDER)
    return tuple(orders)


def _largest_slope_of_chord(left: tuple[float, float], right: tuple[float, float]) -> float:
    """The same between two orders, at which (α − 1)·D_α is at most the second numbers."""
    (a, start), (b, end) = left, right
    pieces = ceil(log(b / a) / log(ORDER_RATIO))
    orders = [a + (b - a) * i / pieces for i in range(pieces + 1)]
    return max((start + (end - start) * (y - a) / (b - a)) / ((y - 1) * x) for x, y in pairwise(orders))
