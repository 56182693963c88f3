"""A set response costs exactly what its table of probabilities says, for every oracle of the family."""

from fractions import Fraction
from itertools import permutations
from math import log

import pytest

from discreet import BadParameter, pure, renyi
from discreet.accounting import compare_guarantees, delta, epsilon
from discreet.accounting.elementary import exp_bounds
from discreet.events import RandomizedResponseEvent, SetResponseEvent
from tests.support.small_randomisers import (
    hockey_stick,
    make_direct,
    make_hadamard,
    make_subset,
    make_unary,
)

ODDS = (Fraction(3), Fraction(3, 2), Fraction(40))
ORACLES = {
    f"{name}, odds {odds}": make
    for odds in ODDS
    for name, make in {
        "direct 2": make_direct(odds, 2),
        "direct 4": make_direct(odds, 4),
        "unary 3": make_unary(odds, 3),
        "subset 2 of 3": make_subset(odds, 3, 2),
        "subset 2 of 4": make_subset(odds, 4, 2),
        "hadamard 3": make_hadamard(odds, 3),
    }.items()
}


@pytest.mark.parametrize("name", ORACLES)
def test_the_curve_is_that_of_the_table(name: str) -> None:
    table, event = ORACLES[name]
    for point in (Fraction(0), Fraction(1, 3), Fraction(1)):
        power = exp_bounds(point)
        worst = [max(hockey_stick(p, q, e) for p, q in permutations(table, 2)) for e in power]
        found = delta(event, point)
        assert found.lower <= worst[0]
        assert worst[1] <= found.upper
        assert found.width <= 1e-9


@pytest.mark.parametrize("name", ORACLES)
def test_pure_epsilon_is_the_largest_ratio_of_the_table(name: str) -> None:
    table, event = ORACLES[name]
    assert max(a / b for p, q in permutations(table, 2) for a, b in zip(p, q, strict=True)) == event.odds
    assert float(pure(event)) == pytest.approx(log(event.odds))
    assert epsilon(event, 0).upper >= log(event.odds) * (1 - 1e-15)


@pytest.mark.parametrize("name", ORACLES)
def test_the_divergence_is_that_of_the_table(name: str) -> None:
    table, event = ORACLES[name]
    moments = [sum(float(a) ** 3 / float(b) ** 2 for a, b in zip(p, q, strict=True)) for p, q in permutations(table, 2)]
    assert float(renyi(event, 3)) == pytest.approx(log(max(moments)) / 2, rel=1e-12)


def test_k_rr_is_the_same_event_in_both_forms() -> None:
    _, direct = make_direct(Fraction(3), 5)
    response = RandomizedResponseEvent(Fraction(3, 7), 5)
    assert compare_guarantees(direct, 1e-6) == compare_guarantees(response, 1e-6)
    assert epsilon(3 * direct, 1e-6) == epsilon(3 * response, 1e-6)


@pytest.mark.parametrize(
    ("odds", "share", "pair"), [("1/2", "1/2", "0"), ("2", "3/4", "1/4"), ("2", "1/2", "3/5"), ("2", "2", "1")]
)
def test_impossible_sets_are_refused(odds: str, share: str, pair: str) -> None:
    with pytest.raises(BadParameter, match="SetResponseEvent"):
        SetResponseEvent(Fraction(odds), Fraction(share), Fraction(pair))


def test_sets_that_hold_both_values_or_neither_cost_nothing() -> None:
    for event in (
        SetResponseEvent(Fraction(1), Fraction(1, 2), Fraction(0)),
        SetResponseEvent(Fraction(9), Fraction(1, 2), Fraction(1, 2)),
    ):
        assert pure(event) == 0
        assert epsilon(event, 1e-6).upper == 0
