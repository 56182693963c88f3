"""Catastrophe and name and shame: what they expose, exactly, and that no account without a δ pays for them."""

from fractions import Fraction
from functools import cache
from math import inf

import pytest

from discreet import BudgetExceeded, compose, delta, renyi, zcdp
from discreet.lab.attacks import AttackResult, run
from discreet.lab.attacks.exposure import at_least_once
from discreet.ledger import open_ledger
from discreet.mechanisms.unsafe import Catastrophe, NameAndShame
from tests.lab.chance import plausible


@cache
def played(name: str) -> AttackResult:
    return run(name)


@pytest.mark.parametrize(("p", "times"), [(Fraction(1, 1000), 1000), (Fraction(1, 10**6), 1000), (Fraction(1, 3), 4)])
def test_at_least_once_is_exact(p: Fraction, times: int) -> None:
    assert at_least_once(p, times) == pytest.approx(float(1 - (1 - p) ** times), rel=1e-13)


def test_a_catastrophe_is_everybody_at_once() -> None:
    found = played("catastrophe").numbers
    assert found["expected_exposed"] == 1000 * 0.001
    assert found["disaster_in_all"] == pytest.approx(float(1 - Fraction(999, 1000) ** 2000), rel=1e-12)
    assert plausible(found["disasters"], found["releases"], Fraction(1, 1000))
    assert found["exposed"] == 1000 * found["disasters"]
    often = run("catastrophe", people=3, delta=0.25, releases=1000).numbers
    assert plausible(often["disasters"], 1000, 0.25)
    assert not plausible(often["disasters"], 1000, 0.5)  # the twin that happens twice as often


def test_name_and_shame_is_somebody_almost_always() -> None:
    found = played("name-and-shame").numbers
    somebody = 1 - Fraction(999, 1000) ** 1000
    assert found["somebody"] == pytest.approx(float(somebody), rel=1e-12)
    assert found["somebody_at_n_squared"] == pytest.approx(float(1 - (1 - Fraction(1, 10**6)) ** 1000), rel=1e-12)
    assert plausible(found["releases_with_somebody"], found["releases"], somebody)
    assert not plausible(found["releases_with_somebody"], found["releases"], 1 - Fraction(998, 1000) ** 1000)
    shown = round(found["mean_exposed"] * found["releases"])
    assert plausible(shown, found["releases"] * found["people"], Fraction(1, 1000))


@pytest.mark.parametrize("unsafe", [Catastrophe(0.001), NameAndShame(0.001)])
def test_only_a_definition_with_a_delta_lets_them_pass(unsafe: Catastrophe | NameAndShame) -> None:
    assert delta(unsafe.event(), 0).upper == pytest.approx(0.001)
    assert renyi(unsafe.event(), 2) == zcdp(unsafe.event()) == inf


@pytest.mark.parametrize("name", ["catastrophe", "name-and-shame"])
def test_discreet_answers_no_rows_and_pays_for_none(name: str) -> None:
    found = played(name).numbers
    assert found["rows_refused"]
    assert found["refused"]
    assert found["infinite_elsewhere"]


def test_an_account_pays_only_for_the_delta_that_it_has(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        tight, loose = ledger.open_account("tight", 1, 1e-9), ledger.open_account("loose", 1, 0.01)
        with pytest.raises(BudgetExceeded, match="δ"):
            tight.reserve(compose(Catastrophe(0.001).event()), measurement="all")
        loose.reserve(
            compose(Catastrophe(0.001).event()), measurement="all"
        )  # whoever grants such a δ gets such a mechanism
