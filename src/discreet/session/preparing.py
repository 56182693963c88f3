"""Prepare a table once, so that every later query takes less time: `discreet.prepare` and `discreet prepare`.

**Theory of operation.** `prepare` opens the file as `connect` does, with the same checks, and writes a DuckDB file with its
rows and what contribution bounding needs of them (`engines/duckdb/prepared.py`). The file is written in a folder that only
this user can enter, beside the place where it will be, and moved there when it is complete: no incomplete file ever has the
name, and other users can read it at no time.

The file holds a salt: that of the policy, if it has one; else that of the prepared file that it replaces, for the same unit
and table; else a random one. It is the owner's secret, as the rows are.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, cast

from discreet.engines.base import SAYS_MORE, about
from discreet.errors import BadParameter, EngineFailed, SourceRefused
from discreet.paths import format_path, is_postgres, is_service, may, move_new, reason_of
from discreet.query.schema import DEFAULT_SALT, Kind, Table
from discreet.session.options import SourceOptions
from discreet.session.source import check_column, find_prepared_unit, load_policy, missing_unit, open_source

if TYPE_CHECKING:
    from discreet.engines.duckdb.engine import DuckDB
    from discreet.engines.duckdb.prepared import PreparedFile

SUFFIX = ".prepared.duckdb"
NOTHING_WRITTEN = "Interrupted. Nothing was written."


def prepare(
    source: str | Path,
    *,
    unit: str | Sequence[str] | None = None,
    output: str | Path | None = None,
    policy: str | Path | Table | None = None,
    table: str | None = None,
    group_by: Sequence[str] | None = None,
    force: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Path:
    """Write a file once, as a DuckDB file that answers the same queries in less time. `connect` opens it.

    >>> from discreet.session.connect import connect
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = prepare("examples/people.csv", unit="id", output=f"{folder}/people.prepared.duckdb")
    ...     people = connect(file, epsilon=1, keys={"dept": ["a", "b"]})
    ...     len(people.ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=1).rows)
    2

    Args:
        source: A CSV, Parquet, JSON lines, Excel or Arrow file (globs too), or a folder of Parquet files.
        unit: The column that identifies the privacy unit; the columns, if it takes several; the policy's, unless given.
        output: The file to write; people.prepared.duckdb beside people.parquet, unless given. Needed for a glob. Only you
            can read it.
        policy: A policy file: its kinds are those of the columns, and its salt, if it has one, is that of the file.
        table: The name of the table; the name of the file, unless given; of a glob, what stands before its first wildcard,
            or data.
        group_by: The columns that queries group by; all texts, dates and truth values, unless given.
        force: Whether an earlier prepared file at this place is replaced; its salt is kept, for the same unit and table.
        progress: A function that hears which share is done, from 0 to 1.

    Returns:
        The path of the file.

    Raises:
        BadParameter: a parameter is impossible, or one that is needed is missing.
        SourceRefused: the source cannot be opened or has cells that cannot be read, or memory or the disk does not suffice.
            No file is left.
        KeyboardInterrupt: the user interrupted it; its text says that nothing was written.
    """
    options = SourceOptions(source=source, unit=unit, policy=policy, table=table)
    return prepare_source(options, output, group_by, force, progress).file


@dataclass(frozen=True, slots=True)
class PreparedSource:
    """What was written."""

    file: Path
    table: Table
    ranked: Sequence[str]  # the columns that queries group by most quickly
    replaced: bool  # whether it took the place of an earlier file
    forgets: str | None = None  # why answers about that file are not found again


def prepare_source(
    options: SourceOptions,
    output: str | Path | None,
    group_by: Sequence[str] | None,
    force: bool,
    progress: Callable[[float], None] | None,
) -> PreparedSource:
    """Prepare a source as `prepare` does; return what was written."""
    from discreet.engines.duckdb.prepared import rank_by_default

    _check_source(options.source)
    target = _find_target(options.source, output)
    is_new = not os.path.lexists(target)
    try:
        earlier = _check_target(target, force=force)
    except BadParameter:
        _check_declarations(options)
        raise
    folder, is_moved = _make_folder(target), False
    try:
        part = Path(folder) / target.name
        opened = open_source(options, str(part))
        if not opened.table.unit_columns:
            raise BadParameter(
                "unit", repr(opened.table.unit), "each row is a unit, and nothing is to be prepared", "ask the file"
            )
        declared = opened.validate().table
        declared = replace(declared, salt=_make_salt(declared, earlier))
        ranked = _check_group_by(group_by, declared)
        ranked = rank_by_default(declared) if ranked is None else ranked
        _write(cast("DuckDB", opened.engine), declared, ranked, progress)
        is_moved = True  # perhaps: the next step is not repeated, and not undone
        _move(part, target, force=force)
    except KeyboardInterrupt:
        if is_moved:
            raise
        raise KeyboardInterrupt(NOTHING_WRITTEN) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return PreparedSource(target, declared, ranked, not is_new, None if is_new else _find_difference(declared, earlier))


def _write(engine: "DuckDB", table: Table, ranked: Sequence[str], progress: Callable[[float], None] | None) -> None:
    from discreet.engines.duckdb.prepared import write_prepared

    try:
        with about(engine.identity):
            write_prepared(engine, table, ranked, progress)
    except EngineFailed:
        raise SourceRefused("this source cannot be prepared", f"check that memory and disk suffice; {SAYS_MORE}") from None


def _make_salt(declared: Table, earlier: "PreparedFile | None") -> str:
    """The policy's own salt, else that of the file that is replaced, if it has the same unit and name, so that recorded
    answers are found again; else a random one of 256 bits."""
    if declared.salt != DEFAULT_SALT:
        return declared.salt
    if earlier is not None and (earlier.unit, earlier.table) == (declared.unit, declared.name):
        return earlier.salt
    return secrets.token_urlsafe(32)


def _find_difference(declared: Table, earlier: "PreparedFile | None") -> str | None:
    """What differs between a file and the one that it replaces, so that answers about that one are not found again."""
    if earlier is None:
        return "does not say its salt in a way that this version reads"
    if earlier.unit != declared.unit:
        return f"was prepared for the unit {earlier.unit}"
    if earlier.table != declared.name:
        return f"has the table {earlier.table}"
    return None if earlier.salt == declared.salt else "has another salt than the policy"


def _check_declarations(options: SourceOptions) -> None:
    """Refuse a wrong policy, unit or path. The rows of files that are copied when they are opened are not read for this, and
    so the names of their columns are not known."""
    from discreet.engines.duckdb.engine import split_sheet, split_suffix

    policy, _ = load_policy(options.policy)
    path, _ = split_sheet(str(options.source))
    is_copied = split_suffix(path)[1] != ".parquet" and not os.path.isdir(path)
    if not is_copied or not os.path.exists(path):
        open_source(options)
    elif policy is None and options.unit is None:
        raise missing_unit()


def _check_source(source: Any) -> None:
    hint = "give a CSV, Parquet, JSON lines, Excel or Arrow file, or a folder of Parquet files"
    if not isinstance(source, str | Path):
        raise BadParameter("source", f"of type {type(source).__name__}", "only files are prepared", hint)
    text = str(source)
    if is_service(text) or is_postgres(text) or text.startswith(("spark:", "local[")):
        raise SourceRefused("only files are prepared, and this is an address", hint)
    if find_prepared_unit(source) is not None:
        raise SourceRefused("this file is prepared already", "ask it as it is, or prepare its source again")
    if text.lower().endswith((".duckdb", ".db")):
        raise SourceRefused(
            "only files are prepared, and this is a database", "write its table to a file: COPY people TO 'people.parquet'"
        )


def _check_group_by(names: Sequence[str] | None, table: Table) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise BadParameter("group_by", repr(names), "not a list of columns", 'give group_by=["dept"]')
    for name in names:
        if table.columns[check_column(name, table.columns, "group_by")].kind is Kind.REAL:
            raise BadParameter("group_by", repr(name), "a real column, which no query groups by", "leave it out")
    return [name for name in dict.fromkeys(names) if name not in table.unit_columns]


# -- the file --------------------------------------------------------------------------------------------------------------


def _find_target(source: str | Path, output: str | Path | None) -> Path:
    if output is not None:
        target = Path(output)
        if target.suffix.lower() != ".duckdb":
            raise BadParameter("output", repr(str(output)), "its name does not end in .duckdb", f'give "people{SUFFIX}"')
        return target
    from discreet.engines.duckdb.connection import name_of_folder
    from discreet.engines.duckdb.engine import name_of_glob, split_sheet, split_suffix

    path, _ = split_sheet(str(source))
    if name_of_glob(path) is not None:
        raise BadParameter(
            "output", "missing", "several files have no one name", f'name the file to write: output="people{SUFFIX}"'
        )
    stem = name_of_folder(path) if os.path.isdir(path) else split_suffix(path)[0]
    return Path(path).parent / f"{stem}{SUFFIX}"


def _check_target(target: Path, *, force: bool) -> "PreparedFile | None":
    """Refuse a place that holds a file already; with `force`, one that holds anything but a prepared file.

    Returns:
        What the prepared file there says of its table; None if there is none, or another version prepared it.
    """
    if not os.path.lexists(target):
        return None
    if not force:
        raise BadParameter("output", repr(str(target)), "it exists", "name another file, or replace it with force=True")
    from duckdb import Error as DatabaseError

    from discreet.engines.duckdb.connection import visit_database
    from discreet.engines.duckdb.prepared import holds_preparation, read_preparation

    what = "a link" if target.is_symlink() else "not a regular file"
    hint, is_prepared, earlier = "name another file", False, None
    if target.is_file() and not target.is_symlink():
        if not may(target, os.R_OK):
            reason = f"it cannot be read ({os.strerror(errno.EACCES)}), so it is not replaced"
            raise BadParameter("output", repr(str(target)), reason, "name another file, or allow reading it")
        what, hint = "it cannot be read as a prepared file, and may be damaged", "remove it first, or name another file"
        with suppress(SourceRefused, DatabaseError), visit_database(str(target)) as connection:
            is_prepared = holds_preparation(connection)
            what, hint = "not a prepared file", "name another file"
            earlier = read_preparation(connection)
    if not is_prepared:
        raise BadParameter("output", repr(str(target)), f"{what}, so it is not replaced", hint)
    return earlier


def _make_folder(target: Path) -> str:
    """A folder beside the file, on the same disk, that only this user can enter."""
    try:
        return mkdtemp(prefix=f".{target.stem}-", dir=target.parent)
    except OSError as error:
        reason = f"nothing can be written there ({reason_of(error)})"
        raise BadParameter("output", repr(str(target)), reason, "name another place with output=") from None


def _move(part: Path, target: Path, *, force: bool) -> None:
    """Give the complete file its name. A file that came meanwhile is not replaced, unless `force` is given."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
    try:
        if force:
            part.replace(target)
        else:
            move_new(part, target)
    except FileExistsError:
        raise BadParameter(
            "output", repr(str(target)), "it exists", "name another file, or replace it with force=True"
        ) from None
    except OSError as error:
        reason = f"it cannot be written ({reason_of(error)})"
        raise BadParameter("output", format_path(str(target)), reason, "name another place with output=") from None
