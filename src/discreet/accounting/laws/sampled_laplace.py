"""Continuous Laplace noise on a Poisson sample: K by Gauss' rule on short panels, with its error bound.

Under Q the ratio P/Q is e^T: T = ε₀ with mass e^{-ε₀}/2, −ε₀ with mass ½, density e^{-(t + ε₀)/2}/4 between. With A =
1 − q + q·e^T, removing has M(z) = E_Q[A^{z+1}] and adding M(z) = E_Q[A^{-z}] [ZDW22, Thm 11]. Write ζ for the power
and ρ = |Re ζ|, s = |Im ζ|.

*Panels.* [−ε₀, ε₀] is cut into panels of half-width η ≤ min(3/8, 4/(s + 1), 4/(ρ + 1)), each with 32 points. The
integrand is analytic for |Im t| < π; on the ellipse around a panel with half-axes √17·η and 4η (its sum is 8.12 = R
in units of η) Re t moves by at most 5.2η from the panel and |arg A| ≤ |Im t| ≤ 4η ≤ 1.5, and |A| is at least A(Re
t)·cos(2η). So it is at most the largest value on the panel times e^{5.2η(ρ + ½)}·e^{4ηs}·cos(2η)^{-ρ} ≤ e^{21 + 16 +
8}, as cos(x) ≥ e^{-x²} for x ≤ 3/4 and ρ·4η² ≤ 16·3/8. Gauss' rule with n = 32 points is then off by at most
(64/15)·η·R^{-2n}/(1 − R^{-2}) times that [T08, Thm 4.5]: all panels together by less than ε₀·(largest value)·e^{-85}.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, exp, expm1, inf, log

import numpy as np

from discreet.accounting.laws import EPS, Floats, MgfRatio
from discreet.accounting.laws.atoms import DiscretePld
from discreet.exact import nearest_float

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_MAX_LAPLACE_POINTS = 1 << 18  # points; past that K is not worth its price


@dataclass(frozen=True, slots=True)
class SampledLaplacePld:
    """Poisson sample at `rate` of Laplace noise with shift/scale `epsilon`, for the unit that is removed or added.

    Without its `ends` the law of t is that of `BoundedRangePld`, which is the same between the atoms but for a factor.

    >>> law = SampledLaplacePld(Fraction(1), Fraction(1, 2), removed=False)
    >>> round(float(np.exp(law.cgf(np.array([1.0]))[0][0])), 12)  # E_Q[1/A], by quadrature elsewhere
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

    def modulus_bounds(self, c: float, s: Floats) -> Floats:
        return np.zeros(len(s))

    def decay_bound(self, c: float, s: float) -> float:
        return 0.0  # two atoms

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
