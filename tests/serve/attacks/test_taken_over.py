"""A web process that was taken over writes what it likes into the control database. It can ask in people's names; it cannot
pass the root of a population, measure what was not quoted, or find out when an answer was ready."""

import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from discreet.errors import EngineFailed
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import Debit, FailureRecorded
from discreet.ledger.verify import verify
from discreet.serve.config import PopulationConfig
from discreet.serve.control.base import new_id
from discreet.serve.control.model import Ask, AskState, Publication, PublicationState
from discreet.serve.quoting import Target
from discreet.serve.worker.refusals import CONSTANT_FAILURE
from tests.support.served_tables import COUNT, Service, configure, start_service, write_table

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
    with start_service(replace(config, populations=populations), "ada", "bob") as running:
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
            answered = service.wait(service.control.add_ask(sent))
            assert answered.state is AskState.ANSWERED
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


def probe(folder: Path, classes: tuple[float, ...], seconds: float) -> tuple[float, float]:
    """Fill both slots with asks whose rows take `seconds`. Return when a free answer came and when a third ask began to
    run, as an analyst sees both, each from the ask on whose slot it waited."""
    folder.mkdir()
    write_table(folder / "data")
    with start_service(configure(folder / "data", classes=classes), "ada") as service:
        service.wait(service.ask(epsilon="0.01"))

        def slow(original: Any, bounded: Any) -> Any:
            time.sleep(seconds)
            return original(bounded)

        service.change_engine(slow)
        first, second = (service.ask(epsilon=f"0.02{i}").accepted_at for i in range(2))
        time.sleep(0.05)
        third, free = service.ask(epsilon="0.03"), service.ask(epsilon="0.01", confidence=0.9)
        while service.find(third).state is AskState.WAITING:
            time.sleep(0.002)
        began = service.clock.now() - first
        service.wait(free)
        return service.clock.now() - second, began


def test_a_free_answer_and_the_state_of_an_ask_do_not_tell_how_long_others_ran(tmp_path: Path) -> None:
    """A free question that a worker answers waits for a slot: without a fixed occupation it would time any query. So it is
    where a statement takes longer than the share of its class, 0.7 s, for which its slot is kept: the mutant that keeps the
    slot until the statement has ended tells the two apart."""
    times = [probe(tmp_path / f"{i}", (2.8, 9.0), seconds) for i, seconds in enumerate((0.0, 0.2, 0.9))]
    assert times[0] == pytest.approx(times[1], abs=0.15)
    assert times[0] == pytest.approx(times[2], abs=0.15)
    assert min(times[0]) > 0.65


def test_without_a_schedule_they_do(tmp_path: Path) -> None:
    quick, slow = probe(tmp_path / "quick", (), 0.0), probe(tmp_path / "slow", (), 0.4)
    assert slow[1] - quick[1] > 0.2


def watch_publication(service: Service, run: Any, epsilon: int) -> tuple[list[float], float, Publication]:
    """Publish with an engine that runs queries through `run`. Return when the head of the ledger moved, as an analyst sees
    it who has an account opened again and again, when the publication ended, and the publication, from the debit on."""
    service.change_engine(run)
    heads = service.add_publication(PLAN.replace("= 5", f"= {epsilon}"))
    before, moved, start = service.control.last_head(), list[float](), 0.0
    service.control.enqueue("publication", heads.id, {"step": "publish"})
    is_running = True
    while is_running:  # the state first, then the head: what ends a publication is written before its state
        found = service.control.find_publication(heads.id)
        assert found is not None
        is_running = found.state is PublicationState.RUNNING
        service.worker.tables.open_account("data/ada", "data", None)
        head = service.control.last_head()
        if head != before:
            start, before = start or time.monotonic(), head
            moved.append(time.monotonic() - start)
        time.sleep(0.01)
    return moved, time.monotonic() - start, found


def test_a_publication_is_recorded_at_the_end_of_a_class(tmp_path: Path) -> None:
    """Neither the head of the ledger nor the state tells how long its rows took, or that the engine failed."""
    write_table(tmp_path / "data")

    def fail(original: Any, bounded: Any) -> Any:
        raise EngineFailed

    def slow(original: Any, bounded: Any) -> Any:
        time.sleep(0.4)
        return original(bounded)

    with start_service(configure(tmp_path / "data", classes=(1.2, 4.0), epsilon=40), "ada") as service:
        times = []
        for epsilon, run in enumerate((lambda original, bounded: original(bounded), slow, fail), 1):
            moved, ended, found = watch_publication(service, run, epsilon)
            assert found.state is (PublicationState.FAILED if run is fail else PublicationState.PUBLISHED)
            assert len(moved) == 2  # the debit; the answers or the failure
            times.append(moved[1])
            assert ended > 1.0
        assert found.problem == CONSTANT_FAILURE
        assert times == pytest.approx([1.2] * 3, abs=0.2)  # less what was planned before the debit
        assert len(service.list_entries(FailureRecorded)) == 1


def test_a_publication_that_fails_tells_it_at_the_end_of_a_class(tmp_path: Path) -> None:
    """Before, neither the ledger nor the fate of another ask tells that its query failed; and no other query reads rows."""
    runs: list[float] = []

    def broken(original: Any, bounded: Any) -> Any:
        runs.append(time.monotonic())
        raise EngineFailed

    write_table(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=(2.5, 9.0), epsilon=40), "ada", "bob") as service:
        service.change_engine(broken)
        heads = service.add_publication(PLAN)
        service.control.enqueue("publication", heads.id, {"step": "publish"})
        while not runs:
            time.sleep(0.002)
        asked = service.ask("bob", epsilon="0.02")
        time.sleep(0.1)
        assert service.find(asked).state is AskState.RUNNING
        assert not service.list_entries(FailureRecorded)
        assert service.control.find_publication(heads.id) == heads
        assert time.monotonic() - runs[0] < 2.4, "the machine is too busy to look before the end of the class"
        assert service.wait(asked).state is AskState.FAILED
        while (found := service.control.find_publication(heads.id)) == heads:
            time.sleep(0.002)
        assert found is not None
        assert found.state is PublicationState.FAILED
        assert found.problem is not None
        assert found.problem["detail"] == str(EngineFailed())
        assert len(service.list_entries(FailureRecorded)) == len(runs) == 1
