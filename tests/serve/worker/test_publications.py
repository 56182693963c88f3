"""Publications that a worker takes: what was quoted, by somebody who may still ask, from the account that was meant."""

import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from threading import Semaphore
from typing import Any

import msgspec
import pytest

from discreet.ledger.entries import Debit
from discreet.remote.wire import to_problem
from discreet.serve.control.errors import StateChanged
from discreet.serve.control.model import AskState, Grant, Job, Person, Publication, PublicationState, Role
from discreet.serve.rounding import round_snapshot
from discreet.serve.worker.publications import Publisher
from discreet.serve.worker.refusals import CHANGED
from discreet.serve.worker.worker import SIDE_KINDS
from tests.support.hand_clock import PATIENCE, at
from tests.support.served_tables import Service, configure, start_by_hand, start_service, write_table

PLAN = """title = "Pay"
[budget]
epsilon = 0.2
[questions.pay]
sql = "SELECT SUM(pay) AS total FROM people"
"""
PEOPLE = ("ada", "bob", "eve", "kim", "lou", "max")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("publications")
    write_table(folder / "data")
    with start_service(configure(folder / "data", classes=()), *PEOPLE) as running:
        yield running


def run(service: Service, publication: Publication) -> Publication:
    """Return a publication that a worker has ended."""
    service.wait_for_job("publication", publication.id, {"step": "publish"})
    found = service.control.find_publication(publication.id)
    assert found is not None
    return found


def list_debits(service: Service, account: str) -> list[Debit]:
    """Return what an account or one below it paid."""
    return [each for each in service.list_entries(Debit) if f"{each.account}/".startswith(f"{account}/")]


def test_a_policy_that_was_changed_after_the_quote_is_refused(service: Service) -> None:
    """The mutant publishes under the wide policy: a steward approved less noise and less ε."""
    approved = service.add_publication(PLAN)
    policy = service.config.tables["people"].policy
    narrow = policy.read_text()
    policy.write_text(narrow.replace("upper = 100", "upper = 1000"))
    service.worker.tables.open_table("people")
    refused = run(service, approved)
    assert (refused.state, refused.problem) == (PublicationState.FAILED, to_problem(CHANGED))
    unquoted = service.add_publication(PLAN)
    service.control.change_publication(unquoted.id, unquoted.state, unquoted.state, quote=None)
    assert run(service, unquoted).problem == to_problem(CHANGED)
    assert not list_debits(service, "data/ada")
    policy.write_text(narrow)
    service.worker.tables.open_table("people")


def test_a_quote_is_written_once(service: Service) -> None:
    """A job may run twice: what stewards approve is what they saw."""
    quoted = service.add_publication(PLAN)
    assert quoted.quote is not None
    service.control.change_publication(quoted.id, quoted.state, PublicationState.APPROVAL)
    assert service.control.quote_publication(quoted.id, {"cost": {}}) == quoted.quote
    assert service.wait_for_job("publication", quoted.id, {"step": "quote"}).result == {"quote": quoted.quote}
    service.control.change_publication(quoted.id, PublicationState.APPROVAL, PublicationState.APPROVAL, quote=None)
    with pytest.raises(StateChanged, match="not quoted yet"):
        service.control.approve_publication(quoted.id, "sam")
    service.control.change_publication(quoted.id, PublicationState.APPROVAL, PublicationState.RUNNING)
    with pytest.raises(StateChanged):
        service.control.quote_publication(quoted.id, {"cost": {}})


CHANGES: dict[str, Callable[[Service], Any]] = {
    "bob": lambda service: service.control.change_person("bob", disabled=True),
    "eve": lambda service: service.control.change_person("eve", role=Role.READER),
    "kim": lambda service: service.control.pause_account("data/kim", "suspected"),
    "lou": lambda service: service.control.remove_grant("lou", "people"),
    "max": lambda service: [service.control.revoke_token(each.id) for each in service.control.list_tokens("max")],
}


@pytest.mark.parametrize("person", CHANGES)
def test_who_may_not_ask_any_more_gets_neither_an_answer_nor_a_publication(service: Service, person: str) -> None:
    token = service.control.add_token(person, "notebook")[0].id if person == "max" else None
    approved = service.add_publication(PLAN, person, token=token)
    ask = msgspec.structs.replace(service.make_ask(person), token=token)
    CHANGES[person](service)
    assert run(service, approved).state is PublicationState.FAILED
    assert service.wait(service.control.add_ask(ask)).state is AskState.REFUSED
    assert not list_debits(service, f"data/{person}")


def test_what_a_token_with_a_ration_proposed_is_charged_to_its_ration(service: Service) -> None:
    """The mutant charges the person: a token for ε = 0.15 spends 0.2."""
    ration = "data/ada/token-1"
    service.worker.tables.open_account(ration, "data/ada", Fraction(15, 100))
    before = list_debits(service, "data/ada")
    assert run(service, service.add_publication(PLAN, account=ration)).state is PublicationState.FAILED
    assert list_debits(service, "data/ada") == before
    small = PLAN.replace("0.2", "0.1")
    assert run(service, service.add_publication(small, account=ration)).state is PublicationState.PUBLISHED
    assert [each.account for each in list_debits(service, "data/ada")[len(before) :]] == [ration]


@pytest.mark.parametrize("account", ["data", "data/adam", "data/bob"])
def test_an_account_that_is_not_below_the_grants_pays_nothing(service: Service, account: str) -> None:
    quoted = service.add_publication(PLAN)
    moved = service.control.change_publication(quoted.id, quoted.state, quoted.state, account=account)
    assert run(service, moved).state is PublicationState.FAILED
    assert not [each for each in service.list_entries(Debit) if each.account == account]


def test_other_jobs_take_no_slot_of_an_ask(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant with common slots answers nobody while publications or attacks of the lab wait."""
    go, begun = threading.Event(), Semaphore(0)

    def block(_: Job) -> dict[str, Any]:
        begun.release()
        go.wait(PATIENCE)
        return {}

    kinds = service.worker.jobs._kinds
    assert sorted(each for group in SIDE_KINDS for each in group) == sorted(kinds)
    for kind in ("publication", "lab_attack", "ledger_check"):
        monkeypatch.setitem(kinds, kind, block)
    jobs = [
        service.control.enqueue(kind, str(i)) for i in range(4) for kind in ("publication", "lab_attack", "ledger_check")
    ]
    try:
        for _ in range(2):
            assert begun.acquire(timeout=PATIENCE)
        assert service.wait(service.ask("ada", epsilon="0.03")).state is AskState.ANSWERED
        assert service.wait_for_job("open_account", "data/ada", {"parent": "data"}).state == "done"
        assert not begun.acquire(timeout=0)  # one publication and one attack run, and no more
        assert service.control.count_slots() == service.worker.settings.slots
    finally:
        go.set()
    assert {service.wait_until_ended(job).state for job in jobs} == {"done"}


@pytest.mark.parametrize("ration", [None, Fraction(29, 10)])
def test_no_refusal_of_a_publication_tells_the_exact_balance_of_the_root(tmp_path: Path, ration: Fraction | None) -> None:
    """The mutant shows what the ledger says: cost and rest of the root, which others spent from, to all digits."""
    said, near = list[list[str]](), ""
    for spent in ("1.5", "1.502"):
        (tmp_path / spent).mkdir()
        write_table(tmp_path / spent / "data")
        with start_service(configure(tmp_path / spent / "data", classes=()), "bob") as service:
            service.control.add_person(Person(id="ada", name="Ada", role=Role.ANALYST))
            service.worker.tables.open_account("data/ada", "data", ration)
            service.control.add_grant(Grant(person="ada", table="people", account="data/ada", created=0, by="sam"))
            assert service.wait(service.ask("bob", epsilon=spent)).state is AskState.ANSWERED
            root = service.control.find_snapshot("data")
            assert root is not None
            exact, shown = (each.budget.fitting_epsilon(Fraction(each.delta)) for each in (root, round_snapshot(root)))
            near = near or f"{float((exact + shown) / 2):.6f}"  # what remains allows it, and what is shown does not
            assert shown < Fraction(near) < exact or said
            texts = []
            for epsilon in ("2.8", near):
                approved = service.add_publication(PLAN.replace("0.2", epsilon))
                problem = run(service, approved).problem
                assert problem is not None
                assert problem["error"] == "BudgetExceeded"
                quote = {name: each for name, each in (approved.quote or {}).items() if name != "measurement"}
                texts.append(str((quote, problem)))
            said.append(texts)
            assert not list_debits(service, "data/ada")
    assert said[0] == said[1]


def test_asks_without_a_class_take_no_slot_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant with common slots answers no ask that has a class while students flood the table of their class."""
    write_table(tmp_path / "data")
    go = threading.Event()
    with start_by_hand(configure(tmp_path / "data", classes=(1.0, 5.0)), "ada", "bob") as running:
        run_job = running.worker.jobs.run

        def block(job: Job) -> None:
            if job.payload:
                go.wait(PATIENCE)
            run_job(job)

        monkeypatch.setattr(running.worker.jobs, "run", block)
        try:
            flood = [
                running.control.add_ask(
                    msgspec.structs.replace(running.make_ask("bob", epsilon=f"0.01{i}"), class_seconds=None, release_at=None)
                )
                for i in range(6)
            ]
            assert running.wait(running.ask("ada", epsilon="0.03")).state is AskState.ANSWERED
            assert sum(running.find(each).state is AskState.RUNNING for each in flood) <= 1
        finally:
            go.set()
        assert {running.wait(each).state for each in flood} == {AskState.ANSWERED}


def test_a_publication_that_overruns_its_class_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant shows it at a later class, which tells about the rows, as often as somebody likes."""
    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data", classes=(0.3, 60.0)), "ada") as running:
        write = Publisher._write

        def write_late(self: Publisher, *given: Any) -> Any:
            running.set_time(running.clock.now() + 0.4)
            return write(self, *given)

        for seconds, overruns in ((0.3, []), (60.0, [1])):
            approved, start = running.add_publication(PLAN.replace("0.2", f"0.2{len(overruns)}")), running.clock.now()
            job = running.control.enqueue("publication", approved.id, {"step": "publish"})
            end = running.hand.find_wait(running.worker.jobs.is_stopping)
            assert end == at(start + seconds)
            running.set_time(end)
            assert running.wait_until_ended(job).state == "done"
            assert [each.times for each in running.control.list_overruns().values()] == overruns
            monkeypatch.setattr(Publisher, "_write", write_late)


def test_asks_go_between_the_queries_of_a_publication(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant holds the engine from the first query to the last."""
    many = "".join(f'[questions.q{i}]\nsql = "SELECT COUNT(*) AS n FROM people WHERE pay > {i}"\n' for i in range(6))
    approved = service.add_publication('title = "Many"\n[budget]\nepsilon = 0.1\n' + many)
    waits = list[float]()
    monkeypatch.setattr(Publisher, "_give_way", lambda self, share: waits.append(share))
    assert run(service, approved).state is PublicationState.PUBLISHED
    assert len(waits) == 6
