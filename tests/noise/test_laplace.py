"""The fast discrete Laplace sampler agrees with the exact one where it is hardest."""

from collections import defaultdict
from fractions import Fraction
from functools import partial
from math import exp, log
from random import Random

import numpy as np
import pytest

from discreet import noise
from discreet.noise import laplace
from discreet.noise.bits import INT64_MAX, LazyUniform
from tests.support.scripted_bits import ConstantBits, Exhausted, NoBits, ScriptedBits

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


# -- wide scales ------------------------------------------------------------------------------------------------------------

TINY, LOW_BITS, DEPTH = Fraction(5, 2), 2, 10


def masses_by_digits() -> tuple[dict[int, float], float]:
    """Return the share of all bit strings that lead to each G = 4·H + L at scale 5/2, and of those that are undecided."""
    known, undecided = defaultdict[int, float](float), 0.0
    share = 0.5**DEPTH
    lows = [0.0] * (1 << LOW_BITS)
    open_lows = 0.0
    for low in range(1 << LOW_BITS):
        for prefix in range(1 << DEPTH):
            try:
                lows[low] += share * laplace.accept_low(low, LazyUniform(NoBits(), prefix, DEPTH), TINY)
            except Exhausted:
                open_lows += share
    accepted = sum(lows) + open_lows
    undecided += open_lows / accepted
    for prefix in range(1 << DEPTH):
        try:
            high = laplace.settle(LazyUniform(NoBits(), prefix, DEPTH), TINY / (1 << LOW_BITS), lambda p: 0)
        except Exhausted:
            undecided += share
            continue
        for low, mass in enumerate(lows):
            known[(high << LOW_BITS) + low] += share * mass / accepted
    return known, undecided


def is_geometric(known: dict[int, float], undecided: float) -> bool:
    """Say whether every outcome's mass is its probability, but for what is undecided."""
    assert undecided < 0.02
    ratio = exp(-1 / float(TINY))
    return all(abs(known[k] - (1 - ratio) * ratio**k) <= undecided + 1e-12 for k in range(12))


def test_all_bit_strings_of_high_and_low_bits_are_exactly_geometric() -> None:
    assert is_geometric(*masses_by_digits())


def test_low_bits_that_are_never_rejected_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplace, "accept_low", lambda low, u, s: True)
    assert not is_geometric(*masses_by_digits())


@pytest.mark.parametrize("scale", [Fraction((1 << 31) + 1), Fraction(10**13, 7), Fraction(1 << 50)], ids=float)
def test_low_bits_turn_exactly_at_their_probability(scale: Fraction) -> None:
    """Words just below and just above the U that rejects their L: kept, or replaced by the next word."""
    low_bits = int(scale).bit_length() - laplace.HIGH_BITS
    low, bits = (1 << low_bits) - 3, 64 - low_bits
    edge = int((1 - Fraction(low, 1) / scale + (low / scale) ** 2 / 2) * (1 << bits))  # the third power is below 2^-69
    for u, value in ((edge - 2, low), (edge + 3, 5), ((1 << bits) - 1, 5), (0, low)):
        script = ScriptedBits([u << low_bits | low, 5])
        assert laplace._draw_low_bits(scale, low_bits, 1, script).tolist() == [value]


def test_words_that_are_not_compared_are_accepted_for_sure() -> None:
    for scale in (Fraction((1 << 31) + 1), Fraction(1 << 50)):
        low_bits = int(scale).bit_length() - laplace.HIGH_BITS
        assert Fraction(int(laplace._CLOSE), 1 << 64) <= 1 - Fraction(1 << low_bits) / scale


def test_negative_zero_is_drawn_again_and_the_far_tail_saturates() -> None:
    """V just below 1 gives H = 0; with L = 0 and a negative sign it is drawn again. V = 2^-63·tiny gives a long tail."""
    one, scale = (1 << 64) - 1, 1 << 40
    zero, other = one, (1 << 63) | 1
    draws = noise.discrete_laplace(scale, 3, ScriptedBits([zero, zero - 1, other, 0, 0, 7, other, 9]))
    expected, _ = laplace._draw_wide(Fraction(scale), 1, ScriptedBits([other, 9]))
    assert draws.tolist()[:2] == [-int(expected[0]), 0]
    far = laplace._draw_wide(Fraction(1 << 57), 3, ScriptedBits([0] * 6 + [0, 0, 0, 7] * 3))[0]
    assert far.tolist() == [INT64_MAX] * 3
    assert noise.geometric(scale, 3, ScriptedBits([other] * 6)).dtype == np.int64
