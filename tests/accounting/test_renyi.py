"""Rényi divergences against sums and integrals in high precision that share no code with them."""

from fractions import Fraction
from itertools import pairwise
from math import inf

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.pure import pure
from discreet.accounting.renyi import renyi
from discreet.accounting.sampled_moments import add_moment, interpolate_moment, remove_moment, remove_moment_near_one
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.events import (
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    compose,
    contains_shuffled,
)
from discreet.units import Sensitivity, to_sensitivity
from tests.support.every_event import EVERY

ORDERS = [Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(5, 2), Fraction(7), Fraction(32)]


def big(value):
    return mp.mpf(Fraction(value).numerator) / Fraction(value).denominator


def sum_divergence(p, q, order):
    return mp.log(mp.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))) / (order - 1)


def close_above(upper, truth, slack=1e-9):
    return truth <= big(upper) * (1 + mp.mpf(10) ** -30) and big(upper) <= truth * (1 + slack) + mp.mpf(10) ** -25


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_discrete_laplace_equals_its_sum(order, steps):
    scale = Fraction(3, 2)
    a = mp.e ** (-1 / big(scale))
    masses = [a ** abs(k) * (1 - a) / (1 + a) for k in range(-400, 401)]
    truth = sum_divergence(masses[steps:], masses[: len(masses) - steps], big(order))
    assert close_above(renyi(DiscreteLaplaceEvent(scale, to_sensitivity(steps)), order), truth)


@pytest.mark.parametrize("order", ORDERS)
def test_laplace_equals_its_integral(order):
    scale, alpha = mp.mpf(3), big(order)

    def integrand(x):
        return mp.e ** (-alpha * abs(x) / scale - (1 - alpha) * abs(x - 1) / scale) / (2 * scale)

    truth = mp.log(mp.quad(integrand, [-mp.inf, 0, 1, mp.inf])) / (alpha - 1)
    assert close_above(renyi(LaplaceEvent(Fraction(3), to_sensitivity(1)), order), truth)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("truth", "choices"), [(Fraction(3, 4), 2), (Fraction(1, 5), 2), (Fraction(1, 2), 4), (Fraction(1, 10), 5)]
)
def test_response_equals_its_sum(order, truth, choices):
    wrong = (1 - truth) / (choices - 1)
    first = [big(truth)] + [big(wrong)] * (choices - 1)
    second = [first[1], first[0], *first[2:]]
    assert close_above(renyi(RandomizedResponseEvent(truth, choices), order), sum_divergence(first, second, big(order)))


def test_discrete_gaussian_lies_below_its_bound():
    masses = [mp.e ** (-(mp.mpf(k) ** 2) / 2) for k in range(-60, 61)]
    masses = [w / mp.fsum(masses) for w in masses]
    for order in (2, 5, 9):
        assert sum_divergence(masses[1:], masses[:-1], order) <= big(
            renyi(DiscreteGaussianEvent(Fraction(1), to_sensitivity(1)), order)
        )


def sampled_moment(sigma, rate, order, *, remove):
    """A_α or B_α of a sampled Gaussian by quadrature."""
    s, q, alpha = big(sigma), big(rate), big(order)

    def integrand(x):
        base = mp.npdf(x, 0, s)
        ratio = 1 - q + q * mp.e ** ((2 * x - 1) / (2 * s**2))
        return base * (ratio**alpha if remove else ratio ** (1 - alpha))

    with mp.workdps(20):
        return mp.quad(integrand, mp.linspace(-12 * s, 12 * s + alpha, 20))


@pytest.mark.parametrize("order", [Fraction(6, 5), Fraction(2), Fraction(9, 2), Fraction(16)])
@pytest.mark.parametrize(
    ("sigma", "rate"), [(Fraction(1), Fraction(1, 100)), (Fraction(2), Fraction(1, 2)), (Fraction(1, 2), Fraction(1, 10))]
)
def test_sampled_gaussian_is_above_both_directions_and_equal_at_integer_orders(order, sigma, rate):
    found = big(renyi(Subsampled(GaussianEvent(sigma, to_sensitivity(1)), rate), order)) * (big(order) - 1)
    removed, added = (mp.log(sampled_moment(sigma, rate, order, remove=way)) for way in (True, False))
    assert added <= removed * (1 + mp.mpf(10) ** -12) <= found * (1 + mp.mpf(10) ** -11)
    if order.denominator == 1:
        assert found <= removed * (1 + 1e-9)


@given(
    rate=st.fractions(Fraction(1, 1000), Fraction(999, 1000)),
    mirror=st.lists(st.integers(1, 50), min_size=2, max_size=5),
    order=st.fractions(Fraction(101, 100), Fraction(20)),
)
@settings(max_examples=150, deadline=None)
def test_a_mirrored_pair_diverges_most_when_a_unit_is_removed(rate, mirror, order):
    """The lemma of `subsampling`, on random pairs that an involution (the reversal) swaps."""
    total, q, alpha = mp.mpf(sum(mirror)), big(rate), big(order)
    with_unit = [w / total for w in mirror]
    without = with_unit[::-1]
    mixed = [(1 - q) * b + q * a for a, b in zip(with_unit, without, strict=True)]
    assert sum_divergence(without, mixed, alpha) <= sum_divergence(mixed, without, alpha) + mp.mpf(10) ** -30


@given(
    rate=st.fractions(Fraction(1, 1000), Fraction(9, 10)),
    weights=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=2, max_size=5),
    order=st.fractions(Fraction(101, 100), Fraction(12)),
)
@settings(max_examples=100, deadline=None)
def test_sampling_any_pair_is_bounded_in_both_directions(rate, weights, order):
    """The case without a mirror: any two distributions, their divergences taken from sums."""
    from math import ceil, floor

    import numpy as np

    p = [mp.mpf(a) / sum(a for a, _ in weights) for a, _ in weights]
    q = [mp.mpf(b) / sum(b for _, b in weights) for _, b in weights]
    rated, alpha = big(rate), big(order)
    mixed = [(1 - rated) * b + rated * a for a, b in zip(p, q, strict=True)]

    def both(n):
        return float(max(sum_divergence(p, q, n), sum_divergence(q, p, n))) * (1 + 1e-12)

    def removed(n):
        return remove_moment(rate, n, np.array([both(k) for k in range(2, n + 1)])) if n > 1 else 0.0

    real = float(order)
    remove = interpolate_moment(real, floor(real), removed(floor(real)), removed(ceil(real)))
    add = add_moment(rate, real, both(2), both(alpha))
    slack = mp.mpf(10) ** -12
    assert sum_divergence(mixed, q, alpha) * (alpha - 1) <= remove * (1 + slack) + slack
    assert sum_divergence(q, mixed, alpha) * (alpha - 1) <= add * (1 + slack) + slack
    if real <= 2:
        near = remove_moment_near_one(rate, real, both(2))
        assert sum_divergence(mixed, q, alpha) * (alpha - 1) <= near * (1 + slack) + slack


def test_a_dropped_direction_would_be_noticed():
    """Mutant: the add direction alone understates a sampled Gaussian."""
    added = mp.log(sampled_moment(Fraction(1, 2), Fraction(1, 10), 16, remove=False)) / 15
    assert added < big(renyi(Subsampled(GaussianEvent(Fraction(1, 2), to_sensitivity(1)), Fraction(1, 10)), 16)) / 2


@pytest.mark.parametrize("name", EVERY)
def test_every_event_has_a_divergence_at_every_order_and_it_grows(name):
    divergences = [renyi(EVERY[name], order) for order in (Fraction(3, 2), 2, Fraction(5, 2), 8, 64)]
    divergences.append(renyi(EVERY[name], inf))
    assert all(r >= 0 for r in divergences)
    assert all(float(b) >= float(a) * (1 - 1e-9) for a, b in pairwise(divergences))


@pytest.mark.parametrize("name", EVERY)
def test_renyi_is_never_above_what_zcdp_or_pure_imply(name):
    event = EVERY[name]
    for order in (Fraction(3, 2), Fraction(4)):
        assert float(renyi(event, order)) <= float(pure(event)) * (1 + 1e-12) + 1e-30
        assert float(renyi(event, order)) <= float(order * zcdp(event)) * (1 + 1e-12) + 1e-30


def test_catastrophes_are_infinite():
    """FACTS, catastrophes: a leak with probability δ has no finite divergence."""
    assert renyi(Claim(Fraction(0), Fraction(1, 10**9)), 2) == inf == zcdp(Claim(Fraction(0), Fraction(1, 10**9)))


def test_gaussian_row_of_facts():
    """σ² = Δ²α/(2ε̄)."""
    assert renyi(GaussianEvent(Fraction(10), to_sensitivity(3)), 4) == Fraction(9 * 4, 2 * 100)


def test_multiplicity_counts():
    one = LaplaceEvent(Fraction(3), to_sensitivity(1))
    assert renyi(one * 1000, 3) == 1000 * renyi(one, 3) == renyi(compose(*[one] * 1000), 3)


def test_group_of_one_and_sample_of_all_are_nothing_new_and_sample_of_none_is_free():
    for event in EVERY.values():
        assert renyi(Group(event, 1), 3) <= renyi(event, 3)
        sample = SampledWithoutReplacement if contains_shuffled(event) else Subsampled
        assert renyi(sample(event, Fraction(1)), 3) == renyi(event, 3)
        assert renyi(sample(event, Fraction(0)), 3) == 0


def test_a_sample_of_a_sample_is_a_sample():
    inner = GaussianEvent(Fraction(1), to_sensitivity(1))
    twice = Subsampled(Subsampled(inner, Fraction(1, 10)), Fraction(1, 10))
    assert renyi(twice, 4) == renyi(Subsampled(inner, Fraction(1, 100)), 4)


def test_bounded_range_is_used_for_the_exponential_mechanism_only():
    assert renyi(ExponentialEvent(Fraction(1, 10)), 2) == Fraction(2, 800)


def test_the_smaller_of_two_shapes_is_taken():
    spread = LaplaceEvent(Fraction(10), Sensitivity(l0=100, linf=1))
    assert float(renyi(spread, 2)) < float(renyi(LaplaceEvent(Fraction(10), to_sensitivity(100)), 2)) / 5


@pytest.mark.parametrize("order", [1, Fraction(1, 2), -2, float("nan")])
def test_orders_that_make_no_sense_are_refused(order):
    with pytest.raises(BadParameter):
        renyi(EVERY["gaussian"], order)
