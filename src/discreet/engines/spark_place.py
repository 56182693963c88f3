"""Where Spark's rows come from, by a name that outlives the context: who asks again after a crash is known by it.

A frame that is nothing but one place of Parquet files has such a name. Any other may be computed from anything, and is
like no other.
"""

from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession


def files_at(session: SparkSession, path: str) -> str:
    """A path as the cluster understands it: "people.parquet" is another file in another folder."""
    context: Any = session.sparkContext
    at = context._jvm.org.apache.hadoop.fs.Path(path)
    return f"spark files {at.getFileSystem(context._jsc.hadoopConfiguration()).makeQualified(at).toString()}"


def frame_at(frame: DataFrame) -> str:
    """The one place that a frame reads whole, or a name of its own."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    relation = plan.relation() if plan.getClass().getSimpleName() == "LogicalRelation" else None
    if relation is not None and relation.getClass().getSimpleName() == "HadoopFsRelation":
        roots, options = relation.location().rootPaths(), relation.options().keySet().mkString(" ")
        if relation.fileFormat().toString() == "Parquet" and roots.size() == 1 and options in ("", "path"):
            return f"spark files {roots.head().toString()}"
    return f"spark frame {uuid4().hex}"
