"""Neighbouring relations, and sensitivity: how far one privacy unit can move a vector of exact statistics.

A `Sensitivity` bounds the change over all neighbouring data sets in four norms: how many coordinates change (l0), the sum of
the changes (l1), their Euclidean length (l2) and the largest change (linf). A norm that is not given is filled in from the
inequalities between norms:

    linf ≤ l2 ≤ l1 ≤ √l0·l2,   l1 ≤ l0·linf,   l2² ≤ l1·linf.

k counts that one unit can all change by one have l1 = k and l2 = √k, not the other way round.
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from math import ceil

from discreet._numbers import (
    Number,
    ceil_float,
    check_int,
    check_positive,
    format_rational,
    sqrt_up,
    to_rational,
)
from discreet.errors import BadParameter


class Neighbours(Enum):
    """A neighbouring relation: which two data sets must be hard to tell apart."""

    ADD_REMOVE = "add-remove", "add or remove one unit", 1
    REPLACE = "replace", "replace one unit, the number of units being public", 2

    definition: str
    """The relation in words. Measurement hashes and certificates hold these texts: they never change."""

    differing_units: int
    """How many units differ: one that comes or goes, or one that goes and another that comes."""

    def __new__(cls, value: str, definition: str, differing_units: int) -> "Neighbours":
        member = object.__new__(cls)
        member._value_, member.definition, member.differing_units = value, definition, differing_units
        return member

    @classmethod
    def parse(cls, text: str, name: str = "neighbours") -> "Neighbours":
        """Read a relation by its name; a refusal calls the parameter `name`.

        >>> Neighbours.parse("replace")
        <Neighbours.REPLACE: 'replace'>
        """
        by_name = {relation.value: relation for relation in cls}
        if not isinstance(text, str) or text not in by_name:
            raise BadParameter(name, repr(text), "no such relation", f"take {' or '.join(by_name)}")
        return by_name[text]


@dataclass(frozen=True, slots=True, init=False)
class Sensitivity:
    """Bounds on how far one unit moves a vector of exact statistics.

    >>> Sensitivity(l0=4, linf=1)
    Sensitivity(l0=4, l1=4, l2=2, linf=1)
    >>> Sensitivity(l1=1, linf=2)
    Traceback (most recent call last):
    discreet.errors.BadParameter: linf is 2: cannot exceed l1 = 1. State norms of one and the same change.
    """

    l0: int | None  # None: no bound on the number of coordinates is known
    l1: Fraction | None  # None: no bound is known
    l2_squared: Fraction
    linf: Fraction

    def __init__(
        self,
        *,
        l0: int | None = None,
        l1: Number | None = None,
        l2: Number | None = None,
        linf: Number | None = None,
        l2_squared: Number | None = None,
    ) -> None:
        if l2 is not None and l2_squared is not None:
            raise BadParameter(
                "l2", format_rational(to_rational(l2)), "l2_squared says the same thing", "give one of the two"
            )
        if l2 is not None:
            l2_squared = check_positive(l2, "l2") ** 2
        count = None if l0 is None else check_int(l0, "l0", 1)
        sums = None if l1 is None else check_positive(l1, "l1")
        squares = None if l2_squared is None else check_positive(l2_squared, "l2_squared")
        most = None if linf is None else check_positive(linf, "linf")
        if sums is not None or squares is not None:  # l0 and linf alone contradict nothing
            _refuse_contradictions(count, sums, squares, most)
        # Each norm that is not given gets the smallest bound that follows from those given and those derived before it.
        above = [bound for bound in (most, sums, None if squares is None else sqrt_up(squares)) if bound is not None]
        if not above:
            raise BadParameter("sensitivity", "empty", "no norm is bounded", "give l1, l2 or linf")
        most = min(above)
        if sums is None and count is not None:
            sums = count * most if squares is None else min(count * most, sqrt_up(count * squares))
        if squares is None and sums is None:
            raise BadParameter(
                "sensitivity",
                f"linf = {format_rational(most)} alone",
                "bounds no sum of changes",
                "add l0, the number of coordinates that one unit can change, or l1 or l2",
            )
        if squares is None and sums is not None:
            squares = sums * most if count is None else min(sums * most, count * most**2)
        for name, value in (("l0", count), ("l1", sums), ("l2_squared", squares), ("linf", most)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        norms = {"l0": self.l0, "l1": self.l1, "l2": self.l2, "linf": self.linf}
        return f"Sensitivity({', '.join(f'{k}={_format_norm(v)}' for k, v in norms.items() if v is not None)})"

    @property
    def l2(self) -> Fraction:
        """The Euclidean bound, rounded up where it is irrational."""
        return sqrt_up(self.l2_squared)

    def to_grid(self, grid: Fraction) -> "Sensitivity":
        """Return the sensitivity, in grid steps, of the statistics rounded to the nearest multiple of `grid`.

        A grid of 1 is for statistics that are integers already: nothing changes.

        **Proof.** ⌊a + ½⌋ and ⌊b + ½⌋ differ by at most ⌈|a − b|⌉ ≤ |a − b| + 1, and not at all where a = b. So only the
        l0 changed coordinates gain, each at most one step: linf → ⌈linf/g⌉, l1 → l1/g + l0, and by Minkowski
        l2 → l2/g + √l0.
        """
        if check_grid(grid) == 1:
            return self
        if self.l0 is None:
            raise BadParameter(
                "sensitivity",
                self,
                "rounding to a grid moves every changed coordinate and l0 is unknown",
                "give l0, the number of coordinates that one unit can change",
            )
        most = Fraction(ceil(self.linf / grid))
        sums = self.l0 * most if self.l1 is None else min(self.l0 * most, self.l1 / grid + self.l0)
        scaled = self.l2_squared / grid**2
        squares = min(self.l0 * most**2, scaled + 2 * sqrt_up(scaled * self.l0) + self.l0)
        return Sensitivity(l0=self.l0, l1=sums, l2_squared=min(squares, sums * most), linf=most)

    def scale_by(self, factor: Number) -> "Sensitivity":
        """Return the sensitivity of the same statistics multiplied by `factor`."""
        scale = check_positive(factor, "factor")
        return Sensitivity(
            l0=self.l0,
            l1=None if self.l1 is None else self.l1 * scale,
            l2_squared=self.l2_squared * scale**2,
            linf=self.linf * scale,
        )


def to_sensitivity(bound: "Sensitivity | Number") -> Sensitivity:
    """Return the sensitivity that a parameter means: a plain number is one statistic that moves by at most that much."""
    if isinstance(bound, Sensitivity):
        return bound
    return Sensitivity(l0=1, linf=check_positive(bound, "sensitivity"))


def check_grid(grid: Number) -> Fraction:
    """Return `grid` as a rational; refuse what is not a power of two, 2^k for some integer k.

    >>> check_grid(0.25)
    Fraction(1, 4)
    """
    step = to_rational(grid, "grid")
    top, bottom = step.numerator, step.denominator
    if top <= 0 or top & (top - 1) or bottom & (bottom - 1):
        raise BadParameter("grid", format_rational(step), "must be a power of two", "take 2^k, for example 1/1024")
    return step


def count(neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of one count of units: 1 under both relations (a replaced unit moves it by −1, 0 or 1)."""
    return Sensitivity(l0=1, linf=1)


def counts(k: int, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of k counts that may overlap: one unit can move all of them by one, so l1 = k and l2 = √k."""
    return Sensitivity(l0=check_int(k, "k", 1), linf=1)


def histogram(neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of counts over disjoint cells, however many.

    One cell changes by 1 if a unit is added or removed; two change, l1 = 2 and l2 = √2, if a unit is replaced.
    """
    return Sensitivity(l0=neighbours.differing_units, linf=1)


def bounded_sum(lower: Number, upper: Number, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Sensitivity:
    """Return the sensitivity of a sum of values clipped to [lower, upper].

    It is the largest |value| that can be added or removed, or the width of the interval if a unit is replaced.
    """
    low, high = _check_interval(lower, upper)
    return to_sensitivity(max(abs(low), abs(high)) if neighbours is Neighbours.ADD_REMOVE else high - low)


def mean(lower: Number, upper: Number, n: int, neighbours: Neighbours = Neighbours.REPLACE) -> Sensitivity:
    """Return the sensitivity of the mean of n values clipped to [lower, upper], n public: (upper − lower)/n.

    If units are added or removed then n is not public, and a mean must be released as a sum and a count.
    """
    if neighbours is Neighbours.ADD_REMOVE:
        raise BadParameter(
            "neighbours", "ADD_REMOVE", "a mean at fixed n needs a public n", "use REPLACE, or release a sum and a count"
        )
    low, high = _check_interval(lower, upper)
    return to_sensitivity((high - low) / check_int(n, "n", 1))


def proportion(n: int, neighbours: Neighbours = Neighbours.REPLACE) -> Sensitivity:
    """Return the sensitivity of the share of n units, n public, that satisfy a predicate: 1/n."""
    return mean(0, 1, n, neighbours)


def _check_interval(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    low, high = to_rational(lower, "lower"), to_rational(upper, "upper")
    if low >= high:
        raise BadParameter(
            "lower", format_rational(low), f"must lie below upper = {format_rational(high)}", "clip to a proper interval"
        )
    return low, high


def _format_norm(value: int | Fraction) -> str:
    return str(value) if isinstance(value, int) or value.denominator < 1000 else f"{ceil_float(value):.12g}"


def _refuse_contradictions(l0: int | None, l1: Fraction | None, squares: Fraction | None, linf: Fraction | None) -> None:
    """Refuse norms that break the inequalities above: no change can have them, so one of them is a mistake."""
    ascending = [("linf", None if linf is None else linf**2), ("l2", squares), ("l1", None if l1 is None else l1**2)]
    given = [(name, square) for name, square in ascending if square is not None]
    for (small, low), (large, high) in pairwise(given):
        if low > high * _ROUNDING_TOLERANCE:
            _contradict(small, low, f"cannot exceed {large} = {_format_norm(sqrt_up(high))}")
    if linf is not None and l1 is not None and squares is not None and squares > l1 * linf * _ROUNDING_TOLERANCE:
        _contradict("l2", squares, f"cannot exceed √(l1·linf) = {_format_norm(sqrt_up(l1 * linf))}")
    if l0 is None:
        return
    if linf is not None and l1 is not None and l1 > l0 * linf * _ROUNDING_TOLERANCE:
        _contradict("l1", l1**2, f"cannot exceed l0·linf = {_format_norm(l0 * linf)}")
    if linf is not None and squares is not None and squares > l0 * linf**2 * _ROUNDING_TOLERANCE:
        _contradict("l2", squares, f"cannot exceed √l0·linf = {_format_norm(sqrt_up(l0 * linf**2))}")
    if squares is not None and l1 is not None and l1**2 > l0 * squares * _ROUNDING_TOLERANCE:
        _contradict("l1", l1**2, f"cannot exceed √l0·l2 = {_format_norm(sqrt_up(l0 * squares))}")


def _contradict(name: str, square: Fraction, reason: str) -> None:
    raise BadParameter(name, _format_norm(sqrt_up(square)), reason, "state norms of one and the same change")


_ROUNDING_TOLERANCE = 1 + Fraction(1, 1 << 40)
"""A root that was rounded, such as sqrt(2) as a double, is no contradiction."""
