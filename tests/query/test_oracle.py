"""DuckDB's exact integers equal those of the plain reference, bit for bit."""

from random import Random

import duckdb
import pytest

from discreet.query.parser import parse_sql
from tests.query.oracle import reference
from tests.query.worlds import bounded, by_duckdb, text, world

WORLDS, QUESTIONS = 52, 10


def differences(seeds: range, each: int) -> int:
    answer, asked = by_duckdb(duckdb.connect()), 0
    for seed in seeds:
        rng = Random(seed)
        place = world(rng)
        for _ in range(each):
            question, _ = bounded(rng, place)
            assert answer(question, place) == reference(question, place.rows), (seed, text(question.query))
            asked += 1
    return asked


def test_totals_equal_the_reference() -> None:
    assert differences(range(WORLDS), QUESTIONS) >= 500


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(10_000, 10_600, 50))
def test_totals_equal_the_reference_at_length(start: int) -> None:
    differences(range(start, start + 50), 20)


def test_a_written_question_reads_back_the_same() -> None:
    for seed in range(300):
        rng = Random(seed)
        place = world(rng)
        question, _ = bounded(rng, place)
        assert parse_sql(text(question.query), place.table) == question.query, text(question.query)
