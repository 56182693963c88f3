"""One Gaussian release on a Poisson sample, in closed form: sampling moves the Gaussian's own curve.

With q the rate: removing, D_{e^ε}((1 − q)Q + qP ‖ Q) = q·D_{e^t}(P ‖ Q), e^t = 1 + (e^ε − 1)/q; adding, with
r = 1 − (1 − q)e^ε, D_{e^ε}(Q ‖ (1 − q)Q + qP) = r·D_{e^t}(Q ‖ P), e^t = q·e^ε/r, and 0 where r ≤ 0 [BBG18, Thm 2].
"""

from fractions import Fraction
from math import exp, expm1, inf, log, log1p

from discreet.accounting.gaussian import gaussian_delta
from discreet.accounting.laws.sampled import SampledGaussianLaw
from discreet.exact import nearest_float, sqrt_up


def sampled_delta(law: SampledGaussianLaw, epsilon: float) -> tuple[float, float]:
    """δ(ε) of one sampled Gaussian between two doubles.

    >>> low, high = sampled_delta(SampledGaussianLaw(Fraction(1), Fraction(1, 2), removed=True), 0.0)
    >>> low <= 0.5 * 0.3829249225480262 <= high
    True
    """
    factor, t = _moved(law, epsilon)
    if factor <= 0:
        return 0.0, 0.0
    mu, slip = sqrt_up(law.squared), 1e-14 * (1 + 1 / factor)
    wide = slip * (1 + abs(t)) + 1e-300
    low = gaussian_delta(mu * (1 - Fraction(1, 1 << 80)), Fraction(t + wide)).lower
    high = gaussian_delta(mu, Fraction(max(0.0, t - wide))).upper
    return max(0.0, factor * (1 - slip) * low), min(1.0, factor * (1 + slip) * high)


def _moved(law: SampledGaussianLaw, epsilon: float) -> tuple[float, float]:
    """(factor, t), t ≥ 0; off by a few roundings, and by 1/factor as many where the factor is a small difference."""
    q = nearest_float(law.rate)
    if law.removed:
        far = epsilon - log(q) + log1p(-(1 - q) * exp(-epsilon)) if epsilon > 1 else log1p(expm1(epsilon) / q)
        return q, far
    factor = q - nearest_float(1 - law.rate) * expm1(epsilon) if epsilon < 700 else -inf
    return factor, max(0.0, epsilon + log(q / factor)) if factor > 0 else inf
