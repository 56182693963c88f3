"""Views: one recorded answer serves every view of a query, rows are those that SQL selects, and the intervals of selected
rows hold as often as they say."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from discreet import col, connect, count, select
from discreet.accounting.currencies import Receipt
from discreet.errors import BadParameter, QueryRefused
from discreet.events import Composition
from discreet.ledger.keys import load_key
from discreet.query import answer as answers
from discreet.query import ast, parser, record
from discreet.query.answer import Answer, ExactTotals, IntervalOptions, release
from discreet.query.calibrate import Measurement
from discreet.query.estimates import AnswerColumn, Estimate
from discreet.query.parser import parse_sql
from discreet.query.postprocess import select_rows
from discreet.query.record import measurement_spec
from discreet.query.schema import Key
from discreet.testing import seeded_bits
from discreet.workload import WorkloadQuery, plan_workload
from discreet.workload.publishing import execute_plan, publish
from tests.support.chance import FALSE_POSITIVE, binomial_tail
from tests.support.ledger_sessions import charged_folder, open_session, read_spent
from tests.support.people import session
from tests.support.workloads import TOML, make_workload, write_plan

__all__ = ["charged_folder"]  # a fixture

COUNTS = "SELECT dept, COUNT(*) AS n FROM people GROUP BY dept"
MEANS = "SELECT dept, AVG(pay) AS mean FROM people GROUP BY dept"

# -- intervals of selected rows --------------------------------------------------------------------------------------------

GROUPS, DRAWS = 20, 1000
EQUAL_KEYS = tuple(f"k{i}" for i in range(GROUPS))


def covers_enough(held: int, draws: int, confidence: Fraction) -> bool:
    """Whether so many misses are plausible; wrong with probability at most 10⁻⁹ if the confidence is true."""
    return binomial_tail(draws - held - 1, draws, 1 - confidence) > FALSE_POSITIVE


def measure_equal_groups(aggregate: str, exact: tuple[int, ...]) -> tuple[Measurement, ExactTotals]:
    """A query over 20 groups that all have the same exact statistics: the order of their noisy values is all noise."""
    asked = session(epsilon=1000, keys={"dept": EQUAL_KEYS})
    measurement = asked.calibrate(f"SELECT dept, {aggregate} FROM people GROUP BY dept", epsilon=Fraction(1, 2))
    assert len(measurement.bounded.scalars) == len(exact)
    return measurement, ExactTotals([(exact, (key,)) for key in EQUAL_KEYS], {})


def count_top_covered(
    measurement: Measurement, exact: ExactTotals, truth: float, *, joint: bool = False, limit: int | None = 1
) -> int:
    """In how many of the draws the interval of the largest noisy value, in the first row, holds the truth."""
    bits, held = seeded_bits(21), 0
    [name] = [name for name, _ in measurement.bounded.query.aggregates]
    top = ast.View(order_by=(ast.SortKey(name, descending=True),), limit=limit)
    for _ in range(DRAWS):
        answer = release(measurement, exact, Receipt(1, measurement.event), simultaneous=joint, bits=bits).apply_view(top)
        (_, (estimate,)), *_ = answer.rows
        held += estimate.lower <= truth <= estimate.upper
        assert answer.simultaneous
    return held


FIRST_ROW = pytest.mark.parametrize("limit", [pytest.param(1, id="LIMIT 1"), pytest.param(None, id="sorted")])


@FIRST_ROW
def test_the_interval_of_the_largest_group_holds_as_often_as_it_says(
    limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurement, exact = measure_equal_groups("COUNT(*) AS n", (500,))
    assert covers_enough(count_top_covered(measurement, exact, 500, limit=limit), DRAWS, Fraction(19, 20))

    # the mutant: intervals that hold for a fixed row, presented as those of the row that was selected
    def present_as_joint(answer: Answer) -> Any:
        return answer.rows, tuple(replace(column, joint_margin=Fraction(0)) for column in answer.schema)

    monkeypatch.setattr(answers.postprocess, "widen_intervals", present_as_joint)
    assert not covers_enough(count_top_covered(measurement, exact, 500, limit=limit), DRAWS, Fraction(19, 20))


@FIRST_ROW
def test_the_interval_of_the_largest_average_holds_if_it_was_measured_jointly(limit: int | None) -> None:
    measurement, exact = measure_equal_groups("AVG(age) AS n", (0, 500))  # the centre of the range is 50
    assert covers_enough(count_top_covered(measurement, exact, 50, joint=True, limit=limit), DRAWS, Fraction(19, 20))


def test_widened_intervals_are_those_of_simultaneous_ones() -> None:
    sql = (
        "SELECT dept, COUNT(*) AS n, SUM(pay) AS cost, SUM(age) AS years, HISTOGRAM(age, 20) AS h FROM people GROUP BY dept"
    )
    whole = session().ask(sql, epsilon=1, simultaneous=True, bits=seeded_bits(3))
    each = session().ask(sql, epsilon=1, bits=seeded_bits(3))
    widened = each.having(col("n") > -(10**6))  # every row
    assert widened.rows == whole.rows
    assert widened.intervals == whole.intervals
    assert whole.having(col("n") > -(10**6)).rows == whole.rows  # there is nothing left to widen


# -- what is measured ------------------------------------------------------------------------------------------------------

VIEWS = [
    "ORDER BY n",
    "ORDER BY n DESC LIMIT 1",
    "ORDER BY 2 DESC, 1 LIMIT 2 OFFSET 1",
    "HAVING COUNT(*) > 200",
    "HAVING dept <> 'a' AND n BETWEEN 0 AND 10000 ORDER BY dept DESC NULLS FIRST",
    "ORDER BY COUNT(*)",
    "LIMIT 2",
]


def spec_of(sql: str, epsilon: Any = 1) -> dict[str, Any]:
    return measurement_spec(session().calibrate(sql, epsilon=epsilon), "people")


def is_one_measurement() -> bool:
    return all(spec_of(f"{COUNTS} {view}") == spec_of(COUNTS) for view in VIEWS)


def test_all_views_of_a_query_are_one_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_one_measurement()
    assert spec_of(f"{COUNTS} ORDER BY SUM(pay)") == spec_of(COUNTS.replace(" FROM", ", SUM(pay) FROM"))
    assert spec_of(f"{COUNTS} ORDER BY SUM(pay)") != spec_of(COUNTS)

    def with_view(query: ast.Query, unit: str) -> str:  # the mutant
        return ast.to_sql(query, unit) + ast.format_view(query.view)

    monkeypatch.setattr(record, "to_sql", with_view)
    assert not is_one_measurement()


def test_every_view_after_the_first_is_free_and_shows_the_same_numbers() -> None:
    asked = session(epsilon=1)
    whole = asked.ask(f"{COUNTS} {VIEWS[1]}", epsilon=1)
    assert "the 1 largest of 3 groups by noisy n" in whole.explanation
    values = {keys: row[0].value for keys, row in asked.ask(COUNTS, epsilon=1).rows}
    assert len(values) == 3
    for view in VIEWS:
        shown = asked.ask(f"{COUNTS} {view}", epsilon=1)
        assert {keys: row[0].value for keys, row in shown.rows}.items() <= values.items()
        assert asked.budget.remaining == 0
    assert [keys for keys, _ in asked.ask(f"{COUNTS} ORDER BY n", epsilon=1).rows] == [("c",), ("b",), ("a",)]


def test_aggregates_that_only_a_view_needs_are_quoted_paid_and_not_shown() -> None:
    asked = session(epsilon=2)
    sql = f"{COUNTS} HAVING AVG(pay) > 0 ORDER BY SUM(pay) DESC LIMIT 2"
    quote, shown = asked.quote(sql, epsilon=1), parse_sql(sql, asked.table)
    assert [column.column for column in quote.columns] == ["n", "sum(pay)", "avg(pay)"]
    assert any("not shown: sum(pay), avg(pay)" in note for note in quote.notes)
    assert quote.event == asked.quote(replace(shown, view=ast.WHOLE_ANSWER), epsilon=1).event
    answer = asked.ask(sql, epsilon=1)
    assert answer.columns == ("n",)
    assert [keys for keys, _ in answer.rows] == [("a",), ("b",)]
    assert asked.ask(replace(shown, view=ast.WHOLE_ANSWER), epsilon=1).columns == ("n", "sum(pay)", "avg(pay)")
    assert asked.budget.remaining == 1


@pytest.mark.parametrize("cut", [" LIMIT 1", ""])
def test_intervals_that_cannot_be_widened_are_measured_jointly_or_said_to_be_conditional(cut: str) -> None:
    first, second = session(), session()
    assert any("come first" in note for note in first.quote(f"{MEANS} ORDER BY mean{cut}", epsilon=1).notes)
    jointly = first.ask(f"{MEANS} ORDER BY mean{cut}", epsilon=1)
    assert jointly.simultaneous
    assert "hold together over all rows of the whole answer" in jointly.explanation
    assert first.ask(MEANS, epsilon=1).simultaneous  # a recorded answer may promise more than is asked
    second.ask(MEANS, epsilon=1)
    after = second.ask(f"{MEANS} ORDER BY mean{cut}", epsilon=1)
    assert not after.simultaneous
    assert "the intervals of mean are conditional" in after.explanation
    assert "the intervals of mean are conditional" in " ".join(after.plot().spec["title"]["subtitle"])
    assert second.budget.remaining == 9
    assert "conditional" not in second.ask(f"{MEANS} ORDER BY dept{cut}", epsilon=1).explanation  # keys are not noisy
    with pytest.raises(BadParameter, match="simultaneous is True: this query was answered before, with False"):
        second.ask(f"{MEANS} ORDER BY mean{cut}", epsilon=1, simultaneous=True)


def test_an_answer_of_one_row_has_no_first_row() -> None:
    answer = session().ask("SELECT COUNT(*) AS n, AVG(pay) AS mean FROM people ORDER BY n", epsilon=1)
    assert not answer.simultaneous
    assert "come first" not in answer.explanation


def test_a_view_after_a_view_keeps_its_order_also_by_columns_that_are_hidden() -> None:
    asked = session()
    for order in ("SUM(pay)", "SUM(pay) DESC", "SUM(pay) DESC, dept", "dept DESC"):
        whole = asked.ask(f"{COUNTS} ORDER BY {order}", epsilon=1)
        for rows in (1, 2):
            cut = asked.ask(f"{COUNTS} ORDER BY {order} LIMIT {rows}", epsilon=1)
            assert whole.limit(rows).rows == cut.rows == whole.rows[:rows]
            assert whole.limit(rows).view == cut.view
        assert whole.explanation.count(answers.JOINT_NOTE) == whole.limit(1).explanation.count(answers.JOINT_NOTE) <= 1
        assert [keys for keys, _ in whole.having(col("n") > -(10**6)).limit(1).rows] == [whole.rows[0][0]]
        by_count = [keys for keys, _ in asked.ask(f"{COUNTS} ORDER BY n, {order}", epsilon=1).rows]
        assert [keys for keys, _ in whole.order_by("n").limit(2).rows] == by_count[:2]
    assert (
        "the 1 smallest of 3 groups by noisy sum(pay)"
        in asked.ask(f"{COUNTS} ORDER BY SUM(pay)", epsilon=1).limit(1).explanation
    )


def test_a_ledger_records_and_certifies_the_whole_answer(charged_folder: Path) -> None:
    asked, key = open_session(charged_folder, "pure"), load_key(charged_folder / "hr.ledger.key")
    top = asked.ask(f"{COUNTS} ORDER BY n DESC LIMIT 1", epsilon=1)
    assert [keys for keys, _ in top.rows] == [("a",)]
    certificate = asked.certify(top, key)
    assert len(certificate["release"]["rows"]) == 3
    assert "ORDER" not in certificate["measurement"]["question"]
    assert asked.certify(asked.ask(COUNTS, epsilon=1), key)["release"] == certificate["release"]
    assert read_spent(charged_folder, "pure") == 1


def test_a_publication_shows_views_and_records_whole_answers(tmp_path: Path) -> None:
    top = WorkloadQuery(name="top", sql=f"{COUNTS} ORDER BY n DESC LIMIT 2", error=20)
    means = WorkloadQuery(name="means", sql=f"{MEANS} HAVING COUNT(*) > 200 ORDER BY mean")
    found = execute_plan(plan_workload(make_workload(top, means)), bits=seeded_bits(4))
    assert [keys for keys, _ in found.answers[0].rows] == [("a",), ("b",)]
    assert {keys for keys, _ in found.answers[1].rows} == {("a",), ("b",)}
    assert found.answers[1].simultaneous
    assert [len(each["rows"]) for each in found.reference.record["answers"]] == [3, 3]
    text = TOML.replace('GROUP BY dept"\nerror', 'GROUP BY dept ORDER BY n DESC LIMIT 2"\nerror')
    published = publish(write_plan(tmp_path, text), tmp_path / "folder")
    assert [line.partition(",")[0] for line in (published.folder / "heads.csv").read_text().splitlines()] == [
        "dept",
        "a",
        "b",
    ]
    page = (published.folder / "guarantee.md").read_text()
    assert "ORDER BY n DESC LIMIT 2" in page
    assert "`heads`: Shown: the 2 largest of 3 groups by noisy n" in page


# -- which rows ------------------------------------------------------------------------------------------------------------


def random_answer(rng: Random) -> Answer:
    """An answer with ties, NULL keys, texts, whole and broken numbers."""
    keys: list[Key] = [None, "a", "b", "ä", "Z", "z", "日", ""]
    places = [(text, number) for text in keys for number in (None, 1, 2, 3)]
    rows = tuple(
        (pair, (make_estimate(rng.randint(-2, 3)), make_estimate(rng.choice([0.5, -1.25, 2.0, 3.0]))))
        for pair in rng.sample(places, rng.randint(0, len(places)))
    )
    schema = AnswerColumn("n", joint_margin=Fraction(0)), AnswerColumn("m", joint_margin=Fraction(0))
    return Answer(("t", "k"), schema, rows, IntervalOptions(), Composition(()), "", tainted=True)


def make_estimate(value: float) -> Estimate:
    return Estimate(value, value - 1, value + 1, reliable=True)


COLUMNS = ("t", "k", "n", "m")


def random_condition(rng: Random, depth: int) -> ast.Condition:
    if depth and rng.random() < 0.5:
        parts = tuple(random_condition(rng, depth - 1) for _ in range(2))
        return rng.choice([ast.All(parts), ast.Any(parts), ast.Not(parts[0])])
    name = rng.choice(COLUMNS)
    constants = (
        [ast.Constant("a"), ast.Constant("Z")] if name == "t" else [ast.Number(Fraction(1)), ast.Number(Fraction(1, 2))]
    )
    if rng.random() < 0.2:
        return rng.choice([ast.Missing(ast.Ref(name)), ast.OneOf(ast.Ref(name), tuple(constants))])
    other = ast.Ref(name if name == "t" else rng.choice(("k", "n", "m")))
    return ast.Compare(rng.choice(list(ast.Order)), ast.Ref(name), rng.choice([*constants, other]))


def random_view(rng: Random) -> ast.View:
    flags = (rng.random() < 0.5, rng.random() < 0.5)
    keys = tuple(ast.SortKey(name, *flags) for name in rng.sample(COLUMNS, rng.randint(0, 3)))
    limit = rng.choice([None, 1, 3, 100])
    return ast.View(random_condition(rng, 2) if rng.random() < 0.6 else None, keys, limit, rng.choice([0, 0, 1, 5]))


def select_by_duckdb(answer: Answer, view: ast.View) -> tuple[int, ...]:
    """The places of the rows that an engine selects of the same noisy numbers; ties stay in their order."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE a (t VARCHAR, k INTEGER, n INTEGER, m DOUBLE, place INTEGER)")
    rows = [[*keys, *(each.value for each in row), place] for place, (keys, row) in enumerate(answer.rows)]
    if rows:
        marks = ", ".join(["(?, ?, ?, ?, ?)"] * len(rows))
        connection.execute(f"INSERT INTO a VALUES {marks}", [value for row in rows for value in row])
    where = ast.format_view(ast.View(view.having)).replace("HAVING", "WHERE")
    order = [
        f"{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in view.order_by
    ]
    limit = ast.format_view(ast.View(limit=view.limit, offset=view.offset))
    found = connection.execute(f"SELECT place FROM a {where} ORDER BY {', '.join((*order, 'place'))} {limit}").fetchall()
    return tuple(place for (place,) in found)


Selecting = Callable[[Answer, ast.View], tuple[int, ...]]


def select_by_view(answer: Answer, view: ast.View) -> tuple[int, ...]:
    return select_rows(answer.groups, answer.columns, answer.rows, view, keys_selected=False).places


@cache
def list_cases() -> list[tuple[Answer, ast.View, tuple[int, ...]]]:
    """Random answers and views, with the places that DuckDB selects."""
    cases = [(random_answer(rng), random_view(rng)) for rng in (Random(seed) for seed in range(100))]
    return [(answer, view, select_by_duckdb(answer, view)) for answer, view in cases]


def agrees_with_duckdb(selecting: Selecting) -> bool:
    return all(selecting(answer, view) == expected for answer, view, expected in list_cases())


def without_nulls_first(answer: Answer, view: ast.View) -> tuple[int, ...]:
    return select_by_view(answer, replace(view, order_by=tuple(replace(key, nulls_first=False) for key in view.order_by)))


def unknown_as_false(answer: Answer, view: ast.View) -> tuple[int, ...]:
    having = view.having
    inner = having.part if isinstance(having, ast.Not) else None
    if inner is None:
        return select_by_view(answer, view)
    held = set(select_by_view(answer, ast.View(inner)))
    return tuple(place for place in select_by_view(answer, replace(view, having=None)) if place not in held)


def first_key_only(answer: Answer, view: ast.View) -> tuple[int, ...]:
    return select_by_view(answer, replace(view, order_by=view.order_by[:1]))


def test_rows_are_those_that_sql_selects() -> None:
    assert agrees_with_duckdb(select_by_view)
    for mutant in (without_nulls_first, unknown_as_false, first_key_only):
        assert not agrees_with_duckdb(mutant), mutant


def test_steps_on_an_answer_are_the_clauses_of_a_query() -> None:
    asked = session()
    whole = asked.ask(COUNTS, epsilon=1)
    steps = whole.having(col("n") > 200).order_by("n", descending=True).limit(1)
    assert steps.rows == asked.ask(f"{COUNTS} HAVING n > 200 ORDER BY n DESC LIMIT 1", epsilon=1).rows
    assert steps.simultaneous
    assert not whole.order_by("dept").limit(1).simultaneous
    assert whole.limit(2, offset=1).rows == whole.rows[1:]
    for wrong in (lambda: whole.limit(0), lambda: whole.order_by("pay"), lambda: whole.having(col("dept") > 3)):
        with pytest.raises(BadParameter):
            wrong()


# -- how it is asked -------------------------------------------------------------------------------------------------------

SAME = [
    ("ORDER BY n DESC LIMIT 3", lambda s: s.order_by("n", descending=True).limit(3)),
    ("ORDER BY COUNT(*) LIMIT 1 OFFSET 2", lambda s: s.order_by("n").limit(1, offset=2)),
    ("ORDER BY 2, dept DESC NULLS FIRST", lambda s: s.order_by("n").order_by("dept", descending=True, nulls_first=True)),
    ("HAVING n > 100 AND dept = 'a'", lambda s: s.having(col("n") > 100, col("dept") == "a")),
    ("HAVING 100 < COUNT(*)", lambda s: s.having(col("n") > 100)),
    ("HAVING N BETWEEN 1.5 AND 9", lambda s: s.having(col("n").between(1.5, 9))),
    ("HAVING NOT (people.dept IN ('a', 'b'))", lambda s: s.having(~col("dept").is_in(["a", "b"]))),
    ("HAVING dept IS NULL OR n <> 3", lambda s: s.having(col("dept").is_null() | (col("n") != 3))),
]


@pytest.mark.parametrize(("clauses", "build"), SAME, ids=[clauses for clauses, _ in SAME])
def test_sql_and_python_say_the_same(clauses: str, build: Callable[[Any], Any]) -> None:
    table = session().table
    built = build(select(n=count()).group_by("dept")).to_query(table)
    assert parse_sql(f"{COUNTS} {clauses}", table) == built
    written = f"SELECT dept, COUNT(*) AS n FROM people GROUP BY dept{ast.format_view(built.view)}"
    assert parse_sql(written, table) == built


def test_an_alias_a_bin_and_a_hidden_aggregate_are_found() -> None:
    table = session().table
    bins = "SELECT age // 10 AS decade, COUNT(*) AS n FROM people GROUP BY age // 10"
    query = parse_sql(f"{bins} HAVING age // 10 > 2 ORDER BY decade, SUM(pay)", table)
    assert query.view.order_by == (ast.SortKey("decade"), ast.SortKey("sum(pay)"))
    assert query.view.having == ast.Compare(ast.Order.MORE, ast.Ref("decade"), ast.Number(Fraction(2)))
    assert query.view.hidden == ("sum(pay)",)
    cells = parse_sql('SELECT dept, HISTOGRAM(age, 0, 50, 100) AS h FROM people GROUP BY dept ORDER BY "h[0,50)"', table)
    assert session().ask(cells, epsilon=1).columns == ("h[0,50)", "h[50,100]")
    hidden = (
        select(n=count())
        .group_by("dept")
        .order_by("total", total=col("pay").sum())
        .having(col("m") > 0, m=col("age").mean())
    )
    assert session().ask(hidden, epsilon=1).columns == ("n",)


WRONG: list[tuple[Any, str]] = [
    (f"{COUNTS} ORDER BY pay", "ORDER BY names `pay`, which is no column of the answer"),
    (f"{COUNTS} ORDER BY 3", "`3` is not the place of a column in SELECT"),
    (f"{COUNTS} ORDER BY RANDOM()", "ORDER BY names `RANDOM`"),
    (f"{COUNTS} LIMIT 0", "LIMIT takes an integer"),
    (f"{COUNTS} LIMIT 2.5", "LIMIT takes an integer"),
    (f"{COUNTS} LIMIT 10%", "PERCENT or WITH TIES is not supported"),
    (f"{COUNTS} FETCH FIRST 3 ROWS ONLY", "Write LIMIT 3"),
    (f"{COUNTS} HAVING n + 1 > 3", "HAVING takes comparisons of columns"),
    (f"{COUNTS} HAVING dept > 3", "holds text values"),
    (f"{COUNTS} HAVING pay > 3", "HAVING names `pay`"),
    (f"{COUNTS} HAVING COUNT(*) > (SELECT 3)", "not supported"),
    ("SELECT dept, HISTOGRAM(age, 50) AS h FROM people GROUP BY dept ORDER BY h", "`h` is a histogram"),
    (select(n=count()).group_by("dept").order_by("m"), "ORDER BY names `m`, which is no column"),
    (select(n=count()).group_by("dept").having(col("m") > 1), "HAVING names `m`, which is no column"),
    (select(n=count()).group_by("dept").having(col("dept") > 1), "with another kind"),
    (select(n=count()).group_by("dept").having(col("n") + 1 > 1), "HAVING takes comparisons"),
    (select().group_by("dept").order_by("n", n=count()), "Show at least one aggregate"),
]


@pytest.mark.parametrize(("query", "message"), WRONG, ids=[str(query)[-40:] for query, _ in WRONG])
def test_a_view_that_makes_no_sense_is_refused_before_it_is_charged(query: Any, message: str) -> None:
    asked = session(epsilon=1)
    with pytest.raises(QueryRefused, match=message):
        asked.ask(query, epsilon=1)
    assert asked.budget.remaining == 1


def test_a_pilot_and_discovered_bounds_know_nothing_of_a_view() -> None:
    top = "ORDER BY mean DESC LIMIT 1"
    asked = session()
    found = asked.ask(f"{MEANS} {top}", error="10%", pilot=1)
    assert len(found) == 1
    spent = asked.budget.remaining
    assert len(asked.ask(MEANS, error="10%", pilot=1)) == 3
    assert asked.budget.remaining == spent
    auto = session(bounds={"pay": "auto"})
    assert len(auto.ask(f"{MEANS} {top}", epsilon=4)) == 1
    assert len(auto.ask(MEANS, epsilon=4)) == 3
    assert auto.budget.remaining == 6


def test_undeclared_keys_are_counted_as_those_that_were_paid_for() -> None:
    asked = connect(
        session().engine.connection,
        table="people",
        unit="id",
        epsilon=4,
        delta=1e-6,
        unique=True,  # type: ignore[attr-defined]
    )
    top = asked.ask(f"{COUNTS} ORDER BY n DESC LIMIT 1", epsilon=4)
    assert "the 1 largest of 3 keys that partition selection shows by noisy n" in top.explanation


def test_an_answer_that_is_too_wide_is_refused_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are compared with each other, so a reader that took all of them first would be slow."""
    table, read = session().table, [0]
    read_aggregate = parser._Reader.read_aggregate

    def count_calls(reader: Any, node: Any) -> Any:
        read[0] += 1
        return read_aggregate(reader, node)

    monkeypatch.setattr(parser._Reader, "read_aggregate", count_calls)
    sums = [f"SUM(pay + {i})" for i in range(450)]
    shown = ", ".join(f"{each} AS s{i}" for i, each in enumerate(sums))
    for sql in (
        f"{COUNTS} HAVING {' AND '.join(f'{each} > 0' for each in sums)}",
        f"{COUNTS} ORDER BY {', '.join(sums)}",
        f"SELECT {shown} FROM people",
    ):
        read[0] = 0
        with pytest.raises(QueryRefused, match="more than 300 columns"):
            parse_sql(sql, table)
        assert read[0] <= 301
