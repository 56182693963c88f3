"""The least μ, rounded up, with Φ(−μ/2) ≤ c: a search that only accepts what it has proven.

With x = μ/2 two proofs are tried, one for each end. Small x: ½ − Φ(−x) ≥ (x/√2π)·Σ (−x²/2)^n/(n!(2n+1)) cut after a
negative term, in exact rationals. Large x: Φ(−x) ≤ φ(x)·R(x), in the logarithm, with scipy's erfcx under the error bound
stated in `gaussian`.
"""

from fractions import Fraction
from functools import lru_cache
from math import inf, log, pi, sqrt

from discreet.accounting.elementary import PRECISION, log_bounds
from discreet.accounting.gaussian import SPECIAL_ERROR
from discreet.accounting.search import smallest_where
from discreet.exact import floor_float, nearest_float, sqrt_up
from discreet.noise import fixed

SERIES_UP_TO = 0.5
_TERMS = 15  # odd: the last term taken is negative; at x = ½ the first one left out is below 2^-90
_NEGLIGIBLE = Fraction(1, 1 << 70)


@lru_cache(maxsize=4096)
def mu_squared_at(c: Fraction) -> Fraction | float:
    """μ² for the largest c in (0, 1/2] that the fixed point of a trade-off curve is proven to reach.

    >>> abs(float(mu_squared_at(Fraction("0.158655253931457"))) ** 0.5 - 2) < 1e-12  # Φ(−1)
    True
    """
    if c >= Fraction(1, 2):
        return Fraction(0)
    if c <= 0:
        return inf
    gap, log_c = Fraction(1, 2) - c, floor_float(log_bounds(c)[0])
    x = smallest_where(
        lambda x: _holds_by_series(x, gap) if x <= SERIES_UP_TO else _holds_by_tail(x, log_c),
        start=1.0,
        guess=_approximate(c, gap),
    )
    return inf if x == inf else (2 * Fraction(x)) ** 2


def _approximate(c: Fraction, gap: Fraction) -> float:
    """−Φ⁻¹(c), to a double's precision or nearly. Nothing rests on it but speed."""
    from scipy.special import erfinv, ndtri

    return float(sqrt(2) * erfinv(nearest_float(2 * gap)) if gap < Fraction(1, 4) else -ndtri(nearest_float(c)))


def _holds_by_series(x: float, gap: Fraction) -> bool:
    """½ − Φ(−x) ≥ gap?"""
    exact = Fraction(x)
    half_square, term, total = exact**2 / 2, Fraction(1), Fraction(1)
    for n in range(1, _TERMS + 1):
        term = -term * half_square / n
        total += term / (2 * n + 1)
        if n % 2 and -term < _NEGLIGIBLE:  # any odd n will do
            break
    return exact * total >= gap * _ROOT_TWO_PI


def _holds_by_tail(x: float, log_c: float) -> bool:
    """ln Φ(−x) ≤ ln c, with every rounding against us?"""
    from scipy.special import erfcx  # imported here: it takes longer than all the rest of discreet

    log_tail = log(float(erfcx(x / sqrt(2))) / 2 * (1 + SPECIAL_ERROR))
    half_square = x * x / 2
    return log_tail - half_square + 2.0**-50 * (1 + half_square + abs(log_tail)) <= log_c


_ROOT_TWO_PI = sqrt_up(Fraction(4 * (fixed.half_pi(PRECISION) + 1), 1 << PRECISION))
assert abs(float(_ROOT_TWO_PI) - sqrt(2 * pi)) < 1e-15
