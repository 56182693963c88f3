"""What is written stays readable: golden/schema4 was written before the classes got their present names.

Every later version must open it, verify all of it, and find each of its answers again, for free: then no tag of an event, no
code of a statistic or relation and no text of a measurement has changed. tests/support/golden_ledger.py holds its history.
"""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from discreet import publish
from discreet.errors import BadEventEncoding
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AccountOpened, Entry, decode, encode
from discreet.ledger.keys import load_key
from discreet.ledger.verify import find_divergence, verify
from tests.support.certificates import list_false_claims
from tests.support.golden_ledger import HISTORY, open_plan, open_session

GOLDEN = Path(__file__).parent / "golden" / "schema4"
CERTIFICATES = [*HISTORY, "published"]


def read(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.fixture
def golden(folder: Path) -> str:
    for name in ("hr.ledger", "hr.ledger.key"):
        shutil.copyfile(GOLDEN / name, folder / name)
        os.chmod(folder / name, 0o600)
    return str(folder / "hr.ledger")


def test_the_ledger_is_valid_and_continues_its_head(golden: str) -> None:
    ledger = open_ledger(golden)
    report = check_ledger(ledger)
    assert report.is_valid, report.problem
    assert report.entries == 34
    assert find_divergence(ledger, read("head"), load_key(f"{golden}.key").public) is None


@pytest.mark.parametrize("name", CERTIFICATES)
def test_every_certificate_verifies(golden: str, name: str) -> None:
    verification = verify(read(name), public=load_key(f"{golden}.key").public, ledger=open_ledger(golden))
    assert verification.is_valid, list_false_claims(verification)


@pytest.mark.parametrize("name", HISTORY)
def test_every_answer_is_found_again_for_free(golden: str, name: str) -> None:
    query = HISTORY[name]
    session = open_session(query, golden)
    spent = session.account.budget.spent
    answer = session.ask(query.sql, **query.options)
    assert answer.reference is not None
    assert answer.reference.measurement == read(name)["measurement"]
    assert answer.reference.record == read(name)["release"]
    assert session.account.budget.spent == spent


def test_the_family_of_an_older_ledger_shares_its_answers(golden: str) -> None:
    query, key = HISTORY["statistics"], load_key(f"{golden}.key")
    child = open_session(replace(query, account="child"), golden)
    spent = child.account.budget.spent
    answer = child.ask(query.sql, **query.options)
    assert answer.reference is not None
    assert answer.reference.record == read("statistics")["release"]
    assert (answer.charged, child.account.budget.spent) == (False, spent)
    certificate = child.certify(answer, key)
    assert certificate["entry"] == read("statistics")["entry"]
    assert verify(certificate, public=key.public, ledger=open_ledger(golden)).is_valid


def test_an_older_ledger_has_no_identity_and_gets_none(golden: str) -> None:
    ledger = open_ledger(golden)
    ledger.open_account("new", 1, parent="pure")
    assert ledger.identity is None
    assert check_ledger(ledger).is_valid
    assert [account.own_split for account in ledger.list_accounts()] == [False] * 4 + [True, False, False]


OPENING = (
    b'{"kind":"open","number":1,"previous":"00","identity":"c0ffee","account":"ada","currency":"pure","limit":"1/2",'
    b'"leak_limit":"0/1","delta":"0/1","parent":"all","split":"root"}'
)


def test_the_fields_that_later_entries_have_are_written_so() -> None:
    entry = decode(OPENING)
    assert isinstance(entry, AccountOpened)
    assert (entry.identity, entry.split, encode(entry)) == ("c0ffee", "root", OPENING)
    older = OPENING.replace(b'"identity":"c0ffee",', b"").replace(b',"split":"root"', b"")
    assert encode(decode(older)) == older
    for wrong in (OPENING.replace(b'"root"', b'"parent"'), OPENING.replace(b'"c0ffee"', b"null")):
        with pytest.raises(BadEventEncoding):
            decode(wrong)


def test_the_publication_is_found_again_for_free(golden: str, folder: Path) -> None:
    again = publish(open_plan(folder, golden), folder / "published")
    assert again.free
    assert json.loads((again.folder / "release.json").read_text())["release"] == read("published")["release"]


def test_the_history_holds_every_kind_of_entry_statistic_and_relation(golden: str) -> None:
    with open_ledger(golden).store.read_transaction() as transaction:
        kinds = {json.loads(stored.body)["kind"] for stored in transaction.iter_entries()}
    assert kinds == {kind.__struct_config__.tag for kind in Entry.__args__}
    measured = [read(name)["measurement"] for name in HISTORY] + read("published")["measurement"]["plan"]
    assert {noise["total"] for each in measured for noise in each["noise"]} >= {
        "rows", "units", "values", "sum", "centred sum", "centred squares", "2 cells", "64 cells and their sums",
    }  # fmt: skip
    assert {noise["mechanism"] for each in measured for noise in each["noise"]} == {"Laplace", "Gaussian"}
    assert len({each["neighbours"] for each in measured}) == 2
    assert any(each["selection"] for each in measured)
