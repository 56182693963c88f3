"""Gaussian noise: continuous (one μ² for any number of them) and on the integers (a theta function), and its exact curve."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, inf, isfinite, isinf, log, pi, sqrt
from typing import ClassVar

import numpy as np

from discreet._numbers import (
    Bounds,
    Number,
    check_positive,
    check_probability,
    floor_float,
    largest_where,
    nearest_float,
    smallest_where,
    to_rational,
)
from discreet.accounting.elementary import round_up_bits
from discreet.accounting.pld import EPS, SPECIAL_ERROR, Complexes, Floats, MgfRatio, Pld
from discreet.accounting.pld.discrete import MAX_ATOMS, DiscretePld
from discreet.errors import BadParameter


@dataclass(frozen=True, slots=True)
class GaussianPld(Pld):
    """L ~ N(μ²/2, μ²), so K(z) = μ²·z(z + 1)/2. Independent Gaussians add their μ².

    >>> GaussianPld(Fraction(1, 100)).cgf(np.array([2.0]))[0].tolist()
    [0.03]
    """

    squared: Fraction  # μ²

    @property
    def max_loss(self) -> float:
        return inf

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        value = nearest_float(self.squared) / 2 * c * (c + 1)
        return value, 4 * EPS * value

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        half = nearest_float(self.squared) / 2
        real, phase = half * (c * (c + 1) - s * s), half * s * (2 * c + 1)
        size = np.exp(real - base)
        return MgfRatio(real - base + 1j * phase, size * 4 * EPS * (half * (c * (c + 1) + s * s) + abs(base) + phase + 1))

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        return np.asarray(-nearest_float(self.squared) / 2 * (1 - 4 * EPS) * s * s)

    def decay_bound(self, c: float, s: float) -> float:
        return -nearest_float(self.squared) / 2 * s * s * (1 - 4 * EPS)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianPld(Pld):
    """P(k) ∝ e^{-k²/2σ²} against the same shifted by an integer r: L(k) = (r² − 2kr)/2σ².

    M(z) = e^{zr²/2σ²}·Σ_k e^{-k²/2σ² − zrk/σ²}/Σ_k e^{-k²/2σ²}. For σ ≥ ½ the sums are done on the Fourier side (Poisson
    summation), where with b_m = 2πm − sr/σ² the first is ∝ Σ_m e^{(cr)²/2σ² − σ²b_m²/2 − i·cr·b_m}: a few terms around
    the smallest |b_m| are all that is above round-off. For σ < ½ a few k around −cr are.
    """

    is_discrete: ClassVar[bool] = True

    sigma: Fraction
    shift: int

    @property
    def max_loss(self) -> float:
        return inf

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        rate = nearest_float(self.shift**2 / self.sigma**2) / 2
        if self.sigma >= 3:  # theta functions are 1 within 3e-77
            value = rate * c * (c + 1)
            return value, 8 * EPS * (value + 1)
        total, rest = (self._sum_fourier if self.sigma >= Fraction(1, 2) else self._sum_direct)(c, np.zeros_like(c))
        norm = (self._sum_fourier if self.sigma >= Fraction(1, 2) else self._sum_direct)(np.zeros(1), np.zeros(1))[0].real
        value = rate * c * (c + 1) + np.log(total.real / norm)
        return value, 8 * EPS * (rate * c * (c + 1) + 4) + 2 * rest / np.abs(total)

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        rate = nearest_float(self.shift**2 / self.sigma**2) / 2
        if self.sigma >= 3:
            return self._nearest_term(c, rate * c * (c + 1) - base, rate * s, s)
        sums = self._sum_fourier if self.sigma >= Fraction(1, 2) else self._sum_direct
        total, rest = sums(np.full_like(s, c), s)
        norm = sums(np.zeros(1), np.zeros(1))[0].real
        at_c = rate * c * (c + 1) - base
        phase = rate * s
        size = np.exp(at_c) / norm
        rough = 8 * EPS * (rate * c * (c + 1) + abs(base) + phase + 8)
        # A sum that cancels to nothing has no logarithm: a floor far below the error keeps it finite.
        floor = np.maximum(np.abs(total), 1e-300)
        safe = np.where(np.abs(total) < 1e-300, 1e-300 + 0j, total)
        return MgfRatio(at_c + 1j * phase + np.log(safe / norm), size * (rest + rough * floor + 2e-300))

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        """For σ ≥ 3 the nearest term is e^{-σ²b²/2} and all others together are below 4·e^{-(πσ)²/2}."""
        sigma = nearest_float(self.sigma)
        if sigma < 3:
            return np.zeros(len(s))
        angle = s * nearest_float(self.shift / self.sigma**2)
        b = np.maximum(0.0, np.abs(angle - 2 * pi * np.round(angle / (2 * pi))) - 8 * EPS * (1 + angle))
        return np.asarray(np.maximum(-((sigma * b) ** 2) / 2, -40.0) + 1e-7)

    def atoms(self) -> tuple[DiscretePld, float] | None:
        """All values within 27σ of either centre, and a bound on the mass of P or Q outside; None if too many."""
        return self.list_outputs(MAX_ATOMS)

    def list_outputs(self, limit: int) -> tuple[DiscretePld, float] | None:
        """The same with up to `limit` of them."""
        sigma, r = nearest_float(self.sigma), self.shift
        reach = ceil(27 * sigma) + 1
        if 2 * reach + r >= limit:
            return None
        k = np.arange(-reach, reach + r + 1.0)
        square = k * k / (2 * sigma**2)
        weight = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
        step = nearest_float(r / self.sigma**2)
        loss, mass = (r / 2 - k) * step, -square - np.log(weight.sum())
        outside = 4 * (1 + sigma) * exp(-(reach**2) / (2 * sigma**2))
        return DiscretePld.of(loss, mass, 4 * EPS * np.abs(loss), 8 * EPS * (square + 4) + 2 * outside), outside

    def _nearest_term(self, c: float, at_c: float, phase: Floats, s: Floats) -> MgfRatio:
        """The nearest term alone, whose logarithm needs no exponential: for σ ≥ 3 the others are below e^{-44}."""
        sigma, step, turn = nearest_float(self.sigma), nearest_float(self.shift / self.sigma**2), c * float(self.shift)
        angle = s * step
        b = angle - 2 * pi * np.round(angle / (2 * pi))
        half = (sigma * b) ** 2 / 2
        size = np.exp(at_c - half)
        slip = 8 * EPS * (1 + angle)
        moved = slip * (sigma**2 * np.abs(b) + turn) + 8 * EPS * (half + turn * np.abs(b) + abs(at_c) + phase + 4)
        others = 4 * exp(at_c - (pi * sigma) ** 2 / 2)
        return MgfRatio(at_c - half + 1j * (phase + turn * b), size * (moved + (sigma * slip) ** 2) + others)

    def _sum_fourier(self, c: Floats, s: Floats) -> tuple[Complexes, Floats]:
        """Σ_m e^{-σ²b_m²/2 − i·cr·b_m}: at s = 0 it is the real theta value, close to 1 for σ ≥ ½."""
        sigma, step = nearest_float(self.sigma), nearest_float(self.shift / self.sigma**2)
        angle = s * step
        near = np.round(angle / (2 * pi))
        total = np.zeros(s.shape, dtype=np.complex128)
        error = np.zeros(s.shape)
        turn = c * float(self.shift)
        reach = max(0, ceil(4.6 / (pi * sigma) - 0.5))
        for m in range(-reach, reach + 1):
            b = 2 * pi * (near + m) - angle
            slip = 4 * EPS * (angle + 2 * pi * np.abs(near + m))  # b's rounding, 2π's included
            size = np.exp(-((sigma * b) ** 2) / 2)
            total += size * np.exp(-1j * turn * b)
            moved = slip * (sigma**2 * np.abs(b) + turn) + 4 * EPS * ((sigma * b) ** 2 + turn * np.abs(b) + 2)
            error += size * moved + (sigma * slip) ** 2
        # |m − m₀| > reach: |b| ≥ 2π(reach + ½), which σ ≥ ½ makes at most e^{-2·4.6²}, and less by e^{-20} a step.
        return total, error + 4 * np.exp(-2 * (pi * sigma * (reach + 0.5)) ** 2)

    def _sum_direct(self, c: Floats, s: Floats) -> tuple[Complexes, Floats]:
        """Σ_k e^{-(k + cr)²/2σ² − i·skr/σ²}, k within 6 of −cr; the rest is below 4·e^{-5.5²/2σ²}."""
        variance, step = nearest_float(self.sigma**2), nearest_float(self.shift / self.sigma**2)
        centre = -c * float(self.shift)
        total = np.zeros(s.shape, dtype=np.complex128)
        error = np.full(s.shape, 4 * np.exp(-(5.5**2) / (2 * variance)))
        for j in range(-6, 7):
            k = np.round(centre) + j
            far = (k - centre) ** 2 / (2 * variance)
            size = np.exp(-far)
            total += size * np.exp(-1j * s * step * k)
            slip = EPS * np.abs(centre)  # of the centre
            error += size * (slip * np.abs(k - centre) / variance + slip**2 / variance)
            error += size * 4 * EPS * (far + np.abs(s * step * k) + 2)
        return total, error


# The exact curve of one Gaussian: δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), μ = Δ₂/σ [BW18, Thm 8].
#
# With a = ε/μ − μ/2, b = ε/μ + μ/2 and the Mills ratio R(x) = Φ(−x)/φ(x), e^ε·φ(b) = φ(a), so δ = φ(a)·(R(a) − R(b)): no
# overflow, and relative accuracy however small δ is (unless μ is tiny: then R(a) and R(b) cancel, and the interval says so).
# Any two doubles a < b are *exactly* the curve's arguments at μ' = b − a and ε' = (b² − a²)/2; so it is enough to choose
# doubles that are provably on the cautious side, and to bound the errors of erfcx and exp.


def gaussian_delta(mu: Number, epsilon: Number) -> Bounds:
    """δ at ε of a Gaussian with sensitivity/σ = μ.

    >>> 1e-6 in gaussian_delta(Fraction(1, 10), Fraction(0.3968573776440836))
    True
    """
    ratio, eps = check_positive(mu, "mu"), to_rational(epsilon, "epsilon")
    if eps < 0:
        raise BadParameter("epsilon", epsilon, "must not be negative", "give 0 or more")
    return Bounds(_delta(ratio, eps, upper=False), _delta(ratio, eps, upper=True))


def gaussian_epsilon(mu: Number, delta: Number) -> Bounds:
    """ε at δ of a Gaussian with sensitivity/σ = μ.

    >>> bounds = gaussian_epsilon(Fraction(1, 10), 1e-6)
    >>> round(bounds.lower, 12), round(bounds.upper, 12)
    (0.396857377644, 0.396857377644)
    """
    ratio, target = check_positive(mu, "mu"), check_probability(delta, "delta")
    guess = guess_gaussian_epsilon(nearest_float(ratio), nearest_float(target))
    wide, narrow = round_up_bits(ratio), 1 / round_up_bits(1 / ratio)  # δ rises with μ, and short fractions are quick
    upper = smallest_where(lambda e: _delta(wide, Fraction(e), upper=True) <= target, guess=guess)
    lower = smallest_where(lambda e: _delta(narrow, Fraction(e), upper=False) < target, guess=guess)
    # `least` stops just above the change from true to false, so `lower` steps back over what it may have missed.
    below = 0.0 if _delta(ratio, Fraction(0), upper=False) < target else lower * (1 - 2.0**-49)
    return Bounds(below, 0.0 if _delta(ratio, Fraction(0), upper=True) <= target else upper)


def guess_gaussian_epsilon(mu: float, delta: float) -> float:
    """Roughly the ε at δ, in plain doubles: Newton on ln δ, whose slope is −e^ε·Φ(−μ/2 − ε/μ)/δ; ∞ where doubles are
    not up to it."""
    from scipy.special import erfcx

    if not 1e-100 < mu < 1e100 or delta <= 0:
        return inf
    eps = mu * mu / 2  # where the loss has its median: erfcx is far from its overflow
    for _ in range(60):
        a, b = eps / mu - mu / 2, eps / mu + mu / 2
        # In units of φ(a): δ = R(a) − R(b) and e^ε·Φ(−b) = R(b), R the Mills ratio.
        near, far = (float(erfcx(x / sqrt(2))) * sqrt(pi / 2) for x in (a, b))
        if not near - far > 0 or not isfinite(near):
            return eps
        move = (log(near - far) - a * a / 2 - log(2 * pi) / 2 - log(delta)) * (near - far) / far
        eps = max(0.0, eps + move)
        if abs(move) <= 1e-14 * eps or eps == 0:
            break
    return eps


def gaussian_mu(epsilon: Number, delta: Number) -> float:
    """The largest sensitivity/σ whose curve passes below (ε, δ), rounded down.

    >>> round(1 / gaussian_mu(1, 1e-6), 6)
    4.224679
    """
    eps, target = check_positive(epsilon, "epsilon"), check_probability(delta, "delta")
    return largest_where(lambda mu: _delta(Fraction(mu), eps, upper=True) <= target)


def normal_tail_up(x: Fraction) -> float:
    """P(N(0, 1) > x), rounded up: the argument is rounded down, and φ(x)·R(x) carries its error bound.

    >>> normal_tail_up(Fraction(0)) >= 0.5
    True
    """
    if abs(x) > 40:
        return 1.0 if x < 0 else 1e-307
    at = floor_float(x)
    density, spread = _density(at)
    if at < 0:
        return min(1.0, 1 - density * (1 - spread) * _mills(-at, -1) + 2.0**-51)
    return min(1.0, density * (1 + spread) * _mills(at, 1) * (1 + 2.0**-51) + 1e-307)


def _delta(mu: Fraction, epsilon: Fraction, *, upper: bool) -> float:
    """One end of the interval: δ falls with ε and rises with μ."""
    shift = Fraction(1, 1 << 50) * (1 if upper else -1)
    while abs(shift) < 1:  # look for doubles a < b whose own μ' and ε' lie on the right side of the true ones
        wide, near = mu * (1 + shift), epsilon - shift * (epsilon + mu**2)
        a, b = nearest_float(near / wide - wide / 2), nearest_float(near / wide + wide / 2)
        if isinf(a) or isinf(b):
            break
        mu_seen = Fraction(b) - Fraction(a)
        excess = mu_seen * (Fraction(b) + Fraction(a)) / 2 - epsilon
        if (mu_seen >= mu and excess <= 0) if upper else (0 < mu_seen <= mu and excess >= 0):
            return _upper_curve(a, b) if upper else _lower_curve(a, b)
        shift *= 2
    return 1.0 if upper else 0.0


def _upper_curve(a: float, b: float) -> float:
    density, spread = _density(a)
    if a < 0:  # Φ(−a) = 1 − φ(a)·R(−a), and R(−a) is small where R(a) is not
        value = 1 - density * (1 - spread) * (_mills(-a, -1) + _mills(b, -1))
    else:
        value = density * (1 + spread) * (_mills(a, 1) - _mills(b, -1))
    return min(1.0, value + 2.0**-52 * abs(value) + (2.0**-52 if a < 0 else 1e-307))


def _lower_curve(a: float, b: float) -> float:
    density, spread = _density(a)
    if a < 0:
        value = 1 - density * (1 + spread) * (_mills(-a, 1) + _mills(b, 1)) - 2.0**-52
    else:
        value = density * (1 - spread) * (_mills(a, -1) - _mills(b, 1)) - 1e-307
    return max(0.0, value - 2.0**-52 * abs(value))


def _density(a: float) -> tuple[float, float]:
    """φ(a) and its relative error: the exponent is rounded twice, exp and the constant lose a few units."""
    if abs(a) > 40:  # below the smallest double that is not subnormal: the 1e-307 of the callers covers it
        return 0.0, 0.0
    return exp(-a * a / 2) / sqrt(2 * pi), 2.0**-52 * (a * a + 16)


def _mills(x: float, sign: int) -> float:
    """R(x) for x ≥ 0, moved by its error bound: the argument's rounding moves it by at most 2^-51 relatively."""
    from scipy.special import erfcx  # imported here: it takes longer than all the rest of discreet

    return sqrt(pi / 2) * float(erfcx(x / sqrt(2))) * (1 + sign * SPECIAL_ERROR)
