"""Catastrophe and name and shame: how many people they expose, exactly; accounts without a δ refuse them."""

from fractions import Fraction
from functools import cache
from math import inf

import pytest

from discreet import BudgetExceeded, compose, delta, renyi, zcdp
from discreet.lab.attacks import AttackResult, run
from discreet.ledger import open_ledger
from discreet.mechanisms.unsafe import Catastrophe, NameAndShame, at_least_once
from tests.support.chance import is_plausible


@cache
def get_result(name: str) -> AttackResult:
    return run(name)


@pytest.mark.parametrize(("p", "times"), [(Fraction(1, 1000), 1000), (Fraction(1, 10**6), 1000), (Fraction(1, 3), 4)])
def test_at_least_once_is_exact(p: Fraction, times: int) -> None:
    assert at_least_once(p, times) == pytest.approx(float(1 - (1 - p) ** times), rel=1e-13)


def test_a_catastrophe_exposes_all_at_once() -> None:
    found = get_result("catastrophe").numbers
    assert found["expected_exposed"] == 1000 * 0.001
    assert found["disaster_in_all"] == pytest.approx(float(1 - Fraction(999, 1000) ** 2000), rel=1e-12)
    assert is_plausible(found["disasters"], found["releases"], Fraction(1, 1000))
    assert found["exposed"] == 1000 * found["disasters"]
    often = run("catastrophe", people=3, delta=0.25, releases=1000).numbers
    assert is_plausible(often["disasters"], 1000, 0.25)
    assert not is_plausible(often["disasters"], 1000, 0.5)  # a mutant with twice the probability is noticed


def test_usual_answers_of_a_catastrophe_are_noisy_counts() -> None:
    result = run("catastrophe", people=50, delta=0.25, releases=200, epsilon=0.5)
    assert result.numbers["epsilon"] == 0.5
    assert "(0.5, δ)-private" in str(result)
    assert "A usual answer looks harmless: " in str(result)


def test_name_and_shame_exposes_at_least_one_in_most_releases() -> None:
    found = get_result("name-and-shame").numbers
    at_least_one = 1 - Fraction(999, 1000) ** 1000
    assert found["at_least_one"] == pytest.approx(float(at_least_one), rel=1e-12)
    assert found["at_least_one_at_n_squared"] == pytest.approx(float(1 - (1 - Fraction(1, 10**6)) ** 1000), rel=1e-12)
    assert is_plausible(found["releases_with_exposure"], found["releases"], at_least_one)
    assert not is_plausible(found["releases_with_exposure"], found["releases"], 1 - Fraction(998, 1000) ** 1000)
    exposed = round(found["mean_exposed"] * found["releases"])
    assert is_plausible(exposed, found["releases"] * found["people"], Fraction(1, 1000))


@pytest.mark.parametrize("unsafe", [Catastrophe(0.001), NameAndShame(0.001)])
def test_only_notions_with_a_delta_have_a_finite_cost(unsafe: Catastrophe | NameAndShame) -> None:
    assert delta(unsafe.event(), unsafe.event().epsilon).upper == pytest.approx(0.001)
    assert renyi(unsafe.event(), 2) == zcdp(unsafe.event()) == inf


@pytest.mark.parametrize("name", ["catastrophe", "name-and-shame"])
def test_discreet_refuses_rows_and_the_event(name: str) -> None:
    found = get_result(name).numbers
    assert found["rows_refused"]
    assert found["refused"]
    assert found["infinite_elsewhere"]


def test_an_account_accepts_only_the_delta_that_it_has(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        tight, loose = ledger.open_account("tight", 1, 1e-9), ledger.open_account("loose", 1, 0.01)
        with pytest.raises(BudgetExceeded, match="δ"):
            tight.reserve(compose(Catastrophe(0.001, 0.1).event()), measurement="all")
        loose.reserve(compose(Catastrophe(0.001, 0.1).event()), measurement="all")  # within its δ
