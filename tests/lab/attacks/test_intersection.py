"""Intersection: two k-anonymous tables leave one condition, private counts do not; and `k_anonymity` of any table."""

from collections import Counter
from fractions import Fraction
from functools import cache
from math import comb, exp
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import BadParameter
from discreet.lab.anonymity import (
    ALICE,
    CONDITIONS,
    FOUR_ANONYMOUS,
    QUASI_IDENTIFIERS,
    SIX_ANONYMOUS,
    candidates,
    covers,
    find_leaks,
    group_sizes,
    k_anonymity,
)
from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.attack import max_guess_probability
from tests.support.chance import is_plausible


@cache
def get_result() -> AttackResult:
    return run("intersection")


def test_a_single_table_leaks() -> None:
    """[S4]: everyone in their thirties has cancer, and nobody has a broken leg; by a plain search through the rows."""
    leaks = find_leaks(FOUR_ANONYMOUS)
    assert leaks.same_in_group == {("130**", "3*", "*"): "Cancer"}
    assert {row["condition"] for row in FOUR_ANONYMOUS if row["age"] == "3*"} == {"Cancer"}
    assert "Broken leg" in leaks.absent
    assert all(row["condition"] not in leaks.absent for row in FOUR_ANONYMOUS)
    assert find_leaks(SIX_ANONYMOUS).same_in_group == {}
    mended = [*FOUR_ANONYMOUS, {**FOUR_ANONYMOUS[4], "condition": "Broken leg"}]
    assert find_leaks(mended).same_in_group == {}, "a mutant that only looks at the first rows is noticed"
    assert "Broken leg" not in find_leaks(mended).absent
    found = get_result().numbers
    assert (found["thirties"], "Broken leg" in found["absent"]) == ("Cancer", True)


def test_the_tables_are_4_anonymous_and_6_anonymous() -> None:
    assert k_anonymity(FOUR_ANONYMOUS, QUASI_IDENTIFIERS) == 4
    assert k_anonymity(SIX_ANONYMOUS, QUASI_IDENTIFIERS) == 6
    assert sorted(group_sizes(FOUR_ANONYMOUS, QUASI_IDENTIFIERS).values()) == [4, 4, 4]
    assert sorted(group_sizes(SIX_ANONYMOUS, QUASI_IDENTIFIERS).values()) == [6, 6]
    assert {row["condition"] for row in (*FOUR_ANONYMOUS, *SIX_ANONYMOUS)} == set(CONDITIONS)
    assert all(len(candidates(table, ALICE)) > 1 for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS))


def test_together_they_leave_one_condition() -> None:
    assert get_result().numbers["remaining"] == ["AIDS"]
    assert get_result().numbers["k"] == [4, 6]
    older = ALICE | {"age": 52}
    assert len(candidates(FOUR_ANONYMOUS, older) & candidates(SIX_ANONYMOUS, older)) == 2  # another person is not identified
    assert candidates(FOUR_ANONYMOUS, ALICE | {"zip": "14850"}) == set()


def test_every_age_is_in_exactly_one_group() -> None:
    for table in (FOUR_ANONYMOUS, SIX_ANONYMOUS):
        for age in range(10, 100):
            assert sum(covers(label, age) for label in {row["age"] for row in table}) == 1
    assert not covers("130**", "1301")
    assert covers("*", "anything")


def expected(epsilon: float) -> float:
    """The exact probability that the likeliest condition is right, over all votes; ties go to the first."""
    up = 1 / (1 + exp(-epsilon / 2))  # a count of hers is 1 or more: noise of scale 2/ε is 0 or more

    def votes(p: float) -> list[float]:
        return [comb(2, v) * p**v * (1 - p) ** (2 - v) for v in range(3)]

    hers, others, k = votes(up), votes(1 - up), len(CONDITIONS)
    below, at_most = [sum(others[:v]) for v in range(3)], [sum(others[: v + 1]) for v in range(3)]
    return sum(hers[v] * below[v] ** c * at_most[v] ** (k - 1 - c) for c in range(k) for v in range(3)) / k


def test_simulations_agree_with_the_exact_probability() -> None:
    found = get_result().numbers
    assert is_plausible(found["right"], found["rehearsals"], expected(0.5))
    assert not is_plausible(
        found["right"], found["rehearsals"], expected(1)
    )  # a mutant with the noise of one cell is noticed
    assert 1 / 6 < expected(0.5) < found["right_at_most"]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 3])
def test_no_guess_exceeds_the_bound(epsilon: float) -> None:
    assert 1 / 6 < expected(epsilon) <= max_guess_probability(2 * epsilon, 6)
    assert max_guess_probability(2 * epsilon, 6) == pytest.approx(exp(2 * epsilon) / (exp(2 * epsilon) + 5))


def test_each_hospital_answers_for_every_condition() -> None:
    """Also for conditions that do not occur: the set of counts says nothing."""
    for counts in run("intersection", epsilon=Fraction(1, 10), rehearsals=10).numbers["counts"]:
        assert list(counts) == list(CONDITIONS)


# -- k-anonymity ------------------------------------------------------------------------------------------------------------

ROWS = [{"zip": "130**", "age": 28, "x": i} for i in range(4)] + [{"zip": "148**", "age": None, "x": i} for i in range(3)]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
TABLES = [ROWS, tuple(ROWS), COLUMNS, pandas.DataFrame(ROWS), polars.DataFrame(ROWS), pyarrow.table(COLUMNS)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: type(table).__module__ + "." + type(table).__name__)
def test_every_kind_of_table_gives_the_same(table: Any) -> None:
    assert k_anonymity(table, ["zip"]) == 3
    assert k_anonymity(table, ["zip", "age"]) == 3
    assert k_anonymity(table, ("x",)) == 1
    assert set(group_sizes(table, ["age"]).values()) == {3, 4}


def test_missing_values_are_equal() -> None:
    missing = [float("nan"), np.nan, None, pandas.NA, pandas.NaT]
    assert k_anonymity({"x": missing}, ["x"]) == 5


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), min_size=1))
def test_k_is_the_size_of_the_smallest_group(pairs: list[tuple[int, str]]) -> None:
    rows = [{"a": a, "b": b} for a, b in pairs]
    assert k_anonymity(rows, ["a", "b"]) == min(Counter(pairs).values())
    assert k_anonymity(rows, ["a", "b"]) <= min(k_anonymity(rows, ["a"]), k_anonymity(rows, ["b"]))
    assert k_anonymity(rows * 2, ["a", "b"]) == 2 * k_anonymity(rows, ["a", "b"])


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        (ROWS, [], "Name what an attacker may know"),
        (ROWS, "zip", "not a list of names"),
        (ROWS, 3, "not a list of names"),
        (ROWS, ["city"], "row 1 has no such field. It has zip, age, x"),
        ([{"a": 1}, {"b": 1}], ["a"], "row 2"),
        (COLUMNS, ["city"], "the table has no such column. It has zip, age, x"),
        (pandas.DataFrame(ROWS), ["city"], "It has zip, age, x"),
        (pyarrow.table(COLUMNS), ["city"], "It has zip, age, x"),
        ([], ["zip"], "empty"),
        ({"zip": []}, ["zip"], "empty"),
        (pandas.DataFrame({"zip": []}), ["zip"], "empty"),
        ({"a": [1], "b": [1, 2]}, ["a", "b"], "differ in length"),
        ({"a": "text"}, ["a"], "a column is a list"),
        ({"a": 3}, ["a"], "a column is a list"),
        ([{"a": [1]}], ["a"], "plain values"),
        ({"a": [np.zeros(2)]}, ["a"], "plain values"),
        ("text", ["a"], "neither rows nor columns"),
        ([1, 2], ["a"], "neither rows nor columns"),
        (None, ["a"], "neither rows nor columns"),
    ],
)
def test_wrong_tables_and_columns_are_refused(table: Any, columns: Any, message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        k_anonymity(table, columns)
