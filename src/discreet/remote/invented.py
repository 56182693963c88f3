"""Invented rows: a table made from its policy alone and a seed, to try queries on for nothing.

The rows have the declared kinds, bounds, keys and contribution bounds, and depend on no row of any table: everybody who
has the policy can make the same ones. So answers over them describe no person, may be seen without noise, and say how a
query works and how long it runs, not what it would return.

Values are drawn evenly within their bounds. Every declared key occurs, if there are enough rows. A unit has rows in at most
`max_groups` combinations of declared keys, and at most `max_rows` in each, so that bounding drops none of them where a query
groups by declared keys. One value in fifty is NULL. The same policy, number of rows and seed give the same rows in every
process with the same NumPy. `remote.dummy` makes a session of them; here is no engine, so the web process may use it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from math import ceil, floor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import check_int
from discreet.errors import BadParameter
from discreet.query.record import policy_hash
from discreet.query.schema import DEFAULT_SALT, Column, Kind, Table

MAX_ROWS = 10_000_000
MAX_ROWS_PER_UNIT = 20
INVENTED_KEYS = 12
"""How many different texts a column without declared keys has."""
NULL_SHARE = 0.02

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InventedColumn:
    """The values of a column, of which those under `is_null` do not count. Dates are days and timestamps microseconds since
    1970."""

    kind: Kind
    values: NDArray[Any]
    is_null: NDArray[np.bool_]

    def to_list(self) -> list[Any]:
        """Return the values as Python has them: dates, times, None."""
        return [None if null else _to_python(self.kind, each) for each, null in zip(self.values, self.is_null, strict=True)]


def invent_columns(table: Table, rows: int = 1000, seed: int = 0) -> dict[str, InventedColumn]:
    """Return invented rows, by column.

    >>> from discreet.query.schema import Column, Kind, Table
    >>> table = Table("people", "id", {"id": Column(Kind.INTEGER), "dept": Column(Kind.TEXT).with_keys(("a", "b"))})
    >>> sorted(set(invent_columns(table, 100, 7)["dept"].to_list()) - {None})
    ['a', 'b']
    """
    rows, seed = check_int(rows, "rows", 1), check_int(seed, "seed", 0)
    if rows > MAX_ROWS:
        raise BadParameter("rows", rows, f"more than {MAX_ROWS:,} invented rows", "ask for fewer")
    named = f"{policy_hash(replace(table, salt=DEFAULT_SALT, public={}))} {rows} {seed}".encode()
    rng = np.random.Generator(np.random.Philox(key=int.from_bytes(sha256(named).digest()[:16])))
    units, groups = _draw_units(table, rows, rng)
    places = {name: i for i, name in enumerate(table.unit_columns)}
    return {
        name: _invent_unit(column, name, units, places[name], len(places))
        if name in places
        else _invent_values(name, column, units, groups, rng)
        for name, column in table.columns.items()
    }


def _draw_units(table: Table, rows: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the unit of each row, and which of the unit's groups it is in: each has other declared keys."""
    if table.unique or not table.unit_columns:
        return np.arange(rows), np.zeros(rows, np.int64)
    groups = min([table.max_groups, *(len(each.keys) for each in table.columns.values() if each.keys is not None)])
    most = min(groups * table.max_rows, MAX_ROWS_PER_UNIT)
    sizes = rng.integers(1, most + 1, size=rows)
    units = np.repeat(np.arange(rows), sizes)[:rows]
    starts = np.cumsum(sizes) - sizes
    turns = np.arange(rows) - starts[units]
    return units, turns // table.max_rows


def _invent_unit(column: Column, name: str, units: Ints, place: int, parts: int) -> InventedColumn:
    """Return the column of the units' ids. Of several columns, all but the last hold three units each."""
    last = place == parts - 1
    ids = 1 + (units if parts == 1 else units % 3 if last else units // 3)
    values: NDArray[Any] = ids
    match column.kind:
        case Kind.TEXT:
            values = np.array([f"{name} {each}" for each in ids.tolist()], dtype=object)
        case Kind.REAL:
            values = ids.astype(np.float64)
        case Kind.TIMESTAMP:
            values = ids * 86_400_000_000
        case Kind.BOOLEAN:
            values = ids % 2 == 1
        case Kind.INTEGER | Kind.DATE:
            pass
    return InventedColumn(column.kind, values, np.zeros(len(units), np.bool_))


def _invent_values(name: str, column: Column, units: Ints, groups: Ints, rng: np.random.Generator) -> InventedColumn:
    rows, is_null = len(units), rng.random(len(units)) < NULL_SHARE
    if column.keys is not None or column.kind is Kind.TEXT:
        keys: Sequence[Any] = column.keys or [f"{name} {i}" for i in range(1, INVENTED_KEYS + 1)]
        first = np.concatenate([rng.permutation(len(keys)), rng.integers(0, len(keys), size=rows)])
        drawn = (first[units] + groups) % len(keys)
        stored = [_from_python(key) for key in keys]
        null_key = np.array([key is None for key in keys])[drawn]
        covers = np.zeros(rows, np.bool_)
        covers[np.unique(drawn, return_index=True)[1]] = True  # the first row of each key is no NULL
        filler = next((each for each in stored if each is not None), 0)
        kind: Any = object if column.kind is Kind.TEXT else None
        values = np.array([filler if each is None else each for each in stored], dtype=kind)[drawn]
        return InventedColumn(column.kind, values, null_key | (is_null & ~covers))
    if column.kind is Kind.BOOLEAN:
        return InventedColumn(column.kind, rng.random(rows) < 0.5, is_null)
    if column.kind is Kind.REAL:
        low, high = map(float, column.number_bounds or (Fraction(0), Fraction(1)))
        return InventedColumn(column.kind, np.clip(low + (high - low) * rng.random(rows), low, high), is_null)
    lower, upper = _integer_range(column)
    return InventedColumn(column.kind, rng.integers(lower, upper, size=rows, endpoint=True), is_null)


def _integer_range(column: Column) -> tuple[int, int]:
    """Return the declared range of a column of whole numbers, dates (days) or timestamps (microseconds)."""
    if column.kind is Kind.INTEGER:
        low, high = column.number_bounds or (Fraction(0), Fraction(100))
        lower, upper = max(ceil(low), -(1 << 62)), min(floor(high), 1 << 62)
        return (lower, upper) if lower <= upper else (floor(low), floor(low))
    if isinstance(column.lower, date) and isinstance(column.upper, date):
        first, last = column.lower, column.upper
    elif column.kind is Kind.DATE:
        first, last = date(2020, 1, 1), date(2024, 12, 31)
    else:
        first, last = datetime(2020, 1, 1), datetime(2024, 12, 31)
    return _from_python(first), _from_python(last)


def _from_python(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def _to_python(kind: Kind, value: Any) -> Any:
    if kind is Kind.DATE:
        return date(1970, 1, 1) + timedelta(days=int(value))
    if kind is Kind.TIMESTAMP:
        return datetime(1970, 1, 1) + timedelta(microseconds=int(value))
    return value.item() if isinstance(value, np.generic) else value


def to_rows(columns: Mapping[str, InventedColumn]) -> list[tuple[Any, ...]]:
    """Return invented columns as rows."""
    return list(zip(*(each.to_list() for each in columns.values()), strict=True))
