"""The divergences of two Laplace or two Gaussian laws of one width, in closed form."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import TypeAlias

from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.accounting.gaussian import gaussian_delta
from discreet.errors import BadParameter
from discreet.exact import Bounds, Number, ceil_float, check_positive, floor_float, to_rational


@dataclass(frozen=True, slots=True)
class LaplaceAt:
    """Density e^{-|x − centre|/scale}/(2·scale)."""

    centre: Number
    scale: Number


@dataclass(frozen=True, slots=True)
class GaussianAt:
    """N(centre, sigma²)."""

    centre: Number
    sigma: Number


Pair: TypeAlias = "tuple[type[LaplaceAt] | type[GaussianAt], Fraction]"


def check_same_family(p: object, q: object) -> Pair:
    """Which law, and the distance of the centres in widths; refused unless both have one law and one width."""
    match p, q:
        case (LaplaceAt(a, wide), LaplaceAt(b, width)) | (GaussianAt(a, wide), GaussianAt(b, width)) if wide == width:
            return (LaplaceAt if isinstance(p, LaplaceAt) else GaussianAt), _distance(a, b, width)
        case _:
            raise BadParameter("q", q, f"not the law of {p} with another centre", "give two of one law and one width")


def _distance(a: Number, b: Number, width: Number) -> Fraction:
    return abs(to_rational(a, "centre") - to_rational(b, "centre")) / check_positive(width, "width")


def shift_max_divergence(family: type, distance: Fraction) -> Bounds:
    if family is GaussianAt and distance:
        return Bounds(inf, inf)
    return _point(distance)


def shift_renyi_divergence(family: type, distance: Fraction, order: Fraction) -> Bounds:
    """α·d²/2 [Mir17, Prop. 7]; d + ln((α + (α−1)e^{−(2α−1)d})/(2α−1))/(α−1) [Mir17, Prop. 6]."""
    if family is GaussianAt:
        return _point(order * distance**2 / 2)
    ends = exp_neg_bounds((2 * order - 1) * distance)
    tails = [(order + (order - 1) * end) / (2 * order - 1) for end in ends]
    low, high = log_bounds(tails[0])[0], log_bounds(tails[1])[1]
    return _interval(distance + low / (order - 1), min(distance, distance + high / (order - 1)))


def shift_kl_divergence(family: type, distance: Fraction) -> Bounds:
    """d²/2; d + e^−d − 1."""
    if family is GaussianAt:
        return _point(distance**2 / 2)
    low, high = exp_neg_bounds(distance)
    return _interval(distance + low - 1, distance + high - 1)


def shift_hockey_stick(family: type, distance: Fraction, epsilon: Fraction) -> Bounds:
    """The Gaussian's curve [BW18, Thm 8]; max(0, 1 − e^{(ε−d)/2}): the best event is all beyond the point with loss ε."""
    if epsilon < 0:
        raise BadParameter("epsilon", epsilon, "must not be negative here", "give 0 or more")
    if distance == 0 or (family is LaplaceAt and epsilon >= distance):
        return Bounds(0.0, 0.0)
    if family is GaussianAt:
        return gaussian_delta(distance, epsilon)
    low, high = exp_neg_bounds((distance - epsilon) / 2)
    return _interval(1 - high, 1 - low)


def _point(value: Fraction) -> Bounds:
    return Bounds(floor_float(value), ceil_float(value))


def _interval(low: Fraction, high: Fraction) -> Bounds:
    return Bounds(floor_float(max(Fraction(0), low)), ceil_float(max(Fraction(0), high)))
