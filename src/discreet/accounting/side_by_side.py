"""Every reading's ε at one δ, side by side: what each theorem costs."""

from fractions import Fraction
from math import inf

from discreet.accounting.approx import approx
from discreet.accounting.conversions import (
    epsilon_from_gdp,
    epsilon_from_tcdp,
    epsilon_from_zcdp,
    epsilon_from_zcdp_classic,
)
from discreet.accounting.gdp import gdp
from discreet.accounting.leak import split
from discreet.accounting.pure import pure
from discreet.accounting.renyi_curve import ORDERS, best_order
from discreet.accounting.tcdp import STEP, tcdp
from discreet.accounting.zcdp import zcdp
from discreet.exact import Number, ceil_float, rational
from discreet.loss import Composition, Group, Loss, Parallel, SampledWithoutReplacement, Subsampled

OMEGAS = (2, 4, 8, 16, 32, 64)


def readings(loss: Loss, delta: Number) -> dict[str, float]:
    """Name of the reading → ε at δ, ∞ where it has nothing to say. All are upper bounds.

    >>> from discreet.loss import GaussianLoss
    >>> from discreet.units import count
    >>> sides = readings(GaussianLoss(Fraction(200), count()) * 100, 1e-5)
    >>> round(sides["zCDP, classic"], 5), round(sides["zCDP"], 5)
    (0.24118, 0.17751)
    """
    target = rational(delta, "delta")
    core, leak = split(loss)
    rest = target - leak  # what mass at infinity leaves for the conversion
    point = approx(loss)
    sides = {
        "pure ε": ceil_float(pure(loss)),
        "basic (Σε, Σδ)": ceil_float(point.epsilon) if point.delta <= target else inf,
    }
    if rest <= 0:
        return sides | dict.fromkeys(("zCDP, classic", "zCDP", "tCDP", "RDP, best order", "GDP"), inf)
    rho, mu = zcdp(core), gdp(core)
    thrift = 1 + _kinds(core) // 16
    step = STEP if thrift == 1 else Fraction(3, 2)
    return sides | {
        "zCDP, classic": inf if rho == inf else epsilon_from_zcdp_classic(rho, rest),
        "zCDP": inf if rho == inf else epsilon_from_zcdp(rho, rest),
        "tCDP": min(_by_tcdp(core, omega, rest, step) for omega in OMEGAS[:: min(thrift, 3)]),
        "RDP, best order": best_order(core, rest, ORDERS[:: min(thrift, 6)], max(2, 24 // thrift)).epsilon,
        "GDP": inf if mu == inf else epsilon_from_gdp(mu, rest),
    }


def _kinds(loss: Loss) -> int:
    """How many facts every order must look at. For long ledgers fewer orders are tried: each gives a bound that holds."""
    match loss:
        case Composition(parts=parts):
            return sum(_kinds(part) for part, _ in parts)
        case Parallel(branches=branches):
            return sum(_kinds(branch) for branch in branches)
        case Group(loss=inner):
            return _kinds(inner)
        case Subsampled(loss=inner) | SampledWithoutReplacement(loss=inner):
            return 8 * _kinds(inner)
        case _:
            return 1


def _by_tcdp(loss: Loss, omega: int, delta: Fraction, step: Fraction) -> float:
    rho = tcdp(loss, omega, step)
    return inf if rho == inf else epsilon_from_tcdp(rho, omega, delta)
