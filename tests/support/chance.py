"""What chance allows: exact binomial tails, in fractions, without a library."""

from fractions import Fraction
from math import comb, log

FALSE_POSITIVE = Fraction(1, 10**9)
"""A correct distribution fails one comparison with at most this probability. The bits are seeded, so always or never."""


def binomial_tail(k: int, n: int, p: Fraction) -> Fraction:
    """Return P(X > k) for a binomial X."""
    top, bottom = p.numerator, p.denominator
    return Fraction(sum(comb(n, i) * top**i * (bottom - top) ** (n - i) for i in range(k + 1, n + 1)), bottom**n)


def is_plausible(k: int, n: int, p: float | Fraction) -> bool:
    """Whether k of n is within the tails of probability `FALSE_POSITIVE`, on either side, for a binomial with this p.

    By Chernoff, P(X/n lies as far out as k/n, on its side) ≤ e^{-n·KL(k/n, p)}.
    """
    q, p = k / n, float(p)
    divergence = (q * log(q / p) if q else 0.0) + ((1 - q) * log((1 - q) / (1 - p)) if q < 1 else 0.0)
    return n * divergence <= log(2 / float(FALSE_POSITIVE))
