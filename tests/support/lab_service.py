"""A service with pages and a worker, for the lab: a steward called sam, a real table `people`, and clients with cookies."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from discreet.serve.control.model import Person, Role
from discreet.serve.web.app import create_app
from discreet.serve.web.settings import WebSettings
from tests.support.served_tables import Service, configure, start_service, write_table
from tests.support.web_service import ADDRESS, Client

PAGES = WebSettings(ADDRESS, quotes_per_second=None, asks_per_hour=None, max_waiting=None)


class Visitor:
    """A browser without scripts: it keeps cookies, and sends forms with the token of the page."""

    def __init__(self, lab: "LabService", person: str | None = None) -> None:
        self.lab, self.client = lab, Client(lab.app)
        lab.clients.append(self.client)
        if person is not None:
            _, secret = lab.service.control.add_login(person)
            self.client.http.cookies.set("discreet", secret)

    def get(self, path: str, **given: Any) -> httpx.Response:
        """Load a page."""
        return self.client.get(path, **given)

    def post(self, path: str, page: str | None = None, **fields: str) -> httpx.Response:
        """Send a form, with the token that the page with the form has."""
        token = re.search(r'name="form_token" value="([^"]*)"', self.get(page or path).text)
        data = {"form_token": token[1] if token else "", **fields}
        return self.client.post(path, data=data, headers={"Origin": ADDRESS})


class LabService:
    """A worker, its control database and the web application over it."""

    def __init__(self, service: Service) -> None:
        self.service, self.clients = service, list[Client]()
        self.control = service.control
        self.app = create_app(self.control, PAGES)
        self.control.add_person(Person(id="sam", name="Sam", role=Role.STEWARD))

    def visit(self, person: str | None = None) -> Visitor:
        """Return a browser, in which a person may be signed in."""
        return Visitor(self, person)

    def open_class(self, **fields: str) -> tuple[str, str]:
        """Open a class as Sam. Returns its name and its code, once its table is made."""
        visitor = self.visit("sam")
        made = visitor.post("/lab", **{"title": "Monday", **fields})
        assert made.status_code == 303, made.text
        name, code = made.headers["location"].rpartition("/")[2], find_secret(visitor.get(made.headers["location"]).text)
        assert code is not None
        wait_for(lambda: self.control.find_table(name) is not None)
        return name, code

    def join(self, code: str, name: str = "Zoë") -> tuple[Visitor, str]:
        """Join a class as a new student. Returns the browser and the student's id, once the account is open."""
        visitor = self.visit()
        response = visitor.post("/lab/join", code=code, name=name)
        assert response.status_code == 303, response.text
        table = response.headers["location"].rpartition("/")[2]
        grant = self.control.list_grants(table=table)[-1]
        newest = max(self.control.list_grants(table=table), key=lambda each: each.created)
        assert grant.table == newest.table
        wait_for(lambda: self.control.find_snapshot(newest.account) is not None)
        return visitor, newest.person


def find_secret(page: str) -> str | None:
    """Return what a page shows once, if it shows it."""
    found = re.search(r'class="secret">([^<]+)<', page)
    return None if found is None else found[1]


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@contextmanager
def open_lab(folder: Path) -> Iterator[LabService]:
    """Run a service with one real table."""
    write_table(folder / "data")
    with start_service(configure(folder / "data", classes=()), "ada") as service:
        lab = LabService(service)
        try:
            yield lab
        finally:
            for client in lab.clients:
                client.close()
            lab.app.state.web.close()
