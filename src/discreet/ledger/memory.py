"""An account that ends with the process."""

import threading
from fractions import Fraction
from typing import Any
from uuid import uuid4

from discreet._numbers import Number, read_decimal, to_rational
from discreet.accounting.currencies import MAX_DENOMINATOR_BITS, Filter, Receipt, create_budget
from discreet.errors import BadParameter
from discreet.events import Composition
from discreet.ledger.account import (
    CachedAnswer,
    IdTaken,
    check_answer,
    check_reserved,
    compute_charge,
    require_same_unit,
)

__all__ = ["MemoryAccount", "create_budget"]


class MemoryAccount:
    """An `Account` that ends with the process. One lock: two threads never debit the same remainder.

    >>> from fractions import Fraction
    >>> from discreet.events import Claim, compose
    >>> account, event = MemoryAccount(create_budget(1, 0)), compose(Claim(Fraction(1, 4), Fraction(0)))
    >>> receipt = account.reserve(event, measurement="c0ffee")
    >>> account.record(receipt, b"about 40"), account.budget.remaining
    (b'about 40', Fraction(3, 4))
    >>> account.reserve(event, measurement="c0ffee").answer, account.budget.remaining
    (b'about 40', Fraction(3, 4))
    """

    def __init__(self, budget: Filter) -> None:
        self._lock, self._budget, self._entries, self._privacy_unit = threading.Lock(), budget, 0, ""
        self._debits: dict[str, tuple[str, Receipt]] = {}  # by id, with the hash of the measurement
        self._ids: dict[str, list[str]] = {}  # by measurement, in the order of the debits
        self._answers: dict[int, bytes] = {}  # by entry

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be copied or pickled: two copies would each spend the whole of what remains."""
        raise BadParameter(
            "account",
            "to be copied or pickled",
            "the copy could spend the same budget again",
            "share it among threads; for several processes open an account in a ledger",
        )

    @property
    def budget(self) -> Filter:
        """As in `Account`."""
        return self._budget

    @property
    def family_budget(self) -> Filter:
        """The account's own: it has no family."""
        return self._budget

    @property
    def quarantine(self) -> None:
        """None: the account ends with the process, and a quarantine must not."""
        return None

    def check(self, event: Composition, certified_delta: Number = 0) -> None:
        """As in `Account`."""
        self._budget.charge_cost(*self._compute_charge(event, certified_delta))

    def is_paid(
        self, event: Composition, *, measurement: str, id: str | None = None, fresh: bool = False, shared: bool = True
    ) -> bool:
        """As in `Account`."""
        with self._lock:
            return self._find_earlier_debit(id, measurement, fresh) is not None

    def has_debit(self, id: str) -> bool:
        """As in `Account`."""
        with self._lock:
            return id in self._debits

    def pay(self, event: Composition) -> Receipt:
        """As in `Account`."""
        with self._lock:
            return self._pay(event)

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
        """As in `Account`; seeded noise is accepted, since nothing of it outlives the process."""
        check_reserved(measurement, id, privacy_unit)
        with self._lock:
            earlier = self._find_earlier_debit(id, measurement, fresh)
            if earlier is not None:
                return earlier
            unit = require_same_unit(self._privacy_unit, privacy_unit, "this session's")
            receipt = self._pay(event, certified_delta)
            name = uuid4().hex if id is None else id
            self._privacy_unit, self._debits[name] = unit, (measurement, receipt)
            self._ids.setdefault(measurement, []).append(name)
            return receipt

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """As in `Account`."""
        with self._lock:
            return self._answers.setdefault(receipt.entry, check_answer(answer))

    def _find_earlier_debit(self, id: str | None, measurement: str, fresh: bool) -> Receipt | CachedAnswer | None:
        """Find a debit with this id or, unless it must be fresh, of this measurement: its answer, or the receipt with which
        it is continued."""
        if id is not None and id in self._debits:
            if self._debits[id][0] != measurement:
                receipt = self._debits[id][1]
                cost = to_rational(compute_charge(self._budget.currency, receipt.event)[0])
                raise IdTaken(id, receipt.event, cost, self._answers.get(receipt.entry), self._privacy_unit)
            names = [id]
        else:
            names = [] if fresh else self._ids.get(measurement, [])
        for name in names:
            entry = self._debits[name][1].entry
            if entry in self._answers:
                return CachedAnswer(entry, name, self._answers[entry])
        return self._debits[names[0]][1].renew() if names else None

    def _pay(self, event: Composition, certified_delta: Number = 0) -> Receipt:
        self._budget = self._budget.charge_cost(*self._compute_charge(event, certified_delta), MAX_DENOMINATOR_BITS)
        self._entries += 1
        return Receipt(self._entries, event, self._budget.remaining)

    def _compute_charge(self, event: Composition, certified_delta: Number) -> tuple[Fraction | float, Fraction]:
        return compute_charge(self._budget.currency, event, read_decimal(certified_delta, "certified_delta"))
