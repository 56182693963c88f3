"""A real Spark for the tests, in this process: local[2]."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow
from pyspark.sql import SparkSession

from discreet.engines.spark import Spark
from discreet.engines.spark_session import started
from tests.query.worlds import World

TYPES = {"HUGEINT": "DECIMAL(38,0)", "UBIGINT": "DECIMAL(20,0)", "TIMESTAMP": "TIMESTAMP_NTZ", "VARCHAR": "STRING"}
ARROW = {
    "BIGINT": pyarrow.int64(), "INTEGER": pyarrow.int32(), "HUGEINT": pyarrow.decimal128(38, 0), "BOOLEAN": pyarrow.bool_(),
    "UBIGINT": pyarrow.decimal128(20, 0), "DOUBLE": pyarrow.float64(), "FLOAT": pyarrow.float32(), "DATE": pyarrow.date32(),
    "DECIMAL(18,3)": pyarrow.decimal128(18, 3), "VARCHAR": pyarrow.string(), "TIMESTAMP": pyarrow.timestamp("us"),
}  # fmt: skip

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that starts fast and never gets very fast: hundreds of small statements, each compiled once."""


@contextmanager
def spark(*, adaptive: bool) -> Iterator[SparkSession]:
    """A session as somebody may have it: with a zone of its own, and without ANSI."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-java-options "{QUICK}" pyspark-shell'
    session = started("local[2]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.ansi.enabled", "false")
    yield session
    if session.sparkContext._jsc is not None:
        session.stop()


def opened(session: SparkSession, place: World) -> Spark:
    """The rows as a frame. They go there as Arrow: rows of Python would keep a second process busy in every statement."""
    columns = ", ".join(f"`{name}` {TYPES.get(kind, kind)}" for name, kind in place.types.items())
    arrays = [
        pyarrow.array([_held(row[name], kind) for row in place.rows], ARROW[kind]) for name, kind in place.types.items()
    ]
    return Spark.of(session.createDataFrame(pyarrow.table(arrays, list(place.types)), columns).coalesce(1), "people")


def _held(value: Any, kind: str) -> Any:
    return Decimal(value) if kind in ("HUGEINT", "UBIGINT") and value is not None else value


def jobs(session: SparkSession) -> int:
    """How many jobs have run."""
    assert session.sparkContext._jsc is not None
    return int(session.sparkContext._jsc.sc().statusStore().jobsList(None).size())
