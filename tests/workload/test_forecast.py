"""The forecast of a plan: half-widths at three budgets, and which estimates would be reliable."""

from collections.abc import Callable
from fractions import Fraction

import pytest

from discreet.workload import WorkloadQuery, plan_workload
from discreet.workload.forecast import forecast_budgets
from tests.support.people import COUNTS
from tests.support.workloads import make_workload


def test_three_budgets_have_a_forecast() -> None:
    plan = plan_workload(make_workload(delta=Fraction(1, 10**6)))
    half, same, double = forecast_budgets(plan)
    assert [float(each.share) for each in (half, same, double)] == [0.5, 1, 2]
    assert half.epsilon == pytest.approx(same.epsilon / 2, rel=1e-3)
    for low, middle, high in zip(half.columns, same.columns, double.columns, strict=True):
        assert low.half_width >= middle.half_width >= high.half_width
        assert (low.reliable or 0) <= (middle.reliable or 0) <= (high.reliable or 0) <= (high.cells or 0)
    heads = same.columns[0]
    predicted = plan.measurements[0].predict("n", 0.95, (1,)).half_widths[0][1]
    assert heads.half_width == predicted == 20
    assert heads.reliable == sum(predicted <= size / 10 for size in COUNTS.values()) == 2


@pytest.mark.parametrize(
    ("sql", "tenth"),
    [
        ("SUM(pay)", lambda n: n * 100 / 10),
        ("AVG(pay)", lambda n: 100 / 10),
        ("VARIANCE(pay)", lambda n: 200**2 / 12 / 10),
        ("STDDEV(pay)", lambda n: (200**2 / 12) ** 0.5 / 10),
        ("COUNT(*)", lambda n: n / 10),
    ],
)
def test_an_estimate_is_reliable_up_to_a_tenth_of_its_expected_value(sql: str, tenth: Callable[[int], float]) -> None:
    """Values spread evenly over 0 to 200: a mean of 100, a variance of 200²/12; one size is enough, another is not."""
    sizes = [2, 3, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 10**6]
    queries = [
        WorkloadQuery(name=f"q{i}", sql=f"SELECT dept, {sql} AS x FROM people GROUP BY dept", size=tuple(sizes[i : i + 3]))
        for i in range(0, len(sizes) - 2, 3)
    ]
    reliable = 0
    for each in queries:
        plan = plan_workload(make_workload(each, epsilon=2))
        [row] = forecast_budgets(plan)[1].columns
        halves = {n: plan.measurements[0].predict("x", 0.95, (n,)).half_widths[0][1] for n in each.sizes}
        assert row.reliable == sum(half <= tenth(n) for n, half in halves.items())
        reliable += row.reliable or 0
    assert 0 < reliable < len(sizes)


def test_an_average_is_not_reliable_where_its_count_is_not() -> None:
    """Between 190 and 200 every average is within a tenth of every other; so the count of rows decides."""
    sizes = (5, 20, 10**6)
    for sql in ("AVG(pay)", "MEDIAN(pay)"):
        query = WorkloadQuery(name="q", sql=f"SELECT dept, {sql} AS x FROM people GROUP BY dept", size=sizes)
        plan = plan_workload(make_workload(query, epsilon=2, bounds={"pay": (190, 200)}))
        count_error = (
            plan.bounded_queries[0].query.aggregates[0][1].row_count_error(plan.measurements[0].statistic_noise(0.95))
        )
        assert count_error is not None
        [row] = forecast_budgets(plan)[1].columns
        assert row.reliable == sum(n >= 10 * count_error for n in sizes) < len(sizes)
