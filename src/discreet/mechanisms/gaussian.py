"""Gaussian noise: the rounded Gaussian, which has the continuous mechanism's whole privacy curve.

**Proof.** x + round(Z) = round(x + Z) for an integer x, and rounding is post-processing. So one continuous Gaussian with
shift l2 dominates, in any dimension, and Gaussians compose by adding (l2/σ)².
"""

from dataclasses import dataclass
from fractions import Fraction
from math import erfc, sqrt
from typing import Any, Literal

from discreet._numbers import (
    Number,
    check_positive,
    format_rational,
    nearest_float,
    read_positive,
    read_probability,
    sqrt_up,
)
from discreet.accounting.elementary import log_bounds
from discreet.accounting.pld.gaussian import gaussian_mu
from discreet.errors import BadParameter, TheoremNotApplicable
from discreet.events import GaussianEvent
from discreet.mechanisms._additive_noise import (
    L2,
    MIN_WIDTH,
    Values,
    add_noise,
    default_grid,
    fit_scale_to_grid,
    max_error,
)
from discreet.noise import Bits, rounded_gaussian
from discreet.units import Sensitivity, check_grid, to_sensitivity

CalibrationRule = Literal["exact", "classical-1.25", "classical-2"]
_CLASSICAL_FACTORS = {"classical-1.25": Fraction(5, 4), "classical-2": Fraction(2)}


@dataclass(frozen=True, slots=True, init=False)
class Gaussian:
    """Adds round(N(0, σ²)) to integers; to reals the same on a power-of-two grid.

    >>> mechanism = Gaussian.for_epsilon(1, 1e-6, sensitivity=1)
    >>> round(float(mechanism.sigma), 6), mechanism.error(confidence=0.95)
    (4.224679, 8.0)
    """

    sigma: Fraction

    def __init__(self, sigma: Number) -> None:
        object.__setattr__(self, "sigma", check_positive(sigma, "sigma"))

    def __repr__(self) -> str:
        return f"Gaussian(sigma={nearest_float(self.sigma):.12g})"

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        delta: Number,
        sensitivity: Sensitivity | Number,
        rule: CalibrationRule = "exact",
        *,
        reals: bool = False,
    ) -> "Gaussian":
        """Return the mechanism with the σ of a rule at (ε, δ); "exact" is the least σ that the curve allows, for every ε."""
        eps, exact_delta = read_positive(epsilon, "epsilon"), read_probability(delta, "delta")
        if rule == "exact":
            ratio = 1 / exact_mu(eps, exact_delta)
        elif rule in _CLASSICAL_FACTORS:
            ratio = classical_ratio(eps, exact_delta, _CLASSICAL_FACTORS[rule])
        else:
            raise BadParameter("rule", repr(rule), "unknown", 'take "exact", "classical-1.25" or "classical-2"')
        return cls._for_ratio(ratio, sensitivity, reals)

    @classmethod
    def for_rho(cls, rho: Number, sensitivity: Sensitivity | Number, *, reals: bool = False) -> "Gaussian":
        """Return the ρ-zCDP mechanism with the least σ: σ² = Δ₂²/2ρ [BS16, Prop. 1.6; N2].

        >>> Gaussian.for_rho(0.0000125, sensitivity=1)
        Gaussian(sigma=200)
        """
        return cls._for_ratio(sqrt_up(1 / (2 * read_positive(rho, "rho"))), sensitivity, reals)

    @classmethod
    def for_renyi(
        cls, alpha: Number, epsilon: Number, sensitivity: Sensitivity | Number, *, reals: bool = False
    ) -> "Gaussian":
        """Return the (α, ε̄)-RDP mechanism with the least σ: σ² = Δ₂²α/2ε̄ [Mir17, Prop. 7; N2].

        >>> Gaussian.for_renyi(20, 0.1, sensitivity=1)
        Gaussian(sigma=10)
        """
        order = read_positive(alpha, "alpha")
        if order <= 1:
            raise BadParameter("alpha", alpha, "must exceed 1", "give an order such as 20")
        return cls._for_ratio(sqrt_up(order / (2 * read_positive(epsilon, "epsilon"))), sensitivity, reals)

    @classmethod
    def _for_ratio(cls, ratio: Fraction, sensitivity: Sensitivity | Number, reals: bool) -> "Gaussian":
        """The σ that is at least `ratio` times l2; for reals a little more, due to the grid."""
        exact = to_sensitivity(sensitivity)
        return cls(fit_scale_to_grid(exact, L2, ratio) if reals else exact.l2 * ratio)

    @property
    def grid(self) -> Fraction:
        """The grid to which reals are rounded unless another is given."""
        return default_grid(self.sigma)

    def release(self, values: Values, bits: Bits | None = None, *, grid: Number | None = None) -> Any:
        """Return `values` plus noise, in the same form: integers stay integers, floats are multiples of the grid."""
        return add_noise(values, rounded_gaussian, self.sigma, bits, grid)

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> GaussianEvent:
        """Return the event of a release at this sensitivity. Reals need the grid: rounding to it adds to the sensitivity."""
        step = check_grid(grid)
        return GaussianEvent(self.sigma / step, to_sensitivity(sensitivity).to_grid(step))

    def error(self, confidence: Number, size: int = 1, *, grid: Number = 1) -> float:
        """Return the error that the largest of `size` draws does not exceed with the given confidence.

        |round Z| > t is |Z| ≥ t + ½.
        """
        step = check_grid(grid)
        width = max(nearest_float(self.sigma / step) * sqrt(2), MIN_WIDTH)
        return max_error(lambda t: erfc((t + 0.5) / width), confidence, size, step)


def exact_mu(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return μ = l2/σ of the least noise that is (ε, δ)-private."""
    mu = gaussian_mu(epsilon, delta)
    if mu == 0:
        raise BadParameter(
            "delta", format_rational(delta), "too small for doubles at this ε", "take a δ above 1e-300 and an ordinary ε"
        )
    return Fraction(mu)


def classical_ratio(epsilon: Fraction, delta: Fraction, factor: Fraction) -> Fraction:
    """Return σ/Δ₂ = √(2 ln(factor/δ))/ε, rounded up: [DR14, Thm A.1] with 1.25, [L12] with 2. Proven for ε ≤ 1 only.

    >>> classical_ratio(Fraction(20), Fraction(1, 10**5), Fraction(5, 4))
    Traceback (most recent call last):
    discreet.errors.TheoremNotApplicable: the classical Gaussian rule is proven only for ε ≤ 1. Use rule="exact": at \
ε = 20, δ = 1e-5 the 1.25-formula really gives δ = 1.5e-3.
    """
    if epsilon > 1:
        raise TheoremNotApplicable(
            "the classical Gaussian rule",
            "ε ≤ 1",
            'use rule="exact": at ε = 20, δ = 1e-5 the 1.25-formula really gives δ = 1.5e-3',
        )
    return sqrt_up(2 * log_bounds(factor / delta)[1]) / epsilon
