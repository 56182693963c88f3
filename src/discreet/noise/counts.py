"""Poisson and truncated negative binomial counts with rational parameters, drawn with exact coins alone.

Both samplers are walks. A walk at k *ends* with probability e and returns k; otherwise it *climbs* to k + 1 with probability
c(k), and if it does not, it starts again from the bottom. It returns k with probability proportional to
e·Π_{j<k} (1 − e)·c(j): the constant that would make these add up to 1, which is irrational, is never needed.

- Poisson, P(k) = e^{-m}·m^k/k!, for m ≤ 1/2: e = 1/2 and c(k) = 2m/(k + 1), from 0. A larger mean is a sum of such.
- Negative binomial, P(k) ∝ (1−γ)^k·Π_{j<k} (j + η)/(j + 1), for 0 < η ≤ 1: e = γ and c(k) = (k + η)/(k + 1), from 0. A
  larger η is a sum of such. Truncated to k ≥ 1 [PS22, Def. 1], a zero is drawn again; for −1 < η ≤ 1 the walk starts at 1.

How long a draw takes depends on what is drawn.
"""

from collections.abc import Callable
from fractions import Fraction
from math import ceil

import numpy as np

from discreet._numbers import Number, check_int, check_probability, format_decimal, format_rational, read_decimal
from discreet.errors import BadParameter
from discreet.noise.bits import SYSTEM, Bits, Ints, check_bits
from discreet.noise.uniform import bernoulli

MAX_MEAN = 10**5
"""Of the counts: a larger one would take too many coins."""


def poisson(mean: Number, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers from 0, 1, 2, … with P(k) = e^{-mean}·mean^k/k!.

    >>> poisson(3, 4).shape, poisson(0, 2).tolist()
    ((4,), [0, 0])
    """
    exact, count = read_decimal(mean, "mean"), check_int(size, "size")
    if not 0 <= exact <= MAX_MEAN:
        raise BadParameter("mean", format_decimal(exact), f"must lie between 0 and {MAX_MEAN:,}", "give such a mean")
    pieces = ceil(2 * exact)
    if not pieces:
        return np.zeros(count, np.int64)
    mean_of_piece = exact / pieces

    def climb(k: int) -> Fraction:
        return 2 * mean_of_piece / (k + 1)

    out: Ints = _walk(Fraction(1, 2), climb, 0, count * pieces, bits).reshape(count, pieces).sum(axis=1)
    return out


def truncated_negative_binomial(eta: Number, gamma: Number, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers from 1, 2, … with P(k) ∝ (1−gamma)^k·Π_{j<k} (j + eta)/(j + 1), eta > −1.

    At eta = 1 this is the geometric distribution, P(k) = gamma·(1−gamma)^{k−1}; at eta = 0 the logarithmic one,
    P(k) ∝ (1−gamma)^k/k.

    >>> bool((truncated_negative_binomial(1, 0.1, 100) >= 1).all())
    True
    """
    shape, end = check_shape(eta), check_probability(read_decimal(gamma, "gamma"), "gamma")
    count = check_int(size, "size")
    if shape > 0 and shape / end > MAX_MEAN:
        raise BadParameter("gamma", format_rational(end), f"the mean exceeds {MAX_MEAN:,}", "give a larger gamma")
    if shape <= 1:
        return _walk(end, _climb_of(shape), 1, count, bits)
    pieces = ceil(shape)
    climb = _climb_of(shape / pieces)
    out = np.zeros(count, np.int64)
    while (zeros := np.flatnonzero(out == 0)).size:
        out[zeros] = _walk(end, climb, 0, zeros.size * pieces, bits).reshape(-1, pieces).sum(axis=1)
    return out


def check_shape(eta: Number) -> Fraction:
    """Return the shape of a truncated negative binomial distribution as a rational above −1.

    >>> check_shape(-0.5)
    Fraction(-1, 2)
    """
    exact = read_decimal(eta, "eta")
    if not -1 < exact <= 100:
        raise BadParameter("eta", format_decimal(exact), "must lie above -1, and be at most 100", "give 0, 1 or 2")
    return exact


def _climb_of(eta: Fraction) -> Callable[[int], Fraction]:
    return lambda k: (k + eta) / (k + 1)


def _walk(end: Fraction, climb: Callable[[int], Fraction], start: int, size: int, bits: Bits | None) -> Ints:
    """Draw `size` walks: all that stand at the same k take their coins together."""
    source = SYSTEM if bits is None else check_bits(bits)
    out = np.empty(size, np.int64)
    waiting = np.arange(size)
    while waiting.size:
        k, walking, fallen = start, waiting, []
        while walking.size:
            ended = bernoulli(end, walking.size, source)
            out[walking[ended]] = k
            walking = walking[~ended]
            climbed = bernoulli(climb(k), walking.size, source)
            fallen.append(walking[~climbed])
            walking, k = walking[climbed], k + 1
        waiting = np.concatenate(fallen)
    return out
