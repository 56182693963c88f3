"""How far the number of yes-reports strays from its mean, exactly.

Of n people h say yes with probability p, the others with probability q: the number is Bin(h, p) + Bin(n − h, q).
Each law is built up from its mode by ratios of neighbours and normalised, over 9 standard deviations.
"""

from functools import lru_cache
from math import ceil, floor, log, sqrt

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.quantile import SAFETY_FACTOR

Floats = NDArray[np.float64]
WINDOW_DEVIATIONS, WINDOW_MARGIN = 9.0, 40
MAX_EXACT_N = 10**9
"""Past this many people the law is bounded by the central limit theorem and its error [She11], or by [Ber46]."""
MIN_EXACT_TAIL = 1e-10
"""Below this the Fourier transforms' rounding, about 1e-15, would begin to show: Bernstein's bound instead."""
BERRY_ESSEEN = 0.5600


@lru_cache(maxsize=1024)
def report_deviation_quantile(n: int, h: int, p: float, q: float, tail: float) -> float:
    """The least t with P(|reports − mean| > t) ≤ tail.

    >>> [round(report_deviation_quantile(100, *more, 0.05), 6) for more in ((0, 0.5, 0.5), (50, 0.9, 0.1))]
    [10.0, 6.0]
    """
    if n > MAX_EXACT_N or tail < MIN_EXACT_TAIL:
        return _bound_deviation(n, h, p, q, tail)
    first, law = _convolve(_binomial(h, p), _binomial(n - h, q))
    off = np.abs(first + np.arange(law.size) - (h * p + (n - h) * q))
    order = np.argsort(-off)
    beyond = np.concatenate([[0.0], np.cumsum(law[order])[:-1]])  # P(further off than this one)
    return float(off[order][np.flatnonzero(beyond * SAFETY_FACTOR + 1e-14 <= tail)[-1]]) * SAFETY_FACTOR


def _binomial(n: int, p: float) -> tuple[int, Floats]:
    """The first value of the window, and the probabilities from there on."""
    mode, width = floor((n + 1) * p), WINDOW_DEVIATIONS * sqrt(n * p * (1 - p)) + WINDOW_MARGIN
    low, high = max(0, floor(mode - width)), min(n, ceil(mode + width))
    mode = min(max(mode, low), high)
    k = np.arange(low, high, dtype=np.float64)
    ratio = (n - k) / (k + 1) * (p / (1 - p))  # P(k + 1)/P(k)
    up = np.cumprod(ratio[mode - low :])
    down = np.cumprod(1 / ratio[: mode - low][::-1])[::-1]
    law = np.concatenate([down, [1.0], up])
    return low, law / law.sum()


def _convolve(a: tuple[int, Floats], b: tuple[int, Floats]) -> tuple[int, Floats]:
    size = a[1].size + b[1].size - 1
    if min(a[1].size, b[1].size) < 64:
        return a[0] + b[0], np.convolve(a[1], b[1])
    span = 1 << (size - 1).bit_length()
    law = np.fft.irfft(np.fft.rfft(a[1], span) * np.fft.rfft(b[1], span), span)[:size]
    return a[0] + b[0], np.maximum(law, 0.0)


def _bound_deviation(n: int, h: int, p: float, q: float, tail: float) -> float:
    """Bernstein's bound, or the normal law's quantile with what Berry and Esseen leave in doubt."""
    from scipy.special import ndtri

    variance = h * p * (1 - p) + (n - h) * q * (1 - q)
    depth = log(2 / tail)
    bernstein = depth / 3 + sqrt((depth / 3) ** 2 + 2 * variance * depth)
    third = h * p * (1 - p) * (p**2 + (1 - p) ** 2) + (n - h) * q * (1 - q) * (q**2 + (1 - q) ** 2)
    left = tail - 2 * BERRY_ESSEEN * third / variance**1.5
    return min(bernstein, -float(ndtri(left / 2)) * sqrt(variance) if left > 0 else bernstein) * SAFETY_FACTOR
