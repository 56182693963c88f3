"""Any interleaving of asks, retries, crashes and reopenings equals a serial history of a model of three lines."""

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discreet.errors import BadParameter, BudgetExceeded
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.memory import MemoryAccount, create_budget
from discreet.ledger.store import Account, CachedAnswer
from discreet.query.answer import Receipt
from tests.ledger.conftest import MEMORY

PRICES = [Fraction(1, 3), Fraction(1, 4), Fraction(1, 7)]


@dataclass
class Paid:
    id: str | None
    question: int
    answer: bytes | None = None


def model(history: list[Paid], id: str | None, question: int, fresh: bool) -> Paid | None:
    """Who asks again gets what is there; who can pay pays; nobody else gets anything."""
    known = [p for p in history if id and p.id == id] or [p for p in history if p.question == question and not fresh]
    fits = sum(PRICES[p.question] for p in history) + PRICES[question] <= 1
    return min(known, key=lambda p: p.answer is None) if known else Paid(id, question) if fits else None


asks = st.tuples(st.just("ask"), st.sampled_from([None, "a", "b", "c"]), st.integers(0, 2), st.booleans(), st.integers(0, 1))
records = st.tuples(st.just("record"), st.integers(0, 5), st.integers(0, 1))
reopenings = st.tuples(st.just("reopen"), st.integers(0, 1))
histories = st.lists(st.one_of(asks, asks, records, reopenings), max_size=24)


class Keeper:
    """Two handles to one purse; a crash is a receipt that nobody records."""

    def __init__(self, make: Any) -> None:
        self.make, self.hands = make, [make(), make()]

    def reopen(self, hand: int) -> None:
        self.hands[hand] = self.make()

    def __getitem__(self, hand: int) -> Account:
        return self.hands[hand]  # type: ignore[no-any-return]


def agrees(keeper: Keeper, operations: list[Any]) -> None:
    """Run both; every result must be the same."""
    history: list[Paid] = []
    pending: list[tuple[Receipt, Paid]] = []
    for number, operation in enumerate(operations):
        if operation[0] == "reopen":
            keeper.reopen(operation[1])
        elif operation[0] == "record" and operation[1] < len(pending):
            receipt, paid = pending[operation[1]]
            paid.answer = paid.answer or str(number).encode()
            assert keeper[operation[2]].record(receipt, str(number).encode()) == paid.answer
        elif operation[0] == "ask":
            _, id, question, fresh, hand = operation
            asked(keeper[hand], history, pending, id, question, fresh)
        assert keeper[0].budget.spent == sum((PRICES[p.question] for p in history), Fraction(0))


def asked(purse: Account, history: list[Paid], pending: list[Any], id: str | None, question: int, fresh: bool) -> None:
    expected = model(history, id, question, fresh)
    loss = compose(Claim(PRICES[question], Fraction(0)))
    try:
        got = purse.reserve(loss, measurement=f"m{question}", id=id, fresh=fresh)
    except BudgetExceeded:
        assert expected is None
        return
    except BadParameter:
        assert expected is not None
        assert expected.question != question
        return
    assert expected is not None
    assert expected.question == question
    if isinstance(got, CachedAnswer):
        assert got.answer == expected.answer
        return
    assert expected.answer is None
    if not any(expected is paid for paid in history):
        history.append(expected)
    pending.append((got, expected))


@settings(max_examples=150, deadline=None)
@given(histories)
def test_a_purse_in_memory(operations: list[Any]) -> None:
    one = MemoryAccount(create_budget(1, 0))
    agrees(Keeper(lambda: one), operations)


@settings(max_examples=120, deadline=None)
@given(histories)
def test_a_ledger_in_a_file(operations: list[Any]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, open_ledger(f"{folder}/l", create=True) as ledger:
        ledger.open_account("hr", 1)
        agrees(Keeper(lambda: open_ledger(f"{folder}/l").get_account("hr")), operations)
        assert check_ledger(ledger).is_valid


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=histories)
def test_a_ledger_in_postgres(server: str, operations: list[Any]) -> None:
    name = uuid4().hex
    with open_ledger(server, create=True) as ledger:
        ledger.open_account(name, 1)
        agrees(Keeper(lambda: open_ledger(server).get_account(name)), operations)
        assert check_ledger(ledger).is_valid


def test_the_model_notices_a_purse_that_forgets() -> None:
    class Forgetful(MemoryAccount):
        """The wrong twin: after a crash it debits again."""

        def reserve(self, event: Any, **given: Any) -> Any:
            return self.pay(event)

    twin = Forgetful(create_budget(1, 0))
    try:
        agrees(Keeper(lambda: twin), [("ask", "a", 2, False, 0), ("reopen", 0), ("ask", "a", 2, False, 0)])
    except AssertionError:
        return
    raise AssertionError("nobody noticed")
