"""What makes two questions the same: nothing less than all that decides what is measured, and nothing about the data."""

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
from tests.ledger.test_session import opened, place, spent

__all__ = ["place"]

QUESTION = "SELECT COUNT(*) AS n FROM people"
JOINED = "SELECT COUNT(*) AS n FROM people JOIN floors ON people.dept = floors.dept WHERE floor = 1"


def floors(floor: int) -> Any:
    return pa.table({"dept": ["a", "b"], "floor": [floor, 3 - floor]})


def moved(place: Path) -> Session:
    (place / "elsewhere").mkdir(exist_ok=True)
    (place / "elsewhere" / "people.parquet").write_bytes((place / "people.parquet").read_bytes())
    declared = {"unit": "id", "unique": True, "keys": {}}
    return connect(place / "elsewhere" / "people.parquet", ledger=place / "hr.ledger", account="hr", **declared)  # type: ignore[arg-type]


def salted(place: Path) -> Session:
    session = opened(place, keys={}, bounds={})
    return replace(session, table=replace(session.table, salt="a salt of the owner's own"))


OTHERS = {
    "source": moved,
    "salt": salted,
    "bounds of a column that is not asked about": lambda place: opened(place, keys={}, bounds={"pay": (0, 9)}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_decides_the_measurement_is_paid_for(place: Path, name: str) -> None:
    opened(place, keys={}, bounds={}).ask(QUESTION, epsilon=Fraction(1, 8))
    paid = spent(place)
    OTHERS[name](place).ask(QUESTION, epsilon=Fraction(1, 8))
    assert spent(place) > paid


@pytest.mark.parametrize("other", [{"neighbours": "replace"}, {"unit": "dept", "unique": False}])
def test_an_account_speaks_of_one_unit_and_one_change(place: Path, other: dict[str, Any]) -> None:
    """One removed and one added is two changes: a histogram paid for under the one costs twice under the other. So what an
    account has released together is promised about one kind of neighbours, and others are refused unpaid."""
    opened(place, keys={}, bounds={}).ask(QUESTION, epsilon=Fraction(1, 8))
    paid = spent(place)
    with pytest.raises(BadParameter, match=r"its debits are about \(id: add or remove one unit\)"):
        opened(place, keys={}, bounds={}, **other).ask(QUESTION, epsilon=Fraction(1, 8))
    assert spent(place) == paid
    opened(place, keys={}, bounds={}).ask(QUESTION, epsilon=Fraction(1, 8), fresh=True)


def test_a_debit_that_does_not_say_is_about_whom_the_account_speaks_of(place: Path) -> None:
    ledger = open_ledger(place / "hr.ledger")
    hr, loss = ledger.get_account("hr"), compose(Claim(Fraction(1, 9), Fraction(0)))
    hr.pay(loss)
    opened(place, keys={}, bounds={}).ask(QUESTION, epsilon=Fraction(1, 8))
    hr.pay(loss)
    debits = [entry.privacy_unit for entry in ledger.iter_entries() if isinstance(entry, Debit)]
    assert debits == ["", "id: add or remove one unit", "id: add or remove one unit"]
    assert check_ledger(ledger).is_valid


def test_another_public_table_is_another_question(place: Path) -> None:
    first = opened(place, public={"floors": floors(1)}).ask(JOINED, epsilon=Fraction(1, 8))
    paid = spent(place)
    assert opened(place, public={"floors": floors(1)}).ask(JOINED, epsilon=Fraction(1, 8)).rows == first.rows
    assert spent(place) == paid
    opened(place, public={"floors": floors(2)}).ask(JOINED, epsilon=Fraction(1, 8))
    assert spent(place) > paid


def test_tables_of_one_name_are_told_apart(place: Path) -> None:
    """Another schema is another table; a temporary one is like nothing else."""
    with duckdb.connect(str(place / "x.duckdb")) as made:
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


def test_a_file_and_a_schema_do_not_run_together(place: Path) -> None:
    seen = []
    for file, schema in (("x.duckdb", "y.duckdb z"), ("x.duckdb y.duckdb", "z")):
        with duckdb.connect(str(place / file)) as made:
            made.execute(f'CREATE SCHEMA "{schema}"; CREATE TABLE "{schema}".t AS SELECT 1 AS id; USE "{schema}"')
            seen.append(connect(made, table="t", unit="id", epsilon=1).engine.identity)
    assert len(set(seen)) == 2


class Rival:
    """An engine during whose work somebody else asks the same question."""

    def __init__(self, session: Session, place: Path) -> None:
        self.session, self.place, self.rows = session, place, None
        self.origins = session.engine.origins
        self.identity, self.lock, self.progress = session.engine.identity, session.engine.lock, session.engine.progress

    def run(self, bounded: Any) -> Any:
        self.rows = opened(self.place).ask(QUESTION, epsilon=Fraction(1, 8)).rows
        return self.session.engine.run(bounded)


def test_who_comes_second_shows_the_answer_of_the_first(place: Path) -> None:
    """One debit, one answer; the second draw is thrown away."""
    for _ in range(5):  # two draws of this noise agree with probability below 1/10; five pairs below 1e-4, and all must
        place.joinpath("hr.ledger").unlink()
        with open_ledger(place / "hr.ledger", create=True) as ledger:
            ledger.open_account("hr", 2, 1e-6)
        session = opened(place)
        rival = Rival(session, place)
        shown = replace(session, engine=rival).ask(QUESTION, epsilon=Fraction(1, 8))  # type: ignore[arg-type]
        assert shown.rows == rival.rows
        with open_ledger(place / "hr.ledger") as ledger:
            assert ledger.get_account("hr").state.debits == 1


def test_a_childs_leak_is_its_parents_too(place: Path) -> None:
    with open_ledger(place / "family", create=True) as ledger:
        ledger.open_account("all", 2, 1e-6)
        ledger.open_account("one", 1, 1e-6, parent="all")
    session = connect(place / "people.parquet", ledger=place / "family", account="one", unit="id", unique=True)
    session.ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=Fraction(1, 2))
    with open_ledger(place / "family") as ledger:
        child, parent = (ledger.get_account(name).budget for name in ("one", "all"))
    assert parent.delta_spent == child.delta_spent > 0
    assert parent.spent == child.spent > 0
