"""Public hash functions: every client and every server computes the same ones from a salt.

**The family.** A text becomes a point of the prime field F_P, P = 2^61 − 1, by SHA-256 with the salt (`fingerprint`).
Function j is a polynomial of degree 2 over F_P, whose three coefficients the salt and j determine. Its value is reduced to
one of `buckets` by rejection: values from the largest multiple of `buckets` on are refused, and the polynomial of the next
attempt is used instead.

**Independence.** With uniform coefficients, the values of a polynomial of degree 2 at three different points are uniform and
independent. Attempts have independent coefficients, so the three sequences of attempts are independent too, and so are the
first values in them that are not refused: a function is exactly uniform and **3-wise independent** over different points,
and different functions are independent. The variance formulas of sketches need no more (`apple`), a Bloom filter needs less.
What is assumed beyond this: HMAC-SHA256 under a public salt behaves as random, and two texts share a point with
probability about 2^-61.

**Bytes.** The key is HMAC-SHA256 of the salt (UTF-8) under the key "discreet.local hashing". An element of the field is the
next eight bytes of a `KeyedDraws` stream under it, most significant first, without their top three bits; again if it is P.
The stream of a text has the label "text " and its SHA-256; that of a polynomial has "function j attempt a", in decimal.

The salt is public and belongs to the collection. A person who can choose values after it is published can choose two that
collide, so it is drawn when the collection is made.
"""

import hmac
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.local.draws import KeyedDraws

Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]
Polynomial: TypeAlias = tuple[int, int, int]

PRIME_BITS = 61
PRIME = (1 << PRIME_BITS) - 1


@lru_cache(maxsize=1 << 16)
def fingerprint(text: bytes, salt: str) -> int:
    """Return the point of a text: uniform below 2^61 − 1 over salts.

    >>> fingerprint(b"a", "x") == fingerprint(b"a", "x") != fingerprint(b"a", "y")
    True
    """
    stream = KeyedDraws(_public_key(salt), b"text " + sha256(text).digest())
    return _draw_element(stream)


@lru_cache(maxsize=1 << 17)
def draw_polynomial(salt: str, function: int, attempt: int = 0) -> Polynomial:
    """Return the coefficients of a function's polynomial, lowest first."""
    stream = KeyedDraws(_public_key(salt), f"function {function} attempt {attempt}".encode())
    return _draw_element(stream), _draw_element(stream), _draw_element(stream)


def hash_point(point: int, salt: str, function: int, buckets: int) -> int:
    """Return the bucket, below `buckets`, to which a function maps a point.

    >>> 0 <= hash_point(7, "x", 3, 1024) < 1024
    True
    """
    limit, attempt = PRIME - PRIME % buckets, 0
    while True:
        low, middle, high = draw_polynomial(salt, function, attempt)
        value = ((high * point + middle) * point + low) % PRIME
        if value < limit:
            return value % buckets
        attempt += 1


def hash_text(text: bytes, salt: str, function: int, buckets: int) -> int:
    """Return the bucket to which a function maps a text."""
    return hash_point(fingerprint(text, salt), salt, function, buckets)


def hash_texts(texts: Sequence[bytes], salt: str, functions: int, buckets: int) -> Ints:
    """Return the buckets of many texts under the first `functions` functions: one row a function, one column a text.

    >>> table = hash_texts([b"a", b"b"], "x", 3, 10)
    >>> table.shape, int(table[2, 1]) == hash_text(b"b", "x", 2, 10)
    ((3, 2), True)
    """
    low, middle, high = _polynomials(salt, functions)
    points = np.array([fingerprint(text, salt) for text in texts], np.uint64)
    values = _add(_multiply(_add(_multiply(high[:, None], points), middle[:, None]), points), low[:, None])
    table = (values % np.uint64(buckets)).astype(np.int64)
    for function, place in np.argwhere(values >= np.uint64(PRIME - PRIME % buckets)):
        table[function, place] = hash_text(texts[place], salt, int(function), buckets)
    return table


def _public_key(salt: str) -> bytes:
    return hmac.digest(b"discreet.local hashing", salt.encode(), "sha256")


def _draw_element(stream: KeyedDraws) -> int:
    """Draw an element of the field: 61 bits of eight bytes, again if all of them are ones."""
    while True:
        number = int.from_bytes(stream.take(8), "big") & PRIME
        if number < PRIME:
            return number


@lru_cache(maxsize=8)
def _polynomials(salt: str, functions: int) -> tuple[Words, Words, Words]:
    """The coefficients of the first functions, as three arrays."""
    table = np.array([draw_polynomial(salt, function) for function in range(functions)], np.uint64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _add(one: Words, two: Words) -> Words:
    """Add in the field."""
    return _reduce(one + two)


def _reduce(number: Words) -> Words:
    """Reduce numbers below 2^63 to the field: 2^61 is 1 there."""
    folded = (number & np.uint64(PRIME)) + (number >> np.uint64(PRIME_BITS))
    return np.where(folded >= np.uint64(PRIME), folded - np.uint64(PRIME), folded)


def _multiply(one: Words, two: Words) -> Words:
    """Multiply in the field by halves of 32 bits: 2^64 is 8 there, and 2^29·2^32 is 1. No sum below reaches 2^64."""
    half, mask = np.uint64(32), np.uint64((1 << 32) - 1)
    high_one, low_one, high_two, low_two = one >> half, one & mask, two >> half, two & mask
    middle = high_one * low_two + low_one * high_two
    carried = (middle >> np.uint64(29)) + ((middle & np.uint64((1 << 29) - 1)) << half)
    lowest = low_one * low_two
    return _reduce(
        high_one * high_two * np.uint64(8) + carried + (lowest & np.uint64(PRIME)) + (lowest >> np.uint64(PRIME_BITS))
    )
