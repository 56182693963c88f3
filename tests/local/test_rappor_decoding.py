"""Decoding RAPPOR: exact covariance, calibrated errors, significance among many candidates, the LASSO."""

from fractions import Fraction
from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import nnls
from scipy.stats import binom, norm

from discreet.errors import BadParameter
from discreet.local import rappor_decoding as module
from discreet.local.rappor import BasicRappor, BitCounts, Rappor
from discreet.local.rappor_decoding import decode, decode_and_check, fit_lasso
from discreet.testing import seeded_bits

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
NOISE = HALF, HALF, 3 * QUARTER
FALSE_ALARM = 1e-9
DEVIATIONS = norm.isf(FALSE_ALARM / 2)


def test_covariance_equals_enumeration_of_cohorts():
    """Three texts, five people, cohorts of three and two: every assignment, with the exact noise of each."""
    rappor = Rappor(4, 2, 2, HALF, QUARTER, 3 * QUARTER, "covariance")
    texts, people = [b"a", b"b", b"c"], [2, 2, 1]
    counts = BitCounts(np.array([3, 2]), np.zeros((2, 4), np.int64))
    design = module._build_regression(rappor, counts, texts)[0]
    weights = np.random.default_rng(0).normal(size=(3, 8))
    found = module._estimate_covariance(rappor, counts, design, np.array(people, float), weights)

    holders = [text for text, many in zip(texts, people, strict=True) for _ in range(many)]
    means, noises = [], []
    for first in combinations(range(5), 3):
        held = np.zeros((2, 4))
        for person, text in enumerate(holders):
            cohort = int(person not in first)
            held[cohort, list(rappor.filter(text, cohort))] += 1
        noise = [float(rappor.bit_variance((3, 2)[i // 4], int(count))) for i, count in enumerate(held.ravel())]
        means.append(weights @ held.ravel())
        noises.append((weights * noise) @ weights.T)
    stated = np.mean(noises, axis=0) + np.cov(np.array(means).T, bias=True)
    assert comb(5, 3) == len(means)
    assert found == pytest.approx(stated, rel=1e-9)


def test_decoding_is_unbiased_with_the_stated_errors():
    rappor = Rappor(16, 2, 4, Fraction(0), QUARTER, 3 * QUARTER, "decode")
    texts, people, runs = [b"%d" % i for i in range(6)], [800, 400, 200, 100, 0, 0], 500
    scores = []
    for run in range(runs):
        counts = rappor.draw_counts(texts, people, seeded_bits(run))
        found = {each.candidate: each for each in decode(rappor, counts, texts)}
        scores += [(found[t].estimate - n) / found[t].standard_error for t, n in zip(texts, people, strict=True)]
    scores = np.array(scores).reshape(runs, 6)
    assert np.abs(scores.mean(axis=0)).max() < DEVIATIONS / sqrt(runs) * 1.2
    # The variance of 3000 scores, nearly independent, has a standard error of √(2/3000).
    assert abs(scores.var() - 1) < 1.2 * DEVIATIONS * sqrt(2 / scores.size)


def test_decoding_finds_the_texts_among_many_candidates():
    rappor = Rappor(32, 2, 8, Fraction(0), QUARTER, 3 * QUARTER, "many")
    texts, people = [b"1", b"2", b"3"], [6000, 3000, 1500]
    counts = rappor.draw_counts(texts, people, seeded_bits(1))
    candidates = [b"%d" % i for i in range(1000)]
    found = decode(rappor, counts, candidates, confidence=1 - Fraction(1, 10**7))
    assert len(found) < len(candidates)
    assert [each.candidate for each in found if each.significant] == texts
    for each, n in zip(found, people, strict=False):
        assert abs(each.estimate - n) < 1.3 * DEVIATIONS * each.standard_error  # after selection, approximately
        assert each.nonnegative >= 0


def test_a_candidate_without_holders_is_rarely_significant():
    rappor = Rappor(16, 2, 4, Fraction(0), QUARTER, 3 * QUARTER, "null")
    candidates, runs, alpha = [b"%d" % i for i in range(20)], 60, 0.05
    wrong = 0
    for run in range(runs):
        counts = rappor.draw_counts([b"0"], [2000], seeded_bits(run))
        wrong += any(each.significant and each.candidate != b"0" for each in decode(rappor, counts, candidates))
    assert wrong <= binom.isf(FALSE_ALARM, runs, alpha)


def test_decoding_says_what_is_wrong():
    rappor = BasicRappor.of(3, *NOISE)
    with pytest.raises(BadParameter, match="candidates"):
        decode(rappor, BitCounts(np.array([1]), np.zeros((1, 3), int)), [1, 1])
    with pytest.raises(BadParameter, match="no report"):
        decode(rappor, BitCounts(np.array([0]), np.zeros((1, 3), int)), [0, 1])


def test_lasso_meets_its_conditions_and_is_nnls_without_a_penalty():
    random = np.random.default_rng(1)
    design, response = random.normal(size=(30, 60)), random.normal(size=30) * 3
    penalties = random.uniform(1, 4, size=60)
    found = fit_lasso(sparse.csc_array(design), response, penalties)
    slope = design.T @ (response - design @ found) - penalties
    assert (found >= 0).all()
    assert (found > 0).any()
    assert slope[found > 0] == pytest.approx(0, abs=1e-6)
    assert (slope[found == 0] <= 1e-6).all()
    tall = random.normal(size=(40, 8))
    response = random.normal(size=40)
    assert fit_lasso(sparse.csc_array(tall), response, np.zeros(8)) == pytest.approx(nnls(tall, response)[0], abs=1e-6)


@pytest.mark.parametrize("noise", [(HALF, HALF, Fraction(3, 4)), (Fraction(1, 50), Fraction(1, 50), Fraction(49, 50))])
@pytest.mark.parametrize("n", [20, 5000, 60_000])
def test_a_complete_list_explains_its_reports_and_one_that_lacks_a_frequent_text_does_not(noise, n):
    rappor, listed = Rappor(16, 2, 4, *noise, "s"), [b"a", b"b", b"c"]
    for seed in range(20):
        whole = rappor.draw_counts([b"a", b"b"], [n // 2, n // 2], seeded_bits(seed))
        assert decode_and_check(rappor, whole, listed).is_explained
    if n > 20:
        lacking = rappor.draw_counts([b"a", b"hidden"], [n // 4, 3 * n // 4], seeded_bits(1))
        found = decode_and_check(rappor, lacking, listed)
        assert not found.is_explained
        assert any(each.significant for each in found.estimates if each.candidate != b"a")  # which no person has


def test_a_stray_bit_of_a_few_people_does_not_show_that_a_text_is_missing():
    """Among so few people the normal approximation takes one flipped bit for thirty deviations."""
    rappor = Rappor(16, 2, 1, Fraction(1, 1000), Fraction(1, 1000), Fraction(999, 1000), "s")
    ones = np.zeros((1, 16), np.int64)
    ones[0, list(rappor.filter(b"a", 0))] = 1
    ones[0, next(bit for bit in range(16) if not ones[0, bit])] = 1
    assert decode_and_check(rappor, BitCounts(np.array([1]), ones), [b"a"]).is_explained
    assert not decode_and_check(rappor, BitCounts(np.array([10_000]), 10_000 * ones), [b"a"]).is_explained
