"""`calibrate`: the mechanism with the least noise for which all of its rounds together meet an (ε, δ) target."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import exp, log, log1p
from typing import TypeVar

from discreet._numbers import (
    Number,
    check_int,
    check_positive,
    check_probability,
    format_rational,
    read_positive,
    to_rational,
)
from discreet.accounting.pld.gaussian import gaussian_mu
from discreet.errors import BadParameter
from discreet.events import Event, repeat, subsample
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.units import Sensitivity, to_sensitivity

Scaled = TypeVar("Scaled", Laplace, Gaussian, DiscreteGaussian)


def calibrate(
    kind: type[Scaled],
    *,
    sensitivity: Sensitivity | Number,
    epsilon: Number,
    delta: Number = 0,
    times: int = 1,
    rate: Number | None = None,
) -> Scaled:
    """Return the mechanism with the least noise for which `times` releases cost at most (ε, δ).

    Each release runs on a Poisson sample if `rate` is given, as the steps of DP-SGD do. The certified upper bound on ε of
    the mechanism's own event meets the target; for `Laplace` that is the event of the discrete noise.

    >>> from discreet import Gaussian, Laplace
    >>> calibrate(Gaussian, sensitivity=1, epsilon=1, delta=1e-6, times=1000)
    Gaussian(sigma=133.59...)
    >>> calibrate(Laplace, sensitivity=1, epsilon=1, times=10)
    Laplace(scale=10)
    """
    if kind not in (Laplace, Gaussian, DiscreteGaussian):
        hint = "give the class: Laplace, Gaussian or DiscreteGaussian"
        raise BadParameter("kind", repr(kind), "not a mechanism with a scale", hint)
    exact, rounds, share = to_sensitivity(sensitivity), check_int(times, "times", 1), check_rate(rate)
    delta = to_rational(delta, "delta")
    if delta == 0 and kind is Laplace and rate is None:
        return kind(Laplace.for_epsilon(read_positive(epsilon, "epsilon") / rounds, exact).scale)

    def make_event(scale: Fraction) -> Event:
        once = kind(scale).event(exact)
        return repeat(once if share is None else subsample(once, share), rounds)

    return kind(find_smallest_scale(make_event, epsilon, delta, guess_scale(float(exact.l2), epsilon, delta, rounds, share)))


def check_rate(rate: Number | None) -> Fraction | None:
    """Return the rate of a Poisson sample as a rational, above 0 and at most 1; None for no sample.

    >>> check_rate(0.25), check_rate(None)
    (Fraction(1, 4), None)
    """
    if rate is None:
        return None
    exact = to_rational(rate, "rate")
    if not 0 < exact <= 1:
        raise BadParameter(
            "rate",
            format_rational(exact),
            "not the probability of being in the sample",
            "give one above 0 and at most 1",
        )
    return exact


SCALE_TOLERANCE = 1e-7
"""Relative distance between the scale that is returned and one that misses the target."""

_FLOOR = -20.0


def find_smallest_scale(
    make_event: Callable[[Fraction], Event], epsilon: Number, delta: Number, start: float = 1.0
) -> Fraction:
    """Find the least scale, within `SCALE_TOLERANCE`, at which the certified ε at δ is at most epsilon.

    More noise must never cost more. The result is a scale whose *upper* bound on ε was computed and meets the target. ln ε
    is close to linear in ln s near the end, so false position (the Illinois variant, which cannot stall) evaluates the curve
    a few times only.

    >>> from discreet.events import GaussianEvent
    >>> from discreet.units import count
    >>> round(float(find_smallest_scale(lambda s: GaussianEvent(s, count()) * 1000, 1, 1e-6)), 4)
    133.5961
    """
    from discreet.accounting.curve import epsilon as certified_epsilon  # a query needs no calibration by the curve

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
    """Guess the scale by the central limit theorem, in which `times` rounds are one Gaussian of ratio μ.

    The ratio of one round is sensitivity/scale, or rate·√(e^{(sensitivity/scale)²} − 1) on a sample [BDLS20]. Only the speed
    of the search depends on the guess.
    """
    mu = gaussian_mu(epsilon, delta) / max(times, 1) ** 0.5
    ratio = mu if not rate else log1p((mu / float(to_rational(rate, "rate"))) ** 2) ** 0.5
    return sensitivity / ratio if ratio > 0 else 1.0


def _find_bracket(excess: Callable[[float], float], start: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return two logarithms of scales with their excess: the first misses the target, the second meets it."""
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
    reason = "no noise up to 2^57 meets it" if value > 0 else "even almost no noise meets it"
    raise BadParameter("target", "unreachable", reason, "check ε, δ, the number of rounds and the rate")
