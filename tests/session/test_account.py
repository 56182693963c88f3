"""The account: paid first, paid for good, never overspent, and short fractions for life."""

import threading
from fractions import Fraction
from typing import Any

import pytest

from discreet._numbers import read_decimal
from discreet.accounting.currencies import Filter, Gdp, Pure, Rdp, Receipt, Zcdp
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed, SourceRefused
from discreet.events import Composition, GaussianEvent, compose
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.mechanisms import Laplace
from discreet.units import to_sensitivity
from tests.support.people import BY_DEPARTMENT, EVERYTHING, people, session


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_refusals_say_what_would_fit_and_it_does(delta: float) -> None:
    asked = session(epsilon=1, delta=delta)
    asked.ask(EVERYTHING, epsilon=0.3)
    before = asked.account.budget
    with pytest.raises(BudgetExceeded, match="would fit") as refused:
        asked.ask(EVERYTHING, epsilon=1)
    assert asked.account.budget == before
    fitting = float(str(refused.value).split("epsilon=")[1].split()[0])
    assert read_decimal(fitting) <= refused.value.fitting_epsilon  # type: ignore[operator]
    with pytest.raises(BudgetExceeded):
        asked.ask(EVERYTHING, epsilon=fitting * 1.001)
    asked.ask(EVERYTHING, epsilon=fitting)


def test_a_budget_that_is_used_up_says_so() -> None:
    asked = session(epsilon=1)
    asked.ask(BY_DEPARTMENT, epsilon=1)
    with pytest.raises(BudgetExceeded, match="used up"):
        asked.ask(BY_DEPARTMENT, epsilon=Fraction(1, 1000))


@pytest.mark.parametrize("currency", [None, Pure(), Zcdp()])
@pytest.mark.parametrize("keys", [{}, {"dept": ("a", "b")}])
@pytest.mark.parametrize("max_groups", [1, 3])
def test_a_question_at_the_whole_budget_fits(currency: Any, keys: Any, max_groups: int) -> None:
    asked = session(epsilon=0.7, delta=1e-6, currency=currency, keys=keys, unique=False, max_groups=max_groups)
    quoted = asked.quote(EVERYTHING, epsilon=0.7)
    answer = asked.ask(EVERYTHING, epsilon=0.7)
    assert answer.cost is not None
    assert answer.cost.epsilon == quoted.cost.epsilon
    assert answer.cost.epsilon.upper <= 0.7
    assert asked.account.budget.remaining < asked.account.budget.limit / 1000


def test_an_account_in_gaussian_dp() -> None:
    asked = session(epsilon=0.7, delta=1e-6, currency=Gdp(), keys={})
    assert asked.ask(BY_DEPARTMENT, epsilon=0.7).cost.epsilon.upper <= 0.7  # type: ignore[union-attr]


def test_an_account_at_one_rényi_order() -> None:
    asked = session(epsilon=2, delta=1e-6, currency=Rdp(Fraction(16)))
    assert asked.ask(BY_DEPARTMENT, epsilon=2).cost.to_dict()["currency"] == "rdp(16)"  # type: ignore[union-attr]
    with pytest.raises(BadParameter):
        session(epsilon=2, currency=Zcdp())


def test_fractions_stay_short_however_long_the_history() -> None:
    account = MemoryAccount(create_budget(100, 1e-6))
    true, sizes = Fraction(0), []
    for i in range(200):
        loss = GaussianEvent(Fraction(10**30 + i**3, 10**28), to_sensitivity(1))
        account.pay(compose(loss))
        true += Zcdp().cost(loss)[0]  # type: ignore[operator]
        sizes.append(account.budget.spent.denominator.bit_length())
    assert true.denominator.bit_length() > 10_000
    assert max(sizes) < 200
    assert true <= account.budget.spent <= true * (1 + Fraction(1, 2**100))


def test_thirds_are_still_thirds() -> None:
    account = MemoryAccount(create_budget(1, 0))
    for _ in range(3):
        account.pay(compose(Laplace(3).event(1)))
    assert account.budget.remaining == 0


class Racy(MemoryAccount):
    """The wrong twin: looks at the balance, is interrupted, then writes."""

    def pay(self, event: Composition) -> Receipt:
        after = self._budget.charge(event)
        threading.Event().wait(0.0005)
        self._budget = after
        self._entries += 1
        return Receipt(self._entries, event, after.remaining)


def paid_by_eight_threads(account: MemoryAccount, each: int) -> int:
    loss, paid, start = compose(Laplace(10).event(1)), [], threading.Barrier(8)

    def spend() -> None:
        start.wait()
        for _ in range(each):
            try:
                paid.append(account.pay(loss))
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(paid)


def test_eight_threads_never_overspend_and_the_racy_twin_does() -> None:
    assert paid_by_eight_threads(MemoryAccount(create_budget(5, 0)), each=100) == 50
    assert paid_by_eight_threads(Racy(create_budget(5, 0)), each=100) > 50


def test_eight_threads_ask_one_session() -> None:
    asked, answers = session(epsilon=3), []

    def ask() -> None:
        while True:
            try:
                answers.append(asked.ask(BY_DEPARTMENT, epsilon=Fraction(1, 20), fresh=True))
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 60
    assert asked.account.budget.remaining == 0
    assert len({answer.cost.remaining for answer in answers if answer.cost}) == 60


def test_what_is_paid_stays_paid_when_the_engine_fails() -> None:
    asked = session(epsilon=1, source=people())
    asked.engine.connection.execute("DROP TABLE people")
    with pytest.raises((EngineFailed, SourceRefused), match=r"Details are in the owner.s log"):
        asked.ask(BY_DEPARTMENT, epsilon=Fraction(1, 4))
    assert asked.account.budget.remaining == Fraction(3, 4)


def test_what_can_be_refused_is_refused_before_it_is_paid_for() -> None:
    asked = session(epsilon=1)
    for wrong in ({"confidence": 2}, {"confidence": 0.0}, {"epsilon": -1}, {"epsilon": 0}):
        with pytest.raises(BadParameter):
            asked.ask(BY_DEPARTMENT, **({"epsilon": 1} | wrong))  # type: ignore[arg-type]
    assert asked.account.budget == Filter(Pure(), Fraction(1))
