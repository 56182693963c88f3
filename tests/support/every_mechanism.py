"""Every mechanism, made from one number: scales from far too small to far too large."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from discreet import (
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    OptimalPartitionSelection,
    RandomizedResponse,
    SparseVector,
    Threshold,
    TruncatedGeometric,
)

TINY, HUGE = Fraction(1, 10**400), Fraction(10**400)


SCALES = [TINY, Fraction(1, 1 << 60), Fraction(1, 3), Fraction(1 << 50), Fraction(10) ** 300, HUGE]


MAKERS: dict[str, Callable[[Fraction], Any]] = {
    "Laplace": Laplace,
    "Gaussian": Gaussian,
    "DiscreteGaussian": DiscreteGaussian,
    "TruncatedGeometric": lambda s: TruncatedGeometric(s, 0, 10),
    "Exponential": Exponential,
    "RandomizedResponse": lambda s: RandomizedResponse(Fraction(1, 2) + min(s, Fraction(1, 3))),
    "Threshold": lambda s: Threshold(s, 5),
    "SparseVector": lambda s: SparseVector(7, s, s),
    "SparseVector, one quiet noise": lambda s: SparseVector(7, s, 1),
    "OptimalPartitionSelection": lambda s: OptimalPartitionSelection(s, Fraction(1, 100)),
    "OptimalPartitionSelection, by δ": lambda s: OptimalPartitionSelection(1, min(s, Fraction(1, 3))),
}
