"""Which table of PostgreSQL is meant, what it is known by, and what of the server's settings could change an answer."""

import gc
import logging
import os
import weakref
from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow
import pytest
from psycopg import sql

from discreet import EngineFailed, SourceRefused, connect
from discreet.engines.postgres import (
    Postgres,
    ReadConnection,
    _fits_double,
    _to_double,
    _to_double_guarded,
    read_table_state,
    reader_of,
)
from discreet.query.schema import Kind
from tests.support.engine_sessions import count_by_dept, read_totals
from tests.support.failed_queries import FileLedger
from tests.support.postgres_server import READER, Server

COUNT = "SELECT COUNT(*) AS n FROM {}"


@pytest.fixture
def server(postgres: Server) -> Iterator[Server]:
    """The server; schemas that a test creates are dropped afterwards."""
    yield postgres
    created = ("one", "two", "a", "a.b", "odd", READER)
    for schema in created:
        postgres.owner.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


def schema(server: Server, name: str, *tables: str) -> None:
    """Create a schema that the reader may read, with tables given by name and number of rows: "t 5"."""
    server.run(f'CREATE SCHEMA "{name}"', f'GRANT USAGE ON SCHEMA "{name}" TO {READER}')
    for table in tables:
        table_name, rows = table.split()
        server.run(f'CREATE TABLE "{name}"."{table_name}" AS SELECT i AS id FROM generate_series(1, {rows}) i')
    server.run(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{name}" TO {READER}')


def identity(address: str, table: str) -> str:
    return connect(address, table=table, unit="id", epsilon=1).engine.identity


def rows(engine: Postgres) -> int:
    [(found,)] = read_totals(engine, COUNT.format(engine.table), unit="id", unique=True).values()
    return int(found)


# -- identity --------------------------------------------------------------------------------------------------------------


def test_tables_of_one_name_have_different_identities(server: Server) -> None:
    """A recorded answer is shown for the same table only: its schema counts, however the query names the table."""
    for name in ("one", "two"):
        schema(server, name, "t 1")

    def found(table: str, path: str = "public") -> str:
        return identity(f"{server.address}&options=-csearch_path%3D{path}", table)

    assert found("t", "one") == found("one.t") != found("t", "two") == found("two.t")
    assert "@" not in found("one.t")


def test_names_with_dots_have_different_identities(server: Server) -> None:
    schema(server, "a.b", "c 1")
    schema(server, "a", "b.c 2")
    assert identity(server.reader, '"a.b".c') != identity(server.reader, 'a."b.c"')


def test_a_temporary_table_is_like_no_other(server: Server) -> None:
    link = ReadConnection(server.address)
    link.open().execute("CREATE TEMPORARY TABLE fleeting AS SELECT 1 AS id")
    with link.read_transaction() as connection:
        found = read_table_state(connection, ("fleeting",))
    assert found is not None
    assert found.identity("s") != found.identity("s")
    assert found.identity("s").startswith("a temporary table")
    link.close()


def test_rows_that_depend_on_the_role_have_its_identity(server: Server, tmp_path: Any) -> None:
    """Where the role decides which rows are shown, another role's recorded answer is not shown."""
    server.run("DO $$ BEGIN CREATE ROLE boss LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$")
    schema(server, "one", "plain 3")
    server.run(
        "CREATE TABLE one.emp AS SELECT i AS id, CASE WHEN i % 3 = 0 THEN 'boss' ELSE 'reader' END AS who, 'a' AS dept, "
        "1.0::float8 AS pay FROM generate_series(1, 900) i",
        "ALTER TABLE one.emp ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON one.emp USING (who = current_user)",
        "CREATE VIEW one.mine AS SELECT * FROM one.emp WHERE who = current_user",
        f"GRANT USAGE ON SCHEMA one TO {READER}, boss", f"GRANT SELECT ON ALL TABLES IN SCHEMA one TO {READER}, boss",
    )  # fmt: skip
    boss = server.reader.replace(f"{READER}@", "boss@")
    ledger = FileLedger(tmp_path)
    for table in ("emp", "mine"):
        first, second = (ledger.session(address, table=f"one.{table}") for address in (server.reader, boss))
        answers = [int(each.ask(COUNT.format(table), epsilon=1000).rows[0][1][0].value) for each in (first, second)]
        assert answers == [600, 300]
        assert first.engine.identity != second.engine.identity
    assert identity(server.reader, "one.plain") == identity(boss, "one.plain")
    server.run("DROP SCHEMA one CASCADE")


# -- while it is open ------------------------------------------------------------------------------------------------------


def test_a_name_is_looked_up_once(server: Server) -> None:
    schema(server, "one", "staff 100")
    engine = Postgres.open(f'{server.reader}&options=-csearch_path%3D"$user",one', "staff")
    assert rows(engine) == 100
    schema(server, READER, "staff 7")
    assert rows(engine) == 100
    assert rows(Postgres.open(f'{server.reader}&options=-csearch_path%3D"$user",one', "staff")) == 7


CHANGES = {
    "type": "ALTER TABLE one.t ALTER id TYPE double precision",
    "precision": "ALTER TABLE one.t ALTER x TYPE numeric(9, 2)",
    "collation": 'ALTER TABLE one.t ALTER s TYPE text COLLATE "POSIX"',
    "column": "ALTER TABLE one.t RENAME s TO r",
    "rows": "ALTER TABLE one.t ENABLE ROW LEVEL SECURITY",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_changed_is_not_read(change: str, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.run(
        "CREATE SCHEMA one",
        "CREATE TABLE one.t AS SELECT i AS id, 1::numeric(9, 0) AS x, 's' AS s FROM generate_series(1, 9) i",
        f"GRANT USAGE ON SCHEMA one TO {READER}", f"GRANT SELECT ON one.t TO {READER}",
    )  # fmt: skip
    engine = Postgres.open(server.reader, "one.t")
    assert rows(engine) == 9
    server.run(CHANGES[change])
    with caplog.at_level(logging.WARNING, "discreet.owner"), pytest.raises(EngineFailed):
        rows(engine)
    assert "connect again" in caplog.text


# -- settings --------------------------------------------------------------------------------------------------------------


def test_no_other_function_is_taken_for_one_of_the_server(server: Server) -> None:
    schema(server, "one")
    server.run(
        "CREATE TABLE one.g AS SELECT i % 10 AS id, i % 7 AS k FROM generate_series(1, 70) i",
        f"GRANT SELECT ON one.g TO {READER}",
    )
    engine = Postgres.open(f"{server.reader}&options=-csearch_path%3Done,pg_catalog", "g")
    query = "SELECT k, COUNT(*) AS n FROM g GROUP BY k"
    before = read_totals(engine, query, unit="id", max_groups=1)
    server.run(
        "CREATE FUNCTION one.md5(text) RETURNS text LANGUAGE sql AS $$ SELECT '0' $$",
        "CREATE FUNCTION one.sum(bigint) RETURNS numeric LANGUAGE sql AS $$ SELECT 7::numeric $$",
    )
    assert read_totals(engine, query, unit="id", max_groups=1) == before


@pytest.mark.parametrize("when", ["STABLE", "VOLATILE"])
def test_a_function_behind_a_view_finds_what_it_names(when: str, server: Server) -> None:
    """It may be called to plan the statement, or to run it."""
    schema(server, "one", "t 50")
    server.run(
        f"CREATE FUNCTION one.middle() RETURNS integer LANGUAGE plpgsql {when} AS "
        "$$ BEGIN RETURN (SELECT AVG(id) FROM t); END $$",
        "CREATE VIEW one.v AS SELECT id FROM one.t WHERE id > one.middle()",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA one TO {READER}",
    )
    assert rows(Postgres.open(f"{server.reader}&options=-csearch_path%3Done", "v")) == 24


def test_odd_settings_change_nothing(server: Server) -> None:
    """Settings of the address, and so of a role: dates as text, the zone, the meaning of a backslash."""
    schema(server, "odd")
    server.run(
        "CREATE TABLE odd.t AS SELECT i % 9 AS id, date '2024-02-03' + i % 7 AS d, 'a\\b' AS s, "
        "timestamptz '2024-03-31 00:30:00Z' + i * interval '1 hour' AS z FROM generate_series(1, 90) i",
        "CREATE VIEW odd.v AS SELECT *, z::date AS y FROM odd.t", f"GRANT SELECT ON odd.v TO {READER}",
    )  # fmt: skip
    options = "-cDateStyle%3DGerman%20-cTimeZone%3DAmerica/New_York%20-cstandard_conforming_strings%3Doff"
    queries = [
        "SELECT d, COUNT(*) AS n FROM v GROUP BY d", "SELECT z, COUNT(*) AS n FROM v GROUP BY z",
        "SELECT y, COUNT(*) AS n FROM v GROUP BY y", "SELECT s, COUNT(*) AS n FROM v WHERE s = 'a\\b' GROUP BY s",
        "SELECT COUNT(*) AS n FROM v WHERE d >= '2024-02-05' AND z < '2024-04-01 12:00:00'",
    ]  # fmt: skip
    usual, odd = (Postgres.open(f"{server.reader}{more}", "odd.v") for more in ("", f"&options={options}"))
    for query in queries:
        found = read_totals(usual, query, unit="id", max_groups=2)
        assert read_totals(odd, query, unit="id", max_groups=2) == found
        assert sum(totals[0] for totals in found.values()) > 0


def test_a_server_without_md5_is_refused_before_anything_is_charged(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in FIPS mode has none."""
    execute = psycopg.Connection.execute

    def fips(self: Any, query: Any, *more: Any, **options: Any) -> Any:
        if "md5" in str(query):
            raise psycopg.errors.InternalError_("could not compute MD5 hash: unsupported")
        return execute(self, query, *more, **options)

    schema(server, "one", "t 1")
    monkeypatch.setattr(psycopg.Connection, "execute", fips)
    with pytest.raises(SourceRefused, match="md5"):
        connect(server.reader, table="one.t", unit="id", epsilon=1)


# -- numbers and names -----------------------------------------------------------------------------------------------------


NUMERICS = {
    (18, 2): True, (300, 0): True, (600, 300): True, (400, 300): True, (301, 0): False, (3, -400): False, (3, -2): False,
    (3, 400): False, (400, 50): False, (None, None): False,
}  # fmt: skip


def test_numerics_that_may_leave_the_range_of_a_double_are_guarded(server: Server) -> None:
    """Without the guard, the cast of the others fails."""
    assert {each: _fits_double(*each) for each in NUMERICS} == NUMERICS
    declared = ", ".join(f"c{i} numeric({p}, {s})" for i, (p, s) in enumerate(list(NUMERICS)[:-1]))
    schema(server, "one")
    server.run(
        f"CREATE TABLE one.n (id int, c numeric, {declared})", "INSERT INTO one.n (id, c5, c7) VALUES (1, 1e402, 1e-399)",
        f"GRANT SELECT ON one.n TO {READER}",
    )  # fmt: skip
    with psycopg.connect(server.reader) as connection:
        columns = (connection.execute("SELECT * FROM one.n").description or [])[2:]
    read = {(column.precision, column.scale): reader_of(column, Kind.REAL) for column in columns}
    assert {each: found is _to_double for each, found in read.items()} == {k: v for k, v in NUMERICS.items() if k[0]}
    assert set(read.values()) == {_to_double, _to_double_guarded}
    found = read_totals(Postgres.open(server.reader, "one.n"), "SELECT SUM(c5) AS a, SUM(c7) AS b FROM n", unit="id",
                  bounds={"c5": (0, 8), "c7": (0, 8)})  # fmt: skip
    assert [totals[0] > 0 and totals[1] == 0 for totals in found.values()] == [True]


def test_long_names_of_public_tables(server: Server) -> None:
    """PostgreSQL cuts names off after 63 bytes, and these differ later."""
    schema(server, "one", "t 10")
    long = "p" * 70
    floors = pyarrow.table({"id": [1, 2, 3], f"{'f' * 50}": ["x", "y", "y"]})
    session = connect(server.reader, table="one.t", unit="id", unique=True, epsilon=10**6, public={long: floors})
    query = f"SELECT {'f' * 50}, COUNT(*) AS n FROM t JOIN {long} USING (id) GROUP BY {'f' * 50}"
    found = session.ask(query, epsilon=1000).rows
    assert {keys[0]: int(row[0].value) for keys, row in found} == {"x": 1, "y": 2}


def test_grants_on_columns_need_a_view(server: Server) -> None:
    """The documentation says so."""
    schema(server, "one")
    server.run(
        "CREATE TABLE one.t AS SELECT i AS id, 'a' AS dept, 'secret' AS name FROM generate_series(1, 5) i",
        f"GRANT SELECT (id, dept) ON one.t TO {READER}", "CREATE VIEW one.shown AS SELECT id, dept FROM one.t",
        f"GRANT SELECT ON one.shown TO {READER}",
    )  # fmt: skip
    with pytest.raises(SourceRefused):
        connect(server.reader, table="one.t", unit="id", epsilon=1)
    shown = connect(server.reader, table="one.shown", unit="id", unique=True, epsilon=10**6, keys={"dept": ("a",)})
    assert count_by_dept(shown, "shown") == {"a": 5}


def test_an_unused_link_closes_its_connection(postgres: Server) -> None:
    def opened() -> psycopg.Connection[Any]:
        link = ReadConnection(postgres.reader)
        link.prepare(lambda _: link.widen_search_path())  # a cycle of references
        return link.open()

    connection = opened()
    gc.collect()
    assert connection.closed


def test_a_fork_does_not_close_its_parents_connection(postgres: Server) -> None:
    link = ReadConnection(postgres.reader)
    connection = link.open()
    child = os.fork()
    if not child:
        weakref.finalize._exitfunc()  # type: ignore[attr-defined]  # what the end of a process would do
        os._exit(0)
    os.waitpid(child, 0)
    assert connection.execute("SELECT 1").fetchone() == (1,)
    link.close()
