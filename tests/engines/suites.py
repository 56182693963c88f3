"""The suites of DuckDB over any engine: random questions against the reference, joins, the law of bounding, and texts that
must not reach it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow

from discreet.engines.base import SqlEngine
from discreet.errors import QueryRefused
from discreet.query.contribution import BoundedQuery
from discreet.query.schema import Kind
from discreet.units import Neighbours
from tests.support.hostile_sql import HOSTILE
from tests.support.mangled_queries import ONE_PERSON, PEOPLE, Opening
from tests.support.observable_output import session_over
from tests.support.oracle import reference
from tests.support.random_joins import Public, in_python, joined_query, public
from tests.support.random_tables import Answering, Moved, World, bounded, exactly, text, world
from tests.support.sensitivity_property import breaches, neighbour

ARROW = {
    Kind.INTEGER: pyarrow.int64(), Kind.REAL: pyarrow.float64(), Kind.BOOLEAN: pyarrow.bool_(), Kind.TEXT: pyarrow.string(),
    Kind.DATE: pyarrow.date32(), Kind.TIMESTAMP: pyarrow.timestamp("us"),
}  # fmt: skip


def answering(opened: Opening) -> Answering:
    """The engine's exact integers."""
    last: list[Any] = []

    def answer(question: BoundedQuery, place: World) -> Moved:
        if not last or last[0] is not place:
            last[:] = [place, opened(place)]
        return exactly(last[1], question)

    return answer


def differences(opened: Opening, seeds: range, each: int) -> list[tuple[int, str]]:
    """The questions whose answer is not the reference's."""
    answer, found = answering(opened), []
    for seed in seeds:
        rng = Random(seed)
        place = world(rng)
        for _ in range(each):
            question, _ = bounded(rng, place)
            if answer(question, place) != reference(question, place.rows):
                found.append((seed, text(question.query)))
    return found


def listed(known: Public) -> pyarrow.Table:
    """A public table as something that a source can be."""
    arrays = {name: pyarrow.array([row[name] for row in known.rows], ARROW[kind]) for name, kind in known.kinds.items()}
    return pyarrow.table(arrays)


def joined_differences(opened: Opening, seeds: range, each: int) -> list[int]:
    """The seeds at which the engine and the join in plain Python disagree."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        known, place = public(rng), world(rng)
        engine, lookups = opened(place).with_public({"places": listed(known)})
        place = replace(place, table=replace(place.table, public=lookups))
        for _ in range(each):
            asked = joined_query(rng, place, known, Neighbours.ADD_REMOVE)
            if exactly(engine, asked) != reference(asked, in_python(place.rows, known, left=asked.query.joins[0].left)):
                found.append(seed)
    return found


def joined_breaches(opened: Opening, seeds: range, each: int) -> list[str]:
    """Breaches of the law of bounding behind a join."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        known, place, relation = public(rng), world(rng), rng.choice(list(Neighbours))
        other = neighbour(rng, place, relation)
        if other is None:
            continue
        before, lookups = opened(place).with_public({"places": listed(known)})
        table = replace(place.table, public=lookups)
        asked = [joined_query(rng, replace(place, table=table), known, relation) for _ in range(each)]
        first = [exactly(before, question) for question in asked]
        after, _ = opened(other).with_public({"places": listed(known)})
        for question, moved in zip(asked, first, strict=True):
            found += breaches(question, moved, exactly(after, question))
    return found


def reached(opened: Opening, texts: Sequence[str] = HOSTILE) -> list[str]:
    """The statements that these texts make the engine run. Each must be refused, and nothing is paid."""
    engine, ran = opened(ONE_PERSON), []
    assert isinstance(engine, SqlEngine)
    run = engine._execute

    def listening(statement: str) -> Any:
        ran.append(statement)
        return run(statement)

    engine._execute = listening  # type: ignore[method-assign]
    session = session_over(engine, PEOPLE)
    unpaid = session.account.budget
    for asked in texts:
        with suppress(QueryRefused):
            session.ask(asked, epsilon=1)
            ran.append(f"answered: {asked[:200]}")
    assert ran or session.account.budget == unpaid
    return ran
