"""Where Spark's rows come from, by a name that outlives the context: who asks again after a crash is known by it.

A table of the catalog has such a name, and so has a frame that is nothing but one place of Parquet files. A view that goes
with the context, or a frame that computes something, may hold anything, and is like no other.
"""

import json
import re
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from discreet.engines.names import parts_of
from discreet.errors import SourceRefused

SOURCES = "org.apache.spark.sql.execution.datasources"
_PASSWORD = re.compile(r"^([^/:]+://[^/:@]*):[^/]*@")


def table_at(session: SparkSession, name: str) -> tuple[tuple[str, ...], str]:
    """The full name of a table as the user's session understands it, and its identity."""
    found = session.catalog.getTable(".".join(f"`{part.replace('`', '``')}`" for part in parts_of(name, 3)))
    space = tuple(found.namespace or ())
    if found.isTemporary and not space:
        raise SourceRefused(
            "this is a temporary view of your own session", "give the frame: connect(spark.table(…), table=…)"
        )
    place = (*((found.catalog,) if found.catalog else ()), *space, found.name)
    if len(place) > 3:
        raise SourceRefused("this table is in a namespace of several parts", "give the frame: connect(spark.table(…), …)")
    if found.isTemporary:
        return place, f"spark view {uuid4().hex}"
    home = _public(session.conf.get("spark.sql.warehouse.dir") or "")
    return place, f"spark {json.dumps((session.sparkContext.master, home, *place))}"


def files_at(session: SparkSession, path: str) -> str:
    """A path as the cluster understands it: "people.parquet" is another file in another folder."""
    context: Any = session.sparkContext
    at = context._jvm.org.apache.hadoop.fs.Path(path)
    whole = at.getFileSystem(context._jsc.hadoopConfiguration()).makeQualified(at).toString()
    return f"spark files {_public(whole)}"


def frame_at(frame: DataFrame) -> str:
    """The one place that a frame reads whole, or a name of its own. Where a catalog or a log says which files count, the
    place alone does not."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    relation = plan.relation() if _is(plan, "LogicalRelation") else None
    if relation is not None and _is(relation, "HadoopFsRelation") and _is(relation.location(), "InMemoryFileIndex"):
        roots, options = relation.location().rootPaths(), relation.options().keySet().mkString(" ")
        if _is(relation.fileFormat(), "parquet.ParquetFileFormat") and roots.size() == 1 and options in ("", "path"):
            return f"spark files {_public(roots.head().toString())}"
    return f"spark frame {uuid4().hex}"


def _is(thing: Any, name: str) -> bool:
    """Of exactly this class: one that is made from it may read otherwise."""
    return str(thing.getClass().getName()) == f"{SOURCES}.{name}"


def _public(uri: str) -> str:
    """Without a password. What stands before it is kept: it may be the container that the files are in.

    >>> _public("s3a://key:secret@bucket/people.parquet"), _public("abfss://hr@account/people.parquet")
    ('s3a://key@bucket/people.parquet', 'abfss://hr@account/people.parquet')
    """
    return _PASSWORD.sub(r"\1@", uri)
