"""A campaign against a service: clients ask while its processes are killed, and then the ledger is added up."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec.json import decode

from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AnswerRecorded, Debit
from discreet.query.answer import Answer
from discreet.remote.wire import answer_from_wire
from discreet.serve.config import ServiceConfig
from discreet.serve.control.model import AskState
from discreet.serve.control.store import open_control
from tests.support.served_tables import COUNT, configure, write_table
from tests.support.service_processes import Processes

CLASSES = (0.4, 2.0, 8.0, 60.0, 120.0)
CLIENTS = 8
EPSILON = 1000


@dataclass(frozen=True)
class Place:
    """Where control database and ledger are; None: files beside the table."""

    control: str | None = None
    ledger: str | None = None

    def configure(self, folder: Path) -> ServiceConfig:
        """Return the configuration of a service there, over one small table."""
        write_table(folder / "data")
        config = configure(folder / "data", classes=CLASSES, epsilon=EPSILON)
        return replace(config, control=self.control or config.control, ledger=self.ledger or config.ledger)


def run_campaign(
    folder: Path, asks: int, *, seed: int = 0, place: Place = Place(), every: int = 12, workers: int = 2,  # noqa: B008
    trouble: "Callable[[Processes], AbstractContextManager[None]]" = lambda _: nullcontext(),
) -> Processes:  # fmt: skip
    """Have clients ask while processes are killed; check that no answer is free, no debit is lost or made twice, and that
    every client has the answer that is recorded under its id."""
    people = [f"person{i}" for i in range(asks)]  # one each: an account is paused after three overruns
    processes = Processes(place.configure(folder), folder)
    processes.prepare(*people)
    answers: dict[str, Answer] = {}
    lock = threading.Lock()

    def ask(number: int) -> None:
        person = people[number]
        answer = processes.ask(person, COUNT.format(name="people"), epsilon=Fraction(number + 1000, 10_000), id="same")
        with lock:
            answers[person] = answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISCREET_CONFIG", str(folder / "config"))
        try:
            processes.start(1, workers)
            with (
                processes.killing(seed, lambda: len(answers), every),
                trouble(processes),
                ThreadPoolExecutor(CLIENTS) as clients,
            ):
                list(clients.map(ask, range(asks)))
        finally:
            processes.stop()
    check_books(processes.config, answers, "data")
    return processes


def check_books(config: ServiceConfig, answers: dict[str, Answer], root: str) -> None:
    """Compare what clients received with the ledger."""
    ledger = open_ledger(config.ledger)
    try:
        assert check_ledger(ledger).is_valid
        entries = list(ledger.iter_entries())
        debits = {each.id: each for each in entries if isinstance(each, Debit)}
        assert len(debits) == sum(isinstance(each, Debit) for each in entries), "a debit was made twice"
        assert debits.keys() == {f"{person}:same" for person in answers}, "a debit is lost, or an answer was free"
        recorded = {each.debit: each.answer for each in entries if isinstance(each, AnswerRecorded)}
        assert len(recorded) == sum(isinstance(each, AnswerRecorded) for each in entries)
        with open_control(config.control, create=False) as control:
            for person, answer in answers.items():
                debit = debits[f"{person}:same"]
                assert answer.reference is not None
                assert answer.reference.entry == debit.number
                ask = control.find_ask_by_key(person, "same")
                assert ask is not None
                assert ask.answer is not None
                assert ask.state is AskState.ANSWERED
                assert decode(recorded[debit.number])["rows"] == ask.answer["record"]["rows"]
                assert answer.records == answer_from_wire(ask.answer).records
        budget = ledger.get_account(root).state.budget
        assert budget.spent == sum(each.cost for each in debits.values())
    finally:
        ledger.close()
