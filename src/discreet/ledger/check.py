"""Everything recomputed: the chain, the columns beside it, every price from its facts, every sum, every total."""

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction

from discreet import codec
from discreet.errors import BadFact, BadParameter, BudgetExceeded, LedgerBroken
from discreet.ledger.account import Account
from discreet.ledger.book import Ledger
from discreet.ledger.entry import (
    GENESIS,
    Answered,
    Debit,
    Entry,
    FailureRecorded,
    KeyRotated,
    Opened,
    QuarantineLifted,
    decode,
    hash_of,
)
from discreet.ledger.failures import FailureCounts
from discreet.ledger.pages import Pages, Row, columns_of
from discreet.ledger.rotation import is_signed

SLACK = Fraction(1, 1 << 40)
"""A price that is read again by another version or on another machine may come out this much larger, relatively."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found."""

    entries: int
    hash: str  # of the last entry
    accounts: tuple[Account, ...]
    unanswered: tuple[str, ...]  # ids of debits without an answer: a crash, or a question still under way
    quarantined: tuple[str, ...]  # sources that may not be queried until the owner lifts their quarantine
    problem: str | None  # the first thing that does not hold

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem is None


def check(ledger: Ledger) -> Report:
    """Read the whole ledger and add it up again."""
    replay, problem = Replay(), None
    try:
        problem = getattr(ledger.store, "sound", lambda: None)()
        with ledger.store.reading() as pages:
            for row in pages.rows():
                replay.take(row)
            replay.compare(pages)
    except (Wrong, LedgerBroken) as found:
        problem = problem or str(found)
    accounts = tuple(replay.account(name) for name in replay.accounts)
    unanswered = tuple(debit.id for debit in replay.open.values() if debit.measurement)
    quarantined = tuple(sorted(source for source, counts in replay.sources.items() if counts.quarantined))
    return Report(replay.number, replay.link.hex(), accounts, unanswered, quarantined, problem)


class Wrong(Exception):
    """The first thing that does not hold."""


@dataclass(slots=True)
class Replay:
    """History, told again from its entries alone."""

    number: int = 0
    link: bytes = GENESIS
    accounts: dict[str, Account] = field(default_factory=dict)  # each with its parent as it was; see `account`
    ids: set[tuple[str, str]] = field(default_factory=set)
    open: dict[int, Debit] = field(default_factory=dict)  # debits without an answer
    facts: dict[str, Counter[bytes]] = field(default_factory=dict)
    prices: dict[tuple[str, bytes, Fraction], tuple[Fraction, Fraction]] = field(default_factory=dict)
    sources: dict[str, FailureCounts] = field(default_factory=dict)

    def account(self, name: str) -> Account:
        """An account whose parents have their totals of now."""
        found = self.accounts[name]
        return found if found.parent is None else replace(found, parent=self.account(found.parent.name))

    def take(self, row: Row) -> None:
        """One more entry."""
        self._require(row.number == self.number + 1, row, f"follows entry {self.number}: entries are missing")
        self._require(hash_of(row.body) == row.hash, row, "does not have the hash that is stored beside it")
        try:
            entry = decode(row.body)
        except BadFact as wrong:
            raise Wrong(f"entry {row.number}: {wrong}") from None
        linked = entry.previous == self.link.hex() and entry.number == row.number
        self._require(linked, row, "is not linked to the entry before it")
        columns = (row.kind, row.account, row.id, row.measurement, row.debit)
        self._require(columns_of(entry) == columns, row, "differs from the columns beside it")
        self.number, self.link = row.number, row.hash
        self._apply(entry, row)

    def compare(self, pages: Pages) -> None:
        """The running totals that are kept beside the entries must be the sums."""
        if set(pages.names()) != set(self.accounts):
            raise Wrong("the accounts that are listed are not those that were opened")
        for name in self.accounts:
            if pages.account(name) != self.account(name):
                raise Wrong(f"the totals kept for account {name!r} are not the sums of its entries")
            if pages.facts(name) != self.facts.get(name, {}):
                raise Wrong(f"the facts counted for account {name!r} are not those of its entries")
        if pages.sources() != self.sources:
            raise Wrong("the failures counted for the sources are not those of the entries")

    def _apply(self, entry: Entry, row: Row) -> None:
        match entry:
            case Opened():
                self._require(entry.account not in self.accounts, row, "opens an account a second time")
                self._require(entry.parent is None or entry.parent in self.accounts, row, "has a parent that is not open")
                try:
                    self.accounts[entry.account] = entry.fresh(self.account(entry.parent) if entry.parent else None)
                except BadParameter as wrong:
                    raise Wrong(f"entry {row.number}: {wrong}") from None
            case Debit():
                self._debit(entry, row)
            case Answered():
                paid = self.open.pop(entry.debit, None)
                self._require(
                    paid is not None and paid.account == entry.account, row, "answers no open debit of its account"
                )
            case FailureRecorded():
                self.sources[entry.source] = self.sources.get(entry.source, FailureCounts()).after(entry.failure)
            case QuarantineLifted():
                lifted = self.sources.get(entry.source, FailureCounts())
                self._require(lifted.quarantined, row, "lifts the quarantine of a source that has none")
                self.sources[entry.source] = FailureCounts()
            case KeyRotated():
                self._require(is_signed(entry), row, "rotates a key without the signatures of both keys")

    def _debit(self, entry: Debit, row: Row) -> None:
        self._require(entry.account in self.accounts, row, "debits an account that is not open")
        self._require((entry.account, entry.id) not in self.ids, row, "uses an id a second time")
        account = self.account(entry.account)
        try:
            price, leak = self._price(account, entry)
            self._require(entry.price >= price * (1 - SLACK), row, "charges less than its facts cost")
            self._require(entry.leak >= leak * (1 - SLACK), row, "charges less δ than its facts leak")
            after = account.paid(entry.price, entry.leak, entry.whose)
        except BudgetExceeded as over:
            raise Wrong(f"entry {row.number} overdraws account {entry.account!r}: {over}") from None
        except (BadFact, BadParameter) as wrong:
            raise Wrong(f"entry {row.number}: {wrong}") from None
        self._require(after.whose == entry.whose, row, "does not say whose rows its account speaks of")
        sums = (after.kept.spent, after.kept.leaked) == (entry.spent, entry.leaked)
        self._require(sums, row, "states a sum that is not the sum")
        self.accounts |= {each.name: each for each in after.line}
        self.ids.add((entry.account, entry.id))
        self.facts.setdefault(entry.account, Counter()).update([bytes(entry.facts)])
        self.open[entry.number] = entry

    def _price(self, account: Account, entry: Debit) -> tuple[Fraction, Fraction]:
        key = account.name, bytes(entry.facts), entry.at
        if key not in self.prices:
            self.prices[key] = account.charge(codec.decode(key[1]), entry.at)
        return self.prices[key]

    def _require(self, holds: bool, row: Row, otherwise: str) -> None:
        if not holds:
            raise Wrong(f"entry {row.number} {otherwise}")
