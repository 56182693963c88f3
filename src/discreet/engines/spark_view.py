"""A frame of the user's under a name that our session can read, for as long as somebody needs it.

Only a global view is seen by another session. What nobody needs any more is taken away when the next frame is opened, and
not at once: Python may collect an object in the middle of a call to the JVM, where another call would break the first.
"""

from contextlib import suppress
from uuid import uuid4
from weakref import finalize

from pyspark.sql import DataFrame, SparkSession

_unused_views: list[str] = []


class GlobalView:
    """Holds the view; every engine that reads it holds this."""

    def __init__(self, frame: DataFrame) -> None:
        session, name = frame.sparkSession, f"discreet_{uuid4().hex}"
        drop_unused_views(session)
        frame.createGlobalTempView(name)
        finalize(self, _unused_views.append, name).atexit = False
        self.qualified_name = (session.conf.get("spark.sql.globalTempDatabase") or "global_temp", name)


def drop_unused_views(session: SparkSession) -> None:
    """Take away the views that nobody holds; a context that ended has taken its own."""
    while _unused_views:
        with suppress(Exception):
            session.catalog.dropGlobalTempView(_unused_views.pop())
