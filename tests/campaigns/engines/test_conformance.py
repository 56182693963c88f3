"""The conformance suite at length, on PostgreSQL and on Spark: oracle, sensitivity, joins, mangled and hostile texts."""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from discreet.engines.spark import new_session
from discreet.sql.dialects import SPARK
from tests.support.conformance import (
    answer_with,
    find_differences,
    find_join_differences,
    find_join_violations,
    list_statements_run,
)
from tests.support.engine_pitfalls import PITFALLS, EngineUnderTest
from tests.support.mangled_queries import ONE_PERSON, fuzz, unanswered
from tests.support.observable_output import unlike
from tests.support.postgres_server import Server
from tests.support.random_cells import by_engine, find_broken_tabulations, find_cell_differences
from tests.support.replaying import replay_random_queries
from tests.support.sensitivity_property import broken
from tests.support.spark_session import count_jobs, open_world, run_spark

pytestmark = pytest.mark.nightly
GOOD = ["SELECT COUNT(*) AS n FROM people"]
"""A text that is answered, to show that statements are counted."""


# -- PostgreSQL ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(10_000, 10_600, 50))
def test_totals_equal_the_oracle(start: int, postgres: Server) -> None:
    assert find_differences(postgres.open_world, range(start, start + 50), 20) == []


@pytest.mark.parametrize("start", range(30_000, 30_400, 50))
def test_neighbours_move_totals_by_no_more_than_the_sensitivity(start: int, postgres: Server) -> None:
    assert broken(answer_with(postgres.open_world), range(start, start + 50), 10) == []


@pytest.mark.parametrize("start", range(30_000, 30_400, 50))
def test_joined_totals_equal_the_oracle_and_keep_their_sensitivity(start: int, postgres: Server) -> None:
    assert find_join_differences(postgres.open_world, range(start, start + 50), 5) == []
    assert find_join_violations(postgres.open_world, range(start, start + 50), 3) == []


@pytest.mark.parametrize("start", range(63_000, 63_200, 50))
def test_cells_equal_the_oracle_and_tables_keep_their_sensitivity(start: int, postgres: Server) -> None:
    assert find_cell_differences(postgres.open_world, range(start, start + 50), 8) == []
    assert find_broken_tabulations(by_engine(postgres.open_world), range(start, start + 50), 4) == []


@pytest.mark.parametrize("start", range(70_000, 70_240, 24))
def test_neighbours_look_alike(start: int, postgres: Server) -> None:
    assert unlike(postgres.open_world, range(start, start + 24), 400) == []


@pytest.mark.parametrize("start", range(50_000, 50_200, 50))
def test_a_mangled_query_is_refused_or_answered(start: int, postgres: Server) -> None:
    assert fuzz(postgres.open_world, range(start, start + 50), 40) > 100


def test_hostile_texts_reach_no_server(postgres: Server) -> None:
    assert list_statements_run(postgres.open_world) == []
    assert len(list_statements_run(postgres.open_world, GOOD)) == 2


def test_long_and_deep_queries_are_answered(postgres: Server) -> None:
    assert unanswered(postgres.open_world(ONE_PERSON)) == []


# -- Spark with adaptive plans, its default --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark() -> None:
    """One test, so that one worker starts one JVM."""
    with run_spark(adaptive=True) as session:
        in_spark = partial(open_world, session)
        found = {
            "differences": find_differences(in_spark, range(10_000, 10_080), 5),
            "violations": broken(answer_with(in_spark), range(30_000, 30_030), 3),
            "joined differences": find_join_differences(in_spark, range(30), 3),
            "joined violations": find_join_violations(in_spark, range(100, 115), 2),
            "cells": find_cell_differences(in_spark, range(63_000, 63_020), 2),
            "tables": find_broken_tabulations(by_engine(in_spark), range(63_000, 63_010), 1),
            "unlike": unlike(lambda table, name: in_spark(table), range(70_000, 70_012), 150),
            "unanswered": unanswered(in_spark(ONE_PERSON)),
            "replayed": replay_random_queries(in_spark, range(44_000, 44_020), 3).violations,
        }
        assert not any(found.values()), found
        assert fuzz(in_spark, range(50_000, 50_010), 20) > 20
        check_hostile_texts_run_nothing(session)
        ansi = new_session(session)
        for pitfall in PITFALLS:
            pitfall(EngineUnderTest(SPARK, lambda sql: ansi.sql(sql).collect(), in_spark))


def check_hostile_texts_run_nothing(session: SparkSession) -> None:
    before = count_jobs(session)
    assert list_statements_run(partial(open_world, session)) == []
    assert count_jobs(session) == before
    assert len(list_statements_run(partial(open_world, session), GOOD)) == 2
    assert count_jobs(session) > before
