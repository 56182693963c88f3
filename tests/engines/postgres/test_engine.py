"""PostgreSQL gives the same integers as the oracle, through a role that may only read."""

import json
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from sqlglot import exp

from discreet import BadParameter, EngineFailed, SourceQuarantined, SourceRefused, connect
from discreet.engines.base import split_table_name
from discreet.engines.postgres import Postgres
from discreet.query.schema import Kind
from discreet.sql.dialects import POSTGRES
from tests.support.conformance import answer_with, find_differences, find_join_differences
from tests.support.console import run_process as run
from tests.support.engine_sessions import COUNT_BY_DEPT, DECLARED, count_by_dept, read_totals
from tests.support.postgres_server import READER, Server
from tests.support.rounds import every_nth_by_day
from tests.support.sensitivity_property import broken


@pytest.mark.parametrize("start", every_nth_by_day(range(3), 3))
def test_totals_equal_the_oracle(postgres: Server, start: int) -> None:
    assert find_differences(postgres.open_world, range(start, 52, 3), 10) == []


@pytest.mark.parametrize("start", every_nth_by_day(range(2), 2))
def test_neighbours_move_totals_by_no_more_than_the_sensitivity(postgres: Server, start: int) -> None:
    assert broken(answer_with(postgres.open_world), range(start, 40, 2), 2) == []


@pytest.mark.parametrize("start", every_nth_by_day(range(2), 2))
def test_joined_totals_equal_the_oracle(postgres: Server, start: int) -> None:
    assert find_join_differences(postgres.open_world, range(start, 20, 2), 4) == []


# -- mutants ---------------------------------------------------------------------------------------------------------------


MUTANTS: dict[str, Any] = {
    "a remainder for a quotient": replace(POSTGRES, divide=lambda a, b: exp.func("mod", a, b)),
    "the largest for the sum": replace(POSTGRES, add=lambda value, most: exp.Max(this=value)),
    "every number is there": replace(POSTGRES, is_nan=lambda value: exp.EQ(this=value, expression=exp.Literal.number(3))),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_dialect_is_found(mutant: str, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Postgres, "dialect", MUTANTS[mutant])
    assert find_differences(postgres.open_world, range(12), 5, first=True)


# -- types -----------------------------------------------------------------------------------------------------------------


def test_every_type_is_read_by_one_rule(postgres: Server) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS kinds", "DROP TYPE IF EXISTS mood", "DROP DOMAIN IF EXISTS points",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN points AS integer CHECK (VALUE >= 0)",
        "CREATE TABLE kinds (uid text, s smallint, n numeric, n0 numeric(20,0), n2 numeric(9,2), r real, m mood, u uuid, "
        "c char(5), v varchar(9), d date, t timestamp, z timestamptz, b boolean, p points, no int[], j jsonb, i interval)",
        "INSERT INTO kinds VALUES "
        "('a', 1, 1e400, 7, 1.25, 0.1, 'ok', '00000000-0000-0000-0000-00000000000A', 'x', 'x ', 'infinity', 'infinity', "
        "'2024-03-31 02:30:00+02', true, 3, '{1}', '{}', '1 day'), "
        "('a ', 2, 1e-400, 'NaN', 'NaN', 'NaN', NULL, NULL, 'x  ', 'X', '0044-03-15 BC', '-infinity', "
        "'infinity', NULL, NULL, NULL, NULL, NULL), "
        "('A', 3, 'NaN', -7, -1.25, 'Infinity', 'sad', NULL, 'X', 'x', '2024-02-29', '2024-02-29 00:00:00.5', "
        "'2024-03-31 00:30:00Z', false, 0, NULL, NULL, NULL), "
        "('á', 4, '-Infinity', 0, 0, '-Infinity', 'sad', NULL, '', '', '10000-01-01', NULL, '9999-12-31 23:59:59Z', false, "
        "1, NULL, NULL, NULL)",
    )  # fmt: skip
    engine = Postgres.open(postgres.reader, "public.kinds")
    text, whole, real = Kind.TEXT, Kind.INTEGER, Kind.REAL
    assert {name: column.kind for name, column in engine.describe_columns().items()} == {
        "uid": text, "s": whole, "n": real, "n0": whole, "n2": real, "r": real, "m": text, "u": text, "c": text, "v": text,
        "d": Kind.DATE, "t": Kind.TIMESTAMP, "z": Kind.TIMESTAMP, "b": Kind.BOOLEAN, "p": whole,
    }  # fmt: skip

    def by(column: str) -> dict[Any, Any]:
        found = read_totals(engine, f'SELECT "{column}", COUNT(*) AS n FROM kinds GROUP BY "{column}"')
        return {keys[0]: totals[0] for keys, totals in found.items()}

    assert by("uid") == {"a": 1, "a ": 1, "A": 1, "á": 1}
    assert by("n0") == {7: 1, None: 1, -7: 1, 0: 1}
    assert by("m") == {"ok": 1, None: 1, "sad": 2}
    assert by("u") == {"00000000-0000-0000-0000-00000000000a": 1, None: 3}
    assert by("c") == {"x": 2, "X": 1, "": 1}
    assert by("v") == {"x ": 1, "X": 1, "x": 1, "": 1}
    assert by("d") == {None: 3, date(2024, 2, 29): 1}
    assert by("t") == {None: 3, datetime(2024, 2, 29, 0, 0, 0, 500_000): 1}
    assert by("z") == {datetime(2024, 3, 31, 0, 30): 2, None: 1, datetime(9999, 12, 31, 23, 59, 59): 1}
    sums = read_totals(
        engine, "SELECT SUM(n) AS n, SUM(r) AS r, COUNT(n) AS k FROM kinds", bounds={"n": (-1, 2), "r": (-1, 2)}
    )
    step = 2**19
    assert sums == {(): ((2 - 1) * step, round(0.1 * step + 2 * step - step), 3)}
    order = read_totals(
        engine, "SELECT COUNT(*) AS n FROM kinds WHERE v < 'a' OR uid = 'a '"
    )  # bytes, not a language's order
    assert order == {(): (2,)}


def test_a_tiny_value_does_not_raise(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL raises where a product underflows; 5e-324 times 2^-10 does."""
    postgres.run("DROP TABLE IF EXISTS tiny", "CREATE TABLE tiny AS SELECT 1 AS uid, '5e-324'::float8 AS x")
    engine, query = Postgres.open(postgres.reader, "tiny"), "SELECT SUM(x) AS s FROM tiny"
    assert read_totals(engine, query, bounds={"x": (0, 10**9)}) == {(): (0,)}
    monkeypatch.setattr(Postgres, "dialect", replace(POSTGRES, avoid_underflow=lambda value: value))
    with pytest.raises(EngineFailed):
        read_totals(engine, query, bounds={"x": (0, 10**9)})


def test_totals_saturate_instead_of_overflowing(postgres: Server) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS large",
        "CREATE TABLE large AS SELECT i AS uid, 9000000000000000 AS x FROM generate_series(1, 20000) i",
    )
    engine = Postgres.open(postgres.reader, "large")
    found = read_totals(engine, "SELECT SUM(x) AS s FROM large", bounds={"x": (0, 2**51 - 1)}, max_rows=2000)
    assert found == {(): (2**63 - 1,)}


def test_views_schemas_and_odd_names(postgres: Server) -> None:
    postgres.run(
        "CREATE SCHEMA IF NOT EXISTS \"my.hr\"", f'GRANT USAGE ON SCHEMA "my.hr" TO {READER}',
        'CREATE OR REPLACE VIEW "my.hr"."Kept ""x""" AS SELECT i AS "Unit", i % 2 AS "rank" FROM generate_series(1, 9) i',
        f'GRANT SELECT ON "my.hr"."Kept ""x""" TO {READER}',
    )  # fmt: skip
    engine = Postgres.open(postgres.reader, '"my.hr"."Kept ""x"""')
    assert engine.table == 'Kept "x"'
    found = read_totals(engine, 'SELECT "rank", COUNT(*) AS n FROM "Kept ""x""" GROUP BY "rank"', unit="Unit")
    assert found == {(0,): (4, 4), (1,): (5, 5)}
    for wrong in ("", "a.b.c", "a.", '"a', 'a"b'):
        with pytest.raises(BadParameter):
            split_table_name(wrong, 2)


# -- sessions --------------------------------------------------------------------------------------------------------------


def test_a_session_reads_and_cannot_write(postgres: Server) -> None:
    postgres.create_people()
    session = connect(postgres.reader, table="people", **DECLARED)
    assert count_by_dept(session) == {"a": 300, "b": 600}
    writer = Postgres.open(postgres.address, "people")  # even an owner's role reads only
    with writer.connection.read_transaction() as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("DELETE FROM people")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), psycopg.connect(postgres.reader) as connection:
        connection.execute("DELETE FROM people")


def test_a_query_joins_to_a_public_file(postgres: Server, tmp_path: Path) -> None:
    postgres.create_people()
    (tmp_path / "depts.csv").write_text("dept,floor\na,up\nb,down\n")
    session = connect(postgres.reader, table="people", public={"depts": tmp_path / "depts.csv"}, **DECLARED)
    query = "SELECT floor, COUNT(*) AS n FROM people JOIN depts USING (dept) GROUP BY floor"
    found = {keys[0]: int(row[0].value) for keys, row in session.ask(query, epsilon=1000).rows}
    assert found == {"up": 300, "down": 600}
    engine: Any = session.engine
    engine.connection.close()  # a new connection has the copy again
    assert {keys[0] for keys, _ in session.ask(query, epsilon=1000, fresh=True).rows} == {"up", "down"}


@pytest.mark.parametrize("table", [None, "missing", "secret"])
def test_a_table_that_cannot_be_opened_is_refused(table: str | None, postgres: Server) -> None:
    postgres.run("CREATE TABLE IF NOT EXISTS secret (id int)", f"REVOKE ALL ON secret FROM {READER}")
    with pytest.raises(SourceRefused):
        connect(postgres.reader, table=table, unit="id", epsilon=1)
    with pytest.raises(SourceRefused):
        connect("postgresql://reader@127.0.0.1:1/none?connect_timeout=2", table="people", unit="id", epsilon=1)
    with pytest.raises(BadParameter):
        connect(postgres.reader, table="people", path="people.parquet", unit="id", epsilon=1)


def test_the_command_line_queries_it_too(postgres: Server) -> None:
    postgres.create_people()
    options = ("--table", "people", "--unit", "id", "--keys", "dept=a,b", "--unique", "--epsilon", "1000", "--json")
    out = run("ask", postgres.reader, COUNT_BY_DEPT.format("people"), *options)
    assert out.returncode == 0, out.stderr
    assert [row["n"]["value"] for row in json.loads(out.stdout)["rows"]] == [300, 600]
    assert run("ask", postgres.reader, COUNT_BY_DEPT.format("people"), *options[2:]).returncode == 4


def test_a_value_that_makes_a_view_raise_is_not_shown(postgres: Server, caplog: pytest.LogCaptureFixture) -> None:
    postgres.create_people()
    postgres.run("CREATE OR REPLACE VIEW frail AS SELECT id, dept, CAST(dept || id AS integer) AS pay FROM people")
    declared = DECLARED | {"bounds": {"pay": (0, 1)}}
    with pytest.raises(SourceRefused, match="validation"):
        connect(postgres.reader, table="frail", **declared)
    assert "invalid input syntax" in caplog.text
    caplog.clear()
    with patch.object(Postgres, "probe"):  # as if the value had come after validation
        session = connect(postgres.reader, table="frail", **declared)
    with pytest.raises(EngineFailed) as failure:
        session.ask("SELECT SUM(pay) AS s FROM frail", epsilon=1)
    assert type(failure.value) is EngineFailed
    assert str(failure.value) == str(EngineFailed())
    assert "invalid input syntax" in caplog.text
    for again in (
        lambda: session.ask("SELECT COUNT(*) AS n FROM frail", epsilon=1),
        lambda: connect(postgres.reader, table="frail", **declared),
    ):
        with pytest.raises(SourceQuarantined):
            again()
