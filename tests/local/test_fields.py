"""The transforms are exact."""

import numpy as np
import pytest

from discreet.local.fields import (
    count_by_hash,
    count_points,
    multiply_packed,
    pack_digits,
    point_vector,
    sum_over_hashes,
    sum_over_hyperplanes,
    walsh_hadamard,
    write_digits,
)


@pytest.mark.parametrize(("q", "dimensions"), [(2, 2), (2, 5), (3, 2), (3, 4), (5, 3), (7, 3), (13, 2)])
@pytest.mark.parametrize("most", [10, 10**6, 10**14])
def test_sums_over_hyperplanes_are_those_of_the_definition(q: int, dimensions: int, most: int) -> None:
    points = np.array([point_vector(point, q, dimensions) for point in range(count_points(q, dimensions))])
    counts = np.random.default_rng(1).integers(0, most, len(points))
    assert (sum_over_hyperplanes(counts, q, dimensions) == (points @ points.T % q == 0) @ counts).all()


@pytest.mark.parametrize(("q", "dimensions"), [(3, 10), (23, 4), (53, 3), (149, 2)])
def test_sums_over_large_spaces_are_those_of_some_points(q: int, dimensions: int) -> None:
    size = count_points(q, dimensions)
    random = np.random.default_rng(1)
    counts = random.integers(0, 10**9, size)
    sums = sum_over_hyperplanes(counts, q, dimensions)
    vectors = np.array([point_vector(point, q, dimensions) for point in range(size)])
    for point in random.integers(0, size, 5):
        assert sums[point] == counts[vectors @ vectors[point] % q == 0].sum()
    assert int(sums.sum()) == int(counts.sum()) * count_points(q, dimensions - 1)


@pytest.mark.parametrize(("g", "digits"), [(2, 3), (3, 2), (5, 2), (7, 1)])
@pytest.mark.parametrize("most", [10, 10**13])
def test_sums_over_hashes_and_their_transpose_are_those_of_the_definition(g: int, digits: int, most: int) -> None:
    vectors = np.array([write_digits(number, g, digits) for number in range(g**digits)])
    hashes = vectors @ vectors.T % g
    random = np.random.default_rng(1)
    counts, weights = random.integers(0, most, (g**digits, g)), random.integers(0, most, g**digits)
    assert (sum_over_hashes(counts, g, digits) == np.take_along_axis(counts, hashes, axis=1).sum(axis=0)).all()
    expected = np.stack([((hashes == bucket) @ weights) for bucket in range(g)], axis=1)
    assert (count_by_hash(weights, g, digits) == expected).all()


def test_walsh_hadamard_is_that_of_the_definition() -> None:
    counts = np.random.default_rng(1).integers(-100, 10**12, 64)
    signs = np.array([[(-1) ** (j & v).bit_count() for j in range(64)] for v in range(64)])
    assert (walsh_hadamard(counts) == signs @ counts).all()


@pytest.mark.parametrize(("base", "length"), [(2, 5), (2, 40), (3, 9), (3, 25), (53, 4), (149, 3), (1021, 2)])
def test_packed_digits_multiply_to_the_inner_product(base: int, length: int) -> None:
    random = np.random.default_rng(base)
    one, two = (random.integers(0, base**length, 200) for _ in range(2))
    one[0] = two[0] = base**length - 1  # all digits as large as they can be
    expected = [
        sum(a * b for a, b in zip(write_digits(i, base, length), write_digits(j, base, length), strict=True)) % base
        for i, j in zip(one.tolist(), two.tolist(), strict=True)
    ]
    packed = pack_digits(one, base, length, ascending=True), pack_digits(two, base, length, ascending=False)
    assert multiply_packed(*packed, base, length).tolist() == expected
