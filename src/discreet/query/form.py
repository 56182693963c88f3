"""Whether a plan that was built by hand is one: every field holds what `plan` says it does."""

from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from discreet.errors import QueryRefused
from discreet.query import plan
from discreet.query.check import MAX_DEPTH


def check_types(query: plan.Query) -> None:
    """Refuse a plan with something else where a part of a question belongs.

    >>> check_types(plan.Query("people", (("n", plan.CountRows()),), where=5))
    Traceback (most recent call last):
    discreet.errors.QueryRefused: the where of Query is an int, which does not belong there; ask in SQL, or with select(…)
    """
    _check_fields(query, MAX_DEPTH)


def _check_fields(piece: Any, room: int) -> None:
    """Every field of a piece whose own kind is right."""
    if room == 0:
        raise QueryRefused("this is nested too deeply", "ask something simpler")
    kind: Any = type(piece)
    for name, hint in _field_types(kind):
        value = getattr(piece, name)
        if not _fits_type(value, hint, room):
            raise QueryRefused(
                f"the {name} of {type(piece).__name__} is {_describe_value(value)}, which does not belong there",
                "ask in SQL, or with select(…)",
            )


@lru_cache(maxsize=64)
def _field_types(kind: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))


def _fits_type(value: Any, hint: Any, room: int) -> bool:
    parts = get_args(hint)
    if isinstance(hint, UnionType):
        return any(_fits_type(value, part, room) for part in parts)
    if get_origin(hint) is tuple:
        if not isinstance(value, tuple):
            return False
        if parts[-1] is Ellipsis:
            return all(_fits_type(each, parts[0], room) for each in value)
        return len(value) == len(parts) and all(_fits_type(*pair, room) for pair in zip(value, parts, strict=True))
    if hint is not Fraction and not isinstance(value, hint):  # of numbers, `check` has more to say
        return False
    if is_dataclass(value):
        _check_fields(value, room - 1)
    return True


def _describe_value(value: Any) -> str:
    name = type(value).__name__
    return "missing" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
