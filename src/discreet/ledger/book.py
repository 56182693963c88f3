"""A ledger: several accounts, one chain of entries, whatever the store. Pay, look, record: see `store` for the protocol."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from uuid import uuid4

import msgspec

from discreet import codec
from discreet.accounting.filters import Currency, Filter
from discreet.errors import BadParameter, BudgetExceeded, LedgerFailed
from discreet.exact import Number
from discreet.ledger.account import Account, proper
from discreet.ledger.entry import Answered, Debit, Entry, Opened, decode
from discreet.ledger.pages import Pages
from discreet.ledger.quarantine import LedgerQuarantine
from discreet.ledger.store import Recorded, Store, already_bound
from discreet.loss import Composition, compose
from discreet.query.release import Receipt


@dataclass(frozen=True, slots=True)
class Ledger:
    """Accounts and entries in a store.

    >>> import tempfile, os
    >>> from discreet.ledger.sqlite import SqliteStore
    >>> from discreet.loss import Claim
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(SqliteStore(os.path.join(folder.name, "hr.ledger"), create=True))
    >>> hr = ledger.open("hr", epsilon=2)
    >>> paid = hr.reserve(compose(Claim(Fraction(1), Fraction(0))), measurement="c0ffee", id="monday")
    >>> hr.record(paid, b"about 40"), hr.budget.left
    (b'about 40', Fraction(1, 1))
    >>> hr.reserve(compose(Claim(Fraction(1), Fraction(0))), measurement="c0ffee", id="monday").answer, hr.budget.left
    (b'about 40', Fraction(1, 1))
    >>> ledger.close(); folder.cleanup()
    """

    store: Store

    def open(
        self, name: str, epsilon: Number, delta: Number = 0, currency: Currency | None = None, parent: str | None = None
    ) -> "LedgerAccount":
        """A new account. Its budget and its currency are for life."""
        with self.store.writing() as pages:
            if pages.account(proper(name, "account")) is not None:
                raise BadParameter(
                    "account", repr(name), "it is open already", "an account keeps its budget for life; name another"
                )
            above = None if parent is None else self._known(pages, parent)
            account = Account.open(name, epsilon, delta, currency, above)
            number, link = pages.last()
            pages.append(Opened.of(account, number + 1, link))
            pages.add_account(name, number + 1)
        return LedgerAccount(self.store, account)

    def account(self, name: str | None = None) -> "LedgerAccount":
        """An account that is open; without a name the only one."""
        with self.store.reading() as pages:
            if name is None:
                name = self._only(pages)
            return LedgerAccount(self.store, self._known(pages, name))

    def accounts(self) -> tuple[Account, ...]:
        """Every account with its totals, in the order of opening."""
        with self.store.reading() as pages:
            return tuple(self._known(pages, name) for name in pages.names())

    @property
    def quarantine(self) -> LedgerQuarantine:
        """The sources that may not be queried, whoever pays."""
        return LedgerQuarantine(self.store)

    def entries(self) -> Iterator[Entry]:
        """Every entry, in order."""
        with self.store.reading() as pages:
            for row in pages.rows():
                yield decode(row.body)

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _known(self, pages: Pages, name: str) -> Account:
        found = pages.account(name)
        if found is None:
            names = ", ".join(map(repr, pages.names())) or "none yet"
            raise BadParameter("account", repr(name), f"not in {self.store.where}", f"the accounts are: {names}")
        return found

    def _only(self, pages: Pages) -> str:
        names = pages.names()
        if len(names) != 1:
            shown = ", ".join(map(repr, names)) or "none yet"
            raise BadParameter(
                "account", "missing", f"{self.store.where} does not have exactly one", f"name one of: {shown}"
            )
        return names[0]


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """One account of a ledger, as a purse that a session pays from."""

    store: Store
    opened: Account  # what it was; what is left of it is read anew each time

    @property
    def account(self) -> Account:
        """The account and its parents, with what is spent by now."""
        with self.store.reading() as pages:
            return pages.totals(self.opened)

    @property
    def budget(self) -> Filter:
        """What was opened, and what is left of it, in the account itself; its parent may have less."""
        return self.account.kept

    @property
    def quarantine(self) -> LedgerQuarantine:
        """The sources that may not be queried: the ledger's, for all its accounts."""
        return LedgerQuarantine(self.store)

    def check(self, loss: Composition) -> None:
        """As in `Purse`."""
        self.account.after(loss)

    def is_paid(self, loss: Composition, *, measurement: str, id: str | None = None, fresh: bool = False) -> bool:
        """As in `Purse`."""
        if id is not None:
            proper(id, "id")
        with self.store.reading() as pages:
            return self._earlier(pages, id, measurement, codec.encode(loss), fresh) is not None

    def has_debit(self, id: str) -> bool:
        """As in `Purse`."""
        with self.store.reading() as pages:
            return pages.by_id(self.opened.name, proper(id, "id")) is not None

    def pay(self, loss: Composition) -> Receipt:
        """A debit that no answer will be recorded for."""
        paid = self.reserve(loss, measurement="", fresh=True)
        assert isinstance(paid, Receipt)
        return paid

    def reserve(
        self,
        loss: Composition,
        *,
        measurement: str,
        id: str | None = None,
        fresh: bool = False,
        tainted: bool = False,
        at: Number = 0,
        whose: str = "",
    ) -> Receipt | Recorded:
        """As in `Purse`."""
        if tainted:
            raise BadParameter(
                "bits", "seeded", "a ledger keeps no answer whose noise can be repeated", "leave the seed out"
            )
        name, facts = proper(uuid4().hex if id is None else id, "id"), codec.encode(loss)
        codec.decode(facts)  # what could not be read back is refused before it is in the chain for good
        try:
            charge = self.opened.charge(loss, at)
            with self.store.writing() as pages:
                earlier = self._earlier(pages, id, measurement, facts, fresh)
                return earlier or self._debit(pages, name, measurement, loss, facts, charge, Fraction(at), whose)
        except BudgetExceeded as refused:
            raise self.account.way_out(refused) from None

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """As in `Purse`."""
        with self.store.writing() as pages:
            debit = pages.by_number(receipt.entry)
            if not isinstance(debit, Debit) or debit.account != self.opened.name:
                raise LedgerFailed(
                    self.store.where, f"entry {receipt.entry} is no debit", "record with the receipt of this ledger"
                )
            recorded = pages.answer(receipt.entry)
            if recorded is not None:
                return recorded
            number, link = pages.last()
            pages.append(
                Answered(
                    number=number + 1, previous=link.hex(), account=self.opened.name, debit=receipt.entry, answer=answer
                )
            )
        return answer

    def _earlier(
        self, pages: Pages, id: str | None, measurement: str, facts: bytes, fresh: bool
    ) -> Receipt | Recorded | None:
        """A debit with this id or, unless it must be fresh, of this measurement: its answer, or the right to continue."""
        debit = None if id is None else pages.by_id(self.opened.name, id)
        if id is not None and debit is not None and (debit.measurement != measurement or bytes(debit.facts) != facts):
            raise already_bound(id)
        if debit is None and not fresh:
            debit = pages.by_measurement(self.opened.name, measurement)
        if debit is None or bytes(debit.facts) != facts:
            return None
        answer = pages.answer(debit.number)
        if answer is not None:
            return Recorded(debit.number, debit.id, answer)
        return Receipt(debit.number, _composition(facts), pages.totals(self.opened).kept.left)

    def _debit(
        self, pages: Pages, id: str, measurement: str, loss: Composition, facts: bytes, charge: tuple[Fraction, Fraction],
        at: Fraction, whose: str,
    ) -> Receipt:  # fmt: skip
        price, leak = charge
        after = pages.totals(self.opened).paid(price, leak, whose)
        number, link = pages.last()
        pages.append(
            Debit(
                number=number + 1, previous=link.hex(), account=after.name, id=id, measurement=measurement,
                facts=msgspec.Raw(facts), price=price, leak=leak, spent=after.kept.spent, leaked=after.kept.leaked, at=at,
                about=after.whose or msgspec.UNSET,
            )
        )  # fmt: skip
        pages.save(after)
        pages.tally(after.name, facts)
        return Receipt(number + 1, loss, after.kept.left)


def _composition(facts: bytes) -> Composition:
    loss = codec.decode(facts)
    return loss if isinstance(loss, Composition) else compose(loss)
