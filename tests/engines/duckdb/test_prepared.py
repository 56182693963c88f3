"""A prepared table gives the integers of its source, whatever is asked, and without one person nothing of others changes."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from discreet import connect, prepare
from discreet.engines.duckdb import engine as duckdb_engine
from discreet.engines.duckdb import prepared
from discreet.engines.duckdb.engine import DuckDB, OutOfMemory
from discreet.engines.duckdb.prepared import attach_output, write_prepared
from discreet.errors import QueryRefused, SourceRefused
from discreet.query import ast
from discreet.query.contribution import FIRST_BOUNDING, bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.session.session import Session
from discreet.sql.prepared import RankedStatement
from discreet.units import Neighbours
from tests.support.conformance import find_differences, find_join_differences, find_record_differences
from tests.support.oracle import reference
from tests.support.prepared_tables import RANKED, open_prepared
from tests.support.random_tables import (
    World,
    as_it_is,
    bounded,
    exactly,
    person,
    random_query,
    stored,
    text,
    with_several_columns,
    world,
)
from tests.support.rounds import choose_by_day, every_nth_by_day


def find_ranked_differences(seeds: Iterable[int], each: int, first: bool = False) -> list[tuple[int, str]]:
    """Return the queries that group by columns which may be ranked, half of them without a condition, on which a prepared
    table and the oracle disagree, or the first of them. People have many rows, and few groups of theirs count."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        table = world(rng)
        rows = [row for unit in ("ann", "bob", "Ö", None) for _ in range(6) for row in person(rng, unit, 2)]
        declared = replace(table.table, max_groups=rng.choice([1, 2, 3]), unique=False)
        columns = {**declared.columns, "uid": Column(Kind.TEXT)}
        table = World(replace(declared, columns=columns), tuple(rows), table.types | {"uid": "VARCHAR"})
        engine, asked = open_prepared(table), 0
        assert engine.preparation is not None
        names = [*engine.preparation.ranked, rng.choice(RANKED)]
        while asked < each:
            groups = tuple(ast.Grouping(name, ast.Ref(name)) for name in {*rng.sample(names, rng.choice([1, 1, 2]))})
            query = random_query(rng)
            query = replace(query, groups=groups, where=None if rng.random() < 0.5 else query.where)
            with suppress(QueryRefused):
                asked_query = bound_contributions(query, table.table, Neighbours.ADD_REMOVE)
                asked += 1
                if exactly(engine, asked_query) != reference(asked_query, table.rows):
                    found.append((seed, text(query)))
                    if first:
                        return found
    return found


@pytest.mark.parametrize("start", every_nth_by_day(range(2), 2))
def test_a_prepared_table_gives_the_integers_of_its_source(start: int) -> None:
    assert find_differences(open_prepared, range(start, 8, 2), 10) == []
    assert find_differences(open_prepared, range(200 + start, 203, 2), 8, with_several_columns) == []


@pytest.mark.parametrize("seed", choose_by_day(range(8), lambda seed: seed % 2))
def test_groups_by_ranked_columns_are_those_of_the_source(seed: int) -> None:
    assert find_ranked_differences([seed], 25) == []


def test_joins_and_rows_are_read_as_from_the_source() -> None:
    assert find_join_differences(open_prepared, range(3), 4) == []
    assert find_record_differences(open_prepared, range(3), as_it_is) == []


class SmallMemory(DuckDB):
    """An engine without enough memory for a whole table, except for distinct counts, which have no parts."""

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        if "HASH(" not in statement and "COUNT(DISTINCT" not in statement:
            raise OutOfMemory
        return super()._execute(statement)


def test_parts_of_a_prepared_table_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_engine, "PART_COUNTS", (3,))
    assert find_differences(lambda table: open_prepared(table, SmallMemory), range(4), 5) == []


def test_the_first_order_and_another_salt_are_computed_from_the_rows() -> None:
    for seed in range(4):
        rng = Random(seed)
        table = world(rng)
        engine = open_prepared(table)
        for _ in range(4):
            query, _ = bounded(rng, table)
            first = replace(query, bounding=FIRST_BOUNDING)
            other = replace(query, table=replace(table.table, salt="another"))
            for each in (first, other):
                assert exactly(engine, each) == reference(each, table.rows)
                assert not any(name in statement for statement in engine.compile_all(each) for name in INTERNAL)


INTERNAL = ("unit code", "unit hash", "key 0", "keys 0")
GROUPS = ("a", "b", "c", "d", "e", "f")


def made_world(units: int, salt: str = "s|alt:") -> World:
    """People with texts as ids, each in some of the groups."""
    columns = {"id": Column(Kind.TEXT), "dept": Column(Kind.TEXT)}
    rng = Random(units)
    some = {unit: rng.sample(GROUPS, rng.choice([3, 4, 6])) for unit in range(units)}
    rows = tuple({"id": f"person {unit}", "dept": dept} for unit, depts in some.items() for dept in depts)
    return World(Table("people", "id", columns, 2, 1, salt=salt), rows, {"id": "VARCHAR", "dept": "VARCHAR"})


QUERIES = (
    "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept",
    "SELECT dept, COUNT(*) AS n FROM people WHERE dept <> 'c' GROUP BY dept",
    "SELECT dept, id, COUNT(*) AS n FROM people GROUP BY dept, id",
    "SELECT id, COUNT(DISTINCT dept) AS n FROM people GROUP BY id",
)


def count_moves(open_world: Callable[[World], DuckDB], removed: range) -> int:
    """Return how often removing one person, and preparing the rest with the same salt, moves totals further than one person
    can: two groups by one row each, and as much again for the distinct units that select them."""
    table = made_world(40)
    queries = [bound_contributions(parse_sql(sql, table.table), table.table, Neighbours.ADD_REMOVE) for sql in QUERIES]
    listed = replace(table.table, columns={**table.table.columns, "dept": Column(Kind.TEXT).with_keys(("b", "d", "e", "f"))})
    queries.append(bound_contributions(parse_sql(QUERIES[0], listed), listed, Neighbours.ADD_REMOVE))
    whole, found = open_world(table), 0
    for unit in removed:
        rest = open_world(table.without(f"person {unit}"))
        for query in queries:
            before, after = ({keys: totals[0] for totals, keys in each.read_totals(query)} for each in (whole, rest))
            moved = sum(abs(before.get(keys, 0) - after.get(keys, 0)) for keys in before | after)
            found += moved > 2
    return found


def open_ranked(table: World) -> DuckDB:
    return open_prepared(table, ranked=9)


def test_removing_one_person_changes_nothing_of_others() -> None:
    assert count_moves(open_ranked, range(0, 40, 9)) == 0


def hash_codes(writer: Any) -> str:
    """The mutant: the code of a unit, its number among all units, is hashed in the place of the unit."""
    return CREATE_UNITS(writer).replace('CAST("unit" AS TEXT)', "CAST(row_number() OVER (ORDER BY unit) AS TEXT)")


CREATE_UNITS = prepared._Writer._create_units


def place_by_code(writer: Any, index: int) -> str:
    """The mutant: the order of a unit's keys is made of codes."""
    by_code = "row_number() OVER (PARTITION BY p.unit ORDER BY md5(p.unit || '-' || d.code))"
    return CREATE_PLACES(writer, index).replace("p.place::INTEGER", f"({by_code})::INTEGER")


CREATE_PLACES = prepared._Writer._create_places


def test_codes_in_the_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(prepared._Writer, "_create_units", hash_codes)
        assert count_moves(open_ranked, range(1)) > 0
        assert find_ranked_differences(range(2), 20, first=True)
    with monkeypatch.context() as patch:
        patch.setattr(prepared._Writer, "_create_places", place_by_code)
        assert count_moves(open_ranked, range(1)) > 0


class NoneArePartial(RankedStatement):
    """The mutant: places are ranks although keys are not listed."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        if self.has_partial:
            self.has_partial, self.ranks = False, False


class AllCount(RankedStatement):
    """The mutant: places are ranks although rows were left out."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        if not self.counts_all:
            self.counts_all, self.has_partial, self.ranks = True, False, False


@pytest.mark.parametrize(("mutant", "seed"), [(NoneArePartial, 7), (AllCount, 1)])
def test_places_of_rows_that_do_not_count_are_found(mutant: type, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.sql.prepared.RankedStatement", mutant)
    assert find_ranked_differences([seed], 25, first=True)


# -- the file --------------------------------------------------------------------------------------------------------------


def test_names_of_the_source_are_its_own(tmp_path: Path) -> None:
    """Columns may be called as the file's own are, in any case of letters, and are read all the same."""
    names = [
        "unit",
        "Unit Code",
        "unit hash",
        "key 0",
        "KEY 0 place",
        "key 0 code",
        "rows",
        "code",
        "hash",
        "place",
        "value",
    ]
    with duckdb.connect() as connection:
        columns = ", ".join(f"'{name}' || i % 3 AS \"{name}\"" for name in names[1:])
        connection.execute(f'CREATE TABLE people AS SELECT i % 7 AS "{names[0]}", {columns} FROM range(40) t(i)')
        source = DuckDB(connection, "people")
        table = Table("people", "unit", source.describe_columns(), 1, 2, salt="salt")
        sql = [f'SELECT "{name}", COUNT(*) AS n FROM people GROUP BY "{name}"' for name in names[1:]]
        queries = [bound_contributions(parse_sql(each, table), table, Neighbours.ADD_REMOVE) for each in sql]
        expected = [sorted(source.read_totals(query)) for query in queries]
        attach_output(connection, str(tmp_path / "p.duckdb"))
        write_prepared(source, table, names[1:4])
    opened = DuckDB.open(tmp_path / "p.duckdb")
    assert opened.describe_columns() == table.columns
    assert opened.names == source.names
    assert [sorted(opened.read_totals(query)) for query in queries] == expected


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "p.duckdb")
    with duckdb.connect() as connection:
        engine = stored(made_world(3), connection)
        attach_output(connection, path)
        write_prepared(engine, made_world(3).table, ["dept"])
    with duckdb.connect(path) as connection:
        connection.execute("UPDATE prepared SET discreet_version = 2")
    with pytest.raises(SourceRefused, match="another version of discreet prepared this file"):
        DuckDB.open(path)


# -- keys that a query reads in another way than they are stored -----------------------------------------------------------

ODD_MOMENTS = [
    ("DATE", "infinity"), ("DATE", "-infinity"), ("DATE", "0044-03-15 (BC)"), ("DATE", "20000-01-01"),
    ("TIMESTAMP", "infinity"), ("TIMESTAMP", "20000-01-01 00:00:00"), ("TIMESTAMPTZ", "20000-01-01 00:00:00+00"),
]  # fmt: skip
BY_DAY = [
    "SELECT day, COUNT(*) AS n FROM people GROUP BY day",
    "SELECT day, COUNT(*) AS n FROM people WHERE kind = 'a' GROUP BY day",
    "SELECT day, kind, COUNT(*) AS n FROM people GROUP BY day, kind",
    "SELECT day, HISTOGRAM(pay, 1) AS h FROM people GROUP BY day",
]


def open_odd_day(source: Path, **declared: Any) -> Session:
    return connect(source, unit="id", table="people", epsilon=1000, delta=1e-4, bounds={"pay": (0, 3)}, **declared)


def read_exactly(session: Session, query: str, salt: str) -> Any:
    """The totals and histograms of a query, before noise."""
    bounded = session.calibrate(query, epsilon=1).bounded
    bounded = replace(bounded, table=replace(bounded.table, salt=salt))
    histograms = [sorted(session.engine.read_histogram(bounded, counts), key=repr) for counts in bounded.cell_counts]
    return sorted(session.engine.read_totals(bounded), key=repr) if bounded.totals else [], histograms


def prepare_odd_day(folder: Path, kind: str, odd: str) -> tuple[Path, Path]:
    """A file of people on the last day that Python knows, of whom one is also on a day that it does not know; prepared."""
    source = folder / "people.parquet"
    last = f"({kind} '9999-12-31')::{kind}"
    duckdb.execute(
        f"COPY (SELECT i AS id, {last} AS day, 'a' AS kind, 2 AS pay FROM range(30) t(i) "
        f"UNION ALL SELECT 29, '{odd}'::{kind}, 'a', 2) TO '{source}'"
    )
    return source, Path(prepare(source, unit="id", table="people", group_by=["day", "kind"]))


@pytest.mark.parametrize(("kind", "odd"), ODD_MOMENTS)
def test_a_day_that_python_cannot_hold_is_missing_as_in_the_source(tmp_path: Path, kind: str, odd: str) -> None:
    """Its own key would be another group for the engine and the same group for Python: of two, one would be lost."""
    source, prepared = prepare_odd_day(tmp_path, kind, odd)
    salt = connect(prepared, epsilon=1).table.salt
    for keys in ({}, {"day": [None]}):
        declared: Any = {"max_groups": 2, "max_rows": 1, "keys": keys}
        sessions = [open_odd_day(each, **declared) for each in (prepared, source)]
        for query in BY_DAY:
            found, expected = (read_exactly(session, query, salt) for session in sessions)
            assert found == expected


def test_the_check_of_days_notices_a_stored_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.sql.expressions.read_key", lambda key, kind: key)
    source, prepared = prepare_odd_day(tmp_path, "DATE", "infinity")
    monkeypatch.undo()
    salt = connect(prepared, epsilon=1).table.salt
    sessions = [open_odd_day(each, max_groups=2, max_rows=1) for each in (prepared, source)]
    wrong, right = (read_exactly(session, BY_DAY[0], salt) for session in sessions)
    assert wrong != right


def test_a_joined_column_is_not_confused_with_a_withheld_one(tmp_path: Path) -> None:
    """The table has a column called as one of a public table is; it is ranked, and the policy does not declare it."""
    source, cities = tmp_path / "people.parquet", tmp_path / "cities.csv"
    rows = "SELECT i % 40 AS id, 'c' || i % 3 AS city, 'r' || i // 399 AS \"cities.region\" FROM range(400) t(i)"
    duckdb.execute(f"COPY ({rows}) TO '{source}'")
    duckdb.execute(f"COPY (SELECT 'c' || i AS city, 'r' || i AS region FROM range(3) t(i)) TO '{cities}'")
    prepared = Path(prepare(source, unit="id", table="people"))
    opened = connect(prepared, epsilon=1).table
    policy = replace(opened, columns={name: each for name, each in opened.columns.items() if name != "cities.region"})
    query = "SELECT cities.region AS region, COUNT(*) AS n FROM people JOIN cities ON people.city = cities.city GROUP BY 1"
    found = []
    for each in (source, prepared):
        session = connect(
            each, policy=policy, public={"cities": cities}, max_groups=3, max_rows=9, epsilon=1000, delta=1e-6
        )  # fmt: skip
        found.append(sorted(session.engine.read_totals(session.calibrate(query, epsilon=1).bounded)))
    assert found[0] == found[1]
