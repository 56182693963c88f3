"""RAPPOR for texts outside any list: spelling, ε of all three reports, and what is found."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from discreet.local.draws import draw_all
from discreet.local.longitudinal import unpack_bits
from discreet.local.rappor import BasicRappor, Rappor
from discreet.local.rappor_decoding import decode
from discreet.local.rappor_unknown import UnknownRappor
from discreet.noise.uniform import bernoulli
from discreet.testing import seeded_bits
from tests.support.local_distributions import distribute_permanent, distribute_reports, largest_ratio

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
DEVIATIONS = norm.isf(5e-10)


class LastLetter(Rappor, frozen=True, tag="last letter"):
    """RAPPOR whose filter is the last letter of a text."""

    def filter(self, text, cohort):
        return (int(text.endswith(b"b")),)


def make_unknown() -> UnknownRappor:
    noise = Fraction(0), Fraction(1, 10), Fraction(9, 10)
    return UnknownRappor(6, "_abc", 2, Rappor(64, 2, 4, *noise, "words"), BasicRappor.of(16, *noise))


def test_unknown_texts_are_spelled_from_their_parts():
    unknown = make_unknown()
    assert unknown.spell(unknown.grams(b"abcab")) == b"abcab_"
    assert unknown.spell(unknown.grams(b"abzabcabc")) == b"ab_abc"
    assert unknown.report_odds == unknown.part.report_odds**2 * unknown.word.report_odds


def test_unknown_texts_have_the_stated_epsilon():
    noise = HALF, QUARTER, 3 * QUARTER
    part = BasicRappor.of(2, *noise)
    unknown = UnknownRappor(2, "ab", 1, LastLetter(2, 1, 1, *noise), part)
    found = [distribute_permanent(unknown, text, (0, 0)) for text in (b"aa", b"ab", b"ba", b"bb")]
    assert largest_ratio(found) == unknown.permanent_odds == part.permanent_odds**3


def test_joint_counts_are_unbiased():
    noise = Fraction(0), QUARTER, 3 * QUARTER
    part = BasicRappor.of(2, *noise)
    unknown = UnknownRappor(2, "ab", 1, LastLetter(2, 1, 1, *noise), part)
    for left, right in product(range(2), repeat=2):
        mean = np.zeros((2, 2))
        pairs = product(distribute_reports(part, left).items(), distribute_reports(part, right).items())
        for (one, chance), (two, other) in pairs:
            first, second = (np.array(unpack_bits(report[1:], 2)) for report in (one, two))
            mean += float(chance * other) * unknown.join_grams(1, first, second, np.outer(first, second))[0]
        expected = np.zeros((2, 2))
        expected[left, right] = 1
        assert mean == pytest.approx(expected, abs=1e-12)


def test_joint_counts_have_the_stated_variance_where_no_one_has_both():
    unknown, n = make_unknown(), 4000
    one, two = (bernoulli(unknown.part.other_support, n * 16, seeded_bits(seed)).reshape(n, 16) for seed in (1, 2))
    one, two = one.astype(np.int64), two.astype(np.int64)
    joint, variance = unknown.join_grams(n, one.sum(axis=0), two.sum(axis=0), one.T @ two)
    scores = (joint / np.sqrt(variance)).ravel()
    assert abs((scores**2).mean() - 1) < DEVIATIONS * np.sqrt(2 / 256)


def test_unknown_texts_are_found():
    unknown = make_unknown()
    texts = [b"abcabc", b"cccaaa"]
    draws = BulkDraws(7)
    reports = [unknown.draw(texts[i % 3 > 0], draws) for i in range(1500)]
    assert all(unknown.is_valid(report) for report in reports)
    found = unknown.find_candidates(unknown.count_grams(reports), 1 - Fraction(1, 10**6))
    assert set(found) == set(texts)
    counts = unknown.word.count(unknown.split(report)[2] for report in reports)
    estimates = {each.candidate: each for each in decode(unknown.word, counts, found)}
    for text, n in zip(texts, (500, 1000), strict=True):
        assert abs(estimates[text].estimate - n) < DEVIATIONS * estimates[text].standard_error


class BulkDraws:
    """Seeded bytes, taken from one long block."""

    def __init__(self, seed: int) -> None:
        self._block, self._at = np.random.default_rng(seed).bytes(1 << 20), 0

    def take(self, count: int) -> bytes:
        self._at += count
        return self._block[self._at - count : self._at]


def test_draws_of_unknown_texts_do_not_depend_on_the_text():
    unknown = make_unknown()
    used = set()
    for text in (b"", b"abcabc", b"\xff", "ü".encode() * 40):
        draws = BulkDraws(1)
        draw_all(draws, unknown.device_moduli)
        unknown.draw(text, draws)
        used.add(draws._at)
    assert len(used) == 1
