"""Series: a histogram is recognised by the names of its columns, and a long table holds every estimate once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.query import series
from discreet.query.estimates import AnswerColumn
from discreet.query.series import PALE, SOLID, draw_text_chart, has_histogram, split_series, to_long_table
from tests.support.charted_answers import ANSWERS, COUNT, bars, estimate, histogram, make_answer
from tests.support.people import session

HISTOGRAM = "SELECT dept, COUNT(*) AS n, HISTOGRAM(age, -2.5, 20, 40.25, 100000000) AS h FROM people GROUP BY dept"


def test_the_columns_of_a_real_histogram_are_one_series() -> None:
    answer = session().ask(HISTOGRAM, epsilon=1)
    n, h = split_series(answer.schema)
    assert (n.name, n.cells, n.label) == ("n", (), "n (count)")
    assert (h.name, h.first, h.label) == ("h", 1, "h (count per cell)")
    assert [tuple(cell) for cell in h.cells] == [(-2.5, 20, False), (20, 40.25, False), (40.25, 1e8, True)]
    assert [str(cell) for cell in h.cells] == ["[-2.5, 20)", "[20, 40.25)", "[40.25, 100000000]"]


@pytest.mark.parametrize(
    "names",
    [("a[1,2)", "b[2,3]"), ("a[1,2)", "a[3,4]"), ("a[1,2)",), ("a[1,2)", "n"), ("a[x,2]",), ("a[1,2]x",), ("a[1,2", "[")],
)
def test_names_that_only_look_like_cells_are_no_histogram(names: tuple[str, ...]) -> None:
    found = split_series([AnswerColumn(name, is_count=True) for name in names])
    assert [each.name for each in found if not each.cells][: len(names)] or found[-1].cells
    assert found[0].cells == () or names == ("a[1,2]",)
    assert sum(len(each.columns) for each in found) == len(names)


def test_an_average_is_no_cell() -> None:
    assert not has_histogram([AnswerColumn("a[1,2]")])
    assert has_histogram([AnswerColumn("a[1,2]", is_count=True)])


@given(st.lists(st.sampled_from(["n", "a[1,2)", "a[2,3]", "b[1,2]", "b[2,9]", "x"]), min_size=1, max_size=8))
def test_every_column_is_in_one_series(names: list[str]) -> None:
    schema = [AnswerColumn(name, is_count=True) for name in names]
    found = split_series(schema)
    assert [column for each in found for column in each.columns] == schema
    assert [each.first for each in found] == [sum(len(e.columns) for e in found[:i]) for i in range(len(found))]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_long_table_holds_every_estimate_once(name: str) -> None:
    answer = ANSWERS[name]
    header, records = to_long_table(answer.groups, answer.schema, answer.rows)
    assert len(set(header)) == len(header)
    assert all(len(record) == len(header) for record in records)
    shown = [(keys, e.value, e.lower, e.upper, e.reliable) for keys, row in answer.rows for e in row]
    assert [(record[: len(answer.groups)], *record[-4:]) for record in records] == shown


def test_the_columns_of_a_long_table() -> None:
    one = make_answer(["dept"], histogram("age", [0, 10, 20]), [(("a",), (estimate(5, 1), estimate(7, 1)))])
    header, records = to_long_table(one.groups, one.schema, one.rows)
    assert header == ("dept", "lower_edge", "upper_edge", "value", "lower", "upper", "reliable")
    assert records == [("a", 0, 10, 5, 4, 6, False), ("a", 10, 20, 7, 6, 8, False)]
    both = make_answer(["value"], [COUNT, *histogram("age", [0, 1])], [(("a",), (estimate(5, 1), estimate(7, 1)))])
    header, records = to_long_table(both.groups, both.schema, both.rows)
    assert header == ("value", "column", "lower_edge", "upper_edge", "value_", "lower", "upper", "reliable")
    assert [record[:4] for record in records] == [("a", "n", None, None), ("a", "age", 0, 1)]


def test_a_table_that_loses_a_cell_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original: Any = series._list_edges
    monkeypatch.setattr(series, "_list_edges", lambda each: list(original(each))[:31])
    with pytest.raises(AssertionError):
        test_a_long_table_holds_every_estimate_once("histogram")


# -- the chart in a terminal: one line per estimate, and safe to print -----------------------------------------------------

FINITE = sorted(ANSWERS.keys() - {"infinite ends", "huge"})


@pytest.mark.parametrize("width", [20, 80, 200])
@pytest.mark.parametrize("name", FINITE)
def test_every_estimate_has_a_line(name: str, width: int) -> None:
    answer = ANSWERS[name]
    lines = draw_text_chart(answer, width)
    headings = len({column.name.partition("[")[0] for column in answer.schema})
    assert len(lines) == headings + sum(len(row) for _, row in answer.rows)
    assert all(line.isprintable() for line in lines)
    assert sum(PALE in line for line in lines) <= sum(not each.reliable for _, row in answer.rows for each in row)


def test_lengths_follow_the_values() -> None:
    rows = [(("a",), (estimate(100, 1),)), (("b",), (estimate(50, 1),)), (("c",), (estimate(-50, 1),))]
    _, a, b, c = draw_text_chart(make_answer(["k"], [COUNT], rows), 60)
    assert a.count(SOLID) == 2 * b.count(SOLID) > 0
    assert SOLID not in c
    assert c == "c -50 ± 1"


def test_long_keys_are_shortened() -> None:
    lines = draw_text_chart(make_answer(["k"], [COUNT], bars(["x" * 200])), 80)
    assert "x…" in lines[1]
    assert len(lines[1]) <= 80
