"""Gaussian DP: the least μ such that telling neighbours apart is as hard as telling N(0,1) from N(μ,1).

Additive noise other than the Gaussian is read by its most revealing symmetric test. Let G_μ be the trade-off curve of the
two Gaussians (false positives α against false negatives). α·G_μ(α) = Φ(−t)·Φ(t−μ) is log-concave in the threshold t and
symmetric about t = μ/2, so it is largest there: α·G_μ(α) ≤ Φ(−μ/2)². Take μ with Φ(−μ/2) ≤ c, where
- *Laplace*, ε = shift/scale, c = e^{−ε/2}/2: its curve has α·f(α) = c² for e^{−ε}/2 ≤ α ≤ 1/2, so G_μ ≤ f there; the
  rest are straight lines to (0,1) and (1,0), and G_μ is convex with the same ends;
- *discrete Laplace*, a = e^{−1/scale}, shift Δ whole, c = a^{(Δ+1)/2}/(1+a): the corners of its curve are the threshold
  tests α = a^t/(1+a), β = a^{Δ+1−t}/(1+a), t = 0…Δ+1, all with αβ = c², and then straight lines to (0,1) and (1,0);
- *any ε-private release*, c = 1/(1+e^ε): its curve lies above the lines through (0,1), (c,c) and (1,0).
The discrete Gaussian is *not* Δ/σ-GDP (at σ = 1 its total variation is 0.3989, the Gaussian's 0.3829): it reads ∞.
"""

from fractions import Fraction
from math import ceil, inf
from typing import assert_never

from discreet.accounting.elementary import exp_bounds
from discreet.accounting.fixed_point import mu_squared_at
from discreet.accounting.group import push_group
from discreet.accounting.pure import amplify, pure
from discreet.exact import sqrt_up, to_rational
from discreet.loss import (
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
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
    check_event,
)
from discreet.units import Sensitivity


def gdp(event: Event) -> Fraction | float:
    """μ such that the release is μ-GDP [DRS22, Def. 2.6]; ∞ where there is none. Rounded up.

    >>> from discreet.units import to_sensitivity
    >>> gdp(GaussianEvent(Fraction(10), to_sensitivity(1)) * 4)
    Fraction(1, 5)
    """
    squared = mu_squared(event)
    return inf if squared == inf else sqrt_up(to_rational(squared))


def mu_squared(event: Event) -> Fraction | float:
    """μ², which adds up under composition and stays rational for Gaussians."""
    check_event(event)
    match event:
        case GaussianEvent(sigma=sigma, sensitivity=moved):
            return moved.l2_squared / sigma**2  # [DRS22, Thm 2.7]
        case LaplaceEvent(scale=scale, sensitivity=moved):
            return _laplace(scale, moved)
        case DiscreteLaplaceEvent(scale=scale, sensitivity=moved) | TruncatedGeometricEvent(scale=scale, sensitivity=moved):
            return _discrete_laplace(scale, moved)  # clamping is post-processing
        case (
            RandomizedResponseEvent()
            | ExponentialEvent()
            | PermuteAndFlipEvent()
            | OptimalPartitionSelectionEvent()
            | Claim()
        ):
            return _from_pure(pure(event))
        case DiscreteGaussianEvent() | BinomialEvent() | ThresholdEvent():
            return inf
        case Composition(parts=parts):
            return sum((times * mu_squared(part) for part, times in parts if times), Fraction(0))  # [DRS22, Cor. 3.3]
        case Parallel(branches=branches):
            return max((mu_squared(branch) for branch in branches), default=Fraction(0))
        case Group(size=size):
            inner = push_group(event)
            # [DRS22, Thm 2.14 at μ-GDP]: a group of K is Kμ-GDP.
            return size**2 * mu_squared(event.event) if isinstance(inner, Group) else mu_squared(inner)
        case Subsampled(event=inner, rate=rate) | SampledWithoutReplacement(event=inner, rate=rate):
            # Mixing with the other law only lifts the trade-off curve: (1−q)(1−α) + q·f(α) ≥ f(α), and so its inverse.
            return Fraction(0) if rate == 0 else min(mu_squared(inner), _from_pure(amplify(pure(inner), rate)))
        case _:
            assert_never(event)


def _from_pure(epsilon: Fraction | float) -> Fraction | float:
    if epsilon == inf:
        return inf
    low, high = exp_bounds(-to_rational(epsilon))
    return mu_squared_at(low / (1 + high))


def _laplace(scale: Fraction, sensitivity: Sensitivity) -> Fraction | float:
    """All of l1 on one coordinate, or l0 coordinates moved by linf each: both dominate, the smaller one is read."""

    def one(shift: Fraction) -> Fraction | float:
        return mu_squared_at(exp_bounds(-shift / scale / 2)[0] / 2)

    whole = inf if sensitivity.l1 is None else one(sensitivity.l1)
    return whole if sensitivity.l0 is None else min(whole, sensitivity.l0 * one(sensitivity.linf))


def _discrete_laplace(scale: Fraction, sensitivity: Sensitivity) -> Fraction | float:
    _, high = exp_bounds(-1 / scale)

    def one(shift: Fraction) -> Fraction | float:
        return mu_squared_at(exp_bounds(-(ceil(shift) + 1) / scale / 2)[0] / (1 + high))

    whole = inf if sensitivity.l1 is None else min(one(sensitivity.l1), _from_pure(sensitivity.l1 / scale))
    return whole if sensitivity.l0 is None else min(whole, sensitivity.l0 * one(sensitivity.linf))
