"""Intervals are certified: tails are bounded from above, and inversion excludes nothing that it must not."""

from fractions import Fraction
from itertools import product
from math import comb, inf, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from discreet.local.bulk import hash_many
from discreet.local.intervals import bernstein_width, bound_tails, describe_detection, floor_widths, invert_counts
from discreet.local.oracles import Hashed

CHANCES = [
    (Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 2), Fraction(1, 10)), (Fraction(576, 1000), Fraction(1, 3)),
    (Fraction(99, 100), Fraction(1, 100)), (Fraction(1, 2), Fraction(49, 100)), (Fraction(1, 100), Fraction(1, 1000)),
    (Fraction(1, 2), Fraction(1, 10**7)), (1 - Fraction(1, 10**7), Fraction(1, 2)),
]  # fmt: skip


def list_chances(n: int, m: int, p: Fraction, q: Fraction) -> list[Fraction]:
    """The exact distribution of Bin(m, p) + Bin(n − m, q)."""
    one, two = ([comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)] for size, p in ((m, p), (n - m, q)))
    out = [Fraction(0)] * (n + 1)
    for (i, x), (j, y) in product(enumerate(one), enumerate(two)):
        out[i + j] += x * y
    return out


@pytest.mark.parametrize(("p", "q"), CHANCES)
def test_tails_are_bounded_from_above_and_tightly(p: Fraction, q: Fraction) -> None:
    for n in (1, 2, 3, 7, 25):
        for m in {0, 1, n // 2, n}:
            chances = list_chances(n, m, p, q)
            bounds = bound_tails(np.arange(n + 1), n, np.full(n + 1, float(m)), p, q)
            for count, bound in enumerate(bounds):
                exact = sum(chances[count:])
                assert bound >= exact
                slack = Fraction(1, 10**6) if exact > 1e-9 else Fraction(1, 10**4)  # tails that no confidence asks for
                assert bound == 1 or exact < 1e-15 or bound <= exact * (1 + slack)


@pytest.mark.parametrize("n", [10**3, 10**6, 10**9])
def test_tails_of_many_reports_are_those_of_the_binomial(n: int) -> None:
    counts = np.rint(0.3 * n + np.array([0.2, 1, 2, 4, 6]) * sqrt(0.21 * n)).astype(np.int64)
    ratio = bound_tails(counts, n, np.zeros(5), Fraction(1, 2), Fraction(3, 10)) / binom.sf(counts - 1, n, 0.3)
    assert (abs(ratio - 1) < 1e-6).all()


@pytest.mark.parametrize(("p", "q"), CHANCES)
@pytest.mark.parametrize("n", [1, 2, 6, 22])
def test_intervals_are_those_of_exact_inversion(n: int, p: Fraction, q: Fraction) -> None:
    tail = Fraction(1, 40)
    chances = [list_chances(n, m, p, q) for m in range(n + 1)]
    lower, upper = invert_counts(np.arange(n + 1), n, p, q, 2 * tail)
    for count in range(n + 1):
        low = next((m for m in range(n + 1) if sum(chances[m][count:]) >= tail), n)
        high = next((m for m in range(n, -1, -1) if sum(chances[m][: count + 1]) >= tail), 0)
        assert (lower[count], upper[count]) == (low, max(low, high))
    for m in range(n + 1):  # and so each end misses with at most its share, exactly
        assert sum(chances[m][c] for c in range(n + 1) if lower[c] > m) <= tail
        assert sum(chances[m][c] for c in range(n + 1) if upper[c] < m) <= tail


def test_many_counts_share_intervals_that_are_no_shorter() -> None:
    n, p, q = 10**6, Fraction(576, 1000), Fraction(1, 3)
    counts = np.random.default_rng(1).binomial(n, 0.34, 5000)
    lower, upper = invert_counts(counts, n, p, q, Fraction(1, 20))
    own_lower, own_upper = invert_counts(counts[:50], n, p, q, Fraction(1, 20))
    assert (lower[:50] <= own_lower).all()
    assert (upper[:50] >= own_upper).all()
    assert ((upper - lower)[:50] <= (own_upper - own_lower) * 1.03).all()


def test_a_billion_reports_have_intervals_as_wide_as_the_normal_ones() -> None:
    n, p, q = 10**9, Fraction(576, 1000), Fraction(1, 3)
    [lower], [upper] = invert_counts([340_000_000], n, p, q, Fraction(1, 20))
    deviation = sqrt(n * 0.34 * 0.66) / float(p - q)
    assert (upper - lower) / 2 / deviation == pytest.approx(1.96, rel=0.01)


def test_bernstein_covers_sums_of_coins() -> None:
    for n, p, miss in ((100, 0.5, 0.05), (1000, 0.01, 0.001), (10**6, 0.3, 1e-6)):
        width = bernstein_width(n * p * (1 - p), max(p, 1 - p), miss)
        assert binom.sf(np.ceil(n * p + width) - 1, n, p) + binom.cdf(np.floor(n * p - width), n, p) <= miss


@pytest.mark.parametrize("seed", range(3))
def test_the_floor_of_linear_functions_is_within_its_bound_exactly(seed: int) -> None:
    """All functions are enumerated: the mean square of what one of them adds is the sum over lines, and at most the
    bound."""
    oracle, g = Hashed(9, Fraction(3), 3), 3
    holders = np.random.default_rng(seed).integers(0, 50, 9) * np.array([1, 1, 9, 1, 1, 1, 9, 1, 1])
    functions, n = np.arange(9), int(holders.sum())
    for value in range(9):
        others = [u for u in range(9) if u != value]
        errors = []
        for function in functions:
            own = hash_many(oracle, np.array([function]), np.array([value]))[0]
            meets = hash_many(oracle, np.full(8, function), np.array(others)) == own
            added = [int(holders[u]) * (int(m) - Fraction(1, g)) for u, m in zip(others, meets, strict=True)]
            errors.append(sum(added) * Fraction(g, g - 1))
        assert sum(errors) == 0
        square = sum(error**2 for error in errors) / 9
        # The line through two points of F_3² has a third one: 2·v − u, digit by digit.
        third = {u: (2 * (value % 3) - u % 3) % 3 + 3 * ((2 * (value // 3) - u // 3) % 3) for u in others}
        lines = sum((int(holders[u]) + int(holders[third[u]])) ** 2 for u in others) / Fraction(2)
        assert square == lines / (g - 1)
        assert square <= Fraction(1, g - 1) * n * min(n, (g - 1) * int(holders.max()))
        assert max(map(abs, errors)) <= n


def test_widths_with_a_floor_grow_as_the_functions_get_fewer() -> None:
    known = {"noise": 4e6, "largest_term": 4, "collision": 0.5, "values": 128, "miss": 0.05}
    pairs = [floor_widths(2e5, 10**6, functions=k, **known) for k in (16, 1024, 10**7)]
    assert pairs[0] > pairs[1] > pairs[2]
    assert all(one < together for one, together in pairs)
    assert pairs[2][0] == pytest.approx(bernstein_width(4e6, 4, 0.045), rel=0.02)


def test_no_reports_show_nothing() -> None:
    assert describe_detection(0, 10, Fraction(4)) == inf
