"""What pages and the API show of other people's answers and budgets: shared answers, two stewards, histories, forecasts."""

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from discreet.ledger.account import AccountState
from discreet.serve.control.model import (
    AskState,
    Grant,
    Publication,
    PublicationState,
    RequestState,
    Role,
    Rules,
    Snapshot,
)
from discreet.serve.web.pages import history
from discreet.serve.web.pages.history import Step, make_history, state_so_far
from discreet.serve.web.pages.records import view_forecast
from tests.serve.web.test_templates import sign_in
from tests.support.web_service import OPEN, QUERY, Client, Service, answer_query, open_service

ASK = {"table": "people", "query": QUERY, "epsilon": 0.1}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with open_service(tmp_path, replace(OPEN, pages=True)) as opened:
        opened.add_person("cleo", Role.ANALYST)
        opened.add_person("tess", Role.STEWARD)
        account = AccountState.open("employees/cleo", 3, 1e-9, opened.accounts[0].budget.currency, opened.accounts[0])
        opened.control.save_snapshots([Snapshot.of(account)])
        opened.control.add_grant(Grant(person="cleo", table="people", account="employees/cleo", created=0, by="sam"))
        yield opened


def find_form_token(client: Client) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', client.get("/me").text)
    assert found is not None
    return found[1]


# Shared answers


def test_an_analyst_opens_the_address_of_anothers_answer_for_nothing(service: Service) -> None:
    ask = service.ask("ada")["id"]
    cleo = sign_in(service, "cleo")
    page = cleo.get(f"/a/{ask}")
    assert page.status_code == 200
    assert f"/a/{ask}</p>" in page.text
    for path in ("download?format=csv", "chart.svg"):
        assert cleo.get(f"/a/{ask}/{path}").status_code == 200
    shown = service.client("cleo").get(f"/api/v1/asks/{ask}").json()
    assert (shown["person"], shown["key"], shown["account"]) == ("", "", "employees/cleo")
    assert service.client("cleo").get(f"/api/v1/asks/{ask}/answer?format=csv").status_code == 200
    assert service.control.list_asks(person="cleo").items == ()


def test_a_reader_finds_a_released_answer_and_a_steward_its_table(service: Service) -> None:
    ask = service.ask("ada")["id"]
    reader, steward = sign_in(service, "rea"), sign_in(service, "sam")
    assert reader.get(f"/a/{ask}").status_code == 404
    home = reader.get("/").text
    assert "No steward has released an answer yet" in home
    assert "No table is granted" not in home
    assert "Name of the released table" not in steward.get(f"/a/{ask}").text  # there is no place for one
    service.control.set_setting("released", "released.duckdb")
    assert "A worker copies it into <bdi>released.duckdb</bdi>" in steward.get(f"/a/{ask}").text
    service.control.release_ask(ask, "sam", title="heads")
    assert "A worker is copying it into released.duckdb" in steward.get(f"/a/{ask}").text
    job = service.control.claim("test", kinds=["release"])
    assert job is not None
    service.control.finish(job, {"table": "heads_1"})
    assert "It is the table heads_1 in released.duckdb." in steward.get(f"/a/{ask}").text
    assert f'href="/a/{ask}"' in reader.get("/").text
    page = reader.get(f"/a/{ask}")
    assert page.status_code == 200
    assert "ada" not in page.text.lower().replace("data", "")
    service.control.set_setting("released", "")
    assert "No place for tables is set" in steward.get(f"/a/{ask}").text


def test_anothers_page_tells_nothing_of_the_person_who_asked(service: Service) -> None:
    """The mutant shows the account of who asked: what Ada has left."""
    ask = service.ask("ada")["id"]
    found = service.control.find_ask(ask)
    assert found is not None
    half = with_spent(service, "employees/ada", spent=Fraction(1, 2))
    service.control.save_snapshots([half])
    text = re.sub(r"<[^>]*>", "", sign_in(service, "cleo").get(f"/a/{ask}").text)
    assert "ada" not in text.lower()
    assert found.key not in text
    assert "50% spent" not in text
    assert "You have ε = 3 of 3" in text


def test_a_shared_answer_states_the_cost_in_the_account_of_who_sees_it(service: Service) -> None:
    """The mutant shows the cost as it was stored: Ada's limit and what she had left."""
    account = AccountState.open("employees/cleo", 1, 1e-9, service.accounts[0].budget.currency, service.accounts[0])
    service.control.save_snapshots([msgspec.structs.replace(Snapshot.of(account), entry=1)])
    ask = service.ask("ada")
    shown = service.client("cleo").get(f"/api/v1/asks/{ask['id']}").json()
    downloaded = service.client("cleo").get(f"/api/v1/asks/{ask['id']}/answer?format=json").json()
    own = service.client("cleo").get("/api/v1/accounts/employees/cleo").json()["lineage"][0]["budget"]
    assert ask["cost"]["limit"] != own["limit"]
    for cost in (shown["cost"], shown["answer"]["cost"], downloaded["cost"]):
        assert (cost["limit"], cost["remaining"], cost["amount"]) == (own["limit"], own["remaining"], ask["cost"]["amount"])
    assert shown["answer"]["charged"] is downloaded["charged"] is False
    assert shown["answer"]["record"] == ask["answer"]["record"]


def test_a_certificate_is_for_who_paid_and_for_stewards(service: Service) -> None:
    """The mutant sends it to whoever sees the answer: the debit in it names Ada, her key and what she has spent."""
    ask, free = service.ask("ada")["id"], service.ask("cleo")["id"]
    assert service.client("cleo").get(f"/api/v1/asks/{ask}/certificate").status_code == 403
    assert not [each for each in service.control.list_jobs() if each.kind == "certificate"]  # no worker signs it
    certificate = {"entry": '{"account":"employees/ada","id":"ada:monday"}', "earlier": []}
    for id in (ask, free):
        service.control.enqueue("certificate", id)
        job = service.control.claim("test", kinds=["certificate"])
        assert job is not None
        service.control.finish(job, {"certificate": certificate})
    cleo = sign_in(service, "cleo")
    for id in (ask, free):
        refused = service.client("cleo").get(f"/api/v1/asks/{id}/certificate")
        assert refused.status_code == 403
        assert "ada" not in refused.text
        assert cleo.get(f"/a/{id}/certificate.json").status_code == 403
        assert cleo.post(f"/a/{id}/check", data={"form_token": find_form_token(cleo)}).status_code == 403
        assert service.client("sam").get(f"/api/v1/asks/{id}/certificate").json() == certificate
    assert service.client("ada").get(f"/api/v1/asks/{ask}/certificate").json() == certificate
    assert sign_in(service, "ada").get(f"/a/{ask}/certificate.json").json() == certificate


def test_nothing_tells_an_analyst_the_exact_balance_of_the_root(service: Service) -> None:
    """The mutant prices against the exact root: a refusal, and which ε is refused, then tell what others have spent."""
    browser, said = sign_in(service, "cleo"), list[list[str]]()
    for share in (Fraction(501, 1000), Fraction(509, 1000)):
        service.control.save_snapshots([with_spent(service, "employees", share)])
        answers = [
            service.client("cleo").post("/api/v1/asks", json=ASK | {"epsilon": epsilon}) for epsilon in ("2.9", "2.07")
        ]
        assert [each.status_code for each in answers] == [409, 409]
        quoted = service.client("cleo").post("/api/v1/quotes", json=ASK | {"epsilon": "2.07"})
        page = browser.get("/t/people/ask", params={"query": QUERY, "epsilon": "2.07"})
        said.append([*(each.text for each in answers), quoted.text, re.sub(r'value="[^"]+"', "", page.text)])
    assert said[0] == said[1]
    remaining = Fraction(msgspec.json.decode(said[0][0])["fields"]["remaining"])
    assert remaining == Fraction(49, 100) * Fraction(Snapshot.of(service.accounts[0]).limit)
    assert service.client("ada").post("/api/v1/asks", json=ASK | {"epsilon": "2.05"}).status_code == 202


def with_spent(service: Service, account: str, spent: Fraction) -> Snapshot:
    before = service.control.find_snapshot(account)
    assert before is not None
    return msgspec.structs.replace(before, spent=str(Fraction(before.limit) * spent), entry=before.entry + 1)


@pytest.mark.parametrize(
    "change",
    ["no grant", "paused", "rules", "reader", "not answered", "another policy", "another root"],
)
def test_without_the_right_to_ask_it_there_is_no_such_answer(service: Service, change: str) -> None:
    ask = service.ask("ada")["id"]
    person = "cleo"
    match change:
        case "no grant":
            person = "bob"
        case "paused":
            service.control.pause_account("employees/cleo", "three failures")
        case "rules":
            service.register(rules=Rules(epsilon_per_ask="1/20"))
        case "reader":
            service.control.change_person("cleo", role=Role.READER, by="sam")
        case "not answered":
            ask = service.client("ada").post("/api/v1/asks", json=ASK | {"fresh": True}).json()["id"]
        case "another policy":
            service.register(policy_hash="1" * 64)
            assert service.ask("ada")["id"] != ask  # Cleo may see the new one
        case "another root":
            other = AccountState.open("others", 3, 1e-9)
            service.control.save_snapshots([Snapshot.of(other)])
            service.control.add_grant(Grant(person="cleo", table="people", account="others", created=0, by="sam"))
    browser, client = sign_in(service, person), service.client(person)
    for path in ("", "/state", "/download", "/chart.svg", "/certificate.json"):
        assert browser.get(f"/a/{ask}{path}").status_code == 404, path
    for path in ("", "/answer", "/certificate", "/events"):
        assert client.get(f"/api/v1/asks/{ask}{path}").status_code == 404, path
    assert browser.get(f"/a/{ask}").text == browser.get("/a/0").text
    assert service.client("ada").get(f"/api/v1/asks/{ask}").status_code == 200


def test_only_who_asked_withdraws_and_only_a_steward_releases(service: Service) -> None:
    ask = service.ask("ada")["id"]
    cleo, sam = sign_in(service, "cleo"), sign_in(service, "sam")
    form = {"form_token": find_form_token(cleo), "title": "Mine"}
    assert cleo.post(f"/a/{ask}/withdraw", data=form).status_code == 404
    assert cleo.post(f"/a/{ask}/release", data=form).status_code == 403
    assert "/release" not in cleo.get(f"/a/{ask}").text
    form = {"form_token": find_form_token(sam), "title": "By department"}
    assert sam.post(f"/a/{ask}/release", data=form).status_code == 303
    assert "Released by" in sam.get(f"/a/{ask}").text
    [job] = [each for each in service.control.list_jobs() if each.kind == "release"]
    assert (job.subject, job.payload) == (ask, {"title": "By department"})


# Two stewards


def request_approval(service: Service, person: str = "ada", **given: Any) -> dict[str, Any]:
    shown: dict[str, Any] = service.client(person).post("/api/v1/asks", json=ASK | given).json()
    assert shown["state"] == "for approval", shown
    return shown


def test_what_is_large_waits_for_a_second_steward(service: Service) -> None:
    service.register(rules=Rules(epsilon_per_ask="1/20", two_stewards_above="1/20"))
    ask = request_approval(service)
    body = {"measurement": ask["measurement"], "comment": "fine"}
    sam, tess = service.client("sam"), service.client("tess")
    path = f"/api/v1/requests/{ask['id']}"
    first = sam.post(f"{path}/approve", json=body)
    assert (first.status_code, first.json()["state"], first.json()["approvals"]) == (200, "open", ["sam"])
    assert sam.post(f"{path}/approve", json=body).status_code == 409
    assert service.control.count_waiting("ada") == 0
    page = sign_in(service, "tess").get(f"/r/{ask['id']}").text
    assert "two stewards" in page
    assert "Approved by <bdi>sam</bdi>" in page
    second = tess.post(f"{path}/approve", json=body).json()
    assert (second["state"], second["decided_by"], second["approvals"]) == ("approved", "tess", ["sam", "tess"])
    assert service.control.count_waiting("ada") == 1
    lines = [(each.actor, each.action) for each in service.control.trail.list(limit=200).items if each.subject == ask["id"]]
    assert ("sam", "request approved by the first steward") in lines
    assert ("tess", "request approved") in lines


def test_what_is_small_needs_one_steward_as_before(service: Service) -> None:
    service.register(rules=Rules(epsilon_per_ask="1/20", two_stewards_above="1/10"))
    ask = request_approval(service)
    body = {"measurement": ask["measurement"]}
    approved = service.client("sam").post(f"/api/v1/requests/{ask['id']}/approve", json=body).json()
    assert approved["state"] == "approved"


def test_a_steward_who_asks_is_none_of_the_two(service: Service) -> None:
    service.register(rules=Rules(epsilon_per_ask="1/20", two_stewards_above="1/20"))
    service.control.add_grant(Grant(person="sam", table="people", account="employees/ada", created=0, by="tess"))
    ask = request_approval(service, "sam")
    body = {"measurement": ask["measurement"]}
    assert service.client("sam").post(f"/api/v1/requests/{ask['id']}/approve", json=body).status_code == 409
    assert service.client("tess").post(f"/api/v1/requests/{ask['id']}/approve", json=body).json()["state"] == "open"
    request = service.control.find_request(ask["id"])
    assert request is not None
    assert request.state is RequestState.OPEN
    found = service.control.approve_request(ask["id"], ask["measurement"], "sam", needed=2)
    assert (found.state, found.approvals) == (RequestState.OPEN, ("tess",))


def test_one_steward_cannot_lift_the_rule(service: Service) -> None:
    """The mutant lets a steward set it: Sam lifts it, approves alone, and puts it back."""
    service.register(rules=Rules(two_stewards_above="1/20"))
    sam = service.client("sam")
    assert sam.send("PUT", "/api/v1/tables/people/rules", json={"two_stewards_above": 3}).status_code == 422
    assert sam.send("PUT", "/api/v1/tables/people/rules", json={"epsilon_per_ask": "0.01"}).status_code == 200
    browser = sign_in(service, "sam")
    form = {"form_token": find_form_token(browser), "epsilon_per_ask": "0.02", "two_stewards_above": "", "do": "confirm"}
    assert browser.post("/t/people/rules", data=form).status_code == 303
    entry = service.control.find_table("people")
    assert entry is not None
    assert entry.rules == Rules(epsilon_per_ask="1/50", two_stewards_above="1/20")
    assert "approve what costs more than ε = 0.05" in browser.get("/t/people/rules").text


@pytest.mark.parametrize("quote", [{"cost": {}}, {"cost": {"epsilon": {"lower": 0.4, "upper": 0.4}}}])
def test_a_large_publication_waits_for_a_second_steward(service: Service, quote: dict[str, Any]) -> None:
    service.register(rules=Rules(two_stewards_above="1/5"))
    service.control.add_publication(
        Publication(
            id="p1",
            title="All",
            table="people",
            plan="",
            by="ada",
            state=PublicationState.APPROVAL,
            created=0.0,
        )
    )
    sam, tess = service.client("sam"), service.client("tess")
    for steward in (sam, tess):  # nobody approves what no worker has quoted
        assert steward.post("/api/v1/publications/p1/approve").status_code == 409
    service.control.quote_publication("p1", quote)
    assert sam.post("/api/v1/publications/p1/approve").json()["state"] == "for approval"
    assert sam.post("/api/v1/publications/p1/approve").status_code == 409
    assert not [each for each in service.control.list_jobs() if each.kind == "publication"]
    assert "Approved by <bdi>sam</bdi>" in sign_in(service, "tess").get("/p/p1").text
    assert tess.post("/api/v1/publications/p1/approve").json()["state"] == "running"
    assert [each.payload for each in service.control.list_jobs() if each.kind == "publication"] == [{"step": "publish"}]


# Budgets


def test_a_history_ends_at_what_the_ledger_says(service: Service) -> None:
    snapshot = with_spent(service, "employees", Fraction(1, 4))
    limit = Fraction(snapshot.limit)
    steps = [Step(float(i), limit / 10, "employees/ada", "q", "/a/1") for i in (1, 2)]
    drawn = make_history(snapshot, [*steps, Step(3.0, limit, "others/bob", "q", "/a/2")])
    assert drawn is not None
    assert [line.total for line in drawn.lines] == ["25%", "15%"]
    assert drawn.most == "50%"
    assert drawn.path.startswith("M0 108.0")  # 5% of 50% at the left: what no step explains
    assert drawn.path.endswith("V60.0H600")
    assert make_history(snapshot, []) is None


def test_the_guarantee_so_far_is_that_of_the_sum(service: Service) -> None:
    whole = with_spent(service, "employees", Fraction(1))
    assert state_so_far(whole) == "2.95"  # half of δ is reserved for partition selection, and none of that is spent
    assert state_so_far(msgspec.structs.replace(whole, delta_spent=whole.delta_limit)) == "3"
    assert state_so_far(with_spent(service, "employees", Fraction(1, 4))) == "1.42"
    assert state_so_far(with_spent(service, "employees", Fraction(0))) == "0"


def test_an_analyst_sees_no_history_of_others(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant draws the steps of everybody: Cleo then sees when Ada asked, and what. Another reads the steps of everybody
    and leaves out the oldest: what others ask then shortens the history of Cleo."""
    service.ask("cleo", query="SELECT COUNT(*) AS mine FROM people")
    service.ask("ada")
    for name in ("employees", "employees/ada", "employees/cleo"):
        service.control.save_snapshots([with_spent(service, name, Fraction(1, 3))])
    cleo, sam = sign_in(service, "cleo").get("/b").text, sign_in(service, "sam").get("/b").text
    assert "COUNT(*) AS mine" in cleo
    assert "COUNT(*) AS n" not in cleo
    assert "History of <bdi>employees/cleo</bdi>" in cleo
    assert "History of <bdi>employees</bdi>" not in cleo
    assert "34% spent" in cleo
    assert cleo.count("guarantees") == sam.count("guarantees") - 2  # Cleo's own alone
    assert "COUNT(*) AS mine" in sam
    assert "COUNT(*) AS n" in sam
    assert "History of <bdi>employees</bdi>" in sam
    assert "History of <bdi>employees/ada</bdi>" not in sam  # its steps are in that of the root
    monkeypatch.setattr(history, "MAX_STEPS", 1)
    assert "COUNT(*) AS mine" in sign_in(service, "cleo").get("/b").text
    assert "COUNT(*) AS mine" not in sign_in(service, "sam").get("/b").text


def test_a_report_needs_every_event_and_the_right_to_see_it(service: Service) -> None:
    service.ask("ada")
    service.ask("ada", epsilon=0.3)
    ada, cleo = sign_in(service, "ada"), sign_in(service, "cleo")

    def read(client: Client, account: str) -> str:
        found = re.search(r'id="report">.*?</section>', client.get("/b", params={"report": account}).text, re.DOTALL)
        return "" if found is None else found[0]

    assert "events of 2 of 0 debits" in read(ada, "employees/ada")
    before = service.control.find_snapshot("employees/ada")
    assert before is not None
    service.control.save_snapshots([msgspec.structs.replace(before, debits=2, entry=1)])
    shown = re.search(r"ε = ([0-9.]+)", read(ada, "employees/ada"))
    assert shown is not None
    assert 0.2 < float(shown[1]) < 0.4
    asked = service.client("ada").post("/api/v1/asks", json=ASK | {"query": "SELECT COUNT(*) AS free FROM people"})
    assert asked.status_code == 202
    job = service.control.claim("test", kinds=["ask"])
    assert job is not None
    assert service.control.finish(job, to=AskState.ANSWERED, answer=answer_query(QUERY, 0.1), is_free=True)
    assert shown[0] in read(ada, "employees/ada")  # what is free adds nothing
    assert shown[0] in read(sign_in(service, "sam"), "employees")  # which counts the debits under it
    history_of_ada = ada.get("/b").text
    assert "COUNT(*) AS n" in history_of_ada
    assert "COUNT(*) AS free" not in history_of_ada
    assert read(ada, "employees") == ""
    assert read(cleo, "employees/ada") == ""
    assert service.control.list_asks(state=AskState.ANSWERED).items


# Publications


def test_a_forecast_is_a_table() -> None:
    column = {"query": "q1", "column": "n", "unit": "rows", "size": None, "cells": 3, "reliable": 2}
    budgets = [
        {"share": share, "epsilon": share, "columns": [column | {"half_width": None if share == 0.5 else 12 / share}]}
        for share in (0.5, 1.0, 2.0)
    ]
    view = view_forecast({"fits": False, "budgets": budgets})
    assert view.budgets == ("ε = 0.5", "ε = 1, as planned", "ε = 2")
    assert view.rows == (
        ("q1", "n", ("± any value, 2 of 3 reliable", "± 12 rows, 2 of 3 reliable", "± 6 rows, 2 of 3 reliable")),
    )
    assert not view.fits


# Released answers


def test_a_reader_sees_what_was_released_and_nothing_else(service: Service) -> None:
    released, kept = service.ask("ada")["id"], service.ask("ada", epsilon=0.2)["id"]
    rea = sign_in(service, "rea")
    assert "No steward has released an answer yet" in rea.get("/").text
    service.control.release_ask(released, "sam")
    home = rea.get("/").text
    assert f'href="/a/{released}"' in home
    assert kept not in home
    page = rea.get(f"/a/{released}")
    assert page.status_code == 200
    assert rea.get(f"/a/{released}/chart.svg").status_code == 200
    assert service.client("rea").get(f"/api/v1/asks/{released}").json()["person"] == ""
    text = re.sub(r"<[^>]*>", "", page.text)
    assert "ada" not in text.lower()
    assert "remaining" not in text
    assert rea.get(f"/a/{kept}").status_code == 404


def test_digits_that_are_no_number_fail_nothing(service: Service) -> None:
    """`"²".isdigit()` holds, and `int("²")` fails."""
    browser = sign_in(service, "ada")
    assert browser.get("/t/people/invented", params={"rows": "²"}).status_code == 200
    form = {"form_token": find_form_token(browser), "label": "x", "scope": "read", "days": "²"}
    assert browser.post("/me", data=form).status_code == 422
    form = {"form_token": find_form_token(sam := sign_in(service, "sam")), "title": "x", "rows": "²"}
    assert sam.post("/lab", data=form).status_code == 422
