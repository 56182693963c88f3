"""What makes two measurements the same: all that decides what is measured, and nothing about the data."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from discreet.errors import BadParameter
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.entries import Debit
from discreet.session.connect import connect
from discreet.session.session import Session
from tests.support.ledger_sessions import open_session, read_spent

COUNT = "SELECT COUNT(*) AS n FROM people"
JOINED = "SELECT COUNT(*) AS n FROM people JOIN floors ON people.dept = floors.dept WHERE floor = 1"


def floors(floor: int) -> Any:
    return pa.table({"dept": ["a", "b"], "floor": [floor, 3 - floor]})


def open_moved(charged_folder: Path) -> Session:
    moved = charged_folder / "elsewhere" / "people.parquet"
    moved.parent.mkdir(exist_ok=True)
    moved.write_bytes((charged_folder / "people.parquet").read_bytes())
    return connect(moved, ledger=charged_folder / "hr.ledger", account="hr", unit="id", unique=True, keys={})


def open_salted(charged_folder: Path) -> Session:
    session = open_session(charged_folder, keys={}, bounds={})
    return replace(session, table=replace(session.table, salt="a salt of the owner's own"))


OTHERS = {
    "source": open_moved,
    "salt": open_salted,
    "bounds of a column that the query does not name": lambda folder: open_session(folder, keys={}, bounds={"pay": (0, 9)}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_all_that_decides_a_measurement_makes_it_another(charged_folder: Path, name: str) -> None:
    open_session(charged_folder, keys={}, bounds={}).ask(COUNT, epsilon=Fraction(1, 8))
    spent = read_spent(charged_folder)
    OTHERS[name](charged_folder).ask(COUNT, epsilon=Fraction(1, 8))
    assert read_spent(charged_folder) > spent


@pytest.mark.parametrize("other", [{"neighbours": "replace"}, {"unit": "dept", "unique": False}])
def test_an_account_has_one_privacy_unit_and_one_relation(charged_folder: Path, other: dict[str, Any]) -> None:
    """Replacing is removing one and adding one: a histogram that was charged under one relation costs twice under the other.
    So the sum of an account guarantees something for one kind of neighbours, and others are refused without a debit."""
    open_session(charged_folder, keys={}, bounds={}).ask(COUNT, epsilon=Fraction(1, 8))
    spent = read_spent(charged_folder)
    with pytest.raises(BadParameter, match=r"its debits are about \(id: add or remove one unit\)"):
        open_session(charged_folder, keys={}, bounds={}, **other).ask(COUNT, epsilon=Fraction(1, 8))
    assert read_spent(charged_folder) == spent
    open_session(charged_folder, keys={}, bounds={}).ask(COUNT, epsilon=Fraction(1, 8), fresh=True)


def test_a_debit_that_states_no_unit_counts_for_that_of_the_account(charged_folder: Path) -> None:
    ledger = open_ledger(charged_folder / "hr.ledger")
    hr, event = ledger.get_account("hr"), compose(Claim(Fraction(1, 9), Fraction(0)))
    hr.pay(event)
    open_session(charged_folder, keys={}, bounds={}).ask(COUNT, epsilon=Fraction(1, 8))
    hr.pay(event)
    debits = [entry.privacy_unit for entry in ledger.iter_entries() if isinstance(entry, Debit)]
    assert debits == ["", "id: add or remove one unit", "id: add or remove one unit"]
    assert check_ledger(ledger).is_valid


def test_another_public_table_is_another_measurement(charged_folder: Path) -> None:
    first = open_session(charged_folder, public={"floors": floors(1)}).ask(JOINED, epsilon=Fraction(1, 8))
    spent = read_spent(charged_folder)
    assert open_session(charged_folder, public={"floors": floors(1)}).ask(JOINED, epsilon=Fraction(1, 8)).rows == first.rows
    assert read_spent(charged_folder) == spent
    open_session(charged_folder, public={"floors": floors(2)}).ask(JOINED, epsilon=Fraction(1, 8))
    assert read_spent(charged_folder) > spent


def test_tables_of_one_name_have_several_identities(charged_folder: Path) -> None:
    """Another schema is another table; a temporary one equals no other."""
    with duckdb.connect(str(charged_folder / "x.duckdb")) as made:
        for schema in ("one", "two"):
            made.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.t AS SELECT 1 AS id")
        seen = []
        for schema in ("one", "two"):
            made.execute(f"USE {schema}")
            seen.append(connect(made, table="t", unit="id", epsilon=1).engine.identity)
        made.execute("CREATE TEMP TABLE t AS SELECT 2 AS id")
        seen.append(connect(made, table="t", unit="id", epsilon=1).engine.identity)
    assert len(set(seen)) == 3
    assert seen[2].startswith("in memory")
    assert all("x.duckdb" in identity for identity in seen[:2])


def test_the_names_of_a_file_and_a_schema_do_not_run_together(charged_folder: Path) -> None:
    seen = []
    for file, schema in (("x.duckdb", "y.duckdb z"), ("x.duckdb y.duckdb", "z")):
        with duckdb.connect(str(charged_folder / file)) as made:
            made.execute(f'CREATE SCHEMA "{schema}"; CREATE TABLE "{schema}".t AS SELECT 1 AS id; USE "{schema}"')
            seen.append(connect(made, table="t", unit="id", epsilon=1).engine.identity)
    assert len(set(seen)) == 2


class Rival:
    """An engine during whose run another session asks the same query."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session, self.folder, self.rows = session, folder, None
        self.origins = session.engine.origins
        self.identity, self.lock, self.progress = session.engine.identity, session.engine.lock, session.engine.progress

    def run(self, bounded: Any) -> Any:
        self.rows = open_session(self.folder).ask(COUNT, epsilon=Fraction(1, 8)).rows
        return self.session.engine.run(bounded)


def test_the_second_of_two_sessions_shows_the_answer_of_the_first(charged_folder: Path) -> None:
    """One debit, one answer; the second draw is discarded."""
    for _ in range(5):  # two draws of this noise agree with probability below 1/10; five pairs below 1e-4, and all must
        charged_folder.joinpath("hr.ledger").unlink()
        with open_ledger(charged_folder / "hr.ledger", create=True) as ledger:
            ledger.open_account("hr", 2, 1e-6)
        session = open_session(charged_folder)
        rival = Rival(session, charged_folder)
        shown = replace(session, engine=rival).ask(COUNT, epsilon=Fraction(1, 8))  # type: ignore[arg-type]
        assert shown.rows == rival.rows
        with open_ledger(charged_folder / "hr.ledger") as ledger:
            assert ledger.get_account("hr").state.debits == 1


def test_the_delta_that_a_child_spends_is_its_parents_too(charged_folder: Path) -> None:
    with open_ledger(charged_folder / "family", create=True) as ledger:
        ledger.open_account("all", 2, 1e-6)
        ledger.open_account("one", 1, 1e-6, parent="all")
    session = connect(
        charged_folder / "people.parquet", ledger=charged_folder / "family", account="one", unit="id", unique=True
    )
    session.ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=Fraction(1, 2))
    with open_ledger(charged_folder / "family") as ledger:
        child, parent = (ledger.get_account(name).budget for name in ("one", "all"))
    assert parent.delta_spent == child.delta_spent > 0
    assert parent.spent == child.spent > 0
