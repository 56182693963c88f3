"""A certificate is made only of what the ledger holds."""

import json
from pathlib import Path
from typing import Any

import pytest

from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter
from discreet.ledger import open_ledger
from discreet.ledger.certificate import make_certificate
from discreet.ledger.entries import encode_answer, hash_measurement
from discreet.ledger.keys import default_key_path, load_key
from discreet.ledger.verify import verify
from tests.support.certificates import ANSWER, EVENT, MEASUREMENT, issue_certificate, list_false_claims


def test_a_certificate_is_only_made_of_what_is_recorded(folder: Path) -> None:
    _, ledger, key = issue_certificate(folder)
    account = ledger.get_account("hr")
    given: dict[str, Any] = {
        "measurement": MEASUREMENT, "answer": ANSWER, "software": "x", "key": key,
    }  # fmt: skip
    for wrong in (
        {"tainted": True},
        {"measurement": MEASUREMENT | {"question": "another"}},
        {"answer": ANSWER | {"explanation": "another"}},
        {"depends_on": [2]},
    ):
        with pytest.raises(BadParameter):
            make_certificate(account, 2, **(given | wrong))
    with pytest.raises(BadParameter, match="no debit"):
        make_certificate(account, 1, **given)


@pytest.mark.parametrize("unit", ["", "one house, added or removed"])
def test_an_answer_about_another_unit_than_its_account_is_not_certified(
    folder: Path, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, key = open_ledger(folder / "l", create=True).open_account("hr", 2), load_key(default_key_path(folder / "l"))
    receipt = account.reserve(EVENT, measurement=hash_measurement(MEASUREMENT), privacy_unit=unit)
    assert isinstance(receipt, Receipt)
    account.record(receipt, encode_answer(ANSWER))

    def certify() -> dict[str, Any]:
        return make_certificate(
            account, receipt.entry, measurement=MEASUREMENT, answer=ANSWER, software="discreet test", key=key
        )

    with pytest.raises(BadParameter, match="something else"):
        certify()
    monkeypatch.setattr(
        "discreet.ledger.certificate.privacy_unit_of", lambda measurement: unit
    )  # a mutant that does not compare
    assert list_false_claims(verify(json.loads(json.dumps(certify())))) == [
        "the query, policy and noise are those that were charged"
    ]
