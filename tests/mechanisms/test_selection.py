"""Partition selection and the exponential mechanism: their privacy by brute force, their laws, their use."""

from fractions import Fraction
from itertools import pairwise
from math import exp, log

import numpy as np
import pytest

from discreet import BadParameter, BadValues, Exponential, OptimalPartitionSelection, SelectionRule, Sensitivity, Threshold
from discreet.accounting.elementary import singleton_probability
from discreet.mechanisms.partition_selection import MIN_PROBABILITY_BITS, selection_probabilities
from tests.laws.evidence import refuted
from tests.laws.laws import coin_cdf, discrete_laplace_cdf


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-3), (3, 1e-12), (0.01, 1e-9), (1, 1e-40)])
def test_optimal_rule_is_private_at_every_count_and_no_larger_rule_is(epsilon: float, delta: float) -> None:
    one = 1 << MIN_PROBABILITY_BITS
    chances = [Fraction(c, one) for c in selection_probabilities(Fraction(epsilon), Fraction(delta))] + [Fraction(1)]
    e, d, slack = Fraction(exp(epsilon)), Fraction(delta), Fraction(1, 10**14)
    tight = 0
    for fewer, more in pairwise(chances[:3001]):
        conditions = [(more, fewer), (1 - fewer, 1 - more), (fewer, more), (1 - more, 1 - fewer)]
        assert all(p <= (e * q + d) * (1 + slack) for p, q in conditions)
        tight += any(p * (1 + slack) >= e * q + d for p, q in conditions[:2])
    assert tight >= len(chances[:3001]) - 3


def test_both_rules_draw_their_probabilities() -> None:
    draws = 200_000
    optimal, noisy = OptimalPartitionSelection(1, 1e-3), Threshold(2, 9)
    chances = [c / (1 << MIN_PROBABILITY_BITS) for c in selection_probabilities(Fraction(1), Fraction(1e-3))]
    for n in (1, 5, 6, 8):
        kept = optimal.release(np.full(draws, n)).astype(np.int64)
        assert not refuted(kept, coin_cdf(float)(Fraction(chances[n])), [-1, 0, 1])
        shown = noisy.release(np.full(draws, n)).astype(np.int64)
        chance = 1 - discrete_laplace_cdf(Fraction(2))(8 - n)
        assert not refuted(shown, coin_cdf(float)(Fraction(chance)), [-1, 0, 1])
    assert not optimal.release(np.zeros(1000, np.int64)).any()
    assert not Threshold(50, 2).release(np.zeros(1000, np.int64)).any()


@pytest.mark.parametrize("groups", [1, 3, 40])
def test_noise_and_threshold_keeps_delta_for_m_groups(groups: int) -> None:
    """δ = 1 − (1 − p)^m with p = a^{τ−1}/(1+a); a rule proven for one group and used with m is the wrong twin."""
    rule = Threshold.for_epsilon(1, 1e-6, Sensitivity(l0=groups, linf=1))
    p = float(singleton_probability(rule.scale, rule.threshold))
    a = exp(-1 / float(rule.scale))
    assert p == pytest.approx(a ** (rule.threshold - 1) / (1 + a), rel=1e-12)
    assert 1 - (1 - p) ** groups <= 1e-6
    lower = float(singleton_probability(rule.scale, rule.threshold - 1))
    assert groups * lower > 1e-6  # no lower threshold would do
    assert -log(1 - p) <= 1 / float(rule.scale)
    twin = Threshold.for_epsilon(1, 1e-6, 1)
    if groups > 1:
        assert 1 - (1 - float(singleton_probability(rule.scale, twin.threshold))) ** groups > 1e-6


def test_a_tiny_delta_neither_hangs_nor_is_missed() -> None:
    rule = Threshold.for_epsilon(1, 1e-40, 1)
    assert 85 < rule.threshold < 100
    assert (
        singleton_probability(rule.scale, rule.threshold)
        <= Fraction(1e-40)
        < singleton_probability(rule.scale, rule.threshold - 2)
    )


class Words:
    """The given words, and then the given refinement for ever."""

    tainted = True

    def __init__(self, first: int, later: int) -> None:
        self.first, self.later = first, later

    def words(self, count: int):  # type: ignore[no-untyped-def]
        word, self.first = self.first, self.later
        return np.full(count, word, np.uint64)


def test_the_optimal_rule_refines_a_draw_that_64_bits_leave_open() -> None:
    chance = selection_probabilities(Fraction(1), Fraction(1, 1000))[5]
    leading = chance >> (MIN_PROBABILITY_BITS - 64)
    rule = OptimalPartitionSelection(1, 1e-3)
    assert rule.release(5, Words(leading, 0)) is True
    assert rule.release(5, Words(leading, 2**64 - 1)) is False


def test_optimal_shows_smaller_keys_than_noise_and_threshold() -> None:
    assert OptimalPartitionSelection.for_epsilon(1, 1e-6, 1).error(0.95) <= Threshold.for_epsilon(1, 1e-6, 1).error(0.95)


def test_selection_refuses_what_it_cannot_count() -> None:
    for make in (Threshold.for_epsilon, OptimalPartitionSelection.for_epsilon):
        with pytest.raises(BadParameter, match="distinct units"):
            make(1, 1e-6, Sensitivity(l0=1, linf=2))
    with pytest.raises(BadParameter, match="million"):
        OptimalPartitionSelection(1e-7, 1e-12).release(3)
    with pytest.raises(BadParameter):
        Threshold(1, 1)


@pytest.mark.parametrize("race", SelectionRule)
def test_exponential_is_private_by_brute_force_and_useful(race: SelectionRule) -> None:
    """All pairs of score vectors over a small lattice that one unit can connect; the exact law from the formula."""
    from itertools import product

    from tests.laws.test_variates import _selection_law

    epsilon = 1.0
    m = Exponential.for_epsilon(epsilon, sensitivity=1, rule=race)
    worst = 0.0
    for scores in product(range(3), repeat=3):
        for move in product((-1, 0, 1), repeat=3):
            laws = [_selection_law(list(s), float(m.rate), race) for s in (scores, np.add(scores, move).tolist())]
            p, q = ([law(k) - law(k - 1) if k else law(0) for k in range(3)] for law in laws)
            worst = max(worst, *(abs(log(x / y)) for x, y in zip(p, q, strict=True)))
    assert 0.8 * epsilon < worst <= epsilon + 1e-12
    reach = m.error(0.99, size=5)
    misses = sum(10 - [10, 8, 6, 4, 2][m.release([10, 8, 6, 4, 2])] > reach for _ in range(500))
    assert misses < 40  # at most 1% expected; 40 has probability below 1e-20


def test_exponential_refuses_bad_scores() -> None:
    for scores in ([], [1, float("nan")], ["a"], [True], [None]):
        with pytest.raises(BadValues):
            Exponential(1).release(scores)
