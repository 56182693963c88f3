"""The whole ledger added up again: every hash and link, every cost from its event, every sum, every total.

`Replay` reads the entries alone, in order, and derives all that a store holds beside them; then both are compared.

**Texts instead of rationals.** Most entries of a long ledger are debits whose event, cost and δ occurred before. `Replay`
checks such a cost once, by its texts, and then compares texts. *Proof* that nothing is left out: an entry is valid if
`entries.decode` reads it and every rule holds. `decode_written_debit` reads the same JSON, and both refuse what is not
written as their fields encode, so they differ in the rationals alone, of which each has one text. The texts of the cost, its
δ and its certified δ were in an entry that `decode` read, with the same event in the same account. The texts of both sums
are compared with those that `encode` would write for the sums of the replay. Where a text differs, `decode` reads the entry.

**From a checked head.** A check that found nothing wrong leaves a `Checkpoint`: the head, and what followed from the entries
up to it. The next check reads the later entries alone, if the chain still holds that head, and compares the same totals. The
checkpoint pins what later entries are checked against: what every account has spent, the hash of the entry that opened it,
which holds its limits, and the debits without an answer. It does not see another earlier entry that was changed since, or
removed, as long as the last one is the same: the hashes were computed once, and are not again. None can be added among them,
as every number up to the head is taken, and none before them, which is looked up. Nor does the store check its own pages.
Only a check of everything finds that.
"""

import os
import re
from bisect import bisect_left
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, assert_never
from uuid import uuid4

import msgspec
from msgspec import UNSET

from discreet import codec
from discreet.codec import to_wire
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
    WrittenDebit,
    compute_hash,
    decode,
    decode_debit,
    decode_written_debit,
    encode,
)
from discreet.ledger.quarantine import FailureCounts
from discreet.ledger.signatures import is_signed
from discreet.ledger.store import StoredEntry, Transaction, read_account

if TYPE_CHECKING:
    from discreet.ledger.chain import Ledger

COST_TOLERANCE = Fraction(1, 1 << 40)
"""Another version, or another machine, may compute a cost that is this much larger, relatively."""

LATEST_CHECKPOINT = 2
"""The version of the files that a check writes."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found."""

    entries: int
    hash: str  # of the last entry
    accounts: tuple[AccountState, ...]
    unanswered: tuple[str, ...]  # ids of debits without an answer: after a crash, or still running
    quarantined: tuple[str, ...]  # sources that may not be queried until the owner lifts their quarantine
    problem: str | None  # the first one
    checkpoint: "Checkpoint | None" = None  # where the next check can go on, if there is no problem

    @property
    def is_valid(self) -> bool:
        """Whether there is no problem."""
        return self.problem is None


class OpenDebit(NamedTuple):
    """A debit without an answer."""

    account: str
    id: str
    is_measurement: bool  # others have no answer to wait for


class Totals(NamedTuple):
    """What an account has spent."""

    spent: Fraction
    delta_spent: Fraction
    debits: int
    privacy_unit: str


class OpenDebits(msgspec.Struct, frozen=True, kw_only=True):
    """Debits without an answer, in order and in columns: a hundred thousand of them are read in a few milliseconds."""

    numbers: list[int]
    accounts: list[str]
    ids: list[str]
    are_measurements: list[bool]

    @classmethod
    def of(cls, debits: dict[int, OpenDebit]) -> "OpenDebits":
        """Return the columns of debits by number."""
        accounts, ids, are_measurements = zip(*debits.values(), strict=True) if debits else ((), (), ())
        return cls(numbers=[*debits], accounts=[*accounts], ids=[*ids], are_measurements=[*are_measurements])

    @property
    def is_consistent(self) -> bool:
        """Whether the columns have the same length."""
        return len(self.numbers) == len(self.accounts) == len(self.ids) == len(self.are_measurements)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The ids of those that have an answer to wait for."""
        return tuple(compress(self.ids, self.are_measurements))

    def find(self, number: int) -> OpenDebit | None:
        """Return the debit with this number."""
        row = bisect_left(self.numbers, number)
        if row == len(self.numbers) or self.numbers[row] != number:
            return None
        return OpenDebit(self.accounts[row], self.ids[row], self.are_measurements[row])

    def update(self, answered: set[int], later: dict[int, OpenDebit]) -> "OpenDebits":
        """Return the columns without those that were answered, and with later ones."""
        more, is_open = OpenDebits.of(later), [number not in answered for number in self.numbers]
        return OpenDebits(
            numbers=[*compress(self.numbers, is_open), *more.numbers],
            accounts=[*compress(self.accounts, is_open), *more.accounts],
            ids=[*compress(self.ids, is_open), *more.ids],
            are_measurements=[*compress(self.are_measurements, is_open), *more.are_measurements],
        )


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, tag_field="version", tag=LATEST_CHECKPOINT):
    """A head up to which a ledger was checked, and what follows from the entries up to it."""

    number: int
    hash: str
    totals: dict[str, Totals]  # by account
    openings: dict[str, str]  # by account: the hash of the entry that opened it
    event_counts: dict[str, list[tuple[str, int]]]  # by account: encoded events, and how often each was debited
    open_debits: OpenDebits
    failures: dict[str, tuple[int, int]]  # by source: of decoding, of resources
    identity: str = ""  # of the ledger, if it has one; the first files of this version do not hold it

    def to_json(self) -> bytes:
        """Encode it, for a file."""
        return _ENCODER.encode(self)

    @classmethod
    def from_json(cls, text: bytes, file: str = "this file") -> "Checkpoint":
        """Decode what `to_json` encoded. `file` is its name, for errors.

        Raises:
            BadParameter: it is no checkpoint, or one of another version.
        """
        try:
            found = _DECODER.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            found = None
        if isinstance(found, _EarlierCheckpoint):
            raise BadParameter(
                "since", file, "the result of a check by an earlier version of discreet",
                "remove it, and let the next check read everything and write it again",
            )  # fmt: skip
        if found is None and _is_later(text):
            raise BadParameter(
                "since", file, "the result of a check by a later version of discreet",
                "check with that version, or name a new file, and this check reads everything",
            )  # fmt: skip
        if found is None or not found._is_possible:
            raise BadParameter(
                "since", file, "not the result of an earlier check",
                "name the file that a check wrote, or a new one, and this check reads everything",
            )  # fmt: skip
        return found

    @property
    def _is_possible(self) -> bool:
        head = 0 <= self.number < 1 << 63 and _HASH.fullmatch(self.hash) is not None
        return head and self.totals.keys() == self.openings.keys() and self.open_debits.is_consistent


class _EarlierCheckpoint(msgspec.Struct, tag_field="version", tag=1):
    """Version 1 did not hold the openings of accounts: larger limits in them were not found from a checked head."""


class _LaterCheckpoint(msgspec.Struct):
    """What every version holds."""

    version: int
    number: int
    hash: str
    openings: dict[str, str]


def _is_later(text: bytes) -> bool:
    try:
        return msgspec.json.decode(text, type=_LaterCheckpoint).version > LATEST_CHECKPOINT
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


_ENCODER = msgspec.json.Encoder(enc_hook=codec.to_wire)
_DECODER: msgspec.json.Decoder[Checkpoint | _EarlierCheckpoint] = msgspec.json.Decoder(
    Checkpoint | _EarlierCheckpoint, dec_hook=codec.from_wire
)
_HASH = re.compile("[0-9a-f]{64}")


def check_ledger(ledger: "Ledger", since: Checkpoint | None = None) -> Report:
    """Read the whole ledger and add it up again; with `since`, what was written after an earlier check of this ledger.

    >>> import tempfile
    >>> from discreet.ledger import open_ledger
    >>> with tempfile.TemporaryDirectory() as folder, open_ledger(f"{folder}/hr.ledger", create=True) as ledger:
    ...     _ = ledger.open_account("hr", epsilon=2)
    ...     checked = check_ledger(ledger)
    ...     _ = ledger.open_account("sales", epsilon=1)
    ...     check_ledger(ledger, checked.checkpoint).entries
    2
    """
    replay, problem, found_by_store = Replay(), None, None
    try:
        found_by_store = None if since is not None else ledger.store.check_integrity()
        with ledger.store.read_transaction() as transaction:
            if since is not None:
                replay.resume(since, transaction)
            for stored in transaction.iter_entries(after=None if since is None else since.number):
                replay.apply_entry(stored)
            replay.compare_totals(transaction)
    except (Inconsistency, LedgerCorrupted) as found:
        problem = str(found)  # it says more than what the store found
    problem = problem or found_by_store
    accounts = tuple(replay.state_of(name) for name in replay.accounts)
    open_debits = replay.list_open_debits()
    quarantined = tuple(sorted(source for source, counts in replay.failures.items() if counts.is_quarantined))
    checkpoint = None if problem is not None else replay.to_checkpoint(open_debits)
    return Report(
        replay.last_number, replay.last_hash.hex(), accounts, open_debits.unanswered, quarantined, problem, checkpoint
    )


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Read the checkpoint that an earlier check wrote; None if there is no such file yet.

    Raises:
        BadParameter: the file cannot be read, or is something else.
    """
    try:
        return Checkpoint.from_json(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadParameter("since", str(path), f"cannot be read ({error.strerror})", "name a file that can") from None


def write_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint in the place of an earlier one, for its owner alone. A link stays, and what it leads to is written.

    Raises:
        BadParameter: the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{uuid4().hex[:12]}.part")
    try:
        with open(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(checkpoint.to_json())
        os.replace(part, target)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if not isinstance(error, OSError):
            raise
        raise BadParameter("since", str(path), f"cannot be written ({error.strerror})", "name a file that can") from None


class Inconsistency(Exception):
    """The first problem."""


class ChargeTexts(NamedTuple):
    """What decides whether a debit charges enough, as it is written."""

    account: str
    event: bytes
    certified_delta: str
    cost: str
    delta: str


@dataclass(slots=True)
class Replay:
    """What follows from the entries alone."""

    last_number: int = 0
    last_hash: bytes = GENESIS
    identity: str = ""
    accounts: dict[str, AccountState] = field(default_factory=dict)  # with parents of any age: see `state_of`
    openings: dict[str, bytes] = field(default_factory=dict)  # by account: the hash of the entry that opened it
    ids: dict[str, set[str]] = field(default_factory=dict)  # of debits, by account
    earlier: Transaction | None = None  # where the ids up to a checkpoint are
    earlier_open: OpenDebits = field(default_factory=lambda: OpenDebits.of({}))  # at a checkpoint
    answered: set[int] = field(default_factory=set)  # of those
    open_debits: dict[int, OpenDebit] = field(default_factory=dict)  # since
    event_counts: dict[str, Counter[bytes]] = field(default_factory=dict)
    charges: dict[ChargeTexts, tuple[Fraction, Fraction]] = field(default_factory=dict)  # that were found to be valid
    failures: dict[str, FailureCounts] = field(default_factory=dict)  # by source

    def state_of(self, name: str) -> AccountState:
        """Return an account whose parents have their present totals."""
        found = self.accounts[name]
        if found.parent is None:
            return found
        parent = self.state_of(found.parent.name)
        return found if parent is found.parent else replace(found, parent=parent)

    def resume(self, since: Checkpoint, transaction: Transaction) -> None:
        """Go on after a head that was checked before, if the chain still holds it.

        Raises:
            BadParameter: another ledger was checked. One that was replaced by another one looks the same.
            Inconsistency: the chain of this ledger does not hold the head, or an account was opened in another way.
        """
        first = next(transaction.iter_entries(), None)
        if first is not None and first.number < 1:  # no check would reach it, and an answer in it would be served
            raise Inconsistency(f"entry {first.number} is before the first: numbers begin with 1")
        is_same = self._require_identity(since, first)
        last = next(transaction.iter_entries(after=since.number - 1), None)
        held = last is not None and last.number == since.number and compute_hash(last.body) == last.hash
        if since.number and not (held and last is not None and last.hash.hex() == since.hash):
            raise Inconsistency(
                f"entry {since.number} is not the one that was checked before: the chain was rolled back or replaced"
                + ("" if is_same else ", or another ledger was checked")
            )
        self.identity = since.identity
        self.last_number, self.last_hash, self.earlier = since.number, bytes.fromhex(since.hash), transaction
        for name, totals in since.totals.items():
            opening = transaction.read_opening(name)
            if opening is None:
                raise Inconsistency(f"account {name!r} is missing")
            self.openings[name] = compute_hash(encode(opening))
            if self.openings[name].hex() != since.openings[name]:
                raise Inconsistency(f"the entry that opened account {name!r} is not the one that was checked before")
            state = self._open_state(opening)
            budget = replace(state.budget, spent=totals.spent, delta_spent=totals.delta_spent)
            self.accounts[name] = replace(state, budget=budget, debits=totals.debits, privacy_unit=totals.privacy_unit)
        self.event_counts = {
            name: Counter({event.encode(): times for event, times in counts}) for name, counts in since.event_counts.items()
        }
        self.earlier_open = since.open_debits
        self.failures = {source: FailureCounts(*counts) for source, counts in since.failures.items()}

    def _require_identity(self, since: Checkpoint, first: StoredEntry | None) -> bool:
        """Refuse the checkpoint of a ledger with another identity than that of this one, which is in its first entry. Return
        whether both are known, and so the same."""
        identity = "" if first is None or not since.identity else self._decode(first.body, 1).identity or ""
        if identity and identity != since.identity:
            raise BadParameter(
                "since", "the result of a check of another ledger",
                f"its identity is {since.identity[:8]}…, that of this ledger {identity[:8]}…",
                "name the file that a check of this ledger wrote; if it is that one, the ledger was replaced: restore it",
            )  # fmt: skip
        return bool(identity)

    def list_open_debits(self) -> OpenDebits:
        """Return the debits without an answer."""
        if not self.answered and not self.open_debits:
            return self.earlier_open
        return self.earlier_open.update(self.answered, self.open_debits)

    def to_checkpoint(self, open_debits: OpenDebits | None = None) -> Checkpoint:
        """Return where the next check can go on; `open_debits` are those that `list_open_debits` returned."""
        totals = {
            name: Totals(each.budget.spent, each.budget.delta_spent, each.debits, each.privacy_unit)
            for name, each in self.accounts.items()
        }
        return Checkpoint(
            number=self.last_number,
            hash=self.last_hash.hex(),
            totals=totals,
            openings={name: hash.hex() for name, hash in self.openings.items()},
            event_counts={
                name: [(event.decode(), times) for event, times in counts.items()]
                for name, counts in self.event_counts.items()
            },
            open_debits=open_debits or self.list_open_debits(),
            failures={source: (counts.decoding, counts.resource) for source, counts in self.failures.items()},
            identity=self.identity,
        )

    def apply_entry(self, stored: StoredEntry) -> None:
        """Check the next entry against all before it, and add it."""
        number, body, hash, keys = stored
        if number != self.last_number + 1:
            raise Inconsistency(f"entry {number} follows entry {self.last_number}: entries are missing")
        if compute_hash(body) != hash:
            raise Inconsistency(f"entry {number} does not have the hash that is stored beside it")
        debit = decode_written_debit(body)
        entry = self._decode(body, number) if debit is None else debit
        if entry.previous != self.last_hash.hex() or entry.number != number:
            raise Inconsistency(f"entry {number} is not linked to the entry before it")
        if keys is not None and keys != EntryKeys.of(entry):
            raise Inconsistency(f"entry {number} differs from the columns beside it")
        if number != 1 and entry.identity is not UNSET:
            raise Inconsistency(f"entry {number} states an identity, which only the first entry does")
        if number == 1:
            self.identity = entry.identity or ""
        self.last_number, self.last_hash = number, hash
        self._apply(entry, body)

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

    def _decode(self, body: bytes, number: int) -> Entry:
        try:
            return decode(body)
        except BadEventEncoding as wrong:
            raise Inconsistency(f"entry {number}: {wrong}") from None

    def _apply(self, entry: Entry | WrittenDebit, body: bytes) -> None:
        match entry:
            case WrittenDebit():
                self._charge(entry, body)
            case AccountOpened():
                self._require(entry.account not in self.accounts, entry.number, "opens an account a second time")
                self.accounts[entry.account] = self._open_state(entry)
                self.openings[entry.account] = compute_hash(body)
            case AnswerRecorded():
                self._answer(entry)
            case FailureRecorded():
                counts = self.failures.get(entry.source, FailureCounts())
                self.failures[entry.source] = counts.add_failure(entry.failure)
            case QuarantineLifted():
                counts = self.failures.get(entry.source, FailureCounts())
                self._require(counts.is_quarantined, entry.number, "lifts the quarantine of a source that has none")
                self.failures[entry.source] = FailureCounts()
            case KeyRotated():
                self._require(is_signed(entry), entry.number, "rotates a key without the signatures of both keys")
            case Debit():  # `decode_written_debit` reads every debit that `decode` does
                raise Inconsistency(f"entry {entry.number} is a debit that is written in another way")
            case _:
                assert_never(entry)

    def _open_state(self, entry: AccountOpened) -> AccountState:
        known = entry.parent is None or entry.parent in self.accounts
        self._require(known, entry.number, "has a parent that is not open")
        try:
            return entry.to_account(self.state_of(entry.parent) if entry.parent else None)
        except BadParameter as wrong:
            raise Inconsistency(f"entry {entry.number}: {wrong}") from None

    def _answer(self, entry: AnswerRecorded) -> None:
        debit = self.open_debits.pop(entry.debit, None)
        if debit is None and entry.debit not in self.answered:
            debit = self.earlier_open.find(entry.debit)
            self.answered.add(entry.debit)
        answers = debit is not None and debit.account == entry.account
        self._require(answers, entry.number, "answers no open debit of its account")

    def _charge(self, entry: WrittenDebit, body: bytes) -> None:
        number, name = entry.number, entry.account
        self._require(name in self.accounts, number, "debits an account that is not open")
        self._require(self._is_first_use(entry), number, "uses an id a second time")
        account, event, unit = self.state_of(name), bytes(entry.encoded_event), entry.unit or ""
        texts = ChargeTexts(name, event, entry.certified_delta, entry.cost, entry.delta)
        try:
            charge = self.charges.get(texts)
            if charge is None:
                charge = self.charges[texts] = self._check_charge(account, decode_debit(body))
            after = account.charge_cost(*charge, unit)
        except BudgetExceeded as over:
            raise Inconsistency(f"entry {number} overdraws account {name!r}: {over}") from None
        except (BadEventEncoding, BadParameter) as wrong:
            raise Inconsistency(f"entry {number}: {wrong}") from None
        self._require(after.privacy_unit == unit, number, "does not state the privacy unit of its account")
        if entry.spent != to_wire(after.budget.spent) or entry.delta_spent != to_wire(after.budget.delta_spent):
            self._decode(body, number)  # raises where the text is that of no rational
            raise Inconsistency(f"entry {number} states a sum that is not the sum")
        each: AccountState | None = after
        while each is not None:
            self.accounts[each.name] = each
            each = each.parent
        self.ids.setdefault(name, set()).add(entry.id)
        self.event_counts.setdefault(name, Counter())[event] += 1
        self.open_debits[number] = OpenDebit(name, entry.id, bool(entry.measurement))

    def _is_first_use(self, entry: WrittenDebit) -> bool:
        if entry.id in self.ids.get(entry.account, ()):
            return False
        found = None if self.earlier is None else self.earlier.find_debit_by_id(entry.account, entry.id)
        return found is None or found.number == entry.number

    def _check_charge(self, account: AccountState, entry: Debit) -> tuple[Fraction, Fraction]:
        """Return the cost and the δ that a debit states, if its event costs no more."""
        event = codec.decode(bytes(entry.encoded_event))
        cost, delta = account.compute_charge(event, entry.certified_delta)
        enough = entry.cost >= cost * (1 - COST_TOLERANCE)
        self._require(enough, entry.number, "charges less than its event costs")
        enough = entry.delta >= delta * (1 - COST_TOLERANCE)
        self._require(enough, entry.number, "charges less δ than its event costs")
        return entry.cost, entry.delta

    def _require(self, holds: bool, number: int, otherwise: str) -> None:
        if not holds:
            raise Inconsistency(f"entry {number} {otherwise}")
