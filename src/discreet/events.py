"""Privacy events: which noise ran, at which scale, against which sensitivity. `accounting` computes what they guarantee.

An event holds the distribution of the noise and the norms of the sensitivity, both in grid steps, because the dominating
pair of neighbours depends on both. The union `Event` is closed: `match` on it and end with `assert_never`, so that no notion
of privacy can overlook one. Training with DP-SGD, for example, is the event
`subsample(Gaussian(sigma).event(Sensitivity(l2=C)), rate) * steps`, where C is the l2 norm to which each person's gradient
is clipped.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias, assert_never, cast

import msgspec

from discreet._numbers import Number, check_int, format_rational, to_rational
from discreet.errors import BadParameter, TheoremNotApplicable
from discreet.units import Sensitivity


class PrivacyEvent(msgspec.Struct, frozen=True, tag=True):
    """The base of all events: frozen, comparable, composed with + and *, and checked when they are made.

    Ledgers store an event by its `tag` and the names of its fields: neither ever changes, whatever the class is called.

    >>> isinstance(Claim(Fraction(1), Fraction(0)), PrivacyEvent)
    True
    """

    def __post_init__(self) -> None:
        """Refuse parameters that no mechanism can have; the events inside were checked when they were made."""
        event, wrong = cast("Event", self), ""
        match event:
            case Composition(parts=parts):
                for part, times in parts:
                    check_event(part)
                    if times < 1 or isinstance(part, Composition):
                        wrong = "a part that ran less than once, or is itself a composition"
                _check_memos(parts)
            case Parallel(branches=branches):
                for branch in branches:
                    check_event(branch)
            case Memoised(report=report, permanent=permanent, instantaneous=instantaneous, reports=reports, states=states):
                if not isinstance(event.memo, str):
                    raise BadParameter("memo", repr(event.memo), "not a label", "give the id of the collection, as text")
                for inner in (report, permanent, *(() if instantaneous is None else (instantaneous,))):
                    check_event(inner)
                wrong = "" if reports >= 1 and states >= 1 else f"{reports} reports of {states} states"
            case Shuffled(event=inner, users=users):
                check_event(inner)
                _check_local(inner)
                wrong = "" if users >= 1 else f"{users} users"
            case Group(event=inner, size=size):
                check_event(inner)
                wrong = "" if size >= 1 else f"a group of {size}"
            case Subsampled(event=inner, rate=rate) | SampledWithoutReplacement(event=inner, rate=rate):
                check_event(inner)
                if isinstance(event, Subsampled) and contains_shuffled(inner):
                    _refuse_poisson()
                wrong = "" if 0 <= rate <= 1 else f"a rate of {format_rational(rate)}"
            case RandomizedResponseEvent(truth=truth, choices=choices):
                possible = 0 <= truth <= 1 and choices >= 2
                wrong = "" if possible else f"truth {format_rational(truth)} among {choices} choices"
            case SetResponseEvent(odds=odds, share=share, pair=pair):
                if odds < 1 or not max(Fraction(0), 2 * share - 1) <= pair <= share <= 1:
                    wrong = f"odds {format_rational(odds)}, share {format_rational(share)}, pair {format_rational(pair)}"
            case ExponentialEvent(epsilon=epsilon) | PermuteAndFlipEvent(epsilon=epsilon):
                wrong = "" if epsilon >= 0 else f"ε = {format_rational(epsilon)}"
            case Claim(epsilon=epsilon, delta=delta):
                possible = epsilon >= 0 and 0 <= delta <= 1
                wrong = "" if possible else f"ε = {format_rational(epsilon)}, δ = {format_rational(delta)}"
            case OptimalPartitionSelectionEvent(epsilon=epsilon, delta=delta, groups=groups):
                possible = epsilon >= 0 and 0 <= delta <= 1 and groups >= 1
                if not possible:
                    wrong = f"ε = {format_rational(epsilon)}, δ = {format_rational(delta)} for {groups} groups"
            case ThresholdEvent(scale=scale, groups=groups):
                wrong = "" if scale > 0 and groups >= 1 else f"scale {format_rational(scale)} for {groups} groups"
            case BinomialEvent(n=n):
                wrong = "" if n >= 1 else f"n = {n}"
            case GaussianEvent(sigma=sigma) | DiscreteGaussianEvent(sigma=sigma):
                wrong = "" if sigma > 0 else f"σ = {format_rational(sigma)}"
            case LaplaceEvent(scale=scale) | DiscreteLaplaceEvent(scale=scale) | TruncatedGeometricEvent(scale=scale):
                wrong = "" if scale > 0 else f"scale {format_rational(scale)}"
            case _:
                assert_never(event)
        if wrong:
            raise BadParameter(type(self).__name__, wrong, "no mechanism has such parameters", "state those that ran")

    def __add__(self, other: Event) -> Composition:
        return compose(cast("Event", self), other) if isinstance(other, PrivacyEvent) else NotImplemented

    def __radd__(self, other: int) -> Composition:
        """Return the event alone where 0 comes first: `sum` starts with it."""
        return compose(cast("Event", self)) if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, times: int) -> Composition:
        return repeat(cast("Event", self), times)

    __rmul__ = __mul__


class LaplaceEvent(PrivacyEvent, frozen=True, tag="LaplaceLoss"):
    """Continuous Laplace noise of this scale on every coordinate. discreet accounts for it, and draws the discrete one."""

    scale: Fraction
    sensitivity: Sensitivity


class DiscreteLaplaceEvent(PrivacyEvent, frozen=True, tag="DiscreteLaplaceLoss"):
    """Discrete Laplace noise, P(k) ∝ e^{-|k|/scale}, on every coordinate of integers."""

    scale: Fraction
    sensitivity: Sensitivity


class TruncatedGeometricEvent(PrivacyEvent, frozen=True, tag="TruncatedGeometricLoss"):
    """Discrete Laplace noise, the sum clamped to [lower, upper].

    >>> from discreet import TruncatedGeometric, pure
    >>> event = TruncatedGeometric(2, 0, 10).event(1)
    >>> type(event).__name__, pure(event)
    ('TruncatedGeometricEvent', Fraction(1, 2))
    """

    scale: Fraction
    lower: int
    upper: int
    sensitivity: Sensitivity


class GaussianEvent(PrivacyEvent, frozen=True, tag="GaussianLoss"):
    """Gaussian noise N(0, σ²) on every coordinate, possibly rounded afterwards (which is post-processing)."""

    sigma: Fraction
    sensitivity: Sensitivity


class DiscreteGaussianEvent(PrivacyEvent, frozen=True, tag="DiscreteGaussianLoss"):
    """Discrete Gaussian noise, P(k) ∝ e^{-k²/2σ²}, on every coordinate of integers.

    >>> from discreet import DiscreteGaussian, zcdp
    >>> event = DiscreteGaussian(10).event(1)
    >>> type(event).__name__, zcdp(event)
    ('DiscreteGaussianEvent', Fraction(1, 200))
    """

    sigma: Fraction
    sensitivity: Sensitivity


class BinomialEvent(PrivacyEvent, frozen=True, tag="BinomialLoss"):
    """Binomial noise, the number of heads in n fair coins less n/2, on every coordinate of integers.

    >>> from discreet import Binomial
    >>> Binomial(100).event(1).n
    100
    """

    n: int
    sensitivity: Sensitivity


class RandomizedResponseEvent(PrivacyEvent, frozen=True, tag="ResponseLoss"):
    """Randomized response: the true one of `choices` answers with probability `truth`, else one of the others at random.

    >>> from discreet import epsilon
    >>> round(epsilon(RandomizedResponseEvent(Fraction(2, 3), 2), 0).upper, 6)
    0.693147
    """

    truth: Fraction
    choices: int


class SetResponseEvent(PrivacyEvent, frozen=True, tag="SetResponse"):
    """A report that names a set of values, and is `odds` times as likely if the set holds the person's own value.

    Before that tilt a set holds a given value with probability `share`, and two given values with probability `pair`: the
    report y of a person with value x has probability γ·base(y)·odds^[x ∈ y], γ = 1/(1 + (odds − 1)·share). The frequency
    oracles of local privacy are all of this form: k-RR has share 1/k and pair 0, optimised unary encoding share 1/2 and pair
    1/4. Neighbours replace one person's value. Where `pair` differs between two values, the smallest one is stated: its
    curve is the largest.

    >>> from discreet import pure
    >>> round(float(pure(SetResponseEvent(Fraction(3), Fraction(1, 2), Fraction(1, 4)))), 6)
    1.098612
    """

    odds: Fraction
    share: Fraction
    pair: Fraction

    @property
    def blanket(self) -> Fraction:
        """γ, the probability that a report says nothing about its sender: every report is at least γ·base(y) likely."""
        return 1 / (1 + (self.odds - 1) * self.share)


class ExponentialEvent(PrivacyEvent, frozen=True, tag="ExponentialLoss"):
    """The exponential mechanism, P(i) ∝ e^{x_i}, where one unit moves the differences x_i − x_j by at most `epsilon`.

    >>> from discreet import pure
    >>> pure(ExponentialEvent(Fraction(1, 2)) * 4)
    Fraction(2, 1)
    """

    epsilon: Fraction


class PermuteAndFlipEvent(PrivacyEvent, frozen=True, tag="PermuteAndFlipLoss"):
    """Permute-and-flip at the same x_i: ε-private too, but not of bounded range.

    >>> from discreet import pure
    >>> pure(PermuteAndFlipEvent(Fraction(1, 2)))
    Fraction(1, 2)
    """

    epsilon: Fraction


class ThresholdEvent(PrivacyEvent, frozen=True, tag="ThresholdLoss"):
    """Partition selection by a noisy threshold.

    A group key is shown if its number of distinct units plus discrete Laplace noise reaches `threshold`; one unit is counted
    in at most `groups` keys.

    >>> from discreet import Threshold
    >>> Threshold(2, 15).event(1)
    ThresholdEvent(scale=Fraction(2, 1), threshold=15, groups=1)
    """

    scale: Fraction
    threshold: int
    groups: int


class OptimalPartitionSelectionEvent(PrivacyEvent, frozen=True, tag="KeepLoss"):
    """Partition selection with the largest probabilities that (epsilon, delta) per group key allows.

    One unit is counted in at most `groups` keys.

    >>> from discreet import basic_composition
    >>> point = basic_composition(OptimalPartitionSelectionEvent(Fraction(1), Fraction(1, 1000), 2))
    >>> float(point.epsilon), float(point.delta)
    (2.0, 0.001999)
    """

    epsilon: Fraction
    delta: Fraction
    groups: int


class Claim(PrivacyEvent, frozen=True, tag="Claim"):
    """A statement by others that a release was (epsilon, delta)-private; it is accounted for as stated."""

    epsilon: Fraction
    delta: Fraction


class Composition(PrivacyEvent, frozen=True, tag="Composition"):
    """Several events about the same units. Each part ran as often as its number says; no part is a Composition.

    >>> Composition(((Claim(Fraction(1), Fraction(0)), 3),)) == Claim(Fraction(1), Fraction(0)) * 3
    True
    """

    parts: tuple[tuple[Event, int], ...] = ()


class Parallel(PrivacyEvent, frozen=True, tag="Parallel"):
    """Parallel composition: events about disjoint parts of the *units*.

    Adding or removing one unit changes one branch only, and replacing one up to two; a branch with a public number of units
    changes alone. The partition may have been chosen after earlier answers.
    """

    branches: tuple[Event, ...]


class Group(PrivacyEvent, frozen=True, tag="Group", omit_defaults=True):
    """Group privacy: an event between data sets that differ in up to `size` units, each of which only one of them has.

    `replaced` says that each of them has at most `size` − 1 of these units: of two, one is replaced by the other.
    """

    event: Event = msgspec.field(name="loss")
    size: int
    replaced: bool = False


class Subsampled(PrivacyEvent, frozen=True, tag="Subsampled"):
    """An event on a secret Poisson sample: each unit joined it independently with probability `rate`.

    Neighbours add or remove one unit, and the inner event is stated for such neighbours, also beside events whose
    neighbours replace one: there accounting takes a group of two for it.
    """

    event: Event = msgspec.field(name="loss")
    rate: Fraction


class SampledWithoutReplacement(PrivacyEvent, frozen=True, tag="SampledWithoutReplacement"):
    """An event on a secret sample of m of the n units, all sets of m being equally likely; `rate` is m/n.

    Neighbours replace one unit, n is public, and the inner event is stated for such neighbours too.

    >>> SampledWithoutReplacement(Claim(Fraction(1), Fraction(0)), Fraction(1, 10)).rate
    Fraction(1, 10)
    """

    event: Event = msgspec.field(name="loss")
    rate: Fraction


class Memoised(PrivacyEvent, frozen=True, tag="Memoised", omit_defaults=True):
    """A device that reports again and again, with noise that it draws once per value and keeps (RAPPOR, 1BitRRPM).

    `report` is the event of one report on its own; `permanent` the noise that is drawn once for each of at most `states`
    values and memoised; `instantaneous` the fresh noise of every report, as a mechanism on any memoised state, or None;
    `reports` how many there are. `memo` says whose noise is kept, for example the id of a collection: events without it, and
    events of the same one, may be about one memo.

    Reports of one memo are not independent. So the ε of a single report adds up with nothing of the same memo, and neither a
    composition nor an account takes it: state the reports of a life in one event.

    A guarantee for life, `accounting.lifetime_epsilon`, holds only between histories with the same pattern of equal values:
    without fresh noise the reports show when a value changed. So every other guarantee is of `unconditional`.

    >>> from discreet import pure
    >>> coin, flip = RandomizedResponseEvent(Fraction(3, 4), 2), RandomizedResponseEvent(Fraction(9, 10), 2)
    >>> float(pure(Memoised(coin, coin, None, reports=30, states=2)))
    inf
    >>> round(float(pure(Memoised(coin, coin, flip, reports=3, states=2))), 4)  # three times ln 9
    6.5917
    >>> 2 * Memoised(coin, coin, None, reports=1, states=2)
    Traceback (most recent call last):
    discreet.errors.TheoremNotApplicable: Composition is proven only for independent noise, and several of these events are \
reports of one memo. State them in one Memoised event with reports=N, or label different memos: memo="id".
    """

    report: Event
    permanent: Event
    instantaneous: Event | None
    reports: int
    states: int
    memo: str = ""

    @property
    def unconditional(self) -> Event:
        """What dominates all reports between any two histories.

        **Proof.** Given the memo σ, reports are independent, with distributions K(σ_t). A history mixes the memos, and
        hockey-stick divergences are jointly convex: draw the memos of both histories independently, then the worst two of
        them are no more than `reports` runs of the instantaneous mechanism on two states each. Without one, whether two
        reports agree for certain tells a history that repeats a value from one that changes it.
        """
        if self.reports == 1:
            return self.report
        return Claim(Fraction(0), Fraction(1)) if self.instantaneous is None else repeat(self.instantaneous, self.reports)


class Shuffled(PrivacyEvent, frozen=True, tag="Shuffled"):
    """Reports of `users` people, each with the noise of `event`, of which only the multiset is seen.

    Neighbours replace one person's value, and `users`, the number of honest people who report, is fixed and public. The
    event of one report has a finite ε without δ: a client that reveals its value with probability δ does so in any crowd.

    >>> from discreet import epsilon, pure
    >>> crowd = Shuffled(Claim(Fraction(1), Fraction(0)), 10**4)
    >>> round(epsilon(crowd, 1e-6).upper, 4), pure(crowd)
    (0.053, Fraction(1, 1))
    >>> Shuffled(Claim(Fraction(1), Fraction(1, 100)), 10**4)
    Traceback (most recent call last):
    discreet.errors.BadParameter: event is Claim: shuffling amplifies reports with a finite ε and no δ only. Give the event \
of one report with pure ε, for example randomized response.
    """

    event: Event
    users: int


Event: TypeAlias = (
    LaplaceEvent
    | DiscreteLaplaceEvent
    | TruncatedGeometricEvent
    | GaussianEvent
    | DiscreteGaussianEvent
    | BinomialEvent
    | RandomizedResponseEvent
    | SetResponseEvent
    | ExponentialEvent
    | PermuteAndFlipEvent
    | ThresholdEvent
    | OptimalPartitionSelectionEvent
    | Claim
    | Composition
    | Parallel
    | Group
    | Subsampled
    | SampledWithoutReplacement
    | Memoised
    | Shuffled
)
"""Every kind of event."""


def check_event(value: object, name: str = "event") -> None:
    """Refuse what is no event. A mechanism alone is none: it does not say how far one unit moves what it released.

    >>> from discreet import Gaussian
    >>> check_event(Gaussian(2))
    Traceback (most recent call last):
    discreet.errors.BadParameter: event is Gaussian(sigma=2): not an event. Pass Gaussian(sigma=2).event(sensitivity=1), \
with the sensitivity of what it released.
    """
    if isinstance(value, PrivacyEvent):
        return
    text = repr(value)
    short = text if len(text) <= 60 else type(value).__name__
    if callable(getattr(value, "event", None)) and not isinstance(value, type):
        hint = f"pass {short if text == short else 'it'}.event(sensitivity=1), with the sensitivity of what it released"
    else:
        hint = "pass what a mechanism's event() returns, for example Gaussian(1.1).event(sensitivity=1)"
    raise BadParameter(name, short, "not an event", hint)


def has_pure_epsilon(event: Event) -> bool:
    """Whether an event has a finite ε at δ = 0.

    >>> has_pure_epsilon(Claim(Fraction(1), Fraction(0))), has_pure_epsilon(Claim(Fraction(1), Fraction(1, 2)))
    (True, False)
    """
    match event:
        case (
            LaplaceEvent(sensitivity=sensitivity)
            | DiscreteLaplaceEvent(sensitivity=sensitivity)
            | TruncatedGeometricEvent(sensitivity=sensitivity)
        ):
            return sensitivity.l1 is not None
        case GaussianEvent() | DiscreteGaussianEvent() | BinomialEvent() | ThresholdEvent():
            return False
        case RandomizedResponseEvent(truth=truth):
            return 0 < truth < 1
        case SetResponseEvent() | ExponentialEvent() | PermuteAndFlipEvent() | Shuffled():
            return True
        case OptimalPartitionSelectionEvent(delta=delta) | Claim(delta=delta):
            return delta == 0
        case Composition(parts=parts):
            return all(has_pure_epsilon(part) for part, _ in parts)
        case Parallel(branches=branches):
            return all(has_pure_epsilon(branch) for branch in branches)
        case Group(event=inner):
            return has_pure_epsilon(inner)
        case Subsampled(event=inner, rate=rate) | SampledWithoutReplacement(event=inner, rate=rate):
            return rate == 0 or has_pure_epsilon(inner)
        case Memoised():
            return has_pure_epsilon(event.unconditional)
        case _:
            assert_never(event)


def contains_shuffled(event: Event) -> bool:
    """Whether a shuffled event is part of this, so that neighbours replace a unit and their number is public.

    >>> contains_shuffled(Shuffled(Claim(Fraction(1), Fraction(0)), 10) * 2)
    True
    """
    match event:
        case Shuffled():
            return True
        case Composition(parts=parts):
            return any(contains_shuffled(part) for part, _ in parts)
        case Parallel(branches=branches):
            return any(contains_shuffled(branch) for branch in branches)
        case Group(event=inner) | Subsampled(event=inner) | SampledWithoutReplacement(event=inner):
            return contains_shuffled(inner)
        case Memoised(report=report, permanent=permanent, instantaneous=instantaneous):
            return any(contains_shuffled(inner) for inner in (report, permanent, instantaneous) if inner is not None)
        case _:
            return False


def list_memos(event: Event) -> frozenset[tuple[str, bool]]:
    """List the memos that an event is about, and whether it counts one report of each on its own.

    >>> coin = RandomizedResponseEvent(Fraction(3, 4), 2)
    >>> list_memos(shuffle(Memoised(coin, coin, None, 1, 2, "id"), 100))
    frozenset({('id', True)})
    """
    match event:
        case Memoised(memo=memo, reports=reports):
            return frozenset({(memo, reports == 1)})
        case Composition(parts=parts):
            return frozenset().union(*(list_memos(part) for part, _ in parts))
        case Parallel(branches=branches):
            return frozenset().union(*(list_memos(branch) for branch in branches))
        case Group(event=inner) | Subsampled(event=inner) | SampledWithoutReplacement(event=inner) | Shuffled(event=inner):
            return list_memos(inner)
        case _:
            return frozenset()


def check_additive(event: Event) -> None:
    """Refuse an event that an account cannot add to others: it does not see whether they are reports of one memo.

    Raises:
        TheoremNotApplicable: it counts a single report of a memo.

    >>> coin = RandomizedResponseEvent(Fraction(3, 4), 2)
    >>> check_additive(coin * 3)
    >>> check_additive(Memoised(coin, coin, coin, reports=1, states=2))
    Traceback (most recent call last):
    discreet.errors.TheoremNotApplicable: Adding up debits is proven only for independent noise, and this is one report of \
a memo that later reports repeat. Debit the reports of a life in one Memoised event with reports=N.
    """
    if any(alone for _, alone in list_memos(event)):
        raise TheoremNotApplicable(
            "Adding up debits",
            "independent noise, and this is one report of a memo that later reports repeat",
            "debit the reports of a life in one Memoised event with reports=N",
        )


def _check_memos(parts: tuple[tuple[Event, int], ...]) -> None:
    """Refuse a single report of a memo together with another event of the same memo: it has the ε of independent noise."""
    seen: dict[str, tuple[int, bool]] = {}
    for part, times in parts:
        for memo, alone in list_memos(part):
            count, any_alone = seen.get(memo, (0, False))
            seen[memo] = count + times, any_alone or alone
    if any(count > 1 and alone for count, alone in seen.values()):
        raise TheoremNotApplicable(
            "Composition",
            "independent noise, and several of these events are reports of one memo",
            'state them in one Memoised event with reports=N, or label different memos: memo="id"',
        )


def _check_local(event: Event) -> None:
    """Refuse what no one person's report can be: an event without a pure ε, or a shuffled crowd."""
    name = type(event).__name__
    if contains_shuffled(event):
        raise BadParameter("event", name, "it is shuffled already", "give the event of one person's report")
    if not has_pure_epsilon(event):
        raise BadParameter(
            "event",
            name,
            "shuffling amplifies reports with a finite ε and no δ only",
            "give the event of one report with pure ε, for example randomized response",
        )


def _refuse_poisson() -> None:
    raise BadParameter(
        "event",
        "Shuffled",
        "its number of users is fixed and public and neighbours replace one of them; a Poisson sample adds or removes units",
        "use subsample_without_replacement",
    )


def compose(*events: Event) -> Composition:
    """Compose events. Equal ones are counted, not listed twice, in the order of their first appearance.

    >>> compose(Claim(Fraction(1), Fraction(0)), Claim(Fraction(1), Fraction(0))).parts
    ((Claim(epsilon=Fraction(1, 1), delta=Fraction(0, 1)), 2),)
    """
    counts: dict[Event, int] = {}
    for event in events:
        check_event(event)
        for part, times in event.parts if isinstance(event, Composition) else ((event, 1),):
            counts[part] = counts.get(part, 0) + times
    return Composition(tuple(counts.items()))


def repeat(event: Event, times: int) -> Composition:
    """Compose an event with itself: it ran `times` times with fresh noise.

    >>> repeat(Claim(Fraction(1), Fraction(0)), 3).parts
    ((Claim(epsilon=Fraction(1, 1), delta=Fraction(0, 1)), 3),)
    """
    check_event(event)
    rounds = check_int(times, "times")
    parts = event.parts if isinstance(event, Composition) else ((event, 1),)
    return Composition(tuple((part, count * rounds) for part, count in parts if rounds))


def parallel(*branches: Event) -> Parallel:
    """Compose events about disjoint parts of the units in parallel."""
    return Parallel(branches)


def group(event: Event, size: int) -> Event:
    """Return the event for data sets that differ in up to `size` units; a group of one is the event itself.

    The units are any that one of the two data sets has and the other does not: a replaced unit is a group of two.
    """
    check_event(event)
    units = check_int(size, "size", 1)
    return event if units == 1 else Group(event, units)


def subsample(event: Event, rate: Number) -> Event:
    """Return the event on a Poisson sample; at rate 1 it is the event itself, at rate 0 none."""
    check_event(event)
    exact = to_rational(rate, "rate")
    if exact in (0, 1):
        return event if exact else NO_EVENT
    return Subsampled(event, exact)


def subsample_without_replacement(event: Event, rate: Number) -> Event:
    """Return the event on a fixed share of the units, all sets of that size being equally likely, between neighbours that
    replace one unit; at rate 1 it is the event itself, at rate 0 none.

    >>> subsample_without_replacement(Claim(Fraction(1), Fraction(0)), 1)
    Claim(epsilon=Fraction(1, 1), delta=Fraction(0, 1))
    """
    check_event(event)
    exact = to_rational(rate, "rate")
    if exact in (0, 1):
        return event if exact else NO_EVENT
    return SampledWithoutReplacement(event, exact)


def shuffle(event: Event, users: int) -> Shuffled:
    """Return the event of the reports of `users` people, each with the noise of `event`, when only their multiset is seen.

    >>> shuffle(RandomizedResponseEvent(Fraction(3, 4), 2), 1000).users
    1000
    """
    check_event(event)
    return Shuffled(event, check_int(users, "users", 1))


NO_EVENT = Composition()
"""The event of a release that used no unit's data."""
