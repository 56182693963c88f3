"""Basic composition: (ε, δ) points, the δ that is split off, and groups."""

from fractions import Fraction
from math import exp, inf

import mpmath as mp
import pytest

from discreet.accounting.basic import Point, basic_composition, split_delta
from discreet.accounting.elementary import probability_of_any, singleton_probability
from discreet.accounting.rewrite import group_delta, push_group
from discreet.events import (
    Claim,
    DiscreteLaplaceEvent,
    GaussianEvent,
    Group,
    OptimalPartitionSelectionEvent,
    Parallel,
    Subsampled,
    ThresholdEvent,
    compose,
)
from discreet.units import Sensitivity, to_sensitivity
from tests.support.every_event import EVERY


@pytest.mark.parametrize("name", EVERY)
def test_every_event_has_a_basic_point(name):
    point = basic_composition(EVERY[name])
    assert point.epsilon >= 0
    assert 0 <= point.delta <= 1


def test_sequential_composition_row_of_facts():
    assert basic_composition(Claim(Fraction(1), Fraction(1, 1000)) * 4 + Claim(Fraction(1, 2), Fraction(0))) == Point(
        Fraction(9, 2), Fraction(4, 1000)
    )


def test_parallel_composition_row_of_facts_counts_by_gender_and_hair_cost_one_cell():
    cell = DiscreteLaplaceEvent(Fraction(1), to_sensitivity(1))
    assert basic_composition(Parallel((cell,) * 8)) == Point(Fraction(1), Fraction(0))


def test_group_privacy_row_of_facts():
    epsilon, delta = basic_composition(Group(Claim(Fraction(1), Fraction(1, 10**6)), 3))
    truth = 1e-6 * (1 + exp(1) + exp(2))
    assert epsilon == 3
    assert truth <= delta <= truth * (1 + 1e-12) <= 3 * exp(3) * 1e-6


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10**30), Fraction(1, 100), Fraction(5), Fraction(700)])
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_group_delta_is_the_sum_rounded_up(epsilon, size):
    mp.mp.dps = 400
    delta = Fraction(1, 10**60)
    terms = mp.fsum(mp.e ** (mp.mpf(epsilon.numerator) / epsilon.denominator * i) for i in range(size))
    truth = min(mp.mpf(1), terms / mp.mpf(10) ** 60)
    seen = group_delta(epsilon, delta, size)
    seen = mp.mpf(seen.numerator) / seen.denominator
    mp.mp.dps = 40
    assert truth * (1 - mp.mpf(10) ** -38) <= seen <= truth * (1 + mp.mpf(10) ** -20)


def test_threshold_is_the_formula_of_the_hazards_table():
    """δ for m groups is 1 − (1 − p)^m with p = a^{τ−1}/(1 + a)."""
    a = mp.e ** (-mp.mpf(1) / 2)
    p = a**19 / (1 + a)
    point = basic_composition(ThresholdEvent(Fraction(2), 20, 3))
    assert point.epsilon == Fraction(3, 2)
    assert abs(float(point.delta) - float(1 - (1 - p) ** 3)) < 1e-15
    assert float(point.delta) > float(p)  # mutant: the rule for one group used with three


def test_threshold_by_brute_force_over_singletons_and_shared_keys():
    """Every way in which one unit's three keys are alone or shared, both directions, against the basic point."""
    scale, threshold, m = Fraction(1), 4, 3
    point = basic_composition(ThresholdEvent(scale, threshold, m))
    a = mp.e ** (-1 / mp.mpf(1))

    def shown(count):
        if count == 0:
            return mp.mpf(0)
        gap = threshold - count
        return a**gap / (1 + a) if gap >= 0 else 1 - a ** (1 - gap) / (1 + a)

    worst = mp.mpf(0)
    for counts in [(i, j, k) for i in (1, 2, 4) for j in (1, 3, 5) for k in (1, 2, 6)]:
        rows = [(shown(c), shown(c - 1)) for c in counts]
        for first, second in ((0, 1), (1, 0)):
            total = mp.mpf(0)
            for outcome in range(8):
                p = mp.fprod(r[first] if outcome >> i & 1 else 1 - r[first] for i, r in enumerate(rows))
                q = mp.fprod(r[second] if outcome >> i & 1 else 1 - r[second] for i, r in enumerate(rows))
                total += max(mp.mpf(0), p - mp.e ** mp.mpf(float(point.epsilon)) * q)
            worst = max(worst, total)
    assert worst <= mp.mpf(point.delta.numerator) / point.delta.denominator * (1 + mp.mpf(10) ** -38)
    assert worst > float(point.delta) / 2  # and the point is not idle


def test_a_threshold_that_protects_nothing_has_delta_one():
    assert singleton_probability(Fraction(1), 0) == 1
    assert basic_composition(ThresholdEvent(Fraction(1), 0, 1)).delta == 1


def test_optimal_selection_composes_over_groups():
    point = basic_composition(OptimalPartitionSelectionEvent(Fraction(1, 2), Fraction(1, 8), 2))
    assert point == Point(Fraction(1), Fraction(15, 64))


def test_the_probability_of_any_rounds_up_for_many():
    exact = 1 - Fraction(999, 1000) ** 3
    assert exact <= probability_of_any(Fraction(1, 1000), 3) <= exact * (1 + Fraction(1, 2**100))
    assert probability_of_any(Fraction(1, 1000), 1000) >= 1 - Fraction(999, 1000) ** 1000
    assert probability_of_any(Fraction(1), 0) == 0


def test_gaussian_has_no_basic_point():
    assert basic_composition(GaussianEvent(Fraction(1), to_sensitivity(1))).epsilon == inf


def test_sampling_amplifies_both():
    epsilon, delta = basic_composition(Subsampled(Claim(Fraction(1), Fraction(1, 1000)), Fraction(1, 10)))
    assert abs(epsilon - float(mp.log(1 + mp.mpf("0.1") * (mp.e - 1)))) < 1e-15
    assert Fraction(delta) >= Fraction(1, 10000)


@pytest.mark.parametrize("name", EVERY)
def test_the_core_of_a_split_has_no_delta(name):
    core, _ = split_delta(EVERY[name])
    assert split_delta(core)[1] == 0


def test_a_group_touches_more_coordinates():
    """Mutant: keeping l0 while linf grows would forget that two units may change different cells."""
    grouped = push_group(Group(GaussianEvent(Fraction(1), Sensitivity(l0=2, linf=1)), 3))
    assert grouped.sensitivity == Sensitivity(l1=6, l2_squared=18, linf=3)  # how many cells they change is not known


def test_what_has_no_delta_is_its_own_core():
    """Samples too; one claim with a δ among the parts, or inside a sample, is split off all the same."""
    plain = compose(*(Subsampled(GaussianEvent(Fraction(1), to_sensitivity(1)), Fraction(1, n)) for n in (2, 3)))
    assert split_delta(plain)[0] is plain
    leaky = Claim(Fraction(1), Fraction(1, 1000))
    assert split_delta(compose(plain, leaky)) == (compose(plain, Claim(Fraction(1), Fraction(0))), Fraction(1, 1000))
    inside = compose(plain, Subsampled(compose(GaussianEvent(Fraction(1), to_sensitivity(1)), leaky), Fraction(1, 2)))
    assert split_delta(inside)[1] == Fraction(1, 1000)
    assert split_delta(inside)[0] != inside
