"""Every kind of source gives the same columns and the same exact answers; what is not declared is refused or is one."""

import gc
import os
import re
import weakref
from pathlib import Path
from typing import Any

import duckdb
import pytest

import discreet
from discreet.errors import BadParameter, QueryRefused, SourceQuarantined, SourceRefused
from discreet.ledger.owner_state import FileQuarantine, default_state_path
from discreet.ledger.quarantine import FailureKind
from discreet.session.connect import connect
from discreet.session.session import Session
from tests.support.people import BY_DEPARTMENT, COUNTS, people, session

CSV = Path(__file__).parent.parent.parent / "examples" / "people.csv"
DECLARED: dict[str, Any] = {"unit": "id", "epsilon": 10**6, "keys": {"dept": ("a", "b", "c")}, "unique": True}


def exact(asked: Session) -> dict[Any, int]:
    """At an enormous ε there is no noise to speak of."""
    return {keys[0]: int(row[0].value) for keys, row in asked.ask(BY_DEPARTMENT, epsilon=10**5).rows}


def written(kind: str, folder: Path) -> Any:
    table = people()
    match kind:
        case "csv":
            table.execute(f"COPY people TO '{folder}/people.csv' (HEADER)")
            return folder / "people.csv"
        case "parquet":
            table.execute(f"COPY people TO '{folder}/people.parquet'")
            return str(folder / "people.parquet")
        case "glob":
            for part in (0, 1):
                table.execute(f"COPY (FROM people WHERE id % 2 = {part}) TO '{folder}/people-{part}.parquet'")
            return str(folder / "people-*.parquet")
        case "duckdb":
            with duckdb.connect(folder / "store.duckdb") as store:
                rows = table.execute("FROM people").fetchall()
                store.execute("CREATE TABLE people (id BIGINT, dept VARCHAR, pay DOUBLE, age INTEGER)")
                store.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
            return folder / "store.duckdb"
        case "arrow":
            return table.sql("FROM people").to_arrow_table()
        case "pandas":
            return table.sql("FROM people").df()
        case "polars":
            import polars

            return polars.from_arrow(table.sql("FROM people").to_arrow_table())
        case _:
            return table


@pytest.mark.parametrize("kind", ["csv", "parquet", "glob", "duckdb", "arrow", "pandas", "polars", "connection"])
def test_every_source_gives_the_same_counts(kind: str, tmp_path: Path) -> None:
    named = {} if kind in ("csv", "parquet", "glob") else {"table": "people"}
    asked = connect(written(kind, tmp_path), **named, **DECLARED)
    assert asked.table.name == "people"
    assert {name: column.kind.value for name, column in asked.table.columns.items()} == {
        "id": "integer", "dept": "text", "pay": "real", "age": "integer",
    }  # fmt: skip
    assert exact(asked) == COUNTS


def test_the_budget_is_required() -> None:
    with pytest.raises(BadParameter, match="a session needs a budget"):
        connect(people(), unit="id", table="people")
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(BadParameter):
            connect(people(), unit="id", table="people", epsilon=wrong)
    with pytest.raises(BadParameter, match="unit"):
        connect(people(), table="people", epsilon=1)


def test_undeclared_limits_are_one() -> None:
    asked = session(unique=None)
    assert (asked.table.max_groups, asked.table.max_rows) == (1, 1)


def test_unknown_keys_need_a_delta() -> None:
    with pytest.raises(QueryRefused, match="δ"):
        session(keys={}).quote(BY_DEPARTMENT, epsilon=1)
    found = session(keys={}, epsilon=1000, delta=1e-6).ask(BY_DEPARTMENT, epsilon=20)
    assert [keys[0] for keys, _ in found.rows] == ["a", "b", "c"]


@pytest.mark.parametrize("source", ["nowhere.csv", "nowhere.parquet", "nowhere.duckdb", "people.xlsx", "people"])
def test_sources_that_cannot_be_opened_are_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(SourceRefused):
        connect(tmp_path / source, unit="id", epsilon=1, table="people")


def test_tables_and_columns_that_are_not_there() -> None:
    with pytest.raises(SourceRefused):
        connect(people(), unit="id", epsilon=1, table="nobody")
    for wrong in ({"unit": "name"}, {"bounds": {"x": (0, 1)}}, {"keys": {"x": ("a",)}}):
        with pytest.raises(BadParameter, match="no such column"):
            session(**wrong)


def test_connect_is_exported_and_loaded_only_when_it_is_used() -> None:
    import subprocess
    import sys

    assert discreet.connect is connect
    code = "import discreet, sys; print('duckdb' in sys.modules or 'sqlglot' in sys.modules); discreet.connect"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    with pytest.raises(AttributeError):
        _ = discreet.nothing  # type: ignore[attr-defined]


def test_two_sessions_on_one_file(tmp_path: Path) -> None:
    path = written("duckdb", tmp_path)
    first, second = (connect(path, table="people", **DECLARED) for _ in range(2))
    assert exact(first) == exact(second) == COUNTS
    for asked in (first, second):
        with pytest.raises(duckdb.Error, match="locked"):
            asked.engine.connection.execute("SET threads = 1")


def test_a_file_that_is_open_elsewhere_in_this_process(tmp_path: Path) -> None:
    """Another connection's settings and ours are apart; a connection that writes is refused."""
    path = written("duckdb", tmp_path)
    with duckdb.connect(path, read_only=True) as beside:
        beside.execute("SET lock_configuration = true")
        assert exact(connect(path, table="people", **DECLARED)) == COUNTS
    with duckdb.connect(path, read_only=True) as beside:
        asked = connect(path, table="people", **DECLARED)
        beside.execute("SET threads = 1")
        assert exact(asked) == COUNTS
    del asked
    gc.collect()
    with duckdb.connect(path), pytest.raises(SourceRefused, match="no other program is writing"):
        connect(path, table="people", **DECLARED)


def test_a_file_that_took_the_place_of_another_is_read(tmp_path: Path) -> None:
    """DuckDB keeps one database for a path while any connection to it is open. Sessions on one file share it."""
    path, other = written("duckdb", tmp_path), tmp_path / "other.duckdb"
    first, second = (connect(path, table="people", **DECLARED) for _ in range(2))
    with duckdb.connect(other) as connection:
        connection.execute("CREATE TABLE people AS SELECT 1 AS id, 'new' AS dept")
    other.replace(path)
    third, fourth = (connect(path, table="people", **DECLARED | {"keys": {"dept": ["new"]}}) for _ in range(2))
    assert exact(first) == exact(second) == COUNTS
    assert exact(third) == exact(fourth) != COUNTS
    del first, third
    gc.collect()
    assert exact(second) == COUNTS
    fifth = connect(path, table="people", **DECLARED | {"keys": {"dept": ["new"]}})
    with pytest.raises(duckdb.Error, match="locked"):  # it shares the fourth's database
        fifth.engine.connection.execute("SET threads = 1")


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas"])
def test_rows_that_memory_does_not_hold_go_where_nobody_else_can_read(kind: str, tmp_path: Path) -> None:
    asked = connect(written(kind, tmp_path), table="people", **DECLARED)
    [[place]] = asked.engine.connection.execute("SELECT current_setting('temp_directory')").fetchall()
    folder = Path(place).parent
    assert folder.stat().st_mode & 0o077 == 0
    child = os.fork()
    if not child:
        os._exit(_finalized())
    assert os.waitpid(child, 0)[1] == 0
    assert folder.exists()  # it is not the child's to remove
    del asked
    gc.collect()
    assert not folder.exists()


def _finalized() -> int:
    """What the end of a process would do."""
    weakref.finalize._exitfunc()  # type: ignore[attr-defined]
    return 0


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written("csv", tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(SourceRefused, match="TMPDIR"):
        connect(path, **DECLARED)


POLICY = 'table = "people"\nunit = "id"\nunique = true\n[columns.id]\nkind = "integer"\n[columns.dept]\nkind = "text"\n'


def test_the_limits_of_a_policy_hold_for_its_own_unit_only(tmp_path: Path) -> None:
    """A unit of another kind may have many rows where the policy's has one: what is declared of one says nothing of it."""
    place = tmp_path / "policy.toml"
    place.write_text(POLICY)
    assert connect(CSV, policy=place, unit="id", epsilon=1).table.unique
    with pytest.raises(BadParameter, match="unit is 'dept': the policy bounds the contribution of 'id'"):
        connect(CSV, policy=place, unit="dept", epsilon=1)


@pytest.mark.parametrize("limit", ["max_rows", "max_groups"])
def test_a_limit_that_contradicts_unique_is_refused(limit: str, tmp_path: Path) -> None:
    place = tmp_path / "policy.toml"
    place.write_text(POLICY)
    for declared in ({"policy": place}, {"unit": "id", "unique": True}):
        more: Any = {**declared, limit: 7}
        with pytest.raises(BadParameter, match=f"{limit} is 7: a unique unit has one row"):
            connect(CSV, epsilon=1, **more)


def test_no_row_of_a_quarantined_source_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation reads rows, so its outcome is shown only of a source that may be queried."""
    source = connect(CSV, unit="id", epsilon=1)
    [origin] = source.engine.origins
    FileQuarantine(default_state_path()).record_failure(origin, FailureKind.DECODING)
    monkeypatch.setattr("discreet.session.source.validate_source", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(SourceQuarantined):
        connect(CSV, unit="id", epsilon=1)


@pytest.mark.parametrize(("name", "hint"), [("people", "people"), ("a b-2", '"a b-2"'), ("select", '"select"')])
def test_the_table_is_named_as_it_must_be_written(name: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.csv").write_text("id\n1\n")
    session = connect(tmp_path / f"{name}.csv", unit="id", epsilon=1)
    with pytest.raises(QueryRefused, match=re.escape(f"Write FROM {hint}")):
        session.quote("SELECT COUNT(*) AS n FROM elsewhere", epsilon=1)
    session.quote(f"SELECT COUNT(*) AS n FROM {hint}", epsilon=1)


def test_what_is_dropped_for_want_of_a_declaration_is_said_with_the_answer() -> None:
    session = connect(CSV, unit="id", keys={"dept": ["sales", "legal"]}, epsilon=2)
    grouped = "max_groups and max_rows are not declared: each id counts in one group, with one row per group; "
    plain = "max_rows is not declared: each id counts with one row; "
    for sql, note, other in (
        ("SELECT COUNT(*) AS n FROM people", plain, "max_groups"),
        ("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", grouped, plain),
    ):
        answer = session.ask(sql, epsilon=1)
        for text in (answer.explanation, answer.to_json(), " ".join(session.quote(sql, epsilon=1).notes)):
            assert note in text
            assert other not in text
    declared = connect(CSV, unit="id", max_rows=2, epsilon=1)
    assert "not declared" not in declared.ask("SELECT COUNT(*) AS n FROM people", epsilon=1).explanation
    assert "max_groups is not declared" in repr(declared), "a session may be asked for groups"
