"""What is said about a source when it is opened: whose data it is, what its columns may hold, how much a person may add."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from discreet._numbers import Number
from discreet.engines.base import Engine, about, owner_log
from discreet.engines.registry import open_engine
from discreet.errors import BadParameter, LedgerUnavailable, SourceRefused
from discreet.ledger.quarantine import default_state_folder
from discreet.paths import read_text
from discreet.query.policy import read_policy, read_public
from discreet.query.schema import Column, Key, Kind, Table

# Find what an engine cannot decode before any analyst asks.
#
# A row on which the engine raises would be found by bisection at almost no cost: whether a question fails tells whether the
# row is among those that it reads. So every declared column of a source that could fail is read once when the source is
# opened, and the source is refused if a cell cannot be read. What passed is remembered in the owner's state, by a hash
# of what
# the rows are known by, so that it is paid for once; nothing of it is in a ledger, an answer or a certificate.


VALIDATION_VERSION = 1
"""Of the rules. What passed older ones is validated again."""


def validate_source(engine: Engine, columns: Collection[str], state_folder: Callable[[], Path]) -> None:
    """Refuse a source with cells that cannot be read in these columns. `state` finds the folder of the owner's state."""
    fingerprint = engine.compute_fingerprint(columns)
    if fingerprint is None:
        return
    passed = None
    if fingerprint.digest is not None:
        known = sha256(repr((VALIDATION_VERSION, engine.identity, sorted(columns), fingerprint.digest)).encode()).hexdigest()
        passed = _mark(state_folder, known)
    if passed is not None and os.path.exists(passed):
        return
    engine.probe(columns)
    if passed is not None:
        _remember(passed)


def _mark(state: Callable[[], Path], known: str) -> Path | None:
    """The file that says that a source passed. Without a folder for it, the source is validated each time it is opened:
    only failures need a place that lasts, and with a ledger that is the ledger."""
    try:
        return state() / "validated" / known
    except LedgerUnavailable as mistake:
        owner_log.warning("%s", mistake)
        return None


def _remember(mark: Path) -> None:
    try:
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch(mode=0o600)
    except OSError as mistake:
        owner_log.warning("%s", mistake)


AUTO = "auto"
ColumnBounds: TypeAlias = Mapping[str, tuple[Number, Number] | str] | str
"""Bounds by column; "auto" for a column, or for all of them, has them found privately."""


@dataclass(frozen=True, slots=True)
class Source:
    """The open source, what is declared about it, what was left undeclared, and whose bounds shall be found."""

    engine: Engine
    table: Table
    notes: tuple[str, ...]
    auto_bounds: frozenset[str]

    def validate(self) -> "Source":
        """The same, if every declared cell can be read. This reads rows: check the quarantine first."""
        with about(self.engine.identity):
            validate_source(self.engine, set(self.table.columns), default_state_folder)
        return self


def open_source(
    source: Any,
    *,
    unit: str | None,
    policy: str | Path | Table | None = None,
    table: str | None = None,
    path: str | Path | None = None,
    bounds: ColumnBounds | None = None,
    keys: Mapping[str, Sequence[Key]] | None = None,
    max_groups: int | None = None,
    max_rows: int | None = None,
    unique: bool | None = None,
    public: Mapping[str, Any] | None = None,
) -> Source:
    """Open a source and put together what is said about it. No row is read before `validate` is called."""
    if table is not None and not isinstance(table, str):
        raise BadParameter("table", type(table).__name__, "a table has a name", 'give it as a text, table="people"')
    given, listed = _load_policy(policy)
    kinds = None if given is None else {name: column.kind for name, column in given.columns.items()}
    person = unit or (given.unit if given else None)
    if given is not None and person != given.unit:
        reason = f"the policy is about {given.unit!r}, and so are its limits"
        raise BadParameter("unit", repr(person), reason, "give a policy for this unit")
    engine = open_engine(source, table, kinds, path=path, name=given.name if given else None, unit=person)
    with about(engine.identity):
        columns = engine.describe_columns() if given is None else _check_policy_columns(given, engine.describe_columns())
    limits, auto = _parse_bounds(bounds, columns)
    for name, (low, high) in limits.items():
        columns[name] = columns[_check_column(name, columns)].with_bounds(low, high)
    for name, known in _check_mapping(keys, "keys", '{"dept": ["a", "b"]}').items():
        columns[name] = columns[_check_column(name, columns)].with_keys(_parse_keys(name, known))
    if person is None:
        raise BadParameter("unit", "missing", "it must be known whose data this is", "name the column with unit=")
    base = given or Table(engine.table, _check_column(person, columns), columns)
    with about(engine.identity):
        engine, lookups = engine.with_public({**listed, **_check_mapping(public, "public", '{"cities": "cities.csv"}')})
    final = Table(
        engine.table,
        _check_column(person, columns),
        columns,
        base.max_groups if max_groups is None else max_groups,
        base.max_rows if max_rows is None else max_rows,
        base.unique if unique is None else unique,
        base.salt,
        lookups,
        base.least_epsilon,
        base.adjusted_after_looking,
    )
    for name, value in (("max_rows", max_rows), ("max_groups", max_groups)):
        if final.unique and value is not None and value != 1:
            raise BadParameter(name, value, "with unique, a unit has one row", f"leave {name} or unique out")
    if (problem := engine.find_unit_problem(final.unit)) is not None:
        raise BadParameter("unit", repr(final.unit), f"two units could be read as one: {problem}", "make it a text")
    notes = _describe_defaults(final, given, max_groups, max_rows)
    if given is None and isinstance(source, str | Path) and str(source).lower().endswith((".csv", ".tsv")):
        notes = (*notes, "What the columns hold was guessed from the values of the file; a policy says it once and for all.")
    return Source(engine, final, notes, auto - {final.unit})


def _parse_bounds(
    bounds: ColumnBounds | None, columns: Mapping[str, Column]
) -> tuple[dict[str, tuple[Number, Number]], frozenset[str]]:
    """The bounds that are given, and the columns whose bounds shall be found."""
    numeric = [name for name, column in columns.items() if column.kind in (Kind.INTEGER, Kind.REAL)]
    if isinstance(bounds, str):
        if bounds != AUTO:
            raise BadParameter(
                "bounds", repr(bounds), "not bounds", 'give {"pay": (0, 200)}, or "auto" to find them privately'
            )
        return {}, frozenset(name for name in numeric if columns[name].lower is None)
    given: dict[str, tuple[Number, Number]] = {}
    auto: list[str] = []
    for name, ends in _check_mapping(bounds, "bounds", '{"pay": (0, 200)}').items():
        if isinstance(ends, tuple | list) and len(ends) == 2:
            given[name] = (ends[0], ends[1])
        elif ends == AUTO and _check_column(name, columns) in numeric:
            auto.append(name)
        else:
            raise BadParameter("bounds", f"{name}: {ends!r}", "not two numbers", 'give (0, 200), or "auto" for a number')
    return given, frozenset(auto)


def _describe_defaults(final: Table, policy: Table | None, max_groups: int | None, max_rows: int | None) -> tuple[str, ...]:
    if policy is not None or final.unique:
        return ()
    named = (("max_groups", max_groups), ("max_rows", max_rows))
    left_out = [name for name, value in named if value is None]
    if not left_out:
        return ()
    verb = "was" if len(left_out) == 1 else "were"
    return (
        f"{' and '.join(left_out)} {verb} not declared: 1 is taken, and what one {final.unit} has beyond that is left out.",
    )


def _check_policy_columns(policy: Table, found: Mapping[str, Column]) -> dict[str, Column]:
    """The policy's columns, which must be there and of the declared kind."""
    for name, column in policy.columns.items():
        if found[_check_column(name, found)].kind is not column.kind:
            raise BadParameter(
                "policy", f"{name}: {column.kind.value}", f"the source holds {found[name].kind.value} there", "correct it"
            )
    return dict(policy.columns)


def _load_policy(policy: str | Path | Table | None) -> tuple[Table | None, dict[str, str]]:
    """The policy, and where its public tables are: beside it, unless a path says otherwise."""
    if policy is None or isinstance(policy, Table):
        return policy, {}
    if not isinstance(policy, str | Path):
        raise BadParameter("policy", type(policy).__name__, "not a policy", 'give the path of one, policy="policy.toml"')
    text = read_text(policy, lambda reason: SourceRefused(f"the policy {str(policy)!r}: {reason}", "check the path"))
    return read_policy(text), {name: str(Path(policy).parent / path) for name, path in read_public(text).items()}


def _check_mapping(given: Any, what: str, example: str) -> Mapping[str, Any]:
    """What is said by name, refused unless names are texts."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadParameter(what, type(given).__name__, "not said by name", f"give {example}")
    return given


def _parse_keys(name: str, known: Any) -> tuple[Key, ...]:
    """Keys, of which there is a list: a text is one key and no list of its letters."""
    if isinstance(known, str | bytes | Mapping) or not isinstance(known, Iterable):
        raise BadParameter("keys", f"{name}: {known!r}", "not a list of keys", f'give {{"{name}": ["a", "b"]}}')
    return tuple(known)


def _check_column(name: str, columns: Mapping[str, Any]) -> str:
    if not isinstance(name, str) or name not in columns:
        raise BadParameter("column", repr(name), "the source has no such column", f"take one of {', '.join(columns)}")
    return name
