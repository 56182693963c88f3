"""A total that grows by one release at a time: appending and reading again costs as much as its few live nodes.

Composition multiplies M, so a total keeps, for both directions, the sums of ln M at the nodes of one contour and K on a
ladder of real points. Appending adds one vector to each. Nodes that have become too small to matter never come back
(`nodes`), so a long total has few of them. When the best tilt for δ has moved too far, the contour is laid anew from the
parts; as that happens only when the cost has changed by a constant factor, it happens ever more rarely.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import inf, log

from discreet.accounting.contour import Line
from discreet.accounting.curve import epsilon
from discreet.accounting.ladder import Ladder
from discreet.accounting.nodes import extend
from discreet.accounting.pieces import Side
from discreet.accounting.resolve import alternatives, reached
from discreet.accounting.sides import directed, side
from discreet.accounting.solve import coarse, invert, line, newton, reading, tilt_for
from discreet.exact import Bounds, Number, floor_float, open_unit
from discreet.loss import Composition, Loss, compose, repeat

_FEW = 32  # parts up to which reading from scratch is as good
_DRIFT = 0.5  # how far ln c may be from its best


@dataclass(frozen=True, slots=True)
class Track:
    """One direction of a running total."""

    side: Side
    ladder: Ladder
    line: Line | None = None

    @classmethod
    def empty(cls) -> "Track":
        return cls(Side((), (0.0, 0.0)), coarse(()))

    def append(self, more: Side) -> "Track":
        """The same with `more` composed; the contour is extended, not laid anew."""
        parts = (*self.side.parts, *more.parts)
        kept = self.side.kept[0] + more.kept[0], self.side.kept[1] + more.kept[1]
        ladder = self.ladder.plus(coarse(more.parts))
        old = self.line
        wide = None if old is None else extend(old, more.parts, old.ladder.plus(Ladder.of(more.parts, old.ladder.c)))
        return Track(Side(parts, kept), ladder, wide)

    def laid(self, delta: float, rtol: float) -> "Track":
        """With a contour that suits δ: the one it has if its tilt is near enough."""
        aim = delta - self.side.infinite[1]
        if len(self.side.parts) <= _FEW or aim <= 0:
            return replace(self, line=None)
        if self.line is not None and abs(log(self.line.c / self.ladder.best(aim))) < _DRIFT:
            return self
        tilt = tilt_for(self.side.parts, self.ladder, aim)
        tolerance = 0.1 * min(0.1, rtol * max(1e-3, tilt.c * tilt.epsilon))  # room to grow, in accuracy and in length
        return replace(self, line=line(self.side.parts, tilt, tolerance, log(aim), stretch=2.0))

    def epsilon(self, delta: float, rtol: float) -> tuple[float, float]:
        low, high = self.side.infinite
        if self.line is None:
            return (inf if low > delta else 0.0), inf  # δ is at or below what is at infinity
        guess = newton(self.line, delta - high, max(1e-6, (self.ladder.epsilon(delta - high))))
        return invert(partial(reading, self.line, self.side.infinite), delta, guess, rtol / 8, tries=24)


@dataclass(frozen=True, slots=True)
class RunningTotal:
    """What has been released so far, kept ready to read its ε at one δ.

    A fact with alternatives (parallel branches), a group that is only dominated, or one that is known only by a bound on
    its Rényi divergences makes the total read by `curve.epsilon`, as slowly as that is.

    >>> from fractions import Fraction
    >>> from discreet.loss import Claim
    >>> total = RunningTotal.at(1e-6)
    >>> for _ in range(3):
    ...     total = total.append(Claim(Fraction(1, 10), Fraction(0)))
    >>> 0.29 < total.epsilon().lower <= total.epsilon().upper <= 0.3000001
    True
    """

    delta: float
    rtol: float
    removed: Track
    added: Track
    facts: tuple[Composition, ...] = ()
    plain: bool = True

    @classmethod
    def at(cls, delta: Number, rtol: float = 1e-6) -> "RunningTotal":
        """Nothing yet, to be read at δ."""
        nothing = Track.empty()
        return cls(floor_float(open_unit(delta, "delta")), rtol, nothing, nothing)

    def append(self, loss: Loss, times: int = 1) -> "RunningTotal":
        """The total after `times` more of this release."""
        runs = repeat(loss, times)
        facts = (*self.facts, runs)
        choice, *others = alternatives(runs)
        if others or not self.plain or reached(runs) != runs:
            return replace(self, facts=facts, plain=False)
        more = side(choice, removed=True)
        if more.ceilings is not None:
            return replace(self, facts=facts, plain=False)
        removed = self.removed.append(more).laid(self.delta, self.rtol)
        # Only samples tell the directions apart; until there is one, both are one track.
        if self.removed is self.added and not directed(choice):
            return replace(self, removed=removed, added=removed, facts=facts)
        added = self.added.append(side(choice, removed=False)).laid(self.delta, self.rtol)
        return replace(self, removed=removed, added=added, facts=facts)

    def epsilon(self) -> Bounds:
        """ε at the total's δ."""
        if not self.plain or len(self.removed.side.parts) <= _FEW:
            return epsilon(compose(*self.facts), self.delta, self.rtol)
        tracks = (self.removed,) if self.removed is self.added else (self.removed, self.added)
        both = [track.epsilon(self.delta, self.rtol) for track in tracks]
        return Bounds(max(low for low, _ in both), max(high for _, high in both))
