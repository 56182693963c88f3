"""The binomial mechanism: its δ against exact rationals, and its calibration."""

from fractions import Fraction
from math import exp, inf

import pytest

from discreet import (
    Binomial,
    Sensitivity,
    pure,
    zcdp,
)
from discreet.mechanisms.binomial import binomial_delta


@pytest.mark.parametrize("n", [2, 10, 40])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_binomial_delta_against_exact_rationals(n: int, epsilon: float, shift: int) -> None:
    from math import comb

    e = Fraction(exp(epsilon))
    pmf = {k: Fraction(comb(n, k), 2**n) for k in range(n + 1)}
    truth = sum(max(Fraction(0), p - e * pmf.get(k + shift, Fraction(0))) for k, p in pmf.items())
    value = binomial_delta(n, shift, Fraction(epsilon))
    assert truth * (1 - Fraction(1, 10**12)) <= value <= truth * (1 + Fraction(1, 10**9)) + Fraction(1, 10**20)


def test_binomial_has_no_pure_epsilon_and_calibrates() -> None:
    assert pure(Binomial(10).event(1)) == zcdp(Binomial(10).event(1)) == inf
    m = Binomial.for_epsilon(1, 1e-6, 1)
    assert binomial_delta(m.n, 1, Fraction(1)) <= 1e-6 < binomial_delta(m.n - 2, 1, Fraction(1))


def test_binomial_divides_epsilon_and_delta_over_the_changed_coordinates() -> None:
    one, three = (Binomial.for_epsilon(1, 1e-6, Sensitivity(l0=l0, linf=1)) for l0 in (1, 3))
    assert three.n > 5 * one.n
    assert binomial_delta(three.n, 1, Fraction(1, 3)) * 3 <= 1e-6
