"""Contribution bounding as a property: what one unit does to the exact statistics stays within the stated sensitivity."""

from collections.abc import Callable
from random import Random
from typing import Any

from discreet.auditor.replay import find_exceeded_norms
from discreet.query.contribution import BoundedQuery
from discreet.query.statistics import CellCounts, Statistic
from discreet.units import Neighbours, Sensitivity
from tests.support.random_tables import Answering, Declaring, World, as_it_is, bounded, person, world

Stated = Callable[[BoundedQuery, Statistic], Sensitivity]


def as_stated(question: BoundedQuery, statistic: Statistic) -> Sensitivity:
    return question.sensitivity(statistic)


def neighbour(rng: Random, place: World, relation: Neighbours) -> World | None:
    """The same table with one unit less, or with another in its place."""
    if not place.units:
        return None
    unit = rng.choice(place.units)
    rest = place.without(unit)
    if relation is Neighbours.ADD_REMOVE:
        return rest
    if place.table.unit_columns != ("uid",):
        same = dict(zip(place.table.unit_columns, unit if isinstance(unit, tuple) else (), strict=True))
        rows = [row | same for row in person(rng, place.rows[0]["uid"], 12)]
    else:
        rows = person(rng, rng.choice([unit, "someone else" if isinstance(unit, str) else 999]), 12)
    return rest.plus(rows[:1] if place.table.unique else rows)


def everything(statistic: Statistic, found: dict[Any, Any]) -> dict[Any, Any]:
    """All that gets noise: for a tree, the counts of every level."""
    if not isinstance(statistic, CellCounts):
        return found
    nodes: dict[Any, int] = {}
    for (*key, cell), n in found.items():
        place, under = cell - statistic.first_cell, statistic.cells
        assert 0 <= place < statistic.cells
        for level, fan in enumerate(statistic.branching):
            under //= fan
            node = (*key, level, place // under)
            nodes[node] = nodes.get(node, 0) + n
    return nodes


def breaches(question: BoundedQuery, before: dict[Any, Any], after: dict[Any, Any], stated: Stated = as_stated) -> list[str]:
    """The norms in which some statistic moved further than stated."""
    found = []
    for statistic in before:
        cells = [everything(statistic, numbers[statistic]) for numbers in (before, after)]
        found += find_exceeded_norms(repr(statistic), *cells, stated(question, statistic))
    return found


def broken(
    answer: Answering,
    seeds: range,
    each: int,
    stated: Stated = as_stated,
    *,
    first: bool = False,
    declare: Declaring = as_it_is,
) -> list[tuple[int, str]]:
    """Every breach that these seeds show (or the first)."""
    found: list[tuple[int, str]] = []
    for seed in seeds:
        rng = Random(seed)
        place = declare(rng, world(rng))
        relation = rng.choice(list(Neighbours))
        other = neighbour(rng, place, relation)
        if other is None:
            continue
        questions = [bounded(rng, place, relation)[0] for _ in range(each)]
        befores = [answer(question, place) for question in questions]
        for question, before in zip(questions, befores, strict=True):
            found += [(seed, breach) for breach in breaches(question, before, answer(question, other), stated)]
            if first and found:
                return found
    return found
