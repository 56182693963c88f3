"""A certificate of one invented answer, and what is needed to forge it."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.accounting.currencies import Currency, Pure, Receipt
from discreet.events import DiscreteLaplaceEvent, compose
from discreet.ledger import open_ledger
from discreet.ledger.certificate import make_certificate
from discreet.ledger.chain import Ledger
from discreet.ledger.entries import encode_answer, hash_measurement, privacy_unit_of, to_canonical_json
from discreet.ledger.keys import SigningKey, default_key_path, load_key
from discreet.ledger.verify import Verification
from discreet.units import to_sensitivity

MEASUREMENT = {
    "source": "people.csv", "table": "people", "question": "SELECT COUNT(*) AS n FROM people", "policy": "5eed",
    "mechanisms": [{"column": "n", "noise": "Laplace", "scale": "4"}], "grid": "1", "unit": "person",
    "neighbours": "add or remove one unit",
}  # fmt: skip
ANSWER = {"rows": [{"n": {"value": 41, "lower": 29.0, "upper": 53.0}}], "explanation": "…"}
EVENT = compose(DiscreteLaplaceEvent(Fraction(4), to_sensitivity(1)))


def issue_certificate(folder: Path, currency: Currency | None = None) -> tuple[dict[str, Any], Ledger, SigningKey]:
    """Make a ledger with one answer, and its certificate as it comes back from a file."""
    delta = 0 if currency is None or currency == Pure() else 1e-6
    ledger = open_ledger(folder / "l", create=True)
    account, key = ledger.open_account("hr", 2, delta, currency), load_key(default_key_path(folder / "l"))
    receipt = account.reserve(
        EVENT, measurement=hash_measurement(MEASUREMENT), id="q", privacy_unit=privacy_unit_of(MEASUREMENT)
    )
    assert isinstance(receipt, Receipt)
    account.record(receipt, encode_answer(ANSWER))
    certificate = make_certificate(
        account, receipt.entry, measurement=MEASUREMENT, answer=ANSWER, software="discreet test", key=key,
    )  # fmt: skip
    return json.loads(json.dumps(certificate, indent=2, sort_keys=True)), ledger, key


def sign_again(certificate: dict[str, Any], key: SigningKey) -> dict[str, Any]:
    """Sign a changed certificate."""
    unsigned = {name: value for name, value in certificate.items() if name != "signature"} | {"public_key": key.public}
    return unsigned | {"signature": key.sign(to_canonical_json(unsigned))}


def list_false_claims(verification: Verification) -> list[str]:
    """Return the claims that do not hold."""
    return [claim.claim for claim in verification.claims if not claim.is_valid]
