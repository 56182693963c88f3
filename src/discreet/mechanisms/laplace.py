"""Laplace noise on the integers: discrete Laplace noise, also known as the geometric mechanism."""

from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import Any

from discreet._numbers import Number, check_positive, format_rational, nearest_float, read_positive
from discreet.errors import BadParameter
from discreet.events import DiscreteLaplaceEvent
from discreet.mechanisms._additive_noise import L1, Values, add_noise, default_grid, fit_scale_to_grid, max_error
from discreet.noise import Bits, discrete_laplace
from discreet.units import Sensitivity, check_grid, to_sensitivity


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """Adds noise with P(k) ∝ e^{-|k|/scale} to integers; to reals the same on a power-of-two grid.

    >>> mechanism = Laplace.for_epsilon(1, sensitivity=1)
    >>> mechanism, mechanism.error(confidence=0.95)
    (Laplace(scale=1), 3.0)
    >>> type(mechanism.release(100))
    <class 'int'>
    """

    scale: Fraction

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", check_positive(scale, "scale"))

    def __repr__(self) -> str:
        return f"Laplace(scale={format_rational(self.scale)})"

    @classmethod
    def for_epsilon(cls, epsilon: Number, sensitivity: Sensitivity | Number, *, reals: bool = False) -> "Laplace":
        """Return the ε-private mechanism with the least noise: scale l1/ε; for `reals` a little more, due to the grid."""
        exact, ratio = to_sensitivity(sensitivity), 1 / read_positive(epsilon, "epsilon")
        if exact.l1 is None:
            raise BadParameter("sensitivity", exact, "Laplace noise needs a bound on l1", "give l1, or l0 and linf")
        return cls(fit_scale_to_grid(exact, L1, ratio) if reals else exact.l1 * ratio)

    @property
    def grid(self) -> Fraction:
        """The grid to which reals are rounded unless another is given."""
        return default_grid(self.scale)

    def release(self, values: Values, bits: Bits | None = None, *, grid: Number | None = None) -> Any:
        """Return `values` plus noise, in the same form: integers stay integers, floats are multiples of the grid."""
        return add_noise(values, discrete_laplace, self.scale, bits, grid)

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> DiscreteLaplaceEvent:
        """Return the event of a release at this sensitivity. Reals need the grid: rounding to it adds to the sensitivity."""
        step = check_grid(grid)
        return DiscreteLaplaceEvent(self.scale / step, to_sensitivity(sensitivity).to_grid(step))

    def error(self, confidence: Number, size: int = 1, *, grid: Number = 1) -> float:
        """Return the error that the largest of `size` draws does not exceed with the given confidence.

        P(|X| > t) = 2a^{t+1}/(1+a), a = e^{-1/scale}.
        """
        step = check_grid(grid)
        decay = nearest_float(step / self.scale)
        return max_error(lambda t: 2 * exp(-(t + 1) * decay) / (1 + exp(-decay)), confidence, size, step)


Geometric = Laplace
"""Another name of the same mechanism."""
