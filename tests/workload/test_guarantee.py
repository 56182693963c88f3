"""guarantee.md: every number on it bounds what an attacker can achieve, and is the number of the debit."""

import re
from collections.abc import Sequence
from fractions import Fraction
from math import exp, floor, log10
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from discreet._numbers import Bounds, format_down, format_up
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import Pure, Zcdp
from discreet.ledger import open_ledger
from discreet.mechanisms import Gaussian, Laplace
from discreet.query.schema import ROW_UNIT_NOTE
from discreet.testing import seeded_bits
from discreet.workload import WorkloadPlan, WorkloadQuery, plan_workload, publish
from discreet.workload.guarantee import format_guarantee
from discreet.workload.publishing import execute_plan
from tests.support.people import people
from tests.support.workloads import make_workload

COUNTS = WorkloadQuery(name="heads", sql="SELECT dept, COUNT(*) AS n FROM people GROUP BY dept")
REMOVED, REPLACED = (1, 0), (1, -1)
"""How the counts of two departments move if one person is removed, or is in the other one instead."""


def format_page(plan: WorkloadPlan, seed: int = 1) -> str:
    return format_guarantee(plan, execute_plan(plan, bits=seeded_bits(seed)), None)


def numbers(text: str, what: str) -> list[float]:
    """Return the numbers before some words."""
    return [float(found) for found in re.findall(rf"([0-9.e+-]+){what}", text)]


def is_rounded_up(shown: float, exact: float | Fraction) -> bool:
    """Whether a number is the least of three digits that is not below another."""
    step = 10.0 ** (floor(log10(exact)) - 2)
    digits = shown / step
    return exact <= shown < exact + step and abs(digits - round(digits)) < 1e-6


def noise_pmf(noise: Any, middle: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the distribution of a noisy count around `middle`."""
    k = np.arange(-400, 401) - middle
    if isinstance(noise, Laplace):
        a = exp(-1 / noise.scale)
        return (1 - a) / (1 + a) * a ** np.abs(k)
    assert isinstance(noise, Gaussian)
    return norm.cdf((k + 0.5) / float(noise.sigma)) - norm.cdf((k - 0.5) / float(noise.sigma))  # type: ignore[no-any-return]


def neighbour_distributions(plan: WorkloadPlan, moved: Sequence[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the distributions of two counts under two neighbours."""
    [(_, noise)] = plan.measurements[0].noises
    first = np.outer(noise_pmf(noise, 0), noise_pmf(noise, 0))
    return first, np.outer(noise_pmf(noise, moved[0]), noise_pmf(noise, moved[1]))


def max_ratio(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any]) -> float:
    """Return the largest likelihood ratio of any outcome."""
    near = (p > 1e-200) & (q > 1e-200)
    return float(max((p[near] / q[near]).max(), (q[near] / p[near]).max()))


def max_posterior(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any]) -> float:
    """Return the largest posterior after even odds, in per cent."""
    return 100 * max_ratio(p, q) / (1 + max_ratio(p, q))


def best_guess(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any]) -> float:
    """Return the probability that the best guess is right, in per cent."""
    return float(100 * np.maximum(p, q).sum() / 2)


def hockey_stick(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any], epsilon: float) -> float:
    """Return the least δ at ε."""
    return float(np.maximum(p - exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction("2.7")])
def test_an_attacker_learns_no_more_than_the_page_says(epsilon: Fraction) -> None:
    plan = plan_workload(make_workload(COUNTS, epsilon=epsilon))
    text = format_page(plan)
    [removed], [replaced] = (
        numbers(text, " times as likely with the rows of one id as without"),
        numbers(text, r"\. A reader who first"),
    )
    certain, more_certain = numbers(text, "% certain")
    for moved, most, most_certain in ((REMOVED, removed, certain), (REPLACED, replaced, more_certain)):
        p, q = neighbour_distributions(plan, moved)
        assert max_ratio(p, q) <= most <= max_ratio(p, q) * 1.02
        assert max_posterior(p, q) <= most_certain <= max_posterior(p, q) * 1.02
    p, q = neighbour_distributions(plan, REPLACED)
    assert max_ratio(p, q) > removed * 1.1  # the first bound is not about replaced rows
    assert max_posterior(p, q) > certain + 1
    assert "with other rows in their place" not in text


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction("2.7")])
def test_under_replace_the_page_compares_replaced_rows(epsilon: Fraction) -> None:
    plan = plan_workload(make_workload(COUNTS, epsilon=epsilon, neighbours="replace"))
    text = format_page(plan)
    [most] = numbers(text, " times as likely with the rows of one id as with other rows in their place")
    [certain] = numbers(text, "% certain")
    p, q = neighbour_distributions(plan, REPLACED)
    assert max_ratio(p, q) <= most <= max_ratio(p, q) * 1.02
    assert max_posterior(p, q) <= certain <= max_posterior(p, q) * 1.02
    assert "as without them" not in text
    assert "removed and one added" not in text


def test_with_a_delta_the_page_states_the_exception() -> None:
    plan = plan_workload(make_workload(COUNTS, epsilon=1, delta=Fraction(1, 10**6), currency="zcdp"))
    text, epsilon = format_page(plan), plan.cost.epsilon.upper
    assert isinstance(plan.measurements[0].noises[0][1], Gaussian)
    guessed = numbers(text, "%\\.")
    [grown] = [float(found) for found in re.findall(r"and δ is ([0-9.e-]+)\. A reader", text)]
    for moved, times, most, delta in ((REMOVED, 1, guessed[0], 1e-6), (REPLACED, 2, guessed[1], grown)):
        p, q = neighbour_distributions(plan, moved)
        assert best_guess(p, q) <= most
        assert hockey_stick(p, q, times * epsilon) <= delta
    p, q = neighbour_distributions(plan, REMOVED)
    assert max_posterior(p, q) > guessed[0] + 1  # single outcomes say more, so only a guess is bounded
    assert "% certain" not in text
    assert "except for δ" in text
    assert "and **δ = 1e-6**" in text
    assert "by no more than δ" in text
    assert grown == pytest.approx(1e-6 * (1 + exp(epsilon)), rel=0.01)
    assert "except for δ" not in format_page(plan_workload(make_workload(COUNTS, epsilon=1)))


def test_the_guarantee_of_three_units_is_stated() -> None:
    plan = plan_workload(make_workload(COUNTS, epsilon=1, delta=Fraction(1, 10**6), currency="zcdp"))
    [(epsilon, delta)] = re.findall(r"for three of them ε = ([0-9.]+) and δ = ([0-9.e-]+)\.\n", format_page(plan))
    one = plan.cost.epsilon.upper
    grown = 1e-6 * (1 + exp(one) + exp(2 * one))
    assert 3 * one <= float(epsilon) <= 3.01 * one
    assert grown <= float(delta) <= 1.01 * grown
    p, q = neighbour_distributions(plan, (3, 0))
    assert hockey_stick(p, q, float(epsilon)) <= float(delta)
    assert "for three of them ε = 3.\n" in format_page(plan_workload(make_workload(COUNTS, epsilon=1)))
    assert "guarantees nothing" in format_page(
        plan_workload(make_workload(COUNTS, epsilon=8, delta=Fraction(1, 1000), currency="zcdp"))
    )


def test_a_figure_that_is_rounded_otherwise_is_noticed() -> None:
    assert is_rounded_up(0.133, 0.13261)
    assert not any(is_rounded_up(wrong, 0.13261) for wrong in (0.132, 0.134, 0.1327, 0.13261))


@pytest.mark.parametrize("error", [20, 23, 25, 27, 31])
def test_upper_bounds_are_rounded_up(error: int) -> None:
    plan = plan_workload(make_workload(WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people", error=error)))
    text, epsilon = format_page(plan), plan.cost.epsilon.upper
    [stated], [share] = numbers(text, r"\*\*,"), numbers(text, "% of the budget")
    # the page shows three digits, as the command does, so it may exceed ε by 1%; release.json has all digits
    assert is_rounded_up(stated, epsilon)
    assert share - 1 < 100 * plan.charge / plan.cost.limit <= share == int(share)
    times, certain = numbers(text, " times as likely")[0], numbers(text, "% certain")[0]
    assert is_rounded_up(times, exp(stated))
    assert is_rounded_up(certain, 100 / (1 + exp(-stated)))
    assert f"charged as one plan, by the sum over its queries: ε = {format_up(epsilon, 3)}, " in text
    assert f"Cost: ε = {format_up(epsilon, 3)}, " in str(plan.cost)


@pytest.mark.parametrize("value", [Fraction(1, 3), 0.1, 0.13261, 12_344.9, 2e-7, Fraction(10**9 + 1), 99.96, 1.0])
@pytest.mark.parametrize("digits", [1, 3, 6])
def test_digits_are_rounded_in_the_stated_direction(value: Fraction | float, digits: int) -> None:
    up, down = (float(text.replace(",", "")) for text in (format_up(value, digits), format_down(value, digits)))
    assert down <= value <= up
    assert up - down <= 10.0 ** (1 - digits) * float(value) * 1.001
    assert format_up(up, digits) == format_up(value, digits)  # what has so few digits is unchanged


@pytest.mark.parametrize("currency", [Pure(), Zcdp()])
@pytest.mark.parametrize("thirds", range(1, 20))
def test_a_cost_is_rounded_up_and_what_remains_down(thirds: int, currency: Pure | Zcdp) -> None:
    amount, digits = Fraction(thirds, 3), Fraction(101, 100)  # three digits are within 1%
    text = str(Cost(Bounds(0.0, thirds / 7), Fraction(thirds, 3 * 10**6), currency, amount, amount, 11 * amount))
    found = re.fullmatch(
        r"Cost: ε = ([0-9.]+) at δ = ([0-9.]+e-[0-9]), 10% of the budget\. Budget: ε = ([0-9.]+) of [0-9.]+ remaining, "
        r"([0-9]+)% spent(?: \(ρ = ([0-9.]+) of [0-9.]+, zCDP\))?\.",
        text,
    )
    assert found is not None
    epsilon, delta, remaining_epsilon, percent, remaining_rho = found.groups()
    assert thirds / 7 <= float(epsilon) <= thirds / 7 * digits
    assert Fraction(thirds, 3 * 10**6) <= Fraction(delta) <= Fraction(thirds, 3 * 10**6) * digits
    assert percent == "91"  # 10/11
    remaining = Fraction(remaining_rho or remaining_epsilon)
    assert amount / digits <= remaining <= amount


def test_a_recorded_answer_is_shown_with_its_own_cost(tmp_path: Path) -> None:
    """The same noise, charged at one point of the curve and requested again at another."""
    queries = [
        WorkloadQuery(name=f"q{i}", sql=f"SELECT COUNT(*) AS n FROM people WHERE age > {i}", error=60) for i in range(12)
    ]
    source, small, large = tmp_path / "people.parquet", Fraction(1, 10**7), Fraction(1, 10**6)
    people().execute(f"COPY people TO '{source}'")
    for first, second in ((small, large), (large, small)):
        place = tmp_path / f"{first > second}.ledger"
        with open_ledger(place, create=True) as ledger:
            ledger.open_account("hr", 3, Fraction(1, 10**5), Pure())
        given: dict[str, Any] = {"source": str(source), "epsilon": 2, "ledger": place, "account": "hr"}
        plans = [plan_workload(make_workload(*queries, delta=delta, **given)) for delta in (first, second)]
        assert plans[0].event == plans[1].event
        assert plans[0].charge != plans[1].charge
        first_made, again = (publish(plan, place.with_suffix(f".{i}")) for i, plan in enumerate(plans))
        assert again.free
        pages = [(made.folder / "guarantee.md").read_text(encoding="utf-8") for made in (first_made, again)]
        assert pages[0] == pages[1]
        assert (
            (first_made.cost.amount, first_made.cost.delta)
            == (again.cost.amount, again.cost.delta)
            == (plans[0].charge, first)
        )
        assert f"δ = {format_up(first, 3)}" in pages[1]
        assert f"δ = {format_up(second, 3)}" not in pages[1]
        assert f"δ = {float(second):g}" not in pages[1]
        assert f"ε = {format_up(plans[0].charge, 3)} at δ = {format_up(first, 3)}, " in pages[1]


def test_one_figure_for_one_thing(tmp_path: Path) -> None:
    """What is not the ε of the publication, of the account so far or of three units is computed from the printed ε."""
    source = tmp_path / "people.parquet"
    people().execute(f"COPY people TO '{source}'")
    with open_ledger(tmp_path / "l", create=True) as ledger:
        ledger.open_account("hr", 3, Fraction(1, 10**6), Zcdp())
    queries = [WorkloadQuery(name=f"q{i}", sql=f"SELECT COUNT(*) AS n FROM people WHERE age > {i}") for i in range(3)]
    plan = plan_workload(make_workload(*queries, source=str(source), epsilon=1, ledger=tmp_path / "l", account="hr"))
    page = (publish(plan, tmp_path / "made").folder / "guarantee.md").read_text(encoding="utf-8")
    [one], [so_far], [three] = (
        re.findall(rf"{before}ε = ([0-9.]+)", page) for before in (r"with \*\*", "entry 2: ", "three of them ")
    )
    assert is_rounded_up(float(three), 3 * Fraction(one))
    assert set(re.findall(r"(?<!of them )(?<!entry 2: )ε = ([0-9.]+)", page)) == {one}
    assert float(so_far) >= float(one), "a sum over adaptive queries is never less"
    assert all(len(found) <= 12 for found in re.findall(r"[0-9.]+", page)), "no figure has all its digits"
    [factor] = numbers(page, " times as likely with the rows of one id as without")
    assert is_rounded_up(factor, exp(float(one)))


@pytest.mark.parametrize(("unit", "words"), [("row", "**row**"), (("id", "dept"), "**(id, dept)**"), (("id",), "**id**")])
def test_the_page_names_the_unit(unit: Any, words: str) -> None:
    text = format_page(plan_workload(make_workload(COUNTS, epsilon=1, unit=unit)))
    assert f"for each {words} as a whole" in text
    assert (ROW_UNIT_NOTE in text) == (unit == "row")


@pytest.mark.parametrize("delta", ["1e-6", "1e-5", "3e-7", "1e-9", "1.5e-8"])
def test_the_account_has_the_delta_that_was_asked_for(tmp_path: Path, delta: str) -> None:
    """No double is 1e-6. A certificate states the next one above; the page states the δ that the account was opened with."""
    source = tmp_path / "people.parquet"
    people().execute(f"COPY people TO '{source}'")
    with open_ledger(tmp_path / "l", create=True) as ledger:
        ledger.open_account("hr", 3, Fraction(delta), Zcdp())
    count = WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people")
    plan = plan_workload(make_workload(count, source=str(source), epsilon=1, ledger=tmp_path / "l", account="hr"))
    page = (publish(plan, tmp_path / "made").folder / "guarantee.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?<!and )(?<!is )δ = ([0-9.e-]+[0-9])", page)) == {delta}
    assert f"and **δ = {delta}**" in page


def test_the_page_speaks_of_clipping_only_where_values_are_clipped() -> None:
    count = WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people")
    total = WorkloadQuery(name="cost", sql="SELECT SUM(pay) AS s FROM people")
    assert "clip" not in format_page(plan_workload(make_workload(count, epsilon=1)))
    for queries in ((total,), (count, total)):
        page = format_page(plan_workload(make_workload(*queries, epsilon=1)))
        assert "## Contribution bounding and clipping" in page
        assert "error from clipping is not included" in page
