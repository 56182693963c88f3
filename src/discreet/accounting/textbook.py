"""The composition theorems of the textbooks, by name, each with its hypothesis in the code.

They are for teaching, comparison and citation. The certified curve (`curve`) knows which noise ran, more than the (ε, δ)
that these theorems start from, so its ε is below theirs or within its tolerance of it, unless its interval is wide.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import inf

from discreet._numbers import (
    Bounds,
    Number,
    ceil_float,
    check_int,
    check_positive,
    check_probability,
    floor_float,
    format_rational,
    format_up,
    sqrt_up,
    to_rational,
)
from discreet.accounting.basic import Point
from discreet.accounting.divergences import (
    Distribution,
    GaussianAt,
    LaplaceAt,
    check_same_family,
    iterate_outcomes,
    shift_bad_set_mass,
)
from discreet.accounting.elementary import LARGEST_EXPONENT, exp_bounds, log_bounds, probability_of_any
from discreet.accounting.rewrite import group_delta
from discreet.errors import BadParameter, TheoremNotApplicable
from discreet.units import Neighbours

LARGEST_K = 20_000
_BITS = 192


def optimal_composition(epsilon: Number, k: int, delta: Number, each: Number = 0) -> Point:
    """The least ε' at δ for k mechanisms that are (epsilon, each)-private, if nothing else is known about them; rounded up.

    [KOV15, Thm 3.3]: randomised response that reveals the truth with probability δ dominates them all, and k of it have a
    binomial curve: δ'(ε') = 1 − (1−δ)^k·(1 − Σ_{l<i} C(k,l)·(a^l − e^{ε'−kε}·a^{−l})/(1+a)^k), a = e^{−ε}, over the l with
    (k−2l)ε > ε'. It is inverted here for the least ε'. A slightly larger ε makes a a short rational; all sums are then
    fixed-point integers, rounded up.

    >>> round(optimal_composition(1, 500, 1e-5).epsilon, 9)
    311.76760464
    """
    eps, times, target = check_positive(epsilon, "epsilon"), check_int(k, "k", 1), check_probability(delta, "delta")
    if times > LARGEST_K:
        raise BadParameter("k", times, f"sums of more than {LARGEST_K} terms are slow", "use the certified curve instead")
    one_delta = to_rational(each, "each")
    if not 0 <= one_delta <= 1:
        raise BadParameter(
            "each", format_rational(one_delta), "must lie between 0 and 1", "give the δ of one mechanism, for example 1e-6"
        )
    all_deltas = probability_of_any(one_delta, times)
    if all_deltas >= target:
        return Point(inf, target)
    if eps > 2048:
        return Point(times * eps, target)  # no k of them is worth an integer with millions of digits
    rest = 1 - (1 - target) / (1 - all_deltas)  # the δ that remains for the ε-private core, exactly
    return Point(_find_smallest_epsilon(eps, times, rest), target)


def _find_smallest_epsilon(eps: Fraction, k: int, delta: Fraction) -> float:
    """δ'(ε') is the largest of A_i − e^{ε'}·B_i over i (the likeliest i outcomes together), so ε' is the largest
    ln((A_i − δ)/B_i) = kε + ln((ΣT − δZ)/ΣS), T_l = C(k,l)a^l, S_l = C(k,l)a^{−l}, Z = (1+a)^k, over l < i.
    An outcome whose loss is below the ratio so far only lowers it: the first such outcome ends the search."""
    a = int(exp_bounds(-eps)[0] * (1 << _BITS))  # rounded down: a slightly larger ε, which dominates
    if a == 0:
        return ceil_float(k * eps)
    ratio = Fraction(a, 1 << _BITS)
    loss = -log_bounds(ratio)[0]
    spent = int(delta * exp_bounds(k * log_bounds(1 + ratio)[0])[0] * (1 << _BITS))
    up = down = total_up = total_down = 1 << _BITS
    worst = Fraction(0)
    for i in range(1, k // 2 + 2):
        if total_up > spent:
            worst = max(worst, k * loss + log_bounds(Fraction(total_up - spent, total_down))[1])
        if worst >= (k - 2 * i) * loss:
            break
        up = -(-up * (k - i + 1) * a // (i << _BITS))
        down = (down * (k - i + 1) << _BITS) // (i * a)
        total_up, total_down = total_up + up, total_down + down
    return ceil_float(min(worst, k * eps))


def sequential_composition(*points: Point) -> Point:
    """Σε and Σδ, also when each mechanism is chosen after seeing the answers of those before [L12, B2; DKMMN06].

    >>> sequential_composition(Point(Fraction(1, 2), Fraction(0)), Point(Fraction(1), Fraction(1, 100)))
    Point(epsilon=Fraction(3, 2), delta=Fraction(1, 100))
    """
    return Point(sum((p.epsilon for p in points), Fraction(0)), sum((p.delta for p in points), Fraction(0)))


def advanced_composition(epsilon: Number, k: int, delta: Number, each: Number = 0) -> Point:
    """ε√(2k·ln(1/δ')) + kε(e^ε − 1) at δ' + kδ [DRV10, Thm III.3; DR14, Thm 3.20], never more than kε.

    >>> round(advanced_composition(Fraction(1, 10), 100, 1e-5).epsilon, 4)
    5.8502
    """
    eps, times, slack = check_positive(epsilon, "epsilon"), check_int(k, "k", 1), check_probability(delta, "delta")
    total = slack + times * to_rational(each, "each")
    if eps > LARGEST_EXPONENT:
        return Point(times * eps, total)
    growth = eps * sqrt_up(2 * times * -log_bounds(slack)[0]) + times * eps * (exp_bounds(eps)[1] - 1)
    return Point(ceil_float(min(growth, times * eps)), total)


def advanced_composition_short(epsilon: Number, k: int, delta: Number) -> Point:
    """2ε√(2k·ln(1/δ)), which follows from the long form only where √k·(e^ε − 1) ≤ √(2·ln(1/δ)) (erratum 1 of [N1]).

    >>> advanced_composition_short(1, 500, 1e-5)
    Traceback (most recent call last):
    discreet.errors.TheoremNotApplicable: the short form of advanced composition is proven only for √k·(e^ε − 1) ≤ \
√(2·ln(1/δ)), here 38.42 against 4.8. Use `optimal_composition` or the certified curve: it gives ε = 311.768.
    """
    eps, times, slack = check_positive(epsilon, "epsilon"), check_int(k, "k", 1), check_probability(delta, "delta")
    log_low, log_high = (-bound for bound in reversed(log_bounds(slack)))
    if eps > 64 or times * (exp_bounds(eps)[1] - 1) ** 2 > 2 * log_low:
        _refuse_short(eps, times, slack)
    return Point(ceil_float(2 * eps * sqrt_up(2 * times * log_high)), slack)


def _refuse_short(eps: Fraction, times: int, slack: Fraction) -> None:
    left = float(times) ** 0.5 * float(exp_bounds(min(eps, Fraction(64)))[1] - 1)
    right = (2 * float(-log_bounds(slack)[0])) ** 0.5
    answer = f": it gives ε = {format_up(optimal_composition(eps, times, slack).epsilon, 6)}" if times <= LARGEST_K else ""
    raise TheoremNotApplicable(
        "the short form of advanced composition",
        f"√k·(e^ε − 1) ≤ √(2·ln(1/δ)), here {left:.4g} against {right:.3g}",
        f"use `optimal_composition` or the certified curve{answer}",
    )


def short_form_threshold(delta: Number) -> float:
    """k = 8·ln(1/δ), from which 2ε√(2k·ln(1/δ)) ≤ kε [N1]; of use only for ε ≤ ln 1.5, where the hypothesis holds there.

    >>> round(short_form_threshold(1e-5), 1), round(short_form_threshold(1e-4), 1)
    (92.1, 73.7)
    """
    return ceil_float(-8 * log_bounds(check_probability(delta, "delta"))[0])


def parallel_composition(
    *points: Point, neighbours: Neighbours = Neighbours.ADD_REMOVE, inside: Point | None = None
) -> Point:
    """Mechanisms on disjoint parts of the *units*, each private for adding or removing one [B2].

    One unit is added or removed: the largest ε and the largest δ. One unit is replaced: it can leave one part and enter
    another, which costs the two largest, added; or it can change within its part, which costs `inside`. Without a better
    proof the latter is a group of two, the old record removed and the new one added; a count cannot move at all:
    `inside=Point(0, 0)`.

    >>> cell = Point(Fraction(1), Fraction(0))
    >>> parallel_composition(*[cell] * 8), parallel_composition(*[cell] * 8, neighbours=Neighbours.REPLACE).epsilon
    (Point(epsilon=Fraction(1, 1), delta=Fraction(0, 1)), Fraction(2, 1))
    """
    moves = neighbours.differing_units
    across = Point(_largest([p.epsilon for p in points], moves), _largest([p.delta for p in points], moves))
    if neighbours is Neighbours.ADD_REMOVE:
        return across
    within = [group_privacy(point, 2) for point in points] if inside is None else [inside]
    return Point(max(p.epsilon for p in (across, *within)), max(p.delta for p in (across, *within)))


def _largest(values: Sequence[Fraction | float], count: int) -> Fraction | float:
    return sum(sorted(values, reverse=True)[:count], Fraction(0))


def group_privacy(point: Point, size: int) -> Point:
    """Kε and δ(1 + e^ε + … + e^{(K−1)ε}) for units that act as one [B2].

    >>> group_privacy(Point(Fraction(1, 2), Fraction(0)), 3)
    Point(epsilon=Fraction(3, 2), delta=Fraction(0, 1))
    """
    members = check_int(size, "size", 1)
    if point.epsilon == inf:
        return Point(inf, point.delta)
    eps = to_rational(point.epsilon)
    return Point(members * eps, group_delta(eps, to_rational(point.delta), members))


def shuffle_amplification(n: int, epsilon0: Number, delta: Number) -> Point:
    """ln(1 + (X − 1)/(X + 1)·(8√(X·ln(4/δ)/n) + 8X/n)) at δ, X = e^ε0, for n shuffled reports [FMT21, Thm III.1].

    It is proven for ε0 ≤ ln(n/(16·ln(2/δ))). The certified ε of the same clones, `shuffled_epsilon`, is several times lower.

    >>> round(shuffle_amplification(10_000, 1, 1e-6).epsilon, 4)
    0.214
    >>> shuffle_amplification(10_000, 4, 1e-6)
    Traceback (most recent call last):
    discreet.errors.TheoremNotApplicable: the closed form of shuffling is proven only for ε0 ≤ ln(n/(16·ln(2/δ))), here 4 \
against 3.763. Use `shuffled_epsilon`, which needs no such hypothesis.
    """
    users, eps, target = check_int(n, "n", 1), check_positive(epsilon0, "epsilon0"), check_probability(delta, "delta")
    log_two, log_four = log_bounds(2 / target)[1], log_bounds(4 / target)[1]
    limit = log_bounds(users / (16 * log_two))[0]
    if eps > limit:
        raise TheoremNotApplicable(
            "the closed form of shuffling",
            f"ε0 ≤ ln(n/(16·ln(2/δ))), here {format_up(eps)} against {float(limit):.4g}",
            "use `shuffled_epsilon`, which needs no such hypothesis",
        )
    high = exp_bounds(eps)[1]
    growth = (high - 1) / (high + 1) * (8 * sqrt_up(high * log_four / users) + 8 * high / users)
    return Point(ceil_float(log_bounds(1 + growth)[1]), target)


def bad_set_mass(p: Distribution, q: Distribution, epsilon: Number) -> Fraction:
    """P(privacy loss > ε), rounded up: by the good/bad set lemma the pair is (ε, this)-private one way [B2, L12].

    Sufficient, not necessary (erratum 8 of [N1]): the least δ is the hockey-stick, which is smaller as soon as the bad set
    has any mass under Q.

    >>> bad_set_mass([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)], 1)
    Fraction(3, 4)
    >>> from discreet.accounting.divergences import GaussianAt
    >>> round(float(bad_set_mass(GaussianAt(1, 2), GaussianAt(0, 2), 1)), 6)
    0.040059
    """
    if isinstance(p, LaplaceAt | GaussianAt) or isinstance(q, LaplaceAt | GaussianAt):
        return shift_bad_set_mass(*check_same_family(p, q), to_rational(epsilon, "epsilon"))
    threshold = exp_bounds(min(to_rational(epsilon, "epsilon"), Fraction(LARGEST_EXPONENT)))[0]
    return sum((a for a, b in iterate_outcomes(p, q) if a > threshold * b), Fraction(0))


def outcome_range(epsilon: Number, probability: Number) -> Bounds:
    """What P'(E) can be if P(E) is `probability` and the mechanism is ε-private: E and its complement bound it [S4, ex.
    3.4].

    >>> from math import log
    >>> seen = outcome_range(log(1.25), 0.5)
    >>> round(seen.lower, 12), round(seen.upper, 12)
    (0.4, 0.6)
    """
    eps, inside = to_rational(epsilon, "epsilon"), to_rational(probability, "probability")
    if eps < 0 or not 0 <= inside <= 1:
        raise BadParameter("epsilon, probability", f"{epsilon}, {probability}", "out of range", "ε ≥ 0 and 0 ≤ P ≤ 1")
    if eps > LARGEST_EXPONENT:
        return Bounds(0.0 if inside < 1 else 1.0, 1.0 if inside > 0 else 0.0)
    shrink, grow = exp_bounds(-eps)[0], exp_bounds(eps)[1]
    low = max(shrink * inside, 1 - grow * (1 - inside))
    high = min(grow * inside, 1 - shrink * (1 - inside))
    return Bounds(floor_float(max(Fraction(0), low)), ceil_float(min(Fraction(1), high)))
