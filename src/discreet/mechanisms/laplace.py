"""Laplace noise, on the integers: the discrete Laplace law, which the texts call the geometric mechanism."""

from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import Any

from discreet.exact import Number, nearest_float, positive, rational, read_positive, shown
from discreet.loss import DiscreteLaplaceLoss
from discreet.mechanisms.calibrated import l1, scale_for
from discreet.mechanisms.quantile import grid_of, in_units, largest_error
from discreet.mechanisms.values import Values, default_grid, noised
from discreet.noise import Bits, discrete_laplace
from discreet.units import Sensitivity
from discreet.units import sensitivity as bound


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
        object.__setattr__(self, "scale", positive(scale, "scale"))

    def __repr__(self) -> str:
        return f"Laplace(scale={shown(self.scale)})"

    @classmethod
    def for_epsilon(cls, epsilon: Number, sensitivity: Sensitivity | Number, *, reals: bool = False) -> "Laplace":
        """The least noise that is ε-private: scale l1/ε; for `reals` a little more, to pay for the grid."""
        return cls(scale_for(sensitivity, l1, 1 / read_positive(epsilon, "epsilon"), reals=reals))

    @property
    def grid(self) -> Fraction:
        """The grid on which reals are released unless another is given."""
        return default_grid(self.scale)

    def release(self, values: Values, bits: Bits | None = None, *, grid: Number | None = None) -> Any:
        """`values` plus noise, in the same shape: integers stay integers, floats land on the grid."""
        return noised(values, discrete_laplace, self.scale, bits, grid)

    def loss(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> DiscreteLaplaceLoss:
        """What a release at this sensitivity costs. For reals give the grid: rounding to it adds to the sensitivity."""
        step = rational(grid, "grid")
        return DiscreteLaplaceLoss(self.scale / step, bound(sensitivity).on_grid(step))

    def error(self, confidence: Number, size: int = 1, *, grid: Number = 1) -> float:
        """The largest of `size` errors stays within this with the given confidence: P(|X| > t) = 2a^{t+1}/(1+a)."""
        decay = nearest_float(grid_of(grid) / self.scale)
        return in_units(largest_error(lambda t: 2 * exp(-(t + 1) * decay) / (1 + exp(-decay)), confidence, size), grid)


Geometric = Laplace
"""The textbooks' name for the same mechanism."""
