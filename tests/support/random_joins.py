"""Random public tables, queries that are joined to them, and the join in plain Python."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any

import duckdb

from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.duckdb.public_tables import copy_public_table
from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.schema import Kind
from discreet.units import Neighbours
from tests.support.oracle import Row
from tests.support.random_tables import DAYS, KINDS, TEXTS, Moved, World, exactly, random_query, stored

KEYS: dict[str, list[Any]] = {"dept": TEXTS, "day": DAYS, "ok": [True, False], "age": [0, 9, 10, -1, 2**40]}
STAND_INS = {"dept": "region", "wide": "score", "pay": "weight"}
"""Columns of people, each with the column of the public table that a query may name in its place."""


@dataclass(frozen=True)
class Public:
    """A public table to join by the column `key` of people."""

    key: str
    rows: tuple[Row, ...]

    @property
    def kinds(self) -> dict[str, Kind]:
        return {self.key: KINDS[self.key], "region": Kind.TEXT, "score": Kind.INTEGER, "weight": Kind.REAL}

    def copied(self, connection: duckdb.DuckDBPyConnection) -> Any:
        rows = [tuple(row[name] for name in self.kinds) for row in self.rows]
        return copy_public_table(connection, "places", self.kinds, rows)


def public(rng: Random) -> Public:
    key = rng.choice(list(KEYS))
    chosen = [*rng.sample(KEYS[key], rng.randint(0, len(KEYS[key]))), *([None] * rng.choice([0, 0, 2]))]
    rows = [
        {
            key: each,
            "region": rng.choice(["north", "south", None]),
            "score": rng.choice([1, -7, 10**6, None]),
            "weight": rng.choice([0.5, -2.25, float("inf"), float("nan"), None]),
        }
        for each in chosen
    ]
    return Public(key, tuple(rows))


def joined_query(rng: Random, place: World, known: Public, relation: Neighbours) -> BoundedQuery:
    """A query that is not refused, with the join and some columns of the public table in it."""
    join = ast.Join("places", known.key, known.key, rng.random() < 0.5)
    while True:
        query = random_query(rng)
        instead = {name: f"places.{other}" for name, other in STAND_INS.items() if rng.random() < 0.6}
        try:
            query = replace(replaced(query, instead), joins=(join,))
            return bound_contributions(rename_groups(query), place.table, relation)
        except QueryRefused:
            continue


def replaced(piece: Any, instead: dict[str, str]) -> Any:
    if isinstance(piece, ast.Ref):
        return ast.Ref(instead.get(piece.column, piece.column))
    if isinstance(piece, tuple):
        return tuple(replaced(part, instead) for part in piece)
    if hasattr(piece, "__dataclass_fields__"):
        return replace(
            piece, **{name: replaced(getattr(piece, name), instead) for name in (field.name for field in fields(piece))}
        )
    return piece


def rename_groups(query: ast.Query) -> ast.Query:
    """Groupings by the same column once."""
    return replace(query, groups=tuple({group.value: group for group in query.groups}.values()))


def in_python(rows: Iterable[Row], known: Public, *, left: bool) -> list[Row]:
    """Each row with the columns of the public row that matches it."""
    found = []
    for row in rows:
        matches = [other for other in known.rows if other[known.key] is not None and other[known.key] == row[known.key]]
        if not matches and left:
            matches = [dict.fromkeys(known.kinds)]
        found += [{**row, **{f"places.{name}": cell for name, cell in match.items()}} for match in matches]
    return found


class Joined:
    """The engine with a random table and a public table in it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, known: Public) -> None:
        self.connection, self.at = connection, known.copied(connection)[0]
        self.last: World | None = None

    def exactly(self, asked: BoundedQuery, place: World) -> Moved:
        if self.last is not place:
            stored(place, self.connection)
            self.last = place
        engine = DuckDB(self.connection, "people", {"places": self.at})
        return exactly(engine, asked)
