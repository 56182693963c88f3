"""Attacks with the rights that one has: a steward who wants to be two, a token that wants to outlive or widen itself."""

from discreet.serve.control.model import Role, Scope
from tests.support.web_service import Service

STEWARD = {"id": "sock", "name": "Sock", "role": "steward"}


def test_no_steward_makes_a_steward_or_signs_in_as_one(service: Service) -> None:
    """The mutant lets Sam add a second steward, or take Tess's link: then Sam alone is the two that a rule wants."""
    service.add_person("tess", Role.STEWARD)
    sam = service.client("sam")
    assert sam.post("/api/v1/people", json=STEWARD).status_code == 403
    assert sam.send("PATCH", "/api/v1/people/ada", json={"role": "steward"}).status_code == 403
    refused = sam.post("/api/v1/people/tess/link")
    assert refused.status_code == 403
    assert "discreet serve invite serve.toml tess --role steward" in refused.json()["detail"]
    assert sam.post("/api/v1/people/sam/link").status_code == 403
    assert service.control.find_person("sock") is None
    assert sam.post("/api/v1/people", json=STEWARD | {"role": "analyst"}).status_code == 201
    assert sam.post("/api/v1/people/sock/link").status_code == 201
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
