"""All that an analyst sees besides the noisy numbers, of a table and of its neighbour, on any engine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from discreet.accounting import currencies
from discreet.engines.base import Engine
from discreet.errors import DiscreetError, EngineFailed
from discreet.ledger.memory import MemoryAccount
from discreet.query import parser
from discreet.query.schema import Table
from discreet.session.session import Session
from discreet.units import Neighbours
from tests.support.hostile_sql import HOSTILE
from tests.support.mangled_queries import mangled
from tests.support.random_tables import World, bounded, text, world
from tests.support.sensitivity_property import neighbour

Storing = Callable[[World, str], Engine]
"""Puts the rows of a random table into the engine under a name."""
EPSILONS: list[Any] = [1, "1/3", 0, -1, "nan", float("nan"), float("inf"), None, "x", 10**9, 1e-300]


def session_over(engine: Engine, table: Table) -> Session:
    budget = currencies.zcdp_filter(10**6, currencies.pure_filter(1).limit / 2)
    return Session(engine, table, MemoryAccount(budget), currencies.pure_filter(1).limit / 10**6, Neighbours.ADD_REMOVE)


def seen(session: Session, question: Any, epsilon: Any) -> tuple[Any, ...]:
    """All that an answer shows, without its noisy numbers and the keys that noise selects."""
    try:
        planned = session.calibrate(question, epsilon=epsilon)
        released = session.ask(question, epsilon=epsilon)
    except DiscreetError as refusal:
        return (type(refusal), str(refusal), session.account.budget)
    keys = tuple(key for key, _ in released.rows) if planned.bounded.keys is not None else None
    notes = released.notes if keys is None else released.list_notes()  # these count the keys
    return (released.groups, released.columns, keys, released.event, released.explanation, notes, session.account.budget)


@contextmanager
def parse_once() -> Iterator[None]:
    """Parse each text about a table once: neighbouring tables have one policy, and the parser sees nothing else."""
    parse, known = parser._parse_select, dict[str, tuple[Table, Any]]()

    def find(text: str, table: Table) -> Any:
        if text not in known or known[text][0] != table:
            try:
                known[text] = table, parse(text, table)
            except DiscreetError as refusal:
                known[text] = table, refusal
        found = known[text][1]
        if isinstance(found, DiscreetError):
            raise found
        return found.copy()  # a query is read from a tree of its own: reading may change it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser, "_parse_select", find)
        yield


def unlike(stored: Storing, seeds: range, each: int, look: Callable[..., tuple[Any, ...]] = seen) -> list[Any]:
    """The inputs that tell a table from its neighbour. Most are bad."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        place = world(rng)
        other = neighbour(rng, place, rng.choice(list(Neighbours)))
        if other is None:
            continue
        sessions = [session_over(stored(w, f"people{i}"), place.table) for i, w in enumerate((place, other))]
        for _ in range(each):
            good = rng.random() < 0.02
            asked = text(bounded(rng, place)[0].query) if rng.random() < 0.7 else rng.choice(HOSTILE)
            question = asked if good else mangled(rng, mangled(rng, asked))
            epsilon = 1 if good else rng.choice(EPSILONS)
            with parse_once():
                first, second = (look(session, question, epsilon) for session in sessions)
            if first != second or EngineFailed in first:
                found.append((seed, question, epsilon))
    return found
