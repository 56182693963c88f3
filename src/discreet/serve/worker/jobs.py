"""What a job of each kind does.

**An ask.** The worker calibrates the query again and compares the hash of the measurement with the one that was quoted and,
where a steward had to, approved: an approval holds for that measurement and no other, so a policy that was widened since, or
a web process that was taken over, gets nothing past it. Classes and population are the worker's own: what the control
database says of them decides nothing. Then `Session.ask` debits, runs and draws noise under the id
`person:key`, and the answer is held (`holding`) until its moment (`delivery`).

What ends an ask, and when:

- *refused*, at once: for reasons of policy, rules, cost and balance, which no row decides;
- *failed*, at its moment, with a constant text: the engine failed, or was not ready after the last class. It stays charged.
  Three failures pause the account. A statement that is not ready after the last class is cancelled, and its slot is free;
- *answered*, at its moment; at once if the answer was recorded before.

**Slots.** When the next job is claimed would show how long the one before it ran: an analyst who fills the slots and then
asks for something that is free would time any query. So an ask keeps its slot for a fixed share of its class, no less and no
more: its statement has a thread of its own, and goes on there if it takes longer (`Jobs._run_beside`). How many of these
threads there are follows from the classes: after the last one a statement is cancelled. A publication is recorded at the end
of a class, counted from its start (`publications`).

A job may run twice, if its worker died: the ledger continues the debit by its id, and opening an account that is open, or
signing a certificate again, changes nothing.

The other kinds: `open_account`, `certificate`, `publication`, `ledger_check`, `release`, `alert` and, for the lab,
`open_class` and `lab_attack`. Quarantines are lifted by the owner on the command line (`discreet source lift`), never
through the web.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec

from discreet import __version__
from discreet.engines.base import owner_log
from discreet.errors import (
    BadParameter,
    BudgetExceeded,
    DiscreetError,
    EngineFailed,
    LedgerCorrupted,
    LedgerUnavailable,
    SourceRefused,
)
from discreet.ledger.certificate import make_certificate
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import hash_measurement
from discreet.query.answer import Answer
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery
from discreet.remote.wire import answer_from_wire, answer_to_wire, to_problem
from discreet.serve.control.errors import ControlUnavailable, StateChanged
from discreet.serve.control.model import Ask, AskState, Job, Snapshot
from discreet.serve.control.store import Control
from discreet.serve.quoting import parse_once
from discreet.serve.rounding import round_refusal
from discreet.serve.schedule import (
    JumpFreeClock,
    choose_class,
    count_slot_seconds,
)
from discreet.serve.worker.alerts import Alerts
from discreet.serve.worker.classes import run_attack
from discreet.serve.worker.delivery import Delivery, RunningAsk
from discreet.serve.worker.holding import ClosedForNow, Held, HeldAccount, Moments
from discreet.serve.worker.refusals import (
    CHANGED,
    CLOSED_TABLE,
    CONSTANT_FAILURE,
    MAX_ATTEMPTS,
    RETRY_SECONDS,
    WORKER,
    WorkerStops,
    check_asker,
    check_pause,
)
from discreet.serve.worker.released import ReleasedTables
from discreet.serve.worker.tables import Tables
from discreet.session.session import Session

log = logging.getLogger("discreet.serve")
SHARED_DEBIT = (
    "Nothing was charged for this ask: an equal one was being answered, and its debit, entry {entry}, pays for this answer, "
    "too."
)


class Jobs:
    """Runs the jobs of one worker."""

    def __init__(
        self, control: Control, tables: Tables, clock: JumpFreeClock, moments: Moments, alerts: Alerts,
        released: ReleasedTables | None = None,
    ) -> None:  # fmt: skip
        self.control, self.tables, self.clock = control, tables, clock
        self.moments, self.alerts, self.released = moments, alerts, released
        self.is_stopping = threading.Event()
        self._lock = threading.Lock()
        self._leased: dict[str, Job] = {}
        self._kept: set[threading.Event] = set()  # the slots that are kept for their shares, each until its event
        fail, put_back = partial(self._fail, counts=False), self.put_back
        self.delivery = Delivery(control, clock, moments, alerts, fail, put_back)
        self._kinds: dict[str, Callable[[Job], dict[str, Any]]] = {
            "open_account": self.open_account,
            "certificate": self.certify,
            "publication": self.publish,
            "ledger_check": self.check_ledger,
            "release": self.release,
            "alert": self.send_alert,
            "open_class": self.open_class,
            "lab_attack": lambda job: run_attack(job.payload),
        }

    @property
    def leased(self) -> tuple[Job, ...]:
        """The jobs whose leases must be renewed: those that run and those that wait for their moment."""
        with self._lock:
            return tuple(self._leased.values())

    def run(self, job: Job) -> None:
        """Run a job until its slot may take the next one. An ask that is not ended by then ends at its moment."""
        with self._lock:
            self._leased[job.id] = job
        self._guard(job, self._run_ask if job.kind == "ask" else self._run_other)

    def stop(self) -> None:
        """Keep no slot any more."""
        self.is_stopping.set()
        with self._lock:
            for each in self._kept:
                each.set()

    def _guard(self, job: Job, run: Callable[[Job], None]) -> None:
        """Run a part of a job; end the job if that is refused or fails, or put it back."""
        try:
            run(job)
        except (LedgerUnavailable, ControlUnavailable) as error:
            log.warning("a job is put back: %s", error)
            self.put_back(job)
            self.is_stopping.wait(RETRY_SECONDS)
        except WorkerStops:
            self.put_back(job)
        except DiscreetError as refused:
            problem, reason = to_problem(refused), str(refused)
            if job.kind == "ask":
                self._end(job, lambda: self.control.finish(job, to=AskState.REFUSED, problem=problem, reason=reason))
            else:
                self._end(job, lambda: self.control.fail(job, problem))
        except Exception:
            owner_log.exception("a job failed")
            log.error("a job of kind %s failed; details are in the owner's log", job.kind)
            ended: dict[str, Any] = {"to": AskState.FAILED, "problem": CONSTANT_FAILURE} if job.kind == "ask" else {}
            self._end(job, lambda: self.control.fail(job, CONSTANT_FAILURE, **ended))

    def _run_other(self, job: Job) -> None:
        self._end(job, lambda: self.control.finish(job, self._kinds[job.kind](job)))

    def put_back(self, job: Job) -> None:
        """Put a job back into the queue, as far as the control database can be reached; else its lease ends."""
        with self._lock:
            self._leased.pop(job.id, None)
        try:
            self.control.release(job)
        except (ControlUnavailable, StateChanged):
            log.warning("a job waits until its lease ends")

    def _end(self, job: Job, end: Callable[[], bool]) -> None:
        try:
            if not end():
                log.warning("another worker has taken a job over")
        except StateChanged:
            log.warning("an ask had ended")
        finally:
            with self._lock:
                self._leased.pop(job.id, None)

    # -- asks -------------------------------------------------------------------------------------------------------------

    def _run_ask(self, job: Job) -> None:
        ask = self.control.find_ask(job.subject)
        if ask is None or ask.state is not AskState.RUNNING:
            self._end(job, lambda: self.control.finish(job))
            return
        started = self.clock.now()
        if job.attempts > MAX_ATTEMPTS:
            self._fail(RunningAsk(job, ask, (), None))
            return
        entry, grant = check_asker(self.control, ask.person, ask.table, ask.token)
        try:
            session, account = self.tables.open_session(ask.table, ask.account, entry.policy_hash)
        except SourceRefused as refused:
            owner_log.warning("%s", refused)
            raise CLOSED_TABLE from None
        check_pause(grant, account, ask.debit_id)
        measurement = self._calibrate(session, ask)
        running = self._choose_class(job, ask, measurement.bounded)
        self.delivery.schedule(running)
        if running.class_seconds is None:
            self._measure(running, session, account, measurement)
        else:
            run = partial(self._measure, running, session, account, measurement)
            self._run_beside(job, run, count_slot_seconds(running.class_seconds, self.clock.now() - started) + started)

    def _run_beside(self, job: Job, run: Callable[[], bool], until: float) -> None:
        """Run the statement of an ask in a thread of its own, and keep the slot until a moment that no row decides; less
        long if `run` returns False or raises, because no row was to be read."""
        freed = threading.Event()
        with self._lock:
            self._kept.add(freed)
        if self.is_stopping.is_set():
            freed.set()

        def work() -> None:
            has_read = list[bool]()
            self._guard(job, lambda _: has_read.append(run()))
            if has_read != [True]:  # it was recorded before, refused, or put back
                freed.set()

        threading.Thread(target=work, name="discreet-ask", daemon=True).start()
        self.clock.wait(freed, until)
        with self._lock:
            self._kept.discard(freed)

    def _measure(self, running: RunningAsk, session: Session, account: HeldAccount, measurement: Measurement) -> bool:
        """Run the statement of an ask, and have its outcome delivered. Return whether rows were to be read; False if the
        answer was recorded before.

        Raises:
            DiscreetError: if the ask is refused.
        """
        ask = running.ask
        try:
            with account.hold() as held, running.cancellation.allow():
                answer = self._ask(session, ask, measurement)
        except EngineFailed:
            if running.cancellation.is_too_late:
                return True  # it fails at its moment, as what is not ready
            if not self.delivery.ready(running, lambda: self._fail(running, held)):
                self.delivery.deliver_late(running, held.record_failures)
            return True
        except ClosedForNow:  # another ask closed the source, and its moment is to come: nothing was charged or read
            self.delivery.ready(running, lambda: self._fail(running, counts=False))
            return True
        except SourceRefused as refused:  # quarantined: nothing was charged
            self.delivery.forget(running)
            owner_log.warning("%s", refused)
            raise CLOSED_TABLE from None
        except BudgetExceeded as refused:  # others spent it since the quote; how much remains of a parent is theirs
            self.delivery.forget(running)
            states, _ = self.tables.read_accounts(account)
            raise round_refusal(refused, [*map(Snapshot.of, states)]) from None
        except DiscreetError:
            self.delivery.forget(running)
            raise
        except Exception:
            owner_log.exception("an ask failed")
            self.delivery.ready(running, lambda: self._fail(running))
            return True
        wire = answer_to_wire(answer)

        def deliver() -> None:
            self._answer(running, account, held, answer, wire, lambda: self._ask(session, ask, measurement))

        if held.receipt is None:  # it was recorded before, so its moment has passed: that it exists is no secret
            self.delivery.forget(running)
            self.delivery.deliver(running, deliver)
            return False
        self.delivery.ready(running, deliver)
        return True

    def _choose_class(self, job: Job, ask: Ask, bounded: BoundedQuery) -> RunningAsk:
        """Return an ask with the class that this worker computes: one in the control database might have been written to
        find out whether the answer is ready by then. A class that was overrun is not taken again."""
        entry = self.tables.get_entry(ask.table)
        chosen = choose_class(entry.classes, entry.seconds_per_pass, bounded)
        if chosen is not None and ask.class_seconds in entry.classes and ask.overruns:
            chosen = max(chosen, ask.class_seconds)
        return RunningAsk(job, ask, entry.classes, chosen)

    @staticmethod
    def _ask(session: Session, ask: Ask, measurement: Measurement) -> Answer:
        options = ask.options
        return session.ask_calibrated(
            measurement, epsilon=Fraction(ask.epsilon), confidence=options.confidence, simultaneous=options.simultaneous,
            id=ask.debit_id, fresh=options.fresh,
        )  # fmt: skip

    def _calibrate(self, session: Session, ask: Ask) -> Measurement:
        """Return what is measured; refuse what was not quoted or approved."""
        query = parse_once(ask.query, self.tables.get_entry(ask.table), session.table, ask.account)
        measurement = session.calibrate(query, epsilon=Fraction(ask.epsilon), weights=_read_weights(ask))
        if hash_measurement(session.executor.describe(measurement)) != ask.measurement:
            raise CHANGED
        return measurement

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def _answer(
        self, running: RunningAsk, account: HeldAccount, held: Held, answer: Answer, wire: dict[str, Any],
        ask_again: Callable[[], Answer],
    ) -> None:  # fmt: skip
        """Record the answer, mirror what it changed, and show it, all at once."""
        recorded = held.record()
        if recorded is not None and recorded != held.encoded:  # another worker was first: what is recorded is shown
            answer = replace(ask_again(), charged=answer.charged, notes=answer.notes)
            wire = answer_to_wire(answer)
        has_paid = self._has_paid(running.ask, answer)
        if answer.charged and not has_paid:  # the debit of another ask, whose answer was still to come, was continued
            wire["notes"] = [*wire["notes"], SHARED_DEBIT.format(entry=wire["reference"]["entry"])]
        wire["charged"] = has_paid
        states, head = self.tables.read_accounts(account)
        job, moment = running.job, self.delivery.find_moment(running)

        def end() -> bool:
            # durable: who sees the answer remembers the head, and takes a ledger without it for one that was set back
            with self.control.transaction():
                self.tables.save_accounts(states, head)
                return self.control.finish(job, to=AskState.ANSWERED, answer=wire, answered_at=moment, is_free=not has_paid)

        self._end(job, end)
        self.alerts.send_budget(states[-1])

    def _has_paid(self, ask: Ask, answer: Answer) -> bool:
        """Whether the debit of an answer is that of this ask. Equal asks that run at once share one, and an ask that a
        worker takes again has paid with its first attempt."""
        if answer.reference is None:
            return answer.charged
        debit = self.tables.find_debit(answer.reference.entry)
        return debit is not None and debit.id == ask.debit_id

    def _fail(self, running: RunningAsk, held: Held | None = None, *, counts: bool = True) -> None:
        """End an ask with the constant text. What was charged stays charged."""
        job, ask = running.job, running.ask
        if held is not None:
            held.record_failures()
        self.alerts.send_budget(self.tables.mirror(self.tables.ledger.get_account(ask.account))[-1])
        if counts:
            self.control.count_trouble(self.delivery.find_paying(ask), "failure")
            self.alerts.send("engine failed", ask.table)
        moment = self.delivery.find_moment(running)
        self._end(
            job,
            lambda: self.control.fail(
                job, CONSTANT_FAILURE, to=AskState.FAILED, problem=CONSTANT_FAILURE, answered_at=moment
            ),
        )

    # -- other kinds ------------------------------------------------------------------------------------------------------

    def open_account(self, job: Job) -> dict[str, Any]:
        """Open the account that the job names, under its parent, with its ε or the whole of its population's."""
        parent, epsilon = job.payload.get("parent"), job.payload.get("epsilon")
        if not isinstance(parent, str):
            raise BadParameter("parent", repr(parent), "an account of a person has a parent", "name the population")
        self.tables.open_account(job.subject, parent, None if epsilon is None else Fraction(str(epsilon)))
        token, population = job.payload.get("token"), job.payload.get("population")
        if isinstance(token, str) and isinstance(population, str):
            self.control.set_token_account(token, population, job.subject, by=WORKER)
        return {"account": job.subject}

    def open_class(self, job: Job) -> dict[str, Any]:
        """Make the root account and the invented table of a class."""
        self.tables.open_class(job.subject)
        return {"table": job.subject}

    def certify(self, job: Job) -> dict[str, Any]:
        """Sign the certificate of an ask that was answered."""
        ask = self.control.find_ask(job.subject)
        entry = None if ask is None else self.control.find_table(ask.table)
        if ask is None or entry is None or ask.state is not AskState.ANSWERED or ask.answer is None:
            raise BadParameter("ask", repr(job.subject), "it has no answer", "wait for its answer")
        reference = ask.answer["reference"]
        debit = self.tables.find_debit(int(reference["entry"]))
        with self.tables.ledger.store.read_transaction() as transaction:
            recorded = transaction.find_answer(int(reference["entry"]))
        if debit is None or recorded is None or debit.measurement != ask.measurement:
            raise BadParameter("ask", repr(job.subject), "its answer is not in the ledger", "tell the owner")
        certificate = make_certificate(
            self._find_account(debit.account), debit.number, measurement=reference["measurement"],
            answer=msgspec.json.decode(recorded), software=f"discreet {__version__}", key=self.tables.key,
        )  # fmt: skip
        return {"certificate": certificate}

    def _find_account(self, name: str) -> LedgerAccount:
        return self.tables.ledger.get_account(name)

    def check_ledger(self, job: Job) -> dict[str, Any]:
        """Add up the whole ledger again."""
        report = check_ledger(self.tables.ledger)
        if report.problem is not None:
            log.error("the ledger is not valid: %s", report.problem)
            self.alerts.send("ledger check", self.tables.config.name)
            raise LedgerCorrupted(self.tables.config.name, "the ledger is not valid", "tell the owner")
        return {"holds": True, "entries": report.entries, "hash": report.hash}

    def release(self, job: Job) -> dict[str, Any]:
        """Mirror the answer of an ask that a steward released into the released tables."""
        ask = self.control.find_ask(job.subject)
        if ask is None or ask.released is None or ask.state is not AskState.ANSWERED or ask.answer is None:
            raise BadParameter("ask", repr(job.subject), "no steward released its answer", "release it first")
        if self.released is None:
            return {"table": None}  # people of the service see it, and there is no place for tables
        title = job.payload.get("title")
        name = self.released.add_ask(ask, answer_from_wire(ask.answer), title if isinstance(title, str) else "")
        return {"table": name}

    def send_alert(self, job: Job) -> dict[str, Any]:
        """Tell the owner that a steward is asked for approval of a query of a table. The web process has no way to send
        anything; it names a table and nothing else."""
        if job.payload.get("kind") == "request" and self.control.find_table(job.subject) is not None:
            self.alerts.send("request", job.subject)
        return {}

    def publish(self, job: Job) -> dict[str, Any]:
        """Quote or publish a workload, as the job's `step` says; the state of the publication follows."""
        from discreet.serve.worker.publications import Publisher

        return Publisher(self.control, self.tables, self.alerts, self.released, self.is_stopping).run(job)


def _read_weights(ask: Ask) -> dict[str, Fraction] | None:
    weights = ask.options.weights
    return None if weights is None else {name: Fraction(weight) for name, weight in weights.items()}
