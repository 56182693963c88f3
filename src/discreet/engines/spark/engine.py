"""Apache Spark: the engine for frames, tables and files of a cluster.

Questions run in a session of their own on the same context (`newSession`), so that no setting of the user's is changed.
What is collected is group keys and integers. A timestamp with time zone is read as the same moment in UTC. A frame's own
expressions are the owner's: they run as the frame's session has them.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from discreet.engines.base import (
    SAYS_MORE,
    VALIDATE,
    ColumnReader,
    Fingerprint,
    OutOfResources,
    SqlEngine,
    owner_log,
    quote_table,
    split_table_name,
)
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.duckdb.public_tables import clean_values, describe_public_table
from discreet.engines.spark.session import GlobalView, Job, new_session, start_session, translate_errors
from discreet.engines.spark.types import is_padded, kind_of, reader_of, to_frame
from discreet.errors import EngineFailed, SourceRefused
from discreet.query.schema import Column, Kind, PublicTable
from discreet.sql.dialects import SPARK

# Where Spark's rows come from, by a name that outlives the context: who asks again after a crash is known by it.
#
# A table of the catalog has such a name, and so has a frame that is nothing but one place of Parquet files. A view that goes
# with the context, or a frame that computes something, may hold anything, and is like no other.


SOURCES = "org.apache.spark.sql.execution.datasources"
_PASSWORD = re.compile(r"^([^/:]+://[^/:@]*):[^/]*@")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows come from: the identity of that place, whether it outlives the context, whether rows are computed by
    expressions of the owner's whenever they are read, and the frame, if it is nothing but Parquet files."""

    identity: str
    lasting: bool = True
    computed: bool = False
    parquet: DataFrame | None = None

    def compute_fingerprint(self, columns: Collection[str]) -> str | None:
        """Refuse files whose schemas differ in these columns; else return what the rows are known by, None if by nothing.
        A table or view of the catalog is known by its name alone: whether its rows changed is the owner's to know."""
        if not self.lasting:
            return None
        known = self.identity if self.parquet is None else _describe_files(self.parquet, columns)
        return sha256(known.encode()).hexdigest()


def _describe_files(frame: DataFrame, columns: Collection[str]) -> str:
    """Paths, sizes and times of Parquet files. Spark takes one file's schema for all, and raises where it meets a column of
    another type; merged, all schemas are read, and types that differ are refused."""
    index, session = _find_relation(frame).location(), frame.sparkSession
    roots = [index.rootPaths().apply(i).toString() for i in range(index.rootPaths().size())]
    try:
        merged = {field.name: field.dataType for field in session.read.option("mergeSchema", "true").parquet(*roots).schema}
    except Exception as mistake:
        owner_log.warning("%s", mistake)
        merged = {}
    if any(field.name in columns and merged.get(field.name) != field.dataType for field in frame.schema):
        raise SourceRefused("the columns of these files are not of the same types", VALIDATE)
    return f"{frame.schema.json()} {index.allFiles().mkString(' ')}"


def resolve_table(session: SparkSession, name: str) -> tuple[tuple[str, ...], Origin]:
    """The full name of a table as the user's session understands it, and where its rows come from."""
    found = session.catalog.getTable(".".join(f"`{part.replace('`', '``')}`" for part in split_table_name(name, 3)))
    space = tuple(found.namespace or ())
    if found.isTemporary and not space:
        raise SourceRefused(
            "this is a temporary view of your own session", "give the frame: connect(spark.table(…), table=…)"
        )
    place = (*((found.catalog,) if found.catalog else ()), *space, found.name)
    if len(place) > 3:
        raise SourceRefused("this table is in a namespace of several parts", "give the frame: connect(spark.table(…), …)")
    if found.isTemporary:
        return place, Origin(f"spark view {uuid4().hex}", lasting=False, computed=True)
    home = _without_password(session.conf.get("spark.sql.warehouse.dir") or "")
    stored = found.tableType in ("MANAGED", "EXTERNAL")
    return place, Origin(f"spark {json.dumps((session.sparkContext.master, home, *place))}", computed=not stored)


def origin_of_files(session: SparkSession, path: str, frame: DataFrame) -> Origin:
    """A path as the cluster understands it: "people.parquet" is another file in another folder."""
    context: Any = session.sparkContext
    at = context._jvm.org.apache.hadoop.fs.Path(path)
    whole = at.getFileSystem(context._jsc.hadoopConfiguration()).makeQualified(at).toString()
    return Origin(f"spark files {_without_password(whole)}", parquet=frame)


def origin_of_frame(frame: DataFrame) -> Origin:
    """The one place that a frame reads whole, or a name of its own. Where a catalog or a log says which files count, the
    place alone does not."""
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
    """What a frame reads, if it does nothing but read; else None."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    return plan.relation() if _is_class(plan, "LogicalRelation") else None


def _is_class(thing: Any, name: str) -> bool:
    """Of exactly this class: one that is made from it may read otherwise."""
    return str(thing.getClass().getName()) == f"{SOURCES}.{name}"


def _without_password(uri: str) -> str:
    """Without a password. What stands before it is kept: it may be the container that the files are in.

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
        )
        self.session, self.qualified_name, self.origin = session, qualified_name, origin
        self.view = view  # kept for as long as the table is read
        self.frame = frame  # the user's own
        self.origins = (self.identity,) if self.lasting else ("frame",)  # one that computes something is known by itself
        self.padded = {field.name for field in fields if is_padded(field)}  # texts that are read without their padding
        self.lock, self.job = threading.Lock(), Job(session)

    @classmethod
    def connect(cls, source: str, table: str | None, path: str | None, name: str | None) -> "Spark":
        """A table of the catalog, or Parquet files, on "spark:local[2]" or "spark://…"."""
        if (table is None) == (path is None):
            raise SourceRefused("a cluster holds many tables", "say which with table=, or where its files are with path=")
        running = start_session(source if source.startswith("spark://") else source.removeprefix("spark:"))
        if path is None:
            with translate_errors("this table cannot be read", f"check its name; {SAYS_MORE}"):
                place, origin = resolve_table(running, table or "")
            return cls(new_session(running), place, place[-1], origin)
        if PurePosixPath(path).suffix.lower() not in (".parquet", ""):
            raise SourceRefused("Spark reads Parquet here", "types of text files are guessed from values; convert it first")
        session, view = new_session(running), f"discreet_{uuid4().hex}"
        with translate_errors("these files cannot be read", f"check the path and the format; {SAYS_MORE}"):
            frame = session.read.parquet(path)
            frame.createOrReplaceTempView(view)
            origin = origin_of_files(session, path, frame)
        called = name or PurePosixPath(path).stem.partition("*")[0].rstrip("-_.") or "data"
        return cls(session, (view,), called, origin)

    @classmethod
    def of(cls, frame: Any, table: str) -> "Spark":
        """A frame of the user's own session."""
        if not isinstance(frame, DataFrame) or not hasattr(frame, "_jdf"):
            raise SourceRefused("this is no frame of a Spark context", "give a DataFrame; Spark Connect is not supported")
        with translate_errors("this frame cannot be read", SAYS_MORE):
            _check_frame(frame)
            view = GlobalView(frame)
            session = new_session(frame.sparkSession)
            return cls(session, view.qualified_name, table, origin_of_frame(frame), view, frame)

    @property
    def anchor(self) -> object:
        """The user's frame."""
        return self if self.frame is None else self.frame

    def describe_columns(self) -> dict[str, Column]:
        """Names and kinds of the columns. No value is read."""
        return {name: Column(kind) for name, (kind, _) in self.types.items()}

    def with_public(self, sources: Mapping[str, Any]) -> "tuple[Spark, dict[str, PublicTable]]":
        """The same table beside copies of these public ones, which may be files or frames. A copy is a view."""
        places, lookups = dict(self.public), {}
        for name, source in sources.items():
            kinds, rows = DuckDB.open(source, name).read_all()
            values = clean_values(kinds, rows)
            places[name] = f"discreet_{uuid4().hex}"
            with translate_errors(f"the public table {name} cannot be copied", SAYS_MORE):
                to_frame(self.session, kinds, values).createOrReplaceTempView(places[name])
                unique = self._find_unique_columns(places[name], kinds)
            lookups[name] = describe_public_table(name, kinds, values, unique)
        return self._beside(places), lookups

    def compute_fingerprint(self, columns: Collection[str]) -> Fingerprint | None:
        """Spark decodes files whenever it reads, so that every source can fail."""
        return Fingerprint(self.origin.compute_fingerprint(columns))

    def find_unit_problem(self, unit: str) -> str | None:
        """Why the units of this column cannot be told apart; None if they can."""
        if self.types[unit][0] is Kind.TIMESTAMP:
            return "Spark keeps no nanoseconds of a timestamp"
        return "char(n) is read without the blanks at its end" if unit in self.padded else None

    def _find_unique_columns(self, place: str, kinds: Mapping[str, Kind]) -> frozenset[str]:
        """Asked of the engine, whose equality is the one that will join."""
        names = [name for name, kind in kinds.items() if kind is not Kind.REAL]
        columns = [exp.to_identifier(name, quoted=True).sql(dialect="spark") for name in names]
        if not columns:
            return frozenset()
        counts = ", ".join(f"COUNT({column}) = COUNT(DISTINCT {column})" for column in columns)
        [row] = self.session.sql(f"SELECT {counts} FROM {place}").collect()
        return frozenset(name for name, once in zip(names, row, strict=True) if once)

    def progress(self) -> float | None:
        """The share of the tasks known so far that are done; None before there are any."""
        return self.job.progress()

    def _public_relation(self, name: str) -> exp.Expr:
        return quote_table(self.public[name])

    def _execute(self, statement: str) -> Iterator[tuple[Any, ...]]:
        try:
            with self.job.track():
                frame = self.session.sql(statement)
                frame._jdf.queryExecution().executedPlan()  # here: a plan that fails in the serving thread is waited for
                found = frame.toArrow()
            for batch in found.to_batches():
                yield from zip(*(_decimals_to_int(column.to_pylist()) for column in batch.columns), strict=True)
        except Exception as mistake:  # a stopped context raises whatever comes first
            owner_log.warning("%s", mistake)
            raise (OutOfResources if _is_resource(mistake) or self._has_ended() else EngineFailed) from None

    def _has_ended(self) -> bool:
        """Whether the context is gone, which shows in whatever Python or Java meets first."""
        try:
            context = self.session.sparkContext._jsc
            return context is None or bool(context.sc().isStopped())
        except Exception:  # so is the Java process
            return True


RESOURCES = (
    "OutOfMemory", "ExecutorLost", "cancelled", "shut down", "stopped SparkContext", "SparkContext was", "BrokenPipe",
    "Connection refused", "Py4JNetworkError", "ConnectionResetError", "No space left", "StackOverflow",
)  # fmt: skip
"""Words in failures that no row has caused: memory, lost executors, a context that ended."""


def _is_resource(mistake: Exception) -> bool:
    """SQLSTATE 22 is that of values that do not fit; such a message quotes the value, which may be one of these words."""
    words = f"{type(mistake).__name__} {mistake}"
    return "SQLSTATE: 22" not in words and any(word in words for word in RESOURCES)


def _check_frame(frame: DataFrame) -> None:
    """What no question could be asked of."""
    if frame.isStreaming:
        raise SourceRefused("this frame is a stream, which has no end", "write it to a table, and connect to that")
    if twice := [name for name, times in Counter(frame.columns).items() if times > 1]:
        raise SourceRefused(f"two columns of this frame are called {twice[0]!r}", "rename one with toDF()")


def _decimals_to_int(values: list[Any]) -> list[Any]:
    """Only whole numbers leave the cluster, also as decimals."""
    return [int(value) if isinstance(value, Decimal) else value for value in values]
