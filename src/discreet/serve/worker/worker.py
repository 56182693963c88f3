"""The worker's threads: slots that claim and run jobs, one that renews leases, one that releases answers at their moments.

Slots run asks and nothing else. Other kinds of jobs have threads of their own, one for each group of `SIDE_KINDS`: however
many publications or attacks of the lab wait, an ask finds the slots that the admission check counted. Asks of tables without
classes, such as those of a class of students, are not counted by that check; where other tables have classes, they have one
slot of their own, so they delay each other alone.

An answer that waits for its moment occupies no slot. A worker that is killed loses nothing: its leases end, another worker
claims its jobs, and the ledger continues each debit by its id. A worker that is stopped waits for what runs, releases what
is due within a few seconds, and puts the rest back.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from shutil import disk_usage

from discreet.errors import DiscreetError
from discreet.serve.config import ServiceConfig
from discreet.serve.control.errors import ControlUnavailable
from discreet.serve.control.model import Job
from discreet.serve.control.store import Control
from discreet.serve.control.waiting import queue_topic
from discreet.serve.schedule import JumpFreeClock
from discreet.serve.worker.alerts import Alerts
from discreet.serve.worker.holding import Moments
from discreet.serve.worker.jobs import Jobs
from discreet.serve.worker.refusals import RETRY_SECONDS
from discreet.serve.worker.released import ReleasedTables
from discreet.serve.worker.tables import Tables

log = logging.getLogger("discreet.serve")
SIDE_KINDS = (
    ("open_account", "open_class", "certificate", "release", "alert"),
    ("publication",),
    ("lab_attack", "ledger_check"),
)
"""The kinds of jobs beside asks; a worker runs one job of each group at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker works."""

    slots: int = 2  # asks that run at once
    lease_seconds: float = 30.0
    idle_seconds: float = 1.0  # the longest wait between two looks at the queue
    drain_seconds: float = 5.0  # how long a worker that is stopped goes on
    per_person: int | None = None  # asks of one person that run or are held at once


class Worker:
    """Takes jobs from the control database until it is stopped."""

    def __init__(
        self, config: ServiceConfig, control: Control, clock: JumpFreeClock, settings: WorkerSettings | None = None
    ) -> None:
        self.config, self.control, self.clock = config, control, clock
        self.settings = settings or WorkerSettings(slots=config.slots, drain_seconds=0.5 if config.embedded else 5.0)
        self.name = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self.tables = Tables(config, control, clock)
        self.alerts = Alerts(config.alerts, config.name)
        self.moments = Moments(clock)
        released = None if config.released is None else ReleasedTables(config.released)
        self.jobs = Jobs(control, self.tables, clock, self.moments, self.alerts, released)
        self._stopped = threading.Event()
        # where tables have classes, asks of others, which may take any time, have a slot of their own
        has_classes = any(each.classes is None or each.classes for each in config.tables.values())
        slots = self.settings.slots
        asks: list[bool | None] = [*[True] * slots, False] if has_classes else [None] * slots
        work = [(("ask",), scheduled) for scheduled in asks] + [(kinds, None) for kinds in SIDE_KINDS]
        self._slots = [
            threading.Thread(target=self._work, args=each, name=f"discreet-slot-{i}", daemon=True)
            for i, each in enumerate(work)
        ]
        self._renewer = threading.Thread(target=self._renew, name="discreet-leases", daemon=True)

    def start(self, *, adopt: bool = False) -> None:
        """Open and check everything, then start the threads.

        Raises:
            DiscreetError: if the ledger or a table cannot be served; nothing was started.
        """
        self.tables.open(adopt=adopt)
        self._say_slots()
        self.moments.start()
        self._renewer.start()
        for slot in self._slots:
            slot.start()

    def stop(self) -> None:
        """Claim no more, end what runs, and release or put back what is held."""
        self._stopped.set()
        self.jobs.stop()
        for kind in ("ask", SIDE_KINDS[0][0]):
            with suppress(ControlUnavailable), self.control.subscribe(queue_topic(kind)) as queue:
                queue.notify()
        deadline = time.monotonic() + self.settings.drain_seconds
        for slot in self._slots:
            slot.join(max(0.0, deadline - time.monotonic()))
        while self.jobs.leased and time.monotonic() < deadline:
            time.sleep(0.02)
        self.moments.stop()
        for job in self.jobs.leased:
            self.jobs.put_back(job)
        self._renewer.join(1.0)
        try:
            self.control.save_slots(self.name, 0, 0.0)  # one that stops is gone at once
        except ControlUnavailable:
            log.warning("the slots of this worker are forgotten in a while")
        self.alerts.stop()
        self.tables.close()

    def _say_slots(self) -> None:
        """Say how many asks run here at once: the web takes no more asks than workers answer in time. Stewards see how much
        space is left for the ledger; the web process does not see the folder."""
        try:
            free = disk_usage(self.config.state).free
        except OSError:
            free = None
        self.control.save_slots(self.name, self.settings.slots, self.settings.lease_seconds, free)

    def _work(self, kinds: tuple[str, ...], scheduled: bool | None) -> None:
        while not self._stopped.is_set():
            try:
                with self.control.subscribe(queue_topic(kinds[0])) as queue:
                    while not self._stopped.is_set():
                        job = self._claim(kinds, scheduled)
                        if job is None:
                            queue.wait(self.settings.idle_seconds)
                        else:
                            self.jobs.run(job)
            except ControlUnavailable as error:
                log.warning("the control database cannot be reached: %s", error)
                self._stopped.wait(self.settings.idle_seconds)
            except Exception:
                log.exception("a slot failed, and goes on")
                self._stopped.wait(self.settings.idle_seconds)

    def _claim(self, kinds: tuple[str, ...], scheduled: bool | None) -> Job | None:
        lease, per_person = self.settings.lease_seconds, self.settings.per_person
        return self.control.claim(self.name, None, lease, kinds, per_person=per_person, scheduled=scheduled)

    def _renew(self) -> None:
        """Renew the slots, the leases and the mark of the ledger, each whatever becomes of the others. What fails is tried
        again before it is missed: a worker that is not renewed counts as gone, and its jobs are taken by others."""
        seconds, is_renewed = self.settings.lease_seconds, True
        while not self._stopped.wait(seconds / 3 if is_renewed else min(RETRY_SECONDS, seconds / 10)):
            is_renewed = all([self._try_renewal(self._say_slots), self._try_renewal(self.tables.renew_serving)])
            jobs = list(self.jobs.leased)
            if not self._try_renewal(partial(self._renew_leases, jobs)):  # one of them may be what fails
                failed = [job for job in jobs if not self._try_renewal(partial(self._renew_leases, [job]))]
                is_renewed = is_renewed and not failed

    def _renew_leases(self, jobs: Iterable[Job]) -> None:
        with self.control.transaction(durable=False, urgent=True):  # one wait for other writers, however many there are
            for job in jobs:
                self.control.renew(job, None, self.settings.lease_seconds)

    @staticmethod
    def _try_renewal(renew: Callable[[], object]) -> bool:
        """Return whether something could be renewed."""
        try:
            renew()
        except DiscreetError as error:
            log.warning("a lease could not be renewed: %s", error)
            return False
        except Exception:  # whatever it is, the thread must go on
            log.exception("a lease could not be renewed")
            return False
        return True
