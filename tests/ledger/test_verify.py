"""Certificates and signed heads: what is true verifies, each forgery is found, also when the ledger's key signed it."""

import copy
import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from discreet import codec
from discreet.accounting.currencies import Currency, Gdp, Pure, Zcdp
from discreet.errors import BadParameter, DiscreetError
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import decode, encode, to_canonical_json
from discreet.ledger.keys import load_key
from discreet.ledger.verify import find_divergence, sign_head, verify
from tests.support.certificates import EVENT, issue_certificate, list_false_claims, sign_again
from tests.support.small_ledger import debit_and_record, make_small_ledger

Forgery = Callable[[dict[str, Any]], None]


@pytest.mark.parametrize("currency", [None, Pure(), Zcdp(), Gdp()])
def test_a_true_certificate_verifies(folder: Path, currency: Currency | None) -> None:
    certificate, ledger, key = issue_certificate(folder, currency)
    alone = verify(certificate)
    assert alone.is_valid
    assert any("public=" in assumption for assumption in alone.assumptions)
    assert any("ledger=" in assumption for assumption in alone.assumptions)
    complete = verify(certificate, public=key.public, ledger=ledger)
    assert complete.is_valid
    assert len(complete.claims) > len(alone.claims)
    assert not any("=" in assumption for assumption in complete.assumptions)
    for word in ("one person", "added or removed", "account hr", "entry 2", "e^"):
        assert word in certificate["guarantee"]["words"]


def change_entry(certificate: dict[str, Any], **fields: Any) -> None:
    entry = decode(certificate["entry"].encode())
    values = {name: getattr(entry, name) for name in entry.__struct_fields__} | fields
    certificate["entry"] = encode(type(entry)(**values)).decode()


def answer(certificate: dict[str, Any]) -> None:
    certificate["release"]["rows"][0]["n"]["value"] = 40


def scale(certificate: dict[str, Any]) -> None:
    certificate["facts"]["parts"][0][0]["scale"] = "8/1"


def scale_of_the_measurement(certificate: dict[str, Any]) -> None:
    certificate["measurement"]["mechanisms"][0]["scale"] = "8"


def query(certificate: dict[str, Any]) -> None:
    certificate["measurement"]["question"] = "SELECT COUNT(*) AS n FROM people WHERE pay > 10"


def policy(certificate: dict[str, Any]) -> None:
    certificate["measurement"]["policy"] = "5eee"


def signature(certificate: dict[str, Any]) -> None:
    certificate["signature"] = certificate["signature"].translate(str.maketrans("ABCDabcd", "BCDAbcda"))


def entry_missing(certificate: dict[str, Any]) -> None:
    change_entry(certificate, number=99)
    certificate["guarantee"]["so_far"]["entry"] = 99
    certificate["guarantee"]["words"] = certificate["guarantee"]["words"].replace("entry 2", "entry 99")


def epsilon_understated(certificate: dict[str, Any]) -> None:
    certificate["price"]["epsilon"] = {"lower": 0.1, "upper": 0.1}


def guarantee_understated(certificate: dict[str, Any]) -> None:
    proven = str(certificate["guarantee"]["epsilon"])
    certificate["guarantee"]["epsilon"] = 0.1
    certificate["guarantee"]["words"] = certificate["guarantee"]["words"].replace(f"e^{proven}", "e^0.1", 1)


def words_only(certificate: dict[str, Any]) -> None:
    certificate["guarantee"]["words"] = "Perfectly private."


def charged_less(certificate: dict[str, Any]) -> None:
    change_entry(certificate, cost=Fraction(1, 10), spent=Fraction(1, 10))
    certificate["price"] |= {"amount": 0.1, "left": 1.9}
    certificate["guarantee"]["so_far"]["epsilon"] = 0.1


def remaining_overstated(certificate: dict[str, Any]) -> None:
    certificate["price"]["left"] = 1.99


def cost_widened(certificate: dict[str, Any]) -> None:
    certificate["price"]["epsilon"] = {"lower": 0.0001, "upper": 1e9}


def replace_words(certificate: dict[str, Any], old: str, new: str) -> None:
    assert old in certificate["guarantee"]["words"]
    certificate["guarantee"]["words"] = certificate["guarantee"]["words"].replace(old, new)


def another_unit(certificate: dict[str, Any]) -> None:
    certificate["guarantee"]["whose"] = "one company"
    replace_words(certificate, "one person", "one company")


def another_relation(certificate: dict[str, Any]) -> None:
    certificate["guarantee"]["change"] = "replaced by another"
    replace_words(certificate, "added or removed", "replaced by another")


def account_of_another_unit(certificate: dict[str, Any]) -> None:
    change_entry(certificate, unit="household: add or remove one unit")


def account_without_a_unit(certificate: dict[str, Any]) -> None:
    change_entry(certificate, unit=UNSET)


def rests_on_itself(certificate: dict[str, Any]) -> None:
    certificate["earlier"] = [certificate["entry"]]


FORGERIES: list[Forgery] = [
    cost_widened, another_unit, another_relation, rests_on_itself, account_of_another_unit,
    account_without_a_unit,
    answer, scale, scale_of_the_measurement, query, policy, signature, entry_missing, epsilon_understated,
    guarantee_understated, words_only, charged_less, remaining_overstated,
]  # fmt: skip


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda each: each.__name__)
def test_every_forgery_breaks_the_signature(folder: Path, forge: Forgery) -> None:
    certificate, _, _ = issue_certificate(folder)
    changed = copy.deepcopy(certificate)
    forge(changed)
    assert changed != certificate
    assert "the signature is of exactly this certificate" in list_false_claims(verify(changed))


@pytest.mark.parametrize("forge", [each for each in FORGERIES if each is not signature], ids=lambda each: each.__name__)
def test_every_forgery_is_found_even_if_the_ledger_itself_signed_it(folder: Path, forge: Forgery) -> None:
    certificate, ledger, key = issue_certificate(folder)
    forge(certificate)
    verification = verify(sign_again(certificate, key), public=key.public, ledger=ledger)
    assert not verification.is_valid
    assert "the signature is of exactly this certificate" not in list_false_claims(verification)


@pytest.mark.parametrize(
    "forge", [scale, scale_of_the_measurement, query, policy, epsilon_understated, guarantee_understated, words_only,
            charged_less, remaining_overstated], ids=lambda each: each.__name__,
)  # fmt: skip
def test_a_certificate_that_contradicts_itself_is_found_without_the_ledger(folder: Path, forge: Forgery) -> None:
    certificate, _, key = issue_certificate(folder)
    forge(certificate)
    assert not verify(sign_again(certificate, key)).is_valid


def test_another_key_is_found(folder: Path) -> None:
    certificate, ledger, key = issue_certificate(folder)
    forged = sign_again(certificate, load_key(folder / "forger"))
    assert verify(forged).is_valid  # nothing in it is wrong but the signer
    assert list_false_claims(verify(forged, public=key.public, ledger=ledger)) == ["it was signed with the given key"]


def test_an_entry_that_is_not_in_the_ledger(folder: Path) -> None:
    certificate, _, _ = issue_certificate(folder)
    other = open_ledger(folder / "other", create=True)
    other.open_account("hr", 2)
    false = list_false_claims(verify(certificate, ledger=other))
    assert false == ["the entry is in the ledger", "the answer is the one that the ledger recorded for it"]


def test_files_that_are_no_certificates(folder: Path) -> None:
    certificate, _, _ = issue_certificate(folder)
    for wrong in (
        None,
        [],
        {},
        certificate | {"format": "other"},
        certificate | {"entry": "{}"},
        certificate | {"facts": None},
    ):
        with pytest.raises(BadParameter, match="not a certificate"):
            verify(wrong)
    assert not verify(certificate | {"facts": {"type": "Unknown"}}).is_valid
    assert not verify(certificate | {"price": {}}).is_valid
    assert not verify(certificate | {"guarantee": {}}).is_valid
    assert codec.encode(EVENT)


ODD: list[Any] = [
    None,
    -1,
    0,
    1e400,
    10**400,
    "",
    "inf",
    "1/0",
    "-1/1",
    "5/1",
    [],
    {},
    [[]],
    True,
    "é",
    "\ud800",
    {"type": "Claim"},
]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_certificate_of_nonsense_is_refused_without_a_crash(data: st.DataObject) -> None:
    certificate = copy.deepcopy(_ONE[0])
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from(["account_entry", "entry", *certificate]))
        if part in ("account_entry", "entry") and data.draw(st.booleans()) and isinstance(certificate[part], str):
            entry = json.loads(certificate[part]) if certificate[part].startswith("{") else {"a": 1}
            entry[data.draw(st.sampled_from(sorted(entry)))] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
            certificate[part] = json.dumps(entry, separators=(",", ":"))
        elif isinstance(certificate[part], dict) and certificate[part]:
            certificate[part][data.draw(st.sampled_from(sorted(certificate[part])))] = copy.deepcopy(
                data.draw(st.sampled_from(ODD))
            )
        else:
            certificate[part] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    try:
        verification = verify(certificate)
    except BadParameter:
        return
    assert not verification.is_valid or certificate == _ONE[0]


with tempfile.TemporaryDirectory() as _folder:
    _ONE = issue_certificate(Path(_folder))


def heads(folder: Path) -> Iterator[dict[str, Any]]:
    key = load_key(folder / "key")
    ledger = make_small_ledger(folder / "l")
    while True:
        yield sign_head(ledger, key)
        debit_and_record(ledger, 100 + check_ledger(ledger).entries)


def test_a_restored_backup_passes_every_check_but_the_signed_head(folder: Path) -> None:
    signed = heads(folder)
    earlier = next(signed)
    open_ledger(folder / "l").close()
    with sqlite3.connect(folder / "l") as source, sqlite3.connect(folder / "backup") as target:
        source.backup(target)
    source.close(), target.close()
    later = next(signed)
    today, restored = open_ledger(folder / "l"), open_ledger(folder / "backup")
    assert check_ledger(restored).is_valid
    assert find_divergence(today, earlier) is find_divergence(today, later) is find_divergence(restored, earlier) is None
    assert "rolled back" in str(find_divergence(restored, later))
    debit_and_record(restored, 999)  # the copy continues on its own
    assert "another history" in str(find_divergence(restored, later))


def sign_head_again(head: dict[str, Any], folder: Path) -> dict[str, Any]:
    unsigned = {name: value for name, value in head.items() if name != "signature"}
    return unsigned | {"signature": load_key(folder / "key").sign(to_canonical_json(unsigned))}


def test_a_changed_head_is_refused(folder: Path) -> None:
    head = next(heads(folder))
    ledger, other = open_ledger(folder / "l"), load_key(folder / "other key")
    assert "changed" in str(find_divergence(ledger, head | {"entries": 1}))
    assert "changed" in str(find_divergence(ledger, head | {"signature": "AAAA"}))
    assert "another key" in str(find_divergence(ledger, sign_head(ledger, other), head["public_key"]))
    assert "changed" in str(find_divergence(ledger, head | {"entries": 10**30}))
    assert "rolled back" in str(find_divergence(ledger, sign_head_again(head | {"entries": 10**30}, folder)))
    assert "another history" in str(find_divergence(ledger, sign_head_again(head | {"entries": -1}, folder)))
    for foreign in ({}, [], None, head | {"entries": "1"}, head | {"format": "x"}, head | {"hash": "\ud800"}):
        with pytest.raises(DiscreetError, match="not a signed head"):
            find_divergence(ledger, foreign)
