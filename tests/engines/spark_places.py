"""Steps of the one test of Spark: which table is meant, what it is known by, and what the user's session keeps."""

import gc
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from discreet import EngineFailed, SourceRefused, connect
from discreet.engines.spark.engine import Spark
from discreet.engines.spark.session import SETTINGS, drop_unused_views, new_session
from discreet.query.schema import Kind
from discreet.sql.expressions import column
from tests.engines.sparks import ODD, SHARED
from tests.engines.test_postgres import asked

LOCAL = "spark:local[2]"
COUNT = "SELECT COUNT(*) AS n FROM {}"


def places(session: SparkSession, folder: Path) -> None:
    """All of them, one after the other."""
    settings(session)
    invalid_texts(session)
    padding(session, folder)
    partitions(session, folder)
    names(session)
    masters(session)
    odd_frames(session)
    views_are_taken_away(session)


def identity(source: Any, **more: Any) -> str:
    return connect(source, unit="id", epsilon=1, **more).engine.identity


def settings(session: SparkSession) -> None:
    """What we count on is the opposite of what this user has, and holds in our session alone."""
    own = new_session(session)
    assert set(SETTINGS) == set(ODD)
    assert {name: own.conf.get(name) for name in SETTINGS} == SETTINGS
    assert {name: session.conf.get(name) for name in ODD} == ODD
    assert all(ODD[name] != value for name, value in SETTINGS.items())
    frame = session.createDataFrame([(1, "a", "x", "y"), (2, "A", "x", "y")], ["id", "ID", "a.b", "aXb"])
    found = asked(Spark.of(frame, "t"), 'SELECT "ID", "a.b", COUNT(*) AS n FROM t GROUP BY "ID", "a.b"', unit="id")
    assert set(found) == {("a", "x"), ("A", "x")}


def invalid_texts(session: SparkSession) -> None:
    """They are missing, as keys and as units; and whatever fails after the job fails like the job."""
    broken = (
        "CASE id WHEN 3 THEN CAST(X'736563726574FF' AS STRING) WHEN 4 THEN CAST(X'736563726574FE' AS STRING) ELSE 'ok' END"
    )
    frame = session.sql(f"SELECT id, {broken} AS g, {broken} COLLATE UTF8_LCASE AS c FROM range(6)")
    engine = Spark.of(frame.coalesce(1), "t")
    question = "SELECT g, c, COUNT(*) AS n FROM t GROUP BY g, c"
    found = asked(engine, question, unit="id", unique=True)
    assert {keys: totals[0] for keys, totals in found.items()} == {("ok", "ok"): 4, (None, None): 2}
    assert asked(engine, "SELECT COUNT(DISTINCT g) AS n FROM t", unit="g") == {(): (1,)}
    engine.columns = {name: column(name) for name in engine.types}  # the mutant reads texts as they are
    with pytest.raises(EngineFailed) as failure:
        asked(engine, "SELECT g, COUNT(*) AS n FROM t GROUP BY g", unit="id", unique=True)
    assert failure.value.__suppress_context__


def padding(session: SparkSession, folder: Path) -> None:
    """A char(n) is read without its padding, from the catalog and from a frame, whatever it is compared with."""
    session.sql(f"CREATE TABLE chars (id INT, c CHAR(5), v VARCHAR(5)) USING parquet LOCATION '{folder / 'chars'}'")
    session.sql("INSERT INTO chars VALUES (1, 'x', 'x '), (2, 'x', 'y')")
    for engine in (Spark.connect(LOCAL, "chars", None, None), Spark.of(session.table("chars"), "chars")):
        found = asked(engine, "SELECT c, v, COUNT(*) AS n FROM chars WHERE c = 'x' GROUP BY c, v", unit="id", unique=True)
        assert set(found) == {("x", "x "), ("x", "y")}


def partitions(session: SparkSession, folder: Path) -> None:
    """Names of folders are texts. A catalog may know of some folders only, and is then not the place that they are in."""
    at = str(folder / "parts")
    session.sql("SELECT id, lpad(id % 3, 3, '0') AS zip FROM range(6)").coalesce(1).write.partitionBy("zip").parquet(at)
    engine = Spark.connect(LOCAL, None, at, None)
    assert engine.describe_columns()["zip"].kind is Kind.TEXT
    assert set(asked(engine, "SELECT zip, COUNT(*) AS n FROM parts GROUP BY zip", unit="id")) == {
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


def names(session: SparkSession) -> None:
    """A name means what it means to the user; tables of one name are told apart; a view that ends with the context is like
    nothing else."""
    session.sql("CREATE SCHEMA hr")
    session.sql("CREATE VIEW hr.c AS SELECT * FROM range(5)")
    session.sql("CREATE VIEW c AS SELECT * FROM range(3)")
    first = identity(LOCAL, table="c")
    assert first == identity(LOCAL, table="default.c") == identity(LOCAL, table="spark_catalog.default.c")
    session.sql("USE hr")
    assert first != identity(LOCAL, table="c") == identity(LOCAL, table="hr.c")
    assert asked(Spark.connect(LOCAL, "c", None, None), COUNT.format("c"), unit="id", unique=True) == {(): (5,)}
    session.range(7).createOrReplaceTempView("c")
    with pytest.raises(SourceRefused, match="temporary view"):
        connect(LOCAL, table="c", unit="id", epsilon=1)
    session.range(7).createOrReplaceGlobalTempView("c")
    assert identity(LOCAL, table=f"{SHARED}.c") != identity(LOCAL, table=f"{SHARED}.c")
    session.catalog.dropTempView("c")
    session.sql("USE default")


def masters(session: SparkSession) -> None:
    """One process has one context; from whatever thread, it is found as it is, and nothing is set in it."""
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


def odd_frames(session: SparkSession) -> None:
    """Refused before anything could be paid."""
    with pytest.raises(SourceRefused, match="called 'id'"):
        connect(session.sql("SELECT 1 AS id, 2 AS id"), unit="id", epsilon=1)
    with pytest.raises(SourceRefused, match="stream"):
        connect(session.readStream.format("rate").load(), unit="value", epsilon=1)
    frame = session.range(3).selectExpr("id", "id + 1 AS v")
    sessions = [connect(frame, unit="id", epsilon=1) for _ in range(2)]
    assert all(each.engine.anchor is frame for each in sessions)  # one quarantine for all sessions on a frame


def views_are_taken_away(session: SparkSession) -> None:
    """While an engine reads it, also one made from another, the view stays; afterwards it goes."""

    def left() -> set[str]:
        gc.collect()
        drop_unused_views(session)
        shown = session.sql(f"SHOW VIEWS IN {SHARED}").collect()
        return {row.viewName for row in shown if row.viewName.startswith("discreet")}

    before = left()
    engine, _ = Spark.of(session.range(3), "t").with_public({})
    [mine] = left() - before
    assert mine == engine.qualified_name[-1]
    assert asked(engine, COUNT.format("t"), unit="id", unique=True) == {(): (3,)}
    del engine
    assert mine not in left()
