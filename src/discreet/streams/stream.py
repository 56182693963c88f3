"""Streams: counters that are shown at every step of a horizon, paid for when they are opened.

**Theory of operation.** `open_stream` calibrates the noise of the whole horizon, debits it as one event, and records
what was opened, all of it public. Each `tick` then

1. *looks* for the record of the step: if there is one, it is shown, and nothing else happens;
2. *reads* the rows of the period, and in one transaction of the owner's state (`state`) *freezes* the step: its exact
   counts, cut so that no unit counts too often, and C·x plus fresh noise, in integers (`factorisation`, `mechanism`);
3. *records* the noisy integers in the ledger, under an id of the step and a debit that costs nothing, since opening paid;
4. *shows* what the ledger recorded.

A crash before 2 ends leaves nothing: what the next tick draws is the first noise of the step. A crash after it leaves a
frozen step, which the next tick records as it is. Two processes that tick the same step freeze it once, and show one
record. Noise comes from the system's bits, and no key is kept from which it could be drawn again: the same noise on
corrected counts would give the exact correction away.

**Rollbacks.** A ledger restored from a backup has lost debits, and would measure steps again that were shown. A state
restored from a backup has forgotten who counted, and counts that later steps rest on. So each knows of the other: the
state holds the end of the ledger's chain at every step, and the ledger holds as many steps as the state, or one less. If
both are restored together, only a head kept elsewhere shows it (`discreet ledger check --head`).
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from discreet._numbers import Number, check_confidence, check_int, format_rational, parse_rational, read_positive
from discreet.accounting.cost import Cost
from discreet.errors import BadParameter, BudgetExceeded, LedgerCorrupted, LedgerUnavailable, QueryRefused, SourceRefused
from discreet.events import NO_EVENT, Composition
from discreet.formats import count_things
from discreet.ledger.account import Account, CachedAnswer, IdTaken, validate_name
from discreet.ledger.chain import Ledger, LedgerAccount
from discreet.ledger.entries import EntryKeys, encode_answer, hash_measurement, privacy_unit_of
from discreet.ledger.owner_state import default_state_folder
from discreet.ledger.store import decode_stored
from discreet.noise import SYSTEM, Bits
from discreet.query import ast
from discreet.query.aggregates import CountRows
from discreet.query.ast import to_sql
from discreet.query.calibrate import make_least_epsilon_error
from discreet.query.contribution import BoundedQuery
from discreet.query.parser import QueryLike
from discreet.query.record import key_from_json, key_to_json, policy_hash
from discreet.query.schema import Key, Kind
from discreet.session.executor import SEEDED
from discreet.session.session import Session
from discreet.streams.answers import StreamAnswer, StreamEstimate, StreamSeries
from discreet.streams.factorisation import Counts, check_steps
from discreet.streams.mechanism import (
    Participation,
    StreamMechanism,
    calibrate_stream,
    kind_of,
    make_mechanism,
    round_interval,
)
from discreet.streams.schedule import Schedule
from discreet.streams.state import Contribution, Measured, StreamState
from discreet.units import Neighbours

VERSION = 1
"""Of what is recorded when a stream is opened. It is hashed, and stays."""

MAX_NAME_LENGTH = 150
MAX_COUNTERS = 10_000


@dataclass(frozen=True)
class StreamDesign:
    """What a stream counts, when, and with which noise: all of it public, and fixed when it is opened."""

    name: str
    source: str
    label: str | None
    question: str
    column: str
    groups: tuple[str, ...]
    keys: tuple[tuple[Key, ...], ...]  # of the counters, in order
    time: str
    schedule: Schedule
    steps: int
    participation: Participation
    unit: str
    mechanism: StreamMechanism

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        taken = self.participation
        return {
            "stream": VERSION, "name": self.name, "source": self.source, "label": self.label, "question": self.question,
            "column": self.column, "groups": list(self.groups), "keys": [[*map(key_to_json, key)] for key in self.keys],
            "time": self.time, "every": self.schedule.every, "start": self.schedule.start.isoformat(), "steps": self.steps,
            "at_most": taken.at_most, "apart": taken.apart, "max_groups": taken.max_groups, "max_rows": taken.max_rows,
            "unit": self.unit, "neighbours": taken.neighbours.definition,
            "noise": {"factorisation": kind_of(self.mechanism), "scale": str(self.mechanism.scale)},
        }  # fmt: skip

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "StreamDesign":
        """Return the design that `to_dict` wrote."""
        if record.get("stream") != VERSION:
            raise BadParameter("stream", repr(record.get("stream")), "not a stream of this version", "update discreet")
        relation = next(each for each in Neighbours if each.definition == record["neighbours"])
        keys = tuple(tuple(map(key_from_json, key)) for key in record["keys"])
        taken = Participation(
            record["at_most"], record["apart"], record["max_groups"], record["max_rows"], len(keys), relation
        )
        noise = record["noise"]
        return cls(
            record["name"], record["source"], record["label"], record["question"], record["column"],
            tuple(record["groups"]), keys, record["time"],
            Schedule(record["every"], datetime.fromisoformat(record["start"])), record["steps"], taken, record["unit"],
            make_mechanism(noise["factorisation"], record["steps"], parse_rational(noise["scale"])),
        )  # fmt: skip


def open_stream(
    session: Session,
    query: QueryLike,
    *,
    name: str,
    time: str,
    start: str | date,
    steps: int,
    epsilon: Number,
    every: str = "day",
    at_most: int = 1,
    apart: int = 1,
    state: str | Path | None = None,
    bits: Bits | None = None,
) -> "Stream":
    """Open counters that are shown at every step of a horizon, and debit the whole horizon now.

    Opening the same stream again, with the same parameters, charges nothing and continues it.

    >>> from discreet import connect
    >>> visits = connect("examples/visits.csv", unit="id", keys={"ward": ["north", "south"]}, epsilon=1, delta=1e-6)
    >>> stream = open_stream(visits, "SELECT COUNT(*) AS n FROM visits", name="visits", time="day", start="2026-03-01",
    ...                      every="day", steps=64, at_most=3, apart=7, epsilon=1)
    >>> first = stream.tick()
    >>> first.step, first.start, stream.tick(1) == first
    (1, '2026-03-01', True)
    >>> round(stream.half_width(64))
    51

    Args:
        session: A source with an account. Durable streams need a ledger: `connect(…, ledger="hr.ledger")`.
        query: One COUNT(*), with WHERE and GROUP BY columns whose keys are declared: one counter per key.
        name: The name of the stream in its account.
        time: The column of dates or timestamps that says to which step a row belongs.
        start: When the first step begins.
        steps: The horizon: how many steps there will be, at most 4,096.
        epsilon: The ε of the whole horizon, at the account's δ.
        every: The length of a step: "hour", "day", "week" or "month".
        at_most: In how many steps one unit counts; its rows in later ones are cut.
        apart: How many steps lie between two of them, at least: 7 for once a week; 1 for any two.
        state: The file of the owner's state; in the owner's folder, unless given.
        bits: Seeded bits, in tests; a ledger refuses them.

    Raises:
        BudgetExceeded: the horizon does not fit the account. Nothing is charged.
        QueryRefused: a stream cannot count this.
    """
    bounded = _require_types(_require_session(session)).discovery.bound(query)
    column = _check_countable(bounded)
    schedule = Schedule.parse(every, start)
    _check_time(bounded, time, schedule)
    horizon = check_steps(steps)
    schedule.moment(horizon)  # raises where the calendar ends
    keys = bounded.keys or ()
    taken = Participation(
        check_int(at_most, "at_most", 1), check_int(apart, "apart", 1), bounded.max_groups, bounded.max_rows, len(keys),
        bounded.neighbours,
    )  # fmt: skip
    _check_participation(taken, horizon)
    exact, least = read_positive(epsilon, "epsilon"), bounded.table.least_epsilon
    if exact < least:
        raise make_least_epsilon_error("epsilon", exact, least)
    currency = session.account.budget.currency
    mechanism, event = calibrate_stream(horizon, taken, currency, currency.amount(exact, session.delta))
    design = StreamDesign(
        _check_name(name), _identity_of(session), session.label, to_sql(bounded.query, bounded.table.unit), column,
        tuple(group.name for group in bounded.query.groups), tuple(keys), time, schedule, horizon, taken, bounded.table.unit,
        mechanism,
    )  # fmt: skip
    tainted = bits is not None and bits is not SYSTEM
    measurement = _hash_design(design.to_dict() | SEEDED[tainted], session)
    path = None if not isinstance(session.account, LedgerAccount) else _find_path(session.account, name, state)
    try:
        entry = debit_horizon(session.account, design, event, measurement, tainted=tainted)
    except BudgetExceeded as refused:
        raise session.executor.suggest_epsilon(refused, bounded.table) from None
    opened = StreamState(path, measurement, entry, horizon)
    return Stream(design, measurement, entry, session.account, session, bounded, opened, bits)


def debit_horizon(
    account: Account, design: StreamDesign, event: Composition, measurement: str, *, tainted: bool = False
) -> int:
    """Debit a whole horizon and record what was opened, once; return the entry of the debit."""
    public = design.to_dict() | SEEDED[tainted]
    try:
        paid = account.reserve(
            event, measurement=measurement, id=_opening_id(design.name), tainted=tainted,
            privacy_unit=privacy_unit_of(public), shared=False,
        )  # fmt: skip
    except IdTaken:
        reason = "this account has a stream of this name, with other parameters, another ε or other declarations"
        raise BadParameter("name", repr(design.name), reason, "take another name, or tick the one that is open") from None
    if not isinstance(paid, CachedAnswer):
        account.record(paid, encode_answer(public))
    return paid.entry


def load_stream(session: Session, name: str, *, state: str | Path | None = None) -> "Stream":
    """Return a stream of the session's account, to tick it.

    Raises:
        BadParameter: there is none of this name, or it was opened on another source, or with other declarations.
    """
    account = _require_ledger(_require_types(_require_session(session)).account)
    design, measurement, entry = _find_opening(account, name)
    if _hash_design(design.to_dict(), session) != measurement:
        reason = "it was opened on another source, or with other declarations about it (types, keys, bounds, limits, unit)"
        raise BadParameter("name", repr(name), reason, "give the source, its label and the policy that it was opened with")
    bounded = session.discovery.bound(design.question)
    opened = StreamState(_find_path(account, name, state), measurement, entry, design.steps)
    return Stream(design, measurement, entry, account, session, bounded, opened)


def read_stream(account: Account, name: str) -> "Stream":
    """Return a stream as the ledger holds it: to show it, without the source and the owner's state."""
    ledger = _require_ledger(account)
    return Stream(*_find_opening(ledger, name), ledger)


def list_streams(account: LedgerAccount) -> tuple[StreamDesign, ...]:
    """Return the streams of an account, in the order of opening."""
    found = list[StreamDesign]()
    with account.store.read_transaction() as transaction:
        for stored in transaction.iter_entries("debit"):
            keys = stored.keys or EntryKeys.of(decode_stored(transaction, stored))
            if keys.account == account.initial_state.name and is_opening_id(keys.id or ""):
                answer = transaction.find_answer(stored.number)
                found += [] if answer is None else [StreamDesign.from_dict(msgspec.json.decode(answer))]
    return tuple(found)


class GrowingRows:
    """Rows of integers of one length, read as one array and appended to without copying it every time."""

    def __init__(self) -> None:
        self._space, self._used = np.empty((0, 0), np.int64), 0

    def __len__(self) -> int:
        return self._used

    @property
    def values(self) -> Counts:
        """All rows, in order."""
        return self._space[: self._used]

    def append(self, row: Sequence[int] | Counts) -> None:
        """Append one."""
        if self._used == len(self._space):
            space = np.empty((2 * self._used + 16, len(row)), np.int64)
            if self._used:
                space[: self._used] = self._space
            self._space = space
        self._space[self._used] = row
        self._used += 1


@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """Counters over time. Everything that is shown is recorded in the account first; see the head of this file."""

    design: StreamDesign
    measurement: str  # the hash of the design, with the policy
    entry: int  # of the debit that paid for the horizon
    account: Account
    session: Session | None = None  # None: it can be shown, not ticked
    bounded: BoundedQuery | None = None
    state: StreamState | None = None
    bits: Bits | None = None
    _measured: list[Counts] = field(default_factory=list)  # what is recorded, per step; grows as steps are recorded
    _rows: GrowingRows = field(default_factory=GrowingRows)  # the same, one step below the other
    _counts: GrowingRows = field(default_factory=GrowingRows)  # the owner's exact counts, one row per step
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __copy__(self) -> "Stream":
        """Return the stream itself: a copy would share its state."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be pickled or copied deeply: it holds the owner's state."""
        reason = "it holds the owner's state, which is exact"
        raise BadParameter("stream", "to be pickled or copied deeply", reason, "load it again with load_stream")

    def __repr__(self) -> str:
        design, taken = self.design, self.design.participation
        return (
            f'Stream "{design.name}": {design.column}, every {design.schedule.every} from '
            f"{design.schedule.format(design.schedule.start)}, step {self.last_step} of {design.steps}; a unit counts in at "
            f"most {count_things(taken.at_most, 'step')}{f', {taken.apart} apart' if taken.at_most > 1 else ''}."
        )

    @property
    def last_step(self) -> int:
        """The last step that is recorded; 0 before the first."""
        with self._lock:
            self._read_records()
            return len(self._measured)

    @property
    def cost(self) -> Cost:
        """What the horizon cost, and what remains of the account."""
        if self.session is None:
            raise BadParameter("session", "missing", "only a stream that can be ticked says so", "see `discreet budget`")
        event = self.design.mechanism.event(self.design.participation.sensitivity(self.design.mechanism.matrix))
        return self.session.calibrator.cost_of(event)

    def half_width(self, step: int, window: int | None = None, confidence: float = 0.95) -> float:
        """Return how far off a running total, or a window, is after a step: known before anything is read."""
        self._check_step(step)
        return self.design.mechanism.half_width(step, self._check_window(window), check_confidence(confidence))

    def tick(
        self, step: int | None = None, *, now: datetime | None = None, window: int | None = None, confidence: float = 0.95
    ) -> StreamAnswer:
        """Show the next step whose period is over; measure and record it first, unless it is recorded.

        Args:
            step: The step to show. Steps are measured in their order: it is recorded, or the next one.
            now: The present time in UTC; the clock's, unless given. A period that is not over is not measured, because
                rows that come later would never count.
            window: Show sums over so many steps instead of running totals.
            confidence: Of each interval.

        Returns:
            The answer of the step. If no step is due, or the horizon is over, that of the last one.

        Raises:
            BadParameter: the step is not due, or beyond the horizon.
            LedgerCorrupted: the ledger is older than what this stream has shown.
            SourceRefused: the files of the source have changed since the session opened them.
        """
        with self._lock:
            self._read_records()
            last = len(self._measured)
            chosen = self._choose_step(step, last, now)
            if chosen > last:
                self._measure(chosen)
            return self.answer(chosen, window=window, confidence=confidence)

    def answer(self, step: int, *, window: int | None = None, confidence: float = 0.95) -> StreamAnswer:
        """Return a recorded step: running totals, or sums over a window of so many steps."""
        design, level = self.design, check_confidence(confidence)
        width = self._check_window(window)
        if check_int(step, "step", 1) > len(self._measured) and step > self.last_step:
            raise BadParameter("step", step, f"{len(self._measured)} steps are recorded", "tick it first")
        values, slacks = design.mechanism.estimate(self._rows.values, step, width)
        error = design.mechanism.half_width(step, width, level)
        estimates = list[StreamEstimate]()
        for keys, value, slack in zip(design.keys, values.tolist(), slacks.tolist(), strict=True):
            lower, upper = round_interval(value, error + slack)
            estimates.append(StreamEstimate(keys, value, lower, upper, error + slack))
        start, end = map(design.schedule.format, design.schedule.period(step))
        return StreamAnswer(step, start, end, tuple(estimates))

    def show(self, *, window: int | None = None, confidence: float = 0.95) -> StreamSeries:
        """Return all that is recorded: one answer per step."""
        self._check_window(window)
        answers = tuple(self.answer(step, window=window, confidence=confidence) for step in range(1, self.last_step + 1))
        design = self.design
        return StreamSeries(
            design.name, design.column, design.groups, design.steps, window, check_confidence(confidence), answers
        )

    # -- one step --------------------------------------------------------------------------------------------------------

    def _choose_step(self, step: int | None, last: int, now: datetime | None) -> int:
        design = self.design
        moment = datetime.now(UTC).replace(tzinfo=None) if now is None else now
        if step is None and last == design.steps:
            return last
        chosen = last + 1 if step is None else self._check_step(step)
        if chosen <= last:
            return chosen
        ends = design.schedule.period(chosen)[1]
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        if moment < ends and step is None and last:
            return last
        if chosen > last + 1:
            raise BadParameter(
                "step", chosen, f"steps are measured in their order, and {last} are", f"tick {last + 1} first"
            )
        if moment < ends:
            raise BadParameter("step", chosen, f"its period ends at {design.schedule.format(ends)}", "tick it then")
        return chosen

    def _measure(self, step: int) -> None:
        """Freeze and record the next step."""
        if self.session is None or self.state is None or self.bounded is None:
            raise BadParameter(
                "session", "missing", "a step reads the source", "load the stream with load_stream(session, …)"
            )
        frozen = self._check_state(step)
        if frozen is None and self.session.executor.engine.has_new_files():
            raise SourceRefused(
                "its files have changed since it was opened, and a step that is measured is never measured again",
                "connect to it again, and load the stream with load_stream(session, …)",
            )
        tainted = self.bits is not None and self.bits is not SYSTEM
        public = {"unit": self.design.unit, "neighbours": self.design.participation.neighbours.definition}
        paid = self.account.reserve(
            NO_EVENT, measurement=self._step_hash(step), id=_step_id(self.design.name, step), tainted=tainted,
            privacy_unit=privacy_unit_of(public), shared=False,
        )  # fmt: skip
        if not isinstance(paid, CachedAnswer):
            frozen = self._freeze(step) if frozen is None else frozen
            recorded = self.account.record(paid, encode_answer({"step": step, "measured": frozen}))
        else:
            recorded = paid.answer
        self._append_record(recorded)  # what was recorded first, by whichever process
        self._check_record(step, self.state.read_measured(step) if frozen is None else frozen)

    def _freeze(self, step: int) -> Measured:
        """Read the rows of a step, measure and freeze it; return what was frozen, by whichever process was first.

        The end of the chain that is frozen with it holds the debit of the step: a copy of the ledger from before is noticed.
        """
        assert self.state is not None
        taken = self.design.participation
        head = Ledger(self.account.store).head if isinstance(self.account, LedgerAccount) else None

        def measure(counts: list[int]) -> Measured:
            known = self._take_counts()
            here = np.array([counts], np.int64)
            return self.design.mechanism.measure(np.concatenate([known, here]) if step > 1 else here, step, self.bits)

        return self.state.freeze(
            step, self._read_contributions(step), measure, head, counters=len(self.design.keys), at_most=taken.at_most,
            apart=taken.apart, max_groups=taken.max_groups, max_rows=taken.max_rows,
        )  # fmt: skip

    def _take_counts(self) -> Counts:
        """Return the exact counts of all frozen steps."""
        assert self.state is not None
        for counts in self.state.read_counts(len(self._counts)):
            self._counts.append(counts)
        return self._counts.values

    def _read_contributions(self, step: int) -> list[Contribution]:
        assert self.session is not None
        assert self.bounded is not None
        bounded = _select_period(self.bounded, self.design.time, self.design.schedule.period(step))
        executor = self.session.executor
        executor.check_quarantine()
        with executor.read(None):
            rows = executor.engine.read_contributions(bounded)
        counters = {key: i for i, key in enumerate(self.design.keys)}
        return [(unit, count, counters[key]) for unit, count, key in rows if key in counters]

    def _check_state(self, step: int) -> Measured | None:
        """Refuse a ledger or a state that is older than the other; return what was measured of the step, if it is frozen."""
        assert self.state is not None
        last = self.state.read_last()
        frozen, head = (0, None) if last is None else (last.step, last.head)
        if frozen > step:
            reason = f"it has {step - 1} steps of a stream whose state has {frozen}: an older copy was restored"
            raise LedgerCorrupted(self._location, reason)
        if frozen < step - 1:
            reason = f"the owner's state of stream {self.design.name!r} has {frozen} steps, and the ledger {step - 1}"
            hint = "restore the newest state; if it is lost, this stream has ended, and what it has shown stays"
            raise LedgerUnavailable(self._location, reason, hint)
        if isinstance(self.account, LedgerAccount) and head is not None and not Ledger(self.account.store).continues(*head):
            reason = (
                f"it does not hold entry {head.number} as it was at the last step of a stream: an older copy was restored"
            )
            raise LedgerCorrupted(self._location, reason)
        if last is None:
            return None
        if frozen < step:
            self._check_record(frozen, last.measured)
            return None
        if step > 1:
            self._check_record(step - 1, self.state.read_measured(step - 1))
        return last.measured

    def _check_record(self, step: int, measured: Measured | None) -> None:
        """Refuse a state that is not the one that a recorded step was measured with."""
        if measured != self._measured[step - 1].tolist():
            reason = f"step {step} of stream {self.design.name!r} was measured with another state"
            raise LedgerUnavailable(self._location, reason, "tick it where its state is, or name that file with state=")

    # -- records ---------------------------------------------------------------------------------------------------------

    def _read_records(self) -> None:
        """Take in the steps that were recorded since, by this process or another."""
        while len(self._measured) < self.design.steps:
            step = len(self._measured) + 1
            answer = self._find_record(step)
            if answer is None:
                return
            self._append_record(answer)

    def _append_record(self, answer: bytes) -> None:
        measured = np.array(msgspec.json.decode(answer)["measured"], np.int64)  # rows of C·x plus noise, one per counter
        self._measured.append(measured)
        for row in measured:
            self._rows.append(row)

    def _find_record(self, step: int) -> bytes | None:
        id = _step_id(self.design.name, step)
        if isinstance(self.account, LedgerAccount):
            with self.account.store.read_transaction() as transaction:
                debit = transaction.find_debit_by_id(self.account.initial_state.name, id)
                if debit is None:
                    return None
                if debit.measurement != self._step_hash(step):
                    reason = f"entry {debit.number} has the id of a step of stream {self.design.name!r} and is none"
                    raise LedgerCorrupted(self._location, reason)
                return transaction.find_answer(debit.number)
        if not self.account.has_debit(id):
            return None
        found = self.account.reserve(NO_EVENT, measurement=self._step_hash(step), id=id)
        return found.answer if isinstance(found, CachedAnswer) else None

    def _step_hash(self, step: int) -> str:
        return hash_measurement({"stream": self.measurement, "entry": self.entry, "step": step})

    @property
    def _location(self) -> str:
        return self.account.store.location if isinstance(self.account, LedgerAccount) else "in memory"

    def _check_step(self, step: int) -> int:
        found = check_int(step, "step", 1)
        if found > self.design.steps:
            reason = f"the horizon of {self.design.steps} steps is over, and was paid for once"
            raise BadParameter("step", found, reason, "open another stream")
        return found

    def _check_window(self, window: int | None) -> int | None:
        return None if window is None else check_int(window, "window", 1)


# -- what a stream can count -----------------------------------------------------------------------------------------------


def _check_countable(bounded: BoundedQuery) -> str:
    """Return the name of the column of counts; refuse what a stream cannot count."""
    query, table = bounded.query, bounded.table
    if not table.unit_columns:
        raise QueryRefused(
            "A stream remembers in which steps a unit counted, and a row has no identity",
            "name the column that identifies a person, unit=",
            parameter="unit",
        )
    if len(query.aggregates) != 1 or not isinstance(query.aggregates[0][1], CountRows):
        raise QueryRefused("A stream counts rows, and nothing else", "ask for one COUNT(*)")
    if query.view != ast.WHOLE_ANSWER:
        raise QueryRefused("A stream shows all its counters", "leave out HAVING, ORDER BY and LIMIT")
    if bounded.keys is None:
        unknown = next(group.name for group in query.groups)
        raise QueryRefused(
            f"The keys of {unknown} are not declared, and selecting them at every step would cost δ at every step",
            f'declare them (keys={{"{unknown}": ["a", "b"]}})',
            parameter="keys",
        )
    if len(bounded.keys) > MAX_COUNTERS:
        raise QueryRefused(f"A stream has at most {MAX_COUNTERS:,} counters", "group by fewer keys")
    return query.aggregates[0][0]


def _check_time(bounded: BoundedQuery, time: str, schedule: Schedule) -> None:
    found = bounded.table.columns.get(time)
    if found is None or found.kind not in (Kind.DATE, Kind.TIMESTAMP):
        moments = [name for name, each in bounded.table.columns.items() if each.kind in (Kind.DATE, Kind.TIMESTAMP)]
        listed = f"name one of: {', '.join(moments)}" if moments else "declare one in the policy"
        raise BadParameter("time", repr(time), "not a column of dates or timestamps", listed)
    if found.kind is Kind.DATE and not schedule.has_days:
        raise BadParameter("every", repr(schedule.every), f"{time} holds dates", "take day, week or month, from a midnight")


def _check_participation(taken: Participation, steps: int) -> None:
    """Refuse more steps of one unit than there are, so that what is said of the stream is what holds."""
    possible = (steps - 1) // taken.apart + 1
    if taken.at_most > possible:
        apart = f", {taken.apart} apart," if taken.apart > 1 else ""
        reason = f"in {count_things(steps, 'step')}{apart} a unit can count in {possible} at most"
        raise BadParameter("at_most", taken.at_most, reason, f"give at_most={possible}, or less")


def _select_period(bounded: BoundedQuery, time: str, period: tuple[datetime, datetime]) -> BoundedQuery:
    """Return the query over the rows of one period."""
    is_date = bounded.table.columns[time].kind is Kind.DATE
    start, end = (ast.Constant(each.date() if is_date else each) for each in period)
    inside: list[ast.Condition] = [
        ast.Compare(ast.Order.AT_LEAST, ast.Ref(time), start),
        ast.Compare(ast.Order.LESS, ast.Ref(time), end),
    ]
    where = bounded.query.where
    parts = tuple(inside if where is None else [where, *inside])
    return replace(bounded, query=replace(bounded.query, where=ast.All(parts)))


# -- names and hashes ------------------------------------------------------------------------------------------------------


def _check_name(name: str) -> str:
    if not isinstance(name, str):
        raise BadParameter("name", repr(name), "not a text", 'name the stream, name="visits"')
    found = validate_name(name, "name")
    if len(found) > MAX_NAME_LENGTH or "/" in found:
        reason = f"names of streams have at most {MAX_NAME_LENGTH} characters and no slash"
        raise BadParameter("name", repr(found[:40]), reason, "take a shorter one")
    return found


def _opening_id(name: str) -> str:
    return f"stream/{_check_name(name)}"


def _step_id(name: str, step: int) -> str:
    return f"stream/{name}/{step}"


def is_opening_id(id: str) -> bool:
    """Return whether an id is that of the opening of a stream."""
    return id.startswith("stream/") and id.count("/") == 1


def _identity_of(session: Session) -> str:
    return session.engine.identity if session.identity is None else session.identity


def _hash_design(public: Mapping[str, Any], session: Session) -> str:
    """Hash what is measured: the design, the source as the session has it, and all that is declared about it."""
    own = {"source": _identity_of(session), "label": session.label, "neighbours": session.neighbours.definition}
    return hash_measurement(dict(public) | own | {"policy": policy_hash(session.table)})


def _find_opening(account: LedgerAccount, name: str) -> tuple[StreamDesign, str, int]:
    with account.store.read_transaction() as transaction:
        debit = transaction.find_debit_by_id(account.initial_state.name, _opening_id(name))
        answer = None if debit is None else transaction.find_answer(debit.number)
    if debit is None:
        known = ", ".join(repr(each.name) for each in list_streams(account)) or "none yet"
        raise BadParameter("name", repr(name), "no stream of this account", f"the streams are: {known}")
    if answer is None:
        raise BadParameter("name", repr(name), "it was debited and not opened", "open it again; that is free")
    return StreamDesign.from_dict(msgspec.json.decode(answer)), debit.measurement, debit.number


def _require_session(session: Session) -> Session:
    if not isinstance(session, Session):
        reason = "not a session on a source" if not hasattr(session, "ask") else "a stream reads the source itself"
        raise BadParameter(
            "session", type(session).__name__, reason, 'open one: connect("visits.csv", ledger="hr.ledger", …)'
        )
    if session.invariants:
        reason = "exact counts of a source that grows are other counts at every step, so nothing would be guaranteed"
        raise BadParameter("invariants", "given", reason, "leave them out, or publish without a stream")
    return session


def _require_types(session: Session) -> Session:
    """Return the session. Refuse types that were inferred from a file, for a stream that a ledger keeps: such a file is read
    anew at every step, one row of one person decides which types are inferred then, and so whether the step is measured."""
    if session.engine.inferred and isinstance(session.account, LedgerAccount):
        reason = (
            "column types were inferred from the file; a stream reads it again at every step, and one row could change them"
        )
        raise BadParameter(
            "policy", "missing", reason, "declare them: `discreet policy init` writes a policy, which every step is given"
        )
    return session


def _require_ledger(account: Account) -> LedgerAccount:
    if not isinstance(account, LedgerAccount):
        raise BadParameter("ledger", "missing", "only a ledger keeps streams", 'name it: ledger="hr.ledger"')
    return account


def _find_path(account: LedgerAccount, name: str, state: str | Path | None) -> Path:
    """Return the file of the owner's state. A copy of a ledger has the same one, so that it meets what the original did."""
    if state is not None:
        return Path(state)
    ledger = Ledger(account.store).identity or account.store.location
    digest = sha256(repr((ledger, account.initial_state.name, name)).encode()).hexdigest()[:32]
    return default_state_folder() / f"stream-{digest}.sqlite"


def describe_noise(design: StreamDesign) -> str:
    """Say which noise a stream has, in words."""
    scale = format_rational(Fraction(design.mechanism.scale))
    kind = "Laplace noise on a binary tree" if kind_of(design.mechanism) == "tree" else "Gaussian noise on a square root"
    return f"{kind}, scale {scale}"


__all__: Sequence[str] = ("Stream", "StreamDesign", "list_streams", "load_stream", "open_stream", "read_stream")
