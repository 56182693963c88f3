"""From one notion of privacy to another, textbook and tight, by name. Guarantees round up, budgets round down.

Where a bound holds for every order α, a search in doubles only proposes α; the bound is then evaluated there in exact
rationals, so a poor search makes it a little wider and never false.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import exp, inf, log, log1p, sqrt

from discreet._numbers import (
    Number,
    ceil_float,
    check_positive,
    check_probability,
    floor_float,
    is_infinite,
    largest_where,
    nearest_float,
    sqrt_up,
    to_rational,
)
from discreet.accounting.elementary import exp_bounds, log_bounds, sqrt_down
from discreet.accounting.zcdp import pure_rho
from discreet.errors import BadParameter


def epsilon_from_rdp_classic(order: Number, divergence: Number, delta: Number) -> float:
    """ε̄ + ln(1/δ)/(α − 1) [Mir17, Prop. 3].

    >>> round(epsilon_from_rdp_classic(20, Fraction(1, 10), 1e-5), 6)
    0.705943
    """
    if is_infinite(divergence):
        return inf
    alpha = _check_order(order)
    return ceil_float(_check_amount(divergence) - log_bounds(check_probability(delta, "delta"))[0] / (alpha - 1))


def epsilon_from_rdp(order: Number, divergence: Number, delta: Number) -> float:
    """ε̄ + ln(1/δ)/(α − 1) + ln(1 − 1/α) − ln(α)/(α − 1), at least 0 [CKS20, Prop. 12; BBGHS20, Thm 21].

    >>> epsilon_from_rdp(20, 0.1, 1e-5) < epsilon_from_rdp_classic(20, 0.1, 1e-5)
    True
    """
    if is_infinite(divergence):
        return inf
    alpha = _check_order(order)
    tail = (log_bounds(check_probability(delta, "delta"))[0] + log_bounds(alpha)[0]) / (alpha - 1)
    return max(0.0, ceil_float(_check_amount(divergence) - tail + log_bounds(1 - 1 / alpha)[1]))


def delta_from_rdp(order: Number, divergence: Number, epsilon: Number) -> float:
    """e^{(α−1)(ε̄−ε)}/(α − 1)·(1 − 1/α)^α, at most 1: the same theorem, solved for δ."""
    if is_infinite(divergence):
        return 1.0
    alpha, eps = _check_order(order), _check_amount(epsilon)
    exponent = (alpha - 1) * (_check_amount(divergence) - eps) + alpha * log_bounds(1 - 1 / alpha)[1]
    exponent -= log_bounds(alpha - 1)[0]
    return 1.0 if exponent >= 0 else ceil_float(exp_bounds(exponent)[1])


@lru_cache(maxsize=1024, typed=True)
def divergence_within(order: Number, epsilon: Number, delta: Number) -> Fraction:
    """The largest ε̄ at this order that `epsilon_from_rdp` turns into at most (ε, δ), rounded down; negative if none is."""
    alpha = _check_order(order)
    tail = (log_bounds(check_probability(delta, "delta"))[0] + log_bounds(alpha)[0]) / (alpha - 1)
    return _check_amount(epsilon) + tail - log_bounds(1 - 1 / alpha)[1]


def epsilon_from_zcdp_classic(rho: Number, delta: Number) -> float:
    """ρ + 2√(ρ·ln(1/δ)) [BS16, Prop. 1.3].

    >>> round(epsilon_from_zcdp_classic(Fraction(100, 80000), 1e-5), 5)
    0.24118
    """
    if is_infinite(rho):
        return inf
    amount = _check_amount(rho)
    return ceil_float(amount + 2 * sqrt_up(amount * -log_bounds(check_probability(delta, "delta"))[0]))


def epsilon_from_zcdp(rho: Number, delta: Number) -> float:
    """The improved RDP conversion at the best order, D_α ≤ ρα [CKS20, Cor. 13].

    >>> round(epsilon_from_zcdp(Fraction(1, 10), Fraction(1, 10**6)), 12)
    2.141938928385
    """
    if is_infinite(rho):
        return inf
    amount, target = _check_amount(rho), check_probability(delta, "delta")
    alpha = Fraction(1 + _best_excess(nearest_float(amount), nearest_float(-log_bounds(target)[0])))
    return epsilon_from_rdp(alpha, alpha * amount, target)


@lru_cache(maxsize=1024, typed=True)
def rho_within(epsilon: Number, delta: Number) -> float:
    """The largest ρ that `epsilon_from_zcdp` turns into at most (ε, δ), rounded down.

    >>> round(rho_within(1, Fraction(1, 10**6)), 14)
    0.02435597035954
    """
    eps, target = check_positive(epsilon, "epsilon"), check_probability(delta, "delta")
    return largest_where(lambda rho: epsilon_from_zcdp(rho, target) <= eps, start=nearest_float(eps) / 40)


def rho_within_classic(epsilon: Number, delta: Number) -> float:
    """(√(ε + ln(1/δ)) − √ln(1/δ))², the inverse of the classic form, rounded down."""
    eps, target = check_positive(epsilon, "epsilon"), check_probability(delta, "delta")
    low, high = (-bound for bound in reversed(log_bounds(target)))
    root = sqrt_down(eps + low) - sqrt_up(high)
    return floor_float(root**2) if root > 0 else 0.0


def epsilon_from_tcdp(rho: Number, omega: Number, delta: Number) -> float:
    """The zCDP form while ln(1/δ) ≤ (ω−1)²ρ, else ρω + ln(1/δ)/(ω − 1) [BDRS18]: the classic RDP form at the best order
    below ω.
    """
    if is_infinite(rho) or is_infinite(omega):
        return epsilon_from_zcdp_classic(rho, delta)
    amount, top, target = _check_amount(rho), _check_order(omega), check_probability(delta, "delta")
    if -log_bounds(target)[0] <= (top - 1) ** 2 * amount:
        return epsilon_from_zcdp_classic(amount, target)
    return epsilon_from_rdp_classic(top, amount * top, target)  # D_α ≤ ρα for all α < ω, hence at the limit ω


def epsilon_from_gdp(mu: Number, delta: Number) -> float:
    """The exact curve of one Gaussian with sensitivity/σ = μ [DRS22, Cor. 2.13; BW18, Thm 8]."""
    if mu in (0, inf):
        return float(mu)
    from discreet.accounting.pld.gaussian import gaussian_epsilon  # it needs NumPy

    return gaussian_epsilon(mu, delta).upper


@lru_cache(maxsize=1024, typed=True)
def mu_within(epsilon: Number, delta: Number) -> float:
    """The largest μ whose curve passes below (ε, δ), rounded down."""
    from discreet.accounting.pld.gaussian import gaussian_mu  # it needs NumPy

    return gaussian_mu(epsilon, delta)


def rho_from_pure(epsilon: Number) -> Fraction | float:
    """ε·tanh(ε/2), rounded up, which randomised response attains [BS16, Prop. 3.3]."""
    return inf if is_infinite(epsilon) else pure_rho(_check_amount(epsilon))


def rho_from_pure_classic(epsilon: Number) -> Fraction | float:
    """ε²/2 [BS16, Prop. 1.4]."""
    return inf if is_infinite(epsilon) else _check_amount(epsilon) ** 2 / 2


def rho_from_gdp(mu: Number) -> Fraction | float:
    """μ²/2: a μ-GDP pair is post-processing of two Gaussians [DRS22, Thm 2.10], and those have D_α = αμ²/2."""
    return inf if is_infinite(mu) else _check_amount(mu) ** 2 / 2


def pure_within(rho: Number) -> float:
    """The largest ε for which every ε-private mechanism is ρ-zCDP, rounded down."""
    target = check_positive(rho, "rho")
    return largest_where(lambda epsilon: pure_rho(Fraction(epsilon)) <= target)


def _best_excess(rho: float, log_inverse: float) -> float:
    """An α − 1 near the minimum of ρα + (ln(1/δ) − ln α)/(α−1) + ln(1 − 1/α), in doubles."""

    def bound(t: float) -> float:
        return rho * (1 + t) + (log_inverse - log1p(t)) / t - log1p(1 / t)

    centre = sqrt(log_inverse / rho) if rho > 0 else 1e15
    return _minimise(bound, min(max(centre, 1e-12), 1e15))


def _minimise(bound: Callable[[float], float], start: float) -> float:
    """Golden-section search on the logarithm, two decades around the start."""
    ratio = (sqrt(5) - 1) / 2
    low, high = log(start) - 5, log(start) + 5
    while high - low > 1e-9:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if bound(exp(left)) <= bound(exp(right)) else (left, high)
    return exp((low + high) / 2)


def _check_order(order: Number) -> Fraction:
    exact = to_rational(order, "order")
    if exact <= 1:
        raise BadParameter("order", order, "must exceed 1", "take an order above 1")
    return exact


def _check_amount(value: Number) -> Fraction:
    exact = to_rational(value, "amount of privacy loss")
    if exact < 0:
        raise BadParameter("amount of privacy loss", value, "must not be negative", "give 0 or more")
    return exact
