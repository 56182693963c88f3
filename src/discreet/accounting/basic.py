"""Basic composition: one (ε, δ) point by sums of ε and sums of δ, without any trade between the two.

Noise without a finite ε (Gaussian, binomial) has no basic point: ε is ∞ there; use the certified curve (`curve`) instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import assert_never

import msgspec

from discreet._numbers import ceil_float, to_rational
from discreet.accounting.elementary import probability_of_any, singleton_probability
from discreet.accounting.neighbours import to_replace_neighbours
from discreet.accounting.pure import amplify, pure
from discreet.accounting.rewrite import group_delta, push_group
from discreet.events import (
    NO_EVENT,
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
    compose,
    repeat,
)
from discreet.units import to_sensitivity


@dataclass(frozen=True, slots=True)
class Point:
    """P(E) ≤ e^epsilon·P'(E) + delta for every event, in both directions."""

    epsilon: Fraction | float
    delta: Fraction | float

    def __iter__(self) -> Iterator[float]:  # `epsilon, delta = point` gives doubles, rounded up
        yield ceil_float(self.epsilon)
        yield ceil_float(self.delta)


def basic_composition(event: Event) -> Point:
    """Σε and Σδ [DKMMN06, basic composition]; a mass of δ beside an ε-private core is (ε, δ)-private.

    The last step is, for an outcome E, P(E) ≤ (1−δ)·P'(E) + δ ≤ e^ε·(1−δ)·Q'(E) + δ ≤ e^ε·Q(E) + δ.

    >>> from discreet.events import Claim
    >>> basic_composition(Claim(Fraction(1, 2), Fraction(1, 10**6)) * 3)
    Point(epsilon=Fraction(3, 2), delta=Fraction(3, 1000000))
    """
    return compose_basically(*split_delta(event))


def compose_basically(core: Event, delta: Fraction) -> Point:
    """The same of an event that is already split."""
    return Point(Fraction(0), Fraction(1)) if delta >= 1 else Point(pure(core), delta)


def split_delta(event: Event) -> tuple[Event, Fraction]:
    """Split an event into a core without any δ of claims and partition selection, and that δ, rounded up, at most 1.

    P = (1 − δ)·P' + δ·P'' and Q = (1 − δ)·Q' + δ·Q'', in both directions. Only the pair (P', Q') of the core needs a bound
    then, in any notion. δ-approximate zCDP [BS16, Def. 8.1] is this form, and so is (ε, δ): every (ε, δ)-private pair is
    such a mixture with an ε-private core [KOV15: randomised response that reveals the truth with probability δ dominates
    them all]. δ may be overstated: if δ ≤ δ* then the rest of δ* is cut from the core in equal shares of P' and Q'.

    >>> split_delta(Claim(Fraction(1), Fraction(1, 1000)))
    (Claim(epsilon=Fraction(1, 1), delta=Fraction(0, 1)), Fraction(1, 1000))
    """
    check_event(event)
    event = to_replace_neighbours(event)
    match event:
        case Claim(epsilon=epsilon, delta=delta):
            return Claim(epsilon, Fraction(0)), min(Fraction(1), delta)
        case OptimalPartitionSelectionEvent(epsilon=epsilon, delta=delta, groups=groups):
            return repeat(Claim(epsilon, Fraction(0)), groups), probability_of_any(delta, groups)
        case ThresholdEvent(scale=scale, threshold=threshold, groups=groups):
            # One unit is in at most `groups` keys. Where others hold the key too, the decision is post-processing of a
            # count plus discrete Laplace noise. Where it is alone, the key is shown with probability p if it is there and
            # never if it is not: δ = p and a core in which nothing is shown. Charging both to every key covers both.
            count = DiscreteLaplaceEvent(scale, to_sensitivity(1))
            return repeat(count, groups), probability_of_any(singleton_probability(scale, threshold), groups)
        case Composition(parts=parts):
            splits = [(split_delta(part), times) for part, times in parts]
            if all(core is part and not delta for ((core, delta), _), (part, _) in zip(splits, parts, strict=True)):
                return event, Fraction(0)  # nothing was split off, and nothing is to be put together
            total = sum((delta * times for (_, delta), times in splits), Fraction(0))
            return compose(*(repeat(core, times) for (core, _), times in splits)), min(Fraction(1), total)
        case Parallel(branches=branches):
            cores = [split_delta(branch) for branch in branches]
            return Parallel(tuple(core for core, _ in cores)), max((delta for _, delta in cores), default=Fraction(0))
        case Group():
            return _split_group(event)
        case Memoised():
            return split_delta(event.unconditional)
        case Subsampled(event=inner, rate=rate):
            return _split_poisson(event, inner, rate)
        case SampledWithoutReplacement(event=inner, rate=rate):
            return _split_without_replacement(event, inner, rate)
        case (
            LaplaceEvent()
            | DiscreteLaplaceEvent()
            | TruncatedGeometricEvent()
            | GaussianEvent()
            | DiscreteGaussianEvent()
            | BinomialEvent()
            | RandomizedResponseEvent()
            | SetResponseEvent()
            | Shuffled()
            | ExponentialEvent()
            | PermuteAndFlipEvent()
        ):
            return event, Fraction(0)
        case _:
            assert_never(event)


def _split_group(event: Group) -> tuple[Event, Fraction]:
    inner = push_group(event)
    if not isinstance(inner, Group):
        return split_delta(inner)
    core, delta = split_delta(inner.event)
    if delta == 0:
        return msgspec.structs.replace(inner, event=core), delta
    epsilon = pure(core)
    if epsilon == inf:  # no group rule is proven for a δ beside an unbounded core
        return NO_EVENT, Fraction(1)
    exact = to_rational(epsilon)
    return Claim(inner.size * exact, Fraction(0)), group_delta(exact, delta, inner.size)


def _split_poisson(event: Event, inner: Event, rate: Fraction) -> tuple[Event, Fraction]:
    core, delta = split_delta(inner)
    if delta == 0:
        return event if core is inner else Subsampled(core, rate), delta
    epsilon = pure(core)
    if epsilon == inf:  # (1−q)Q + qP is the same mixture with the same δ, and its core is the sampled core
        return Subsampled(core, rate), delta
    return Claim(to_rational(amplify(epsilon, rate)), Fraction(0)), rate * delta  # [BBG18, Thm 8]


def _split_without_replacement(event: Event, inner: Event, rate: Fraction) -> tuple[Event, Fraction]:
    """Given the others who are sampled the pair is (1 − q)·(R, R) + q·(P, P'), R being the output without the replaced unit.
    If (P, P') has a mass δ, then this has qδ, and the rest mixes the core with (R, R), which reveals nothing."""
    core, delta = split_delta(inner)
    if delta == 0:
        return event if core is inner else SampledWithoutReplacement(core, rate), delta
    epsilon = pure(core)
    if epsilon == inf:
        return core, rate * delta
    return Claim(to_rational(amplify(epsilon, rate)), Fraction(0)), rate * delta  # [BBG18, Thm 9]
