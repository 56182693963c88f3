"""Losses with finitely many values: randomised response, claims, binomial noise, samples of those."""

from dataclasses import dataclass

import numpy as np

from discreet.accounting.laws import EPS, Floats, MgfRatio
from discreet.accounting.laws.oscillate import sum_exponentials


@dataclass(frozen=True, slots=True, eq=False)
class DiscretePld:
    """P(L = loss_j) = e^{log_mass_j}; each loss is known to `loss_error`, each logarithm of a mass to `mass_error`.

    >>> coin = DiscretePld.of([1.0, -1.0], [np.log(0.75), np.log(0.25)])
    >>> float(np.exp(coin.cgf(np.array([1.0]))[0][0])) - (0.75 * np.e + 0.25 / np.e) < 1e-15
    True
    """

    loss: Floats
    log_mass: Floats
    loss_error: Floats
    mass_error: Floats

    @classmethod
    def of(
        cls,
        loss: "Floats | list[float]",
        log_mass: "Floats | list[float]",
        loss_error: "Floats | float" = 0.0,
        mass_error: "Floats | float" = 0.0,
    ) -> "DiscretePld":
        """One error for all atoms, or one each; doubles are never better than their own rounding."""
        values, masses = np.asarray(loss, dtype=float), np.asarray(log_mass, dtype=float)
        return cls(values, masses, loss_error + EPS * np.abs(values), mass_error + EPS * (np.abs(masses) + 4))

    @property
    def max_loss(self) -> float:
        return float((self.loss + self.loss_error).max())

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        exponent = self.log_mass + np.multiply.outer(c, self.loss)
        top = exponent.max(axis=1)
        weight = np.exp(exponent - top[:, None])
        total = weight.sum(axis=1)
        slip = self.mass_error + np.multiply.outer(c, self.loss_error) + 2 * EPS * (np.abs(exponent) + 4)
        error = (weight * slip).sum(axis=1) / total + EPS * (np.abs(top) + len(self.loss) + 8)
        return top + np.log(total), error

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        exponent = self.log_mass + c * self.loss
        weight = np.exp(exponent - base)
        flat = weight * (self.mass_error + c * self.loss_error + 2 * EPS * (np.abs(exponent) + abs(base) + 4))
        heavy = weight > 1e-24 * float(weight.max())  # what is left out is part of the error
        lost = float(weight[~heavy].sum())
        total, method = sum_exponentials(s, self.loss[heavy], weight[heavy])
        size = np.maximum(np.abs(total), 1e-300)
        error = lost + flat.sum() + s * (weight * (self.loss_error + 4 * EPS * np.abs(self.loss))).sum()
        error = error + (method + 8 * EPS) * weight.sum() + 2e-300
        return MgfRatio(np.log(np.where(np.abs(total) < 1e-300, 1e-300 + 0j, total)), error + 4 * EPS * size)

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        """Two atoms a distance d apart with tilted masses p and 1 − p: |M|²/M(c)² = 1 − 4p(1 − p)·sin²(sd/2)."""
        if len(self.loss) != 2:
            return np.zeros(len(s))
        gap = float(self.loss[0] - self.loss[1])
        odds = float(self.log_mass[0] - self.log_mass[1]) + c * gap
        slope = 4 / (np.exp(odds / 2) + np.exp(-odds / 2)) ** 2 if abs(odds) < 1000 else 0.0
        sine = np.sin((s * (gap / 2)).astype(np.float32))
        slip = 2.0**-21 * (2 + s * abs(gap)) + s * float(self.loss_error.sum()) + 1e-9
        return np.asarray(np.log1p(-slope * np.maximum(sine * sine - slip, 0.0) * (1 - 1e-6)) / 2 + 1e-12)

    def decay_bound(self, c: float, s: float) -> float:
        return 0.0  # atoms: no decay is proven
