"""How anonymous a table is by the oldest rule: the size of its smallest group [S4].

A table is k-anonymous in some columns if every combination of their values that occurs at all occurs at least k times.
That says nothing about what else is in the rows, nor about a second table: see `discreet.lab.attacks.intersection`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from discreet.errors import BadParameter

TABLE_HINT = "give a list of dicts, a dict of columns, or a pandas, Polars or Arrow table"


def k_anonymity(table: Any, columns: Sequence[str]) -> int:
    """The size of the smallest group of rows that agree in `columns`; missing values agree with each other.

    The table is a sequence of mappings, or anything with columns: a dict of lists, a pandas, Polars or Arrow table.

    >>> ward = [{"zip": "130**", "age": "<30"}] * 4 + [{"zip": "130**", "age": "3*"}] * 5
    >>> k_anonymity(ward, ["zip", "age"]), k_anonymity(ward, ["zip"])
    (4, 9)
    """
    return min(group_sizes(table, columns).values())


def group_sizes(table: Any, columns: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """How many rows have each combination of values that occurs.

    >>> group_sizes({"age": ["<30", "<30", "3*"]}, ["age"])
    {('<30',): 2, ('3*',): 1}
    """
    names = _check_columns(columns)
    taken = [[_normalize_missing(value) for value in column] for column in _extract_columns(table, names)]
    if len({len(column) for column in taken}) != 1:
        raise BadParameter("table", "ragged", "its columns differ in length", TABLE_HINT)
    try:
        sizes = Counter(zip(*taken, strict=True))
    except TypeError:
        raise BadParameter("columns", names, "one holds lists or the like", "choose columns of plain values") from None
    if not sizes:
        raise BadParameter("table", "empty", "no group is the smallest of none", "give a table with rows")
    return dict(sizes)


def _check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise BadParameter("columns", repr(columns), "not a list of names", 'give one, for example ["zip", "age"]')
    names = tuple(columns)
    if not names:
        raise BadParameter("columns", "empty", "without a column all rows are one group", "name what an outsider may know")
    return names


def _extract_columns(table: Any, names: tuple[str, ...]) -> list[Iterable[Any]]:
    if isinstance(table, Mapping):
        known: list[Any] = list(table)
    elif hasattr(table, "columns"):
        known = list(getattr(table, "column_names", table.columns))
    elif isinstance(table, Sequence) and not isinstance(table, str | bytes) and all(isinstance(r, Mapping) for r in table):
        return [[_get_field(row, name, number) for number, row in enumerate(table, 1)] for name in names]
    else:
        raise BadParameter("table", f"a {type(table).__name__}", "neither rows nor columns", TABLE_HINT)
    for name in names:
        if name not in known:
            raise _unknown_column(name, known)
    return [_to_list(table[name]) for name in names]


def _to_list(column: Any) -> Iterable[Any]:
    for way in ("to_pylist", "tolist", "to_list"):  # Arrow, pandas, Polars
        if hasattr(column, way):
            found: list[Any] = getattr(column, way)()
            return found
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise BadParameter("table", f"a dict of {type(column).__name__}", "a column is a list of values", TABLE_HINT)
    return list(column)


def _get_field(row: Mapping[str, Any], name: str, number: int) -> Any:
    if name not in row:
        raise BadParameter("columns", repr(name), f"row {number} has no such field", f"it has {', '.join(map(str, row))}")
    return row[name]


def _unknown_column(name: str, known: list[Any]) -> BadParameter:
    return BadParameter("columns", repr(name), "the table has none of that name", f"it has {', '.join(map(str, known))}")


def _normalize_missing(value: Any) -> Any:
    """NaN, NaT and their like differ from themselves; here they are all one, nothing."""
    try:
        return None if value is None or bool(value != value) else value
    except TypeError:  # pandas has a nothing that is neither equal to itself nor not
        return None
    except ValueError:
        return value
