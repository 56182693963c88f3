"""Hold answers until their moment: neither the ledger nor the control database shows earlier that one is ready.

**The threat.** An analyst can see more than when an answer arrives. If an answer were recorded when it is ready, entry
numbers and the head of the ledger would tell how long it took; an equal query under another id would find it recorded and be
answered at once; and the balance would change. So until its moment an answer is in memory alone.

**Theory of operation.** `HeldAccount` is an account whose `record` notes the answer instead of appending it. The debit is in
the ledger before any row is read, as always. At the moment `Held.record` appends the answer; if another worker was first,
the answer that is recorded is the one that is shown. A worker that dies before leaves a debit without an answer, which
another worker continues by its id: it draws new noise, and no analyst has seen the first.

`Moments` runs functions at their times in one thread, so that no answer that waits occupies a slot.
"""

import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from discreet.accounting.currencies import Receipt
from discreet.ledger.chain import LedgerAccount
from discreet.serve.schedule import JumpFreeClock

log = logging.getLogger("discreet.serve")


@dataclass(slots=True)
class Held:
    """The answer of one ask that is not recorded yet; without a receipt, one that was recorded before."""

    account: LedgerAccount
    receipt: Receipt | None = None
    encoded: bytes | None = None

    def record(self) -> bytes | None:
        """Append the answer to the ledger. Return what is recorded; None if nothing was held."""
        if self.receipt is None or self.encoded is None:
            return None
        return self.account.record(self.receipt, self.encoded)


_held: ContextVar[Held | None] = ContextVar("_held", default=None)


class HeldAccount(LedgerAccount):
    """A `LedgerAccount` whose answers are held while `hold` is entered in the same thread."""

    __slots__ = ()

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """As in `Account`; but what is held is recorded later."""
        held = _held.get()
        if held is None:
            return LedgerAccount.record(self, receipt, answer)
        held.receipt, held.encoded = receipt, answer
        return answer

    @contextmanager
    def hold(self) -> Iterator[Held]:
        """Hold the answer that is recorded in this block."""
        held = Held(LedgerAccount(self.store, self.initial_state))
        token = _held.set(held)
        try:
            yield held
        finally:
            _held.reset(token)


@dataclass(order=True)
class _Entry:
    moment: float
    number: int
    run: Callable[[], None] = field(compare=False)


class Moments:
    """Runs functions at their moments, in one thread, in order."""

    def __init__(self, clock: JumpFreeClock) -> None:
        self._clock, self._numbers = clock, itertools.count()
        self._entries: list[_Entry] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="discreet-moments", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def at(self, moment: float, run: Callable[[], None]) -> None:
        """Run a function at a moment; at once if it is past."""
        with self._changed:
            heapq.heappush(self._entries, _Entry(moment, next(self._numbers), run))
            self._changed.notify()

    def stop(self) -> None:
        """End the thread. What has not had its moment is not run."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (not self._entries or self._entries[0].moment > self._clock.now()):
                    wait = self._entries[0].moment - self._clock.now() if self._entries else None
                    self._changed.wait(wait)
                if self._stopped:
                    return
                entry = heapq.heappop(self._entries)
            try:
                entry.run()
            except Exception:
                log.exception("what was due at a moment failed")
