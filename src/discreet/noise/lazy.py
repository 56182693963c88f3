"""A uniform number of which only some bits are drawn yet, and the loop that settles many of them at once.

U is uniform on [0, 1) and known to lie in [number, number + 1)/2^known. A decision that this interval does not settle
asks for 64 more bits; it never redraws, because redrawing exactly the hard cases would bend the law.
"""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import check_int
from discreet.noise import fixed
from discreet.noise.bits import Bits, Words

T = TypeVar("T", bound=np.generic)
Ints: TypeAlias = NDArray[np.int64]
ProbabilityBounds: TypeAlias = Callable[[int], tuple[int, int]]
"""Whole bounds low ≤ 2^P·p ≤ high for any precision P, at most a few units apart: a real p, as exactly as you like."""

CHUNK_SIZE = 1 << 13
"""Draws settled at once: a few arrays of this length stay in the processor's cache, and bound the memory."""

MAX_SCALAR_DRAWS = 2
"""Up to this many draws are settled in fixed point at once: it takes less time than a dozen array operations."""

SPARE_BITS = 16
"""Fixed-point bits beyond those drawn, so that what is open is open for want of bits and not of precision."""

INT64_MAX, INT64_MIN = (1 << 63) - 1, -(1 << 63)


class LazyUniform:
    """One lazily refined uniform."""

    __slots__ = ("bits", "known", "number")

    def __init__(self, bits: Bits, number: int = 0, known: int = 0) -> None:
        self.bits, self.number, self.known = bits, number, known

    def refine(self) -> None:
        """Learn 64 more bits."""
        self.number = self.number << 64 | int(self.bits.words(1)[0])
        self.known += 64

    def is_below(self, p: ProbabilityBounds) -> bool:
        """Whether U < p, settled exactly."""
        while True:
            low, high = p(self.known)
            if self.number < low:
                return True
            if self.number >= high:
                return False
            self.refine()

    def neg_log(self, precision: int) -> tuple[int, int]:
        """Bounds on 2^P·(−ln U), for a number above 0: U < (number + 1)/2^known and ln(1 + 1/n) ≤ 1/n."""
        high = self.known * (fixed.ln2(precision) + 1) - fixed.log_int(self.number, precision) + 1
        return max(0, high - (1 << precision) // self.number - 2 * self.known - 3), high


def saturate(value: int) -> int:
    """The nearest int64. Clamping is post-processing, so no guarantee suffers."""
    return min(max(value, INT64_MIN), INT64_MAX)


def apply_signs(magnitudes: Ints, words: Words) -> Ints:
    """`sizes` with the sign that the lowest bit of each word gives."""
    return magnitudes * (1 - 2 * (words & np.uint64(1)).view(np.int64))


def draw_in_chunks(size: int, draw: Callable[[int], NDArray[T]], dtype: type[T]) -> NDArray[T]:
    """`size` draws, made at most CHUNK at a time: memory beyond the result stays small."""
    size = check_int(size, "size")
    if size <= CHUNK_SIZE:
        return draw(size)
    out = np.empty(size, dtype)
    for start in range(0, size, CHUNK_SIZE):
        out[start : start + CHUNK_SIZE] = draw(min(CHUNK_SIZE, size - start))
    return out


# What is assumed of NumPy's float64 functions. Everything exact above leans on these two lines.
#
# NumPy chooses its kernels by processor, so the margin is wide: log, cos, sin and exp are taken to be within ULPS units
# in the last place of the true value of their (double) argument. The kernels seen so far stay within 1; the tests
# measure the ones of this machine against Arb on random and on hard arguments. +, −, ×, ÷, √, floor and conversions are
# IEEE-754 correctly rounded: relative error at most HALF_ULP.


ULPS = 4
HALF_ULP = 2.0**-53
FUNCTION_ERROR = ULPS * 2 * HALF_ULP
"""Relative error of log, cos, sin, exp: ULPS units of at most 2^-52 each."""
