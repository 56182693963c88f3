"""A web process that was taken over writes what it likes into the control database. It can ask in people's names; it cannot
pass the root of a population, measure what was not quoted, or find out when an answer was ready."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from discreet.errors import EngineFailed
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import Debit, FailureRecorded
from discreet.ledger.verify import verify
from discreet.serve.config import PopulationConfig
from discreet.serve.control.base import new_id
from discreet.serve.control.model import Ask, AskState, HeadSeen, Publication, PublicationState
from discreet.serve.quoting import Target
from discreet.serve.worker.refusals import CONSTANT_FAILURE
from tests.support.hand_clock import PATIENCE, at, wait_until
from tests.support.served_tables import COUNT, Service, configure, start_by_hand, write_table

RICH = "visitors"
PLAN = """title = "Heads"
[budget]
epsilon = 5
[questions.heads]
sql = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A table whose population has ε = 0.1, beside a population without tables that has ε = 50."""
    write_table(tmp_path / "data")
    config = configure(tmp_path / "data", classes=(0.6, 1.2), epsilon=Fraction(1, 10))
    populations = dict(config.populations) | {RICH: PopulationConfig(name=RICH, epsilon=Fraction(50))}
    with start_by_hand(replace(config, populations=populations), "ada", "bob") as running:
        running.worker.tables.open_account(f"{RICH}/ada", RICH, None)
        yield running


def forge(service: Service, epsilon: str, account: str, **fields: Any) -> Ask:
    """Return an ask that is quoted honestly for an account that no grant names."""
    lineage, name = [], account
    while name:
        snapshot = service.control.find_snapshot(name)
        assert snapshot is not None
        lineage.append(snapshot)
        name = snapshot.parent or ""
    entry = service.control.find_table("people")
    assert entry is not None
    query = COUNT.format(name="people")
    priced = service.quoter.price(entry, lineage, query, Target(epsilon=epsilon))
    ask = service.make_ask()
    return msgspec.structs.replace(
        ask, account=account, root=lineage[-1].account, epsilon=str(priced.epsilon), measurement=priced.hash, **fields
    )


def test_an_account_of_another_population_pays_for_nothing(service: Service) -> None:
    refused = service.wait(service.control.add_ask(forge(service, "5", f"{RICH}/ada")))
    assert refused.state is AskState.REFUSED
    assert "another population" in str(refused.reason)
    assert not service.list_entries(Debit)
    grant = service.control.find_grant("ada", "people")
    assert grant is not None
    service.control.add_grant(msgspec.structs.replace(grant, account=f"{RICH}/ada"))
    heads = Publication(
        id=new_id(), title="Heads", table="people", plan=PLAN, by="ada", state=PublicationState.RUNNING, created=0.0
    )
    service.control.add_publication(heads)
    assert service.wait_for_job("publication", heads.id, {"step": "publish"}).state == "failed"
    assert not service.list_entries(Debit)


def test_the_root_caps_asks_in_everybodys_name(service: Service) -> None:
    """Also asks from the root itself, from accounts that the attacker had opened, and with new noise each time."""
    opened = [f"data/ghost{i}" for i in range(3)]
    for name in opened:
        assert service.wait_for_job("open_account", name, {"parent": "data", "epsilon": "1000"}).state == "failed"
        assert service.wait_for_job("open_account", name, {"parent": "data"}).state == "done"
    asks = []
    for i in range(4):
        for account in ("data", "data/bob", *opened):
            options = msgspec.structs.replace(service.make_ask().options, fresh=True)
            asks.append(service.control.add_ask(forge(service, f"0.05{i}", account, options=options)))
    states = {service.wait(ask).state for ask in asks}
    assert states == {AskState.ANSWERED, AskState.REFUSED}
    root = service.worker.tables.ledger.get_account("data").state.budget
    assert 0 < root.spent <= root.limit
    assert root.spent == sum(each.cost for each in service.list_entries(Debit))
    assert check_ledger(service.worker.tables.ledger).is_valid


def test_no_class_or_moment_of_the_attackers_is_kept(service: Service) -> None:
    """The class of a query is the worker's own, whatever the ask or the registered table says."""
    entry = service.control.find_table("people")
    assert entry is not None
    forged: list[dict[str, Any]] = [  # moments are counted from when the ask is made
        {"class_seconds": 1e-6, "release_at": 1e-6}, {"class_seconds": None, "release_at": None},
        {"class_seconds": 0.6, "release_at": 0.06}, {"class_seconds": 1e-6, "release_at": -99.0},
        {"class_seconds": 1e-6, "release_at": 1e-6, "overruns": 1},
    ]  # fmt: skip
    for table in (entry, msgspec.structs.replace(entry, classes=()), msgspec.structs.replace(entry, classes=(1e-6,))):
        for i, change in enumerate(forged):
            service.control.register_table(entry)
            ask = service.make_ask(epsilon=f"0.01{i}{len(table.classes)}{int(table is entry)}")
            service.control.register_table(table)
            start = service.clock.now()
            moment = None if change["release_at"] is None else start + change["release_at"]
            sent = msgspec.structs.replace(ask, **(change | {"release_at": moment}))
            service.control.add_ask(sent)
            service.wait_until_ready(sent)
            service.set_time(start + 0.59)
            assert service.find(sent).state is AskState.RUNNING, (change, table.classes)
            assert service.wait(sent).state is AskState.ANSWERED
            assert service.clock.now() >= start + 0.6, (change, table.classes)
        if table is entry:
            forged = forged[:2]


def test_a_forged_answer_gets_no_certificate(service: Service) -> None:
    """The worker signs what the ledger recorded, or nothing."""
    answered = service.wait(service.ask())
    assert answered.answer is not None
    signed = service.wait_for_job("certificate", answered.id).result["certificate"]
    assert verify(signed, ledger=service.worker.tables.ledger).is_valid
    lie = msgspec.json.decode(msgspec.json.encode(answered.answer))
    lie["record"]["rows"][0] = lie["record"]["rows"][1]
    other = msgspec.json.decode(msgspec.json.encode(lie))
    other["reference"]["measurement"]["label"] = "forged"
    for number, answer in enumerate((lie, other)):
        forged = msgspec.structs.replace(answered, id=new_id(), key=f"forged {number}", answer=answer)
        service.control.add_ask(forged)
        done = service.wait_for_job("certificate", forged.id)
        if answer is lie:
            assert done.result["certificate"] == signed
        else:
            assert done.state == "failed"


def test_jobs_of_no_kind_and_asks_without_a_grant_do_nothing(service: Service) -> None:
    service.control.enqueue("lift", "people")
    ask = service.make_ask()
    ghost = msgspec.structs.replace(ask, person="ghost")
    assert service.wait(service.control.add_ask(ghost)).state is AskState.REFUSED
    assert not service.list_entries(Debit)


# -- what the slots of a worker show --------------------------------------------------------------------------------------


@contextmanager
def fill_slots(folder: Path, classes: tuple[float, ...]) -> Iterator[tuple[Service, list[Ask], Callable[[], None]]]:
    """Fill both slots with asks whose rows take until the function that is given is called: it returns when both statements
    have ended. Also given is an ask that waits for a slot, and one that would be free and waits, too. No time passes."""
    folder.mkdir()
    write_table(folder / "data")
    go = Event()
    with start_by_hand(configure(folder / "data", classes=classes), "ada") as service:
        service.wait(service.ask(epsilon="0.01"))

        def block(original: Any, bounded: Any) -> Any:
            assert go.wait(PATIENCE)
            return original(bounded)

        def end() -> None:
            go.set()
            service.wait_until_ready(*running)

        service.change_engine(block)
        running = [service.ask(epsilon=f"0.02{i}") for i in range(2)]
        wait_until(lambda: all(service.find(each).state is AskState.RUNNING for each in running))
        waiting = [service.ask(epsilon="0.03"), service.ask(epsilon="0.01")]
        try:
            yield service, waiting, end
        finally:
            go.set()


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_free_answer_and_the_state_of_an_ask_do_not_tell_how_long_others_ran(tmp_path: Path, has_ended: bool) -> None:
    """A free question that a worker answers waits for a slot: without a fixed occupation it would time any query. Slots are
    kept for a share of the class, 0.7 s, whether their statements have ended or not: the mutant that keeps a slot until the
    statement has ended tells the two apart, and so does one that keeps it no longer."""
    with fill_slots(tmp_path / "filled", (2.8, 9.0)) as (service, [third, free], end):
        clock, start = service.hand, service.hand.now()
        if has_ended:
            end()
        wait_until(lambda: len(clock.list_waits()) == 2 or service.find(third).state is not AskState.WAITING)
        assert clock.list_waits() == at([start + 0.7] * 2)
        service.set_time(start + 0.69)
        assert [service.find(each).state for each in (third, free)] == [AskState.WAITING] * 2
        service.set_time(start + 0.7)
        wait_until(lambda: service.find(third).state is AskState.RUNNING and service.find(free).state.is_final)
        assert service.clock.now() == start + 0.7
        assert service.find(free).state is AskState.ANSWERED


def test_without_a_schedule_they_do(tmp_path: Path) -> None:
    """Slots are free, at no moment of the clock, when the statements have ended."""
    with fill_slots(tmp_path / "filled", ()) as (service, asks, end):
        start = service.clock.now()
        assert [service.find(each).state for each in asks] == [AskState.WAITING] * 2
        end()
        wait_until(lambda: all(service.find(each).state.is_final for each in asks))
        assert service.clock.now() == start


def test_a_publication_is_recorded_at_the_end_of_a_class(tmp_path: Path) -> None:
    """Neither the head of the ledger nor the state tells how long its rows took, or that the engine failed. An analyst who
    has an account opened again and again sees its head: it moves with the debit, and at the end of the class."""
    write_table(tmp_path / "data")

    def fail(original: Any, bounded: Any) -> Any:
        raise EngineFailed

    with start_by_hand(configure(tmp_path / "data", classes=(1.2, 4.0), epsilon=40), "ada") as service:

        def slow(original: Any, bounded: Any) -> Any:
            service.set_time(service.clock.now() + 0.4)
            return original(bounded)

        def look() -> tuple[PublicationState, HeadSeen | None]:
            service.worker.tables.open_account("data/ada", "data", None)
            found = service.control.find_publication(heads.id)
            assert found is not None
            return found.state, service.control.last_head()

        clock, stopping = service.hand, service.worker.jobs.is_stopping
        for epsilon, run in enumerate((lambda original, bounded: original(bounded), slow, fail), 1):
            service.change_engine(run)
            heads = service.add_publication(PLAN.replace("= 5", f"= {epsilon}"))
            start, before = clock.now(), look()
            job = service.control.enqueue("publication", heads.id, {"step": "publish"})
            wait_until(lambda: clock.list_waits(stopping) or look()[0] != PublicationState.RUNNING)
            paid = look()
            assert (paid[0], paid[1] == before[1]) == (PublicationState.RUNNING, False)
            assert clock.list_waits(stopping) == at([start + 1.2])
            service.set_time(start + 1.19)
            assert look() == paid
            service.set_time(start + 1.2)
            service.wait_until_ended(job)
            ended = look()
            assert (ended[0], ended[1] == paid[1]) == (
                PublicationState.FAILED if run is fail else PublicationState.PUBLISHED, False,
            )  # fmt: skip
            assert clock.now() == start + 1.2
        found = service.control.find_publication(heads.id)
        assert found is not None
        assert found.problem == CONSTANT_FAILURE
        assert len(service.list_entries(FailureRecorded)) == 1


def test_a_publication_that_fails_tells_it_at_the_end_of_a_class(tmp_path: Path) -> None:
    """Before, neither the ledger nor the fate of another ask tells that its query failed; and no other query reads rows."""
    runs: list[Any] = []

    def broken(original: Any, bounded: Any) -> Any:
        runs.append(bounded)
        raise EngineFailed

    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data", classes=(2.5, 9.0), epsilon=40), "ada", "bob") as service:
        service.change_engine(broken)
        heads = service.add_publication(PLAN)
        service.control.enqueue("publication", heads.id, {"step": "publish"})
        end = service.hand.find_wait(service.worker.jobs.is_stopping)
        service.set_time(service.clock.now() + 0.1)
        asked = service.ask("bob", epsilon="0.02")
        service.wait_until_ready(asked)
        service.set_time(end - 0.01)
        assert service.find(asked).state is AskState.RUNNING
        assert not service.list_entries(FailureRecorded)
        assert service.control.find_publication(heads.id) == heads
        service.set_time(end)
        wait_until(lambda: service.control.find_publication(heads.id) != heads)
        found = service.control.find_publication(heads.id)
        assert found is not None
        assert found.state is PublicationState.FAILED
        assert found.problem is not None
        assert found.problem["detail"] == str(EngineFailed())
        assert service.find(asked).state is AskState.RUNNING
        assert service.wait(asked).state is AskState.FAILED
        assert len(service.list_entries(FailureRecorded)) == len(runs) == 1
