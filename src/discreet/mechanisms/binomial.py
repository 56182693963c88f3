"""The binomial mechanism: the number of heads in n fair coins, less n/2.

The noise is bounded by n/2, so some outputs tell neighbours apart for certain: there is no pure ε, and δ ≥ 2^-n.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from discreet._numbers import Number, ceil_float, check_int, read_positive, read_probability, to_rational
from discreet.accounting.elementary import exp_neg_bounds
from discreet.errors import BadParameter, BadValues
from discreet.events import BinomialEvent
from discreet.mechanisms._additive_noise import Values, add_saturating, max_error_by_table, read_values
from discreet.noise import Bits, binomial
from discreet.noise.bits import saturate
from discreet.noise.fair_coins import MAX_N, weights
from discreet.units import Sensitivity, to_sensitivity


@dataclass(frozen=True, slots=True, init=False)
class Binomial:
    """Adds Binomial(n, ½) − n/2 to integers; n is even, so that the noise is an integer of mean zero.

    >>> Binomial(100).error(confidence=0.95)
    10.0
    """

    n: int

    def __init__(self, n: int) -> None:
        number = check_int(n, "n", 2)
        if number % 2 or number > MAX_N:
            raise BadParameter("n", number, "must be even and at most 2^28", "take an even number of coins")
        object.__setattr__(self, "n", number)

    @classmethod
    def for_epsilon(cls, epsilon: Number, delta: Number, sensitivity: Sensitivity | Number) -> "Binomial":
        """Return the mechanism with about the fewest coins for which δ(ε) ≤ δ is certified.

        If one unit changes l0 coordinates, each gets ε/l0 and δ/l0 (basic composition).
        """
        exact = to_sensitivity(sensitivity)
        if exact.l0 is None:
            raise BadParameter("sensitivity", exact, "every changed coordinate has its own coins", "give l0 and linf")
        eps, target = read_positive(epsilon, "epsilon") / exact.l0, read_probability(delta, "delta") / exact.l0
        shift = ceil(exact.linf)
        high = 2
        while binomial_delta(high, shift, eps) > target:
            high *= 2
            if high > MAX_N:
                raise BadParameter("epsilon", epsilon, "needs more than 2^28 coins", "use Gaussian")
        low = high // 2
        while high - low > 2:
            middle = (low + high) // 4 * 2
            low, high = (low, middle) if binomial_delta(middle, shift, eps) <= target else (middle, high)
        return cls(high)

    def release(self, values: Values, bits: Bits | None = None) -> Any:
        """Return `values`, which are integers, plus noise, in the same form."""
        if type(values) is int:
            return saturate(saturate(values) + int(binomial(self.n, 1, bits)[0]) - self.n // 2)
        array, restore = read_values(values)
        if array.dtype != np.int64:
            raise BadValues("are not integers", "this mechanism is for counts; use Gaussian for reals")
        noise = binomial(self.n, array.size, bits).reshape(array.shape) - self.n // 2
        return restore(add_saturating(array, noise))

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> BinomialEvent:
        """Return the event of a release at this sensitivity."""
        if to_rational(grid, "grid") != 1:
            raise BadParameter("grid", grid, "the binomial mechanism takes integers", "leave it out")
        return BinomialEvent(self.n, to_sensitivity(sensitivity))

    def error(self, confidence: Number, size: int = 1) -> float:
        """Return the error that the largest of `size` draws does not exceed with the given confidence."""
        return max_error_by_table(partial(weights, self.n), confidence, size)


BITS = 96


def binomial_delta(n: int, shift: int, epsilon: Fraction) -> float:
    """Return δ(ε) of the noise shifted by an integer: Σ_k max(0, p(k) − e^ε·p(k + shift)) for Binomial(n, ½), rounded up.

    n is even. The distribution is symmetric, so δ is the same in both directions; it is log-concave, so a larger shift has a
    larger δ.
    """
    table = weights(n, BITS)
    last = len(table.values) - 1
    side = [table.values[0], *(value // 2 for value in table.values[1:])]  # both signs share a doubled weight
    discount = ceil(exp_neg_bounds(epsilon)[1] * (1 << BITS))  # e^-ε, rounded up
    # Terms are multiplied by e^-ε: e^-ε·(w_i + what the table lost) − w_{i+shift}, the latter at least its table value.
    excess = 0
    for i in range(-last, last + 1):
        shifted = side[abs(i + shift)] if abs(i + shift) <= last else 0
        excess += max(0, discount * (side[abs(i)] + table.error) - (shifted << BITS))
    beyond = table.error  # all that the table leaves out may count in full
    return min(1.0, ceil_float((Fraction(excess, discount) + beyond) / sum(table.values)))
