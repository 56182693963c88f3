"""Everything recomputed: the chain, the columns beside it, every price from its facts, every sum, every total."""

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction

from discreet import codec
from discreet.errors import BadEventEncoding, BadParameter, BudgetExceeded, LedgerCorrupted
from discreet.ledger.account import AccountState
from discreet.ledger.chain import Ledger
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
from discreet.ledger.failures import FailureCounts
from discreet.ledger.keys import is_signed
from discreet.ledger.store import StoredEntry, Transaction, read_account

COST_TOLERANCE = Fraction(1, 1 << 40)
"""A price that is read again by another version or on another machine may come out this much larger, relatively."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found."""

    entries: int
    hash: str  # of the last entry
    accounts: tuple[AccountState, ...]
    unanswered: tuple[str, ...]  # ids of debits without an answer: a crash, or a question still under way
    quarantined: tuple[str, ...]  # sources that may not be queried until the owner lifts their quarantine
    problem: str | None  # the first thing that does not hold

    @property
    def is_valid(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem is None


def check_ledger(ledger: Ledger) -> Report:
    """Read the whole ledger and add it up again."""
    replay, problem = Replay(), None
    try:
        problem = ledger.store.check_integrity()
        with ledger.store.read_transaction() as transaction:
            for row in transaction.iter_entries():
                replay.apply_entry(row)
            replay.compare_totals(transaction)
    except (Inconsistency, LedgerCorrupted) as found:
        problem = problem or str(found)
    accounts = tuple(replay.state_of(name) for name in replay.accounts)
    unanswered = tuple(debit.id for debit in replay.open_debits.values() if debit.measurement)
    quarantined = tuple(sorted(source for source, counts in replay.sources.items() if counts.quarantined))
    return Report(replay.last_number, replay.last_hash.hex(), accounts, unanswered, quarantined, problem)


class Inconsistency(Exception):
    """The first thing that does not hold."""


@dataclass(slots=True)
class Replay:
    """History, told again from its entries alone."""

    last_number: int = 0
    last_hash: bytes = GENESIS
    accounts: dict[str, AccountState] = field(default_factory=dict)  # each with its parent as it was; see `account`
    ids: set[tuple[str, str]] = field(default_factory=set)
    open_debits: dict[int, Debit] = field(default_factory=dict)  # debits without an answer
    event_counts: dict[str, Counter[bytes]] = field(default_factory=dict)
    costs: dict[tuple[str, bytes, Fraction], tuple[Fraction, Fraction]] = field(default_factory=dict)
    sources: dict[str, FailureCounts] = field(default_factory=dict)

    def state_of(self, name: str) -> AccountState:
        """An account whose parents have their totals of now."""
        found = self.accounts[name]
        return found if found.parent is None else replace(found, parent=self.state_of(found.parent.name))

    def apply_entry(self, row: StoredEntry) -> None:
        """One more entry."""
        self._require(row.number == self.last_number + 1, row, f"follows entry {self.last_number}: entries are missing")
        self._require(compute_hash(row.body) == row.hash, row, "does not have the hash that is stored beside it")
        try:
            entry = decode(row.body)
        except BadEventEncoding as wrong:
            raise Inconsistency(f"entry {row.number}: {wrong}") from None
        linked = entry.previous == self.last_hash.hex() and entry.number == row.number
        self._require(linked, row, "is not linked to the entry before it")
        self._require(row.keys in (None, EntryKeys.of(entry)), row, "differs from the columns beside it")
        self.last_number, self.last_hash = row.number, row.hash
        self._apply(entry, row)

    def compare_totals(self, transaction: Transaction) -> None:
        """The running totals that are kept beside the entries must be the sums."""
        if set(transaction.list_account_names()) != set(self.accounts):
            raise Inconsistency("the accounts that are listed are not those that were opened")
        for name in self.accounts:
            if read_account(transaction, name) != self.state_of(name):
                raise Inconsistency(f"the totals kept for account {name!r} are not the sums of its entries")
            if transaction.read_event_counts(name) != self.event_counts.get(name, {}):
                raise Inconsistency(f"the facts counted for account {name!r} are not those of its entries")
        if transaction.list_failures() != self.sources:
            raise Inconsistency("the failures counted for the sources are not those of the entries")

    def _apply(self, entry: Entry, row: StoredEntry) -> None:
        match entry:
            case AccountOpened():
                self._require(entry.account not in self.accounts, row, "opens an account a second time")
                self._require(entry.parent is None or entry.parent in self.accounts, row, "has a parent that is not open")
                try:
                    self.accounts[entry.account] = entry.to_account(self.state_of(entry.parent) if entry.parent else None)
                except BadParameter as wrong:
                    raise Inconsistency(f"entry {row.number}: {wrong}") from None
            case Debit():
                self._apply_debit(entry, row)
            case AnswerRecorded():
                paid = self.open_debits.pop(entry.debit, None)
                self._require(
                    paid is not None and paid.account == entry.account, row, "answers no open debit of its account"
                )
            case FailureRecorded():
                self.sources[entry.source] = self.sources.get(entry.source, FailureCounts()).add_failure(entry.failure)
            case QuarantineLifted():
                lifted = self.sources.get(entry.source, FailureCounts())
                self._require(lifted.quarantined, row, "lifts the quarantine of a source that has none")
                self.sources[entry.source] = FailureCounts()
            case KeyRotated():
                self._require(is_signed(entry), row, "rotates a key without the signatures of both keys")

    def _apply_debit(self, entry: Debit, row: StoredEntry) -> None:
        self._require(entry.account in self.accounts, row, "debits an account that is not open")
        self._require((entry.account, entry.id) not in self.ids, row, "uses an id a second time")
        account = self.state_of(entry.account)
        try:
            price, leak = self._compute_charge(account, entry)
            self._require(entry.price >= price * (1 - COST_TOLERANCE), row, "charges less than its facts cost")
            self._require(entry.leak >= leak * (1 - COST_TOLERANCE), row, "charges less δ than its facts leak")
            after = account.charge_cost(entry.price, entry.leak, entry.privacy_unit)
        except BudgetExceeded as over:
            raise Inconsistency(f"entry {row.number} overdraws account {entry.account!r}: {over}") from None
        except (BadEventEncoding, BadParameter) as wrong:
            raise Inconsistency(f"entry {row.number}: {wrong}") from None
        self._require(after.privacy_unit == entry.privacy_unit, row, "does not say whose rows its account speaks of")
        sums = (after.budget.spent, after.budget.delta_spent) == (entry.spent, entry.leaked)
        self._require(sums, row, "states a sum that is not the sum")
        self.accounts |= {each.name: each for each in after.lineage}
        self.ids.add((entry.account, entry.id))
        self.event_counts.setdefault(entry.account, Counter()).update([bytes(entry.facts)])
        self.open_debits[entry.number] = entry

    def _compute_charge(self, account: AccountState, entry: Debit) -> tuple[Fraction, Fraction]:
        key = account.name, bytes(entry.facts), entry.at
        if key not in self.costs:
            self.costs[key] = account.compute_charge(codec.decode(key[1]), entry.at)
        return self.costs[key]

    def _require(self, holds: bool, row: StoredEntry, otherwise: str) -> None:
        if not holds:
            raise Inconsistency(f"entry {row.number} {otherwise}")
