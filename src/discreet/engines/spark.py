"""Apache Spark: the engine for frames, tables and files of a cluster.

Queries run in a session of their own on the same context (`newSession`), so that no setting of the user's is changed. Only
group keys and integers are collected. A frame's own expressions are the owner's: they run as the frame's session has them.

**Where rows come from.** A retry after a crash finds its debit by a name of the source that outlives the context. A table of
the catalog has such a name, and so has a frame that only reads one folder of Parquet files. A view that ends with the
context, or a frame that computes something, may hold anything, and is like no other.

**Which types are read.** `kind_of` lists them; a column of any other type (arrays, maps, binaries, intervals …) is hidden.
decimal(p, 0) holds whole numbers, any other decimal is a real. char(n) is read without its padding, and a timestamp with
time zone as the same moment in UTC. A text that is not UTF-8 is NULL: it could not be shown, and one row must not decide
whether there is an answer.
"""

import json
import logging
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4
from weakref import finalize

import pyarrow
from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession, types
from sqlglot import exp

from discreet.engines.base import (
    BLOCK,
    SAYS_MORE,
    VALIDATE,
    ColumnReader,
    Fingerprint,
    OutOfResources,
    SqlEngine,
    owner_log,
    quote_table,
    split_table_name,
    to_block,
)
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.duckdb.public_tables import clean_values, describe_public_table
from discreet.errors import DiscreetError, EngineFailed, SourceRefused
from discreet.query.schema import Column, Kind, PublicTable
from discreet.sql.dialects import SPARK

if TYPE_CHECKING:
    from discreet.query.cells import CellBlock

SOURCES = "org.apache.spark.sql.execution.datasources"
_PASSWORD = re.compile(r"^([^/:]+://[^/:@]*):[^/]*@")


# -- the session ------------------------------------------------------------------------------------------------------------

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",  # "${…}" in a constant is that text
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",  # `a.b` is that name, and no pattern
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # names of folders are values: no type is inferred
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
}
"""The settings that the generated SQL needs."""
INHERITED = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of Spark that print values of a failed statement."""
JOB_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": "8", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
}  # fmt: skip


def start_session(master: str) -> SparkSession:
    """Return the running session as it is, or start one on this master."""
    running = _find_running_session()
    if running is not None:
        if running.sparkContext.master != master:
            other = running.sparkContext.master
            raise SourceRefused(f"Spark runs on {other} in this process, not on {master}", "name that one, or stop it first")
        return running
    if shutil.which("java", path=_java_path()) is None:
        raise SourceRefused("Spark needs Java 17 or later, and no Java was found", "install it, or set JAVA_HOME")
    builder = SparkSession.builder.master(master).appName("discreet")
    for name, value in LOCAL_SETTINGS.items() if master.startswith("local") else ():
        builder = builder.config(name, value)
    with translate_errors("Spark did not start", "it needs Java 17 or later (JAVA_HOME) and a master that answers"):
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")  # a failed task prints values
    return session


def _find_running_session() -> SparkSession | None:
    """The session of this thread, or else the first of the active context."""
    with translate_errors("Spark's Java process is gone", "start this program again, and retry"):
        context: Any = SparkContext._active_spark_context
        if context is not None and context._jsc.sc().isStopped():
            context.stop()  # Java's side ended by itself, and Python's side does not know
        if SparkContext._active_spark_context is None:
            return None
        return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _java_path() -> str:
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin") if home else os.environ.get("PATH", os.defpath)


def new_session(session: SparkSession) -> SparkSession:
    """Open another session on the same context: with settings and views of its own, and the same tables."""
    with translate_errors("this Spark context is stopped", "start it again"):
        own = session.newSession()
        for name in INHERITED:
            own.conf.set(name, session.conf.get(name) or "")
        for name, value in SETTINGS.items():
            own.conf.set(name, value)
        return own


@contextmanager
def translate_errors(reason: str, hint: str) -> Iterator[None]:
    """Refuse the source for what Spark raises, and write its message to the owner's log."""
    try:
        with silence_spark():
            yield
    except DiscreetError:
        raise
    except Exception as error:  # a stopped context may raise anything
        owner_log.warning("%s", error)
        raise SourceRefused(reason, hint) from None


_is_our_thread: ContextVar[bool] = ContextVar("_is_our_thread", default=False)


class _OtherThreads(logging.Filter):
    """Lets the records of other threads pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_our_thread.get()


_other_threads = _OtherThreads()


@contextmanager
def silence_spark() -> Iterator[None]:
    """Keep Spark from printing statements and values of this thread. Nothing is changed that another thread reads."""
    for name in NOISY_LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_other_threads)  # which adds it once
    before = _is_our_thread.set(True)
    try:
        yield
    finally:
        _is_our_thread.reset(before)


class Job:
    """The running statement, in a job group of its own, so that its tasks can be counted."""

    def __init__(self, session: SparkSession) -> None:
        self.context, self.group = session.sparkContext, f"discreet {uuid4().hex}"

    @contextmanager
    def track(self) -> Iterator[None]:
        """Run the body in a job group of its own, and restore the user's afterwards."""
        before = {name: self.context.getLocalProperty(name) for name in JOB_GROUP_PROPERTIES}
        self.group = f"discreet {uuid4().hex}"
        self.context.setJobGroup(self.group, "discreet: exact totals")
        try:
            with silence_spark():
                yield
        finally:
            if self.context._jsc is not None:
                for name, value in before.items():
                    self.context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None removes it

    def progress(self) -> float | None:
        """Return the share of the known tasks that are done; None before there are any."""
        tracker, done, known = self.context.statusTracker(), 0, 0
        for job in tracker.getJobIdsForGroup(self.group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                if (tasks := tracker.getStageInfo(stage)) is not None:
                    done, known = done + tasks.numCompletedTasks, known + tasks.numTasks
        return done / known if known else None


_unused_views: list[str] = []


class GlobalView:
    """A global view of the user's frame: no other view is visible to another session.

    Every engine that reads the view holds this object. A view that no engine needs is dropped when the next frame is opened,
    and not at once: Python may collect an object in the middle of a call to the JVM, which another call would break.
    """

    def __init__(self, frame: DataFrame) -> None:
        session, name = frame.sparkSession, f"discreet_{uuid4().hex}"
        drop_unused_views(session)
        frame.createGlobalTempView(name)
        finalize(self, _unused_views.append, name).atexit = False
        self.qualified_name = (session.conf.get("spark.sql.globalTempDatabase") or "global_temp", name)


def drop_unused_views(session: SparkSession) -> None:
    """Drop the views that no engine holds. Those of a context that ended are gone already."""
    while _unused_views:
        with suppress(Exception):
            session.catalog.dropGlobalTempView(_unused_views.pop())


# -- the engine ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows come from."""

    identity: str
    lasting: bool = True  # whether the identity outlives the context
    computed: bool = False  # whether reading evaluates expressions of the owner's
    parquet: DataFrame | None = None  # the frame, if it only reads Parquet files
    claimed: bool = False  # whether the identity is the owner's word, which says nothing of the rows

    def compute_fingerprint(self, columns: Collection[str]) -> str | None:
        """Return a hash of what the rows are known by; None if by nothing. A table or view of the catalog is known by its
        name alone: whether its rows changed is for the owner to know.

        Raises:
            SourceRefused: the files' schemas differ in these columns.
        """
        if not self.lasting or (self.claimed and self.parquet is None):
            return None
        known = self.identity if self.parquet is None else _describe_files(self.parquet, columns)
        return sha256(known.encode()).hexdigest()


def _describe_files(frame: DataFrame, columns: Collection[str]) -> str:
    """Describe Parquet files by schema, paths, sizes and times, and refuse types that differ between them: Spark takes one
    file's schema for all, and a query would fail where it meets another type."""
    index, session = _find_relation(frame).location(), frame.sparkSession
    roots = [index.rootPaths().apply(i).toString() for i in range(index.rootPaths().size())]
    try:
        merged = {field.name: field.dataType for field in session.read.option("mergeSchema", "true").parquet(*roots).schema}
    except Exception as error:
        owner_log.warning("%s", error)
        merged = {}
    if any(field.name in columns and merged.get(field.name) != field.dataType for field in frame.schema):
        raise SourceRefused("a column has different types in these files", VALIDATE)
    return f"{frame.schema.json()} {index.allFiles().mkString(' ')}"


def resolve_table(session: SparkSession, name: str) -> tuple[tuple[str, ...], Origin]:
    """Return the full name of a table as the user's session resolves it, and where its rows come from."""
    found = session.catalog.getTable(".".join(f"`{part.replace('`', '``')}`" for part in split_table_name(name, 3)))
    namespace = tuple(found.namespace or ())
    if found.isTemporary and not namespace:
        raise SourceRefused(
            "this is a temporary view of your own session", "give the frame: connect(spark.table(…), table=…)"
        )
    full_name = (*((found.catalog,) if found.catalog else ()), *namespace, found.name)
    if len(full_name) > 3:
        raise SourceRefused("this table is in a namespace of several parts", "give the frame: connect(spark.table(…), …)")
    if found.isTemporary:
        return full_name, Origin(f"spark view {uuid4().hex}", lasting=False, computed=True)
    warehouse = _without_password(session.conf.get("spark.sql.warehouse.dir") or "")
    stored = found.tableType in ("MANAGED", "EXTERNAL")
    identity = f"spark {json.dumps((session.sparkContext.master, warehouse, *full_name))}"
    return full_name, Origin(identity, computed=not stored)


def origin_of_files(session: SparkSession, path: str, frame: DataFrame) -> Origin:
    """The origin of files: their path as the cluster resolves it."""
    context: Any = session.sparkContext
    relative = context._jvm.org.apache.hadoop.fs.Path(path)
    absolute = relative.getFileSystem(context._jsc.hadoopConfiguration()).makeQualified(relative).toString()
    return Origin(f"spark files {_without_password(absolute)}", parquet=frame)


def origin_of_frame(frame: DataFrame) -> Origin:
    """The one folder of Parquet files that a frame reads whole; for any other frame, a name of its own. Where a catalog or a
    log decides which files count, the folder alone does not."""
    relation = _find_relation(frame)
    if (
        relation is not None
        and _is_class(relation, "HadoopFsRelation")
        and _is_class(relation.location(), "InMemoryFileIndex")
    ):
        roots, options = relation.location().rootPaths(), relation.options().keySet().mkString(" ")
        if _is_class(relation.fileFormat(), "parquet.ParquetFileFormat") and roots.size() == 1 and options in ("", "path"):
            return Origin(f"spark files {_without_password(roots.head().toString())}", parquet=frame)
    return Origin(f"spark frame {uuid4().hex}", lasting=False, computed=True)


def _find_relation(frame: DataFrame) -> Any:
    """What a frame reads, if it only reads; else None."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    return plan.relation() if _is_class(plan, "LogicalRelation") else None


def _is_class(thing: Any, name: str) -> bool:
    """Whether an object is of exactly this class: a subclass may read otherwise."""
    return str(thing.getClass().getName()) == f"{SOURCES}.{name}"


def _without_password(uri: str) -> str:
    """Take the password out of a URI. What stands before it stays: it may be the container of the files.

    >>> _without_password("s3a://key:secret@bucket/people.parquet"), _without_password("abfss://hr@account/people.parquet")
    ('s3a://key@bucket/people.parquet', 'abfss://hr@account/people.parquet')
    """
    return _PASSWORD.sub(r"\1@", uri)


class Spark(SqlEngine):
    """One table in one session."""

    dialect = SPARK

    def __init__(
        self,
        session: SparkSession,
        qualified_name: tuple[str, ...],
        table: str,
        origin: Origin,
        view: GlobalView | None = None,
        frame: DataFrame | None = None,
    ) -> None:
        with translate_errors("this table cannot be read", f"check its name; {SAYS_MORE}"):
            fields = session.table(".".join(f"`{part.replace('`', '``')}`" for part in qualified_name)).schema.fields
        self.types: dict[str, tuple[Kind, ColumnReader]] = {
            field.name: (kind, reader_of(field.dataType, is_padded(field)))
            for field in fields
            if (kind := kind_of(field.dataType)) is not None
        }
        super().__init__(
            table,
            origin.identity,
            quote_table(*qualified_name),
            {name: read for name, (_, read) in self.types.items()},
            lasting=origin.lasting,
            computed=origin.computed,
            names=[field.name for field in fields],
        )
        self.session, self.qualified_name, self.origin = session, qualified_name, origin
        self.view = view  # kept for as long as the table is read
        self.frame = frame  # the user's own
        self.origins = (self.identity,) if self.lasting else ("frame",)  # one that computes something is known by itself
        self.padded = {field.name for field in fields if is_padded(field)}  # texts that are read without their padding
        self.lock, self.job = threading.Lock(), Job(session)

    @classmethod
    def connect(cls, source: str, table: str | None, path: str | None, name: str | None) -> "Spark":
        """Open a table of the catalog, or Parquet files, on "spark:local[2]" or "spark://…"."""
        if (table is None) == (path is None):
            raise SourceRefused("a cluster holds many tables", "name one with table=, or its files with path=")
        running = start_session(source if source.startswith("spark://") else source.removeprefix("spark:"))
        if path is None:
            with translate_errors("this table cannot be read", f"check its name; {SAYS_MORE}"):
                full_name, origin = resolve_table(running, table or "")
            return cls(new_session(running), full_name, full_name[-1], origin)
        if PurePosixPath(path).suffix.lower() not in (".parquet", ""):
            raise SourceRefused("Spark reads only Parquet files here", "convert it: types of text files would be inferred")
        session, view = new_session(running), f"discreet_{uuid4().hex}"
        with translate_errors("these files cannot be read", f"check the path and the format; {SAYS_MORE}"):
            frame = session.read.parquet(path)
            frame.createOrReplaceTempView(view)
            origin = origin_of_files(session, path, frame)
        return cls(session, (view,), name or PurePosixPath(path).stem.partition("*")[0].rstrip("-_.") or "data", origin)

    @classmethod
    def of(cls, frame: Any, table: str, claimed_identity: str | None = None) -> "Spark":
        """Open a frame of the user's own session, which its owner may have given a name."""
        if not isinstance(frame, DataFrame) or not hasattr(frame, "_jdf"):
            raise SourceRefused("this is not a frame of a Spark context", "give a DataFrame; Spark Connect is not supported")
        with translate_errors("this frame cannot be read", SAYS_MORE):
            _check_frame(frame)
            view = GlobalView(frame)
            session = new_session(frame.sparkSession)
            origin = origin_of_frame(frame)
            if claimed_identity is None:
                return cls(session, view.qualified_name, table, origin, view, frame)
            named = cls(
                session,
                view.qualified_name,
                table,
                replace(origin, identity=claimed_identity, lasting=True, claimed=True),
                view,
                frame,
            )
            named.origins = (claimed_identity, *((origin.identity,) if origin.lasting else ()))
            return named

    @property
    def anchor(self) -> object:
        """The user's frame."""
        return self if self.frame is None else self.frame

    def describe_columns(self) -> dict[str, Column]:
        """Return the names and kinds of the columns. No value is read."""
        return {name: Column(kind) for name, (kind, _) in self.types.items()}

    def with_public(self, sources: Mapping[str, Any]) -> tuple[Self, dict[str, PublicTable]]:
        """Return the same table beside copies of these public ones, which may be files or frames. A copy is a view."""
        names, tables = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).read_all()
            values = clean_values(kinds, rows)
            names[name] = f"discreet_{uuid4().hex}"
            with translate_errors(f"the public table {name} cannot be copied", SAYS_MORE):
                to_frame(self.session, kinds, values).createOrReplaceTempView(names[name])
                unique = self._find_unique_columns(names[name], kinds)
            tables[name] = describe_public_table(name, kinds, values, unique)
        return self._beside(names), tables

    def compute_fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """Every source can fail: Spark decodes files whenever it reads them."""
        return Fingerprint(self.origin.compute_fingerprint(columns))

    def find_unit_problem(self, unit: str) -> str | None:
        """Say why two units of this column could be read as one; None if they cannot."""
        if self.types[unit][0] is Kind.TIMESTAMP:
            return "Spark reads a timestamp without its nanoseconds"
        return "char(n) is read without the blanks at its end" if unit in self.padded else None

    def _find_unique_columns(self, view: str, kinds: Mapping[str, Kind]) -> frozenset[str]:
        """The columns in which no value occurs twice. The engine decides, because its equality is the one that joins."""
        names = [name for name, kind in kinds.items() if kind is not Kind.REAL]
        columns = [exp.to_identifier(name, quoted=True).sql(dialect="spark") for name in names]
        if not columns:
            return frozenset()
        counts = ", ".join(f"COUNT({column}) = COUNT(DISTINCT {column})" for column in columns)
        [row] = self.session.sql(f"SELECT {counts} FROM {view}").collect()
        return frozenset(name for name, unique in zip(names, row, strict=True) if unique)

    def progress(self) -> float | None:
        """Return the share of the known tasks that are done; None before there are any."""
        return self.job.progress()

    def cancel(self) -> None:
        """As in `Engine`."""
        self.job.context.cancelJobGroup(self.job.group)

    def _public_relation(self, name: str) -> exp.Expr:
        return quote_table(self.public[name])

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        try:
            with self.job.track():
                frame = self.session.sql(statement)
                frame._jdf.queryExecution().executedPlan()  # a plan that failed in the thread that serves rows would hang
                rows = frame.toArrow()
            for batch in rows.to_batches():
                yield from zip(*(_decimals_to_int(column.to_pylist()) for column in batch.columns), strict=True)
        except Exception as error:  # a stopped context raises whatever comes first
            raise self._to_engine_error(error) from None

    def _execute_blocks(self, statement: str, columns: int) -> "Iterator[CellBlock]":
        """Fetch partition by partition, in their order, so that one partition at a time is held. The thread that serves them
        inherits the job group."""
        try:
            with self.job.track():
                frame = self.session.sql(statement)
                frame._jdf.queryExecution().executedPlan()
                rows = frame.toLocalIterator()
            while True:
                with silence_spark():
                    batch = list(islice(rows, BLOCK))
                if not batch:
                    return
                yield to_block(batch, columns)
        except Exception as error:
            raise self._to_engine_error(error) from None

    def _to_engine_error(self, error: Exception) -> EngineFailed:
        owner_log.warning("%s", error)
        return OutOfResources() if _is_resource(error) or self._has_ended() else EngineFailed()

    def _has_ended(self) -> bool:
        """Whether the context is gone, which shows as whatever Python or Java meets first."""
        try:
            context = self.session.sparkContext._jsc
            return context is None or bool(context.sc().isStopped())
        except Exception:  # so is the Java process
            return True


RESOURCES = (
    "OutOfMemory", "ExecutorLost", "cancelled", "shut down", "stopped SparkContext", "SparkContext was", "BrokenPipe",
    "Connection refused", "Py4JNetworkError", "ConnectionResetError", "No space left", "StackOverflow",
)  # fmt: skip
"""Words in messages of failures that no row causes: memory, lost executors, a context that ended."""


def _is_resource(error: Exception) -> bool:
    """Whether no row caused the failure. SQLSTATE 22 is that of values that do not fit; its message quotes the value, which
    may be one of these words."""
    message = f"{type(error).__name__} {error}"
    return "SQLSTATE: 22" not in message and any(word in message for word in RESOURCES)


def _check_frame(frame: DataFrame) -> None:
    """Refuse a frame that no query can read."""
    if frame.isStreaming:
        raise SourceRefused("this frame is a stream, which has no end", "write it to a table, and connect to that")
    if duplicates := [name for name, times in Counter(frame.columns).items() if times > 1]:
        raise SourceRefused(f"two columns of this frame are called {duplicates[0]!r}", "rename one with toDF()")


def _decimals_to_int(values: list[Any]) -> list[Any]:
    """Convert decimals: only whole numbers leave the cluster."""
    return [int(value) if isinstance(value, Decimal) else value for value in values]


# -- types -----------------------------------------------------------------------------------------------------------------

TYPES: dict[Kind, tuple[pyarrow.DataType, types.DataType]] = {
    Kind.INTEGER: (pyarrow.int64(), types.LongType()),
    Kind.REAL: (pyarrow.float64(), types.DoubleType()),
    Kind.BOOLEAN: (pyarrow.bool_(), types.BooleanType()),
    Kind.TEXT: (pyarrow.string(), types.StringType()),
    Kind.DATE: (pyarrow.date32(), types.DateType()),
    Kind.TIMESTAMP: (pyarrow.timestamp("us"), types.TimestampNTZType()),
}


def kind_of(data_type: types.DataType) -> Kind | None:
    """The kind that a column of this type holds; None if it is hidden."""
    match data_type:
        case types.ByteType() | types.ShortType() | types.IntegerType() | types.LongType():
            return Kind.INTEGER
        case types.DecimalType():
            return Kind.INTEGER if data_type.scale == 0 else Kind.REAL
        case types.FloatType() | types.DoubleType():
            return Kind.REAL
        case types.BooleanType():
            return Kind.BOOLEAN
        case types.StringType() | types.CharType() | types.VarcharType():
            return Kind.TEXT
        case types.DateType():
            return Kind.DATE
        case types.TimestampType() | types.TimestampNTZType():
            return Kind.TIMESTAMP
        case _:
            return None


def reader_of(data_type: types.DataType, padded: bool = False) -> ColumnReader:
    """How a column of this type is read; None if it is read as it is."""
    match data_type:
        case types.DecimalType() if data_type.scale != 0:
            return lambda number: exp.cast(number, exp.DType.DOUBLE)
        case types.StringType() | types.CharType() | types.VarcharType():
            plain = not isinstance(data_type, types.StringType) or data_type.isUTF8BinaryCollation()
            return partial(_to_plain_text, plain=plain, padded=padded or isinstance(data_type, types.CharType))
        case types.TimestampType():
            return lambda moment: exp.cast(moment, exp.DType.TIMESTAMPNTZ)  # the session's zone is UTC
        case _:
            return None


def is_padded(field: types.StructField) -> bool:
    """Whether a field is a char(n), which Spark shows as a plain text."""
    return str((field.metadata or {}).get("__CHAR_VARCHAR_TYPE_STRING", "")).startswith("char(")


def _to_plain_text(text: exp.Expr, plain: bool, padded: bool) -> exp.Expr:
    """A text that is compared byte by byte, whatever its collation; NULL if it is not UTF-8."""
    if not plain:
        text = exp.Anonymous(this="COLLATE", expressions=[text, exp.Literal.string("UTF8_BINARY")])
    if padded:
        text = exp.Anonymous(this="RTRIM", expressions=[text])
    valid = exp.Anonymous(this="IS_VALID_UTF8", expressions=[text])
    return exp.Case(ifs=[exp.If(this=valid, true=text.copy())])


def to_frame(session: SparkSession, kinds: Mapping[str, Kind], values: Mapping[str, list[Any]]) -> DataFrame:
    """Make a frame of a public table."""
    arrays = [pyarrow.array(values[name], TYPES[kind][0]) for name, kind in kinds.items()]
    schema = types.StructType([types.StructField(name, TYPES[kind][1]) for name, kind in kinds.items()])
    return session.createDataFrame(pyarrow.table(arrays, names=list(kinds)), schema)
