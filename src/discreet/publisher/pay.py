"""Pay once for all questions, look at each, record all answers together; or show what was recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec

from discreet.accounting.filters import Pure
from discreet.ledger.book import LedgerAccount
from discreet.ledger.certificate import answer_bytes
from discreet.ledger.entry import Debit, measurement_hash, whose_of
from discreet.ledger.store import Recorded
from discreet.mechanisms.quantile import confident
from discreet.noise import Bits
from discreet.publisher.solve import Solved
from discreet.query.price import Price
from discreet.query.record import Paper, described, from_record, to_record
from discreet.query.release import Receipt, Release
from discreet.till import Manner, Shape


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer per question, and what the account keeps of all of them."""

    releases: tuple[Release, ...]
    paper: Paper
    free: bool  # they were recorded before, and nothing was paid now
    price: Price  # of the debit that they belong to, which may have been made under another δ
    at: Fraction  # the δ of the certified point that was charged; 0 where a sum was


def pay_and_look(
    solved: Solved,
    *,
    fresh: bool = False,
    bits: Bits | None = None,
    progress: Callable[[float], None] | None = None,
) -> Answers:
    """One debit for the composition of all measurements; no row is read before it is durable."""
    manner, session = Manner(bits, None, solved.workload.id, fresh), solved.session
    session.till.check_source()
    told: dict[str, Any] = {
        "unit": session.table.unit,
        "neighbours": session.neighbours.definition,
        "plan": [described(each, session.engine.identity, session.label) for each in solved.measurements],
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
    price, at = _price_of(solved, entry)
    return Answers(releases, Paper(entry, told, record), free, price, at)


def _price_of(solved: Solved, entry: int) -> tuple[Price, Fraction]:
    """What the debit with this number cost, and at which point. A plan's own budget knows no other debit than its own."""
    account, terms, now = solved.session.account, solved.terms, solved.price
    if not isinstance(account, LedgerAccount):
        return now, terms.at
    with account.store.reading() as pages:
        debit = pages.by_number(entry)
    assert isinstance(debit, Debit)
    delta = debit.at if isinstance(terms.currency, Pure) else terms.delta
    return Price(solved.loss, delta, terms.currency, debit.price, now.left), debit.at
