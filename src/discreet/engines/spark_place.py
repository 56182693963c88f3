"""Where Spark's rows come from, by a name that outlives the context: who asks again after a crash is known by it.

A table of the catalog has such a name, and so has a frame that is nothing but one place of Parquet files. A view that goes
with the context, or a frame that computes something, may hold anything, and is like no other.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from discreet.engines.names import split_table_name
from discreet.engines.owner import VALIDATE, owner_log
from discreet.errors import SourceRefused

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
