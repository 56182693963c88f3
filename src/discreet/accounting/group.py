"""A group of K units pushed into the facts themselves, where the fact still describes what the group can do.

The sum of K changes, each within a norm's bound, is within K times the bound (triangle inequality), and touches at most K
times as many coordinates. Composition: K units change every part by a group of K. What has no such form stays a `Group`.
"""

from fractions import Fraction

import msgspec

from discreet.accounting.elementary import LARGEST_EXPONENT, exp_bounds, round_up_bits
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
    PermuteAndFlipEvent,
    TruncatedGeometricEvent,
    compose,
    repeat,
)
from discreet.units import Sensitivity


def push_group(group: Group) -> Event:
    """The same guarantee without `Group` where that is possible.

    >>> fact = GaussianEvent(Fraction(10), Sensitivity(l2=1))
    >>> push_group(Group(fact, 3)) == GaussianEvent(Fraction(10), Sensitivity(l2=3))
    True
    """
    size = group.size
    match group.event:
        case Group(event=inner, size=inside):
            return push_group(Group(inner, inside * size))
        case inner if size == 1:
            return inner
        case (
            LaplaceEvent()
            | DiscreteLaplaceEvent()
            | TruncatedGeometricEvent()
            | GaussianEvent()
            | DiscreteGaussianEvent()
            | BinomialEvent() as noise
        ):
            return msgspec.structs.replace(noise, sensitivity=_scale_sensitivity(noise.sensitivity, size))
        case ExponentialEvent() | PermuteAndFlipEvent() as choice:
            return msgspec.structs.replace(choice, epsilon=choice.epsilon * size)
        case Claim(epsilon=epsilon, delta=delta):
            return Claim(size * epsilon, group_delta(epsilon, delta, size))
        case Composition(parts=parts):
            return compose(*(repeat(push_group(Group(part, size)), times) for part, times in parts))
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
    return min(Fraction(1), round_up_bits(delta * most * min(share, Fraction(size))))


def _scale_sensitivity(one: Sensitivity, size: int) -> Sensitivity:
    """Norms that stand for a sum of `size` changes.

    The changes may hit different coordinates, so a bound on their number is lost, except where each hits one: symmetric
    log-concave noise is told apart best when all of l1 sits on one coordinate (threshold tests: the power maps compose as
    G_s∘G_t = G_{s+t}), so one coordinate that moves by size·linf stands for every such sum.
    """
    return Sensitivity(
        l0=1 if one.l0 == 1 else None,
        l1=None if one.l1 is None else one.l1 * size,
        l2_squared=one.l2_squared * size**2,
        linf=one.linf * size,
    )
