"""One-sided tail bounds on weighted sums of independent noise, rounded up.

Gaussian noise adds up in closed form. For Laplace noise each term is rounded *up* to a common lattice and the distributions
are multiplied as Fourier transforms, so the tail is that of a larger sum. A step of the lattice is a power of two, 1/512 to
1/256 of the sum's standard deviation, so that sums of about the same size share their transforms.
"""

from fractions import Fraction
from functools import lru_cache
from math import ceil, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms._additive_noise import SAFETY_FACTOR
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace

LATTICE_SIZE, STEPS_PER_DEVIATION = 1 << 15, 512  # the lattice covers at least 64 standard deviations
SLACK = 1e-10
"""More than the rounding of the transforms (about LATTICE_SIZE·2^-53 of probabilities that sum to 1), and than what lies
beyond the lattice: a weighted Laplace sum is further than 32 standard deviations off with probability below e^-40."""

WeightedTerms = tuple[tuple[Fraction, int], ...]
"""(weight, how many independent noises have it)."""


@lru_cache(maxsize=4096)
def weighted_sum_error(noise: Laplace | Gaussian, terms: WeightedTerms, tail: float) -> float:
    """Return a t with P(Σ weight·noise > t) ≤ tail.

    >>> one = ((Fraction(1), 1),)
    >>> abs(weighted_sum_error(Gaussian(100), one, 0.025) - 196.5) < 0.01
    True
    >>> 36.8 < weighted_sum_error(Laplace(10), one, 0.0125) < 37.6
    True
    """
    squares = sum(float(weight) ** 2 * times for weight, times in terms)
    if squares == 0:
        return 0.0
    if isinstance(noise, Gaussian):
        from scipy.special import ndtri

        # the rounded noise is within ½ of the continuous one
        rounding = sum(abs(float(weight)) * times for weight, times in terms) / 2
        return (-float(ndtri(tail)) * float(noise.sigma) * sqrt(squares) + rounding) * SAFETY_FACTOR
    if tail < 1e4 * SLACK:  # all terms at once, each with its share of the tail
        many = sum(times for _, times in terms)
        each = noise.error(1 - 2 * Fraction(tail) / many)  # exact: in doubles so small a tail is lost beside 1
        return float(sum(each * abs(float(weight)) * times for weight, times in terms))
    return _laplace_sum_error(noise.scale, terms, tail, float(noise.scale) * sqrt(2 * squares) + sqrt(squares))


def _laplace_sum_error(scale: Fraction, terms: WeightedTerms, tail: float, deviation: float) -> float:
    step = 2.0 ** ceil(log2(deviation / STEPS_PER_DEVIATION))
    transform = np.ones(LATTICE_SIZE // 2 + 1, complex)
    for weight, times in terms:
        if weight and times:
            transform *= _power(_fourier_transform(float(scale), abs(float(weight)), step), times)
    cells = np.fft.irfft(transform, LATTICE_SIZE)
    # P(the sum's cell is j or higher); negative cells stand behind these
    above = np.cumsum(cells[: LATTICE_SIZE // 2][::-1])[::-1]
    within = np.flatnonzero(above + SLACK <= tail)
    return float((within[0] - 1 if within.size else LATTICE_SIZE // 2) * step * SAFETY_FACTOR)


def _power(base: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """Raise to a power by squaring, which takes a fraction of the time of a complex power."""
    power = np.ones_like(base)
    for digit in f"{times:b}":
        power = power * power * base if digit == "1" else power * power
    return power


@lru_cache(maxsize=64)
def _fourier_transform(scale: float, weight: float, step: float) -> NDArray[np.complex128]:
    """Return the Fourier transform of ⌈weight·X/step⌉, X discrete Laplace: cell j is (j−1)·step < weight·X ≤ j·step."""
    ends = np.arange(-LATTICE_SIZE // 2, LATTICE_SIZE // 2 + 1)
    whole = np.floor(ends * (step / weight) + 1e-12)  # an atom that near a cell's end is on it; SAFETY_FACTOR covers that
    decay = np.exp(-1 / scale)
    above, below = np.exp(-(np.maximum(whole, 0) + 1) / scale), np.exp(np.minimum(whole, 0) / scale)
    upto = np.where(whole >= 0, 1 - above / (1 + decay), below / (1 + decay))
    return np.asarray(np.fft.rfft(np.roll(np.diff(upto), -(LATTICE_SIZE // 2 - 1))))
