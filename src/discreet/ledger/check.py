"""The whole ledger added up again: every hash and link, every cost from its event, every sum, every total.

`Replay` reads the entries alone, in order, and derives all that a store holds beside them; then both are compared.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, assert_never

from msgspec import UNSET

from discreet import codec
from discreet.errors import BadEventEncoding, BadParameter, BudgetExceeded, LedgerCorrupted
from discreet.ledger.account import AccountState
from discreet.ledger.entries import (
    GENESIS,
    AccountOpened,
    AnswerRecorded,
    Debit,
    Entry,
    EntryKeys,
    FailureRecorded,
    KeyRotated,
    QuarantineLifted,
    compute_hash,
    decode,
)
from discreet.ledger.quarantine import FailureCounts
from discreet.ledger.signatures import is_signed
from discreet.ledger.store import StoredEntry, Transaction, read_account

if TYPE_CHECKING:
    from discreet.ledger.chain import Ledger

COST_TOLERANCE = Fraction(1, 1 << 40)
"""Another version, or another machine, may compute a cost that is this much larger, relatively."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found."""

    entries: int
    hash: str  # of the last entry
    accounts: tuple[AccountState, ...]
    unanswered: tuple[str, ...]  # ids of debits without an answer: after a crash, or still running
    quarantined: tuple[str, ...]  # sources that may not be queried until the owner lifts their quarantine
    problem: str | None  # the first one

    @property
    def is_valid(self) -> bool:
        """Whether there is no problem."""
        return self.problem is None


def check_ledger(ledger: "Ledger") -> Report:
    """Read the whole ledger and add it up again."""
    replay, problem = Replay(), None
    try:
        problem = ledger.store.check_integrity()
        with ledger.store.read_transaction() as transaction:
            for stored in transaction.iter_entries():
                replay.apply_entry(stored)
            replay.compare_totals(transaction)
    except (Inconsistency, LedgerCorrupted) as found:
        problem = problem or str(found)
    accounts = tuple(replay.state_of(name) for name in replay.accounts)
    unanswered = tuple(debit.id for debit in replay.open_debits.values() if debit.measurement)
    quarantined = tuple(sorted(source for source, counts in replay.failures.items() if counts.is_quarantined))
    return Report(replay.last_number, replay.last_hash.hex(), accounts, unanswered, quarantined, problem)


class Inconsistency(Exception):
    """The first problem."""


@dataclass(slots=True)
class Replay:
    """What follows from the entries alone."""

    last_number: int = 0
    last_hash: bytes = GENESIS
    accounts: dict[str, AccountState] = field(default_factory=dict)  # with parents of any age: see `state_of`
    ids: set[tuple[str, str]] = field(default_factory=set)
    open_debits: dict[int, Debit] = field(default_factory=dict)  # debits without an answer
    event_counts: dict[str, Counter[bytes]] = field(default_factory=dict)
    costs: dict[tuple[str, bytes, Fraction], tuple[Fraction, Fraction]] = field(default_factory=dict)
    failures: dict[str, FailureCounts] = field(default_factory=dict)  # by source

    def state_of(self, name: str) -> AccountState:
        """Return an account whose parents have their present totals."""
        found = self.accounts[name]
        return found if found.parent is None else replace(found, parent=self.state_of(found.parent.name))

    def apply_entry(self, stored: StoredEntry) -> None:
        """Check the next entry against all before it, and add it."""
        number = stored.number
        self._require(number == self.last_number + 1, number, f"follows entry {self.last_number}: entries are missing")
        self._require(compute_hash(stored.body) == stored.hash, number, "does not have the hash that is stored beside it")
        try:
            entry = decode(stored.body)
        except BadEventEncoding as wrong:
            raise Inconsistency(f"entry {number}: {wrong}") from None
        linked = entry.previous == self.last_hash.hex() and entry.number == number
        self._require(linked, number, "is not linked to the entry before it")
        self._require(stored.keys in (None, EntryKeys.of(entry)), number, "differs from the columns beside it")
        self._require(number == 1 or entry.identity is UNSET, number, "states an identity, which only the first entry does")
        self.last_number, self.last_hash = number, stored.hash
        self._apply(entry)

    def compare_totals(self, transaction: Transaction) -> None:
        """Compare what a store holds beside the entries with what follows from them."""
        if set(transaction.list_account_names()) != set(self.accounts):
            raise Inconsistency("the accounts that are listed are not those that were opened")
        for name in self.accounts:
            if read_account(transaction, name) != self.state_of(name):
                raise Inconsistency(f"the totals of account {name!r} are not the sums of its entries")
            if transaction.read_event_counts(name) != self.event_counts.get(name, {}):
                raise Inconsistency(f"the events counted for account {name!r} are not those of its entries")
            if transaction.read_root(name) != self.state_of(name).lineage[-1].name:
                raise Inconsistency(f"account {name!r} is not listed under the root of its parents")
        if transaction.list_failures() != self.failures:
            raise Inconsistency("the failures counted for the sources are not those of the entries")

    def _apply(self, entry: Entry) -> None:
        match entry:
            case AccountOpened():
                self._open_account(entry)
            case Debit():
                self._charge(entry)
            case AnswerRecorded():
                debit = self.open_debits.pop(entry.debit, None)
                answers = debit is not None and debit.account == entry.account
                self._require(answers, entry.number, "answers no open debit of its account")
            case FailureRecorded():
                counts = self.failures.get(entry.source, FailureCounts())
                self.failures[entry.source] = counts.add_failure(entry.failure)
            case QuarantineLifted():
                counts = self.failures.get(entry.source, FailureCounts())
                self._require(counts.is_quarantined, entry.number, "lifts the quarantine of a source that has none")
                self.failures[entry.source] = FailureCounts()
            case KeyRotated():
                self._require(is_signed(entry), entry.number, "rotates a key without the signatures of both keys")
            case _:
                assert_never(entry)

    def _open_account(self, entry: AccountOpened) -> None:
        self._require(entry.account not in self.accounts, entry.number, "opens an account a second time")
        known = entry.parent is None or entry.parent in self.accounts
        self._require(known, entry.number, "has a parent that is not open")
        try:
            self.accounts[entry.account] = entry.to_account(self.state_of(entry.parent) if entry.parent else None)
        except BadParameter as wrong:
            raise Inconsistency(f"entry {entry.number}: {wrong}") from None

    def _charge(self, entry: Debit) -> None:
        self._require(entry.account in self.accounts, entry.number, "debits an account that is not open")
        self._require((entry.account, entry.id) not in self.ids, entry.number, "uses an id a second time")
        account = self.state_of(entry.account)
        try:
            cost, delta = self._compute_charge(account, entry)
            self._require(entry.cost >= cost * (1 - COST_TOLERANCE), entry.number, "charges less than its event costs")
            self._require(entry.delta >= delta * (1 - COST_TOLERANCE), entry.number, "charges less δ than its event costs")
            after = account.charge_cost(entry.cost, entry.delta, entry.privacy_unit)
        except BudgetExceeded as over:
            raise Inconsistency(f"entry {entry.number} overdraws account {entry.account!r}: {over}") from None
        except (BadEventEncoding, BadParameter) as wrong:
            raise Inconsistency(f"entry {entry.number}: {wrong}") from None
        stated = after.privacy_unit == entry.privacy_unit
        self._require(stated, entry.number, "does not state the privacy unit of its account")
        sums = (after.budget.spent, after.budget.delta_spent) == (entry.spent, entry.delta_spent)
        self._require(sums, entry.number, "states a sum that is not the sum")
        self.accounts |= {each.name: each for each in after.lineage}
        self.ids.add((entry.account, entry.id))
        self.event_counts.setdefault(entry.account, Counter()).update([bytes(entry.encoded_event)])
        self.open_debits[entry.number] = entry

    def _compute_charge(self, account: AccountState, entry: Debit) -> tuple[Fraction, Fraction]:
        key = account.name, bytes(entry.encoded_event), entry.certified_delta
        if key not in self.costs:
            self.costs[key] = account.compute_charge(codec.decode(key[1]), entry.certified_delta)
        return self.costs[key]

    def _require(self, holds: bool, number: int, otherwise: str) -> None:
        if not holds:
            raise Inconsistency(f"entry {number} {otherwise}")
