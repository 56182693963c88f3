"""RAPPOR: exact distribution, ε with overlapping filters, published rows, decoding."""

from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb, inf, log, sqrt

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import nnls
from scipy.stats import binom, norm

from discreet.errors import BadParameter
from discreet.local import rappor as module
from discreet.local.draws import draw_all
from discreet.local.longitudinal import unpack_bits
from discreet.local.rappor import BasicRappor, BitCounts, Rappor, UnknownRappor, decode, fit_lasso
from discreet.testing import seeded_bits
from tests.support.local_distributions import (
    distribute,
    distribute_history,
    distribute_permanent,
    distribute_reports,
    largest_ratio,
    total_epsilon,
)

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
NOISE = HALF, HALF, 3 * QUARTER
FALSE_ALARM = 1e-9
DEVIATIONS = norm.isf(FALSE_ALARM / 2)


class GivenFilters(Rappor, frozen=True, tag="given filters"):
    """RAPPOR with one cohort, whose value is its Bloom filter."""

    def filter(self, text, cohort):
        return text


def test_filters_of_many_texts_are_those_of_one():
    rappor = Rappor(5, 3, 4, *NOISE, "many")
    texts = [b"%d" % i for i in range(20)]
    table = rappor.filter_all(texts).reshape(4, 3, 20)
    for cohort, place in product(range(4), range(20)):
        assert tuple(sorted(set(table[cohort, :, place].tolist()))) == rappor.filter(texts[place], cohort)


class LastLetter(Rappor, frozen=True, tag="last letter"):
    """RAPPOR whose filter is the last letter of a text."""

    def filter(self, text, cohort):
        return (int(text.endswith(b"b")),)


def filters_of(size: int, hashes: int) -> list[tuple[int, ...]]:
    return [bits for many in range(1, min(size, hashes) + 1) for bits in combinations(range(size), many)]


# Distribution and ε


@pytest.mark.parametrize(
    "rappor",
    [
        BasicRappor.of(3, *NOISE),
        BasicRappor.of(2, Fraction(3, 4), Fraction(0), Fraction(1)),
        BasicRappor.of(3, Fraction(0), QUARTER, 3 * QUARTER),
        Rappor(3, 2, 2, *NOISE, "salt"),
    ],
)
def test_reports_have_the_stated_distribution(rappor):
    values = range(3) if rappor.values else [b"one", b"two", b"three"]
    for value in list(values)[: rappor.values]:
        distribution = distribute_reports(rappor, value)
        assert sum(distribution.values()) == 1
        for report, chance in distribution.items():
            stated = Fraction(1, rappor.cohorts)
            for place, bit in enumerate(unpack_bits(report[1:], rappor.size)):
                one = rappor.truth_support if place in rappor.filter(value, report[0]) else rappor.other_support
                stated *= one if bit else 1 - one
            assert chance == stated


@pytest.mark.parametrize(("size", "hashes"), [(2, 1), (3, 1), (2, 2), (3, 2), (4, 2), (3, 3), (2, 3), (4, 3)])
@pytest.mark.parametrize("noise", [NOISE, (Fraction(1, 3), Fraction(1, 5), HALF), (HALF, Fraction(0), Fraction(1))])
def test_epsilon_by_enumeration_over_all_pairs_of_filters(size, hashes, noise):
    """With overlaps, and with fewer than 2h bits in all."""
    rappor = GivenFilters(size, hashes, 1, *noise)
    keep, other = rappor.truth_support, rappor.other_support

    def distribution(chosen, truth, other):
        found = {}
        for bits in product((0, 1), repeat=size):
            chance = Fraction(1)
            for place, bit in enumerate(bits):
                one = truth if place in chosen else other
                chance *= one if bit else 1 - one
            found[bits] = chance
        return found

    every = filters_of(size, hashes)
    assert largest_ratio([distribution(bits, keep, other) for bits in every]) == rappor.report_odds
    f = rappor.f
    assert largest_ratio([distribution(bits, 1 - f / 2, f / 2) for bits in every]) == rappor.permanent_odds
    assert rappor.permanent_odds == ((2 - f) / f) ** min(2 * min(hashes, size - 1), size)


def test_epsilon_by_enumeration_of_every_draw():
    rappor = GivenFilters(3, 2, 1, *NOISE)
    every = filters_of(3, 2)
    assert largest_ratio([distribute_reports(rappor, bits) for bits in every]) == rappor.report_odds
    assert largest_ratio([distribute_permanent(rappor, bits, (0,)) for bits in every]) == rappor.permanent_odds


@pytest.mark.parametrize(("size", "hashes"), [(4, 2), (3, 2), (6, 1), (2, 3)])
def test_events_have_the_stated_epsilon(size, hashes):
    rappor = Rappor(size, hashes, 1, *NOISE)
    for event, odds in (
        (rappor.event(), rappor.report_odds),
        (rappor.permanent_event(), rappor.permanent_odds),
        (rappor.instantaneous_event(), rappor.instantaneous_odds),
    ):
        assert total_epsilon(event) == pytest.approx(log(odds), rel=1e-12)


def test_instantaneous_noise_hides_any_memoised_state():
    rappor = BasicRappor.of(3, *NOISE)
    states = [(0, bits) for bits in range(8)]
    found = [distribute(rappor.moduli, lambda drawn, state=state: rappor.select(state, drawn)) for state in states]
    assert largest_ratio(found) == rappor.instantaneous_odds
    assert BasicRappor.of(3, HALF, Fraction(0), HALF).instantaneous_odds is None
    assert rappor.epsilon_of_reports(1) == rappor.epsilon


def test_histories_of_the_same_pattern_cost_epsilon_infinity_a_state():
    rappor = BasicRappor.of(2, HALF, QUARTER, 3 * QUARTER)
    for values, others, states in [((0, 0), (1, 1), 1), ((0, 1), (1, 0), 2)]:
        ratio = largest_ratio([distribute_history(rappor, values), distribute_history(rappor, others)])
        assert ratio <= rappor.permanent_odds**states
    across = largest_ratio([distribute_history(rappor, values) for values in product((0, 1), repeat=2)])
    assert across <= rappor.instantaneous_odds**2


@pytest.mark.parametrize(("reports", "stated"), [(32, 18.6), (128, 77.0)])
def test_across_patterns_the_privacy_loss_grows_with_every_report(reports, stated):
    """Basic RAPPOR, k = 3, h = 1: one value throughout against another that changes half-way."""
    rappor, half = BasicRappor.of(3, *NOISE), reports // 2

    @cache
    def chance(own, ones, days):
        part = [rate**ones * (1 - rate) ** (days - ones) for rate in (rappor.p, rappor.q)]
        weight = 1 - rappor.f / 2 if own else rappor.f / 2
        return weight * part[1] + (1 - weight) * part[0]

    total = 0.0
    for own, first, second in [(1, 1, 0), (0, 0, 1), (0, 0, 0)]:  # value 0 against 0 then 1, bit by bit
        total += log(
            max(
                chance(first, one, half) * chance(second, two, half) / chance(own, one + two, reports)
                for one, two in product(range(half + 1), repeat=2)
            )
        )
    assert total == pytest.approx(stated, abs=0.05)
    assert rappor.lifetime(2).epsilon < total < rappor.epsilon_of_reports(reports)
    if reports == 32:
        assert total > reports * rappor.epsilon  # and more than T times one report


class NeverClears(BasicRappor, frozen=True, tag="never clears"):
    """The mutant: a set bit stays set."""

    def select_permanent(self, state, drawn):
        noisy = super().select_permanent(state, drawn)
        return (state[0], *(kept | word for kept, word in zip(state[1:], noisy[1:], strict=True)))


class SevenBits(BasicRappor, frozen=True, tag="seven bits"):
    """The mutant: f is cut to ⌊8f⌋/8."""

    def select_permanent(self, state, drawn):
        coarse = BasicRappor.of(self.size, Fraction(int(8 * self.f), 8), self.p, self.q)
        scale = coarse.permanent_moduli[0]
        return coarse.select_permanent(state, [number * scale // self.permanent_moduli[0] for number in drawn])


class RedrawsPermanent(BasicRappor, frozen=True, tag="redraws permanent"):
    """The mutant: permanent noise is drawn afresh for each report."""

    @property
    def right(self):
        return BasicRappor.of(self.size, self.f, self.p, self.q)

    @property
    def permanent_moduli(self):
        return ()

    @property
    def moduli(self):
        return (*self.right.permanent_moduli, *self.right.moduli)

    def select_permanent(self, state, drawn):
        return state

    def select(self, state, drawn):
        permanent = self.right.select_permanent(state, drawn[: self.size])
        return self.right.select(permanent, drawn[self.size :])


def test_mutants_exceed_the_stated_epsilon():
    noise = Fraction(2, 5), Fraction(0), Fraction(1)
    right = BasicRappor.of(2, *noise)
    assert largest_ratio([distribute_permanent(right, value, (0,)) for value in range(2)]) == right.permanent_odds
    never = NeverClears.of(2, *noise)
    assert largest_ratio([distribute_permanent(never, value, (0,)) for value in range(2)]) is None
    coarse = SevenBits.of(2, Fraction(7, 16), Fraction(0), Fraction(1))  # cut to 3/8
    found = largest_ratio([distribute_permanent(coarse, value, (0,)) for value in range(2)])
    assert found > coarse.permanent_odds


def test_redrawn_permanent_noise_exceeds_epsilon_for_life():
    histories = (0, 0, 0), (1, 1, 1)
    noise = Fraction(1, 2), Fraction(0), Fraction(1)
    right, redrawn = BasicRappor.of(2, *noise), RedrawsPermanent.of(2, *noise)
    assert largest_ratio([distribute_history(right, values) for values in histories]) == right.permanent_odds
    assert largest_ratio([distribute_history(redrawn, values) for values in histories]) == right.permanent_odds**3


# Published rows

ROWS = {
    "paper, h = 2": (2, "1/2", "1/2", "3/4", 4.394449, 1.074286),
    "paper, h = 1": (1, "1/2", "1/2", "3/4", 2.197225, 0.537143),
    "f = 3/4": (2, "3/4", "1/2", "3/4", 2.043302, 0.534275),
    "regtest eps_1_1": (2, "45/100", "39/100", "61/100", 4.947051, 0.972766),
    "regtest eps_1_5": (2, "0", "225/1000", "775/1000", inf, 4.947051),
    "demo": (1, "1/2", "1/4", "3/4", 2.197225, 1.021651),
    "params.csv": (2, "1/5", "1/10", "9/10", 8.788898, 6.065390),
}


@pytest.mark.parametrize("row", ROWS)
def test_published_row(row):
    hashes, f, p, q, for_life, one = ROWS[row]
    rappor = Rappor(8, hashes, 64, Fraction(f), Fraction(p), Fraction(q))
    assert rappor.epsilon == pytest.approx(one, abs=6e-7)
    assert rappor.lifetime().epsilon == (inf if for_life == inf else pytest.approx(for_life, abs=6e-7))
    if rappor.f:
        ratio = (1 - rappor.f / 2) / (rappor.f / 2)
        assert rappor.permanent_odds == ratio ** (2 * hashes)  # the factor 2 of ε_∞
    p_star, q_star = rappor.other_support, rappor.truth_support
    assert rappor.report_odds == (q_star * (1 - p_star) / (p_star * (1 - q_star))) ** hashes  # and its place in ε_1


def test_supports_of_published_rows():
    assert (Rappor(8, 2, 1, *NOISE).other_support, Rappor(8, 2, 1, *NOISE).truth_support) == (
        Fraction(9, 16),
        Fraction(11, 16),
    )
    other = Rappor(8, 2, 1, 3 * QUARTER, HALF, 3 * QUARTER)
    assert (other.other_support, other.truth_support) == (Fraction(19, 32), Fraction(21, 32))
    assert Rappor(8, 2, 1, *NOISE).null_variance == Fraction(63, 4)


def test_truncated_noise_of_other_clients():
    """f = 0.45 as ⌊128f⌋/128 and ⌈128f⌉/128: two clients with two values of ε_∞, one above what is declared."""
    found = [Rappor(8, 2, 1, f, HALF, 3 * QUARTER).lifetime().epsilon for f in (Fraction(57, 128), Fraction(58, 128))]
    assert found == pytest.approx([5.0010, 4.9113], abs=5e-5)
    assert found[0] > Rappor(8, 2, 1, Fraction(45, 100), HALF, 3 * QUARTER).lifetime().epsilon > found[1]


# Parameters


@pytest.mark.parametrize(
    ("noise", "name"),
    [
        ((Fraction(1), HALF, 3 * QUARTER), "f is"),
        ((HALF, HALF, HALF), "p is"),
        ((HALF, 3 * QUARTER, HALF), "p is"),
        ((Fraction(0), Fraction(0), HALF), "no ε"),
        ((Fraction(0), HALF, Fraction(1)), "no ε"),
    ],
)
def test_noise_that_hides_or_tells_nothing_is_refused(noise, name):
    with pytest.raises(BadParameter, match=name):
        Rappor(8, 2, 4, *noise)


def test_without_permanent_noise_a_state_has_no_epsilon_and_reports_add_up():
    rappor = Rappor(8, 2, 4, Fraction(0), QUARTER, 3 * QUARTER)
    assert rappor.lifetime().epsilon == inf
    assert rappor.epsilon_of_reports(3) == pytest.approx(3 * rappor.epsilon)
    with pytest.raises(BadParameter, match="Count every report"):
        rappor.permanent_event()


# Estimates


@pytest.mark.parametrize("noise", [NOISE, (Fraction(0), QUARTER, 3 * QUARTER)])
def test_bits_are_unbiased_with_the_stated_variance(noise):
    rappor = BasicRappor.of(2, *noise)
    distribution = distribute_reports(rappor, 1)
    for bit, holders in ((0, 0), (1, 1)):
        readings = {report: rappor.estimate_bits(rappor.count([report]))[0][bit] for report in distribution}
        mean = sum(chance * readings[report] for report, chance in distribution.items())
        spread = sum(chance * (readings[report] - mean) ** 2 for report, chance in distribution.items())
        assert (mean, spread) == (holders, rappor.bit_variance(1, holders))
    assert rappor.bit_variance(1, 0) == rappor.null_variance


def test_counts_of_many_have_the_distribution_of_one():
    rappor = Rappor(16, 2, 2, *NOISE, "salt")
    n = 40_000
    counts = rappor.draw_counts([b"a"], [n], seeded_bits(3))
    assert counts.n == n
    for cohort in range(2):
        assert binom.ppf(FALSE_ALARM, n, 0.5) <= counts.sizes[cohort] <= binom.isf(FALSE_ALARM, n, 0.5)
        for bit in range(16):
            own = bit in rappor.filter(b"a", cohort)
            p = float(rappor.truth_support if own else rappor.other_support)
            size = int(counts.sizes[cohort])
            assert binom.ppf(FALSE_ALARM, size, p) <= counts.ones[cohort, bit] <= binom.isf(FALSE_ALARM, size, p)


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


def test_days_and_shards_add_up():
    rappor = Rappor(8, 2, 2, *NOISE, "add")
    one, two = (rappor.draw_counts([b"a"], [50], seeded_bits(seed)) for seed in (1, 2))
    both = one + two
    assert both.n == 100
    assert (both.ones == one.ones + two.ones).all()


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


# Texts outside any list


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


def test_unknown_texts_are_found():
    unknown = make_unknown()
    texts = [b"abcabc", b"cccaaa"]
    draws = BulkDraws(7)
    reports = [unknown.draw(texts[i % 3 > 0], draws) for i in range(1500)]
    assert all(unknown.is_valid(report) for report in reports)
    found = unknown.find_candidates(reports, 1 - Fraction(1, 10**6))
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
