"""What an analyst sees besides the noisy numbers is the same on neighbouring tables: shape, price and errors."""

from collections.abc import Callable
from random import Random
from typing import Any

import duckdb
import pytest

from discreet.accounting import filters
from discreet.errors import DiscreetError, EngineFailed
from discreet.query.table import Table
from discreet.session import MemoryAccount, Session
from discreet.units import Neighbours
from tests.query.hostile import HOSTILE
from tests.query.law import neighbour
from tests.query.test_hostile import mangled
from tests.query.worlds import World, bounded, stored, text, world

EPSILONS: list[Any] = [1, "1/3", 0, -1, "nan", float("nan"), float("inf"), None, "x", 10**9, 1e-300]


def opened(place: World, table: Table, connection: duckdb.DuckDBPyConnection, name: str) -> Session:
    budget = filters.zcdp(10**6, filters.pure(1).limit / 2)
    engine = stored(place, connection, name)
    return Session(engine, table, MemoryAccount(budget), filters.pure(1).limit / 10**6, Neighbours.ADD_REMOVE)


def seen(session: Session, question: Any, epsilon: Any) -> tuple[Any, ...]:
    """All that an answer shows, without its noisy numbers and the keys that noise selects."""
    try:
        planned = session.measurement(question, epsilon=epsilon)
        released = session.ask(question, epsilon=epsilon)
    except DiscreetError as refusal:
        return (type(refusal), str(refusal), session.account.budget)
    keys = tuple(key for key, _ in released.rows) if planned.bounded.keys is not None else None
    return (released.groups, released.columns, keys, released.loss, released.explanation, session.account.budget)


def unlike(seeds: range, each: int, look: Callable[..., tuple[Any, ...]] = seen) -> list[Any]:
    """The inputs that tell a table from its neighbour."""
    connection, found = duckdb.connect(), []
    for seed in seeds:
        rng = Random(seed)
        place = world(rng)
        other = neighbour(rng, place, rng.choice(list(Neighbours)))
        if other is None:
            continue
        sessions = [opened(w, place.table, connection, f"people{i}") for i, w in enumerate((place, other))]
        for _ in range(each):
            good = rng.random() < 0.02
            asked = text(bounded(rng, place)[0].query) if rng.random() < 0.7 else rng.choice(HOSTILE)
            question = asked if good else mangled(rng, mangled(rng, asked))
            epsilon = 1 if good else rng.choice(EPSILONS)
            first, second = (look(session, question, epsilon) for session in sessions)
            if first != second or EngineFailed in first:
                found.append((seed, question, epsilon))
    return found


@pytest.mark.parametrize("start", range(60_000, 60_128, 16))
def test_neighbours_look_alike(start: int) -> None:
    """10,000 bad inputs and more, on a table and its neighbour."""
    assert unlike(range(start, start + 16), 100) == []


@pytest.mark.nightly
def test_neighbours_look_alike_at_length() -> None:
    assert unlike(range(70_000, 71_000), 1000) == []


def test_an_error_with_a_value_in_it_is_noticed() -> None:
    """The wrong twin: it says how many rows there were."""

    def telling(session: Session, question: Any, epsilon: Any) -> tuple[Any, ...]:
        count = session.engine.connection.execute(f'SELECT COUNT(*) FROM "{session.engine.table}"').fetchone()
        return (*seen(session, question, epsilon), count)

    assert unlike(range(60_000, 60_005), 3, telling)
