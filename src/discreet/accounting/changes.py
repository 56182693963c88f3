"""Changes that *all* norms of a sensitivity allow: what a lower end may lean on.

A `Sensitivity` states up to four norms of one change. A change that meets one of them and breaks another is no neighbour, so
a bound from below must come from a vector within all of them. The longest such vector moves as many coordinates as possible
by as much as possible (a convex function is largest at a corner): n coordinates by r and one by what is left.
"""

from fractions import Fraction
from math import floor, isqrt
from typing import TypeAlias

from discreet.accounting.elementary import sqrt_down
from discreet.loss import BinomialLoss, DiscreteGaussianLoss, DiscreteLaplaceLoss, LaplaceLoss, TruncatedGeometricLoss
from discreet.units import Sensitivity

Change = tuple[tuple[Fraction, int], ...]
"""(shift, number of coordinates that move by it), largest shift first."""


Shifted: TypeAlias = LaplaceLoss | DiscreteLaplaceLoss | TruncatedGeometricLoss | DiscreteGaussianLoss | BinomialLoss
"""Noise that is added to every coordinate, and treats the coordinates apart."""


def reached_change(loss: Shifted) -> Change:
    """A long change that all norms, and the range of a truncated mechanism, allow."""
    match loss:
        case LaplaceLoss(sensitivity=moved):
            return real_change(moved)
        case TruncatedGeometricLoss(sensitivity=moved, lower=lower, upper=upper):
            return whole_change(moved, upper - lower)
        case _:
            return whole_change(loss.sensitivity)


def real_change(moved: Sensitivity) -> Change:
    """A long vector of real numbers within all norms.

    >>> real_change(Sensitivity(l0=5, l1=20, linf=8))
    ((Fraction(8, 1), 2), (Fraction(4, 1), 1))
    """
    each = moved.linf if moved.linf**2 <= moved.l2_squared else sqrt_down(moved.l2_squared)
    count = _coordinates(moved, each)
    rest = [each, sqrt_down(max(Fraction(0), moved.l2_squared - count * each**2))]
    rest += [] if moved.l1 is None else [moved.l1 - count * each]
    return _change(each, count, Fraction(0) if count == moved.l0 else max(Fraction(0), min(rest)))


def whole_change(moved: Sensitivity, most: int | None = None) -> Change:
    """A long vector of whole numbers, none above `most`, within all norms; empty where only the zero vector is.

    >>> whole_change(Sensitivity(l0=3, l1=Fraction(5, 2), linf=Fraction(3, 2)))
    ((Fraction(1, 1), 2),)
    """
    limits = [floor(moved.linf), isqrt(floor(moved.l2_squared))] + ([] if moved.l1 is None else [floor(moved.l1)])
    each = min(limits if most is None else [*limits, most])
    if each < 1:
        return ()
    count = _coordinates(moved, Fraction(each))
    rest = [each, isqrt(floor(moved.l2_squared - count * each**2))]
    rest += [] if moved.l1 is None else [floor(moved.l1 - count * each)]
    return _change(Fraction(each), count, Fraction(0 if count == moved.l0 else min(rest)))


def longest(moved: Sensitivity) -> Fraction:
    """The largest square of the Euclidean length of a real vector within all norms."""
    found = sum((count * shift**2 for shift, count in real_change(moved)), Fraction(0))
    return moved.l2_squared if found >= moved.l2_squared * (1 - Fraction(1, 1 << 40)) else found  # roots are rounded down


def _coordinates(moved: Sensitivity, each: Fraction) -> int:
    """How many coordinates may all move by `each`."""
    most = [floor(moved.l2_squared / each**2)]
    most += [] if moved.l0 is None else [moved.l0]
    most += [] if moved.l1 is None else [floor(moved.l1 / each)]
    return max(1, min(most))


def _change(each: Fraction, count: int, rest: Fraction) -> Change:
    return ((each, count), (rest, 1)) if rest > 0 else ((each, count),)
