"""Pure ε: the largest that the privacy loss ln P(E)/P'(E) can be, over all outcomes E and both directions."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import assert_never

from discreet._numbers import add_up, to_rational
from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.accounting.neighbours import to_replace_neighbours
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


def pure(event: Event) -> Fraction | float:
    """ε such that the event is ε-private; ∞ where there is none. Irrational values are rounded up.

    >>> from discreet import Laplace
    >>> pure(Laplace(10).event(1))
    Fraction(1, 10)
    """
    check_event(event)
    event = to_replace_neighbours(event)
    match event:
        case (
            LaplaceEvent(scale=scale, sensitivity=sensitivity)
            | DiscreteLaplaceEvent(scale=scale, sensitivity=sensitivity)
            | TruncatedGeometricEvent(scale=scale, sensitivity=sensitivity)
        ):
            # [DMNS06, Prop. 1]: ln p(o − x)/p(o − x') = (‖o − x'‖₁ − ‖o − x‖₁)/scale ≤ l1/scale; clamping is
            # post-processing. On integers the same triangle inequality holds for discrete Laplace noise [GRS09].
            return inf if sensitivity.l1 is None else sensitivity.l1 / scale
        case GaussianEvent() | DiscreteGaussianEvent() | BinomialEvent() | ThresholdEvent():
            return inf
        case RandomizedResponseEvent(truth=truth, choices=choices):
            return response_epsilon(truth, choices)
        case SetResponseEvent(odds=odds, share=share, pair=pair):
            # R(x)(y)/R(x')(y) is odds where the set y holds x alone, which has mass share − pair, 1/odds where it holds x'
            # alone, else 1.
            return log_bounds(odds)[1] if odds > 1 and share > pair else Fraction(0)
        case ExponentialEvent(epsilon=epsilon) | PermuteAndFlipEvent(epsilon=epsilon):
            return epsilon  # [MT07, Thm 6], [MS20, Thm 1]
        case OptimalPartitionSelectionEvent(epsilon=epsilon, delta=delta, groups=groups):
            return groups * epsilon if delta == 0 else inf
        case Claim(epsilon=epsilon, delta=delta):
            return epsilon if delta == 0 else inf
        case Composition(parts=parts):
            return add_up(times * pure(part) for part, times in parts)  # [DMNS06], basic composition
        case Parallel(branches=branches):
            return max((pure(branch) for branch in branches), default=Fraction(0))
        case Group(event=inner, size=size):
            return size * pure(inner)
        case Memoised():
            return pure(event.unconditional)
        case Shuffled(event=inner):
            return pure(inner)  # the multiset is post-processing of all reports, each by its sender
        case Subsampled(event=inner, rate=rate) | SampledWithoutReplacement(event=inner, rate=rate):
            return amplify(pure(inner), rate)
        case _:
            assert_never(event)


def amplify(epsilon: Fraction | float, rate: Fraction) -> Fraction | float:
    """ln(1 + rate·(e^ε − 1)) for a sample, rounded up; never above ε [BBG18, Thm 8: Poisson; Thm 9: without replacement]."""
    if rate in (0, 1) or epsilon in (0, inf):
        return Fraction(0) if rate == 0 else epsilon
    # 1 + q(e^ε − 1) = e^ε·(q + (1 − q)·e^-ε), whose last factor needs no large exponential.
    exact = to_rational(epsilon)
    return min(exact, exact + log_bounds(rate + (1 - rate) * exp_neg_bounds(exact)[1])[1])


def response_epsilon(truth: Fraction, choices: int) -> Fraction | float:
    """ln of the largest ratio of two answers' probabilities, truth : (1 − truth)/(choices − 1), rounded up [S4, B2]."""
    if truth in (0, 1):
        return inf
    odds = truth * (choices - 1) / (1 - truth)
    return log_bounds(max(odds, 1 / odds))[1]


def response_truth(epsilon: Fraction, choices: int) -> Fraction:
    """The probability of a true answer, e^ε/(e^ε + choices − 1), rounded down to 128 bits: ε-private."""
    wrong = (choices - 1) * exp_neg_bounds(epsilon)[1]
    return Fraction(int((1 << 128) / (1 + wrong)), 1 << 128)
