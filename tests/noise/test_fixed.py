"""The fixed-point functions are within their bound, |r − 2^P·f(x)| ≤ 1, measured against Arb; so are NumPy's functions."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from discreet.noise import fixed
from discreet.noise.fixed import ULPS

CASES = Random(1)
PRECISIONS = [64, 80, 128, 200, 400]


def off_by(result: int, truth: arb, precision: int) -> float:
    return float(abs(arb(result) - truth * arb(2) ** precision).upper())


@pytest.fixture(autouse=True)
def _precise() -> None:
    ctx.prec = 900


@pytest.mark.parametrize("precision", PRECISIONS)
def test_exp_neg(precision: int) -> None:
    points = [Fraction(0), Fraction(1, 10**30), Fraction(precision), Fraction(precision + 1), Fraction(1 << 60)]
    points += [Fraction(CASES.getrandbits(60), 1 << CASES.randrange(50, 120)) for _ in range(300)]
    for x in points:
        assert off_by(fixed.exp_neg(x, precision), (-arb(fmpq(x.numerator, x.denominator))).exp(), precision) <= 1


@pytest.mark.parametrize("precision", PRECISIONS)
def test_log_int(precision: int) -> None:
    points = [1, 2, 3, 127, 128, 129, (1 << 64) - 1, 1 << 64, (1 << 300) + 1]
    points += [CASES.getrandbits(CASES.randrange(1, 200)) | 1 for _ in range(300)]
    for n in points:
        assert off_by(fixed.log_int(n, precision), arb(n).log(), precision) <= 1


@pytest.mark.parametrize("precision", PRECISIONS)
def test_half_pi(precision: int) -> None:
    assert off_by(fixed.half_pi(precision), arb.pi() / 2, precision) <= 1


def test_off_by_one_would_show() -> None:
    assert off_by(fixed.log_int(3, 64) + 2, arb(3).log(), 64) > 1


FUNCTIONS = {
    "log": (np.log, lambda x: x.log(), [(1e-20, 1.0), (0.5, 1.0), (1 - 1e-9, 1.0)]),
    "exp": (np.exp, lambda x: x.exp(), [(-700.0, 0.0), (-18.0, 0.0), (-1.0, 0.0)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpy_is_within_half_of_the_assumed_ulps(name: str) -> None:
    """`noise.fixed` assumes ULPS = 4; the kernels of this processor must stay within half of that."""
    ours, truth, ranges = FUNCTIONS[name]
    ctx.prec = 160
    rng = np.random.default_rng(3)
    for low, high in ranges:
        # Long arrays take the vector kernels, odd lengths their scalar tails too.
        points = rng.uniform(low, high, 8191)
        for x, y in zip(points[:4000], ours(points)[:4000], strict=True):
            ulp = float(np.spacing(abs(y)))
            assert float(abs(arb(float(y)) - truth(arb(float(x)))).upper()) <= ULPS / 2 * ulp
