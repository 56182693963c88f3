"""A web application over a control database in a file, with people, a table and a worker that the test drives by hand."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from discreet.ledger.account import AccountState
from discreet.remote.wire import answer_to_wire
from discreet.serve.control.model import (
    AskState,
    Grant,
    Person,
    Population,
    Role,
    Rules,
    Scope,
    Snapshot,
    TableEntry,
    Token,
)
from discreet.serve.control.store import Control, open_control
from discreet.serve.web.app import create_app
from discreet.serve.web.settings import WebSettings
from discreet.serve.web.signing_in import Caller
from discreet.serve.web.stewardship import Stewardship
from discreet.session.connect import connect
from tests.support.policies import make_policy

ADDRESS = "http://127.0.0.1:8765"
QUERY = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
POLICY = make_policy(keys=("a", "b"), city=True)
OPEN = WebSettings(ADDRESS, quotes_per_second=None, asks_per_hour=None, max_waiting=None, pages=False)
"""Settings without limits."""


class Client:
    """Sends requests into an application, without a socket, from ordinary code."""

    def __init__(self, app: FastAPI, token: str | None = None, address: str = ADDRESS) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=address, headers=headers, follow_redirects=False
        )

    def send(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Send a request and return its answer."""
        future = asyncio.run_coroutine_threadsafe(self.http.request(method, path, **given), self._loop)
        return future.result(60)

    def get(self, path: str, **given: Any) -> httpx.Response:
        """Send a GET."""
        return self.send("GET", path, **given)

    def post(self, path: str, **given: Any) -> httpx.Response:
        """Send a POST."""
        return self.send("POST", path, **given)

    def delete(self, path: str, **given: Any) -> httpx.Response:
        """Send a DELETE."""
        return self.send("DELETE", path, **given)

    def close(self) -> None:
        """End its event loop."""
        asyncio.run_coroutine_threadsafe(self.http.aclose(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Service:
    """A control database with Ada (an analyst), Bob (one without a grant), Sam (a steward) and Rea (a reader), and its
    application."""

    def __init__(self, control: Control, settings: WebSettings = OPEN, **given: Any) -> None:
        self.control, self.settings = control, settings
        self.tokens: dict[str, str] = {}
        self.clients: list[Client] = []
        for name, role in (("ada", Role.ANALYST), ("bob", Role.ANALYST), ("sam", Role.STEWARD), ("rea", Role.READER)):
            self.add_person(name, role)
        root = AccountState.open("employees", 3, 1e-9)
        self.accounts = [root, AccountState.open("employees/ada", 3, 1e-9, root.budget.currency, root)]
        control.save_population(
            Population(name="employees", account="employees", epsilon="3", delta="1/1000000000", currency="zcdp")
        )
        control.save_snapshots([Snapshot.of(each) for each in self.accounts])
        self.register()
        control.add_grant(Grant(person="ada", table="people", account="employees/ada", created=0, by="sam"))
        self.app = create_app(control, settings, **given)
        self.web = self.app.state.web

    def add_person(self, name: str, role: Role, scopes: tuple[Scope, ...] = tuple(Scope)) -> str:
        """Add a person with a token; a steward's has all scopes."""
        self.control.add_person(Person(id=name, name=name.title(), role=role))
        held = scopes if role is Role.STEWARD else tuple(each for each in scopes if each is not Scope.STEWARD)
        self.tokens[name] = self.control.add_token(name, "test", scopes=held)[1]
        return self.tokens[name]

    def make_token(self, person: str = "ada", **given: Any) -> tuple[Token, str]:
        """Make a token as a person does in the browser. Returns it and its secret."""
        found = self.control.find_person(person)
        assert found is not None
        wanted = {"label": "x", "scopes": (Scope.ASK, Scope.READ), "tables": None, "days": 90.0, "epsilon": None} | given
        return Stewardship(self.web).add_token(Caller(found), **wanted)

    def register(self, **fields: Any) -> TableEntry:
        """Register the table, with other fields than before."""
        values: dict[str, Any] = {
            "name": "people", "population": "employees", "policy": POLICY, "policy_hash": "0" * 64, "policy_version": 1,
            "identity": "serve:people", "neighbours": "add-remove", "rules": Rules(fresh=True),
        }  # fmt: skip
        entry = TableEntry(**(values | fields))
        self.control.register_table(entry)
        return entry

    def client(self, person: str | None = None, *, token: str | None = None, address: str = ADDRESS) -> Client:
        """Return a client with a person's token, or with none."""
        client = Client(self.app, token or (None if person is None else self.tokens[person]), address)
        self.clients.append(client)
        return client

    def answer(self, same: dict[str, Any] | None = None) -> int:
        """Answer the asks that wait, over four rows and from a budget of their own, or all with the `same` answer. Returns
        how many there were."""
        count = 0
        while (job := self.control.claim("test", kinds=["ask"], per_person=None)) is not None:
            found = self.control.find_ask(job.subject)
            assert found is not None
            epsilon, confidence = float(eval_rational(found.epsilon)), found.options.confidence
            answer = same or answer_query(found.query, epsilon, confidence=confidence)
            self.control.finish(job, to=AskState.ANSWERED, answer=answer, answered_at=found.accepted_at + 1)
            count += 1
        return count

    def ask(self, person: str = "ada", **given: Any) -> dict[str, Any]:
        """Ask as a person, have it answered, and return what the service says of it."""
        client = self.client(person, address=self.settings.address)
        taken = client.post("/api/v1/asks", json={"table": "people", "query": QUERY, "epsilon": 0.1} | given)
        assert taken.status_code in (200, 202), taken.text
        self.answer()
        shown: dict[str, Any] = client.get(f"/api/v1/asks/{taken.json()['id']}").json()
        return shown

    def close(self) -> None:
        """End everything."""
        for client in self.clients:
            client.close()
        self.web.close()


def eval_rational(text: str) -> float:
    """Return the number that a text such as "1/10" states."""
    top, _, bottom = text.partition("/")
    return int(top) / int(bottom or 1)


def answer_query(query: str, epsilon: float, **given: Any) -> dict[str, Any]:
    """Return an answer over four invented rows, as a worker stores it."""
    import pyarrow as pa

    rows = pa.table({"id": [1, 2, 3, 4], "dept": ["a", "a", "b", "b"], "city": ["x"] * 4, "pay": [1, 2, 3, 4]})
    policy = {"unit": "id", "unique": True, "keys": {"dept": ["a", "b"]}, "bounds": {"pay": (0, 100)}, "name": "people"}
    session = connect(rows, epsilon=1000, delta=1e-9, **policy)
    return answer_to_wire(session.ask(query, epsilon=epsilon, **given))


@contextmanager
def open_service(folder: Path, settings: WebSettings = OPEN, **given: Any) -> Iterator[Service]:
    """Open a service in a folder."""
    with open_control(folder / "control.db") as control:
        service = Service(control, settings, **given)
        try:
            yield service
        finally:
            service.close()
