"""A ledger: accounts in one chain of entries, in any store.

**Theory of operation.** Every change is an entry that holds the hash of the entry before it. In one write transaction,
`reserve` looks for an earlier debit, checks that the cost fits the account and all its parents, and appends a debit. The
store runs only one such transaction at a time, so two debits never use the same remainder. `record` appends the answer in a
second transaction, after the rows were read. Nothing is ever changed or removed, and no entry holds a time.

**Families.** `reserve` looks for an earlier debit in every account under the same root. *Proof* that this keeps the promise:
the promise is the root's budget over all that its accounts were shown. A measurement that is found is in the chain once, as
a debit that charged the root, and its one answer is what every account of the family is shown, so showing it again adds
nothing to what the root has paid for. A debit without an answer is continued, whichever account paid for it: each caller
draws noise of its own, `record` keeps the first answer, as one of the account that paid, and returns it to all: one debit,
one answer. If the asker paid again instead, the root would be charged twice for a measurement that is free a moment later.
Ids stay with their account: no account can bind, or learn of, the ids of another.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from secrets import token_hex

import msgspec

from discreet import codec
from discreet._numbers import Number, read_decimal
from discreet.accounting.currencies import Currency, Filter, Receipt
from discreet.errors import BadParameter, BudgetExceeded, LedgerUnavailable, SourceQuarantined
from discreet.events import Composition, compose
from discreet.ledger.account import AccountState, CachedAnswer, IdTaken, check_answer, check_reserved, validate_name
from discreet.ledger.entries import (
    GENESIS,
    AccountOpened,
    AnswerRecorded,
    Debit,
    Entry,
    FailureRecorded,
    QuarantineLifted,
)
from discreet.ledger.quarantine import FailureKind, QuarantinedSource, not_quarantined_error, select_quarantined
from discreet.ledger.store import Head, Store, Transaction, append_entry, decode_stored, read_account

MAX_COMPARED_ACCOUNTS = 100
"""How many other accounts of a ledger are looked at for a warning, so that a session opens as quickly in a large one."""

ENTRIES_AT_ONCE = 1000
"""How many entries are read in one transaction, where all of them are listed."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The accounts and entries of a store.

    >>> import tempfile, os
    >>> from discreet.ledger.sqlite import SqliteStore
    >>> from discreet.events import Claim
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(SqliteStore(os.path.join(folder.name, "hr.ledger"), create=True))
    >>> hr = ledger.open_account("hr", epsilon=2)
    >>> event = compose(Claim(Fraction(1), Fraction(0)))
    >>> receipt = hr.reserve(event, measurement="c0ffee", id="monday")
    >>> hr.record(receipt, b"about 40"), hr.budget.remaining
    (b'about 40', Fraction(1, 1))
    >>> hr.reserve(event, measurement="c0ffee", id="monday").answer, hr.budget.remaining
    (b'about 40', Fraction(1, 1))
    >>> ledger.close(); folder.cleanup()
    """

    store: Store

    def open_account(
        self, name: str, epsilon: Number, delta: Number = 0, currency: Currency | None = None, parent: str | None = None
    ) -> "LedgerAccount":
        """Open a new account. Its budget and its currency cannot be changed."""
        with self.store.write_transaction() as transaction:
            if transaction.read_opening(validate_name(name, "account")) is not None:
                raise BadParameter(
                    "account", repr(name), "it is open already", "its budget cannot be changed; take another name"
                )
            above = None if parent is None else self._require_account(transaction, parent, "parent")
            account = AccountState.open(name, epsilon, delta, currency, above)
            head = transaction.read_head()
            append_entry(transaction, AccountOpened.of(account, head.number + 1, head.hash))
        return LedgerAccount(self.store, account)

    def get_account(self, name: str | None = None) -> "LedgerAccount":
        """Return an account that is open; without a name, the only one."""
        with self.store.read_transaction() as transaction:
            if name is None:
                name = self._only_account_name(transaction)
            return LedgerAccount(self.store, self._require_account(transaction, name))

    def list_accounts(self) -> tuple[AccountState, ...]:
        """Return every account with its totals, in the order of opening."""
        with self.store.read_transaction() as transaction:
            return transaction.read_accounts()

    @property
    def identity(self) -> str | None:
        """The random name of this ledger, which is in its first entry; None for an empty ledger, and for one that an earlier
        version began. A copy has the same."""
        with self.store.read_transaction() as transaction:
            first = transaction.find_entry(1)
        return None if first is None else first.identity or None

    @property
    def head(self) -> Head:
        """The end of the chain."""
        with self.store.read_transaction() as transaction:
            return transaction.read_head()

    def continues(self, number: int, hash: bytes | str) -> bool:
        """Return whether the chain holds this head, the number and the hash of an entry: then nothing up to it was changed
        or rolled back. The hash is its bytes or, as JSON has it, its hexadecimal digits."""
        with self.store.read_transaction() as transaction:
            found = GENESIS if number == 0 else transaction.find_hash(number)
        return found is not None and hash in (found, found.hex())

    @property
    def quarantine(self) -> "LedgerQuarantine":
        """The sources that may not be queried, from any account."""
        return LedgerQuarantine(self.store)

    def iter_entries(self) -> Iterator[Entry]:
        """Yield every entry, in order."""
        last = None
        while True:  # entries never change: between two batches no transaction is open, which would hold up others
            with self.store.read_transaction() as transaction:
                batch = [*islice(transaction.iter_entries(after=last), ENTRIES_AT_ONCE)]
            for stored in batch:
                yield decode_stored(transaction, stored)
                last = stored.number
            if len(batch) < ENTRIES_AT_ONCE:
                return

    def close(self) -> None:
        """Release the store."""
        self.store.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_account(self, transaction: Transaction, name: str, parameter: str = "account") -> AccountState:
        found = read_account(transaction, name)
        if found is None:
            names = ", ".join(map(repr, transaction.list_account_names())) or "none yet"
            raise BadParameter(parameter, repr(name), f"not in {self.store.location}", f"the accounts are: {names}")
        return found

    def _only_account_name(self, transaction: Transaction) -> str:
        names = transaction.list_account_names()
        if len(names) != 1:
            known = ", ".join(map(repr, names)) or "none yet"
            raise BadParameter(
                "account", "missing", f"{self.store.location} does not have exactly one", f"name one of: {known}"
            )
        return names[0]


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """An `Account` of a ledger."""

    store: Store
    initial_state: AccountState  # as it was found; its totals are read again each time

    @property
    def state(self) -> AccountState:
        """The account and its parents with their present totals."""
        with self.store.read_transaction() as transaction:
            return transaction.read_totals(self.initial_state)

    @property
    def budget(self) -> Filter:
        """The account's own limit, spent and remaining; less may remain in its parent."""
        return self.state.budget

    @property
    def family_budget(self) -> Filter:
        """As in `Account`. Its limits never change; what is spent of it is as it was found."""
        return self.initial_state.family_budget

    @property
    def quarantine(self) -> "LedgerQuarantine":
        """The quarantine of the ledger, for all its accounts."""
        return LedgerQuarantine(self.store)

    def list_unrelated(self, privacy_unit: str = "") -> tuple[AccountState, ...]:
        """Return the accounts without a parent that this account is not under; with a privacy unit, those whose debits, or
        whose children's, are about the same one. Only what the ledger itself holds is looked at, and of a large ledger only
        the first hundred accounts."""
        own = self.initial_state.lineage[-1].name
        with self.store.read_transaction() as transaction:
            names = [name for name in transaction.list_account_names() if name != own][:MAX_COMPARED_ACCOUNTS]
            openings = [opening for name in names if (opening := transaction.read_opening(name)) is not None]
            roots = [read_account(transaction, opening.account) for opening in openings if opening.parent is None]
        return tuple(each for each in roots if each is not None and privacy_unit in ("", each.privacy_unit))

    def check(self, event: Composition, certified_delta: Number = 0) -> None:
        """As in `Account`."""
        self.state.charge(event, certified_delta)

    def is_paid(
        self, event: Composition, *, measurement: str, id: str | None = None, fresh: bool = False, shared: bool = True
    ) -> bool:
        """As in `Account`."""
        if id is not None:
            validate_name(id, "id")
        with self.store.read_transaction() as transaction:
            found = self._find_earlier_debit(transaction, id, measurement, codec.encode(event), fresh, shared)
        return found is not None

    def has_debit(self, id: str) -> bool:
        """As in `Account`."""
        with self.store.read_transaction() as transaction:
            return transaction.find_debit_by_id(self.initial_state.name, validate_name(id, "id")) is not None

    def pay(self, event: Composition) -> Receipt:
        """As in `Account`."""
        receipt = self.reserve(event, measurement="", fresh=True)
        assert isinstance(receipt, Receipt)
        return receipt

    def reserve(
        self,
        event: Composition,
        *,
        measurement: str,
        id: str | None = None,
        fresh: bool = False,
        tainted: bool = False,
        certified_delta: Number = 0,
        privacy_unit: str = "",
        shared: bool = True,
    ) -> Receipt | CachedAnswer:
        """As in `Account`."""
        if tainted:
            raise BadParameter(
                "bits", "seeded", "a ledger records no answer with noise that can be repeated", "leave the seed out"
            )
        check_reserved(measurement, id, privacy_unit)
        encoded_event, at = codec.encode(event), read_decimal(certified_delta, "certified_delta")

        def reserve(transaction: Transaction) -> Receipt | CachedAnswer:
            earlier = self._find_earlier_debit(transaction, id, measurement, encoded_event, fresh, shared)
            return earlier or self._debit(transaction, id, measurement, event, encoded_event, cost, at, privacy_unit)

        try:
            cost = self._compute_charge(encoded_event, at)
            return self.store.transact(reserve)
        except BudgetExceeded as refused:
            raise self.state.suggest_epsilon(refused) from None

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """As in `Account`."""
        check_answer(answer)
        payer = receipt.paid_by or self.initial_state.name

        def record(transaction: Transaction) -> bytes:
            debit = transaction.find_entry(receipt.entry)
            if not isinstance(debit, Debit) or debit.account != payer or not self._is_in_family(transaction, payer):
                raise LedgerUnavailable(
                    self.store.location,
                    f"entry {receipt.entry} is no debit of account {payer!r}",
                    "record with the receipt that this account gave",
                )
            recorded = transaction.find_answer(receipt.entry)
            if recorded is not None:
                return recorded
            head = transaction.read_head()
            append_entry(
                transaction,
                AnswerRecorded(
                    number=head.number + 1, previous=head.hash.hex(), account=payer, debit=receipt.entry, answer=answer
                ),
            )
            return answer

        return self.store.transact(record)

    def find_payer(self, entry: int) -> "LedgerAccount":
        """Return the account of the family whose debit this entry is; this account if it is no debit of the family."""
        with self.store.read_transaction() as transaction:
            debit = transaction.find_entry(entry)
            if not isinstance(debit, Debit) or not self._is_in_family(transaction, debit.account):
                return self
            state = read_account(transaction, debit.account)
        return self if state is None else LedgerAccount(self.store, state)

    def _is_in_family(self, transaction: Transaction, account: str) -> bool:
        return account == self.initial_state.name or transaction.read_root(account) == self.initial_state.lineage[-1].name

    def _find_earlier_debit(
        self, transaction: Transaction, id: str | None, measurement: str, encoded_event: bytes, fresh: bool, shared: bool
    ) -> Receipt | CachedAnswer | None:
        """Find a debit with this id or, unless it must be fresh, of this measurement: its answer, or the receipt with which
        it is continued."""
        name = self.initial_state.name
        debit = None if id is None else transaction.find_debit_by_id(name, id)
        if (
            id is not None
            and debit is not None
            and (debit.measurement != measurement or bytes(debit.encoded_event) != encoded_event)
        ):
            raise IdTaken(
                id,
                _decode_event(bytes(debit.encoded_event)),
                debit.cost,
                transaction.find_answer(debit.number),
                debit.privacy_unit,
            )
        if debit is None and not fresh:
            debit = transaction.find_debit_by_measurement(name, measurement, in_family=shared)
            if debit is not None and debit.account != name and bytes(debit.encoded_event) != encoded_event:
                debit = transaction.find_debit_by_measurement(name, measurement)  # what it paid for itself is free
        if debit is None or bytes(debit.encoded_event) != encoded_event:
            return None
        answer = transaction.find_answer(debit.number)
        is_own = debit.account == name
        if answer is not None:
            return CachedAnswer(debit.number, debit.id if is_own else "", answer)
        remaining = transaction.read_totals(self.initial_state).budget.remaining
        return Receipt(debit.number, _decode_event(encoded_event), remaining, None if is_own else debit.account)

    def _compute_charge(self, encoded_event: bytes, certified_delta: Fraction) -> tuple[Fraction, Fraction]:
        """Return the cost of an event as it is read back: what could not be read is refused before it is in the chain."""
        key = self.initial_state.budget.currency, encoded_event, certified_delta.as_integer_ratio()
        cost = _charges.get(key)
        if cost is None:
            cost = self.initial_state.compute_charge(_decode_event(encoded_event), certified_delta)
            if len(_charges) >= MAX_KNOWN_CHARGES:
                _charges.clear()
            _charges[key] = cost
        return cost

    def _debit(
        self, transaction: Transaction, id: str | None, measurement: str, event: Composition, encoded_event: bytes,
        cost: tuple[Fraction, Fraction], certified_delta: Fraction, privacy_unit: str,
    ) -> Receipt:  # fmt: skip
        amount, delta = cost
        after = transaction.read_totals(self.initial_state).charge_cost(amount, delta, privacy_unit)
        head = transaction.read_head()
        append_entry(
            transaction,
            Debit(
                number=head.number + 1, previous=head.hash.hex(), account=after.name,
                id=_make_id(head.number + 1) if id is None else id, measurement=measurement,
                encoded_event=msgspec.Raw(encoded_event), cost=amount, delta=delta, spent=after.budget.spent,
                delta_spent=after.budget.delta_spent, certified_delta=certified_delta,
                unit=after.privacy_unit or msgspec.UNSET,
            ),
        )  # fmt: skip
        transaction.save_totals(after)
        return Receipt(head.number + 1, event, after.budget.remaining)


MAX_KNOWN_CHARGES = 1024
_charges: dict[tuple[Currency, bytes, tuple[int, int]], tuple[Fraction, Fraction]] = {}
"""Costs that were computed, by the bytes of the event: to hash the event itself takes longer, and so does a rational."""


def _make_id(number: int) -> str:
    """Return a random id for a debit with this number. With the number first, the ids of debits in one commit stand beside
    each other in a store's index, and their commit writes few pages of it."""
    return f"{number:010x}{token_hex(11)}"


def _decode_event(encoded_event: bytes) -> Composition:
    event = codec.decode(encoded_event)
    return event if isinstance(event, Composition) else compose(event)


@dataclass(frozen=True, slots=True)
class LedgerQuarantine:
    """A `Quarantine` in a ledger's chain, for all its accounts.

    >>> import tempfile
    >>> from discreet.ledger import open_ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = open_ledger(f"{folder.name}/hr.ledger", create=True)
    >>> ledger.quarantine.record_failure("people.csv", FailureKind.DECODING)
    >>> [each.source for each in ledger.quarantine.list_quarantined()]
    ['people.csv']
    >>> ledger.quarantine.lift("people.csv"); ledger.quarantine.check("people.csv")
    >>> ledger.close(); folder.cleanup()
    """

    store: Store

    def check(self, source: str) -> None:
        """As in `Quarantine`."""
        with self.store.read_transaction() as transaction:
            counts = transaction.read_failures(to_storable(source))
        if counts.is_quarantined:
            raise SourceQuarantined(source, self.store.location)

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """As in `Quarantine`."""
        with self.store.write_transaction() as transaction:
            head = transaction.read_head()
            append_entry(
                transaction,
                FailureRecorded(number=head.number + 1, previous=head.hash.hex(), source=to_storable(source), failure=kind),
            )

    def lift(self, source: str) -> None:
        """As in `Quarantine`."""
        name = to_storable(source)
        with self.store.write_transaction() as transaction:
            if not transaction.read_failures(name).is_quarantined:
                raise not_quarantined_error(source, select_quarantined(transaction.list_failures()))
            head = transaction.read_head()
            append_entry(transaction, QuarantineLifted(number=head.number + 1, previous=head.hash.hex(), source=name))

    def list_quarantined(self) -> tuple[QuarantinedSource, ...]:
        """As in `Quarantine`."""
        with self.store.read_transaction() as transaction:
            return select_quarantined(transaction.list_failures())


def to_storable(source: str) -> str:
    """Write the name of a source as every store can hold it: a path may hold bytes that are no text, and texts in PostgreSQL
    hold no NUL."""
    return source.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
