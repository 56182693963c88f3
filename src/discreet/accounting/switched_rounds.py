"""Rounds of samples without replacement, from below: an analyst who looks at the answers so far.

**Proof** that what is computed is attained. One unit is replaced, a share q of all units is sampled, and all other units are
alike. Let N be noise, P and Q its distributions at two values as far apart as the sensitivity allows. The analyst asks for
one of two statistics. One moves from Q's value to P's if the unit is in the sample, and its replacement does not move it:
then the answers are distributed as (1 − q)Q + qP and as Q. The other one moves from P's value to Q's if the replacement is
in the sample, and the unit itself does not move it: the answers are distributed as P and as (1 − q)P + qQ. For noise that
is symmetric these are the removed and the added direction of a Poisson sample. Which of the two is asked for may depend on
the answers so far; the data sets stay the same two.

Let V_j(x) be the most that P(E) − e^x·Q(E) can be over j rounds: V_0(x) = (1 − e^x)₊ and, as one round has the loss L,

    V_{j+1}(x) = max over both of E_P V_j(x − L).

*From below.* To merge outcomes into cells is post-processing. V falls in x, so a loss may be taken for a smaller one: with
a slack s, each cell is put on the lattice point kh with kh − s at most its loss, and V_{j+1}(x) ≥ Σ p_k·V_j(x − kh + s).
So the lattice of V_j lies s further to the right than that of V_{j+1}. The cells are those around the lattice points: their
losses, ln of the ratio of two masses, are off by the square of h only, and so is s. What is left of the lattice of V_j is
taken for its first point, what is right of it for 0.

*Sums* are circular convolutions of N = 2^t points with room for what comes around. A transform is t stages, each √2 times a
unitary matrix and off by at most 4·2^-52 of the length of its argument [Hig02, Thm 24.2]. So are three transforms and a
product, by at most 16·t·2^-52·‖V_j‖₂·Σp_k in length, and so at every point: that much is subtracted.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, expm1, log, log1p, sqrt

import numpy as np

from discreet._numbers import nearest_float, sqrt_up
from discreet.accounting.dominating_pairs import build_direction
from discreet.accounting.pld import EPS, Complexes, Floats
from discreet.accounting.pld.cells import log_normal_cells
from discreet.accounting.pld.gaussian import GaussianPld
from discreet.accounting.pld.laplace import LaplacePld
from discreet.accounting.rewrite import find_attained_event, list_alternatives
from discreet.events import Composition, Event, SampledWithoutReplacement, Subsampled

_POINTS = 1 << 16
_MOST_ROUNDS = 12
_LEFT = 8.0  # how far below 0 the lattice begins: V is within e^-8 of 1 there
_RIGHT = 3.0  # how far above the point that is asked for it ends
_FARTHEST = 12.0  # points above this are left to others
_REACH = 12.0  # standard deviations


@dataclass(frozen=True, slots=True)
class SwitchedRounds:
    """`times` rounds of Gaussian or Laplace noise on a share `rate` of the units.

    >>> two = SwitchedRounds(GaussianPld(Fraction(1)), Fraction(1, 10), 2)
    >>> 0.0617 < two.find_delta(0.0) < 0.0619
    True
    """

    noise: GaussianPld | LaplacePld
    rate: Fraction
    times: int

    def find_delta(self, at: float) -> float:
        """What δ at ε = `at` is not below."""
        return max(0.0, float(self._find_values(at, at)[1][0])) if at < _FARTHEST else 0.0

    def find_epsilon(self, target: float, guess: tuple[float, float]) -> float:
        """What ε at δ = `target` is not below, if it lies between these two."""
        if not guess[1] < _FARTHEST:
            return guess[0]
        x, values = self._find_values(*guess)
        above = x[(values > target) & (x <= guess[1])]
        return max(guess[0], float(above.max(initial=0.0)) * (1 - 8 * EPS))

    def _find_values(self, first: float, last: float) -> tuple[Floats, Floats]:
        """Points from `first` on, and V there from below."""
        h = self._align((last + _RIGHT + _LEFT) / (_POINTS // 2))
        start = round((first + _LEFT) / h)  # the place of `first`
        kernels, slack = self._list_kernels(h)
        x = first + h * (np.arange(_POINTS // 2) - start)
        far = x + self.times * slack
        v = np.maximum(0.0, -np.expm1(far + 8 * EPS * (1 + np.abs(far)))) * (1 - 16 * EPS)
        for _ in range(self.times):
            ring = np.concatenate([v, np.zeros(_POINTS // 4), np.full(_POINTS // 4, v[0])])  # to the left is the end
            wrong = 16 * 16 * EPS * sqrt(float((ring * ring).sum())) * 1.01
            turned = np.fft.rfft(ring)
            found = [np.fft.irfft(turned * kernel, _POINTS)[: len(v)] for kernel in kernels]
            v = np.maximum(0.0, np.maximum(*found) - wrong)
        return x[start:], v[start:]

    def _align(self, h: float) -> float:
        """A step near h; of Laplace noise one that puts the largest loss, which is likely, on the lattice."""
        if isinstance(self.noise, GaussianPld):
            return h
        top = log1p(nearest_float(self.rate) * expm1(nearest_float(self.noise.epsilon)))
        return top / ceil(top / h)

    def _list_kernels(self, h: float) -> tuple[tuple[Complexes, ...], float]:
        """The transforms of both distributions on the lattice, and the slack s.

        A cell that would wrap around the ring is put on the last place before, if it is above, or else left out.
        """
        loss, error, log_p, log_q, mass_error = self._list_cells(h)
        slack = float(2 * np.median(np.abs(loss - h * np.round(loss / h)) + error)) + 8 * EPS
        kernels = []
        for turned, mass in ((loss, log_p), (-loss, log_q)):
            place = np.floor((turned - error - 4 * EPS * np.abs(turned) + slack) / h).astype(np.int64)
            place = np.minimum(place, _POINTS // 4 - 1)
            kept = place > -_POINTS // 4
            weight = np.exp(mass[kept] - mass_error[kept]) * (1 - 16 * EPS)
            kernels.append(np.fft.rfft(np.bincount(place[kept] % _POINTS, weight, _POINTS)))
        return tuple(kernels), slack

    def _list_cells(self, h: float) -> tuple[Floats, ...]:
        """Of every cell the loss ln((1 − q)Q + qP)/Q and its error, ln of both masses and their error."""
        q, away, join = nearest_float(self.rate), log(nearest_float(1 - self.rate)), log(nearest_float(self.rate))
        lowest, highest = round(log1p(-q) / h) + 1, _POINTS // 4
        edges = h * (np.arange(lowest, highest) + 0.5)
        t = np.log1p(np.expm1(edges) / q) if q < 1 else edges  # ln P/Q at the edges
        if isinstance(self.noise, GaussianPld):
            log_q, log_p, error = _list_gaussian_masses(t, nearest_float(sqrt_up(self.noise.squared)))
        else:
            log_q, log_p, error = _list_laplace_masses(t, nearest_float(self.noise.epsilon))
        mixed = np.logaddexp(away + log_q, join + log_p)
        slip = error + 16 * EPS * (1 + np.abs(log_q) + np.abs(mixed))
        return mixed - log_q, 2 * slip, mixed, log_q, slip


def _list_gaussian_masses(t: Floats, mu: float) -> tuple[Floats, Floats, Floats]:
    """ln Q and ln P of the cells between ascending edges t, and their error: N(0, 1) and N(μ, 1) in y = t/μ + μ/2."""
    y, far = t / mu + mu / 2, _REACH + mu / 2
    y = np.concatenate([[mu / 2 - far], y[np.abs(y - mu / 2) < far - 1e-3], [mu / 2 + far]])
    log_q, error = log_normal_cells(y)
    log_p, moved = log_normal_cells(y - mu)
    rounding = 8 * EPS * (1 + (np.abs(y[1:]) + mu) * (mu + 1)) / np.diff(y)
    return log_q, log_p, np.maximum(error, moved) + rounding


def _list_laplace_masses(t: Floats, eps: float) -> tuple[Floats, Floats, Floats]:
    """The same for Laplace noise: a density e^{(t − ε)/2}/4 of P between its atoms at −ε and ε, which are cells too."""
    edges = np.concatenate([[-eps], t[np.abs(t) < eps * (1 - 1e-9)], [eps]])
    width = np.diff(edges)
    log_p = np.log(np.expm1(width / 2) / 2) + (edges[:-1] - eps) / 2
    log_q = np.log(-np.expm1(-width / 2) / 2) - (edges[:-1] + eps) / 2
    error = 16 * EPS * (1 + eps) * (1 + 1 / width)
    ends_q, ends_p = [-log(2), -log(2) - eps], [-log(2) - eps, -log(2)]
    return (
        np.concatenate([log_q, ends_q]),
        np.concatenate([log_p, ends_p]),
        np.concatenate([error, np.full(2, 8 * EPS * (1 + eps))]),
    )


def find_switched_rounds(event: Event) -> SwitchedRounds | None:
    """The rounds that an event is, if it is a few of one kind of noise on samples without replacement.

    The noise is that of what is attained inside the sample, and of its alternatives the one that reveals most: groups,
    memoised reports and what else has no distribution of its own are rewritten first.
    """
    match event:
        case Composition(parts=((SampledWithoutReplacement(rate=rate) as one, times),)) if (
            1 < times <= _MOST_ROUNDS and Fraction(1, 1000) < rate < 1
        ):
            attained = find_attained_event(one)
            if not isinstance(attained, Subsampled):
                return None
            found = [_find_noise(choice) for choice in list_alternatives(attained.event)]
            noise = max((one for one in found if one is not None), key=_size, default=None)
            return None if noise is None or not 0.01 < _size(noise) < 4 else SwitchedRounds(noise, rate, times)
    return None


def _find_noise(choice: Composition) -> GaussianPld | LaplacePld | None:
    match build_direction(choice, removed=True).parts:
        case ((GaussianPld() | LaplacePld() as noise, 1),):
            return noise
    return None


def _size(noise: GaussianPld | LaplacePld) -> float:
    return sqrt(nearest_float(noise.squared)) if isinstance(noise, GaussianPld) else nearest_float(noise.epsilon)
