"""Prime fields and the two transforms that count supports: Walsh–Hadamard, and Fourier over vectors of a prime field.

**Points.** A point of the projective space PG(t−1, q) is a line through the origin of F_q^t, named by its vector whose first
non-zero coordinate is 1. Points are numbered by the length k of what follows that 1 and by these k digits in base q: there
are 1 + q + … + q^{t−1} = (q^t − 1)/(q − 1).

**Exactness.** `sum_over_hyperplanes` and `sum_over_hashes` count by a fast Fourier transform in doubles and round. A
transform of N numbers is off by at most 8·2^-53·log₂N·√N·‖x‖₂ in every output; the counts are split into parts small enough
that this stays below 1/8, so that the rounded sums are the exact integers.
"""

from math import ceil, log2, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]


def is_prime(number: int) -> bool:
    """Whether a number is prime, by trial division.

    >>> [n for n in range(30) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    """
    return number >= 2 and all(number % factor for factor in range(2, int(sqrt(number)) + 1))


def next_prime(number: int) -> int:
    """The least prime that is at least this number.

    >>> next_prime(8), next_prime(2)
    (11, 2)
    """
    while not is_prime(number):
        number += 1
    return number


def write_digits(number: int, base: int, length: int) -> tuple[int, ...]:
    """Write a number in `length` digits, the lowest first.

    >>> write_digits(11, 3, 4)
    (2, 0, 1, 0)
    """
    digits = []
    for _ in range(length):
        number, digit = divmod(number, base)
        digits.append(digit)
    return tuple(digits)


def count_points(q: int, dimensions: int) -> int:
    """The number of points of PG(dimensions − 1, q): 1 + q + … + q^{dimensions−1}.

    >>> count_points(3, 3), count_points(3, 0)
    (13, 0)
    """
    return int((q**dimensions - 1) // (q - 1))


def point_vector(point: int, q: int, dimensions: int) -> tuple[int, ...]:
    """The vector of a point: zeros, a 1, then its digits, the lowest last.

    >>> [point_vector(point, 2, 2) for point in range(3)]
    [(0, 1), (1, 0), (1, 1)]
    """
    length = 0
    while count_points(q, length + 1) <= point:
        length += 1
    digits = write_digits(point - count_points(q, length), q, length)
    return (0,) * (dimensions - 1 - length) + (1, *reversed(digits))


def vector_point(vector: tuple[int, ...], q: int) -> int:
    """The number of the point that a non-zero vector lies on.

    >>> vector_point((0, 2, 1), 3) == vector_point((0, 1, 2), 3)
    True
    """
    first = next(place for place, digit in enumerate(vector) if digit)
    inverse = pow(vector[first], -1, q)
    number = 0
    for digit in vector[first + 1 :]:
        number = number * q + digit * inverse % q
    return count_points(q, len(vector) - 1 - first) + number


def walsh_hadamard(counts: Ints) -> Ints:
    """Return Σ_j (−1)^{⟨j, v⟩}·counts[j] for all v, where ⟨j, v⟩ counts the ones of j & v; the length is a power of two.

    >>> walsh_hadamard(np.array([3, 1, 0, 0])).tolist()
    [4, 2, 4, 2]
    """
    out = counts.astype(np.int64)
    half = 1
    while half < len(out):
        pairs = out.reshape(-1, 2, half)
        out = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).reshape(-1)
        half *= 2
    return out


def sum_over_hyperplanes(counts: Ints, q: int, dimensions: int) -> Ints:
    """Return, for every point v, the sum of `counts` over the points u with ⟨u, v⟩ = 0.

    Put each count on all q − 1 multiples of its point's vector. The Fourier transform at v is then
    Σ_u counts[u]·(q·[⟨u, v⟩ = 0] − 1), so the wanted sum is (total + transform)/q.

    >>> sum_over_hyperplanes(np.array([1, 10, 100]), 2, 2).tolist()
    [10, 1, 100]
    """
    places = _point_places(q, dimensions)
    spread = np.zeros(q**dimensions, np.int64)
    for scale in range(1, q):
        spread[_scale_places(places, scale, q, dimensions)] = counts
    transform = _exact_transform(spread.reshape((q,) * dimensions)).reshape(-1)[places]
    return np.asarray((int(counts.sum()) + transform) // q, np.int64)


def sum_over_hashes(counts: Ints, g: int, digits: int) -> Ints:
    """Return, for every v in F_g^digits, Σ_a counts[a, ⟨a, v⟩]; `counts` has one row per a, numbered as v is.

    The indicator of y = ⟨a, v⟩ is (1/g)·Σ_s ω^{s(⟨a, v⟩ − y)}, so the sum is 1/g times the Fourier transform of the counts,
    added up over the points (s·v, −s).

    >>> sum_over_hashes(np.array([[1, 2], [4, 8]]), 2, 1).tolist()
    [5, 9]
    """
    vectors = np.arange(g**digits, dtype=np.int64)
    # Digits lowest first become axes lowest last, which is how a number indexes a C-ordered array.
    transform = _exact_symmetric_sums(counts.reshape((g,) * (digits + 1)), vectors, g, digits)
    return np.asarray(transform // g, np.int64)


def _point_places(q: int, dimensions: int) -> Ints:
    """Where the vectors of all points stand in an array with one axis per coordinate."""
    places = [np.arange(q**length, dtype=np.int64) + q**length for length in range(dimensions)]
    return np.concatenate(places)


def _scale_places(places: Ints, scale: int, q: int, dimensions: int) -> Ints:
    """Where `scale` times these vectors stand."""
    scaled, rest, weight = np.zeros_like(places), places.copy(), 1
    for _ in range(dimensions):
        rest, digit = np.divmod(rest, q)
        scaled += digit * scale % q * weight
        weight *= q
    return scaled


def _exact_transform(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """The real part of the Fourier transform of an array that is symmetric about 0, as exact integers."""
    total = np.zeros(array.shape, np.int64)
    for part, weight in _split_counts(array):
        total += weight * np.rint(np.fft.fftn(part).real).astype(np.int64)
    return total


def _exact_symmetric_sums(array: NDArray[np.int64], vectors: Ints, g: int, digits: int) -> Ints:
    """Σ_s of the transform at (s·v, −s), as exact integers."""
    total = np.zeros(len(vectors), np.int64)
    for part, weight in _split_counts(array, g):
        transform = np.fft.fftn(part).reshape(-1)
        sums = np.zeros(len(vectors))
        for scale in range(g):
            places = _scale_places(vectors, scale, g, digits) * g + (-scale) % g
            sums += transform[places].real
        total += weight * np.rint(sums).astype(np.int64)
    return total


def _split_counts(array: NDArray[np.int64], terms: int = 1) -> list[tuple[NDArray[np.float64], int]]:
    """Split counts into parts, part·weight, of which sums of `terms` transforms are off by less than 1/8."""
    size = array.size
    error = 8 * 2.0**-53 * max(1.0, log2(size)) * sqrt(size) * terms
    norm = float(np.linalg.norm(array.astype(np.float64)))
    if error * norm < 1 / 8:
        return [(array.astype(np.float64), 1)]
    # Below the limit in every cell, the norm is at most limit·√size.
    bits = max(1, int(log2(1 / (8 * error * sqrt(size)))))
    parts = ceil(int(array.max()).bit_length() / bits)
    return [(((array >> (bits * part)) & ((1 << bits) - 1)).astype(np.float64), 1 << (bits * part)) for part in range(parts)]
