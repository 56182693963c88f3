"""What facts contribute to one direction of a composition, and the composition itself."""

from dataclasses import dataclass
from math import expm1

from discreet.accounting.laws import EPS, Law

Part = tuple[Law, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one fact contributes: a law (or none: everything is at infinity, or nothing happens) and its mass at infinity.

    Where no law is both reached and worst, `law` is a `Neighbour` that is reached, `above` has a K that is never exceeded,
    and `over`, if there is one, is a composition that dominates.
    """

    law: Law | None
    times: int = 1
    infinite: tuple[float, float] = (0.0, 0.0)
    above: tuple[Part, ...] | None = None
    over: tuple[Part, ...] | None = None


HOPELESS = Piece(None, 1, (1.0, 1.0))
"""Neighbours are told apart for certain."""

UNKNOWN = Piece(None, 1, (0.0, 1.0))
"""Nothing is known: the honest answer where a ratio of noise to sensitivity is past the doubles."""


@dataclass(frozen=True, slots=True)
class Side:
    """One direction: P's finite losses as independent parts, and ln of the mass that stays finite, between two doubles.

    Where a part is only known by bounds, `parts` holds actual neighbours, so that it bounds the curve from below; `above`
    is the same composition with a bound on K, and `over` (if there is one) with laws that dominate: both bound the curve
    from above. Otherwise `above` is None and `parts` is both.
    """

    parts: tuple[Part, ...]
    kept: tuple[float, float]
    above: tuple[Part, ...] | None = None
    over: tuple[Part, ...] | None = None

    @property
    def infinite(self) -> tuple[float, float]:
        """The mass at +∞, 1 − Π(1 − p)^times."""
        low, high = -expm1(self.kept[1]), -expm1(self.kept[0])
        return max(0.0, low * (1 - 4 * EPS)), min(1.0, high * (1 + 4 * EPS))

    @property
    def bounds(self) -> tuple[Part, ...]:
        """Parts whose K is never exceeded."""
        return self.parts if self.above is None else self.above

    @property
    def dominating(self) -> tuple[Part, ...] | None:
        """Parts that dominate, if any do."""
        return self.parts if self.above is None else self.over
