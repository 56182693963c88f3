"""The executor: reserve, run, record. It serves one query (`ask`), a workload (`publish`) and a tabulation alike.

**Theory of operation.** A `Job` is what one debit pays for: one measurement, all measurements of a workload (`QueryJob`), or
the tables of a tabulation. `Executor.execute`

1. *reserves*: debits the account for the job's event, or finds the answers that were recorded for the same job, which are
   free;
2. *runs*: the engine computes the exact statistics, and the noise that the receipt paid for is added;
3. *records*: the answers are stored under their debit, and what was stored is shown.

The debit is durable before any row is read and stays whatever happens afterwards: a refund would make the balance a
function of the data. No answer is shown that is not recorded. If two processes continue the same debit, the first to record
wins, and both show its answers.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from discreet._numbers import format_up, to_rational
from discreet.accounting.cost import SHOWN_DIGITS
from discreet.accounting.currencies import Receipt, smallest_epsilon
from discreet.engines.base import Engine, NotStarted, OutOfResources, about, owner_log, watch_cancellation
from discreet.errors import BadParameter, BudgetExceeded, DiscreetError, EngineFailed
from discreet.events import Composition, compose
from discreet.formats import count_things
from discreet.ledger.account import Account, CachedAnswer, IdTaken, compute_charge, state_in_epsilon, steps_unpaid_error
from discreet.ledger.entries import encode_answer, hash_measurement, privacy_unit_of
from discreet.ledger.quarantine import FailureKind, MemoryQuarantine, Quarantine
from discreet.noise import SYSTEM, Bits
from discreet.noise.bits import check_bits
from discreet.query.answer import Answer, IntervalOptions, complete_answer, measures_jointly, release
from discreet.query.ast import WHOLE_ANSWER
from discreet.query.calibrate import Calibrator, Measurement
from discreet.query.contribution import FIRST_BOUNDING, BoundedQuery
from discreet.query.record import LedgerReference, bounded_spec, drop_bounding, from_record, noise_spec, to_record
from discreet.query.schema import DEFAULT_SALT, Table
from discreet.sql import totals  # noqa: F401 - for engines: once a query is paid, nothing is imported
from discreet.units import Invariant, invariants_to_json

ProgressCallback: TypeAlias = Callable[[float], None]
POLL_SECONDS = 0.1
Result = TypeVar("Result")


class Running(Protocol):
    """An engine that reports how much of its statement is done, from 0 to 1; None where it cannot."""

    def progress(self) -> float | None: ...


@contextmanager
def report_progress(engine: Running, on_progress: ProgressCallback | None, every: float = POLL_SECONDS) -> Iterator[None]:
    """Call `on_progress` with the share that is done, from 0 to 1, from a second thread while the body runs.

    A callback that raises is not called again: what was paid for is still answered. Progress depends on the data, as time
    does: it is for the person who waits, never for a publication.
    """
    if on_progress is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        try:
            while not done.wait(every):
                share = engine.progress()
                if share is not None:
                    on_progress(share)
        except Exception:
            owner_log.warning("a progress callback failed", exc_info=True)

    thread = threading.Thread(target=copy_context().run, args=(watch,), daemon=True)  # its log names the same source
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a query is run, besides what it asks."""

    bits: Bits | None = None
    progress: ProgressCallback | None = None
    id: str | None = None
    fresh: bool = False
    purpose: str = ""  # what the answer is for, which a steward of a service reads
    shared: bool = True  # whether what another account of the family paid for is free; not so for a step
    tainted: bool = field(init=False)
    """Whether the noise may be repeatable: with any bits but the system's it is, whatever they say of themselves."""

    def __post_init__(self) -> None:
        bits = self.bits
        object.__setattr__(self, "tainted", bits is not None and bits is not SYSTEM)
        if bits is not None:
            check_bits(bits, "leave it out, or in tests give seeded ones")
        if self.progress is not None and not callable(self.progress):
            raise BadParameter("progress", repr(self.progress), "cannot be called", "give a function of one number")
        if not isinstance(self.purpose, str):
            raise BadParameter("purpose", repr(self.purpose), "not a text", "say in a sentence what the answer is for")
        if self.id is not None and not isinstance(self.id, str):
            raise BadParameter("id", repr(self.id), "not a text", "give a text that is used for this query only")

    def for_step(self, name: str) -> "RunOptions":
        """Return the options of a step on the way to an answer, under an id of its own."""
        return replace(self, shared=False, id=None if self.id is None else f"{self.id}/{name}")


SEEDED: dict[bool, dict[str, str]] = {False: {}, True: {"bits": "seeded"}}
"""What a specification says of its bits: an answer of seeded bits never passes for a real one."""


class Job(ABC, Generic[Result]):
    """What one debit pays for. `spec` is everything that decides what is measured; its hash identifies the job."""

    if TYPE_CHECKING:  # fields of the jobs

        @property
        def table(self) -> Table:
            """What is declared about the table."""

        @property
        def event(self) -> Composition:
            """Which noise is drawn."""

        @property
        def spec(self) -> Mapping[str, Any]:
            """Everything that decides what is measured."""

        @property
        def after(self) -> tuple[int, ...]:
            """The entries whose answers decided what is measured."""

        @property
        def certified_delta(self) -> Fraction:
            """The δ of the certified point that is charged; 0 where a sum is."""

    @abstractmethod
    def measure(self, executor: "Executor", paid: Receipt, options: RunOptions, intervals: IntervalOptions) -> Result:
        """Read the data and add the noise that the receipt paid for. Nothing is recorded yet."""

    @abstractmethod
    def to_record(self, result: Result) -> dict[str, Any]:
        """Return what is recorded as plain values."""

    @abstractmethod
    def from_record(self, record: Mapping[str, Any], intervals: IntervalOptions) -> Result:
        """Return what `to_record` wrote."""

    def show(self, result: Result) -> Result:
        """Return what is shown of it. All of it is recorded: a view is post-processing."""
        return result

    def list_differences(self, record: Mapping[str, Any]) -> list[str]:
        """Say where a recorded answer differs from what this job measures, as far as that can be seen."""
        return []

    def as_first_version(self) -> "Job[Result] | None":
        """Return the same job as the first version of contribution bounding measures it; None if that is this job."""
        return None


@dataclass(frozen=True)
class QueryJob(Job[tuple[Answer, ...]]):
    """One measurement, or all measurements of a workload."""

    measurements: tuple[Measurement, ...]
    event: Composition
    spec: Mapping[str, Any]
    after: tuple[int, ...] = ()
    is_workload: bool = False  # whether its record is a list of answers, even if there is one
    certified_delta: Fraction = Fraction(0)

    @property
    def table(self) -> Table:
        """What is declared about the table."""
        return self.measurements[0].bounded.table

    def measure(
        self, executor: "Executor", paid: Receipt, options: RunOptions, intervals: IntervalOptions
    ) -> tuple[Answer, ...]:
        """Answer one measurement after the other."""
        receipts = paid.split([each.event for each in self.measurements]) if self.is_workload else (paid,)
        answers: list[Answer] = []
        for measurement, receipt in zip(self.measurements, receipts, strict=True):
            answers.append(self._measure_one(executor, measurement, receipt, options, intervals))
            if self.is_workload and options.progress is not None:
                options = _report_share(options, len(answers) / len(receipts))
        return tuple(answers)

    def _measure_one(
        self,
        executor: "Executor",
        measurement: Measurement,
        receipt: Receipt,
        options: RunOptions,
        intervals: IntervalOptions,
    ) -> Answer:
        engine = executor.engine
        with executor.read(None if self.is_workload else options.progress):
            exact = engine.run(measurement.bounded)
            answer = release(
                measurement,
                exact,
                receipt,
                confidence=intervals.confidence,
                simultaneous=intervals.simultaneous or measures_jointly(measurement),
                bits=options.bits,
            )
        statements = exact.statements
        if measurement.bounded.table.salt != DEFAULT_SALT:
            statements = engine.compile_all(_redact_salt(measurement.bounded))
        return replace(answer, pipeline=(*statements, *measurement.describe()))

    def as_first_version(self) -> "QueryJob | None":
        """Return the job whose contributions are kept in the first version's order."""
        spec = drop_bounding(self.spec)
        if spec == self.spec:
            return None
        measurements = tuple(
            replace(each, bounded=replace(each.bounded, bounding=FIRST_BOUNDING)) for each in self.measurements
        )
        return replace(self, measurements=measurements, spec=spec)

    def to_record(self, result: tuple[Answer, ...]) -> dict[str, Any]:
        """Return the answers as plain values."""
        return {"answers": [*map(to_record, result)]} if self.is_workload else to_record(result[0])

    def from_record(self, record: Mapping[str, Any], intervals: IntervalOptions) -> tuple[Answer, ...]:
        """Return the answers that `to_record` wrote."""
        records = record["answers"] if self.is_workload else [record]
        pairs = zip(records, self.measurements, strict=True)
        answers = tuple(complete_answer(from_record(each, m.event, m.bounded.columns), m) for each, m in pairs)
        for answer in answers:
            intervals.check(answer.intervals)
        return answers

    def show(self, result: tuple[Answer, ...]) -> tuple[Answer, ...]:
        """Return what each query shows of its answer."""
        pairs = ((answer, m.bounded.query.view) for answer, m in zip(result, self.measurements, strict=True))
        return tuple(answer if view == WHOLE_ANSWER else answer.apply_view(view) for answer, view in pairs)

    def list_differences(self, record: Mapping[str, Any]) -> list[str]:
        """Say where the tables of a recorded answer differ: how many there are, or their columns."""
        records = record.get("answers", [record])
        if ("answers" in record) != self.is_workload or len(records) != len(self.measurements):
            kinds = [(len(records), "answers" in record), (len(self.measurements), self.is_workload)]
            was, now = (f"a publication of {count_things(n, 'table')}" if many else "a query" for n, many in kinds)
            return [f"it is of {was}, and this is {now}"]
        for each, measurement in zip(records, self.measurements, strict=True):
            bounded = measurement.bounded
            found = [*each["groups"], *each["columns"]]
            asked = [group.name for group in bounded.query.groups] + [column.name for column in bounded.columns]
            if found != asked:
                return [f"its columns are {', '.join(found)}, and those of this one are {', '.join(asked)}"]
        return []


@dataclass(frozen=True, slots=True)
class Execution(Generic[Result]):
    """The answers of a job, where the account keeps them, and what was paid now."""

    answers: Result
    reference: LedgerReference
    receipt: Receipt | None  # None: this account paid nothing now; the answers, or another account's debit, were there


@dataclass(frozen=True)
class Executor:
    """An engine that answers and an account that pays."""

    engine: Engine
    account: Account
    delta: Fraction
    quarantine: Quarantine
    label: str | None = None  # which state of the source is queried
    identity: str | None = None  # what measurements call the source, if not as the engine does
    policy: str | None = None  # the hash of the whole policy, if measurements hold it whatever a query joins
    invariants: tuple[Invariant, ...] = ()  # exact counts that are public: the guarantee is conditional on them
    unrecorded: MemoryQuarantine = field(default_factory=MemoryQuarantine, repr=False, compare=False)
    """Failures that could not be recorded in the quarantine: a full disk must not open the source again."""

    @property
    def calibrator(self) -> Calibrator:
        """Calibration against this account, as it is now."""
        return Calibrator(self.account.budget, self.delta, self.account.family_budget)

    def describe(self, measurement: Measurement) -> dict[str, Any]:
        """Return everything that decides what is measured."""
        return self.describe_bounded(measurement.bounded) | noise_spec(measurement)

    def describe_bounded(self, bounded: BoundedQuery) -> dict[str, Any]:
        """Return everything that decides the exact statistics."""
        spec = bounded_spec(bounded, self.engine.identity if self.identity is None else self.identity, self.label)
        spec |= self._describe_invariants()
        return spec if self.policy is None else spec | {"policy": self.policy}

    def _describe_invariants(self) -> dict[str, Any]:
        """What a specification says of invariants: nothing if there are none, as before there were any."""
        return {"invariants": invariants_to_json(self.invariants)} if self.invariants else {}

    def run(
        self,
        measurement: Measurement,
        options: RunOptions,
        intervals: IntervalOptions,
        depends_on: Sequence[LedgerReference] = (),
    ) -> Answer:
        """Return the answer to one measurement. `depends_on` are the answers that decided what is measured."""
        job = self._make_job(measurement, options, depends_on)
        execution = self.execute(job, options, intervals)
        [answer], receipt = execution.answers, execution.receipt
        return replace(
            answer,
            charged=receipt is not None,
            cost=self.calibrator.cost_of(measurement.event, receipt.remaining if receipt else None),
            reference=execution.reference,
        )

    def run_workload(
        self,
        measurements: Sequence[Measurement],
        options: RunOptions,
        intervals: IntervalOptions,
        certified_delta: Fraction = Fraction(0),
    ) -> Execution[tuple[Answer, ...]]:
        """Return the answers to several measurements, paid for with one debit."""
        table, relation = measurements[0].bounded.table, measurements[0].bounded.neighbours
        spec = {
            "unit": table.unit,
            "neighbours": relation.definition,
            "plan": [*map(self.describe, measurements)],
        } | self._describe_invariants()
        event = compose(*(each.event for each in measurements))
        job = QueryJob(tuple(measurements), event, spec | SEEDED[options.tainted], (), True, certified_delta)
        return self.execute(job, options, intervals)

    def execute(self, job: Job[Result], options: RunOptions, intervals: IntervalOptions) -> Execution[Result]:
        """Reserve, run, record; or return what was recorded for the same job.

        A source on which a query failed is refused before anything is paid. A failure that came from the rows is one bit
        about them; asked again and again, bisection would find a person.
        """
        self.check_quarantine()
        job = self._choose_version(job, options)
        try:
            paid = self.account.reserve(
                job.event,
                measurement=hash_measurement(job.spec),
                id=options.id,
                fresh=options.fresh,
                tainted=options.tainted,
                certified_delta=job.certified_delta,
                privacy_unit=privacy_unit_of(job.spec),
                shared=options.shared and not job.after,
            )
        except BudgetExceeded as refused:
            raise self.suggest_epsilon(refused, job.table) from None
        except IdTaken as taken:
            raise taken.explain(self._list_differences(taken, job)) from None
        if isinstance(paid, CachedAnswer):
            return self._load_recorded(job, paid.entry, paid.answer, intervals)
        answers = job.measure(self, paid, options, intervals)
        record = job.to_record(answers)
        encoded = encode_answer(record)
        recorded = self.account.record(paid, encoded)
        if recorded != encoded:  # another process continued the same debit and was first
            return self._load_recorded(job, paid.entry, recorded, intervals)
        charged = paid if paid.paid_by is None else None  # another account of the family paid, and its debit was continued
        return Execution(job.show(answers), LedgerReference(paid.entry, job.spec, record, job.after), charged)

    def check_steps(
        self,
        steps: Sequence[tuple[Measurement, RunOptions]],
        id: str | None,
        depends_on: Sequence[LedgerReference] = (),
        rest: Measurement | None = None,
    ) -> None:
        """Refuse, before the first step is paid, what could not be continued to its answer.

        The steps of a query that was interrupted cost nothing again, so what must fit is what is still unpaid, together
        with the `rest`, as far as its cost is known. A query is paid after all its steps: while one of them is unpaid, its
        id is free.
        """
        unpaid = [measurement for measurement, options in steps if not self._is_paid(measurement, options, depends_on)]
        if not unpaid:
            return
        if id is not None and self.account.has_debit(id):
            raise steps_unpaid_error(id)
        events = (each.event for each in (*unpaid, *([] if rest is None else [rest])))
        self.check_budget(compose(*events), unpaid[0].bounded.table)

    def check_budget(self, event: Composition, table: Table, certified_delta: Fraction = Fraction(0)) -> None:
        """Refuse what does not fit as a whole, before its first part is paid."""
        try:
            self.account.check(event, certified_delta)
        except BudgetExceeded as refused:
            raise self.suggest_epsilon(refused, table) from None

    def _is_paid(self, measurement: Measurement, options: RunOptions, depends_on: Sequence[LedgerReference]) -> bool:
        return self.is_paid(self._make_job(measurement, options, depends_on), options)

    def _choose_version(self, job: Job[Result], options: RunOptions) -> Job[Result]:
        """Return the job as its first version measures it, if that was paid for: its answer is found, or its debit is
        continued. Any other job is measured as this version does."""
        first = job.as_first_version()
        if first is None:
            return job
        try:
            paid = self.account.is_paid(
                first.event, measurement=hash_measurement(first.spec), id=options.id, fresh=options.fresh,
                shared=options.shared and not first.after,
            )  # fmt: skip
        except IdTaken:  # by this version's own measurement, or by another one: `reserve` says which
            return job
        return first if paid else job

    def is_paid(self, job: Job[Any], options: RunOptions) -> bool:
        """Return whether the account would be debited nothing for a job."""
        job = self._choose_version(job, options)
        try:
            return self.account.is_paid(
                job.event, measurement=hash_measurement(job.spec), id=options.id, fresh=options.fresh,
                shared=options.shared and not job.after,
            )  # fmt: skip
        except IdTaken as taken:
            raise taken.explain(self._list_differences(taken, job)) from None

    def _list_differences(self, taken: IdTaken, job: Job[Any]) -> str:
        """Say what differs between the measurement that an id belongs to and this job, as far as the account knows.

        It keeps the hash of a measurement, its event, its unit and its answer. So the cost, the unit and the columns can be
        compared; whether the text of the query, the source or the policy differs cannot be told apart.
        """
        currency, said = self.account.budget.currency, list[str]()
        amount = compute_charge(currency, job.event, job.certified_delta)[0]
        costs = [taken.cost, *([to_rational(amount)] if isfinite(amount) else [])]
        shown = [f"ε = {format_up(smallest_epsilon(currency, cost, self.delta), SHOWN_DIGITS)}" for cost in costs]
        if len(set(shown)) > 1:
            said.append(f"its cost was {shown[0]}, and that of this one is {shown[1]}")
        unit = privacy_unit_of(job.spec)
        if taken.privacy_unit and taken.privacy_unit != unit:
            said.append(f"it is about ({taken.privacy_unit}), and this one about ({unit})")
        said += [] if taken.answer is None else job.list_differences(msgspec.json.decode(taken.answer))
        if said:
            return "; ".join(said)
        same = "the cost is the same" if taken.event != job.event else "the cost and the noise are the same"
        return f"{same}, so the query's text, the source, its label, or what is declared about it differs"

    def _make_job(self, measurement: Measurement, options: RunOptions, depends_on: Sequence[LedgerReference]) -> QueryJob:
        """Return the job of one measurement; the answers that it rests on are part of what is hashed."""
        spec = self.describe(measurement) | SEEDED[options.tainted]
        if depends_on:
            spec["after"] = [hash_measurement(reference.measurement) for reference in depends_on]
        return QueryJob((measurement,), measurement.event, spec, tuple(reference.entry for reference in depends_on))

    @contextmanager
    def read(self, on_progress: ProgressCallback | None) -> Iterator[None]:
        """Let the body read the data. A failure is recorded in the quarantine, and is raised without its reason."""
        try:
            with (
                about(self.engine.identity),
                self.engine.lock,
                watch_cancellation(self.engine),
                report_progress(self.engine, on_progress),
            ):
                yield
        except EngineFailed as failed:
            raise self._hide_failure(failed) from None

    def check_quarantine(self) -> None:
        """Refuse a source on which a query failed."""
        for origin in self.engine.origins:
            self.unrecorded.check(origin)
            self.quarantine.check(origin)

    def _hide_failure(self, failed: EngineFailed) -> EngineFailed:
        """Record a failure, and return an error whose class says nothing of the reason."""
        if not isinstance(failed, NotStarted):  # then no row was read
            self._record_failure(FailureKind.RESOURCE if isinstance(failed, OutOfResources) else FailureKind.DECODING)
        return EngineFailed()

    def _record_failure(self, kind: FailureKind) -> None:
        """Record that a query failed on the rows. If the record cannot be written, the analyst must not learn it from
        another
        error, nor go on asking: the failure then counts in this process."""
        for origin in self.engine.origins:
            try:
                self.quarantine.record_failure(origin, kind)
            except DiscreetError as error:
                owner_log.error("a failure could not be recorded: %s", error)
                self.unrecorded.record_failure(origin, FailureKind.DECODING)

    def _load_recorded(self, job: Job[Result], entry: int, encoded: bytes, intervals: IntervalOptions) -> Execution[Result]:
        """Return what was answered before. Nothing is paid, and nothing is read but the record."""
        record = msgspec.json.decode(encoded)
        answers = job.from_record(record, intervals)
        return Execution(job.show(answers), LedgerReference(entry, job.spec, record, job.after), None)

    def suggest_epsilon(self, refused: BudgetExceeded, table: Table) -> BudgetExceeded:
        """Return the same refusal with the ε that would fit; with 0 if that is below the policy's least ε."""
        fitting = refused.fitting_epsilon
        fitting = self.account.budget.fitting_epsilon(self.delta) if fitting is None else fitting
        least, hint = table.least_epsilon, ""
        allowed = fitting if fitting >= least else Fraction(0)
        if allowed < fitting:
            hint = f"nothing usable remains: the policy accepts no query below ε = {format_up(least, SHOWN_DIGITS)}"
        return state_in_epsilon(refused, self.account.budget.currency, self.delta, allowed, hint, fitting)


def _report_share(options: RunOptions, share: float) -> RunOptions:
    """Call the progress callback. Return the options without one that raises: what was paid for is still answered."""
    try:
        assert options.progress is not None
        options.progress(share)
    except Exception:
        owner_log.warning("a progress callback failed", exc_info=True)
        return replace(options, progress=None)
    return options


def _redact_salt(bounded: BoundedQuery) -> BoundedQuery:
    """Return the query without the owner's salt: what ran may be published, and the salt may not."""
    return replace(bounded, table=replace(bounded.table, salt="secret"))
