"""Losses with finitely many values: randomised response, claims, binomial noise, samples of those.

`DiscretePld` is the distribution, `convolve` composes several, `sample_poisson` samples one.

*On a lattice.* The losses of a discrete Gaussian, or of any noise that is always moved by as much, have one distance. Sums
of many then have many values, of which few have a mass that matters: `convolve_lattice` adds them up as masses at equal
distances, from below and from above, and leaves the tails out.

**Proof** of its bounds. All masses are positive, so a sum of m products of doubles is off by at most m + 2 roundings of
itself, in any order of summation, and by 2^-1074 for each product that underflows, which `_TINY` exceeds by far. What is
left out is a part of P: it adds no more than its mass to δ, and nothing to what bounds δ from below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log, pi
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import nearest_float
from discreet.accounting.elementary import exp_neg_bounds, log_bounds
from discreet.accounting.pld import EPS, SPECIAL_ERROR, Complexes, Floats, MgfRatio, Pld


@dataclass(frozen=True, slots=True, eq=False)
class DiscretePld(Pld):
    """P(L = loss_j) = e^{log_mass_j}; each loss is known to `loss_error`, each logarithm of a mass to `mass_error`.

    >>> coin = DiscretePld.of([1.0, -1.0], [np.log(0.75), np.log(0.25)])
    >>> float(np.exp(coin.cgf(np.array([1.0]))[0][0])) - (0.75 * np.e + 0.25 / np.e) < 1e-15
    True
    """

    is_discrete: ClassVar[bool] = True

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
        heavy = weight > 1e-18 * float(weight.max())  # what is left out is part of the error
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
        slope = 4 / (np.exp(odds / 2) + np.exp(-odds / 2)) ** 2 if abs(odds) < 600 else 0.0
        sine = np.sin((s * (gap / 2)).astype(np.float32))
        slip = 2.0**-21 * (2 + s * abs(gap)) + s * float(self.loss_error.sum()) + 1e-9
        return np.asarray(np.log1p(-slope * np.maximum(sine * sine - slip, 0.0) * (1 - 1e-6)) / 2 + 1e-12)

    def atoms(self) -> "tuple[DiscretePld, float]":
        """The distribution itself; nothing is left out."""
        return self, 0.0


MAX_ATOMS = 1 << 14


def convolve(parts: Sequence[tuple[DiscretePld, int]], max_atoms: int = MAX_ATOMS) -> DiscretePld | None:
    """The distribution of the sum of all parts, each as often as it says; None where that has more than `max_atoms` atoms.

    >>> fair = DiscretePld.of([1.0, -1.0], [log(0.5), log(0.5)])
    >>> np.round(np.exp(convolve([(fair, 2)]).log_mass), 3).tolist()
    [0.25, 0.5, 0.25]
    """
    total: DiscretePld | None = None
    for pld, times in parts:
        binomial = len(pld.loss) == 2 and times < max_atoms
        power = _convolve_two_atoms(pld, times) if binomial else _convolve_power(pld, times, max_atoms)
        if power is None:
            return None
        total = power if total is None else _convolve_pair(total, power, max_atoms)
        if total is None:
            return None
    return DiscretePld.of([0.0], [0.0]) if total is None else total


_TINY = 1e-300  # masses are not told from 0 below
_TAIL = 1e-270  # values with less are left out
_MOST_PRODUCTS = 1 << 26


def convolve_lattice(parts: Sequence[tuple[DiscretePld, int]]) -> tuple[DiscretePld, float] | None:
    """The distribution of the sum of all parts, each as often as it says, without values that hardly ever occur, and a bound
    on their probability; None where the losses are not all on one lattice, or where it is long.

    >>> fair = DiscretePld.of([1.0, -1.0], [log(0.5), log(0.5)])
    >>> found, omitted = convolve_lattice([(fair, 4000)])
    >>> len(found.loss) < 4000, omitted < 1e-260, bool(abs(np.exp(found.log_mass).sum() - 1) < 1e-12)
    (True, True, True)
    """
    total: _Lattice | None = _Lattice(0.0, 0.0, np.ones(1), np.ones(1), 0.0, 0.0)
    for pld, times in parts:
        square = _Lattice.of(pld)
        while times and total is not None:
            if times & 1:
                total = None if square is None else total.add(square)
            times >>= 1
            square = None if square is None or not times else square.add(square)
    return None if total is None else (total.to_pld(), total.omitted)


@dataclass(frozen=True, slots=True, eq=False)
class _Lattice:
    """P(L = top − i·step) is between low_i and high_i; each value is off by at most `error`."""

    top: float
    step: float  # 0 for a single value
    low: Floats
    high: Floats
    error: float
    omitted: float

    @classmethod
    def of(cls, pld: DiscretePld) -> "_Lattice | None":
        """The values in falling order, if their distances are equal up to their errors."""
        order = np.argsort(-pld.loss, kind="stable")
        loss, slip = pld.loss[order], pld.loss_error[order]
        step = float(loss[0] - loss[-1]) / max(1, len(loss) - 1)
        away = np.abs(loss - (loss[0] - step * np.arange(len(loss))))
        error = float((away + slip).max()) + 4 * EPS * float(np.abs(loss).max())
        if error > 1e-13 * float(np.abs(loss).max()) or (step == 0 and len(loss) > 1):
            return None
        mass, rough = pld.log_mass[order], pld.mass_error[order]
        low, high = np.exp(mass - rough) * (1 - 4 * EPS), np.exp(np.minimum(mass + rough, 0.0)) * (1 + 4 * EPS)
        return cls(float(loss[0]), step, np.maximum(0.0, low - _TINY), high + _TINY, error, 0.0)

    def add(self, other: "_Lattice") -> "_Lattice | None":
        """The distribution of the sum of two independent losses."""
        steps = {one.step for one in (self, other) if len(one.high) > 1}
        few = min(len(self.high), len(other.high))
        if len(steps) > 1 or few * max(len(self.high), len(other.high)) > _MOST_PRODUCTS:
            return None
        slip = (few + 4) * EPS
        low = np.convolve(self.low, other.low) * (1 - slip) - few * _TINY
        high = np.convolve(self.high, other.high) * (1 + slip) + few * _TINY
        kept = np.flatnonzero(high > _TAIL)
        first, last = (int(kept[0]), int(kept[-1])) if kept.size else (0, 0)
        tails = float(high[:first].sum() + high[last + 1 :].sum()) * (1 + len(high) * EPS)
        top, step = self.top + other.top, max(steps, default=0.0)
        size = abs(self.top) + abs(other.top) + step * len(high)
        return _Lattice(
            top - first * step, step, np.maximum(0.0, low[first : last + 1]), high[first : last + 1],
            self.error + other.error + 4 * EPS * size, self.omitted + other.omitted + tails,
        )  # fmt: skip

    def to_pld(self) -> DiscretePld:
        """The same as logarithms; where a mass may be 0, its logarithm may be anything below that of `high`."""
        above = np.log(self.high)
        with np.errstate(divide="ignore"):
            below = np.maximum(np.log(self.low), above - 800)
        rough = (above - below) / 2 + 4 * EPS * (np.abs(above) + 1)
        loss = self.top - self.step * np.arange(len(self.high))
        return DiscretePld.of(loss, (above + below) / 2, self.error + 4 * EPS * np.abs(loss), rough)


def _convolve_power(pld: DiscretePld, times: int, max_atoms: int) -> DiscretePld | None:
    """By squaring."""
    result: DiscretePld | None = DiscretePld.of([0.0], [0.0])
    square: DiscretePld | None = pld
    while times and result is not None:
        if times & 1:
            result = None if square is None else _convolve_pair(result, square, max_atoms)
        times >>= 1
        square = None if square is None or not times else _convolve_pair(square, square, max_atoms)
    return result


def _convolve_two_atoms(pld: DiscretePld, times: int) -> DiscretePld:
    """k of one value and n − k of the other, a binomial; gammaln is trusted to `SPECIAL_ERROR`, relatively."""
    from scipy.special import gammaln

    k = np.arange(times + 1.0)
    logs = [gammaln(times + 1.0), gammaln(k + 1), gammaln(times - k + 1)]
    loss = (times - k) * pld.loss[0] + k * pld.loss[1]
    mass = logs[0] - logs[1] - logs[2] + (times - k) * pld.log_mass[0] + k * pld.log_mass[1]
    rough = 4 * EPS * times * (np.abs(pld.log_mass).max() + np.abs(pld.loss).max())
    slip = (times - k) * pld.mass_error[0] + k * pld.mass_error[1] + SPECIAL_ERROR * (logs[0] + logs[1] + logs[2])
    return DiscretePld.of(loss, mass, (times - k) * pld.loss_error[0] + k * pld.loss_error[1] + rough, slip + rough)


def _convolve_pair(one: DiscretePld, two: DiscretePld, max_atoms: int) -> DiscretePld | None:
    if len(one.loss) * len(two.loss) > 64 * max_atoms:
        return None
    loss, mass, loss_error, mass_error = (
        np.add.outer(getattr(one, name), getattr(two, name)).ravel()
        for name in ("loss", "log_mass", "loss_error", "mass_error")
    )
    merged = _merge_atoms(loss, mass, loss_error, mass_error)
    return merged if len(merged.loss) <= max_atoms else None


def _merge_atoms(loss: Floats, mass: Floats, loss_error: Floats, mass_error: Floats) -> DiscretePld:
    """Atoms closer than 1e-12 of the largest loss become one, at the first of them; how far the others moved is added to its
    error. Sums of losses on a lattice, which differ by their roundings only, are then one atom each."""
    near = 1e-12 * (1 + float(np.abs(loss).max()))
    order = np.argsort(-loss, kind="stable")
    loss, mass, loss_error, mass_error = loss[order], mass[order], loss_error[order], mass_error[order]
    starts = np.flatnonzero(np.concatenate([[True], -np.diff(loss) > near]))
    ends = np.concatenate([starts[1:], [len(loss)]]) - 1
    counts = ends - starts + 1
    return DiscretePld.of(
        loss[starts],
        np.logaddexp.reduceat(mass, starts),
        np.maximum.reduceat(loss_error, starts) + (loss[starts] - loss[ends]),
        np.maximum.reduceat(mass_error, starts) + EPS * counts * (4 + np.maximum.reduceat(np.abs(mass), starts)),
    )


def sample_poisson(
    pld: DiscretePld,
    infinity_mass: tuple[float, float],
    rate: Fraction,
    removed: bool,
    second_mass: tuple[float, float] | None = None,
) -> tuple[DiscretePld, float, float]:
    """The distribution on a Poisson sample at `rate` < 1 [ZDW22, Thm 11], and its mass at infinity between two doubles.

    With mixture (1 − q)Q + qP: the unit removed, L' = ln(1 − q + q·e^L) under the mixture, whose mass at L is
    Q·e^{L'} = P·e^{L' − L}, and what only Q has sits at ln(1 − q). The unit added, L' = −ln(1 − q + q·e^{-L}) under
    the first of *its* pair, and what was infinite is −ln(1 − q). `second_mass` is what only Q has; if it is not given, the
    pair treats both directions alike, and it is the mass at infinity.
    """
    q, sign = nearest_float(rate), 1 if removed else -1
    turned = sign * pld.loss
    if q <= 0.5:
        small = np.log1p(q * np.expm1(np.minimum(turned, 30)))
        image = np.where(turned < 30, small, turned + log(q) + np.log1p((1 - q) / q * np.exp(-np.maximum(turned, 30))))
    else:
        image = np.logaddexp(log(nearest_float(1 - rate)), log(q) + turned)
    slip = pld.loss_error + 8 * EPS * (1 + np.abs(turned) + np.abs(image))
    mass = pld.log_mass + (image - pld.loss if removed else 0.0)
    mass_slip = pld.mass_error + (slip + pld.loss_error if removed else 0.0)
    low, high = second_mass if removed and second_mass is not None else infinity_mass  # what is finite on a sample
    edge = log(nearest_float(1 - rate))
    if low > 0:
        share = nearest_float(1 - rate) if removed else 1.0
        image, mass = np.append(image, edge), np.append(mass, log(share * low))
        slip, mass_slip = (
            np.append(slip, 8 * EPS * (1 + abs(edge))),
            np.append(mass_slip, (high - low) / low + 8 * EPS),
        )
        unknown = 0.0
    else:
        unknown = high
    pld = DiscretePld.of(sign * image, mass, slip, mass_slip)
    if removed:
        return pld, q * infinity_mass[0] * (1 - 4 * EPS), q * infinity_mass[1] * (1 + 4 * EPS) + unknown
    return pld, 0.0, unknown


def bound_second_mass(pld: DiscretePld, omitted: float) -> tuple[float, float]:
    """What only Q has, between two doubles: 1 − Σ P·e^{-L}, of a list that leaves out at most `omitted` of Q."""
    error = pld.mass_error + pld.loss_error
    rough = 8 * EPS * (len(pld.loss) + float(np.abs(pld.log_mass).max() + np.abs(pld.loss).max()))
    logs = pld.log_mass - pld.loss
    least, most = (float(np.exp(np.minimum(logs + s * error, 700.0)).sum()) * (1 + s * rough) for s in (-1, 1))
    return max(0.0, 1 - most - omitted - 4 * EPS), max(0.0, 1 - least + 4 * EPS)


# Sums Σ_j weight_j·e^{i·s·at_j} at many s: directly, or by a fast Fourier transform where the s are evenly spaced.
#
# *Factored.* For s = s₀ + n·step with n = ki + j, j < k, e^{i·s·at} = e^{i(s₀ + ki·step)at}·e^{i·j·step·at}: about 2√N
# exponentials for each at instead of N, and a matrix product. A product of two is off by less than 16·2^-52; the angles are
# at most s·at each, and callers count 4·2^-52·s·|at|.
#
# *Gridded* [GL04]. With x_j = step·at_j mod 2π and F(x) = Σ_j w_j·g(x − x_j), g(x) = Σ_m e^{-(x − 2πm)²/4τ}, the n-th
# Fourier coefficient of F is √(τ/π)·e^{-n²τ} times the wanted sum. F is sampled at R points, each Gaussian cut off after
# SPREAD of them on either side. Put β = τR² = 60, |n| ≤ R/4 and W = Σ|w_j|; undoing the Gaussian multiplies by e^{n²τ}
# ≤ e^{β/16} < 43. Then
#
# - sampling adds at most Σ_{m≠0} e^{n²τ − (n + mR)²τ}·W ≤ 3·e^{-β/2}·W, and the cut at most 4·43·e^{-π²·SPREAD²/β}·W:
#   below 3.1e-13·W;
# - a transform of R = 2^t points is t stages of sums whose absolute values multiply to the matrix of ones, so it is off by
#   at most 4·t·2^-52·Σ|F|/R, and Σ|F|/R ≤ W·√(τ/π): 4·20·2^-52·43·W < 7.7e-13·W;
# - the Gaussians (exponents up to 37) and their sums, of at most `crowd` terms a cell and 2·SPREAD cells:
#   2^-52·43·(crowd + 256)·W;
# - x_j is rounded twice: |n|·2^-52·4·(π + |step·at_j|)·W, of which callers count the part with at_j among their s·at_j.


_CHUNK = 1 << 18  # terms held at once
_GRID_FROM = 96  # s from which on the grid pays
_GRID_CHUNK = 1 << 12
_SPREAD = 15
_BETA = 60.0
_GROWTH = 43.0  # e^{β/16}


def sum_exponentials(s: Floats, at: Floats, weight: Floats) -> tuple[Complexes, float]:
    """The sums, and a bound on what the method (not the rounding of s·at) may have them off by, over Σ|weight|.

    >>> s = 0.25 * np.arange(4096.0)
    >>> at, weight = np.linspace(-3, 3, 1000), np.full(1000, 1e-3)
    >>> bool(abs(sum_exponentials(s, at, weight)[0] - sum_directly(s, at, weight)).max() < 1e-12)
    True
    """
    if len(s) > 8:
        step = float(s[1] - s[0])
        index = np.round((s - s[0]) / step)
        if (s[0] + step * index == s).all() and index[-1] < 8 * len(s):
            places = index.astype(np.int64)
            if len(s) > _GRID_FROM and len(at) > 64:
                return _sum_on_grid(s, step, places, at, weight)
            return _sum_factored(float(s[0]), step, places, at, weight), 2.0**-52 * (len(at) + 24)
    return sum_directly(s, at, weight), 2.0**-52 * (len(at) + 8)


def sum_directly(s: Floats, at: Floats, weight: Floats) -> Complexes:
    """Term by term, a few rows at a time."""
    total = np.empty(len(s), dtype=np.complex128)
    rows = max(1, _CHUNK // len(at))
    for i in range(0, len(s), rows):
        angle = np.multiply.outer(s[i : i + rows], at)
        total[i : i + rows] = np.cos(angle) @ weight + 1j * (np.sin(angle) @ weight)
    return total


def _sum_factored(first: float, step: float, index: NDArray[np.int64], at: Floats, weight: Floats) -> Complexes:
    """A few columns at a time: each s is one of `count` large steps from the first, and then one of `many` small ones."""
    many = max(1, int((int(index[-1]) + 1) ** 0.5))
    count = int(index[-1]) // many + 1
    near, far = step * np.arange(float(many)), first + step * many * np.arange(float(count))
    total = np.zeros((count, many), dtype=np.complex128)
    columns = max(1, _CHUNK // (many + count))
    for i in range(0, len(at), columns):
        some = at[i : i + columns]
        small, large = np.exp(1j * np.multiply.outer(near, some)), np.exp(1j * np.multiply.outer(far, some))
        total += (large * weight[i : i + columns]) @ small.T
    return np.asarray(total.ravel()[index])


def _sum_on_grid(s: Floats, step: float, index: NDArray[np.int64], at: Floats, weight: Floats) -> tuple[Complexes, float]:
    half = int(index[-1]) // 2 + 1
    size = 1 << max(8, (4 * half - 1).bit_length())  # |n| ≤ half ≤ size/4
    tau = _BETA / size**2
    angle = (s[0] + step * half) * at  # the middle of the s becomes n = 0
    real, imaginary = weight * np.cos(angle), weight * np.sin(angle)
    place = np.mod(step * at, 2 * pi) * (size / (2 * pi))
    place = np.where(place < size, place, place - size)  # a tiny angle below 0 is 2π
    cell = np.floor(place).astype(np.int64)
    grid = np.zeros((2, size + 2 * _SPREAD))
    offsets = np.arange(1, 2 * _SPREAD + 1)[:, None]
    for i in range(0, len(at), _GRID_CHUNK):
        some = slice(i, i + _GRID_CHUNK)
        where = (cell[some] + offsets).ravel()
        bell = np.exp((-(pi**2) / _BETA) * (offsets - (place[some] - cell[some] + _SPREAD)) ** 2)
        for line, part in zip(grid, (real[some], imaginary[some]), strict=True):
            found = np.bincount(where, (bell * part).ravel())
            line[: len(found)] += found
    ring = np.asarray(grid[0] + 1j * grid[1])
    ring[_SPREAD : 2 * _SPREAD] += ring[size + _SPREAD :]  # what lies past the ends comes in at the others
    ring[size : size + _SPREAD] += ring[:_SPREAD]
    ring = ring[_SPREAD : size + _SPREAD]
    n = index - half
    coefficients = np.fft.ifft(ring)[np.mod(n, size)]
    crowd = int(np.bincount(cell).max())
    error = 1.1e-12 + 2.0**-52 * (_GROWTH * (crowd + 256) + 4 * pi * half)
    return np.asarray(coefficients * np.sqrt(pi / tau) * np.exp(tau * n.astype(float) ** 2)), error


def build_pure_pld(epsilon: Fraction) -> DiscretePld:
    """Randomised response of ε, the worst of all ε-private mechanisms: the loss is ε with mass 1/(1 + e^{-ε}), else −ε."""
    if epsilon == 0:
        return DiscretePld.of([0.0], [0.0])
    eps = nearest_float(epsilon)
    low, high = exp_neg_bounds(epsilon)
    log_kept = nearest_float(-log_bounds(1 + (low + high) / 2)[0])
    return DiscretePld.of([eps, -eps], [log_kept, log_kept - eps], EPS * eps, EPS * (4 + eps))


def build_response_pld(truth: Fraction, choices: int) -> DiscretePld:
    """k answers, the true one with `truth`: loss ±ln(truth/other), and 0 on the answers that neither input favours."""
    other = (1 - truth) / (choices - 1)
    return build_three_point_pld(truth, other, (choices - 2) * other)


def build_set_pld(odds: Fraction, low: Fraction) -> DiscretePld:
    """A set response: loss ln(odds) on sets that hold the own value and not the other one's, with mass odds·low; −ln(odds)
    the other way round, with mass low; else 0."""
    return build_three_point_pld(odds * low, low, 1 - (odds + 1) * low)


def build_three_point_pld(own: Fraction, other: Fraction, neither: Fraction) -> DiscretePld:
    """Loss ±ln(own/other) with masses `own` and `other`, and 0 with mass `neither`."""
    if own == other:
        return DiscretePld.of([0.0], [0.0])
    odds = nearest_float(sum(log_bounds(own / other), Fraction(0)) / 2)
    mass = [nearest_float(sum(log_bounds(p), Fraction(0)) / 2) for p in (own, other)]
    loss = [odds, -odds]
    if neither > 0:
        loss.append(0.0)
        mass.append(nearest_float(sum(log_bounds(neither), Fraction(0)) / 2))
    return DiscretePld.of(loss, mass, 0.0, EPS)
