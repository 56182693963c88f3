"""Constants of a query that are no declared keys of the column they are compared with: most often a typing error.

Keys are public, so the note tells nothing of a row. The query is answered as it stands: rows may hold values besides the
declared keys.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from discreet.query import ast
from discreet.query.schema import Table, suggest_name

MAX_NOTES = 5


def explain_unknown_keys(query: ast.Query, table: Table) -> tuple[str, ...]:
    """Name each such constant of WHERE, with the declared key that is closest.

    >>> from discreet.query.parser import read_query
    >>> from discreet.query.schema import Column, Kind
    >>> table = Table("staff", "id", {"id": Column(Kind.INTEGER), "team": Column(Kind.TEXT, keys=("North", "South"))})
    >>> explain_unknown_keys(read_query("SELECT COUNT(*) AS n FROM staff WHERE team IN ('Nrth', 'South')", table), table)
    ("'Nrth' is no declared key of `team`: did you mean `North`?",)
    """
    notes = dict[str, None]()
    for column, value in _list_constants(query.where):
        declared = table.columns.get(column)
        if declared is not None and declared.keys is not None and value not in declared.keys:
            hint = suggest_name(value, [str(each) for each in declared.keys])
            notes[f"{str(value)!r} is no declared key of `{column}`: {hint}"] = None
    return tuple(notes)[:MAX_NOTES]


def _list_constants(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield each column of a condition with each constant that it is said to equal, or not to."""
    match part:
        case ast.Compare(ast.Order.EQUAL | ast.Order.NOT_EQUAL, ast.Ref(column), ast.Constant(value)):
            yield column, value
        case ast.OneOf(ast.Ref(column), among):
            yield from ((column, each.value) for each in among if isinstance(each, ast.Constant))
        case tuple():
            for each in part:
                yield from _list_constants(each)
        case _ if is_dataclass(part):
            for field in fields(part):
                yield from _list_constants(getattr(part, field.name))
