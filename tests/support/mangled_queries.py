"""Queries with a few tokens lost, doubled or swapped, and queries as long and deep as is accepted, for any engine."""

from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from random import Random

from discreet.engines.base import Engine
from discreet.errors import QueryRefused
from discreet.query.contribution import bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, PublicTable, Table
from discreet.units import Neighbours
from tests.support.random_tables import World, bounded, exactly, text, world

Opening = Callable[[World], Engine]
"""Puts the rows of a random table into the engine."""
COLUMNS = {
    "uid": Column(Kind.INTEGER),
    "age": Column(Kind.INTEGER).with_bounds(0, 100),
    "pay": Column(Kind.REAL).with_bounds(0, 10),
    "wide": Column(Kind.INTEGER).with_bounds(-(2**40), 2**40),
    "unbounded": Column(Kind.INTEGER),
    "ok": Column(Kind.BOOLEAN),
    "dept": Column(Kind.TEXT).with_keys(("a", "b")),
    "day": Column(Kind.DATE),
    "at": Column(Kind.TIMESTAMP),
}
CITIES = PublicTable(
    "cities",
    {"dept": Column(Kind.TEXT), "region": Column(Kind.TEXT), "weight": Column(Kind.REAL).with_bounds(0, 1)},
    frozenset({"dept"}),
)
PEOPLE = Table("people", "uid", COLUMNS, public={"cities": CITIES})
ONE_PERSON = World(
    PEOPLE,
    ({"uid": 1, "age": 2, "pay": 0.5, "wide": 7, "unbounded": 1, "ok": True, "dept": "a", "day": date(2024, 1, 1),
      "at": datetime(2024, 1, 1)},),
    {"uid": "BIGINT", "age": "INTEGER", "pay": "DOUBLE", "wide": "BIGINT", "unbounded": "INTEGER", "ok": "BOOLEAN",
     "dept": "VARCHAR", "day": "DATE", "at": "TIMESTAMP"},
)  # fmt: skip

SWAPS = [
    "(",
    ")",
    ",",
    "'",
    '"',
    "*",
    "//",
    "-",
    "NOT",
    "NULL",
    "0",
    "1e15",
    "0.5",
    "age",
    "dept",
    "FROM",
    "AND",
    ";",
    "--",
    "ÅÄö",
    "\0",
]


def mangled(rng: Random, query: str) -> str:
    """A query with a few tokens lost, doubled or swapped."""
    tokens = query.split(" ")
    for _ in range(rng.choice([0, 1, 1, 2])):
        i = rng.randrange(len(tokens))
        tokens[i : i + 1] = rng.choice(
            [[], [tokens[i]] * 2, [rng.choice(SWAPS)], [tokens[i], rng.choice(SWAPS)], [rng.choice(tokens)]]
        )
        tokens = tokens or [""]
    return " ".join(tokens)


def fuzz(opened: Opening, seeds: range, each: int) -> int:
    """Ask mangled queries: each is refused, or answered without an error of the engine. Returns how many were."""
    answered = 0
    for seed in seeds:
        rng = Random(seed)
        place = world(rng)
        engine = opened(place)
        for _ in range(each):
            asked = mangled(rng, text(bounded(rng, place)[0].query))
            with suppress(QueryRefused):
                question = bound_contributions(parse_sql(asked, place.table), place.table, Neighbours.ADD_REMOVE)
                exactly(engine, question)
                answered += 1
    return answered


LONG = [
    "SELECT COUNT(*) FROM people WHERE age IN (" + ", ".join(["1", "2.5"] * 2000) + ")",
    "SELECT COUNT(*) FROM people WHERE dept IN (" + ", ".join(["'a''b'"] * 2000) + ")",
    "SELECT COUNT(*) FROM people WHERE " + " OR ".join(["ok"] * 2000),
    "SELECT COUNT(*) FROM people WHERE " + " AND ".join(["age<9"] * 1500),
    "SELECT COUNT(*) FROM people WHERE " + " AND ".join(f"age<{i}" for i in range(1500)),
    "SELECT SUM(" + "CASE WHEN ok THEN " * 25 + "1" + " END" * 25 + ") FROM people",
    "SELECT SUM(" + "(" * 25 + "age" + "+1)" * 25 + ") FROM people",
    "SELECT SUM(" + "(" * 25 + "age" + "//1)" * 25 + ") FROM people",
    "SELECT COUNT(*) FROM people WHERE " + "NOT (" * 25 + "ok" + ")" * 25,
    "SELECT " + ", ".join(f"SUM(age + {i}) AS a{i}" for i in range(300)) + " FROM people",
    "SELECT SUM(100000 * 100000), SUM(ok * 3000000000), AVG(-age), SUM(0 - pay * pay) FROM people",
]


def unanswered(engine: Engine) -> list[str]:
    """The long and deep queries that do not have one row for an answer, of a table with one person in it."""
    questions = {asked: bound_contributions(parse_sql(asked, PEOPLE), PEOPLE, Neighbours.ADD_REMOVE) for asked in LONG}
    return [asked for asked, question in questions.items() if len(list(engine.read_totals(question))) != 1]
