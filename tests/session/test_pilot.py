"""A pilot is a question like any other: paid first, for good, and part of the price of what it was asked for."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet._numbers import Number, to_rational
from discreet.accounting.currencies import Pure, Rdp, Receipt, Zcdp
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter, BudgetExceeded, QueryRefused
from discreet.events import Composition
from discreet.ledger.memory import MemoryAccount
from discreet.session.session import Session
from discreet.testing import seeded_bits
from tests.query.test_quote import blind
from tests.support.people import BY_DEPARTMENT, session

MEAN = "SELECT AVG(pay) AS m FROM people"
MEANS = "SELECT dept, AVG(pay) AS m FROM people GROUP BY dept"


class Forgetful(MemoryAccount):
    """The wrong twin: the first entry is written and not charged."""

    def _pay(self, event: Composition, certified_delta: Number = 0) -> Receipt:
        paid = super()._pay(event, certified_delta)
        if paid.entry == 1:
            self._budget = replace(self._budget, spent=Fraction(0))
        return paid


def all_is_charged(asked: Session, question: str) -> bool:
    answer = asked.ask(question, error="5%", pilot=1, bits=seeded_bits(1))
    assert answer.cost is not None
    owed, _ = asked.account.budget.currency.cost(answer.event)
    kept = to_rational(owed)  # an account keeps 128 bits of it, rounded up
    return owed == answer.cost.amount and kept <= asked.account.budget.spent <= kept * (1 + Fraction(1, 1 << 100))


@pytest.mark.parametrize("question", [MEAN, MEANS, BY_DEPARTMENT])
@pytest.mark.parametrize("kept", [None, Pure(), Zcdp(), Rdp(Fraction(16))])
def test_the_pilot_and_the_question_are_charged(question: str, kept: Any) -> None:
    asked = session(delta=0 if kept is None else 1e-6, epsilon=5, currency=kept)
    assert all_is_charged(asked, question)
    assert asked.account.budget.remaining >= 0


def test_the_law_notices_a_pilot_that_is_not_charged() -> None:
    asked = session(epsilon=5)
    assert not all_is_charged(replace(asked, account=Forgetful(asked.account.budget)), MEAN)


@pytest.mark.parametrize(("question", "size"), [(MEAN, 1000), (MEANS, 100), (f"{MEAN} WHERE dept = 'b'", 300)])
def test_the_size_is_the_lower_end_and_the_price_follows_from_it(question: str, size: int) -> None:
    asked = session(epsilon=2000)
    answer = asked.ask(question, error="5%", pilot=1000)  # so much that nothing is left to chance
    assert answer.cost is not None
    assert answer.cost.amount == 1000 + asked.find_epsilon(question, "5%", size=size)
    assert f"at least {size:,} rows" in answer.explanation
    assert "found by a private pilot count" in answer.explanation
    assert ("smallest reliable group, c" in answer.explanation) == ("GROUP BY" in question)


def test_groups_that_cannot_be_told_are_passed_over() -> None:
    asked = session(epsilon=2000, keys={"dept": ("a", "nobody", "b")})
    assert "300 rows in the smallest reliable group, b" in asked.ask(MEANS, error="5%", pilot=1000).explanation


def test_the_epsilon_of_both_is_what_the_currency_promises() -> None:
    asked = session(epsilon=5, delta=1e-6)
    answer = asked.ask(MEAN, error="5%", pilot=Fraction(1, 2), bits=seeded_bits(2))
    assert answer.cost is not None
    assert answer.cost.amount == zcdp(answer.event)
    assert answer.cost.epsilon.upper == replace(asked.account.budget, limit=answer.cost.amount).epsilon(Fraction(1e-6))
    assert answer.cost.epsilon.upper < 5
    assert answer.cost.remaining == asked.account.budget.remaining


REFUSED: list[tuple[str, dict[str, Any]]] = [
    (MEAN, {"pilot": 0, "error": "5%"}),
    (MEAN, {"pilot": 0.1}),
    (MEAN, {"pilot": 0.1, "epsilon": 1}),
    (MEAN, {"pilot": 0.1, "epsilon": 1, "error": "5%"}),
    (MEAN, {"pilot": 0.1, "error": "5%", "size": 100}),
    (MEAN, {"pilot": 0.1, "error": "much"}),
    (MEAN, {"pilot": 0.1, "error": "5%", "confidence": 2}),
    (MEAN, {"pilot": 0.1, "error": "5%", "weights": {"x": 1}}),
    (BY_DEPARTMENT, {"pilot": 0.1, "error": 5}),
    ("SELECT id, COUNT(*) AS n FROM people GROUP BY id", {"pilot": 0.1, "error": "5%"}),
    ("SELECT pay FROM people", {"pilot": 0.1, "error": "5%"}),
]


@pytest.mark.parametrize(("question", "wrong"), REFUSED)
def test_what_can_be_refused_is_refused_before_the_pilot_is_paid_for(question: str, wrong: dict[str, Any]) -> None:
    asked = blind(delta=1e-6)
    with pytest.raises((BadParameter, QueryRefused)):
        asked.ask(question, **wrong)
    assert asked.account.budget.spent == 0


def spent(asked: Session, refused: type[Exception], act: Callable[[Session], Any]) -> Fraction:
    with pytest.raises(refused):
        act(asked)
    return asked.account.budget.spent


def test_a_pilot_stays_paid_when_the_question_is_refused() -> None:
    small = session(epsilon=1, keys={"dept": ("nobody", "none")})
    assert spent(small, QueryRefused, lambda s: s.ask(MEANS, error="5%", pilot=0.5, bits=seeded_bits(1))) == Fraction(1, 2)
    dear = session(epsilon=1)
    assert spent(dear, BudgetExceeded, lambda s: s.ask(MEAN, error="0.1%", pilot=0.5)) == Fraction(1, 2)


def test_a_quote_runs_no_pilot_and_without_one_both_ways_are_named() -> None:
    with pytest.raises(QueryRefused, match="reads no row"):
        session().quote(MEAN, error="5%", pilot=0.1)
    with pytest.raises(QueryRefused, match=r"size=.*pilot="):
        session().ask(MEAN, error="5%")
