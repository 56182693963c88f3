"""Laplace noise, on the integers: the discrete Laplace law, which the texts call the geometric mechanism."""

from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import Any

from discreet._numbers import Number, check_positive, format_rational, nearest_float, read_positive, to_rational
from discreet.events import DiscreteLaplaceEvent
from discreet.mechanisms._additive_noise import Values, add_noise, calibrate_scale, default_grid, l1_norm
from discreet.mechanisms._tail_bounds import check_grid, max_error_quantile, steps_to_distance
from discreet.noise import Bits, discrete_laplace
from discreet.units import Sensitivity
from discreet.units import to_sensitivity as bound


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """Adds noise with P(k) ∝ e^{-|k|/scale} to whole numbers; to reals the same on a power-of-two grid.

    >>> quiet = Laplace.for_epsilon(1, sensitivity=1)
    >>> quiet, quiet.error(confidence=0.95)
    (Laplace(scale=1), 3.0)
    >>> type(quiet.release(100))
    <class 'int'>
    """

    scale: Fraction

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", check_positive(scale, "scale"))

    def __repr__(self) -> str:
        return f"Laplace(scale={format_rational(self.scale)})"

    @classmethod
    def for_epsilon(cls, epsilon: Number, sensitivity: Sensitivity | Number, *, reals: bool = False) -> "Laplace":
        """The least noise that is ε-private: scale l1/ε; for `reals` a little more, to pay for the grid."""
        return cls(calibrate_scale(sensitivity, l1_norm, 1 / read_positive(epsilon, "epsilon"), reals=reals))

    @property
    def grid(self) -> Fraction:
        """The grid on which reals are released unless another is given."""
        return default_grid(self.scale)

    def release(self, values: Values, bits: Bits | None = None, *, grid: Number | None = None) -> Any:
        """`values` plus noise, in the same shape: integers stay integers, floats land on the grid."""
        return add_noise(values, discrete_laplace, self.scale, bits, grid)

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> DiscreteLaplaceEvent:
        """What a release at this sensitivity costs. For reals give the grid: rounding to it adds to the sensitivity."""
        step = to_rational(grid, "grid")
        return DiscreteLaplaceEvent(self.scale / step, bound(sensitivity).to_grid(step))

    def error(self, confidence: Number, size: int = 1, *, grid: Number = 1) -> float:
        """The largest of `size` errors stays within this with the given confidence: P(|X| > t) = 2a^{t+1}/(1+a)."""
        decay = nearest_float(check_grid(grid) / self.scale)
        return steps_to_distance(
            max_error_quantile(lambda t: 2 * exp(-(t + 1) * decay) / (1 + exp(-decay)), confidence, size), grid
        )


Geometric = Laplace
"""The textbooks' name for the same mechanism."""
