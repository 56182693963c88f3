"""The order in which contributions are kept has versions: a new query is measured as the newest does, and what was paid for
under the first version is found, verified and continued under it."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from discreet.ledger.entries import hash_measurement, privacy_unit_of
from discreet.query.answer import IntervalOptions
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BOUNDING, FIRST_BOUNDING
from discreet.query.record import bounded_spec, drop_bounding
from discreet.session.connect import connect
from discreet.session.executor import RunOptions
from discreet.session.session import Session

BY_DEPARTMENT = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
DECLARED: dict[str, Any] = {
    "table": "people", "unit": "id", "keys": {"dept": ["a", "b", "c", "d"]}, "bounds": {"pay": (0, 8)}, "max_groups": 2,
    "max_rows": 3,
}  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> Session:
    rows = "SELECT i // 4 AS id, chr((97 + i % 4)::INTEGER) AS dept, i % 9 AS pay FROM range(400) t(i)"
    duckdb.execute(f"COPY ({rows}) TO '{tmp_path / 'people.parquet'}'")
    return connect(tmp_path / "people.parquet", epsilon=8, **DECLARED)


def in_first_version(measurement: Measurement) -> Measurement:
    """Return a measurement as the first version described it."""
    return replace(measurement, bounded=replace(measurement.bounded, bounding=FIRST_BOUNDING))


def ask_first_version(session: Session, **options: Any) -> Any:
    measurement = in_first_version(session.calibrate(BY_DEPARTMENT, epsilon=1))
    return session.executor.run(measurement, RunOptions(**options), IntervalOptions())


def test_a_new_query_is_measured_as_the_newest_version_does(session: Session) -> None:
    bounded = session.calibrate(BY_DEPARTMENT, epsilon=1).bounded
    assert session.executor.describe_bounded(bounded)["bounding"] == bounded.bounding == BOUNDING
    assert "MD5" not in session.ask(BY_DEPARTMENT, epsilon=1).pipeline[0]


@pytest.mark.parametrize("query", ["SELECT COUNT(*) AS n FROM people", "SELECT SUM(pay) AS s FROM people"])
def test_a_query_without_an_order_has_no_version(session: Session, query: str) -> None:
    assert "bounding" not in bounded_spec(session.calibrate(query, epsilon=1).bounded, "here")


@pytest.mark.parametrize(
    "query",
    [
        BY_DEPARTMENT,
        "SELECT MEDIAN(pay) AS m FROM people",
        "SELECT COUNT(DISTINCT dept) AS d FROM people",
    ],
)
def test_the_first_version_described_it_without_one(session: Session, query: str) -> None:
    measurement = session.calibrate(query, epsilon=1)
    new, old = (session.executor.describe(each) for each in (measurement, in_first_version(measurement)))
    assert "bounding" in new
    assert drop_bounding(new) == old
    assert drop_bounding({"plan": [new]}) == {"plan": [old]}
    assert hash_measurement(new) != hash_measurement(old)


def test_an_answer_of_the_first_version_is_found_and_costs_nothing(session: Session) -> None:
    first = ask_first_version(session)
    assert "MD5" in first.pipeline[0]
    spent = session.account.budget.spent
    again = session.ask(BY_DEPARTMENT, epsilon=1)
    assert (again.rows, again.charged, session.account.budget.spent) == (first.rows, False, spent)
    fresh = session.ask(BY_DEPARTMENT, epsilon=1, fresh=True)
    assert fresh.charged
    assert "MD5" not in fresh.pipeline[0]


@pytest.mark.parametrize("id", [None, "june"])
def test_a_debit_of_the_first_version_is_continued_in_its_order(session: Session, id: str | None) -> None:
    """The process ended after the debit. What it paid for is the first version's measurement."""
    measurement = in_first_version(session.calibrate(BY_DEPARTMENT, epsilon=1))
    spec = session.executor.describe(measurement)
    session.account.reserve(measurement.event, measurement=hash_measurement(spec), id=id, privacy_unit=privacy_unit_of(spec))
    spent = session.account.budget.spent
    answer = session.ask(BY_DEPARTMENT, epsilon=1, id=id)
    assert "MD5" in answer.pipeline[0]
    assert session.account.budget.spent == spent
    assert answer.reference is not None
    assert answer.reference.measurement == spec


def test_an_id_of_this_version_is_found_again(session: Session) -> None:
    first, again = (session.ask(BY_DEPARTMENT, epsilon=1, id="june") for _ in range(2))
    assert (again.rows, again.charged) == (first.rows, False)


def test_both_versions_keep_as_much(session: Session) -> None:
    measurement = session.calibrate(BY_DEPARTMENT, epsilon=Fraction(1, 2))
    by_version = [session.engine.read_totals(each.bounded) for each in (measurement, in_first_version(measurement))]
    assert [sum(total for (total,), _ in each) for each in by_version] == [200, 200]
