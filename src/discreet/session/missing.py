"""All that a query needs and that is not declared, found at once, as one command to fill in.

Bounds and keys are for the owner or the analyst to say: nothing here reads a row, and placeholders stand where a value
belongs. The same list becomes flags in a shell and parameters in Python.
"""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discreet.errors import MissingDeclarations
from discreet.paths import format_path, is_postgres
from discreet.query.missing import Missing, find_missing
from discreet.query.schema import Table

if TYPE_CHECKING:
    from discreet.session.options import SourceOptions


__all__ = ["Missing", "find_missing", "format_call", "make_error", "to_shell"]


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
