"""The distributions that the samplers must have, written independently of them: cdfs in doubles, good to about 1e-14."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations
from math import comb, erfc, exp, expm1, floor, fsum, sqrt

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet.noise.bits import Bits
from tests.support.goodness_of_fit import Cdf

SCALES = [
    Fraction(1, 1 << 60), Fraction(1, 1000), Fraction(1, 10), Fraction(1, 4), Fraction(1, 3), Fraction(0.5),
    Fraction(2, 3), Fraction(0.9), Fraction(1), Fraction(3, 2), Fraction(2), Fraction(2.718281828), Fraction(5),
    Fraction(21, 2), Fraction(100), Fraction(1000), Fraction(32769), Fraction(10**6), Fraction(1 << 25), Fraction(1 << 30),
]  # fmt: skip


@dataclass(frozen=True)
class Sampler:
    """A sampler, its cdf as a function of one parameter, and how wide it spreads."""

    name: str
    draw: Callable[[Fraction, int, Bits | None], NDArray[np.int64]]
    cdf: Callable[[Fraction], Cdf]
    spread: Callable[[Fraction], float]


def geometric_cdf(s: Fraction) -> Cdf:
    return lambda k: 0.0 if k < 0 else -expm1(-(k + 1) / float(s))


def discrete_laplace_cdf(s: Fraction) -> Cdf:
    rate = 1 / float(s)

    def cdf(k: int) -> float:
        if k < 0:
            return exp(k * rate) / (1 + exp(-rate))  # Σ_{j ≤ k} (1−a)/(1+a)·a^{-j} = a^{-k}/(1+a)
        return 1 - exp(-(k + 1) * rate) / (1 + exp(-rate))

    return cdf


def rounded_gaussian_cdf(sigma: Fraction) -> Cdf:
    return lambda k: erfc(-(k + 0.5) / float(sigma) / sqrt(2)) / 2


def discrete_gaussian_cdf(sigma: Fraction) -> Cdf:
    s = float(sigma)
    if s > 3000:  # Euler–Maclaurin: the sum over a lattice this fine is the midpoint rule, off by 1/24σ² < 5e-9 relatively
        return lambda k: erfc(-(k + 0.5) / s / sqrt(2)) / 2
    reach = floor(40 * s) + 2
    weights = [exp(-((k / s) ** 2) / 2) for k in range(reach)]
    total = 2 * fsum(weights) - 1
    beyond = np.append(np.cumsum(weights[::-1])[::-1], 0.0) / total  # P(X ≥ k), k ≥ 0

    def cdf(k: int) -> float:
        if k < 0:
            return float(beyond[min(-k, reach)])
        return 1 - float(beyond[min(k + 1, reach)])

    return cdf


def uniform_cdf(bound: Fraction) -> Cdf:
    n = int(bound)
    return lambda k: min(1.0, max(0.0, (k + 1) / n))


@cache
def _heads(n: int) -> list[float]:
    return [float(Fraction(c, 2**n)) for c in np.cumsum(np.array([comb(n, k) for k in range(n + 1)], object))]


def binomial_cdf(coins: Fraction) -> Cdf:
    n = int(coins)
    if n > 2000:
        from scipy.special import betainc

        return lambda k: 1.0 if k >= n else 0.0 if k < 0 else float(betainc(n - k, k + 1, 0.5))
    table = _heads(n)
    return lambda k: 0.0 if k < 0 else table[min(k, n)]


def coin_cdf(probability: Callable[[Fraction], float]) -> Callable[[Fraction], Cdf]:
    return lambda p: lambda k: 0.0 if k < 0 else 1 - probability(p) if k == 0 else 1.0


def selection_cdf(scores: list[int], rate: float, rule: noise.SelectionRule) -> Cdf:
    """Brute force: P(i) ∝ e^{x_i}, and permute-and-flip summed over all orders."""
    weights = np.exp(rate * (np.array(scores) - max(scores)))
    if rule is noise.SelectionRule.EXPONENTIAL:
        probabilities = weights / weights.sum()
    else:
        probabilities = np.zeros(len(scores))
        orders = list(permutations(range(len(scores))))
        for order in orders:
            remaining = 1 / len(orders)
            for i in order:
                probabilities[i] += remaining * weights[i]
                remaining *= 1 - weights[i]
    return lambda k: float(probabilities[: k + 1].sum())


NOISES = [
    Sampler("geometric", noise.geometric, geometric_cdf, float),
    Sampler("discrete Laplace", noise.discrete_laplace, discrete_laplace_cdf, float),
    Sampler("rounded Gaussian", noise.rounded_gaussian, rounded_gaussian_cdf, float),
    Sampler("discrete Gaussian", noise.discrete_gaussian, discrete_gaussian_cdf, float),
]
