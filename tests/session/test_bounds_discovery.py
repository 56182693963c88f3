"""Bounds that are found: privately, paid for, and near the data."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet._numbers import to_rational
from discreet.errors import BadParameter, QueryRefused
from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql
from discreet.session.discovery import build_bounds_query, columns_without_bounds
from discreet.session.session import Session
from discreet.testing import seeded_bits
from discreet.units import Neighbours
from tests.session.test_pilot import Forgetful
from tests.support.people import session

SUM = "SELECT SUM(pay) AS s FROM people"


def auto(bounds: Any = "auto", **more: Any) -> Session:
    return session(bounds=bounds, **more)


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_a_quarter_finds_the_bounds_and_the_rest_answers(delta: float) -> None:
    asked = auto(epsilon=100, delta=delta)
    answer = asked.ask(SUM, epsilon=50, confidence=1 - 1e-10, bits=seeded_bits(1))
    assert "The bounds of pay were discovered privately, as part of the cost: 32 to 256." in answer.explanation
    assert answer.cost is not None
    spent, whole = asked.account.budget.spent, to_rational(answer.cost.amount)
    assert whole <= spent <= whole * (1 + Fraction(1, 1 << 100))
    assert asked.account.budget.currency.cost(answer.event)[0] == answer.cost.amount
    [(_, (cell,))] = answer.rows
    assert cell.lower <= sum(50 + i % 101 for i in range(1000)) <= cell.upper
    again = asked.ask(SUM, epsilon=1, bits=seeded_bits(2))
    assert "found" not in again.explanation, "bounds are found once"
    for each in (answer, again):
        assert "values are clipped to their bounds: pay to [32, 256] (discovered)." in each.explanation


def test_the_search_is_charged_before_it_looks() -> None:
    asked = auto(epsilon=100)
    twin = replace(asked, account=Forgetful(asked.account.budget))
    answers = [each.ask(SUM, epsilon=50, bits=seeded_bits(3)) for each in (asked, twin)]
    spent = [each.account.budget.spent for each in (asked, twin)]
    assert [answer.cost.amount for answer in answers if answer.cost] == [50, 50]
    assert spent[0] == 50
    assert spent[1] < 50, "the twin that forgets the search is seen"


def test_a_quote_and_an_error_need_the_bounds_first() -> None:
    asked = auto({"pay": "auto", "age": (0, 100)}, epsilon=100)
    for refused in (lambda: asked.quote(SUM, epsilon=1), lambda: asked.ask(SUM, error=100)):
        with pytest.raises(QueryRefused, match="find_bounds"):
            refused()
    assert asked.account.budget.spent == 0
    assert asked.find_bounds("pay", epsilon=10, bits=seeded_bits(4)) == (32, 256)
    assert asked.quote(SUM, epsilon=1).cost.amount == 1
    assert asked.quote("SELECT SUM(age) AS s FROM people", epsilon=1).cost.amount == 1


def test_what_noise_could_have_made_is_not_taken_for_data() -> None:
    asked = auto(epsilon=100)
    with pytest.raises(QueryRefused, match="stands out"):
        asked.ask(f"{SUM} WHERE dept = 'a'", epsilon=Fraction(1, 1000), bits=seeded_bits(5))
    assert asked.account.budget.spent > 0, "it stays paid"


@pytest.mark.parametrize("bounds", ["0:200", {"pay": "none"}, {"dept": "auto"}, {"nobody": "auto"}])
def test_other_words_are_refused(bounds: Any) -> None:
    with pytest.raises(BadParameter):
        auto(bounds)


def test_only_what_is_computed_with_needs_bounds() -> None:
    table = auto().table
    needs = {
        "COUNT(pay)": (), "SUM(pay)": ("pay",), "HISTOGRAM(pay, 0, 10, 20)": (), "MEDIAN(pay + age)": ("pay", "age"),
        "COUNT(*)": (), "SUM(CASE WHEN pay > age THEN 1 END)": ("pay", "age"),
    }  # fmt: skip
    for aggregate, columns in needs.items():
        asked = parse_sql(f"SELECT {aggregate} AS a FROM people WHERE pay > 3 AND NOT age BETWEEN 1 AND 2", table)
        assert columns_without_bounds(asked, table) == columns
    assert columns_without_bounds(
        parse_sql("SELECT age // 10 AS k, COUNT(*) AS n FROM people WHERE pay * 2 > 1 GROUP BY age // 10", table), table
    ) == ("age", "pay")


def test_one_person_moves_one_magnitude() -> None:
    table = auto().table
    found = bound_contributions(build_bounds_query("pay", table), table, Neighbours.ADD_REMOVE)
    [counts] = found.cell_counts
    assert (found.sensitivity(counts).l1, found.sensitivity(counts).linf) == (1, 1)
