"""What facts contribute to one direction of a composition, and the composition itself.

A curve is bounded from below by neighbours that exist and from above by pairs that dominate. Where one pair is both, it
is stated once. Where none is, a `Piece` and a `Side` hold a pair that is reached, and one or several `Ceiling`s: each
bounds the curve from above on its own, so the least of them does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import expm1, inf, log1p

from discreet.accounting.either import EitherLaw
from discreet.accounting.laws import EPS, Law

Part = tuple[Law, int]

_MOST_CEILINGS = 8
"""Combinations of the pieces' ceilings that are followed; past that, each that is followed goes on with one of them."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Laws that dominate, and ln of the mass that stays finite, rounded down. With `moments` they only bound K = ln M."""

    parts: tuple[Part, ...]
    kept: float = 0.0
    moments: bool = False

    @property
    def infinite(self) -> float:
        """The mass at +∞, rounded up."""
        return max(0.0, min(1.0, -expm1(self.kept) * (1 + 4 * EPS)))

    def repeat(self, times: int) -> "Ceiling":
        """The same, `times` times."""
        parts = tuple((law, times * count) for law, count in self.parts)
        return Ceiling(parts, times * self.kept * (1 + 4 * EPS), self.moments)

    def plus(self, other: "Ceiling") -> "Ceiling":
        """Both together."""
        kept = (self.kept + other.kept) * (1 + EPS)
        return Ceiling((*self.parts, *other.parts), kept, self.moments or other.moments)


@dataclass(frozen=True, slots=True)
class Piece:
    """What one fact contributes, `times` times: the laws of an actual neighbour (none: all is at infinity, or nothing
    happens) and its mass at infinity between two doubles. No `ceilings` means that this neighbour is the worst one."""

    parts: tuple[Part, ...]
    times: int = 1
    infinite: tuple[float, float] = (0.0, 0.0)
    ceilings: tuple[Ceiling, ...] | None = None

    @property
    def above(self) -> tuple[Ceiling, ...]:
        """What bounds one run from above."""
        return (Ceiling(self.parts, log_kept(self.infinite[1])),) if self.ceilings is None else self.ceilings


HOPELESS = Piece((), 1, (1.0, 1.0))
"""Neighbours are told apart for certain."""

UNKNOWN = Piece((), 1, (0.0, 1.0))
"""Nothing is known: the honest answer where a ratio of noise to sensitivity is past the doubles."""


@dataclass(frozen=True, slots=True)
class Side:
    """One direction: P's finite losses as independent parts, and ln of the mass that stays finite, between two doubles.

    With `ceilings`, `parts` are an actual neighbour's and bound the curve from below only, as the larger of `kept` does.
    """

    parts: tuple[Part, ...]
    kept: tuple[float, float]
    ceilings: tuple[Ceiling, ...] | None = None

    @property
    def infinite(self) -> tuple[float, float]:
        """The mass at +∞, 1 − Π(1 − p)^times."""
        low = max(0.0, -expm1(self.kept[1]) * (1 - 4 * EPS))
        return low, min(ceiling.infinite for ceiling in self.above)

    @property
    def above(self) -> tuple[Ceiling, ...]:
        """What bounds the curve from above."""
        return (Ceiling(self.parts, self.kept[0]),) if self.ceilings is None else self.ceilings

    @property
    def dominating(self) -> Ceiling | None:
        """Laws that dominate, if any do."""
        return next((ceiling for ceiling in self.above if not ceiling.moments), None)

    @property
    def bound(self) -> Ceiling:
        """A K that is never exceeded: δ ≤ δ of one of the ceilings, so the least K with the largest mass at infinity."""
        if len(self.above) == 1:
            return self.above[0]
        least = EitherLaw(tuple(ceiling.parts for ceiling in self.above), worst=False)
        return Ceiling(((least, 1),), min(ceiling.kept for ceiling in self.above), moments=True)


def combine(sofar: Sequence[Ceiling], more: Sequence[Ceiling]) -> list[Ceiling]:
    """Every combination of one ceiling of each, or a few of the combinations: any of them is a ceiling of both."""
    if len(sofar) * len(more) <= _MOST_CEILINGS:
        return [one.plus(two) for one, two in product(sofar, more)]
    return [one.plus(more[i % len(more)]) for i, one in enumerate(sofar)]


def log_kept(p: float) -> float:
    """ln(1 − p)."""
    return log1p(-p) if p < 1 else -inf
