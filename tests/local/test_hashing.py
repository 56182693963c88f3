"""Public hash functions: uniform, 3-wise independent, and the same one by one and in bulk."""

import hmac
from collections import Counter
from hashlib import sha256
from itertools import count, islice, product

import numpy as np
import pytest

from discreet.local import hashing
from discreet.local.hashing import PRIME, draw_polynomial, fingerprint, hash_point, hash_text, hash_texts


@pytest.mark.parametrize(
    ("prime", "buckets", "points"), [(3, 3, (0, 1, 2)), (5, 5, (0, 2, 3)), (5, 2, (0, 1, 4)), (5, 4, (1, 2, 3))]
)
def test_functions_are_three_wise_independent(monkeypatch, prime, buckets, points):
    """All polynomials of two attempts over a small field: once three points are accepted, all triples are as likely."""
    monkeypatch.setattr(hashing, "PRIME", prime)
    polynomials = list(product(range(prime), repeat=3))
    attempts = product(polynomials, repeat=1 if prime % buckets == 0 else 2)
    found: Counter[tuple[int, ...]] = Counter()
    for coefficients in attempts:
        monkeypatch.setattr(hashing, "draw_polynomial", lambda salt, function, attempt, c=coefficients: c[attempt])
        try:
            found[tuple(hash_point(point, "", 0, buckets) for point in points)] += 1
        except IndexError:
            continue  # a third attempt is needed: independent of the bucket that it gives
    assert len(found) == buckets**3
    assert len(set(found.values())) == 1


def test_taking_the_remainder_without_rejection_is_not_uniform(monkeypatch):
    """The mutant: % 2 over a field of five elements."""
    values = Counter((c0 + c1 + c2) % 5 % 2 for c0, c1, c2 in product(range(5), repeat=3))
    assert values[0] != values[1]


def test_two_coefficients_are_not_three_wise_independent():
    """The mutant: lines over F_3 leave out triples."""
    assert len({tuple((a + b * x) % 3 for x in range(3)) for a, b in product(range(3), repeat=2)}) == 9


def test_bulk_hashes_are_those_of_single_texts():
    texts = [b"", b"a", "ü".encode(), b"x" * 1000]
    table = hash_texts(texts, "salt", 50, 1000)
    assert table.tolist() == [[hash_text(text, "salt", j, 1000) for text in texts] for j in range(50)]


def test_bulk_hashes_repeat_rejected_attempts(monkeypatch):
    """With more than half the field as buckets, nearly half of all values are refused."""
    buckets = PRIME // 2 + 2
    table = hash_texts([b"a", b"b"], "salt", 20, buckets)
    assert table.tolist() == [[hash_text(text, "salt", j, buckets) for text in (b"a", b"b")] for j in range(20)]
    first = [
        sum(c * fingerprint(b"a", "salt") ** i for i, c in enumerate(draw_polynomial("salt", j))) % PRIME for j in range(20)
    ]
    assert any(value >= buckets for value in first)


def test_products_in_the_field_are_exact():
    random = np.random.default_rng(2)
    edges = [0, 1, 2**29 - 1, 2**32 - 1, 2**32, 2**60, PRIME - 2, PRIME - 1]
    numbers = edges + [int(n) for n in random.integers(0, PRIME, 200)]
    one = np.array(numbers, np.uint64)
    table = hashing._multiply(one[:, None], one)
    assert table.tolist() == [[a * b % PRIME for b in numbers] for a in numbers]


def test_salts_and_functions_differ():
    assert len({hash_text(b"a", salt, j, 2**40) for salt in ("x", "y") for j in range(10)}) == 20
    assert len({fingerprint(text, "x") for text in (b"", b"a", b"b", b"a ")}) == 4


def test_hashes_are_the_same_for_ever():
    """Every client, in every language, computes these."""
    assert [fingerprint(text, "golden") for text in (b"", b"a", "é".encode())] == [
        1443780109403967727,
        1977943016781808811,
        853850811980011404,
    ]
    assert draw_polynomial("golden", 7, 1) == (1291856458657908680, 947518958857340633, 1432648541331116790)
    assert [hash_text(b"a", "golden", j, 1024) for j in range(5)] == [927, 302, 48, 148, 508]
    assert [hash_text(b"a", "golden", j, 1000) for j in range(3)] == [191, 902, 264]


def test_hashes_follow_from_their_definition():
    """An oracle from the standard library alone."""
    key = hmac.new(b"discreet.local hashing", b"salt", "sha256").digest()

    def elements(label):
        prefix, block = len(label).to_bytes(4, "big") + label, b""
        for counter in count():
            block += hmac.new(key, prefix + counter.to_bytes(4, "big"), "sha256").digest()
            while len(block) >= 8:
                yield int.from_bytes(block[:8], "big") % 2**61
                block = block[8:]

    point = next(elements(b"text " + sha256(b"word").digest()))
    low, middle, high = islice(elements(b"function 5 attempt 0"), 3)
    assert hash_text(b"word", "salt", 5, 97) == (low + middle * point + high * point**2) % (2**61 - 1) % 97
