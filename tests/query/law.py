"""The law of bounding, as a checker: what one unit does to the exact totals stays within the stated sensitivity."""

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

from discreet.query.bound import Bounded, Measure
from discreet.units import Neighbours, Sensitivity
from tests.query.worlds import Answering, World, bounded, person, world

Stated = Callable[[Bounded, Measure], Sensitivity]


def as_stated(question: Bounded, measure: Measure) -> Sensitivity:
    return question.sensitivity(measure)


def neighbour(rng: Random, place: World, relation: Neighbours) -> World | None:
    """The same table with one unit less, or with another in its place."""
    if not place.units:
        return None
    unit = rng.choice(place.units)
    left = place.without(unit)
    if relation is Neighbours.ADD_REMOVE:
        return left
    rows = person(rng, rng.choice([unit, "someone else" if isinstance(unit, str) else 999]), 12)
    return left.plus(rows[:1] if place.table.unique else rows)


def moved(before: dict[Any, Any], after: dict[Any, Any], i: int) -> list[Fraction]:
    """How far each cell of the i-th total moves."""
    cells = [(before[k][i] if k in before else 0, after[k][i] if k in after else 0) for k in {**before, **after}]
    return [abs(Fraction(a) - Fraction(b)) for a, b in cells if a != b]


def breaches(question: Bounded, before: dict[Any, Any], after: dict[Any, Any], stated: Stated = as_stated) -> list[str]:
    """The norms in which some total moved further than stated."""
    found = []
    for i, measure in enumerate(question.totals):
        limit, steps = stated(question, measure), moved(before, after, i)
        norms = {
            "l0": (len(steps), limit.l0),
            "l1": (sum(steps), limit.l1),
            "l2": (sum(step * step for step in steps), limit.l2_squared),
            "linf": (max(steps, default=Fraction(0)), limit.linf),
        }
        found += [f"{name} of {measure}" for name, (seen, most) in norms.items() if most is not None and seen > most]
    return found


def broken(
    answer: Answering, seeds: range, each: int, stated: Stated = as_stated, *, first: bool = False
) -> list[tuple[int, str]]:
    """Every breach that these seeds show (or the first)."""
    found: list[tuple[int, str]] = []
    for seed in seeds:
        rng = Random(seed)
        place = world(rng)
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
