"""The least noise whose certified δ(ε) meets a target."""

from collections.abc import Callable
from fractions import Fraction
from math import exp, log

from discreet.accounting.curve import delta as certified_delta
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.errors import BadParameter
from discreet.exact import Number, open_unit, positive
from discreet.loss import Loss

CLOSE = 1e-7
"""Relative distance between the scale that is returned and one that was seen to fail."""

_FLOOR = -800.0


def least_scale(fact: Callable[[Fraction], Loss], epsilon: Number, delta: Number, start: float = 1.0) -> Fraction:
    """The least scale s, within CLOSE, with δ(ε) ≤ delta for the loss `fact(s)`; more noise must never cost more.

    The answer is a scale whose *upper* bound was seen to meet the target. ln δ is close to linear in ln s near the end, so
    false position (Illinois' variant, which cannot stall) needs few readings of the curve.

    >>> from discreet.loss import GaussianLoss
    >>> from discreet.units import count
    >>> round(float(least_scale(lambda s: GaussianLoss(s, count()) * 1000, 1, 1e-6)), 4)
    133.5962
    """
    eps, target = positive(epsilon, "epsilon"), open_unit(delta, "delta")

    def excess(log_scale: float) -> float:
        reached = certified_delta(fact(Fraction(exp(log_scale))), eps, rtol=1e-8).upper
        return max(_FLOOR, log(reached / float(target)) if reached > 0 else _FLOOR)

    low, high = _bracket(excess, log(start))
    (a, f_a), (b, f_b) = low, high
    while b - a > CLOSE:
        middle = a + (b - a) * f_a / (f_a - f_b)
        middle = min(max(middle, a + CLOSE / 4), b - CLOSE / 4)
        f = excess(middle)
        if f > 0:
            a, f_a, f_b = middle, f, f_b / 2
        else:
            b, f_b, f_a = middle, f, f_a / 2
    return _confirmed(fact, Fraction(exp(b)), eps, target)


def _confirmed(fact: Callable[[Fraction], Loss], scale: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Raise the scale, by a millionth or so, until ε read at δ with the usual tolerance meets the target too."""
    while (reached := certified_epsilon(fact(scale), delta).upper) > epsilon:
        scale *= 1 + 2 * (Fraction(reached) / epsilon - 1)
    return scale


def _bracket(excess: Callable[[float], float], start: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two logarithms of scales, the first failing and the second meeting the target."""
    at, value = start, excess(start)
    step = -0.7 if value <= 0 else 0.7
    for _ in range(60):
        following = at + step
        reached = excess(following)
        if (value > 0) != (reached > 0):
            return ((at, value), (following, reached)) if value > 0 else ((following, reached), (at, value))
        at, value, step = following, reached, step * 1.6
        if abs(at) > 40:
            break
    way = "no noise up to 2^57 meets it" if value > 0 else "even almost no noise meets it"
    raise BadParameter("target", "unreachable", way, "check ε, δ, the number of rounds and the rate")
