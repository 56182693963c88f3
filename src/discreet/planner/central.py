"""Noise added by one who holds the data: Laplace, Gaussian, discrete Gaussian, calibrated for all questions at once.

Laplace noise gives each of k questions ε/k. Both Gaussians are priced as one release, by the certified curve.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import erfc, exp, fsum, sinh, sqrt
from typing import TypeAlias

from discreet._numbers import ceil_float, smallest_where
from discreet.accounting.curve import epsilon as certified_epsilon
from discreet.accounting.pld.gaussian import gaussian_epsilon, gaussian_mu
from discreet.accounting.pure import pure
from discreet.errors import BadParameter
from discreet.mechanisms import DiscreteGaussian, Gaussian, Laplace, calibrate
from discreet.mechanisms._additive_noise import L2, SAFETY_FACTOR, default_grid, fit_scale_to_grid
from discreet.mechanisms.gaussian import classical_ratio
from discreet.mechanisms.textbook_accuracy import gaussian_linf_bound, laplace_linf_bound
from discreet.planner.task import Accuracy, ErrorMetric, Task, is_real

Noise: TypeAlias = Laplace | Gaussian | DiscreteGaussian
SEARCH_TOLERANCE = 1e-7
"""How near to the widest noise that will do the search comes."""


@dataclass(frozen=True, slots=True)
class CentralMechanism:
    """One kind of noise on the totals."""

    name: str
    kind: type[Laplace] | type[Gaussian] | type[DiscreteGaussian]

    @property
    def pure(self) -> bool:
        """Whether it needs no δ."""
        return self.kind is Laplace

    def build_noise(self, task: Task, epsilon: Fraction) -> Noise:
        """The least noise with which all questions together cost ε."""
        return _calibrate_noise(self, task, epsilon)

    def predict_accuracy(self, task: Task, epsilon: Fraction, n: int | None) -> Accuracy:
        """How good the answers then are: exact quantiles of what is drawn."""
        return predict_statistic_accuracy(self.build_noise(task, epsilon), task).divide_by(
            n if task.divides_by_n and n is not None else 1
        )

    def guess_epsilon(self, task: Task, is_good: Callable[[Accuracy], bool]) -> float:
        """The price of the widest noise with which the totals are good enough."""
        unit = task.sensitivity.linf
        narrow = smallest_where(
            lambda x: is_good(predict_statistic_accuracy(self.kind(unit / Fraction(x)), task)), tolerance=SEARCH_TOLERANCE
        )
        return self._compute_epsilon(self.kind(unit / Fraction(narrow)), task)

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
        """The half-width that the textbooks promise at the same price, for continuous noise; none where they are silent."""
        size = 1 if task.metric is ErrorMetric.EACH else task.answers
        missed, eps, norms = float(1 - task.confidence), float(epsilon), task.sensitivity
        assert norms.l1 is not None
        if self.kind is Laplace:
            bound = laplace_linf_bound(float(norms.l1), eps, size, missed)
        elif self.kind is DiscreteGaussian:
            sigma = DiscreteGaussian.for_epsilon(epsilon, task.delta, norms).sigma  # ε = ρ + 2√(ρ ln 1/δ)
            bound = gaussian_linf_bound(float(sigma), size, missed)
        elif epsilon > 1:
            return None
        else:
            sigma = norms.l2 * classical_ratio(epsilon, task.delta, Fraction(5, 4))
            bound = gaussian_linf_bound(float(sigma), size, missed)
        return bound / (n if task.divides_by_n and n is not None else 1)


CENTRAL_MECHANISMS = (
    CentralMechanism("Laplace", Laplace),
    CentralMechanism("Gaussian", Gaussian),
    CentralMechanism("discrete Gaussian", DiscreteGaussian),
)


def noise_grid(noise: Noise, task: Task) -> Fraction:
    """Whole totals stay whole; reals go on the noise's own grid."""
    return noise.grid if is_real(task.query) else Fraction(1)


@lru_cache(maxsize=4096)
def predict_statistic_accuracy(noise: Noise, task: Task) -> Accuracy:
    """The accuracy of the noisy totals."""
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
    """l2/σ of the Gaussian whose exact curve passes through (ε, δ)."""
    mu = gaussian_mu(epsilon, delta)
    if mu == 0:
        raise BadParameter("delta", ceil_float(delta), "too small for doubles at this ε", "take a δ above 1e-300")
    return Fraction(mu)


def _calibrate_discrete_gaussian(task: Task, epsilon: Fraction, near: Gaussian) -> DiscreteGaussian:
    """By its own certified curve. Reals pay for a grid twice as coarse as the Gaussian's, which is at least its own: the two
    are as wide but for a few parts in a million, and a finer grid never costs more."""
    if not is_real(task.query):
        return calibrate(DiscreteGaussian, sensitivity=task.sensitivity, epsilon=epsilon, delta=task.delta)
    grid = 4 * near.grid if near.grid == Fraction(1, 2) else 2 * near.grid  # never 1, the grid of whole numbers
    steps = calibrate(DiscreteGaussian, sensitivity=task.sensitivity.to_grid(grid), epsilon=epsilon, delta=task.delta)
    found = DiscreteGaussian(steps.sigma * grid)
    assert default_grid(found.sigma) <= grid
    return found


# Root mean squares of the noise that is really drawn, in grid steps, rounded against ourselves.
#
# The discrete Laplace law is narrower than the continuous one of its scale, the rounded Gaussian wider than its σ, the
# discrete Gaussian narrower.


MAX_SUMMED_SIGMA = 8.0
"""Below this σ the squares are summed; above it what sets the lattice apart is of order e^{-2π²σ²}."""


def root_mean_square(noise: Laplace | Gaussian | DiscreteGaussian, grid: Fraction) -> float:
    """√E X², X in steps of the grid.

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
    """Never above σ² [CKS20, Cor. 9], and as good as σ² for wide noise."""
    if sigma >= MAX_SUMMED_SIGMA:
        return sigma**2
    weights = [exp(-((k / sigma) ** 2) / 2) for k in range(1, 400)]
    return fsum(2 * k * k * w for k, w in enumerate(weights, 1)) / (1 + 2 * fsum(weights))
