"""The price in every currency is what a filter of that currency would take; nothing is searched before it is asked for."""

import io
import json
from fractions import Fraction
from math import inf
from typing import Any

import pytest
from rich.console import Console

from discreet.accounting import approx, epsilon, pure, zcdp
from discreet.accounting.filters import Filter, price
from discreet.errors import BadParameter, BudgetExceeded
from discreet.exact import rational
from discreet.loss import Composition
from discreet.query import currency, quote
from discreet.query.currency import EVERY, name_of, named, prices
from tests.query.people import BY_DEPARTMENT, EVERYTHING, session

CASES = [(0, {}), (1e-6, {}), (1e-6, {"keys": {}})]


@pytest.mark.parametrize(("delta", "more"), CASES)
def test_each_price_is_the_budget_that_it_just_fits(delta: float, more: Any) -> None:
    quoted = session(delta=delta, **more).quote(BY_DEPARTMENT, epsilon=1)
    readings = {reading.name: reading for reading in quoted.prices}
    assert list(readings) == ["epsilon", *map(name_of, EVERY)]
    for kept in EVERY:
        reading = readings[name_of(kept)]
        if reading.value.upper == inf:
            assert price(kept, quoted.loss)[0] == inf
            continue
        limit = Fraction(reading.value.upper) ** (2 if name_of(kept) == "gdp" else 1)
        assert fits(quoted.loss, Filter(kept, limit, reading.delta))
        assert not fits(quoted.loss, Filter(kept, limit * Fraction(999, 1000), reading.delta))  # the cheap twin


def fits(loss: Composition, budget: Filter) -> bool:
    try:
        budget.after(loss)
    except BudgetExceeded:
        return False
    return True


def test_epsilon_is_read_at_the_sessions_delta_or_at_the_usual_one() -> None:
    without, with_delta = (session(delta=delta).quote(BY_DEPARTMENT, epsilon=1) for delta in (0, Fraction(1, 1000)))
    assert without.prices[0].delta == Fraction(1, 10**6)
    assert with_delta.prices[0].delta == Fraction(1, 1000)
    for quoted in (without, with_delta):
        assert quoted.prices[0].value == epsilon(quoted.loss, quoted.prices[0].delta)
    assert without.prices[1].value.upper == pure(without.loss) == approx(without.loss).epsilon == 1
    assert Fraction(without.prices[2].value.upper) >= rational(zcdp(without.loss))


def test_plain_values_and_words() -> None:
    quoted = session(delta=1e-6, keys={}).quote(EVERYTHING, epsilon=1)
    shown = quoted.to_dict()["prices"]
    assert shown["pure"]["epsilon"] == shown["rdp(8)"]["divergence"] == "inf"
    assert list(shown["epsilon"]["epsilon"]) == ["lower", "upper"]
    assert 0 < shown["zcdp"]["delta"] <= 1e-6
    assert json.loads(quoted.to_json())["prices"] == shown
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(quoted)
    for text in (console.export_text(), quoted._repr_html_()):
        assert all(
            word in text for word in ("every currency", "zCDP ρ = ", "GDP μ = ", "Rényi D(8) = ", "Keys are not known")
        )
    assert quoted._repr_html_().startswith("<table>")


def test_an_answer_never_pays_for_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: Any) -> Any:
        raise AssertionError("searched")

    monkeypatch.setattr(quote, "prices", looked)
    asked = session()
    quoted = asked.quote(BY_DEPARTMENT, epsilon=1)
    asked.ask(BY_DEPARTMENT, epsilon=1).to_dict()
    with pytest.raises(AssertionError, match="searched"):
        quoted.to_dict()


def test_names_go_both_ways() -> None:
    assert [named(name_of(kept)) for kept in EVERY] == list(EVERY)
    for wrong in ("", "rdp", "rdp()", "rdp(1)", "rdp(1/0)", "rdp(x)", "16", "rdp(16", "euro"):
        with pytest.raises(BadParameter, match="take pure, zcdp, gdp"):
            named(wrong)
    assert currency.prices is prices


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.3, 0.7, 1])
def test_an_exact_price_is_shown_as_the_decimal_that_was_typed(epsilon: float) -> None:
    asked = session(epsilon=5, delta=0)
    for times in range(1, 4):
        price = asked.ask("SELECT COUNT(*) AS n FROM people", epsilon=epsilon, fresh=True).price
        assert price is not None
        shown = price.to_dict()
        assert (shown["epsilon"], shown["amount"]) == ({"lower": epsilon, "upper": epsilon}, epsilon)
        left = 5 - times * Fraction(str(epsilon))
        assert Fraction(str(shown["left"])) == left
        assert str(price) == f"ε = {epsilon}; {float(left)} left".replace(".0 left", " left")
