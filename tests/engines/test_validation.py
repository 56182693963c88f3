"""No failure reveals a row: what an engine cannot decode is found when the source is opened, and a later failure quarantines
the source.

The attack: whether a query fails reveals whether the one bad row is among those that it reads, so bisection by id finds its
person for almost no ε.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.engines.base import OutOfResources, SqlEngine
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.postgres import Postgres
from discreet.errors import DiscreetError, EngineFailed, SourceQuarantined, SourceRefused
from discreet.ledger import open_ledger
from discreet.query.schema import Column, Kind, Table
from discreet.session.connect import connect
from discreet.session.session import Session
from discreet.sql.dialects import DUCKDB, POSTGRES
from tests.support.console import run
from tests.support.parquet_files import MIXED_TYPES, write_two_files
from tests.support.postgres_server import Server

EPSILON = Fraction(1, 100)
PEOPLE, ODD = 300, 137


def bisect(session: Session, epsilon: Fraction = EPSILON) -> int | None:
    """The attack: return the id of the row on which the engine raises; None if the source is quarantined first."""
    low, high = 0, PEOPLE
    while high - low > 1:
        middle = (low + high) // 2
        try:
            session.ask(f"SELECT SUM(v) AS s FROM people WHERE id >= {low} AND id < {middle}", epsilon=epsilon)
            low = middle
        except EngineFailed:
            high = middle
        except SourceQuarantined:
            return None
    return low


@pytest.mark.parametrize(("first", "second"), MIXED_TYPES)
def test_files_of_different_types_are_refused_when_they_are_opened(
    first: pa.Array, second: pa.Array, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = write_two_files(tmp_path, first, second)
    with pytest.raises(SourceRefused, match="a column has different types"):
        connect(source, unit="id", epsilon=1)
    assert "people-2.parquet" in caplog.text  # the owner's log names it
    undeclared = Table("people", "id", {"id": Column(Kind.INTEGER)})
    assert connect(source, policy=undeclared, epsilon=1).table.columns.keys() == {"id"}  # no query can name it


def test_a_file_without_a_declared_column_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "v": [1]}), tmp_path / "people-1.parquet")
    pq.write_table(pa.table({"id": [2]}), tmp_path / "people-2.parquet")
    with pytest.raises(SourceRefused):
        connect(str(tmp_path / "people-*.parquet"), unit="id", epsilon=1)


UNREADABLE = {
    "milliseconds beyond all years": pa.array([0] * ODD + [10**16] + [0] * (PEOPLE - ODD - 1), pa.timestamp("ms")),
    "text that is not UTF-8": pa.array([b"x"] * ODD + [b"\xff\xfe"] + [b"x"] * (PEOPLE - ODD - 1), pa.binary()).view(
        pa.string()
    ),
}


@pytest.mark.parametrize("cells", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_cells_that_cannot_be_decoded_are_found_when_the_source_is_opened(
    cells: pa.Array, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pq.write_table(pa.table({"id": range(PEOPLE), "v": cells}), tmp_path / "people.parquet")
    with pytest.raises(SourceRefused, match="did not pass validation"):
        connect(tmp_path / "people.parquet", unit="id", epsilon=1)
    assert caplog.messages


def frail_view(rows: int, odd: int | None) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE raw AS SELECT range AS id, CASE WHEN range = ? THEN 'x' ELSE '1' END AS t FROM range(?)", [odd, rows]
    )
    connection.execute("CREATE VIEW people AS SELECT id, CAST(t AS INTEGER) AS v FROM raw")
    return connection


def test_a_view_is_probed_when_it_is_opened() -> None:
    declared: dict[str, Any] = {"table": "people", "unit": "id", "epsilon": 1, "bounds": {"v": (0, 9)}}
    assert connect(frail_view(PEOPLE, None), **declared).ask("SELECT SUM(v) AS s FROM people", epsilon=1)
    with pytest.raises(SourceRefused, match="did not pass validation"):
        connect(frail_view(PEOPLE, ODD), **declared)


def test_without_validation_and_quarantine_bisection_finds_the_person() -> None:
    """The mutant, which also evaluates conditions inside the view: it shows what both are for."""

    class Forgetful:
        def check(self, source: str) -> None: ...
        def record_failure(self, source: str, kind: object) -> None: ...

    declared: dict[str, Any] = {"table": "people", "unit": "id", "epsilon": 1, "bounds": {"v": (0, 9)}}
    with patch.object(DuckDB, "probe"):
        session = connect(frail_view(PEOPLE, ODD), **declared)
    with patch.object(DuckDB, "dialect", replace(DUCKDB, fence=lambda rows: rows)):
        assert bisect(replace(session, quarantine=Forgetful())) == ODD  # type: ignore[arg-type]
    with patch.object(DuckDB, "probe"):
        session = connect(frail_view(PEOPLE, ODD), **declared)
    assert bisect(session) is None


JOINED = "SELECT r.id, CAST(r.t AS INTEGER) AS v FROM raw AS r JOIN (SELECT id FROM raw WHERE t <> 'x') AS k ON k.id = r.id"
"""The join drops the odd row; a condition on v that is evaluated before the join meets it."""


def guarded(odd: int | None) -> duckdb.DuckDBPyConnection:
    connection = frail_view(PEOPLE, odd)
    connection.execute(f"CREATE OR REPLACE VIEW people AS {JOINED}")
    return connection


QUERIES = [
    "SELECT COUNT(*) AS n FROM people WHERE v > 0",
    "SELECT SUM(v) AS s FROM people WHERE v < 5 AND id < 200",
    "SELECT COUNT(*) AS n FROM people WHERE id = 137",
    "SELECT v // 2 AS k, COUNT(*) AS n FROM people WHERE v = 1 OR id > 100 GROUP BY v // 2",
    "SELECT MEDIAN(v) AS m FROM people WHERE v <> 3",
]


def outcomes(opened: Callable[[], Session]) -> list[Any]:
    """Return all that an analyst sees except noisy values: whether the source opens, then for each query the columns and
    keys of its answer, or the class and the message of its refusal."""
    try:
        session = opened()
    except DiscreetError as refused:
        return [type(refused), str(refused)]
    seen: list[Any] = []
    for query in QUERIES:
        try:
            answer = session.ask(query, epsilon=EPSILON, fresh=True)
            seen.append((answer.columns, [keys for keys, _ in answer.rows]))
        except DiscreetError as refused:
            seen.append((type(refused), str(refused)))
    return seen


DECLARED: dict[str, Any] = {"table": "people", "unit": "id", "epsilon": 1, "bounds": {"v": (0, 9)}}


def test_no_condition_is_evaluated_before_the_owners_own_in_duckdb() -> None:
    same = [outcomes(lambda odd=odd: connect(guarded(odd), **DECLARED)) for odd in (None, ODD)]  # type: ignore[misc]
    assert same[0] == same[1]
    assert len(same[0]) == len(QUERIES)
    with patch.object(DuckDB, "dialect", replace(DUCKDB, fence=lambda rows: rows)):  # the mutant
        assert same[0] != outcomes(lambda: connect(guarded(ODD), **DECLARED))


def test_no_condition_is_evaluated_before_the_owners_own_in_postgresql(postgres: Server) -> None:
    def opened(odd: int) -> Session:
        postgres.run(
            "DROP TABLE IF EXISTS raw CASCADE",
            "CREATE TABLE raw AS SELECT i AS id, '1' AS t FROM generate_series(0, 299) AS i",
            f"UPDATE raw SET t = 'x' WHERE id = {odd}",
            f"CREATE OR REPLACE VIEW guarded AS {JOINED}",
            "ANALYZE raw",
        )
        return connect(postgres.reader, **(DECLARED | {"table": "guarded"}))

    queries = [query.replace("people", "guarded") for query in QUERIES]
    with patch(f"{__name__}.QUERIES", queries):
        same = [outcomes(lambda odd=odd: opened(odd)) for odd in (-1, ODD)]  # type: ignore[misc]
        assert same[0] == same[1]
        assert len(same[0]) == len(QUERIES)
        with patch.object(Postgres, "dialect", replace(POSTGRES, fence=lambda rows: rows)):  # the mutant
            assert same[0] != outcomes(lambda: opened(ODD))


def with_odd_cell(cell: Any) -> list[tuple[Any, Any]]:
    return [(i, 1) for i in range(PEOPLE)] + [(PEOPLE, cell)]


POLICY = Table("people", "id", {"id": Column(Kind.INTEGER), "v": Column(Kind.INTEGER).with_bounds(0, 9)}, unique=True)


def csv_source(folder: Path, rows: list[tuple[Any, Any]]) -> Any:
    (folder / "people.csv").write_text("id,v\n" + "".join(f"{i},{v}\n" for i, v in rows))
    return folder / "people.csv"


def frame_source(folder: Path, rows: list[tuple[Any, Any]]) -> Any:
    return pd.DataFrame(rows, columns=["id", "v"])


def hive_source(folder: Path, rows: list[tuple[Any, Any]]) -> Any:
    frame = pd.DataFrame(rows, columns=["id", "v"])
    frame["v"] = frame["v"].map(str)
    for value, part in frame.groupby("v"):
        (folder / f"v={value}").mkdir(parents=True)
        pq.write_table(pa.table({"id": part["id"].tolist()}), folder / f"v={value}" / "people.parquet")
    return f"{folder}/*/people.parquet"


@pytest.mark.parametrize("made", [csv_source, frame_source, hive_source])
@pytest.mark.parametrize("odd", ["x", None, 1.5, 2**70, "2024-01-01", "0x1"])
def test_neighbours_that_pass_validation_look_alike(
    made: Callable[[Path, list[tuple[Any, Any]]], Any], odd: Any, tmp_path: Path
) -> None:
    """One person's odd cell changes neither the kind of a column nor the outcome of any query."""
    seen = []
    for name, rows in (("without", with_odd_cell(1)[:-1]), ("with", with_odd_cell(odd))):
        (tmp_path / name).mkdir()
        seen.append(outcomes(lambda: connect(made(tmp_path / name, rows), table="people", policy=POLICY, epsilon=1)))  # noqa: B023
    assert seen[0] == seen[1]
    assert len(seen[0]) == len(QUERIES)


def test_folders_are_texts_without_a_policy(tmp_path: Path) -> None:
    source = hive_source(tmp_path, [(1, 1), (2, 2)])
    assert connect(source, table="people", unit="id", epsilon=1).table.columns["v"].kind is Kind.TEXT
    (tmp_path / "other").mkdir()
    pq.write_table(pa.table({"id": [3]}), tmp_path / "other" / "people.parquet")
    with pytest.raises(SourceRefused, match="folders"):
        connect(source, table="people", unit="id", epsilon=1)


def probes(opened: Callable[[], object]) -> int:
    with patch.object(SqlEngine, "probe", autospec=True) as probe:
        opened()
    return int(probe.call_count)


def test_a_validated_file_is_remembered_until_it_changes(tmp_path: Path) -> None:
    source, state = tmp_path / "people.parquet", Path(os.environ["DISCREET_STATE"])
    pq.write_table(pa.table({"id": [1, 2], "v": [1, 2]}), source)

    def opened() -> Session:
        return connect(source, unit="id", epsilon=1)

    assert [probes(opened), probes(opened)] == [1, 0]
    assert [
        stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (state, state / "validated", *state.glob("validated/*"))
    ] == [0] * 3
    pq.write_table(pa.table({"id": [1, 2, 3], "v": [1, 2, 3]}), source)
    assert [probes(opened), probes(opened)] == [1, 0]
    os.utime(source, ns=(0, 0))
    assert [probes(opened), probes(opened)] == [1, 0]


def test_a_file_that_did_not_pass_is_not_remembered(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(PEOPLE), "v": UNREADABLE["text that is not UTF-8"]}), tmp_path / "people.parquet")
    for _ in range(2):
        with pytest.raises(SourceRefused):
            connect(tmp_path / "people.parquet", unit="id", epsilon=1)


def replaced(folder: Path, **account: Any) -> Session:
    """A session on a file that is replaced, after it was validated, by one that cannot be decoded."""
    source = folder / "people.parquet"
    pq.write_table(pa.table({"id": range(PEOPLE), "v": ["x"] * PEOPLE}), source)
    session = connect(source, unit="id", keys={"v": ("x",)}, **account)
    pq.write_table(pa.table({"id": range(PEOPLE), "v": UNREADABLE["text that is not UTF-8"]}), source)
    return session


BY_V = "SELECT v, COUNT(*) AS n FROM people GROUP BY v"


@pytest.mark.parametrize("in_ledger", [False, True])
def test_a_failure_after_validation_quarantines_the_source(in_ledger: bool, tmp_path: Path) -> None:
    account: dict[str, Any] = {"epsilon": 1}
    if in_ledger:
        with open_ledger(tmp_path / "hr.ledger", create=True) as made:
            made.open_account("hr", 1)
        account = {"ledger": tmp_path / "hr.ledger"}
    session = replaced(tmp_path, **account)
    with pytest.raises(EngineFailed) as failed:
        session.ask(BY_V, epsilon=EPSILON)
    assert type(failed.value) is EngineFailed
    spent = session.account.budget.spent
    for refused in (
        lambda: session.ask(BY_V, epsilon=EPSILON),
        lambda: session.ask("SELECT COUNT(*) AS n FROM people", epsilon=EPSILON),
        lambda: connect(tmp_path / "people.parquet", unit="id", keys={"v": ("x",)}, **account),
    ):
        pq.write_table(pa.table({"id": range(PEOPLE), "v": ["x"] * PEOPLE}), tmp_path / "people.parquet")
        with pytest.raises(SourceQuarantined):
            refused()
    assert session.account.budget.spent == spent  # refused before anything is charged
    session.quarantine.lift(session.engine.identity)
    assert session.ask(BY_V, epsilon=EPSILON).rows  # continues the debit
    assert session.account.budget.spent == spent


def test_other_names_of_a_quarantined_file_are_refused_too(tmp_path: Path) -> None:
    session = replaced(tmp_path, epsilon=1)
    with pytest.raises(EngineFailed):
        session.ask(BY_V, epsilon=EPSILON)
    pq.write_table(pa.table({"id": range(PEOPLE), "v": ["x"] * PEOPLE}), tmp_path / "people.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "people.parquet")
    for name in ("p?ople.parquet", "peopl[e].parquet", "people*.parquet", "**/people.parquet", "link.parquet"):
        with pytest.raises(SourceQuarantined):
            connect(f"{tmp_path}/{name}", table="people", unit="id", epsilon=1)
    with pytest.raises(SourceQuarantined):
        connect(f"file://{tmp_path}/people.parquet", table="people", unit="id", epsilon=1)
    assert run("source", "lift", f"{tmp_path}/*.parquet").returncode == 0
    assert connect(tmp_path / "people.parquet", unit="id", epsilon=1)


def test_sessions_on_one_connection_share_its_quarantine() -> None:
    connection = frail_view(PEOPLE, None)
    sessions = [connect(connection, **DECLARED) for _ in range(3)]
    connection.execute("INSERT INTO raw VALUES (1000, 'x')")
    with pytest.raises(EngineFailed):
        sessions[0].ask("SELECT SUM(v) AS s FROM people", epsilon=EPSILON)
    for session in sessions:
        with pytest.raises(SourceQuarantined):
            session.ask("SELECT COUNT(*) AS n FROM people", epsilon=EPSILON)


def test_the_third_failure_of_resources_quarantines(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "v": ["x"]}), tmp_path / "people.parquet")
    session = connect(tmp_path / "people.parquet", unit="id", epsilon=1, keys={"v": ("x",)})
    with patch.object(DuckDB, "run", side_effect=OutOfResources):
        for _ in range(3):
            with pytest.raises(EngineFailed) as failed:
                session.ask(BY_V, epsilon=EPSILON)
            assert type(failed.value) is EngineFailed
        with pytest.raises(SourceQuarantined):
            session.ask(BY_V, epsilon=EPSILON)


def test_a_temporary_table_made_later_is_not_read() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT range AS id FROM range(10)")
    session = connect(connection, table="people", unit="id", epsilon=1)
    connection.execute("CREATE TEMP TABLE people AS SELECT range AS id FROM range(99)")
    bounded = session.calibrate("SELECT COUNT(*) AS n FROM people", epsilon=1).bounded
    assert list(session.engine.read_totals(bounded)) == [((10,), ())]
    later = connect(connection, table="people", unit="id", epsilon=1)  # as DuckDB itself finds it now
    assert list(later.engine.read_totals(bounded)) == [((99,), ())]


def test_a_database_spills_where_no_other_user_can_read(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "store.duckdb") as store:
        store.execute("CREATE TABLE people AS SELECT range AS id FROM range(10)")
    engine: Any = connect(tmp_path / "store.duckdb", table="people", unit="id", epsilon=1).engine
    [[folder]] = engine.connection.execute("SELECT current_setting('temp_directory')").fetchall()
    assert stat.S_IMODE(Path(folder).parent.stat().st_mode) == 0o700
    assert tmp_path not in Path(folder).parents


def test_a_bad_byte_in_a_row_is_not_reported_of_the_header(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(b"id,v\n1,2\n2,\xff\n")
    for policy in (None, POLICY):
        with pytest.raises(SourceRefused) as refused:
            connect(tmp_path / "people.csv", policy=policy, unit="id", epsilon=1)
        assert "header" not in str(refused.value)
        assert "UTF-8" in str(refused.value)
    with suppress(SourceRefused):
        (tmp_path / "people.csv").write_bytes(b"id,\xff\n1,2\n")
        connect(tmp_path / "people.csv", policy=POLICY, epsilon=1)
        pytest.fail("a header that is not UTF-8 was read")


def unwritable(folder: Path) -> Iterator[Path]:
    """State folders that cannot be written: a file, a folder below a file, one that other users have rights to."""
    (folder / "file").touch()
    (folder / "shared").mkdir(mode=0o755)
    (folder / "blocked").mkdir(mode=0o700)
    (folder / "blocked" / "validated").touch()
    yield from (folder / "file", folder / "file" / "state", folder / "shared", folder / "blocked")


def test_with_a_ledger_a_source_needs_no_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = write_two_files(tmp_path / "good", pa.array([1] * 150), pa.array([1] * 150))
    bad = write_two_files(tmp_path / "bad", pa.array([1] * 150), pa.array(["x"] * 150))
    open_ledger(tmp_path / "l", create=True).open_account("hr", epsilon=10**7)
    with patch.object(DuckDB, "probe", autospec=True, side_effect=SqlEngine.probe) as probed:
        for i, state in enumerate(unwritable(tmp_path)):
            monkeypatch.setenv("DISCREET_STATE", str(state))
            session = connect(good, unit="id", bounds={"v": (0, 5)}, ledger=tmp_path / "l", account="hr")
            assert session.ask(f"SELECT SUM(v) AS s FROM people WHERE id < {299 - i}", epsilon=10**6)
            assert probed.call_count == i + 1  # validated each time
            with pytest.raises(SourceRefused, match="a column has different types"):
                connect(bad, unit="id", ledger=tmp_path / "l", account="hr")
