"""Copies of public tables inside an engine, for queries to join to.

A copy is used because what was found to be unique must stay so: the original may change, the copy is never written again.
In DuckDB it is a temporary table of one connection, so the owner's database stays as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from math import isfinite
from typing import Any

import duckdb
from sqlglot import exp

from discreet.engines.base import quote_table
from discreet.engines.duckdb.types import TYPES, quote_name
from discreet.query.schema import Column, Kind, PublicTable, accepts

MAX_KEYS = 100_000
MAX_ROWS = 1_000_000


def copy_public_table(
    connection: duckdb.DuckDBPyConnection, name: str, kinds: Mapping[str, Kind], rows: Sequence[tuple[Any, ...]]
) -> tuple[str, PublicTable]:
    """Copy a public table into DuckDB.

    Returns:
        The name of the copy, and what was read off it: keys, bounds, and the columns in which no value occurs twice.
    """
    values = clean_values(kinds, rows)
    copy = _free_name(connection, name)
    columns = ", ".join(f"unnest(?::{TYPES[kind]}[]) AS {quote_name(column)}" for column, kind in kinds.items())
    connection.execute(f"CREATE TEMP TABLE {quote_name(copy)} AS SELECT {columns}", list(values.values()))
    unique = frozenset(
        column for column, kind in kinds.items() if kind is not Kind.REAL and _is_unique(connection, copy, column)
    )
    return copy, describe_public_table(name, kinds, values, unique)


def clean_values(kinds: Mapping[str, Kind], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """The values of a public table by column; those that a query cannot name are None."""
    return {column: [_clean_value(row[i], kind) for row in rows] for i, (column, kind) in enumerate(kinds.items())}


def describe_public_table(
    name: str, kinds: Mapping[str, Kind], values: Mapping[str, Sequence[Any]], unique: frozenset[str]
) -> PublicTable:
    """Read keys, bounds and a digest off a public table."""
    columns = {column: _describe_column(kind, values[column]) for column, kind in kinds.items()}
    return PublicTable(name, columns, unique, sha256(repr(dict(values)).encode()).hexdigest())


def public_table_expression(name: str) -> exp.Table:
    """The copy in a statement, also where another table has its name."""
    return quote_table("temp", "main", name)


def _clean_value(value: Any, kind: Kind) -> Any:
    """A value that a query can name; None for any other, such as a date before the year 1 or a NaN."""
    if kind is Kind.REAL:
        return None if value is None or value != value else float(value)
    return value if accepts(kind, value) else None


def _is_unique(connection: duckdb.DuckDBPyConnection, copy: str, column: str) -> bool:
    """Whether no value occurs twice. The engine decides, because its equality is the one that joins."""
    name, table = quote_name(column), public_table_expression(copy).sql("duckdb")
    counts = f"SELECT COUNT({name}), COUNT(DISTINCT {name}) FROM {table}"
    found = connection.execute(counts).fetchone()
    return found is not None and found[0] == found[1]


def _describe_column(kind: Kind, values: Sequence[Any]) -> Column:
    column, present = Column(kind), {value for value in values if value is not None}
    if kind in (Kind.INTEGER, Kind.REAL):
        finite = [Fraction(value) for value in present if isfinite(value)]
        if finite:
            low, high = min(finite), max(finite)
            column = column.with_bounds(low, high if low < high else low + 1)
    if kind is Kind.REAL or not 0 < len(present) <= MAX_KEYS:
        return column
    return replace(column, keys=(*sorted(present), None) if None in values else tuple(sorted(present)))


def _free_name(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    taken = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()}
    return next(free for i in range(len(taken) + 1) if (free := f"discreet {i} {name}") not in taken)
