"""A session of our own on a Spark context, and a statement that runs in it."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any
from uuid import uuid4
from weakref import finalize

from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from discreet.engines.base import owner_log
from discreet.errors import DiscreetError, SourceRefused

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",  # "${…}" in a constant is that text
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",  # `a.b` is that name, and no pattern
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # names of folders are values: no type is guessed
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
}
"""What the generated SQL counts on."""
INHERITED = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of Spark's that print a failed statement's values."""
JOB_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": "8", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
}  # fmt: skip


def start_session(master: str) -> SparkSession:
    """The session that is running, as it is, or a new one on this master."""
    running = _find_running_session()
    if running is not None:
        if running.sparkContext.master != master:
            at = running.sparkContext.master
            raise SourceRefused(f"Spark runs on {at} in this process, not on {master}", "say that one, or stop it first")
        return running
    if shutil.which("java", path=_java_path()) is None:
        raise SourceRefused("Spark needs Java 17 or later, and there is none", "install it, or set JAVA_HOME")
    builder = SparkSession.builder.master(master).appName("discreet")
    for name, value in LOCAL_SETTINGS.items() if master.startswith("local") else ():
        builder = builder.config(name, value)
    with translate_errors("Spark did not start", "it needs Java 17 or later (JAVA_HOME) and a master that answers"):
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")  # a failed task prints values
    return session


def _find_running_session() -> SparkSession | None:
    """This thread's session, or else the first of the context that is alive."""
    with translate_errors("Spark's Java process is gone", "start this program again, and ask again"):
        context: Any = SparkContext._active_spark_context
        if context is not None and context._jsc.sc().isStopped():
            context.stop()  # it ended by itself, and this side was not told
        if SparkContext._active_spark_context is None:
            return None
        return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _java_path() -> str:
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin") if home else os.environ.get("PATH", os.defpath)


def new_session(session: SparkSession) -> SparkSession:
    """Another session on the same context: settings and views of its own, the same tables."""
    with translate_errors("this Spark context is stopped", "start it again"):
        own = session.newSession()
        for name in INHERITED:
            own.conf.set(name, session.conf.get(name) or "")
        for name, value in SETTINGS.items():
            own.conf.set(name, value)
        return own


@contextmanager
def translate_errors(reason: str, hint: str) -> Iterator[None]:
    """Whatever Spark says is for the owner's log."""
    try:
        with silence_spark():
            yield
    except DiscreetError:
        raise
    except Exception as mistake:  # a stopped context raises whatever comes first
        owner_log.warning("%s", mistake)
        raise SourceRefused(reason, hint) from None


_is_our_thread: ContextVar[bool] = ContextVar("_ours", default=False)


class _OtherThreads(logging.Filter):
    """Lets pass what other threads say."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_our_thread.get()


_other_threads = _OtherThreads()


@contextmanager
def silence_spark() -> Iterator[None]:
    """Spark prints no statement and no value of this thread's meanwhile. Nothing is changed that another thread reads."""
    for name in NOISY_LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_other_threads)  # once, however often it is said
    before = _is_our_thread.set(True)
    try:
        yield
    finally:
        _is_our_thread.reset(before)


class Job:
    """What runs now, under a name of its own, so that its tasks can be counted."""

    def __init__(self, session: SparkSession) -> None:
        self.context, self.group = session.sparkContext, f"discreet {uuid4().hex}"

    @contextmanager
    def track(self) -> Iterator[None]:
        """The user's own job group is put back afterwards."""
        before = {name: self.context.getLocalProperty(name) for name in JOB_GROUP_PROPERTIES}
        self.group = f"discreet {uuid4().hex}"
        self.context.setJobGroup(self.group, "discreet: exact totals")
        try:
            with silence_spark():
                yield
        finally:
            if self.context._jsc is not None:
                for name, value in before.items():
                    self.context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None takes it away

    def progress(self) -> float | None:
        """Done tasks over known tasks."""
        tracker, done, known = self.context.statusTracker(), 0, 0
        for job in tracker.getJobIdsForGroup(self.group):
            told = tracker.getJobInfo(job)
            for stage in told.stageIds if told else ():
                if (at := tracker.getStageInfo(stage)) is not None:
                    done, known = done + at.numCompletedTasks, known + at.numTasks
        return done / known if known else None


# A frame of the user's under a name that our session can read, for as long as somebody needs it.
#
# Only a global view is seen by another session. What nobody needs any more is taken away when the next frame is opened, and
# not at once: Python may collect an object in the middle of a call to the JVM, where another call would break the first.


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
