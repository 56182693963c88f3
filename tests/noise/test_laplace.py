"""The fast discrete Laplace sampler agrees with the exact one where it is hardest."""

from fractions import Fraction
from functools import partial
from math import exp, log
from random import Random

import pytest

from discreet.noise import laplace
from discreet.noise.bits import LazyUniform
from tests.support.scripted_bits import ConstantBits, ScriptedBits

SCALES = [Fraction(1, 3), Fraction(1), Fraction(1000), Fraction(1 << 30), Fraction(1 << 38), Fraction(1 << 42)]


def near_boundaries(scale: Fraction, shift: float) -> list[int]:
    """Words whose V lies within a few units of a double's last place of where the discrete Laplace sampler changes."""
    pick, words = Random(9), []
    for _ in range(3000):
        k = pick.randrange(1, max(2, int(9 * scale)))
        v = int(exp(shift - k / float(scale)) * 2.0**63)
        v += pick.randrange(-(v >> 51) - 2, (v >> 51) + 3)
        words.append(min(max(v, 0), (1 << 63) - 1) << 1)
    return words


@pytest.mark.parametrize("scale", SCALES, ids=float)
def test_fast_discrete_laplace_agrees_with_exact(scale: Fraction) -> None:
    kappa, shift = log(2 / (1 + exp(-1 / float(scale)))), partial(laplace._kappa, scale)
    words = near_boundaries(scale, kappa)
    fast, _ = laplace._draw_floors(scale, kappa, shift, len(words), ScriptedBits(words))
    exact = [laplace.settle(LazyUniform(ConstantBits(), word >> 1, 63), scale, shift) for word in words]
    assert fast.tolist() == exact


def test_without_its_margin_the_fast_laplace_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplace, "MARGIN", 0.0)
    scale = Fraction(1 << 38)
    kappa, shift = log(2 / (1 + exp(-1 / float(scale)))), partial(laplace._kappa, scale)
    words = near_boundaries(scale, kappa)
    fast, _ = laplace._draw_floors(scale, kappa, shift, len(words), ScriptedBits(words))
    assert fast.tolist() != [laplace.settle(LazyUniform(ConstantBits(), word >> 1, 63), scale, shift) for word in words]


def test_a_uniform_at_zero_is_refined_until_it_is_not() -> None:
    zeros = ScriptedBits([0, 0, 7])
    value = laplace.settle(LazyUniform(zeros, 0, 63), Fraction(1), lambda p: 0)
    assert 120 < value < 200
