"""Truncated concentrated DP: (ρ, ω) with D_α ≤ ρα for every order 1 < α < ω, in both directions [BDRS18].

Here ω is given and ρ is computed. Noise that concentrates at all orders has its zCDP ρ; a Poisson sample, which gains almost
nothing at all orders, gains much at the small ones.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import inf

from discreet._numbers import Number, to_rational
from discreet.accounting.renyi import renyi
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.events import Composition, DiscreteGaussianEvent, Event, GaussianEvent, Parallel, check_event

ORDER_RATIO = Fraction(33, 32)
"""Ratio of neighbouring orders: D_α grows with α, so on [a, b] D_α/α ≤ D_b/a, which overstates by at most this ratio."""

LARGEST_OMEGA = 1 << 12


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
    return _tcdp(event, top, step)


def _tcdp(event: Event, omega: Fraction, step: Fraction) -> Fraction | float:
    match event:
        case Composition(parts=parts):
            return sum((times * _tcdp(part, omega, step) for part, times in parts if times), Fraction(0))  # [BDRS18]
        case Parallel(branches=branches):
            return max((_tcdp(branch, omega, step) for branch in branches), default=Fraction(0))
        case GaussianEvent() | DiscreteGaussianEvent():
            return zcdp(event)  # D_α/α is the same at every order, as far as it is known
        case _:
            return min(zcdp(event), _largest_slope(event, omega, step))


def _largest_slope(event: Event, omega: Fraction, step: Fraction) -> Fraction | float:
    """sup of D_α/α over 1 < α < ω, by a finite cover: on (1, b] D_α ≤ D_b and α > 1."""
    if omega > LARGEST_OMEGA:
        return inf
    orders = [Fraction(1)]
    while orders[-1] < omega:
        orders.append(min(omega, orders[-1] * step))
    return max(renyi(event, high) / low for low, high in pairwise(orders))
