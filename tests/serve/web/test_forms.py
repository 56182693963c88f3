"""Forms of pages: each is answered by a redirect, makes nothing twice, and keeps what was filled in when it is refused."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from discreet.serve.control.model import Role
from tests.serve.web.test_templates import sign_in
from tests.support.lab_service import find_secret
from tests.support.web_service import OPEN, Client, Service, open_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with open_service(tmp_path_factory.mktemp("forms"), replace(OPEN, pages=True)) as opened:
        yield opened


@pytest.fixture(scope="module")
def sam(service: Service) -> Client:
    return sign_in(service, "sam")


def send(client: Client, path: str, **fields: Any) -> httpx.Response:
    """Send a form with the token of its login."""
    token = re.search(r'name="form_token" value="([^"]+)"', client.get("/me").text)
    assert token is not None
    return client.post(path, data={"form_token": token[1], **fields})


# What is shown once


@pytest.mark.parametrize(
    ("path", "fields", "begins"),
    [
        ("/me", {"do": "add", "label": "x", "days": "30", "scope": ["ask", "read"]}, "dsc_"),
        ("/people", {"do": "link", "person": "ada"}, "http://127.0.0.1:8765/in?once="),
    ],
)
def test_a_secret_is_shown_once_after_a_redirect(service: Service, path: str, fields: Any, begins: str) -> None:
    client = sign_in(service, "sam")
    before = len(service.control.list_tokens("sam"))
    made = send(client, path, **fields)
    assert (made.status_code, made.headers["location"]) == (303, path)
    shown = find_secret(client.get(path).text)
    assert shown is not None
    assert shown.startswith(begins)
    assert find_secret(client.get(path).text) is None
    assert len(service.control.list_tokens("sam")) == before + (path == "/me")


def test_a_secret_is_shown_to_its_login_on_its_page_alone(service: Service) -> None:
    """The mutants show what another login signed, and what was meant for another page."""
    client = sign_in(service, "sam")
    send(client, "/me", do="add", label="x", days="30", scope=["ask"])
    cookie = client.http.cookies["discreet-once"]
    assert find_secret(client.get("/people").text) is None
    other = sign_in(service, "ada")
    other.http.cookies.set("discreet-once", cookie)
    assert find_secret(other.get("/me").text) is None
    client.http.cookies.delete("discreet-once")
    client.http.cookies.set("discreet-once", cookie[:-1] + ("0" if cookie[-1] != "0" else "1"))
    assert find_secret(client.get("/me").text) is None
