"""Hold answers until their moment: neither the ledger nor the control database shows earlier that one is ready.

**The threat.** An analyst can see more than when an answer arrives. If an answer were recorded when it is ready, entry
numbers and the head of the ledger would tell how long it took; an equal query under another id would find it recorded and be
answered at once; and the balance would change. So until its moment an answer is in memory alone.

**Theory of operation.** `HeldAccount` is an account whose `record` notes the answer instead of appending it. The debit is in
the ledger before any row is read, as always. At the moment `Held.record` appends the answer; if another worker was first,
the answer that is recorded is the one that is shown. A worker that dies before leaves a debit without an answer, which
another worker continues by its id: it draws new noise, and no analyst has seen the first.

A failure of the engine is held in the same way. It may close the source, and an entry of the ledger or a refusal of the next
ask would tell at once that a query failed. Until its moment it counts in the memory of this worker alone: what is asked of a
source that is closed meanwhile reads no row, and fails at its own moment. A worker that dies before leaves the ask to
another, which meets the same failure.

A publication answers many queries and keeps its slot, so it is not handed on: its thread waits. It enters `hold` with a
function that returns at the end of its class, and `record` appends after that.

`Moments` runs functions at their times in one thread, so that no answer that waits occupies a slot.
"""

import heapq
import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from discreet.accounting.currencies import Receipt
from discreet.errors import SourceQuarantined
from discreet.ledger.chain import LedgerAccount, LedgerQuarantine, to_storable
from discreet.ledger.quarantine import FailureCounts, FailureKind
from discreet.serve.schedule import JumpFreeClock

log = logging.getLogger("discreet.serve")


@dataclass(slots=True)
class Held:
    """The answer of one ask that is not recorded yet; without a receipt, one that was recorded before."""

    account: LedgerAccount
    failures: "HeldFailures"
    receipt: Receipt | None = None
    encoded: bytes | None = None
    failed: list[tuple[str, FailureKind]] = field(default_factory=list)
    wait: Callable[[], None] | None = None  # until the moment, for an answer whose thread waits for it

    def record(self) -> bytes | None:
        """Append the answer to the ledger. Return what is recorded; None if nothing was held."""
        if self.receipt is None or self.encoded is None:
            return None
        return self.account.record(self.receipt, self.encoded)

    def record_failures(self) -> None:
        """Append the failures of the ask to the ledger, each once."""
        while self.failed:
            source, kind = self.failed[0]
            self.account.quarantine.record_failure(source, kind)
            self.failures.forget(source, kind)
            del self.failed[0]


class HeldFailures:
    """The failures of one worker that are not recorded yet."""

    def __init__(self) -> None:
        self._lock, self._failures = threading.Lock(), Counter[tuple[str, FailureKind]]()

    def add(self, source: str, kind: FailureKind) -> None:
        """Count a failure from now on."""
        with self._lock:
            self._failures[source, kind] += 1

    def forget(self, source: str, kind: FailureKind) -> None:
        """Count a failure that is recorded no more."""
        with self._lock:
            self._failures[source, kind] -= 1

    def add_to(self, counts: FailureCounts, source: str) -> FailureCounts:
        """Return counts of a source with what is held."""
        with self._lock:
            for kind in FailureKind:
                for _ in range(self._failures[source, kind]):
                    counts = counts.add_failure(kind)
        return counts


class ClosedForNow(SourceQuarantined):
    """A source is closed by a failure that is held: an analyst may not learn it yet."""


_held: ContextVar[Held | None] = ContextVar("_held", default=None)


@dataclass(frozen=True, slots=True)
class HeldQuarantine(LedgerQuarantine):
    """A quarantine that knows the failures that are held."""

    failures: HeldFailures

    def check(self, source: str) -> None:
        """As in `Quarantine`.

        Raises:
            ClosedForNow: if it is closed by what is held; within `hold` alone, where the answer would have to wait too.
        """
        LedgerQuarantine.check(self, source)
        if _held.get() is not None:
            with self.store.read_transaction() as transaction:
                counts = transaction.read_failures(to_storable(source))
            if self.failures.add_to(counts, source).is_quarantined:
                raise ClosedForNow(source)

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """As in `Quarantine`; but what is held is recorded later."""
        held = _held.get()
        if held is None:
            LedgerQuarantine.record_failure(self, source, kind)
        else:
            held.failed.append((source, kind))
            self.failures.add(source, kind)


@dataclass(frozen=True, slots=True)
class HeldAccount(LedgerAccount):
    """A `LedgerAccount` whose answers and failures are held while `hold` is entered in the same thread."""

    failures: HeldFailures

    @property
    def quarantine(self) -> HeldQuarantine:
        """The quarantine of the ledger, with what is held."""
        return HeldQuarantine(self.store, self.failures)

    def record(self, receipt: Receipt, answer: bytes) -> bytes:
        """As in `Account`; but what is held is recorded later."""
        held = _held.get()
        if held is None:
            return LedgerAccount.record(self, receipt, answer)
        if held.wait is not None:
            held.wait()
            return LedgerAccount.record(self, receipt, answer)
        held.receipt, held.encoded = receipt, answer
        return answer

    @contextmanager
    def hold(self, wait: Callable[[], None] | None = None) -> Iterator[Held]:
        """Hold the answer and the failures that are recorded in this block. With `wait`, the answer is recorded in the
        block, once `wait` has returned; if it raises, nothing is recorded."""
        held = Held(LedgerAccount(self.store, self.initial_state), self.failures, wait=wait)
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
                    self._clock.wait(self._changed, self._entries[0].moment if self._entries else None)
                if self._stopped:
                    return
                entry = heapq.heappop(self._entries)
            try:
                entry.run()
            except Exception:
                log.exception("what was due at a moment failed")
