"""The binomial distribution of n fair coins, sampled by a table around n/2."""

from functools import lru_cache, partial
from math import isqrt

import numpy as np

from discreet._numbers import check_int
from discreet.errors import BadParameter
from discreet.noise.bits import BLOCK_SIZE, MAX_SCALAR_DRAWS, SYSTEM, Bits, Ints, Workspace, check_bits, draw_array
from discreet.noise.table import InversionTable, Weights

MAX_N = 1 << 28
"""The table has about 9·√n entries: beyond this it would need more memory than a sampler may take."""


def binomial(n: int, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers from 0 … n with P(k) = C(n, k)/2^n: the number of heads in n fair coins.

    >>> binomial(0, 2).tolist()
    [0, 0]
    """
    n = check_int(n, "n")
    if n > MAX_N:
        raise BadParameter("n", n, "its table would be too long", "take at most 2**28, or use a Gaussian")
    table, half, odd = _table(n), n // 2, n % 2

    def fill(out: Ints, source: Bits, workspace: Workspace) -> None:
        # The distance is from the middle: n/2, or the two integers beside it.
        if out.size <= MAX_SCALAR_DRAWS:
            for i, word in enumerate(source.words(out.size).tolist()):
                distance = table.draw_one(word, source)
                out[i] = half - distance if word & 1 else half + distance + odd
            return
        distances, words = table.draw(out.size, source, workspace)
        low = (words & np.uint64(1)).view(np.int64)
        out[:] = half + np.where(low, -distances, distances + odd)

    return draw_array(size, fill, np.int64, SYSTEM if bits is None else check_bits(bits), BLOCK_SIZE)


@lru_cache(maxsize=8)
def _table(n: int) -> InversionTable:
    return InversionTable.of(partial(weights, n))


def weights(n: int, bits: int) -> Weights:
    """Return P at distance i from the middle over P in the middle, in units of 2^-P; n even: twice for i ≥ 1.

    With h = ⌊n/2⌋ and o = n mod 2, w_{i+1} = w_i·(h − i)/(h + i + 1 + o), hence ln w_i ≤ −i²/(2h + 1): at the last i
    the weight is below e^{-(bits + 8)}, and what is missing is a series with ratio at most (h − K)/(h + K + 1 + o).
    """
    half, odd = n // 2, n % 2
    last = min(half, isqrt((n + 1) * (bits + 8)) + 2)
    precision = bits + 16 + 2 * last.bit_length()
    w, values = 1 << precision, [1 << precision]
    for i in range(last):
        w = w * (half - i) // (half + i + 1 + odd)
        values.append(w if odd else 2 * w)
    # w_i is at most i units low, and counts at most twice.
    missing = (values[-1] + 2 * last) * (half - last) // (2 * last + 1 + odd)
    return Weights(values, 2 * last + missing + 1)
