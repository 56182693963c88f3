"""Replay over any engine: random questions, and one that asks for everything there is, on neighbouring tables."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

from discreet.accounting.currencies import Pure, Zcdp
from discreet.auditor.replay import find_violations, trace_noise_inputs
from discreet.errors import QueryRefused
from discreet.query import aggregates, ast
from discreet.query.calibrate import Measurement, calibrate_query
from discreet.query.contribution import BoundedQuery, bound_contributions
from discreet.units import Neighbours
from tests.engines.suites import Opening
from tests.query.law import neighbour
from tests.query.worlds import World, bounded, world

AGGREGATES = {"CountRows", "CountUnits", "CountValues", "Sum", "Mean", "Variance", "Quantile", "Histogram"}
PAY, PRICE = ast.Ref("pay"), ast.Ref("price")
EVERYTHING: tuple[ast.Aggregate, ...] = (
    aggregates.CountRows(), aggregates.CountUnits(), aggregates.CountValues(PAY), aggregates.Sum(PRICE),
    aggregates.Mean(PAY), aggregates.Variance(PAY),
    aggregates.Variance(PRICE, root=True), aggregates.Quantile(PRICE, Fraction(1, 2)),
    aggregates.Histogram(PAY, (Fraction(0), Fraction(1, 2), Fraction(100))),
)  # fmt: skip


@dataclass
class Replayed:
    """Every breach, the aggregates that were asked for, and how many questions were replayed."""

    breaches: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    questions: int = 0


def replayed(opened: Opening, seeds: range, each: int) -> Replayed:
    """So many random questions on the worlds of these seeds."""
    return _over(opened, ((seed, *_drawn(Random(seed), each)) for seed in seeds))


def everything_replayed(opened: Opening, seeds: range) -> Replayed:
    """All aggregates in one question."""
    return _over(opened, ((seed, *_drawn(Random(seed), 0)) for seed in seeds))


def _drawn(rng: Random, each: int) -> tuple[World, World | None, list[Measurement]]:
    place, relation = world(rng), rng.choice(list(Neighbours))
    other = neighbour(rng, place, relation)
    asked = [bounded(rng, place, relation)[0] for _ in range(each)] or [_everything(rng, place, relation)]
    return place, other, [found for question in asked for found in _measured(rng, question)]


def _everything(rng: Random, place: World, relation: Neighbours) -> BoundedQuery:
    groups = rng.choice([(), (ast.Grouping("k", ast.Ref("dept")),)])
    aggregates = tuple((f"a{i}", aggregate) for i, aggregate in enumerate(EVERYTHING))
    return bound_contributions(ast.Query("people", aggregates, None, groups), place.table, relation)


def _measured(rng: Random, question: BoundedQuery) -> Iterator[Measurement]:
    try:
        yield calibrate_query(question, rng.choice([Pure(), Zcdp()]), Fraction(1), Fraction(1, 10**6))
    except QueryRefused:
        return


def _over(opened: Opening, worlds: "Iterator[tuple[int, World, World | None, list[Measurement]]]") -> Replayed:
    found = Replayed()
    for seed, place, other, planned in worlds:
        if other is None or not planned:
            continue
        engine = opened(place)
        before = [trace_noise_inputs(each, engine) for each in planned]
        engine = opened(other)
        for each, first in zip(planned, before, strict=True):
            found.breaches += [
                f"{seed}: {breach}" for breach in find_violations(each, first, trace_noise_inputs(each, engine))
            ]
            found.asked |= {type(aggregate).__name__ for _, aggregate in each.bounded.query.aggregates}
            found.questions += 1
    return found
