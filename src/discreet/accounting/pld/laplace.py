"""Laplace noise, continuous and on the integers, and the exponential mechanism, which has the same density between its
ends."""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, expm1, log
from typing import Any, ClassVar

import numpy as np

from discreet._numbers import nearest_float
from discreet.accounting.pld import EPS, Complexes, Floats, MgfRatio, Pld
from discreet.accounting.pld.discrete import DiscretePld

_MAX_ATOMS = 4096


@dataclass(frozen=True, slots=True)
class LaplacePld(Pld):
    """Shift over scale ε₀: L = ε₀ with mass ½, −ε₀ with mass e^{-ε₀}/2, density e^{(t − ε₀)/2}/4 between.

    With w = z + ½, M(z) = e^{-ε₀/2}·(cosh wε₀ + sinh(wε₀)/2w) = e^{zε₀}·((1 + 1/2w) + e^{-2wε₀}(1 − 1/2w))/2.
    """

    epsilon: Fraction

    @property
    def max_loss(self) -> float:
        return nearest_float(self.epsilon)

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        eps = nearest_float(self.epsilon)
        value = c * eps + np.log(_laplace_bracket(eps, c + 0.5) / 2)
        return value, 8 * EPS * (c * eps + 4)

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        eps = nearest_float(self.epsilon)
        logs = c * eps - base + 1j * s * eps + np.log(_laplace_bracket(eps, c + 0.5 + 1j * s) / 2)
        # The terms' sizes add up to at most 4 times the real value at c, and the latter is at least ½·e^{cε₀ - base}.
        scale = 4 * np.exp(c * eps - base)
        return MgfRatio(logs, scale * 8 * EPS * (c * eps + abs(base) + 2 * s * eps + 4))

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        """|cosh(x + iy)|² = cosh²x − sin²y and |sinh| ≤ cosh x, so |M|/M(c) ≤ (√(1 − sin²y/cosh²x) + 1/2s)·cosh x/(…)."""
        eps, w = nearest_float(self.epsilon), c + 0.5
        decay = float(np.exp(-2 * w * eps))
        slope = 4 * decay / (1 + decay) ** 2  # 1/cosh²x
        norm = ((1 + 1 / (2 * w)) + decay * (1 - 1 / (2 * w))) / (1 + decay)
        sine = np.sin((s * eps).astype(np.float32))
        slip = 2.0**-21 * (2 + s * eps)  # single precision is enough for a bound that says so
        root = np.sqrt(np.maximum(0.0, 1 - slope * (sine * sine - slip)))
        return np.asarray(np.log((root + 1 / (2 * s)) / norm) + 1e-12)

    def decay_bound(self, c: float, s: float) -> float:
        """|cosh|, |sinh| ≤ cosh(Re), so |M| ≤ e^{-ε₀/2}·cosh((c + ½)ε₀)·(1 + 1/2|w|): only the atoms' share stays."""
        eps, w = nearest_float(self.epsilon), c + 0.5
        decay = np.exp(-2 * w * eps)
        over = (1 + decay) * (1 + 1 / (2 * float(np.hypot(w, s))))
        return min(0.0, log(over / ((1 + 1 / (2 * w)) + decay * (1 - 1 / (2 * w)))) + 32 * EPS)


def _laplace_bracket(epsilon: float, w: Any) -> Any:
    """(1 + 1/2w) + e^{-2wε}(1 − 1/2w), for real or complex w."""
    half = 0.5 / w
    return (1 + half) + np.exp(-2 * epsilon * w) * (1 - half)


@dataclass(frozen=True, slots=True)
class DiscreteLaplacePld(Pld):
    """P(k) ∝ e^{-|k|/scale} against the same shifted by an integer r ≥ 1; a = e^{-1/scale}, ε₀ = r/scale.

    L is ε₀ for k ≤ 0, −ε₀ for k ≥ r, (r − 2k)/scale between, so with w = z + ½, x = w/scale,
    M(z) = e^{zε₀}/(1 + a)·(1 + e^{-2wε₀} + (1 − a)·Σ_{k=1}^{r−1} e^{-2kx}), and the sum is geometric.
    """

    is_discrete: ClassVar[bool] = True

    scale: Fraction
    shift: int

    @property
    def max_loss(self) -> float:
        return nearest_float(self.shift / self.scale)

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        eps = nearest_float(self.shift / self.scale)
        bracket, error = self._bracket(c + 0.5 + 0j)
        value = c * eps + np.log(bracket.real) - np.log1p(np.exp(-1 / nearest_float(self.scale)))
        return value, 8 * EPS * (c * eps + 4) + 2 * error / bracket.real

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        eps = nearest_float(self.shift / self.scale)
        bracket, error = self._bracket(c + 0.5 + 1j * s)
        at_c = c * eps - base - np.log1p(np.exp(-1 / nearest_float(self.scale)))
        size = np.maximum(np.abs(bracket), 1e-300)
        logs = at_c + 1j * s * eps + np.log(np.where(np.abs(bracket) < 1e-300, 1e-300 + 0j, bracket))
        rough = 8 * EPS * (c * eps + abs(base) + s * eps + 4)
        return MgfRatio(logs, np.exp(at_c) * (error + rough * size + 2e-300))

    def _bracket(self, w: Complexes) -> tuple[Complexes, Floats]:
        step, r = 1 / nearest_float(self.scale), float(self.shift)
        eps = nearest_float(self.shift / self.scale)
        x = w * step
        ends = 1 + np.exp(-2 * eps * w)
        slip = 8 * EPS * (1 + 2 * eps * np.abs(w))  # of every exponential here: their arguments are at most 2wε₀
        if self.shift == 1:
            return ends, slip
        below = np.expm1(-2 * x)
        depth = np.maximum(np.abs(below), 1e-300)
        middle = np.exp(-2 * x) * np.expm1(-2 * (r - 1) * x) / below
        # A quotient: the numerator is off by `slip`, the denominator by 8·EPS·(1 + 2|x|).
        wrong = (slip + np.abs(middle) * 8 * EPS * (1 + 2 * np.abs(x))) / depth + 8 * EPS * np.abs(middle)
        share = -np.expm1(-step)
        return ends + share * middle, slip + share * wrong

    def atoms(self) -> tuple[DiscretePld, float] | None:
        """The r + 1 values, if they are at most `_MAX_ATOMS`; none is left out."""
        if self.shift >= _MAX_ATOMS:
            return None
        step = 1 / nearest_float(self.scale)
        k = np.arange(self.shift + 1.0)
        log_mass = -k * step - np.log1p(np.exp(-step))
        log_mass[1:-1] += np.log(-np.expm1(-step))
        loss, loss_error = (self.shift - 2 * k) * step, 4 * EPS * self.shift * step
        return DiscretePld.of(loss, log_mass, loss_error, 8 * EPS * (2 + k * step)), 0.0


@dataclass(frozen=True, slots=True)
class BoundedRangePld(Pld):
    """The exponential mechanism: the worst of all mechanisms whose loss has a range of at most ε.

    L lies between −ε and ε with density e^{(t − ε)/2}/(2(1 − e^{-ε})); with w = z + ½,
    M(z) = e^{zε}·(1 − e^{-2wε})/(2w(1 − e^{-ε})).

    **Proof** that this pair dominates every range of ε. If P/Q lies in [e^{u−ε}, e^u], its mean under Q being 1, then every
    convex function of it has its largest mean where only the two ends occur (chord): a pair with these two losses dominates,
    as [DDR20] found. Its H at e^x, −ε ≤ x ≤ ε, is
    (1 − e^{u−ε})(1 − e^{x−u})/(1 − e^{-ε}), or 1 − e^x if that is more. The largest over u, at u = (x + ε)/2, is
    (1 − e^{(x−ε)/2})²/(1 − e^{-ε}): convex in e^x, hence itself the curve of a pair [ZDW22], and minus its slope is
    Q(L > x).

    >>> pld = BoundedRangePld(Fraction(1))
    >>> abs(float(pld.cgf(np.array([1e-12]))[0][0])) < 1e-11
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
