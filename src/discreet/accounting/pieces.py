"""What facts contribute to one direction of a composition, and the composition itself.

A curve is bounded from below by neighbours that exist and from above by pairs that dominate. Where one pair is both, it
is stated once. Where none is, a `Piece` and a `Side` hold a pair that is reached, and one or several `Ceiling`s: each
bounds the curve from above on its own, so the least of them does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import expm1, inf, log1p

from discreet.accounting.either import CgfEnvelope
from discreet.accounting.laws import EPS, Pld

Part = tuple[Pld, int]

_MAX_COMBINATIONS = 8
"""Combinations of the pieces' ceilings that are followed; past that, each that is followed goes on with one of them."""


@dataclass(frozen=True, slots=True)
class UpperBound:
    """Laws that dominate, and ln of the mass that stays finite, rounded down. With `moments` they only bound K = ln M."""

    parts: tuple[Part, ...]
    log_finite_mass: float = 0.0
    cgf_only: bool = False

    @property
    def infinity_mass(self) -> float:
        """The mass at +∞, rounded up."""
        return max(0.0, min(1.0, -expm1(self.log_finite_mass) * (1 + 4 * EPS)))

    def repeat(self, times: int) -> "UpperBound":
        """The same, `times` times."""
        parts = tuple((law, times * count) for law, count in self.parts)
        return UpperBound(parts, times * self.log_finite_mass * (1 + 4 * EPS), self.cgf_only)

    def plus(self, other: "UpperBound") -> "UpperBound":
        """Both together."""
        kept = (self.log_finite_mass + other.log_finite_mass) * (1 + EPS)
        return UpperBound((*self.parts, *other.parts), kept, self.cgf_only or other.cgf_only)


@dataclass(frozen=True, slots=True)
class Component:
    """What one fact contributes, `times` times: the laws of an actual neighbour (none: all is at infinity, or nothing
    happens) and its mass at infinity between two doubles. No `ceilings` means that this neighbour is the worst one."""

    parts: tuple[Part, ...]
    times: int = 1
    infinity_mass: tuple[float, float] = (0.0, 0.0)
    dominated_by: tuple[UpperBound, ...] | None = None

    @property
    def upper_bounds(self) -> tuple[UpperBound, ...]:
        """What bounds one run from above."""
        return (
            (UpperBound(self.parts, log_finite(self.infinity_mass[1])),) if self.dominated_by is None else self.dominated_by
        )


DISTINGUISHABLE = Component((), 1, (1.0, 1.0))
"""Neighbours are told apart for certain."""

UNKNOWN = Component((), 1, (0.0, 1.0))
"""Nothing is known: the honest answer where a ratio of noise to sensitivity is past the doubles."""


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction: P's finite losses as independent parts, and ln of the mass that stays finite, between two doubles.

    With `ceilings`, `parts` are an actual neighbour's and bound the curve from below only, as the larger of `kept` does.
    """

    parts: tuple[Part, ...]
    log_finite_mass: tuple[float, float]
    dominated_by: tuple[UpperBound, ...] | None = None

    @property
    def infinity_mass(self) -> tuple[float, float]:
        """The mass at +∞, 1 − Π(1 − p)^times."""
        low = max(0.0, -expm1(self.log_finite_mass[1]) * (1 - 4 * EPS))
        return low, min(ceiling.infinity_mass for ceiling in self.upper_bounds)

    @property
    def upper_bounds(self) -> tuple[UpperBound, ...]:
        """What bounds the curve from above."""
        return (UpperBound(self.parts, self.log_finite_mass[0]),) if self.dominated_by is None else self.dominated_by

    @property
    def dominating_pair(self) -> UpperBound | None:
        """Laws that dominate, if any do."""
        return next((ceiling for ceiling in self.upper_bounds if not ceiling.cgf_only), None)

    @property
    def cgf_bound(self) -> UpperBound:
        """A K that is never exceeded: δ ≤ δ of one of the ceilings, so the least K with the largest mass at infinity."""
        if len(self.upper_bounds) == 1:
            return self.upper_bounds[0]
        least = CgfEnvelope(tuple(ceiling.parts for ceiling in self.upper_bounds), worst=False)
        return UpperBound(((least, 1),), min(ceiling.log_finite_mass for ceiling in self.upper_bounds), cgf_only=True)


def combine_bounds(so_far: Sequence[UpperBound], more: Sequence[UpperBound]) -> list[UpperBound]:
    """Every combination of one ceiling of each, or a few of the combinations: any of them is a ceiling of both."""
    if len(so_far) * len(more) <= _MAX_COMBINATIONS:
        return [one.plus(two) for one, two in product(so_far, more)]
    return [one.plus(more[i % len(more)]) for i, one in enumerate(so_far)]


def log_finite(infinity_mass: float) -> float:
    """ln(1 − p)."""
    return log1p(-infinity_mass) if infinity_mass < 1 else -inf
