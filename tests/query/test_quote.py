"""A quote reads no row, says the price, and its half-widths are those of the answer."""

import io
import json
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from rich.console import Console

from discreet._numbers import ceil_float
from discreet.accounting.currencies import Currency, Gdp, Pure, Rdp, Zcdp
from discreet.errors import BadParameter, QueryRefused
from discreet.query.calibrate import calibrate_query
from discreet.query.quote import count_error, explain_currency, find_break_even
from discreet.session.session import Session
from tests.support.people import BY_DEPARTMENT, EVERYTHING, session


class Blind:
    """An engine that fails on every look."""

    identity, origins, lock = "nowhere", ("nowhere",), nullcontext()

    def run(self, bounded: Any) -> Any:
        raise AssertionError("a quote looked at the data")


def blind(**more: Any) -> Session:
    return replace(session(**more), engine=Blind())  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_no_row_is_read_and_nothing_is_paid(delta: float) -> None:
    asked = blind(delta=delta)
    before = asked.account.budget
    quoted = asked.quote(EVERYTHING, epsilon=1)
    assert asked.account.budget == before
    assert quoted.cost.epsilon.upper <= 1
    with pytest.raises(AssertionError, match="looked"):
        asked.ask(EVERYTHING, epsilon=1)


def test_the_price_object_is_the_one_of_every_edge() -> None:
    asked = session(delta=1e-6)
    quoted, answered, budget = asked.quote(BY_DEPARTMENT, epsilon=1), asked.ask(BY_DEPARTMENT, epsilon=1), asked.budget
    assert answered.cost is not None
    keys = ["epsilon", "delta", "currency", "amount", "remaining"]
    assert list(budget.to_dict()) == [*keys, "limit"]
    assert list(budget.to_dict()["limit"]) == ["epsilon", "amount"]
    for price in (quoted.cost.to_dict(), answered.cost.to_dict(), {name: budget.to_dict()[name] for name in keys}):
        assert list(price) == keys
        assert list(price["epsilon"]) == ["lower", "upper"]
    assert quoted.cost.to_dict() | {"remaining": 0} == answered.cost.to_dict() | {"remaining": 0}
    assert json.loads(quoted.to_json()) == quoted.to_dict()


def test_half_widths_of_counts_and_sums_are_those_of_the_answer() -> None:
    asked = session(epsilon=100, delta=1e-6)
    quoted = {promise.column: promise for promise in asked.quote(EVERYTHING, epsilon=2).columns}
    for _, row in asked.ask(EVERYTHING, epsilon=2).rows:
        for name, cell in zip(("n", "u", "years"), row, strict=False):
            assert cell.upper - cell.value == quoted[name].half_widths[0][1]


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_an_average_over_a_known_size_is_as_good_as_quoted(delta: float) -> None:
    asked = session(epsilon=1000, delta=delta)
    rows = asked.ask(EVERYTHING, epsilon=100).rows
    for name, i in (("mean", 4), ("v", 5), ("d", 6)):
        quoted = {p.column: p for p in asked.quote(EVERYTHING, epsilon=100, size=99).columns}[name].half_widths
        for _, row in rows:
            assert max(row[i].upper - row[i].value, row[i].value - row[i].lower) <= quoted[0][1]


def test_without_a_size_averages_get_a_small_table() -> None:
    [promise] = session().quote("SELECT AVG(pay) AS m FROM people", epsilon=1).columns
    assert [size for size, _ in promise.half_widths] == [100, 1_000, 10_000]
    widths = [half for _, half in promise.half_widths]
    assert widths == sorted(widths, reverse=True)


def test_undeclared_limits_are_one_and_the_quote_says_so() -> None:
    quoted = session(unique=None).quote(BY_DEPARTMENT, epsilon=1)
    assert "max_groups and max_rows are not declared: each id counts in one group, with one row per group" in quoted.notes[0]
    assert not session(unique=None, max_groups=2, max_rows=3).quote(BY_DEPARTMENT, epsilon=1).notes
    assert (
        "max_rows is not declared: each id counts with one row per group"
        in session(unique=None, max_groups=2).quote(BY_DEPARTMENT, epsilon=1).notes[0]
    )


def test_a_person_can_read_it() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(session(delta=1e-6, keys={}).quote(EVERYTHING, epsilon=1))
    text = console.export_text()
    for word in ("mean", "1,000 rows", "Cost: ε = ", "Keys are not declared", "Adding or removing one id"):
        assert word in text
    assert "<p>" in session().quote(EVERYTHING, epsilon=1)._repr_html_()


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize(
    ("question", "error", "size"),
    [
        (BY_DEPARTMENT, "5%", 100),
        (BY_DEPARTMENT, 3, None),
        ("SELECT AVG(pay) AS m FROM people", 2, 1000),
        ("SELECT SUM(pay) AS s, STDDEV(age) AS d FROM people", "20%", 500),
    ],
)
def test_the_least_price_for_an_error(question: str, error: Any, size: int | None, delta: float) -> None:
    asked = session(epsilon=1000, delta=delta)
    found = asked.find_epsilon(question, error, size=size)
    allowed, relative = (float(error[:-1]) / 100, True) if isinstance(error, str) else (error, False)

    def worst(epsilon: Any) -> float:
        promises = asked.quote(question, epsilon=epsilon, size=size or 1).columns
        return max(p.half_widths[0][1] / (p.relative_to[0][1] if relative else 1) for p in promises)

    assert worst(found) <= allowed * (1 + 1e-12)
    assert worst(found * 98 / 100) > allowed
    assert asked.quote(question, error=error, size=size).cost.epsilon.upper <= ceil_float(found)


def test_a_price_is_found_where_small_ones_buy_nothing() -> None:
    asked = session(epsilon=50, delta=1e-6, currency=Rdp(Fraction(16)))
    with pytest.raises(BadParameter, match="too small"):
        asked.quote(BY_DEPARTMENT, epsilon=0.5)
    assert 0.5 < asked.find_epsilon(BY_DEPARTMENT, "50%", size=1000) < 1


def test_weights_reach_the_planner_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def spied(*given: Any) -> Any:
        seen.append(given[-1])
        return calibrate_query(*given)

    monkeypatch.setattr("discreet.query.calibrate.calibrate_query", spied)
    asked = session()
    question = "SELECT COUNT(*) AS n, AVG(pay) AS mean FROM people"
    asked.quote(question, epsilon=1, weights={"n": 2.5})
    asked.ask(question, epsilon=1, weights={"mean": Fraction(1, 3)})
    asked.find_epsilon(question, 2, size=1000, weights={"n": 2, "mean": 1})
    asked.quote(question, epsilon=1)
    assert seen[0] == {"n": Fraction(5, 2), "mean": 1}
    assert seen[1] == {"n": 1, "mean": Fraction(1, 3)}
    assert seen[2] == {"n": 2, "mean": 1}
    assert seen[-1] is None
    for wrong in ({"x": 1}, {"n": 0}, {"n": -1}, {"n": float("inf")}, {"n": "2"}):
        with pytest.raises(BadParameter):
            asked.ask(question, epsilon=1, weights=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_a_column_that_weighs_more_is_nearer_and_the_price_is_the_same(delta: float) -> None:
    question = "SELECT COUNT(*) AS n, AVG(pay) AS mean FROM people"

    def halves(**weights: int) -> list[float]:
        quoted = session(delta=delta).quote(question, epsilon=1, size=1000, weights=weights)
        prices.append(quoted.cost.amount)
        return [promise.half_widths[0][1] for promise in quoted.columns]

    prices: list[Any] = []
    equal, count, mean = halves(), halves(n=5), halves(mean=5)
    assert count[0] < equal[0] < mean[0]
    assert mean[1] < equal[1] < count[1]
    assert max(prices) == pytest.approx(float(min(prices)))


def test_a_relative_error_needs_a_size() -> None:
    with pytest.raises(QueryRefused, match="size"):
        session().ask(BY_DEPARTMENT, error="5%")
    with pytest.raises(QueryRefused, match="size"):
        session().ask("SELECT AVG(pay) AS m FROM people", error=2)
    for wrong in (
        {},
        {"epsilon": 1, "error": 2},
        {"error": "much"},
        {"error": -1},
        {"epsilon": 0},
        {"epsilon": float("nan")},
    ):
        with pytest.raises(BadParameter):
            session().ask(BY_DEPARTMENT, **wrong)
    with pytest.raises(QueryRefused, match="No ε up to"):
        session().ask("SELECT AVG(pay) AS m FROM people", error=1e-9, size=100)


# -- what a currency does to counts is computed, not remembered ------------------------------------------------------------

MILLIONTH = Fraction(1, 10**6)
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.mark.parametrize("currency", ["pure", "zcdp", "gdp"])
def test_the_half_widths_are_those_of_answers(currency: str) -> None:
    asked = session(epsilon=1, delta=MILLIONTH, currency=currency)
    [(_, (estimate,))] = asked.ask(COUNT, epsilon=Fraction(1, 10)).rows
    half_width = (estimate.upper - estimate.lower) / 2
    said, _ = explain_currency(asked.account.budget.currency, Fraction(1), MILLIONTH)
    assert said.startswith(f"A single count at ε = 0.1 is ± {half_width:.0f} in ")
    assert half_width == {"pure": 30, "zcdp": 80, "gdp": 74}[currency]


@pytest.mark.parametrize("currency", [Zcdp(), Gdp(), Rdp(Fraction(16))], ids=str)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(5)])
def test_the_break_even_is_where_the_errors_cross(currency: Currency, epsilon: Fraction) -> None:
    amount, found = currency.amount(epsilon, MILLIONTH), find_break_even(currency, epsilon, MILLIONTH)
    assert found is not None
    for counts in range(1, 2 * found):
        own, pure = count_error(currency, amount / counts), count_error(Pure(), epsilon / counts)
        assert (own < pure) == (counts >= found) or abs(own - pure) <= 1, "but for rounding to whole rows"


def test_without_delta_there_is_nothing_to_say_and_too_little_says_so() -> None:
    assert explain_currency(Pure(), Fraction(1), Fraction(0)) == ()
    said, suits = explain_currency(Rdp(Fraction(16)), Fraction(2), MILLIONTH)
    assert said == "At δ = 1e-6, ε = 0.1 buys nothing in Rényi."
    assert all(name in suits for name in ("pure for", "zcdp for", "gdp for", "rdp(16) for"))
