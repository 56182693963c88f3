"""A small ledger with every kind of entry in it but a rotated key."""

from fractions import Fraction
from pathlib import Path

from discreet.accounting.currencies import Receipt
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.chain import Ledger
from discreet.ledger.quarantine import FailureKind

THIRD = compose(Claim(Fraction(1, 3), Fraction(0)))


def debit_and_record(ledger: Ledger, number: int, answer: bytes = b"about 40", account: str = "hr") -> Receipt:
    """Debit one measurement and record its answer."""
    charged = ledger.get_account(account)
    receipt = charged.reserve(THIRD, measurement=f"m{number}", id=f"q{number}")
    assert isinstance(receipt, Receipt)
    charged.record(receipt, answer)
    return receipt


def make_small_ledger(location: str | Path, answers: int = 2) -> Ledger:
    """Two accounts, some answers, one debit without one, and two sources with failures, one of them lifted."""
    ledger = open_ledger(location, create=True)
    ledger.open_account("all", 9)
    ledger.open_account("hr", 5, parent="all")
    for number in range(answers):
        debit_and_record(ledger, number)
    ledger.get_account("hr").reserve(THIRD, measurement="crashed", id="crashed")
    ledger.quarantine.record_failure("slow.csv", FailureKind.RESOURCE)
    ledger.quarantine.record_failure("corrected.csv", FailureKind.DECODING)
    ledger.quarantine.lift("corrected.csv")
    return ledger
