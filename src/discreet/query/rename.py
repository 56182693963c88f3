"""The same piece of a question with every column under its full name."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from discreet.errors import QueryRefused
from discreet.query import plan
from discreet.query.check import MAX_DEPTH
from discreet.query.scope import Scope

Piece = TypeVar("Piece")


def resolve_columns(piece: Piece, scope: Scope, room: int = MAX_DEPTH) -> Piece:
    """`piece` with each Ref replaced by the column that its name means."""
    if room == 0:
        raise QueryRefused("this is nested too deeply", "ask something simpler")
    renamed: Any = piece
    if isinstance(piece, plan.Ref):
        renamed = plan.Ref(_resolve_name(piece.column, scope))
    elif isinstance(piece, tuple):
        renamed = tuple(resolve_columns(part, scope, room) for part in piece)
    elif is_dataclass(piece) and not isinstance(piece, type):
        renamed = replace(piece, **{f.name: resolve_columns(getattr(piece, f.name), scope, room - 1) for f in fields(piece)})
    return renamed  # type: ignore[no-any-return]


def _resolve_name(name: str, scope: Scope) -> str:
    prefix, _, rest = name.partition(".")
    found = scope.find(name) or (scope.find(rest, prefix) if rest else [])
    if len(found) == 1:
        return found[0]
    if not found:
        raise QueryRefused(f"{name} is not declared", f"take one of {', '.join(scope.table.columns)}")
    raise QueryRefused(f"two columns are called {name}", f"write one of {', '.join(found)}")
