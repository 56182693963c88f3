"""The rows of the texts on mechanisms and utility, by name, and where the texts are wrong."""

from fractions import Fraction
from math import erf, exp, inf, log, sqrt

import numpy as np
import pytest

from discreet import (
    BadParameter,
    BadValues,
    Binomial,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
    Sensitivity,
    TheoremNotApplicable,
    TruncatedGeometric,
    gaussian_delta,
    pure,
    zcdp,
)
from discreet.accounting.zcdp import laplace_rho, pure_rho
from discreet.events import LaplaceEvent
from discreet.mechanisms import textbook_accuracy
from discreet.mechanisms.binomial import binomial_delta
from discreet.mechanisms.unsafe import Catastrophe, NameAndShame
from discreet.units import histogram, to_sensitivity
from tests.laws.evidence import refuted
from tests.laws.laws import coin_cdf, discrete_laplace_cdf

SIGMAS = 7.5  # two-sided false alarm 6e-14 for each comparison


# Mechanisms -----------------------------------------------------------------------------------------------------------


def test_fact_randomised_response_truth_two_thirds_is_ln_2() -> None:
    coin = RandomizedResponse(Fraction(2, 3))
    assert coin.epsilon == pytest.approx(log(2), rel=1e-15)
    assert coin.epsilon >= log(2)
    answers = np.asarray(coin.release(np.ones(300_000, np.int64)))
    assert not refuted(answers, coin_cdf(float)(Fraction(2, 3)), [-1, 0, 1])
    assert refuted(answers, coin_cdf(float)(Fraction(2, 3) * Fraction(49, 50)), [-1, 0, 1])


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
@pytest.mark.parametrize("choices", [2, 5])
def test_fact_randomised_response_general(epsilon: float, choices: int) -> None:
    m = RandomizedResponse.for_epsilon(epsilon, choices)
    assert float(m.truth) == pytest.approx(exp(epsilon) / (exp(epsilon) + choices - 1), rel=1e-14)
    assert m.epsilon == pytest.approx(epsilon, rel=1e-14)
    assert pure(m.event()) <= epsilon * (1 + 1e-15)
    answers = np.asarray(m.release(np.full(300_000, 1)))
    for k in range(choices):
        share = m.truth if k == 1 else m.other
        assert not refuted((answers == k).astype(np.int64), coin_cdf(float)(share), [-1, 0, 1])


@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
def test_fact_randomised_response_estimate_is_unbiased_with_stated_deviation(epsilon: float) -> None:
    n, runs, m = 4000, 400, RandomizedResponse.for_epsilon(epsilon)
    assert m.standard_deviation(n) == pytest.approx(exp(epsilon / 2) / (exp(epsilon) - 1) * sqrt(n), rel=1e-12)
    truth = np.repeat([1, 0], [1300, n - 1300])
    estimates = np.array([m.estimate(m.release(truth))[1] for _ in range(runs)])
    error = m.standard_deviation(n) / sqrt(runs)
    assert abs(estimates.mean() - 1300) < SIGMAS * error
    assert abs(estimates.std() / m.standard_deviation(n) - 1) < SIGMAS / sqrt(2 * runs)


def test_fact_randomised_response_tail_of_s4() -> None:
    epsilon, n, t = 1.0, 500, 0.8
    m = RandomizedResponse.for_epsilon(epsilon)
    reach = t * (exp(epsilon) + 1) / (exp(epsilon) - 1) * sqrt(n)
    truth = np.repeat([1, 0], [200, 300])
    misses = sum(abs(m.estimate(m.release(truth))[1] - 200) >= reach for _ in range(400))
    assert misses / 400 <= textbook_accuracy.response_tail(t)
    assert m.error(1 - textbook_accuracy.response_tail(1.0), n) == pytest.approx(
        (exp(1) + 1) / (exp(1) - 1) * sqrt(n), rel=1e-9
    )


@pytest.mark.parametrize("values", [[0.5], ["yes"], [2], [-1], [None], [[0], [1, 0]], [float("nan")], None])
def test_randomised_response_refuses_what_is_no_answer(values) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadValues):
        RandomizedResponse.for_epsilon(1).release(values)


def test_erratum_7_the_flipped_answer_is_one_minus_phi_of_x() -> None:
    """φ(1 − x) as printed makes no sense for records that are not bits; with 1 − φ(x) a predicate on anything works."""
    m = RandomizedResponse.for_epsilon(1, predicate=lambda name: name.startswith("a"))
    answers = m.release(["anna", "bob"] * 20_000)
    assert set(answers) == {0, 1}
    assert np.mean(answers[::2]) > 0.7
    assert np.mean(answers[1::2]) < 0.3


def test_erratum_7_remainders_of_the_appendix() -> None:
    """1/(e^x − 1) − 1/x → −1/2 and 1/(1 − e^-x) − 1/x → 1/2: O(1), not O(x²); and e^x > 1 + x is an equality at 0."""
    x = 1e-4
    assert 1 / np.expm1(x) - 1 / x == pytest.approx(-0.5, abs=1e-4)
    assert -1 / np.expm1(-x) - 1 / x == pytest.approx(0.5, abs=1e-4)
    assert exp(0) == 1 + 0


def test_fact_laplace_scale_is_l1_over_epsilon_per_coordinate() -> None:
    assert Laplace.for_epsilon(Fraction(1, 2), Sensitivity(l0=3, linf=1)).scale == 6
    assert pure(Laplace(6).event(Sensitivity(l0=3, linf=1))) == Fraction(1, 2)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_fact_laplace_and_pure_as_zcdp(epsilon: Fraction) -> None:
    e = float(epsilon)
    assert float(laplace_rho(epsilon)) == pytest.approx(e + exp(-e) - 1, rel=1e-14)
    assert float(pure_rho(epsilon)) == pytest.approx(e * np.tanh(e / 2), rel=1e-14)
    assert zcdp(LaplaceEvent(1 / epsilon, to_sensitivity(1))) == laplace_rho(epsilon)
    assert zcdp(Laplace(1 / epsilon).event(1)) == pure_rho(epsilon)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(9)])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_the_zcdp_readings_hold_at_every_order_for_the_laws_themselves(scale: Fraction, shift: int) -> None:
    """D_α ≤ ρα by summing the lattice law: discrete Laplace and discrete Gaussian, α from 1.01 to 200."""
    reach = np.arange(-800, 801)
    for m, logp in (
        (Laplace(scale), -np.abs(reach) / float(scale)),
        (DiscreteGaussian(scale), -(reach.astype(float) ** 2) / (2 * float(scale) ** 2)),
    ):
        base = logp - np.logaddexp.reduce(logp)
        p, q = base[shift:], base[:-shift]
        rho = float(zcdp(m.event(shift)))
        for alpha in (1.01, 1.5, 2, 5, 20, 200):
            divergence = np.logaddexp.reduce(alpha * p + (1 - alpha) * q) / (alpha - 1)
            assert divergence <= rho * alpha * (1 + 1e-9)


def test_fact_gaussian_classical_rules_and_the_exact_one() -> None:
    epsilon, delta = 0.5, 1e-5
    classical = float(Gaussian.for_epsilon(epsilon, delta, 3, "classical-1.25").sigma)
    assert classical == pytest.approx(3 * sqrt(2 * log(1.25 / delta)) / epsilon, rel=1e-14)
    other = float(Gaussian.for_epsilon(epsilon, delta, 3, "classical-2").sigma)
    assert other == pytest.approx(3 * sqrt(2 * log(2 / delta)) / epsilon, rel=1e-14)
    exact = float(Gaussian.for_epsilon(epsilon, delta, 3).sigma)
    assert exact < classical < other
    bounds = gaussian_delta(3 / Fraction(exact), Fraction(epsilon))
    assert bounds.upper <= delta < bounds.upper * (1 + 1e-9)


def test_erratum_3_classical_gaussian_needs_epsilon_at_most_1() -> None:
    for epsilon, true_delta in ((10, 2.3e-5), (20, 1.5e-3)):
        for rule in ("classical-1.25", "classical-2"):
            with pytest.raises(TheoremNotApplicable, match="ε ≤ 1"):
                Gaussian.for_epsilon(epsilon, 1e-5, 1, rule)  # type: ignore[arg-type]
        sigma = sqrt(2 * log(1.25 / 1e-5)) / epsilon
        assert gaussian_delta(1 / sigma, epsilon).lower == pytest.approx(true_delta, rel=0.02)
        kept = Gaussian.for_epsilon(epsilon, 1e-5, 1)
        assert gaussian_delta(1 / kept.sigma, epsilon).upper <= 1e-5


def test_hazard_classical_gaussian_at_20_and_50_is_150_and_58600_times_the_claim() -> None:
    for epsilon, factor in ((20, 150), (50, 58_600)):
        sigma = sqrt(2 * log(1.25 / 1e-5)) / epsilon
        assert float(gaussian_delta(1 / sigma, epsilon)) / 1e-5 == pytest.approx(factor, rel=0.03)


def test_fact_geometric_and_truncated_geometric() -> None:
    assert Geometric is Laplace
    m = TruncatedGeometric.for_epsilon(Fraction(1, 3), 1, 0, 6)
    draws = np.asarray(m.release(np.full(300_000, 2)))
    inside = discrete_laplace_cdf(Fraction(3))
    law = lambda k: 0.0 if k < 0 else 1.0 if k >= 6 else inside(k - 2)  # noqa: E731
    assert not refuted(draws, law, list(range(-1, 7)))
    for x in range(6):  # brute force: every output's ratio between neighbours stays within e^ε
        p, q = (np.diff([0.0, *(inside(k - y) for k in range(6)), 1.0]) for y in (x, x + 1))
        assert np.abs(np.log(p / q)).max() <= 1 / 3 + 1e-12


@pytest.mark.parametrize("n", [2, 10, 40])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_fact_binomial_delta_against_exact_rationals(n: int, epsilon: float, shift: int) -> None:
    from math import comb

    e = Fraction(exp(epsilon))
    pmf = {k: Fraction(comb(n, k), 2**n) for k in range(n + 1)}
    truth = sum(max(Fraction(0), p - e * pmf.get(k + shift, Fraction(0))) for k, p in pmf.items())
    value = binomial_delta(n, shift, Fraction(epsilon))
    assert truth * (1 - Fraction(1, 10**12)) <= value <= truth * (1 + Fraction(1, 10**9)) + Fraction(1, 10**20)


def test_fact_binomial_has_no_pure_epsilon_and_calibrates() -> None:
    assert pure(Binomial(10).event(1)) == zcdp(Binomial(10).event(1)) == inf
    m = Binomial.for_epsilon(1, 1e-6, 1)
    assert binomial_delta(m.n, 1, Fraction(1)) <= 1e-6 < binomial_delta(m.n - 2, 1, Fraction(1))


def test_binomial_divides_its_price_over_the_moved_coordinates() -> None:
    one, three = (Binomial.for_epsilon(1, 1e-6, Sensitivity(l0=l0, linf=1)) for l0 in (1, 3))
    assert three.n > 5 * one.n
    assert binomial_delta(three.n, 1, Fraction(1, 3)) * 3 <= 1e-6


@pytest.mark.parametrize(("epsilon", "delta"), [(1, Fraction(1, 10**308)), (10**400, 1e-6), (1e-200, 1e-100)])
def test_gaussian_targets_past_the_doubles_are_refused_or_met(epsilon, delta) -> None:  # type: ignore[no-untyped-def]
    try:
        m = Gaussian.for_epsilon(epsilon, delta, 1)
    except BadParameter:
        return
    assert gaussian_delta(1 / m.sigma, epsilon).upper <= delta


def test_fact_discrete_gaussian_is_rho_zcdp_but_not_gdp() -> None:
    assert zcdp(DiscreteGaussian.for_rho(Fraction(1, 50), 3).event(3)) <= Fraction(1, 50)
    weights = np.exp(-(np.arange(-60, 61) ** 2) / 2.0)
    weights /= weights.sum()
    variation = np.maximum(weights[1:] - weights[:-1], 0).sum() + max(weights[0], 0)
    assert variation == pytest.approx(0.3989, abs=5e-5)
    assert float(gaussian_delta(1, 0)) == pytest.approx(0.3829, abs=5e-5)


def test_fact_catastrophe_satisfies_epsilon_delta_and_is_terrible() -> None:
    m = Catastrophe(Fraction(1, 10))
    outs = [m.release(["anna", "bob"]) for _ in range(2000)]
    assert all(out in ([], ["anna", "bob"]) for out in outs)
    assert 60 < sum(map(bool, outs)) < 400  # 200 expected, 10 standard deviations
    assert (m.event().epsilon, m.event().delta) == (0, Fraction(1, 10))
    assert pure(m.event()) == zcdp(m.event()) == inf


def test_fact_name_and_shame_exposes_n_delta() -> None:
    m = NameAndShame(Fraction(1, 100))
    exposed = len(m.release(list(range(100_000))))
    assert m.expected_exposures(100_000) == 1000
    assert abs(exposed - 1000) < SIGMAS * sqrt(1000)
    assert pure(m.event()) == zcdp(m.event()) == inf


# Utility --------------------------------------------------------------------------------------------------------------


def test_fact_continuous_laplace_moments_and_tail() -> None:
    scale, grid = 2.0, Laplace(2).grid
    z = np.abs(Laplace(2).release(np.zeros(10**6)))
    assert abs(z.mean() - textbook_accuracy.laplace_mean_absolute(scale)) < SIGMAS * scale / 1000 + float(grid)
    assert abs(np.sqrt((z**2).mean()) / textbook_accuracy.laplace_root_mean_square(scale) - 1) < 0.01
    for t in (0.5, 1, 3):
        assert (z > t * scale).mean() == pytest.approx(textbook_accuracy.laplace_tail(t), abs=SIGMAS / 2000)


def test_fact_lattice_quantiles_are_larger_by_at_most_the_stated_factor() -> None:
    """P(|X| > t) of the lattice law is at most 2/(1 + e^-ε) times the continuous tail e^{-tε}, at whole t."""
    for epsilon in (0.1, 1.0, 4.0):
        cdf = discrete_laplace_cdf(1 / Fraction(epsilon))
        for t in range(5):
            assert 2 * cdf(-t - 1) <= exp(-t * epsilon) * 2 / (1 + exp(-epsilon)) * (1 + 1e-12)


def test_fact_largest_of_d_laplace() -> None:
    d, runs = 200, 4000
    largest = np.abs(Laplace(1).release(np.zeros((runs, d)))).max(axis=1)
    assert largest.mean() <= textbook_accuracy.laplace_expected_max(1, d)
    assert (largest > log(d) + 2).mean() <= textbook_accuracy.laplace_max_tail(2) + SIGMAS * sqrt(0.14 / runs)


def test_fact_3143_counties() -> None:
    moved = histogram(__import__("discreet").Neighbours.REPLACE)
    m = Laplace.for_epsilon(Fraction(1, 10), moved)
    assert m.scale == 20
    assert textbook_accuracy.laplace_expected_max(20, 3143) == pytest.approx(181.06, abs=0.005)


def test_fact_10000_names() -> None:
    assert textbook_accuracy.laplace_linf_bound(1, 1, 10_000, 0.05) == pytest.approx(log(200_000))
    assert textbook_accuracy.laplace_linf_bound(1, 1, 10_000, 0.05) == pytest.approx(12.206, abs=5e-4)
    assert textbook_accuracy.laplace_expected_l1(1, 1, 10_000) == 10_000
    assert Laplace(1).error(0.95, 10_000) == 12  # the exact quantile of the lattice law


def test_fact_sample_sizes() -> None:
    assert textbook_accuracy.laplace_sample_size(0.01, 0.1) == pytest.approx(sqrt(2) / 0.001)
    assert textbook_accuracy.laplace_sample_size(0.005, 0.1) / textbook_accuracy.laplace_sample_size(
        0.01, 0.1
    ) == pytest.approx(2)
    assert textbook_accuracy.response_sample_size(0.005, 0.1) / textbook_accuracy.response_sample_size(
        0.01, 0.1
    ) == pytest.approx(4)
    assert textbook_accuracy.response_sample_size(0.01, 0.05) / textbook_accuracy.response_sample_size(
        0.01, 0.1
    ) == pytest.approx(4, rel=0.01)
    n = round(textbook_accuracy.response_sample_size(0.05, 1))
    assert RandomizedResponse.for_epsilon(1).standard_deviation(n) / n == pytest.approx(0.05, rel=0.01)
    n = round(textbook_accuracy.laplace_sample_size(0.01, 0.1))
    assert textbook_accuracy.laplace_root_mean_square(1 / 0.1) / n == pytest.approx(0.01, rel=0.01)


def test_fact_gaussian_tail() -> None:
    for t in (0.5, 1, 2, 4):
        assert 1 - erf(t / sqrt(2)) <= textbook_accuracy.gaussian_tail(t)


@pytest.mark.parametrize(("k", "failure"), [(1, 0.083), (1000, 0.81)])
def test_erratum_2_gaussian_linf_bound_as_printed_fails(k: int, failure: float) -> None:
    beta, epsilon, delta = 0.05, 1.0, 1e-5
    sigma = sqrt(2 * log(1.25 / delta)) / epsilon
    printed = textbook_accuracy.gaussian_linf_bound_as_printed(1, epsilon, delta, k, beta)
    assert 1 - erf(printed / sigma / sqrt(2)) ** k == pytest.approx(failure, abs=0.005)
    right = textbook_accuracy.gaussian_linf_bound(sigma, k, beta)
    assert 1 - erf(right / sigma / sqrt(2)) ** k <= beta
    assert Gaussian(sigma).error(1 - beta, k) <= right + 1
    assert textbook_accuracy.gaussian_expected_max(sigma, k) <= right


def test_fact_gaussian_wins_from_some_k_on() -> None:
    k = textbook_accuracy.gaussian_wins_from(1, 1e-6)
    for counts, gaussian_wins in ((k - 1, False), (k, True), (2 * k, True), (100 * k, True)):
        laplace = Laplace.for_epsilon(1, Sensitivity(l0=counts, linf=1)).error(0.95, counts)
        gaussian = Gaussian.for_epsilon(1, 1e-6, Sensitivity(l0=counts, linf=1)).error(0.95, counts)
        assert (gaussian < laplace) == gaussian_wins
