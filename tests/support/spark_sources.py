"""Steps of the one test of Spark: which table is meant, its identity, and what stays as it is in the user's session."""

import gc
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from discreet import EngineFailed, SourceRefused, connect
from discreet.engines.spark import SETTINGS, Spark, drop_unused_views, new_session
from discreet.query.schema import Kind
from discreet.sql.dialects import column
from tests.support.engine_sessions import read_totals
from tests.support.spark_session import GLOBAL_SCHEMA, USER_SETTINGS

LOCAL = "spark:local[2]"
COUNT = "SELECT COUNT(*) AS n FROM {}"


def check_sources(session: SparkSession, folder: Path) -> None:
    """Run all steps, one after the other."""
    check_settings(session)
    check_invalid_texts(session)
    check_padding(session, folder)
    check_partitions(session, folder)
    check_names(session)
    check_masters(session)
    check_odd_frames(session)
    check_views_are_dropped(session)


def identity(source: Any, **more: Any) -> str:
    return connect(source, unit="id", epsilon=1, **more).engine.identity


def check_settings(session: SparkSession) -> None:
    """The settings that discreet needs are the opposite of this user's, and hold in its own session alone."""
    own = new_session(session)
    assert set(SETTINGS) == set(USER_SETTINGS)
    assert {name: own.conf.get(name) for name in SETTINGS} == SETTINGS
    assert {name: session.conf.get(name) for name in USER_SETTINGS} == USER_SETTINGS
    assert all(USER_SETTINGS[name] != value for name, value in SETTINGS.items())
    frame = session.createDataFrame([(1, "a", "x", "y"), (2, "A", "x", "y")], ["id", "ID", "a.b", "aXb"])
    found = read_totals(Spark.of(frame, "t"), 'SELECT "ID", "a.b", COUNT(*) AS n FROM t GROUP BY "ID", "a.b"', unit="id")
    assert set(found) == {("a", "x"), ("A", "x")}


def check_invalid_texts(session: SparkSession) -> None:
    """They are NULL, as keys and as units; and what fails after the job fails like the job."""
    broken = (
        "CASE id WHEN 3 THEN CAST(X'736563726574FF' AS STRING) WHEN 4 THEN CAST(X'736563726574FE' AS STRING) ELSE 'ok' END"
    )
    frame = session.sql(f"SELECT id, {broken} AS g, {broken} COLLATE UTF8_LCASE AS c FROM range(6)")
    engine = Spark.of(frame.coalesce(1), "t")
    query = "SELECT g, c, COUNT(*) AS n FROM t GROUP BY g, c"
    found = read_totals(engine, query, unit="id", unique=True)
    assert {keys: totals[0] for keys, totals in found.items()} == {("ok", "ok"): 4, (None, None): 2}
    assert read_totals(engine, "SELECT COUNT(DISTINCT g) AS n FROM t", unit="g") == {(): (1,)}
    engine.columns = {name: column(name) for name in engine.types}  # the mutant reads texts as they are
    with pytest.raises(EngineFailed) as failure:
        read_totals(engine, "SELECT g, COUNT(*) AS n FROM t GROUP BY g", unit="id", unique=True)
    assert failure.value.__suppress_context__


def check_padding(session: SparkSession, folder: Path) -> None:
    """A char(n) is read without its padding, from the catalog and from a frame, whatever it is compared with."""
    session.sql(f"CREATE TABLE chars (id INT, c CHAR(5), v VARCHAR(5)) USING parquet LOCATION '{folder / 'chars'}'")
    session.sql("INSERT INTO chars VALUES (1, 'x', 'x '), (2, 'x', 'y')")
    for engine in (Spark.connect(LOCAL, "chars", None, None), Spark.of(session.table("chars"), "chars")):
        found = read_totals(
            engine, "SELECT c, v, COUNT(*) AS n FROM chars WHERE c = 'x' GROUP BY c, v", unit="id", unique=True
        )
        assert set(found) == {("x", "x "), ("x", "y")}


def check_partitions(session: SparkSession, folder: Path) -> None:
    """Names of folders are texts. A catalog may have some of the folders only, and then has another identity than they."""
    at = str(folder / "parts")
    session.sql("SELECT id, lpad(id % 3, 3, '0') AS zip FROM range(6)").coalesce(1).write.partitionBy("zip").parquet(at)
    engine = Spark.connect(LOCAL, None, at, None)
    assert engine.describe_columns()["zip"].kind is Kind.TEXT
    assert set(read_totals(engine, "SELECT zip, COUNT(*) AS n FROM parts GROUP BY zip", unit="id")) == {
        ("000",),
        ("001",),
        ("002",),
    }
    session.sql(f"CREATE TABLE some (id BIGINT, zip STRING) USING parquet PARTITIONED BY (zip) LOCATION '{at}'")
    session.sql("ALTER TABLE some ADD PARTITION (zip = '001')")
    assert identity(LOCAL, path=at) == identity(session.read.parquet(at)) == f"spark files file:{at}"
    others = [
        session.table("some"), session.read.option("mergeSchema", "true").parquet(at),
        session.read.parquet(at).where("id > 1"), session.read.parquet(f"{at}/zip=000", f"{at}/zip=001"),
        session.read.schema("id BIGINT").json(at),
    ]  # fmt: skip
    seen = [identity(frame) for frame in (*others, session.table("some"))]
    assert len(set(seen)) == len(seen)
    assert all(each.startswith("spark frame ") for each in seen)


def check_names(session: SparkSession) -> None:
    """A name is resolved as in the user's session; tables of one name have different identities; a view that ends with the
    context is like no other."""
    session.sql("CREATE SCHEMA hr")
    session.sql("CREATE VIEW hr.c AS SELECT * FROM range(5)")
    session.sql("CREATE VIEW c AS SELECT * FROM range(3)")
    first = identity(LOCAL, table="c")
    assert first == identity(LOCAL, table="default.c") == identity(LOCAL, table="spark_catalog.default.c")
    session.sql("USE hr")
    assert first != identity(LOCAL, table="c") == identity(LOCAL, table="hr.c")
    assert read_totals(Spark.connect(LOCAL, "c", None, None), COUNT.format("c"), unit="id", unique=True) == {(): (5,)}
    session.range(7).createOrReplaceTempView("c")
    with pytest.raises(SourceRefused, match="temporary view"):
        connect(LOCAL, table="c", unit="id", epsilon=1)
    session.range(7).createOrReplaceGlobalTempView("c")
    assert identity(LOCAL, table=f"{GLOBAL_SCHEMA}.c") != identity(LOCAL, table=f"{GLOBAL_SCHEMA}.c")
    session.catalog.dropTempView("c")
    session.sql("USE default")


def check_masters(session: SparkSession) -> None:
    """One process has one context. Every thread finds it as it is, and nothing is set in it."""
    with pytest.raises(SourceRefused, match="runs on local"):
        connect("spark://prod.example:7077", table="default.c", unit="id", epsilon=1)
    manager: Any = session.sparkContext._jvm.org.apache.logging.log4j.LogManager  # type: ignore[union-attr]
    session.sparkContext.setLogLevel("ERROR")
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(identity(LOCAL, table="default.c")))
    thread.start()
    thread.join()
    assert found == [identity(LOCAL, table="default.c")]
    assert manager.getRootLogger().getLevel().toString() == "ERROR"
    assert session.conf.get("spark.sql.shuffle.partitions") == "2"
    session.sparkContext.setLogLevel("OFF")


def check_odd_frames(session: SparkSession) -> None:
    """They are refused before anything is charged."""
    with pytest.raises(SourceRefused, match="called 'id'"):
        connect(session.sql("SELECT 1 AS id, 2 AS id"), unit="id", epsilon=1)
    with pytest.raises(SourceRefused, match="stream"):
        connect(session.readStream.format("rate").load(), unit="value", epsilon=1)
    frame = session.range(3).selectExpr("id", "id + 1 AS v")
    sessions = [connect(frame, unit="id", epsilon=1) for _ in range(2)]
    assert all(each.engine.anchor is frame for each in sessions)  # one quarantine for all sessions on a frame


def check_views_are_dropped(session: SparkSession) -> None:
    """A view stays while an engine reads it, also a copy of the first; then it is dropped."""

    def remaining() -> set[str]:
        gc.collect()
        drop_unused_views(session)
        shown = session.sql(f"SHOW VIEWS IN {GLOBAL_SCHEMA}").collect()
        return {row.viewName for row in shown if row.viewName.startswith("discreet")}

    before = remaining()
    engine, _ = Spark.of(session.range(3), "t").with_public({})
    [view] = remaining() - before
    assert view == engine.qualified_name[-1]
    assert read_totals(engine, COUNT.format("t"), unit="id", unique=True) == {(): (3,)}
    del engine
    assert view not in remaining()
