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

from discreet.noise.bits import Bits, Ints, LazyUniform, Words, Workspace

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

    def draw_one(self, word: int, source: Bits) -> int:
        """Return the |X| that a word chooses. Its lowest bit is still unused."""
        size: int = self.guide.item(word >> 64 - GUIDE_BITS)
        return size if size >= 0 else int(self._search(np.array([word], np.uint64), source)[0])

    def draw(self, count: int, source: Bits, workspace: Workspace) -> tuple[NDArray[np.int32], Words]:
        """Return `count` values of |X|, and the words of which the lowest bit is still unused. The next call reuses both."""
        words = workspace.words(count, source)
        out, unsettled = workspace.array("size", np.int32, count), workspace.array("unsettled", np.bool_, count)
        index = np.right_shift(words, np.uint64(64 - GUIDE_BITS), out=workspace.array("index", np.uint64, count))
        self.guide.take(index.view(np.int64), out=out, mode="clip")  # "raise" would copy; no index is out of range
        mixed = np.less(out, 0, out=unsettled).nonzero()[0]
        if mixed.size:
            out[mixed] = self._search(words[mixed], source)
        return out, words

    def _search(self, words: Words, source: Bits) -> Ints:
        v = words >> np.uint64(1)
        sizes, after = np.searchsorted(self.high, v, "left"), np.searchsorted(self.low, v, "right")
        for i in (sizes != after).nonzero()[0]:
            sizes[i] = settle(LazyUniform(source, int(v[i]), 63), self.weights_at)
        return sizes


def settle(v: LazyUniform, weights_at: WeightFunction) -> int:
    """Return the number of k with F(k) ≤ V, for one lazily refined V."""
    while True:
        low, high = cdf_bounds(weights_at, v.known)
        k = bisect_left(high, v.number)
        if v.number < low[k]:
            return k
        v.refine()
