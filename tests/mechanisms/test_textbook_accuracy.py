"""The error bounds of the textbooks hold for the noise that is drawn, and fail where they are printed wrong."""

from fractions import Fraction
from math import erf, exp, log, sqrt

import numpy as np
import pytest

from discreet import (
    Gaussian,
    Laplace,
    Neighbours,
    RandomizedResponse,
    Sensitivity,
)
from discreet.mechanisms import textbook_accuracy
from discreet.units import histogram
from tests.support.distributions import discrete_laplace_cdf

SIGMAS = 7.5  # two-sided false alarm 6e-14 for each comparison


def test_continuous_laplace_moments_and_tail() -> None:
    scale, grid = 2.0, Laplace(2).grid
    z = np.abs(Laplace(2).release(np.zeros(10**6)))
    assert abs(z.mean() - textbook_accuracy.laplace_mean_absolute(scale)) < SIGMAS * scale / 1000 + float(grid)
    assert abs(np.sqrt((z**2).mean()) / textbook_accuracy.laplace_root_mean_square(scale) - 1) < 0.01
    for t in (0.5, 1, 3):
        assert (z > t * scale).mean() == pytest.approx(textbook_accuracy.laplace_tail(t), abs=SIGMAS / 2000)


def test_lattice_quantiles_are_larger_by_at_most_the_stated_factor() -> None:
    """P(|X| > t) of the integer noise is at most 2/(1 + e^-ε) times the continuous tail e^{-tε}, at integers t."""
    for epsilon in (0.1, 1.0, 4.0):
        cdf = discrete_laplace_cdf(1 / Fraction(epsilon))
        for t in range(5):
            assert 2 * cdf(-t - 1) <= exp(-t * epsilon) * 2 / (1 + exp(-epsilon)) * (1 + 1e-12)


def test_largest_of_d_laplace() -> None:
    d, runs = 200, 4000
    largest = np.abs(Laplace(1).release(np.zeros((runs, d)))).max(axis=1)
    assert largest.mean() <= textbook_accuracy.laplace_expected_max(1, d)
    assert (largest > log(d) + 2).mean() <= textbook_accuracy.laplace_max_tail(2) + SIGMAS * sqrt(0.14 / runs)


def test_3143_counties() -> None:
    m = Laplace.for_epsilon(Fraction(1, 10), histogram(Neighbours.REPLACE))
    assert m.scale == 20
    assert textbook_accuracy.laplace_expected_max(20, 3143) == pytest.approx(181.06, abs=0.005)


def test_10000_names() -> None:
    assert textbook_accuracy.laplace_linf_bound(1, 1, 10_000, 0.05) == pytest.approx(log(200_000))
    assert textbook_accuracy.laplace_linf_bound(1, 1, 10_000, 0.05) == pytest.approx(12.206, abs=5e-4)
    assert textbook_accuracy.laplace_expected_l1(1, 1, 10_000) == 10_000
    assert Laplace(1).error(0.95, 10_000) == 12  # the exact quantile of the integer noise


def test_sample_sizes() -> None:
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


def test_gaussian_tail() -> None:
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


def test_gaussian_wins_from_some_k_on() -> None:
    k = textbook_accuracy.gaussian_wins_from(1, 1e-6)
    for counts, gaussian_wins in ((k - 1, False), (k, True), (2 * k, True), (100 * k, True)):
        laplace = Laplace.for_epsilon(1, Sensitivity(l0=counts, linf=1)).error(0.95, counts)
        gaussian = Gaussian.for_epsilon(1, 1e-6, Sensitivity(l0=counts, linf=1)).error(0.95, counts)
        assert (gaussian < laplace) == gaussian_wins
