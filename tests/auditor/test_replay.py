"""Replay: on random tables, policies and questions no noise is moved further than its loss says; and a wrong twin is."""

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import pytest

from discreet.accounting.filters import Pure, Zcdp
from discreet.auditor.replay import breaches, record
from discreet.engines.duckdb import DuckDB
from discreet.errors import QuestionRefused
from discreet.query.groups import Exact
from discreet.query.measure import measure
from discreet.units import Neighbours
from tests.query.law import neighbour
from tests.query.worlds import bounded, stored, world


class Doubling(DuckDB):
    """Wrong twin: every row is counted twice."""

    def exact(self, bounded: Any) -> Exact:
        right = super().exact(bounded)
        return replace(
            right,
            totals=[(tuple(2 * n for n in row), keys) for row, keys in right.totals],
            spreads={c: [(2 * n, cell, keys) for n, cell, keys in rows] for c, rows in right.spreads.items()},
        )


def replayed(seeds: range, each: int, engine: type[DuckDB] = DuckDB) -> tuple[list[str], set[str], int]:
    """Every breach, the aggregates that were asked for, and how many questions were replayed."""
    found: list[str] = []
    asked: set[str] = set()
    connection, ran = duckdb.connect(), 0
    for seed in seeds:
        rng = Random(seed)
        place, relation = world(rng), rng.choice(list(Neighbours))
        other = neighbour(rng, place, relation)
        if other is None:
            continue
        stored(place, connection, "before")
        stored(other, connection, "after")
        for _ in range(each):
            question, _ = bounded(rng, place, relation)
            try:
                planned = measure(question, rng.choice([Pure(), Zcdp()]), Fraction(1), Fraction(1, 10**6))
            except QuestionRefused:
                continue
            sides = [record(planned, engine(connection, name)) for name in ("before", "after")]
            found += [f"{seed}: {breach}" for breach in breaches(planned, *sides)]
            asked |= {type(aggregate).__name__ for _, aggregate in question.query.aggregates}
            ran += 1
    return found, asked, ran


def test_every_noise_is_given_what_its_loss_covers() -> None:
    found, asked, ran = replayed(range(41_000, 41_030), 3)
    assert found == []
    assert ran > 60
    assert asked >= {"CountRows", "CountUnits", "CountValues", "Sum", "Mean", "Variance", "Quantile", "Histogram"}


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(42_000, 42_400, 50))
def test_every_noise_is_given_what_its_loss_covers_at_length(start: int) -> None:
    assert replayed(range(start, start + 50), 8)[0] == []


def test_replay_can_fail() -> None:
    found, _, _ = replayed(range(41_000, 41_010), 3, Doubling)
    assert any("linf" in breach for breach in found)
