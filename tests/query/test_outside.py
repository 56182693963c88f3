"""Every way to group by a computed value says where clipped values are, in quote, answer and chart; histograms say what they
leave out. What is said is compared with what the engine counts."""

from datetime import date, timedelta

import pandas as pd
import pytest

from discreet import connect
from discreet.query.builder import col, count, select
from discreet.session.session import Session

LOW, HIGH = "2019-01-01", "2020-12-31"
AGES = [5, 5, 5, 5, 25, 35, 45, 95, 95]
GROUPED = {
    "age // 10": ("age", "[20, 49]", "the first and last group"),
    "ROUND(age, -1)": ("age", "[20, 49]", "the first and last group"),
    "(age + 1) // 10": ("age", "[20, 49]", "the groups that these bounds fall into"),
    "YEAR(day)": ("day", "[2019-01-01, 2020-12-31]", "the first and last group"),
    "MONTH(day)": ("day", "[2019-01-01, 2020-12-31]", "the groups that these bounds fall into"),
    "DATE_TRUNC('quarter', day)": ("day", "[2019-01-01, 2020-12-31]", "the first and last group"),
}


def open_people(**options: object) -> Session:
    days = [date(2018, 1, 1) + timedelta(days=170 * i) for i in range(len(AGES))]
    rows = pd.DataFrame({"id": range(len(AGES)), "age": AGES, "day": days, "sex": ["f", "m", "f"] * 3})
    bounds = {"age": (20, 49), "day": (LOW, HIGH)}
    return connect(rows, name="people", unit="id", unique=True, epsilon=10**4, bounds=bounds, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", GROUPED)
def test_a_clipped_group_is_named_in_quote_answer_and_chart(value: str) -> None:
    name, bounds, ends = GROUPED[value]
    said = f"`{name}` is clipped to {bounds}: {ends} also hold what lies outside. Filter with WHERE to leave it out."
    session, query = open_people(), f"SELECT {value} AS part, COUNT(*) AS n FROM people GROUP BY {value}"
    assert said in session.quote(query, epsilon=100).explanation
    answer = session.ask(query, epsilon=100)
    assert said in answer.explanation
    assert said in answer.plot().spec["description"]
    assert said in session.ask(query, epsilon=100).plot().spec["description"]  # recorded, and read again


def test_what_is_said_of_bins_is_what_is_counted() -> None:
    session = open_people()
    counts = session.ask("SELECT age // 10 AS part, COUNT(*) AS n FROM people GROUP BY age // 10", epsilon=1000).to_dicts()
    assert [round(row["n"]["value"]) for row in counts] == [5, 1, 3]
    inside = "SELECT age // 10 AS part, COUNT(*) AS n FROM people WHERE age BETWEEN 20 AND 49 GROUP BY age // 10"
    assert [round(row["n"]["value"]) for row in session.ask(inside, epsilon=1000).to_dicts()] == [1, 1, 1]


def test_a_histogram_names_the_range_that_it_counts() -> None:
    session = open_people()
    answer = session.ask("SELECT HISTOGRAM(age, 20, 30, 49) AS h FROM people", epsilon=1000)
    assert "A histogram of `age` counts what lies in [20, 49]; other rows are in no cell." in answer.explanation
    assert "in no cell" in answer.plot().spec["description"]
    assert [round(cell.value) for _, row in answer.rows for cell in row] == [1, 2]


def test_keys_that_are_chosen_are_not_the_first_and_last_group() -> None:
    query = select(n=count()).group_by(part=col("age") // 10, keys={"part": [2, 3]})
    assert "the groups that these bounds fall into also hold" in open_people().quote(query, epsilon=1).explanation


def test_two_groups_of_one_column_are_explained_once() -> None:
    query = "SELECT COUNT(*) AS n FROM people GROUP BY age // 10, age // 20"
    assert open_people().quote(query, epsilon=1).explanation.count("`age` is clipped") == 1


def test_a_column_that_has_bounds_and_is_grouped_by_its_values_is_not_clipped() -> None:
    answer = open_people(keys={"age": (5, 25)}).ask("SELECT age, COUNT(*) AS n FROM people GROUP BY age", epsilon=1000)
    assert answer.outside_note == ""
    assert [round(row["n"]["value"]) for row in answer.to_dicts()] == [4, 1]


def test_a_column_without_bounds_is_not_clipped() -> None:
    rows = pd.DataFrame({"id": range(3), "day": [date(2020, 1, 1 + i) for i in range(3)]})
    session = connect(rows, name="people", unit="id", unique=True, epsilon=10)
    query = "SELECT MONTH(day) AS part, COUNT(*) AS n FROM people GROUP BY MONTH(day)"
    assert "clipped to" not in session.quote(query, epsilon=1).explanation


def test_a_plain_column_is_not_clipped_and_nothing_is_said() -> None:
    answer = open_people(keys={"sex": ("f", "m")}).ask("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", epsilon=10)
    assert "outside" not in answer.explanation
    assert answer.outside_note == ""
