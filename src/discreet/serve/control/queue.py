"""The queue of jobs, with leases.

A worker claims the oldest job that is free: queued, or leased to a worker whose lease has ended. It renews the lease while
it works, and finishes the job. A worker that was killed loses its jobs when their leases end; the worker that claims one
again may run it a second time, which is free because the ledger continues a debit by its id. A worker whose lease was
taken over cannot finish, fail, renew or release the job: those return False, and nothing is changed.

An ask runs while its job is leased: claiming moves it from `waiting` to `running`, finishing moves it to its final state, in
the same transaction. One person has at most `per_person` asks running, so no analyst holds the others up. Jobs of another
kind than asks are claimed by threads of their own, so they take no slot of an ask.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from discreet.serve.control.asks import UNSCHEDULED, Asks, _find_ask, insert_job
from discreet.serve.control.base import decode, encode, new_id
from discreet.serve.control.database import Transaction
from discreet.serve.control.errors import StateChanged, TooManyWaiting
from discreet.serve.control.machine import find_boot, read_uptime
from discreet.serve.control.model import AskState, Job, JobState, WorkerSlots
from discreet.serve.control.waiting import Subscription, ask_topic, queue_topic

LEASE_SECONDS = 30.0
SILENT_SECONDS = 60.0
"""For so long after its lease a worker counts that is not heard: it is busy or starts again, and takes what is queued."""
SLOTS = "slots"
"""The setting that holds the slots of all workers."""


class Queue(Asks):
    """The part of `Control` about jobs."""

    def enqueue(
        self,
        kind: str,
        subject: str,
        payload: dict[str, Any] | None = None,
        *,
        person: str | None = None,
        by: str | None = None,
        limit: int | None = None,
    ) -> Job:
        """Put a job into the queue. Asks are queued by `add_ask` and by approval.

        Raises:
            TooManyWaiting: if the person has `limit` jobs of this kind that wait or run.
        """
        job = Job(
            id=new_id(), kind=kind, subject=subject, payload=payload or {}, state=JobState.QUEUED, created=self._clock()
        )
        with self._write() as transaction:
            if person is not None and limit is not None:
                transaction.lock(f"jobs of {person}")
                if _count_unfinished(transaction, person, kind) >= limit:
                    raise TooManyWaiting(limit, "jobs of this kind", "Wait until one of them has ended")
            insert_job(transaction, job, person)
            self._record(transaction, by, f"enqueue {kind}", subject)
        return job

    def claim(
        self,
        worker: str,
        now: float | None = None,
        lease_seconds: float = LEASE_SECONDS,
        kinds: Iterable[str] | None = None,
        *,
        per_person: int | None = 1,
        scheduled: bool | None = None,
    ) -> Job | None:
        """Lease the oldest free job to a worker; None if there is none.

        `per_person` is how many asks of one person run at once; None sets no limit. `scheduled` chooses jobs other than asks
        without a class (True), or these alone (False).
        """
        wanted = None if kinds is None else tuple(kinds)
        with self._read() as transaction:  # every thread looks after every change, and most find nothing: let them not write
            looked = self._clock() if now is None else now
            if _find_free(transaction, looked, wanted, [], per_person, scheduled, lock="") is None:
                return None
        with self._write(durable=False) as transaction:
            now = self._clock() if now is None else now  # the lease begins now, however long others wrote
            passed_over: list[str] = []  # people who have enough running
            while (found := _find_free(transaction, now, wanted, passed_over, per_person, scheduled)) is not None:
                job, person = found
                if job.kind == "ask" and person is not None and per_person is not None:
                    is_free = transaction.try_lock(f"running asks of {person}")
                    if not is_free or _count_running(transaction, person, now) >= per_person:
                        passed_over.append(person)
                        continue
                if job.kind == "ask" and not self._start(transaction, job):
                    continue
                leased = msgspec.structs.replace(
                    job, state=JobState.LEASED, worker=worker, lease_until=now + lease_seconds, attempts=job.attempts + 1
                )
                _save(transaction, leased)
                return leased
        return None

    def _start(self, transaction: Transaction, job: Job) -> bool:
        """Move the ask of a job to `running`. A job whose ask has ended is done; returns False."""
        ask = _find_ask(transaction, "id = ?{lock}", job.subject)
        if ask is None or ask.state.is_final or ask.state is AskState.APPROVAL:
            _save(transaction, msgspec.structs.replace(job, state=JobState.DONE, lease_until=None))
            return False
        if ask.state is AskState.RUNNING:  # its worker is gone
            self._change_state(transaction, ask.id, AskState.RUNNING, AskState.WAITING)
        self._change_state(transaction, ask.id, AskState.WAITING, AskState.RUNNING)
        return True

    def renew(self, job: Job, now: float | None = None, lease_seconds: float = LEASE_SECONDS) -> bool:
        """Prolong a lease. Returns False if another worker has the job."""
        with self._write(durable=False, urgent=True) as transaction:
            held = _find_held(transaction, job)
            if held is not None:
                now = self._clock() if now is None else now
                _save(transaction, msgspec.structs.replace(held, lease_until=now + lease_seconds))
        return held is not None

    def finish(
        self,
        job: Job,
        result: dict[str, Any] | None = None,
        *,
        to: AskState | None = None,
        by: str | None = None,
        **fields: Any,
    ) -> bool:
        """End a job. For an ask, `to` is its final state and `fields` are set with it, in the same transaction.

        Returns:
            False if another worker has the job, or it has ended; nothing was changed.
        """
        return self._end(job, to, by, fields, state=JobState.DONE, result=result)

    def fail(
        self,
        job: Job,
        error: dict[str, Any] | None = None,
        *,
        to: AskState | None = None,
        by: str | None = None,
        **fields: Any,
    ) -> bool:
        """End a job that failed; as `finish`."""
        return self._end(job, to, by, fields, state=JobState.FAILED, error=error)

    def release(self, job: Job) -> bool:
        """Put a job back into the queue, where it keeps its place; its ask waits again. Returns as `finish`."""
        with self._write() as transaction:
            held = _find_held(transaction, job)
            if held is None:
                return False
            _save(transaction, msgspec.structs.replace(held, state=JobState.QUEUED, worker=None, lease_until=None))
            if job.kind == "ask":
                self._change_state(transaction, job.subject, AskState.RUNNING, AskState.WAITING)
            transaction.topics.add(queue_topic(job.kind))
        return True

    def _end(self, job: Job, to: AskState | None, by: str | None, fields: dict[str, Any], **ended: Any) -> bool:
        with self._write() as transaction:
            held = _find_held(transaction, job)
            if held is None:
                return False
            _save(transaction, msgspec.structs.replace(held, lease_until=None, **ended))
            if to is not None:
                self._change_state(transaction, job.subject, AskState.RUNNING, to, by=by, **fields)
            transaction.topics |= {queue_topic(job.kind), ask_topic(job.subject), job_topic(job.id)}
        return True

    def find_job(self, job: str) -> Job | None:
        """Return the job with this id."""
        return self._find(Job, "SELECT body FROM control_jobs WHERE id = ?", job)

    def list_jobs(self, *, subject: str | None = None, state: JobState | None = None, limit: int = 50) -> tuple[Job, ...]:
        """Return the newest jobs."""
        return self._page(Job, "control_jobs", {"subject": subject, "state": state}, None, limit).items

    def count_jobs(self) -> dict[JobState, int]:
        """Return how many jobs are in each state."""
        with self._read() as transaction:
            rows = transaction.run("SELECT state, COUNT(*) FROM control_jobs GROUP BY state").fetchall()
        return {JobState(state): int(count) for state, count in rows}

    def release_ask(self, ask: str, by: str, *, title: str = "") -> Job:
        """Mark the answer of an ask as released, and have a worker mirror it into the released tables.

        Raises:
            StateChanged: if it has no answer.
        """
        with self._write() as transaction:
            found = _find_ask(transaction, "id = ?{lock}", ask)
            if found is None or found.state is not AskState.ANSWERED or found.answer is None:
                raise StateChanged(f"The ask {ask}", "missing" if found is None else found.state, "released")
            changed = msgspec.structs.replace(found, released=by, answer=None)
            transaction.run("UPDATE control_asks SET body = ? WHERE id = ?", encode(changed), ask)
            self._record(transaction, by, "release answer", ask, person=found.person, table=found.table)
            return self.enqueue("release", ask, {"title": title})

    def save_slots(self, worker: str, slots: int, seconds: float, free: int | None = None) -> None:
        """Say how many asks a worker runs at once, and for how many seconds that holds. Others that are gone are forgotten.
        `free` is how many bytes are free where the worker keeps its state."""
        with self._write(durable=False, urgent=True) as transaction:
            transaction.lock("slots of workers")
            known = _read_slots(transaction) or {}
            kept = {name: each for name, each in known.items() if name != worker and self._left(each) > -SILENT_SECONDS}
            until, uptime = self._clock() + seconds, read_uptime() + seconds
            kept |= {worker: WorkerSlots(slots, until, free, find_boot(), uptime)} if slots else {}
            transaction.run(
                "INSERT INTO control_settings (name, value) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                SLOTS, encode(kept),
            )  # fmt: skip

    def count_slots(self) -> int | None:
        """Return how many asks the workers together run at once; None if no worker ever said so. If none is heard, those
        count that were heard `SILENT_SECONDS` ago: one that stops says so, and one that is late takes what is queued."""
        known = self._list_heard(SILENT_SECONDS)
        if known is None:
            return None
        running = [each for each in known.values() if self._left(each) > 0]
        return sum(each.slots for each in running or known.values())

    def list_workers(self) -> dict[str, WorkerSlots] | None:
        """Return what the workers that run said of themselves, by name; None if no worker ever did."""
        return self._list_heard(0.0)

    def _list_heard(self, seconds: float) -> dict[str, WorkerSlots] | None:
        """Return the workers whose slots held at most so many seconds ago."""
        with self._read() as transaction:
            known = _read_slots(transaction)
        return None if known is None else {name: each for name, each in known.items() if self._left(each) > -seconds}

    def _left(self, slots: WorkerSlots) -> float:
        """Return for how many more seconds slots hold. Clocks that processes of one machine started with may differ, if it
        was set between; that of the machine itself, which runs since its start, is one for all of them."""
        is_here = slots.boot is not None and slots.boot == find_boot()
        return slots.uptime - read_uptime() if is_here else slots.until - self._clock()

    def subscribe(self, topic: str | None = None) -> Subscription:
        """Wait for changes: of a queue (`queue_topic`), of one ask (`ask_topic`), or of anything. Close it after use."""
        return self._database.subscribe(topic)


def job_topic(job: str) -> str:
    """Return the topic of one job.

    >>> job_topic("9f86d081")
    'job:9f86d081'
    """
    return f"job:{job}"


def _find_free(
    transaction: Transaction,
    now: float,
    kinds: tuple[str, ...] | None,
    passed_over: list[str],
    per_person: int | None,
    scheduled: bool | None,
    lock: str = "{skip}",
) -> tuple[Job, str | None] | None:
    """Return the oldest job that is free and of none of the people who are passed over, locked, with its person."""
    where, values = "(j.state = ? OR (j.state = ? AND j.lease_until <= ?))", [JobState.QUEUED, JobState.LEASED, now]
    if kinds is not None:
        where += f" AND j.kind IN ({', '.join('?' * len(kinds))})" if kinds else " AND 1 = 0"
        values += kinds
    if scheduled is not None:
        where += f" AND j.body {'NOT ' if scheduled else ''}LIKE ?"
        values.append(f'%"{UNSCHEDULED}":true%')  # a text has \" for "
    if passed_over:
        where += f" AND (j.kind <> 'ask' OR j.person IS NULL OR j.person NOT IN ({', '.join('?' * len(passed_over))}))"
        values += passed_over
    if per_person is not None:
        where += (
            " AND (j.kind <> 'ask' OR j.person IS NULL OR (SELECT COUNT(*) FROM control_jobs r WHERE r.person = j.person "
            "AND r.kind = 'ask' AND r.state = ? AND r.lease_until > ?) < ?)"
        )
        values += [JobState.LEASED, now, per_person]
    sql = f"SELECT j.body, j.person FROM control_jobs j WHERE j.state IN ('queued', 'leased') AND {where} ORDER BY j.number"
    row = transaction.run(f"{sql} LIMIT 1{lock}", *values).fetchone()
    return None if row is None else (decode(Job, row[0]), row[1])


def _count_running(transaction: Transaction, person: str, now: float) -> int:
    sql = "SELECT COUNT(*) FROM control_jobs WHERE person = ? AND kind = 'ask' AND state = ? AND lease_until > ?"
    return int(transaction.run(sql, person, JobState.LEASED, now).fetchone()[0])


def _count_unfinished(transaction: Transaction, person: str, kind: str) -> int:
    sql = "SELECT COUNT(*) FROM control_jobs WHERE person = ? AND kind = ? AND state IN (?, ?)"
    return int(transaction.run(sql, person, kind, JobState.QUEUED, JobState.LEASED).fetchone()[0])


def _find_held(transaction: Transaction, job: Job) -> Job | None:
    """Return a job as it is now, locked, if it is still leased by this claim. `attempts` tells one claim from the next."""
    row = transaction.run("SELECT body FROM control_jobs WHERE id = ?{lock}", job.id).fetchone()
    held = None if row is None else decode(Job, row[0])
    if held is None or held.state is not JobState.LEASED:
        return None
    return held if (held.worker, held.attempts) == (job.worker, job.attempts) else None


def _read_slots(transaction: Transaction) -> dict[str, WorkerSlots] | None:
    row = transaction.run("SELECT value FROM control_settings WHERE name = ?", SLOTS).fetchone()
    return None if row is None else msgspec.json.decode(row[0], type=dict[str, WorkerSlots])


def _save(transaction: Transaction, job: Job) -> None:
    sql = "UPDATE control_jobs SET state = ?, lease_until = ?, body = ? WHERE id = ?"
    transaction.run(sql, job.state, job.lease_until, encode(job), job.id)
