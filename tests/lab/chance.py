"""What luck allows: exact binomial tails, in fractions, by no library's name."""

from fractions import Fraction
from math import comb, log

ALARM = Fraction(1, 10**9)
"""A true law fails one comparison with at most this probability. The bits are seeded, so it does so always or never."""


def beyond(k: int, n: int, p: Fraction) -> Fraction:
    """P(X > k) for n coins."""
    top, bottom = p.numerator, p.denominator
    return Fraction(sum(comb(n, i) * top**i * (bottom - top) ** (n - i) for i in range(k + 1, n + 1)), bottom**n)


def plausible(k: int, n: int, p: float | Fraction) -> bool:
    """Whether k of n is no further out than `ALARM`, on either side, for a coin with this probability.

    By Chernoff, P(X/n lies as far out as k/n, on its side) ≤ e^{-n·KL(k/n, p)}.
    """
    q, p = k / n, float(p)
    part = (q * log(q / p) if q else 0.0) + ((1 - q) * log((1 - q) / (1 - p)) if q < 1 else 0.0)
    return n * part <= log(2 / float(ALARM))
