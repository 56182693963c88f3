"""A service without a web process: a folder with tables, its control database, and a worker whose engines can be made slow
or fail. Asks are made as the web makes them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from threading import Event
from typing import Any

import msgspec

from discreet.remote.wire import answer_from_wire, cost_to_wire
from discreet.serve.config import ServiceConfig, read_folder
from discreet.serve.control.base import new_id
from discreet.serve.control.model import Ask, AskOptions, AskState, Grant, Job, Person, Publication, PublicationState, Role
from discreet.serve.control.store import Control, open_control
from discreet.serve.quoting import Quoter, Target
from discreet.serve.schedule import JumpFreeClock, choose_class
from discreet.serve.worker.delivery import Delivery, RunningAsk
from discreet.serve.worker.worker import Worker, WorkerSettings
from tests.support.hand_clock import HandClock, wait_until
from tests.support.policies import make_policy

COUNT = "SELECT dept, COUNT(*) AS n FROM {name} GROUP BY dept"
SETTINGS = WorkerSettings(slots=2, lease_seconds=3.0, idle_seconds=0.2, drain_seconds=2.0)
BY_HAND = replace(SETTINGS, lease_seconds=86_400.0, drain_seconds=0.1)
"""Where the test moves the clock: no lease ends because it did, and nothing that waits for a moment ends by itself."""


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


@dataclass(frozen=True, slots=True)
class WatchedDelivery(Delivery):
    """A delivery that says which asks are ready, and which statements that got their engine might begin."""

    ids: set[str] = field(default_factory=set)
    starts: list[bool] = field(default_factory=list)

    def ready(self, running: RunningAsk, deliver: Callable[[], None]) -> bool:
        """As in `Delivery`."""
        is_kept = Delivery.ready(self, running, deliver)
        self.ids.add(running.ask.id)
        return is_kept

    def may_start(self, running: RunningAsk) -> bool:
        """As in `Delivery`."""
        self.starts.append(Delivery.may_start(self, running))
        return self.starts[-1]


class Service:
    """A control database and a worker."""

    def __init__(
        self, config: ServiceConfig, settings: WorkerSettings = SETTINGS, clock: JumpFreeClock | None = None
    ) -> None:
        config.state.mkdir(exist_ok=True, mode=0o700)
        self.config, self.clock, self.quoter = config, clock or JumpFreeClock(), Quoter()
        self.control: Control = open_control(config.control, clock=self.clock.now)
        self.worker = Worker(config, self.control, self.clock, settings)
        given = self.worker.jobs.delivery
        delivery = WatchedDelivery(*(getattr(given, each.name) for each in fields(given)))
        self.worker.jobs.delivery, self.ready_ids, self.starts = delivery, delivery.ids, delivery.starts

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

    def wait(self, ask: Ask) -> Ask:
        """Return an ask that has ended. A clock that the test moves is set to its moment once it is ready, and to the next
        moment at which a slot is free while it waits for one."""
        wait_until(lambda: self.find(ask).state.is_final or self._move_on(ask), "the ask does not end")
        return self.find(ask)

    def _move_on(self, ask: Ask) -> bool:
        if isinstance(self.clock, HandClock):
            found = self.find(ask)
            if found.id in self.ready_ids and found.release_at is not None:
                self.set_time(found.release_at)
            elif found.state is AskState.WAITING and (waits := self.clock.list_waits()):
                self.set_time(waits[0])
        return self.find(ask).state.is_final

    def wait_until_ready(self, *asks: Ask) -> None:
        """Wait until the statements of asks have ended, well or not."""
        wait_until(lambda: {ask.id for ask in asks} <= self.ready_ids, "the statement does not end")

    @property
    def hand(self) -> HandClock:
        """The clock, which the test moves."""
        assert isinstance(self.clock, HandClock)
        return self.clock

    def set_time_of(self, ask: Ask, seconds: float = 0.0) -> None:
        """Set the clock to the moment that an ask was accepted for, or to so many seconds after it."""
        assert ask.release_at is not None
        self.set_time(ask.release_at + seconds)

    def set_time(self, moment: float) -> None:
        """Set the clock that the test moves, and return when everything that was due by then is done."""
        self.hand.set(moment)
        moments, is_due = self.worker.moments, True
        while is_due:  # what was due may make more due
            done = Event()
            moments.at(moment, done.set)
            wait_until(done.is_set, "what was due is not done")
            with moments._changed:
                is_due = any(each.moment <= moment for each in moments._entries)

    def wait_for_job(self, kind: str, subject: str, payload: dict[str, Any] | None = None) -> Any:
        """Run a job, and return it when it has ended."""
        return self.wait_until_ended(self.control.enqueue(kind, subject, payload))

    def wait_until_ended(self, job: Job) -> Job:
        """Return a job that has ended."""
        wait_until(lambda: self.find_job(job.id).state not in ("queued", "leased"), "the job does not end")
        return self.find_job(job.id)

    def find_job(self, id: str) -> Job:
        """Return a job as it is now."""
        found = self.control.find_job(id)
        assert found is not None
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
    config: ServiceConfig, *people: str, settings: WorkerSettings = SETTINGS, adopt: bool = False,
    clock: JumpFreeClock | None = None,
) -> Iterator[Service]:  # fmt: skip
    """Run a worker with these analysts of its first table."""
    service = Service(config, settings, clock)
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


def start_by_hand(config: ServiceConfig, *people: str, slots: int = 2) -> AbstractContextManager[Service]:
    """Run a worker with these analysts, whose clock the test moves."""
    return start_service(config, *people, settings=replace(BY_HAND, slots=slots), clock=HandClock())
