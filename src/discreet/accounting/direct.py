"""δ(ε) of a loss with few values, term by term: k-fold randomised response is a binomial, for example."""

from dataclasses import dataclass
from math import fsum, inf

import numpy as np

from discreet.accounting.laws import EPS, Floats
from discreet.accounting.laws.atoms import AtomsLaw


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """All values of a loss from the largest down, with masses: δ(ε) = Σ p·(1 − e^{ε − l})₊, every term ≥ 0."""

    law: AtomsLaw
    outside: float = 0.0  # mass that the list leaves out, wherever it is

    @classmethod
    def of(cls, law: AtomsLaw, outside: float = 0.0) -> "Listed":
        order = np.argsort(-law.loss, kind="stable")
        return cls(AtomsLaw(law.loss[order], law.log_mass[order], law.loss_error[order], law.mass_error[order]), outside)

    def bounds(self, epsilon: float) -> tuple[float, float]:
        """δ at ε between two doubles: each term is moved by the errors of its loss and of its mass.

        >>> Listed.of(AtomsLaw.of([1.0, -1.0], [np.log(0.75), np.log(0.25)])).bounds(1.0)[0]
        0.0
        """
        return self._sum(epsilon, -1), min(1.0, self._sum(epsilon, 1) + self.outside)

    def _sum(self, epsilon: float, side: int) -> float:
        loss = self.law.loss + side * (self.law.loss_error + 2 * EPS * (np.abs(self.law.loss) + abs(epsilon)))
        count = int(np.searchsorted(-loss, -epsilon))  # nearly sorted: the terms past the kink are cut at 0 below
        last = min(len(loss), count + 64)
        gain = -np.expm1(np.minimum(0.0, epsilon - loss[:last]))
        terms = np.exp(np.minimum(self.law.log_mass[:last] + side * self.law.mass_error[:last], 0.0)) * gain
        value = fsum(terms.tolist()) if last < 512 else float(terms.sum()) * (1 + side * EPS * 64)
        return max(0.0, value * (1 + side * 16 * EPS) + side * 1e-320 * last)

    def guess(self, delta: float) -> float:
        """Where δ(ε) meets delta, without error bounds: between two neighbouring values δ is P − e^ε·Q."""
        mass: Floats = np.exp(self.law.log_mass)
        p, q = np.cumsum(mass), np.cumsum(mass * np.exp(-np.maximum(self.law.loss, -700)))
        with np.errstate(divide="ignore", invalid="ignore"):
            at = p - np.exp(np.minimum(self.law.loss, 700)) * q  # δ at every value
            i = int(np.searchsorted(at, delta)) - 1
            value = np.log((p[max(i, 0)] - delta) / q[max(i, 0)])
        return float(value) if np.isfinite(value) and value < inf else float(self.law.loss[0])
