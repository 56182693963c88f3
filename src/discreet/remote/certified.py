"""Compare the certificate of an answer with what was asked and received.

**Threat.** A web process that was taken over, or a proxy on the way, can show other numbers than those that were recorded.
It has no key, so it can sign none. A certificate that is valid under the key that this client has pinned, and that states
what was asked and the values that were received, shows that nothing was changed on the way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from discreet.errors import BadParameter, ServiceChanged
from discreet.ledger.certificate import read_entries
from discreet.ledger.entries import to_canonical_json
from discreet.ledger.verify import verify
from discreet.query.answer import Answer
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

    @classmethod
    def of(cls, answer: Answer, ask: str, query: str) -> "Received":
        """Keep what a certificate must state."""
        assert answer.reference is not None
        return cls(ask, query, answer.reference.entry, answer.reference.measurement, to_record(answer))


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
        found, (_, debit, _) = verify(certificate, public=public_key), read_entries(certificate)
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
    if not _shows(received.record, certificate["release"], asked.view.drops_rows()):
        return "the values differ"
    return None


def _shows(shown: Mapping[str, Any], signed: Mapping[str, Any], drops_rows: bool) -> bool:
    """Whether all values that are shown are signed ones, of the same groups and columns. A view may leave out rows and
    columns and sort them. Intervals are compared where they are of the same kind; others follow from the noise."""
    same = all(shown[name] == signed.get(name) for name in ("confidence", "simultaneous"))
    compared = 3 if same else 1  # value, lower and upper end
    try:
        places = [signed["columns"].index(name) for name in shown["columns"]]
        rows = {_write_keys(keys): row for keys, row in signed["rows"]}
        values = [(_write_keys(keys), row) for keys, row in shown["rows"]]
        is_signed = all(
            _write_cell(each, compared) == _write_cell(rows[keys][place], compared)
            for keys, row in values
            for each, place in zip(row, places, strict=True)
        )
    except (KeyError, IndexError, TypeError, ValueError):
        return False
    shown_keys = {keys for keys, _ in values}
    is_whole = len(shown_keys) == len(values) and (drops_rows or shown_keys == rows.keys())
    return is_signed and is_whole and list(shown["groups"]) == list(signed["groups"])


def _write_cell(cell: Any, compared: int) -> list[Any]:
    """Return numbers of an estimate as JSON has them: infinite ends are texts on the wire, and null in a certificate."""
    return [each if isinstance(each, int | float) and isfinite(each) else None for each in cell[:compared]]


def _write_keys(keys: Any) -> bytes:
    return to_canonical_json({"keys": list(keys)})
