"""`error` is the exact quantile of the largest of `size` errors: it holds, and one step less does not."""

from fractions import Fraction
from math import erfc, sqrt

import numpy as np
import pytest
from flint import arb

from discreet import Binomial, DiscreteGaussian, Gaussian, Laplace, TruncatedGeometric
from discreet.errors import BadParameter
from tests.support.distributions import binomial_cdf, discrete_gaussian_cdf, discrete_laplace_cdf, rounded_gaussian_cdf

CASES = [
    (Laplace(1), discrete_laplace_cdf(Fraction(1))),
    (Laplace(Fraction(1, 3)), discrete_laplace_cdf(Fraction(1, 3))),
    (Laplace(1000), discrete_laplace_cdf(Fraction(1000))),
    (Gaussian(4), rounded_gaussian_cdf(Fraction(4))),
    (Gaussian(Fraction(1, 5)), rounded_gaussian_cdf(Fraction(1, 5))),
    (Gaussian(10**6), rounded_gaussian_cdf(Fraction(10**6))),
    (DiscreteGaussian(4), discrete_gaussian_cdf(Fraction(4))),
    (DiscreteGaussian(900), discrete_gaussian_cdf(Fraction(900))),
    (Binomial(100), lambda k: binomial_cdf(Fraction(100))(k + 50)),
]


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("m", "cdf"), CASES, ids=[repr(m) for m, _ in CASES])
def test_error_is_the_least_that_holds(m, cdf, confidence: float, size: int) -> None:  # type: ignore[no-untyped-def]
    t = int(m.error(confidence, size))

    def holds(t: int) -> float:
        return (1 - 2 * cdf(-t - 1)) ** size if t >= 0 else 0.0

    assert holds(t) >= confidence
    assert holds(t - 1) < confidence + 1e-6


def test_a_count_at_epsilon_1_has_a_half_width_of_3_that_covers_97_percent() -> None:
    cdf = discrete_laplace_cdf(Fraction(1))
    assert Laplace.for_epsilon(1, 1).error(0.95) == 3
    assert round(1 - 2 * cdf(-4), 3) == 0.973


def test_wide_discrete_gaussian_is_within_a_step_of_exact() -> None:
    bound, near = DiscreteGaussian(5000).error(0.95), Gaussian(5000).error(0.95)
    assert near <= bound <= near + 1


def test_reals_count_their_own_rounding_and_truncation_never_adds() -> None:
    m = Gaussian(3)
    assert 0 <= m.error(0.95, grid=m.grid) - 3 * 1.959964 < 1e-5
    noise = np.abs(m.release(np.full(20_000, 0.3)) - 0.3)
    assert (noise <= m.error(0.95, grid=m.grid)).mean() > 0.93
    assert TruncatedGeometric(5, 0, 10).error(0.95) == 10
    assert TruncatedGeometric(1, 0, 10).error(0.95) == Laplace(1).error(0.95)


def test_tail_of_the_rounded_gaussian_against_arb() -> None:
    for t in (0, 3, 20):
        assert erfc((t + 0.5) / (4 * sqrt(2))) == pytest.approx(
            float((arb(t + 0.5) / (arb(2).sqrt() * 4)).erfc()), rel=1e-14
        )


@pytest.mark.parametrize("m", [Laplace(5), Gaussian(5), DiscreteGaussian(5), Binomial(100)], ids=repr)
def test_extreme_confidence_ends_and_grows(m) -> None:  # type: ignore[no-untyped-def]
    sure = 1 - Fraction(1, 10**32)
    assert m.error(0.95) < m.error(1 - Fraction(1, 10**17)) < m.error(sure) < 600
    assert m.error(0.95, 10**26) < 600


@pytest.mark.parametrize("m", [Laplace(5), Gaussian(5), DiscreteGaussian(5)], ids=repr)
@pytest.mark.parametrize("grid", [0, -1, 3])
def test_error_refuses_a_bad_grid(m, grid: int) -> None:  # type: ignore[no-untyped-def]
    from discreet import BadParameter

    with pytest.raises(BadParameter):
        m.error(0.95, grid=grid)


def test_an_error_at_a_tiny_confidence_is_zero() -> None:
    assert Laplace(10).error(Fraction(1, 10**400)) == 0
    with pytest.raises(BadParameter, match="confidence"):
        Laplace(10).error(1 - Fraction(1, 10**400))
