"""Who is recognised: secrets are shown once, stored as digests, and end."""

import re
import sqlite3
from pathlib import Path

import pytest

from discreet.errors import BadParameter
from discreet.serve.control.errors import PersonExists
from discreet.serve.control.model import Person, Role, Scope
from discreet.serve.control.store import Control, open_control
from tests.serve.control.conftest import Clock
from tests.serve.control.sample import add_ada


def test_a_person_is_found_and_an_id_is_taken_once(control: Control, clock: Clock) -> None:
    ada = add_ada(control)
    assert ada.created == clock.now
    assert control.find_person("ada") == control.find_person_by_subject("iss ada") == ada
    assert control.find_person_by_email("ada@example.org") == ada
    assert control.list_people() == (ada,)
    for taken in (ada, Person(id="other", name="O", role=Role.READER, subject="iss ada")):
        with pytest.raises(BadParameter, match="already"):
            control.add_person(taken)
    for unknown in ("bob", "", "\0", "\ud800", "ada\0", "x" * 10_000):
        assert control.find_person(unknown) is None
        assert control.find_token(unknown) is None


def test_an_address_of_two_people_signs_neither_in(control: Control) -> None:
    add_ada(control)
    control.add_person(Person(id="eve", name="Eve", role=Role.ANALYST, email="ada@example.org"))
    assert control.find_person_by_email("ada@example.org") is None


def test_a_token_is_found_by_its_secret_until_it_ends(control: Control, clock: Clock) -> None:
    add_ada(control)
    token, secret = control.add_token("ada", "notebook", scopes=[Scope.ASK], tables=["people"], expires=clock.now + 100)
    assert re.fullmatch(r"dsc_[A-Za-z0-9_-]{43}", secret)
    found = control.find_token(secret)
    assert found is not None
    assert (found.id, found.scopes, found.tables, found.last_used) == (token.id, (Scope.ASK,), ("people",), clock.now)
    assert control.find_token(secret.lower()) is None
    assert control.find_token(token.digest) is None
    clock.now += 100
    assert control.find_token(secret) is None


def test_a_revoked_token_ends_at_once(control: Control) -> None:
    add_ada(control)
    token, secret = control.add_token("ada", "notebook")
    _, other = control.add_token("ada", "script")
    revoked = control.revoke_token(token.id, by="ada")
    assert revoked is not None
    assert control.find_token(secret) is None
    assert control.find_token(other) is not None
    assert control.revoke_token(token.id) == revoked
    assert control.revoke_token("unknown") is None
    assert [each.label for each in control.list_tokens("ada")] == ["script", "notebook"]


def test_a_disabled_person_is_shut_out_by_every_way(control: Control) -> None:
    add_ada(control)
    _, secret = control.add_token("ada", "notebook")
    _, cookie = control.add_login("ada")
    link = control.add_link("ada")
    control.disable_person("ada", by="steward")
    assert control.find_token(secret) is None
    assert control.find_login(cookie) is None
    assert control.use_link(link) is None
    for add in (lambda: control.add_token("ada", "x"), lambda: control.add_link("ada"), lambda: control.add_login("ada")):
        with pytest.raises(BadParameter, match="no such person"):
            add()
    control.change_person("ada", disabled=False, by="steward")
    assert control.find_login(cookie) is None  # signing in again is needed


def test_last_use_is_written_once_a_minute(control: Control, clock: Clock) -> None:
    add_ada(control)
    token, secret = control.add_token("ada", "notebook")
    seen = []
    for seconds in (0, 30, 29, 1, 59, 1):
        clock.now += seconds
        control.find_token(secret)
        stored = control.find_token_by_id(token.id)
        assert stored is not None
        assert stored.last_used is not None
        seen.append(stored.last_used - token.created)
    assert seen == [0, 0, 0, 60, 60, 120]


def test_a_token_gets_an_account_per_population(control: Control) -> None:
    add_ada(control)
    token, secret = control.add_token("ada", "notebook")
    control.set_token_account(token.id, "employees", "employees/ada/token-1")
    control.set_token_account(token.id, "patients", "patients/ada/token-1")
    found = control.find_token(secret)
    assert found is not None
    assert found.accounts == {"employees": "employees/ada/token-1", "patients": "patients/ada/token-1"}


def test_a_link_signs_in_once_and_in_time(control: Control, clock: Clock) -> None:
    ada = add_ada(control)
    link, late = control.add_link("ada", seconds=600), control.add_link("ada", seconds=60)
    assert control.use_link("x" * 43) is None
    assert control.use_link(link) == ada
    assert control.use_link(link) is None
    clock.now += 60
    assert control.use_link(late) is None


def test_a_login_ends_and_can_be_prolonged(control: Control, clock: Clock) -> None:
    add_ada(control)
    login, cookie = control.add_login("ada", seconds=1000)
    assert control.find_login(cookie) == login
    assert len(login.csrf) == 43
    clock.now += 900
    prolonged = control.find_login(cookie, seconds=1000)
    assert prolonged is not None
    assert prolonged.expires == clock.now + 1000
    clock.now += 999
    assert control.find_login(cookie) is not None
    clock.now += 1
    assert control.find_login(cookie) is None
    _, other = control.add_login("ada")
    control.end_login(other)
    assert control.find_login(other) is None


def test_no_secret_is_in_the_file(folder: Path) -> None:
    path = folder / "control.sqlite"
    with open_control(path) as control:
        add_ada(control)
        secrets = [control.add_token("ada", "a", by="ada")[1], control.add_login("ada")[1], control.add_link("ada", by="x")]
        control.use_link(secrets[2])
    connection = sqlite3.connect(path)
    stored = "\n".join(connection.iterdump())
    connection.close()
    files = b"".join(each.read_bytes() for each in folder.iterdir())
    for secret in secrets:
        assert secret not in stored
        assert secret.encode() not in files
        assert secret.removeprefix("dsc_").encode() not in files


@pytest.mark.parametrize("id", ["Ada", "a:b", "a/b", "", "-ada", "a" * 41, "ada\n", "ü"])
def test_an_id_that_is_part_of_other_names_is_refused(control: Control, id: str) -> None:
    """Wherever it comes from: a page, the command line or a provider."""
    with pytest.raises(BadParameter, match="small letters"):
        control.add_person(Person(id=id, name="A", role=Role.ANALYST))


@pytest.mark.parametrize("id", ["publication", "worker", "oidc", "service"])
def test_nobody_has_the_name_of_a_part_of_the_service(control: Control, id: str) -> None:
    """The mutant adds a person called `publication`, whose asks have the debit ids of publications."""
    with pytest.raises(PersonExists):
        control.add_person(Person(id=id, name="A", role=Role.ANALYST))
