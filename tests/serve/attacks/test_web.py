"""Attacks on the web process: each tries what the threat model names, and gets nothing."""

import logging
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from discreet.serve.control.model import Grant, Role, Scope
from discreet.serve.control.sqlite import SqliteTransaction
from discreet.serve.web.guard import CONTENT_SECURITY_POLICY
from discreet.serve.web.metrics import Metrics
from discreet.serve.web.problems import INTERNAL, NOT_FOUND
from tests.support.hand_clock import PATIENCE, wait_until
from tests.support.web_server import find_socket, serve
from tests.support.web_service import ADDRESS, OPEN, QUERY, Service, answer_query, open_service

ASK = {"table": "people", "query": QUERY, "epsilon": 0.1}
SECRET_QUERY = "SELECT COUNT(*) AS n FROM people WHERE city = 'Xanadu-7'"


def sign_in(service: Service, person: str = "ada") -> httpx.Cookies:
    """Return the cookies of a browser in which a person is signed in."""
    client = service.client()
    client.post("/in", data={"once": service.control.add_link(person)})
    return client.http.cookies


def test_csrf_a_cookie_opens_no_route_of_the_api(service: Service) -> None:
    headers = {"Cookie": f"discreet={sign_in(service)['discreet']}"}
    for path in ("tables", "asks", "accounts", "trail"):
        assert service.client().get(f"/api/v1/{path}", headers=headers).status_code == 401
    assert service.client().post("/api/v1/asks", json=ASK, headers=headers).status_code == 401
    assert service.control.count_states() == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://127.0.0.1:9999"}, {"Origin": "https://127.0.0.1:8765"},
    ],
)  # fmt: skip
def test_csrf_another_site_can_send_no_form(service: Service, headers: dict[str, str]) -> None:
    link = service.control.add_link("ada")
    refused = service.client().post("/in", data={"once": link}, headers=headers)
    assert refused.status_code == 403
    assert service.control.use_link(link) is not None, "the link is unused"
    assert service.client("ada").post("/api/v1/asks", json=ASK, headers=headers).status_code == 403


def test_csrf_a_page_of_this_service_can(service: Service) -> None:
    headers = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
    assert service.client("ada").post("/api/v1/asks", json=ASK, headers=headers).status_code == 202


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "localhost.evil", ""])
def test_rebinding_a_foreign_host_is_refused_on_loopback_too(service: Service, host: str) -> None:
    for path in ("/api/v1", "/api/v1/tables", "/in", "/api/v1/live", "/nothing"):
        refused = service.client("ada").get(path, headers={"Host": host})
        assert refused.status_code == 421, path
    assert service.client("ada").get("/api/v1/tables", headers={"Host": "localhost:8765"}).status_code == 200


def test_rebinding_a_second_host_is_refused(service: Service) -> None:
    headers = [("Host", "127.0.0.1:8765"), ("Host", "evil.example")]
    assert service.client("ada").get("/api/v1/tables", headers=headers).status_code == 421


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/tables", "/in", "/nothing", "/api/v1/openapi.json"])
def test_xss_framing_and_sniffing_headers_are_on_every_answer(service: Service, path: str) -> None:
    headers = service.client().get(path).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "frame-ancestors 'none'" in CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"
    assert "permissions-policy" in headers
    assert headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in headers)


def test_xss_the_plain_sign_in_page_shows_no_markup_of_others(service: Service) -> None:
    shown = service.client().get("/in", params={"once": '"><script>alert(1)</script>', "next": '/"><b>'})
    assert "<script>" not in shown.text
    assert "<b>" not in shown.text


def test_cors_preflights_are_answered_to_nobody(service: Service) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    shown = service.client().send("OPTIONS", "/api/v1/asks", headers=headers)
    assert shown.status_code == 405
    assert not any(name.startswith("access-control") for name in shown.headers)


def test_tokens_do_what_their_scope_says_and_no_more(service: Service) -> None:
    control = service.control
    _, reading = control.add_token("ada", "reading", scopes=[Scope.READ])
    _, asking = control.add_token("ada", "asking", scopes=[Scope.ASK])
    _, other = control.add_token("ada", "another table", tables=["orders"])
    _, boasting = control.add_token("ada", "boasting", scopes=[Scope.STEWARD])
    _, modest = control.add_token("sam", "modest", scopes=[Scope.READ])
    assert service.client(token=reading).post("/api/v1/asks", json=ASK).status_code == 403
    assert service.client(token=reading).post("/api/v1/quotes", json=ASK).status_code == 403
    assert service.client(token=asking).get("/api/v1/asks").status_code == 403
    assert service.client(token=other).post("/api/v1/asks", json=ASK).status_code == 404
    assert service.client(token=other).get("/api/v1/tables").json()["items"] == []
    for held in (boasting, modest):
        body = {"id": "eve", "name": "Eve", "role": "steward"}
        assert service.client(token=held).post("/api/v1/people", json=body).status_code == 403
    assert service.client("rea").post("/api/v1/asks", json=ASK).status_code in (403, 404)


def test_a_token_with_a_ration_is_charged_to_it_and_asks_of_no_other_population(service: Service) -> None:
    made, secret = service.make_token(epsilon="0.1")
    account = made.accounts["employees"]
    assert account.startswith("employees/ada/token-")
    waiting = service.client(token=secret).post("/api/v1/asks", json=ASK)
    assert waiting.status_code == 503, "the account is not open: nothing else is charged meanwhile"
    proposal = {"title": "All", "table": "people", "plan": "x"}
    assert service.client(token=secret).post("/api/v1/publications", json=proposal).status_code == 503
    opened = service.control.find_snapshot("employees/ada")
    assert opened is not None
    service.control.save_snapshots([msgspec.structs.replace(opened, account=account, parent=opened.account)])
    proposed = service.client(token=secret).post("/api/v1/publications", json=proposal).json()
    assert "account" not in proposed
    found = service.control.find_publication(proposed["id"])
    assert found is not None
    assert (found.account, found.token) == (account, made.id)
    assert service.control.list_jobs(subject=account)[0].payload["parent"] == "employees/ada"
    service.register(name="other", population="others")
    service.control.add_grant(Grant(person="ada", table="other", account="employees/ada", created=0, by="sam"))
    elsewhere = service.client(token=secret).post("/api/v1/asks", json=ASK | {"table": "other"})
    assert elsewhere.status_code == 404


def test_a_revoked_token_and_a_disabled_person_are_refused_at_the_next_request(service: Service) -> None:
    client, (made, secret) = service.client("ada"), service.make_token()
    other = service.client(token=secret)
    assert other.get("/api/v1/tables").status_code == 200
    assert other.delete(f"/api/v1/tokens/{made.id}").status_code == 200
    assert other.get("/api/v1/tables").status_code == 401
    service.client("sam").send("PATCH", "/api/v1/people/ada", json={"disabled": True})
    assert client.get("/api/v1/tables").status_code == 401


PAIRS = [
    ("GET", "tables/people", "tables/nothing"), ("GET", "tables/people/dummy", "tables/nothing/dummy"),
    ("GET", "asks/{ask}", "asks/0"), ("GET", "asks/{ask}/answer", "asks/0/answer"),
    ("GET", "asks/{ask}/events", "asks/0/events"), ("GET", "asks/{ask}/certificate", "asks/0/certificate"),
    ("DELETE", "asks/{ask}", "asks/0"), ("GET", "accounts/employees/ada", "accounts/nothing"),
    ("GET", "requests/{ask}", "requests/0"), ("GET", "accounts/employees", "accounts/employees/nobody"),
]  # fmt: skip
"""What Bob may not see, and what is not there."""


def test_what_is_not_granted_looks_like_what_is_not_there(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes, after the same statements over the control database, so in the same time. The clock itself
    would show only differences of milliseconds."""
    statements: list[str] = []
    run = SqliteTransaction.run

    def count(transaction: SqliteTransaction, sql: str, *values: object) -> object:
        statements.append(sql)
        return run(transaction, sql, *values)

    def send(method: str, path: str, **given: Any) -> tuple[httpx.Response, list[str]]:
        statements.clear()
        return bob.send(method, f"/api/v1/{path}", **given), [*statements]

    ask = service.ask()["id"]
    bob = service.client("bob")
    bob.get("/api/v1/tables")  # his token was used just now, which is written once a minute
    monkeypatch.setattr(SqliteTransaction, "run", count)
    for method, there, nowhere in PAIRS:
        (first, steps), (second, others) = send(method, there.format(ask=ask)), send(method, nowhere)
        assert (first.status_code, first.content, dict(first.headers)) == (404, second.content, dict(second.headers)), there
        assert first.json()["detail"] == NOT_FOUND
        assert steps == others != [], there
    for path, body in (("quotes", ASK), ("asks", ASK), ("quotes", ASK | {"query": "nonsense"})):
        (first, steps), (second, others) = (
            send("POST", path, json=body | {"table": name}) for name in ("people", "nothing")
        )
        assert (first.status_code, first.content) == (404, second.content)
        assert steps == others != []
    assert not any("control_tables" in each for each in steps)  # who may not see a table does not even look for it


def test_a_student_sees_invented_tables_alone(service: Service) -> None:
    service.add_person("stu", Role.STUDENT)
    service.control.add_grant(Grant(person="stu", table="people", account="employees/ada", created=0, by="sam"))
    assert service.client("stu").post("/api/v1/asks", json=ASK).status_code == 404
    refused = service.client("sam").post("/api/v1/grants", json={"person": "stu", "table": "people"})
    assert refused.status_code == 409
    service.register(invented=True)
    assert service.client("stu").get("/api/v1/tables").json()["items"][0]["invented"] is True


def test_limits_per_person(tmp_path: Path) -> None:
    settings = replace(OPEN, quotes_per_second=2.0, asks_per_hour=3.0, max_waiting=2)
    with open_service(tmp_path, settings) as service:
        client = service.client("ada")
        clients = [client, *(service.client(token=service.make_token()[1]) for _ in range(2))]
        quotes = [clients[i % 3].post("/api/v1/quotes", json=ASK) for i in range(12)]  # more tokens allow no more
        assert {each.status_code for each in quotes} == {200, 429}
        assert int(next(each for each in quotes if each.status_code == 429).headers["retry-after"]) >= 1
        asks = [clients[i % 3].post("/api/v1/asks", json=ASK | {"epsilon": (i + 1) / 100}) for i in range(5)]
        assert [each.status_code for each in asks] == [202, 202, 429, 429, 429], "two wait; then three in an hour"
        assert service.client("sam").get("/api/v1/tables").status_code == 200
        proposal = {"title": "All", "table": "people", "plan": "x"}
        made = [client.post("/api/v1/publications", json=proposal) for _ in range(3)]
        assert [each.status_code for each in made] == [202, 202, 429]
        declined = service.client("sam").post(f"/api/v1/publications/{made[0].json()['id']}/decline")
        assert declined.json()["state"] == "declined"
        assert client.post("/api/v1/publications", json=proposal).status_code == 202


def test_a_large_body_is_refused_also_without_its_length(service: Service) -> None:
    client = service.client("ada")
    assert client.post("/api/v1/quotes", content=b"x" * 1_000_001).status_code == 413
    assert client.post("/api/v1/quotes", headers={"Content-Length": "99999999"}, content=b"{}").status_code == 413

    async def chunks() -> object:
        for _ in range(30):
            yield b"x" * 50_000

    assert client.post("/api/v1/quotes", content=chunks()).status_code == 413


def test_a_certificate_is_checked_one_at_a_time_for_an_address(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(*_: object) -> dict[str, object]:
        begun.set()
        go.wait(10)
        return {}

    monkeypatch.setattr("discreet.serve.web.api_stewards.check_certificate", slow)
    first = threading.Thread(target=service.client().post, args=("/api/v1/verify",), kwargs={"json": {"certificate": {}}})
    first.start()
    begun.wait(10)
    assert service.client().post("/api/v1/verify", json={"certificate": {}}).status_code == 429
    go.set()
    first.join()
    assert service.client().post("/api/v1/verify", json={"certificate": {}}).status_code == 200


@pytest.mark.parametrize("certificate", [{}, {"format": "discreet release 1"}, {"a": [[[[[]]]]]}, {"public_key": 7}])
def test_a_malicious_certificate_is_a_plain_refusal(service: Service, certificate: dict[str, object]) -> None:
    assert service.client().post("/api/v1/verify", json={"certificate": certificate}).status_code == 422


def test_metrics_and_logs_name_no_table_person_question_or_token(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = service.client("ada")
    for query in (SECRET_QUERY, "SELECT Xanadu-7 FROM", SECRET_QUERY * 900):
        client.post("/api/v1/asks", json=ASK | {"query": query, "epsilon": 0.01})
    client.get("/api/v1/tables/people")
    client.get("/Xanadu-7/people")
    client.send("XANADU7", "/api/v1/tables")
    from prometheus_client import generate_latest

    shown = generate_latest(service.web.metrics.registry).decode()
    assert 'route="/api/v1/tables/{table}"' in shown
    logged = "\n".join(f"{each.name} {each.getMessage()}" for each in caplog.records if each.name.startswith("discreet"))
    for secret in ("Xanadu", "XANADU", "people", "ada", service.tokens["ada"], "employees"):
        assert not re.search(rf"\b{re.escape(secret)}\b", shown), secret
        assert secret not in logged
    assert 'discreet_http_seconds_count{method="POST",route="/api/v1/asks"}' not in shown, "it waits for a worker"


def test_metrics_are_for_this_machine_alone(service: Service) -> None:
    with pytest.raises(ValueError, match=r"127\.0\.0\.1"):
        Metrics(service.control).serve("0.0.0.0", 0)


def test_a_failure_inside_is_a_constant_text(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(SECRET_QUERY)

    service.web.control = service.control
    service.web.list_tables = fail
    refused = service.client("ada").get("/api/v1/tables")
    assert (refused.status_code, refused.json()["detail"]) == (500, INTERNAL)
    assert "Xanadu" not in caplog.text + refused.text


def test_events_need_a_token_and_a_grant(service: Service) -> None:
    ask = service.ask()["id"]
    assert service.client().get(f"/api/v1/asks/{ask}/events").status_code == 401
    headers = {"Cookie": f"discreet={sign_in(service)['discreet']}"}
    assert service.client().get(f"/api/v1/asks/{ask}/events", headers=headers).status_code == 401
    assert service.client("bob").get(f"/api/v1/asks/{ask}/events").status_code == 404
    assert service.client("ada").get(f"/api/v1/asks/{ask}/events?token=x").status_code == 422


@pytest.mark.parametrize("method", ["PUT", "TRACE", "PATCH", "CONNECT", "FOO", "DELETE"])
def test_verb_tampering_reaches_no_other_handler(service: Service, method: str) -> None:
    for path in ("/api/v1/asks", "/api/v1/quotes", "/in"):
        refused = service.client("ada").send(method, path, headers={"X-HTTP-Method-Override": "POST"})
        assert refused.status_code == 405, (method, path)
        assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
def test_content_type_confusion_is_refused(service: Service, kind: str) -> None:
    import json

    refused = service.client("ada").post("/api/v1/asks", content=json.dumps(ASK), headers={"Content-Type": kind})
    assert refused.status_code == 422


@pytest.mark.parametrize(
    "path",
    ["/../etc/passwd", "/static/../../../etc/passwd", "/static/%2e%2e/%2e%2e/x", "//api/v1", "/api/v1/tables/../../x"],
)
def test_no_path_leads_out(service: Service, path: str) -> None:
    assert service.client("ada").get(path).status_code in (404, 421)


def test_the_stewards_actions_are_in_the_trail_and_analysts_see_those_about_them(service: Service) -> None:
    steward = service.client("sam")
    steward.post("/api/v1/people", json={"id": "eve", "name": "Eve", "role": "analyst"})
    steward.post("/api/v1/grants", json={"person": "eve", "table": "people", "epsilon": 0.5})
    steward.post("/api/v1/grants/ada/people/pause", json={"reason": "x"})
    lines = steward.get("/api/v1/trail?limit=200").json()["items"]
    assert {"add person", "add grant", "pause account"} <= {line["action"] for line in lines}
    seen = service.client("bob").get("/api/v1/trail").json()["items"]
    assert [line for line in seen if line["actor"] != "bob"] == []
    service.add_person("eva", Role.ANALYST)
    eve = service.control.add_token("eve", "x")[1]
    assert [line["action"] for line in service.client(token=eve).get("/api/v1/trail").json()["items"]] == [
        "add grant", "add person",
    ]  # fmt: skip


def test_a_steward_cannot_ask_without_a_grant_nor_approve_by_a_token_without_the_scope(service: Service) -> None:
    assert service.client("sam").post("/api/v1/asks", json=ASK).status_code == 404


def test_the_web_process_imports_no_engine_key_or_ledger() -> None:
    code = (
        "import sys, discreet.serve.web.app, discreet.serve.web.answers\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('duckdb', 'pyspark') or m.startswith(("
        "'discreet.engines', 'discreet.session', 'discreet.serve.worker', 'discreet.ledger.keys', 'discreet.ledger.chain',"
        "'discreet.ledger.sqlite', 'discreet.ledger.postgres'))]\n"
        "sys.exit(', '.join(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_wait_holds_no_thread(tmp_path: Path) -> None:
    """More requests wait than there are threads, and the service still answers at once."""
    bound, port = find_socket()
    settings = replace(OPEN, address=f"http://127.0.0.1:{port}", max_wait=4 * PATIENCE)
    with open_service(tmp_path, settings) as service, serve(service.app, bound):
        headers = {"Authorization": f"Bearer {service.tokens['ada']}"}
        results: list[int] = []

        def wait(i: int) -> None:
            body = ASK | {"epsilon": (i + 1) / 1000}
            with httpx.Client(
                verify=False, base_url=service.settings.address, headers=headers, timeout=2 * PATIENCE
            ) as client:
                results.append(client.post("/api/v1/asks", json=body, headers={"Prefer": "wait=999"}).status_code)

        threads = [threading.Thread(target=wait, args=(i,)) for i in range(60)]
        for thread in threads:
            thread.start()
        wait_until(lambda: service.control.count_waiting() == 60)
        with httpx.Client(verify=False, base_url=service.settings.address, timeout=PATIENCE) as client:
            assert client.get("/api/v1").status_code == 200
        assert service.answer(answer_query(QUERY, 0.1)) == 60
        for thread in threads:
            thread.join(PATIENCE)
        assert results == [200] * 60
