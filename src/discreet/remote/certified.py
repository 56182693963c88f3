"""Compare the certificate of an answer with what was asked and received.

**Threat.** A web process that was taken over, or a proxy on the way, can show other numbers than those that were recorded.
It has no key, so it can sign none. A certificate that is valid under the key that this client has pinned, and that states
what was asked and the values that were received, shows that nothing was changed on the way.

What was asked is compared, too: the query, a cost that is not above what the ε that was asked for buys in the currency of
the account, nor above the cost that the answer states, and the confidence. Intervals and flags of reliability are those that
were signed. Where noisy values decide which rows are shown, and the answer was not recorded with simultaneous intervals, the
service widens the signed ones; then they must contain the signed ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from discreet.accounting.currencies import parse_currency
from discreet.errors import BadParameter, ServiceChanged
from discreet.ledger.certificate import read_entries
from discreet.ledger.check import COST_TOLERANCE
from discreet.ledger.entries import AccountOpened, Debit, to_canonical_json
from discreet.ledger.verify import verify
from discreet.query.answer import CONFIDENCE_TOLERANCE, Answer
from discreet.query.ast import to_sql
from discreet.query.parser import read_query
from discreet.query.record import to_record
from discreet.query.schema import Table


@dataclass(frozen=True, slots=True)
class Received:
    """An answer as it was received, and the ask that it answers. What is done with the answer later changes nothing here."""

    ask: str
    query: str
    entry: int
    measurement: Mapping[str, Any]
    record: Mapping[str, Any]
    epsilon: str | None = None  # as it was asked; None: an error was stated
    confidence: float = 0.95
    simultaneous: bool = False
    shown_cost: Fraction | None = None  # in the currency of the account, if it was charged

    @classmethod
    def of(cls, answer: Answer, ask: str, asked: Mapping[str, Any]) -> "Received":
        """Keep what a certificate must state; `asked` is what was sent."""
        assert answer.reference is not None
        reference, shown = answer.reference, to_record(answer)
        amount = answer.cost.amount if answer.charged and answer.cost is not None else None
        shown_cost = amount if isinstance(amount, Fraction) else None
        options = asked.get("epsilon"), asked["confidence"], asked["simultaneous"], shown_cost
        return cls(ask, asked["query"], reference.entry, reference.measurement, shown, *options)


def check_certificate(
    certificate: Mapping[str, Any], received: Received, table: Table, public_key: str | None, address: str
) -> None:
    """Refuse a certificate that is not of what was asked and received.

    Raises:
        ServiceChanged: what was received is not what the ledger's key signed.
    """
    difference = _find_difference(certificate, received, table, public_key)
    if difference is not None:
        hint = "do not rely on this answer, and tell its steward by another way than this service"
        raise ServiceChanged(address, f"the certificate is not of the answer that it sent: {difference}", hint)


def _find_difference(certificate: Mapping[str, Any], received: Received, table: Table, public_key: str | None) -> str | None:
    """Return the first thing in which a certificate differs from what was asked and received; None if in nothing."""
    try:
        found, (opened, debit, _) = verify(certificate, public=public_key), read_entries(certificate)
    except BadParameter:
        return "it is no certificate"
    wrong = [each.claim for each in found.claims if not each.is_valid]
    if wrong:
        return f"it is false that {wrong[0]}"
    asked, measurement = read_query(received.query, table), certificate["measurement"]
    if debit.number != received.entry or to_canonical_json(measurement) != to_canonical_json(dict(received.measurement)):
        return "it is about another measurement"
    if measurement.get("question") != to_sql(asked, table.unit):
        return "it is about another query than was asked"
    if received.epsilon is not None and not _costs_at_most(opened, debit, Fraction(received.epsilon)):
        return "it costs a larger ε than was asked for"
    if received.shown_cost is not None and debit.cost > received.shown_cost * (1 + COST_TOLERANCE):
        return "it costs more than the answer says"
    if not _promises(received.record, certificate["release"], received):
        return "the intervals are of another kind than was asked for"
    if not _shows(received.record, certificate["release"], asked.view.drops_rows()):
        return "the values differ"
    return None


def _shows(shown: Mapping[str, Any], signed: Mapping[str, Any], drops_rows: bool) -> bool:
    """Whether all values that are shown are signed ones, of the same groups and columns. A view may leave out rows and
    columns and sort them. Intervals that are simultaneous, and were recorded otherwise, contain the signed ones."""
    is_same = shown["simultaneous"] == signed.get("simultaneous")
    try:
        places = [signed["columns"].index(name) for name in shown["columns"]]
        rows = {_write_keys(keys): row for keys, row in signed["rows"]}
        values = [(_write_keys(keys), row) for keys, row in shown["rows"]]
        is_signed = all(
            _write_cell(each) == _write_cell(rows[keys][place]) or (not is_same and _widens(each, rows[keys][place]))
            for keys, row in values
            for each, place in zip(row, places, strict=True)
        )
    except (KeyError, IndexError, TypeError, ValueError):
        return False
    shown_keys = {keys for keys, _ in values}
    is_whole = len(shown_keys) == len(values) and (drops_rows or shown_keys == rows.keys())
    return is_signed and is_whole and list(shown["groups"]) == list(signed["groups"])


def _costs_at_most(opened: AccountOpened, debit: Debit, epsilon: Fraction) -> bool:
    """Whether the debit, which `verify` has compared with its events, is not above what this ε buys in the account. The
    certified ε of a query alone is below the one that is asked for, so to compare these would let a larger one pass."""
    try:
        return debit.cost <= parse_currency(opened.currency).amount(epsilon, opened.delta) * (1 + COST_TOLERANCE)
    except BadParameter:  # it buys nothing
        return False


def _promises(shown: Mapping[str, Any], signed: Mapping[str, Any], received: Received) -> bool:
    """Whether the intervals are of the confidence that was asked for and signed, and simultaneous where that was asked for
    or signed."""
    confidences = shown["confidence"], signed.get("confidence")
    is_confident = all(
        isinstance(each, int | float) and abs(each - received.confidence) <= CONFIDENCE_TOLERANCE for each in confidences
    )
    return is_confident and shown["simultaneous"] >= max(received.simultaneous, signed.get("simultaneous") is True)


def _write_cell(cell: Any) -> list[Any]:
    """Return an estimate as JSON has it: infinite ends are texts on the wire, and null in a certificate."""
    value, lower, upper, reliable = cell
    numbers = [each if isinstance(each, int | float) and isfinite(each) else None for each in (value, lower, upper)]
    return [*numbers, bool(reliable)]


def _widens(shown: Any, signed: Any) -> bool:
    """Whether an estimate has the signed value, an interval that contains the signed one, and no flag of its own."""
    (value, lower, upper, reliable), (value_s, lower_s, upper_s, reliable_s) = _write_cell(shown), _write_cell(signed)
    is_below = lower is None or (lower_s is not None and lower <= lower_s)
    is_above = upper is None or (upper_s is not None and upper >= upper_s)
    return value == value_s and is_below and is_above and reliable <= reliable_s


def _write_keys(keys: Any) -> bytes:
    return to_canonical_json({"keys": list(keys)})
