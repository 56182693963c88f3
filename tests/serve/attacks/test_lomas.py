"""Four faults of an earlier service of this kind (it looked before it debited, failures were free, nobody capped the sum of
two analysts, and errors told who is in the table), each tried here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discreet.engines.base import OutOfResources
from discreet.errors import EngineFailed
from discreet.ledger.entries import Debit
from discreet.serve.control.model import Ask, AskState
from tests.support.served_tables import Service, configure, start_by_hand, write_table

ONE_ROW = "SELECT COUNT(*) AS n, SUM(pay) AS total FROM people WHERE id = {}"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    write_table(tmp_path / "data", rows=60)
    with start_by_hand(configure(tmp_path / "data", classes=(0.5, 2.0), epsilon=0.5), "ada", "bob") as running:
        yield running


def spent(service: Service, account: str = "data") -> Any:
    return service.worker.tables.ledger.get_account(account).state.budget.spent


def test_no_look_before_the_debit(service: Service) -> None:
    """When the engine reads the first row, the debit is in the ledger; a crash there leaves it."""
    seen: list[Any] = []

    def look(original: Any, bounded: Any) -> Any:
        seen.append((len(service.list_entries(Debit)), spent(service), spent(service, "data/ada")))
        return original(bounded)

    service.change_engine(look)
    assert service.wait(service.ask()).state is AskState.ANSWERED
    ((debits, root, own),) = seen
    assert debits == 1
    assert root == own == spent(service) > 0


def test_no_free_failure(service: Service) -> None:
    """A query that fails after its rows were read stays charged, whatever failed, and says the same sentence."""
    errors = iter((OutOfResources(), ZeroDivisionError("pay of Ada"), RuntimeError("no rows")))

    def fail(original: Any, bounded: Any) -> Any:
        original(bounded)
        raise next(errors)

    service.change_engine(fail)
    texts, charged = set(), [spent(service)]
    for number, person in enumerate(("ada", "bob")):
        failed = service.wait(service.ask(person, epsilon=f"0.0{number + 3}"))
        if failed.state is AskState.REFUSED:  # a failure of the engine closes the table until its owner has looked
            assert "cannot be queried" in str(failed.reason)
            continue
        assert failed.state is AskState.FAILED
        assert failed.problem is not None
        texts.add(failed.problem["detail"])
        charged.append(spent(service))
    assert texts == {str(EngineFailed())}
    assert charged == sorted(set(charged))
    assert len(charged) > 1


def test_no_sum_of_two_analysts_passes_the_cap(service: Service) -> None:
    """Each may spend the whole root; together they spend it once."""
    ended: list[Ask] = []
    for i in range(4):
        for j, person in enumerate(("ada", "bob")):
            ended.append(service.wait(service.ask(person, epsilon=f"0.2{i}{j}")))
    assert {each.state for each in ended} == {AskState.ANSWERED, AskState.REFUSED}
    root = service.worker.tables.ledger.get_account("data").state.budget
    assert root.spent <= root.limit
    own = [spent(service, f"data/{person}") for person in ("ada", "bob")]
    assert sum(own) == root.spent
    assert all(each < root.limit for each in own)


def test_no_membership_by_error(service: Service) -> None:
    """A question about one person is answered alike, and at the same moment, whether the person is in the table or not."""
    shapes = []
    for number, epsilon in ((7, "0.031"), (10**9, "0.032"), (8, "0.033"), (10**9 + 1, "0.034")):
        ask = service.ask(query=ONE_ROW.format(number), epsilon=epsilon)
        service.wait_until_ready(ask)
        service.set_time_of(ask, -1e-5)
        assert service.find(ask).state is AskState.RUNNING
        service.set_time_of(ask)
        ended = service.find(ask)
        assert ended.answer is not None
        assert ended.answered_at == ask.release_at == ask.accepted_at + 0.5
        record = ended.answer["record"]
        shapes.append((ended.state, ended.reason, ended.problem, ended.overruns, sorted(record), len(record["rows"])))
    assert shapes == [shapes[0]] * 4
    assert shapes[0][0] is AskState.ANSWERED
    check_declared_keys(service)


def check_declared_keys(service: Service) -> None:
    """Check that a group without a person is answered like the others."""
    absent = "SELECT dept, COUNT(*) AS n FROM people WHERE pay > 99 GROUP BY dept"
    empty = service.wait(service.ask("bob", query=absent, epsilon="0.035"))
    assert empty.answer is not None
    assert len(empty.answer["record"]["rows"]) == 2, "declared keys have rows, also where no person is"
