"""The rules: budgets round down, parents cap, refusals say what fits, plans are one entry."""

from dataclasses import replace
from fractions import Fraction

import pytest

from discreet.accounting.curve import epsilon as certified
from discreet.accounting.filters import Currency, Gdp, Pure, Rdp, Zcdp
from discreet.errors import BadParameter, BudgetExceeded
from discreet.ledger.account import Account
from discreet.ledger.memory import MemoryAccount, budget
from discreet.ledger.store import Purse
from discreet.loss import Claim, GaussianLoss, Loss, ThresholdLoss, compose
from discreet.query.currency import name_of, named
from discreet.units import sensitivity

CURRENCIES: list[Currency] = [Pure(), Zcdp(), Gdp(), Rdp(Fraction(16))]
NOISY = GaussianLoss(Fraction(40), sensitivity(1))


def half(epsilon: Fraction = Fraction(1, 2)) -> Loss:
    return Claim(epsilon, Fraction(0))


@pytest.mark.parametrize("currency", CURRENCIES)
def test_a_budget_buys_no_more_than_it_promises(currency: Currency) -> None:
    account = Account.open("hr", 2, 1e-6, currency)
    assert account.kept.epsilon(account.delta) <= 2
    assert account.kept.leak_limit <= Fraction(1, 10**6)
    assert named(name_of(currency)) == currency


def test_a_parent_caps_the_sum_of_its_children() -> None:
    everything = Account.open("all", Fraction(3, 2))
    child = Account.open("hr", 1, parent=everything)
    paid = child.after(half())
    assert paid.parent is not None
    assert (paid.kept.left, paid.parent.kept.left, paid.debits, paid.parent.debits) == (Fraction(1, 2), 1, 1, 0)
    sibling = Account.open("it", 2, parent=paid.parent.after(half(Fraction(3, 4))))
    with pytest.raises(BudgetExceeded) as refused:
        sibling.after(half())
    assert refused.value.fitting == Fraction(1, 4)
    assert sibling.kept.spent == 0
    sibling.after(half(Fraction(1, 4)))


def test_a_parent_has_the_currency_of_its_children() -> None:
    with pytest.raises(BadParameter, match="another currency"):
        Account.open("hr", 1, 1e-6, Gdp(), parent=Account.open("all", 1, 1e-6, Zcdp()))
    with pytest.raises(BadParameter, match="another currency"):
        Account.open("hr", 4, 1e-6, Rdp(Fraction(8)), parent=Account.open("all", 4, 1e-6, Rdp(Fraction(9))))


@pytest.mark.parametrize("name", ["", " hr", "a\nb", "x" * 201, "nul\0"])
def test_names_that_some_store_could_not_hold(name: str) -> None:
    with pytest.raises(BadParameter, match="not a name"):
        Account.open(name, 1)


@pytest.mark.parametrize("currency", [Zcdp(), Gdp(), Rdp(Fraction(16))])
def test_a_plan_is_one_entry_at_the_sum_in_the_currency(currency: Currency) -> None:
    account = Account.open("hr", 3, 1e-6, currency)
    one_by_one = account
    for _ in range(10):
        one_by_one = one_by_one.after(NOISY)
    plan = account.after_plan([NOISY] * 10)
    assert plan.debits == 1
    assert plan.kept.spent <= one_by_one.kept.spent
    assert plan.kept.spent >= one_by_one.kept.spent * (1 - Fraction(1, 10**9))


def test_in_a_pure_account_a_plan_may_pay_its_certified_point() -> None:
    account, at = Account.open("hr", 3, 1e-6), Fraction(1, 10**7)
    pure = Account.open("hr", 3, 1e-6, Pure())
    plan = pure.after_plan([NOISY] * 10, at=at)
    assert float(plan.kept.spent) == certified(compose(*[NOISY] * 10), at).upper
    assert plan.kept.leaked == at
    with pytest.raises(BudgetExceeded):
        pure.after_plan([NOISY] * 10)  # Gaussian noise has no pure ε
    with pytest.raises(BudgetExceeded, match=r"δ for leaks.*no ε helps: use less δ"):
        pure.after_plan([NOISY] * 10, at=1e-5)
    assert account.after_plan([NOISY], at=at).kept.leaked == 0  # other currencies pay in their own


def test_a_family_speaks_of_one_unit_and_one_change() -> None:
    above = Account.open("all", 9)
    one, other = (Account.open(name, 5, parent=above) for name in ("one", "other"))
    paid = one.paid(Fraction(1), Fraction(0)).paid(Fraction(1), Fraction(0), "id: replace one unit")
    assert [each.whose for each in paid.line] == ["id: replace one unit"] * 2
    assert paid.paid(Fraction(1), Fraction(0)).whose == "id: replace one unit"
    sibling = replace(other, parent=paid.parent)
    assert sibling.paid(Fraction(1), Fraction(0), "id: replace one unit").whose == "id: replace one unit"
    for purse in (paid, sibling):
        with pytest.raises(BadParameter, match="open another one"):
            purse.paid(Fraction(1), Fraction(0), "id: add or remove one unit")


def test_one_order_pays_for_no_leak() -> None:
    with pytest.raises(BudgetExceeded):
        Account.open("hr", 3, 1e-6, Rdp(Fraction(16))).after(ThresholdLoss(Fraction(10), 200, 1))


def test_every_keeper_is_a_purse() -> None:
    purse: Purse = MemoryAccount(budget(1, 0))
    first = purse.reserve(compose(half()), measurement="m", id="q")
    assert first == purse.reserve(compose(half()), measurement="m")
    with pytest.raises(BadParameter, match="belongs to another measurement"):
        purse.reserve(compose(half()), measurement="other", id="q")
    assert purse.budget.left == Fraction(1, 2)
