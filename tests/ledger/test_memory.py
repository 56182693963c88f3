"""An account in memory; tests/ledger/test_chain.py compares it with the model that every ledger follows."""

from fractions import Fraction

import pytest

from discreet.errors import BadParameter
from discreet.events import Claim, compose
from discreet.ledger.account import Account, CachedAnswer
from discreet.ledger.memory import MemoryAccount, create_budget

HALF = compose(Claim(Fraction(1, 2), Fraction(0)))


def test_a_measurement_is_debited_once_and_an_id_belongs_to_it() -> None:
    account: Account = MemoryAccount(create_budget(1, 0))
    first = account.reserve(HALF, measurement="m", id="q")
    assert first == account.reserve(HALF, measurement="m")
    with pytest.raises(BadParameter, match="belongs to another measurement"):
        account.reserve(HALF, measurement="other", id="q")
    assert account.budget.remaining == Fraction(1, 2)


def test_of_two_debits_the_one_with_an_answer_is_reused() -> None:
    account = MemoryAccount(create_budget(1, 0))
    first, second = (account.reserve(HALF, measurement="m", id=id, fresh=True) for id in ("a", "b"))
    assert account.reserve(HALF, measurement="m") == first
    account.record(second, b"40")  # type: ignore[arg-type]
    assert account.reserve(HALF, measurement="m") == CachedAnswer(second.entry, "b", b"40")
    assert account.budget.remaining == 0


def test_an_account_in_memory_has_one_privacy_unit() -> None:
    account = MemoryAccount(create_budget(1, 0))
    account.reserve(HALF, measurement="m", privacy_unit="id: add or remove one unit")
    with pytest.raises(BadParameter, match=r"^neighbours is .*or open another account"):
        account.reserve(HALF, measurement="n", privacy_unit="id: replace one unit")
    assert account.budget.remaining == Fraction(1, 2)
