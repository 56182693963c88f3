"""The exponential mechanism and permute-and-flip: their distribution, and the keys that doubles cannot compare."""

from fractions import Fraction

import numpy as np
import pytest

from discreet import noise
from discreet.noise import selection
from discreet.noise.bits import LazyUniform
from discreet.testing import seeded_bits
from tests.support.distributions import selection_cdf
from tests.support.goodness_of_fit import rejects
from tests.support.scripted_bits import NoBits, ScriptedBits


@pytest.mark.parametrize("rule", noise.SelectionRule)
@pytest.mark.parametrize("draws", [20_000, pytest.param(10**6, marks=pytest.mark.nightly)])
def test_selection(rule: noise.SelectionRule, draws: int) -> None:
    """Three candidates, against brute force."""
    scores, rate = [0, 3, 4], Fraction(1, 2)
    wins = np.array([noise.select(scores, rate, rule) for _ in range(draws)], np.int64)
    right, wrong = (selection_cdf(scores, float(r), rule) for r in (rate, rate * Fraction(5, 4)))
    assert not rejects(wins, right, [0, 1, 2])
    assert rejects(wins, wrong, [0, 1, 2])


def test_a_hopeless_candidate_never_wins_and_ties_are_fair() -> None:
    assert noise.select([0, 10**300], 1) == noise.select([0, 10**400], 1) == 1
    assert noise.select([Fraction(1, 10**400), 5], 10**9) == 1
    wins = sum(noise.select([1, 1], 1) for _ in range(2000))
    assert 700 < wins < 1300  # 13 standard deviations


def test_the_bounds_of_a_key_enclose_it_by_arb() -> None:
    """Doubles and fixed point, on edge words and random ones: the true key lies in both intervals."""
    from flint import arb, ctx

    ctx.prec = 300
    words = [
        1,
        2,
        1 << 10,
        1 << 40,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - (1 << 12),
        (1 << 64) - 2,
        *seeded_bits(6).words(200).tolist(),
    ]
    deficits = [Fraction(i % 7, 3) for i in range(len(words))]
    for rule in noise.SelectionRule:
        low, high = selection._float_key_bounds(deficits, np.array(words, np.uint64), rule)
        for i, word in enumerate(words):
            for bits in (word, word + 1):  # the ends of what 64 bits leave open
                e = -(arb(bits) / arb(2) ** 64).log() if bits < 1 << 64 else arb(0)
                if rule is noise.SelectionRule.EXPONENTIAL and bits == 1 << 64:
                    continue  # the key goes to infinity there
                key = (e if rule is noise.SelectionRule.PERMUTE_AND_FLIP else -e.log()) - arb(
                    deficits[i].numerator
                ) / deficits[i].denominator
                assert low[i] <= key
                assert key <= high[i] or high[i] == float("inf")
                exact_low, exact_high = selection._exact_key_bounds(LazyUniform(NoBits(), word, 64), deficits[i], rule)
                assert float(exact_low) <= float(key) + 1e-12
                assert float(key) <= float(exact_high) + 1e-12


@pytest.mark.parametrize("rule", noise.SelectionRule)
def test_a_selection_that_doubles_cannot_settle_takes_the_largest_key(rule: noise.SelectionRule) -> None:
    """Equal scores and almost equal words: the smaller U has the larger −ln U, and loses under Gumbel's rule."""
    word = (1 << 63) + 12345
    ahead = 1 if rule is noise.SelectionRule.EXPONENTIAL else 0
    assert noise.select([1, 1], 1, rule, ScriptedBits([word, word + 1])) == ahead
    assert noise.select([1, 1], 1, rule, ScriptedBits([word + 1, word])) == 1 - ahead
