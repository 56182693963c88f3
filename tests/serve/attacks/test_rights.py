"""Attacks with the rights that one has: a steward who wants to be two, a token that wants to outlive or widen itself."""

import time

import pytest

from discreet.serve.control.errors import PersonExists
from discreet.serve.control.model import Grant, Person, Publication, PublicationState, Role, Rules, Scope, Token
from discreet.serve.web.problems import Refusal
from discreet.serve.web.signing_in import Caller
from discreet.serve.web.stewardship import MAX_RATIONS, RATION_DAYS, Stewardship
from tests.support.web_service import QUERY, Service

ASK = {"table": "people", "query": QUERY, "epsilon": 0.1}
STEWARD = {"id": "sock", "name": "Sock", "role": "steward"}


def in_browser(service: Service, person: str, token: Token | None = None) -> Caller:
    """Return a person who is signed in, without a token unless one is given."""
    found = service.control.find_person(person)
    assert found is not None
    return Caller(found, token)


def test_no_steward_makes_a_steward_or_signs_in_as_one(service: Service) -> None:
    """The mutant lets Sam add a second steward, or take Tess's link: then Sam alone is the two that a rule wants."""
    service.add_person("tess", Role.STEWARD)
    sam = service.client("sam")
    assert sam.post("/api/v1/people", json=STEWARD).status_code == 403
    assert sam.send("PATCH", "/api/v1/people/ada", json={"role": "steward"}).status_code == 403
    stewardship = Stewardship(service.web)
    for person in ("tess", "sam"):
        with pytest.raises(Refusal, match=f"discreet serve invite serve.toml {person} --role steward"):
            stewardship.make_link(in_browser(service, "sam"), person)
    assert service.control.find_person("sock") is None
    assert sam.post("/api/v1/people", json=STEWARD | {"role": "analyst"}).status_code == 201
    assert "/in?once=" in stewardship.make_link(in_browser(service, "sam"), "sock")
    assert sam.send("PATCH", "/api/v1/people/sock", json={"role": "reader"}).status_code == 200
    assert sam.send("PATCH", "/api/v1/people/tess", json={"disabled": True}).status_code == 200


def test_a_browser_that_a_link_signed_in_is_no_steward_when_the_person_becomes_one(service: Service) -> None:
    """The mutant keeps logins and links: Sam signs in as Ada, and waits until the owner makes her a steward."""
    link, (_, cookie) = service.control.add_link("ada", by="sam"), service.control.add_login("ada")
    _, token = service.control.add_token("ada", "hers", scopes=(Scope.READ,))
    service.control.change_person("ada", role=Role.READER)
    assert service.control.find_login(cookie) is not None
    service.control.change_person("ada", role=Role.STEWARD)
    assert service.control.find_login(cookie) is None
    assert service.control.use_link(link) is None
    assert service.client(token=token).get("/api/v1/people").json()["items"][0]["id"] == "ada"
    assert len(service.client(token=token).get("/api/v1/people").json()["items"]) == 1
    _, kept = service.control.add_login("ada")
    service.control.change_person("ada", role=Role.STEWARD)
    assert service.control.find_login(kept) is not None


# Tokens


def test_a_token_makes_and_ends_nothing_that_outlives_it(service: Service) -> None:
    """The mutant lets a stolen token make a sibling, or a link, that stays when the token is revoked."""
    token, secret = service.make_token(scopes=(Scope.READ,))
    client, stewardship = service.client(token=secret), Stewardship(service.web)
    assert client.post("/api/v1/tokens", json={"label": "x"}).status_code == 405
    with pytest.raises(Refusal, match="A token makes no tokens"):
        stewardship.add_token(in_browser(service, "ada", token), "x", (Scope.READ,), None, 1, None)
    steward, _ = service.make_token("sam", scopes=tuple(Scope))
    with pytest.raises(Refusal, match="A token makes no tokens"):
        stewardship.make_link(in_browser(service, "sam", steward), "ada")
    other, held = service.make_token()
    assert client.delete(f"/api/v1/tokens/{other.id}").status_code == 403
    assert service.client("sam").delete(f"/api/v1/tokens/{other.id}").status_code == 403
    assert service.client(token=held).get("/api/v1/tables").status_code == 200
    assert client.delete(f"/api/v1/tokens/{token.id}").status_code == 200
    assert client.get("/api/v1/tables").status_code == 401
    assert stewardship.revoke_token(in_browser(service, "sam"), other.id).revoked is not None


def test_a_token_lives_no_longer_than_the_service_allows_and_is_shown_once(service: Service) -> None:
    with pytest.raises(Refusal, match="Only a steward"):
        service.make_token(scopes=(Scope.STEWARD,))
    made, secret = service.make_token(days=90)
    assert secret.startswith("dsc_")
    assert made.expires is not None
    assert made.expires <= time.time() + 91 * 86_400
    listed = service.client("ada").get("/api/v1/tokens").text
    assert made.id in listed
    assert secret not in listed
    assert "digest" not in listed


def test_a_token_of_one_table_sees_that_table_alone_everywhere(service: Service) -> None:
    """The mutant shows what is the person's: grants, accounts and requests of a table that the token does not reach."""
    service.register(rules=Rules(epsilon_per_ask="1/20"))
    ask = service.client("ada").post("/api/v1/asks", json=ASK).json()
    assert ask["state"] == "for approval"
    service.register(name="other", population="others")
    service.control.add_grant(Grant(person="ada", table="other", account="others/ada", created=0, by="sam"))
    token, secret = service.make_token(tables=("other",))
    client = service.client(token=secret)
    assert [each["table"] for each in client.get("/api/v1/grants").json()["items"]] == ["other"]
    assert [each["id"] for each in client.get("/api/v1/tokens").json()["items"]] == [token.id]
    assert [each["name"] for each in client.get("/api/v1/tables").json()["items"]] == ["other"]
    for path in ("accounts", "asks", "requests"):
        assert "people" not in client.get(f"/api/v1/{path}").text, path
        assert "employees" not in client.get(f"/api/v1/{path}").text, path
    for path in (
        f"requests/{ask['id']}",
        f"asks/{ask['id']}",
        "tables/people",
        "accounts/employees/ada",
        "accounts/employees",
    ):
        assert client.get(f"/api/v1/{path}").status_code == 404, path
    assert client.get("/api/v1/trail").status_code == 403
    assert service.client("ada").get(f"/api/v1/requests/{ask['id']}").status_code == 200
    assert service.client("ada").get("/api/v1/trail").status_code == 200


def test_a_stewards_token_of_one_table_decides_on_that_table_alone(service: Service) -> None:
    service.register(rules=Rules(epsilon_per_ask="1/20"))
    ask = service.client("ada").post("/api/v1/asks", json=ASK).json()
    _, secret = service.control.add_token("sam", "one table", scopes=tuple(Scope), tables=["other"])
    client = service.client(token=secret)
    body = {"measurement": ask["measurement"]}
    assert client.post(f"/api/v1/requests/{ask['id']}/approve", json=body).status_code == 404
    assert client.post("/api/v1/grants", json={"person": "bob", "table": "people"}).status_code == 404
    assert client.delete("/api/v1/grants/ada/people").status_code == 404
    assert client.post("/api/v1/grants/ada/people/pause", json={"reason": "x"}).status_code == 404
    assert client.get("/api/v1/accounts/employees").status_code == 404
    assert client.get("/api/v1/accounts").json()["items"] == []
    assert client.get("/api/v1/grants").json()["items"] == []
    assert [each["id"] for each in client.get("/api/v1/people").json()["items"]] == ["sam"]
    for path in ("jobs/0", "trail"):
        assert client.get(f"/api/v1/{path}").status_code == 403
    assert client.send("PATCH", "/api/v1/people/ada", json={"disabled": True}).status_code == 403
    assert client.post("/api/v1/people", json=STEWARD | {"role": "reader"}).status_code == 403
    assert service.client("sam").post(f"/api/v1/requests/{ask['id']}/approve", json=body).status_code == 200


def test_a_person_makes_few_tokens_with_a_budget_of_their_own(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is an account that the ledger keeps for ever, also of a token that is revoked."""
    for _ in range(MAX_RATIONS):
        made, _ = service.make_token(epsilon="0.01")
        service.control.revoke_token(made.id)
    with pytest.raises(Refusal, match=f"{MAX_RATIONS} tokens with a budget of their own in {RATION_DAYS} days"):
        service.make_token(epsilon="0.01")
    assert len(service.control.list_jobs(limit=200)) == MAX_RATIONS
    service.make_token()
    later = time.time() + 86_400 * (RATION_DAYS + 1)
    monkeypatch.setattr(service.web.clock, "now", lambda: later)
    service.make_token(epsilon="0.01")


# The trail


def test_a_person_with_the_name_of_a_table_or_of_a_worker_reads_no_lines_of_theirs(service: Service) -> None:
    service.control.change_rules("people", Rules(), by="sam")
    service.add_person("people", Role.ANALYST)
    service.control.add_link("people", by="sam")
    lines = service.client("people").get("/api/v1/trail").json()["items"]
    assert [(each["actor"], each["action"]) for each in lines] == [("sam", "add link")]
    for name in ("worker", "oidc"):
        with pytest.raises(PersonExists):
            service.control.add_person(Person(id=name, name=name, role=Role.ANALYST))


def test_a_stranger_does_not_see_whose_a_public_publication_is(service: Service) -> None:
    service.control.add_publication(
        Publication(
            id="p1", title="All", table="people", plan="secret plan", by="ada", state=PublicationState.PUBLISHED,
            created=0.0, is_public=True, approvals=("sam",),
        )
    )  # fmt: skip
    for person, is_known in ((None, False), ("bob", False), ("ada", True), ("sam", True)):
        client = service.client(person)
        shown = client.get("/api/v1/publications/p1").json()
        assert client.get("/api/v1/publications").json()["items"] == [shown]
        assert ({"by", "approvals", "plan"} <= shown.keys()) is is_known
        assert ("ada" in str(shown) or "sam" in str(shown) or "secret" in str(shown)) is is_known
