"""What is claimed, as points of a curve: P(E) ≤ e^ε·P'(E) + δ for every event E, at each of them.

A single (ε, δ) is one point. ρ, μ, a Rényi point and a loss promise a whole curve, and all of it may be tested: a Gaussian
that is short of noise may keep its point and break its curve.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import exp, inf, isfinite, log, sqrt
from typing import TypeAlias

from discreet.accounting.conversions import delta_from_rdp
from discreet.accounting.curve import delta as certified_delta
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.gaussian import gaussian_delta, gaussian_epsilon
from discreet.accounting.pure import pure
from discreet.errors import BadParameter
from discreet.exact import Number, ceil_float, positive, rational, shown
from discreet.loss import Fact, Loss

STEPS = 12
FARTHEST = 30.0
"""No event is frequent enough to test an ε beyond this."""
SMALL = 1e-4
"""Curves are followed down to about this δ: what is rarer cannot be told from nothing in a few million answers."""

Curve: TypeAlias = Callable[[float], float]
"""δ at ε."""


@dataclass(frozen=True, slots=True)
class Rho:
    """The claim of ρ-zCDP."""

    rho: Number


@dataclass(frozen=True, slots=True)
class Mu:
    """The claim of μ-GDP: no easier to tell apart than two unit Gaussians at distance μ."""

    mu: Number


@dataclass(frozen=True, slots=True)
class RenyiPoint:
    """The claim that the Rényi divergence of this order is at most `divergence`."""

    order: Number
    divergence: Number


Claimed: TypeAlias = Number | tuple[Number, Number] | Rho | Mu | RenyiPoint | Loss
"""ε, (ε, δ), or anything with a curve."""


@dataclass(frozen=True, slots=True)
class Point:
    """P(E) ≤ e^epsilon·P'(E) + delta."""

    epsilon: float
    delta: float
    single: "Point | None" = field(default=None, repr=False)  # of one unit, where this is what it says of two

    def twice(self) -> "Point":
        """What the claim says of neighbours that differ in two units: (2ε, δ + e^ε·δ), by going over the one between."""
        return Point(2 * self.epsilon, min(1.0, self.delta * (1 + exp(self.epsilon)) * (1 + 1e-12)), self)

    @property
    def claimed(self) -> "Point":
        """The point of the claim itself, which is about one unit."""
        return self.single or self

    def most(self, q: float) -> float:
        """The probability that an event may have at most, if it has q on the other side."""
        return min(1.0, exp(self.epsilon) * q + self.delta)

    def shown_by(self, p: float, q: float) -> float:
        """The ε below which P(E) ≥ p and P'(E) ≤ q cannot be, at the claim's δ: for one unit where two differ, the root of
        p = e^{2ε}·q + (1 + e^ε)·δ."""
        if p <= self.claimed.delta:
            return 0.0
        if self.single is None:
            return max(0.0, log((p - self.delta) / q))
        fail = self.single.delta
        return max(0.0, log((sqrt(fail * fail + 4 * q * (p - fail)) - fail) / (2 * q)))


def curve(claim: Claimed) -> tuple[Point, ...]:
    """The points of a claim that are tested, each rounded in its favour.

    >>> curve((1, 1e-6))
    (Point(epsilon=1.0, delta=1e-06),)
    >>> [round(point.epsilon, 2) for point in curve(Mu(1))[:3]]
    [0.0, 0.35, 0.69]
    """
    match claim:
        case tuple():
            eps, fail = (rational(part, name) for part, name in zip(claim, ("epsilon", "delta"), strict=True))
            return (_point(eps, fail),)
        case Rho(rho=rho):
            amount = positive(rho, "rho")
            return _along(lambda eps: min(delta_from_rdp(a, amount * a, eps) for a in _orders()))
        case Mu(mu=mu):
            ratio = positive(mu, "mu")
            top = gaussian_epsilon(ratio, SMALL).upper
            return _grid(top, lambda eps: gaussian_delta(ratio, Fraction(eps)).upper)
        case RenyiPoint(order=order, divergence=divergence):
            return _along(lambda eps: delta_from_rdp(order, divergence, eps))
        case Fact():
            return _of_loss(claim)
        case _:
            return (_point(rational(claim, "epsilon"), Fraction(0)),)


def words(claim: Claimed) -> str:
    """The claim in a few words."""
    match claim:
        case tuple():
            return f"ε = {float(claim[0]):g}, δ = {float(claim[1]):g}"
        case Rho(rho=rho):
            return f"ρ = {float(rho):g}"
        case Mu(mu=mu):
            return f"μ = {float(mu):g}"
        case RenyiPoint(order=order, divergence=divergence):
            return f"Rényi divergence {float(divergence):g} of order {float(order):g}"
        case Fact():
            return f"the curve of {type(claim).__name__}"
        case _:
            return f"ε = {float(claim):g}"


def _point(eps: Fraction, fail: Fraction) -> Point:
    if eps < 0 or not 0 <= fail < 1:
        raise BadParameter("claim", f"({shown(eps)}, {shown(fail)})", "no claim of privacy", "give ε ≥ 0 and 0 ≤ δ < 1")
    return Point(ceil_float(eps), ceil_float(fail))


def _of_loss(loss: Loss) -> tuple[Point, ...]:
    """From ε = 0 to where δ is next to nothing; a pure ε is a point of its own."""
    most = pure(loss)
    at_infinity = certified_delta(loss, inf).upper
    top = certified_epsilon(loss, min(0.999, SMALL + at_infinity), 1e-3).upper
    found = _grid(min(top, FARTHEST), lambda eps: certified_delta(loss, eps, 1e-4).upper)
    return (*found, Point(ceil_float(most), 0.0)) if isfinite(most) and most <= FARTHEST else found


def _along(delta_at: Curve) -> tuple[Point, ...]:
    """Up to the ε where δ falls to next to nothing, found by doubling."""
    top = 0.05
    while top < FARTHEST and delta_at(top) > SMALL:
        top *= 1.5
    return tuple(point for point in _grid(top, delta_at) if point.delta < 1)


def _grid(top: float, delta_at: Curve) -> tuple[Point, ...]:
    steps = [top * k / (STEPS - 1) for k in range(STEPS)] if top > 0 else [0.0]
    return tuple(Point(eps, min(1.0, float(delta_at(eps)))) for eps in steps)


def _orders() -> list[Fraction]:
    """Orders around the best one for any ε; each of them alone would be a valid reading."""
    return [1 + Fraction(2) ** k for k in range(-2, 12)] + [1 + Fraction(3) * Fraction(2) ** k for k in range(-3, 10)]
