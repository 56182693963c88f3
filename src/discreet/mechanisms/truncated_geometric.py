"""The truncated geometric mechanism: discrete Laplace noise, outputs beyond a range being set to its ends."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet._numbers import Number, check_int, check_positive, to_rational
from discreet.errors import BadParameter, BadValues
from discreet.events import TruncatedGeometricEvent
from discreet.mechanisms._additive_noise import Values, add_saturating, read_values
from discreet.mechanisms.laplace import Laplace
from discreet.noise import Bits, discrete_laplace
from discreet.noise.bits import INT64_MAX, INT64_MIN
from discreet.units import Sensitivity, to_sensitivity


@dataclass(frozen=True, slots=True, init=False)
class TruncatedGeometric:
    """Adds discrete Laplace noise to a count and clamps the sum to [lower, upper], where the count is known to lie [GRS09].

    >>> 0 <= TruncatedGeometric(5, 0, 10).release(3) <= 10
    True
    """

    scale: Fraction
    lower: int
    upper: int

    def __init__(self, scale: Number, lower: int, upper: int) -> None:
        low, high = check_int(lower, "lower", INT64_MIN), check_int(upper, "upper", INT64_MIN)
        if not low < high <= INT64_MAX:
            raise BadParameter("upper", high, "must lie above lower and within int64", "give a proper range")
        object.__setattr__(self, "scale", check_positive(scale, "scale"))
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @classmethod
    def for_epsilon(cls, epsilon: Number, sensitivity: Sensitivity | Number, lower: int, upper: int) -> "TruncatedGeometric":
        """Return the ε-private mechanism with the least noise: scale l1/ε."""
        return cls(Laplace.for_epsilon(epsilon, sensitivity).scale, lower, upper)

    def release(self, values: Values, bits: Bits | None = None) -> Any:
        """Return `values`, which are integers, plus noise.

        The values are clamped first, which moves no two of them apart, and so is the result.
        """
        if type(values) is int:
            noisy = min(max(values, self.lower), self.upper) + int(discrete_laplace(self.scale, 1, bits)[0])
            return min(max(noisy, self.lower), self.upper)
        array, restore = read_values(values)
        if array.dtype != np.int64:
            raise BadValues("are not integers", "this mechanism is for counts; use Laplace for reals")
        inside = np.clip(array, self.lower, self.upper)
        noise = discrete_laplace(self.scale, array.size, bits).reshape(array.shape)
        return restore(np.clip(add_saturating(inside, noise), self.lower, self.upper))

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> TruncatedGeometricEvent:
        """Return the event of a release at this sensitivity."""
        if to_rational(grid, "grid") != 1:
            raise BadParameter("grid", grid, "the truncated geometric mechanism takes integers", "leave it out")
        return TruncatedGeometricEvent(self.scale, self.lower, self.upper, to_sensitivity(sensitivity))

    def error(self, confidence: Number, size: int = 1) -> float:
        """Return the error that the largest of `size` draws does not exceed with the given confidence.

        Clamping to a range that holds the truth never adds error: it is that of Laplace noise, or the width of the range.
        """
        return min(Laplace(self.scale).error(confidence, size), float(self.upper - self.lower))
