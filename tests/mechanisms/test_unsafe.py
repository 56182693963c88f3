"""Mechanisms that must not be used: how much they expose, and the attack on trailing bits [Mir12] that finds one of them."""

from fractions import Fraction
from math import inf, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    pure,
    zcdp,
)
from discreet.mechanisms.unsafe import Catastrophe, FloatLaplace, NameAndShame
from discreet.testing import seeded_bits

SIGMAS = 7.5  # two-sided false alarm 6e-14 for each comparison


def test_catastrophe_satisfies_epsilon_delta_and_is_terrible() -> None:
    """With probability δ the data, otherwise q(x) + Lap(s/ε): an integer whose noise has the scale s/ε."""
    m = Catastrophe(Fraction(1, 10), epsilon=Fraction(1, 2), sensitivity=3)
    outs = [m.release(["anna", "bob"], seeded_bits(i)) for i in range(2000)]
    disasters = [out for out in outs if isinstance(out, list)]
    noisy = np.array([out for out in outs if not isinstance(out, list)])
    assert all(out == ["anna", "bob"] for out in disasters)
    assert 60 < len(disasters) < 400  # 200 expected, 10 standard deviations
    assert noisy.dtype.kind == "i"
    a = np.exp(-1 / 6)  # scale 3/(1/2)
    deviation = sqrt(2 * a) / (1 - a)
    assert abs(noisy.mean() - 2) < SIGMAS * deviation / sqrt(len(noisy))
    assert abs(noisy.std() / deviation - 1) < SIGMAS * sqrt(5 / 4 / len(noisy)), "kurtosis 6"
    assert (m.event().epsilon, m.event().delta) == (Fraction(1, 2), Fraction(1, 10))
    assert pure(m.event()) == zcdp(m.event()) == inf


def test_the_claim_of_the_catastrophe_holds_and_no_smaller_one_does() -> None:
    """All outputs of two neighbours, enumerated: the data, or a discrete Laplace count; tails beyond 60 scales left out."""
    delta, epsilon = Fraction(1, 100), 0.5
    a = np.exp(-epsilon)
    reach = np.arange(-120, 121)
    pmf = {size: (1 - a) / (1 + a) * a ** np.abs(reach - size) for size in (1, 2)}

    def least_delta(first: int, second: int, eps: float) -> float:
        counts = np.clip((1 - float(delta)) * (pmf[first] - np.exp(eps) * pmf[second]), 0, None).sum()
        return float(delta) + counts  # the tables themselves are different outputs

    for pair in ((1, 2), (2, 1)):
        assert least_delta(*pair, epsilon) <= float(delta) * (1 + 1e-9)
        assert least_delta(*pair, 0.9 * epsilon) > float(delta) * 1.5, "the mutant with (0, δ) or a smaller ε is refuted"


def test_name_and_shame_exposes_n_delta() -> None:
    m = NameAndShame(Fraction(1, 100))
    exposed = len(m.release(list(range(100_000))))
    assert m.expected_exposures(100_000) == 1000
    assert abs(exposed - 1000) < SIGMAS * sqrt(1000)
    assert pure(m.event()) == zcdp(m.event()) == inf


NEIGHBOURS = [(0.0, 1.0), (1.0, 2.0), (1 / 3, 2 / 3), (0.1, 1.1), (1e6, 1e6 + 1), (0.0, 2.0**-30)]


DRAWS = 40_000


def trailing_exponents(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The exponent of the lowest bit that is set; 9999 for zero."""
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64) + (whole == 0)).astype(np.int64)
    return np.where(whole == 0, 9999, exponent - 53 + lowest)


def distinguishing_exponents(first: NDArray[np.float64], second: NDArray[np.float64]) -> set[int]:
    """Trailing exponents that at least 1% of one side's answers have, and none of the other's.

    If both sides have one distribution, each such exponent shows with probability below 0.99^DRAWS < 1e-170.
    """
    a, b = (np.unique(trailing_exponents(side), return_counts=True) for side in (first, second))
    often = [{int(k) for k, n in zip(*side, strict=True) if n >= DRAWS / 100} for side in (a, b)]
    ever = [set(side[0].tolist()) for side in (a, b)]
    return (often[0] - ever[1]) | (often[1] - ever[0])


@pytest.mark.parametrize("pair", NEIGHBOURS)
@pytest.mark.parametrize("m", [Laplace(2), Gaussian(2), DiscreteGaussian(2), Laplace(0.1), Gaussian(1e5)], ids=repr)
def test_neighbours_reach_the_same_trailing_exponents(m, pair: tuple[float, float]) -> None:  # type: ignore[no-untyped-def]
    first, second = (m.release(np.full(DRAWS, x)) for x in pair)
    assert distinguishing_exponents(first, second) == set()


def test_the_float_laplace_is_caught() -> None:
    for pair in ((0.0, 1.0), (0.0, 4.0)):
        first, second = (FloatLaplace(2).release(np.full(DRAWS, x)) for x in pair)
        assert distinguishing_exponents(first, second)


def test_noise_rounded_before_it_is_added_is_caught() -> None:
    """Rounding the noise but not the input leaves the input's own trailing bits in the answer."""
    first, second = (x + np.round(FloatLaplace(2).release(np.zeros(DRAWS)), 3) for x in (0.0, 1 / 3))
    assert distinguishing_exponents(first, second)
