"""K = ln M of a whole composition at real points: what Chernoff bounds and the choice of a tilt need."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, fsum, inf, log

import numpy as np

from discreet._numbers import nearest_float
from discreet.accounting.pld import EPS, Floats, MgfRatio, Pld

Parts = Sequence[tuple[Pld, int]]
"""Independent losses, each as often as its number says."""


@dataclass(frozen=True, slots=True)
class CgfTable:
    """K of a whole composition at real points, rounded up: what Chernoff bounds and the choice of c need."""

    c: Floats
    k: Floats

    @classmethod
    def of(cls, parts: Parts, c: Floats) -> "CgfTable":
        total = np.zeros_like(c)
        for law, times in parts:
            value, error = law.cgf(c)
            total = total + float(times) * (value + error + 2 * EPS * np.abs(value))
        return cls(c, total + 4 * EPS * len(parts) * np.abs(total))

    def plus(self, other: "CgfTable") -> "CgfTable":
        """K of both together, on the same points."""
        total = self.k + other.k
        return CgfTable(self.c, total + 2 * EPS * np.abs(total))

    def chernoff_epsilons(self, delta: float) -> Floats:
        """For every c the ε at which its Chernoff bound is delta: all of them are upper bounds."""
        with np.errstate(invalid="ignore"):
            above = (self.chernoff(0.0) - log(delta) + 1e-13 * abs(log(delta))) / self.c
        return np.where(np.isfinite(above), above * (1 + 2**-48 * np.sign(above)), inf)

    def chernoff_epsilon(self, delta: float) -> float:
        """The least of them, and not below 0."""
        return max(0.0, float(np.min(self.chernoff_epsilons(delta))))

    def best_c(self, delta: float) -> float:
        """The c of the least of them."""
        return float(self.c[np.argmin(self.chernoff_epsilons(delta))])

    def chernoff(self, epsilon: float) -> Floats:
        """ln of a bound on the finite δ(ε), for every c."""
        return np.asarray(self.k - self.c * epsilon + log_peak(self.c) + 4 * EPS * (np.abs(self.k) + self.c * epsilon))


def log_peak(c: Floats) -> Floats:
    """ln B(c) = ln max_x (1 − e^{-x})e^{-cx} = c·ln c − (1 + c)·ln(1 + c), rounded up."""
    return np.asarray(-c * np.log1p(1 / c) - np.log1p(c) + 8 * EPS * (1 + np.log1p(c)))


def total_max_loss(parts: Parts) -> float:
    """No finite loss is above this."""
    most = fsum(times * abs(law.max_loss) for law, times in parts)
    return fsum(times * law.max_loss for law, times in parts) + 1e-14 * most if most < inf else inf


def total_decay_bound(parts: Parts, c: float, s: float) -> float:
    """A bound on Π|M(c + it)/M(c)|^times for all t ≥ s."""
    return exp(min(0.0, fsum(times * law.decay_bound(c, s) for law, times in parts)))


# A bound on K made of the K of several compositions.


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


# What stands in where no single pair is worst: a bound on K from above.


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
