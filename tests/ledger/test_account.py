"""The rules of an account: budgets round down, parents cap, refusals suggest what fits, plans are one entry; and no analyst,
however adaptive, spends more than the budget guarantees."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from discreet.accounting.currencies import Currency, Gdp, Pure, Rdp, Zcdp, parse_currency
from discreet.accounting.curve import epsilon as certified
from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import Claim, DiscreteLaplaceEvent, Event, GaussianEvent, ThresholdEvent, compose
from discreet.ledger.account import AccountState
from discreet.mechanisms import Gaussian, Laplace
from discreet.units import to_sensitivity

CURRENCIES: list[Currency] = [Pure(), Zcdp(), Gdp(), Rdp(Fraction(16))]
NOISY = GaussianEvent(Fraction(40), to_sensitivity(1))


def half(epsilon: Fraction = Fraction(1, 2)) -> Event:
    return Claim(epsilon, Fraction(0))


@pytest.mark.parametrize("currency", CURRENCIES)
def test_a_budget_buys_no_more_than_its_epsilon(currency: Currency) -> None:
    account = AccountState.open("hr", 2, 1e-6, currency)
    assert account.budget.epsilon(account.delta) <= 2
    assert account.budget.delta_limit <= Fraction(1, 10**6)
    assert parse_currency(currency.name) == currency


def test_a_parent_caps_the_sum_of_its_children() -> None:
    everything = AccountState.open("all", Fraction(3, 2))
    child = AccountState.open("hr", 1, parent=everything)
    charged = child.charge(half())
    assert charged.parent is not None
    assert (charged.budget.remaining, charged.parent.budget.remaining, charged.debits, charged.parent.debits) == (
        Fraction(1, 2),
        1,
        1,
        0,
    )
    sibling = AccountState.open("it", 2, parent=charged.parent.charge(half(Fraction(3, 4))))
    with pytest.raises(BudgetExceeded) as refused:
        sibling.charge(half())
    assert refused.value.fitting_epsilon == Fraction(1, 4)
    assert sibling.budget.spent == 0
    sibling.charge(half(Fraction(1, 4)))


def test_a_parent_has_the_currency_of_its_children() -> None:
    with pytest.raises(BadParameter, match="it is kept in zcdp, and this account in gdp"):
        AccountState.open("hr", 1, 1e-6, Gdp(), parent=AccountState.open("all", 1, 1e-6, Zcdp()))
    with pytest.raises(BadParameter, match=r"it is kept in rdp\(9\), and this account in rdp\(8\)"):
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


def test_in_a_pure_account_a_plan_may_cost_its_certified_point() -> None:
    zcdp, delta = AccountState.open("hr", 3, 1e-6), Fraction(1, 10**7)
    pure = AccountState.open("hr", 3, 1e-6, Pure())
    plan = pure.charge_together([NOISY] * 10, certified_delta=delta)
    assert float(plan.budget.spent) == certified(compose(*[NOISY] * 10), delta).upper
    assert plan.budget.delta_spent == delta
    with pytest.raises(BudgetExceeded):
        pure.charge_together([NOISY] * 10)  # Gaussian noise has no pure ε
    with pytest.raises(BudgetExceeded, match=r"This costs δ = .* remains\. No ε helps: declare the group keys"):
        pure.charge_together([NOISY] * 10, certified_delta=1e-5)
    assert (
        zcdp.charge_together([NOISY], certified_delta=delta).budget.delta_spent == 0
    )  # other currencies have no use for it


def test_an_account_with_its_parents_has_one_privacy_unit_and_one_relation() -> None:
    parent = AccountState.open("all", 9)
    one, other = (AccountState.open(name, 5, parent=parent) for name in ("one", "other"))
    charged = one.charge_cost(Fraction(1), Fraction(0)).charge_cost(Fraction(1), Fraction(0), "id: replace one unit")
    assert [each.privacy_unit for each in charged.lineage] == ["id: replace one unit"] * 2
    assert charged.charge_cost(Fraction(1), Fraction(0)).privacy_unit == "id: replace one unit"
    sibling = replace(other, parent=charged.parent)
    assert sibling.charge_cost(Fraction(1), Fraction(0), "id: replace one unit").privacy_unit == "id: replace one unit"
    for account in (charged, sibling):
        with pytest.raises(BadParameter, match=r"^neighbours is .*or open another account"):
            account.charge_cost(Fraction(1), Fraction(0), "id: add or remove one unit")


def test_an_rdp_account_has_no_delta_for_partition_selection() -> None:
    with pytest.raises(BudgetExceeded):
        AccountState.open("hr", 3, 1e-6, Rdp(Fraction(16))).charge(ThresholdEvent(Fraction(10), 200, 1))


# An analyst who chooses each next scale after the last answer.

EPSILON, DELTA = Fraction(2), Fraction(1, 10**6)


def choose_events(answers: random.Random, currency: Currency) -> Iterator[Event]:
    """When an answer looks promising the next query has less noise, else more; sometimes keys are selected."""
    scale = Fraction(20)
    while True:
        noise = answers.gauss(0, float(scale))
        scale = max(Fraction(1), min(Fraction(200), scale * (Fraction(2, 3) if noise > 0 else Fraction(5, 4))))
        kind = answers.randrange(3)
        if kind == 0 and not isinstance(currency, Rdp):
            yield ThresholdEvent(scale, int(scale) * 25, 1)
        elif kind == 1 or isinstance(currency, Pure):
            yield DiscreteLaplaceEvent(scale, to_sensitivity(1))
        else:
            yield GaussianEvent(scale, to_sensitivity(1))


class Forgetful(AccountState):
    """A mutant: every query is compared with the whole budget."""

    def charge_cost(self, amount: Fraction, delta: Fraction) -> AccountState:
        super().charge_cost(amount, delta)
        return self


def spend_adaptively(account: AccountState, seed: int) -> tuple[float, int]:
    """Return the certified ε of all that such an analyst got, and how many answers that was."""
    events: list[Event] = []
    for event in choose_events(random.Random(seed), account.budget.currency):
        try:
            account = account.charge(event)
        except BudgetExceeded:
            break
        events.append(event)
        if len(events) == 60:
            break
    return certified(compose(*events), DELTA).upper, len(events)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("currency", [Pure(), Zcdp(), Gdp(), Rdp(Fraction(12))])
def test_an_adaptive_analyst_stays_within_epsilon(currency: Currency, seed: int) -> None:
    spent, answers = spend_adaptively(AccountState.open("hr", EPSILON, DELTA, currency), seed)
    assert answers >= 1
    assert spent <= EPSILON


def test_a_mutant_that_forgets_its_debits_exceeds_epsilon() -> None:
    correct = AccountState.open("hr", EPSILON, DELTA, Zcdp())
    mutant = Forgetful(correct.name, correct.budget, correct.delta)
    assert max(spend_adaptively(mutant, seed)[0] for seed in range(3)) > EPSILON


@pytest.mark.parametrize("currency", CURRENCIES, ids=str)
def test_a_refusal_leads_with_epsilon_and_what_it_proposes_fits(currency: Currency) -> None:
    delta = Fraction(1, 10**6)
    account, noise = AccountState.open("hr", 2, delta, currency), Gaussian if currency != Pure() else Laplace
    with pytest.raises(BudgetExceeded) as refused:
        account.charge(noise(Fraction(1, 4)).event(1))
    found = re.match(r"This costs ε = ([0-9.]+), and ε = ([0-9.]+) remains", str(refused.value))
    assert found is not None, str(refused.value)
    cost, remaining = map(Fraction, found.groups())
    assert remaining == 2 < cost
    assert currency.amount(cost, delta) >= refused.value.cost, "the cost is rounded up"
    assert ("ε" if currency == Pure() else f"({currency.symbol} = ") in str(refused.value)
    assert str(refused.value).endswith("epsilon=2 would fit.")


def test_a_refusal_states_one_account_and_an_epsilon_that_it_holds() -> None:
    """The account under a larger root has less: both ε and ρ are its own, and what would fit is not above what remains. The
    mutant states the ρ of the root, which is charged first."""
    root = AccountState.open("root", 3, 1e-6, Zcdp())
    account = AccountState.open("root/ada", Fraction("0.38874"), 1e-6, Zcdp(), parent=root)
    costs = GaussianEvent(Fraction(1, 2), to_sensitivity(1))  # more than the root holds, too
    with pytest.raises(BudgetExceeded) as refused:
        account.charge(costs)
    assert refused.value.remaining == account.budget.remaining
    remains, fits = re.findall(r"ε = (\S+) remains|epsilon=(\S+) would fit", str(refused.value))
    assert Fraction(fits[1]) <= Fraction(remains[0]) <= account.budget.fitting_epsilon(account.delta)
