"""Post-processing: what adds up does, nothing moves further than it must, and the answer says what was done."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.query.answer import Answer, ExactTotals, release
from discreet.query.estimates import Estimate
from discreet.query.postprocess import apportion, project_to_total
from discreet.testing import seeded_bits
from tests.support.chance import FALSE_POSITIVE, binomial_tail
from tests.support.people import COUNTS, session

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


# -- shares of a total -----------------------------------------------------------------------------------------------------

SHARED = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
SHARES = {"a": Fraction(60), "b": Fraction(30), "c": Fraction(10)}
SHARE_DRAWS = 400


def count_all_shares_held(shared: Callable[[Answer, Answer], Answer]) -> int:
    """In how many draws all shares lie in their intervals."""
    counted = session(epsilon=1000).calibrate(SHARED, epsilon=Fraction(1, 10))
    summed = session(epsilon=1000).calibrate("SELECT COUNT(*) AS n FROM people", epsilon=Fraction(1, 10))
    exact = ExactTotals([((COUNTS[key],), (key,)) for key in SHARES], {})
    whole = ExactTotals([((1000,), ())], {})
    bits, held = seeded_bits(31), 0
    for _ in range(SHARE_DRAWS):
        parts = release(counted, exact, Receipt(1, counted.event), bits=bits)
        total = release(summed, whole, Receipt(2, summed.event), bits=bits)
        rows = shared(parts, total).rows
        held += all(row[0].lower <= SHARES[str(key)] <= row[0].upper for (key,), row in rows)
    return held


def is_held_often_enough(held: int, confidence: Fraction) -> bool:
    return binomial_tail(SHARE_DRAWS - held - 1, SHARE_DRAWS, 1 - confidence) > FALSE_POSITIVE


def divide_ends(answer: Answer, total: Answer) -> Answer:
    """The mutant: each interval divided by the total as if that were exact, and as if each interval held for all."""
    [(_, (whole,))] = total.rows
    scaled = [(keys, (row[0].adjust(*(100 * x / whole.value for x in ends(row[0]))),)) for keys, row in answer.rows]
    return replace(answer, rows=tuple(scaled))


def ends(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.lower, estimate.upper


def test_all_shares_hold_together_as_often_as_they_say() -> None:
    assert is_held_often_enough(count_all_shares_held(lambda parts, _: parts.shares()), Fraction(19, 20))
    assert is_held_often_enough(count_all_shares_held(lambda parts, total: parts.shares(total=total)), Fraction(9, 10))
    assert not is_held_often_enough(count_all_shares_held(divide_ends), Fraction(19, 20))


def test_shares_are_percentages_of_a_total_and_say_so() -> None:
    asked = session(epsilon=20)
    parts = asked.ask(COUNTED, epsilon=4)
    shares = parts.shares()
    assert shares.columns == ("n_percent", "cost_percent")
    assert sum(row["n_percent"]["value"] for row in shares.to_dicts()) == pytest.approx(100)
    assert shares.simultaneous
    assert "shares of the sum over all declared keys" in shares.explanation
    assert "All intervals together" in shares.explanation
    total = asked.ask("SELECT COUNT(*) AS n FROM people", epsilon=4, confidence=0.99)
    paid = parts.shares("n", total=total)
    assert paid.confidence == 0.94  # the probabilities of a miss add up
    assert paid.columns == ("n_percent",)
    top = parts.shares("n").order_by("n_percent", descending=True).limit(1)
    assert [keys for keys, _ in top.rows] == [("a",)]
    empty = release(
        measurement := session(epsilon=1000).calibrate(SHARED, epsilon=10),
        ExactTotals([], {}),
        Receipt(1, measurement.event),
    )
    assert all(0 <= row[0].lower <= row[0].value <= row[0].upper <= 100 for _, row in empty.shares().rows)


def test_shares_are_refused_where_there_is_no_total() -> None:
    asked = session(epsilon=20, delta=1e-6)
    parts, unknown = asked.ask(COUNTED, epsilon=1), session(epsilon=20, delta=1e-6, keys={}).ask(SHARED, epsilon=4)
    small = asked.ask("SELECT COUNT(*) AS n FROM people WHERE age < 0", epsilon=1, bits=seeded_bits(1))
    cases: list[tuple[Callable[[], Answer], str]] = [
        (lambda: unknown.shares(), "the keys were selected privately"),
        (lambda: parts.shares("mean"), "its groups do not add up"),
        (lambda: parts.limit(1).shares(), "rows that are left out are missing from the total"),
        (lambda: parts.limit(1).consistent(), "rows that are left out are missing from the total"),
        (lambda: small.shares(), "a share needs parts"),
        (lambda: parts.shares("n", total=parts), "a total is one row"),
        (lambda: parts.shares("n", total=small), "its interval reaches 0"),
        (lambda: replace(parts, schema=tuple(replace(c, joint_margin=None) for c in parts.schema)).shares("n"), "together"),
    ]
    for wrong, message in cases:
        with pytest.raises(BadParameter, match=message):
            wrong()
    total = asked.ask("SELECT COUNT(*) AS n FROM people", epsilon=4)
    assert len(unknown.shares(total=total)) == len(unknown)
