"""A budget that lives as long as the process."""

import threading
from uuid import uuid4

from discreet._numbers import Number, read_decimal
from discreet.accounting.currencies import MAX_DENOMINATOR_BITS, Filter, create_budget
from discreet.events import Composition
from discreet.ledger.account import compute_charge, require_same_unit
from discreet.ledger.store import CachedAnswer, id_taken_error
from discreet.query.answer import Receipt

__all__ = ["MemoryAccount", "create_budget"]


class MemoryAccount:
    """One lock: two threads never spend the same cent."""

    def __init__(self, budget: Filter) -> None:
        self._lock, self._budget, self._entries, self._privacy_unit = threading.Lock(), budget, 0, ""
        self._debits: dict[str, tuple[str, Receipt]] = {}  # by id, with the measurement
        self._answers: dict[int, bytes] = {}  # by entry

    @property
    def budget(self) -> Filter:
        """What was opened, and what is left of it."""
        return self._budget

    @property
    def quarantine(self) -> None:
        """None: the account ends with the process, and a quarantine must not."""
        return None

    def check(self, event: Composition) -> None:
        """As in `Account`."""
        self._budget.charge(event)

    def is_paid(self, event: Composition, *, measurement: str, id: str | None = None, fresh: bool = False) -> bool:
        """As in `Account`."""
        with self._lock:
            return self._find_earlier_debit(id, measurement, fresh) is not None

    def has_debit(self, id: str) -> bool:
        """As in `Account`."""
        with self._lock:
            return id in self._debits

    def pay(self, event: Composition) -> Receipt:
        """Debit, or refuse and leave everything as it was."""
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
    ) -> Receipt | CachedAnswer:
        """As in `Account`; seeded noise is fine here, since nothing of it outlives the process."""
        with self._lock:
            earlier = self._find_earlier_debit(id, measurement, fresh)
            if earlier is not None:
                return earlier
            bound_to = require_same_unit(self._privacy_unit, privacy_unit, "this session's")
            receipt = self._pay(event, certified_delta)
            self._privacy_unit = bound_to
            self._debits[uuid4().hex if id is None else id] = measurement, receipt
            return receipt

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """As in `Account`."""
        with self._lock:
            return self._answers.setdefault(receipt.entry, answer)

    def _find_earlier_debit(self, id: str | None, measurement: str, fresh: bool) -> Receipt | CachedAnswer | None:
        """A debit with this id or, unless it must be fresh, of this measurement: its answer, or the right to continue."""
        if id in self._debits and self._debits[id][0] != measurement:
            raise id_taken_error(id)
        same = [known for known, (of, _) in self._debits.items() if of == measurement and not fresh]
        known = id if id in self._debits else min(same, key=self._is_unanswered, default=None)
        if known is None:
            return None
        receipt = self._debits[known][1]
        answer = self._answers.get(receipt.entry)
        return receipt if answer is None else CachedAnswer(receipt.entry, known, answer)

    def _pay(self, event: Composition, certified_delta: Number = 0) -> Receipt:
        amount, delta = compute_charge(self._budget.currency, event, read_decimal(certified_delta, "at"))
        self._budget = self._budget.charge_cost(amount, delta, MAX_DENOMINATOR_BITS)
        self._entries += 1
        return Receipt(self._entries, event, self._budget.remaining)

    def _is_unanswered(self, id: str) -> bool:
        return self._debits[id][1].entry not in self._answers
