"""Pay once for all questions, look at each, record all answers together; or show what was recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from discreet.ledger.certificate import answer_bytes
from discreet.ledger.entry import measurement_hash, whose_of
from discreet.ledger.store import Recorded
from discreet.mechanisms.quantile import confident
from discreet.noise import Bits
from discreet.publisher.solve import Solved
from discreet.query.record import Paper, described, from_record, to_record
from discreet.query.release import Receipt, Release
from discreet.till import Manner, Shape


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer per question, and what the account keeps of all of them."""

    releases: tuple[Release, ...]
    paper: Paper
    free: bool  # they were recorded before, and nothing was paid now


def pay_and_look(
    solved: Solved,
    *,
    fresh: bool = False,
    bits: Bits | None = None,
    progress: Callable[[float], None] | None = None,
) -> Answers:
    """One debit for the composition of all measurements; no row is read before it is durable."""
    manner, session = Manner(bits, None, solved.workload.id, fresh), solved.session
    told: dict[str, Any] = {
        "unit": session.table.unit,
        "neighbours": session.neighbours.value,
        "plan": [described(each, session.engine.identity) for each in solved.measurements],
    }
    told |= manner.mark
    paid = session.account.reserve(
        solved.loss,
        measurement=measurement_hash(told),
        id=manner.id,
        fresh=fresh,
        tainted=manner.tainted,
        at=solved.terms.at,
        whose=whose_of(told),
    )
    if isinstance(paid, Recorded):
        return _recorded(solved, told, paid.entry, paid.answer, free=True)
    releases = _looked(solved, paid, manner, progress)
    record = {"answers": [to_record(each) for each in releases]}
    kept = session.account.record(paid, answer_bytes(record))
    return _recorded(solved, told, paid.entry, kept, free=False)  # what is shown is what is kept, also if a rival was first


def _looked(solved: Solved, paid: Receipt, manner: Manner, progress: Callable[[float], None] | None) -> Sequence[Release]:
    shape, total = Shape(confident(solved.workload.confidence)), len(solved.measurements)
    receipts = paid.split([each.loss for each in solved.measurements])
    found = []
    for measurement, receipt in zip(solved.measurements, receipts, strict=True):
        found.append(solved.session.till.answer(measurement, receipt, manner, shape))
        if progress is not None:
            progress(len(found) / total)
    return found


def _recorded(solved: Solved, told: dict[str, Any], entry: int, kept: bytes, *, free: bool) -> Answers:
    record = msgspec.json.decode(kept)
    pairs = zip(record["answers"], solved.measurements, strict=True)
    releases = tuple(from_record(each, measurement.loss) for each, measurement in pairs)
    for answer in releases:
        Shape(confident(solved.workload.confidence)).check(answer)
    return Answers(releases, Paper(entry, told, record), free)
