"""Intersection: two anonymous tables leave one condition, two private ones leave doubt."""

from fractions import Fraction
from functools import cache
from math import comb, exp

import pytest

from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.intersection import (
    ALICE,
    CONDITIONS,
    FOUR_ANONYMOUS,
    QUASI_IDENTIFIERS,
    SIX_ANONYMOUS,
    candidates,
    covers,
    max_guess_probability_among,
)
from discreet.lab.k_anonymity import group_sizes, k_anonymity
from tests.lab.chance import plausible


@cache
def played() -> AttackResult:
    return run("intersection")


def test_the_tables_are_as_anonymous_as_they_say() -> None:
    assert k_anonymity(FOUR_ANONYMOUS, QUASI_IDENTIFIERS) == 4
    assert k_anonymity(SIX_ANONYMOUS, QUASI_IDENTIFIERS) == 6
    assert sorted(group_sizes(FOUR_ANONYMOUS, QUASI_IDENTIFIERS).values()) == [4, 4, 4]
    assert sorted(group_sizes(SIX_ANONYMOUS, QUASI_IDENTIFIERS).values()) == [6, 6]
    assert {row["condition"] for row in (*FOUR_ANONYMOUS, *SIX_ANONYMOUS)} == set(CONDITIONS)
    assert all(len(candidates(table, ALICE)) > 1 for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS))


def test_together_they_leave_one_condition() -> None:
    assert played().numbers["left"] == ["AIDS"]
    assert played().numbers["k"] == [4, 6]
    older = ALICE | {"age": 52}
    assert len(candidates(FOUR_ANONYMOUS, older) & candidates(SIX_ANONYMOUS, older)) == 2  # who is luckier
    assert candidates(FOUR_ANONYMOUS, ALICE | {"zip": "14850"}) == set()


def test_every_age_is_in_exactly_one_group() -> None:
    for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS):
        for age in range(10, 100):
            assert sum(covers(label, age) for label in {row["age"] for row in table}) == 1
    assert not covers("130**", "1301")
    assert covers("*", "anything")


def expected(epsilon: float) -> float:
    """The exact chance of the likeliest condition, over all votes; ties go to the first."""
    up = 1 / (1 + exp(-epsilon / 2))  # a count of hers is 1 or more: noise of scale 2/ε is 0 or more

    def votes(p: float) -> list[float]:
        return [comb(2, v) * p**v * (1 - p) ** (2 - v) for v in range(3)]

    hers, others, k = votes(up), votes(1 - up), len(CONDITIONS)
    below, at_most = [sum(others[:v]) for v in range(3)], [sum(others[: v + 1]) for v in range(3)]
    return sum(hers[v] * below[v] ** c * at_most[v] ** (k - 1 - c) for c in range(k) for v in range(3)) / k


def test_the_rehearsals_agree_with_the_exact_chance() -> None:
    found = played().numbers
    assert plausible(found["right"], found["rehearsals"], expected(0.5))
    assert not plausible(found["right"], found["rehearsals"], expected(1))  # a twin that adds the noise of one cell
    assert 1 / 6 < expected(0.5) < found["right_at_most"]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 3])
def test_no_reading_of_both_exceeds_the_bound(epsilon: float) -> None:
    assert 1 / 6 < expected(epsilon) <= max_guess_probability_among(6, 2 * epsilon)
    assert max_guess_probability_among(6, 2 * epsilon) == pytest.approx(exp(2 * epsilon) / (exp(2 * epsilon) + 5))


def test_each_hospital_answers_for_every_condition() -> None:
    """Also for those that nobody has: which counts appear tells nothing."""
    for counts in run("intersection", epsilon=Fraction(1, 10), rehearsals=10).numbers["counts"]:
        assert list(counts) == list(CONDITIONS)
