"""A running total: a composition that grows by one event at a time, whose ε is computed after each.

**Theory of operation.** Composition multiplies M, so a total keeps, for both directions, the sums of ln M at the nodes of
one contour and K at a table of real points. Appending adds one vector to each. Nodes that have become too small to matter
never come back (`contour`), so a long total has few of them, and an append costs as much as these. When the best saddle
point for δ has moved too far, the contour is built anew from the parts; as that happens only when the cost has changed by a
constant factor, it happens ever more rarely.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, log

from discreet._numbers import Bounds, Number, check_probability, floor_float, invert_falling
from discreet.accounting.contour import (
    CgfTable,
    Contour,
    extend_contour,
    find_saddle_point_for_delta,
    fit_contour,
    solve_newton,
)
from discreet.accounting.curve import epsilon
from discreet.accounting.dominating_pairs import Direction, build_direction, has_two_directions
from discreet.accounting.neighbours import has_replacement
from discreet.accounting.pld import Interval
from discreet.accounting.rewrite import find_attained_event, list_alternatives
from discreet.events import Composition, Event, compose, repeat

_FEW_PARTS = 32  # up to which computing from scratch is as good
_MAX_DRIFT = 0.5  # how far ln c may be from its best


@dataclass(frozen=True, slots=True)
class RunningDirection:
    """One direction of a running total."""

    direction: Direction
    cgf_table: CgfTable
    contour: Contour | None = None

    @classmethod
    def empty(cls) -> RunningDirection:
        """Nothing yet."""
        return cls(Direction((), (0.0, 0.0)), CgfTable.of(()))

    def append(self, more: Direction) -> RunningDirection:
        """The same with `more` composed; the contour is extended, not built anew."""
        parts = (*self.direction.parts, *more.parts)
        finite = (
            self.direction.log_finite_mass[0] + more.log_finite_mass[0],
            self.direction.log_finite_mass[1] + more.log_finite_mass[1],
        )
        table, contour = self.cgf_table.plus(CgfTable.of(more.parts)), self.contour
        if contour is not None:
            cgf = contour.cgf_table
            contour = extend_contour(contour, more.parts, cgf.plus(CgfTable.of(more.parts, cgf.c)))
        return RunningDirection(Direction(parts, finite), table, contour)

    def with_contour(self, delta: float, rtol: float) -> RunningDirection:
        """With a contour that suits δ: the one it has if its saddle point is near enough."""
        aim = delta - self.direction.infinity_mass[1]
        if len(self.direction.parts) <= _FEW_PARTS or aim <= 0:
            return replace(self, contour=None)
        if self.contour is not None and abs(log(self.contour.c / self.cgf_table.best_c(aim))) < _MAX_DRIFT:
            return self
        saddle = find_saddle_point_for_delta(self.direction.parts, self.cgf_table, aim)
        tolerance = 0.1 * min(0.1, rtol * max(1e-3, saddle.c * saddle.epsilon))  # room to grow, in accuracy and in length
        return replace(self, contour=fit_contour(self.direction.parts, saddle, tolerance, log(aim), stretch=2.0))

    def epsilon(self, delta: float, rtol: float) -> Interval:
        """ε at δ."""
        mass, contour = self.direction.infinity_mass, self.contour
        if contour is None:
            return (inf if mass[0] > delta else 0.0), inf  # δ is at or below what is at infinity
        guess = solve_newton(contour, delta - mass[1], max(1e-6, self.cgf_table.chernoff_epsilon(delta - mass[1])))
        return invert_falling(lambda e: contour.bound_delta(e, mass), delta, guess, rtol / 8, tries=24)


@dataclass(frozen=True, slots=True)
class RunningTotal:
    """A composition that grows, prepared for its ε at one δ.

    An event with alternatives (parallel branches), a group that is only dominated, or one that is known only by a bound on
    its Rényi divergences leaves the total to `curve.epsilon`, which is slower.

    >>> from fractions import Fraction
    >>> from discreet.events import Claim
    >>> total = RunningTotal.for_delta(1e-6)
    >>> for _ in range(3):
    ...     total = total.append(Claim(Fraction(1, 10), Fraction(0)))
    >>> 0.29 < total.epsilon().lower <= total.epsilon().upper <= 0.3000001
    True
    """

    delta: float
    rtol: float
    removed: RunningDirection = field(compare=False)  # both follow from the rest
    added: RunningDirection = field(compare=False)
    events: tuple[Composition, ...] = ()
    is_incremental: bool = True

    @classmethod
    def for_delta(cls, delta: Number, rtol: float = 1e-6) -> RunningTotal:
        """Nothing yet, for this δ."""
        nothing = RunningDirection.empty()
        return cls(floor_float(check_probability(delta, "delta")), rtol, nothing, nothing)

    def append(self, event: Event, times: int = 1) -> RunningTotal:
        """The total after `times` more runs of this event."""
        runs = repeat(event, times)
        events = (*self.events, runs)
        choice, *others = list_alternatives(runs)
        if has_replacement(runs) or others or not self.is_incremental or find_attained_event(runs) != runs:
            return replace(self, events=events, is_incremental=False)
        more = build_direction(choice, removed=True)
        if more.dominated_by is not None:
            return replace(self, events=events, is_incremental=False)
        removed = self.removed.append(more).with_contour(self.delta, self.rtol)
        # Only samples distinguish the directions; until there is one, both are one object.
        if self.removed is self.added and not has_two_directions(choice):
            return replace(self, removed=removed, added=removed, events=events)
        added = self.added.append(build_direction(choice, removed=False)).with_contour(self.delta, self.rtol)
        return replace(self, removed=removed, added=added, events=events)

    def epsilon(self) -> Bounds:
        """ε at the total's δ."""
        if not self.is_incremental or len(self.removed.direction.parts) <= _FEW_PARTS:
            return epsilon(compose(*self.events), self.delta, self.rtol)
        directions = (self.removed,) if self.removed is self.added else (self.removed, self.added)
        found = [direction.epsilon(self.delta, self.rtol) for direction in directions]
        return Bounds(max(low for low, _ in found), max(high for _, high in found))
