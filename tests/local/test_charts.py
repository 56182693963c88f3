"""Charts of local privacy: their numbers are those of the library, and hostile labels stay data."""

from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import pytest

from discreet import BadParameter
from discreet.local import (
    Direct,
    Rappor,
    draw_days,
    draw_errors,
    list_days,
    one_bit_rrpm,
    plan_collection,
    simulate_recovery,
)
from discreet.local.charts import EPSILONS, find_crossing

RAPPOR = Rappor(128, 2, 64, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4), "2026")


def data(chart: Any) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = chart.spec["data"]["values"]
    return values


def test_every_value_has_its_estimate_its_interval_and_its_truth() -> None:
    found = simulate_recovery(10, 10**5, 1, seed=3)
    rows = data(found.plot())
    assert [row["truth"] for row in rows] == list(found.truth)
    assert [row["estimate"] for row in rows] == [row.value for row in found.answer.rows]
    assert sum(row["kind"] == "contains the truth" for row in rows) == found.covered
    assert len(data(found.plot(rows=4))) == 4
    assert found.plot().to_svg().startswith("<svg")


def test_a_hostile_label_is_text() -> None:
    found = simulate_recovery(3, 1000, 1, seed=3)
    label = "datum.x'] + \u202e\n<script>"
    rows = (replace(found.answer.rows[0], label=label), *found.answer.rows[1:])
    chart = type(found)(replace(found.answer, rows=rows), found.truth).plot()
    assert "\u202e" not in chart.to_json()
    assert "<script>" not in chart.to_html().partition("const spec")[2]


def test_the_errors_are_those_of_plans_and_the_crossing_is_where_the_recommendation_changes() -> None:
    chart = draw_errors(100, 10**6)
    at = next(row for row in data(chart) if row["oracle"] == "subset" and row["epsilon"] == 1)
    row = next(row for row in plan_collection(100, n=10**6, epsilon=1).rows if row.name == "subset")
    assert at["error"] == pytest.approx(row.half_width)
    crossings = {each["oracle"]: each["epsilon"] for each in chart.spec["layer"][-1]["data"]["values"]}
    assert all(f"{at:.2g} ({name})" in chart.spec["title"]["subtitle"][-1] for name, at in crossings.items())
    assert all(layer["mark"]["type"] != "text" for layer in chart.spec["layer"])
    crossing = crossings["projective"]
    names = [plan_collection(100, n=10**6, epsilon=crossing * scale).recommended.name for scale in (0.9, 1.1)]
    assert names == ["projective", "direct"]
    assert chart.to_svg().startswith("<svg")


def test_lines_that_never_cross_have_no_crossing() -> None:
    assert find_crossing([1.0] * len(EPSILONS), [2.0] * len(EPSILONS)) is None


def test_days_add_up_without_memo_and_stand_still_with_it_under_its_condition() -> None:
    rows = list_days(RAPPOR, 10, states=2)
    assert [row["fresh"] for row in rows] == [pytest.approx(day * RAPPOR.epsilon) for day in range(1, 11)]
    assert rows[0]["memoised"] == rows[0]["any"] == RAPPOR.epsilon
    assert rows[-1]["memoised"] == RAPPOR.lifetime(2).epsilon
    assert rows[-1]["any"] == RAPPOR.epsilon_of_reports(10) > rows[-1]["memoised"]
    assert list_days(one_bit_rrpm(24, 24, 1), 2)[-1]["any"] == inf


def test_what_is_infinite_is_said_and_not_drawn() -> None:
    chart = draw_days(one_bit_rrpm(24, 24, 1), 5)
    assert all(row["epsilon"] < inf for row in data(chart))
    assert "no finite ε" in chart.spec["title"]["subtitle"][-1]
    assert chart.to_svg().startswith("<svg")


def test_a_mechanism_without_memo_is_refused() -> None:
    with pytest.raises(BadParameter, match="memoises nothing"):
        list_days(Direct(3, Fraction(3)), 5)  # type: ignore[arg-type]
