"""Certificates: what is true verifies, and each lie is caught, also when it is signed."""

import copy
import json
import stat
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from discreet import codec
from discreet.accounting.currencies import Currency, Gdp, Pure, Zcdp
from discreet.errors import BadParameter, LedgerUnavailable
from discreet.events import DiscreteLaplaceEvent, compose
from discreet.ledger import open_ledger
from discreet.ledger.certificate import make_certificate
from discreet.ledger.chain import Ledger
from discreet.ledger.entries import decode, encode, encode_answer, hash_measurement, privacy_unit_of, to_canonical_json
from discreet.ledger.keys import SigningKey, default_key_path, load_key
from discreet.ledger.verify import Verification, verify
from discreet.query.answer import Receipt
from discreet.units import to_sensitivity

MEASUREMENT = {
    "source": "people.csv", "table": "people", "question": "SELECT COUNT(*) AS n FROM people", "policy": "5eed",
    "mechanisms": [{"column": "n", "noise": "Laplace", "scale": "4"}], "grid": "1", "unit": "person",
    "neighbours": "add or remove one unit",
}  # fmt: skip
RELEASE = {"rows": [{"n": {"value": 41, "lower": 29.0, "upper": 53.0}}], "explanation": "…"}
LOSS = compose(DiscreteLaplaceEvent(Fraction(4), to_sensitivity(1)))
Lie = Callable[[dict[str, Any]], None]


def issued(folder: Path, currency: Currency | None = None) -> tuple[dict[str, Any], Ledger, SigningKey]:
    """A ledger with one answer and its certificate, as it comes back from a file."""
    delta = 0 if currency is None or currency == Pure() else 1e-6
    ledger = open_ledger(folder / "l", create=True)
    account, key = ledger.open_account("hr", 2, delta, currency), load_key(default_key_path(folder / "l"))
    paid = account.reserve(
        LOSS, measurement=hash_measurement(MEASUREMENT), id="q", privacy_unit=privacy_unit_of(MEASUREMENT)
    )
    assert isinstance(paid, Receipt)
    account.record(paid, encode_answer(RELEASE))
    found = make_certificate(
        account, paid.entry, measurement=MEASUREMENT, answer=RELEASE, software="discreet test", key=key,
    )  # fmt: skip
    return json.loads(json.dumps(found, indent=2, sort_keys=True)), ledger, key


def signed(found: dict[str, Any], key: SigningKey) -> dict[str, Any]:
    unsigned = {name: value for name, value in found.items() if name != "signature"} | {"public_key": key.public}
    return unsigned | {"signature": key.sign(to_canonical_json(unsigned))}


def failed(verdict: Verification) -> list[str]:
    return [finding.claim for finding in verdict.claims if not finding.is_valid]


@pytest.mark.parametrize("currency", [None, Pure(), Zcdp(), Gdp()])
def test_the_truth_verifies(folder: Path, currency: Currency | None) -> None:
    found, ledger, key = issued(folder, currency)
    alone = verify(found)
    assert alone.is_valid
    assert any("--key" in said for said in alone.assumptions)
    assert any("--ledger" in said for said in alone.assumptions)
    whole = verify(found, public=key.public, ledger=ledger)
    assert whole.is_valid
    assert len(whole.claims) > len(alone.claims)
    assert not any("--" in said for said in whole.assumptions)
    for word in ("one person", "added or removed", "account hr", "entry 2", "e^"):
        assert word in found["guarantee"]["words"]


def change_entry(found: dict[str, Any], **fields: Any) -> None:
    entry = decode(found["entry"].encode())
    values = {name: getattr(entry, name) for name in entry.__struct_fields__} | fields
    found["entry"] = encode(type(entry)(**values)).decode()


def answer(found: dict[str, Any]) -> None:
    found["release"]["rows"][0]["n"]["value"] = 40


def scale(found: dict[str, Any]) -> None:
    found["facts"]["parts"][0][0]["scale"] = "8/1"


def scale_in_words(found: dict[str, Any]) -> None:
    found["measurement"]["mechanisms"][0]["scale"] = "8"


def question(found: dict[str, Any]) -> None:
    found["measurement"]["question"] = "SELECT COUNT(*) AS n FROM people WHERE pay > 10"


def policy(found: dict[str, Any]) -> None:
    found["measurement"]["policy"] = "5eee"


def signature(found: dict[str, Any]) -> None:
    found["signature"] = found["signature"].translate(str.maketrans("ABCDabcd", "BCDAbcda"))


def entry_missing(found: dict[str, Any]) -> None:
    change_entry(found, number=99)
    found["guarantee"]["so_far"]["entry"] = 99
    found["guarantee"]["words"] = found["guarantee"]["words"].replace("entry 2", "entry 99")


def epsilon_understated(found: dict[str, Any]) -> None:
    found["price"]["epsilon"] = {"lower": 0.1, "upper": 0.1}


def guarantee_understated(found: dict[str, Any]) -> None:
    said = str(found["guarantee"]["epsilon"])
    found["guarantee"]["epsilon"] = 0.1
    found["guarantee"]["words"] = found["guarantee"]["words"].replace(f"e^{said}", "e^0.1", 1)


def words_only(found: dict[str, Any]) -> None:
    found["guarantee"]["words"] = "Perfectly private."


def charged_too_little(found: dict[str, Any]) -> None:
    change_entry(found, cost=Fraction(1, 10), spent=Fraction(1, 10))
    found["price"] |= {"amount": 0.1, "left": 1.9}
    found["guarantee"]["so_far"]["epsilon"] = 0.1


def left_overstated(found: dict[str, Any]) -> None:
    found["price"]["left"] = 1.99


def price_widened(found: dict[str, Any]) -> None:
    found["price"]["epsilon"] = {"lower": 0.0001, "upper": 1e9}


def _words(found: dict[str, Any], old: str, new: str) -> None:
    assert old in found["guarantee"]["words"]
    found["guarantee"]["words"] = found["guarantee"]["words"].replace(old, new)


def somebody_else(found: dict[str, Any]) -> None:
    found["guarantee"]["whose"] = "one company"
    _words(found, "one person", "one company")


def changed_otherwise(found: dict[str, Any]) -> None:
    found["guarantee"]["change"] = "replaced by another"
    _words(found, "added or removed", "replaced by another")


def account_of_somebody_else(found: dict[str, Any]) -> None:
    change_entry(found, unit="household: add or remove one unit")


def account_of_nobody_in_particular(found: dict[str, Any]) -> None:
    change_entry(found, unit=UNSET)


def rests_on_nothing_known(found: dict[str, Any]) -> None:
    found["earlier"] = [found["entry"]]


LIES: list[Lie] = [
    price_widened, somebody_else, changed_otherwise, rests_on_nothing_known, account_of_somebody_else,
    account_of_nobody_in_particular,
    answer, scale, scale_in_words, question, policy, signature, entry_missing, epsilon_understated, guarantee_understated,
    words_only, charged_too_little, left_overstated,
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_every_lie_breaks_the_signature(folder: Path, lie: Lie) -> None:
    found, _, _ = issued(folder)
    changed = copy.deepcopy(found)
    lie(changed)
    assert changed != found
    assert "the signature is of exactly this certificate" in failed(verify(changed))


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie is not signature], ids=lambda lie: lie.__name__)
def test_every_lie_is_found_even_if_the_ledger_itself_signed_it(folder: Path, lie: Lie) -> None:
    found, ledger, key = issued(folder)
    lie(found)
    verdict = verify(signed(found, key), public=key.public, ledger=ledger)
    assert not verdict.is_valid
    assert "the signature is of exactly this certificate" not in failed(verdict)


@pytest.mark.parametrize(
    "lie", [scale, scale_in_words, question, policy, epsilon_understated, guarantee_understated, words_only,
            charged_too_little, left_overstated], ids=lambda lie: lie.__name__,
)  # fmt: skip
def test_what_contradicts_itself_is_found_without_the_ledger(folder: Path, lie: Lie) -> None:
    found, _, key = issued(folder)
    lie(found)
    assert not verify(signed(found, key)).is_valid


def test_another_key_is_found_out(folder: Path) -> None:
    found, ledger, key = issued(folder)
    forged = signed(found, load_key(folder / "forger"))
    assert verify(forged).is_valid  # nothing in it is wrong but the signer
    assert failed(verify(forged, public=key.public, ledger=ledger)) == ["it was signed with the given key"]


def test_an_entry_that_is_not_in_the_ledger(folder: Path) -> None:
    found, _, _ = issued(folder)
    other = open_ledger(folder / "other", create=True)
    other.open_account("hr", 2)
    said = failed(verify(found, ledger=other))
    assert said == ["the entry is in the ledger", "the answer is the one that the ledger recorded for it"]


def test_a_certificate_is_only_made_of_what_is_recorded(folder: Path) -> None:
    _, ledger, key = issued(folder)
    account = ledger.get_account("hr")
    given: dict[str, Any] = {
        "measurement": MEASUREMENT, "answer": RELEASE, "software": "x", "key": key,
    }  # fmt: skip
    for wrong in (
        {"tainted": True},
        {"measurement": MEASUREMENT | {"question": "another"}},
        {"answer": RELEASE | {"explanation": "another"}},
        {"depends_on": [2]},
    ):
        with pytest.raises(BadParameter):
            make_certificate(account, 2, **(given | wrong))
    with pytest.raises(BadParameter, match="no debit"):
        make_certificate(account, 1, **given)


@pytest.mark.parametrize("whose", ["", "one house, added or removed"])
def test_an_answer_about_others_than_its_account_is_not_certified(
    folder: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, key = open_ledger(folder / "l", create=True).open_account("hr", 2), load_key(default_key_path(folder / "l"))
    paid = account.reserve(LOSS, measurement=hash_measurement(MEASUREMENT), privacy_unit=whose)
    assert isinstance(paid, Receipt)
    account.record(paid, encode_answer(RELEASE))

    def made() -> dict[str, Any]:
        return make_certificate(
            account, paid.entry, measurement=MEASUREMENT, answer=RELEASE, software="discreet test", key=key
        )

    with pytest.raises(BadParameter, match="something else"):
        made()
    monkeypatch.setattr("discreet.ledger.certificate.privacy_unit_of", lambda measurement: whose)  # one who does not look
    assert failed(verify(json.loads(json.dumps(made())))) == ["the query, policy and noise are those that were charged"]


def test_files_that_are_no_certificates(folder: Path) -> None:
    found, _, _ = issued(folder)
    for wrong in (None, [], {}, found | {"format": "other"}, found | {"entry": "{}"}, found | {"facts": None}):
        with pytest.raises(BadParameter, match="not a certificate"):
            verify(wrong)
    assert not verify(found | {"facts": {"type": "Unknown"}}).is_valid
    assert not verify(found | {"price": {}}).is_valid
    assert not verify(found | {"guarantee": {}}).is_valid
    assert codec.encode(LOSS)


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
def test_a_certificate_of_nonsense_is_refused_and_breaks_nothing(data: st.DataObject) -> None:
    found = copy.deepcopy(_ONE[0])
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from(["account_entry", "entry", *found]))
        if part in ("account_entry", "entry") and data.draw(st.booleans()) and isinstance(found[part], str):
            entry = json.loads(found[part]) if found[part].startswith("{") else {"a": 1}
            entry[data.draw(st.sampled_from(sorted(entry)))] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
            found[part] = json.dumps(entry, separators=(",", ":"))
        elif isinstance(found[part], dict) and found[part]:
            found[part][data.draw(st.sampled_from(sorted(found[part])))] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
        else:
            found[part] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    try:
        verdict = verify(found)
    except BadParameter:
        return
    assert not verdict.is_valid or found == _ONE[0]


with tempfile.TemporaryDirectory() as _folder:
    _ONE = issued(Path(_folder))


def test_the_key_is_its_owners_alone_and_made_once(folder: Path) -> None:
    place = folder / "key"
    first = load_key(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert load_key(place).public == first.public
    assert list(folder.iterdir()) == [place]
    place.write_text("half a k")
    with pytest.raises(LedgerUnavailable, match="no key"):
        load_key(place)
    with pytest.raises(LedgerUnavailable, match="cannot be written"):
        load_key(folder / "nowhere" / "key")
