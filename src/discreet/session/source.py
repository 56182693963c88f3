"""Open a source, and combine what the policy and the options declare about it.

**Theory of operation.** `open_source` reads the policy, opens the engine, and makes one `Table` of the declared columns,
bounds, keys and contribution bounds. It reads no row of the source. `Source.validate` then reads every declared column that
the engine might fail to decode.

Why validate: an engine that raises on one row would let an analyst find that row by bisection at almost no cost, because a
query fails exactly if it reads the row. So a source with a cell that cannot be read is refused before any query runs on it.
The owner's state remembers a source that passed, by a hash of what identifies its rows, so that it is read once. Nothing of
this goes into a ledger, an answer or a certificate.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any

from discreet.engines.base import Engine, Preparation, about, owner_log
from discreet.engines.registry import open_engine
from discreet.errors import BadParameter, LedgerUnavailable, SourceRefused
from discreet.ledger.owner_state import default_state_folder
from discreet.paths import format_path, read_text
from discreet.query.policy import make_policy_error, read_policy, read_public
from discreet.query.schema import (
    DEFAULT_SALT,
    MAX_LISTED,
    BoundLike,
    Column,
    Key,
    Kind,
    PublicTable,
    Table,
    about_column,
    parse_unit,
    read_unit,
    refuse_row_column,
)
from discreet.session.options import AUTO, ColumnBounds, KeyText, SourceOptions

"""Bounds by column; "auto" for a column, or for all numeric columns, discovers them privately."""

FRAME_NAME_NOTE = (
    'That these are the data called "{name}" is the word of the data owner: a frame has no identity of its own, and answers '
    "that a ledger recorded under this name are taken to be about the same data."
)
"""What is said of answers about a frame that its owner gave a name."""

VALIDATION_VERSION = 1
"""The version of the validation rules. A source that passed older rules is validated again."""


@dataclass(frozen=True, slots=True)
class Source:
    """An open source: its engine, its declared table, notes on what is not declared, and columns with bounds to discover."""

    engine: Engine
    table: Table
    notes: tuple[str, ...]
    auto_bounds: frozenset[str]
    options: SourceOptions  # as it was opened; without the object, if it was one
    ungrouped_notes: tuple[str, ...] = ()  # `notes`, as they read for a query without groups

    def validate(self) -> "Source":
        """Return this source if every declared cell can be read. This reads rows: check the quarantine first.

        Raises:
            SourceRefused: a cell cannot be read.
        """
        with about(self.engine.identity):
            validate_source(self.engine, set(self.table.columns), default_state_folder)
        return self


def open_source(options: SourceOptions, output: str | None = None) -> Source:
    """Open a source with its declarations. No row is read before `Source.validate`. `output` is a database that the engine
    writes a prepared table to.

    >>> opened = open_source(SourceOptions(source="examples/people.csv", unit="id", bounds={"pay": (0, 200)}))
    >>> opened.table.columns["pay"].upper, opened.table.max_rows
    (Fraction(200, 1), 1)
    """
    if options.table is not None and not isinstance(options.table, str):
        raise BadParameter(
            "table", f"of type {type(options.table).__name__}", "the name of a table is a text", 'give table="people"'
        )
    policy, policy_public = load_policy(options.policy)
    unit = read_unit(options.unit) if options.unit is not None else policy.unit if policy else None
    if policy is not None and unit != policy.unit:
        reason = f"the policy bounds the contribution of {policy.unit!r}"
        raise BadParameter("unit", repr(unit), reason, "give a policy for this unit")
    kinds = None if policy is None else {name: column.kind for name, column in policy.columns.items()}
    engine = open_engine(
        options.source,
        options.table,
        kinds,
        path=options.path,
        name=policy.name if policy else None,
        unit=unit,
        frame_name=options.name,
        output=output,
    )
    preparation: Preparation | None = getattr(engine, "preparation", None)  # engines of others need not know of it
    if preparation is not None:
        unit = _check_preparation(preparation, unit, policy)
    with about(engine.identity):
        found = engine.describe_columns()
    inferred = engine.inferred and policy is None
    file = _name_file(options.policy)
    hint = "correct the policy" if preparation is None else PREPARE_AGAIN
    declared = found if policy is None else _check_policy_columns(policy, found, engine.names, file, hint)
    columns, auto_bounds = _declare_columns(options, declared, inferred=inferred)
    if unit is None:
        raise missing_unit()
    unread = {*engine.names} - {*columns} if policy is None and preparation is None else ()
    unit_columns = [check_column(name, columns, "unit", unread) for name in parse_unit(unit)]
    if not unit_columns:
        refuse_row_column(engine.names)
    public = policy_public | dict(_check_mapping(options.public, "public", 'public={"cities": "cities.csv"}'))
    engine, public_tables = _add_public_tables(engine, public)
    salt = None if preparation is None else preparation.salt
    table = _build_table(options, policy, engine.table, unit, columns, public_tables, salt)
    for name in unit_columns:
        if (problem := engine.find_unit_problem(name)) is not None:
            reason = f"different units could be read as the same: {problem}"
            raise BadParameter("unit", repr(name), reason, "store it as a text")
    notes, ungrouped = (
        _describe_defaults(options, policy, table, inferred=engine.inferred, grouped=grouped) for grouped in (True, False)
    )
    named = options if isinstance(options.source, str | Path) else replace(options, source=None)  # a frame may be large
    return Source(engine, table, notes, auto_bounds - {*unit_columns}, named, ungrouped)


PREPARE_AGAIN = "prepare its source with this policy (`discreet prepare --policy`), or correct the policy"
"""What to do where a prepared table holds another kind than the policy declares: it has those that it was prepared with."""

INFERRED_HINT = (
    'its kind, text, was inferred from the file. If it holds numbers, and marks such as NA, declare kind = "integer" or '
    '"real" in a policy (`discreet policy init`), and the marks are missing values; decimals need a point, not a comma'
)
"""What to do about a column whose inferred kind is text, where numbers were expected."""


def _declare_columns(
    options: SourceOptions, found: Mapping[str, Column], *, inferred: bool
) -> tuple[dict[str, Column], frozenset[str]]:
    """The columns with the bounds and keys of the options, and the columns with bounds to discover."""
    columns = dict(found)
    bounds, auto_bounds = _parse_bounds(options.bounds, columns)
    for name, (lower, upper) in bounds.items():
        column = columns[check_column(name, columns, "bounds")]
        with about_column(name):
            if inferred and column.kind is Kind.TEXT:
                reason, hint = "a text column has no bounds", f"leave them out; {INFERRED_HINT}"
                raise BadParameter("bounds", f"{lower}:{upper}", reason, hint)
            columns[name] = column.with_bounds(lower, upper)
    for name, keys in _check_mapping(options.keys, "keys", 'keys={"dept": ["a", "b"]}').items():
        column = columns[check_column(name, columns, "keys")]
        with about_column(name):
            columns[name] = column.with_keys(_parse_keys(name, column, keys))
    return columns, auto_bounds


def _check_preparation(preparation: Preparation, unit: str | None, policy: Table | None) -> str:
    """The unit that a table was prepared for, unless another one is declared, or another salt."""
    if unit is not None and unit != preparation.unit:
        reason = f"this table was prepared for the unit {preparation.unit!r}"
        raise BadParameter("unit", repr(unit), reason, "prepare its source for this unit: `discreet prepare`")
    if policy is not None and policy.salt not in (DEFAULT_SALT, preparation.salt):
        raise SourceRefused(
            "this table was prepared with another salt than the policy has",
            "prepare its source with this policy: `discreet prepare --policy`",
            parameter="policy",
        )
    return preparation.unit


def missing_unit() -> BadParameter:
    """The error for a source without a unit."""
    return BadParameter("unit", "missing", "no privacy unit", 'name the column that identifies a person: unit="id"')


def find_prepared_unit(source: Any) -> str | None:
    """The unit that a file was prepared for; None if it is not prepared, or cannot be opened."""
    if (
        not isinstance(source, str | Path)
        or not str(source).lower().endswith((".duckdb", ".db"))
        or not Path(source).is_file()
    ):
        return None
    from discreet.engines.duckdb.connection import visit_database
    from discreet.engines.duckdb.prepared import read_preparation

    with suppress(SourceRefused), visit_database(str(source)) as connection:
        prepared = read_preparation(connection)
        return None if prepared is None else prepared.unit
    return None


def _build_table(
    options: SourceOptions,
    policy: Table | None,
    name: str,
    unit: str,
    columns: Mapping[str, Column],
    public: Mapping[str, PublicTable],
    salt: str | None,
) -> Table:
    """The table as declared; what the options leave open, the policy says. A prepared table has its own salt."""
    base = policy or Table(name, unit, columns)
    table = Table(
        name,
        unit,
        columns,
        base.max_groups if options.max_groups is None else options.max_groups,
        base.max_rows if options.max_rows is None else options.max_rows,
        base.unique if options.unique is None else options.unique,
        base.salt if salt is None else salt,
        public,
        base.least_epsilon,
        base.adjusted_after_looking,
    )
    for option, value in (("max_rows", options.max_rows), ("max_groups", options.max_groups)):
        if table.unique and value is not None and value != 1:
            one = "a unique unit has one row" if table.unit_columns else "a unit that is a row has one row"
            raise BadParameter(option, value, one, f"leave out {option}={' or unique=' * bool(table.unit_columns)}")
    if options.unique is False and not table.unit_columns:
        raise BadParameter("unique", False, "a unit that is a row has one row", "leave out unique=")
    return table


def _add_public_tables(engine: Engine, sources: Mapping[str, Any]) -> tuple[Engine, dict[str, PublicTable]]:
    """The engine beside a copy of each public table. An error names the table."""
    tables: dict[str, PublicTable] = {}
    for name, source in sources.items():
        try:
            with about(engine.identity):
                engine, described = engine.with_public({name: source})
        except SourceRefused as refused:
            raise SourceRefused(f"public.{name}: {refused.reason}", refused.hint, *refused.for_owner) from None
        tables |= described
    return engine, tables


def _parse_bounds(
    bounds: ColumnBounds | None, columns: Mapping[str, Column]
) -> tuple[dict[str, tuple[BoundLike, BoundLike]], frozenset[str]]:
    """The declared bounds, and the columns with bounds to discover."""
    numeric = [name for name, column in columns.items() if column.kind in (Kind.INTEGER, Kind.REAL)]
    if isinstance(bounds, str):
        if bounds != AUTO:
            raise BadParameter("bounds", repr(bounds), "not bounds", 'give bounds={"pay": (0, 200)}, or bounds="auto"')
        return {}, frozenset(name for name in numeric if columns[name].lower is None)
    declared: dict[str, tuple[BoundLike, BoundLike]] = {}
    auto: list[str] = []
    for name, ends in _check_mapping(bounds, "bounds", 'bounds={"pay": (0, 200)}').items():
        if isinstance(ends, tuple | list) and len(ends) == 2:
            declared[name] = (ends[0], ends[1])
        elif ends == AUTO and check_column(name, columns, "bounds") in numeric:
            auto.append(name)
        else:
            hint = f'give bounds={{"{name}": (0, 200)}}, or "auto" for a numeric column'
            raise BadParameter("bounds", repr(ends), "not two numbers", hint, column=name)
    return declared, frozenset(auto)


def _describe_defaults(
    options: SourceOptions, policy: Table | None, table: Table, *, inferred: bool, grouped: bool
) -> tuple[str, ...]:
    """What was not declared, and what holds instead, for a query with groups or without; and what is the owner's word."""
    notes = [] if options.name is None else [FRAME_NAME_NOTE.format(name=options.name)]
    if policy is not None:
        return tuple(notes)
    limits = _describe_limits(options, table, grouped=grouped)
    notes += [limits] if limits else []
    if inferred:
        notes.append("Column types were inferred from the file. Declare them in a policy (`discreet policy init`).")
    return tuple(notes)


def _describe_limits(options: SourceOptions, table: Table, *, grouped: bool) -> str:
    """Which limits on contributions are not declared, and what holds instead. A query without groups has one limit."""
    limits = (
        {"max_groups": "in one group", "max_rows": "with one row per group"} if grouped else {"max_rows": "with one row"}
    )
    missing = [] if table.unique else [name for name in limits if getattr(options, name) is None]
    if not missing:
        return ""
    return (
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not declared: each {table.unit} counts "
        f"{', '.join(limits[name] for name in missing)}; other rows are dropped."
    )


def load_policy(policy: str | Path | Table | None) -> tuple[Table | None, dict[str, Any]]:
    """The policy, and the paths of its public tables, which are relative to its file."""
    if policy is None or isinstance(policy, Table):
        return policy, {}
    if not isinstance(policy, str | Path):
        raise BadParameter(
            "policy", f"of type {type(policy).__name__}", "not a policy", 'give the path of one: policy="policy.toml"'
        )

    def refuse(reason: str) -> SourceRefused:
        return SourceRefused(f"the policy {str(policy)!r}: {reason}", "check the path", parameter="policy")

    text = read_text(policy, refuse)
    file = _name_file(policy)
    return read_policy(text, file), {name: str(Path(policy).parent / path) for name, path in read_public(text, file).items()}


def _name_file(policy: str | Path | Table | None) -> str:
    """The name of the policy's file, as messages show it; nothing for a policy that is a value."""
    return format_path(str(policy)).strip("'\"") if isinstance(policy, str | Path) else ""


def _check_policy_columns(
    policy: Table, found: Mapping[str, Column], names: Collection[str], file: str, hint_of_kind: str
) -> dict[str, Column]:
    """The columns of the policy; the source must have them, of the declared kinds."""
    missing = [name for name in policy.columns if name not in found]
    undeclared = sorted({*(names or found)} - {*policy.columns})  # `found` has declared columns only, if there is a policy
    near = None if not missing else _suggest_column(missing[0], undeclared)
    if 2 * len(missing) >= len(policy.columns) and (near is None or len(missing) > 1):
        reason = f"this policy is for another table: the source lacks {_list_names(missing)}"
        raise make_policy_error("columns", reason, f"the source has {_list_names(sorted(names or found))}", file)
    if missing:
        hint = f"did you mean {near!r}?" if near is not None else f"the source has {_list_names(sorted(names or found))}"
        raise make_policy_error(f"columns.{missing[0]}", "the source has no such column", hint, file)
    for name, column in policy.columns.items():
        actual = found[name].kind
        if actual is not column.kind:
            reason = f"{column.kind.value!r} is declared, and the source holds {actual.value} there"
            raise make_policy_error(f"columns.{name}.kind", reason, hint_of_kind, file)
    return dict(policy.columns)


def _check_mapping(value: Any, option: str, example: str) -> Mapping[str, Any]:
    """A value per name; empty for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise BadParameter(option, f"of type {type(value).__name__}", "not a value per name", f"give {example}")
    return value


def check_column(name: str, columns: Mapping[str, Any], option: str, unread: Collection[str] = ()) -> str:
    """Return the name of a column, if it is one; `unread` are those of a type that cannot be read."""
    if name in unread:
        hint = "store it as a text or an integer" + (f", or take one of {_list_names(columns)}" if columns else "")
        raise BadParameter(option, repr(name), "a column of a type that cannot be read", hint)
    if not isinstance(name, str) or name not in columns:
        near = _suggest_column(name, columns)
        hint = f"did you mean {near!r}?" if near is not None else f"take one of {_list_names(columns)}"
        if columns and all(map(_INVENTED_NAME.fullmatch, columns)):
            hint = "the file seems to have no header line: put the names of its columns into its first line"
        raise BadParameter(option, repr(name), "the source has no such column", hint)
    return name


_INVENTED_NAME = re.compile("column[0-9]+")
"""What DuckDB calls a column of a CSV file without a header line."""


def _suggest_column(name: object, columns: Iterable[str]) -> str | None:
    """The column that is closest to a name; the case of letters does not count."""
    alike = {each.lower(): each for each in columns}
    near = get_close_matches(str(name).lower(), alike, 1)
    return alike[near[0]] if near else None


def _list_names(names: Iterable[str]) -> str:
    listed = list(names)
    rest = f" and {len(listed) - MAX_LISTED} more" if len(listed) > MAX_LISTED else ""
    return f"{', '.join(listed[:MAX_LISTED])}{rest}"


def _parse_keys(name: str, column: Column, keys: Any) -> tuple[Key, ...]:
    """The listed keys; those typed in a shell become values of the column's type. One text is not a list of its letters."""
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable):
        raise BadParameter("keys", repr(keys), "not a list of keys", f'give keys={{"{name}": ["a", "b"]}}')
    return tuple(_parse_key(key, column.kind) if isinstance(key, KeyText) else key for key in keys)


def _parse_key(text: str, kind: Kind) -> Key:
    try:
        match kind:
            case Kind.INTEGER:
                return int(text)
            case Kind.BOOLEAN:
                return {"true": True, "false": False}[text.strip().lower()]
            case Kind.DATE:
                return date.fromisoformat(text)
            case Kind.TIMESTAMP:
                return datetime.fromisoformat(text)
            case Kind.TEXT | Kind.REAL:
                return str(text)
    except (ValueError, KeyError):
        raise BadParameter(
            "keys", repr(text), f"not of the column's type, {kind.value}", "write a value of that type"
        ) from None


def validate_source(engine: Engine, columns: Collection[str], state_folder: Callable[[], Path]) -> None:
    """Read these columns, unless they passed before; `state_folder` finds the folder of the owner's state.

    Raises:
        SourceRefused: a cell cannot be read.
    """
    fingerprint = engine.compute_fingerprint(columns)
    if fingerprint is None:
        return
    passed = None
    if fingerprint.digest is not None:
        spec = (VALIDATION_VERSION, engine.identity, sorted(columns), fingerprint.digest)
        passed = _find_marker(state_folder, sha256(repr(spec).encode()).hexdigest())
    if passed is not None and os.path.exists(passed):
        return
    engine.probe(columns)
    if passed is not None:
        _create_marker(passed)


def _find_marker(state_folder: Callable[[], Path], digest: str) -> Path | None:
    """The file that exists if a source passed; None without a state folder, and the source is then validated each time it is
    opened. Only failures need durable storage, and with a ledger that is the ledger."""
    try:
        return state_folder() / "validated" / digest
    except LedgerUnavailable as mistake:
        owner_log.warning("%s", mistake)
        return None


def _create_marker(marker: Path) -> None:
    try:
        marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker.touch(mode=0o600)
    except OSError as mistake:
        owner_log.warning("%s", mistake)
