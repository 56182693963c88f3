"""What shuffling makes of local privacy, as intervals around the ε and the δ of the pair that dominates.

`epsilon` and `delta` of a `Shuffled` event reach, like all intervals of the curve, from neighbours that exist to this pair.
The functions here are about the pair alone, the ε to publish, and as narrow as `rtol`: in every n of [1, 10⁹] alike.
"""

from __future__ import annotations

from fractions import Fraction

from discreet._numbers import (
    Bounds,
    Number,
    ceil_float,
    check_int,
    check_positive,
    check_probability,
    floor_float,
    to_rational,
)
from discreet.accounting.pure import pure
from discreet.accounting.shuffle_pairs import build_pair
from discreet.accounting.strategies import bound_pair_delta, bound_pair_epsilon
from discreet.errors import BadParameter
from discreet.events import Claim, Shuffled, check_event


def shuffled_epsilon(n: int, epsilon0: Number, delta: Number, rtol: float = 1e-6) -> Bounds:
    """The ε at δ of n shuffled reports, each by any ε0-private randomiser: that of the clones [FMT21], between two doubles.

    Neighbours replace one of n people, n is fixed and public and counts the honest ones only.

    >>> found = shuffled_epsilon(10_000, 1, 1e-6)
    >>> round(found.lower, 6), round(found.upper, 6)
    (0.053005, 0.053005)
    """
    crowd = Shuffled(Claim(check_positive(epsilon0, "epsilon0"), Fraction(0)), check_int(n, "n", 1))
    return pair_epsilon(crowd, delta, rtol)


def pair_epsilon(event: Shuffled, delta: Number, rtol: float = 1e-6) -> Bounds:
    """The ε at δ of the pair that dominates a shuffled event, between two doubles.

    >>> from discreet.events import RandomizedResponseEvent
    >>> crowd = Shuffled(RandomizedResponseEvent(Fraction(3, 4), 2), 10**6)
    >>> round(pair_epsilon(crowd, 1e-6).upper, 6)
    0.003992
    """
    pair, tolerance = build_pair(_check_shuffled(event)), _check_tolerance(rtol)
    low, high = bound_pair_epsilon(pair, floor_float(check_probability(delta, "delta")), tolerance)
    most = ceil_float(to_rational(pure(event.event)))  # shuffling never costs
    return Bounds(min(low, most), min(high, most))


def pair_delta(event: Shuffled, epsilon: Number, rtol: float = 1e-6) -> Bounds:
    """The δ at ε of the pair that dominates a shuffled event, between two doubles.

    >>> from discreet.events import RandomizedResponseEvent
    >>> crowd = Shuffled(RandomizedResponseEvent(Fraction(3, 4), 2), 1)
    >>> round(pair_delta(crowd, 0).upper, 6)
    0.5
    """
    pair, exact = build_pair(_check_shuffled(event)), to_rational(epsilon, "epsilon")
    if exact < 0:
        raise BadParameter("epsilon", epsilon, "must not be negative", "give 0 or more")
    low, high = bound_pair_delta(pair, floor_float(exact), _check_tolerance(rtol))
    return Bounds(low, high)


def _check_shuffled(event: Shuffled) -> Shuffled:
    check_event(event)
    if not isinstance(event, Shuffled):
        raise BadParameter("event", type(event).__name__, "not shuffled", "wrap the event of one report: shuffle(event, n)")
    return event


def _check_tolerance(rtol: float) -> float:
    if not 0 < rtol < 1:
        raise BadParameter("rtol", rtol, "must lie strictly between 0 and 1", "give for example 1e-6")
    return max(float(rtol), 1e-9)
