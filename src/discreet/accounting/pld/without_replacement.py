"""Sampling without replacement, where one unit is replaced: the worst pair, from the worst pair (P, Q) of the event on
everyone.

**Proof.** Given who else is sampled, the two distributions are (1 − q)R + qP and (1 − q)R + qP', and any two of P, P', R are
neighbours: put another unit in the place of the replaced one. By advanced joint convexity H at 1 + q(α − 1) is q·H_α(P ‖ (1
− β)R + βP'), and so at most q·H_α(P ‖ Q), α ≥ 1 [BBG18, Thms 2 and 9]: the curve of ((1 − q)Q + qP, Q). Below α = 1 the
mirror image H_α(A ‖ B) = 1 − α + α·H_{1/α}(B ‖ A) holds for it, as both distributions are on a par. The two halves make one
convex curve [ZDW22, Thm 11]: at α = 1 the slope is −(1 − q)P(P ≥ Q) − q·Q(P ≥ Q) on the left, −Q(P > Q) on the right. So it
is the curve of a pair (A, B), whose loss L is, where it is positive, that of the Poisson sample for the unit that is
removed; −L has under B the distribution of L under A; and what remains, the kink, is at 0.

*Several rounds.* (A, B) dominates each, so rounds of it dominate all of them. It is attained at every α ≥ 1 where R = P',
and at every α ≤ 1 where R = P, but not by one pair of neighbours: one round is exact, and of several this is an upper bound.
`rewrite.find_attained_event` has the lower one. That the worst neighbours of one round need not be the worst ones of
several is known [LRKS24]; which ones are is not known to us.

*Several rounds of Gaussian noise.* Write w for the kink's mass and G(z) = M(z) − w for the rest, which has a density. Of k
rounds the losses off the kink add up, so δ at ε is that of Σ_j C(k, j)·w^{k−j}·G^j, term by term. For ε ≥ 0 the term j = 0,
all rounds at the kink, has nothing, and j = 1 has k·w^{k−1} times the curve of one round, which is known in closed form.
What remains (`OffKinkPld`) has no atom, and the square of G's decay: no smoothing is needed, and few nodes.

*Decay.* With p = q·e^t/A, y standard normal and t = μy − μ²/2, e^{cl} times the density of L off the kink is g =
φ(y)·A^{ρ}/(μp), at l = ln A > 0 with ρ = c + 1 and at −l with ρ = −c. At t = 0, where A = 1, both are alike: g is
continuous, and so |G(c + is)| ≤ V₂/s², V₂ being the total variation of its slope, a jump at 0 included (integrate by parts
twice). With σ = μ((ρ + 1)p − 1) − y, τ = σ − μ(1 − p) and v = g/p, of which d ln g/dy = σ and d ln v/dy = τ, the slope in l
is F = vσ/μ, and

    F' = v(τσ + σ')/μ,  F'' = v(τ²σ + 2τσ' + τ'σ + σ'')/μ.

In a cell of width h the variation of F is |ΔF| if F' has one sign, else at most h²·max|F''|, where σ, τ and v are bounded
by their values at the cell's left end and by |σ'| ≤ μ²|ρ + 1|/4 + 1, |τ'| ≤ |σ'| + μ²/4 and |σ''| ≤ μ³|ρ + 1|/4. Past a y
from which on σ ≤ −√max|σ'|, also τσ ≥ |σ'|, so F rises to 0.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb, erf, exp, expm1, fsum, inf, isfinite, log, pi, sqrt

import numpy as np

from discreet._numbers import nearest_float
from discreet.accounting.pld import EPS, Floats, MgfRatio, Pld
from discreet.accounting.pld.discrete import DiscretePld
from discreet.accounting.pld.gaussian import GaussianPld
from discreet.accounting.pld.laplace import LaplacePld
from discreet.accounting.pld.sampled import (
    RULE_ERROR,
    SampledGaussianPld,
    SampledLaplacePld,
    bound_variation,
    choose_panels,
    join_ratios,
    place_panels,
)

_FAR = 1536.0  # where a Gaussian's lists begin to be long
_MOST_PANELS = 1024  # of a list, where another one would do
_SLOPE_POINTS = 4096


def sample_without_replacement(
    pld: DiscretePld, infinity_mass: tuple[float, float], rate: Fraction
) -> tuple[DiscretePld, float, float]:
    """The distribution on a share `rate` < 1 of the units, and its mass at infinity; the list must be its own mirror image.

    Write w for P's mass at infinity. The kink has 1 − q·w less all that is not at 0, which is
    (1 − q)·(w + Σ P(l)(1 − e^{-l})) + P(0), the sum over l > 0.
    """
    q, stay = nearest_float(rate), nearest_float(1 - rate)
    flat = np.abs(pld.loss) <= pld.loss_error + 1e-12
    up = (pld.loss > 0) & ~flat
    loss, mass = pld.loss[up], pld.log_mass[up]
    image, slip = _image(loss, q, stay)
    slip = slip + pld.loss_error[up]
    low, high = infinity_mass
    kink = float(np.exp(pld.log_mass[flat]).sum() - stay * (np.exp(mass) * np.expm1(-loss)).sum()) + stay * low
    wrong = stay * (high - low) + float((np.exp(mass) * (pld.mass_error[up] + pld.loss_error[up])).sum()) + 64 * EPS
    wrong += float((np.exp(pld.log_mass[flat]) * pld.mass_error[flat]).sum())
    near = float((np.abs(pld.loss[flat]) + pld.loss_error[flat]).max(initial=0.0))
    mass_slip = pld.mass_error[up] + pld.loss_error[up] + slip + 8 * EPS * np.abs(loss)
    both = DiscretePld.of(
        np.concatenate([image, -image, [0.0]]),
        np.concatenate([mass + (image - loss), mass - loss, [log(max(kink, 1e-300))]]),
        np.concatenate([slip, slip, [near]]),
        np.concatenate([mass_slip, mass_slip, [min(700.0, wrong / kink) if kink > wrong else 700.0]]),
    )
    return both, q * low * (1 - 4 * EPS), q * high * (1 + 4 * EPS)


def _image(loss: Floats, q: float, stay: float) -> tuple[Floats, Floats]:
    """ln(1 − q + q·e^l) for l ≥ 0, and its error."""
    near = np.log1p(q * np.expm1(np.minimum(loss, 30)))
    image = np.where(loss < 30, near, loss + log(q) + np.log1p(stay / q * np.exp(-np.maximum(loss, 30))))
    return image, 8 * EPS * (1 + loss + image)


@dataclass(frozen=True, slots=True)
class WithoutReplacementPld(Pld):
    """Gaussian or continuous Laplace noise on a share `rate` of the units.

    With A = 1 − q + q·e^t and Q's distribution of t = ln P/Q, M(z) = ∫_{t>0} (A^{z+1} + A^{-z}) dQ + (1 − q)(1 − 2Q(t > 0)),
    by Gauss' rule on panels of half-width η as in `pld.sampled`, whose proof holds on (0, ε₀] as it stands.

    *Gaussian*, dQ = N(−μ²/2, μ²): cut at X = μ²(c + ½) + μ·y with y² = c(c + 1)μ² + 80. As A ≤ e^t, what is cut is
    at most 2e^{c(c+1)μ²/2}·Φ(−y) ≤ 2e^{-40}, and M(c) ≥ 1. With U = X + μ²/2 + 2 and η ≤ min(μ²/U, μ/2) too, the density
    grows from a panel to its ellipse by at most e^{5.2ηU/μ² + 8η²/μ²} ≤ e^{7.2} and varies on a panel by at most e²; so
    the rule is off by at most e^{69+7.2-134+10} times M(c): `RULE_ERROR` covers both.

    >>> pld = WithoutReplacementPld(GaussianPld(Fraction(1)), Fraction(1, 2))
    >>> abs(float(pld.cgf(np.array([1e-9]))[0][0])) < 1e-8  # the masses add up to 1
    True
    """

    inner: GaussianPld | LaplacePld
    rate: Fraction

    @property
    def single_sample(self) -> SampledGaussianPld | SampledLaplacePld:
        """What has the same curve for ε ≥ 0, if nothing else is composed."""
        if isinstance(self.inner, GaussianPld):
            return SampledGaussianPld(self.inner.squared, self.rate, removed=True)
        return SampledLaplacePld(self.inner.epsilon, self.rate, removed=True)

    @property
    def max_loss(self) -> float:
        return self.single_sample.max_loss

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        value, error = np.full(len(c), inf), np.full(len(c), inf)
        for lo, hi in pairwise([0.0, 2.0, 8.0, 32.0, 128.0, 512.0, 4096.0, 16384.0]):
            here = (lo < c) & (c <= hi)
            atoms = self._atoms(float(c[here].max()), 0.0) if here.any() else None
            if atoms is not None:
                value[here], error[here] = atoms.cgf(c[here])
        return value, error + RULE_ERROR

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        """As in `Pld`. Far out the kink alone is left of Gaussian noise, off by no more than in `decay_bound`: lists are
        long there, or none, and the terms are small."""
        split = self._find_far(c, s)
        near = join_ratios(self._atoms, c, base, s[:split])
        if split == len(s) or not isinstance(self.inner, GaussianPld):
            return near
        share, variation, value = _shares(self, c)
        lift = exp(value - base) * (1 + 8 * EPS * (1 + abs(value) + abs(base))) if value - base < 700 else inf
        log_kink = log(nearest_float(1 - self.rate) * _find_kink(self.inner.squared))
        slope = _bound_slope_variation(self, c)
        error = 16 * EPS * (4 + abs(log_kink) + abs(base)) * share + np.minimum(variation, slope / s[split:]) / s[split:]
        return MgfRatio(
            np.concatenate([near.log, np.full(len(s) - split, log_kink - base + 0j)]),
            np.concatenate([near.error, error * lift * (1 + 8 * EPS)]),
        )

    def _find_far(self, c: float, s: Floats) -> int:
        """The place from which on V/s is small beside the kink in ascending s, if lists do not reach the last of them."""
        top = float(s.max(initial=0.0))
        if not isinstance(self.inner, GaussianPld) or top <= _FAR:
            return len(s)
        share, variation, _ = _shares(self, c)
        is_small = share < inf and 32 * variation <= _FAR * share
        reached = not is_small or _choose_gaussian_panels(nearest_float(self.inner.squared), self.rate, c, top) is not None
        return len(s) if reached else int(np.searchsorted(s, _FAR))

    def decay_bound(self, c: float, s: float) -> float:
        """The atoms' share and V/s, as in `pld.sampled`: L > 0 and L < 0 are the halves with t > 0 of the sample for a unit
        that is removed and for one that is added, each with a jump at t = 0 and, for Laplace noise, an atom at ε₀. Of
        Gaussian noise V₂/s² too."""
        if s <= 0:
            return 0.0
        atoms, variation, _ = _shares(self, c)
        rest = min(variation / s, _bound_slope_variation(self, c) / s / s)
        return min(0.0, log(atoms + rest) + 8 * EPS) if atoms < inf else 0.0

    def _atoms(self, c: float, s: float) -> DiscretePld | None:
        """Gauss' points for t > 0, their mirror images and the kink as a list."""
        return self._list_points(c, s, has_kink=True)

    def list_off_kink(self, c: float, s: float) -> DiscretePld | None:
        """The same without the kink; the rule is off by no more, over all of M(c)."""
        return self._list_points(c, s, has_kink=False)

    def _list_points(self, c: float, s: float, *, has_kink: bool) -> DiscretePld | None:
        if isinstance(self.inner, LaplacePld):
            points = _laplace_points(nearest_float(self.inner.epsilon), self.rate, c, s)
        else:
            points = _gaussian_points(nearest_float(self.inner.squared), self.rate, c, s)
        if points is None:
            return None
        t, mass, kink = points
        image, slip = _image(t, nearest_float(self.rate), nearest_float(1 - self.rate))
        rough = slip + 16 * EPS * (9 + np.abs(mass) + t)
        at_kink = [0.0], [log(kink * nearest_float(1 - self.rate))], [0.0], [16 * EPS]
        none: tuple[list[float], ...] = ([], [], [], [])
        loss, log_mass, loss_error, mass_error = at_kink if has_kink else none
        return DiscretePld.of(
            np.concatenate([image, -image, loss]),
            np.concatenate([mass + image, mass, log_mass]),
            np.concatenate([slip, slip, loss_error]),
            np.concatenate([rough, rough, mass_error]),
        )


@lru_cache(maxsize=1024)
def _shares(pld: WithoutReplacementPld, c: float) -> tuple[float, float, float]:
    """The mass of the atoms and the variation of the rest, over M(c), rounded up, ∞ where M(c) is not known; and K(c)."""
    (value,), (error,) = pld.cgf(np.array([c]))
    if not np.isfinite(value):
        return inf, inf, inf
    base, slip, q, stay = float(value), float(error), nearest_float(pld.rate), nearest_float(1 - pld.rate)
    powers = (c + 1, -c)
    if isinstance(pld.inner, GaussianPld):
        mu = sqrt(nearest_float(pld.inner.squared))
        kink = _find_kink(pld.inner.squared)
        y = np.linspace(mu / 2, mu / 2 + 10 + (c + 1) * mu, 4096)
        variation = fsum(exp(min(700.0, bound_variation(y, mu, pld.rate, power) - base)) for power in powers)
        atoms = 0.0
    else:
        eps = nearest_float(pld.inner.epsilon)
        kink, top = -expm1(-eps / 2), log(stay * exp(-eps) + q) + eps
        slip += 64 * EPS * (c + 3) * (1 + eps + abs(log(q)))
        atoms = fsum(exp(power * top + log(0.5) - eps - base) for power in powers)
        ends = [
            exp(min(700.0, (power + 1) * a - (t + eps) / 2 - t - log(q) - log(4) - base))
            for power in powers
            for a, t in ((0.0, 0.0), (top, eps))
        ]
        variation = 2 * fsum(ends)
    return (atoms + stay * kink * exp(-base) * (1 + 16 * EPS)) * (1 + 2 * slip), variation * (1 + 2 * slip), base


@lru_cache(maxsize=1024)
def _bound_slope_variation(pld: WithoutReplacementPld, c: float) -> float:
    """V₂/M(c), rounded up; ∞ where it is not known, or an atom or a jump leaves no such bound."""
    if not isinstance(pld.inner, GaussianPld):
        return inf
    (value,), (error,) = pld.cgf(np.array([c]))
    if not np.isfinite(value):
        return inf
    mu, q, stay = sqrt(nearest_float(pld.inner.squared)), nearest_float(pld.rate), nearest_float(1 - pld.rate)
    y = np.linspace(mu / 2, mu / 2 + 10 + (c + 1) * mu, _SLOPE_POINTS)
    h, t = float(y[1] - y[0]), mu * y - mu * mu / 2
    log_ratio = np.logaddexp(log(stay), log(q) + t)
    p = np.exp(log(q) + t - log_ratio)
    variation, jump = 0.0, 0.0
    for power in (c + 1, -c):
        curved = mu**2 * abs(power + 1) / 4
        if mu * max(power, -1.0) - float(y[-1]) > -sqrt(curved + 1) - 1:
            return inf
        sigma = mu * ((power + 1) * p - 1) - y
        tau = sigma - mu * stay * np.exp(-log_ratio)
        logs = -y * y / 2 + (power + 2) * log_ratio - 2 * (t + log(q)) - log(mu) - log(2 * pi) / 2 - float(value)
        if float(logs.max()) > 600:
            return inf
        v = np.exp(logs) / mu
        sizes = np.abs(log_ratio) + np.abs(t) + mu * y + abs(log(q)) + 1
        slip = 64 * EPS * (4 + y * y + (abs(power) + 3) * sizes + abs(float(value)))
        slope = v * sigma
        rough = v * slip * (np.abs(sigma) + mu * (abs(power) + 2) + y)
        s1, s2 = np.abs(sigma) + h * (curved + 1), np.abs(tau) + h * (curved + 1 + mu**2 / 4)
        most = s2 * s2 * s1 + 2 * s2 * (curved + 1) + s1 * (curved + 1 + mu**2 / 4) + mu * curved
        hidden = h * h * (v * np.exp(np.minimum(h * s2, 600.0)) * most)[:-1]
        variation += float((np.abs(np.diff(slope)) + hidden).sum() + abs(slope[-1]) + 3 * rough.sum()) * (1 + 1e-9)
        jump += float(slope[0])
    return (variation + abs(jump)) * (1 + 2 * float(error) + 1e-9)


@dataclass(frozen=True, slots=True)
class OffKinkPld(Pld):
    """Of `times` rounds of Gaussian noise, the outcomes where at least two are off the kink: a part of the probability
    only, R(z) = Σ_{j ≥ 2} C(k, j)·w^{k−j}·G(z)^j. Everything in `Pld` holds for it.

    With `value` for an approximation of K(c), W = w/e^value and |x| ≤ X for x = G/e^value, both at most about 1, all terms
    are sums and products of positive bounds: x off by e moves R/e^{k·value} by at most k(k − 1)(X + e)(X + e + W)^{k−2}·e.

    >>> pld = OffKinkPld(WithoutReplacementPld(GaussianPld(Fraction(1)), Fraction(1, 2)), 3)
    >>> chance = 1 - 0.5 * erf(8**-0.5)  # of one round off the kink
    >>> abs(float(np.exp(pld.cgf(np.array([1e-9]))[0][0])) - chance**2 * (3 - 2 * chance)) < 1e-8
    True
    """

    rounds: WithoutReplacementPld
    times: int

    @property
    def log_kink(self) -> float:
        """ln w, to 16 roundings and as many of its own size."""
        assert isinstance(self.rounds.inner, GaussianPld)
        return log(nearest_float(1 - self.rounds.rate)) + log(_find_kink(self.rounds.inner.squared))

    @property
    def max_loss(self) -> float:
        """As in `Pld`."""
        return inf

    def cgf(self, c: Floats) -> tuple[Floats, Floats]:
        """As in `Pld`."""
        value, error = np.full(len(c), inf), np.full(len(c), inf)
        for lo, hi in pairwise([0.0, 2.0, 8.0, 32.0, 128.0, 512.0, 4096.0, 16384.0]):
            here = (lo < c) & (c <= hi)
            atoms = self.rounds.list_off_kink(float(c[here].max()), 0.0) if here.any() else None
            if atoms is None:
                continue
            log_rest, slip = atoms.cgf(c[here])
            # The rule's error is one over M(c) = w + G(c).
            slip = slip + RULE_ERROR * (1 + np.exp(np.minimum(self.log_kink - log_rest, 300.0)))
            value[here], rough = self._sum(log_rest, self.log_kink)
            error[here] = rough + self.times * slip
        return value, error

    def _sum(self, log_rest: Floats, log_kink: float) -> tuple[Floats, Floats]:
        """ln Σ_{j ≥ 2} C(k, j)·w^{k−j}·x^j for positive x, and its rounding, that of ln w included."""
        j = np.arange(2, self.times + 1)
        chosen = np.array([log(comb(self.times, int(i))) for i in j])
        terms = np.multiply.outer(log_rest, j) + chosen + (self.times - j) * log_kink
        top = terms.max(axis=1)
        size = self.times * (np.abs(log_rest) + abs(log_kink) + abs(self.log_kink) + 64)
        return top + np.log(np.exp(terms - top[:, None]).sum(axis=1)), 32 * EPS * size

    def mgf_ratio(self, c: float, base: float, s: Floats) -> MgfRatio:
        """As in `Pld`; far out, where lists would be long, x is taken for 0."""
        k, split = self.times, int(np.searchsorted(s, self._find_far(c), side="right"))
        share, _, value = _shares(self.rounds, c)
        x, wrong = np.zeros(len(s), dtype=np.complex128), np.full(len(s), inf)
        if share == inf:
            return MgfRatio(x, wrong)
        near = join_ratios(self.rounds.list_off_kink, c, value, s[:split])
        x[:split], wrong[:split] = np.exp(near.log), near.error + 8 * EPS * np.exp(near.log.real)
        wrong[split:] = self._bound_rest(c, s[split:])
        kink = exp(self.log_kink - value)
        total = np.zeros(len(s), dtype=np.complex128)
        for j in range(k, 1, -1):
            total = total * x + comb(k, j) * kink ** (k - j)
        total = total * x * x
        size = np.abs(x)
        moved = k * (k - 1) * (size + wrong) * (size + wrong + kink) ** (k - 2) * wrong
        # All positive: the sum of the sizes is at most C(k, 2)·X²·(X + W)^{k−2}.
        rough = 64 * k * EPS * (8 + abs(value) + abs(self.log_kink)) * k * (k - 1) / 2 * size**2 * (size + kink) ** (k - 2)
        lift = k * value - base
        slip = 8 * EPS * (4 + k * abs(value) + abs(base))
        error = (moved * (1 + 1e-9) + rough) * exp(lift) * (1 + slip) if lift < 600 else np.full(len(s), inf)
        floor = np.abs(total) < 1e-300
        logs = np.asarray(np.log(np.where(floor, 1e-300 + 0j, total)) + lift, dtype=np.complex128)
        return MgfRatio(logs, error + np.exp(np.minimum(logs.real, 600.0)) * 2 * slip + 2e-300 * exp(min(lift, 600.0)))

    def _find_far(self, c: float) -> float:
        """The s up to which lists are not too long, doubled while they are not."""
        assert isinstance(self.rounds.inner, GaussianPld)
        squared, s = nearest_float(self.rounds.inner.squared), _FAR
        while s < 1e12:
            zones = _choose_gaussian_panels(squared, self.rounds.rate, c, 2 * s)
            if zones is None or sum(panels for _, _, panels in zones) > _MOST_PANELS:
                break
            s *= 2
        return s

    def _bound_rest(self, c: float, s: Floats) -> Floats:
        """What |G(c + it)|/M(c) does not exceed for t ≥ s."""
        _, variation, _ = _shares(self.rounds, c)
        rest = np.minimum(variation, _bound_slope_variation(self.rounds, c) / s) / s
        return np.asarray(np.minimum(1 + 1e-9, rest) * (1 + 8 * EPS))

    def decay_bound(self, c: float, s: float) -> float:
        """R at V₂/s² or V/s for G(c + is), over R(c)."""
        least, (share, _, base) = _bound_off_kink(self, c), _shares(self.rounds, c)
        if s <= 0 or share == inf or not isfinite(least):
            return 0.0
        (most,), (rough,) = self._sum(np.log(self._bound_rest(c, np.array([s]))), self.log_kink - base)
        slip = 8 * EPS * (abs(least) + self.times * abs(base) + 4)
        return min(0.0, float(most + rough) + self.times * base - least + slip)


@lru_cache(maxsize=1024)
def _bound_off_kink(pld: OffKinkPld, c: float) -> float:
    """ln R(c), rounded down."""
    (value,), (error,) = pld.cgf(np.array([c]))
    return float(value - error) if np.isfinite(value) else inf


def _find_kink(squared: Fraction) -> float:
    """P(t > 0) − Q(t > 0) of Gaussian noise."""
    return erf(sqrt(nearest_float(squared) / 8))


def _laplace_points(eps: float, rate: Fraction, c: float, s: float) -> tuple[Floats, Floats, float] | None:
    """t, ln Q's masses there, and P(t > 0) − Q(t > 0); the last point is the atom at ε₀."""
    found = place_panels(0.0, eps, rate, c + 1, s)
    if found is None:
        return None
    t, weight = found
    mass = weight - log(4) - (t + eps) / 2
    return np.append(t, eps), np.append(mass, log(0.5) - eps), -expm1(-eps / 2)


def _gaussian_points(squared: float, rate: Fraction, c: float, s: float) -> tuple[Floats, Floats, float] | None:
    mu, (end, widest) = sqrt(squared), _gaussian_reach(squared, c)
    found = place_panels(0.0, end, rate, c + 1, s, widest) if end < 1e4 else None
    if found is None:
        return None
    t, weight = found
    return t, weight - (t + squared / 2) ** 2 / (2 * squared) - log(mu * sqrt(2 * pi)), erf(sqrt(squared / 8))


def _choose_gaussian_panels(squared: float, rate: Fraction, c: float, s: float) -> list[tuple[float, float, int]] | None:
    """The panels of these points, without the points."""
    end, widest = _gaussian_reach(squared, c)
    return choose_panels(0.0, end, rate, c + 1, s, widest) if end < 1e4 else None


def _gaussian_reach(squared: float, c: float) -> tuple[float, float]:
    """Where t is cut, and the widest panel."""
    mu = sqrt(squared)
    end = squared * (c + 0.5) + mu * sqrt(c * (c + 1) * squared + 80)
    return end, min(squared / (end + squared / 2 + 2), mu / 2)
