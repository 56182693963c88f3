"""Replay on any engine: random queries, and one query with every aggregate, on neighbouring tables."""

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
from tests.support.mangled_queries import Opening
from tests.support.random_tables import World, bounded, world
from tests.support.sensitivity_property import neighbour

AGGREGATES = {
    "CountRows", "CountUnits", "CountValues", "CountDistinct", "Sum", "Mean", "Variance", "Covariance", "Correlation",
    "Quantile", "Histogram",
}  # fmt: skip
AGE, PAY, PRICE = ast.Ref("age"), ast.Ref("pay"), ast.Ref("price")
EVERY_AGGREGATE: tuple[ast.Aggregate, ...] = (
    aggregates.CountRows(), aggregates.CountUnits(), aggregates.CountValues(PAY),
    aggregates.CountDistinct(ast.Ref("dept")), aggregates.Sum(PRICE),
    aggregates.Mean(PAY), aggregates.Variance(PAY),
    aggregates.Variance(PRICE, root=True), aggregates.Covariance(AGE, PRICE),
    aggregates.Correlation(AGE, ast.Minus(ast.Ref("huge"), ast.Ref("ok"))), aggregates.Quantile(PRICE, Fraction(1, 2)),
    aggregates.Histogram(PAY, (Fraction(0), Fraction(1, 2), Fraction(100))),
)  # fmt: skip


@dataclass
class ReplayResult:
    """Every violation, the aggregates that were replayed, and how many measurements were."""

    violations: list[str] = field(default_factory=list)
    aggregates: set[str] = field(default_factory=set)
    measurements: int = 0


def replay_random_queries(open_engine: Opening, seeds: range, each: int) -> ReplayResult:
    """Replay so many random queries on the tables of each seed."""
    return _replay_all(open_engine, ((seed, *_draw_case(Random(seed), each)) for seed in seeds))


def replay_every_aggregate(open_engine: Opening, seeds: range) -> ReplayResult:
    """Replay one query with every aggregate on the table of each seed."""
    return _replay_all(open_engine, ((seed, *_draw_case(Random(seed), 0)) for seed in seeds))


def _draw_case(rng: Random, each: int) -> tuple[World, World | None, list[Measurement]]:
    table, relation = world(rng), rng.choice(list(Neighbours))
    other = neighbour(rng, table, relation)
    queries = [bounded(rng, table, relation)[0] for _ in range(each)] or [_bound_every_aggregate(rng, table, relation)]
    return table, other, [measurement for query in queries for measurement in _calibrate(rng, query)]


def _bound_every_aggregate(rng: Random, table: World, relation: Neighbours) -> BoundedQuery:
    groups = rng.choice([(), (ast.Grouping("k", ast.Ref("dept")),)])
    aggregates = tuple((f"a{i}", aggregate) for i, aggregate in enumerate(EVERY_AGGREGATE))
    return bound_contributions(ast.Query("people", aggregates, None, groups), table.table, relation)


def _calibrate(rng: Random, query: BoundedQuery) -> Iterator[Measurement]:
    try:
        yield calibrate_query(query, rng.choice([Pure(), Zcdp()]), Fraction(1), Fraction(1, 10**6))
    except QueryRefused:
        return


def _replay_all(open_engine: Opening, cases: "Iterator[tuple[int, World, World | None, list[Measurement]]]") -> ReplayResult:
    result = ReplayResult()
    for seed, table, other, measurements in cases:
        if other is None or not measurements:
            continue
        engine = open_engine(table)
        before = [trace_noise_inputs(each, engine) for each in measurements]
        engine = open_engine(other)
        for each, first in zip(measurements, before, strict=True):
            after = trace_noise_inputs(each, engine)
            result.violations += [f"{seed}: {violation}" for violation in find_violations(each, first, after)]
            result.aggregates |= {type(aggregate).__name__ for _, aggregate in each.bounded.query.aggregates}
            result.measurements += 1
    return result
