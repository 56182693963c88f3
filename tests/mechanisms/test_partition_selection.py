"""Partition selection: private by brute force, with the stated probabilities, and as good as it can be."""

from fractions import Fraction
from itertools import pairwise
from math import exp, log

import numpy as np
import pytest

from discreet import (
    BadParameter,
    OptimalPartitionSelection,
    Sensitivity,
    Threshold,
)
from discreet.accounting.elementary import singleton_probability
from discreet.mechanisms.partition_selection import MIN_PROBABILITY_BITS, probability_bits, selection_probabilities
from tests.support.distributions import coin_cdf, discrete_laplace_cdf
from tests.support.goodness_of_fit import rejects
from tests.support.scripted_bits import ScriptedBits


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-3), (3, 1e-12), (0.01, 1e-9), (1, 1e-40)])
def test_optimal_rule_is_private_at_every_count_and_no_larger_rule_is(epsilon: float, delta: float) -> None:
    one = 1 << MIN_PROBABILITY_BITS
    probabilities = [Fraction(c, one) for c in selection_probabilities(Fraction(epsilon), Fraction(delta))] + [Fraction(1)]
    e, d, slack = Fraction(exp(epsilon)), Fraction(delta), Fraction(1, 10**14)
    tight = 0
    for fewer, more in pairwise(probabilities[:3001]):
        conditions = [(more, fewer), (1 - fewer, 1 - more), (fewer, more), (1 - more, 1 - fewer)]
        assert all(p <= (e * q + d) * (1 + slack) for p, q in conditions)
        tight += any(p * (1 + slack) >= e * q + d for p, q in conditions[:2])
    assert tight >= len(probabilities[:3001]) - 3


def test_both_rules_draw_their_probabilities() -> None:
    draws = 200_000
    optimal, noisy = OptimalPartitionSelection(1, 1e-3), Threshold(2, 9)
    probabilities = [c / (1 << MIN_PROBABILITY_BITS) for c in selection_probabilities(Fraction(1), Fraction(1e-3))]
    for n in (1, 5, 6, 8):
        selected = optimal.release(np.full(draws, n)).astype(np.int64)
        assert not rejects(selected, coin_cdf(float)(Fraction(probabilities[n])), [-1, 0, 1])
        shown = noisy.release(np.full(draws, n)).astype(np.int64)
        probability = 1 - discrete_laplace_cdf(Fraction(2))(8 - n)
        assert not rejects(shown, coin_cdf(float)(Fraction(probability)), [-1, 0, 1])
    assert not optimal.release(np.zeros(1000, np.int64)).any()
    assert not Threshold(50, 2).release(np.zeros(1000, np.int64)).any()


@pytest.mark.parametrize("groups", [1, 3, 40])
def test_threshold_keeps_delta_for_m_groups(groups: int) -> None:
    """δ = 1 − (1 − p)^m with p = a^{τ−1}/(1+a); a rule proven for one group and used with m is the mutant."""
    rule = Threshold.for_epsilon(1, 1e-6, Sensitivity(l0=groups, linf=1))
    p = float(singleton_probability(rule.scale, rule.threshold))
    a = exp(-1 / float(rule.scale))
    assert p == pytest.approx(a ** (rule.threshold - 1) / (1 + a), rel=1e-12)
    assert 1 - (1 - p) ** groups <= 1e-6
    lower = float(singleton_probability(rule.scale, rule.threshold - 1))
    assert groups * lower > 1e-6  # no lower threshold would do
    assert -log(1 - p) <= 1 / float(rule.scale)
    mutant = Threshold.for_epsilon(1, 1e-6, 1)
    if groups > 1:
        assert 1 - (1 - float(singleton_probability(rule.scale, mutant.threshold))) ** groups > 1e-6


def test_a_tiny_delta_neither_hangs_nor_is_missed() -> None:
    rule = Threshold.for_epsilon(1, 1e-40, 1)
    assert 85 < rule.threshold < 100
    assert (
        singleton_probability(rule.scale, rule.threshold)
        <= Fraction(1e-40)
        < singleton_probability(rule.scale, rule.threshold - 2)
    )


def test_the_optimal_rule_refines_a_draw_that_64_bits_leave_open() -> None:
    probability = selection_probabilities(Fraction(1), Fraction(1, 1000))[5]
    leading = probability >> (MIN_PROBABILITY_BITS - 64)
    rule = OptimalPartitionSelection(1, 1e-3)
    assert rule.release(5, ScriptedBits([leading], 0)) is True
    assert rule.release(5, ScriptedBits([leading], 2**64 - 1)) is False


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


def test_optimal_selection_at_a_tiny_delta() -> None:
    """Its table has some 460 entries; it took 7 s and then blamed ε."""
    rule = OptimalPartitionSelection(1, Fraction(1, 10**100))
    probabilities = selection_probabilities(rule.epsilon, rule.delta)
    assert len(probabilities) < 1000
    assert 0 < probabilities[1] < probabilities[2]
    assert abs(Fraction(probabilities[1], 1 << probability_bits(rule.delta)) * 10**100 - 1) < Fraction(1, 10**20)
    assert rule.release([1, 600]) == [False, True]
    assert 225 < rule.error(0.5) < 240


def test_a_table_that_is_too_long_is_refused_with_both_parameters() -> None:
    with pytest.raises(BadParameter, match="δ = 1e-100"):
        OptimalPartitionSelection(Fraction(1, 10**9), Fraction(1, 10**100)).error(0.5)
