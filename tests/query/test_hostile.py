"""Nothing that an analyst writes reaches the engine as text; what is not in the language is refused."""

from contextlib import suppress
from random import Random
from typing import Any

import duckdb
import pytest

from discreet.accounting import filters
from discreet.engines.duckdb import DuckDB
from discreet.errors import QuestionRefused
from discreet.query.bound import bound
from discreet.query.check import check
from discreet.query.parse import parse
from discreet.query.table import Column, Kind, Lookup, Table
from discreet.session import MemoryAccount, Session
from discreet.units import Neighbours
from tests.query.hostile import EDGES, HOSTILE, SHARES, TRICKS
from tests.query.worlds import bounded, stored, text, world

COLUMNS = {
    "uid": Column(Kind.INTEGER),
    "age": Column(Kind.INTEGER).within(0, 100),
    "pay": Column(Kind.REAL).within(0, 10),
    "wide": Column(Kind.INTEGER).within(-(2**40), 2**40),
    "unbounded": Column(Kind.INTEGER),
    "ok": Column(Kind.BOOLEAN),
    "dept": Column(Kind.TEXT).shown_as(("a", "b")),
    "day": Column(Kind.DATE),
    "at": Column(Kind.TIMESTAMP),
}
CITIES = Lookup(
    "cities",
    {"dept": Column(Kind.TEXT), "region": Column(Kind.TEXT), "weight": Column(Kind.REAL).within(0, 1)},
    frozenset({"dept"}),
)
PEOPLE = Table("people", "uid", COLUMNS, public={"cities": CITIES})


class Untouchable(DuckDB):
    """An engine that must not be asked."""

    def __init__(self) -> None:
        pass

    def totals(self, bounded: Any) -> Any:
        raise AssertionError(f"this reached the engine: {bounded.query}")


def session() -> Session:
    return Session(Untouchable(), PEOPLE, MemoryAccount(filters.pure(1)), filters.pure(1).limit * 0, Neighbours.ADD_REMOVE)


def test_there_are_enough() -> None:
    assert len(set(HOSTILE)) >= 300


def test_hostile_texts_are_refused() -> None:
    place = session()
    for hostile in HOSTILE:
        with pytest.raises(QuestionRefused) as refusal:
            place.ask(hostile, epsilon=1)  # the engine's own assertion names what would have been answered
        assert len(str(refusal.value)) < 1000, hostile[:200]
    assert place.account.budget == filters.pure(1)


def test_quantiles_and_histograms_are_refused_by_their_form() -> None:
    """Whatever can be answered, these cannot be read."""
    pieces = [*TRICKS, *(f"QUANTILE(age, {share})" for share in SHARES), *(f"HISTOGRAM(age{edges})" for edges in EDGES)]
    read = []
    for piece in pieces:
        with suppress(QuestionRefused):
            check(parse(f"SELECT {piece} AS x FROM people", PEOPLE), PEOPLE)
            read.append(piece)
    assert read == []


@pytest.mark.parametrize("hostile", [None, 1, b"SELECT COUNT(*) FROM people", ["SELECT"]])
def test_what_is_no_text_is_refused(hostile: Any) -> None:
    with pytest.raises(QuestionRefused):
        parse(hostile, PEOPLE)


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


def mangled(rng: Random, question: str) -> str:
    """A question with a few tokens lost, doubled or swapped."""
    tokens = question.split(" ")
    for _ in range(rng.choice([0, 1, 1, 2])):
        i = rng.randrange(len(tokens))
        tokens[i : i + 1] = rng.choice(
            [[], [tokens[i]] * 2, [rng.choice(SWAPS)], [tokens[i], rng.choice(SWAPS)], [rng.choice(tokens)]]
        )
        tokens = tokens or [""]
    return " ".join(tokens)


def fuzz(seeds: range, each: int) -> int:
    """Ask mangled questions: each is refused, or answered without an error of the engine."""
    connection, answered = duckdb.connect(), 0
    for seed in seeds:
        rng = Random(seed)
        place = world(rng)
        engine = stored(place, connection)
        for _ in range(each):
            asked = mangled(rng, text(bounded(rng, place)[0].query))
            try:
                question = bound(parse(asked, place.table), place.table, Neighbours.ADD_REMOVE)
            except QuestionRefused:
                continue
            list(engine.totals(question))
            answered += 1
    return answered


def test_no_statement_reaches_the_engine_and_raises() -> None:
    assert fuzz(range(40_000, 40_020), 20) > 50


@pytest.mark.nightly
def test_no_statement_reaches_the_engine_and_raises_at_length() -> None:
    assert fuzz(range(50_000, 51_000), 100) > 1000


LONG = [
    "SELECT COUNT(*) FROM people WHERE age IN (" + ", ".join(["1", "2.5"] * 2000) + ")",
    "SELECT COUNT(*) FROM people WHERE dept IN (" + ", ".join(["'a''b'"] * 2000) + ")",
    "SELECT COUNT(*) FROM people WHERE " + " OR ".join(["ok"] * 2000),
    "SELECT COUNT(*) FROM people WHERE " + " AND ".join(["age<9"] * 1500),
    "SELECT SUM(" + "CASE WHEN ok THEN " * 25 + "1" + " END" * 25 + ") FROM people",
    "SELECT SUM(" + "(" * 25 + "age" + "+1)" * 25 + ") FROM people",
    "SELECT SUM(" + "(" * 25 + "age" + "//1)" * 25 + ") FROM people",
    "SELECT COUNT(*) FROM people WHERE " + "NOT (" * 25 + "ok" + ")" * 25,
    "SELECT " + ", ".join(f"SUM(age + {i}) AS a{i}" for i in range(300)) + " FROM people",
    "SELECT SUM(100000 * 100000), SUM(ok * 3000000000), AVG(-age), SUM(0 - pay * pay) FROM people",
]


def test_long_and_deep_questions_are_answered() -> None:
    engine = DuckDB.open(duckdb.sql(
        "SELECT 1::BIGINT uid, 2::INT age, 0.5::DOUBLE pay, 7::BIGINT wide, 1 unbounded, true ok, 'a' dept, "
        "DATE '2024-01-01' AS day, TIMESTAMP '2024-01-01' AS at"
    ).pl(), "people")  # fmt: skip
    for asked in LONG:
        rows = list(engine.totals(bound(parse(asked, PEOPLE), PEOPLE, Neighbours.ADD_REMOVE)))
        assert len(rows) == 1, asked[:200]
