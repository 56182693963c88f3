"""Which engine a source belongs to. A driver is imported only when a source needs it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.engines.base import Engine
from discreet.engines.duckdb.connection import WILDCARDS
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.owner import about
from discreet.errors import BadParameter, SourceRefused
from discreet.paths import format_path, is_postgres, to_libpq
from discreet.query.schema import Kind

SPARK_PREFIXES = ("spark:", "local[")


def open_engine(
    source: Any,
    table: str | None = None,
    kinds: Mapping[str, Kind] | None = None,
    *,
    path: str | Path | None = None,
    name: str | None = None,
    unit: str | None = None,
) -> Engine:
    """The engine for a source: an address of PostgreSQL ("postgresql://…", "host=… dbname=…") or Spark ("spark:local[2]",
    "spark://…"), a Spark frame, or whatever DuckDB opens. `table` names the table in it, `path` the files that Spark shall
    read; `name` is what questions call a source that has no name of its own. `kinds` says what the columns of a CSV file or
    a frame hold, and `unit` which of them identifies a unit."""
    text = source if isinstance(source, str) else ""
    spark = text.startswith(SPARK_PREFIXES) or type(source).__module__.startswith("pyspark.")
    if path is not None and not text.startswith(SPARK_PREFIXES):
        raise BadParameter("path", repr(str(path)), "only Spark reads files by path=", "give the file as the source itself")
    if is_postgres(text):
        with about(f"PostgreSQL, table {table or name}"):  # without the address, which may hold a password
            return _open_postgres(to_libpq(text), table or name)
    if spark:
        with about(f"Spark, {table or path or name}"):
            return _open_spark(source, table, path, name)
    with about(_called(source)):
        return DuckDB.open(source, table or _name_of_glob(source) or name, kinds, unit)


def _called(source: Any) -> str:
    """What the owner's log calls a source before it is open."""
    if not isinstance(source, str | Path):
        return f"{type(source).__module__.partition('.')[0]} {type(source).__name__}"
    return os.path.abspath(source) if format_path(str(source)) == repr(str(source)) else "a file"


def _open_postgres(address: str, table: str | None) -> Engine:
    try:
        from discreet.engines.postgres.engine import Postgres
    except ImportError:
        raise SourceRefused("psycopg is not installed", "pip install 'discreet[postgres]'") from None
    return Postgres.open(address, table)


def _open_spark(source: Any, table: str | None, path: str | Path | None, name: str | None) -> Engine:
    try:
        from discreet.engines.spark.engine import Spark
    except ImportError:
        raise SourceRefused("pyspark is not installed", "pip install 'discreet[spark]'; it needs Java 17 or later") from None
    if isinstance(source, str):
        return Spark.connect(source, table, path if path is None else str(path), name)
    return Spark.of(source, table or name or "data")


def _name_of_glob(source: Any) -> str | None:
    """A name for a glob, which has none of its own: what stands before the first wildcard."""
    if not isinstance(source, str | Path) or not any(mark in str(source) for mark in WILDCARDS) or os.path.isdir(source):
        return None
    stem = Path(str(source)).name
    for mark in WILDCARDS:
        stem = stem.partition(mark)[0]
    return stem.rstrip("-_.") or "data"
