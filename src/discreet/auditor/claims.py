"""What is claimed of a mechanism, and the neighbouring inputs on which the claim is tested.

A claim is a set of points of the curve δ(ε): P(E) ≤ e^ε·P'(E) + δ for every set E of outputs, at each point. A single (ε, δ)
is one point. ρ (zCDP), μ (GDP), one order of RDP and an event each state a whole curve, and all of it can be tested: a
Gaussian with too little noise may keep one point and break the curve.

Where no inputs are given, they are lists with one record per person. Under add/remove one record is added: an end of the
domain, to an empty list, to equal records (so that its value is a group of its own), to a mixture. With the domain "any" the
added record may also be extreme, NaN or infinite, of another type, empty, or a new group key; and one record may be replaced
by another, which is two steps under add/remove.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import exp, inf, isfinite, log, nan, sqrt
from typing import Any, Literal, TypeAlias

from discreet._numbers import Number, ceil_float, check_positive, format_rational, to_rational
from discreet.accounting.conversions import delta_from_rdp
from discreet.accounting.curve import delta as certified_delta
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.pld.gaussian import gaussian_delta, gaussian_epsilon
from discreet.accounting.pure import pure
from discreet.errors import BadParameter
from discreet.events import Event, PrivacyEvent
from discreet.units import Neighbours

CURVE_POINTS = 12
MAX_EPSILON = 30.0
"""No set of outputs is frequent enough to test a larger ε."""
MIN_DELTA = 1e-4
"""Curves are sampled down to about this δ; rarer outputs cannot be certified with a few million samples."""

Curve: TypeAlias = Callable[[float], float]
"""δ as a function of ε."""


@dataclass(frozen=True, slots=True)
class Rho:
    """The claim of ρ-zCDP."""

    rho: Number


@dataclass(frozen=True, slots=True)
class Mu:
    """The claim of μ-GDP: neighbours are as hard to tell apart as two unit Gaussians that are μ apart."""

    mu: Number


@dataclass(frozen=True, slots=True)
class RenyiPoint:
    """The claim of RDP at one order: the Rényi divergence of this order is at most `divergence`."""

    order: Number
    divergence: Number


Claim: TypeAlias = Number | tuple[Number, Number] | Rho | Mu | RenyiPoint | Event
"""ε, (ε, δ), or anything with a curve."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a claim: P(E) ≤ e^epsilon·P'(E) + delta."""

    epsilon: float
    delta: float
    single: "Point | None" = field(default=None, repr=False)  # the point for one unit, where this one is for two

    def for_two_units(self) -> "Point":
        """Return what the claim implies for inputs that differ in two units: (2ε, δ + e^ε·δ), by group privacy."""
        return Point(2 * self.epsilon, min(1.0, self.delta * (1 + exp(self.epsilon)) * (1 + 1e-12)), self)

    @property
    def claimed_point(self) -> "Point":
        """The point of the claim itself, which is about one unit."""
        return self.single or self

    def max_probability(self, q: float) -> float:
        """Return the largest probability that the claim allows for a set of outputs with probability q on the other side."""
        return min(1.0, exp(self.epsilon) * q + self.delta)

    def refuted_epsilon(self, p: float, q: float) -> float:
        """Return the ε below which P(E) ≥ p and P'(E) ≤ q is impossible, at the claim's δ.

        Where two units differ this is the ε of one unit: the root of p = e^{2ε}·q + (1 + e^ε)·δ.
        """
        if p <= self.claimed_point.delta:
            return 0.0
        if self.single is None:
            return max(0.0, log((p - self.delta) / q))
        delta = self.single.delta
        return max(0.0, log((sqrt(delta * delta + 4 * q * (p - delta)) - delta) / (2 * q)))


def sample_curve(claim: Claim) -> tuple[Point, ...]:
    """Return the points of a claim that are tested, each rounded in favour of the claim.

    >>> sample_curve((1, 1e-6))
    (Point(epsilon=1.0, delta=1e-06),)
    >>> [round(point.epsilon, 2) for point in sample_curve(Mu(1))[:3]]
    [0.0, 0.35, 0.69]
    """
    match claim:
        case tuple():
            epsilon, delta = (to_rational(part, name) for part, name in zip(claim, ("epsilon", "delta"), strict=True))
            return (_check_point(epsilon, delta),)
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
    """Write a claim in a few words."""
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


def _check_point(epsilon: Fraction, delta: Fraction) -> Point:
    if epsilon < 0 or not 0 <= delta < 1:
        given = f"({format_rational(epsilon)}, {format_rational(delta)})"
        raise BadParameter("claim", given, "not an (ε, δ) guarantee", "give ε ≥ 0 and 0 ≤ δ < 1")
    return Point(ceil_float(epsilon), ceil_float(delta))


def _sample_event_curve(event: Event) -> tuple[Point, ...]:
    """Sample from ε = 0 to the ε where δ is about `MIN_DELTA`; a finite pure ε is one more point."""
    pure_epsilon = pure(event)
    at_infinity = certified_delta(event, inf).upper
    top = certified_epsilon(event, min(0.999, MIN_DELTA + at_infinity), 1e-3).upper
    points = _sample_grid(min(top, MAX_EPSILON), lambda eps: certified_delta(event, eps, 1e-4).upper)
    if isfinite(pure_epsilon) and pure_epsilon <= MAX_EPSILON:
        return (*points, Point(ceil_float(pure_epsilon), 0.0))
    return points


def _sample_until_small(delta_at: Curve) -> tuple[Point, ...]:
    """Sample up to the ε where δ falls to `MIN_DELTA`, found by doubling."""
    top = 0.05
    while top < MAX_EPSILON and delta_at(top) > MIN_DELTA:
        top *= 1.5
    return tuple(point for point in _sample_grid(top, delta_at) if point.delta < 1)


def _sample_grid(top: float, delta_at: Curve) -> tuple[Point, ...]:
    epsilons = [top * k / (CURVE_POINTS - 1) for k in range(CURVE_POINTS)] if top > 0 else [0.0]
    return tuple(Point(eps, min(1.0, float(delta_at(eps)))) for eps in epsilons)


def _list_orders() -> list[Fraction]:
    """Orders α around the best one for any ε; each of them alone gives a valid δ."""
    return [1 + Fraction(2) ** k for k in range(-2, 12)] + [1 + Fraction(3) * Fraction(2) ** k for k in range(-3, 10)]


# -- neighbouring inputs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two inputs that must be hard to tell apart; `distance` is 2 where the claim is about one unit and two differ."""

    left: Any
    right: Any
    distance: int = 1

    def __str__(self) -> str:
        return f"{shorten(self.left)} and {shorten(self.right)}" + (", two steps apart" if self.distance == 2 else "")


def shorten(data: Any) -> str:
    """Write an input in at most 80 characters."""
    text = repr(data)
    return text if len(text) <= 80 else f"{text[:60]} … {text[-15:]}"


Domain = tuple[float, float] | Literal["any"]

NOT_FINITE: list[Any] = [nan, inf, -inf]
EXTREME: list[Any] = [1e308, -1e308, 10**30, 5e-324]
OTHER_TYPES: list[Any] = ["x", None, True]
EMPTY: list[Any] = ["", [], {}]
UNUSUAL: list[Any] = [*NOT_FINITE, *EXTREME, *OTHER_TYPES, *EMPTY]
"""Records that a function of numbers may not expect."""

BASE_KEYS: list[Any] = ["a", "a", "b"]
NEW_GROUP = "c"
"""A group key that is not in `BASE_KEYS`."""


def generate_pairs(domain: Domain = (0, 1), relation: Neighbours = Neighbours.ADD_REMOVE) -> list[Pair]:
    """Return pairs of lists of records in the domain, those most likely to differ first: a short audit tries only some.

    >>> print(generate_pairs((0, 1))[0])
    [] and [1]
    """
    low, high = (0, 1) if domain == "any" else domain
    if not low < high:
        raise BadParameter("domain", f"{low}:{high}", "empty", "give lower:upper, for example 0:1")
    middle = (low + high) / 2
    bases: list[list[Any]] = [[], [low] * 3, [high] * 3, [low, middle, high, middle, low]]
    if relation is Neighbours.REPLACE:
        return [
            Pair([*base, first], [*base, then])
            for base in bases
            for first, then in _list_replacements(low, high, middle, domain)
        ]
    pairs = [Pair(base, [*base, record]) for base in bases for record in (high, low, middle)]
    return pairs if domain != "any" else [*pairs, *_generate_unusual(bases, low, high)]


def _generate_unusual(bases: list[list[Any]], low: float, high: float) -> Iterator[Pair]:
    """Add one record of any kind; or replace one by another, for which the claim allows twice the ε."""
    for key in (NEW_GROUP, BASE_KEYS[0]):
        yield Pair(BASE_KEYS, [*BASE_KEYS, key])
    for base in (bases[-1], bases[0]):
        for record in UNUSUAL:
            yield Pair(base, [*base, record])
    for base in bases:
        for record in (high, *OTHER_TYPES[:1]):
            yield Pair([*base, low], [*base, record], 2)


def _list_replacements(low: float, high: float, middle: float, domain: Domain) -> list[tuple[Any, Any]]:
    records = [high, middle, *(UNUSUAL if domain == "any" else [])]
    return [(low, record) for record in records] + [(high, low)]
