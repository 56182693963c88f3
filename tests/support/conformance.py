"""The conformance suite that every engine passes: random queries against the oracle, joins, the sensitivity of bounded
queries, and hostile texts that must not reach the engine."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import log, sqrt
from random import Random
from typing import Any

import pyarrow

from discreet.engines.base import SqlEngine
from discreet.errors import QueryRefused
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.query.parser import parse_sql
from discreet.query.schema import Column, Kind, Table
from discreet.units import Neighbours
from tests.support.hostile_sql import HOSTILE
from tests.support.mangled_queries import ONE_PERSON, PEOPLE, Opening
from tests.support.observable_output import session_over
from tests.support.oracle import Oracle, reference, unit_of
from tests.support.random_joins import Public, in_python, joined_query, public
from tests.support.random_tables import Answering, Declaring, Moved, World, as_it_is, bounded, exactly, text, world
from tests.support.sensitivity_property import breaches, neighbour

ARROW_TYPES = {
    Kind.INTEGER: pyarrow.int64(), Kind.REAL: pyarrow.float64(), Kind.BOOLEAN: pyarrow.bool_(), Kind.TEXT: pyarrow.string(),
    Kind.DATE: pyarrow.date32(), Kind.TIMESTAMP: pyarrow.timestamp("us"),
}  # fmt: skip


def answer_with(open_world: Opening) -> Answering:
    """Return a function that answers with the engine's exact integers. It opens a table once for several queries."""
    last: list[Any] = []

    def answer(query: BoundedQuery, table: World) -> Moved:
        if not last or last[0] is not table:
            last[:] = [table, open_world(table)]
        return exactly(last[1], query)

    return answer


def find_differences(
    open_world: Opening, seeds: range, each: int, declare: Declaring = as_it_is, first: bool = False
) -> list[tuple[int, str]]:
    """Return the queries on which the engine and the oracle disagree, or the first of them."""
    answer, found = answer_with(open_world), []
    for seed in seeds:
        rng = Random(seed)
        table = declare(rng, world(rng))
        for _ in range(each):
            query, _ = bounded(rng, table)
            if answer(query, table) != reference(query, table.rows):
                found.append((seed, text(query.query)))
                if first:
                    return found
    return found


def count_kept(open_world: Opening, units: int = 3000, groups: int = 5) -> dict[Any, int]:
    """Return how often each group is kept, of consecutive integers as units that all have the same consecutive groups and
    keep two of them."""
    columns = {"uid": Column(Kind.INTEGER), "age": Column(Kind.INTEGER, keys=tuple(range(groups)))}
    table = Table("people", "uid", columns, 2, 1)
    rows = tuple({"uid": unit, "age": group} for unit in range(units) for group in range(groups))
    place = World(table, rows, {"uid": "BIGINT", "age": "INTEGER"})
    query = bound_contributions(
        parse_sql("SELECT age, COUNT(*) AS n FROM people GROUP BY age", table), table, Neighbours.ADD_REMOVE
    )
    return {keys[0]: totals[0] for totals, keys in open_world(place).read_totals(query)}


def is_kept_equally(counts: dict[Any, int], kept: int = 2, false_alarm: float = 1e-10) -> bool:
    """Whether chance explains these counts, by Hoeffding's bound for each group: a unit keeps it or not."""
    n = sum(counts.values()) // kept
    room = sqrt(n * log(2 * len(counts) / false_alarm) / 2)
    return all(abs(count - n * kept / len(counts)) <= room for count in counts.values())


def find_contribution_differences(
    open_world: Opening, seeds: range, each: int, declare: Declaring = as_it_is
) -> list[tuple[int, str]]:
    """Return the queries on which the rows per unit and group, not bounded yet, are not those of the oracle."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        table = declare(rng, world(rng))
        engine = open_world(table)
        for _ in range(each):
            query, _ = bounded(rng, table)
            units = Oracle(query).pairs(table.rows)
            exact = [{key: len(rows) for key, rows in groups.items()} for groups in units.values()]
            if _sort_units(exact) != _sort_units(_read_contributions(engine, query)):
                found.append((seed, text(query.query)))
    return found


def _read_contributions(engine: SqlEngine, query: BoundedQuery) -> list[dict[Any, int]]:
    units: dict[str, dict[Any, int]] = {}
    for unit, rows, keys in engine.read_contributions(query):
        if query.keys is None or keys in query.keys:
            units.setdefault(str(unit), {})[keys] = rows
    return list(units.values())


def find_record_differences(open_world: Opening, seeds: range, declare: Declaring = as_it_is) -> list[int]:
    """Return the seeds at which the rows of units, as a fit reads them, are not those of the table."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        place = declare(rng, world(rng))
        names = [name for name, each in place.table.columns.items() if each.kind in (Kind.INTEGER, Kind.TEXT, Kind.BOOLEAN)]
        exact, read = dict[Any, list[str]](), dict[Any, list[str]]()
        for i, row in enumerate(place.rows):
            if (unit := unit_of(place.table, row, i)) is not None:
                exact.setdefault(unit, []).append(repr([row.get(name) for name in names]))
        for i, (unit, cells) in enumerate(open_world(place).read_records(place.table, names)):
            read.setdefault(i if unit is None else unit, []).append(repr([*cells]))
        if sorted(map(sorted, exact.values())) != sorted(map(sorted, read.values())):
            found.append(seed)
    return found


def _sort_units(found: list[dict[Any, int]]) -> list[str]:
    return sorted(repr(sorted(each.items(), key=repr)) for each in found)


def to_arrow(known: Public) -> pyarrow.Table:
    """Return a public table as something that a source can be."""
    arrays = {
        name: pyarrow.array([row[name] for row in known.rows], ARROW_TYPES[kind]) for name, kind in known.kinds.items()
    }
    return pyarrow.table(arrays)


def find_join_differences(open_world: Opening, seeds: range, each: int, declare: Declaring = as_it_is) -> list[int]:
    """Return the seeds at which the engine and a join in plain Python disagree."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        known, table = public(rng), declare(rng, world(rng))
        engine, public_tables = open_world(table).with_public({"places": to_arrow(known)})
        table = replace(table, table=replace(table.table, public=public_tables))
        for _ in range(each):
            query = joined_query(rng, table, known, Neighbours.ADD_REMOVE)
            if exactly(engine, query) != reference(query, in_python(table.rows, known, left=query.query.joins[0].left)):
                found.append(seed)
    return found


def find_join_violations(open_world: Opening, seeds: range, each: int) -> list[str]:
    """Return where neighbours move a total behind a join by more than its sensitivity."""
    found = []
    for seed in seeds:
        rng = Random(seed)
        known, table, relation = public(rng), world(rng), rng.choice(list(Neighbours))
        other = neighbour(rng, table, relation)
        if other is None:
            continue
        before, public_tables = open_world(table).with_public({"places": to_arrow(known)})
        declared = replace(table.table, public=public_tables)
        queries = [joined_query(rng, replace(table, table=declared), known, relation) for _ in range(each)]
        first = [exactly(before, query) for query in queries]
        after, _ = open_world(other).with_public({"places": to_arrow(known)})
        for query, totals in zip(queries, first, strict=True):
            found += breaches(query, totals, exactly(after, query))
    return found


def list_statements_run(open_world: Opening, texts: Sequence[str] = HOSTILE) -> list[str]:
    """Return the statements that these texts make the engine run, and the texts that are answered. Where there are none,
    nothing was charged either."""
    engine, ran = open_world(ONE_PERSON), []
    assert isinstance(engine, SqlEngine)
    execute = engine._execute

    def listening(statement: str) -> Any:
        ran.append(statement)
        return execute(statement)

    engine._execute = listening  # type: ignore[method-assign]
    session = session_over(engine, PEOPLE)
    before = session.account.budget
    for hostile in texts:
        with suppress(QueryRefused):
            session.ask(hostile, epsilon=1)
            ran.append(f"answered: {hostile[:200]}")
    assert ran or session.account.budget == before
    return ran
