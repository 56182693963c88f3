"""Apache Spark: the engine for frames, tables and files of a cluster.

Questions run in a session of their own on the same context (`newSession`), so that no setting of the user's is changed.
What is collected is group keys and integers. A timestamp with time zone is read as the same moment in UTC. A frame's own
expressions are the owner's: they run as the frame's session has them.
"""

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from discreet.engines.duckdb import DuckDB
from discreet.engines.engine import ColumnReader, Fingerprint, OutOfResources, SqlEngine, quote_table
from discreet.engines.lookup import clean_values, describe_public_table
from discreet.engines.owner import SAYS_MORE, owner_log
from discreet.engines.spark_place import Origin, origin_of_files, origin_of_frame, resolve_table
from discreet.engines.spark_session import Job, new_session, start_session, translate_errors
from discreet.engines.spark_types import is_padded, kind_of, reader_of, to_frame
from discreet.engines.spark_view import GlobalView
from discreet.errors import EngineFailed, SourceRefused
from discreet.query.table import Column, Kind, PublicTable
from discreet.sql.dialects import SPARK


class Spark(SqlEngine):
    """One table in one session."""

    dialect = SPARK

    def __init__(
        self,
        session: SparkSession,
        qualified_name: tuple[str, ...],
        table: str,
        origin: Origin,
        public: Mapping[str, str] = MappingProxyType({}),
        view: GlobalView | None = None,
    ) -> None:
        self.session, self.qualified_name, self.table, self.origin, self.public = (
            session,
            qualified_name,
            table,
            origin,
            public,
        )
        self.identity, self.lasting, self.computed = origin.identity, origin.lasting, origin.computed
        self.frame: DataFrame | None = None  # the user's own
        self.view = view  # kept for as long as the table is read
        self.lock, self.job = threading.Lock(), Job(session)
        with translate_errors("this table cannot be read", f"check its name; {SAYS_MORE}"):
            fields = session.table(".".join(f"`{part.replace('`', '``')}`" for part in qualified_name)).schema.fields
        found = {field.name: (kind_of(field.dataType), reader_of(field.dataType, is_padded(field))) for field in fields}
        self.types: dict[str, tuple[Kind, ColumnReader]] = {
            name: (kind, read) for name, (kind, read) in found.items() if kind is not None
        }
        self.padded = {field.name for field in fields if is_padded(field)}  # texts that are read without their padding

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
            opened = cls(new_session(frame.sparkSession), view.qualified_name, table, origin_of_frame(frame), view=view)
            opened.frame = frame
            return opened

    @property
    def anchor(self) -> object:
        """The user's frame."""
        return self if self.frame is None else self.frame

    @property
    def origins(self) -> tuple[str, ...]:
        """A frame that computes something is known by itself alone."""
        return (self.identity,) if self.lasting else ("frame",)

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
        return Spark(
            self.session, self.qualified_name, self.table, self.origin, MappingProxyType(places), self.view
        ), lookups

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

    def _table_expression(self) -> exp.Expr:
        return quote_table(*self.qualified_name)

    def _column_readers(self) -> dict[str, ColumnReader]:
        return {name: read for name, (_, read) in self.types.items()}

    def _public_table_expression(self, name: str) -> exp.Expr:
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
