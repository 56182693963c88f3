"""Changes that *all* norms of a sensitivity allow: what a lower end may lean on.

A `Sensitivity` states up to four norms of one change. A change that meets one of them and breaks another is no neighbour, so
a bound from below must come from a vector within all of them. The longest such vector moves as many coordinates as possible
by as much as possible (a convex function is largest at a corner): n coordinates by r and one by what is left.
"""

from fractions import Fraction
from math import floor, isqrt
from typing import TypeAlias

from discreet.accounting.elementary import sqrt_down
from discreet.loss import BinomialEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent, LaplaceEvent, TruncatedGeometricEvent
from discreet.units import Sensitivity

Change = tuple[tuple[Fraction, int], ...]
"""(shift, number of coordinates that move by it), largest shift first."""


AdditiveNoiseEvent: TypeAlias = (
    LaplaceEvent | DiscreteLaplaceEvent | TruncatedGeometricEvent | DiscreteGaussianEvent | BinomialEvent
)
"""Noise that is added to every coordinate, and treats the coordinates apart."""


def find_attained_change(event: AdditiveNoiseEvent) -> Change:
    """A long change that all norms, and the range of a truncated mechanism, allow."""
    match event:
        case LaplaceEvent(sensitivity=moved):
            return find_real_change(moved)
        case TruncatedGeometricEvent(sensitivity=moved, lower=lower, upper=upper):
            return find_integer_change(moved, upper - lower)
        case _:
            return find_integer_change(event.sensitivity)


def find_real_change(sensitivity: Sensitivity) -> Change:
    """A long vector of real numbers within all norms.

    >>> find_real_change(Sensitivity(l0=5, l1=20, linf=8))
    ((Fraction(8, 1), 2), (Fraction(4, 1), 1))
    """
    each = sensitivity.linf if sensitivity.linf**2 <= sensitivity.l2_squared else sqrt_down(sensitivity.l2_squared)
    count = _count_coordinates(sensitivity, each)
    rest = [each, sqrt_down(max(Fraction(0), sensitivity.l2_squared - count * each**2))]
    rest += [] if sensitivity.l1 is None else [sensitivity.l1 - count * each]
    return _make_change(each, count, Fraction(0) if count == sensitivity.l0 else max(Fraction(0), min(rest)))


def find_integer_change(sensitivity: Sensitivity, max_shift: int | None = None) -> Change:
    """A long vector of whole numbers, none above `most`, within all norms; empty where only the zero vector is.

    >>> find_integer_change(Sensitivity(l0=3, l1=Fraction(5, 2), linf=Fraction(3, 2)))
    ((Fraction(1, 1), 2),)
    """
    limits = [floor(sensitivity.linf), isqrt(floor(sensitivity.l2_squared))] + (
        [] if sensitivity.l1 is None else [floor(sensitivity.l1)]
    )
    each = min(limits if max_shift is None else [*limits, max_shift])
    if each < 1:
        return ()
    count = _count_coordinates(sensitivity, Fraction(each))
    rest = [each, isqrt(floor(sensitivity.l2_squared - count * each**2))]
    rest += [] if sensitivity.l1 is None else [floor(sensitivity.l1 - count * each)]
    return _make_change(Fraction(each), count, Fraction(0 if count == sensitivity.l0 else min(rest)))


def max_squared_length(sensitivity: Sensitivity) -> Fraction:
    """The largest square of the Euclidean length of a real vector within all norms."""
    found = sum((count * shift**2 for shift, count in find_real_change(sensitivity)), Fraction(0))
    return (
        sensitivity.l2_squared if found >= sensitivity.l2_squared * (1 - Fraction(1, 1 << 40)) else found
    )  # roots are rounded down


def _count_coordinates(sensitivity: Sensitivity, each: Fraction) -> int:
    """How many coordinates may all move by `each`."""
    most = [floor(sensitivity.l2_squared / each**2)]
    most += [] if sensitivity.l0 is None else [sensitivity.l0]
    most += [] if sensitivity.l1 is None else [floor(sensitivity.l1 / each)]
    return max(1, min(most))


def _make_change(each: Fraction, count: int, rest: Fraction) -> Change:
    return ((each, count), (rest, 1)) if rest > 0 else ((each, count),)
