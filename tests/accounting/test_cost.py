"""What people read of costs and budgets: ε first, and every figure on the safe side of the exact one, in every currency."""

import copy
import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet._numbers import Bounds, format_up
from discreet.accounting import cost as words
from discreet.accounting.cost import Budget, Cost, Remaining, describe_budget
from discreet.accounting.currencies import (
    Currency,
    Filter,
    Gdp,
    Pure,
    Rdp,
    Zcdp,
    amount_or_zero,
    create_budget,
    largest_epsilon,
    smallest_epsilon,
)
from discreet.errors import BadParameter, BudgetExceeded
from tests.support.people import BY_DEPARTMENT, session

CURRENCIES = (Pure(), Zcdp(), Gdp(), Rdp(Fraction(16)), Rdp(Fraction(5, 2)))
NUMBER = r"([0-9.,]*[0-9](?:e-?[0-9]+)?)"
BUDGET = re.compile(
    rf"ε = {NUMBER} of {NUMBER} remaining at δ = {NUMBER}, (more than )?{NUMBER}% spent"
    rf"(?: \((\S+) = {NUMBER} of {NUMBER}, \S+\))?"
)
epsilons = st.builds(lambda digits, power: digits * Fraction(10) ** power, st.integers(100, 999), st.integers(-4, 0))
deltas = st.integers(2, 12).map(lambda power: Fraction(1, 10**power))
shares = st.fractions(0, 1, max_denominator=10**6)


def open_budget(currency: Currency, epsilon: Fraction, delta: Fraction, share: Fraction) -> Filter | None:
    try:
        budget = create_budget(epsilon, delta, currency)
    except BadParameter:  # this ε is too small at this δ
        return None
    return budget.charge_cost(budget.limit * share, Fraction(0))


def is_on_the_safe_side(budget: Filter, delta: Fraction, text: str) -> bool:
    found = BUDGET.fullmatch(text)
    assert found is not None, text
    remaining, limit, _, more, percent, _, amount, whole = (text and text.replace(",", "") for text in found.groups())
    safe = [
        amount_or_zero(budget.currency, Fraction(remaining), delta) <= budget.remaining,
        amount_or_zero(budget.currency, Fraction(limit), delta) >= budget.limit,
        (Fraction(percent) + bool(more)) * budget.limit >= 100 * budget.spent,
        not more or Fraction(percent) * budget.limit < 100 * budget.spent,
        amount is None or Fraction(amount) <= budget.remaining,
        whole is None or Fraction(whole) <= budget.limit,
    ]
    return all(safe)


@pytest.mark.parametrize("currency", CURRENCIES, ids=str)
@settings(deadline=None, max_examples=40)
@given(epsilons, deltas, shares)
def test_what_is_printed_is_on_the_safe_side(
    currency: Currency, epsilon: Fraction, delta: Fraction, share: Fraction
) -> None:
    budget = open_budget(currency, epsilon, delta, share)
    if budget is None:
        return
    at = f" at δ = {format_up(delta, 3)}"
    text = describe_budget(budget, delta, at)
    assert is_on_the_safe_side(budget, delta, text), text
    assert str(Budget.of(budget, delta)) == f"Budget: {text}."
    assert f" of {format_up(epsilon, 3)} remaining" in text, "what ε bought is called ε"
    if share == 0:
        assert text.startswith(f"ε = {format_up(epsilon, 3)} of "), "nothing is spent, so all of it remains"
    shown = Budget.of(budget, delta).to_dict()
    assert Fraction(str(shown["amount"])) >= budget.spent
    assert Fraction(str(shown["remaining"])) <= budget.remaining
    assert amount_or_zero(currency, Fraction(str(shown["epsilon"]["lower"])), delta) <= budget.remaining
    assert shown["epsilon"]["lower"] <= shown["epsilon"]["upper"]
    assert shown["limit"]["epsilon"] == float(epsilon)


@pytest.mark.parametrize("mutant", [("format_down", format_up), ("format_percent_up", lambda share: f"{int(100 * share)}%")])
def test_rounding_the_other_way_is_noticed(mutant: tuple[str, Callable[..., str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, *mutant)
    budgets = [open_budget(Zcdp(), Fraction(1), Fraction(1, 10**6), Fraction(i, 7)) for i in range(1, 7)]
    texts = [describe_budget(each, Fraction(1, 10**6), " at δ = 1e-6") for each in budgets if each is not None]
    assert not all(
        is_on_the_safe_side(each, Fraction(1, 10**6), text) for each, text in zip(budgets, texts, strict=True) if each
    )


@pytest.mark.parametrize("currency", CURRENCIES, ids=str)
@settings(deadline=None, max_examples=40)
@given(epsilons, deltas, shares)
def test_a_proposed_epsilon_is_the_largest_short_one_that_fits(
    currency: Currency, epsilon: Fraction, delta: Fraction, share: Fraction
) -> None:
    budget = open_budget(currency, epsilon, delta, share)
    if budget is None:
        return
    found = budget.fitting_epsilon(delta)
    if share == 0:
        assert found == epsilon, "an unspent budget of 1 proposes 1, not 0.9999"
    if found == 0:
        return
    assert 0 < currency.amount(found, delta) <= budget.remaining
    following = found * (1 + Fraction(2, 10**3))  # more than one step of four digits
    assert currency.amount(following, delta) > budget.remaining
    assert len(repr(float(found)).replace(".", "").strip("0").partition("e")[0]) <= 12 or currency.counts_epsilon
    covering = smallest_epsilon(currency, budget.remaining, delta)
    assert largest_epsilon(currency, budget.remaining, delta) <= covering


def test_the_reported_epsilon_is_explained_where_it_differs() -> None:
    assert session().ask(BY_DEPARTMENT, epsilon=1).notes == ()
    for currency in ("zcdp", "gdp", "rdp(16)"):
        asked = session(epsilon=5, delta=1e-6, currency=currency)
        [said] = asked.ask(BY_DEPARTMENT, epsilon=2).notes
        assert said.startswith("ε = 2 was asked for; the certified cost of this query alone is ε = ")
        assert ("50% of δ is reserved" in said) == (currency != "rdp(16)")
        assert said in asked.quote(BY_DEPARTMENT, epsilon=2).notes
    pure = session(epsilon=5, delta=1e-2, currency="pure")
    [said, weak] = pure.ask("SELECT dept, COUNT(*) AS n, SUM(pay) AS s FROM people GROUP BY dept", epsilon=2).notes
    assert "less than their sum" in said
    assert weak.startswith("δ = 0.01 promises next to nothing")


def test_what_remains_is_what_the_account_and_its_parents_allow() -> None:
    small, large, delta = create_budget(1, 1e-6), create_budget(3, 1e-6), Fraction(1, 10**6)
    for budgets in ([small, large], [large, small]):
        remaining = Remaining.of([(each, delta) for each in budgets])
        assert float(remaining) == 1
        assert remaining.amount == small.limit
    assert str(Remaining.of([(large, delta), (small, delta)])).startswith(
        "Remaining: ε = 1 at δ = 1e-6, 13% of the budget (ρ"
    )
    spent = Filter(Pure(), Fraction(1), spent=Fraction(1))
    assert str(Remaining.of([(spent, Fraction(0))])) == "Remaining: ε = 0, 0% of the budget."
    assert Remaining.of([(spent, Fraction(0))]).to_dict() == {"epsilon": 0, "delta": 0, "currency": "pure", "amount": 0}


def make_values() -> list[Any]:
    asked = session(epsilon=5, delta=1e-6, keys={})
    cost = Cost(Bounds(0.5, 0.5), Fraction(0), Pure(), Fraction(1, 2), Fraction(1, 2), Fraction(1))
    refused = BudgetExceeded("ρ", cost=Fraction(1), remaining=Fraction(0), fitting_epsilon=Fraction(0))
    answer, quoted = asked.ask(BY_DEPARTMENT, epsilon=2), asked.quote(BY_DEPARTMENT, epsilon=2)
    return [answer, answer.non_negative(), quoted, cost, answer.cost, asked.budget, asked.remaining, refused, *CURRENCIES]


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_are_equal(duplicate: Callable[[Any], Any]) -> None:
    for value in make_values():
        copied = duplicate(value)
        assert type(copied) is type(value)
        assert repr(copied) == repr(value)
        assert copied == value or (str(copied) == str(value) and vars(copied) == vars(value))


def test_each_is_its_own_text_in_a_shell_and_in_a_notebook() -> None:
    for value in make_values()[:7]:
        assert repr(value) == str(value)
        assert "ε = " in str(value)
        page = value._repr_html_()
        assert page.startswith("<style>")
        assert "ε = " in page


@pytest.mark.parametrize("currency", CURRENCIES, ids=repr)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(2), Fraction(1, 3), Fraction(17, 7), Fraction(1000)])
def test_a_charge_of_the_whole_budget_is_not_shown_as_more_than_it(currency: Currency, epsilon: Fraction) -> None:
    delta = Fraction(0) if currency.counts_epsilon else Fraction(1, 10**6)
    if amount_or_zero(currency, epsilon, delta) == 0:
        return  # this ε buys nothing in this currency
    limit = create_budget(epsilon, delta, currency).limit
    cost = Cost(Bounds(0.0, float(epsilon)), delta, currency, limit, Fraction(0), limit)
    if not currency.counts_epsilon:
        [charged] = re.findall(rf"{currency.symbol} = {NUMBER},", cost.describe_charge())
        [_, whole] = re.findall(rf"{currency.symbol} = {NUMBER} of {NUMBER},", str(cost))[0]
        assert charged == whole
    refused = BudgetExceeded(currency.symbol, cost=limit, remaining=limit / 2, limit=limit)
    [shown] = re.findall(rf"costs {currency.symbol} = {NUMBER},", str(refused))
    assert Fraction(shown.replace(",", "")) <= max(limit, Fraction(words.format_down(limit, 3).replace(",", "")))


def test_what_does_not_fit_is_shown_as_more_than_the_limit() -> None:
    limit = Fraction(22911, 10**6)
    refused = BudgetExceeded("ρ", cost=limit * Fraction(10001, 10**4), remaining=limit, limit=limit)
    assert "costs ρ = 0.023, and ρ = 0.0229 remains" in str(refused), "the two never look alike"
    assert "costs ρ = 0.023, and ρ = 0.0229 remains" in str(BudgetExceeded("ρ", cost=limit, remaining=limit, limit=limit))


@pytest.mark.parametrize(
    ("remaining", "fitting", "said"),
    [
        (Fraction(0), Fraction(0), "The budget is used up."),
        (Fraction(1, 10**40), Fraction(0), "nothing usable remains"),
        (Fraction(1, 100), Fraction(1, 10), "epsilon=0.1 would fit"),
    ],
)
def test_dust_is_called_so_and_nothing_is_called_used_up(remaining: Fraction, fitting: Fraction, said: str) -> None:
    refused = BudgetExceeded("ρ", cost=Fraction(1), remaining=remaining, fitting_epsilon=fitting, cost_epsilon=Fraction(2))
    assert said.lower() in str(refused).lower()
    assert ("used up" in str(refused)) == (remaining == 0)


@pytest.mark.parametrize(
    ("amount", "up", "down"),
    [
        (1000, "1,000", "1,000"),
        (Fraction(2000, 3), "667", "666"),
        (Fraction(4000, 3), "1,340", "1,330"),
        (999_900, "1e6", "999,000"),
        (10**9, "1e9", "1e9"),
        (Fraction(1, 10**5), "1e-5", "1e-5"),
    ],
)
def test_large_amounts_are_written_with_commas_in_words_and_refusals_alike(amount: Any, up: str, down: str) -> None:
    assert (words.format_up(Fraction(amount), 3), words.format_down(Fraction(amount), 3)) == (up, down)
    refused = BudgetExceeded("ε", cost=Fraction(amount), remaining=Fraction(amount))
    assert f"costs ε = {up}, and ε = {down} remains" in str(refused)


@pytest.mark.parametrize(
    ("epsilon", "delta", "warned"),
    [
        (1, Fraction(1, 10**6), ""),
        (20, Fraction(1, 10**4), ""),
        (Fraction(2001, 100), Fraction(0), "ε"),
        (10**9, Fraction(0), "ε"),
        (1, Fraction(11, 10**5), "δ"),
        (1000, Fraction(1, 2), "εδ"),
    ],
)
def test_a_budget_that_promises_next_to_nothing_says_so(epsilon: Any, delta: Fraction, warned: str) -> None:
    said = words.warn_of_weak_budget(Fraction(epsilon), delta)
    assert "".join(each[0] for each in said) == warned
    assert all("promises next to nothing" in each for each in said)
