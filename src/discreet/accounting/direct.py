"""δ(ε) of a loss with few values, term by term: k-fold randomised response is a binomial, for example."""

from dataclasses import dataclass
from math import fsum, inf, isfinite

import numpy as np

from discreet.accounting.laws import EPS, Floats
from discreet.accounting.laws.atoms import DiscretePld


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteCurve:
    """All values of a loss from the largest down, with masses: δ(ε) = Σ p·(1 − e^{ε − l})₊, every term ≥ 0."""

    pld: DiscretePld
    omitted_mass: float = 0.0  # mass that the list leaves out, wherever it is

    @classmethod
    def of(cls, pld: DiscretePld, omitted_mass: float = 0.0) -> "DiscreteCurve":
        order = np.argsort(-pld.loss, kind="stable")
        return cls(
            DiscretePld(pld.loss[order], pld.log_mass[order], pld.loss_error[order], pld.mass_error[order]), omitted_mass
        )

    def bound_delta(self, epsilon: float) -> tuple[float, float]:
        """δ at ε between two doubles: each term is moved by the errors of its loss and of its mass.

        >>> DiscreteCurve.of(DiscretePld.of([1.0, -1.0], [np.log(0.75), np.log(0.25)])).bound_delta(1.0)[0]
        0.0
        """
        return self._sum_terms(epsilon, -1), min(1.0, self._sum_terms(epsilon, 1) + self.omitted_mass)

    def _sum_terms(self, epsilon: float, sign: int) -> float:
        loss = self.pld.loss + sign * (self.pld.loss_error + 2 * EPS * (np.abs(self.pld.loss) + abs(epsilon)))
        # The list is sorted but for its errors: past the last loss above ε every term is 0.
        above = (loss > epsilon).nonzero()[0]
        last = int(above[-1]) + 1 if above.size else 0
        gain = -np.expm1(np.minimum(0.0, epsilon - loss[:last]))
        terms = np.exp(np.minimum(self.pld.log_mass[:last] + sign * self.pld.mass_error[:last], 0.0)) * gain
        value = fsum(terms.tolist()) if last < 512 else float(terms.sum()) * (1 + sign * EPS * 64)
        if not isfinite(value):  # some double overflowed on the way: nothing is known
            return float(sign > 0)
        return max(0.0, value * (1 + sign * 16 * EPS) + sign * 1e-320 * last)

    def guess_epsilon(self, delta: float) -> float:
        """Where δ(ε) meets delta, without error bounds: between two neighbouring values δ is P − e^ε·Q."""
        mass: Floats = np.exp(self.pld.log_mass)
        p, q = np.cumsum(mass), np.cumsum(mass * np.exp(-np.maximum(self.pld.loss, -700)))
        with np.errstate(divide="ignore", invalid="ignore"):
            at = p - np.exp(np.minimum(self.pld.loss, 700)) * q  # δ at every value
            i = int(np.searchsorted(at, delta)) - 1
            value = np.log((p[max(i, 0)] - delta) / q[max(i, 0)])
        return float(value) if np.isfinite(value) and value < inf else float(self.pld.loss[0])
