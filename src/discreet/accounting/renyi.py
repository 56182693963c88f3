"""Rényi DP: D_α between the laws of neighbours, at most, in both directions, at one order α > 1 or at many."""

from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf
from typing import assert_never

import numpy as np

from discreet.accounting import renyi_laws, subsampling
from discreet.accounting.group import push_group
from discreet.accounting.pure import amplify, pure, response_epsilon
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.exact import Number, ceil_float, to_rational
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


def renyi(event: Event, order: Number) -> Fraction | float:
    """ε̄ such that the release is (order, ε̄)-RDP [Mir17, Def. 4]; ∞ where there is none. Rounded up. Order ∞ is pure ε.

    >>> from discreet.units import to_sensitivity
    >>> renyi(GaussianEvent(Fraction(10), to_sensitivity(1)), 20)
    Fraction(1, 10)
    """
    check_event(event)
    if isinstance(order, float) and order == inf:
        return pure(event)
    exact = to_rational(order, "order")
    if exact <= 1:
        raise BadParameter("order", order, "must exceed 1", "take an order above 1, or infinity for pure ε")
    return _renyi(event, exact)


def _renyi(event: Event, order: Fraction) -> Fraction | float:
    match event:
        case GaussianEvent(sigma=sigma, sensitivity=moved) | DiscreteGaussianEvent(sigma=sigma, sensitivity=moved):
            return order * moved.l2_squared / (2 * sigma**2)  # [Mir17, Prop. 7]; whole numbers [CKS20, Thm 4, Cor. 16]
        case LaplaceEvent(scale=scale, sensitivity=moved):
            return _laplace(scale, moved, order)
        case DiscreteLaplaceEvent(scale=scale, sensitivity=moved) | TruncatedGeometricEvent(scale=scale, sensitivity=moved):
            return _discrete_laplace(scale, moved, order)  # clamping is post-processing
        case RandomizedResponseEvent(truth=truth, choices=choices):
            return _response(truth, choices, order)
        case ExponentialEvent(epsilon=epsilon):
            return min(
                order * epsilon**2 / 8, renyi_laws.response_divergence(epsilon, order)
            )  # [CR21, Lemma 3.4], bounded range
        case PermuteAndFlipEvent() | Claim() | OptimalPartitionSelectionEvent():
            return renyi_from_pure(pure(event), order)
        case BinomialEvent() | ThresholdEvent():
            return inf  # outputs that only one neighbour can give
        case Composition(parts=parts):
            return sum((times * _renyi(part, order) for part, times in parts if times), Fraction(0))  # [Mir17, Prop. 1]
        case Parallel(branches=branches):
            return max((_renyi(branch, order) for branch in branches), default=Fraction(0))
        case Group():
            inner = push_group(event)
            if not isinstance(inner, Group):
                return _renyi(inner, order)
            return min(order * zcdp(inner), renyi_from_pure(pure(inner), order))
        case Subsampled(event=inner, rate=rate):
            return _renyi_subsampled(inner, rate, order)
        case SampledWithoutReplacement(event=inner, rate=rate):
            # [BBG18, Thm 9] through pure ε; and as D_α is jointly quasi-convex, sampling never hurts.
            return (
                Fraction(0) if rate == 0 else min(_renyi(inner, order), renyi_from_pure(amplify(pure(inner), rate), order))
            )
        case _:
            assert_never(event)


def renyi_from_pure(epsilon: Fraction | float, order: Fraction) -> Fraction | float:
    """Every ε-private pair is post-processing of binary randomised response [KOV15, at δ = 0]."""
    return inf if epsilon == inf else renyi_laws.response_divergence(to_rational(epsilon), order)


def _laplace(scale: Fraction, sensitivity: Sensitivity, order: Fraction) -> Fraction | float:
    """All of l1 on one coordinate, or l0 coordinates moved by linf each: both dominate, the smaller one is read."""
    whole = inf if sensitivity.l1 is None else renyi_laws.laplace_divergence(sensitivity.l1 / scale, order)
    return (
        whole
        if sensitivity.l0 is None
        else min(whole, sensitivity.l0 * renyi_laws.laplace_divergence(sensitivity.linf / scale, order))
    )


def _discrete_laplace(scale: Fraction, sensitivity: Sensitivity, order: Fraction) -> Fraction | float:
    whole = inf if sensitivity.l1 is None else renyi_laws.discrete_laplace_divergence(ceil(sensitivity.l1), scale, order)
    whole = whole if sensitivity.l1 is None else min(whole, renyi_laws.response_divergence(sensitivity.l1 / scale, order))
    if sensitivity.l0 is None:
        return whole
    return min(whole, sensitivity.l0 * renyi_laws.discrete_laplace_divergence(ceil(sensitivity.linf), scale, order))


def _response(truth: Fraction, choices: int, order: Fraction) -> Fraction | float:
    if truth in (0, 1):
        return inf
    wrong = (1 - truth) / (choices - 1)
    return renyi_laws.choice_divergence(to_rational(response_epsilon(truth, choices)), truth, wrong, choices, order)


def _renyi_subsampled(inner: Event, rate: Fraction, order: Fraction) -> Fraction | float:
    """The least of what the sample, its pure ε and no sampling at all give [proofs in `subsampling`]."""
    plain = _renyi(inner, order)
    if rate in (0, 1):
        return plain if rate else Fraction(0)
    if isinstance(inner, Subsampled):  # a sample of a sample is a sample
        return _renyi_subsampled(inner.event, inner.rate * rate, order)
    alpha = ceil_float(order)  # D_α grows with α
    best = min(plain, _amplify_moment(inner, rate, alpha))
    epsilon = pure(inner)
    return best if epsilon == inf else min(best, _amplify_moment(Claim(to_rational(epsilon), Fraction(0)), rate, alpha))


def _amplify_moment(inner: Event, rate: Fraction, alpha: float) -> float:
    below = floor(alpha)
    if ceil(alpha) > subsampling.MAX_ORDER or _integer_order(inner, 2) == inf:
        return inf
    moment = subsampling.interpolate_moment(
        alpha, below, _remove_moment(inner, rate, below), _remove_moment(inner, rate, ceil(alpha))
    )
    second = _integer_order(inner, 2)
    if alpha <= 2:
        moment = min(moment, subsampling.remove_moment_near_one(rate, alpha, second))
    if not _is_symmetric(inner):
        same = ceil_float(_renyi(inner, Fraction(alpha)))
        moment = max(moment, subsampling.add_moment(rate, alpha, second, same))
    return moment / (alpha - 1) * (1 + subsampling.SLACK)


def _remove_moment(inner: Event, rate: Fraction, order: int) -> float:
    if order == 1:
        return 0.0
    return subsampling.remove_moment(rate, order, np.array(_integer_orders(inner, order)))


def _integer_orders(inner: Event, order: int) -> list[float]:
    table = _order_table(inner)
    while len(table) < order - 1:
        table.append(ceil_float(_renyi(inner, Fraction(len(table) + 2))))
    return table[: order - 1]


def _integer_order(inner: Event, order: int) -> float:
    return _integer_orders(inner, order)[-1]


@lru_cache(maxsize=1 << 9)
def _order_table(inner: Event) -> list[float]:
    """D_2, D_3, … as far as anyone has asked: looked up once per release, not once per order."""
    return []


def _is_symmetric(inner: Event) -> bool:
    """Whether an involution swaps the two laws of every neighbouring pair, or of a pair that dominates it.

    Symmetric noise about x and about x' swaps under o → x + x' − o; two answers of a response swap; what is read through its
    pure ε is read as a binary response. Adaptively composed Gaussians are dominated by a single one [DRS22, Cor. 3.3].
    """
    match inner:
        case (
            LaplaceEvent()
            | DiscreteLaplaceEvent()
            | TruncatedGeometricEvent()
            | GaussianEvent()
            | DiscreteGaussianEvent()
            | RandomizedResponseEvent()
            | PermuteAndFlipEvent()
            | Claim()
            | OptimalPartitionSelectionEvent()
        ):
            return True
        case Composition(parts=parts):
            return all(isinstance(part, GaussianEvent) for part, _ in parts)
        case Group():
            deeper = push_group(inner)
            return not isinstance(deeper, Group) and _is_symmetric(deeper)
        case _:
            return False
