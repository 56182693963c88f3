"""0.1 means one tenth, in budgets and in costs: n queries of b/n use up a budget of b, exactly."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import BudgetExceeded, Laplace, Threshold, _numbers, pure
from discreet._numbers import read_decimal, read_positive, read_probability, to_rational
from discreet.accounting import currencies
from discreet.accounting.currencies import MAX_DENOMINATOR_BITS, Currency, Filter, Gdp, Pure, Rdp, Zcdp, create_budget
from discreet.errors import BadParameter
from discreet.events import Event, compose
from discreet.ledger import open_ledger
from discreet.ledger.account import AccountState
from discreet.ledger.memory import MemoryAccount
from discreet.mechanisms import DiscreteGaussian
from discreet.query.calibrate import least_error_mechanism
from discreet.session.session import Session
from discreet.units import count
from tests.support.people import BY_DEPARTMENT
from tests.support.people import session as open_session

PARTS = (1, 2, 4, 5, 8, 10, 16, 20, 25, 40, 50)  # of a decimal they are decimals
typed = st.builds(lambda digits, places: digits / 10**places, st.integers(1, 10**6), st.integers(0, 6))


def uses_up(budget: Filter, event: Event, times: int) -> bool:
    """Return whether exactly so many of these events fit."""
    for _ in range(times):
        budget = budget.charge_cost(*budget.currency.cost(event), MAX_DENOMINATOR_BITS)
    with pytest.raises(BudgetExceeded):
        budget.charge(event)
    return budget.remaining == 0


@settings(deadline=None)
@given(typed, st.sampled_from(PARTS))
def test_n_costs_of_a_typed_share_use_up_a_typed_budget(whole: float, parts: int) -> None:
    share = float(Decimal(repr(whole)) / parts)
    assert uses_up(currencies.pure_filter(whole), Laplace.for_epsilon(share, 1).event(1), parts)
    assert uses_up(create_budget(whole, 0), compose(*[Laplace.for_epsilon(share / 2, 1).event(1)] * 2), parts)
    budget = currencies.zcdp_filter(whole)
    uses_up(budget, DiscreteGaussian.for_rho(share, 1).event(1), parts)  # a scale is rounded up: almost nothing remains


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 999), st.integers(5, 9), st.sampled_from(PARTS))
def test_n_deltas_use_up_a_delta(digits: int, places: int, parts: int) -> None:
    whole = digits / 10**places
    share = float(Decimal(repr(whole)) / parts)
    account, event = AccountState.open("hr", 1000, whole, Pure()), Laplace(1).event(1)
    for _ in range(parts):
        account = account.charge(event, certified_delta=share)
    assert account.budget.delta_spent == account.budget.delta_limit
    with pytest.raises(BudgetExceeded, match="δ"):
        account.charge(event, certified_delta=share)
    selection, budget = Threshold.for_epsilon(1, share, 1).event(1), currencies.pure_filter(1000, whole)
    for _ in range(parts):
        budget = budget.charge(selection)


@pytest.mark.parametrize("currency", [Pure(), Zcdp(), Gdp(), Rdp(Fraction(16))], ids=str)
@settings(deadline=None)
@given(typed.filter(lambda x: x < 100), st.sampled_from(PARTS))
def test_in_every_currency_the_noise_of_an_equal_share_fits_as_often_as_it_should(
    currency: Currency, whole: float, parts: int
) -> None:
    limit = read_decimal(whole)
    share = limit / parts * (1 - Fraction(1, 1 << 110))  # a budget keeps 128 bits of a sum, and rounds each of them up
    uses_up(Filter(currency, limit), least_error_mechanism(count(), currency, share).event(count()), parts)


def ask_until_refused(session: Session, share: float, times: int) -> None:
    for _ in range(times):
        session.ask(BY_DEPARTMENT, epsilon=share, fresh=True)
    assert session.account.budget.remaining == 0
    with pytest.raises(BudgetExceeded, match="used up"):
        session.ask(BY_DEPARTMENT, epsilon=share, fresh=True)


@pytest.mark.parametrize(("whole", "share", "times"), [(1, 0.1, 10), (0.7, 0.1, 7), (0.3, 0.1, 3), (2.2, 0.55, 4)])
def test_ten_queries_of_a_tenth_use_up_a_budget_of_one(whole: float, share: float, times: int, tmp_path: Path) -> None:
    ask_until_refused(open_session(epsilon=whole), share, times)
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", epsilon=whole)
    ask_until_refused(open_session(epsilon=None, ledger=tmp_path / "hr.ledger", account="hr"), share, times)


def test_binary_reading_is_the_mutant_that_these_tests_catch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 9 * to_rational(0.1) + to_rational(0.1) > 1
    budget = currencies.pure_filter(1)
    for module in ("discreet.mechanisms.laplace", "discreet.query.calibrate"):
        monkeypatch.setattr(f"{module}.read_positive", _numbers.check_positive)
    with pytest.raises(BudgetExceeded):
        uses_up(budget, Laplace.for_epsilon(0.1, 1).event(1), 10)
    with pytest.raises(BudgetExceeded) as refused:
        ask_until_refused(open_session(epsilon=1), 0.1, 10)
    cost, remaining = str(refused.value).removeprefix("This costs ε = ").split(", and ε = ")
    assert cost != remaining.split()[0], "a refusal shows enough digits to distinguish the two amounts"


@settings(deadline=None)
@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_number_is_read_as_it_is_shown_and_a_suggested_epsilon_fits(value: float) -> None:
    assert read_decimal(value) == Fraction(repr(value))
    assert float(read_decimal(value)) == value
    assert to_rational(value) == Fraction(value)
    remaining = to_rational(value)
    refused = BudgetExceeded("ε", cost=2 * remaining, remaining=remaining, fitting_epsilon=remaining)
    assert read_decimal(float(str(refused).split("epsilon=")[1].split()[0])) <= remaining


def test_numbers_that_are_no_floats_are_read_exactly() -> None:
    for value in (3, Fraction(1, 3), Decimal("0.1"), np.float64(0.1), np.int64(7)):
        assert read_decimal(value) == (Fraction(1, 10) if isinstance(value, float) else Fraction(value))
    for bad in (float("nan"), float("inf"), -0.1, 0.0, True, "0.1"):
        with pytest.raises(BadParameter, match="epsilon"):
            read_positive(bad, "epsilon")  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="delta"):
        read_probability(1.0, "delta")


def test_scales_are_read_at_their_binary_value() -> None:
    assert Laplace(0.1).scale == Fraction(0.1)
    assert pure(Laplace.for_epsilon(0.1, 1).event(1)) == Fraction(1, 10)


def test_an_account_in_memory_has_the_typed_budget() -> None:
    account = MemoryAccount(create_budget(0.1, 1e-6, Pure()))
    assert (account.budget.limit, account.budget.delta_limit) == (Fraction(1, 10), Fraction(1, 10**6))
