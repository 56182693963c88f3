"""All that a query needs and that is not declared, found at once, as one command to fill in.

Bounds and keys are for the owner or the analyst to say: nothing here reads a row, and placeholders stand where a value
belongs. The same list becomes flags in a shell and parameters in Python.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import MissingDeclarations
from discreet.paths import format_path, is_postgres
from discreet.query.schema import Table

if TYPE_CHECKING:
    from discreet.query import QueryLike
    from discreet.session.options import SourceOptions


@dataclass(frozen=True, slots=True)
class Missing:
    """What is missing: the unit, the ε, the columns without bounds and the group columns without keys."""

    unit: bool = False
    bounds: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    epsilon: bool = False

    @property
    def count(self) -> int:
        """How many things are missing."""
        return self.unit + len(self.bounds) + len(self.keys) + self.epsilon

    def flags(self) -> list[str]:
        """The missing flags, with a word in capitals for each value."""
        flags = ["--unit", "COLUMN"] if self.unit else []
        flags += [part for name in self.bounds for part in ("--bounds", f"{name}=LOW:HIGH")]
        flags += [part for name in self.keys for part in ("--keys", f"{name}=A,B")]
        return flags + (["--epsilon", "EPSILON"] if self.epsilon else [])

    def parameters(self) -> dict[str, str]:
        """The missing parameters of `connect`, with a word in capitals for each value."""
        found = {"unit": '"COLUMN"'} if self.unit else {}
        if self.bounds:
            found["bounds"] = f"{{{', '.join(f'{name!r}: (LOW, HIGH)' for name in self.bounds)}}}"
        if self.keys:
            found["keys"] = f"{{{', '.join(f'{name!r}: [A, B]' for name in self.keys)}}}"
        return found | ({"epsilon": "EPSILON"} if self.epsilon else {})

    def describe(self, in_shell: bool) -> str:
        """Name all that is missing in one sentence."""
        mark = "--{}" if in_shell else "{}="
        parts = [mark.format("unit")] if self.unit else []
        parts += [f"{mark.format('bounds')} for `{name}`" for name in self.bounds]
        parts += [f"{mark.format('keys')} for `{name}`" for name in self.keys]
        parts += [mark.format("epsilon")] if self.epsilon else []
        if len(parts) > 1:
            return f"{', '.join(parts[:-1])} and {parts[-1]} are missing"
        example = "--unit id" if in_shell else 'unit="id"'
        named = f": no privacy unit. Name the column that identifies a person: {example}"
        return f"{parts[0]} is missing{named * self.unit}"

    def alternatives(self, in_shell: bool) -> list[str]:
        """What may be given in place of what is missing."""
        unit, delta = ("--unit row", "--delta 1e-6") if in_shell else ('unit="row"', "delta=1e-6")
        lines = [f"If each row is one person and there is no id: {unit}."] if self.unit else []
        keys = "--keys" if in_shell else "keys="
        return lines + ([f"In place of {keys}, {delta} discovers the keys that many people have."] if self.keys else [])


def find_missing(
    query: "QueryLike", table: Table, *, auto_bounds: Iterable[str] = (), discovers_keys: bool = False
) -> Missing:
    """Find the bounds and keys that a query needs and that are not declared.

    Raises:
        QueryRefused: it is no query about this table.
    """
    # imported here: connect lists what it lacks itself, before there is a query
    from discreet.query import ast
    from discreet.query.contribution import grouping_keys
    from discreet.query.grid import columns_in
    from discreet.query.parser import read_query
    from discreet.query.validate import apply_joins
    from discreet.session.discovery import columns_without_bounds

    parsed = read_query(query, table)
    joined = apply_joins(parsed.joins, table)
    bounds = [name for name in columns_without_bounds(parsed, joined) if name not in set(auto_bounds)]
    keys: list[str] = []
    for group in () if discovers_keys else parsed.groups:
        names = columns_in(group.value)
        if {*names} & {*bounds} or grouping_keys(group, joined) is not None:
            continue
        # the years or months of a date are listed from the bounds of the date
        (keys if isinstance(group.value, ast.Ref) else bounds).extend(names)
    return Missing(bounds=tuple(dict.fromkeys(bounds)), keys=tuple(dict.fromkeys(keys)))


def make_error(missing: Missing, first: Exception, options: "SourceOptions | None") -> MissingDeclarations:
    """Return the error for Python. One missing thing is said as `first` says it."""
    problem = str(first) if missing.count == 1 else missing.describe(in_shell=False)
    alternatives = missing.alternatives(in_shell=False)
    details = (missing, problem if missing.count == 1 and not missing.unit else missing.describe(in_shell=True))
    return MissingDeclarations(problem, tuple(missing.parameters()), format_call(options, missing), alternatives, details)


def to_shell(error: MissingDeclarations, words: Sequence[str]) -> MissingDeclarations:
    """Return the same error for a shell: the command as it was typed, and the flags that it lacks."""
    details: Any = error.details
    missing, problem = details
    safe = [_hide_address(word) for word in words]
    command = shlex.join(["discreet", *safe, *missing.flags()])
    return MissingDeclarations(problem, error.missing, command, missing.alternatives(in_shell=True), error.details)


def _hide_address(word: str) -> str:
    """Return a word of a command without an address, which may also be the value in --flag=value and NAME=value.

    >>> [_hide_address(word) for word in ("--ledger=host=h password=pw", "--max-rows=2", "cities=PostgreSQL://u:pw@h/d")]
    ['--ledger=SOURCE', '--max-rows=2', 'SOURCE']
    """
    ends = [word, *(word[i + 1 :] for i, sign in enumerate(word) if sign == "=")]
    if not any(_may_be_address(end) for end in ends):
        return word
    flag, equals, _ = word.partition("=")
    return f"{flag}=SOURCE" if equals and flag.startswith("--") and " " not in flag else "SOURCE"


def _may_be_address(text: str) -> bool:
    """Whether a text may be an address, which may hold a password and is not repeated."""
    return format_path(text) != repr(text) or is_postgres(text)


def format_call(options: "SourceOptions | None", missing: Missing) -> str:
    """Return a call of `connect` that declares what was declared and what is missing."""
    source = getattr(options, "source", None)
    text = str(source) if isinstance(source, str) or hasattr(source, "__fspath__") else ""
    shown = repr(text) if text and not _may_be_address(text) else "SOURCE"
    parts: dict[str, Any] = {}
    for name in ("name", "unit", "policy", "table", "bounds", "keys", "max_groups", "max_rows", "unique"):
        given = getattr(options, name, None)
        if given is not None and not isinstance(given, Table):
            parts[name] = str(given) if hasattr(given, "__fspath__") else given
    added = missing.parameters() | {"epsilon": "EPSILON"}  # a session has a budget, whatever is missing
    merged = {name: _merge(parts.get(name), added.get(name)) for name in dict.fromkeys((*parts, *added))}
    return f"connect({', '.join([shown, *(f'{name}={value}' for name, value in merged.items())])})"


def _merge(given: Any, added: str | None) -> str:
    """Write what was given, and what is missing beside it."""
    if added is None or given is None:
        return repr(given) if added is None else added
    return f"{repr(dict(given))[:-1]}, {added[1:]}" if given and not isinstance(given, str) else added
