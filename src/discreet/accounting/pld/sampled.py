"""One Gaussian or Laplace event on a Poisson sample: K by quadrature with error bounds, and δ(ε) in closed form.

**Proof** for the Gaussian, by the trapezoid rule on an analytic integrand. In units of the noise, y = x/σ, μ = Δ/σ and A(y)
= 1 − q + q·e^{μy − μ²/2} is the likelihood ratio of the mixture to N(0, 1). Removing the unit, L = ln A under the mixture:
M(z) = ∫ φ·A^{z+1}. Adding, L = −ln A under N(0, 1): M(z) = ∫ φ·A^{-z}. [ZDW22, Thm 11]: these two pairs dominate. Below ζ is
the power of A, ρ = |Re ζ| and s = |Im ζ|.

- *Step.* A has its zeros at Im y = ±π/μ. On the line Im y = ±θ/μ with θ < π/2, |φ| grows by e^{θ²/2μ²}, |A^{i·Im ζ}|
  ≤ e^{sθ}, and cos(θ/2)·A(Re y) ≤ |A| ≤ A(Re y). So for step η the error is at most 2·N/(e^{2πθ/μη} − 1) [TW14, Thm
  5.1], with N ≤ M(c)·e^{θ²/2μ² + sθ}, and cos(θ/2)^{-ρ} more when ζ's real part is negative.
- *Ends.* |d ln A/dy| ≤ μ: past |Y| > ρμ the terms fall at least like e^{-(|Y| − ρμ)·(y − Y)}, so those left out are at most
  f(Y)·(η + 1/(|Y| − ρμ)) together; on the side where A^ζ falls as well, the same without ρμ. Adding, left of Y with
  c·q·e^{u} ≤ e^{-9.5μ}·(1 − q) at u = μY − μ²/2, c·|d ln A/dy| ≤ μ·e^{-9.5μ} < 0.04: there ρμ is 0.04.
- *Envelope.* Moving the line of integration by ia, with aμ ≤ π/4, |M(c + is)| ≤ e^{a²/2}∫ φ·|A(y + ia)|^{Re
  ζ}·e^{-s·arg A(y + ia)} (Cauchy), which falls with s. That integrand is analytic too; on Im y = ±b, b = π/4μ, its
  exponential in s is at most 1 (arg A rises with Im y up to π/2μ), so the trapezoid rule bounds it with N ≤
  M(c)·e^{b²/2}·cos(π/4)^{-ρ}, the last if Re ζ < 0.
- *Envelope by variation.* If the finite measure e^{cl}·P(L ∈ dl) is atoms of mass a and a density g(l)dl of total variation
  V over the line, its jumps included, then |M(c + it)| ≤ a + V/t for every t > 0 (integrate by parts). With y for l, and
  t = μy − μ²/2, p = q·e^t/A, the density is φ·A^ζ·A/(μq·e^t), whose logarithm has the slope μ(ρ'·p − 1) − y in y, ρ' = Re
  ζ + 1: a sigmoid and a line, which meet at most three times. So V is at most the variation over a grid, the values at its
  two ends if the slope points inwards there (outside it still does: p lies between 0 and 1 and rises), and for each turning
  point twice what g can rise or fall between neighbours of the grid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, cos, exp, expm1, fsum, inf, log, log1p, pi, sqrt

import numpy as np

from discreet._numbers import nearest_float, sqrt_up
from discreet.accounting.pld import EPS, Floats, MgfRatio, Pld
from discreet.accounting.pld.discrete import DiscretePld, sum_exponentials
from discreet.accounting.pld.gaussian import gaussian_delta

_DIGITS = 38.0  # the quadrature aims at e^{-38}
_REACH = 9.5
_MAX_GAUSSIAN_POINTS = 400_000  # beyond that K is not worth its cost
_MAX_REAL_POINTS = 1 << 16  # the same at real points, where many are wanted
_VARIATION_POINTS = 1024
_MOVES = 2.0 ** -np.arange(0, 12, 2.0)  # distances that are tried, over the largest


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
        for lo, hi in pairwise([0.0, 4.0, 32.0, 512.0, inf]):  # a grid that serves its largest c serves them all
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

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        return np.minimum(0.0, _gaussian_variation(self, c) - np.log(s) + 8 * EPS * (1 + np.abs(np.log(s))))

    def quick_decay_bound(self, c: float, s: float) -> float:
        return min(0.0, _gaussian_variation(self, c) - log(s)) if s > 0 else 0.0

    def decay_bound(self, c: float, s: float) -> float:
        if s <= 0:
            return 0.0
        by_variation = self.quick_decay_bound(c, s)
        return min(by_variation, _moved_bound(self, c, s) if by_variation > -4 else 0.0)

    def _doubles(self, c: float) -> tuple[float, float, float]:
        return nearest_float(sqrt_up(self.squared)), nearest_float(self.rate), c + 1 if self.removed else -c

    def _bend(self, c: float) -> float:
        """The y where c·q·e^u = 1 − q."""
        mu = nearest_float(sqrt_up(self.squared))
        return (log(nearest_float(1 - self.rate)) - log(nearest_float(self.rate)) - log(max(c, 1e-300))) / mu + mu / 2

    def _grid(self, c: float, s: float, width: float = 1.4, squeeze: float | None = None) -> "_Grid | None":
        mu, q, power = self._doubles(c)
        rho = abs(power)
        theta = min(width, sqrt(2 * _DIGITS) * mu)
        if not self.removed and squeeze is None:  # −ln cos(θ/2) ≤ 0.1375θ²: a narrower strip where c is large
            theta = min(theta, sqrt(_DIGITS / (0.5 / mu**2 + 0.1375 * rho)))
        angle = theta / 2 if squeeze is None else squeeze
        growth = theta**2 / (2 * mu * mu) + s * theta - (0 if self.removed else rho * log(cos(angle)))
        step = 2 * pi * theta / (mu * (_DIGITS + growth))
        far = rho * mu + _REACH
        if not self.removed:
            far = min(far, _REACH + 0.05 + max(0.0, -self._bend(c)))
        count = ceil((far + _REACH) / step)
        if not count < (_MAX_GAUSSIAN_POINTS if s > 0 else _MAX_REAL_POINTS):
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


@lru_cache(maxsize=1024)
def _moved_bound(pld: SampledGaussianPld, c: float, s: float) -> float:
    """The bound by moving the line of integration, by the best of a few distances."""
    grid = _envelope_grid(pld, c)
    if grid is None:
        return 0.0
    mu, q, power = pld._doubles(c)
    top = float(grid.exponent.max())
    weight, ends = np.exp(grid.exponent - top), exp(grid.ends - top)
    norm = float((weight * (1 - grid.slip)).sum()) * (1 - 2 * grid.step_error) - ends
    some = weight > 1e-25
    y, log_ratio, exponent = (v[some] for v in (grid.y, grid.log_ratio, grid.exponent))
    slips, log_slips = grid.slip[some], grid.log_slip[some]
    # Removing, the moved integrand is at most the unmoved one; adding, cos(π/8)^{-ρ} times that.
    growth = 1.0 if pld.removed else exp(min(700.0, 0.0792 * abs(power)))
    lost = (float(weight[~some].sum()) + ends) * growth
    # With p = q·e^u/A and turned by θ = μa: |A(y + ia)|² = A²·(1 − 2p(1 − p)(1 − cos θ)), and its angle is that of
    # 1 − p + p·e^{iθ}. Both move by at most as much as u does.
    a = pi / 4 / mu * _MOVES
    sine, cosine = np.sin(mu * a)[:, None], np.cos(mu * a)[:, None]
    p = np.exp(np.minimum(0.0, log(q) + mu * y - mu * mu / 2 - log_ratio))
    stay = np.exp(np.minimum(0.0, log(nearest_float(1 - pld.rate)) - log_ratio))
    turned = s * np.arctan2(p * sine, stay + p * cosine)
    size = power / 2 * np.log1p(-2 * p * stay * (1 - cosine))
    value = size - turned + (exponent - top)
    slip = slips + (abs(power) + s) * log_slips + 16 * EPS * (np.abs(size) + turned + abs(power) + s + 4)
    total = np.exp(value + slip).sum(axis=1) + lost
    bounds = a * a / 2 + np.log(total / norm + 2 * grid.step_error) + 16 * EPS * len(y)
    return min(0.0, float(bounds.min()))


@lru_cache(maxsize=256)
def _envelope_grid(pld: SampledGaussianPld, c: float) -> "_Grid | None":
    return pld._grid(c, 0.0, width=pi / 4, squeeze=pi / 4)


@lru_cache(maxsize=1024)
def _gaussian_variation(pld: SampledGaussianPld, c: float) -> float:
    """ln(V/M(c)), rounded up; ∞ where it is not known."""
    (value,), (error,) = pld.cgf(np.array([c]))
    mu, _, power = pld._doubles(c)
    left = _REACH + 2 * mu + (0.0 if pld.removed else max(0.0, -pld._bend(c)))
    y = np.linspace(-left, _REACH + max(0.0, power) * mu, _VARIATION_POINTS)
    if not np.isfinite(value) or mu * ((power + 1) * nearest_share(y[0], mu, pld.rate) - 1) - y[0] < 1:
        return inf
    return bound_variation(y, mu, pld.rate, power) - float(value - error) + 1e-12 * (1 + abs(float(value)))


def nearest_share(y: float, mu: float, rate: Fraction) -> float:
    """p = q·e^t/A at one point."""
    odds = log(nearest_float(rate)) - log(nearest_float(1 - rate)) + mu * y - mu * mu / 2
    return 1 / (1 + exp(min(700.0, -odds)))


def bound_variation(y: Floats, mu: float, rate: Fraction, power: float) -> float:
    """ln of the total variation of φ·A^{power + 1}/(μq·e^t) on an even grid and left and right of it, rounded up.

    At each of at most three turning points the slope of the logarithm is 0, and within a cell of width h it moves by at
    most h·(μ²·|power + 1|/4 + 1): that is what a turning point between two points of the grid can hide.
    """
    q, stay, h = nearest_float(rate), nearest_float(1 - rate), float(y[1] - y[0])
    t = mu * y - mu * mu / 2
    log_ratio = np.logaddexp(log(stay), log(q) + t)
    logs = -y * y / 2 + (power + 1) * log_ratio - t - log(q)
    slip = 32 * EPS * float((1 + y * y + (abs(power) + 2) * (np.abs(log_ratio) + np.abs(t) + abs(log(q)) + 1)).max())
    top = float(logs.max())
    density = np.exp(logs - top)
    hidden = 6 * expm1(min(700.0, 2 * h * h * (mu * mu * abs(power + 1) / 4 + 1)))
    total = float(np.abs(np.diff(density)).sum() + density[0] + density[-1]) + hidden + 4 * len(y) * expm1(min(1.0, slip))
    return log(total) + top + slip - log(mu) - log(2 * pi) / 2 + 1e-12


def _split_at_doublings(s: Floats) -> list[int]:
    """Where to cut ascending s so that each piece ends at most at twice its start, or has 256 of them."""
    edges = [0]
    while edges[-1] < len(s):
        first = edges[-1]
        edges.append(max(min(first + 256, len(s)), int(np.searchsorted(s, 2 * s[first], side="right"))))
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
# *Panels.* [−ε₀, ε₀] is cut into panels of half-width η, each with 32 points; r is a bound on q·e^{Re t}/(1 − q), at most 1,
# and η ≤ min(3/8, 10/(rs + 1), 4/(rρ + 1), √(3/2ρ)). The integrand is analytic for |Im t| < π; on the ellipse around a panel
# with half-axes √17·η and 4η (its sum is 8.12 = R in units of η) Re t moves by at most 5.2η from the panel, within which r
# holds. There |Im t| ≤ 4η ≤ 1.5 < π/2, so tan|arg A| ≤ q·e^{Re t}·sin|Im t|/(1 − q) and |arg A| ≤ r·|Im t|, as |arg A|
# ≤ |Im t| in any case; |A| ≤ A(Re t), whose logarithm moves by at most r·5.2η; and |A| is at least A(Re t)·cos(2η). So the
# integrand is at most the largest value on the panel times e^{5.2η(rρ + ½)}·e^{4ηrs}·cos(2η)^{-ρ} ≤ e^{21 + 40 + 8}, as
# cos(x) ≥ e^{-x²} for x ≤ 3/4 and ρ·4η² ≤ 6. Gauss' rule with n = 32 points is then off by at most
# (64/15)·η·R^{-2n}/(1 − R^{-2}) times that [T08, Thm 4.5]: all panels together by less than ε₀·(largest value)·e^{-61}.


_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_MAX_PANEL_POINTS = 1 << 18  # beyond that K is not worth its cost
RULE_ERROR = 1e-17
"""What the rule on panels may be off by, over M(c)."""


def place_panels(
    first: float, last: float, rate: Fraction, rho: float, s: float, widest: float = 0.375
) -> tuple[Floats, Floats] | None:
    """Gauss' points between two values of t and the logarithms of their weights; None where they would be too many."""
    zones = choose_panels(first, last, rate, rho, s, widest)
    if zones is None:
        return None
    points, weights = [], []
    for low, high, panels in zones:
        half = (high - low) / (2 * panels)
        points.append(np.add.outer(low + half * (2 * np.arange(panels) + 1), half * _POINTS).ravel())
        weights.append(np.tile(np.log(_WEIGHTS * half), panels))
    return np.concatenate(points), np.concatenate(weights)


def choose_panels(
    first: float, last: float, rate: Fraction, rho: float, s: float, widest: float
) -> list[tuple[float, float, int]] | None:
    """Zones of a length of at most 1 with their numbers of panels, of their own width for their own r; None where points
    would be too many."""
    odds = log(nearest_float(rate)) - log(nearest_float(1 - rate))
    edges = np.linspace(first, last, ceil(last - first) + 1)
    zones, count = [], 0
    for low, high in pairwise(edges.tolist()):
        half = 0.0
        for cap in (0.375, 0.1, 0.02, 0.004):
            r = exp(min(0.0, odds + high + 5.2 * cap + 1e-12))
            half = max(half, min(cap, widest, 10 / (r * s + 1), 4 / (r * rho + 1), sqrt(1.5 / max(rho, 1.0))))
        panels = ceil((high - low) / (2 * half))
        count += panels * len(_POINTS)
        if count > _MAX_PANEL_POINTS:
            return None
        zones.append((low, high, panels))
    return zones


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
        return value, error + RULE_ERROR

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        return join_ratios(self._atoms, c, base, s)

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        """As for `decay_bound`."""
        atoms, variation = _laplace_shares(self, c)
        return np.minimum(0.0, np.log(atoms + variation / s) + 8 * EPS) if atoms < inf else np.zeros(len(s))

    def decay_bound(self, c: float, s: float) -> float:
        """The atoms' share and V/s (the envelope by variation above). In t the density is e^{-(t + ε₀)/2}·A^{ρ'}/(q·e^t) up
        to a factor, ρ' = Re ζ + 1, and the slope of its logarithm ρ'·p − 3/2 with p = q·e^t/A < 1, which rises with t. For
        ρ' ≥ 0 it is a valley at most: V is at most twice the sum of the values at both ends. For ρ' < 0 it falls."""
        return min(0.0, _laplace_decay(self, c, s)) if s > 0 else 0.0

    def _atoms(self, c: float, s: float) -> DiscretePld | None:
        """Gauss' points and the two atoms as a list. On a panel the integrand varies by at most e⁸, so M(c) is at least
        its largest value times 2η·e^{-8}, and with at most 2^14 panels the rule's error is below 1e-19·M(c)."""
        eps, q = nearest_float(self.epsilon), nearest_float(self.rate)
        found = place_panels(-eps, eps, self.rate, c + 1, s)
        if found is None:
            return None
        t, mass = found[0], found[1] - (found[0] + eps) / 2  # of Q
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


def join_ratios(list_atoms: Callable[[float, float], DiscretePld | None], c: float, base: float, s: Floats) -> MgfRatio:
    """M(c + is)/e^base at ascending s by lists of points that serve up to a largest s each; `RULE_ERROR` is added."""
    logs, error = np.zeros(len(s), dtype=np.complex128), np.full(len(s), inf)
    for lo, hi in pairwise(_split_at_doublings(s)):
        atoms = list_atoms(c, float(s[hi - 1]))
        if atoms is None:
            break
        found = atoms.mgf_ratio(c, base, s[lo:hi])
        logs[lo:hi], error[lo:hi] = found.log, found.error + RULE_ERROR
    return MgfRatio(logs, error)


@lru_cache(maxsize=1024)
def _laplace_shares(pld: SampledLaplacePld, c: float) -> tuple[float, float]:
    """The atoms' mass and V, over M(c), rounded up; ∞ where M(c) is not known."""
    (value,), (error,) = pld.cgf(np.array([c]))
    if not np.isfinite(value):
        return inf, inf
    eps, q, power = nearest_float(pld.epsilon), nearest_float(pld.rate), c + 1 if pld.removed else -c
    edges = -eps, eps
    logs = [float(np.logaddexp(log(nearest_float(1 - pld.rate)), log(q) + t)) for t in edges]
    base, slip = float(value), float(error) + 64 * EPS * (1 + abs(power) + 1) * (1 + eps + abs(log(q)))
    atoms = fsum(exp(power * a + m - base) for a, m in zip(logs, (-log(2), -log(2) - eps), strict=True)) if pld.ends else 0.0
    factor = log(4) if pld.ends else log(-2 * expm1(-eps))
    ends = [
        exp(min(700.0, (power + 1) * a - (t + eps) / 2 - t - log(q) - factor - base))
        for a, t in zip(logs, edges, strict=True)
    ]
    variation = 2 * fsum(ends) if power + 1 >= 0 else 2 * ends[0]
    return atoms * (1 + 2 * slip), variation * (1 + 2 * slip)


def _laplace_decay(pld: SampledLaplacePld, c: float, s: float) -> float:
    atoms, variation = _laplace_shares(pld, c)
    return log(atoms + variation / s) + 8 * EPS if atoms < inf else 0.0


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
    """δ of the event on everyone: the Gaussian's, or, up to t = ε₀, 1 − e^{(t − ε₀)/2} for Laplace noise and the square of
    that over 1 − e^{-ε₀} for a range (`pld.laplace`)."""
    if isinstance(pld, SampledLaplacePld):
        eps = nearest_float(pld.epsilon)
        gap, slip = (t - eps) / 2, 1e-15 * (1 + t + eps)
        low, high = -expm1(min(0.0, gap + slip)) * (1 - 1e-15), -expm1(min(0.0, gap - slip)) * (1 + 1e-15)
        if pld.ends or eps == 0:
            return low, high
        return low**2 / -expm1(-eps) * (1 - 4e-15), high**2 / -expm1(-eps) * (1 + 4e-15)
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
