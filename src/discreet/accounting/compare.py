"""The ε of an event at one δ by every notion: what each theorem costs."""

from __future__ import annotations

from fractions import Fraction
from math import inf

from discreet._numbers import Number, ceil_float, to_rational
from discreet.accounting.basic import compose_basically, split_delta
from discreet.accounting.conversions import (
    epsilon_from_gdp,
    epsilon_from_tcdp,
    epsilon_from_zcdp,
    epsilon_from_zcdp_classic,
)
from discreet.accounting.gdp import gdp
from discreet.accounting.pure import pure
from discreet.accounting.renyi import ORDERS, find_best_order
from discreet.accounting.tcdp import ORDER_RATIO, tcdp
from discreet.accounting.zcdp import zcdp
from discreet.events import Composition, Event, Group, Parallel, SampledWithoutReplacement, Subsampled

OMEGAS = (2, 4, 8, 16, 32, 64)
_MANY_PARTS = 32
_FEW = 5


def compare_guarantees(event: Event, delta: Number) -> dict[str, float]:
    """The ε at δ by the name of the guarantee, ∞ where it has no bound. All are upper bounds.

    >>> from discreet.events import GaussianEvent
    >>> from discreet.units import count
    >>> found = compare_guarantees(GaussianEvent(Fraction(200), count()) * 100, 1e-5)
    >>> round(found["zCDP, classic"], 5), round(found["zCDP"], 5)
    (0.24118, 0.17751)
    """
    target = to_rational(delta, "delta")
    core, core_delta = split_delta(event)
    rest = target - core_delta  # the δ that remains for the conversion
    point = compose_basically(core, core_delta)
    found = {
        "pure ε": ceil_float(pure(event)),
        "basic (Σε, Σδ)": ceil_float(point.epsilon) if point.delta <= target else inf,
    }
    if rest <= 0:
        return found | dict.fromkeys(("zCDP, classic", "zCDP", "tCDP", "RDP, best order", "GDP"), inf)
    rho, mu = zcdp(core), gdp(core)
    few = _thin_out(core)
    thrift = 1 + _count_kinds(few) // 16  # long compositions try fewer orders: each gives a bound that holds
    step = ORDER_RATIO if thrift == 1 else Fraction(2)
    omega = min(OMEGAS, key=lambda omega: _epsilon_by_tcdp(few, omega, rest, step))
    best = find_best_order(few, rest, ORDERS[:: min(thrift, 6)], max(2, 24 // thrift))
    if few is not core:
        best = find_best_order(core, rest, (best.order,), 0)
    return found | {
        "zCDP, classic": inf if rho == inf else epsilon_from_zcdp_classic(rho, rest),
        "zCDP": inf if rho == inf else epsilon_from_zcdp(rho, rest),
        "tCDP": _epsilon_by_tcdp(core, omega, rest, step),
        "RDP, best order": best.epsilon,
        "GDP": inf if mu == inf else epsilon_from_gdp(mu, rest),
    }


def _thin_out(event: Event) -> Event:
    """A few of the many parts of a composition, as many times as stand for all: what orders to try, its bounds tell; the
    bounds of the composition itself are then taken at the best ones only. The parts that cost most stand for themselves."""
    if not isinstance(event, Composition) or len(event.parts) <= _MANY_PARTS:
        return event
    parts = sorted(event.parts, key=lambda part: part[1] * zcdp(part[0]), reverse=True)
    first, others = parts[:_FEW], parts[_FEW:]
    every = len(others) // _FEW + 1
    return Composition((*first, *((part, times * every) for part, times in others[every // 2 :: every])))


def _count_kinds(event: Event) -> int:
    """How many kinds of events must be bounded at every order."""
    match event:
        case Composition(parts=parts):
            return sum(_count_kinds(part) for part, _ in parts)
        case Parallel(branches=branches):
            return sum(_count_kinds(branch) for branch in branches)
        case Group(event=inner):
            return _count_kinds(inner)
        case Subsampled(event=inner) | SampledWithoutReplacement(event=inner):
            return 8 * _count_kinds(inner)
        case _:
            return 1


def _epsilon_by_tcdp(event: Event, omega: int, delta: Fraction, step: Fraction) -> float:
    rho = tcdp(event, omega, step)
    return inf if rho == inf else epsilon_from_tcdp(rho, omega, delta)
