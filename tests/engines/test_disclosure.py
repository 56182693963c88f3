"""What could disclose a value: collations, error messages, cells that cannot be read, results that mix."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from discreet.errors import QueryRefused, SourceRefused
from discreet.session.connect import connect
from discreet.session.session import Session


def collated(rows: list[str]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (id BIGINT, dept VARCHAR COLLATE nocase)")
    connection.executemany("INSERT INTO people VALUES (?, ?)", list(enumerate(rows)))
    return connection


def totals(session: Session, query: str) -> dict[Any, int]:
    bounded = session.calibrate(query, epsilon=1).bounded
    return {keys: row[0] for row, keys in session.engine.read_totals(bounded)}


BY_DEPT = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("listed", [("sales", "hr"), (*"abcdefgh", "sales")])
def test_a_collation_merges_no_groups(unique: bool, listed: tuple[str, ...]) -> None:
    """One row 'SALES' must not take ten rows 'sales' out of their group: a count moves by one row, not by the group."""
    found = [
        totals(connect(collated(rows), table="people", unit="id", epsilon=9, keys={"dept": listed}, unique=unique), BY_DEPT)
        for rows in (["sales"] * 10, ["SALES", *["sales"] * 10])
    ]
    assert found == [{("sales",): 10}, {("sales",): 10}]


def test_a_collation_joins_no_more_rows() -> None:
    floors = pd.DataFrame({"dept": ["sales", "SALES"], "floor": [1, 2]})
    session = connect(
        collated(["sales"] * 100), table="people", unit="id", epsilon=9, unique=True, public={"floors": floors}
    )
    assert totals(session, "SELECT COUNT(*) AS n FROM people JOIN floors USING (dept)") == {(): 100}


def test_a_default_collation_is_refused() -> None:
    connection = collated(["a"])
    connection.execute("SET default_collation = 'nocase'")
    with pytest.raises(SourceRefused, match="collation"):
        connect(connection, table="people", unit="id", epsilon=1)


def test_no_value_of_the_data_is_printed(tmp_path: Path) -> None:
    lines = ["id,pay", *(f"{i},{i % 7}" for i in range(30_000)), "30000,5,Mr Smith"]
    (tmp_path / "late.csv").write_text("\n".join(lines))
    command = [
        Path(sys.executable).with_name("discreet"),
        "ask",
        str(tmp_path / "late.csv"),
        "SELECT SUM(pay) AS s FROM late",
    ]
    options = ["--unit", "id", "--epsilon", "1", "--bounds", "pay=0:9"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "Smith" not in done.stdout + done.stderr
    env = {"DISCREET_OWNER_LOG": str(tmp_path / "owner.log"), "DISCREET_STATE": str(tmp_path / "state"), "PATH": ""}
    subprocess.run([*command, *options], capture_output=True, text=True, check=False, env=env)
    assert "Smith" in (tmp_path / "owner.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("odd", ["abc", 10**30, b"x"])
def test_a_value_that_cannot_be_read_is_found_when_the_frame_is_opened(odd: object) -> None:
    frame = pd.DataFrame({"id": range(3000), "pay": pd.Series([*range(2999), odd], dtype=object)})
    try:
        session = connect(frame, table="t", unit="id", epsilon=1, unique=True)
    except SourceRefused:
        return
    assert len(session.ask("SELECT COUNT(pay) AS n FROM t", epsilon=1)) == 1


def test_two_sessions_of_one_connection_do_not_mix() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS id, i AS g, 5 AS pay FROM range(60000) t(i)")
    declared: dict[str, Any] = {"table": "people", "unit": "id", "epsilon": 10**9, "delta": 1e-6, "unique": True}
    queries = ["SELECT g // 10 AS k, COUNT(*) AS n FROM people GROUP BY g // 10", "SELECT COUNT(*) AS n FROM people"]
    sessions = [connect(connection, bounds={"pay": (0, 9), "g": (0, 60000)}, **declared) for _ in range(3)]
    wrong: list[Any] = []

    def ask(session: Session, query: str) -> None:
        for _ in range(4):
            rows = session.ask(query, epsilon=10**8, fresh=True).rows
            values = {round(row[0].value) for _, row in rows}
            if values - {10, 0, 60000}:
                wrong.append(values)

    threads = [threading.Thread(target=ask, args=(s, q)) for s in sessions for q in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_squares_beyond_doubles_are_refused_without_a_charge() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i AS id, i::DOUBLE AS x FROM range(10) t(i)")
    session = connect(connection, table="t", unit="id", epsilon=1, bounds={"x": (-1e200, 1e200)})
    with pytest.raises(QueryRefused, match="Squares or products of these values"):
        session.ask("SELECT VARIANCE(x) AS v FROM t", epsilon=1)
    assert session.account.budget.spent == 0
    assert len(session.ask("SELECT AVG(x) AS m FROM t", epsilon=1)) == 1
