"""Exponentials, roots and rounding in rationals, against Arb."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.elementary import LARGEST_EXPONENT, exp_bounds, round_up_bits, sqrt_down
from discreet.accounting.sampled_moments import remove_moment


@given(st.fractions(-3000, 3000, max_denominator=10**12))
@settings(max_examples=150, deadline=None)
def test_exponentials_enclose_and_stay_narrow(x):
    ctx.prec = 300
    low, high = exp_bounds(x)
    truth = (arb(x.numerator) / x.denominator).exp()
    assert not arb(low.numerator) / low.denominator > truth
    assert not arb(high.numerator) / high.denominator < truth
    assert high - low <= low * Fraction(1, 1 << 100)


def test_exponentials_at_the_ends():
    assert exp_bounds(Fraction(-10 * LARGEST_EXPONENT))[0] == 0
    assert exp_bounds(Fraction(-10 * LARGEST_EXPONENT))[1] > 0
    with pytest.raises(OverflowError):
        exp_bounds(Fraction(LARGEST_EXPONENT + 1))


@given(st.fractions(0, 10**9, max_denominator=10**15))
@settings(max_examples=100, deadline=None)
def test_roots_round_down(x):
    root = sqrt_down(x)
    assert root**2 <= x <= root**2 * (1 + Fraction(1, 1 << 90))


@given(st.integers(1, 10**90), st.integers(1, 10**120))
@settings(max_examples=100, deadline=None)
def test_shorter_is_above_and_close(top, bottom):
    exact = Fraction(top, bottom)
    short = round_up_bits(exact)
    assert exact <= short <= exact * (1 + Fraction(1, 1 << 120))


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 100), Fraction(999, 1000)])
@pytest.mark.parametrize("order", [2, 3, 40, 600, 2000])
def test_the_binomial_sum_is_above_its_exact_value_and_close(rate, order):
    """ln A_α with D_k = k/200 in 60 digits. Relative accuracy also where A − 1 is 1e-10."""
    with mp.workdps(60):
        q, rho = mp.mpf(rate.numerator) / rate.denominator, mp.mpf(1) / 200
        truth = mp.log1p(
            mp.fsum(
                mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.expm1(k * (k - 1) * rho)
                for k in range(2, order + 1)
            )
        )
        divergences = np.array([k / 200 for k in range(2, order + 1)])
        seen = remove_moment(rate, order, divergences)
        assert truth <= seen <= truth * (1 + mp.mpf(10) ** -9)


def test_dropping_the_margin_would_be_noticed():
    """Mutant: the same sum in plain doubles falls below the truth somewhere."""
    below = 0
    for order in range(2, 60):
        k = np.arange(2, order + 1)
        weights = np.array([float(mp.binomial(order, int(j))) for j in k]) * 0.99 ** (order - k) * 0.01**k
        plain = float(np.log1p(np.sum(weights * np.expm1(k * (k - 1) / 200))))
        with mp.workdps(40):
            q = mp.mpf(1) / 100
            truth = mp.log1p(
                mp.fsum(
                    mp.binomial(order, j) * (1 - q) ** (order - j) * q**j * mp.expm1(mp.mpf(j * (j - 1)) / 200)
                    for j in range(2, order + 1)
                )
            )
            below += plain < truth
            assert remove_moment(Fraction(1, 100), order, np.array([j / 200 for j in range(2, order + 1)])) >= truth
    assert below > 0


def test_orders_without_divergence_add_nothing_to_the_binomial_sum():
    """ln(1 + C(4, 4)·q⁴·(e^{3·D_4} − 1)), and 0 where no order has any; an infinite one leaves nothing to be said."""
    seen = remove_moment(Fraction(1, 10), 4, [0.0, 0.0, 0.5])
    truth = mp.log1p(mp.mpf(10) ** -4 * mp.expm1(1.5))
    assert truth <= seen <= truth * (1 + 1e-9)
    assert remove_moment(Fraction(1, 10), 4, [0.0, 0.0, 0.0]) == 0
    assert remove_moment(Fraction(1, 10), 4, [0.0, 0.5, np.inf]) == np.inf
