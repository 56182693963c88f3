"""Gaussian DP: the least μ such that distinguishing neighbours is as hard as distinguishing N(0,1) from N(μ,1).

**Theory of operation.** Additive noise other than the Gaussian is bounded by its most revealing symmetric test. Let G_μ be
the trade-off curve of the two Gaussians (false positives α against false negatives). α·G_μ(α) = Φ(−t)·Φ(t−μ) is log-concave
in the threshold t and symmetric about t = μ/2, so it is largest there: α·G_μ(α) ≤ Φ(−μ/2)². Take μ with Φ(−μ/2) ≤ c, where
- *Laplace*, ε = shift/scale, c = e^{−ε/2}/2: its curve has α·f(α) = c² for e^{−ε}/2 ≤ α ≤ 1/2, so G_μ ≤ f there; the
  rest are straight lines to (0,1) and (1,0), and G_μ is convex with the same ends;
- *discrete Laplace*, a = e^{−1/scale}, integer shift Δ, c = a^{(Δ+1)/2}/(1+a): the corners of its curve are the threshold
  tests α = a^t/(1+a), β = a^{Δ+1−t}/(1+a), t = 0…Δ+1, all with αβ = c², and then straight lines to (0,1) and (1,0);
- *any ε-private event*, c = 1/(1+e^ε): its curve lies above the lines through (0,1), (c,c) and (1,0).
The discrete Gaussian is *not* Δ/σ-GDP (at σ = 1 its total variation is 0.3989, the Gaussian's 0.3829): its μ is ∞.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, inf, log, pi, sqrt
from typing import assert_never

from discreet._numbers import add_up, floor_float, nearest_float, smallest_where, sqrt_up, to_rational
from discreet.accounting.elementary import PRECISION, exp_bounds, log_bounds
from discreet.accounting.neighbours import to_replace_neighbours
from discreet.accounting.pure import amplify, pure
from discreet.accounting.rewrite import push_group
from discreet.events import (
    BinomialEvent,
    Claim,
    Composition,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    Memoised,
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    SetResponseEvent,
    Shuffled,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
    check_event,
)
from discreet.noise import fixed
from discreet.units import Sensitivity

SERIES_UP_TO = 0.5
_TERMS = 15  # odd: the last term taken is negative; at x = ½ the first one left out is below 2^-90
_PLACES = 192  # binary places of the series: far finer than a double's x
_NEGLIGIBLE = 1 << (_PLACES - 70)


def gdp(event: Event) -> Fraction | float:
    """μ such that the event is μ-GDP [DRS22, Def. 2.6]; ∞ where there is none. Rounded up.

    >>> from discreet.units import to_sensitivity
    >>> gdp(GaussianEvent(Fraction(10), to_sensitivity(1)) * 4)
    Fraction(1, 5)
    """
    squared = mu_squared(event)
    return inf if squared == inf else sqrt_up(to_rational(squared))


def mu_squared(event: Event) -> Fraction | float:
    """μ², which adds up under composition and stays rational for Gaussians."""
    check_event(event)
    event = to_replace_neighbours(event)
    match event:
        case GaussianEvent(sigma=sigma, sensitivity=sensitivity):
            return sensitivity.l2_squared / sigma**2  # [DRS22, Thm 2.7]
        case LaplaceEvent(scale=scale, sensitivity=sensitivity):
            return _laplace(scale, sensitivity)
        case (
            DiscreteLaplaceEvent(scale=scale, sensitivity=sensitivity)
            | TruncatedGeometricEvent(scale=scale, sensitivity=sensitivity)
        ):
            return _discrete_laplace(scale, sensitivity)  # clamping is post-processing
        case (
            RandomizedResponseEvent()
            | SetResponseEvent()
            | Shuffled()
            | ExponentialEvent()
            | PermuteAndFlipEvent()
            | OptimalPartitionSelectionEvent()
            | Claim()
        ):
            return _from_pure(pure(event))
        case DiscreteGaussianEvent() | BinomialEvent() | ThresholdEvent():
            return inf
        case Composition(parts=parts):
            return add_up(times * mu_squared(part) for part, times in parts if times)  # [DRS22, Cor. 3.3]
        case Parallel(branches=branches):
            return max((mu_squared(branch) for branch in branches), default=Fraction(0))
        case Group(size=size):
            inner = push_group(event)
            # [DRS22, Thm 2.14 at μ-GDP]: a group of K is Kμ-GDP.
            return size**2 * mu_squared(event.event) if isinstance(inner, Group) else mu_squared(inner)
        case Memoised():
            return mu_squared(event.unconditional)
        case Subsampled(event=inner, rate=rate) | SampledWithoutReplacement(event=inner, rate=rate):
            # Mixing with the other distribution only lifts the trade-off curve: (1−q)(1−α) + q·f(α) ≥ f(α), and so its
            # inverse.
            return Fraction(0) if rate == 0 else min(mu_squared(inner), _from_pure(amplify(pure(inner), rate)))
        case _:
            assert_never(event)


def _from_pure(epsilon: Fraction | float) -> Fraction | float:
    if epsilon == inf:
        return inf
    low, high = exp_bounds(-to_rational(epsilon))
    return mu_squared_at(low / (1 + high))


def _laplace(scale: Fraction, sensitivity: Sensitivity) -> Fraction | float:
    """All of l1 on one coordinate, or l0 coordinates moved by linf each: both dominate, the smaller one is taken."""

    def one(shift: Fraction) -> Fraction | float:
        return mu_squared_at(exp_bounds(-shift / scale / 2)[0] / 2)

    one_shift = inf if sensitivity.l1 is None else one(sensitivity.l1)
    return one_shift if sensitivity.l0 is None else min(one_shift, sensitivity.l0 * one(sensitivity.linf))


def _discrete_laplace(scale: Fraction, sensitivity: Sensitivity) -> Fraction | float:
    _, high = exp_bounds(-1 / scale)

    def one(shift: Fraction) -> Fraction | float:
        return mu_squared_at(exp_bounds(-(ceil(shift) + 1) / scale / 2)[0] / (1 + high))

    one_shift = inf if sensitivity.l1 is None else min(one(sensitivity.l1), _from_pure(sensitivity.l1 / scale))
    return one_shift if sensitivity.l0 is None else min(one_shift, sensitivity.l0 * one(sensitivity.linf))


@lru_cache(maxsize=4096)
def mu_squared_at(c: Fraction) -> Fraction | float:
    """The least μ², rounded up, with Φ(−μ/2) ≤ c, c in (0, 1/2]: a search that only accepts what it has proven.

    With x = μ/2 two proofs are tried, one for each end. Small x: ½ − Φ(−x) ≥ (x/√2π)·Σ (−x²/2)^n/(n!(2n+1)) cut after a
    negative term, in fixed point. Large x: Φ(−x) ≤ φ(x)·R(x), in the logarithm, with scipy's erfcx under the error bound
    stated in `pld`.

    >>> abs(float(mu_squared_at(Fraction("0.158655253931457"))) ** 0.5 - 2) < 1e-12  # Φ(−1)
    True
    """
    if c >= Fraction(1, 2):
        return Fraction(0)
    if c <= 0:
        return inf
    gap, log_c = Fraction(1, 2) - c, floor_float(log_bounds(c)[0])
    scaled = gap * _ROOT_TWO_PI
    needed = -(-(scaled.numerator << _PLACES) // scaled.denominator)
    x = smallest_where(
        lambda x: _holds_by_series(x, needed) if x <= SERIES_UP_TO else _holds_by_tail(x, log_c),
        start=1.0,
        guess=_approximate(c, gap),
    )
    return inf if x == inf else (2 * Fraction(x)) ** 2


def _approximate(c: Fraction, gap: Fraction) -> float:
    """−Φ⁻¹(c), to a double's precision or nearly; only speed depends on it."""
    from scipy.special import erfinv, ndtri

    return float(sqrt(2) * erfinv(nearest_float(2 * gap)) if gap < Fraction(1, 4) else -ndtri(nearest_float(c)))


def _holds_by_series(x: float, needed: int) -> bool:
    """√2π·(½ − Φ(−x)) ≥ needed/2^192, for 0 < x ≤ ½?

    All is in units of 2^-192, and cut downwards. What x²/2 ≤ 1/8 lacks is below 1. So what the n-th term lacks is below
    2: it is an eighth of what the one before lacks, and less than 1 for x²/2, both divided by n, and less than 1 for its
    own cut. Each of at most 15 shares then lacks less than 2, and the sum is off by less than 32.
    """
    m, below = x.as_integer_ratio()
    half_square = (m * m << _PLACES) // (2 * below * below)
    term = total = 1 << _PLACES
    for n in range(1, _TERMS + 1):
        term = (term * half_square >> _PLACES) // n
        if n % 2:
            total -= term // (2 * n + 1)
            if term < _NEGLIGIBLE:  # any odd n will do
                break
        else:
            total += term // (2 * n + 1)
    return m * (total - 32) >= needed * below


def _holds_by_tail(x: float, log_c: float) -> bool:
    """ln Φ(−x) ≤ ln c, with every rounding against us?"""
    from scipy.special import erfcx  # imported here: it takes longer than all the rest of discreet

    from discreet.accounting.pld import SPECIAL_ERROR

    log_tail = log(float(erfcx(x / sqrt(2))) / 2 * (1 + SPECIAL_ERROR))
    half_square = x * x / 2
    return log_tail - half_square + 2.0**-50 * (1 + half_square + abs(log_tail)) <= log_c


_ROOT_TWO_PI = sqrt_up(Fraction(4 * (fixed.half_pi(PRECISION) + 1), 1 << PRECISION))
assert abs(float(_ROOT_TWO_PI) - sqrt(2 * pi)) < 1e-15
