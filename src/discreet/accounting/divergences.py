"""Divergences between two distributions: max, Rényi, Kullback–Leibler and hockey-stick, as proven intervals.

A distribution is a dict of probabilities, a sequence of them (the same index is the same outcome), or one of the named
distributions `LaplaceAt` and `GaussianAt`, whose divergences have closed forms. Floats mean their exact binary values; a sum
that misses 1 by more than 1e-9 is refused.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import TypeAlias

from discreet._numbers import Bounds, Number, ceil_float, check_positive, floor_float, to_rational
from discreet.accounting.elementary import LARGEST_EXPONENT, exp_bounds, exp_neg_bounds, log_bounds
from discreet.accounting.pld.gaussian import gaussian_delta, normal_tail_up
from discreet.errors import BadParameter


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
    """The family, and the distance of the centres in widths. Raise `BadParameter` unless both have one family and one
    width."""
    match p, q:
        case (LaplaceAt(a, wide), LaplaceAt(b, width)) | (GaussianAt(a, wide), GaussianAt(b, width)) if wide == width:
            return (LaplaceAt if isinstance(p, LaplaceAt) else GaussianAt), _distance(a, b, width)
        case _:
            raise BadParameter("q", q, f"not {p} with another centre", "give two of one family and one width")


def _distance(a: Number, b: Number, width: Number) -> Fraction:
    return abs(to_rational(a, "centre") - to_rational(b, "centre")) / check_positive(width, "width")


def shift_max_divergence(family: type, distance: Fraction) -> Bounds:
    """d for Laplace noise, ∞ for Gaussian noise."""
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
    """The Gaussian's curve [BW18, Thm 8]; max(0, 1 − e^{(ε−d)/2}): the best outcome is all beyond the point with loss ε."""
    if epsilon < 0:
        raise BadParameter("epsilon", epsilon, "must not be negative here", "give 0 or more")
    if distance == 0 or (family is LaplaceAt and epsilon >= distance):
        return Bounds(0.0, 0.0)
    if family is GaussianAt:
        return gaussian_delta(distance, epsilon)
    low, high = exp_neg_bounds((distance - epsilon) / 2)
    return _interval(1 - high, 1 - low)


def shift_bad_set_mass(family: type, distance: Fraction, epsilon: Fraction) -> Fraction:
    """P(privacy loss > ε), rounded up: the Gaussian's Φ(d/2 − ε/d); 1 − e^{−(d−ε)/2}/2 for Laplace noise while ε < d.

    The loss of N(0, 1) against N(d, 1) is N(d²/2, d²). That of Laplace noise is d left of its centre and falls by 2 per
    unit from there on, so it exceeds ε left of (d − ε)/2.
    """
    if epsilon < 0:
        raise BadParameter("epsilon", epsilon, "must not be negative here", "give 0 or more")
    if distance == 0 or (family is LaplaceAt and epsilon >= distance):
        return Fraction(0)
    if family is GaussianAt:
        return Fraction(normal_tail_up(epsilon / distance - distance / 2))
    return 1 - exp_neg_bounds((distance - epsilon) / 2)[0] / 2


def _point(value: Fraction) -> Bounds:
    return Bounds(floor_float(value), ceil_float(value))


def _interval(low: Fraction, high: Fraction) -> Bounds:
    return Bounds(floor_float(max(Fraction(0), low)), ceil_float(max(Fraction(0), high)))


Discrete: TypeAlias = Mapping[Hashable, Number] | Sequence[Number]
Distribution: TypeAlias = Discrete | LaplaceAt | GaussianAt


def max_divergence(p: Distribution, q: Distribution) -> Bounds:
    """D_∞ = sup ln P(E)/Q(E): the least ε with P ≤ e^ε·Q; ∞ if P has an outcome that Q lacks.

    >>> max_divergence([Fraction(2, 3), Fraction(1, 3)], [Fraction(1, 3), Fraction(2, 3)]).lower  # ln 2
    0.6931471805599453
    """
    if isinstance(p, LaplaceAt | GaussianAt) or isinstance(q, LaplaceAt | GaussianAt):
        return shift_max_divergence(*check_same_family(p, q))
    worst = Fraction(0)
    for a, b in iterate_outcomes(p, q):
        if b == 0:
            return Bounds(inf, inf)
        worst = max(worst, a / b)
    return _bound_log(worst, worst)


def renyi_divergence(p: Distribution, q: Distribution, order: Number) -> Bounds:
    """D_α = ln Σ p^α·q^{1−α}/(α − 1) for α > 1; order 1 is Kullback–Leibler, ∞ is the max divergence.

    >>> bounds = renyi_divergence([Fraction(1, 2)] * 2, [Fraction(1, 4), Fraction(3, 4)], 2)
    >>> round(bounds.lower, 12), round(bounds.upper, 12)  # ln(4/3)
    (0.287682072452, 0.287682072452)
    """
    if order == 1:
        return kl_divergence(p, q)
    if order == inf:
        return max_divergence(p, q)
    alpha = _check_order(order)
    if isinstance(p, LaplaceAt | GaussianAt) or isinstance(q, LaplaceAt | GaussianAt):
        return shift_renyi_divergence(*check_same_family(p, q), alpha)
    low = high = Fraction(0)
    for a, b in iterate_outcomes(p, q):
        if b == 0:
            return Bounds(inf, inf)
        below, above = (exp_bounds((alpha - 1) * bound) for bound in log_bounds(a / b))
        low, high = low + a * below[0], high + a * above[1]
    return _bound_log(low, high, alpha - 1)


def kl_divergence(p: Distribution, q: Distribution) -> Bounds:
    """Σ p·ln(p/q), the mean privacy loss."""
    if isinstance(p, LaplaceAt | GaussianAt) or isinstance(q, LaplaceAt | GaussianAt):
        return shift_kl_divergence(*check_same_family(p, q))
    low = high = Fraction(0)
    for a, b in iterate_outcomes(p, q):
        if b == 0:
            return Bounds(inf, inf)
        below, above = log_bounds(a / b)
        low, high = low + a * below, high + a * above
    return Bounds(floor_float(max(Fraction(0), low)), ceil_float(max(Fraction(0), high)))


def hockey_stick(p: Distribution, q: Distribution, epsilon: Number) -> Bounds:
    """Σ max(0, p − e^ε·q): the least δ at ε, one direction [S4, ex. 3.3].

    >>> hockey_stick({"yes": Fraction(2, 3), "no": Fraction(1, 3)}, {"yes": Fraction(1, 3), "no": Fraction(2, 3)}, 0)
    Bounds(lower=0.3333333333333333, upper=0.33333333333333337)
    """
    eps = to_rational(epsilon, "epsilon")
    if isinstance(p, LaplaceAt | GaussianAt) or isinstance(q, LaplaceAt | GaussianAt):
        return shift_hockey_stick(*check_same_family(p, q), eps)
    if eps == 0:
        exact = sum((max(Fraction(0), a - b) for a, b in iterate_outcomes(p, q)), Fraction(0))
        return Bounds(floor_float(exact), ceil_float(exact))
    below, above = exp_bounds(min(eps, Fraction(LARGEST_EXPONENT)))
    high = sum((max(Fraction(0), a - below * b) for a, b in iterate_outcomes(p, q)), Fraction(0))
    if eps > LARGEST_EXPONENT:  # e^ε has no bound above: only what Q never gives is certain
        return Bounds(floor_float(sum((a for a, b in iterate_outcomes(p, q) if b == 0), Fraction(0))), ceil_float(high))
    low = sum((max(Fraction(0), a - above * b) for a, b in iterate_outcomes(p, q)), Fraction(0))
    return Bounds(floor_float(low), ceil_float(high))


def iterate_outcomes(p: Discrete, q: Discrete) -> Iterator[tuple[Fraction, Fraction]]:
    """(p, q) for every outcome that P can give."""
    first, second = _to_table(p, "p"), _to_table(q, "q")
    if not isinstance(p, Mapping) and not isinstance(q, Mapping) and len(first) != len(second):
        raise BadParameter("q", f"{len(second)} long", f"p has {len(first)} outcomes", "list the same outcomes in both")
    return ((a, second.get(outcome, Fraction(0))) for outcome, a in first.items() if a > 0)


def _to_table(distribution: Discrete, name: str) -> dict[Hashable, Fraction]:
    items = distribution.items() if isinstance(distribution, Mapping) else enumerate(distribution)
    table: dict[Hashable, Fraction] = {outcome: to_rational(mass, name) for outcome, mass in items}
    if any(mass < 0 for mass in table.values()) or abs(sum(table.values(), Fraction(-1))) > Fraction(1, 10**9):
        raise BadParameter(name, "no distribution", "probabilities are ≥ 0 and add up to 1", "normalise them, as Fractions")
    return table


def _check_order(order: Number) -> Fraction:
    exact = to_rational(order, "order")
    if exact <= 1:
        raise BadParameter("order", order, "must be at least 1", "take an order from 1 to infinity")
    return exact


def _bound_log(low: Fraction, high: Fraction, divisor: Fraction = Fraction(1)) -> Bounds:
    """ln over the divisor, rounded outward; no divergence between probabilities is negative."""
    below = max(Fraction(0), log_bounds(low)[0] / divisor) if low > 0 else Fraction(0)
    return Bounds(floor_float(below), ceil_float(max(Fraction(0), log_bounds(high)[1] / divisor)))
