"""The rules: budgets round down, parents cap, refusals say what fits, plans are one entry."""

from dataclasses import replace
from fractions import Fraction

import pytest

from discreet.accounting.currencies import Currency, Gdp, Pure, Rdp, Zcdp, parse_currency
from discreet.accounting.curve import epsilon as certified
from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import Claim, Event, GaussianEvent, ThresholdEvent, compose
from discreet.ledger.account import Account, AccountState
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.units import to_sensitivity

CURRENCIES: list[Currency] = [Pure(), Zcdp(), Gdp(), Rdp(Fraction(16))]
NOISY = GaussianEvent(Fraction(40), to_sensitivity(1))


def half(epsilon: Fraction = Fraction(1, 2)) -> Event:
    return Claim(epsilon, Fraction(0))


@pytest.mark.parametrize("currency", CURRENCIES)
def test_a_budget_buys_no_more_than_it_promises(currency: Currency) -> None:
    account = AccountState.open("hr", 2, 1e-6, currency)
    assert account.budget.epsilon(account.delta) <= 2
    assert account.budget.delta_limit <= Fraction(1, 10**6)
    assert parse_currency(currency.name) == currency


def test_a_parent_caps_the_sum_of_its_children() -> None:
    everything = AccountState.open("all", Fraction(3, 2))
    child = AccountState.open("hr", 1, parent=everything)
    paid = child.charge(half())
    assert paid.parent is not None
    assert (paid.budget.remaining, paid.parent.budget.remaining, paid.debits, paid.parent.debits) == (
        Fraction(1, 2),
        1,
        1,
        0,
    )
    sibling = AccountState.open("it", 2, parent=paid.parent.charge(half(Fraction(3, 4))))
    with pytest.raises(BudgetExceeded) as refused:
        sibling.charge(half())
    assert refused.value.fitting_epsilon == Fraction(1, 4)
    assert sibling.budget.spent == 0
    sibling.charge(half(Fraction(1, 4)))


def test_a_parent_has_the_currency_of_its_children() -> None:
    with pytest.raises(BadParameter, match="another currency"):
        AccountState.open("hr", 1, 1e-6, Gdp(), parent=AccountState.open("all", 1, 1e-6, Zcdp()))
    with pytest.raises(BadParameter, match="another currency"):
        AccountState.open("hr", 4, 1e-6, Rdp(Fraction(8)), parent=AccountState.open("all", 4, 1e-6, Rdp(Fraction(9))))


@pytest.mark.parametrize("name", ["", " hr", "a\nb", "x" * 201, "nul\0"])
def test_names_that_some_store_could_not_hold(name: str) -> None:
    with pytest.raises(BadParameter, match="not a name"):
        AccountState.open(name, 1)


@pytest.mark.parametrize("currency", [Zcdp(), Gdp(), Rdp(Fraction(16))])
def test_a_plan_is_one_entry_at_the_sum_in_the_currency(currency: Currency) -> None:
    account = AccountState.open("hr", 3, 1e-6, currency)
    one_by_one = account
    for _ in range(10):
        one_by_one = one_by_one.charge(NOISY)
    plan = account.charge_together([NOISY] * 10)
    assert plan.debits == 1
    assert plan.budget.spent <= one_by_one.budget.spent
    assert plan.budget.spent >= one_by_one.budget.spent * (1 - Fraction(1, 10**9))


def test_in_a_pure_account_a_plan_may_pay_its_certified_point() -> None:
    account, at = AccountState.open("hr", 3, 1e-6), Fraction(1, 10**7)
    pure = AccountState.open("hr", 3, 1e-6, Pure())
    plan = pure.charge_together([NOISY] * 10, certified_delta=at)
    assert float(plan.budget.spent) == certified(compose(*[NOISY] * 10), at).upper
    assert plan.budget.delta_spent == at
    with pytest.raises(BudgetExceeded):
        pure.charge_together([NOISY] * 10)  # Gaussian noise has no pure ε
    with pytest.raises(BudgetExceeded, match=r"This costs δ = .* remains\. No ε helps: declare the group keys"):
        pure.charge_together([NOISY] * 10, certified_delta=1e-5)
    assert account.charge_together([NOISY], certified_delta=at).budget.delta_spent == 0  # other currencies pay in their own


def test_a_family_speaks_of_one_unit_and_one_change() -> None:
    above = AccountState.open("all", 9)
    one, other = (AccountState.open(name, 5, parent=above) for name in ("one", "other"))
    paid = one.charge_cost(Fraction(1), Fraction(0)).charge_cost(Fraction(1), Fraction(0), "id: replace one unit")
    assert [each.privacy_unit for each in paid.lineage] == ["id: replace one unit"] * 2
    assert paid.charge_cost(Fraction(1), Fraction(0)).privacy_unit == "id: replace one unit"
    sibling = replace(other, parent=paid.parent)
    assert sibling.charge_cost(Fraction(1), Fraction(0), "id: replace one unit").privacy_unit == "id: replace one unit"
    for purse in (paid, sibling):
        with pytest.raises(BadParameter, match="open another account"):
            purse.charge_cost(Fraction(1), Fraction(0), "id: add or remove one unit")


def test_one_order_pays_for_no_leak() -> None:
    with pytest.raises(BudgetExceeded):
        AccountState.open("hr", 3, 1e-6, Rdp(Fraction(16))).charge(ThresholdEvent(Fraction(10), 200, 1))


def test_every_keeper_is_a_purse() -> None:
    purse: Account = MemoryAccount(create_budget(1, 0))
    first = purse.reserve(compose(half()), measurement="m", id="q")
    assert first == purse.reserve(compose(half()), measurement="m")
    with pytest.raises(BadParameter, match="belongs to another measurement"):
        purse.reserve(compose(half()), measurement="other", id="q")
    assert purse.budget.remaining == Fraction(1, 2)
