"""The exponential mechanism: the worst of all mechanisms whose loss has a range of at most ε."""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, expm1, log
from typing import Any

import numpy as np

from discreet._numbers import nearest_float
from discreet.accounting.pld import EPS, Floats, MgfRatio


@dataclass(frozen=True, slots=True)
class BoundedRangePld:
    """L between −ε and ε with density e^{(t − ε)/2}/(2(1 − e^{-ε})): a pair that dominates every range of ε.

    If P/Q lies in [e^{u−ε}, e^u], its mean under Q being 1, then every convex function of it has its largest mean where
    only the two ends occur (chord): a pair with these two losses dominates, as [DDR20] found. Its H at e^x, −ε ≤ x ≤ ε, is
    (1 − e^{u−ε})(1 − e^{x−u})/(1 − e^{-ε}), or 1 − e^x if that is more. The largest over u, at u = (x + ε)/2, is
    (1 − e^{(x−ε)/2})²/(1 − e^{-ε}): convex in e^x, hence itself the curve of a pair [ZDW22], and minus its slope is
    Q(L > x). With w = z + ½, M(z) = e^{zε}·(1 − e^{-2wε})/(2w(1 − e^{-ε})).

    >>> law = BoundedRangePld(Fraction(1))
    >>> abs(float(law.cgf(np.array([1e-12]))[0][0])) < 1e-11
    True
    """

    epsilon: Fraction

    @property
    def max_loss(self) -> float:
        return nearest_float(self.epsilon)

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        eps = nearest_float(self.epsilon)
        if eps == 0:
            return np.zeros(len(c)), np.zeros(len(c))
        shrink = np.log(_quotient(eps, c + 0.5))
        return c * eps + shrink, 16 * EPS * (c * eps + np.abs(shrink) + 4)

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        eps = nearest_float(self.epsilon)
        if eps == 0:
            return MgfRatio(np.full(len(s), -base + 0j), np.full(len(s), 8 * EPS * (1 + abs(base))))
        value = _quotient(eps, c + 0.5 + 1j * s)
        logs = c * eps - base + 1j * s * eps + np.log(np.where(np.abs(value) < 1e-300, 1e-300 + 0j, value))
        # |1 − e^{-2wε}| ≤ 2|w|ε, so the quotient is at most ε/(1 − e^{-ε}), and that times the roundings bounds its error.
        scale = exp(c * eps - base) * eps / -expm1(-eps)
        return MgfRatio(logs, scale * 16 * EPS * (c * eps + abs(base) + 2 * s * eps + 8) + 2e-300)

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        return np.zeros(len(s))

    def decay_bound(self, c: float, s: float) -> float:
        """|1 − e^{-2wε}| ≤ 1 + e^{-2cε - ε}, and 1/|w| falls."""
        eps, w = nearest_float(self.epsilon), c + 0.5
        if eps == 0:
            return 0.0
        spread = log((1 + exp(-2 * w * eps)) / -expm1(-2 * w * eps))
        return min(0.0, spread + log(w / float(np.hypot(w, s))) + 32 * EPS * (1 + spread))


def _quotient(epsilon: float, w: Any) -> Any:
    """(1 − e^{-2wε})/(2w(1 − e^{-ε})), for real or complex w."""
    return np.expm1(-2 * epsilon * w) / (2 * w * expm1(-epsilon))
