"""What workers copy from the ledger into the control database: accounts as of one entry, and tables with public ones."""

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.errors import BadParameter
from discreet.events import Claim, compose
from discreet.serve.control.model import AskState
from discreet.serve.worker import registration
from tests.support.served_tables import Service, configure, start_service, write_table

JOINED = "SELECT depts.head, COUNT(*) AS n FROM people JOIN depts ON people.dept = depts.name GROUP BY depts.head"


def test_the_entry_of_a_snapshot_says_how_new_it_is(tmp_path: Path) -> None:
    """Two workers mirror while children of a root ask. Whatever order they write in, the root that is shown is the newest:
    what it has spent follows from its entry. The mutant reads head and accounts in two transactions."""
    write_table(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=(), epsilon=50), "ada", "bob") as service:
        ledger = service.worker.tables.ledger
        spent: dict[int, Fraction] = {}
        lock = threading.Lock()

        def pay(person: str) -> None:
            account = ledger.get_account(f"data/{person}")
            for _ in range(10):
                receipt = account.reserve(compose(Claim(Fraction(1, 100), Fraction(0))), measurement="m", fresh=True)
                with ledger.store.read_transaction() as transaction, lock:
                    assert transaction.read_head().number >= receipt.entry

        def mirror() -> None:
            for _ in range(20):
                service.worker.tables.mirror(ledger.get_account("data/ada"))
                snapshot = service.control.find_snapshot("data")
                assert snapshot is not None
                with lock:
                    assert spent.setdefault(snapshot.entry, snapshot.budget.spent) == snapshot.budget.spent

        threads = [threading.Thread(target=pay, args=(person,)) for person in ("ada", "bob")]
        threads += [threading.Thread(target=mirror) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        service.worker.tables.mirror()
        ordered = [spent[entry] for entry in sorted(spent)]
        assert ordered == sorted(ordered)
        final = service.control.find_snapshot("data")
        assert final is not None
        assert (final.entry, final.budget) == (ledger.head.number, ledger.get_account("data").state.budget)
        assert final.debits == 0  # a root does not count the debits of its children


def write_public(folder: Path) -> None:
    write_table(folder)
    (folder / "depts.txt").mkdir(exist_ok=True)
    (folder / "depts.txt" / "depts.csv").write_text("name,head\na,Ann\nb,Ben\n")
    policy = folder / "people.policy.toml"
    policy.write_text(policy.read_text() + '\n[public]\ndepts = "depts.txt/depts.csv"\n')


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    write_public(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=()), "ada") as running:
        yield running


def test_a_public_table_is_registered_and_joined(service: Service) -> None:
    """The measurement that the web quotes is the one that the worker finds, the rows of the public table included."""
    entry = service.control.find_table("people")
    assert entry is not None
    [public] = entry.public
    assert public["name"] == "depts"
    assert "depts.csv" not in str(public)  # no path
    assert service.quoter.read_table(entry).public["depts"].columns["head"].keys == ("Ann", "Ben")
    answered = service.wait(service.ask("ada", JOINED))
    assert answered.state is AskState.ANSWERED, answered.problem


def test_public_rows_that_changed_after_the_quote_are_noticed(service: Service) -> None:
    ask = service.make_ask("ada", JOINED)
    path = service.config.tables["people"].policy.parent / "depts.txt" / "depts.csv"
    path.write_text("name,head\na,Ann\nb,Bob\n")
    service.worker.tables.open_table("people")
    assert service.wait(service.control.add_ask(ask)).state is AskState.REFUSED
    assert service.wait(service.ask("ada", JOINED)).state is AskState.ANSWERED


def test_public_tables_with_too_many_keys_are_refused_when_a_table_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "MAX_PUBLIC_BYTES", 50)
    write_public(tmp_path / "data")
    with pytest.raises(BadParameter, match="public"), start_service(configure(tmp_path / "data")):
        raise AssertionError("it was served")
