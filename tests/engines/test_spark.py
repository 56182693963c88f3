"""Spark gives the same integers as the reference. One test, so that one worker starts one JVM; at most 150 jobs in it."""

import dataclasses
import json
import logging
import subprocess
import sys
import threading
from datetime import date, datetime
from functools import partial
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from discreet import BadParameter, EngineFailed, SourceQuarantined, SourceRefused, connect
from discreet.engines.spark.engine import Origin, Spark, resolve_table
from discreet.engines.spark.session import NOISY_LOGGERS, silence_spark
from discreet.query.schema import Kind
from discreet.sql.dialects import SPARK
from tests.engines.kinds import declared, unmarked
from tests.engines.retries import COUNTS, Ledger
from tests.engines.retries import asked as asked_again
from tests.engines.spark_places import places
from tests.engines.sparks import SHARED, jobs, opened, spark
from tests.engines.suites import differences, joined_differences
from tests.engines.test_postgres import COUNTED, DECLARED, asked, counts
from tests.engines.test_validation import MIXED, parquet
from tests.support.console import DISCREET
from tests.support.replaying import AGGREGATES, replay_every_aggregate

MOST_JOBS = 150


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark(tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    with spark(adaptive=False, home=tmp_path / "home") as session:
        same_totals(session)
        replays(session)
        types(session)
        constants(session)
        saturation(session)
        many_conditions(session)
        validation(session, tmp_path / "mixed")
        sources(session, tmp_path)
        places(session, tmp_path)
        silence(session, caplog, capfd)
        assert jobs(session) <= MOST_JOBS
        ledger = Ledger(tmp_path)
        stopped(session, ledger, caplog)
    with spark(adaptive=True, home=tmp_path / "home") as session:
        started_again(session, ledger, caplog)


def same_totals(session: SparkSession) -> None:
    assert differences(partial(opened, session), range(100, 110), 2) == []
    assert joined_differences(partial(opened, session), range(3), 1) == []


def replays(session: SparkSession) -> None:
    """All aggregates; few jobs."""
    before = jobs(session)
    found = replay_every_aggregate(partial(opened, session), range(43_003, 43_005))
    assert found.violations == []
    assert found.measurements == 2
    assert found.aggregates == AGGREGATES
    assert jobs(session) - before <= 20


def types(session: SparkSession) -> None:
    session.sql(f"CREATE TABLE kinds ({declared('spark')}) USING parquet")
    assert unmarked("spark", Spark.connect("spark:local[2]", "kinds", None, None)) == {}
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
        return set(asked(engine, f"SELECT {named}, COUNT(*) AS n FROM kinds GROUP BY {named}"))

    assert by("uid", "n0", "c") == {("a", 7, "Ann"), ("a ", -7, "ANN"), ("A", 0, None)}
    assert by("d", "z", "t") == {
        (date(2024, 2, 29), datetime(2024, 3, 10, 2, 30), datetime(2024, 3, 10, 2, 30, 0, 500_000)),
        (None, datetime(9999, 12, 31, 23, 59, 59), None),
        (None, None, None),
    }  # the session's own zone has no half past two on that day
    assert by("b") == {(True,), (False,)}
    sums = asked(engine, "SELECT SUM(n2) AS n, SUM(r) AS r, COUNT(r) AS k FROM kinds", bounds={"n2": (-1, 2), "r": (-1, 2)})
    assert sums == {(): (2**19 // 4, 2 * 2**19, 2)}


def many_conditions(session: SparkSession) -> None:
    """Joined by AND as they are, Spark would run out of stack; and a plan that does fails, where it once was waited for."""
    engine = Spark.of(session.createDataFrame([(1, 5), (2, 7)], "uid INT, x INT").coalesce(1), "t")
    question = "SELECT COUNT(*) AS n FROM t WHERE " + " AND ".join(["x < 6"] * 1500)
    assert asked(engine, question) == {(): (1,)}
    engine.computed = False
    assert asked(engine, question) == {(): (1,)}
    with patch("discreet.sql.expressions.LONG_CONDITION", 1500), pytest.raises(EngineFailed):
        asked(engine, question)


def constants(session: SparkSession) -> None:
    """A long list becomes a hash set in Spark, where −0 and 0 might differ; and nothing in a text is replaced."""
    rows = [(1, -0.0, "${spark.app.name}"), (2, nan, "a\\b")]
    frame = session.createDataFrame(rows, "uid INT, x DOUBLE, s STRING").coalesce(1)
    engine, listed = Spark.of(frame, "t"), ", ".join(map(str, range(20)))
    assert asked(engine, f"SELECT COUNT(*) AS n FROM t WHERE x IN ({listed})") == {(): (1,)}
    found = asked(engine, "SELECT s, COUNT(*) AS n FROM t WHERE s IN ('${spark.app.name}', 'a\\b') GROUP BY s")
    assert set(found) == {("${spark.app.name}",), ("a\\b",)}


def saturation(session: SparkSession) -> None:
    frame = session.sql("SELECT id AS uid, 9000000000000000 AS x FROM range(20000)")
    found = asked(Spark.of(frame, "t"), "SELECT SUM(x) AS s FROM t", bounds={"x": (0, 2**51 - 1)}, max_rows=2000)
    assert found == {(): (2**63 - 1,)}


def people(session: SparkSession, rows: int = 900) -> Any:
    return session.sql(f"SELECT id, IF(id % 3 = 0, 'a', 'b') AS dept, 50.0D AS pay FROM range(1, {rows + 1})")


def sources(session: SparkSession, folder: Path) -> None:
    people(session).createOrReplaceGlobalTempView("staff")
    duckdb.sql("SELECT i AS id, if(i % 3 = 0, 'a', 'b') AS dept, 50.0::DOUBLE AS pay FROM range(1, 901) t(i)").write_parquet(
        str(folder / "people.parquet")
    )
    (folder / "depts.csv").write_text("dept,floor\na,up\nb,down\n")
    public = {"public": {"depts": folder / "depts.csv"}}
    told: list[float] = []
    by_path = connect("spark:local[2]", path=folder / "people.parquet", **public, **DECLARED)
    assert counts(by_path) == {"a": 300, "b": 600}
    question = "SELECT floor, COUNT(*) AS n FROM people JOIN depts USING (dept) GROUP BY floor"
    found = by_path.ask(question, epsilon=1000, progress=told.append).rows
    assert {keys[0]: int(row[0].value) for keys, row in found} == {"up": 300, "down": 600}
    assert all(0 <= share <= 1 for share in told)
    assert by_path.engine.progress() == 1
    by_name = connect("spark:local[2]", table=f"{SHARED}.staff", **DECLARED)
    assert counts(by_name, "staff") == {"a": 300, "b": 600}
    assert session.conf.get("spark.sql.session.timeZone") == "America/New_York"
    assert session.conf.get("spark.sql.ansi.enabled") == "false"
    assert session.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    with pytest.raises(BadParameter, match="reals"):
        connect(people(session), unit="pay", epsilon=1)
    for wrong in ({}, {"table": "nobody"}, {"path": "nowhere.parquet"}, {"path": "people.csv"}):
        with pytest.raises(SourceRefused):
            connect("spark:local[2]", unit="id", epsilon=1, **wrong)  # type: ignore[arg-type]


def validation(session: SparkSession, folder: Path) -> None:
    """Files of different types are refused when they are opened; a condition is not evaluated before the owner's own."""
    source = parquet(folder, *MIXED[0])
    with pytest.raises(SourceRefused, match="a column has different types"):
        connect("spark:local[2]", path=str(Path(source).parent), unit="id", epsilon=1)
    with pytest.raises(BadParameter, match="different units could be read as the same"):
        connect(session.sql("SELECT TIMESTAMP '2024-01-01' AS id"), table="t", unit="id", epsilon=1)
    session.conf.set("spark.sql.ansi.enabled", "true")
    raw = "SELECT id, CASE WHEN id = 137 THEN 'x' ELSE CAST(id AS STRING) END AS t FROM range(300)"
    kept = f"SELECT id FROM ({raw}) WHERE t <> 'x'"
    guarded = session.sql(f"SELECT r.id, CAST(r.t AS BIGINT) AS v FROM ({raw}) AS r JOIN ({kept}) AS k ON k.id = r.id")
    question = "SELECT COUNT(*) AS n FROM people WHERE v > 5"
    opened = connect(guarded, table="people", unit="id", epsilon=10**6, bounds={"v": (0, 300)}, unique=True)
    assert round(opened.ask(question, epsilon=10**5).rows[0][1][0].value) == 293
    with patch.object(Spark, "dialect", dataclasses.replace(SPARK, fence=lambda rows: rows)), pytest.raises(EngineFailed):
        opened.ask(question, epsilon=10**5, fresh=True)  # the mutant
    session.conf.set("spark.sql.ansi.enabled", "false")


def silence(session: SparkSession, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """A value that makes the frame itself raise is met when the frame is opened, and told to the owner's log only; so is one
    that comes later, after which the source is quarantined."""
    session.conf.set("spark.sql.ansi.enabled", "true")
    frail = session.sql("SELECT id, concat('secret', id) AS dept, CAST(concat('secret', id) AS INT) AS pay FROM range(3)")
    capfd.readouterr()
    with caplog.at_level(logging.WARNING, "discreet.owner"):
        with pytest.raises(SourceRefused, match="validation"):
            connect(frail, table="people", **DECLARED)
        assert "secret" in caplog.text
        with patch.object(Spark, "probe"):  # as if the value had come after validation
            asked_of = connect(frail, table="people", **DECLARED)
        caplog.clear()
        with pytest.raises(EngineFailed) as failure:
            asked_of.ask("SELECT SUM(pay) AS s FROM people", epsilon=1)
    assert type(failure.value) is EngineFailed
    assert str(failure.value) == str(EngineFailed())
    assert failure.value.__suppress_context__
    assert "secret" in caplog.text
    with pytest.raises(SourceQuarantined):
        asked_of.ask("SELECT COUNT(*) AS n FROM people", epsilon=1)
    assert "secret" not in "".join(capfd.readouterr())


def stopped(session: SparkSession, ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    """The context is stopped while a job runs, and another question finds it stopped: paid, no answer."""
    slept = "reflect('java.lang.Thread', 'sleep', 10L)"  # a stopped context leaves its tasks running: they must cost little
    slow = f"SELECT id, IF({slept} = 'never', 'a', 'b') AS dept, 50.0D AS pay FROM range(1, 4000)"
    session.sql(f"CREATE VIEW shift AS {slow}")
    session.sql(slow).createOrReplaceGlobalTempView("shift")
    running = ledger.session("spark:local[2]", table="shift")
    by_view = ledger.session("spark:local[2]", table=f"{SHARED}.shift")
    by_path = ledger.session(session.read.parquet(str(ledger.path.parent / "people.parquet")), table="people")
    by_frame = ledger.session(people(session), table="people")
    ledger.fails(running, caplog, progress=lambda _: session.stop())
    ledger.fails(by_path, caplog, id="files")
    ledger.fails(by_frame, caplog, id="frame")
    ledger.fails(by_view, caplog, id="view")


def started_again(session: SparkSession, ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    """The same id on a new context is answered and paid once. What a frame computes, or a view that went with the context,
    is known by nothing that outlives it."""
    files = str(ledger.path.parent / "people.parquet")
    session.sql(f"CREATE VIEW shift AS SELECT * FROM parquet.`{files}`")  # the catalog was in memory
    session.table("shift").createOrReplaceGlobalTempView("shift")
    ledger.is_answered(ledger.session("spark:local[2]", table="shift"))
    paid = ledger.spent
    by_frame = ledger.session(session.read.parquet(files), table="people")
    assert asked_again(by_frame, id="files") == COUNTS
    with pytest.raises(BadParameter, match="another measurement"):
        asked_again(ledger.session(people(session), table="people"), id="frame")
    with pytest.raises(BadParameter, match="another measurement"):
        asked_again(ledger.session("spark:local[2]", table=f"{SHARED}.shift"), id="view")
    assert ledger.spent == paid
    session.sparkContext._jsc.sc().stop()  # type: ignore[union-attr]  # it ends by itself, and Python is not told
    ledger.fails(by_frame, caplog, id="later", fresh=True)
    assert asked_again(ledger.session("spark:local[2]", path=files), id="later", fresh=True) == COUNTS
    active = SparkSession.getActiveSession()
    assert active is not None
    active.stop()


def test_two_threads_are_quiet_each_by_itself() -> None:
    """Whoever leaves first neither lets the other's values out nor silences anybody for good."""
    said: list[str] = []
    loggers, listening = [PySparkLogger.getLogger(name) for name in NOISY_LOGGERS], logging.Handler()
    listening.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
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
    assert said == []
    for logger in loggers:
        logger.error("mine")
        logger.removeHandler(listening)
    assert said == ["mine"] * len(NOISY_LOGGERS)


def test_names_with_dots_are_told_apart() -> None:
    """Spark's own catalog has no such names; others may."""

    def at(name: str) -> tuple[tuple[str, ...], Origin]:
        def table(full: str) -> Any:
            *space, last = (part.strip("`") for part in full.split("`.`"))
            return SimpleNamespace(catalog="lake", namespace=space, name=last, isTemporary=False, tableType="MANAGED")

        context, conf = SimpleNamespace(master="yarn"), {"spark.sql.warehouse.dir": "s3a://key:hunter2@lake/home"}
        return resolve_table(SimpleNamespace(catalog=SimpleNamespace(getTable=table), conf=conf, sparkContext=context), name)  # type: ignore[arg-type]

    assert at('"a.b".c')[0] == ("lake", "a.b", "c")
    assert at('"a.b".c')[1] != at('a."b.c"')[1]
    assert "hunter2" not in at("a.b")[1].identity
    with pytest.raises(SourceRefused, match="several parts"):
        at("a.b.c")


def test_without_java_it_says_so(tmp_path: Path) -> None:
    code = (
        "import discreet\n"
        "try: discreet.connect('spark:local[2]', path='people.parquet', unit='id', epsilon=1)\n"
        "except discreet.SourceRefused as refusal: print(refusal)"
    )
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert said == "Spark needs Java 17 or later, and no Java was found. Install it, or set JAVA_HOME.\n"


KILLED = """
import sys
from discreet import EngineFailed, SourceRefused, connect
from discreet.engines.spark.engine import Spark
from discreet.engines.spark.session import start_session

Spark.probe = lambda *_: None  # the rows have no end
ledger, killed = sys.argv[1], sys.argv[2] == "killed"
session = start_session("local[2]")
rows = 1_000_000_000_000 if killed else 901
table = f"SELECT id, IF(id % 3 = 0, 'a', 'b') AS dept FROM range(1, {rows})"
session.sql(f"CREATE VIEW shift AS {table}")
shift = {"table": "shift", "unit": "id", "keys": {"dept": ("a", "b")}, "unique": True}
asked = connect("spark:local[2]", ledger=ledger, account="hr", **shift)
kill = (lambda _: session.sparkContext._gateway.proc.kill()) if killed else None
question = "SELECT dept, COUNT(*) AS n FROM shift GROUP BY dept"
try:
    answer = asked.ask(question, epsilon=1000, id="monday", progress=kill)
    print([int(row[0].value) for _, row in answer.rows])
except EngineFailed as failure:
    print(failure)
    try:
        connect("spark:local[2]", epsilon=1, **shift)
    except SourceRefused as refusal:
        print(refusal)
"""


@pytest.mark.nightly
def test_a_killed_jvm_is_asked_again_by_another_process(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)

    def ran(how: str) -> list[str]:
        command = [sys.executable, "-W", "ignore", "-c", KILLED, str(ledger.path), how]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.splitlines()

    assert ran("killed") == [
        str(EngineFailed()), "Spark's Java process is gone. Start this program again, and ask again."
    ]  # fmt: skip
    paid = ledger.spent
    assert ledger.kinds == ["AccountOpened", "Debit", "FailureRecorded"]  # one of the three that a source may have
    assert ran("again") == ["[300, 600]"]
    assert ledger.kinds == ["AccountOpened", "Debit", "FailureRecorded", "AnswerRecorded"]
    assert ledger.spent == paid > 0


@pytest.mark.nightly
def test_the_shell_asks_it_too(tmp_path: Path) -> None:
    duckdb.sql("SELECT i AS id, if(i % 3 = 0, 'a', 'b') AS dept FROM range(1, 901) t(i)").write_parquet(
        str(tmp_path / "people.parquet")
    )
    options = ("--path", str(tmp_path / "people.parquet"), "--unit", "id", "--keys", "dept=a,b", "--unique", "--json")
    command = [DISCREET, "ask", "spark:local[2]", COUNTED.format("people"), "--epsilon", "1000", *options]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    assert [row["n"]["value"] for row in json.loads(out.stdout)["rows"]] == [300, 600]
