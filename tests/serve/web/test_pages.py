"""Small promises of pages: the error that a form starts with, where a reader is, and lines of curl that work."""

import html
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest

from discreet.accounting.currencies import parse_currency
from discreet.ledger.account import AccountState
from discreet.serve.control.model import Snapshot
from discreet.serve.web.pages.asking import DEFAULT_ERRORS
from tests.serve.web.test_templates import sign_in
from tests.support.web_service import OPEN, Client, Service, open_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with open_service(tmp_path_factory.mktemp("pages"), replace(OPEN, pages=True)) as opened:
        yield opened


@pytest.fixture(scope="module")
def ada(service: Service) -> Client:
    return sign_in(service, "ada")


# The error that an empty form starts with


def read_field(page: str, name: str) -> str:
    found = re.search(rf'<(?:input|textarea)[^>]* name="{name}"(?: value="([^"]*)"|[^>]*>([^<]*)<)', page)
    assert found is not None
    return html.unescape(found[1] or found[2] or "")


def test_a_form_starts_with_the_smallest_error_that_fits(service: Service, ada: Client) -> None:
    """The mutant that always starts with the first one offers what the budget refuses."""
    page = ada.get("/t/people/ask").text
    asked = {"table": "people", "query": read_field(page, "query"), "size": int(read_field(page, "size"))}
    client, own = service.client("ada"), Snapshot.of(service.accounts[1])
    quotes = [client.post("/api/v1/quotes", json={**asked, "error": each}).json() for each in DEFAULT_ERRORS]
    amounts = [Fraction(each["quote"]["cost"]["amount"]) for each in quotes]
    assert amounts == sorted(amounts, reverse=True)
    cases = [*zip(amounts, DEFAULT_ERRORS, strict=True), (amounts[-1] / 2, DEFAULT_ERRORS[0])]  # the last: nothing fits
    for number, (amount, error) in enumerate(cases, 1):
        spent = Fraction(own.limit) - amount * Fraction(101, 100)
        service.control.save_snapshots([msgspec.structs.replace(own, spent=str(spent), entry=number)])
        assert read_field(ada.get("/t/people/ask").text, "error") == error
    assert read_field(ada.get("/t/people/ask?error=7%25").text, "error") == "7%"
    service.control.save_snapshots([msgspec.structs.replace(own, entry=len(cases) + 1)])


# Where a reader is


MAIN = ("/", "/asks", "/b", "/r")
STEWARDS = ("/p", "/people", "/state")


@pytest.mark.parametrize(("person", "listed"), [("ada", (*MAIN, "/lab")), ("sam", (*MAIN, *STEWARDS, "/lab"))])
def test_the_navigation_lists_what_a_role_uses_and_marks_this_page(
    service: Service, person: str, listed: tuple[str, ...]
) -> None:
    visitor = sign_in(service, person)
    for here in listed:
        navigation = re.search(r'<nav aria-label="Main">(.*?)</nav>', visitor.get(here).text, re.DOTALL)
        assert navigation is not None
        links = re.findall(r'<a href="([^"]+)"( aria-current="page")?>', navigation[1])
        assert [path for path, _ in links] == list(listed)
        assert [path for path, mark in links if mark] == [here]


def test_who_is_not_signed_in_finds_what_is_public(service: Service) -> None:
    page = service.client().get("/verify").text
    navigation = re.search(r'<nav aria-label="Main">(.*?)</nav>', page, re.DOTALL)
    assert navigation is not None
    assert re.findall(r'href="([^"]+)"', navigation[1]) == ["/verify", "/api"]


# Lines of curl


def test_the_lines_of_the_api_page_have_bodies_that_are_taken(service: Service, ada: Client) -> None:
    """A body lacks no field that is needed, and has none that is unknown: the mutant without `_write_body` sends nothing."""
    client, tried = service.client("sam"), set[str]()
    for line in re.findall(r"<pre>(curl .*?)</pre>", ada.get("/api").text, re.DOTALL):
        _, _, method, *rest = shlex.split(html.unescape(line))
        address = rest[-1].removeprefix(service.settings.address)
        assert address.startswith("/api/v1")
        if "-d" not in rest:
            continue
        tried.add(address)
        body = json.loads(rest[rest.index("-d") + 1])
        answered = client.send(method, address.replace("{", "").replace("}", ""), json=body)
        wrong = answered.json().get("title") == "A field is wrong"
        assert not wrong, (address, body, answered.text)
    assert {"/api/v1/quotes", "/api/v1/asks", "/api/v1/grants", "/api/v1/people", "/api/v1/verify"} <= tried


def test_the_line_of_a_quote_works_as_it_stands(service: Service, ada: Client) -> None:
    (line,) = re.findall(r"<pre>(curl [^<]*/api/v1/quotes')</pre>", ada.get("/api").text)
    body = json.loads(shlex.split(html.unescape(line))[-2])
    assert body == {"table": "people", "query": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.1"}
    assert service.client("ada").post("/api/v1/quotes", json=body).status_code == 200


# A class whose table is being made


def test_the_page_of_a_class_follows_until_its_table_and_accounts_are_made(service: Service) -> None:
    """Without a worker the table is not made: the page loads again, by a script or without. It stops when there is nothing
    to wait for; and it does not take away a code that is shown once before the teacher has read it."""
    sam = sign_in(service, "sam")
    token = re.search(r'name="form_token" value="([^"]+)"', sam.get("/me").text)
    assert token is not None
    fields = {"form_token": token[1], "title": "Monday", "epsilon": "3", "ration": "1", "rows": "500"}
    address = sam.post("/lab", data=fields).headers["location"]
    first, second = sam.get(address).text, sam.get(address).text
    follows, refresh = f'hx-get="{address}" hx-trigger="load delay:1s"', '<noscript><meta http-equiv="refresh"'
    assert 'class="secret"' in first
    assert refresh not in first
    assert 'class="secret"' not in second
    assert refresh in second
    assert all(follows in each and "The table is being made" in each for each in (first, second))
    name = address.rpartition("/")[2]
    root = AccountState.open(name, 3, 0, parse_currency("pure"))
    service.control.save_snapshots([Snapshot.of(root)])
    service.register(name=name, population=name, identity=f"serve:{name}", invented=True)
    made = sam.get(address).text
    assert follows not in made
    assert refresh not in made
    assert "The table is being made" not in made
