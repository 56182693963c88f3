"""Invented rows keep to the policy, are the same everywhere, and depend on nothing else."""

import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from random import Random
from typing import Any

import pytest

from discreet.errors import BadParameter, QueryRefused
from discreet.query.policy import read_policy
from discreet.query.schema import Kind, Table
from discreet.remote.dummy import INVENTED_NOTE, invent_session
from discreet.remote.invented import invent_columns, to_rows
from tests.support import random_tables

POLICY = """
table = "visits"
unit = "person"
max_groups = 2
max_rows = 3
[columns.person]
kind = "text"
[columns.ward]
kind = "text"
keys = ["a", "b", "c", "d", "e"]
null_key = true
[columns.floor]
kind = "integer"
keys = [1, 2, 30]
[columns.pay]
kind = "integer"
lower = 1
upper = 7
[columns.score]
kind = "real"
lower = -0.5
upper = 2.5
[columns.day]
kind = "date"
lower = 2024-01-01
upper = 2024-01-31
[columns.at]
kind = "timestamp"
lower = 2024-01-01
upper = 2024-01-02
[columns.ok]
kind = "boolean"
[columns.city]
kind = "text"
"""
VISITS = read_policy(POLICY)


def test_values_keep_to_their_kinds_bounds_and_keys() -> None:
    found = {name: each.to_list() for name, each in invent_columns(VISITS, 3000, 1).items()}
    present = {name: {each for each in values if each is not None} for name, values in found.items()}
    assert present["ward"] == {"a", "b", "c", "d", "e"}
    assert None in found["ward"]
    assert present["floor"] == {1, 2, 30}
    assert present["pay"] == {1, 2, 3, 4, 5, 6, 7}
    assert min(present["score"]) >= -0.5
    assert max(present["score"]) <= 2.5
    assert len(present["score"]) > 1000
    assert {min(present["day"]), max(present["day"])} == {date(2024, 1, 1), date(2024, 1, 31)}
    assert datetime(2024, 1, 1) <= min(present["at"]) <= max(present["at"]) < datetime(2024, 1, 3)
    assert present["ok"] == {True, False}
    assert len(present["city"]) == 12
    for name in ("pay", "score", "day", "ok"):
        assert 0 < found[name].count(None) < 150, name
    assert found["person"].count(None) == 0


def test_no_unit_has_more_groups_or_rows_than_declared() -> None:
    """The mutant draws a key for each row: units then have more groups than declared, and bounding would drop rows."""
    rows = [dict(zip(VISITS.columns, row, strict=True)) for row in to_rows(invent_columns(VISITS, 3000, 1))]
    groups: dict[str, Counter[Any]] = defaultdict(Counter)
    for row in rows:
        if row["floor"] is not None:
            groups[row["person"]][row["floor"]] += 1
    assert max(map(len, groups.values())) == 2
    assert max(map(Counter.total, groups.values())) > 3
    assert max(len(each) for each in groups.values()) <= VISITS.max_groups


@pytest.mark.parametrize("seed", range(8))
def test_every_policy_can_be_invented_and_asked(seed: int) -> None:
    rng = Random(seed)
    place = random_tables.world(rng)
    table = place.table
    session = invent_session(table, 200, seed)
    answer = session.ask(f'SELECT COUNT(*) AS n FROM "{table.name}"', epsilon=10)
    assert INVENTED_NOTE in answer.explanation
    assert INVENTED_NOTE in repr(session)
    for _ in range(3):
        bounded, _ = random_tables.bounded(rng, place)
        with suppress(QueryRefused):  # noise too wide to be drawn
            session.ask(random_tables.text(bounded.query), epsilon=10)


def test_the_same_seed_gives_the_same_rows_in_another_process() -> None:
    program = (
        "from discreet.query.policy import read_policy; from discreet.remote.invented import invent_columns, to_rows; "
        f"print(to_rows(invent_columns(read_policy({POLICY!r}), 50, 3)))"
    )
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    assert there == repr(to_rows(invent_columns(VISITS, 50, 3)))
    assert there != repr(to_rows(invent_columns(VISITS, 50, 4)))


def test_the_salt_is_no_part_of_invented_rows() -> None:
    """Otherwise rows that everybody may see would test guesses of the owner's secret."""
    secret = replace(VISITS, salt="a secret")
    assert to_rows(invent_columns(secret, 50)) == to_rows(invent_columns(VISITS, 50))


def test_units_of_several_columns_and_of_rows() -> None:
    table = replace(VISITS, unit="(person, floor)")
    found = invent_columns(table, 600)
    pairs = Counter(zip(found["person"].to_list(), found["floor"].to_list(), strict=True))
    assert max(pairs.values()) <= VISITS.max_groups * VISITS.max_rows
    assert len(pairs) > 100
    assert len(invent_columns(Table("t", "row", {"a": VISITS.columns["pay"]}, unique=True), 10)["a"].to_list()) == 10


def count_calls(rows: int) -> int:
    """Return how many functions are called to invent rows."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        invent_columns(VISITS, rows)
    finally:
        sys.setprofile(None)
    return calls


def test_a_hundred_thousand_rows_take_little_time() -> None:
    """Work grows with the number of rows, and no faster: one second for these on a quiet machine."""
    assert count_calls(10_000) < 12 * count_calls(1_000)
    session = invent_session(VISITS, 100_000)
    by_floor = session.ask("SELECT floor, COUNT(*) AS n FROM visits GROUP BY floor", epsilon=10).to_dicts()
    assert 96_000 < sum(each["n"]["value"] for each in by_floor) < 99_000  # bounding drops none; one in fifty is NULL


def test_numbers_of_rows_have_limits() -> None:
    for rows in (0, -1, 10**9, "many"):
        with pytest.raises(BadParameter, match="rows"):
            invent_columns(VISITS, rows)  # type: ignore[arg-type]
    assert VISITS.columns["ok"].kind is Kind.BOOLEAN
