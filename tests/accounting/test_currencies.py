"""Currencies are objects that the rest of discreet uses through `Currency` alone; filters keep exact sums, refuse without a
change, and accept nothing that they must not.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import connect
from discreet._numbers import ceil_float
from discreet.accounting import currencies, pure
from discreet.accounting.conversions import epsilon_from_zcdp
from discreet.accounting.currencies import (
    COMPARED_CURRENCIES,
    CURRENCY_FAMILIES,
    Currency,
    Filter,
    create_budget,
    parse_currency,
)
from discreet.accounting.divergences import hockey_stick
from discreet.accounting.pld.gaussian import gaussian_epsilon
from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import (
    Claim,
    DiscreteGaussianEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    OptimalPartitionSelectionEvent,
    ThresholdEvent,
)
from discreet.units import to_sensitivity
from tests.support.every_event import EVERY

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
    with pytest.raises(
        BudgetExceeded, match=r"ε = 0\.75 remains \(mε = 800, and mε = 750 remains\)\. epsilon=0\.75 would fit"
    ):
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


OPEN = {
    "pure": currencies.pure_filter(100, 0.5),
    "zcdp": currencies.zcdp_filter(100, 0.5),
    "rdp": currencies.rdp_filter(8, 100),
    "gdp": currencies.gdp_filter(100, 0.5),
}


@pytest.mark.parametrize("currency", OPEN)
@pytest.mark.parametrize("name", EVERY)
def test_every_event_is_charged_or_refused_with_its_cost(currency, name):
    budget = OPEN[currency]
    amount, delta = budget.currency.cost(EVERY[name])
    if amount > budget.remaining or delta > budget.delta_remaining:
        with pytest.raises(BudgetExceeded) as refusal:
            budget.charge(EVERY[name])
        assert refusal.value.cost > refusal.value.remaining
        return
    after = budget.charge(EVERY[name])
    assert after.spent == amount
    assert after.delta_spent == delta
    assert after.remaining + after.spent == budget.limit
    assert budget.spent == 0


@given(spent=st.fractions(0, 9), amount=st.fractions(0, 9), delta=st.fractions(0, 1))
def test_sums_of_a_filter_are_exact(spent: Fraction, amount: Fraction, delta: Fraction) -> None:
    before = Filter(currencies.Pure(), Fraction(20), Fraction(1), spent)
    after = before.charge_cost(amount, delta)
    sums = after.spent, after.remaining, after.delta_spent, after.delta_remaining
    expected = spent + amount, 20 - (spent + amount), delta, 1 - delta
    assert [each.as_integer_ratio() for each in sums] == [each.as_integer_ratio() for each in expected], "in lowest terms"


@given(st.lists(st.fractions(Fraction(1, 1000), Fraction(1, 10)), max_size=20))
@settings(max_examples=50, deadline=None)
def test_a_budget_is_never_overdrawn_and_never_wasted(costs):
    """Greedy spending against exact arithmetic: everything that fits is let through, nothing else."""
    budget, spent = currencies.pure_filter(Fraction(1, 2)), Fraction(0)
    for cost in costs:
        if spent + cost <= Fraction(1, 2):
            budget, spent = budget.charge(Claim(cost, Fraction(0))), spent + cost
            continue
        with pytest.raises(BudgetExceeded) as refusal:
            budget.charge(Claim(cost, Fraction(0)))
        assert refusal.value.remaining == Fraction(1, 2) - spent
    assert budget.spent == spent <= Fraction(1, 2)


def test_a_budget_can_be_spent_to_the_last_unit():
    """Ten times 1/10 is 1: no float drift leaves a crumb or takes one too many."""
    budget = currencies.pure_filter(1)
    for _ in range(10):
        budget = budget.charge(Claim(Fraction(1, 10), Fraction(0)))
    assert budget.remaining == 0
    with pytest.raises(BudgetExceeded):
        budget.charge(Claim(Fraction(1, 10**30), Fraction(0)))


def test_gaussians_in_a_gdp_filter_add_in_squares():
    budget = currencies.gdp_filter(1)
    for _ in range(100):
        budget = budget.charge(GaussianEvent(Fraction(10), to_sensitivity(1)))
    assert budget.remaining == 0


def test_delta_is_counted_apart():
    budget = currencies.gdp_filter(1, delta=1e-5)
    with pytest.raises(BudgetExceeded, match="This costs δ = "):
        budget.charge(ThresholdEvent(Fraction(10), 20, 1))
    after = budget.charge(OptimalPartitionSelectionEvent(Fraction(1, 10), Fraction(1, 10**6), 2))
    assert Fraction(199, 10**8) < after.delta_spent <= Fraction(2, 10**6)
    assert after.spent > 0


def test_rdp_refuses_every_delta():
    with pytest.raises(BudgetExceeded) as refusal:
        currencies.rdp_filter(8, 100).charge(Claim(Fraction(1, 100), Fraction(1, 10**9)))
    assert refusal.value.cost == inf


def test_the_discrete_gaussian_does_not_fit_a_gdp_filter():
    with pytest.raises(BudgetExceeded):
        currencies.gdp_filter(100).charge(DiscreteGaussianEvent(Fraction(100), to_sensitivity(1)))


def test_zcdp_and_pure_refuse_what_has_no_finite_cost():
    with pytest.raises(BudgetExceeded):
        currencies.pure_filter(100).charge(GaussianEvent(Fraction(100), to_sensitivity(1)))
    with pytest.raises(BudgetExceeded):
        currencies.zcdp_filter(100).charge(EVERY["binomial"])


def test_what_the_budget_guarantees():
    assert currencies.zcdp_filter(Fraction(1, 10)).epsilon(Fraction(1, 10**6)) == epsilon_from_zcdp(
        Fraction(1, 10), Fraction(1, 10**6)
    )
    with_leak = currencies.zcdp_filter(Fraction(1, 10), Fraction(1, 10**7)).epsilon(Fraction(1, 10**6))
    assert with_leak == epsilon_from_zcdp(Fraction(1, 10), Fraction(9, 10**7))
    assert currencies.zcdp_filter(Fraction(1, 10), Fraction(1, 10**6)).epsilon(Fraction(1, 10**6)) == inf
    assert currencies.gdp_filter(Fraction(1, 2)).epsilon(1e-6) == gaussian_epsilon(Fraction(1, 2), 1e-6).upper
    assert currencies.pure_filter(1, 1e-6).epsilon(1e-6) == 1
    assert currencies.pure_filter(1, 1e-6).epsilon(1e-7) == inf
    assert 0 < currencies.rdp_filter(16, Fraction(1, 2)).epsilon(1e-6) < 2


def test_there_is_no_filter_on_the_curve():
    made = {name for name in dir(currencies) if callable(getattr(currencies, name)) and name.islower() and name[0] != "_"}
    assert {"pure_filter", "zcdp_filter", "rdp_filter", "gdp_filter"} <= made
    assert not {"curve_filter", "basic_filter", "exact_filter", "best_order_filter"} & made


@pytest.mark.parametrize(
    "make", [lambda: currencies.pure_filter(0), lambda: currencies.zcdp_filter(-1), lambda: currencies.rdp_filter(1, 1)]
)
def test_impossible_budgets_are_refused(make):
    with pytest.raises(BadParameter):
        make()
    with pytest.raises(BadParameter):
        currencies.gdp_filter(1, delta=1)


def test_a_filter_on_the_curve_would_overspend():
    """Two continuations, each within δ at ε when declared in advance; the analyst's choice between them is not.

    First a response. After the answer that raised the loss, a second response; after the other one, a claim with a small δ.
    """
    epsilon = 1.5
    first = ({"+": Fraction(3, 4), "-": Fraction(1, 4)}, {"+": Fraction(1, 4), "-": Fraction(3, 4)})
    response = ({"+": Fraction(2, 3), "-": Fraction(1, 3)}, {"+": Fraction(1, 3), "-": Fraction(2, 3)})
    revealed = ({"shown": Fraction(126, 1000), "not": Fraction(874, 1000)}, {"not": Fraction(1)})

    def delta(after):
        p, q = ({(a, b): first[i][a] * after[a][i][b] for a in "+-" for b in after[a][i]} for i in (0, 1))
        return hockey_stick(p, q, epsilon)

    declared = [delta({"+": next_one, "-": next_one}) for next_one in (response, revealed)]
    budget = max(bounds.upper for bounds in declared)
    assert budget < 0.1266
    assert delta({"+": response, "-": revealed}).lower > 0.158 > budget


def test_stopping_at_the_best_order_so_far_overspends():
    """Why an order must be fixed in advance: two events that each fit at *some* order fit together at none."""
    heavy_tail, wide = LaplaceEvent(Fraction(1, 4), to_sensitivity(1)), GaussianEvent(Fraction(1, 2), to_sensitivity(1))
    budget = {order: currencies.rdp_filter(order, Fraction(5)) for order in (Fraction(5, 4), Fraction(64))}
    assert budget[Fraction(5, 4)].charge(wide).remaining > 0
    assert budget[Fraction(64)].charge(heavy_tail).remaining > 0
    for fixed in budget.values():
        with pytest.raises(BudgetExceeded):
            fixed.charge(heavy_tail).charge(wide)
