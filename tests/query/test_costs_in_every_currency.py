"""The price in every currency is what a filter of that currency would take; nothing is searched before it is asked for."""

import io
import json
import math
from fractions import Fraction
from math import inf
from typing import Any

import pytest
from rich.console import Console

from discreet._numbers import to_rational
from discreet.accounting import basic_composition, currencies, epsilon, pure, zcdp
from discreet.accounting.currencies import COMPARED_CURRENCIES, Filter, compare_costs, parse_currency
from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import Composition
from discreet.query import quote
from tests.support.people import BY_DEPARTMENT, EVERYTHING, session

CASES = [(0, {}), (1e-6, {}), (1e-6, {"keys": {}})]


@pytest.mark.parametrize(("delta", "more"), CASES)
def test_each_price_is_the_budget_that_it_just_fits(delta: float, more: Any) -> None:
    quoted = session(delta=delta, **more).quote(BY_DEPARTMENT, epsilon=1)
    readings = {reading.name: reading for reading in quoted.costs}
    assert list(readings) == ["epsilon", *(each.name for each in COMPARED_CURRENCIES)]
    for kept in COMPARED_CURRENCIES:
        reading = readings[kept.name]
        if reading.value.upper == inf:
            assert kept.cost(quoted.event)[0] == inf
            continue
        limit = Fraction(reading.value.upper) ** (2 if kept.name == "gdp" else 1)
        assert fits(quoted.event, Filter(kept, limit, reading.delta))
        assert not fits(quoted.event, Filter(kept, limit * Fraction(999, 1000), reading.delta))  # the cheap twin


def fits(loss: Composition, budget: Filter) -> bool:
    try:
        budget.charge(loss)
    except BudgetExceeded:
        return False
    return True


def test_epsilon_is_read_at_the_sessions_delta_or_at_the_usual_one() -> None:
    without, with_delta = (session(delta=delta).quote(BY_DEPARTMENT, epsilon=1) for delta in (0, Fraction(1, 1000)))
    assert without.costs[0].delta == Fraction(1, 10**6)
    assert with_delta.costs[0].delta == Fraction(1, 1000)
    for quoted in (without, with_delta):
        assert quoted.costs[0].value == epsilon(quoted.event, quoted.costs[0].delta)
    assert without.costs[1].value.upper == pure(without.event) == basic_composition(without.event).epsilon == 1
    assert Fraction(without.costs[2].value.upper) >= to_rational(zcdp(without.event))


def test_plain_values_and_words() -> None:
    quoted = session(delta=1e-6, keys={}).quote(EVERYTHING, epsilon=1)
    shown = quoted.to_dict()["costs"]
    assert shown["pure"]["epsilon"] == shown["rdp(8)"]["divergence"] == "inf"
    assert list(shown["epsilon"]["epsilon"]) == ["lower", "upper"]
    assert 0 < shown["zcdp"]["delta"] <= 1e-6
    assert json.loads(quoted.to_json())["costs"] == shown
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(quoted)
    for text in (console.export_text(), quoted._repr_html_()):
        assert all(
            word in text for word in ("every currency", "zCDP ρ = ", "GDP μ = ", "Rényi D(8) = ", "Keys are not declared")
        )
    assert "<table>" in quoted._repr_html_()


def test_an_answer_never_pays_for_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: Any) -> Any:
        raise AssertionError("searched")

    monkeypatch.setattr(quote, "compare_costs", looked)
    asked = session()
    quoted = asked.quote(BY_DEPARTMENT, epsilon=1)
    asked.ask(BY_DEPARTMENT, epsilon=1).to_dict()
    with pytest.raises(AssertionError, match="searched"):
        quoted.to_dict()


def test_names_go_both_ways() -> None:
    assert [parse_currency(kept.name) for kept in COMPARED_CURRENCIES] == list(COMPARED_CURRENCIES)
    for wrong in ("", "rdp", "rdp()", "rdp(1)", "rdp(1/0)", "rdp(x)", "16", "rdp(16", "euro"):
        with pytest.raises(BadParameter, match="Take pure, zcdp, gdp"):
            parse_currency(wrong)
    assert currencies.compare_costs is compare_costs


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.3, 0.7, 1])
def test_an_exact_price_is_shown_as_the_decimal_that_was_typed(epsilon: float) -> None:
    asked = session(epsilon=5, delta=0)
    for times in range(1, 4):
        price = asked.ask("SELECT COUNT(*) AS n FROM people", epsilon=epsilon, fresh=True).cost
        assert price is not None
        shown = price.to_dict()
        assert (shown["epsilon"], shown["amount"]) == ({"lower": epsilon, "upper": epsilon}, epsilon)
        left = 5 - times * Fraction(str(epsilon))
        assert Fraction(str(shown["remaining"])) == left
        share, spent = (math.ceil(20 * count * Fraction(str(epsilon))) for count in (1, times))
        budget = f"Budget: ε = {float(left):g} of 5 remaining, {spent}% spent."
        assert str(price) == f"Cost: ε = {epsilon}, {share}% of the budget. {budget}"
