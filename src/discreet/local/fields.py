"""Prime fields and the two transforms that count supports: Walsh–Hadamard, and Fourier over vectors of a prime field.

**Points.** A point of the projective space PG(t−1, q) is a line through the origin of F_q^t, named by its vector whose first
non-zero coordinate is 1. Points are numbered by the length k of what follows that 1 and by these k digits in base q: there
are 1 + q + … + q^{t−1} = (q^t − 1)/(q − 1).

**Exactness.** `sum_over_hyperplanes` and `sum_over_hashes` count by fast Fourier transforms in doubles and round. A
transform along an axis of length q, however it is factored, is off by at most (q + 4)·√q·u·‖X‖₂ in the Euclidean norm, X
being the exact transform and u = 2^-53: each output is a sum of q products whose factors are correct to 2u, and Σ|x_j| ≤
√q·‖x‖₂. (NumPy takes a convolution of length 2^k ≥ 2q where q is large, whose error 40·log₂(4q)·u is smaller.) The errors
of several axes add up, because a transform multiplies the norm by a constant. So every output is off by at most E·√N·‖x‖₂
with E the sum over the axes; the counts are split into parts small enough that this stays below 1/8, and the rounded sums
are the exact integers.

**Packed digits.** `pack_digits` puts the digits of a number into fields of one 64-bit word, so wide that no sum of products
of digits overflows a field. In the product of a word in ascending order and one in descending order, the last field holds
the inner product: one multiplication instead of one for every digit.
"""

from collections.abc import Sequence
from math import ceil, log2, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]


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
    length = sum(count_points(q, more) <= point for more in range(1, dimensions))  # as many steps for every point
    digits = write_digits(point - count_points(q, length), q, dimensions - 1)
    return (0,) * (dimensions - 1 - length) + (1, *reversed(digits[:length]))


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


def measure_fields(base: int, length: int) -> tuple[int, int]:
    """Return the width of a field for inner products of digits in this base, and how many fields a word can hold.

    >>> measure_fields(3, 9)
    (6, 10)
    """
    digits = length
    while True:
        width = (digits * (base - 1) ** 2).bit_length()
        if digits * width <= 64:
            return width, 64 // width
        digits -= 1


def pack_digits(numbers: Ints, base: int, length: int, *, ascending: bool) -> list[Words]:
    """Put the digits of each number, `length` of them in this base, into fields: one array of words per part.

    >>> one, two = (pack_digits(np.array([n]), 3, 4, ascending=n == 35) for n in (35, 14))  # (2, 2, 0, 1) and (2, 1, 1, 0)
    >>> multiply_packed(one, two, 3, 4).tolist()
    [0]
    """
    width, room = measure_fields(base, length)
    words, rest = [], numbers.astype(np.int64)
    for start in range(0, length, room):
        digits = min(room, length - start)
        word = np.zeros(len(rest), np.uint64)
        for place in range(digits):
            rest, digit = np.divmod(rest, base)
            word |= digit.astype(np.uint64) << np.uint64(width * (place if ascending else digits - 1 - place))
        words.append(word)
    return words


def multiply_packed(one: Sequence[Words], two: Sequence[Words], base: int, length: int) -> Ints:
    """Return the inner products, modulo the base, of numbers that were packed in ascending and in descending order."""
    width, room = measure_fields(base, length)
    total: Words | None = None
    for part, (a, b) in enumerate(zip(one, two, strict=True)):
        digits = min(room, length - part * room)
        # The fields above the wanted one overflow the word or are masked; those below are too narrow to reach it.
        sums = (a * b) >> np.uint64(width * (digits - 1)) & np.uint64((1 << width) - 1)
        total = sums if total is None else total + sums
    assert total is not None
    return (total % np.uint64(base)).view(np.int64)


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

    **Proof.** Write u = (u₀, w) and v = (v₀, z). Points with u₀ = 0 are the points w of the space with one dimension less
    and contribute its sums at z, or all of them where z = 0. The others are u = (1, w) with any w in F_q^m, m = dimensions
    − 1, and contribute S(z, −v₀), S(z, r) = Σ_w counts[w]·[⟨w, z⟩ = r]. With the Fourier transform F of their counts, S(z,
    r) = (1/q)·Σ_s ω^{sr}·F(s·z): for each point z one transform of length q over the multiples of z. For v = (1, λz) the
    multiple is λ⁻¹·v = (λ⁻¹, z), so its sum is S(z, −λ⁻¹).

    >>> sum_over_hyperplanes(np.array([1, 10, 100]), 2, 2).tolist()
    [10, 1, 100]
    """
    if dimensions == 1:
        return np.zeros(1, np.int64)  # one point, which is not orthogonal to itself
    m, infinite = dimensions - 1, count_points(q, dimensions - 1)
    affine = counts[infinite:]
    places = _point_places(q, m)
    multiples = np.stack([_scale_places(places, scale, q, m) for scale in range(q)])
    lines = np.zeros((q, len(places)), np.int64)
    for part, weight in _split_counts(affine.reshape((q,) * m), 2):
        transform = np.fft.fftn(part).reshape(-1)
        lines += weight * np.rint(np.fft.ifft(transform[multiples], axis=0).real).astype(np.int64)
    out = np.empty(len(counts), np.int64)
    below = sum_over_hyperplanes(counts[:infinite], q, m)
    out[:infinite] = below + lines[0]
    out[infinite] = int(counts[:infinite].sum())
    for scale in range(1, q):
        out[infinite + multiples[scale]] = below + lines[-pow(scale, -1, q) % q]
    return out


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


def count_by_hash(weights: Ints, g: int, digits: int) -> Ints:
    """Return, for every a in F_g^digits and every y, the sum of `weights` over the v with ⟨a, v⟩ = y: one row per a.

    The transpose of `sum_over_hashes`: with the Fourier transform F of the weights it is (1/g)·Σ_s ω^{sy}·F(s·a).

    >>> count_by_hash(np.array([1, 10]), 2, 1).tolist()
    [[11, 0], [1, 10]]
    """
    vectors = np.arange(g**digits, dtype=np.int64)
    multiples = np.stack([_scale_places(vectors, scale, g, digits) for scale in range(g)])
    out = np.zeros((g, len(vectors)), np.int64)
    for part, weight in _split_counts(weights.reshape((g,) * digits), 2):
        transform = np.fft.fftn(part).reshape(-1)
        out += weight * np.rint(np.fft.ifft(transform[multiples], axis=0).real).astype(np.int64)
    return out.T


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
    error = 2.0**-53 * sum(max((q + 4) * sqrt(q), 40 * log2(4 * q)) for q in array.shape) * sqrt(size) * terms
    norm = float(np.linalg.norm(array.astype(np.float64)))
    if error * norm < 1 / 8:
        return [(array.astype(np.float64), 1)]
    # Below the limit in every cell, the norm is at most limit·√size.
    bits = max(1, int(log2(1 / (8 * error * sqrt(size)))))
    parts = ceil(int(array.max()).bit_length() / bits)
    return [(((array >> (bits * part)) & ((1 << bits) - 1)).astype(np.float64), 1 << (bits * part)) for part in range(parts)]
