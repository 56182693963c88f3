"""The exact curve of one Gaussian: δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), μ = Δ₂/σ [BW18, Thm 8].

With a = ε/μ − μ/2, b = ε/μ + μ/2 and the Mills ratio R(x) = Φ(−x)/φ(x), e^ε·φ(b) = φ(a), so δ = φ(a)·(R(a) − R(b)): no
overflow, and relative accuracy however small δ is (unless μ is tiny: then R(a) and R(b) cancel, and the interval says so).
Any two doubles a < b are *exactly* the curve's arguments at μ' = b − a and ε' = (b² − a²)/2; so it is enough to choose
doubles that are provably on the cautious side, and to bound the errors of erfcx and exp.
"""

from fractions import Fraction
from math import exp, isinf, pi, sqrt

from discreet.accounting.search import largest_where, smallest_where
from discreet.errors import BadParameter
from discreet.exact import Bounds, Number, check_positive, check_probability, nearest_float, to_rational

SPECIAL_ERROR = 32 * 2.0**-52
"""Relative error assumed of scipy's erfcx (about 1e-15 is claimed for it); the tests measure it against Arb."""


def gaussian_delta(mu: Number, epsilon: Number) -> Bounds:
    """δ at ε of a Gaussian with sensitivity/σ = μ.

    >>> 1e-6 in gaussian_delta(Fraction(1, 10), Fraction(0.3968573776440836))
    True
    """
    ratio, eps = check_positive(mu, "mu"), to_rational(epsilon, "epsilon")
    if eps < 0:
        raise BadParameter("epsilon", epsilon, "must not be negative", "give 0 or more")
    return Bounds(_delta(ratio, eps, upper=False), _delta(ratio, eps, upper=True))


def gaussian_epsilon(mu: Number, delta: Number) -> Bounds:
    """ε at δ of a Gaussian with sensitivity/σ = μ.

    >>> bounds = gaussian_epsilon(Fraction(1, 10), 1e-6)
    >>> round(bounds.lower, 12), round(bounds.upper, 12)
    (0.396857377644, 0.396857377644)
    """
    ratio, target = check_positive(mu, "mu"), check_probability(delta, "delta")
    upper = smallest_where(lambda e: _delta(ratio, Fraction(e), upper=True) <= target)
    lower = smallest_where(lambda e: _delta(ratio, Fraction(e), upper=False) < target)
    # `least` stops just above the change from true to false, so `lower` steps back over what it may have missed.
    below = 0.0 if _delta(ratio, Fraction(0), upper=False) < target else lower * (1 - 2.0**-49)
    return Bounds(below, 0.0 if _delta(ratio, Fraction(0), upper=True) <= target else upper)


def gaussian_mu(epsilon: Number, delta: Number) -> float:
    """The largest sensitivity/σ whose curve passes below (ε, δ), rounded down.

    >>> round(1 / gaussian_mu(1, 1e-6), 6)
    4.224679
    """
    eps, target = check_positive(epsilon, "epsilon"), check_probability(delta, "delta")
    return largest_where(lambda mu: _delta(Fraction(mu), eps, upper=True) <= target)


def _delta(mu: Fraction, epsilon: Fraction, *, upper: bool) -> float:
    """One end of the interval: δ falls with ε and rises with μ."""
    shift = Fraction(1, 1 << 50) * (1 if upper else -1)
    while abs(shift) < 1:  # look for doubles a < b whose own μ' and ε' lie on the right side of the true ones
        wide, near = mu * (1 + shift), epsilon - shift * (epsilon + mu**2)
        a, b = nearest_float(near / wide - wide / 2), nearest_float(near / wide + wide / 2)
        if isinf(a) or isinf(b):
            break
        mu_seen = Fraction(b) - Fraction(a)
        excess = mu_seen * (Fraction(b) + Fraction(a)) / 2 - epsilon
        if (mu_seen >= mu and excess <= 0) if upper else (0 < mu_seen <= mu and excess >= 0):
            return _upper_curve(a, b) if upper else _lower_curve(a, b)
        shift *= 2
    return 1.0 if upper else 0.0


def _upper_curve(a: float, b: float) -> float:
    density, spread = _density(a)
    if a < 0:  # Φ(−a) = 1 − φ(a)·R(−a), and R(−a) is small where R(a) is not
        value = 1 - density * (1 - spread) * (_mills(-a, -1) + _mills(b, -1))
    else:
        value = density * (1 + spread) * (_mills(a, 1) - _mills(b, -1))
    return min(1.0, value + 2.0**-52 * abs(value) + (2.0**-52 if a < 0 else 1e-307))


def _lower_curve(a: float, b: float) -> float:
    density, spread = _density(a)
    if a < 0:
        value = 1 - density * (1 + spread) * (_mills(-a, 1) + _mills(b, 1)) - 2.0**-52
    else:
        value = density * (1 - spread) * (_mills(a, -1) - _mills(b, 1)) - 1e-307
    return max(0.0, value - 2.0**-52 * abs(value))


def _density(a: float) -> tuple[float, float]:
    """φ(a) and its relative error: the exponent is rounded twice, exp and the constant lose a few units."""
    if abs(a) > 40:  # below the smallest double that is not subnormal: the 1e-307 of the callers covers it
        return 0.0, 0.0
    return exp(-a * a / 2) / sqrt(2 * pi), 2.0**-52 * (a * a + 16)


def _mills(x: float, sign: int) -> float:
    """R(x) for x ≥ 0, moved by its error bound: the argument's rounding moves it by at most 2^-51 relatively."""
    from scipy.special import erfcx  # imported here: it takes longer than all the rest of discreet

    return sqrt(pi / 2) * float(erfcx(x / sqrt(2))) * (1 + sign * SPECIAL_ERROR)
