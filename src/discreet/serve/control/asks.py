"""Asks and their states.

An ask changes its state only as `TRANSITIONS` allows, by compare-and-set inside one transaction: of two processes that try
to end the same ask, one succeeds and the other gets `StateChanged`. An ask that is `waiting` has a job in the queue from the
same transaction on, and one that ends has none.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import msgspec

from discreet.errors import BadParameter
from discreet.serve.control.base import DEFAULT_PAGE, Page, Part, encode, find_rows, new_id
from discreet.serve.control.database import Transaction
from discreet.serve.control.errors import DayLimitReached, KeyTaken, StateChanged, TooManyWaiting
from discreet.serve.control.model import TRANSITIONS, Ask, AskState, Job, JobState, Request, RequestState
from discreet.serve.control.waiting import ask_topic, queue_topic

MAX_KEY = 200
"""The most characters of the id that an asker gives."""
_CHANGEABLE = frozenset(
    {
        "reason",
        "release_at",
        "class_seconds",
        "answered_at",
        "answer",
        "problem",
        "overruns",
        "accepted_at",
        "cost",
        "is_free",
    }
)
FIRST_STATES = frozenset({AskState.WAITING, AskState.APPROVAL, AskState.ANSWERED})
"""In which state an ask may begin."""
_UNSPENT = (AskState.APPROVAL, AskState.REFUSED, AskState.DECLINED, AskState.WITHDRAWN)


class _Class(msgspec.Struct):
    """The class of an ask, without the rest of it."""

    class_seconds: float | None = None


class Asks(Part):
    """The part of `Control` about asks."""

    def add_ask(
        self,
        ask: Ask,
        request: Request | None = None,
        *,
        waiting_limit: int | None = None,
        epsilon_per_day: str | None = None,
        by: str | None = None,
        check_queue: Callable[[], None] | None = None,
    ) -> Ask:
        """Add an ask, with its job if it is `waiting`, or with the request for its approval.

        It may be `answered` already, if its family has an answer to the same measurement, which is then repeated.

        If the person used its key before for the same measurement, the earlier ask is returned and nothing is added. So it
        is if this one needs approval and the same query of the person waits already, under another key; unless it asks for
        fresh noise.
        `waiting_limit` and `epsilon_per_day` are checked in the same transaction: parallel asks do not pass them together.
        So is the queue: `check_queue` may read this database, and raises if the ask would not be answered in time. No other
        ask that is checked is added meanwhile, by any process.

        Raises:
            KeyTaken: if the person used the key for another measurement.
            TooManyWaiting: if the person has `waiting_limit` asks that wait for a worker, or for approval if this one does.
            DayLimitReached: if the ask, unless it needs approval anyway, exceeds ε per day.
            StateChanged: if it is `answered` and its family has no such answer.
        """
        if not 0 < len(ask.key) <= MAX_KEY:
            raise BadParameter("id", repr(ask.key[:40]), f"must have 1 to {MAX_KEY} characters", "choose another id")
        if ask.state not in FIRST_STATES:
            raise StateChanged("A new ask", "new", ask.state)
        # one that repeats an answer is free, so losing it in a crash loses nothing, and it waits for no disk
        with self._write(durable=ask.state is not AskState.ANSWERED) as transaction:
            transaction.lock(f"asks of {ask.person}")
            earlier = _find_ask(transaction, "person = ? AND key = ?", ask.person, ask.key)
            if earlier is not None:
                if (earlier.measurement, earlier.table) != (ask.measurement, ask.table):
                    raise KeyTaken(ask.key, earlier.id)
                return earlier
            if request is not None and (pending := _find_pending(transaction, ask)) is not None:
                return pending
            if ask.state is AskState.ANSWERED and (
                ask.answer is None or _find_answered(transaction, ask.root, ask.measurement) is None
            ):
                raise StateChanged("A new ask", "not answered in its family", ask.state)
            if (
                waiting_limit is not None
                and ask.state is not AskState.ANSWERED
                and _count_waiting(transaction, ask.person, ask.state) >= waiting_limit
            ):
                raise TooManyWaiting(waiting_limit)
            if epsilon_per_day is not None and ask.state is AskState.WAITING:
                spent = _spent_today(transaction, ask.person, ask.table, ask.accepted_at)
                if spent + Fraction(ask.epsilon) > Fraction(epsilon_per_day):
                    raise DayLimitReached(epsilon_per_day, str(spent))
            if check_queue is not None:
                transaction.lock("the queue of asks")
                check_queue()
            transaction.run(
                "INSERT INTO control_asks (id, person, key, table_name, account, root, measurement, state, accepted, "
                "epsilon, is_free, body, answer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ask.id, ask.person, ask.key, ask.table, ask.account, ask.root, ask.measurement, ask.state, ask.accepted_at,
                ask.epsilon, int(ask.is_free), *_split(ask),
            )  # fmt: skip
            if request is not None:
                transaction.run(
                    "INSERT INTO control_requests (ask, person, table_name, state, body) VALUES (?, ?, ?, ?, ?)",
                    ask.id, request.person, request.table, request.state, encode(request),
                )  # fmt: skip
            if ask.state is AskState.WAITING:
                _enqueue_ask(transaction, ask, self._clock())
            details = {"table": ask.table, "epsilon": ask.epsilon, "measurement": ask.measurement, "token": ask.token}
            self._record(transaction, by, "ask", ask.id, **details)
        return ask

    def find_ask(self, ask: str) -> Ask | None:
        """Return the ask with this id."""
        with self._read() as transaction:
            return _find_ask(transaction, "id = ?", ask)

    def find_ask_by_key(self, person: str, key: str) -> Ask | None:
        """Return the ask for which a person used this key."""
        with self._read() as transaction:
            return _find_ask(transaction, "person = ? AND key = ?", person, key)

    def find_answered(self, root: str, measurement: str) -> Ask | None:
        """Return an ask in the family of a root account that answered this measurement: the latest, with its answer."""
        with self._read() as transaction:
            return _find_answered(transaction, root, measurement)

    def list_asks(
        self,
        *,
        person: str | None = None,
        table: str | None = None,
        state: AskState | None = None,
        account: str | None = None,
        cursor: str | None = None,
        limit: int = DEFAULT_PAGE,
        with_answers: bool = False,
    ) -> Page[Ask]:
        """Return the newest asks, those before the cursor. Their answers are left out unless `with_answers`."""
        filters = {"person": person, "table_name": table, "state": state, "account": account}
        columns = "body, answer" if with_answers else "body, NULL"
        return self._page(Ask, "control_asks", filters, cursor, limit, columns, _join)

    def list_released(self, limit: int = DEFAULT_PAGE) -> tuple[Ask, ...]:
        """Return the newest asks whose answers a steward released, without their answers."""
        sql = "SELECT body FROM control_asks WHERE state = ? AND body LIKE ? ORDER BY number DESC LIMIT ?"
        with self._read() as transaction:
            rows = find_rows(transaction, sql, AskState.ANSWERED, '%"released":"%', limit)  # a text has \" for "
        return tuple(ask for ask in (_join(row[0], None) for row in rows) if ask.released is not None)

    def change_state(self, ask: str, from_state: AskState, to: AskState, *, by: str | None = None, **fields: Any) -> Ask:
        """Move an ask from one state to another and set fields of it, at once.

        A job is queued for an ask that becomes `waiting`; the request and the queued job of one that ends are closed.

        Raises:
            StateChanged: if it is in another state, or the table of transitions does not allow the change.
        """
        with self._write() as transaction:
            return self._change_state(transaction, ask, from_state, to, by=by, **fields)

    def _change_state(
        self, transaction: Transaction, ask: str, from_state: AskState, to: AskState, *, by: str | None = None, **fields: Any
    ) -> Ask:
        if unknown := fields.keys() - _CHANGEABLE:
            raise TypeError(f"these fields of an ask do not change: {sorted(unknown)}")
        found = _find_ask(transaction, "id = ?{lock}", ask)
        if found is None:
            raise StateChanged(f"The ask {ask}", "missing", to)
        if found.state is not from_state or to not in TRANSITIONS[from_state]:
            raise StateChanged(f"The ask {ask}", found.state, to)
        changed = msgspec.structs.replace(found, state=to, **fields)
        transaction.run(
            "UPDATE control_asks SET state = ?, accepted = ?, is_free = ?, body = ?, answer = ? WHERE id = ?",
            to, changed.accepted_at, int(changed.is_free), *_split(changed), ask,
        )  # fmt: skip
        if to is AskState.WAITING and from_state is AskState.APPROVAL:
            _enqueue_ask(transaction, changed, self._clock())
        if to.is_final:
            self._close(transaction, changed)
        transaction.topics |= {ask_topic(ask)}
        self._record(transaction, by, "change state of ask", ask, before=from_state, after=to)
        return changed

    def _close(self, transaction: Transaction, ask: Ask) -> None:
        """Remove the job if no worker has claimed it, and close the request if no steward has decided it."""
        # A job that is locked is being claimed; its claim waits for this ask and then sees that it has ended.
        sql = "SELECT id FROM control_jobs WHERE subject = ? AND kind = 'ask' AND state = ?{skip}"
        for row in transaction.run(sql, ask.id, JobState.QUEUED).fetchall():
            transaction.run("DELETE FROM control_jobs WHERE id = ?", row[0])
        if ask.state is AskState.WITHDRAWN:
            row = transaction.run("SELECT body FROM control_requests WHERE ask = ?{lock}", ask.id).fetchone()
            request = None if row is None else msgspec.json.decode(row[0], type=Request)
            if request is not None and request.state in (RequestState.OPEN, RequestState.RETURNED):
                closed = msgspec.structs.replace(request, state=RequestState.WITHDRAWN)
                sql = "UPDATE control_requests SET state = ?, body = ? WHERE ask = ?"
                transaction.run(sql, closed.state, encode(closed), ask.id)

    def withdraw_ask(self, ask: str, *, by: str | None = None) -> Ask:
        """Withdraw an ask that waits or needs approval.

        Raises:
            StateChanged: if it runs or has ended; what was charged stays charged.
        """
        with self._write() as transaction:
            found = _find_ask(transaction, "id = ?{lock}", ask)
            state = AskState.WAITING if found is None else found.state
            return self._change_state(transaction, ask, state, AskState.WITHDRAWN, by=by)

    def set_release(self, ask: str, release_at: float | None, class_seconds: float | None, *, overruns: int = 0) -> Ask:
        """State anew when the answer of a running ask leaves, because it was not ready at its moment."""
        with self._write() as transaction:
            found = _find_ask(transaction, "id = ?{lock}", ask)
            if found is None or found.state is not AskState.RUNNING:
                raise StateChanged(f"The ask {ask}", "missing" if found is None else found.state, AskState.RUNNING)
            changed = msgspec.structs.replace(
                found, release_at=release_at, class_seconds=class_seconds, overruns=found.overruns + overruns
            )
            transaction.run("UPDATE control_asks SET body = ? WHERE id = ?", _split(changed)[0], ask)
            transaction.topics |= {ask_topic(ask)}
        return changed

    def spent_today(self, person: str, table: str, now: float | None = None) -> Fraction:
        """Return the exact sum of the quoted ε of a person's asks of a table since midnight UTC.

        Asks that were refused, declined or withdrawn do not count, nor do answers that were recorded before: they are free.
        Those that wait for approval count once they have it.
        """
        with self._read() as transaction:
            return _spent_today(transaction, person, table, self._clock() if now is None else now)

    def list_unfinished(self, person: str | None = None) -> list[tuple[float, float]]:
        """Return when each ask that waits or runs, of a person or of all, was accepted, and its class in seconds; those
        without a class are left out."""
        sql = "SELECT accepted, body FROM control_asks WHERE state IN (?, ?) AND (person = ? OR ? = 1)"
        with self._read() as transaction:
            rows = find_rows(transaction, sql, AskState.WAITING, AskState.RUNNING, person or "", int(person is None))
        found = [(float(accepted), msgspec.json.decode(body, type=_Class).class_seconds) for accepted, body in rows]
        return [(accepted, seconds) for accepted, seconds in found if seconds is not None]

    def count_waiting(self, person: str | None = None) -> int:
        """Return how many asks wait for a worker, of a person or of all."""
        with self._read() as transaction:
            if person is not None:
                return _count_waiting(transaction, person)
            sql = "SELECT COUNT(*) FROM control_asks WHERE state = ?"
            return int(transaction.run(sql, AskState.WAITING).fetchone()[0])

    def count_states(self) -> dict[AskState, int]:
        """Return how many asks are in each state."""
        with self._read() as transaction:
            rows = transaction.run("SELECT state, COUNT(*) FROM control_asks GROUP BY state").fetchall()
        return {AskState(state): int(count) for state, count in rows}


def _split(ask: Ask) -> tuple[str, str | None]:
    """Return an ask without its answer, and its answer: lists of asks do not read answers."""
    answer = None if ask.answer is None else encode(ask.answer)
    return encode(msgspec.structs.replace(ask, answer=None)), answer


def _join(body: str, answer: str | None) -> Ask:
    ask = msgspec.json.decode(body, type=Ask)
    return ask if answer is None else msgspec.structs.replace(ask, answer=msgspec.json.decode(answer))


def _find_ask(transaction: Transaction, where: str, *values: Any) -> Ask | None:
    rows = find_rows(transaction, f"SELECT body, answer FROM control_asks WHERE {where}", *values)
    return _join(*rows[0]) if rows else None


def _find_pending(transaction: Transaction, ask: Ask) -> Ask | None:
    """Return an ask of the same person and account that is the same query, and has no answer yet."""
    if ask.options.fresh:
        return None
    where = "person = ? AND table_name = ? AND account = ? AND measurement = ? AND state IN (?, ?, ?) ORDER BY number"
    states = AskState.APPROVAL, AskState.WAITING, AskState.RUNNING
    sql = f"SELECT body, answer FROM control_asks WHERE {where}"
    rows = find_rows(transaction, sql, ask.person, ask.table, ask.account, ask.measurement, *states)
    found = (_join(*row) for row in rows)
    return next((each for each in found if (each.query, each.options) == (ask.query, ask.options)), None)


def _find_answered(transaction: Transaction, root: str, measurement: str) -> Ask | None:
    where = "root = ? AND measurement = ? AND state = ? AND answer IS NOT NULL ORDER BY number DESC LIMIT 1"
    return _find_ask(transaction, where, root, measurement, AskState.ANSWERED)


UNSCHEDULED = "unscheduled"
"""In the payload of a job: its ask has no class, so no limit of its time is known."""


def _enqueue_ask(transaction: Transaction, ask: Ask, now: float) -> None:
    payload = {UNSCHEDULED: True} if ask.class_seconds is None else {}
    job = Job(id=new_id(), kind="ask", subject=ask.id, payload=payload, state=JobState.QUEUED, created=now)
    insert_job(transaction, job, ask.person)


def insert_job(transaction: Transaction, job: Job, person: str | None) -> None:
    """Put a job into the queue, inside the caller's transaction."""
    transaction.run(
        "INSERT INTO control_jobs (id, kind, subject, person, state, lease_until, body) VALUES (?, ?, ?, ?, ?, NULL, ?)",
        job.id, job.kind, job.subject, person, job.state, encode(job),
    )  # fmt: skip
    transaction.topics.add(queue_topic(job.kind))


def _count_waiting(transaction: Transaction, person: str, state: AskState = AskState.WAITING) -> int:
    sql = "SELECT COUNT(*) FROM control_asks WHERE person = ? AND state = ?"
    return int(transaction.run(sql, person, state).fetchone()[0])


def _spent_today(transaction: Transaction, person: str, table: str, now: float) -> Fraction:
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    rows = transaction.run(
        "SELECT epsilon FROM control_asks WHERE person = ? AND table_name = ? AND accepted >= ? AND is_free = 0 "
        "AND state NOT IN (?, ?, ?, ?)",
        person, table, day, *_UNSPENT,
    ).fetchall()  # fmt: skip
    return sum((Fraction(row[0]) for row in rows), Fraction(0))
