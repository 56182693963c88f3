"""A group of K units pushed into the facts themselves, where the fact still describes what the group can do.

The sum of K changes, each within a norm's bound, is within K times the bound (triangle inequality), and touches at most K
times as many coordinates. Composition: K units change every part by a group of K. What has no such form stays a `Group`.
"""

from fractions import Fraction

import msgspec

from discreet.accounting.elementary import LARGEST_EXPONENT, exp_bounds, shorter
from discreet.loss import (
    BinomialLoss,
    Claim,
    Composition,
    DiscreteGaussianLoss,
    DiscreteLaplaceLoss,
    ExponentialLoss,
    GaussianLoss,
    Group,
    LaplaceLoss,
    Loss,
    PermuteAndFlipLoss,
    TruncatedGeometricLoss,
    compose,
    repeat,
)
from discreet.units import Sensitivity


def pushed(group: Group) -> Loss:
    """The same guarantee without `Group` where that is possible.

    >>> fact = GaussianLoss(Fraction(10), Sensitivity(l2=1))
    >>> pushed(Group(fact, 3)) == GaussianLoss(Fraction(10), Sensitivity(l2=3))
    True
    """
    size = group.size
    match group.loss:
        case Group(loss=inner, size=inside):
            return pushed(Group(inner, inside * size))
        case inner if size == 1:
            return inner
        case (
            LaplaceLoss()
            | DiscreteLaplaceLoss()
            | TruncatedGeometricLoss()
            | GaussianLoss()
            | DiscreteGaussianLoss()
            | BinomialLoss() as noise
        ):
            return msgspec.structs.replace(noise, sensitivity=_many(noise.sensitivity, size))
        case ExponentialLoss() | PermuteAndFlipLoss() as choice:
            return msgspec.structs.replace(choice, epsilon=choice.epsilon * size)
        case Claim(epsilon=epsilon, delta=delta):
            return Claim(size * epsilon, group_delta(epsilon, delta, size))
        case Composition(parts=parts):
            return compose(*(repeat(pushed(Group(part, size)), times) for part, times in parts))
        case _:
            return group


def group_delta(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    """δ·(1 + e^ε + … + e^{(K−1)ε}), rounded up, at most 1 [B2; DR14, Thm 2.2 and its proof for δ > 0].

    >>> group_delta(Fraction(0), Fraction(1, 100), 3)
    Fraction(3, 100)
    """
    if delta == 0 or epsilon == 0:
        return min(Fraction(1), delta * size)
    if (size - 1) * epsilon > LARGEST_EXPONENT:
        return Fraction(1)
    # (e^{Kε} − 1)/(e^ε − 1) = e^{(K−1)ε}·(1 − e^{−Kε})/(1 − e^{−ε}), and no more than K·e^{(K−1)ε}.
    most = exp_bounds((size - 1) * epsilon)[1]
    share = (1 - exp_bounds(-size * epsilon)[0]) / (1 - exp_bounds(-epsilon)[1]) if epsilon > 2**-60 else size
    return min(Fraction(1), shorter(delta * most * min(share, Fraction(size))))


def _many(one: Sensitivity, size: int) -> Sensitivity:
    return Sensitivity(
        l0=None if one.l0 is None else one.l0 * size,
        l1=None if one.l1 is None else one.l1 * size,
        l2_squared=one.l2_squared * size**2,
        linf=one.linf * size,
    )
