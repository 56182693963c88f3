"""One Gaussian or Laplace release on a Poisson sample, in closed form: sampling moves the noise's own curve.

With q the rate: removing, D_{e^ε}((1 − q)Q + qP ‖ Q) = q·D_{e^t}(P ‖ Q), e^t = 1 + (e^ε − 1)/q; adding, with
r = 1 − (1 − q)e^ε, D_{e^ε}(Q ‖ (1 − q)Q + qP) = r·D_{e^t}(Q ‖ P), e^t = q·e^ε/r, and 0 where r ≤ 0 [BBG18, Thm 2].
"""

from fractions import Fraction
from math import exp, expm1, inf, log, log1p

from discreet.accounting.gaussian import gaussian_delta
from discreet.accounting.laws.sampled import SampledGaussianPld
from discreet.accounting.laws.sampled_laplace import SampledLaplacePld
from discreet.exact import nearest_float, sqrt_up

SampledPld = SampledGaussianPld | SampledLaplacePld

_RAREST = 1e-290  # rates below this are as good as 0 to a double


def bound_sampled_delta(pld: SampledPld, epsilon: float) -> tuple[float, float]:
    """δ(ε) of one sampled release between two doubles.

    >>> low, high = bound_sampled_delta(SampledGaussianPld(Fraction(1), Fraction(1, 2), removed=True), 0.0)
    >>> low <= 0.5 * 0.3829249225480262 <= high
    True
    """
    if pld.rate < _RAREST:  # δ is never above the rate
        return 0.0, _RAREST
    factor, t = _shift_epsilon(pld, epsilon)
    if factor <= 0:
        return 0.0, 0.0
    slip = 1e-14 * (1 + 1 / factor)
    wide = slip * (1 + abs(t)) + 1e-300
    low, high = _bound_unsampled_delta(pld, t + wide)[0], _bound_unsampled_delta(pld, max(0.0, t - wide))[1]
    return max(0.0, factor * (1 - slip) * low), min(1.0, factor * (1 + slip) * high)


def _bound_unsampled_delta(pld: SampledPld, t: float) -> tuple[float, float]:
    """δ of the release on everyone: the Gaussian's, or 1 − e^{(t − ε₀)/2} for Laplace noise up to t = ε₀."""
    if isinstance(pld, SampledLaplacePld):
        eps = nearest_float(pld.epsilon)
        gap, slip = (t - eps) / 2, 1e-15 * (1 + t + eps)
        return -expm1(min(0.0, gap + slip)) * (1 - 1e-15), -expm1(min(0.0, gap - slip)) * (1 + 1e-15)
    mu = sqrt_up(pld.squared)
    low = gaussian_delta(mu * (1 - Fraction(1, 1 << 80)), Fraction(t)).lower
    return low, gaussian_delta(mu, Fraction(t)).upper


def _shift_epsilon(pld: SampledPld, epsilon: float) -> tuple[float, float]:
    """(factor, t), t ≥ 0; off by a few roundings, and by 1/factor as many where the factor is a small difference."""
    q = nearest_float(pld.rate)
    if pld.removed:
        far = epsilon - log(q) + log1p(-(1 - q) * exp(-epsilon)) if epsilon > 1 else log1p(expm1(epsilon) / q)
        return q, far
    factor = q - nearest_float(1 - pld.rate) * expm1(epsilon) if epsilon < 700 else -inf
    return factor, max(0.0, epsilon + log(q / factor)) if factor > 0 else inf
