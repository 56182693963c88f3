"""A real Spark for the tests, in this process, on local[2]."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow
from pyspark.sql import SparkSession

from discreet.engines.spark import Spark
from tests.support.random_tables import World

TYPES = {"HUGEINT": "DECIMAL(38,0)", "UBIGINT": "DECIMAL(20,0)", "TIMESTAMP": "TIMESTAMP_NTZ", "VARCHAR": "STRING"}
ARROW = {
    "BIGINT": pyarrow.int64(), "INTEGER": pyarrow.int32(), "HUGEINT": pyarrow.decimal128(38, 0), "BOOLEAN": pyarrow.bool_(),
    "UBIGINT": pyarrow.decimal128(20, 0), "DOUBLE": pyarrow.float64(), "FLOAT": pyarrow.float32(), "DATE": pyarrow.date32(),
    "DECIMAL(18,3)": pyarrow.decimal128(18, 3), "VARCHAR": pyarrow.string(), "TIMESTAMP": pyarrow.timestamp("us"),
}  # fmt: skip

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that starts fast: it runs hundreds of small statements, each compiled once."""
JVM_MEMORY = "2g"
"""At night one JVM has the tables of hundreds of sessions, for which Spark's own 1 GB did not suffice."""


GLOBAL_SCHEMA = "shared"
"""The schema of global views, under a name that this user chose."""
USER_SETTINGS = {
    "spark.sql.ansi.enabled": "false", "spark.sql.caseSensitive": "false", "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.variable.substitute": "true", "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true", "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
}  # fmt: skip
"""Settings of the whole context, with which a new session begins: the opposite of what discreet needs."""


@contextmanager
def run_spark(*, adaptive: bool, warehouse: Path | None = None) -> Iterator[SparkSession]:
    """Run a session of a user whose settings are the opposite of what discreet needs."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-memory {JVM_MEMORY} --driver-java-options "{JVM_OPTIONS}" pyspark-shell'
    with TemporaryDirectory() as spare:
        own = {
            "spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": str(adaptive).lower(),
            "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
            "spark.sql.globalTempDatabase": GLOBAL_SCHEMA, "spark.sql.warehouse.dir": str(warehouse or spare),
        }  # fmt: skip
        builder = SparkSession.builder.master("local[2]")
        for name, value in (USER_SETTINGS | own).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        if session.sparkContext._jsc is not None:
            session.stop()


def open_world(session: SparkSession, table: World) -> Spark:
    """Open a random table as a frame. Its rows go there as Arrow: rows of Python would need a second process."""
    columns = ", ".join(f"`{name}` {TYPES.get(kind, kind)}" for name, kind in table.types.items())
    arrays = [
        pyarrow.array([_to_arrow(row[name], kind) for row in table.rows], ARROW[kind]) for name, kind in table.types.items()
    ]
    return Spark.of(session.createDataFrame(pyarrow.table(arrays, list(table.types)), columns).coalesce(1), "people")


def _to_arrow(value: Any, kind: str) -> Any:
    return Decimal(value) if kind in ("HUGEINT", "UBIGINT") and value is not None else value


def count_jobs(session: SparkSession) -> int:
    """Return how many jobs have run."""
    assert session.sparkContext._jsc is not None
    return int(session.sparkContext._jsc.sc().statusStore().jobsList(None).size())
