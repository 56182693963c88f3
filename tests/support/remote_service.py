"""A service in this process: the real web application, and a worker for tests only, over an account in memory with seeded
bits. A ledger refuses such bits, so no real worker could give these numbers."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from discreet.errors import DiscreetError, EngineFailed
from discreet.ledger.account import AccountState
from discreet.query.record import policy_hash
from discreet.query.schema import DEFAULT_SALT
from discreet.remote.client import RemoteSession, open_remote
from discreet.remote.wire import answer_to_wire, to_problem, write_public_policy
from discreet.serve.control.model import AskState, Grant, Job, Person, Population, Role, Rules, Scope, Snapshot, TableEntry
from discreet.serve.control.store import Control, open_control
from discreet.serve.web.app import create_app
from discreet.serve.web.settings import WebSettings
from discreet.session.session import Session
from discreet.testing import seeded_bits

ADDRESS = "http://127.0.0.1:8765"
SETTINGS = WebSettings(ADDRESS, quotes_per_second=None, asks_per_hour=None, max_waiting=None, pages=False)


class InProcess(httpx.BaseTransport):
    """Sends requests of ordinary code into an application, without a socket."""

    def __init__(self, app: FastAPI) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """As httpx calls it."""
        return asyncio.run_coroutine_threadsafe(self._handle(request), self._loop).result(60)

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        sent = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        response = await self._inner.handle_async_request(sent)
        return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

    def close(self) -> None:
        """End its event loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class SeededWorker:
    """Answers asks from one local session. The seed of an answer is the number of answers before it."""

    def __init__(self, control: Control, session: Session, rules: Rules) -> None:
        self.control, self.session, self.seed, self.heads = control, session, 0, 0
        assert session.table.salt == DEFAULT_SALT
        control.add_person(Person(id="ada", name="Ada", role=Role.ANALYST))
        self.token = control.add_token("ada", "test", scopes=(Scope.ASK, Scope.READ))[1]
        budget = session.account.budget
        population = Population(
            name="employees", account="employees", epsilon="1", delta=str(session.delta), currency=budget.currency.name
        )
        control.save_population(population)
        self.mirror()
        entry = TableEntry(
            name="people", population="employees", policy=write_public_policy(session.table), policy_version=1,
            policy_hash=policy_hash(session.table), identity=session.engine.identity, rules=rules,
            neighbours=session.neighbours.value, notes=session.notes,
        )  # fmt: skip
        control.register_table(entry)
        control.add_grant(Grant(person="ada", table="people", account="employees", created=0, by="sam"))
        control.set_setting("ledger_identity", "a" * 32)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def mirror(self) -> None:
        """Copy the account, and a head that grows with it."""
        self.heads += 1
        self.control.save_snapshots(
            [Snapshot.of(AccountState("employees", self.session.account.budget, self.session.delta))]
        )
        self.control.save_head(self.heads, f"{self.heads:064x}")

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join(10)

    def _work(self) -> None:
        while not self._stopped.is_set():
            job = self.control.claim("test", kinds=["ask"], per_person=None)
            if job is None:
                self._stopped.wait(0.01)
            else:
                self._answer(job)

    def _answer(self, job: Job) -> None:
        ask = self.control.find_ask(job.subject)
        assert ask is not None
        options = ask.options
        given: dict[str, Any] = (
            {} if options.weights is None else {"weights": {n: Fraction(w) for n, w in options.weights.items()}}
        )
        try:
            answer = self.session.ask(
                ask.query, epsilon=Fraction(ask.epsilon), confidence=options.confidence, simultaneous=options.simultaneous,
                fresh=options.fresh, id=ask.key, bits=seeded_bits(self.seed), **given,
            )  # fmt: skip
        except DiscreetError as error:
            state = AskState.FAILED if isinstance(error, EngineFailed) else AskState.REFUSED
            self.mirror()
            self.control.finish(job, to=state, problem=to_problem(error))
            return
        self.seed += 1
        self.mirror()
        self.control.finish(job, to=AskState.ANSWERED, answer=answer_to_wire(answer), answered_at=ask.accepted_at)


@contextmanager
def serve_session(
    session: Session,
    folder: Path,
    *,
    rules: Rules = Rules(fresh=True),  # noqa: B008 - frozen
) -> Iterator[tuple[RemoteSession, SeededWorker, httpx.Client]]:
    """Serve a local session, and open it as an analyst does."""
    with pytest.MonkeyPatch.context() as patch, open_control(folder / "control.db") as control:
        patch.setenv("DISCREET_CONFIG", str(folder / "config"))
        worker = SeededWorker(control, session, rules)
        app = create_app(control, SETTINGS)
        try:
            with httpx.Client(transport=InProcess(app)) as http:
                yield open_remote(f"{ADDRESS}/people", worker.token, http), worker, http
        finally:
            worker.stop()
            app.state.web.close()
