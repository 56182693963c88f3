"""What stands in where no single pair is worst: a bound on K from above."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np

from discreet.accounting.laws import EPS, Floats, MgfRatio
from discreet.exact import nearest_float


@dataclass(frozen=True, slots=True)
class ZcdpCgfBound:
    """Not a law but a bound: K(c) ≤ ρ·c(c + 1) for every c > 0, which is ρ-zCDP. It has no values off the real line."""

    rho: Fraction

    @property
    def max_loss(self) -> float:
        return inf

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        value = nearest_float(self.rho) * c * (c + 1)
        return value, 4 * EPS * value

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        return MgfRatio(np.zeros(len(s), dtype=np.complex128), np.full(len(s), 2.0))

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        return np.zeros(len(s))

    def decay_bound(self, c: float, s: float) -> float:
        return 0.0
