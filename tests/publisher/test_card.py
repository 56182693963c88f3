"""guarantee.md: every number on it bounds what an attacker really gets, and is the number of the debit that was made."""

import re
from collections.abc import Sequence
from fractions import Fraction
from math import exp
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
from discreet.testing import seeded_bits
from discreet.workload import WorkloadPlan, WorkloadQuery, plan_workload, publish
from discreet.workload.execution import execute_plan
from discreet.workload.guarantee import format_guarantee
from tests.publisher.plans import workload
from tests.support.people import people

COUNTS = WorkloadQuery(name="heads", sql="SELECT dept, COUNT(*) AS n FROM people GROUP BY dept")
TAKES_PART, CHANGED = (1, 0), (1, -1)
"""How the counts of two departments move if somebody leaves, or is in the other one instead."""


def said(plan: WorkloadPlan, seed: int = 1) -> str:
    return format_guarantee(plan, execute_plan(plan, bits=seeded_bits(seed)), None)


def numbers(text: str, what: str) -> list[float]:
    """The numbers that stand before some words."""
    return [float(found) for found in re.findall(rf"([0-9.e+-]+){what}", text)]


def law(noise: Any, middle: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The probabilities of what is released for a true count of 0 or so."""
    k = np.arange(-400, 401) - middle
    if isinstance(noise, Laplace):
        a = exp(-1 / noise.scale)
        return (1 - a) / (1 + a) * a ** np.abs(k)
    assert isinstance(noise, Gaussian)
    return norm.cdf((k + 0.5) / float(noise.sigma)) - norm.cdf((k - 0.5) / float(noise.sigma))  # type: ignore[no-any-return]


def attack(plan: WorkloadPlan, moved: Sequence[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What the tables are like in the two worlds that an attacker wants to tell apart, cell by cell."""
    [(_, noise)] = plan.measurements[0].noises
    worlds = [np.outer(law(noise, 0), law(noise, 0)), np.outer(law(noise, moved[0]), law(noise, moved[1]))]
    return worlds[0], worlds[1]


def odds(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any]) -> float:
    """How many times as likely the most telling table is."""
    near = (p > 1e-200) & (q > 1e-200)
    return float(max((p[near] / q[near]).max(), (q[near] / p[near]).max()))


def surest(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any]) -> float:
    """How sure the most telling table makes somebody who was fifty-fifty, in per cent."""
    return 100 * odds(p, q) / (1 + odds(p, q))


def right(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any]) -> float:
    """How often the best guess is right, in per cent."""
    return float(100 * np.maximum(p, q).sum() / 2)


def excess(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any], epsilon: float) -> float:
    """By how much more than e^ε times as likely something becomes."""
    return float(np.maximum(p - exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction("2.7")])
def test_an_attacker_learns_no_more_than_the_card_says(epsilon: Fraction) -> None:
    plan = plan_workload(workload(COUNTS, epsilon=epsilon))
    text = said(plan)
    part, changed = numbers(text, " times as likely as it would be had")[0], numbers(text, r"\. Who was fifty")[-1]
    sure, surer = numbers(text, "% sure")
    for moved, most, most_sure in ((TAKES_PART, part, sure), (CHANGED, changed, surer)):
        p, q = attack(plan, moved)
        assert odds(p, q) <= most <= odds(p, q) * 1.02
        assert surest(p, q) <= most_sure <= surest(p, q) * 1.02
    p, q = attack(plan, CHANGED)
    assert odds(p, q) > part * 1.1  # a record that changes is not what the first of the two promises is about
    assert surest(p, q) > sure + 1
    assert "with it changed" not in text


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction("2.7")])
def test_where_records_are_replaced_the_card_speaks_of_that(epsilon: Fraction) -> None:
    plan = plan_workload(workload(COUNTS, epsilon=epsilon, neighbours="replace"))
    text = said(plan)
    [most], [sure] = numbers(text, " times as likely with one id's real data as with it changed"), numbers(text, "% sure")
    p, q = attack(plan, CHANGED)
    assert odds(p, q) <= most <= odds(p, q) * 1.02
    assert surest(p, q) <= sure <= surest(p, q) * 1.02
    assert "taking part" not in text
    assert "had other rows" in text


def test_with_a_delta_the_card_states_the_exception() -> None:
    plan = plan_workload(workload(COUNTS, epsilon=1, delta=Fraction(1, 10**6), currency="zcdp"))
    text, epsilon = said(plan), plan.cost.epsilon.upper
    assert isinstance(plan.measurements[0].noises[0][1], Gaussian)
    guessed = numbers(text, "%\\.")
    [grown] = [float(found) for found in re.findall(r"the exception ([0-9.e-]+)\.", text)]
    for moved, times, most, delta in ((TAKES_PART, 1, guessed[0], 1e-6), (CHANGED, 2, guessed[1], grown)):
        p, q = attack(plan, moved)
        assert right(p, q) <= most
        assert excess(p, q, times * epsilon) <= delta
    p, q = attack(plan, TAKES_PART)
    assert surest(p, q) > guessed[0] + 1  # single tables say more: so it is not what is promised
    assert "% sure" not in text
    assert "except for δ" in text
    assert "by no more than 1e-06" in text
    assert grown == pytest.approx(1e-6 * (1 + exp(epsilon)), rel=0.01)
    assert "except for δ" not in said(plan_workload(workload(COUNTS, epsilon=1)))


def test_a_family_of_three_is_told_what_is_left_for_it() -> None:
    plan = plan_workload(workload(COUNTS, epsilon=1, delta=Fraction(1, 10**6), currency="zcdp"))
    [(epsilon, delta)] = re.findall(r"for three of them ε = ([0-9.]+) and δ = ([0-9.e-]+)\.\n", said(plan))
    one = plan.cost.epsilon.upper
    grown = 1e-6 * (1 + exp(one) + exp(2 * one))
    assert 3 * one <= float(epsilon) <= 3.01 * one
    assert grown <= float(delta) <= 1.01 * grown
    p, q = attack(plan, (3, 0))
    assert excess(p, q, float(epsilon)) <= float(delta)
    assert "for three of them ε = 3.\n" in said(plan_workload(workload(COUNTS, epsilon=1)))
    assert "promises nothing" in said(plan_workload(workload(COUNTS, epsilon=8, delta=Fraction(1, 1000), currency="zcdp")))


@pytest.mark.parametrize("error", [20, 23, 25, 27, 31])
def test_what_is_at_most_is_rounded_up(error: int) -> None:
    plan = plan_workload(workload(WorkloadQuery(name="all", sql="SELECT COUNT(*) AS n FROM people", error=error)))
    text, epsilon = said(plan), plan.cost.epsilon.upper
    [stated], [charged] = numbers(text, r"\*\*\."), numbers(text, " of the budget")
    assert epsilon <= stated <= epsilon * 1.001
    assert plan.charge <= charged <= plan.charge * Fraction(100_001, 100_000)
    times, sure = numbers(text, " times as likely")[0], numbers(text, "% sure")[0]
    assert exp(epsilon) <= times <= exp(epsilon) * 1.01
    assert 100 / (1 + exp(-epsilon)) <= sure <= 101 / (1 + exp(-epsilon))
    assert epsilon <= numbers(str(plan.cost).replace("ε = ", ""), r"; ")[0]


@pytest.mark.parametrize("value", [Fraction(1, 3), 0.1, 0.13261, 12_344.9, 2e-7, Fraction(10**9 + 1), 99.96, 1.0])
@pytest.mark.parametrize("digits", [1, 3, 6])
def test_digits_are_rounded_in_the_stated_direction(value: Fraction | float, digits: int) -> None:
    up, down = float(format_up(value, digits)), float(format_down(value, digits))
    assert down <= value <= up
    assert up - down <= 10.0 ** (1 - digits) * float(value) * 1.001
    assert format_up(up, digits) == format_up(value, digits)  # what has so few digits stays


@pytest.mark.parametrize("currency", [Pure(), Zcdp()])
@pytest.mark.parametrize("thirds", range(1, 20))
def test_a_price_is_rounded_up_and_what_is_left_down(thirds: int, currency: Pure | Zcdp) -> None:
    amount, near = Fraction(thirds, 3), Fraction(1, 10**4)
    text = str(Cost(Bounds(0.0, thirds / 7), Fraction(thirds, 3 * 10**6), currency, amount, amount))
    epsilon, delta = (Fraction(found) for found in re.findall(r"= ([0-9.e-]+)", text))
    assert thirds / 7 <= float(epsilon) <= thirds / 7 + near
    assert Fraction(thirds, 3 * 10**6) <= delta
    [left] = re.findall(r"([0-9.]+) left", text)
    assert amount - near <= Fraction(left) <= amount
    for charged in re.findall(r"charged ([0-9.]+)", text):
        assert amount <= Fraction(charged) <= amount + near


def test_a_recorded_answer_is_shown_with_what_was_paid_for_it(tmp_path: Path) -> None:
    """The same noise, paid at one point of the curve and asked for again at another."""
    asked = [
        WorkloadQuery(name=f"q{i}", sql=f"SELECT COUNT(*) AS n FROM people WHERE age > {i}", error=60) for i in range(12)
    ]
    source, small, large = tmp_path / "people.parquet", Fraction(1, 10**7), Fraction(1, 10**6)
    people().execute(f"COPY people TO '{source}'")
    for first, second in ((small, large), (large, small)):
        place = tmp_path / f"{first > second}.ledger"
        with open_ledger(place, create=True) as ledger:
            ledger.open_account("hr", 3, Fraction(1, 10**5), Pure())
        given: dict[str, Any] = {"source": str(source), "epsilon": 2, "ledger": place, "account": "hr"}
        plans = [plan_workload(workload(*asked, delta=delta, **given)) for delta in (first, second)]
        assert plans[0].event == plans[1].event
        assert plans[0].charge != plans[1].charge
        paid, again = (publish(plan, place.with_suffix(f".{i}")) for i, plan in enumerate(plans))
        assert again.free
        cards = [(made.folder / "guarantee.md").read_text(encoding="utf-8") for made in (paid, again)]
        assert cards[0] == cards[1]
        assert (paid.cost.amount, paid.cost.delta) == (again.cost.amount, again.cost.delta) == (plans[0].charge, first)
        assert f"δ = {float(first):g}" in cards[1]
        assert f"δ = {float(second):g}" not in cards[1]
        assert numbers(cards[1], " of the budget") == [float(format_up(plans[0].charge, 6))]
