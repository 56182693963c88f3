"""A total that grows by one release at a time: appending and reading again costs as much as its few live nodes.

Composition multiplies M, so a total keeps, for both directions, the sums of ln M at the nodes of one contour and K on a
ladder of real points. Appending adds one vector to each. Nodes that have become too small to matter never come back
(`nodes`), so a long total has few of them. When the best tilt for δ has moved too far, the contour is laid anew from the
parts; as that happens only when the cost has changed by a constant factor, it happens ever more rarely.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import inf, log

from discreet._numbers import Bounds, Number, check_probability, floor_float
from discreet.accounting.contour import (
    Contour,
    bound_delta_at,
    extend_contour,
    find_saddle_point_for_delta,
    fit_contour,
    invert,
    solve_newton,
    tabulate_cgf,
)
from discreet.accounting.curve import epsilon
from discreet.accounting.directions import build_direction, has_two_directions
from discreet.accounting.dominating_pairs import Direction
from discreet.accounting.pld.cgf import CgfTable
from discreet.accounting.rewrite import find_attained_event, list_alternatives
from discreet.events import Composition, Event, compose, repeat

_FEW = 32  # parts up to which reading from scratch is as good
_MAX_DRIFT = 0.5  # how far ln c may be from its best


@dataclass(frozen=True, slots=True)
class RunningDirection:
    """One direction of a running total."""

    direction: Direction
    cgf_table: CgfTable
    contour: Contour | None = None

    @classmethod
    def empty(cls) -> "RunningDirection":
        return cls(Direction((), (0.0, 0.0)), tabulate_cgf(()))

    def append(self, more: Direction) -> "RunningDirection":
        """The same with `more` composed; the contour is extended, not laid anew."""
        parts = (*self.direction.parts, *more.parts)
        kept = (
            self.direction.log_finite_mass[0] + more.log_finite_mass[0],
            self.direction.log_finite_mass[1] + more.log_finite_mass[1],
        )
        ladder = self.cgf_table.plus(tabulate_cgf(more.parts))
        old = self.contour
        wide = (
            None
            if old is None
            else extend_contour(old, more.parts, old.cgf_table.plus(CgfTable.of(more.parts, old.cgf_table.c)))
        )
        return RunningDirection(Direction(parts, kept), ladder, wide)

    def with_contour(self, delta: float, rtol: float) -> "RunningDirection":
        """With a contour that suits δ: the one it has if its tilt is near enough."""
        aim = delta - self.direction.infinity_mass[1]
        if len(self.direction.parts) <= _FEW or aim <= 0:
            return replace(self, contour=None)
        if self.contour is not None and abs(log(self.contour.c / self.cgf_table.best_c(aim))) < _MAX_DRIFT:
            return self
        tilt = find_saddle_point_for_delta(self.direction.parts, self.cgf_table, aim)
        tolerance = 0.1 * min(0.1, rtol * max(1e-3, tilt.c * tilt.epsilon))  # room to grow, in accuracy and in length
        return replace(self, contour=fit_contour(self.direction.parts, tilt, tolerance, log(aim), stretch=2.0))

    def epsilon(self, delta: float, rtol: float) -> tuple[float, float]:
        low, high = self.direction.infinity_mass
        if self.contour is None:
            return (inf if low > delta else 0.0), inf  # δ is at or below what is at infinity
        guess = solve_newton(self.contour, delta - high, max(1e-6, (self.cgf_table.chernoff_epsilon(delta - high))))
        return invert(partial(bound_delta_at, self.contour, self.direction.infinity_mass), delta, guess, rtol / 8, tries=24)


@dataclass(frozen=True, slots=True)
class RunningTotal:
    """What has been released so far, kept ready to read its ε at one δ.

    A fact with alternatives (parallel branches), a group that is only dominated, or one that is known only by a bound on
    its Rényi divergences makes the total read by `curve.epsilon`, as slowly as that is.

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
    removed: RunningDirection
    added: RunningDirection
    events: tuple[Composition, ...] = ()
    is_incremental: bool = True

    @classmethod
    def for_delta(cls, delta: Number, rtol: float = 1e-6) -> "RunningTotal":
        """Nothing yet, to be read at δ."""
        nothing = RunningDirection.empty()
        return cls(floor_float(check_probability(delta, "delta")), rtol, nothing, nothing)

    def append(self, event: Event, times: int = 1) -> "RunningTotal":
        """The total after `times` more of this release."""
        runs = repeat(event, times)
        facts = (*self.events, runs)
        choice, *others = list_alternatives(runs)
        if others or not self.is_incremental or find_attained_event(runs) != runs:
            return replace(self, events=facts, is_incremental=False)
        more = build_direction(choice, removed=True)
        if more.dominated_by is not None:
            return replace(self, events=facts, is_incremental=False)
        removed = self.removed.append(more).with_contour(self.delta, self.rtol)
        # Only samples tell the directions apart; until there is one, both are one track.
        if self.removed is self.added and not has_two_directions(choice):
            return replace(self, removed=removed, added=removed, events=facts)
        added = self.added.append(build_direction(choice, removed=False)).with_contour(self.delta, self.rtol)
        return replace(self, removed=removed, added=added, events=facts)

    def epsilon(self) -> Bounds:
        """ε at the total's δ."""
        if not self.is_incremental or len(self.removed.direction.parts) <= _FEW:
            return epsilon(compose(*self.events), self.delta, self.rtol)
        tracks = (self.removed,) if self.removed is self.added else (self.removed, self.added)
        both = [track.epsilon(self.delta, self.rtol) for track in tracks]
        return Bounds(max(low for low, _ in both), max(high for _, high in both))
