"""`plan`: warnings with their reasons, refusals with a hint, infeasible mechanisms, and the textbooks' examples."""

from math import log
from typing import Any

import pytest

from discreet import BadParameter, Count, Histogram, Mean, Neighbours, Proportion, Sum, plan
from discreet.mechanisms.textbook_accuracy import laplace_expected_max, laplace_sample_size, response_sample_size
from discreet.planner import PlannerQuery


def list_warnings(query: PlannerQuery, **parameters: Any) -> str:
    return " ".join(plan(query, **parameters).warnings)


def test_an_epsilon_below_one_over_n_is_warned_of() -> None:
    assert "below 1/n" in list_warnings(Proportion(), epsilon=0.0009, n=1000)
    assert "below 1/n" not in list_warnings(Proportion(), epsilon=0.0011, n=1000)


def test_a_delta_of_one_over_n_is_warned_of_whatever_wins() -> None:
    found = plan(Proportion(), epsilon=1, delta=0.001, n=1000)
    assert found.winner.mechanism == "Laplace"
    assert "in clear" in " ".join(found.warnings)
    assert not plan(Proportion(), epsilon=1, delta=1e-6, n=1000).warnings


def test_an_epsilon_above_ten_is_warned_of() -> None:
    assert "22,248 times as likely" in list_warnings(Count(), epsilon=10.01)
    assert "4.9e+08" not in list_warnings(Count(), epsilon=10)
    assert "next to nothing" in list_warnings(Count(), epsilon=20)


def test_noise_as_large_as_the_answer_is_warned_of() -> None:
    assert "says nothing" in list_warnings(Proportion(), epsilon=0.01, n=100)


@pytest.mark.parametrize(
    ("query", "parameters", "message"),
    [
        (Count(), {}, "two of accuracy, ε and n"),
        (Count(), {"n": 5}, "two of accuracy, ε and n"),
        (Proportion(), {"error": 0.1, "epsilon": 1, "n": 5}, "Omit one of the three"),
        (Proportion(), {"error": 0.1}, "depends on it"),
        (Mean(0, 1), {"epsilon": 1}, "Give n"),
        (Count(), {"error": "5%"}, "Give n"),
        (Count(), {"error": 2, "epsilon": 1}, "± 3 at this ε, and this error costs ε = 1.137"),
        (Sum(0, 10), {"error": "5%", "epsilon": 1, "size": 100}, "the same for any n"),
        (Count(), {"error": 2, "size": 100}, "not relative"),
        (Count(), {"error": 2, "rmse": 2}, "one of the two"),
        (Count(), {"error": 0}, "positive"),
        (Count(), {"error": "lots"}, "not an error"),
        (Count(), {"epsilon": 0}, "positive"),
        (Count(), {"epsilon": 1, "n": 0}, "at least 1"),
        (Count(), {"epsilon": 1, "queries": 0}, "at least 1"),
        (Count(), {"epsilon": 1, "delta": 1}, "below 1"),
        (Count(), {"epsilon": 1, "delta": -0.1}, "at least 0"),
        (Count(), {"epsilon": 1, "confidence": 1}, "confidence"),
        (Mean(0, 1), {"epsilon": 1, "n": 5, "neighbours": Neighbours.ADD_REMOVE}, "a sum and a count"),
        (Count(), {"error": 1, "queries": 2000}, "At ε = 10 Laplace reaches 2,114"),
        (Proportion(), {"error": 1e-6, "n": 10, "queries": 2000}, "people are enough at ε = 10"),
        (Proportion(), {"error": 1e-15, "epsilon": 1e-3}, "no n up to 10^15"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_a_hint(
    query: PlannerQuery, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadParameter, match=r"\. \S") as refused:
        plan(query, **parameters)
    assert message in str(refused.value)


def test_an_infeasible_mechanism_is_listed_with_the_reason() -> None:
    found = plan(Mean(0, 100), error=2, n=1000)
    assert dict(found.infeasible) == {
        "Gaussian noise": "it needs a δ above 0",
        "randomised response": "its error is 3.201 even at ε = 1024",
    }
    assert dict(plan(Count(), epsilon=1).infeasible)["randomised response"].endswith("which is not given")


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        (Proportion(), {"epsilon": 4, "n": 1000}),
        (Mean(0, 1, whole=True), {"epsilon": 4, "n": 100}),
        (Sum(0, 5, whole=True), {"error": 0.5, "delta": 1e-6}),
    ],
    ids=str,
)
def test_an_error_of_zero_is_a_plan_like_any_other(query: PlannerQuery, parameters: dict[str, Any]) -> None:
    found = plan(query, **parameters)
    assert found.half_width == 0
    assert "± 0" in str(found) or "18.32" in str(found)
    assert not [crossing for crossing in found.crossovers if crossing.quantity == "n"]
    assert "Laplace" in found._repr_html_()


# -- the textbooks' examples ------------------------------------------------------------------------------------------------


def test_sample_sizes_are_those_of_the_texts_but_for_the_lattice() -> None:
    for alpha, epsilon in ((0.01, 0.1), (0.001, 0.5), (0.02, 0.05)):
        rows = {row.mechanism: row.n for row in plan(Proportion(), rmse=alpha, epsilon=epsilon).rows}
        central, local = laplace_sample_size(alpha, epsilon), response_sample_size(alpha, epsilon)
        assert rows["Laplace"] == pytest.approx(central, rel=0.02)
        assert rows["randomised response"] == pytest.approx(local, rel=1e-3)


def test_half_the_error_needs_twice_the_people_centrally_and_four_times_as_many_locally() -> None:
    once, twice = (plan(Proportion(), rmse=alpha, epsilon=0.1) for alpha in (0.002, 0.001))
    growth = {a.mechanism: (b.n or 0) / (a.n or 1) for a, b in zip(once.rows, twice.rows, strict=True)}
    assert growth["Laplace"] == pytest.approx(2, rel=1e-3)
    assert growth["randomised response"] == pytest.approx(4, rel=1e-3)


def test_the_3143_counties_and_the_10000_names() -> None:
    counties = plan(Histogram(3143), epsilon=0.1, neighbours=Neighbours.REPLACE).winner
    assert counties.scale == 20
    assert counties.textbook == pytest.approx(20 * log(3143 / 0.05))
    assert laplace_expected_max(20, 3143) == pytest.approx(181.06, abs=0.005)
    names = plan(Histogram(10_000), epsilon=1).winner
    assert names.textbook == pytest.approx(12.206, abs=5e-4)
    assert names.half_width == 12  # an integer, exact where the textbook has a bound
