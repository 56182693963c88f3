"""Means and histograms with few bits: exact distributions, ε by enumeration, and the figures of the papers."""

from fractions import Fraction
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from discreet.errors import BadParameter, BadValues
from discreet.events import Claim
from discreet.local import microsoft
from discreet.local.draws import TapeDraws
from discreet.local.numeric import (
    BucketFlip,
    DuchiMean,
    OneBitMean,
    RoundedBit,
    duchi_variance,
    flip_odds,
    hybrid_variance,
    laplace_variance,
    piecewise_variance,
)
from discreet.local.odds import odds_for_epsilon
from discreet.testing import seeded_bits
from tests.support.local_distributions import distribute_history, distribute_permanent, distribute_reports, largest_ratio

GAMMAS = (Fraction(0), Fraction(1, 10), Fraction(2, 7))
FALSE_ALARM = 1e-9


def odds_of(epsilon: float) -> Fraction:
    return odds_for_epsilon(Fraction(repr(epsilon)), 1 << 20)


def moments(distribution, reading) -> tuple[Fraction, Fraction]:
    mean = sum(chance * reading(report) for report, chance in distribution.items())
    return mean, sum(chance * (reading(report) - mean) ** 2 for report, chance in distribution.items())


# One bit


@pytest.mark.parametrize("mean", [OneBitMean(4, Fraction(3)), OneBitMean(3, Fraction(7, 5)), DuchiMean(4, Fraction(5, 2))])
def test_one_bit_has_the_stated_distribution_and_epsilon(mean):
    found = [distribute_reports(mean, value) for value in range(mean.values)]
    for value, distribution in enumerate(found):
        stated = 1 / (mean.odds + 1) + Fraction(value, mean.top) * (mean.odds - 1) / (mean.odds + 1)
        assert distribution[(1,)] == mean.probability(value) == stated
    assert largest_ratio(found) == mean.odds == mean.event().odds


@pytest.mark.parametrize("value", range(5))
def test_one_bit_is_unbiased_and_has_the_stated_variance(value):
    mean = OneBitMean(4, Fraction(3))
    found = moments(distribute_reports(mean, value), lambda report: mean.estimate(report[0], 1))
    assert found == (value, mean.variance([value]))
    assert mean.variance([value]) <= mean.worst_variance(1) == mean.variance([2])


@pytest.mark.parametrize("value", range(5))
def test_duchis_mean_reads_the_grid_from_minus_one_to_one(value):
    mean = DuchiMean(4, Fraction(3))
    found = moments(distribute_reports(mean, value), lambda report: mean.estimate(report[0], 1))
    point = Fraction(value, 2) - 1
    assert found == (point, mean.variance([value])) == (point, mean.spread**2 - point**2)


def test_a_value_above_the_range_is_refused():
    with pytest.raises(BadParameter, match="above 4"):
        OneBitMean(4, Fraction(3)).draw(5, TapeDraws(b"\0" * 8))
    with pytest.raises(BadValues, match="from 0 to 4"):
        OneBitMean(4, Fraction(3)).draw_many(np.array([5]))
    with pytest.raises(BadParameter, match="top"):
        OneBitMean(2**52, Fraction(3))


def test_many_bits_have_the_distribution_of_one():
    mean, n = OneBitMean(10, Fraction(3)), 200_000
    for value in (0, 7, 10):
        ones = int(mean.draw_many(np.full(n, value), seeded_bits(value)).sum())
        p = float(mean.probability(value))
        assert binom.ppf(FALSE_ALARM / 2, n, p) <= ones <= binom.isf(FALSE_ALARM / 2, n, p)


# Rounding, memo and output flip


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("step", [1, 2, 3, 6])
def test_a_rounded_bit_is_a_one_bit_mean_on_average_over_devices(step, gamma):
    rounded = RoundedBit(6, step, Fraction(3), gamma)
    found = [distribute_reports(rounded, value) for value in range(7)]
    for value, distribution in enumerate(found):
        assert distribution[(1,)] == rounded.mean.probability(value)
    assert largest_ratio(found) == rounded.report_odds == rounded.report_event().odds


def test_rounding_to_a_step_that_does_not_divide_would_be_biased_and_is_refused():
    with pytest.raises(BadParameter, match="does not divide"):
        RoundedBit(7, 3, Fraction(3))
    rounded = [sum(3 * ((value + alpha) // 3) for alpha in range(3)) for value in range(8)]
    assert rounded == [3 * value for value in range(8)]  # unbiased below the top, but 3·⌊(7 + 2)/3⌋ = 9 leaves the range
    assert max(3 * ((7 + alpha) // 3) for alpha in range(3)) > 7


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 4)])
def test_histories_of_the_same_pattern_cost_the_states_that_they_take(gamma):
    rounded = RoundedBit(2, 2, Fraction(3), gamma)  # α is 0 or 1: the states of 0 and 2 are 0 and 1 on every device
    for values, others, states in [((0, 0), (2, 2), 1), ((0, 2), (2, 0), 2), ((0, 2, 0), (2, 0, 2), 2)]:
        both = [distribute_history(rounded, values), distribute_history(rounded, others)]
        ratio = largest_ratio(both)
        assert ratio <= rounded.permanent_odds**states
        if not gamma:
            assert ratio == rounded.permanent_odds**states


def test_across_patterns_a_memo_alone_has_no_epsilon():
    rounded = RoundedBit(2, 2, Fraction(3))
    assert largest_ratio([distribute_history(rounded, (0, 0)), distribute_history(rounded, (0, 2))]) is None
    assert rounded.epsilon_of_reports(2) == float("inf")
    assert rounded.instantaneous_event() is None


@pytest.mark.parametrize("reports", [1, 2, 3, 4])
def test_across_patterns_reports_cost_the_output_flip(reports):
    rounded = RoundedBit(2, 2, Fraction(3), Fraction(1, 4))
    histories = [
        distribute_history(rounded, [2 * (code >> day & 1) for day in range(reports)]) for code in range(2**reports)
    ]
    found = largest_ratio(histories)
    assert found <= rounded.instantaneous_odds**reports
    assert log(found) <= rounded.epsilon_of_reports(reports)


def test_across_patterns_two_reports_can_cost_more_than_twice_one():
    rounded = RoundedBit(2, 2, Fraction(3, 2), Fraction(1, 20))
    found = largest_ratio([distribute_history(rounded, values) for values in ((0, 0), (0, 2))])
    assert rounded.report_odds**2 < found <= rounded.instantaneous_odds**2


def test_epsilon_for_life_carries_its_condition():
    life = RoundedBit(24, 6, Fraction(3)).lifetime(2)
    assert "same pattern of changes" in life.condition
    assert str(life).startswith("ε = 2.2 for life, between two histories with the same pattern of changes")
    assert str(life).endswith("between any other two histories no finite ε.")
    flipped = RoundedBit(24, 6, Fraction(3), Fraction(1, 10))
    assert flipped.lifetime(2, reports=3).unconditional == flipped.epsilon_of_reports(3)


def test_output_flip_figures():
    """γ = 0.1 at ε = .5, 1, 2: .397, .776, 1.416."""
    for epsilon, stated in ((0.5, 0.397), (1, 0.776), (2, 1.416)):
        assert log(flip_odds(odds_of(epsilon), Fraction(1, 10))) == pytest.approx(stated, abs=5e-4)


def test_output_flip_estimates_by_subtracting_gamma_and_dividing():
    rounded, gamma = RoundedBit(6, 3, Fraction(3), Fraction(1, 10)), Fraction(1, 10)
    plain = OneBitMean(6, Fraction(3))
    for ones in (0, 40, 100):
        share = (Fraction(ones, 100) - gamma) / (1 - 2 * gamma)
        assert rounded.mean.estimate(ones, 100) == plain.span * (share * (plain.odds + 1) - 1) / (plain.odds - 1)


# Buckets


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 4)])
@pytest.mark.parametrize(("buckets", "observed"), [(2, 1), (3, 1), (2, 2), (3, 2), (3, 3), (4, 2)])
def test_bucket_flips_have_the_stated_distribution_and_epsilon(buckets, observed, gamma):
    flip = BucketFlip(buckets, observed, Fraction(2), gamma)
    found = [distribute_reports(flip, value) for value in range(buckets)]
    keep = flip.report_root / (flip.report_root + 1)
    sets = len({report[:observed] for report in found[0]})
    for value, distribution in enumerate(found):
        assert sum(distribution.values()) == 1
        for report, chance in distribution.items():
            assert flip.is_valid(report)
            stated = Fraction(1, sets)
            for place in range(observed):
                bit, own = report[observed] >> place & 1, report[place] == value
                stated *= keep if bit == own else 1 - keep
            assert chance == stated
    assert largest_ratio(found) == flip.report_odds
    assert flip.report_odds == flip.report_root ** (1 if observed == 1 else 2)


def test_one_observed_bucket_states_only_its_epsilon():
    """The event of a yes or no has a blanket that its reports lack, which its reading in a shuffled crowd needs.

    Every report would have to be at least γ·base(y) likely, where base is made of a fair coin by the channel that makes the
    reports of two values from the two answers. A third value whose bucket is observed is not.
    """
    flip = BucketFlip(3, 1, Fraction(3))
    assert flip.report_event() == Claim(Fraction(flip.epsilon), Fraction(0))
    gamma, likeliest = 2 / (flip.root + 1), flip.root / (flip.root + 1)
    assert distribute_reports(flip, 2)[(2, 0)] < gamma * likeliest / 3


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 4)])
@pytest.mark.parametrize(("buckets", "observed"), [(3, 1), (3, 2), (3, 3), (4, 2)])
def test_bucket_estimates_are_unbiased_with_the_stated_variance(buckets, observed, gamma):
    flip = BucketFlip(buckets, observed, Fraction(2), gamma)
    distribution = distribute_reports(flip, 1)

    def estimate(bucket):
        def read(report):
            asked, ones = flip.count([report])
            return flip.estimate(asked[bucket], ones[bucket])

        return read

    assert moments(distribution, estimate(1)) == (1, flip.variance(1, 1))
    assert moments(distribution, estimate(0)) == (0, flip.variance(1, 0)) == (0, flip.null_variance)


def test_a_device_that_observes_all_buckets_runs_symmetric_unary_encoding():
    from discreet.local.oracles import Unary

    flip, unary = BucketFlip(3, 3, Fraction(2)), Unary.symmetric(3, Fraction(2))
    for value in range(3):
        found = {report[3:]: chance for report, chance in distribute_reports(flip, value).items()}
        assert found == distribute_reports(unary, value)
    assert flip.report_event() == unary.event()


def test_a_device_has_as_many_states_as_it_observes_and_one():
    for buckets, observed in [(4, 1), (4, 2), (4, 4), (3, 2)]:
        flip = BucketFlip(buckets, observed, Fraction(2))
        device = tuple(range(observed))
        assert len({flip.encode(value, device) for value in range(buckets)}) == flip.states == min(observed + 1, buckets)
        found = [distribute_permanent(flip, value, device) for value in range(buckets)]
        assert largest_ratio(found) == flip.permanent_odds


def test_observed_buckets_are_uniform_sets():
    flip = BucketFlip(5, 3, Fraction(2))
    from tests.support.local_distributions import distribute

    found = distribute(flip.device_moduli, flip.observe)
    assert len(found) == 10
    assert set(found.values()) == {Fraction(1, 10)}


def test_counts_of_many_have_the_distribution_of_one():
    flip, n = BucketFlip(6, 3, Fraction(2), Fraction(1, 10)), 100_000
    asked, ones = flip.draw_counts(np.arange(n) % 3, seeded_bits(5))
    keep = float(flip.report_root / (flip.report_root + 1))
    assert asked.sum() == 3 * n
    for bucket in range(6):
        share = (keep + 2 * (1 - keep)) / 3 if bucket < 3 else 1 - keep
        for count, p in ((asked[bucket], 0.5), (ones[bucket], 0.5 * share)):
            assert binom.ppf(FALSE_ALARM / 2, n, p) <= count <= binom.isf(FALSE_ALARM / 2, n, p)


# Figures


def test_means_table():
    """Worst variance a person on [−1, 1]: Duchi, piecewise, hybrid, Laplace."""
    table = {
        0.5: (16.67, 21.22, 16.67, 32),
        1: (4.683, 5.224, 4.289, 8),
        2: (1.724, 1.228, 1.042, 2),
        3: (1.221, 0.493, 0.432, 0.889),
        4: (1.076, 0.241, 0.219, 0.5),
    }
    for epsilon, stated in table.items():
        found = [kind(epsilon) for kind in (duchi_variance, piecewise_variance, hybrid_variance, laplace_variance)]
        assert found == pytest.approx(stated, rel=1.5e-3)
        duchi = DuchiMean(1000, odds_of(epsilon))
        assert float(duchi.worst_variance(1)) == pytest.approx(duchi_variance(epsilon), rel=1e-6)


def test_the_hybrid_mechanism_mixes_from_its_published_epsilon_on():
    assert hybrid_variance(0.609) == duchi_variance(0.609)
    assert hybrid_variance(0.6095) < duchi_variance(0.6095)


def test_microsoft_mean_figures():
    """n = 3·10⁵: half-width/m at δ = .05, and worst standard deviation/m."""
    table = {
        0.1: (0.049632, 0.018273),
        0.5: (0.010124, 0.003727),
        1: (0.005366, 0.001975),
        2: (0.003256, 0.001199),
        5: (0.002513, 0.000925),
    }
    for epsilon, (width, deviation) in table.items():
        mean = microsoft.one_bit_mean(1000, epsilon)
        assert mean.epsilon <= epsilon
        # Odds are rounded down to small fractions, so ε = 0.1 is met to about 1e-6 of 0.1.
        assert mean.half_width(300_000, Fraction(19, 20)) / 1000 == pytest.approx(width, rel=3e-4)
        assert sqrt(mean.worst_variance(300_000)) / 1000 == pytest.approx(deviation, rel=4e-4)


def test_microsoft_bucket_figures():
    """k = 32, ε = 1, n = 10⁶: the standard deviation of a share for d = 1, 2, 4, 16, 32."""
    table = {1: 0.011197, 2: 0.007917, 4: 0.005598, 16: 0.002799, 32: 0.001979}
    for observed, stated in table.items():
        flip = microsoft.d_bit_flip(32, observed, 1)
        assert sqrt(flip.variance(10**6)) / 10**6 == pytest.approx(stated, abs=1e-6)
        assert flip.epsilon <= (0.5 if observed == 1 else 1)


def test_the_papers_bucket_bound_is_four_times_as_wide():
    flip = microsoft.d_bit_flip(32, 4, 1)
    ours = microsoft.histogram_half_width(flip, 10**6)
    assert microsoft.paper_histogram_bound(32, 4, 10**6, 1, 0.05) / ours == pytest.approx(4.2, abs=0.05)


def test_microsoft_names_take_the_papers_parameters():
    rounded = microsoft.one_bit_rrpm(24, 6, 1, 0.1)
    assert (rounded.top, rounded.step, rounded.gamma) == (24, 6, Fraction(1, 10))
    assert rounded.odds <= Fraction(exp(1))
    flip = microsoft.d_bit_flip_pm(32, 4, 1, 0.1)
    assert (flip.buckets, flip.observed, flip.gamma) == (32, 4, Fraction(1, 10))


@pytest.mark.parametrize("gamma", [Fraction(1, 2), Fraction(-1, 10)])
def test_an_output_flip_has_to_leave_information(gamma):
    with pytest.raises(BadParameter, match="gamma"):
        RoundedBit(6, 3, Fraction(3), gamma)
    with pytest.raises(BadParameter, match="gamma"):
        BucketFlip(6, 3, Fraction(3), gamma)
