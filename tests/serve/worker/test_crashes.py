"""Workers that are killed: no free answer, no lost or double debit, and every ask ends with the answer that is recorded."""

from pathlib import Path

import pytest

from discreet.ledger.check import check_ledger
from discreet.ledger.entries import AnswerRecorded, Debit
from discreet.serve.control.model import AskState
from discreet.serve.schedule import MAX_OVERRUNS
from tests.support.killed_workers import CLASSES, kill_at_random
from tests.support.served_tables import Service, configure, start_service, write_table


def run_campaign(folder: Path, asks: int, kills: int, seed: int) -> None:
    write_table(folder)
    config = configure(folder, classes=CLASSES)
    people = [f"person{i}" for i in range(asks)]  # one each: an account is paused after three overruns
    with start_service(config, *people):
        pass
    service = Service(config)
    queued = [service.ask(person, epsilon=f"0.0{10 + i}", key="same") for i, person in enumerate(people)]
    killed = kill_at_random(folder, service, queued, kills, seed)
    assert killed == kills, "the kills came too late to matter"
    ended = [service.find(ask) for ask in queued]
    service.worker.tables.open()
    ledger = service.worker.tables.ledger
    debits, answers = service.list_entries(Debit), service.list_entries(AnswerRecorded)
    assert [each.state for each in ended] == [AskState.ANSWERED] * asks
    assert check_ledger(ledger).is_valid
    assert sorted(each.id for each in debits) == sorted(ask.debit_id for ask in queued)  # each once
    recorded = {each.debit: each.answer for each in answers}
    assert len(answers) == len(recorded) == asks
    for each in ended:
        assert each.answer is not None
        entry = each.answer["reference"]["entry"]
        (debit,) = [debit for debit in debits if debit.number == entry]
        assert debit.id == each.debit_id
        assert debit.measurement == each.measurement
        assert recorded[entry].count(b"rows") >= 1
        from msgspec.json import decode

        assert decode(recorded[entry])["rows"] == each.answer["record"]["rows"]  # what is shown is what is recorded
    root = ledger.get_account("data").state.budget
    assert root.spent == sum(each.cost for each in debits)
    ledger.close()
    service.control.close()


def test_killed_workers_lose_nothing(tmp_path: Path) -> None:
    assert MAX_OVERRUNS == 3
    run_campaign(tmp_path / "data", asks=40, kills=3, seed=1)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_many_killed_workers_lose_nothing(tmp_path: Path, seed: int) -> None:
    run_campaign(tmp_path / "data", asks=80, kills=12, seed=seed)
