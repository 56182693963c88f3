"""What is kept of a quote is kept by everything that decides it, and by the account: a change is seen at once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from discreet.ledger.account import AccountState
from discreet.query.policy import read_policy
from discreet.query.schema import Column, Kind, PublicTable
from discreet.remote.wire import table_to_wire
from discreet.serve.control.model import Rules, Snapshot, TableEntry
from discreet.serve.quoting import Quoter, Target, parse_once
from tests.support.web_service import POLICY, QUERY, open_service

TABLE = read_policy(POLICY)
CITIES = PublicTable("cities", {"city": Column(Kind.TEXT)}, frozenset({"city"}))
PUBLIC = tuple(table_to_wire(replace(TABLE, public={"cities": CITIES}))["public"])
ENTRY = TableEntry(
    name="people", population="employees", policy=POLICY, policy_hash="0" * 64, policy_version=1, identity="serve:people",
    neighbours="add-remove",
)  # fmt: skip
WIDER = POLICY.replace("upper = 100", "upper = 200")
ROOT = AccountState.open("employees", 3, 1e-9)
LINEAGE = [Snapshot.of(AccountState.open("employees/ada", 2, 1e-9, ROOT.budget.currency, ROOT)), Snapshot.of(ROOT)]
TARGET = Target("1/10")


@pytest.mark.parametrize(
    "change",
    [
        {"policy_hash": "1" * 64}, {"policy": WIDER}, {"public": PUBLIC}, {"identity": "serve:others"}, {"label": "2026-11"},
        {"neighbours": "replace"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_table_that_changed_is_calibrated_anew(change: dict[str, Any]) -> None:
    quoter, other = Quoter(), msgspec.structs.replace(ENTRY, **change)
    before = quoter.price(ENTRY, LINEAGE, QUERY, TARGET).calibrated
    after = quoter.price(other, LINEAGE, QUERY, TARGET).calibrated
    assert after is not before
    assert after == Quoter().price(other, LINEAGE, QUERY, TARGET).calibrated
    assert quoter.price(ENTRY, LINEAGE, QUERY, TARGET).calibrated is before


@pytest.mark.parametrize("which", [0, 1], ids=["own", "root"])
@pytest.mark.parametrize(
    "change",
    [
        {"account": "employees/bob"}, {"currency": "gdp"}, {"limit": "1/50"}, {"delta_limit": "1/5000000000"},
        {"delta": "1/3000000000"}, {"own_split": True},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_an_account_that_differs_is_calibrated_anew(change: dict[str, Any], which: int) -> None:
    quoter, lineage = Quoter(), list(LINEAGE)
    lineage[which] = msgspec.structs.replace(lineage[which], **change)
    before = quoter.price(ENTRY, LINEAGE, QUERY, TARGET).calibrated
    assert quoter.price(ENTRY, lineage, QUERY, TARGET).calibrated is not before


def test_another_question_is_calibrated_anew_and_another_balance_is_not() -> None:
    quoter = Quoter()
    before = quoter.price(ENTRY, LINEAGE, QUERY, TARGET)
    assert quoter.price(ENTRY, LINEAGE, f"{QUERY} LIMIT 1", TARGET).calibrated is not before.calibrated
    assert quoter.price(ENTRY, LINEAGE, QUERY, Target("1/10", confidence=0.9)).calibrated is not before.calibrated
    spent = [msgspec.structs.replace(each, spent="1/1000", entry=9) for each in LINEAGE]
    after = quoter.price(msgspec.structs.replace(ENTRY, notes=("Read this.",)), spent, QUERY, TARGET)
    assert after.calibrated is before.calibrated
    assert after.cost.remaining < before.cost.remaining
    assert set(after.quote.notes) == {"Read this.", *before.quote.notes}


def test_a_text_is_parsed_once_for_one_account_and_one_table() -> None:
    first = parse_once(QUERY, ENTRY, TABLE, "employees/ada")
    salted = replace(TABLE, salt="a salt that only the worker knows")
    assert parse_once(QUERY, ENTRY, salted, "employees/ada") is first
    others = [
        (f"{QUERY} LIMIT 1", ENTRY, "employees/ada"),
        (QUERY, ENTRY, "employees/bob"),
        (QUERY, msgspec.structs.replace(ENTRY, policy=WIDER), "employees/ada"),
        (QUERY, msgspec.structs.replace(ENTRY, public=PUBLIC), "employees/ada"),
    ]
    for query, entry, account in others:
        assert parse_once(query, entry, Quoter().read_table(entry), account) is not first


def test_a_changed_policy_rule_or_grant_is_seen_by_the_next_quote(tmp_path: Path) -> None:
    ask = {"table": "people", "query": QUERY, "epsilon": 0.1}
    with open_service(tmp_path) as service:
        client = service.client("ada")

        def quote() -> dict[str, Any]:
            shown: dict[str, Any] = client.post("/api/v1/quotes", json=ask).json()
            return shown

        before = quote()
        assert before["needs_approval"] is None
        assert quote()["measurement"] == before["measurement"]
        service.control.change_rules("people", Rules(epsilon_per_ask="1/100"), by="sam")
        assert quote()["needs_approval"] == "it asks ε = 0.1, and the rules allow ε = 0.01 at once"
        service.register(policy=WIDER, policy_hash="1" * 64)
        widened = quote()
        assert widened["measurement"] != before["measurement"]
        assert widened["needs_approval"] is None
        service.control.pause_account("employees/ada", "3 queries failed", by="sam")
        assert "paused" in quote()["refused"]
        service.control.remove_grant("ada", "people", by="sam")
        assert client.post("/api/v1/quotes", json=ask).status_code == 404
