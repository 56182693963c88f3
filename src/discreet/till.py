"""Where questions are paid for: pay, then look, then record, then show.

A debit is made before any row is read and stays whatever happens afterwards: a refund would make the balance a function of
the data. Nothing is shown that is not recorded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec

from discreet.engines.engine import Engine, OutOfResources
from discreet.engines.owner import about
from discreet.engines.progress import watched
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed
from discreet.ledger.budget import epsilon_that_fits
from discreet.ledger.certificate import answer_bytes
from discreet.ledger.entry import measurement_hash, whose_of
from discreet.ledger.failures import FailureKind, Quarantine
from discreet.ledger.store import Purse, Recorded, steps_unpaid
from discreet.loss import compose
from discreet.noise import SYSTEM, Bits
from discreet.pricing import Pricing
from discreet.query.bound import Bounded
from discreet.query.measure import Measurement
from discreet.query.quote import noise_in_words
from discreet.query.record import Paper, described, from_record, to_record
from discreet.query.release import Receipt, Release, release
from discreet.query.table import SALT

ULP = 2.0**-52
"""A confidence is kept as a double: 0.95 and the fraction 19/20 are the same one."""


@dataclass(frozen=True, slots=True)
class Manner:
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
    def mark(self) -> dict[str, str]:
        """What a measurement says of its bits: a seeded answer is never passed off as a real one."""
        return {"bits": "seeded"} if self.tainted else {}

    def step(self, name: str) -> "Manner":
        """The same for a step on the way to an answer, under an id of its own."""
        return self if self.id is None else replace(self, id=f"{self.id}/{name}")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the intervals of an answer promise."""

    confidence: float
    simultaneous: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.simultaneous, bool):
            raise BadParameter("simultaneous", repr(self.simultaneous), "neither True nor False", "give one of them")

    def check(self, recorded: Release) -> None:
        """Refuse if an answer that was recorded promises something else."""
        for name in ("confidence", "simultaneous"):
            wanted, was = getattr(self, name), getattr(recorded, name)
            if abs(wanted - was) > ULP:
                way_out = f"ask with {name}={was}, or pay again with fresh=True"
                raise BadParameter(name, wanted, f"this was answered before, with {was}", way_out)


@dataclass(frozen=True, slots=True)
class Till:
    """An engine that answers and an account that pays."""

    engine: Engine
    account: Purse
    delta: Fraction
    quarantine: Quarantine
    label: str | None = None  # which state of the source is queried

    @property
    def pricing(self) -> Pricing:
        """Prices in this account, as it is now."""
        return Pricing(self.account.budget, self.delta)

    def look(self, planned: Measurement, manner: Manner, shape: Shape, after: Sequence[Paper] = ()) -> Release:
        """Pay, look, record; or show what was recorded. `after` are the answers that decided what is measured."""
        self.check_source()
        told = self._describe(planned, manner, after)
        paper = partial(Paper, measurement=told, after=tuple(paper.entry for paper in after))
        try:
            paid = self.account.reserve(
                planned.loss,
                measurement=measurement_hash(told),
                id=manner.id,
                fresh=manner.fresh,
                tainted=manner.tainted,
                whose=whose_of(told),
            )
        except BudgetExceeded as refused:
            raise self._say_what_fits(refused, planned.bounded.table.least_epsilon) from None
        if isinstance(paid, Recorded):
            return self._recorded(planned, paper, paid.entry, paid.answer, shape)
        answer = self.answer(planned, paid, manner, shape)
        record = to_record(answer)
        kept = answer_bytes(record)
        shown_answer = self.account.record(paid, kept)
        if shown_answer != kept:  # somebody else continued the same debit and was first
            return self._recorded(planned, paper, paid.entry, shown_answer, shape)
        return replace(answer, price=self.pricing.price(planned.loss, paid.left), paper=paper(paid.entry, recorded=record))

    def check_steps(
        self,
        steps: Sequence[tuple[Measurement, Manner]],
        id: str | None,
        after: Sequence[Paper] = (),
        rest: Measurement | None = None,
    ) -> None:
        """Refuse, before the first step is paid, what could not be continued to its answer.

        The steps of a query that was interrupted cost nothing again, so what must fit is what is still unpaid, together
        with the `rest`, as far as its cost is known. A query is paid after all its steps: while one of them is unpaid, its
        id is free.
        """
        unpaid = [planned for planned, manner in steps if not self._is_paid(planned, manner, after)]
        if not unpaid:
            return
        if id is not None and self.account.has_debit(id):
            raise steps_unpaid(id)
        try:
            self.account.check(compose(*(planned.loss for planned in (*unpaid, *([] if rest is None else [rest])))))
        except BudgetExceeded as refused:
            raise self._say_what_fits(refused, unpaid[0].bounded.table.least_epsilon) from None

    def _is_paid(self, planned: Measurement, manner: Manner, after: Sequence[Paper]) -> bool:
        measurement = measurement_hash(self._describe(planned, manner, after))
        return self.account.is_paid(planned.loss, measurement=measurement, id=manner.id, fresh=manner.fresh)

    def _describe(self, planned: Measurement, manner: Manner, after: Sequence[Paper]) -> dict[str, Any]:
        """What is hashed: all that decides what is measured, the answers that it rests on included."""
        told = described(planned, self.engine.identity, self.label) | manner.mark
        return told | ({"after": [measurement_hash(paper.measurement) for paper in after]} if after else {})

    def check_source(self) -> None:
        """Refuse a source on which a query failed, before anything is paid. A failure that came from the rows is one bit
        about them; asked again and again, bisection would make it a person."""
        for origin in self.engine.origins:
            self.quarantine.check(origin)

    def answer(self, planned: Measurement, receipt: Receipt, manner: Manner, shape: Shape) -> Release:
        """Read the data and add the noise that the receipt paid for. Nothing is recorded yet."""
        try:
            with about(self.engine.identity), self.engine.turn, watched(self.engine, manner.progress):
                exact = self.engine.exact(planned.bounded)
                answer = release(
                    planned, exact, receipt, confidence=shape.confidence, simultaneous=shape.simultaneous, bits=manner.bits
                )
        except EngineFailed as failed:
            kind = FailureKind.RESOURCE if isinstance(failed, OutOfResources) else FailureKind.DECODING
            for origin in self.engine.origins:
                self.quarantine.record_failure(origin, kind)
            raise EngineFailed from None  # its class says nothing of the reason
        ran = (
            exact.statements
            if planned.bounded.table.salt == SALT
            else self.engine.statements(_without_salt(planned.bounded))
        )
        return replace(answer, pipeline=(*ran, *noise_in_words(planned)))

    def _recorded(self, planned: Measurement, paper: Callable[..., Paper], entry: int, kept: bytes, shape: Shape) -> Release:
        """What was answered before. Nothing is paid, and nothing is read but the record."""
        record = msgspec.json.decode(kept)
        answer = from_record(record, planned.loss)
        shape.check(answer)
        said = f"{answer.explanation} This is the answer that entry {entry} paid for; it cost nothing now."
        return replace(answer, explanation=said, price=self.pricing.price(planned.loss), paper=paper(entry, recorded=record))

    def _say_what_fits(self, refused: BudgetExceeded, least: Fraction) -> BudgetExceeded:
        """The same refusal, with the ε that would fit; none if that is below the policy's least one."""
        fitting = epsilon_that_fits(self.account.budget, self.delta) if refused.fitting is None else refused.fitting
        allowed = fitting if fitting >= least else Fraction(0)
        return BudgetExceeded(refused.currency, asked=refused.asked, left=refused.left, fitting=allowed)


def _without_salt(bounded: Bounded) -> Bounded:
    """What ran may be published; a salt of the owner's own stays with the owner."""
    return replace(bounded, table=replace(bounded.table, salt="secret"))
