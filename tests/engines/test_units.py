"""Privacy units that are rows, or that several columns identify: the oracle's integers and the stated sensitivity, on DuckDB
and PostgreSQL. Spark runs the same in its own test, beside its one JVM."""

from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from sqlglot import exp

from discreet import BadParameter, connect
from discreet.engines import base
from discreet.engines.duckdb import engine as duckdb_engine
from discreet.ledger import open_ledger
from discreet.query.schema import ROW, ROW_UNIT_NOTE, Column, Kind, Table, format_unit, parse_unit
from discreet.session.session import Session
from discreet.sql.dialects import SQL, encode_tuple
from tests.support.conformance import answer_with, find_differences, find_join_differences
from tests.support.mangled_queries import Opening
from tests.support.postgres_server import Server
from tests.support.random_tables import Declaring, stored, with_row_units, with_several_columns
from tests.support.rounds import every_nth_by_day
from tests.support.sensitivity_property import broken

UNITS = [with_row_units, with_several_columns]


@pytest.fixture(params=["duckdb", "postgres"])
def open_world(request: pytest.FixtureRequest) -> Opening:
    if request.param == "duckdb":
        return partial(stored, connection=duckdb.connect())
    server: Server = request.getfixturevalue("postgres")
    return server.open_world


@pytest.mark.parametrize("start", every_nth_by_day((200, 201), 2))
@pytest.mark.parametrize("declare", UNITS)
def test_totals_equal_the_oracle(declare: Declaring, open_world: Opening, start: int) -> None:
    assert find_differences(open_world, range(start, 225, 2), 5, declare) == []
    assert find_join_differences(open_world, range(start, 206, 2), 3, declare) == []


@pytest.mark.parametrize("start", every_nth_by_day((200, 201), 2))
@pytest.mark.parametrize("declare", UNITS)
def test_neighbours_move_totals_by_no_more_than_the_sensitivity(declare: Declaring, open_world: Opening, start: int) -> None:
    assert broken(answer_with(open_world), range(start, 225, 2), 2, declare=declare) == []


@pytest.mark.parametrize("start", every_nth_by_day((200, 201), 2))
@pytest.mark.parametrize("declare", UNITS)
def test_parts_give_the_same_integers_as_the_whole(declare: Declaring, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.engines.duckdb.test_parts import open_small

    monkeypatch.setattr(duckdb_engine, "PART_COUNTS", (3,))
    opening = partial(open_small, connection=duckdb.connect())
    assert find_differences(opening, range(start, 212, 2), 3, declare) == []
    assert find_join_differences(opening, range(start, 203, 2), 2, declare) == []


def run_together(values: list[SQL], dialect: Any) -> SQL:
    """The mutant: texts without their lengths, so that ("1", "11") and ("11", "1") are one unit."""
    return dialect.concat([exp.cast(value.copy(), exp.DType.VARCHAR) for value in values])  # type: ignore[no-any-return]


def test_a_mutant_that_runs_columns_together_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"a": ["1", "11"], "b": ["11", "1"], "v": 1})
    assert count(connect(frame, table="people", unit=("a", "b"), epsilon=1)) == 2
    monkeypatch.setattr(base, "encode_tuple", run_together)
    assert count(connect(frame, table="people", unit=("a", "b"), epsilon=1)) == 1


def keep_missing_parts(values: list[SQL], dialect: Any) -> SQL:
    """The mutant: a unit of which a part is missing is one all the same."""
    return encode_tuple(
        [exp.Coalesce(this=exp.cast(v, "VARCHAR"), expressions=[exp.Literal.string("")]) for v in values], dialect
    )


def test_a_mutant_that_keeps_missing_parts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "encode_tuple", keep_missing_parts)
    opening = partial(stored, connection=duckdb.connect())
    assert find_differences(opening, range(200, 212), 5, with_several_columns, first=True)


def count(session: Session, query: str = "SELECT COUNT(*) AS n FROM people") -> int:
    """Return the exact count, in which each unit counts for one row."""
    [(totals, _)] = session.engine.read_totals(session.calibrate(query, epsilon=1).bounded)
    return totals[0]


ROWS = [(1, 1, 5), (1, 1, 6), (1, 2, 7), (2, 1, 8), (2, None, 9), (None, 1, 9), (11, 1, 3), (1, 11, 3)]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    lines = (",".join("" if cell is None else str(cell) for cell in row) for row in ROWS)
    (tmp_path / "people.csv").write_text("household,person,pay\n" + "\n".join(lines) + "\n")
    return tmp_path / "people.csv"


@pytest.mark.parametrize(
    ("unit", "expected"), [("row", 8), (("household", "person"), 5), ("household", 3), (("household",), 3)]
)
def test_each_unit_counts_once(unit: Any, expected: int, people: Path) -> None:
    """A row without a household or a person has no unit, unless each row is one."""
    session = connect(people, unit=unit, epsilon=1)
    assert count(session) == expected
    named = {"row": "row", ("household", "person"): "person, household"}.get(unit, "household")
    assert count(session, f"SELECT COUNT(DISTINCT {named}) AS n FROM people") == expected


def test_every_place_names_the_unit(people: Path) -> None:
    query = "SELECT COUNT(*) AS n FROM people"
    for unit, words in (("row", "one row can"), (("household", "person"), "one (household, person) can")):
        session = connect(people, unit=unit, epsilon=1)
        for explained in (session.quote(query, epsilon=0.5).explanation, session.ask(query, epsilon=0.5).explanation):
            assert words in explained
            assert (ROW_UNIT_NOTE in explained) == (unit == "row")


@pytest.mark.parametrize("name", ["row", "Row", "ROW"])
@pytest.mark.parametrize("declared", [False, True])
def test_a_column_called_row_refuses_the_unit(name: str, declared: bool, tmp_path: Path, postgres: Server) -> None:
    """Also if the policy does not declare the column: it may be the id."""
    (tmp_path / "people.csv").write_text(f"{name},pay\n1,5\n")
    frame = pd.DataFrame({name: [1], "pay": [5]})
    policy = Table("people", ROW, {"pay": Column(Kind.INTEGER)}) if declared else None
    for source in (tmp_path / "people.csv", frame):
        with pytest.raises(BadParameter, match=f"the source has a column '{name}'"):
            connect(source, unit="row", policy=policy, table="people", epsilon=1)
    assert count(connect(frame, unit=(name,), table="people", epsilon=1)) == 1  # as a column


def test_limits_and_other_units_are_refused(people: Path, tmp_path: Path) -> None:
    for given in ({"max_rows": 2}, {"max_groups": 3}, {"unique": False}):
        with pytest.raises(BadParameter, match="a unit that is a row has one row"):
            connect(people, unit="row", epsilon=1, **given)  # type: ignore[arg-type]
    policy = Table("people", "household", {"household": Column(Kind.INTEGER), "person": Column(Kind.INTEGER)})
    for unit in ("row", ("household", "person"), "person"):
        with pytest.raises(BadParameter, match="the policy bounds the contribution of 'household'"):
            connect(people, unit=unit, policy=policy, epsilon=1)


def test_an_account_tells_units_apart(people: Path, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "hr.ledger", create=True)
    query = "SELECT COUNT(*) AS n FROM people"
    units: list[Any] = ["household", ("household", "person"), ("person", "household"), "row"]
    for i, unit in enumerate(units):
        ledger.open_account(f"a{i}", epsilon=1)
        mine = connect(people, unit=unit, ledger=tmp_path / "hr.ledger", account=f"a{i}")
        mine.ask(query, epsilon=0.1)
        for other in units:
            theirs = connect(people, unit=other, ledger=tmp_path / "hr.ledger", account=f"a{i}")
            if other == unit:
                theirs.ask(query, epsilon=0.2)
                continue
            with pytest.raises(BadParameter, match="its debits are about"):
                theirs.ask(query, epsilon=0.2)


ODD_NAMES = ["a", "row", "(a, b)", "a, b", '"a"', 'a"b', "", " ", "(", "(row)", "b", "first name"]


def test_the_words_of_a_unit_are_its_own() -> None:
    """An account is bound to the words, so no two units have the same."""
    units = [()] + [(a,) for a in ODD_NAMES if a] + [(a, b) for a in ODD_NAMES for b in ODD_NAMES if a and b]
    words = {format_unit(unit): unit for unit in units}
    assert len(words) == len(units)
    assert all(parse_unit(text) == unit for text, unit in words.items())
