"""Norm-Sub gives the closest estimates that look like counts."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import BadParameter
from discreet.local.consistency import norm_sub

ESTIMATES = st.lists(st.integers(-1000, 1000).map(lambda x: Fraction(x, 7)), min_size=1, max_size=12)


def iterate(estimates: list[Fraction], n: int) -> list[Fraction]:
    """Norm-Sub as published: set negative estimates to 0, subtract what is too much from the others alike, and repeat."""
    active = set(range(len(estimates)))
    while True:
        shift = (sum(estimates[i] for i in active) - n) / len(active)
        negative = {i for i in active if estimates[i] < shift}
        if not negative:
            return [estimates[i] - shift if i in active else Fraction(0) for i in range(len(estimates))]
        active -= negative


@given(ESTIMATES, st.integers(0, 500))
def test_the_result_is_that_of_the_published_iteration(estimates: list[Fraction], n: int) -> None:
    made = norm_sub(estimates, n)
    assert made == iterate(estimates, n)
    assert sum(made) == n
    assert min(made) >= 0


@given(ESTIMATES, st.integers(0, 500), st.randoms())
def test_no_other_counts_are_closer(estimates: list[Fraction], n: int, random: object) -> None:
    made = norm_sub(estimates, n)
    weights = [Fraction(random.randrange(1, 9)) for _ in estimates]  # type: ignore[attr-defined]
    other = [weight * n / sum(weights) for weight in weights]

    def distance(counts: list[Fraction]) -> Fraction:
        return sum(((x - y) ** 2 for x, y in zip(counts, estimates, strict=True)), Fraction(0))

    assert distance(made) <= distance(other)


@given(ESTIMATES, st.integers(0, 500))
def test_what_is_consistent_stays(estimates: list[Fraction], n: int) -> None:
    made = norm_sub(estimates, n)
    assert norm_sub(made, n) == made


def test_a_negative_total_is_refused() -> None:
    with pytest.raises(BadParameter, match="cannot add up"):
        norm_sub([1, 2], -1)
