"""One neighbouring relation for all parts of an event.

Noise has a sensitivity, which states what a unit does whatever the relation is. Four events lean on the relation itself. A
sample without replacement and shuffled reports are stated for neighbours that *replace* a unit. A Poisson sample, a
partition into `Parallel` branches, and partition selection are stated for neighbours that *add or remove* one: to replace a
unit is to remove it and to add another, which can take part in the sample, the branch or the keys in its stead. Where an
event of the first kind is part of a composition, all of it is seen by neighbours that replace a unit, and those of the
second kind are a group of two, one unit in each of the two data sets.

Every guarantee begins with `to_replace_neighbours`, and may call itself on the parts of what it returns: it changes nothing
twice.
"""

from collections.abc import Iterable

from discreet.events import (
    Composition,
    Event,
    Group,
    Memoised,
    OptimalPartitionSelectionEvent,
    Parallel,
    SampledWithoutReplacement,
    Shuffled,
    Subsampled,
    ThresholdEvent,
    compose,
    repeat,
)


def has_replacement(event: Event) -> bool:
    """Whether a sample without replacement or a shuffled event is part of this, so that neighbours replace a unit."""
    match event:
        case Shuffled():
            return True
        case Memoised():
            return has_replacement(event.unconditional)
        case SampledWithoutReplacement(event=inner, rate=rate):
            return rate < 1 or has_replacement(inner)
        case Composition(parts=parts):
            return any(has_replacement(part) for part, _ in parts)
        case Parallel(branches=branches):
            return any(has_replacement(branch) for branch in branches)
        case Group(event=inner) | Subsampled(event=inner):
            return has_replacement(inner)
        case _:
            return False


def to_replace_neighbours(event: Event) -> Event:
    """The same event if its neighbours add or remove a unit; else one that dominates it for neighbours that replace one.

    >>> from fractions import Fraction
    >>> from discreet.events import Claim, shuffle
    >>> claim = Claim(Fraction(1), Fraction(0))
    >>> sample = Subsampled(claim, Fraction(1, 2))
    >>> to_replace_neighbours(sample) == sample
    True
    >>> to_replace_neighbours(compose(sample, shuffle(claim, 5))).parts[0][0] == Group(sample, 2, replaced=True)
    True
    """
    return _replace(event) if has_replacement(event) else event


def to_common_neighbours(events: Iterable[Event]) -> tuple[Event, ...]:
    """The same for events one of which runs: if the neighbours of one replace a unit, those of all do."""
    given = tuple(events)
    return tuple(map(_replace, given)) if any(map(has_replacement, given)) else given


def _replace(event: Event) -> Event:
    match event:
        case Subsampled() | Parallel() | ThresholdEvent() | OptimalPartitionSelectionEvent() if not has_replacement(event):
            return Group(event, 2, replaced=True)
        case Subsampled(event=inner, rate=rate):
            # (1 − q)R + qP against (1 − q)R + qP', as a sample without replacement at that rate compares.
            return _replace(inner) if rate == 1 else SampledWithoutReplacement(Group(_replace(inner), 2), rate)
        case Parallel(branches=branches):
            # The number of units in a branch with a sample without replacement, or with shuffled reports, is public: a unit
            # that is replaced stays in it. Of the other branches one or two change.
            alone = [_replace(branch) for branch in branches if has_replacement(branch) or _is_replaced(branch)]
            others = tuple(branch for branch in branches if not (has_replacement(branch) or _is_replaced(branch)))
            return Parallel((*alone, Group(Parallel(others), 2, replaced=True)) if others else tuple(alone))
        case Composition(parts=parts):
            return compose(*(repeat(_replace(part), times) for part, times in parts))
        case Group(event=inner, size=size, replaced=replaced):
            return event if replaced else Group(_replace(inner), size)
        case Memoised():
            return _replace(event.unconditional)
        case SampledWithoutReplacement(event=inner, rate=rate):
            return SampledWithoutReplacement(_replace(inner), rate)
        case _:
            return event


def _is_replaced(event: Event) -> bool:
    return isinstance(event, Group) and event.replaced
