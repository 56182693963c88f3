"""A real Spark for the tests, in this process: local[2]."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow
from pyspark.sql import SparkSession

from discreet.engines.spark.engine import Spark
from tests.support.random_tables import World

TYPES = {"HUGEINT": "DECIMAL(38,0)", "UBIGINT": "DECIMAL(20,0)", "TIMESTAMP": "TIMESTAMP_NTZ", "VARCHAR": "STRING"}
ARROW = {
    "BIGINT": pyarrow.int64(), "INTEGER": pyarrow.int32(), "HUGEINT": pyarrow.decimal128(38, 0), "BOOLEAN": pyarrow.bool_(),
    "UBIGINT": pyarrow.decimal128(20, 0), "DOUBLE": pyarrow.float64(), "FLOAT": pyarrow.float32(), "DATE": pyarrow.date32(),
    "DECIMAL(18,3)": pyarrow.decimal128(18, 3), "VARCHAR": pyarrow.string(), "TIMESTAMP": pyarrow.timestamp("us"),
}  # fmt: skip

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that starts fast and never gets very fast: hundreds of small statements, each compiled once."""


SHARED = "shared"
"""What this user calls the schema of global views."""
ODD = {
    "spark.sql.ansi.enabled": "false", "spark.sql.caseSensitive": "false", "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.variable.substitute": "true", "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true", "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
}  # fmt: skip
"""Settings of the whole context, so that a new session begins with them."""


@contextmanager
def spark(*, adaptive: bool, home: Path | None = None) -> Iterator[SparkSession]:
    """A session as somebody may have it, who set everything otherwise than we need it."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-java-options "{QUICK}" pyspark-shell'
    with TemporaryDirectory() as spare:
        own = {
            "spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": str(adaptive).lower(),
            "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.globalTempDatabase": SHARED,
            "spark.sql.warehouse.dir": str(home or spare),
        }  # fmt: skip
        builder = SparkSession.builder.master("local[2]")
        for name, value in (ODD | own).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
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
