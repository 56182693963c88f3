"""The truncated geometric mechanism: discrete Laplace noise, and outputs past the ends counted at the ends."""

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
from discreet.units import Sensitivity
from discreet.units import to_sensitivity as bound


@dataclass(frozen=True, slots=True, init=False)
class TruncatedGeometric:
    """A count known to lie in [lower, upper] stays there [GRS09]: P(o) is geometric inside, all the rest at the ends.

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
        """The least noise that is ε-private: scale l1/ε."""
        return cls(Laplace.for_epsilon(epsilon, sensitivity).scale, lower, upper)

    def release(self, values: Values, bits: Bits | None = None) -> Any:
        """`values` (whole numbers) plus noise, clamped: the values first, which moves no two apart, and the result."""
        array, restore = read_values(values)
        if array.dtype != np.int64:
            raise BadValues("are not whole numbers", "this mechanism is for counts; use Laplace for reals")
        inside = np.clip(array, self.lower, self.upper)
        noise = discrete_laplace(self.scale, array.size, bits).reshape(array.shape)
        return restore(np.clip(add_saturating(inside, noise), self.lower, self.upper))

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> TruncatedGeometricEvent:
        """What a release at this sensitivity costs."""
        if to_rational(grid, "grid") != 1:
            raise BadParameter("grid", grid, "the truncated geometric takes whole numbers", "leave it out")
        return TruncatedGeometricEvent(self.scale, self.lower, self.upper, bound(sensitivity))

    def error(self, confidence: Number, size: int = 1) -> float:
        """Clamping towards a range that holds the truth never adds error: the Laplace figure, or the whole range."""
        return min(Laplace(self.scale).error(confidence, size), float(self.upper - self.lower))
