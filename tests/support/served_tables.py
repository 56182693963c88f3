"""A service without a web process: a folder with tables, its control database, and a worker whose engines can be made slow
or fail. Asks are made as the web makes them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from discreet.remote.wire import answer_from_wire, cost_to_wire
from discreet.serve.config import ServiceConfig, read_folder
from discreet.serve.control.base import new_id
from discreet.serve.control.model import Ask, AskOptions, AskState, Grant, Person, Publication, PublicationState, Role
from discreet.serve.control.store import Control, open_control
from discreet.serve.quoting import Quoter, Target
from discreet.serve.schedule import JumpFreeClock, choose_class
from discreet.serve.worker.worker import Worker, WorkerSettings
from tests.support.policies import make_policy

COUNT = "SELECT dept, COUNT(*) AS n FROM {name} GROUP BY dept"
SETTINGS = WorkerSettings(slots=2, lease_seconds=3.0, idle_seconds=0.2, drain_seconds=2.0)


def write_table(folder: Path, name: str = "people", rows: int = 60, pay: float = 50.0) -> None:
    """Write a table and its policy."""
    folder.mkdir(exist_ok=True)
    lines = [f"{i},{'ab'[i % 2]},{pay}" for i in range(rows)]
    (folder / f"{name}.csv").write_text("\n".join(["id,dept,pay", *lines]) + "\n")
    (folder / f"{name}.policy.toml").write_text(make_policy(name, keys=("a", "b"), pay="real"))


def configure(folder: Path, classes: tuple[float, ...] = (0.3, 0.8), epsilon: Any = 3) -> ServiceConfig:
    """Return the configuration of a folder with these classes."""
    config = read_folder(folder, epsilon=epsilon)
    state = folder.parent / f"state of {folder.name}"
    tables = {name: replace(each, classes=classes) for name, each in config.tables.items()}
    return replace(
        config, tables=tables, state=state, control=str(state / "control.sqlite"), ledger=str(state / "serve.ledger"),
        key=state / "serve.ledger.key",
    )  # fmt: skip


class Service:
    """A control database and a worker."""

    def __init__(self, config: ServiceConfig, settings: WorkerSettings = SETTINGS) -> None:
        config.state.mkdir(exist_ok=True, mode=0o700)
        self.config, self.clock, self.quoter = config, JumpFreeClock(), Quoter()
        self.control: Control = open_control(config.control, clock=self.clock.now)
        self.worker = Worker(config, self.control, self.clock, settings)

    def add_person(self, person: str, table: str = "people") -> None:
        """Add a person with a grant and an account; the worker must have started."""
        account = f"{self.config.tables[table].population}/{person}"
        self.worker.tables.open_account(account, self.config.tables[table].population, None)
        if self.control.find_person(person) is None:
            self.control.add_person(Person(id=person, name=person, role=Role.ANALYST))
        self.control.add_grant(Grant(person=person, table=table, account=account, created=self.clock.now(), by="test"))

    def make_ask(
        self, person: str = "ada", query: str | None = None, *, epsilon: str = "0.01", key: str | None = None,
        table: str = "people", **options: Any,
    ) -> Ask:  # fmt: skip
        """Return an ask as the web makes it."""
        entry, grant = self.control.find_table(table), self.control.find_grant(person, table)
        assert entry is not None
        assert grant is not None
        query = COUNT.format(name=table) if query is None else query
        lineage, name = [], grant.account
        while name:
            snapshot = self.control.find_snapshot(name)
            assert snapshot is not None
            lineage.append(snapshot)
            name = snapshot.parent or ""
        priced = self.quoter.price(entry, lineage, query, Target(epsilon=epsilon))
        seconds, now = choose_class(entry.classes, entry.seconds_per_pass, priced.calibrated.bounded), self.clock.now()
        return Ask(
            id=new_id(), key=key or new_id(), person=person, table=table, account=grant.account,
            root=lineage[-1].account, query=query, options=AskOptions(**options), epsilon=str(priced.epsilon),
            measurement=priced.hash, cost=cost_to_wire(priced.quote.cost), state=AskState.WAITING, accepted_at=now,
            class_seconds=seconds, release_at=None if seconds is None else now + seconds,
        )  # fmt: skip

    def ask(self, *given: Any, **options: Any) -> Ask:
        """Put an ask into the queue."""
        return self.control.add_ask(self.make_ask(*given, **options))

    def add_publication(self, plan: str, by: str = "ada", **fields: Any) -> Publication:
        """Add a publication that was quoted and approved."""
        id, state = new_id(), PublicationState.APPROVAL
        self.control.add_publication(
            Publication(id=id, title="Heads", table="people", plan=plan, by=by, state=state, created=0.0, **fields)
        )
        quoted = self.wait_for_job("publication", id, {"step": "quote"})
        assert quoted.state == "done", quoted.error
        return self.control.change_publication(id, state, PublicationState.RUNNING)

    def find(self, ask: Ask) -> Ask:
        """Return an ask as it is now."""
        found = self.control.find_ask(ask.id)
        assert found is not None
        return found

    def ask_at_once(self, *asks: Ask) -> list[Ask]:
        """Put asks into the queue that are accepted at one moment, now, however long it took to make them."""
        now, added = self.clock.now(), []
        with self.control.transaction():
            for each in asks:
                moment = None if each.class_seconds is None else now + each.class_seconds
                added.append(self.control.add_ask(msgspec.structs.replace(each, accepted_at=now, release_at=moment)))
        return added

    def watch_moment(self, ask: Ask) -> list[bool]:
        """Return a list that will say whether an ask has ended, once just before its moment and once just after: the thread
        of the worker that ends asks at their moments looks itself, so it does not depend on how busy the machine is."""
        seen: list[bool] = []
        assert ask.release_at is not None
        for moment in (ask.release_at - 1e-5, ask.release_at + 1e-5):
            self.worker.moments.at(moment, lambda: seen.append(self.find(ask).state.is_final))
        return seen

    def wait(self, ask: Ask, seconds: float = 20.0) -> Ask:
        """Return an ask that has ended."""
        deadline = time.monotonic() + seconds
        while not (found := self.find(ask)).state.is_final:
            assert time.monotonic() < deadline, f"still {found.state}"
            time.sleep(0.002)
        return found

    def wait_for_job(self, kind: str, subject: str, payload: dict[str, Any] | None = None) -> Any:
        """Run a job, and return it when it has ended."""
        job = self.control.enqueue(kind, subject, payload)
        deadline = time.monotonic() + 20
        while (found := self.control.find_job(job.id)) is None or found.state in ("queued", "leased"):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return found

    def change_engine(self, run: Callable[[Callable[[Any], Any], Any], Any], table: str = "people") -> None:
        """Let the engine of a table run a query through `run(original, bounded)`."""
        engine: Any = self.worker.tables._tables[table].source.engine
        original = engine.run
        engine.run = lambda bounded: run(original, bounded)

    def list_entries(self, kind: type) -> list[Any]:
        """Return the entries of the ledger of one kind."""
        return [entry for entry in self.worker.tables.ledger.iter_entries() if isinstance(entry, kind)]


def value_of(ask: Ask) -> list[Any]:
    """Return the rows of an answer."""
    assert ask.answer is not None
    return list(answer_from_wire(ask.answer).records)


@contextmanager
def start_service(
    config: ServiceConfig, *people: str, settings: WorkerSettings = SETTINGS, adopt: bool = False
) -> Iterator[Service]:
    """Run a worker with these analysts of its first table."""
    service = Service(config, settings)
    try:
        service.worker.start(adopt=adopt)
        try:
            for person in people:
                for table in config.tables:
                    service.add_person(person, table)
            yield service
        finally:
            service.worker.stop()
    finally:
        service.control.close()
