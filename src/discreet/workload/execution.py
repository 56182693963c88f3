"""Pay once for all questions, look at each, record all answers together; or show what was recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec

from discreet.accounting.cost import Cost
from discreet.ledger.certificate import encode_answer
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.entries import Debit, hash_measurement, privacy_unit_of
from discreet.ledger.store import CachedAnswer
from discreet.mechanisms._tail_bounds import check_confidence
from discreet.noise import Bits
from discreet.query.answer import Answer, Receipt
from discreet.query.record import LedgerReference, from_record, measurement_spec, to_record
from discreet.session.executor import IntervalOptions, RunOptions
from discreet.workload.planning import WorkloadPlan


@dataclass(frozen=True, slots=True)
class WorkloadAnswers:
    """One answer per question, and what the account keeps of all of them."""

    answers: tuple[Answer, ...]
    reference: LedgerReference
    free: bool  # they were recorded before, and nothing was paid now
    cost: Cost  # of the debit that they belong to, which may have been made under another δ
    certified_delta: Fraction  # the δ of the certified point that was charged; 0 where a sum was


def execute_plan(
    solved: WorkloadPlan,
    *,
    fresh: bool = False,
    bits: Bits | None = None,
    progress: Callable[[float], None] | None = None,
) -> WorkloadAnswers:
    """One debit for the composition of all measurements; no row is read before it is durable."""
    manner, session = RunOptions(bits, None, solved.workload.id, fresh), solved.session
    session.executor.check_source()
    told: dict[str, Any] = {
        "unit": session.table.unit,
        "neighbours": session.neighbours.definition,
        "plan": [measurement_spec(each, session.engine.identity, session.label) for each in solved.measurements],
    }
    told |= manner.seed_marker
    paid = session.account.reserve(
        solved.event,
        measurement=hash_measurement(told),
        id=manner.id,
        fresh=fresh,
        tainted=manner.tainted,
        certified_delta=solved.terms.certified_delta,
        privacy_unit=privacy_unit_of(told),
    )
    if isinstance(paid, CachedAnswer):
        return _read_recorded(solved, told, paid.entry, paid.answer, free=True)
    releases = _answer_queries(solved, paid, manner, progress)
    record = {"answers": [to_record(each) for each in releases]}
    kept = session.account.record(paid, encode_answer(record))
    return _read_recorded(
        solved, told, paid.entry, kept, free=False
    )  # what is shown is what is kept, also if a rival was first


def _answer_queries(
    solved: WorkloadPlan, paid: Receipt, manner: RunOptions, progress: Callable[[float], None] | None
) -> Sequence[Answer]:
    shape, total = IntervalOptions(check_confidence(solved.workload.confidence)), len(solved.measurements)
    receipts = paid.split([each.event for each in solved.measurements])
    found = []
    for measurement, receipt in zip(solved.measurements, receipts, strict=True):
        found.append(solved.session.executor.run_measurement(measurement, receipt, manner, shape))
        if progress is not None:
            progress(len(found) / total)
    return found


def _read_recorded(solved: WorkloadPlan, told: dict[str, Any], entry: int, kept: bytes, *, free: bool) -> WorkloadAnswers:
    record = msgspec.json.decode(kept)
    pairs = zip(record["answers"], solved.measurements, strict=True)
    releases = tuple(from_record(each, measurement.event) for each, measurement in pairs)
    for answer in releases:
        IntervalOptions(check_confidence(solved.workload.confidence)).check(answer)
    price, at = _read_cost(solved, entry)
    return WorkloadAnswers(releases, LedgerReference(entry, told, record), free, price, at)


def _read_cost(solved: WorkloadPlan, entry: int) -> tuple[Cost, Fraction]:
    """What the debit with this number cost, and at which point. A plan's own budget knows no other debit than its own."""
    account, terms, now = solved.session.account, solved.terms, solved.cost
    if not isinstance(account, LedgerAccount):
        return now, terms.certified_delta
    with account.store.read_transaction() as pages:
        debit = pages.find_entry(entry)
    assert isinstance(debit, Debit)
    delta = debit.at if terms.currency.counts_epsilon else terms.delta
    return Cost(solved.event, delta, terms.currency, debit.price, now.remaining, now.limit), debit.at
