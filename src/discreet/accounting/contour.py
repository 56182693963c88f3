"""δ(ε) by the trapezoid rule on a vertical line, with every error bounded and added.

For a total with finite part M(z) = E_P[e^{zL}], L's finite δ is (1/2πi)∫ M(z)e^{-zε}/(z(z + 1)) dz on Re z = c > 0.
With step h and T = 2π/h, Poisson summation gives exactly

    (h/2π)·Σ_n M(c + inh)·e^{-(c + inh)ε}/(z(z + 1)) = Σ_j e^{cjT}·δ(ε + jT),

all terms ≥ 0: the sum is an *upper* bound, and Chernoff's δ(x) ≤ B(t)·e^{K(t) − tx}, B(t) = t^t/(1 + t)^{1+t}, bounds
what it has too much. The tilt e^{K(c) − cε} is factored out, so accuracy is relative however small δ is.

Losses with atoms do not decay along the line. Then a small Gaussian N(μ²/2, μ²) is composed with the total: its curve D_μ is
never below δ (more was released), and it brings its own decay e^{-μ²s²/2}, which makes the truncation a theorem. It
is not far above either. Seen as a function of e^ε, δ is a mixture ∫ (e^l − e^ε)₊ Q(dl) of kinks, and for one kink at
distance t the excess is f_μ(t) = δ_μ(|t|)·e^{min(t,0)} = ∫₀^μ e^{-m²/8 − t²/2m² + |t|/2}dm/√2π·e^{min(t,0)};
substituting m → √2·m shows f_{√2μ} ≥ √2·e^{-μ²/8}·f_μ. Integrating over the kinks, D_{√2μ} − D_μ ≥ κ·(D_μ − δ) with κ
= √2·e^{-μ²/8} − 1, for *every* loss:

    δ ≥ D_μ − (D_{√2μ} − D_μ)/κ.
"""

from dataclasses import dataclass
from math import exp, expm1, inf, isfinite, log, log1p, pi, sqrt

import numpy as np

from discreet.accounting.ladder import CgfTable
from discreet.accounting.laws import EPS, Complexes, Floats


@dataclass(frozen=True, slots=True)
class Contour:
    """A prepared contour: the nodes' sum at any ε costs one exponential each."""

    c: float
    step: float
    s: Floats
    logs: Complexes  # Σ times·ln(M(c + is)/e^base), over the parts
    slack: Floats  # the true product is within a factor e^{±slack} in size, in the sense of |x − y| ≤ |x|·(e^slack − 1)
    base: float  # Σ times·base
    base_error: float
    tail: float  # what the nodes that were left out below `reach` can add to Σ|terms|
    reach: float  # past here the parts are known by their envelope only
    envelope: float  # their product there, over its value at s = 0
    smoothing: float  # μ² of the Gaussian that is composed, or 0
    log_cutoff: float  # ln of the size below which a node's term is not worth keeping
    cgf_table: CgfTable
    max_loss: float  # no finite loss is above this

    def bound_delta(self, epsilon: float) -> tuple[float, float]:
        """The finite part of δ at ε between two doubles."""
        if self._is_too_smooth():
            return 0.0, 1.0
        low, high = self._bound_smoothed_delta(epsilon, self.smoothing)
        if self.smoothing == 0:
            return low, high
        kappa = sqrt(2) * exp(-self.smoothing / 8) * (1 - 4 * EPS) - 1
        if kappa < 0.1:  # past μ² = 2.77 the lemma is silent, and just before it says next to nothing
            return 0.0, high
        _, above = self._bound_smoothed_delta(epsilon, 2 * self.smoothing)
        return max(0.0, low - (above - low) / kappa * (1 + 8 * EPS)), high

    def _is_too_smooth(self) -> bool:
        """A smoothing wider than the tilt's own scale says nothing, and would overflow."""
        return self.smoothing * self.c * (self.c + 1) > 600

    def delta_and_slope(self, epsilon: float) -> tuple[float, float]:
        """δ of the smoothed total at ε and its derivative, without error bounds: for searching only."""
        if self._is_too_smooth():
            return 0.0, 0.0
        terms = self._terms(epsilon, self.smoothing)
        z = self.c + 1j * self.s
        scale = exp(min(700.0, self.base - self.c * epsilon)) * self.step / pi
        return scale * float(terms.real.sum()), -scale * float((terms * z).real.sum())

    def _terms(self, epsilon: float, smoothing: float) -> Complexes:
        z = self.c + 1j * self.s
        power = self.logs - 1j * self.s * epsilon + smoothing / 2 * z * (z + 1)
        terms = np.asarray(np.exp(power) / (z * (z + 1)))
        terms[0] /= 2  # s = 0 stands once in a sum over both signs
        return terms

    def _bound_terms(self, smoothing: float) -> Floats:
        """A bound on the size of each true term."""
        lift = smoothing / 2 * (self.c * (self.c + 1) - self.s**2)
        return np.asarray(np.exp(np.minimum(self.logs.real + self.slack + lift, 700.0)) / (self.c**2 + self.s**2))

    def _bound_smoothed_delta(self, epsilon: float, smoothing: float) -> tuple[float, float]:
        terms = self._terms(epsilon, smoothing)
        size = np.abs(terms)
        rough = 8 * EPS * (4 + self.s * abs(epsilon) + smoothing * (self.c + 1 + self.s) ** 2 + log1p(len(size)))
        # |x|·(e^slack − 1), written so that a huge slack meets the tiny |x| it belongs to before it overflows.
        wrong = np.where(self.slack < 1, size * np.expm1(np.minimum(self.slack, 1)), self._bound_terms(smoothing))
        rest = self.tail + _bound_nodes_beyond(self.reach, self.step, smoothing) * self.envelope
        lift = exp(min(700.0, smoothing / 2 * self.c * (self.c + 1)))
        error = float((size * rough + wrong).sum()) + rest * lift
        total = float(terms.real.sum())
        scale, slip = (
            self.base - self.c * epsilon,
            self.base_error + 4 * EPS * (abs(self.base) + self.c * abs(epsilon)),
        )
        width = self.step / pi
        if not (isfinite(total) and isfinite(error) and isfinite(scale + slip)):
            return 0.0, 1.0  # some double overflowed on the way: nothing is known
        high = _exp_up(scale + slip + _log(width * (total + error) * (1 + 8 * EPS)))
        low = _exp_down(scale - slip + _log(width * (total - error) * (1 - 8 * EPS)))
        return max(0.0, low - self._bound_aliases(epsilon, smoothing)), min(1.0, high)

    def _bound_aliases(self, epsilon: float, smoothing: float) -> float:
        """Σ_{j≠0} e^{cjT}·δ(ε + jT), by Chernoff's bound at a t below c for j < 0 and at one above for j > 0."""
        period = 2 * pi / self.step * (1 - 4 * EPS)
        t = self.cgf_table.c
        logs = self.cgf_table.chernoff(epsilon) + smoothing / 2 * t * (t + 1) * (1 + 8 * EPS)
        gap = np.abs(self.c - t) * period
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            sums = np.exp(np.minimum(logs - gap - np.log(-np.expm1(-gap)), 700.0))
        left = min(np.min(sums[t < self.c], initial=inf), exp(-self.c * period) / -expm1(-self.c * period))
        right = min(np.min(sums[t > self.c], initial=inf), self._bound_aliases_above(epsilon, smoothing, period))
        return float(left + right) * (1 + 64 * EPS)

    def _bound_aliases_above(self, epsilon: float, smoothing: float, period: float) -> float:
        """The aliases above ε if no loss is above `most`: there is nothing left but the smoothing's tail, K(t) ≤ t·most."""
        past = epsilon + period - self.max_loss
        if not past > 0:
            return inf
        if smoothing == 0:
            return 0.0
        t = past / smoothing  # > c, or the bound below says nothing
        power = self.c * period + smoothing / 2 * t * (t + 1) - t * past
        return exp(min(700.0, power + 1e-12 * t * past)) / -expm1(-(t - self.c) * period) if t > 2 * self.c else inf


def _bound_nodes_beyond(reach: float, step: float, smoothing: float) -> float:
    """Σ over nodes s > reach of e^{-smooth·s²/2}/s²; at most e^{-smooth·reach²/2}/(step·reach)."""
    return exp(-smoothing * reach * reach / 2) / (step * reach) * (1 + 8 * EPS)


def _log(x: float) -> float:
    return log(x) if x > 0 else -inf


def _exp_up(x: float) -> float:
    return 1.0 if x > 0 else exp(x) * (1 + 8 * EPS) + 5e-324


def _exp_down(x: float) -> float:
    return exp(min(x, 0.0)) * (1 - 8 * EPS)
