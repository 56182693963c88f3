"""The suites of DuckDB in full, on PostgreSQL and on Spark: reference, law of bounding, joins, bad inputs, hostile texts."""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from discreet.engines.spark.session import new_session
from discreet.sql.dialects import SPARK
from tests.engines.probes import PROBES, Tried
from tests.engines.servers import Server
from tests.engines.sparks import jobs, opened, spark
from tests.engines.suites import answering, differences, joined_breaches, joined_differences, reached
from tests.support.mangled_queries import ONE_PERSON, fuzz, unanswered
from tests.support.observable_output import unlike
from tests.support.replaying import replay_random_queries
from tests.support.sensitivity_property import broken

pytestmark = pytest.mark.nightly
GOOD = ["SELECT COUNT(*) AS n FROM people"]
"""A text that is answered, to show that whoever listens hears."""


# -- PostgreSQL ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(10_000, 10_600, 50))
def test_totals_equal_the_reference(start: int, postgres: Server) -> None:
    assert differences(postgres.opened, range(start, start + 50), 20) == []


@pytest.mark.parametrize("start", range(30_000, 30_400, 50))
def test_the_law_of_bounding_holds(start: int, postgres: Server) -> None:
    assert broken(answering(postgres.opened), range(start, start + 50), 10) == []


@pytest.mark.parametrize("start", range(30_000, 30_400, 50))
def test_joins_equal_the_reference_and_keep_the_law(start: int, postgres: Server) -> None:
    assert joined_differences(postgres.opened, range(start, start + 50), 5) == []
    assert joined_breaches(postgres.opened, range(start, start + 50), 3) == []


@pytest.mark.parametrize("start", range(70_000, 70_240, 24))
def test_neighbours_look_alike(start: int, postgres: Server) -> None:
    assert unlike(postgres.opened, range(start, start + 24), 400) == []


@pytest.mark.parametrize("start", range(50_000, 50_200, 50))
def test_what_is_not_refused_is_answered(start: int, postgres: Server) -> None:
    assert fuzz(postgres.opened, range(start, start + 50), 40) > 100


def test_hostile_texts_reach_no_server(postgres: Server) -> None:
    assert reached(postgres.opened) == []
    assert len(reached(postgres.opened, GOOD)) == 2


def test_long_and_deep_questions_are_answered(postgres: Server) -> None:
    assert unanswered(postgres.opened(ONE_PERSON)) == []


# -- Spark, as it runs by itself: with plans that adapt -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark() -> None:
    """One test, so that one worker starts one JVM."""
    with spark(adaptive=True) as session:
        in_spark = partial(opened, session)
        found = {
            "differences": differences(in_spark, range(10_000, 10_080), 5),
            "breaches": broken(answering(in_spark), range(30_000, 30_030), 3),
            "joined differences": joined_differences(in_spark, range(30), 3),
            "joined breaches": joined_breaches(in_spark, range(100, 115), 2),
            "unlike": unlike(lambda place, name: in_spark(place), range(70_000, 70_012), 150),
            "unanswered": unanswered(in_spark(ONE_PERSON)),
            "replayed": replay_random_queries(in_spark, range(44_000, 44_020), 3).violations,
        }
        assert not any(found.values()), found
        assert fuzz(in_spark, range(50_000, 50_010), 20) > 20
        nothing_hostile_runs(session)
        ansi = new_session(session)
        for probe in PROBES:
            probe(Tried(SPARK, lambda sql: ansi.sql(sql).collect(), in_spark))


def nothing_hostile_runs(session: SparkSession) -> None:
    before = jobs(session)
    assert reached(partial(opened, session)) == []
    assert jobs(session) == before
    assert len(reached(partial(opened, session), GOOD)) == 2
    assert jobs(session) > before
