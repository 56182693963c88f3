"""A bound on K made of the K of several compositions."""

from dataclasses import dataclass

import numpy as np

from discreet.accounting.ladder import CgfTable, Parts
from discreet.accounting.laws import Floats, MgfRatio


@dataclass(frozen=True, slots=True)
class CgfEnvelope:
    """Not a law but a bound: the largest K of several compositions where any of them may have run, the least where all are
    bounds."""

    choices: tuple[Parts, ...]
    worst: bool

    @property
    def max_loss(self) -> float:
        found = [sum(times * law.max_loss for law, times in parts) for parts in self.choices]
        return max(found) if self.worst else min(found)

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        totals = np.array([CgfTable.of(parts, c).k for parts in self.choices])  # rounded up
        return (totals.max(axis=0) if self.worst else totals.min(axis=0)), np.zeros(len(c))

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        return MgfRatio(np.zeros(len(s), dtype=np.complex128), np.full(len(s), 2.0))

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        return np.zeros(len(s))

    def decay_bound(self, c: float, s: float) -> float:
        return 0.0
