"""The API: tables, accounts, quotes, asks, answers and what is refused."""

import json
import threading
from dataclasses import replace
from fractions import Fraction

import pytest
from httpx import Response

from discreet.query.answer import Answer
from discreet.remote.wire import answer_from_wire, quote_from_wire, remaining_from_wire, table_from_wire
from discreet.serve.control.model import AskState, Rules
from discreet.serve.web.answers import FORMATS
from discreet.serve.web.problems import NOT_FOUND
from tests.support.hand_clock import PATIENCE, wait_until
from tests.support.web_service import QUERY, Service

ASK = {"table": "people", "query": QUERY, "epsilon": 0.1}


def test_a_stranger_sees_the_service_and_nothing_else(service: Service) -> None:
    client = service.client()
    shown = client.get("/api/v1")
    assert (shown.status_code, shown.json()["api"]) == (200, "v1")
    for path in ("tables", "asks", "accounts", "requests", "people", "grants", "trail", "tokens", "ledger/head"):
        refused = client.get(f"/api/v1/{path}")
        assert refused.status_code == 401, path
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.headers["www-authenticate"].startswith("Bearer")


def test_an_analyst_sees_the_tables_of_their_grants(service: Service) -> None:
    [table] = service.client("ada").get("/api/v1/tables").json()["items"]
    assert table["name"] == "people"
    assert table_from_wire(table["table"]).columns["pay"].upper == Fraction(100)
    assert service.client("bob").get("/api/v1/tables").json()["items"] == []
    assert service.client("sam").get("/api/v1/tables").json()["items"][0]["account"] is None


def test_a_quote_states_cost_error_and_arrival(service: Service) -> None:
    service.register(classes=(0.5, 2.0))
    shown = service.client("ada").post("/api/v1/quotes", json=ASK).json()
    quote = quote_from_wire(shown["quote"])
    assert quote.query_text == QUERY
    assert (shown["epsilon"], shown["recorded"], shown["needs_approval"], shown["arrives_in"]) == ("1/10", False, None, 0.5)
    assert 0 < shown["share"] < 0.01
    assert float(remaining_from_wire(shown["remaining"])) == 3


def test_an_ask_is_answered_within_the_wait(service: Service) -> None:
    client = service.client("ada")
    first = client.post("/api/v1/asks", json=ASK, headers={"Idempotency-Key": "monday"})
    assert first.status_code == 202
    assert first.headers["location"] == f"/api/v1/asks/{first.json()['id']}"
    assert service.answer() == 1
    again = client.post("/api/v1/asks", json=ASK, headers={"Idempotency-Key": "monday", "Prefer": "wait=10"})
    assert again.status_code == 200
    assert again.json()["id"] == first.json()["id"]
    answer = answer_from_wire(again.json()["answer"])
    assert isinstance(answer, Answer)
    assert answer.charged


def test_who_waits_while_the_service_ends_is_told_to_come_back(service: Service) -> None:
    """And not after the seconds for which a request waits at most."""
    asked: list[Response] = []
    service.web.settings = replace(service.web.settings, max_wait=4 * PATIENCE)
    wait = {"Prefer": "wait=999", "Idempotency-Key": "monday"}
    client = service.client("ada")
    waiting = threading.Thread(target=lambda: asked.append(client.post("/api/v1/asks", json=ASK, headers=wait)))
    waiting.start()
    wait_until(lambda: service.web.bell._waiters)
    service.web.bell.ring()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    later = client.post("/api/v1/asks", json=ASK, headers=wait)
    assert [(each.status_code, each.json()["state"]) for each in (*asked, later)] == [(202, "waiting")] * 2


def test_a_recorded_answer_is_shown_at_once_and_free(service: Service) -> None:
    first = service.ask()
    repeated = service.client("ada").post("/api/v1/asks", json=ASK, headers={"Idempotency-Key": "tuesday"})
    assert repeated.status_code == 200
    shown = repeated.json()
    assert shown["id"] != first["id"]
    assert shown["answer"]["record"] == first["answer"]["record"]
    assert shown["answer"]["charged"] is False
    assert service.client("ada").post("/api/v1/quotes", json=ASK).json()["recorded"] is True


def test_another_view_of_a_recorded_answer_is_left_to_a_worker(service: Service) -> None:
    service.ask()
    shown = service.client("ada").post("/api/v1/asks", json=ASK | {"query": f"{QUERY} ORDER BY n LIMIT 1"})
    assert shown.status_code == 202


def test_new_noise_is_no_recorded_answer(service: Service) -> None:
    service.ask()
    assert service.client("ada").post("/api/v1/asks", json=ASK | {"fresh": True}).status_code == 202


def test_a_key_belongs_to_one_question(service: Service) -> None:
    client = service.client("ada")
    client.post("/api/v1/asks", json=ASK, headers={"Idempotency-Key": "k"})
    refused = client.post("/api/v1/asks", json=ASK | {"epsilon": 0.2}, headers={"Idempotency-Key": "k"})
    assert refused.status_code == 422
    assert refused.json()["error"] == "BadParameter"
    assert refused.json()["fields"]["name"] == "id"


def test_an_ask_beyond_the_budget_is_refused_before_it_is_charged(service: Service) -> None:
    refused = service.client("ada").post("/api/v1/asks", json=ASK | {"epsilon": 4})
    assert (refused.status_code, refused.json()["error"]) == (409, "BudgetExceeded")
    assert service.control.count_states() == {}


def test_a_query_that_is_refused_says_where(service: Service) -> None:
    refused = service.client("ada").post("/api/v1/quotes", json=ASK | {"query": "SELECT nope FROM people"})
    assert (refused.status_code, refused.json()["error"]) == (422, "QueryRefused")


@pytest.mark.parametrize("field", ["pilot", "bounds", "epsilonn", "token"])
def test_a_field_that_is_not_known_is_refused(service: Service, field: str) -> None:
    refused = service.client("ada").post("/api/v1/quotes", json=ASK | {field: 1})
    assert refused.status_code == 422
    assert field in refused.json()["detail"]


def test_a_quote_names_a_constant_that_is_no_declared_key(service: Service) -> None:
    service.register(policy=service.register().policy.replace('["a", "b"]', '["North", "South"]'))
    for typed, said in (("Nrth", ["'Nrth' is no declared key of `dept`: did you mean `North`?"]), ("North", [])):
        query = f"SELECT COUNT(*) AS n FROM people WHERE NOT (pay > 3 OR dept = '{typed}')"
        notes = service.client("ada").post("/api/v1/quotes", json=ASK | {"query": query}).json()["quote"]["notes"]
        assert [each for each in notes if "declared key" in each] == said


@pytest.mark.parametrize("epsilon", [0, -1, "nan", "inf", "1e999", True, [1], "0,5", "", "1/0"])
def test_an_epsilon_that_is_none_is_refused(service: Service, epsilon: object) -> None:
    refused = service.client("ada").post("/api/v1/quotes", json=ASK | {"epsilon": epsilon})
    assert refused.status_code == 422, refused.text


def test_what_the_rules_do_not_allow_goes_to_a_steward_and_comes_back(service: Service) -> None:
    service.register(rules=Rules(epsilon_per_ask="1/20"), classes=(0.2,))
    client, steward = service.client("ada"), service.client("sam")
    reason = client.post("/api/v1/quotes", json=ASK).json()["needs_approval"]
    assert reason == "it asks ε = 0.1, and the rules allow ε = 0.05 at once"  # the numbers that were compared
    taken = client.post("/api/v1/asks", json=ASK | {"purpose": "a report"}).json()
    assert taken["state"] == "for approval"
    assert service.answer() == 0
    [request] = steward.get("/api/v1/requests").json()["items"]
    assert (request["purpose"], request["query"]) == ("a report", QUERY)
    wrong = steward.post(f"/api/v1/requests/{taken['id']}/approve", json={"measurement": "f" * 64})
    assert wrong.status_code == 409
    assert client.post(
        f"/api/v1/requests/{taken['id']}/approve", json={"measurement": request["measurement"]}
    ).status_code == 403  # fmt: skip
    approved = steward.post(f"/api/v1/requests/{taken['id']}/approve", json={"measurement": request["measurement"]})
    assert approved.json()["state"] == "approved"
    assert service.answer() == 1
    assert client.get(f"/api/v1/asks/{taken['id']}").json()["state"] == "answered"
    assert client.post("/api/v1/asks", json=ASK).status_code == 200, "what was approved needs no second approval"


def test_a_request_is_sent_back_answered_and_declined(service: Service) -> None:
    service.register(rules=Rules(epsilon_per_ask="1/20"))
    client, steward = service.client("ada"), service.client("sam")
    ask = client.post("/api/v1/asks", json=ASK).json()["id"]
    assert steward.post(f"/api/v1/requests/{ask}/return", json={"comment": "why?"}).json()["state"] == "returned"
    assert client.post(f"/api/v1/requests/{ask}/reply", json={"comment": "so"}).json()["state"] == "open"
    assert steward.post(f"/api/v1/requests/{ask}/decline", json={"comment": "no"}).json()["state"] == "declined"
    ended = client.post(
        "/api/v1/asks", json=ASK, headers={"Idempotency-Key": client.get(f"/api/v1/asks/{ask}").json()["key"]}
    )
    assert (ended.status_code, "declined: no" in ended.json()["detail"]) == (409, True)


def test_a_siblings_recorded_answer_is_no_way_around_the_rules(service: Service) -> None:
    service.ask()
    service.register(rules=Rules(epsilon_per_ask="1/20"))
    service.client("sam").post("/api/v1/grants", json={"person": "bob", "table": "people"})
    open_account(service, "bob")
    assert service.client("bob").post("/api/v1/asks", json=ASK).json()["state"] == "for approval"
    service.register()
    shown = service.client("bob").post("/api/v1/asks", json=ASK).json()
    assert (shown["state"], shown["answer"]["charged"]) == ("answered", False)


def open_account(service: Service, person: str) -> None:
    """Do what a worker does for a grant."""
    from discreet.ledger.account import AccountState
    from discreet.serve.control.model import Snapshot

    root = service.accounts[0]
    account = AccountState.open(f"employees/{person}", 3, 1e-9, root.budget.currency, root)
    service.control.save_snapshots([Snapshot.of(account)])


def test_an_ask_that_waits_can_be_withdrawn_once(service: Service) -> None:
    client = service.client("ada")
    ask = client.post("/api/v1/asks", json=ASK).json()["id"]
    assert client.delete(f"/api/v1/asks/{ask}").json()["state"] == "withdrawn"
    assert client.delete(f"/api/v1/asks/{ask}").status_code == 409
    assert service.client("bob").delete(f"/api/v1/asks/{ask}").status_code == 404


@pytest.mark.parametrize("name", FORMATS)
def test_an_answer_comes_in_every_format(service: Service, name: str) -> None:
    ask = service.ask()["id"]
    client = service.client("ada")
    by_name = client.get(f"/api/v1/asks/{ask}/answer?format={name}")
    assert by_name.status_code == 200
    assert by_name.headers["content-type"] == FORMATS[name].media
    assert by_name.headers["cache-control"].startswith("private, immutable")
    assert len(by_name.content) > 10
    media = FORMATS[name].media.partition(";")[0]
    by_media = client.get(f"/api/v1/asks/{ask}/answer", headers={"Accept": media})
    assert by_media.headers["content-type"] == FORMATS[name].media
    known = client.get(f"/api/v1/asks/{ask}/answer?format={name}", headers={"If-None-Match": by_name.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")


def test_a_format_that_is_none_is_refused(service: Service) -> None:
    ask = service.ask()["id"]
    assert service.client("ada").get(f"/api/v1/asks/{ask}/answer?format=exe").status_code == 406
    lines = service.client("ada").get(f"/api/v1/asks/{ask}/answer?format=ndjson").text.splitlines()
    assert [(each["dept"], type(each["n"])) for each in map(json.loads, lines)] == [("a", int), ("b", int)]  # objects
    assert service.client("ada").get(f"/api/v1/asks/{ask}/answer", headers={"Accept": "video/mp4"}).status_code == 406


def test_invented_rows_come_from_the_policy(service: Service) -> None:
    client = service.client("ada")
    shown = client.get("/api/v1/tables/people/dummy?rows=50&seed=3")
    assert shown.headers["x-invented"] == "policy"
    assert set(shown.json()["columns"]["dept"]) <= {"a", "b", None}
    for name in ("csv", "ndjson", "arrow", "parquet"):
        made = client.get(f"/api/v1/tables/people/dummy?rows=50&seed=3&format={name}")
        assert (made.status_code, made.headers["content-type"]) == (200, FORMATS[name].media)
    assert service.client("bob").get("/api/v1/tables/people/dummy").status_code == 404


def test_events_tell_each_state_once_and_end(service: Service) -> None:
    client = service.client("ada")
    ask = client.post("/api/v1/asks", json=ASK).json()["id"]
    service.answer()
    stream = client.get(f"/api/v1/asks/{ask}/events")
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.text.count("event: state") == 1
    assert '"state":"answered"' in stream.text
    assert client.get(f"/api/v1/asks/{ask}/events", headers={"Last-Event-ID": "answered/0"}).text == ""


def test_a_certificate_is_a_workers_job(service: Service) -> None:
    ask = service.ask()["id"]
    job = service.control.enqueue("certificate", ask)
    claimed = service.control.claim("test", kinds=["certificate"])
    assert claimed is not None
    assert claimed.id == job.id
    signed = {"entry": '{"id":"ada:k"}', "earlier": [], "format": "x"}
    service.control.finish(claimed, {"certificate": signed})
    assert service.client("ada").get(f"/api/v1/asks/{ask}/certificate").json() == signed


def test_what_remains_of_the_root_is_rounded_for_analysts(service: Service) -> None:
    service.ask()
    from discreet.serve.control.model import Snapshot

    _, own = service.accounts
    charged = own.charge_cost(Fraction(1, 997), Fraction(0))
    assert charged.parent is not None
    service.control.save_snapshots([Snapshot.of(charged), Snapshot.of(charged.parent)])
    own_line, root_line = service.client("ada").get("/api/v1/accounts/employees/ada").json()["lineage"]
    assert (own_line["is_rounded"], root_line["is_rounded"]) == (False, True)
    limit = Fraction(root_line["budget"]["limit"])
    assert (100 * Fraction(root_line["budget"]["remaining"]) / limit).denominator == 1
    exact = service.client("sam").get("/api/v1/accounts/employees").json()["lineage"][0]
    assert Fraction(exact["budget"]["remaining"]) == charged.parent.budget.remaining
    assert service.client("bob").get("/api/v1/accounts/employees/ada").json()["detail"] == NOT_FOUND


def test_a_paused_account_takes_no_ask(service: Service) -> None:
    service.client("sam").post("/api/v1/grants/ada/people/pause", json={"reason": "late"})
    assert service.client("ada").post("/api/v1/asks", json=ASK).status_code == 403
    service.client("sam").post("/api/v1/grants/ada/people/resume")
    assert service.client("ada").post("/api/v1/asks", json=ASK).status_code == 202


def test_asks_are_listed_in_pages(service: Service) -> None:
    client = service.client("ada")
    for i in range(5):
        client.post("/api/v1/asks", json=ASK | {"epsilon": (i + 1) / 100})
    first = client.get("/api/v1/asks?limit=3")
    assert 'rel="next"' in first.headers["link"]
    rest = client.get(f"/api/v1/asks?limit=3&cursor={first.json()['cursor']}").json()
    assert [len(first.json()["items"]), len(rest["items"]), rest["cursor"]] == [3, 2, None]
    assert client.get("/api/v1/asks?cursor=%00").status_code == 422
    assert len(client.get(f"/api/v1/asks?state={AskState.WAITING}").json()["items"]) == 5


def test_a_failed_ask_is_the_problem_that_the_worker_stored(service: Service) -> None:
    from discreet.errors import EngineFailed
    from discreet.remote.wire import to_problem

    client = service.client("ada")
    client.post("/api/v1/asks", json=ASK, headers={"Idempotency-Key": "k"})
    job = service.control.claim("test", kinds=["ask"])
    assert job is not None
    service.control.fail(job, to=AskState.FAILED, problem=to_problem(EngineFailed()))
    failed = client.post("/api/v1/asks", json=ASK, headers={"Idempotency-Key": "k"})
    assert (failed.status_code, failed.json()["error"]) == (500, "EngineFailed")
    assert failed.json()["detail"] == str(EngineFailed())
