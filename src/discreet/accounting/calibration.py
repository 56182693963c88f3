"""The least noise whose certified price meets a target."""

from collections.abc import Callable
from fractions import Fraction
from math import exp, log, log1p

from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.gaussian import gaussian_mu
from discreet.errors import BadParameter
from discreet.exact import Number, check_positive, check_probability, to_rational
from discreet.loss import Event

SCALE_TOLERANCE = 1e-7
"""Relative distance between the scale that is returned and one that was seen to fail."""

_FLOOR = -20.0


def find_smallest_scale(
    make_event: Callable[[Fraction], Event], epsilon: Number, delta: Number, start: float = 1.0
) -> Fraction:
    """The least scale s, within CLOSE, whose certified ε at delta is at most epsilon; more noise must never cost more.

    The answer is a scale whose *upper* bound was seen to meet the target. ln ε is close to linear in ln s near the end, so
    false position (Illinois' variant, which cannot stall) needs few readings of the curve.

    >>> from discreet.loss import GaussianEvent
    >>> from discreet.units import count
    >>> round(float(find_smallest_scale(lambda s: GaussianEvent(s, count()) * 1000, 1, 1e-6)), 4)
    133.5961
    """
    eps, target = check_positive(epsilon, "epsilon"), check_probability(delta, "delta")

    def excess(log_scale: float) -> float:
        reached = certified_epsilon(make_event(Fraction(exp(log_scale))), target).upper / float(eps)
        return min(-_FLOOR, max(_FLOOR, log(reached))) if reached > 0 else _FLOOR

    (a, f_a), (b, f_b) = _find_bracket(excess, log(start))
    while b - a > SCALE_TOLERANCE:
        middle = a + (b - a) * f_a / (f_a - f_b)
        middle = min(max(middle, a + SCALE_TOLERANCE / 2), b - SCALE_TOLERANCE / 2)
        f = excess(middle)
        if f > 0:
            a, f_a, f_b = middle, f, f_b / 2
        else:
            b, f_b, f_a = middle, f, f_a / 2
    return Fraction(exp(b))


def guess_scale(sensitivity: float, epsilon: Number, delta: Number, times: int, rate: Number | None) -> float:
    """Where to start looking: the central limit, in which `times` rounds are one Gaussian of ratio μ. A round's ratio is
    sensitivity/scale, or rate·√(e^{(sensitivity/scale)²} − 1) on a sample [BDLS20]. Nothing rests on it but speed."""
    mu = gaussian_mu(epsilon, delta) / max(times, 1) ** 0.5
    ratio = mu if not rate else log1p((mu / float(to_rational(rate, "rate"))) ** 2) ** 0.5
    return sensitivity / ratio if ratio > 0 else 1.0


def _find_bracket(excess: Callable[[float], float], start: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two logarithms of scales, the first failing and the second meeting the target."""
    at, value = start, excess(start)
    step = -0.05 if value <= 0 else 0.05
    for _ in range(60):
        following = at + step
        reached = excess(following)
        if (value > 0) != (reached > 0):
            return ((at, value), (following, reached)) if value > 0 else ((following, reached), (at, value))
        at, value, step = following, reached, step * 2
        if abs(at) > 40:
            break
    way = "no noise up to 2^57 meets it" if value > 0 else "even almost no noise meets it"
    raise BadParameter("target", "unreachable", way, "check ε, δ, the number of rounds and the rate")
