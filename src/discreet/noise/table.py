"""Sampling by inversion: a symmetric distribution as a table of exact 63-bit thresholds.

The distribution is given by weights of |X| = 0, 1, 2, … in fixed point with a proven error, for any number of bits. F(k) is
P(|X| ≤ k) and |X| is the number of k with F(k) ≤ V. The table holds ⌊2⁶³F(k)⌋; a 63-bit draw of V equal to none of
these settles |X|, and one that is equal (probability about length·2^-63) is settled with more bits of V and of F. The
64th bit is the sign. A guide by the leading bits settles most draws with one look-up.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.noise.bits import Bits, Ints, LazyUniform, Words

GUIDE_BITS = 16


@dataclass(frozen=True, slots=True)
class Weights:
    """Numbers proportional to P(|X| = k), k = 0 … len−1.

    The true weights lie in [w, w + error], and those beyond the last add up to at most `error`.
    """

    values: list[int]
    error: int


WeightFunction: TypeAlias = Callable[[int], Weights]
"""Returns weights that determine every F(k) within 2^-bits, for any number of bits."""


def cdf_bounds(weights_at: WeightFunction, bits: int) -> tuple[list[int], list[int]]:
    """Return ⌊2^bits·F(k)⌋, k = 0 … , for the smallest and the largest F that the weights allow.

    The last of the second list is always 2^bits − 1: no draw is settled beyond the end of the table.
    """
    weights = weights_at(bits)
    sums = list(accumulate(weights.values))
    slack = (len(sums) + 1) * weights.error
    total = sums[-1]
    low = [(s << bits) // (total + slack) for s in sums]
    high = [min((1 << bits) - 1, ((s + slack) << bits) // total) for s in sums]
    return low, high


@dataclass(frozen=True, slots=True)
class InversionTable:
    """A distribution, ready to draw from."""

    weights_at: WeightFunction
    low: Words
    high: Words
    guide: NDArray[np.int32]

    @classmethod
    def of(cls, weights_at: WeightFunction) -> "InversionTable":
        """Tabulate a distribution."""
        low, high = (np.array(ends, np.uint64) for ends in cdf_bounds(weights_at, 63))
        first = np.arange(1 << GUIDE_BITS, dtype=np.uint64) << np.uint64(63 - GUIDE_BITS)
        last = first | np.uint64((1 << (63 - GUIDE_BITS)) - 1)
        before = np.searchsorted(high, first, "left")  # thresholds that are surely below the whole cell
        after = np.searchsorted(low, last, "right")  # thresholds that may lie in it or below
        return cls(weights_at, low, high, np.where(before == after, before, -1).astype(np.int32))

    def draw(self, count: int, source: Bits) -> tuple[Ints, Words]:
        """Return `count` values of |X|, and the words of which the lowest bit is still unused."""
        words = source.words(count)
        v = words >> np.uint64(1)
        out = self.guide[(v >> np.uint64(63 - GUIDE_BITS)).view(np.int64)].astype(np.int64)
        mixed = (out < 0).nonzero()[0]
        if mixed.size:
            some = v[mixed]
            before, after = np.searchsorted(self.high, some, "left"), np.searchsorted(self.low, some, "right")
            out[mixed] = before
            for i in mixed[before != after]:
                out[i] = settle(LazyUniform(source, int(v[i]), 63), self.weights_at)
        return out, words


def settle(v: LazyUniform, weights_at: WeightFunction) -> int:
    """Return the number of k with F(k) ≤ V, for one lazily refined V."""
    while True:
        low, high = cdf_bounds(weights_at, v.known)
        k = bisect_left(high, v.number)
        if v.number < low[k]:
            return k
        v.refine()
