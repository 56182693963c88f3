"""The rounded Gaussian sampler: its bit tree, and the fast path against the exact one."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.noise import gaussian
from discreet.noise.bits import LazyUniform
from discreet.testing import seeded_bits
from tests.support.bit_tree import is_consistent
from tests.support.distributions import (
    rounded_gaussian_cdf,
)
from tests.support.scripted_bits import ConstantBits, NoBits, ScriptedBits

SCALES = [Fraction(1, 3), Fraction(1), Fraction(1000), Fraction(1 << 30), Fraction(1 << 38), Fraction(1 << 42)]


def test_bit_tree_of_box_muller() -> None:
    """U and θ to 8 bits each: all 2¹⁶ pairs. The undecided mass is large, but no outcome may exceed its probability."""
    depth, sigma, outcomes = 8, Fraction(1), Counter[int]()
    for number in range(1 << depth):
        for angle in range(1 << depth):
            quadrant, rest = angle >> (depth - 2), angle & (1 << (depth - 2)) - 1
            pair = (
                gaussian._try_settle(LazyUniform(NoBits(), number, depth), LazyUniform(NoBits(), rest, depth - 2), sigma)
                if number
                else None
            )
            if pair:
                x, y = pair
                outcomes[(x, -y, -x, y)[quadrant]] += 1
    undecided = 1 - outcomes.total() / (1 << 2 * depth)
    assert undecided < 0.15
    assert is_consistent(outcomes, 2 * depth, undecided, rounded_gaussian_cdf(sigma))
    assert not is_consistent(outcomes, 2 * depth, undecided, rounded_gaussian_cdf(sigma * Fraction(4, 5)))


def box_muller(sigma: Fraction, count: int) -> tuple[NDArray[np.int64], list[int]]:
    words = seeded_bits(11).words(2 * count)
    fast = gaussian._draw_pairs(sigma, count, ScriptedBits(words.tolist()))
    pairs = [
        gaussian.settle(LazyUniform(ConstantBits(), int(u), 64), int(a), sigma)
        for u, a in zip(words[:count], words[count:], strict=True)
    ]
    return fast, [x for x, _ in pairs] + [y for _, y in pairs]


@pytest.mark.parametrize("sigma", SCALES, ids=float)
def test_fast_rounded_gaussian_agrees_with_exact(sigma: Fraction) -> None:
    fast, exact = box_muller(sigma, 4000)
    assert fast.tolist() == exact


def test_without_its_margin_the_fast_path_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: doubles without an error bound."""
    monkeypatch.setattr(gaussian, "MARGIN", 0.0)
    monkeypatch.setattr(gaussian, "INVERSE_MARGIN", 0.0)
    fast, exact = box_muller(Fraction(1 << 42), 4000)
    assert fast.tolist() != exact
