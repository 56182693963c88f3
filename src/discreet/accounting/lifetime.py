"""What a device that memoises its noise reveals over its life: an ε that holds under a condition, stated with it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from discreet._numbers import format_up
from discreet.accounting.pure import pure
from discreet.errors import BadParameter
from discreet.events import Memoised, check_event

SAME_PATTERN = "between two histories with the same pattern of equal values over time"
"""The condition of a guarantee for life: the value at one time equals that at another in both histories or in neither."""


@dataclass(frozen=True, slots=True)
class LifetimeEpsilon:
    """ε over all reports of a device under `condition`, and the ε that holds between any two histories.

    No ledger takes the former: an account adds up what holds without a condition.
    """

    epsilon: Fraction | float
    unconditional: Fraction | float
    condition: str = SAME_PATTERN

    def __str__(self) -> str:
        anything = "no finite ε" if self.unconditional == inf else f"ε = {format_up(self.unconditional, 3)}"
        return f"ε = {format_up(self.epsilon, 3)} for life, {self.condition}; between any other two histories {anything}."


def lifetime_epsilon(event: Memoised) -> LifetimeEpsilon:
    """The ε of a memoised mechanism over its life, between histories with the same pattern of equal values.

    **Proof.** Two such histories visit their states at the same times, so each state of one belongs to one of the other. Of
    each state the device draws one memo, and all reports of that state are post-processing of it: `states` runs of the
    permanent mechanism. The ε that holds between any two histories holds between these as well.

    >>> from discreet.events import RandomizedResponseEvent
    >>> coin = RandomizedResponseEvent(Fraction(3, 4), 2)
    >>> print(lifetime_epsilon(Memoised(coin, coin, None, reports=365, states=2)))
    ε = 2.2 for life, between two histories with the same pattern of equal values over time; between any other two \
histories no finite ε.
    """
    check_event(event)
    if not isinstance(event, Memoised):
        raise BadParameter(
            "event", type(event).__name__, "nothing is memoised in it", "repeat the event of one report: event * reports"
        )
    unconditional = pure(event)
    return LifetimeEpsilon(min(event.states * pure(event.permanent), unconditional), unconditional)
