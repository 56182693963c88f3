"""Slow exact samplers, straight from [CKS20, Algorithms 1–3], sharing nothing with discreet but the distribution."""

from fractions import Fraction
from math import floor
from random import SystemRandom

_random = SystemRandom()


def coin(p: Fraction) -> bool:
    return _random.randrange(p.denominator) < p.numerator


def coin_exp(x: Fraction) -> bool:
    """True with probability e^-x."""
    while x > 1:
        if not coin_exp(Fraction(1)):
            return False
        x -= 1
    k = 1
    while coin(x / k):
        k += 1
    return k % 2 == 1


def slow_discrete_laplace(scale: Fraction) -> int:
    s, t = scale.denominator, scale.numerator
    while True:
        u = _random.randrange(t)
        if not coin_exp(Fraction(u, t)):
            continue
        v = 0
        while coin_exp(Fraction(1)):
            v += 1
        size = (u + t * v) // s
        negative = coin(Fraction(1, 2))
        if not (negative and size == 0):
            return -size if negative else size


def slow_discrete_gaussian(sigma: Fraction) -> int:
    t = Fraction(floor(sigma) + 1)
    while True:
        y = slow_discrete_laplace(t)
        if coin_exp((abs(y) - sigma**2 / t) ** 2 / (2 * sigma**2)):
            return y
