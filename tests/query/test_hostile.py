"""Nothing that an analyst writes reaches the engine as text; what is not in the language is refused."""

from contextlib import suppress
from typing import Any

import duckdb
import pytest

from discreet.accounting import currencies
from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import QueryRefused
from discreet.ledger.memory import MemoryAccount
from discreet.query.parser import parse_sql
from discreet.query.validate import check_query
from discreet.session.session import Session
from discreet.units import Neighbours
from tests.query.hostile import EDGES, HOSTILE, SHARES, TRICKS
from tests.query.mangled import ONE_PERSON, PEOPLE, Opening, fuzz, unanswered
from tests.query.worlds import stored


class Untouchable(DuckDB):
    """An engine that must not be asked."""

    def __init__(self) -> None:
        pass

    def read_totals(self, bounded: Any) -> Any:
        raise AssertionError(f"this reached the engine: {bounded.query}")


def session() -> Session:
    return Session(
        Untouchable(),
        PEOPLE,
        MemoryAccount(currencies.pure_filter(1)),
        currencies.pure_filter(1).limit * 0,
        Neighbours.ADD_REMOVE,
    )


def test_there_are_enough() -> None:
    assert len(set(HOSTILE)) >= 300


def test_hostile_texts_are_refused() -> None:
    place = session()
    for hostile in HOSTILE:
        with pytest.raises(QueryRefused) as refusal:
            place.ask(hostile, epsilon=1)  # the engine's own assertion names what would have been answered
        assert len(str(refusal.value)) < 1000, hostile[:200]
    assert place.account.budget == currencies.pure_filter(1)


def test_quantiles_and_histograms_are_refused_by_their_form() -> None:
    """Whatever can be answered, these cannot be read."""
    pieces = [*TRICKS, *(f"QUANTILE(age, {share})" for share in SHARES), *(f"HISTOGRAM(age{edges})" for edges in EDGES)]
    read = []
    for piece in pieces:
        with suppress(QueryRefused):
            check_query(parse_sql(f"SELECT {piece} AS x FROM people", PEOPLE), PEOPLE)
            read.append(piece)
    assert read == []


@pytest.mark.parametrize("hostile", [None, 1, b"SELECT COUNT(*) FROM people", ["SELECT"]])
def test_what_is_no_text_is_refused(hostile: Any) -> None:
    with pytest.raises(QueryRefused):
        parse_sql(hostile, PEOPLE)


def _in_duckdb() -> Opening:
    connection = duckdb.connect()
    return lambda place: stored(place, connection)


def test_no_statement_reaches_the_engine_and_raises() -> None:
    assert fuzz(_in_duckdb(), range(40_000, 40_020), 20) > 50


@pytest.mark.nightly
def test_no_statement_reaches_the_engine_and_raises_at_length() -> None:
    assert fuzz(_in_duckdb(), range(50_000, 51_000), 100) > 1000


def test_long_and_deep_questions_are_answered() -> None:
    assert unanswered(stored(ONE_PERSON, duckdb.connect())) == []
