"""What is written stays readable: golden/schema4 was written before the classes got their present names.

Every later version must open it, verify all of it, and find each of its answers again, for free: then no tag of an event, no
code of a statistic or relation and no text of a measurement has changed. tests/support/golden_ledger.py holds its history.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from discreet import publish
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import Entry
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
