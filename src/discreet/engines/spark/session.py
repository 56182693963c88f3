"""A session of our own on a Spark context, the jobs that run in it, and the views that it reads."""

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
