"""The binomial mechanism: the number of heads in n fair coins, less n/2.

A count can only move by n/2, so some outputs tell neighbours apart for certain: there is no pure ε, and δ ≥ 2^-n.
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
from discreet.noise.fair_coins import MAX_N, weights
from discreet.units import Sensitivity
from discreet.units import to_sensitivity as bound


@dataclass(frozen=True, slots=True, init=False)
class Binomial:
    """Adds Binomial(n, ½) − n/2 to whole numbers; n is even, so that the noise is whole and has mean zero.

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
        """About the fewest coins with δ(ε) ≤ δ, certified; for l0 moved coordinates each gets ε/l0 and δ/l0 (basic
        composition)."""
        moved = bound(sensitivity)
        if moved.l0 is None:
            raise BadParameter("sensitivity", moved, "every moved coordinate has its own coins", "give l0 and linf")
        eps, fail = read_positive(epsilon, "epsilon") / moved.l0, read_probability(delta, "delta") / moved.l0
        shift = ceil(moved.linf)
        high = 2
        while binomial_delta(high, shift, eps) > fail:
            high *= 2
            if high > MAX_N:
                raise BadParameter("epsilon", epsilon, "needs more than 2^28 coins", "use Gaussian")
        low = high // 2
        while high - low > 2:
            middle = (low + high) // 4 * 2
            low, high = (low, middle) if binomial_delta(middle, shift, eps) <= fail else (middle, high)
        return cls(high)

    def release(self, values: Values, bits: Bits | None = None) -> Any:
        """`values` (whole numbers) plus noise, in the same shape."""
        array, restore = read_values(values)
        if array.dtype != np.int64:
            raise BadValues("are not whole numbers", "this mechanism is for counts; use Gaussian for reals")
        noise = binomial(self.n, array.size, bits).reshape(array.shape) - self.n // 2
        return restore(add_saturating(array, noise))

    def event(self, sensitivity: Sensitivity | Number, grid: Number = 1) -> BinomialEvent:
        """What a release at this sensitivity costs."""
        if to_rational(grid, "grid") != 1:
            raise BadParameter("grid", grid, "the binomial mechanism takes whole numbers", "leave it out")
        return BinomialEvent(self.n, bound(sensitivity))

    def error(self, confidence: Number, size: int = 1) -> float:
        """The largest of `size` errors stays within this with the given confidence."""
        return max_error_by_table(partial(weights, self.n), confidence, size)


# δ(ε) of one binomial noise shifted by a whole number, by summing the probabilities themselves.


BITS = 96


def binomial_delta(n: int, shift: int, epsilon: Fraction) -> float:
    """Σ_k max(0, p(k) − e^ε·p(k + shift)) for Binomial(n, ½), n even, rounded up.

    The law is symmetric, so both directions cost the same; it is log-concave, so a larger shift costs more.
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
