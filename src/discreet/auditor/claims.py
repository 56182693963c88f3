"""What is claimed, as points of a curve: P(E) ≤ e^ε·P'(E) + δ for every event E, at each of them.

A single (ε, δ) is one point. ρ, μ, a Rényi point and a loss promise a whole curve, and all of it may be tested: a Gaussian
that is short of noise may keep its point and break its curve.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import exp, inf, isfinite, log, sqrt
from typing import TypeAlias

from discreet._numbers import Number, ceil_float, check_positive, format_rational, to_rational
from discreet.accounting.conversions import delta_from_rdp
from discreet.accounting.curve import delta as certified_delta
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.pld.gaussian import gaussian_delta, gaussian_epsilon
from discreet.accounting.pure import pure
from discreet.errors import BadParameter
from discreet.events import Event, PrivacyEvent

CURVE_POINTS = 12
MAX_EPSILON = 30.0
"""No event is frequent enough to test an ε beyond this."""
MIN_DELTA = 1e-4
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


Claim: TypeAlias = Number | tuple[Number, Number] | Rho | Mu | RenyiPoint | Event
"""ε, (ε, δ), or anything with a curve."""


@dataclass(frozen=True, slots=True)
class Point:
    """P(E) ≤ e^epsilon·P'(E) + delta."""

    epsilon: float
    delta: float
    single: "Point | None" = field(default=None, repr=False)  # of one unit, where this is what it says of two

    def for_two_units(self) -> "Point":
        """What the claim says of neighbours that differ in two units: (2ε, δ + e^ε·δ), by going over the one between."""
        return Point(2 * self.epsilon, min(1.0, self.delta * (1 + exp(self.epsilon)) * (1 + 1e-12)), self)

    @property
    def claimed_point(self) -> "Point":
        """The point of the claim itself, which is about one unit."""
        return self.single or self

    def max_probability(self, q: float) -> float:
        """The probability that an event may have at most, if it has q on the other side."""
        return min(1.0, exp(self.epsilon) * q + self.delta)

    def refuted_epsilon(self, p: float, q: float) -> float:
        """The ε below which P(E) ≥ p and P'(E) ≤ q cannot be, at the claim's δ: for one unit where two differ, the root of
        p = e^{2ε}·q + (1 + e^ε)·δ."""
        if p <= self.claimed_point.delta:
            return 0.0
        if self.single is None:
            return max(0.0, log((p - self.delta) / q))
        fail = self.single.delta
        return max(0.0, log((sqrt(fail * fail + 4 * q * (p - fail)) - fail) / (2 * q)))


def sample_curve(claim: Claim) -> tuple[Point, ...]:
    """The points of a claim that are tested, each rounded in its favour.

    >>> sample_curve((1, 1e-6))
    (Point(epsilon=1.0, delta=1e-06),)
    >>> [round(point.epsilon, 2) for point in sample_curve(Mu(1))[:3]]
    [0.0, 0.35, 0.69]
    """
    match claim:
        case tuple():
            eps, fail = (to_rational(part, name) for part, name in zip(claim, ("epsilon", "delta"), strict=True))
            return (_check_point(eps, fail),)
        case Rho(rho=rho):
            amount = check_positive(rho, "rho")
            return _sample_until_small(lambda eps: min(delta_from_rdp(a, amount * a, eps) for a in _list_orders()))
        case Mu(mu=mu):
            ratio = check_positive(mu, "mu")
            top = gaussian_epsilon(ratio, MIN_DELTA).upper
            return _sample_grid(top, lambda eps: gaussian_delta(ratio, Fraction(eps)).upper)
        case RenyiPoint(order=order, divergence=divergence):
            return _sample_until_small(lambda eps: delta_from_rdp(order, divergence, eps))
        case PrivacyEvent():
            return _sample_event_curve(claim)
        case _:
            return (_check_point(to_rational(claim, "epsilon"), Fraction(0)),)


def format_claim(claim: Claim) -> str:
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
        case PrivacyEvent():
            return f"the curve of {type(claim).__name__}"
        case _:
            return f"ε = {float(claim):g}"


def _check_point(eps: Fraction, fail: Fraction) -> Point:
    if eps < 0 or not 0 <= fail < 1:
        raise BadParameter(
            "claim", f"({format_rational(eps)}, {format_rational(fail)})", "no claim of privacy", "give ε ≥ 0 and 0 ≤ δ < 1"
        )
    return Point(ceil_float(eps), ceil_float(fail))


def _sample_event_curve(event: Event) -> tuple[Point, ...]:
    """From ε = 0 to where δ is next to nothing; a pure ε is a point of its own."""
    most = pure(event)
    at_infinity = certified_delta(event, inf).upper
    top = certified_epsilon(event, min(0.999, MIN_DELTA + at_infinity), 1e-3).upper
    found = _sample_grid(min(top, MAX_EPSILON), lambda eps: certified_delta(event, eps, 1e-4).upper)
    return (*found, Point(ceil_float(most), 0.0)) if isfinite(most) and most <= MAX_EPSILON else found


def _sample_until_small(delta_at: Curve) -> tuple[Point, ...]:
    """Up to the ε where δ falls to next to nothing, found by doubling."""
    top = 0.05
    while top < MAX_EPSILON and delta_at(top) > MIN_DELTA:
        top *= 1.5
    return tuple(point for point in _sample_grid(top, delta_at) if point.delta < 1)


def _sample_grid(top: float, delta_at: Curve) -> tuple[Point, ...]:
    steps = [top * k / (CURVE_POINTS - 1) for k in range(CURVE_POINTS)] if top > 0 else [0.0]
    return tuple(Point(eps, min(1.0, float(delta_at(eps)))) for eps in steps)


def _list_orders() -> list[Fraction]:
    """Orders around the best one for any ε; each of them alone would be a valid reading."""
    return [1 + Fraction(2) ** k for k in range(-2, 12)] + [1 + Fraction(3) * Fraction(2) ** k for k in range(-3, 10)]
