"""A ledger: several accounts, one chain of entries, whatever the store. Pay, look, record: see `store` for the protocol."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from uuid import uuid4

import msgspec

from discreet import codec
from discreet._numbers import Number
from discreet.accounting.currencies import Currency, Filter
from discreet.errors import BadParameter, BudgetExceeded, LedgerUnavailable
from discreet.events import Composition, compose
from discreet.ledger.account import AccountState, validate_name
from discreet.ledger.entries import AccountOpened, AnswerRecorded, Debit, Entry, decode
from discreet.ledger.quarantine import LedgerQuarantine
from discreet.ledger.sql_store import Transaction
from discreet.ledger.store import CachedAnswer, Store, id_taken_error
from discreet.query.answer import Receipt


@dataclass(frozen=True, slots=True)
class Ledger:
    """Accounts and entries in a store.

    >>> import tempfile, os
    >>> from discreet.ledger.sqlite import SqliteStore
    >>> from discreet.events import Claim
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(SqliteStore(os.path.join(folder.name, "hr.ledger"), create=True))
    >>> hr = ledger.open_account("hr", epsilon=2)
    >>> paid = hr.reserve(compose(Claim(Fraction(1), Fraction(0))), measurement="c0ffee", id="monday")
    >>> hr.record(paid, b"about 40"), hr.budget.remaining
    (b'about 40', Fraction(1, 1))
    >>> hr.reserve(compose(Claim(Fraction(1), Fraction(0))), measurement="c0ffee", id="monday").answer, hr.budget.remaining
    (b'about 40', Fraction(1, 1))
    >>> ledger.close(); folder.cleanup()
    """

    store: Store

    def open_account(
        self, name: str, epsilon: Number, delta: Number = 0, currency: Currency | None = None, parent: str | None = None
    ) -> "LedgerAccount":
        """A new account. Its budget and its currency are for life."""
        with self.store.write_transaction() as pages:
            if pages.read_account(validate_name(name, "account")) is not None:
                raise BadParameter(
                    "account", repr(name), "it is open already", "an account keeps its budget for life; name another"
                )
            above = None if parent is None else self._require_account(pages, parent)
            account = AccountState.open(name, epsilon, delta, currency, above)
            number, link = pages.read_last()
            pages.append(AccountOpened.of(account, number + 1, link))
            pages.add_account(name, number + 1)
        return LedgerAccount(self.store, account)

    def get_account(self, name: str | None = None) -> "LedgerAccount":
        """An account that is open; without a name the only one."""
        with self.store.read_transaction() as pages:
            if name is None:
                name = self._only_account_name(pages)
            return LedgerAccount(self.store, self._require_account(pages, name))

    def list_accounts(self) -> tuple[AccountState, ...]:
        """Every account with its totals, in the order of opening."""
        with self.store.read_transaction() as pages:
            return tuple(self._require_account(pages, name) for name in pages.list_account_names())

    @property
    def quarantine(self) -> LedgerQuarantine:
        """The sources that may not be queried, whoever pays."""
        return LedgerQuarantine(self.store)

    def iter_entries(self) -> Iterator[Entry]:
        """Every entry, in order."""
        with self.store.read_transaction() as pages:
            for row in pages.iter_entries():
                yield decode(row.body)

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_account(self, transaction: Transaction, name: str) -> AccountState:
        found = transaction.read_account(name)
        if found is None:
            names = ", ".join(map(repr, transaction.list_account_names())) or "none yet"
            raise BadParameter("account", repr(name), f"not in {self.store.location}", f"the accounts are: {names}")
        return found

    def _only_account_name(self, transaction: Transaction) -> str:
        names = transaction.list_account_names()
        if len(names) != 1:
            shown = ", ".join(map(repr, names)) or "none yet"
            raise BadParameter(
                "account", "missing", f"{self.store.location} does not have exactly one", f"name one of: {shown}"
            )
        return names[0]


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """One account of a ledger, as a purse that a session pays from."""

    store: Store
    initial_state: AccountState  # what it was; what is left of it is read anew each time

    @property
    def state(self) -> AccountState:
        """The account and its parents, with what is spent by now."""
        with self.store.read_transaction() as pages:
            return pages.read_totals(self.initial_state)

    @property
    def budget(self) -> Filter:
        """What was opened, and what is left of it, in the account itself; its parent may have less."""
        return self.state.budget

    @property
    def quarantine(self) -> LedgerQuarantine:
        """The sources that may not be queried: the ledger's, for all its accounts."""
        return LedgerQuarantine(self.store)

    def check(self, event: Composition) -> None:
        """As in `Account`."""
        self.state.charge(event)

    def is_paid(self, event: Composition, *, measurement: str, id: str | None = None, fresh: bool = False) -> bool:
        """As in `Account`."""
        if id is not None:
            validate_name(id, "id")
        with self.store.read_transaction() as pages:
            return self._find_earlier_debit(pages, id, measurement, codec.encode(event), fresh) is not None

    def has_debit(self, id: str) -> bool:
        """As in `Account`."""
        with self.store.read_transaction() as pages:
            return pages.find_debit_by_id(self.initial_state.name, validate_name(id, "id")) is not None

    def pay(self, event: Composition) -> Receipt:
        """A debit that no answer will be recorded for."""
        paid = self.reserve(event, measurement="", fresh=True)
        assert isinstance(paid, Receipt)
        return paid

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
    ) -> Receipt | CachedAnswer:
        """As in `Account`."""
        if tainted:
            raise BadParameter(
                "bits", "seeded", "a ledger keeps no answer whose noise can be repeated", "leave the seed out"
            )
        name, facts = validate_name(uuid4().hex if id is None else id, "id"), codec.encode(event)
        codec.decode(facts)  # what could not be read back is refused before it is in the chain for good
        try:
            charge = self.initial_state.compute_charge(event, certified_delta)
            with self.store.write_transaction() as pages:
                earlier = self._find_earlier_debit(pages, id, measurement, facts, fresh)
                return earlier or self._debit(
                    pages, name, measurement, event, facts, charge, Fraction(certified_delta), privacy_unit
                )
        except BudgetExceeded as refused:
            raise self.state.suggest_epsilon(refused) from None

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """As in `Account`."""
        with self.store.write_transaction() as pages:
            debit = pages.find_entry(receipt.entry)
            if not isinstance(debit, Debit) or debit.account != self.initial_state.name:
                raise LedgerUnavailable(
                    self.store.location, f"entry {receipt.entry} is no debit", "record with the receipt of this ledger"
                )
            recorded = pages.find_answer(receipt.entry)
            if recorded is not None:
                return recorded
            number, link = pages.read_last()
            pages.append(
                AnswerRecorded(
                    number=number + 1,
                    previous=link.hex(),
                    account=self.initial_state.name,
                    debit=receipt.entry,
                    answer=answer,
                )
            )
        return answer

    def _find_earlier_debit(
        self, transaction: Transaction, id: str | None, measurement: str, encoded_event: bytes, fresh: bool
    ) -> Receipt | CachedAnswer | None:
        """A debit with this id or, unless it must be fresh, of this measurement: its answer, or the right to continue."""
        debit = None if id is None else transaction.find_debit_by_id(self.initial_state.name, id)
        if (
            id is not None
            and debit is not None
            and (debit.measurement != measurement or bytes(debit.facts) != encoded_event)
        ):
            raise id_taken_error(id)
        if debit is None and not fresh:
            debit = transaction.find_debit_by_measurement(self.initial_state.name, measurement)
        if debit is None or bytes(debit.facts) != encoded_event:
            return None
        answer = transaction.find_answer(debit.number)
        if answer is not None:
            return CachedAnswer(debit.number, debit.id, answer)
        return Receipt(
            debit.number, _decode_event(encoded_event), transaction.read_totals(self.initial_state).budget.remaining
        )

    def _debit(
        self, transaction: Transaction, id: str, measurement: str, event: Composition, encoded_event: bytes,
        cost: tuple[Fraction, Fraction],
        certified_delta: Fraction, privacy_unit: str,
    ) -> Receipt:  # fmt: skip
        price, leak = cost
        after = transaction.read_totals(self.initial_state).charge_cost(price, leak, privacy_unit)
        number, link = transaction.read_last()
        transaction.append(
            Debit(
                number=number + 1, previous=link.hex(), account=after.name, id=id, measurement=measurement,
                facts=msgspec.Raw(encoded_event), price=price, leak=leak,
                spent=after.budget.spent, leaked=after.budget.delta_spent,
                at=certified_delta,
                about=after.privacy_unit or msgspec.UNSET,
            )
        )  # fmt: skip
        transaction.save_totals(after)
        transaction.count_event(after.name, encoded_event)
        return Receipt(number + 1, event, after.budget.remaining)


def _decode_event(encoded_event: bytes) -> Composition:
    loss = codec.decode(encoded_event)
    return loss if isinstance(loss, Composition) else compose(loss)
