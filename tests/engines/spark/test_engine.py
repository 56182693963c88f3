"""Spark gives the same integers as the oracle. It is one test of many steps, so that one worker starts one JVM."""

import dataclasses
import logging
import subprocess
import sys
import threading
import time
from datetime import date, datetime
from functools import partial
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow
import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from discreet import BadParameter, EngineFailed, SourceQuarantined, SourceRefused, connect
from discreet.engines.base import Fingerprint, OutOfResources
from discreet.engines.spark import NOISY_LOGGERS, Origin, Spark, resolve_table, silence_spark
from discreet.ledger import open_ledger
from discreet.local.counting import count_reports
from discreet.query.schema import Kind
from discreet.sql.dialects import SPARK
from tests.support import engine_hierarchies
from tests.support.conformance import (
    count_kept,
    find_contribution_differences,
    find_differences,
    find_join_differences,
    find_record_differences,
    is_kept_equally,
)
from tests.support.engine_differences import column_definitions, find_unexpected_kinds
from tests.support.engine_hierarchies import CONDITIONAL, PEOPLE, check_hierarchy
from tests.support.engine_sessions import DECLARED, count_by_dept, read_totals
from tests.support.expression_laws import EXTREMES, find_wrong_extremes, find_wrong_keys, find_wrong_values
from tests.support.failed_queries import COUNTS, FileLedger
from tests.support.failed_queries import count_by_dept as retry_count
from tests.support.local_reports import COLLECTION, ORACLES, VERSION, count_slowly, make_rows, to_columns
from tests.support.local_systems import Columns, assert_counted_alike
from tests.support.parquet_files import MIXED_TYPES, write_two_files
from tests.support.random_cells import (
    by_engine,
    count_in_python,
    count_with,
    find_broken_tabulations,
    find_cell_differences,
    keyed_worlds,
)
from tests.support.random_tables import with_row_units, with_several_columns
from tests.support.replaying import AGGREGATES, replay_every_aggregate
from tests.support.spark_session import GLOBAL_SCHEMA, count_jobs, open_world, run_spark
from tests.support.spark_sources import check_sources

MAX_JOBS = 122
"""Jobs of all steps that have no limit of their own."""
MAX_JOBS_OF_HIERARCHIES, MAX_JOBS_OF_RECORDS = 8, 6
MAX_JOBS_OF_UNITS, MAX_JOBS_OF_NAMES, MAX_JOBS_OF_EXPRESSIONS, MAX_JOBS_OF_REPORTS, MAX_JOBS_OF_CELLS = 44, 4, 22, 10, 50
"""Each is what the step runs, and a tenth more."""


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark(tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    with run_spark(adaptive=False, warehouse=tmp_path / "warehouse") as session:
        check_totals(session)
        before = count_jobs(session)
        check_records(session)
        records = count_jobs(session) - before
        before = count_jobs(session)
        check_units(session)
        units = count_jobs(session) - before
        check_names(session, tmp_path)
        names = count_jobs(session) - before - units
        check_replay(session)
        before = count_jobs(session)
        check_expressions(session)
        expressions = count_jobs(session) - before
        before = count_jobs(session)
        check_reports(session)
        reports = count_jobs(session) - before
        before = count_jobs(session)
        check_cells(session, caplog)
        cells = count_jobs(session) - before
        before = count_jobs(session)
        check_hierarchies(session, tmp_path / "hierarchies")
        hierarchies = count_jobs(session) - before
        check_types(session)
        check_constants(session)
        check_saturation(session)
        check_many_conditions(session)
        check_validation(session, tmp_path / "mixed")
        check_sessions(session, tmp_path)
        check_sources(session, tmp_path)
        check_silence(session, caplog, capfd)
        assert units <= MAX_JOBS_OF_UNITS
        assert records <= MAX_JOBS_OF_RECORDS
        assert names <= MAX_JOBS_OF_NAMES
        assert expressions <= MAX_JOBS_OF_EXPRESSIONS
        assert reports <= MAX_JOBS_OF_REPORTS
        assert cells <= MAX_JOBS_OF_CELLS
        assert hierarchies <= MAX_JOBS_OF_HIERARCHIES
        others = units + names + expressions + reports + cells + hierarchies + records
        assert count_jobs(session) - others <= MAX_JOBS
        ledger = FileLedger(tmp_path)
        check_stopped_context(session, ledger, caplog)
    with run_spark(adaptive=True, warehouse=tmp_path / "warehouse") as session:
        check_new_context(session, ledger, caplog)


def check_hierarchies(session: SparkSession, folder: Path) -> None:
    session.createDataFrame(PEOPLE, "id BIGINT, geo STRING, sex INT").createOrReplaceGlobalTempView("dwellers")
    place = f"{GLOBAL_SCHEMA}.dwellers"
    sessions = (connect("spark:local[2]", table=place, **options) for options in (engine_hierarchies.DECLARED, CONDITIONAL))
    check_hierarchy(*sessions, folder)


def check_totals(session: SparkSession) -> None:
    assert find_differences(partial(open_world, session), range(100, 110), 2) == []
    assert is_kept_equally(count_kept(partial(open_world, session)))
    assert find_join_differences(partial(open_world, session), range(3), 1) == []
    assert find_contribution_differences(partial(open_world, session), range(100, 105), 2) == []


def check_records(session: SparkSession) -> None:
    """Rows of units, as models read them."""
    assert find_record_differences(partial(open_world, session), range(100, 105)) == []


def check_units(session: SparkSession) -> None:
    """Units that are rows, or that several columns identify."""
    for declare in (with_row_units, with_several_columns):
        assert find_differences(partial(open_world, session), range(200, 205), 2, declare) == []
        assert find_join_differences(partial(open_world, session), range(200, 202), 1, declare) == []


def check_names(session: SparkSession, folder: Path) -> None:
    """A frame that its owner named is the same data in every session, and is validated each time all the same."""
    open_ledger(folder / "named.ledger", create=True).open_account("hr", epsilon=1)
    query = "SELECT COUNT(*) AS n FROM visits_2026"
    found = []
    for _ in range(2):
        frame = session.range(100).selectExpr("id", "id % 7 AS days")
        visits = connect(frame, name="visits_2026", unit="id", unique=True, ledger=folder / "named.ledger")
        assert visits.engine.compute_fingerprint(["id"]) == Fingerprint(None)
        answer = visits.ask(query, epsilon=0.5)
        assert "is the word of the data owner" in answer.explanation
        found.append(answer.rows)
    assert found[0] == found[1]
    with pytest.raises(BadParameter, match="not a name for a frame"):
        connect(session.range(3), name="a b", unit="id", epsilon=1)
    with pytest.raises(BadParameter, match="has a column 'row'"):
        connect(session.range(3).selectExpr("id AS row"), unit="row", epsilon=1)


def check_cells(session: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Cells of tabulations are those of plain Python; a failure is constant, and another thread can end the reading."""
    opening = partial(open_world, session)
    assert find_cell_differences(opening, range(62_000, 62_006), 2) == []
    assert find_broken_tabulations(by_engine(opening), range(62_000, 62_004), 1) == []
    kinds = {name: (place, bounded) for name, place, bounded in keyed_worlds() if bounded.keys.columns[0][2:3] == (None,)}
    assert len(kinds) == 6
    for place, bounded in kinds.values():
        assert count_with(opening(place), bounded, 1) == count_in_python(bounded, place.rows)
    engine = Spark.of(session.range(3), "people")
    with pytest.raises(EngineFailed) as failed:
        [*engine._execute_blocks("SELECT CAST(CONCAT('Mr Smith', id) AS INT) AS total0, id AS key0 FROM RANGE(9)", 1)]
    assert not isinstance(failed.value, OutOfResources)
    assert str(failed.value) == str(EngineFailed())
    assert "Smith" in caplog.text
    caplog.clear()
    endless = "SELECT SUM(a.id % (b.id + 1)) AS total0, 0 AS key0 FROM RANGE(10000000000) a CROSS JOIN RANGE(10000000000) b"
    tracker = session.sparkContext.statusTracker()

    def cancel_what_runs() -> None:
        while not tracker.getActiveJobsIds():
            time.sleep(0.05)
        engine.cancel()

    other = threading.Thread(target=cancel_what_runs)
    other.start()
    with pytest.raises(OutOfResources):
        [*engine._execute_blocks(endless, 1)]
    other.join()


def check_replay(session: SparkSession) -> None:
    """All aggregates are replayed, in few jobs."""
    before = count_jobs(session)
    found = replay_every_aggregate(partial(open_world, session), range(43_003, 43_005))
    assert found.violations == []
    assert found.measurements == 2
    assert found.aggregates == AGGREGATES
    assert count_jobs(session) - before <= 20


def check_expressions(session: SparkSession) -> None:
    """Functions of values, of dates that Python cannot hold too, give every row the value of the oracle."""
    assert find_wrong_values(partial(open_world, session)) == []
    assert find_wrong_keys(partial(open_world, session), ["DATE_TRUNC('week', day)", "DATE_TRUNC('month', at)"]) == []
    rows = ", ".join(f"({uid}L, DATE '{day}', TIMESTAMP_NTZ '{at}')" for uid, (day, at) in EXTREMES["spark"].items())
    frame = session.sql(f"SELECT * FROM VALUES {rows} AS t(uid, day, at)").coalesce(1)
    assert find_wrong_extremes(Spark.of(frame, "people")) == []


def check_reports(session: SparkSession) -> None:
    """Reports of local collections are counted as everywhere, bad ones too."""
    for name in ("oue", "subset", "hadamard", "projective"):
        oracle, rows = ORACLES[name], make_rows(ORACLES[name], 60)
        texts = ("collection", "nonce")
        arrays = {
            column: pyarrow.array(cells, pyarrow.string() if column in texts else pyarrow.int64())
            for column, cells in to_columns(rows).items()
        }
        frame = session.createDataFrame(pyarrow.table(arrays)).coalesce(1)
        options = {} if name == "projective" else {"collection": COLLECTION, "version": VERSION}
        counts = count_reports(oracle, frame if options else frame.select("u"), **options)
        assert (counts.n, counts.supports.tolist(), counts.rejected) == count_slowly(oracle, rows, plain=not options)

    def load(columns: Columns) -> dict[str, Any]:
        kinds = {each: pyarrow.string() if each in ("collection", "nonce") else pyarrow.int64() for each in columns}
        table = pyarrow.table({each: pyarrow.array(cells, kinds[each]) for each, cells in columns.items()})
        return {"source": session.createDataFrame(table).coalesce(1)}

    for name in ("rounded bit", "rappor", "bucket flip"):  # one for each way of counting
        assert_counted_alike(name, load)


def check_types(session: SparkSession) -> None:
    session.sql(f"CREATE TABLE kinds ({column_definitions('spark')}) USING parquet")
    assert find_unexpected_kinds("spark", Spark.connect("spark:local[2]", "kinds", None, None)) == {}
    frame = session.sql(
        "SELECT * FROM VALUES "
        "('a', 1Y, 2S, CAST('NaN' AS FLOAT), 7BD, 1.25BD, 'Ann' COLLATE UTF8_LCASE, DATE '2024-02-29', TIMESTAMP "
        "'2024-03-10 02:30:00 UTC', TIMESTAMP_NTZ '2024-03-10 02:30:00.5', TRUE, ARRAY(1), X'00'), "
        "('a ', 1Y, 2S, CAST('Infinity' AS FLOAT), -7BD, -1.25BD, 'ANN' COLLATE UTF8_LCASE, DATE '10000-01-01', TIMESTAMP "
        "'9999-12-31 23:59:59 UTC', NULL, NULL, NULL, NULL), "
        "('A', NULL, 2S, CAST('-0.0' AS FLOAT), 0BD, 0.00BD, NULL, NULL, NULL, NULL, FALSE, NULL, NULL) "
        "AS t(uid, y, s, r, n0, n2, c, d, z, t, b, no, x)"
    )
    engine = Spark.of(frame, "kinds")
    text, whole, real = Kind.TEXT, Kind.INTEGER, Kind.REAL
    assert {name: column.kind for name, column in engine.describe_columns().items()} == {
        "uid": text, "y": whole, "s": whole, "r": real, "n0": whole, "n2": real, "c": text, "d": Kind.DATE,
        "z": Kind.TIMESTAMP, "t": Kind.TIMESTAMP, "b": Kind.BOOLEAN,
    }  # fmt: skip

    def by(*columns: str) -> set[Any]:
        named = ", ".join(f'"{column}"' for column in columns)
        return set(read_totals(engine, f"SELECT {named}, COUNT(*) AS n FROM kinds GROUP BY {named}"))

    assert by("uid", "n0", "c") == {("a", 7, "Ann"), ("a ", -7, "ANN"), ("A", 0, None)}
    assert by("d", "z", "t") == {
        (date(2024, 2, 29), datetime(2024, 3, 10, 2, 30), datetime(2024, 3, 10, 2, 30, 0, 500_000)),
        (None, datetime(9999, 12, 31, 23, 59, 59), None),
        (None, None, None),
    }  # the session's own zone has no half past two on that day
    assert by("b") == {(True,), (False,)}
    sums = read_totals(
        engine, "SELECT SUM(n2) AS n, SUM(r) AS r, COUNT(r) AS k FROM kinds", bounds={"n2": (-1, 2), "r": (-1, 2)}
    )
    assert sums == {(): (2**19 // 4, 2 * 2**19, 2)}


def check_many_conditions(session: SparkSession) -> None:
    """Joined by AND alone, Spark would run out of stack; a plan that does so fails, and does not hang."""
    engine = Spark.of(session.createDataFrame([(1, 5), (2, 7)], "uid INT, x INT").coalesce(1), "t")
    query = "SELECT COUNT(*) AS n FROM t WHERE " + " AND ".join(["x < 6"] * 1500)
    assert read_totals(engine, query) == {(): (1,)}
    engine.computed, engine._compiled = False, {}
    assert read_totals(engine, query) == {(): (1,)}
    engine._compiled = {}
    with patch("discreet.sql.expressions.LONG_CONDITION", 1500), pytest.raises(EngineFailed):
        read_totals(engine, query)


def check_constants(session: SparkSession) -> None:
    """Spark makes a hash set of a long list, where −0 and 0 might differ; and it must substitute nothing in a text."""
    rows = [(1, -0.0, "${spark.app.name}"), (2, nan, "a\\b")]
    frame = session.createDataFrame(rows, "uid INT, x DOUBLE, s STRING").coalesce(1)
    engine, listed = Spark.of(frame, "t"), ", ".join(map(str, range(20)))
    assert read_totals(engine, f"SELECT COUNT(*) AS n FROM t WHERE x IN ({listed})") == {(): (1,)}
    found = read_totals(engine, "SELECT s, COUNT(*) AS n FROM t WHERE s IN ('${spark.app.name}', 'a\\b') GROUP BY s")
    assert set(found) == {("${spark.app.name}",), ("a\\b",)}


def check_saturation(session: SparkSession) -> None:
    frame = session.sql("SELECT id AS uid, 9000000000000000 AS x FROM range(20000)")
    found = read_totals(Spark.of(frame, "t"), "SELECT SUM(x) AS s FROM t", bounds={"x": (0, 2**51 - 1)}, max_rows=2000)
    assert found == {(): (2**63 - 1,)}


def create_people(session: SparkSession, rows: int = 900) -> Any:
    return session.sql(f"SELECT id, IF(id % 3 = 0, 'a', 'b') AS dept, 50.0D AS pay FROM range(1, {rows + 1})")


def check_sessions(session: SparkSession, folder: Path) -> None:
    create_people(session).createOrReplaceGlobalTempView("staff")
    duckdb.sql("SELECT i AS id, if(i % 3 = 0, 'a', 'b') AS dept, 50.0::DOUBLE AS pay FROM range(1, 901) t(i)").write_parquet(
        str(folder / "people.parquet")
    )
    (folder / "depts.csv").write_text("dept,floor\na,up\nb,down\n")
    public = {"public": {"depts": folder / "depts.csv"}}
    shares: list[float] = []
    by_path = connect("spark:local[2]", path=folder / "people.parquet", **public, **DECLARED)
    assert count_by_dept(by_path) == {"a": 300, "b": 600}
    query = "SELECT floor, COUNT(*) AS n FROM people JOIN depts USING (dept) GROUP BY floor"
    found = by_path.ask(query, epsilon=1000, progress=shares.append).rows
    assert {keys[0]: int(row[0].value) for keys, row in found} == {"up": 300, "down": 600}
    assert all(0 <= share <= 1 for share in shares)
    assert by_path.engine.progress() == 1
    by_name = connect("spark:local[2]", table=f"{GLOBAL_SCHEMA}.staff", **DECLARED)
    assert count_by_dept(by_name, "staff") == {"a": 300, "b": 600}
    assert session.conf.get("spark.sql.session.timeZone") == "America/New_York"
    assert session.conf.get("spark.sql.ansi.enabled") == "false"
    assert session.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    with pytest.raises(BadParameter, match="a real column"):
        connect(create_people(session), unit="pay", epsilon=1)
    for wrong in ({}, {"table": "missing"}, {"path": "nowhere.parquet"}, {"path": "people.csv"}):
        with pytest.raises(SourceRefused):
            connect("spark:local[2]", unit="id", epsilon=1, **wrong)  # type: ignore[arg-type]


def check_validation(session: SparkSession, folder: Path) -> None:
    """Files of different types are refused when they are opened; a condition is not evaluated before the owner's own."""
    source = write_two_files(folder, *MIXED_TYPES[0])
    with pytest.raises(SourceRefused, match="a column has different types"):
        connect("spark:local[2]", path=str(Path(source).parent), unit="id", epsilon=1)
    with pytest.raises(BadParameter, match="different units could be read as the same"):
        connect(session.sql("SELECT TIMESTAMP '2024-01-01' AS id"), table="t", unit="id", epsilon=1)
    session.conf.set("spark.sql.ansi.enabled", "true")
    raw = "SELECT id, CASE WHEN id = 137 THEN 'x' ELSE CAST(id AS STRING) END AS t FROM range(300)"
    kept = f"SELECT id FROM ({raw}) WHERE t <> 'x'"
    guarded = session.sql(f"SELECT r.id, CAST(r.t AS BIGINT) AS v FROM ({raw}) AS r JOIN ({kept}) AS k ON k.id = r.id")
    query = "SELECT COUNT(*) AS n FROM people WHERE v > 5"
    opened = connect(guarded, table="people", unit="id", epsilon=10**6, bounds={"v": (0, 300)}, unique=True)
    assert round(opened.ask(query, epsilon=10**5).rows[0][1][0].value) == 293
    with patch.object(Spark, "dialect", dataclasses.replace(SPARK, fence=lambda rows: rows)), pytest.raises(EngineFailed):
        opened.ask(query, epsilon=10**5, fresh=True)  # the mutant
    session.conf.set("spark.sql.ansi.enabled", "false")


def check_silence(session: SparkSession, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """A value that makes the frame itself raise is found when the frame is opened, and only the owner's log quotes it. One
    that comes later fails the query, and the source is quarantined."""
    session.conf.set("spark.sql.ansi.enabled", "true")
    frail = session.sql("SELECT id, concat('secret', id) AS dept, CAST(concat('secret', id) AS INT) AS pay FROM range(3)")
    capfd.readouterr()
    with caplog.at_level(logging.WARNING, "discreet.owner"):
        with pytest.raises(SourceRefused, match="validation"):
            connect(frail, table="people", **DECLARED)
        assert "secret" in caplog.text
        with patch.object(Spark, "probe"):  # as if the value had come after validation
            later = connect(frail, table="people", **DECLARED)
        caplog.clear()
        with pytest.raises(EngineFailed) as failure:
            later.ask("SELECT SUM(pay) AS s FROM people", epsilon=1)
    assert type(failure.value) is EngineFailed
    assert str(failure.value) == str(EngineFailed())
    assert failure.value.__suppress_context__
    assert "secret" in caplog.text
    with pytest.raises(SourceQuarantined):
        later.ask("SELECT COUNT(*) AS n FROM people", epsilon=1)
    assert "secret" not in "".join(capfd.readouterr())


def check_stopped_context(session: SparkSession, ledger: FileLedger, caplog: pytest.LogCaptureFixture) -> None:
    """The context is stopped while a job runs, and the next queries find it stopped: each is charged, and has no answer."""
    # Rows are quick while sources are opened and validated, and slow once the property is set. A stopped context leaves its
    # tasks running: they must cost little.
    pause = "CAST(reflect('java.lang.System', 'getProperty', 'discreet.pause', '0') AS BIGINT)"
    slept = f"reflect('java.lang.Thread', 'sleep', {pause})"
    slow = f"SELECT id, IF({slept} = 'never', 'a', 'b') AS dept, 50.0D AS pay FROM range(1, 4000)"
    session.sql(f"CREATE VIEW shift AS {slow}")
    session.sql(slow).createOrReplaceGlobalTempView("shift")
    running = ledger.session("spark:local[2]", table="shift")
    by_view = ledger.session("spark:local[2]", table=f"{GLOBAL_SCHEMA}.shift")
    by_path = ledger.session(session.read.parquet(str(ledger.path.parent / "people.parquet")), table="people")
    by_frame = ledger.session(create_people(session), table="people")
    assert session.sparkContext._jvm is not None
    session.sparkContext._jvm.java.lang.System.setProperty("discreet.pause", "10")
    ledger.check_failure(running, caplog, progress=lambda _: session.stop())
    ledger.check_failure(by_path, caplog, id="files")
    ledger.check_failure(by_frame, caplog, id="frame")
    ledger.check_failure(by_view, caplog, id="view")


def check_new_context(session: SparkSession, ledger: FileLedger, caplog: pytest.LogCaptureFixture) -> None:
    """A retry with the same id on a new context is answered and charged once. A frame that computes something, or a view
    that ended with the context, has no identity that outlives it."""
    files = str(ledger.path.parent / "people.parquet")
    session.sql(f"CREATE VIEW shift AS SELECT * FROM parquet.`{files}`")  # the catalog was in memory
    session.table("shift").createOrReplaceGlobalTempView("shift")
    ledger.check_retry(ledger.session("spark:local[2]", table="shift"))
    spent = ledger.spent
    by_frame = ledger.session(session.read.parquet(files), table="people")
    assert retry_count(by_frame, id="files") == COUNTS
    with pytest.raises(BadParameter, match="another measurement"):
        retry_count(ledger.session(create_people(session), table="people"), id="frame")
    with pytest.raises(BadParameter, match="another measurement"):
        retry_count(ledger.session("spark:local[2]", table=f"{GLOBAL_SCHEMA}.shift"), id="view")
    assert ledger.spent == spent
    session.sparkContext._jsc.sc().stop()  # type: ignore[union-attr]  # it ends without Python's knowledge
    ledger.check_failure(by_frame, caplog, id="later", fresh=True)
    assert retry_count(ledger.session("spark:local[2]", path=files), id="later", fresh=True) == COUNTS
    active = SparkSession.getActiveSession()
    assert active is not None
    active.stop()


def test_two_threads_are_silenced_independently() -> None:
    """The thread that leaves first neither lets the other's values out nor silences a logger for good."""
    messages: list[str] = []
    loggers, listening = [PySparkLogger.getLogger(name) for name in NOISY_LOGGERS], logging.Handler()
    listening.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    first_in, both, first_left = threading.Event(), threading.Barrier(2), threading.Event()

    def first() -> None:
        with silence_spark():
            first_in.set()
            both.wait(60)
        first_left.set()

    def second() -> None:
        first_in.wait(60)
        with silence_spark():
            both.wait(60)
            first_left.wait(60)
            for logger in loggers:
                logger.error("secret")

    for logger in loggers:
        logger.addHandler(listening)
    threads = [threading.Thread(target=each) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert messages == []
    for logger in loggers:
        logger.error("other")
        logger.removeHandler(listening)
    assert messages == ["other"] * len(NOISY_LOGGERS)


def test_names_with_dots_have_different_identities() -> None:
    """Spark's own catalog has no such names; others may."""

    def resolve(name: str) -> tuple[tuple[str, ...], Origin]:
        def table(full: str) -> Any:
            *space, last = (part.strip("`") for part in full.split("`.`"))
            return SimpleNamespace(catalog="lake", namespace=space, name=last, isTemporary=False, tableType="MANAGED")

        context, conf = SimpleNamespace(master="yarn"), {"spark.sql.warehouse.dir": "s3a://key:hunter2@lake/home"}
        return resolve_table(SimpleNamespace(catalog=SimpleNamespace(getTable=table), conf=conf, sparkContext=context), name)  # type: ignore[arg-type]

    assert resolve('"a.b".c')[0] == ("lake", "a.b", "c")
    assert resolve('"a.b".c')[1] != resolve('a."b.c"')[1]
    assert "hunter2" not in resolve("a.b")[1].identity
    with pytest.raises(SourceRefused, match="several parts"):
        resolve("a.b.c")


def test_a_missing_java_is_reported(tmp_path: Path) -> None:
    code = (
        "import discreet\n"
        "try: discreet.connect('spark:local[2]', path='people.parquet', unit='id', epsilon=1)\n"
        "except discreet.SourceRefused as refusal: print(refusal)"
    )
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert output == "Spark needs Java 17 or later, and no Java was found. Install it, or set JAVA_HOME.\n"
