"""The exact cost of k equal (ε, δ)-private releases when nothing else is known about them [KOV15, Thm 3.3].

Randomised response that leaks with probability δ dominates them all, and k of it have a binomial curve:
δ'(ε') = 1 − (1−δ)^k·(1 − Σ_{l<i} C(k,l)·(a^l − e^{ε'−kε}·a^{−l})/(1+a)^k), a = e^{−ε}, over the l with (k−2l)ε > ε'.
Inverted here for the least ε'. Choosing a slightly larger ε makes a a short rational; all sums are then fixed-point
integers rounded against us.
"""

from fractions import Fraction

from discreet.accounting.approx import Point
from discreet.accounting.elementary import exp_bounds, log_bounds
from discreet.accounting.leak import probability_of_any
from discreet.errors import BadParameter
from discreet.exact import Number, ceil_float, check_int, check_positive, check_probability, format_rational, to_rational

LARGEST_K = 20_000
_BITS = 192


def optimal_composition(epsilon: Number, k: int, delta: Number, each: Number = 0) -> Point:
    """The least ε' at δ for k releases that are (epsilon, each)-private; rounded up.

    >>> round(optimal_composition(1, 500, 1e-5).epsilon, 9)
    311.76760464
    """
    eps, times, target = check_positive(epsilon, "epsilon"), check_int(k, "k", 1), check_probability(delta, "delta")
    if times > LARGEST_K:
        raise BadParameter("k", times, f"sums of more than {LARGEST_K} terms are slow", "ask the certified curve instead")
    leak = to_rational(each, "each")
    if not 0 <= leak <= 1:
        raise BadParameter(
            "each", format_rational(leak), "must lie between 0 and 1", "give the delta of one release, for example 1e-6"
        )
    leaked = probability_of_any(leak, times)
    if leaked >= target:
        return Point(float("inf"), target)
    if eps > 2048:
        return Point(times * eps, target)  # no k of them is worth an integer with millions of digits
    spare = 1 - (1 - target) / (1 - leaked)  # the δ left for the part without a leak, exactly
    return Point(_find_smallest_epsilon(eps, times, spare), target)


def _find_smallest_epsilon(eps: Fraction, k: int, delta: Fraction) -> float:
    """δ'(ε') is the largest of A_i − e^{ε'}·B_i over i (the likeliest i outcomes as an event), so ε' is the largest
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
