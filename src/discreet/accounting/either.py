"""A bound on K made of the K of several compositions."""

from dataclasses import dataclass

import numpy as np

from discreet.accounting.ladder import Ladder, Parts
from discreet.accounting.laws import Floats, Ratio


@dataclass(frozen=True, slots=True)
class EitherLaw:
    """Not a law but a bound: the largest K of several compositions where any of them may have run, the least where all are
    bounds."""

    choices: tuple[Parts, ...]
    worst: bool

    @property
    def most(self) -> float:
        found = [sum(times * law.most for law, times in parts) for parts in self.choices]
        return max(found) if self.worst else min(found)

    def real(self, c: Floats) -> tuple[Floats, Floats]:
        totals = np.array([Ladder.of(parts, c).k for parts in self.choices])  # rounded up
        return (totals.max(axis=0) if self.worst else totals.min(axis=0)), np.zeros(len(c))

    def ratio(self, c: float, base: float, s: Floats) -> Ratio:
        return Ratio(np.zeros(len(s), dtype=np.complex128), np.full(len(s), 2.0))

    def size(self, c: float, s: Floats) -> Floats:
        return np.zeros(len(s))

    def envelope(self, c: float, s: float) -> float:
        return 0.0
