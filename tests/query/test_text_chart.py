"""The chart in a terminal: one line per estimate, as long as its value, and safe to print."""

import pytest

from discreet.query.text_chart import PALE, SOLID, draw_text_chart
from tests.support.charted_answers import ANSWERS, COUNT, bars, estimate, make_answer

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
