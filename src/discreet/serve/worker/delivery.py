"""When an ask ends: at the moment of its class, or at that of a later class if it is not ready by then.

An ask is scheduled before any row is read. What a slot has ready is kept until the moment, and delivered then. An ask that
is not ready leaves at the moment of the next class, which counts as an overrun; after the last class it fails, and its
statement is cancelled. A database that cannot be reached at the moment is tried again, while the job's lease is renewed.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from discreet.engines.base import Cancellation, owner_log
from discreet.errors import LedgerUnavailable
from discreet.serve.control.errors import ControlUnavailable, StateChanged
from discreet.serve.control.model import Ask, Job
from discreet.serve.control.store import Control
from discreet.serve.schedule import MAX_OVERRUNS, JumpFreeClock, can_be_made, find_end_of_class, find_next_class
from discreet.serve.worker.alerts import Alerts
from discreet.serve.worker.holding import Moments
from discreet.serve.worker.refusals import RETRY_SECONDS

log = logging.getLogger("discreet.serve")
CANCEL_SECONDS = 0.2
"""Between two tries to end a statement."""


@dataclass(slots=True)
class RunningAsk:
    """An ask that a slot runs or whose outcome is held."""

    job: Job
    ask: Ask
    classes: tuple[float, ...]
    class_seconds: float | None
    accepted_at: float = 0.0  # from which its classes are counted
    deliver: Callable[[], None] | None = None  # once the outcome is known
    is_held: bool = False  # whether it waits for its moment
    is_ended: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    cancellation: Cancellation = field(default_factory=Cancellation)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Ends asks at their moments. `fail` ends one that was not ready after the last class; `put_back` puts a job back into
    the queue."""

    control: Control
    clock: JumpFreeClock
    moments: Moments
    alerts: Alerts
    fail: Callable[[RunningAsk], None]
    put_back: Callable[[Job], None]

    def schedule(self, running: RunningAsk) -> None:
        """Wait for the moment of an ask, from before any row is read.

        A moment that has passed before a worker took the ask, or cannot be made, is replaced by one that is a whole class
        away: the queue was long, workers were down, or the clocks of web and worker differ. If a worker took it before and
        died, that may be because of the rows, and counts as an overrun.
        """
        if running.class_seconds is None:
            return
        now, moment = self.clock.now(), running.ask.release_at
        is_other = running.ask.class_seconds != running.class_seconds
        if moment is None or is_other or not can_be_made(running.class_seconds, moment - now):
            is_overrun = moment is not None and moment <= now and running.job.attempts > 1
            moment = now + running.class_seconds
            if is_overrun:
                self.count_overrun(running)
            self._store_moment(running, moment, overruns=int(is_overrun))
        running.accepted_at, running.is_held = moment - running.class_seconds, True
        running.cancellation = Cancellation(lambda: self.may_start(running))
        self.moments.at(moment, lambda: self._at_moment(running))

    def may_start(self, running: RunningAsk) -> bool:
        """Whether a statement that gets its engine now can be ready by the last class. Others may have had the engine for so
        long that it cannot: then it reads no row, and fails at its moment without being a failure of the source."""
        left = running.accepted_at + running.classes[-1] - self.clock.now()
        return running.class_seconds is None or can_be_made(running.class_seconds, min(left, running.class_seconds))

    def ready(self, running: RunningAsk, deliver: Callable[[], None]) -> bool:
        """Keep what is to be delivered until the moment; without a schedule, deliver it. Returns False if the ask has ended
        before."""
        with running.lock:
            if running.is_ended:
                return False
            running.deliver = deliver
        if running.class_seconds is None:
            self._at_moment(running)
        return True

    def forget(self, running: RunningAsk) -> None:
        """Let the moment pass."""
        with running.lock:
            running.is_ended, running.is_held = True, False

    def find_moment(self, running: RunningAsk) -> float:
        """When an ask ended, as is shown: the moment of its class, and the clock only where it has none."""
        seconds = running.class_seconds if running.is_held else None
        return self.clock.now() if seconds is None else running.accepted_at + seconds

    def deliver(self, running: RunningAsk, deliver: Callable[[], None]) -> None:
        """End an ask; again in a moment if a database cannot be reached. Its lease is renewed meanwhile."""
        try:
            deliver()
        except (LedgerUnavailable, ControlUnavailable) as error:
            log.warning("an answer waits: %s", error)
            self.moments.at(self.clock.now() + RETRY_SECONDS, lambda: self.deliver(running, deliver))
        except Exception:
            owner_log.exception("an answer could not be delivered")
            self.put_back(running.job)

    def deliver_late(self, running: RunningAsk, deliver: Callable[[], None]) -> None:
        """Deliver what became of an ask after it ended at the moment of its last class: a whole number of these after its
        acceptance, so that the head of the ledger does not tell when the statement ended."""
        seconds = find_end_of_class(running.classes[-1:], 0.0, (), self.clock.now() - running.accepted_at)
        assert seconds is not None
        self.moments.at(running.accepted_at + seconds, lambda: self.deliver(running, deliver))

    def find_paying(self, ask: Ask) -> str:
        """Return the account of the person's grant, which is above the account of a token: another token is no way around
        a pause."""
        grant = self.control.find_grant(ask.person, ask.table)
        return ask.account if grant is None else grant.account

    def count_overrun(self, running: RunningAsk) -> None:
        """Count an answer that was not ready at its moment: for its account, which is paused at the third, and its table."""
        try:
            with self.control.transaction():
                times = self.control.count_trouble(self.find_paying(running.ask), "overrun", limit=MAX_OVERRUNS)
                self.control.count_overrun(running.ask.table)
        except ControlUnavailable:
            return
        log.warning("an answer was not ready at its moment (%d of this account)", times)
        self.alerts.send("overrun", running.ask.table)

    def _store_moment(self, running: RunningAsk, moment: float, *, overruns: int) -> None:
        try:
            self.control.set_release(running.ask.id, moment, running.class_seconds, overruns=overruns)
        except (StateChanged, ControlUnavailable):
            log.warning("the new moment of an ask could not be stored")

    def _at_moment(self, running: RunningAsk) -> None:
        """Deliver what is ready; what is not leaves at the moment of the next class, or fails after the last."""
        with running.lock:
            if running.is_ended:
                return
            deliver = running.deliver
            following = None
            if deliver is None:
                assert running.class_seconds is not None
                following = find_next_class(running.classes, running.class_seconds)
            if deliver is not None or following is None:
                running.is_ended = True
        if deliver is not None:
            self.deliver(running, deliver)
            return
        self.count_overrun(running)
        if following is None:
            self.deliver(running, lambda: self.fail(running))
            self._cancel(running)
            return
        running.class_seconds = following
        moment = running.accepted_at + following
        self.moments.at(moment, lambda: self._at_moment(running))
        self._store_moment(running, moment, overruns=1)

    def _cancel(self, running: RunningAsk) -> None:
        """End the statement of an ask that has failed, so that its slot is free. It is tried again until it has ended: a
        statement that was about to start is not ended by the first try. No answer waits for it."""

        def cancel() -> None:
            try:
                while running.cancellation.cancel():
                    time.sleep(CANCEL_SECONDS)
            except Exception:
                owner_log.exception("a statement could not be cancelled")

        threading.Thread(target=cancel, name="discreet-cancel", daemon=True).start()
