"""A budget that lives as long as the process."""

import threading
from uuid import uuid4

from discreet.accounting.filters import Filter
from discreet.exact import Number, read_decimal
from discreet.ledger.account import one_whose, price_at
from discreet.ledger.budget import amount, budget, epsilon_that_fits, rounded_down, step_of
from discreet.ledger.store import Recorded, already_bound
from discreet.loss import Composition
from discreet.query.release import Receipt

__all__ = ["MemoryAccount", "amount", "budget", "epsilon_that_fits", "rounded_down", "step_of"]


class MemoryAccount:
    """One lock: two threads never spend the same cent."""

    def __init__(self, budget: Filter) -> None:
        self._lock, self._budget, self._entries, self._whose = threading.Lock(), budget, 0, ""
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

    def check(self, loss: Composition) -> None:
        """As in `Purse`."""
        self._budget.after(loss)

    def is_paid(self, loss: Composition, *, measurement: str, id: str | None = None, fresh: bool = False) -> bool:
        """As in `Purse`."""
        with self._lock:
            return self._earlier(id, measurement, fresh) is not None

    def has_debit(self, id: str) -> bool:
        """As in `Purse`."""
        with self._lock:
            return id in self._debits

    def pay(self, loss: Composition) -> Receipt:
        """Debit, or refuse and leave everything as it was."""
        with self._lock:
            return self._pay(loss)

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
        """As in `Purse`; seeded noise is fine here, since nothing of it outlives the process."""
        with self._lock:
            earlier = self._earlier(id, measurement, fresh)
            if earlier is not None:
                return earlier
            bound_to = one_whose(self._whose, whose, "this session's")
            receipt = self._pay(loss, at)
            self._whose = bound_to
            self._debits[uuid4().hex if id is None else id] = measurement, receipt
            return receipt

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """As in `Purse`."""
        with self._lock:
            return self._answers.setdefault(receipt.entry, answer)

    def _earlier(self, id: str | None, measurement: str, fresh: bool) -> Receipt | Recorded | None:
        """A debit with this id or, unless it must be fresh, of this measurement: its answer, or the right to continue."""
        if id in self._debits and self._debits[id][0] != measurement:
            raise already_bound(id)
        same = [known for known, (of, _) in self._debits.items() if of == measurement and not fresh]
        known = id if id in self._debits else min(same, key=self._unanswered, default=None)
        if known is None:
            return None
        receipt = self._debits[known][1]
        answer = self._answers.get(receipt.entry)
        return receipt if answer is None else Recorded(receipt.entry, known, answer)

    def _pay(self, loss: Composition, at: Number = 0) -> Receipt:
        self._budget = self._budget.paid(*price_at(self._budget.currency, loss, read_decimal(at, "at"))).short()
        self._entries += 1
        return Receipt(self._entries, loss, self._budget.left)

    def _unanswered(self, id: str) -> bool:
        return self._debits[id][1].entry not in self._answers
