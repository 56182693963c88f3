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
from discreet.accounting.renyi_curve import best_order
from discreet.accounting.tcdp import tcdp
from discreet.accounting.zcdp import zcdp
from discreet.exact import Number, ceil_float, rational
from discreet.loss import Loss

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
    return sides | {
        "zCDP, classic": inf if rho == inf else epsilon_from_zcdp_classic(rho, rest),
        "zCDP": inf if rho == inf else epsilon_from_zcdp(rho, rest),
        "tCDP": min((_by_tcdp(core, omega, rest) for omega in OMEGAS), default=inf),
        "RDP, best order": best_order(core, rest).epsilon,
        "GDP": inf if mu == inf else epsilon_from_gdp(mu, rest),
    }


def _by_tcdp(loss: Loss, omega: int, delta: Fraction) -> float:
    rho = tcdp(loss, omega)
    return inf if rho == inf else epsilon_from_tcdp(rho, omega, delta)
