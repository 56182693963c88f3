"""Where questions are paid for: pay, then look, then record, then show.

A debit is made before any row is read and stays whatever happens afterwards: a refund would make the balance a function of
the data. Nothing is shown that is not recorded.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, TypeAlias

import msgspec

from discreet.accounting.currencies import find_fitting_epsilon
from discreet.engines.base import Engine, OutOfResources, about, owner_log
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed
from discreet.events import compose
from discreet.ledger.certificate import encode_answer
from discreet.ledger.entries import hash_measurement, privacy_unit_of
from discreet.ledger.failures import FailureKind, Quarantine
from discreet.ledger.store import Account, CachedAnswer, steps_unpaid_error
from discreet.noise import SYSTEM, Bits
from discreet.query.accuracy import Calibrator
from discreet.query.answer import Answer, Receipt, release
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery
from discreet.query.quote import describe_noise
from discreet.query.record import LedgerReference, from_record, measurement_spec, to_record
from discreet.query.schema import DEFAULT_SALT

# How far a statement has come, told from a second thread while it runs.
#
# Progress depends on the data, as time does: it is for the person who waits, never for a publication.


ProgressCallback: TypeAlias = Callable[[float], None]
POLL_SECONDS = 0.1  # seconds


class Running(Protocol):
    """An engine that knows how far its statement is, from 0 to 1; None where it does not."""

    def progress(self) -> float | None: ...


@contextmanager
def report_progress(engine: Running, on_progress: ProgressCallback | None, every: float = POLL_SECONDS) -> Iterator[None]:
    """Tell the share that is done, from 0 to 1, while the body runs. A listener that raises is told no more: what was paid
    for is still answered."""
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
            owner_log.warning("a listener for progress failed", exc_info=True)

    thread = threading.Thread(target=copy_context().run, args=(watch,), daemon=True)  # it speaks of the same source
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


CONFIDENCE_TOLERANCE = 2.0**-52
"""A confidence is kept as a double: 0.95 and the fraction 19/20 are the same one."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a question is put, besides what it asks."""

    bits: Bits | None = None
    progress: Callable[[float], None] | None = None
    id: str | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        sure = callable(getattr(self.bits, "words", None)) and isinstance(getattr(self.bits, "tainted", None), bool)
        if self.bits is not None and not sure:
            raise BadParameter("bits", repr(self.bits), "not a source of bits", "leave it out, or in tests give seeded ones")
        if self.progress is not None and not callable(self.progress):
            raise BadParameter("progress", repr(self.progress), "cannot be told anything", "give a function of one number")
        if self.id is not None and not isinstance(self.id, str):
            raise BadParameter("id", repr(self.id), "not a text", "give a text that nobody else uses")

    @property
    def tainted(self) -> bool:
        """Whether the noise may be repeatable: any bits but the system's are, whatever they say of themselves."""
        return self.bits is not None and self.bits is not SYSTEM

    @property
    def seed_marker(self) -> dict[str, str]:
        """What a measurement says of its bits: a seeded answer is never passed off as a real one."""
        return {"bits": "seeded"} if self.tainted else {}

    def for_step(self, name: str) -> "RunOptions":
        """The same for a step on the way to an answer, under an id of its own."""
        return self if self.id is None else replace(self, id=f"{self.id}/{name}")


@dataclass(frozen=True, slots=True)
class IntervalOptions:
    """What the intervals of an answer promise."""

    confidence: float
    simultaneous: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.simultaneous, bool):
            raise BadParameter("simultaneous", repr(self.simultaneous), "neither True nor False", "give one of them")

    def check(self, recorded: Answer) -> None:
        """Refuse if an answer that was recorded promises something else."""
        for name in ("confidence", "simultaneous"):
            wanted, was = getattr(self, name), getattr(recorded, name)
            if abs(wanted - was) > CONFIDENCE_TOLERANCE:
                hint = f"ask with {name}={was}, or pay again with fresh=True"
                raise BadParameter(name, wanted, f"this was answered before, with {was}", hint)


@dataclass(frozen=True, slots=True)
class Executor:
    """An engine that answers and an account that pays."""

    engine: Engine
    account: Account
    delta: Fraction
    quarantine: Quarantine
    label: str | None = None  # which state of the source is queried

    @property
    def pricing(self) -> Calibrator:
        """Prices in this account, as it is now."""
        return Calibrator(self.account.budget, self.delta)

    def run(
        self,
        measurement: Measurement,
        options: RunOptions,
        intervals: IntervalOptions,
        depends_on: Sequence[LedgerReference] = (),
    ) -> Answer:
        """Pay, look, record; or show what was recorded. `after` are the answers that decided what is measured."""
        self.check_source()
        spec = self._measurement_spec(measurement, options, depends_on)
        paper = partial(LedgerReference, measurement=spec, after=tuple(reference.entry for reference in depends_on))
        try:
            paid = self.account.reserve(
                measurement.event,
                measurement=hash_measurement(spec),
                id=options.id,
                fresh=options.fresh,
                tainted=options.tainted,
                privacy_unit=privacy_unit_of(spec),
            )
        except BudgetExceeded as refused:
            raise self._suggest_epsilon(refused, measurement.bounded.table.least_epsilon) from None
        if isinstance(paid, CachedAnswer):
            return self._load_recorded(measurement, paper, paid.entry, paid.answer, intervals)
        answer = self.run_measurement(measurement, paid, options, intervals)
        record = to_record(answer)
        kept = encode_answer(record)
        shown_answer = self.account.record(paid, kept)
        if shown_answer != kept:  # somebody else continued the same debit and was first
            return self._load_recorded(measurement, paper, paid.entry, shown_answer, intervals)
        return replace(
            answer, cost=self.pricing.cost_of(measurement.event, paid.remaining), reference=paper(paid.entry, record=record)
        )

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
        unpaid = [planned for planned, manner in steps if not self._is_paid(planned, manner, depends_on)]
        if not unpaid:
            return
        if id is not None and self.account.has_debit(id):
            raise steps_unpaid_error(id)
        try:
            self.account.check(compose(*(planned.event for planned in (*unpaid, *([] if rest is None else [rest])))))
        except BudgetExceeded as refused:
            raise self._suggest_epsilon(refused, unpaid[0].bounded.table.least_epsilon) from None

    def _is_paid(self, measurement: Measurement, options: RunOptions, depends_on: Sequence[LedgerReference]) -> bool:
        digest = hash_measurement(self._measurement_spec(measurement, options, depends_on))
        return self.account.is_paid(measurement.event, measurement=digest, id=options.id, fresh=options.fresh)

    def _measurement_spec(
        self, measurement: Measurement, options: RunOptions, depends_on: Sequence[LedgerReference]
    ) -> dict[str, Any]:
        """What is hashed: all that decides what is measured, the answers that it rests on included."""
        spec = measurement_spec(measurement, self.engine.identity, self.label) | options.seed_marker
        return spec | ({"after": [hash_measurement(paper.measurement) for paper in depends_on]} if depends_on else {})

    def check_source(self) -> None:
        """Refuse a source on which a query failed, before anything is paid. A failure that came from the rows is one bit
        about them; asked again and again, bisection would make it a person."""
        for origin in self.engine.origins:
            self.quarantine.check(origin)

    def run_measurement(
        self, measurement: Measurement, receipt: Receipt, options: RunOptions, intervals: IntervalOptions
    ) -> Answer:
        """Read the data and add the noise that the receipt paid for. Nothing is recorded yet."""
        try:
            with about(self.engine.identity), self.engine.lock, report_progress(self.engine, options.progress):
                exact = self.engine.run(measurement.bounded)
                answer = release(
                    measurement,
                    exact,
                    receipt,
                    confidence=intervals.confidence,
                    simultaneous=intervals.simultaneous,
                    bits=options.bits,
                )
        except EngineFailed as failed:
            kind = FailureKind.RESOURCE if isinstance(failed, OutOfResources) else FailureKind.DECODING
            for origin in self.engine.origins:
                self.quarantine.record_failure(origin, kind)
            raise EngineFailed from None  # its class says nothing of the reason
        ran = (
            exact.statements
            if measurement.bounded.table.salt == DEFAULT_SALT
            else self.engine.compile_all(_redact_salt(measurement.bounded))
        )
        return replace(answer, pipeline=(*ran, *describe_noise(measurement)))

    def _load_recorded(
        self,
        measurement: Measurement,
        reference: Callable[..., LedgerReference],
        entry: int,
        kept: bytes,
        intervals: IntervalOptions,
    ) -> Answer:
        """What was answered before. Nothing is paid, and nothing is read but the record."""
        record = msgspec.json.decode(kept)
        answer = from_record(record, measurement.event)
        intervals.check(answer)
        said = f"{answer.explanation} This is the answer that entry {entry} paid for; it cost nothing now."
        return replace(
            answer,
            explanation=said,
            cost=self.pricing.cost_of(measurement.event),
            reference=reference(entry, record=record),
        )

    def _suggest_epsilon(self, refused: BudgetExceeded, least: Fraction) -> BudgetExceeded:
        """The same refusal, with the ε that would fit; none if that is below the policy's least one."""
        fitting = (
            find_fitting_epsilon(self.account.budget, self.delta)
            if refused.fitting_epsilon is None
            else refused.fitting_epsilon
        )
        allowed = fitting if fitting >= least else Fraction(0)
        return BudgetExceeded(refused.currency, cost=refused.cost, remaining=refused.remaining, fitting_epsilon=allowed)


def _redact_salt(bounded: BoundedQuery) -> BoundedQuery:
    """What ran may be published; a salt of the owner's own stays with the owner."""
    return replace(bounded, table=replace(bounded.table, salt="secret"))
