"""Post-processing: what adds up does, nothing moves further than it must, and the answer says what was done."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import BadParameter
from discreet.query.answer import Answer
from discreet.query.postprocess import apportion, project_to_total
from discreet.testing import seeded_bits
from tests.support.people import session

COUNTED = "SELECT dept, COUNT(*) AS n, SUM(pay) AS cost, AVG(pay) AS mean FROM people GROUP BY dept"
Project = Callable[[Sequence[Fraction], Fraction], list[Fraction]]

numbers = st.integers(-8000, 8000).map(lambda eighths: Fraction(eighths, 8))
columns = st.lists(numbers, min_size=1, max_size=12)


def onto_positive(values: Sequence[Fraction], total: Fraction) -> list[Fraction]:
    return project_to_total(values, total, positive=True)


def is_projection(project: Project, values: list[Fraction], total: Fraction) -> bool:
    """x is nearest to v in a convex set if and only if (v − x)·(y − x) ≤ 0 for all its y; its corners are enough."""
    found = project(values, total)
    if sum(found) != total or min(found) < 0:
        return False
    inward = [v - x for v, x in zip(values, found, strict=True)]
    here = sum((i * x for i, x in zip(inward, found, strict=True)), Fraction(0))
    return all(i * total <= here for i in inward)


@given(columns, st.integers(0, 16_000).map(lambda eighths: Fraction(eighths, 8)))
def test_values_move_to_the_nearest_that_add_up(values: list[Fraction], total: Fraction) -> None:
    assert is_projection(onto_positive, values, total)
    free = project_to_total(values, total, positive=False)
    assert sum(free) == total
    assert len({v - x for v, x in zip(values, free, strict=True)}) == 1


def clamped(values: Sequence[Fraction], total: Fraction) -> list[Fraction]:
    return [max(value, Fraction(0)) for value in values]


def scaled(values: Sequence[Fraction], total: Fraction) -> list[Fraction]:
    kept = clamped(values, total)
    return [value * total / sum(kept) for value in kept]


@pytest.mark.parametrize("wrong", [clamped, scaled])
def test_the_law_notices_a_sum_that_is_not_kept_and_a_point_that_is_not_nearest(wrong: Project) -> None:
    values = [Fraction(5), Fraction(1), Fraction(-2)]
    assert is_projection(onto_positive, values, Fraction(4))
    assert not is_projection(wrong, values, Fraction(4))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12), st.integers(0, 11))
def test_whole_numbers_keep_the_total_and_move_less_than_one(values: list[float], more: int) -> None:
    total = sum(map(floor, values)) + more % len(values)
    found = apportion(values, total)
    assert sum(found) == total
    assert all(abs(x - v) <= 1 for x, v in zip(found, values, strict=True))


def answered(nobodies: int = 60, epsilon: float = 0.5, question: str = COUNTED) -> Answer:
    keys = ("a", "b", "c", *(f"nobody {i}" for i in range(nobodies)))
    return session(keys={"dept": keys}).ask(question, epsilon=epsilon, bits=seeded_bits(5))


def column(answer: Answer, i: int) -> list[float]:
    return [row[i].value for _, row in answer.rows]


def test_counts_and_sums_add_up_and_are_not_negative() -> None:
    raw = answered()
    tidy = raw.consistent()
    assert min(column(raw, 0)) < 0 <= min(column(tidy, 0))
    assert min(column(tidy, 1)) >= 0
    for i in (0, 1):
        assert sum(column(tidy, i)) == pytest.approx(sum(column(raw, i)), rel=1e-12)
    assert column(tidy, 2) == column(raw, 2)
    for (_, before), (_, after) in zip(raw.rows, tidy.rows, strict=True):
        assert [(c.lower, c.upper, c.reliable) for c in before] == [(c.lower, c.upper, c.reliable) for c in after]
    assert "add up to their total (post-processing): n, cost." in tidy.explanation
    assert "intervals stay as they were" in tidy.explanation
    assert "not shown" not in tidy.explanation
    assert tidy.event == raw.event
    tidy.__rich__()


def test_whole_numbers_still_add_up() -> None:
    raw = answered()
    whole = raw.consistent().integers("n", "cost")
    assert sum(column(whole, 0)) == sum(column(raw, 0))
    assert sum(column(whole, 1)) == round(Fraction(sum(map(Fraction, column(raw, 1)))))
    assert all(type(value) is int and value >= 0 for i in (0, 1) for value in column(whole, i))
    apart = raw.non_negative().integers()  # the twin: rounded one by one
    assert sum(column(apart, 0)) != sum(column(raw, 0))
    assert column(raw.consistent().non_negative().integers(), 0) == column(whole, 0)


def test_a_total_that_was_published_elsewhere() -> None:
    raw = answered()
    tidy = raw.consistent(total={"n": 1000})
    assert sum(column(tidy, 0)) == pytest.approx(1000, rel=1e-12)
    assert sum(column(tidy.integers(), 0)) == 1000
    assert sum(column(tidy, 1)) == pytest.approx(sum(column(raw, 1)), rel=1e-12)
    assert column(raw.consistent(total={"n": 0}), 0) == [0] * 63
    for wrong in ({"mean": 1}, {"x": 1}, {"n": -1}, {"n": float("nan")}):
        with pytest.raises(BadParameter):
            raw.consistent(total=wrong)


def test_what_does_not_add_up_is_refused_or_left_alone() -> None:
    with pytest.raises(BadParameter, match="GROUP BY"):
        session().ask("SELECT COUNT(*) AS n FROM people", epsilon=1).consistent()
    with pytest.raises(BadParameter, match="no column adds up"):
        answered(question="SELECT dept, AVG(pay) AS m FROM people GROUP BY dept").consistent()
    units = "SELECT dept, COUNT(DISTINCT id) AS u, COUNT(*) AS n FROM people GROUP BY dept"
    assert [each.is_additive for each in session().ask(units, epsilon=1).schema] == [True, True]
    twice = session(unique=False, max_groups=2).ask(units, epsilon=1)  # a unit may be counted in two groups
    assert [each.is_additive for each in twice.schema] == [False, True]


def test_a_sum_that_may_be_negative_only_keeps_its_total() -> None:
    asked = session(bounds={"pay": (-5, 200), "age": (0, 100)})
    raw = asked.ask("SELECT dept, SUM(pay) AS cost FROM people GROUP BY dept", epsilon=1)
    assert column(raw.consistent(), 0) == column(raw, 0)


def test_keys_that_are_not_shown_are_no_part_of_the_total() -> None:
    shown = session(delta=1e-6, keys={}).ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=5)
    assert "not shown are no part" in shown.consistent().explanation
    none = session(delta=1e-6, keys={}).ask("SELECT id, COUNT(*) AS n FROM people GROUP BY id", epsilon=1)
    assert len(none.consistent().integers()) == 0
