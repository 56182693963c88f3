"""Rewriting an event into alternatives, each a plain composition: `Group` and nested samples disappear, `Parallel` too where
it stands alone.

**Theory of operation.** The worst neighbours are those of the worst alternative, so δ(ε) is the largest over the
alternatives (`list_alternatives`). Every rewriting is either an identity or replaces an event by one that dominates it; each
says why, and which neighbours it covers. Where an alternative only dominates, `find_attained_event` gives an event whose
worst neighbours are among those of the original one, which bounds the curve from below.

*Groups.* Neighbours that differ in up to K units are all pairs with |D △ D'| ≤ K: i units that are only in D and j that are
only in D', i + j ≤ K. A group of two is also a replaced pair. Noise that treats both directions alike sees K changes in
either case; a Poisson sample does not (`GroupShape`).

*Adaptive queries.* A unit is in one branch of a `Parallel`, but in which one may depend on earlier answers if the partition
was chosen after seeing them. So in a composition a `Parallel` stays a part of its own, whose bounds hold for every branch at
once; only alone it is as many alternatives.
"""

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from fractions import Fraction
from math import floor, isqrt
from typing import TypeAlias, assert_never

import msgspec

from discreet._numbers import to_rational
from discreet.accounting.elementary import (
    LARGEST_EXPONENT,
    exp_bounds,
    log_bounds,
    probability_of_any,
    round_up_bits,
    singleton_probability,
    sqrt_down,
)
from discreet.accounting.neighbours import has_replacement, to_replace_neighbours
from discreet.accounting.pure import pure
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
    compose,
    contains_shuffled,
    repeat,
    subsample_without_replacement,
)
from discreet.units import Sensitivity, to_sensitivity

Change: TypeAlias = tuple[tuple[Fraction, int], ...]
"""(shift, number of coordinates that move by it), largest shift first."""

AdditiveNoiseEvent: TypeAlias = (
    LaplaceEvent | DiscreteLaplaceEvent | TruncatedGeometricEvent | DiscreteGaussianEvent | BinomialEvent
)
"""Noise that is added to every coordinate, and treats the coordinates apart."""

INTEGER_NOISE = (DiscreteLaplaceEvent, TruncatedGeometricEvent, DiscreteGaussianEvent, BinomialEvent)

_NESTED = (Composition, Parallel, Group, Subsampled, SampledWithoutReplacement, Memoised)


def find_attained_change(event: AdditiveNoiseEvent | GaussianEvent) -> Change:
    """A long change that *all* norms, and the range of a truncated mechanism, allow: what a lower end may lean on. It is
    empty where integers cannot move.

    A `Sensitivity` states up to four norms of one change. A change that meets one of them and breaks another is no
    neighbour, so a bound from below must come from a vector within all of them. The longest such vector moves as many
    coordinates as possible by as much as possible (a convex function is largest at a corner): n coordinates by r and one by
    what is left.

    >>> find_attained_change(LaplaceEvent(Fraction(1), Sensitivity(l0=5, l1=20, linf=8)))
    ((Fraction(8, 1), 2), (Fraction(4, 1), 1))
    >>> find_attained_change(DiscreteLaplaceEvent(Fraction(1), Sensitivity(l0=3, l1=Fraction(5, 2), linf=Fraction(3, 2))))
    ((Fraction(1, 1), 2),)
    """
    norms, integers = event.sensitivity, isinstance(event, INTEGER_NOISE)
    sums = [] if norms.l1 is None else [norms.l1]
    if integers:
        limits = [floor(norms.linf), isqrt(floor(norms.l2_squared)), *map(floor, sums)]
        each = Fraction(min([*limits, event.upper - event.lower] if isinstance(event, TruncatedGeometricEvent) else limits))
        if each < 1:
            return ()
    else:
        each = norms.linf if norms.linf**2 <= norms.l2_squared else sqrt_down(norms.l2_squared)
    counts = [floor(norms.l2_squared / each**2), *(floor(bound / each) for bound in sums)]
    count = max(1, min(counts if norms.l0 is None else [*counts, norms.l0]))
    rest = min([each, *(bound - count * each for bound in sums)]) if count != norms.l0 else Fraction(0)
    if rest > 0:
        square = max(Fraction(0), norms.l2_squared - count * each**2)
        rest = Fraction(min(floor(rest), isqrt(floor(square)))) if integers else min(rest, sqrt_down(square))
    return ((each, count), (rest, 1)) if rest > 0 else ((each, count),)


def max_squared_length(event: GaussianEvent) -> Fraction:
    """The largest square of the Euclidean length of a real vector within all norms."""
    limit = event.sensitivity.l2_squared
    found = sum((count * shift**2 for shift, count in find_attained_change(event)), Fraction(0))
    return limit if found >= limit * (1 - Fraction(1, 1 << 40)) else found  # roots are rounded down


def push_group(group: Group) -> Event:
    """The same guarantee without `Group`, where an event still describes what the group can do.

    The sum of K changes, each within a norm's bound, is within K times the bound (triangle inequality), and touches at most
    K times as many coordinates. Composition: K units change every part by a group of K. What has no such form stays a
    `Group`.

    >>> event = GaussianEvent(Fraction(10), Sensitivity(l2=1))
    >>> push_group(Group(event, 3)) == GaussianEvent(Fraction(10), Sensitivity(l2=3))
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
    log-concave noise is easiest to distinguish when all of l1 sits on one coordinate (threshold tests: the power maps
    compose as G_s∘G_t = G_{s+t}), so one coordinate that moves by size·linf stands for every such sum.
    """
    return Sensitivity(
        l0=1 if one.l0 == 1 else None,
        l1=None if one.l1 is None else one.l1 * size,
        l2_squared=one.l2_squared * size**2,
        linf=one.linf * size,
    )


class GroupShape(Enum):
    """Which units of a group of K differ: what decides about the two distributions that a Poisson sample mixes."""

    ONE_SIDED = "all are in one of the two data sets"
    TWO_SIDED = "some are in one of them, some in the other: at most K − 1 in each"
    ANY = "up to K in each"


def list_alternatives(event: Event) -> tuple[Composition, ...]:
    """Compositions of plain events (and samples of them) whose curves' maximum bounds this event's curve.

    >>> from discreet.events import Claim, Parallel
    >>> one, two = Claim(Fraction(1), Fraction(0)), Claim(Fraction(2), Fraction(0))
    >>> [part for choice in list_alternatives(Parallel((one, two))) for part, _ in choice.parts] == [one, two]
    True
    """
    event = to_replace_neighbours(event)
    match event:
        case Group(event=inner, size=size) if size > 1:
            # Who the units are is settled before the first answer: either they are all on one side or they are not.
            events = (rewrite_group(inner, size, units) for units in (GroupShape.ONE_SIDED, GroupShape.TWO_SIDED))
            return _deduplicate(choice for one in events for choice in _list_alternatives(one))
        case _:
            return _list_alternatives(event)


def _list_alternatives(event: Event) -> tuple[Composition, ...]:
    match event:
        case Composition(parts=parts) if not any(isinstance(part, _NESTED) for part, _ in parts):
            return (event,)
        case Composition(parts=((part, 1),)):
            return _list_alternatives(part)
        case Composition(parts=parts):
            return (compose(*(repeat(_merge_alternatives(_list_alternatives(part)), times) for part, times in parts)),)
        case Parallel(branches=branches):
            # One unit is in one branch only, so one branch changes.
            return _deduplicate(choice for branch in branches for choice in _list_alternatives(branch))
        case Group(event=inner, size=size, replaced=replaced):
            units = GroupShape.TWO_SIDED if replaced else GroupShape.ANY
            return _list_alternatives(rewrite_group(inner, size, units) if size > 1 else inner)
        case Memoised():
            return _list_alternatives(event.unconditional)
        case Subsampled(event=inner, rate=rate):
            return _deduplicate(_sample_poisson(choice, rate) for choice in _list_alternatives(inner))
        case SampledWithoutReplacement(event=inner, rate=rate):
            return (
                _list_alternatives(inner) if rate == 1 else (_sample_without_replacement(_list_alternatives(inner), rate),)
            )
        case _:
            return (compose(event),)


def _merge_alternatives(options: tuple[Composition, ...]) -> Composition:
    """Some one of these, as a single part."""
    return options[0] if len(options) == 1 else Composition(((Parallel(options), 1),))


def _sample_without_replacement(options: tuple[Composition, ...], rate: Fraction) -> Composition:
    """A share of a share is a share. The three distributions that [BBG18, Thm 9] compares may meet different
    alternatives."""
    inner = _merge_alternatives(options)
    if rate == 0 or not inner.parts:
        return NO_EVENT
    if len(inner.parts) == 1 and inner.parts[0][1] == 1:
        part = inner.parts[0][0]
        if isinstance(part, SampledWithoutReplacement):
            return compose(SampledWithoutReplacement(part.event, part.rate * rate))
        return compose(SampledWithoutReplacement(part, rate))
    return compose(SampledWithoutReplacement(inner, rate))


def _deduplicate(choices: Iterable[Composition]) -> tuple[Composition, ...]:
    return tuple(dict.fromkeys(choices)) or (NO_EVENT,)


def _sample_poisson(choice: Composition, rate: Fraction) -> Composition:
    """Poisson sampling twice is sampling once at the product of the rates; at 1 it changes nothing, at 0 no unit is seen."""
    if rate == 1 or not choice.parts:
        return choice
    if rate == 0:
        return NO_EVENT
    if len(choice.parts) == 1 and choice.parts[0][1] == 1:
        part = choice.parts[0][0]
        return compose(Subsampled(part.event, part.rate * rate) if isinstance(part, Subsampled) else Subsampled(part, rate))
    return compose(Subsampled(choice, rate))


def rewrite_group(event: Event, size: int, units: GroupShape = GroupShape.ANY) -> Event:
    """An event for neighbours one unit apart that dominates `event` for neighbours `size` > 1 units apart."""
    match event:
        case (
            LaplaceEvent()
            | DiscreteLaplaceEvent()
            | TruncatedGeometricEvent()
            | GaussianEvent()
            | DiscreteGaussianEvent()
            | BinomialEvent()
            | ExponentialEvent()
        ):
            return push_group(Group(event, size))
        case PermuteAndFlipEvent(epsilon=epsilon):
            return make_pure_group(epsilon, size)
        case Claim(epsilon=epsilon, delta=delta):
            return push_group(Group(event, size)) if delta else make_pure_group(epsilon, size)
        case RandomizedResponseEvent() | SetResponseEvent():
            return repeat(event, size)  # `size` people may each have answered; one answer of theirs is part of that
        case Memoised():
            return rewrite_group(event.unconditional, size, units)
        case Shuffled():
            return make_pure_group(to_rational(pure(event)), size)  # the ε of each of them, as if nothing were shuffled
        case OptimalPartitionSelectionEvent(epsilon=epsilon, delta=delta, groups=groups):
            return push_group(Group(Claim(groups * epsilon, probability_of_any(delta, groups)), size))
        case ThresholdEvent(groups=groups):
            claim = claim_of_threshold(event)
            return push_group(Group(Claim(groups * claim.epsilon, probability_of_any(claim.delta, groups)), size))
        case Composition(parts=parts):
            return compose(*(repeat(rewrite_group(part, size, units), times) for part, times in parts))
        case Parallel(branches=branches):
            # They may sit in different branches, where each sees fewer of them: of those on one side still one side. Of
            # equal branches at most `size` have any.
            found = ((rewrite_group(branch, size, units), count) for branch, count in Counter(branches).items())
            return compose(*(repeat(one, min(size, count)) for one, count in found))
        case Group(event=inner, size=more, replaced=replaced):
            # Each of `size` steps is itself a chain of `more` steps for `inner`, which may lead in any direction wherever
            # the outer ones lead; a chain of replacements leaves as many units on one side as on the other.
            inside = GroupShape.TWO_SIDED if replaced else GroupShape.ANY
            return rewrite_group(inner, size * more, units if more == 1 else inside)
        case Subsampled(event=inner, rate=rate) if units is GroupShape.ONE_SIDED:
            # With J ~ Bin(size, rate) of them sampled the output is a mixture of the neighbours 0 … size apart, against the
            # output without any of them. Given J ≥ 1, hockey-stick divergences are jointly convex, so the mixture is
            # dominated by the worst, `size` apart; and [BBG18, Thm 8]'s bound for a sample at rate P(J ≥ 1) rises with the
            # divergence of that part.
            return Subsampled(Group(inner, size), probability_of_any(rate, size))
        case Subsampled(event=inner, rate=rate):
            # At most k of them on each side, η = 1 − (1 − rate)^k. With R the output without any of them the two
            # distributions are (1 − η)R + ηP and (1 − η)R + ηP', where P and P' are mixtures of outputs with some of one
            # side's units. Any two of R, P, P' mix outputs at most `size` units apart (draw both samples independently), so
            # each of the six divergences is at most that of the group (joint convexity): all that the proof of
            # `pld.without_replacement` uses.
            most = size - 1 if units is GroupShape.TWO_SIDED else size
            return SampledWithoutReplacement(Group(inner, size), rate if most == 1 else probability_of_any(rate, most))
        case SampledWithoutReplacement(event=inner, rate=rate):
            # At least one of `size` units is sampled with probability at most size·rate. Putting other units in the places
            # of those that are gives a sample without any of them, `size` replacements away: [BBG18, Thm 9] holds as it
            # stands, and its bound rises with the rate.
            return subsample_without_replacement(Group(inner, size), min(Fraction(1), size * rate))
        case _:
            assert_never(event)


def make_pure_group(epsilon: Fraction, size: int) -> Event:
    """The worst that `size` units can do to an ε-private event: the trade-off curve of randomised response composed with
    itself [DRS22, Thm 2.14]. Randomised response of ε is discrete Laplace noise of scale 1/ε shifted by one, and the curves
    of log-concave noise compose to that of the sum of the shifts (`dominating_pairs`)."""
    return DiscreteLaplaceEvent(1 / epsilon, to_sensitivity(size)) if epsilon else NO_EVENT


def claim_of_threshold(event: ThresholdEvent) -> Claim:
    """What one key can reveal. With a = e^{-1/scale}, a key with one unit is shown with p = a^{τ−1}/(1 + a), and never
    without it.

    If the unit is not alone, its coming or going moves the noisy count by one: δ(ε) ≤ (1 − a·e^ε)/(1 + a). If it is alone,
    showing the key is an event of probability p that the other world lacks: δ(ε) ≤ p in one direction, 1 − e^ε(1 − p) ≤ p
    in the other. So δ(ε) ≤ max of the two, which for ε ≥ 0 and in both directions is the curve of (ε', p) with
    e^ε' = (1 − a^{τ−1})/a, where the two meet (or ε' = 0): the pair of `Claim` dominates [KOV15, Thm 3.3 and its proof].
    """
    p = singleton_probability(event.scale, event.threshold)
    alone = exp_bounds(Fraction(1 - event.threshold) / event.scale)[0]  # a^{τ−1}, rounded down
    if p == 1 or alone >= 1:
        return Claim(Fraction(0), p)
    return Claim(max(Fraction(0), 1 / event.scale + log_bounds(1 - alone)[1]), p)


_DOMINATED = (*_NESTED, ThresholdEvent, OptimalPartitionSelectionEvent)  # an alternative may only dominate these


def find_attained_event(event: Event, *, sampled: bool = False) -> Event:
    """An event whose worst neighbours are among those of `event`, so that it bounds the curve from below; the event itself
    where its curve is that of actual neighbours already. What is `sampled` runs on a sample of the units."""
    if isinstance(event, Composition) and not any(isinstance(part, _DOMINATED) for part, _ in event.parts):
        return event
    match event:
        case Group(event=inner, size=size):
            return _find_attained_by_group(inner, size, sampled) if size > 1 else find_attained_event(inner, sampled=sampled)
        case Composition(parts=parts):
            lower = compose(*(repeat(find_attained_event(part, sampled=sampled), times) for part, times in parts))
            return event if lower == event else lower
        case Parallel(branches=branches):
            return Parallel(tuple(find_attained_event(branch, sampled=sampled) for branch in branches))
        case Memoised(report=report):
            return find_attained_event(report, sampled=sampled)  # to look at one report only is post-processing
        case Subsampled(event=inner, rate=rate):
            return Subsampled(find_attained_event(inner, sampled=sampled or rate < 1), rate)
        case SampledWithoutReplacement(event=inner, rate=rate) if contains_shuffled(inner):
            return find_attained_event(inner, sampled=sampled) if rate == 1 else NO_EVENT  # of a share no neighbour is known
        case SampledWithoutReplacement(event=inner, rate=rate):
            # If all others are alike, so that the output without the replaced unit is one of the two outputs, then the
            # distributions are those of a Poisson sample: its two directions are attained, but not both in one composition.
            return Subsampled(find_attained_event(inner, sampled=sampled or rate < 1), rate)
        case ThresholdEvent() | OptimalPartitionSelectionEvent():
            return _find_attained_selection(event, sampled)
        case _:
            return event


def list_attained_events(event: Event) -> tuple[Event, ...]:
    """Events each of which bounds the curve from below. Where neighbours that replace a unit change what this event is, only
    some of its parts are among them: a unit that no part notices may take the place of another, so what is stated for
    neighbours that add or remove one is attained, but perhaps not together with what is stated for those that replace one.
    """
    attained = find_attained_event(event)
    if to_replace_neighbours(attained) == attained:
        return (attained,)
    match attained:
        case Parallel(branches=branches):
            return tuple(one for branch in dict.fromkeys(branches) for one in list_attained_events(branch))
        case Composition(parts=parts):
            kinds = [[(part, times) for part, times in parts if has_replacement(part) is kind] for kind in (False, True)]
            found = (compose(*(repeat(part, times) for part, times in kind)) for kind in kinds)
            return tuple(one for one in found if to_replace_neighbours(one) == one) or (NO_EVENT,)
        case _:
            return (NO_EVENT,)


def _find_attained_by_group(event: Event, size: int, sampled: bool) -> Event:
    """All `size` units make the same change, or sit in one branch; or there is just one of them."""
    match event:
        case Composition(parts=parts):
            return compose(*(repeat(_find_attained_by_group(part, size, sampled), times) for part, times in parts))
        case Parallel(branches=branches):
            return Parallel(tuple(_find_attained_by_group(branch, size, sampled) for branch in branches))
        case Group(event=inner, size=more):
            return _find_attained_by_group(inner, size * more, sampled)
        case (
            Subsampled()
            | SampledWithoutReplacement()
            | ThresholdEvent()
            | OptimalPartitionSelectionEvent()
            | Memoised()
            | Shuffled()
        ):
            return find_attained_event(event, sampled=sampled)
        case GaussianEvent(sensitivity=sensitivity):
            return msgspec.structs.replace(event, sensitivity=sensitivity.scale_by(size))
        case LaplaceEvent() | DiscreteLaplaceEvent() | TruncatedGeometricEvent() | DiscreteGaussianEvent() | BinomialEvent():
            coordinates = (
                (msgspec.structs.replace(event, sensitivity=to_sensitivity(size * r)), n)
                for r, n in find_attained_change(event)
            )
            return compose(*(repeat(one, n) for one, n in coordinates))
        case ExponentialEvent() | PermuteAndFlipEvent():
            return push_group(Group(event, size))
        case Claim(epsilon=epsilon, delta=delta):
            # Each unit is revealed with probability δ, and their number is published with noise: that is (ε, δ)-private.
            return compose(repeat(Claim(Fraction(0), delta), size if delta else 0), make_pure_group(epsilon, size))
        case RandomizedResponseEvent() | SetResponseEvent():
            return repeat(event, size)
        case _:
            assert_never(event)


def _find_attained_selection(event: ThresholdEvent | OptimalPartitionSelectionEvent, sampled: bool) -> Event:
    """Each key is a key of one unit alone, or one whose number of units is near the threshold: `Parallel`, as either may be
    the case. One unit can be distinguished from none exactly when its key is shown: a sample, at that rate, of what can be
    distinguished for certain.

    On a sample the number of the others with a key is random, so that no data set is certainly near the threshold. That a
    key is one unit's alone is still a matter of the data: if no other unit has any key, then the sample without the unit has
    none, whichever others are in it, and so has the one where a unit without keys took its place.
    """
    match event:
        case ThresholdEvent(scale=scale, threshold=threshold, groups=groups):
            p = singleton_probability(scale, threshold) * (1 - Fraction(1, 1 << 100))  # it is rounded up
            near: Event = (
                DiscreteLaplaceEvent(scale, to_sensitivity(1)) if threshold > 1 else NO_EVENT
            )  # from τ − 1 to τ units
        case OptimalPartitionSelectionEvent(epsilon=epsilon, delta=p, groups=groups):
            near = _find_likeliest_step(epsilon, p)
        case _:
            assert_never(event)
    alone = Subsampled(Claim(Fraction(0), Fraction(1)), p)
    return repeat(alone, groups) if sampled else Parallel((repeat(alone, groups), repeat(near, groups)))


def _find_likeliest_step(epsilon: Fraction, delta: Fraction) -> Event:
    """Two neighbouring numbers of units n, n + 1 of the optimal selection (`mechanisms.partition_selection`), as a
    randomised response.

    π_n = δ(e^{nε} − 1)/(e^ε − 1) up to π° = (1 − δ)/(1 + e^ε). Let u be the last such π_n and v = e^ε·u + δ the next. If
    v ≥ ½ then "shown" has probability v against u ≤ 1 − v; else 1 − e^{-ε}(1 − v − δ) ≥ 1 − v against v, as v ≥ π°. Either
    way an answer that is true with probability max(v, 1 − v) is at least as well hidden.
    """
    if not 0 < delta < 1 or not Fraction(1, 1 << 40) < epsilon < 64:
        return NO_EVENT
    low, high = exp_bounds(epsilon)
    middle = (1 - delta) / (1 + high), (1 - delta) / (1 + low)
    n = floor(log_bounds(1 + middle[0] * (low - 1) / delta)[0] / epsilon)
    u = tuple(delta * (power - 1) / (base - 1) for power, base in zip(exp_bounds(n * epsilon), (high, low), strict=True))
    v = low * u[0] + delta, high * u[1] + delta
    truth = v[0] if v[0] >= Fraction(1, 2) else 1 - v[1]
    fits = u[1] <= middle[0] and (v[0] >= Fraction(1, 2) or v[0] >= middle[1])
    return RandomizedResponseEvent(truth, 2) if fits and Fraction(1, 2) < truth < 1 else NO_EVENT
