"""The error bounds that textbooks print, for continuous noise. `error()` of a mechanism is exact for the noise it draws.

The sources are the five texts [N1], [N2], [L12], [S4], [B2]; see docs/references.md.
"""

from math import exp, log, log1p, sqrt

from discreet.accounting.pld.gaussian import gaussian_mu
from discreet.errors import BadParameter


def pct_error(exact: float, private: float) -> float:
    """Return the relative error in per cent, 100·|exact − private|/|exact| [N2].

    >>> pct_error(200, 194)
    3.0
    """
    if exact == 0:
        raise BadParameter("exact", 0, "nothing is relative to 0", "compare the absolute errors")
    return 100 * abs(exact - private) / abs(exact)


def laplace_tail(t: float) -> float:
    """P(|Z| > t·λ) = e^-t [S4]."""
    return exp(-t)


def laplace_mean_absolute(scale: float) -> float:
    """E|Z| = λ [S4]."""
    return scale


def laplace_root_mean_square(scale: float) -> float:
    """√E Z² = √2·λ [S4]."""
    return sqrt(2) * scale


def laplace_max_tail(t: float) -> float:
    """P(largest of d exceeds λ(ln d + t)) ≤ e^-t, whatever d [S4]: d·e^{-(ln d + t)}."""
    return exp(-t)


def laplace_expected_max(scale: float, d: int) -> float:
    """E largest |Z| of d ≤ λ(ln d + 1) [S4, ex. 4.5].

    >>> round(laplace_expected_max(20, 3143), 2)
    181.06
    """
    return scale * (log(d) + 1)


def laplace_expected_l1(l1: float, epsilon: float, k: int) -> float:
    """E of the sum of k absolute errors = k·Δ₁/ε [B2]."""
    return k * l1 / epsilon


def laplace_linf_bound(l1: float, epsilon: float, k: int, beta: float) -> float:
    """All k errors stay below ln(k/β)·Δ₁/ε with probability 1 − β [B2].

    >>> round(laplace_linf_bound(1, 1, 10_000, 0.05), 3)
    12.206
    """
    return log(k / beta) * l1 / epsilon


def gaussian_tail(t: float) -> float:
    """P(|Y| > t·σ) ≤ 2e^{-t²/2} [B2]."""
    return 2 * exp(-t * t / 2)


def gaussian_linf_bound(sigma: float, k: int, beta: float) -> float:
    """All k errors stay below σ√(2 ln(2k/β)) with probability 1 − β: the union bound over `gaussian_tail`."""
    return sigma * sqrt(2 * log(2 * k / beta))


def gaussian_linf_bound_as_printed(l2: float, epsilon: float, delta: float, k: int, beta: float) -> float:
    """Erratum: [B2] prints √(2 ln(1.25/δ)·ln(k/β))·Δ₂/ε, a √2 (and a 2 inside the logarithm) short.

    At k = 1, β = 0.05 it fails with probability 0.083, at k = 1,000 with 0.81. Use `gaussian_linf_bound`.
    """
    return sqrt(2 * log(1.25 / delta) * log(k / beta)) * l2 / epsilon


def gaussian_expected_max(sigma: float, k: int) -> float:
    """E largest |Y| of k ≤ σ√(2 ln 2k): of order √(k·log k·log 1/δ)/ε for k counts, as [L12]'s summary should read."""
    return sigma * sqrt(2 * log(2 * k))


def response_tail(t: float) -> float:
    """P(|A − Σφ| ≥ t·(e^ε+1)/(e^ε−1)·√n) ≤ 2e^{-2t²} for randomized response [S4, ex. 2.5]."""
    return 2 * exp(-2 * t * t)


def laplace_sample_size(alpha: float, epsilon: float) -> float:
    """The number of people for an RMSE α of a proportion with Laplace noise: √2/(αε) [S4, ex. 4.6]."""
    return sqrt(2) / (alpha * epsilon)


def response_sample_size(alpha: float, epsilon: float) -> float:
    """The number of people for an RMSE α of a proportion with randomized response: e^ε/((e^ε−1)²·α²) [S4, ex. 2.6]."""
    return exp(epsilon) / (exp(epsilon) - 1) ** 2 / alpha**2


def gaussian_wins_from(epsilon: float, delta: float, beta: float = 0.05) -> int:
    """Return the least number k of counts for which exact Gaussian noise has the smaller ℓ∞ error at confidence 1 − β.

    Laplace noise has scale k/ε and P(|Z| ≤ x)^k = (1 − e^{-xε/k})^k; Gaussian noise σ = √k/μ with its exact quantile.

    >>> gaussian_wins_from(1, 1e-6)
    6
    """
    from scipy.special import ndtri

    mu = gaussian_mu(epsilon, delta)
    k = 1
    while True:
        each = -log1p(-beta) / k  # −ln of the confidence that every single error must meet
        tail = -(exp(-each) - 1)
        if sqrt(k) / mu * -ndtri(tail / 2) < k / epsilon * -log(tail):
            return k
        k += 1
