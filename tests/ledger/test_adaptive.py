"""An analyst who chooses each next scale after the last answer never spends more than the budget promised."""

import random
from collections.abc import Iterator
from fractions import Fraction

import pytest

from discreet.accounting.currencies import Currency, Gdp, Pure, Rdp, Zcdp
from discreet.accounting.curve import epsilon as certified
from discreet.errors import BudgetExceeded
from discreet.events import DiscreteLaplaceEvent, Event, GaussianEvent, ThresholdEvent, compose
from discreet.ledger.account import AccountState
from discreet.units import to_sensitivity

EPSILON, DELTA = Fraction(2), Fraction(1, 10**6)


def greedy(answers: random.Random, currency: Currency) -> Iterator[Event]:
    """Whenever an answer looks promising the next question is sharper, else vaguer; sometimes keys are selected."""
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
    """The wrong twin: every question is held against the whole budget."""

    def charge_cost(self, amount: Fraction, delta: Fraction) -> AccountState:
        super().charge_cost(amount, delta)
        return self


def realised(account: AccountState, seed: int) -> tuple[float, int]:
    """The certified ε of all that such an analyst got, and how many answers that was."""
    facts: list[Event] = []
    for loss in greedy(random.Random(seed), account.budget.currency):
        try:
            account = account.charge(loss)
        except BudgetExceeded:
            break
        facts.append(loss)
        if len(facts) == 60:
            break
    return certified(compose(*facts), DELTA).upper, len(facts)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("currency", [Pure(), Zcdp(), Gdp(), Rdp(Fraction(12))])
def test_what_was_realised_is_within_the_promise(currency: Currency, seed: int) -> None:
    spent, answers = realised(AccountState.open("hr", EPSILON, DELTA, currency), seed)
    assert answers >= 1
    assert spent <= EPSILON


def test_a_twin_that_forgets_goes_over() -> None:
    honest = AccountState.open("hr", EPSILON, DELTA, Zcdp())
    twin = Forgetful(honest.name, honest.budget, honest.delta)
    assert max(realised(twin, seed)[0] for seed in range(3)) > EPSILON
