"""The mechanisms that a plan compares: central noise on the statistics, and randomised response by each person.

**Central.** A trusted curator adds Laplace, Gaussian or discrete Gaussian noise, calibrated for all queries at once. Laplace
noise gives each of k queries ε/k; both Gaussians are accounted for as one event by the certified curve. Errors are exact
quantiles of the discrete noise that is drawn.

**Local.** Each person randomises their own answer (randomised response), and the estimate comes from n reports; no curator
is needed. With k queries each person answers every one with ε/k. In a histogram a person reports a cell. A value between
bounds is first rounded to a random bit, 1 with probability (value − lower)/(upper − lower), and the bit is reported: the
estimate stays unbiased. Of n people h report 1 with probability p, the others with probability q, so the number of ones is
Bin(h, p) + Bin(n − h, q). Its distribution is computed exactly, over 9 standard deviations.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, erfc, exp, floor, fsum, log, sinh, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import ceil_float, smallest_where
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.pld.gaussian import gaussian_epsilon, gaussian_mu
from discreet.accounting.pure import pure
from discreet.errors import BadParameter
from discreet.mechanisms import DiscreteGaussian, Gaussian, Laplace, RandomizedResponse, calibrate
from discreet.mechanisms._additive_noise import L2, SAFETY_FACTOR, default_grid, fit_scale_to_grid, tail_per_error
from discreet.mechanisms.gaussian import classical_ratio
from discreet.mechanisms.textbook_accuracy import gaussian_linf_bound, laplace_linf_bound
from discreet.planner.task import Accuracy, ErrorMetric, Histogram, Mean, Sum, Task, is_real

Noise: TypeAlias = Laplace | Gaussian | DiscreteGaussian
SEARCH_TOLERANCE = 1e-7
"""Relative distance to the widest noise that meets a goal at which the search stops."""


# -- central noise ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CentralMechanism:
    """One kind of noise on the statistics."""

    name: str
    kind: type[Laplace] | type[Gaussian] | type[DiscreteGaussian]

    @property
    def pure(self) -> bool:
        """Whether it needs no δ."""
        return self.kind is Laplace

    def build_noise(self, task: Task, epsilon: Fraction) -> Noise:
        """Return the least noise with which all queries together cost ε."""
        return _calibrate_noise(self, task, epsilon)

    def predict_accuracy(self, task: Task, epsilon: Fraction, n: int | None) -> Accuracy:
        """Return the exact quantiles of the error at this ε."""
        accuracy = predict_statistic_accuracy(self.build_noise(task, epsilon), task)
        return accuracy.divide_by(n if task.divides_by_n and n is not None else 1)

    def guess_epsilon(self, task: Task, is_good: Callable[[Accuracy], bool]) -> float:
        """Return the ε of the widest noise with which the statistics are accurate enough."""
        unit = task.sensitivity.linf
        inverse_scale = smallest_where(
            lambda x: is_good(predict_statistic_accuracy(self.kind(unit / Fraction(x)), task)), tolerance=SEARCH_TOLERANCE
        )
        return self._compute_epsilon(self.kind(unit / Fraction(inverse_scale)), task)

    def _compute_epsilon(self, noise: Noise, task: Task) -> float:
        grid = noise_grid(noise, task)
        match noise:
            case Laplace():
                return ceil_float(pure(noise.event(task.sensitivity, grid)))
            case Gaussian(sigma=sigma):
                return gaussian_epsilon(task.sensitivity.to_grid(grid).l2 * grid / sigma, task.delta).upper
            case DiscreteGaussian():
                return certified_epsilon(noise.event(task.sensitivity, grid), task.delta).upper

    def textbook_half_width(self, task: Task, epsilon: Fraction, n: int | None) -> float | None:
        """Return the half-width by the textbooks' bounds for continuous noise at the same ε; None where they do not hold."""
        size = 1 if task.metric is ErrorMetric.EACH else task.answers
        beta, eps, norms = float(1 - task.confidence), float(epsilon), task.sensitivity
        assert norms.l1 is not None
        if self.kind is Laplace:
            bound = laplace_linf_bound(float(norms.l1), eps, size, beta)
        elif self.kind is DiscreteGaussian:
            sigma = DiscreteGaussian.for_epsilon(epsilon, task.delta, norms).sigma  # ε = ρ + 2√(ρ ln 1/δ)
            bound = gaussian_linf_bound(float(sigma), size, beta)
        elif epsilon > 1:
            return None
        else:
            sigma = norms.l2 * classical_ratio(epsilon, task.delta, Fraction(5, 4))
            bound = gaussian_linf_bound(float(sigma), size, beta)
        return bound / (n if task.divides_by_n and n is not None else 1)


CENTRAL_MECHANISMS = (
    CentralMechanism("Laplace", Laplace),
    CentralMechanism("Gaussian", Gaussian),
    CentralMechanism("discrete Gaussian", DiscreteGaussian),
)


def noise_grid(noise: Noise, task: Task) -> Fraction:
    """Return the grid of the statistics: 1 for integers, the noise's own grid for reals."""
    return noise.grid if is_real(task.query) else Fraction(1)


@lru_cache(maxsize=4096)
def predict_statistic_accuracy(noise: Noise, task: Task) -> Accuracy:
    """Return the accuracy of the noisy statistics."""
    grid = noise_grid(noise, task)
    each, largest = (Fraction(noise.error(task.confidence, size, grid=grid)) for size in (1, task.answers))
    rounding = Fraction(0) if grid == 1 else grid / 2
    return Accuracy(each, largest, Fraction(root_mean_square(noise, grid)) * grid + rounding)


@lru_cache(maxsize=4096)
def _calibrate_noise(mechanism: CentralMechanism, task: Task, epsilon: Fraction) -> Noise:
    reals = is_real(task.query)
    if mechanism.kind is Laplace:
        return Laplace.for_epsilon(epsilon, task.sensitivity, reals=reals)
    ratio = 1 / _exact_mu(epsilon, task.delta)
    gaussian = Gaussian(fit_scale_to_grid(task.sensitivity, L2, ratio) if reals else task.sensitivity.l2 * ratio)
    return gaussian if mechanism.kind is Gaussian else _calibrate_discrete_gaussian(task, epsilon, gaussian)


@lru_cache(maxsize=256)
def _exact_mu(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return l2/σ of the Gaussian whose exact curve passes through (ε, δ)."""
    mu = gaussian_mu(epsilon, delta)
    if mu == 0:
        raise BadParameter("delta", ceil_float(delta), "too small for doubles at this ε", "give a δ above 1e-300")
    return Fraction(mu)


def _calibrate_discrete_gaussian(task: Task, epsilon: Fraction, near: Gaussian) -> DiscreteGaussian:
    """Calibrate by its own certified curve.

    For reals the sensitivity is taken on a grid twice as coarse as the Gaussian's, which is at least the grid of the result:
    the two σ differ by a few parts in a million, and a finer grid never costs more.
    """
    if not is_real(task.query):
        return calibrate(DiscreteGaussian, sensitivity=task.sensitivity, epsilon=epsilon, delta=task.delta)
    grid = 4 * near.grid if near.grid == Fraction(1, 2) else 2 * near.grid  # never 1, the grid of integers
    steps = calibrate(DiscreteGaussian, sensitivity=task.sensitivity.to_grid(grid), epsilon=epsilon, delta=task.delta)
    noise = DiscreteGaussian(steps.sigma * grid)
    assert default_grid(noise.sigma) <= grid
    return noise


MAX_SUMMED_SIGMA = 8.0
"""Below this σ the squares are summed; above it the effect of the lattice is of order e^{-2π²σ²}."""


def root_mean_square(noise: Laplace | Gaussian | DiscreteGaussian, grid: Fraction) -> float:
    """Return √E X² of the noise X that is drawn, in steps of the grid, rounded up.

    Discrete Laplace noise is narrower than the continuous one of its scale, rounded Gaussian noise wider than its σ,
    discrete Gaussian noise narrower.

    >>> root_mean_square(Laplace(1), Fraction(1)) < 2**0.5 * 1, root_mean_square(Gaussian(10), Fraction(1)) > 10
    (True, True)
    """
    match noise:
        case Laplace(scale=scale):
            half = float(grid / scale) / 2  # E X² = 2a/(1 − a)², a = e^{-2·half}
            return SAFETY_FACTOR / (sqrt(2) * sinh(half)) if half < 300 else 0.0
        case Gaussian(sigma=sigma):
            return SAFETY_FACTOR * sqrt(_rounded_gaussian_variance(float(sigma / grid)))
        case DiscreteGaussian(sigma=sigma):
            return SAFETY_FACTOR * sqrt(_discrete_gaussian_variance(float(sigma / grid)))


def _rounded_gaussian_variance(sigma: float) -> float:
    """E round(Z)² = Σ (2k + 1)·P(|Z| ≥ k + ½); for wide noise σ² + 1/12."""
    if sigma >= MAX_SUMMED_SIGMA:
        return sigma**2 + 1 / 12
    return fsum((2 * k + 1) * erfc((k + 0.5) / (sigma * sqrt(2))) for k in range(400))


def _discrete_gaussian_variance(sigma: float) -> float:
    """At most σ² [CKS20, Cor. 9], and equal to σ² up to rounding for wide noise."""
    if sigma >= MAX_SUMMED_SIGMA:
        return sigma**2
    weights = [exp(-((k / sigma) ** 2) / 2) for k in range(1, 400)]
    return fsum(2 * k * k * w for k, w in enumerate(weights, 1)) / (1 + 2 * fsum(weights))


# -- randomised response ----------------------------------------------------------------------------------------------------

MAX_EXHAUSTIVE_N, MAX_NINE_SHARES_N = 64, 10_000
"""Up to the first number of people every number of holders is tried; up to the second nine shares of them, beyond it three
(the quantile hardly depends on the share), and one report is added for the shares between."""


@dataclass(frozen=True, slots=True)
class LocalMechanism:
    """Randomised response."""

    name: str = "randomised response"
    pure: bool = True

    def build_noise(self, task: Task, epsilon: Fraction) -> RandomizedResponse:
        """Return the mechanism with which each person answers each query."""
        choices = task.query.cells if isinstance(task.query, Histogram) else 2
        return RandomizedResponse.for_epsilon(epsilon / task.queries, choices)

    def predict_accuracy(self, task: Task, epsilon: Fraction, n: int | None) -> Accuracy:
        """Return the error at the least favourable true answers. The cells of a histogram are joined by the union bound."""
        assert n is not None
        response = self.build_noise(task, epsilon)
        each, largest = (max(_report_errors(response, task, n, _tail(task, metric))) for metric in _QUANTILES)
        unit = _estimate_unit(response, task, n)
        return Accuracy(each * unit, largest * unit, Fraction(_worst_deviation(response, task, n)) * unit)

    def is_within(self, task: Task, epsilon: Fraction, n: int, allowed: Fraction) -> bool:
        """Whether the error by the task's metric, as `predict_accuracy` gives it, is at most this.

        It computes no other error, and stops at the first true answer whose error is larger.
        """
        response = self.build_noise(task, epsilon)
        reports = allowed / _estimate_unit(response, task, n)
        if task.metric is ErrorMetric.RMSE:
            return Fraction(_worst_deviation(response, task, n)) <= reports
        return all(error <= reports for error in _report_errors(response, task, n, _tail(task, task.metric)))

    def textbook_half_width(self, task: Task, epsilon: Fraction, n: int | None) -> float | None:
        """Return Hoeffding's bound [S4, ex. 2.5], with 1 − confidence divided equally over the answers."""
        assert n is not None
        response, size = self.build_noise(task, epsilon), 1 if task.metric is ErrorMetric.EACH else task.answers
        bound = response.error(1 - (1 - task.confidence) / size, n)
        return bound * float(_value_width(task)) / (n if task.divides_by_n else 1)


LOCAL_MECHANISM = LocalMechanism()


def _value_width(task: Task) -> Fraction:
    """Return the value that one person's bit stands for."""
    query = task.query
    return query.upper - query.lower if isinstance(query, Sum | Mean) else Fraction(1)


def _estimate_unit(response: RandomizedResponse, task: Task, n: int) -> Fraction:
    """Return how far one report of n moves the estimate."""
    return _value_width(task) / (response.truth - response.other) / (n if task.divides_by_n else 1)


_QUANTILES = (ErrorMetric.EACH, ErrorMetric.LARGEST)


def _tail(task: Task, metric: ErrorMetric) -> float:
    """Return how likely a larger error of one answer, or of one of all answers, may be."""
    if metric is ErrorMetric.EACH:
        return tail_per_error(task.confidence, 1)
    return tail_per_error(task.confidence, task.queries) * task.queries / task.answers


def _report_errors(response: RandomizedResponse, task: Task, n: int, tail: float) -> Iterator[Fraction]:
    """Yield quantiles of |reports − mean|, among them the one at the least favourable true answers.

    Bits of values: among all distributions with a given mean the binomial has the least mass in any interval around it
    [Hoe56, Thm 5], and it occurs where all people have the same value; it is widest where a report is a fair coin.
    """
    p, q = min(float(response.truth), 1 - 2**-53), float(response.other)
    shares = (0, 4, 8) if n > MAX_NINE_SHARES_N else range(9)
    if isinstance(task.query, Sum | Mean):
        centres = [q + (p - q) * i / 16 for i in shares]
        yield from (Fraction(report_deviation_quantile(n, n, centre, 0.5, tail) + 1) for centre in centres)
        return
    last = n // 2 if response.choices == 2 else n  # two choices are each other's mirror image
    if n <= MAX_EXHAUSTIVE_N:
        yield from (Fraction(report_deviation_quantile(n, h, p, q, tail)) for h in range(last + 1))
    else:
        yield from (Fraction(report_deviation_quantile(n, last * i // 8, p, q, tail) + 1) for i in shares)


def _worst_deviation(response: RandomizedResponse, task: Task, n: int) -> float:
    """Return the largest standard deviation of the number of reports; its square is linear in the number of holders."""
    if isinstance(task.query, Sum | Mean):
        return sqrt(n) / 2 * SAFETY_FACTOR
    gap = float(response.truth - response.other)
    return max(response.standard_deviation(n, holders) for holders in (0, n)) * gap * SAFETY_FACTOR


Floats = NDArray[np.float64]
WINDOW_DEVIATIONS, WINDOW_MARGIN = 9.0, 40
MAX_EXACT_N = 10**9
"""Beyond this n the quantile is bounded by the central limit theorem with its error [She11], or by [Ber46]."""
MIN_EXACT_TAIL = 1e-10
"""Below this tail the rounding of the Fourier transforms, about 1e-15, would show: Bernstein's bound is used instead."""
BERRY_ESSEEN = 0.5600


@lru_cache(maxsize=1024)
def report_deviation_quantile(n: int, h: int, p: float, q: float, tail: float) -> float:
    """Return the least t with P(|reports − mean| > t) ≤ tail.

    >>> [round(report_deviation_quantile(100, *more, 0.05), 6) for more in ((0, 0.5, 0.5), (50, 0.9, 0.1))]
    [10.0, 6.0]
    """
    if n > MAX_EXACT_N or tail < MIN_EXACT_TAIL:
        return _bound_deviation(n, h, p, q, tail)
    first, pmf = _convolve(_binomial_pmf(h, p), _binomial_pmf(n - h, q))
    deviation = np.abs(first + np.arange(pmf.size) - (h * p + (n - h) * q))
    order = np.argsort(-deviation)
    beyond = np.concatenate([[0.0], np.cumsum(pmf[order])[:-1]])  # P(deviation larger than this one)
    return float(deviation[order][np.flatnonzero(beyond * SAFETY_FACTOR + 1e-14 <= tail)[-1]]) * SAFETY_FACTOR


def _binomial_pmf(n: int, p: float) -> tuple[int, Floats]:
    """Return the first value of a window around the mode, and the probabilities from there on.

    They are built up from the mode by ratios of neighbours and normalised.
    """
    mode, width = floor((n + 1) * p), WINDOW_DEVIATIONS * sqrt(n * p * (1 - p)) + WINDOW_MARGIN
    low, high = max(0, floor(mode - width)), min(n, ceil(mode + width))
    mode = min(max(mode, low), high)
    k = np.arange(low, high, dtype=np.float64)
    ratio = (n - k) / (k + 1) * (p / (1 - p))  # P(k + 1)/P(k)
    up = np.cumprod(ratio[mode - low :])
    down = np.cumprod(1 / ratio[: mode - low][::-1])[::-1]
    pmf = np.concatenate([down, [1.0], up])
    return low, pmf / pmf.sum()


def _convolve(a: tuple[int, Floats], b: tuple[int, Floats]) -> tuple[int, Floats]:
    size = a[1].size + b[1].size - 1
    if min(a[1].size, b[1].size) < 64:
        return a[0] + b[0], np.convolve(a[1], b[1])
    padded = 1 << (size - 1).bit_length()
    pmf = np.fft.irfft(np.fft.rfft(a[1], padded) * np.fft.rfft(b[1], padded), padded)[:size]
    return a[0] + b[0], np.maximum(pmf, 0.0)


def _bound_deviation(n: int, h: int, p: float, q: float, tail: float) -> float:
    """Return Bernstein's bound, or the normal quantile with the error of Berry and Esseen, whichever is smaller."""
    from scipy.special import ndtri

    variance = h * p * (1 - p) + (n - h) * q * (1 - q)
    depth = log(2 / tail)
    bernstein = depth / 3 + sqrt((depth / 3) ** 2 + 2 * variance * depth)
    third_moment = h * p * (1 - p) * (p**2 + (1 - p) ** 2) + (n - h) * q * (1 - q) * (q**2 + (1 - q) ** 2)
    normal_tail = tail - 2 * BERRY_ESSEEN * third_moment / variance**1.5
    normal = -float(ndtri(normal_tail / 2)) * sqrt(variance) if normal_tail > 0 else bernstein
    return min(bernstein, normal) * SAFETY_FACTOR


Mechanism = CentralMechanism | LocalMechanism
