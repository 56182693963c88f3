"""A currency is one object: what the rest of discreet does with a currency, it does through `Currency`."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

import pytest

from discreet import connect
from discreet._numbers import ceil_float
from discreet.accounting import currencies, pure
from discreet.accounting.currencies import (
    COMPARED_CURRENCIES,
    CURRENCY_FAMILIES,
    Currency,
    Filter,
    create_budget,
    parse_currency,
)
from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import Event

DELTA = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True)
class Milli(Currency):
    """Amounts are thousandths of ε, converted at any δ: a currency that only this test knows."""

    family = example = "milli"
    symbol = "mε"
    theorem = "[RRUV16]"
    json_key = "milli"
    reported_symbol = "thousandths of ε"
    noise_power = 1

    def core_cost(self, core: Event) -> Fraction | float:
        return 1000 * pure(core)

    def amount_at(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        return 1000 * epsilon

    def epsilon_at(self, amount: Fraction, delta: Fraction) -> float:
        return ceil_float(amount / 1000)


def test_a_new_currency_is_one_class_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadParameter, match="no such currency"):
        parse_currency("milli")
    monkeypatch.setitem(CURRENCY_FAMILIES, "milli", Milli)
    assert parse_currency("milli") == Milli()
    session = connect(
        "examples/people.csv",
        unit="id",
        unique=True,
        epsilon=1,
        delta=1e-6,
        currency="milli",
        keys={"dept": ("sales", "legal")},
    )
    assert session.account.budget == Filter(Milli(), Fraction(1000), DELTA / 2)
    answer = session.ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=Fraction(1, 4))
    assert session.account.budget.spent == Milli().cost(answer.event)[0] == pytest.approx(250, rel=1e-6)
    with pytest.raises(BudgetExceeded, match=r"\(mε\).*epsilon=0\.75 would fit"):
        session.ask("SELECT COUNT(*) AS n FROM people", epsilon=Fraction(4, 5))


@pytest.mark.parametrize("currency", COMPARED_CURRENCIES, ids=lambda currency: currency.name)
def test_what_epsilon_buys_promises_that_epsilon(currency: Currency) -> None:
    epsilon = Fraction(20)
    amount = currency.amount(epsilon, DELTA)
    assert Fraction(99, 100) * epsilon < Fraction(currency.epsilon(amount, DELTA)) <= epsilon
    assert create_budget(epsilon, DELTA, currency) == Filter(currency, amount, DELTA * currency.reserved_delta_share)
    assert create_budget(epsilon, DELTA, currency).epsilon(DELTA) <= epsilon


@pytest.mark.parametrize("currency", COMPARED_CURRENCIES, ids=lambda currency: currency.name)
def test_gaussian_noise_of_the_variance_that_an_amount_buys_costs_that_amount(currency: Currency) -> None:
    from discreet.events import GaussianEvent
    from discreet.units import Sensitivity

    amount, moved = Fraction(1, 8), Sensitivity(l0=3, linf=2)
    variance = currency.gaussian_variance(amount, moved.l2_squared)
    if variance is None:
        assert currency.cost(GaussianEvent(Fraction(10**6), moved))[0] == inf
        return
    cost, delta = currency.cost(GaussianEvent(currencies.sqrt_up(variance), moved))
    assert amount * (1 - Fraction(1, 10**12)) <= Fraction(cost) <= amount
    assert delta == 0


def test_every_currency_cites_its_filter_theorem() -> None:
    for family, kind in CURRENCY_FAMILIES.items():
        assert kind.family == family
        assert parse_currency(kind.example).theorem.startswith("[")
        assert kind.theorem.strip("[]").split(";")[0].split(",")[0] in (kind.__doc__ or "")
