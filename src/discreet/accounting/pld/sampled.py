"""One Gaussian or Laplace event on a Poisson sample: K by quadrature with error bounds, and δ(ε) in closed form.

**Proof** for the Gaussian, by the trapezoid rule on an analytic integrand. In units of the noise, y = x/σ, μ = Δ/σ and A(y)
= 1 − q + q·e^{μy − μ²/2} is the likelihood ratio of the mixture to N(0, 1). Removing the unit, L = ln A under the mixture:
M(z) = ∫ φ·A^{z+1}. Adding, L = −ln A under N(0, 1): M(z) = ∫ φ·A^{-z}. [ZDW22, Thm 11]: these two pairs dominate. Below ζ is
the power of A, ρ = |Re ζ| and s = |Im ζ|.

- *Step.* A has its zeros at Im y = ±π/μ. On the line Im y = ±θ/μ with θ < π/2, |φ| grows by e^{θ²/2μ²}, |A^{i·Im ζ}|
  ≤ e^{sθ}, and cos(θ/2)·A(Re y) ≤ |A| ≤ A(Re y). So for step η the error is at most 2·N/(e^{2πθ/μη} − 1) [TW14, Thm
  5.1], with N ≤ M(c)·e^{θ²/2μ² + sθ}, and cos(θ/2)^{-ρ} more when ζ's real part is negative.
- *Ends.* |d ln A/dy| ≤ μ: past |Y| > ρμ the terms fall at least like e^{-(|Y| − ρμ)·(y − Y)}, so those left out are at most
  f(Y)·(η + 1/(|Y| − ρμ)) together; on the side where A^ζ falls as well, the same without ρμ.
- *Envelope.* Moving the line of integration by ia, with aμ ≤ π/4, |M(c + is)| ≤ e^{a²/2}∫ φ·|A(y + ia)|^{Re
  ζ}·e^{-s·arg A(y + ia)} (Cauchy), which falls with s. That integrand is analytic too; on Im y = ±b, b = π/4μ, its
  exponential in s is at most 1 (arg A rises with Im y up to π/2μ), so the trapezoid rule bounds it with N ≤
  M(c)·e^{b²/2}·cos(π/4)^{-ρ}, the last if Re ζ < 0.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, cos, exp, expm1, inf, log, log1p, pi, sqrt

import numpy as np

from discreet._numbers import nearest_float, sqrt_up
from discreet.accounting.pld import EPS, Floats, MgfRatio, Pld
from discreet.accounting.pld.discrete import DiscretePld, sum_exponentials
from discreet.accounting.pld.gaussian import gaussian_delta

_DIGITS = 38.0  # the quadrature aims at e^{-38}
_REACH = 9.5
_MAX_GAUSSIAN_POINTS = 400_000  # beyond that K is not worth its cost


@dataclass(frozen=True, slots=True)
class SampledGaussianPld(Pld):
    """Poisson sample at `rate` of a Gaussian with (Δ/σ)² = `squared`, for the unit that is removed or added.

    >>> pld = SampledGaussianPld(Fraction(1), Fraction(1, 100), removed=True)
    >>> round(float(pld.cgf(np.array([1.0]))[0][0]), 12) == round(log(1 + (np.e - 1) / 10**4), 12)
    True
    """

    squared: Fraction
    rate: Fraction
    removed: bool

    @property
    def max_loss(self) -> float:
        return inf if self.removed else -log(nearest_float(1 - self.rate))

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        value, error = np.full(len(c), inf), np.full(len(c), inf)
        for lo, hi in pairwise([0.0, 2.0, 8.0, 32.0, 128.0, 512.0, inf]):  # a grid that serves its largest c serves them all
            here = (lo < c) & (c <= hi)
            grid = self._grid(float(c[here].max()), 0.0) if here.any() else None
            if grid is not None:
                value[here], error[here] = self._sums(grid, c[here])
        return value, error

    def _sums(self, grid: "_Grid", c: Floats) -> tuple[Floats, Floats]:
        power = c + 1 if self.removed else -c
        exponent = np.multiply.outer(power, grid.log_ratio) + grid.log_weight
        top = exponent.max(axis=1)
        weight = np.exp(exponent - top[:, None])
        total = weight.sum(axis=1)
        slip = np.multiply.outer(np.abs(power), grid.log_slip) + 4 * EPS * (np.abs(exponent) + grid.y**2 + 4)
        ends = np.exp(exponent[:, [0, -1]].max(axis=1) + grid.ends_factor - top)
        error = (weight * slip).sum(axis=1) / total + ends / total + grid.step_error
        return top + np.log(total), error + 8 * EPS * (np.abs(top) + 2)

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        total = np.zeros(s.shape, dtype=np.complex128)
        error = np.full(s.shape, inf)
        for lo, hi in pairwise(_split_at_doublings(s)):  # the step shrinks as s grows
            part = s[lo:hi]
            grid = self._grid(c, float(part[-1]))
            if grid is None:
                continue
            weight = np.exp(grid.exponent - base)
            some = weight > 1e-22 * float(weight.max())  # what is left out is part of the error
            at = grid.log_ratio[some] if self.removed else -grid.log_ratio[some]
            total[lo:hi], method = sum_exponentials(part, at, weight[some])
            heavy = float(weight.sum())
            error[lo:hi] = (
                float(weight[~some].sum())
                + float((weight * (grid.slip + 2 * EPS * (abs(base) + 4))).sum())
                + part * float((weight * (grid.log_slip + 4 * EPS * np.abs(grid.log_ratio))).sum())
                + exp(grid.ends - base)
                + heavy * (1.01 * grid.step_error + method)
            )
        floor = np.abs(total) < 1e-300
        return MgfRatio(np.log(np.where(floor, 1e-300 + 0j, total)), error + 2e-300)

    def decay_bound(self, c: float, s: float) -> float:
        grid = self._grid(c, 0.0, width=pi / 4, squeeze=pi / 4)
        if grid is None:
            return 0.0
        mu, q, power = self._doubles(c)
        top = float(grid.exponent.max())
        y, weight, ends = grid.y, np.exp(grid.exponent - top), exp(grid.ends - top)
        norm = float((weight * (1 - grid.slip)).sum()) * (1 - 2 * grid.step_error) - ends
        best, q_not = 0.0, float(1 - self.rate)
        for a in pi / 4 / mu * 2.0 ** -np.arange(0, 12, 0.5):
            ratio = q_not + q * np.exp(mu * y - mu * mu / 2 + 1j * mu * a)
            turned, size = s * np.angle(ratio), power * np.log(np.abs(ratio))
            value = size - turned + grid.exponent - top - power * grid.log_ratio
            slip = grid.slip + 8 * EPS * (np.abs(size) + turned + abs(power) + s + 4)
            total = float(np.exp(value + slip).sum()) + ends
            best = min(best, a * a / 2 + log(total / norm + 2 * grid.step_error) + 16 * EPS * len(y))
        return best

    def _doubles(self, c: float) -> tuple[float, float, float]:
        return nearest_float(sqrt_up(self.squared)), nearest_float(self.rate), c + 1 if self.removed else -c

    def _grid(self, c: float, s: float, width: float = 1.4, squeeze: float = 0.7) -> "_Grid | None":
        mu, q, power = self._doubles(c)
        rho = abs(power)
        theta = min(width, sqrt(2 * _DIGITS) * mu)
        growth = theta**2 / (2 * mu * mu) + s * theta - (0 if self.removed else rho * log(cos(squeeze)))
        step = 2 * pi * theta / (mu * (_DIGITS + growth))
        far = rho * mu + _REACH
        count = ceil((far + _REACH) / step)
        if not count < _MAX_GAUSSIAN_POINTS:
            return None
        first = -_REACH if self.removed else -far
        y = first + step * np.arange(count + 1)
        u = mu * y - mu * mu / 2
        logs = np.logaddexp(log(float(1 - self.rate)), log(q) + u)
        if q <= 0.5:
            logs = np.where(u < 30, np.log1p(q * np.expm1(np.minimum(u, 30))), logs)
        log_weight = log(step / sqrt(2 * pi)) - y * y / 2
        exponent = power * logs + log_weight
        # μ, q, y and u are rounded: ln A moves by their relative errors times its slope; then log itself.
        log_slip = 8 * EPS * ((1 + np.abs(u) + mu * mu) * np.minimum(1, np.exp(u + log(q) - logs)) + np.abs(logs))
        if q > 0.5:
            log_slip = log_slip + 8 * EPS * (1 + np.abs(u))
        slip = rho * log_slip + 4 * EPS * (y * y + np.abs(exponent) + 4)
        # ln of (step + 1/reach)·f(Y) at both ends together
        factor = log(2.002 * (1 + 1 / step / _REACH))
        ends = float(exponent[[0, -1]].max()) + factor
        return _Grid(y, log_weight, exponent, logs, slip, log_slip, factor, ends, 2.01 * np.exp(-_DIGITS))


def _split_at_doublings(s: Floats) -> list[int]:
    """Where to cut ascending s so that each piece ends at most at twice its start, or has 64 of them."""
    edges = [0]
    while edges[-1] < len(s):
        first = edges[-1]
        edges.append(max(min(first + 64, len(s)), int(np.searchsorted(s, 2 * s[first], side="right"))))
    return edges


@dataclass(frozen=True, slots=True)
class _Grid:
    """The quadrature's points: ln(weight·φ·A^{Re ζ}), ln A, what each may be off by, and the two analytic errors."""

    y: Floats
    log_weight: Floats
    exponent: Floats
    log_ratio: Floats
    slip: Floats
    log_slip: Floats
    ends_factor: float  # ln of (step + 1/reach)/step, twice
    ends: float  # a logarithm
    step_error: float  # relative to M(c)


# Continuous Laplace noise on a Poisson sample: K by Gauss' rule on short panels, with its error bound.
#
# Under Q the ratio P/Q is e^T: T = ε₀ with mass e^{-ε₀}/2, −ε₀ with mass ½, density e^{-(t + ε₀)/2}/4 between. With A =
# 1 − q + q·e^T, removing has M(z) = E_Q[A^{z+1}] and adding M(z) = E_Q[A^{-z}] [ZDW22, Thm 11]. Write ζ for the power
# and ρ = |Re ζ|, s = |Im ζ|.
#
# *Panels.* [−ε₀, ε₀] is cut into panels of half-width η ≤ min(3/8, 4/(s + 1), 4/(ρ + 1)), each with 32 points. The
# integrand is analytic for |Im t| < π; on the ellipse around a panel with half-axes √17·η and 4η (its sum is 8.12 = R
# in units of η) Re t moves by at most 5.2η from the panel and |arg A| ≤ |Im t| ≤ 4η ≤ 1.5, and |A| is at least A(Re
# t)·cos(2η). So it is at most the largest value on the panel times e^{5.2η(ρ + ½)}·e^{4ηs}·cos(2η)^{-ρ} ≤ e^{21 + 16 +
# 8}, as cos(x) ≥ e^{-x²} for x ≤ 3/4 and ρ·4η² ≤ 16·3/8. Gauss' rule with n = 32 points is then off by at most
# (64/15)·η·R^{-2n}/(1 − R^{-2}) times that [T08, Thm 4.5]: all panels together by less than ε₀·(largest value)·e^{-85}.


_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_MAX_LAPLACE_POINTS = 1 << 18  # beyond that K is not worth its cost


@dataclass(frozen=True, slots=True)
class SampledLaplacePld(Pld):
    """Poisson sample at `rate` of Laplace noise with shift/scale `epsilon`, for the unit that is removed or added.

    Without its `ends` the distribution of t is that of `BoundedRangePld`, which is the same between the atoms but for a
    factor.

    >>> pld = SampledLaplacePld(Fraction(1), Fraction(1, 2), removed=False)
    >>> round(float(np.exp(pld.cgf(np.array([1.0]))[0][0])), 12)  # E_Q[1/A], by quadrature elsewhere
    1.17075130442
    """

    epsilon: Fraction
    rate: Fraction
    removed: bool
    ends: bool = True

    @property
    def max_loss(self) -> float:
        eps, q = nearest_float(self.epsilon), nearest_float(self.rate)
        edge = log(nearest_float(1 - self.rate) + q * exp(-eps))
        return eps + log(q + nearest_float(1 - self.rate) * exp(-eps)) if self.removed else -edge

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        value, error = np.full(len(c), inf), np.full(len(c), inf)
        for lo, hi in pairwise([0.0, 4.0, 32.0, 256.0, 2048.0, 16384.0]):
            here = (lo < c) & (c <= hi)
            atoms = self._atoms(float(c[here].max()), 0.0) if here.any() else None
            if atoms is not None:
                value[here], error[here] = atoms.cgf(c[here])
        return value, error + 1e-28

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        atoms = self._atoms(c, float(s[-1]))
        if atoms is None:
            return MgfRatio(np.zeros(len(s), dtype=np.complex128), np.full(len(s), inf))
        found = atoms.mgf_ratio(c, base, s)
        return MgfRatio(found.log, found.error + 1e-28)

    def _atoms(self, c: float, s: float) -> DiscretePld | None:
        """Gauss' points and the two atoms as a list. On a panel the integrand varies by at most e⁸, so M(c) is at least
        its largest value times 2η·e^{-8}, and with at most 2^14 panels the rule's error is below 1e-28·M(c)."""
        eps, q = nearest_float(self.epsilon), nearest_float(self.rate)
        panels = ceil(eps / min(0.375, 4 / (s + 1), 4 / (c + 2)))
        if panels * len(_POINTS) > _MAX_LAPLACE_POINTS:
            return None
        half = eps / panels
        middles = -eps + half * (2 * np.arange(panels) + 1)
        t = np.add.outer(middles, half * _POINTS).ravel()
        mass = np.tile(np.log(_WEIGHTS * half), panels) - (t + eps) / 2  # of Q
        if self.ends:
            t, mass = np.concatenate([[-eps, eps], t]), np.concatenate([[log(0.5), log(0.5) - eps], mass - log(4)])
        else:
            mass = mass - log(-2 * expm1(-eps))
        logs = np.logaddexp(log(nearest_float(1 - self.rate)), log(q) + t)
        if q <= 0.5:
            logs = np.where(t < 30, np.log1p(q * np.expm1(np.minimum(t, 30))), logs)
        slip = 8 * EPS * (1 + np.abs(t) + np.abs(logs))
        if self.removed:
            return DiscretePld.of(logs, mass + logs, slip, slip + 8 * EPS * (9 + np.abs(mass)))
        return DiscretePld.of(-logs, mass, slip, 8 * EPS * (9 + np.abs(mass) + np.abs(t)))


# δ(ε) of one sampled event in closed form: sampling moves the noise's own curve.
#
# With q the rate: removing, D_{e^ε}((1 − q)Q + qP ‖ Q) = q·D_{e^t}(P ‖ Q), e^t = 1 + (e^ε − 1)/q; adding, with
# r = 1 − (1 − q)e^ε, D_{e^ε}(Q ‖ (1 − q)Q + qP) = r·D_{e^t}(Q ‖ P), e^t = q·e^ε/r, and 0 where r ≤ 0 [BBG18, Thm 2].


SampledPld = SampledGaussianPld | SampledLaplacePld

_RAREST = 1e-290  # rates below this are as good as 0 to a double


def bound_sampled_delta(pld: SampledPld, epsilon: float) -> tuple[float, float]:
    """δ(ε) of one sampled event between two doubles.

    >>> low, high = bound_sampled_delta(SampledGaussianPld(Fraction(1), Fraction(1, 2), removed=True), 0.0)
    >>> low <= 0.5 * 0.3829249225480262 <= high
    True
    """
    if pld.rate < _RAREST:  # δ is never above the rate
        return 0.0, _RAREST
    factor, t = _shift_epsilon(pld, epsilon)
    if factor <= 0:
        return 0.0, 0.0
    slip = 1e-14 * (1 + 1 / factor)
    wide = slip * (1 + abs(t)) + 1e-300
    low, high = _bound_unsampled_delta(pld, t + wide)[0], _bound_unsampled_delta(pld, max(0.0, t - wide))[1]
    return max(0.0, factor * (1 - slip) * low), min(1.0, factor * (1 + slip) * high)


def _bound_unsampled_delta(pld: SampledPld, t: float) -> tuple[float, float]:
    """δ of the event on everyone: the Gaussian's, or 1 − e^{(t − ε₀)/2} for Laplace noise up to t = ε₀."""
    if isinstance(pld, SampledLaplacePld):
        eps = nearest_float(pld.epsilon)
        gap, slip = (t - eps) / 2, 1e-15 * (1 + t + eps)
        return -expm1(min(0.0, gap + slip)) * (1 - 1e-15), -expm1(min(0.0, gap - slip)) * (1 + 1e-15)
    mu = sqrt_up(pld.squared)
    low = gaussian_delta(mu * (1 - Fraction(1, 1 << 80)), Fraction(t)).lower
    return low, gaussian_delta(mu, Fraction(t)).upper


def _shift_epsilon(pld: SampledPld, epsilon: float) -> tuple[float, float]:
    """(factor, t), t ≥ 0; off by a few roundings, and by 1/factor as many where the factor is a small difference."""
    q = nearest_float(pld.rate)
    if pld.removed:
        far = epsilon - log(q) + log1p(-(1 - q) * exp(-epsilon)) if epsilon > 1 else log1p(expm1(epsilon) / q)
        return q, far
    factor = q - nearest_float(1 - pld.rate) * expm1(epsilon) if epsilon < 700 else -inf
    return factor, max(0.0, epsilon + log(q / factor)) if factor > 0 else inf
