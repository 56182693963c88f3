"""The textbook theorems, and where the textbooks are wrong."""

from fractions import Fraction
from math import comb, exp, inf, log, sqrt

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from discreet.accounting.basic import Point
from discreet.accounting.divergences import GaussianAt, LaplaceAt, hockey_stick, max_divergence
from discreet.accounting.pld.gaussian import normal_tail_up
from discreet.accounting.textbook import (
    advanced_composition,
    advanced_composition_short,
    bad_set_mass,
    group_privacy,
    optimal_composition,
    outcome_range,
    parallel_composition,
    sequential_composition,
    short_form_threshold,
)
from discreet.errors import BadParameter, TheoremNotApplicable
from discreet.units import Neighbours


def test_erratum_1_the_short_form_refuses_where_it_would_understate():
    """214.597 is printed; 500 randomised responses really cost 311.77."""
    assert 2 * sqrt(2 * 500 * log(1e5)) == pytest.approx(214.597, abs=1e-3)
    with pytest.raises(TheoremNotApplicable, match=r"311\.768"):
        advanced_composition_short(1, 500, 1e-5)
    assert advanced_composition(1, 500, 1e-5).epsilon == 500  # the long form is honest: no better than sequential here


def test_erratum_1_the_short_form_answers_where_its_hypothesis_holds():
    short, long = (
        advanced_composition_short(Fraction(1, 10), 100, 1e-5).epsilon,
        advanced_composition(Fraction(1, 10), 100, 1e-5).epsilon,
    )
    assert optimal_composition(Fraction(1, 10), 100, 1e-5).epsilon < long < short < 10


@given(epsilon=st.floats(1e-4, 0.5), k=st.integers(1, 300), delta=st.floats(1e-10, 0.1))
@settings(max_examples=60, deadline=None)
def test_short_is_above_long_is_above_optimal_wherever_each_holds(epsilon, k, delta):
    least, long = optimal_composition(epsilon, k, delta).epsilon, advanced_composition(epsilon, k, delta).epsilon
    assert least <= long * (1 + 1e-12)
    if sqrt(k) * (exp(epsilon) - 1) <= sqrt(2 * log(1 / delta)) * 0.999:
        assert min(long, k * epsilon) <= advanced_composition_short(epsilon, k, delta).epsilon * (1 + 1e-12)


def test_erratum_6_ten_e_minus_five_is_one_e_minus_four():
    """The crossing k = 8·ln(1/δ) is 73.7 for the 10e-5 of [N1]'s code and 92.1 for the 1e-5 of its text."""
    assert round(short_form_threshold(10e-5), 1) == 73.7
    assert round(short_form_threshold(1e-5), 1) == 92.1
    k = 93
    assert (
        advanced_composition_short(Fraction(1, 10), k, 1e-5).epsilon
        < k / 10
        < advanced_composition_short(Fraction(1, 10), 92, 1e-5).epsilon + 0.1
    )


@pytest.mark.parametrize(
    ("epsilon", "k", "delta", "truth"),
    [(1, 500, 1e-5, "311.767604639710743"), (Fraction(5, 100), 1000, Fraction(1, 10**6), "8.283573346016258")],
)
def test_facts_randomised_responses_by_the_optimal_theorem(epsilon, k, delta, truth):
    assert optimal_composition(epsilon, k, delta).epsilon == pytest.approx(float(truth), rel=1e-14)


@given(
    epsilon=st.fractions(Fraction(1, 50), Fraction(3)),
    k=st.integers(1, 12),
    delta=st.fractions(Fraction(1, 10**6), Fraction(1, 2)),
)
@settings(max_examples=80, deadline=None)
def test_optimal_meets_delta_by_brute_force(epsilon, k, delta):
    """δ of k responses summed over all outcomes, at the answer and just below it."""
    with mp.workdps(40):
        e = mp.mpf(epsilon.numerator) / epsilon.denominator
        a = mp.e**-e

        def spent(at):
            return mp.fsum(
                comb(k, wrong) * max(mp.mpf(0), a**wrong - mp.e ** mp.mpf(at) * a ** (k - wrong)) / (1 + a) ** k
                for wrong in range(k + 1)
            )

        target, answer = mp.mpf(delta.numerator) / delta.denominator, optimal_composition(epsilon, k, delta).epsilon
        assert spent(answer) <= target
        assert answer == 0 or spent(answer * (1 - 1e-12)) > target * (1 - mp.mpf(10) ** -9)


def test_dropped_multiplicity_is_noticed():
    """Mutant: 1,000 responses accounted as one."""
    assert (
        optimal_composition(Fraction(5, 100), 1, Fraction(1, 10**6)).epsilon
        < 0.051
        < optimal_composition(Fraction(5, 100), 1000, Fraction(1, 10**6)).epsilon
    )


def test_optimal_composition_with_deltas():
    clean, leaky = (
        optimal_composition(Fraction(1, 10), 50, 1e-5).epsilon,
        optimal_composition(Fraction(1, 10), 50, 1e-5, each=1e-7).epsilon,
    )
    assert clean < leaky < clean * 1.2
    assert optimal_composition(Fraction(1, 10), 50, 1e-5, each=1e-6).epsilon == inf  # their δ alone exceed δ


def test_optimal_at_the_edges():
    assert optimal_composition(5000, 3, 0.1).epsilon == 15000
    assert optimal_composition(Fraction(1, 10**6), 3, 0.1).epsilon == 0
    with pytest.raises(BadParameter):
        optimal_composition(1, 10**6, 1e-5)
    with pytest.raises(BadParameter):
        optimal_composition(1, 0, 1e-5)
    with pytest.raises(BadParameter):
        advanced_composition(-1, 5, 1e-5)


def test_advanced_composition_counts_the_deltas_of_the_parts():
    assert advanced_composition(Fraction(1, 10), 100, Fraction(1, 10**5), each=Fraction(1, 10**7)).delta == Fraction(
        2, 10**5
    )


def test_sequential_and_group():
    point = Point(Fraction(1, 2), Fraction(1, 1000))
    assert sequential_composition(point, point, point) == Point(Fraction(3, 2), Fraction(3, 1000))
    assert group_privacy(Point(inf, Fraction(0)), 3).epsilon == inf
    assert float(group_privacy(point, 2).delta) == pytest.approx(0.001 * (1 + exp(0.5)))


def test_parallel_row_of_facts_under_replace_adds_the_two_largest_where_nothing_moves_inside_a_part():
    points = [Point(Fraction(e), Fraction(e, 1000)) for e in (1, 3, 2)]
    still = Point(Fraction(0), Fraction(0))
    assert parallel_composition(*points) == Point(Fraction(3), Fraction(3, 1000))
    assert parallel_composition(*points, neighbours=Neighbours.REPLACE, inside=still) == Point(
        Fraction(5), Fraction(5, 1000)
    )
    assert parallel_composition() == Point(Fraction(0), Fraction(0))


def test_parallel_under_replace_pays_twice_for_a_unit_that_changes_inside_its_part():
    """Sums of values in [−1, 1], Laplace noise, one part at ε = 3, one at 2: a replaced value moves the first by 2."""
    points = [Point(Fraction(3), Fraction(0)), Point(Fraction(2), Fraction(0))]
    seen = max_divergence(LaplaceAt(-1, Fraction(1, 3)), LaplaceAt(1, Fraction(1, 3)))
    assert seen.lower == 6 == parallel_composition(*points, neighbours=Neighbours.REPLACE).epsilon
    mutant = sum(point.epsilon for point in points)  # mutant: the two largest parts, whatever happens inside them
    assert mutant < seen.lower


def test_pure_sequential_composition_is_tight():
    """FACTS: a pair reaches kε."""
    truth, lie = Fraction(3, 4), Fraction(1, 4)
    joint = [{(a, b): p[a] * p[b] for a in (0, 1) for b in (0, 1)} for p in ((truth, lie), (lie, truth))]
    assert max_divergence(*joint).upper == pytest.approx(2 * log(3), rel=1e-15)


def test_outcome_range_row_of_facts():
    for probability, low, high in ((0.2, 0.16, 0.25), (0.5, 0.4, 0.6)):
        seen = outcome_range(log(1.25), probability)
        assert seen.lower == pytest.approx(low, abs=1e-15)
        assert seen.upper == pytest.approx(high, abs=1e-15)


@given(epsilon=st.floats(0, 10), probability=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_outcome_range_is_mutual(epsilon, probability):
    """P'(E) at an end of the range allows P(E) in turn."""
    seen = outcome_range(epsilon, probability)
    assert 0 <= seen.lower <= probability <= seen.upper <= 1
    for end in (seen.lower, seen.upper):
        back = outcome_range(epsilon, end)
        assert back.lower - 1e-9 <= probability <= back.upper + 1e-9


def test_outcome_range_of_an_enormous_epsilon():
    assert outcome_range(10**9, 0.5).lower == 0
    assert outcome_range(10**9, 0).upper == 0


@pytest.mark.parametrize("distance", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_bad_set_of_named_laws_against_a_sum_over_a_grid(distance, epsilon):
    """P(privacy loss > ε) by adding up the density wherever the log-ratio of the two densities exceeds ε."""
    x = np.linspace(-40, 40, 800_001)
    for family, density in ((GaussianAt, stats.norm.logpdf), (LaplaceAt, stats.laplace.logpdf)):
        bad = density(x) - density(x - distance) > epsilon + 1e-12
        true = np.exp(density(x))[bad].sum() * (x[1] - x[0])
        found = bad_set_mass(family(0, 1), family(distance, 1), epsilon)
        assert float(found) == pytest.approx(true, rel=2e-3, abs=1e-9)
        assert hockey_stick(family(0, 1), family(distance, 1), epsilon).lower <= float(found), "the lemma"
        if true > 1e-6:
            twice = bad_set_mass(family(0, 1), family(2 * distance, 1), epsilon)
            assert float(twice) != pytest.approx(true, rel=2e-3), "a mutant with another distance is noticed"


def test_bad_set_of_named_laws_is_rounded_up_and_refuses_other_pairs():
    for x in (-3.0, -0.1, 0.0, 0.3, 4.0, 20.0):
        with mp.workdps(40):
            assert normal_tail_up(Fraction(x)) >= mp.ncdf(-mp.mpf(x))
        assert normal_tail_up(Fraction(x)) == pytest.approx(float(mp.ncdf(-x)), rel=1e-12)
    assert normal_tail_up(Fraction(-100)) == 1
    assert normal_tail_up(Fraction(100)) < 1e-300
    with pytest.raises(BadParameter):
        bad_set_mass(GaussianAt(0, 1), LaplaceAt(0, 1), 1)
    with pytest.raises(BadParameter, match="negative"):
        bad_set_mass(GaussianAt(0, 1), GaussianAt(1, 1), -1)
    assert bad_set_mass(LaplaceAt(0, 1), LaplaceAt(1, 1), 1) == 0
