"""Rényi DP: D_α between the laws of neighbours, at most, in both directions, at one order α > 1 or at many."""

from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf
from typing import assert_never

import numpy as np

from discreet.accounting import renyi_laws, subsampling
from discreet.accounting.group import pushed
from discreet.accounting.pure import amplified, pure, response_epsilon
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.exact import Number, ceil_float, rational
from discreet.loss import (
    BinomialLoss,
    Claim,
    Composition,
    DiscreteGaussianLoss,
    DiscreteLaplaceLoss,
    ExponentialLoss,
    GaussianLoss,
    Group,
    KeepLoss,
    LaplaceLoss,
    Loss,
    Parallel,
    PermuteAndFlipLoss,
    ResponseLoss,
    SampledWithoutReplacement,
    Subsampled,
    ThresholdLoss,
    TruncatedGeometricLoss,
    check_event,
)
from discreet.units import Sensitivity


def renyi(loss: Loss, order: Number) -> Fraction | float:
    """ε̄ such that the release is (order, ε̄)-RDP [Mir17, Def. 4]; ∞ where there is none. Rounded up. Order ∞ is pure ε.

    >>> from discreet.units import sensitivity
    >>> renyi(GaussianLoss(Fraction(10), sensitivity(1)), 20)
    Fraction(1, 10)
    """
    check_event(loss)
    if isinstance(order, float) and order == inf:
        return pure(loss)
    exact = rational(order, "order")
    if exact <= 1:
        raise BadParameter("order", order, "must exceed 1", "take an order above 1, or infinity for pure ε")
    return _renyi(loss, exact)


def _renyi(loss: Loss, order: Fraction) -> Fraction | float:
    match loss:
        case GaussianLoss(sigma=sigma, sensitivity=moved) | DiscreteGaussianLoss(sigma=sigma, sensitivity=moved):
            return order * moved.l2_squared / (2 * sigma**2)  # [Mir17, Prop. 7]; whole numbers [CKS20, Thm 4, Cor. 16]
        case LaplaceLoss(scale=scale, sensitivity=moved):
            return _laplace(scale, moved, order)
        case DiscreteLaplaceLoss(scale=scale, sensitivity=moved) | TruncatedGeometricLoss(scale=scale, sensitivity=moved):
            return _discrete_laplace(scale, moved, order)  # clamping is post-processing
        case ResponseLoss(truth=truth, choices=choices):
            return _response(truth, choices, order)
        case ExponentialLoss(epsilon=epsilon):
            return min(order * epsilon**2 / 8, renyi_laws.response(epsilon, order))  # [CR21, Lemma 3.4], bounded range
        case PermuteAndFlipLoss() | Claim() | KeepLoss():
            return from_pure(pure(loss), order)
        case BinomialLoss() | ThresholdLoss():
            return inf  # outputs that only one neighbour can give
        case Composition(parts=parts):
            return sum((times * _renyi(part, order) for part, times in parts if times), Fraction(0))  # [Mir17, Prop. 1]
        case Parallel(branches=branches):
            return max((_renyi(branch, order) for branch in branches), default=Fraction(0))
        case Group():
            inner = pushed(loss)
            if not isinstance(inner, Group):
                return _renyi(inner, order)
            return min(order * zcdp(inner), from_pure(pure(inner), order))
        case Subsampled(loss=inner, rate=rate):
            return _subsampled(inner, rate, order)
        case SampledWithoutReplacement(loss=inner, rate=rate):
            # [BBG18, Thm 9] through pure ε; and as D_α is jointly quasi-convex, sampling never hurts.
            return Fraction(0) if rate == 0 else min(_renyi(inner, order), from_pure(amplified(pure(inner), rate), order))
        case _:
            assert_never(loss)


def from_pure(epsilon: Fraction | float, order: Fraction) -> Fraction | float:
    """Every ε-private pair is post-processing of binary randomised response [KOV15, at δ = 0]."""
    return inf if epsilon == inf else renyi_laws.response(rational(epsilon), order)


def _laplace(scale: Fraction, moved: Sensitivity, order: Fraction) -> Fraction | float:
    """All of l1 on one coordinate, or l0 coordinates moved by linf each: both dominate, the smaller one is read."""
    whole = inf if moved.l1 is None else renyi_laws.laplace(moved.l1 / scale, order)
    return whole if moved.l0 is None else min(whole, moved.l0 * renyi_laws.laplace(moved.linf / scale, order))


def _discrete_laplace(scale: Fraction, moved: Sensitivity, order: Fraction) -> Fraction | float:
    whole = inf if moved.l1 is None else renyi_laws.discrete_laplace(ceil(moved.l1), scale, order)
    whole = whole if moved.l1 is None else min(whole, renyi_laws.response(moved.l1 / scale, order))
    if moved.l0 is None:
        return whole
    return min(whole, moved.l0 * renyi_laws.discrete_laplace(ceil(moved.linf), scale, order))


def _response(truth: Fraction, choices: int, order: Fraction) -> Fraction | float:
    if truth in (0, 1):
        return inf
    wrong = (1 - truth) / (choices - 1)
    return renyi_laws.choice(rational(response_epsilon(truth, choices)), truth, wrong, choices, order)


def _subsampled(inner: Loss, rate: Fraction, order: Fraction) -> Fraction | float:
    """The least of what the sample, its pure ε and no sampling at all give [proofs in `subsampling`]."""
    plain = _renyi(inner, order)
    if rate in (0, 1):
        return plain if rate else Fraction(0)
    if isinstance(inner, Subsampled):  # a sample of a sample is a sample
        return _subsampled(inner.loss, inner.rate * rate, order)
    alpha = ceil_float(order)  # D_α grows with α
    best = min(plain, _amplified(inner, rate, alpha))
    epsilon = pure(inner)
    return best if epsilon == inf else min(best, _amplified(Claim(rational(epsilon), Fraction(0)), rate, alpha))


def _amplified(inner: Loss, rate: Fraction, alpha: float) -> float:
    below = floor(alpha)
    if ceil(alpha) > subsampling.MOST_TERMS or _whole_order(inner, 2) == inf:
        return inf
    moment = subsampling.between(alpha, below, _removed(inner, rate, below), _removed(inner, rate, ceil(alpha)))
    second = _whole_order(inner, 2)
    if alpha <= 2:
        moment = min(moment, subsampling.near_one(rate, alpha, second))
    if not _mirrored(inner):
        same = ceil_float(_renyi(inner, Fraction(alpha)))
        moment = max(moment, subsampling.add_moment(rate, alpha, second, same))
    return moment / (alpha - 1) * (1 + subsampling.SLACK)


def _removed(inner: Loss, rate: Fraction, order: int) -> float:
    if order == 1:
        return 0.0
    return subsampling.remove_moment(rate, order, np.array(_whole_orders(inner, order)))


def _whole_orders(inner: Loss, order: int) -> list[float]:
    table = _table(inner)
    while len(table) < order - 1:
        table.append(ceil_float(_renyi(inner, Fraction(len(table) + 2))))
    return table[: order - 1]


def _whole_order(inner: Loss, order: int) -> float:
    return _whole_orders(inner, order)[-1]


@lru_cache(maxsize=1 << 9)
def _table(inner: Loss) -> list[float]:
    """D_2, D_3, … as far as anyone has asked: looked up once per release, not once per order."""
    return []


def _mirrored(inner: Loss) -> bool:
    """Whether an involution swaps the two laws of every neighbouring pair, or of a pair that dominates it.

    Symmetric noise about x and about x' swaps under o → x + x' − o; two answers of a response swap; what is read through its
    pure ε is read as a binary response. Adaptively composed Gaussians are dominated by a single one [DRS22, Cor. 3.3].
    """
    match inner:
        case (
            LaplaceLoss()
            | DiscreteLaplaceLoss()
            | TruncatedGeometricLoss()
            | GaussianLoss()
            | DiscreteGaussianLoss()
            | ResponseLoss()
            | PermuteAndFlipLoss()
            | Claim()
            | KeepLoss()
        ):
            return True
        case Composition(parts=parts):
            return all(isinstance(part, GaussianLoss) for part, _ in parts)
        case Group():
            deeper = pushed(inner)
            return not isinstance(deeper, Group) and _mirrored(deeper)
        case _:
            return False
