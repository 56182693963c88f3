"""Which engine opens a source.

An engine is registered as an `EngineFactory`: the sources that it accepts, and how its driver is loaded. A driver is
imported when the first source needs it. To add an engine, write a package in `discreet.engines` (a subclass of `SqlEngine`)
and one `Dialect` in `discreet.sql.dialects`, and register it here, or elsewhere with `register_engine`.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from discreet.engines.base import Engine, about
from discreet.errors import BadParameter, SourceRefused
from discreet.paths import format_path, is_postgres, to_libpq
from discreet.query.schema import Kind


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """What is said about a source when it is opened."""

    table: str | None = None  # the table in it
    name: str | None = None  # what queries call a source that has no name of its own
    path: str | Path | None = None  # the files in a cluster
    kinds: Mapping[str, Kind] | None = None  # what the columns of a file or frame without types of its own hold
    unit: str | None = None  # the privacy unit in words
    frame_name: str | None = None  # the owner's name for a frame, which the ledger knows it by
    output: str | None = None  # a database that a file is prepared into

    @property
    def claimed_identity(self) -> str | None:
        """The identity of a frame that its owner gave a name: it says whose claim it is."""
        return None if self.frame_name is None else f"a frame that its owner names {json.dumps(self.frame_name)}"


Opener: TypeAlias = Callable[[Any, OpenOptions], Engine]


@dataclass(frozen=True, slots=True)
class EngineFactory:
    """An engine that can be opened.

    It accepts a text that begins with one of `schemes` or that `is_address` recognises, a path with one of `suffixes`, and
    an object of a class from one of `packages`, or of a class that inherits from one.
    """

    name: str
    load: Callable[[], Opener]  # imports the driver
    schemes: tuple[str, ...] = ()
    is_address: Callable[[str], bool] = lambda text: False
    suffixes: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    takes_path: bool = False  # whether path= names files in what the address leads to
    driver: str | None = None  # what must be installed
    install: str = "install it"  # how
    page: str = "docs/scale.md#another-engine"  # about it

    def accepts(self, source: Any) -> bool:
        """Whether this engine opens the source."""
        if isinstance(source, str) and (source.startswith(self.schemes) or self.is_address(source)):
            return True
        if isinstance(source, str | Path):
            return str(source).lower().endswith(self.suffixes)
        return any(each.__module__.partition(".")[0] in self.packages for each in type(source).__mro__)

    def open(self, source: Any, options: OpenOptions) -> Engine:
        """Open the source.

        Raises:
            SourceRefused: the driver is not installed, or the source cannot be opened.
        """
        try:
            opener = self.load()
        except ImportError:
            raise SourceRefused(f"{self.driver or self.name} is not installed", self.install) from None
        return opener(source, options)


def _load_postgres() -> Opener:
    from discreet.engines.postgres import Postgres

    return lambda source, options: Postgres.open(to_libpq(source), options.table or options.name)


def _load_spark() -> Opener:
    from discreet.engines.spark import Spark

    def open_spark(source: Any, options: OpenOptions) -> Engine:
        if not isinstance(source, str):
            return Spark.of(source, options.table or options.name or "data", options.claimed_identity)
        return Spark.connect(source, options.table, None if options.path is None else str(options.path), options.name)

    return open_spark


def _load_duckdb() -> Opener:
    from discreet.engines.duckdb.engine import DuckDB, name_of_glob

    def open_duckdb(source: Any, options: OpenOptions) -> Engine:
        table = options.table or name_of_glob(source) or options.name
        named = {"claimed_identity": options.claimed_identity, "output": options.output}
        return DuckDB.open(source, table, options.kinds, options.unit, **named)

    return open_duckdb


_factories = [
    EngineFactory(
        "PostgreSQL",
        _load_postgres,
        is_address=is_postgres,
        driver="psycopg",
        install="pip install 'discreet[postgres]'",
        page="docs/scale.md#postgresql",
    ),
    EngineFactory(
        "Spark",
        _load_spark,
        schemes=("spark:", "local["),
        packages=("pyspark",),
        takes_path=True,
        page="docs/scale.md#spark",
        driver="pyspark",
        install="pip install 'discreet[spark]'; it needs Java 17 or later",
    ),
]
_DUCKDB = EngineFactory("DuckDB", _load_duckdb, page="docs/asking.md#which-files-can-be-read")
"""Opens files, frames and its own databases, and refuses what no engine accepts: its errors say what can be read."""


def register_engine(factory: EngineFactory) -> None:
    """Let this engine open the sources that it accepts. It comes before the engines that are registered already."""
    _factories.insert(0, factory)


def open_engine(
    source: Any,
    table: str | None = None,
    kinds: Mapping[str, Kind] | None = None,
    *,
    path: str | Path | None = None,
    name: str | None = None,
    unit: str | None = None,
    frame_name: str | None = None,
    output: str | None = None,
) -> Engine:
    """Open a source with the engine that accepts it; the other parameters are those of `OpenOptions`.

    A source is an address of PostgreSQL ("postgresql://…", "host=… dbname=…") or Spark ("spark:local[2]", "spark://…"), a
    Spark frame, what a registered engine accepts, or anything that DuckDB opens.
    """
    factory = next((each for each in _factories if each.accepts(source)), _DUCKDB)
    if path is not None and not (factory.takes_path and isinstance(source, str)):
        reason = "path= names files in a Spark cluster, and this source is none"
        raise BadParameter("path", repr(str(path)), reason, "give the file as the source itself")
    if frame_name is not None:
        if isinstance(source, str | Path) or type(source).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
            reason = "only a frame has no identity of its own, and this source is none"
            raise BadParameter("name", repr(frame_name), reason, "leave name out; table= names a table")
        table = _check_frame_name(frame_name, table)
    # Without the address, which may hold a password.
    subject = _describe_source(source) if factory is _DUCKDB else f"{factory.name}, {table or path or name}"
    with about(subject):
        try:
            return factory.open(source, OpenOptions(table, name, path, kinds, unit, frame_name, output))
        except SourceRefused as refused:
            raise _name_source(refused, source, factory) from None


def _name_source(refused: SourceRefused, source: Any, factory: EngineFactory) -> SourceRefused:
    """The same refusal with the file as it was given, and the page about its engine. Files of a glob or folder stay unnamed:
    a file may be named after a person. So does a text with = or spaces that is no path: it may be an address."""
    is_file = isinstance(source, str | Path) and factory is _DUCKDB
    is_path = is_file and (not re.search(r"[=\s]", str(source)) or os.path.exists(source))
    shown = format_path(str(source)) if is_path else ""
    if not shown.startswith(("'", '"')) or shown in refused.reason:  # an address may hold a password
        named = refused
    else:
        named = SourceRefused(f"{shown}: {refused.reason}", refused.hint, *refused.for_owner)
    named.see = factory.page if refused.see == SourceRefused.see else refused.see
    return named


_FRAME_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


def _check_frame_name(name: str, table: str | None) -> str:
    """Return the name that queries call a frame by: the one that its owner gave it."""
    if not isinstance(name, str) or _FRAME_NAME.fullmatch(name) is None:
        shown = repr(name[:40] if isinstance(name, str) else name)
        hint = 'take a letter, then up to 62 letters, digits and underscores: name="visits_2026"'
        raise BadParameter("name", shown, "not a name for a frame", hint)
    if table is not None and table != name:
        raise BadParameter("table", repr(table), f"the frame is named {name!r}, and queries call it so", "leave table out")
    return name


def _describe_source(source: Any) -> str:
    """What the owner's log calls a file or an object before it is open."""
    if not isinstance(source, str | Path):
        return f"{type(source).__module__.partition('.')[0]} {type(source).__name__}"
    return os.path.abspath(source) if format_path(str(source)) == repr(str(source)) else "a file"
