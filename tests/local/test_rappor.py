"""RAPPOR: exact distribution, ε with overlapping filters, published rows, counts."""

from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import inf, log

import pytest
from scipy.stats import binom

from discreet.errors import BadParameter, BadValues
from discreet.local.longitudinal import unpack_bits
from discreet.local.rappor import BasicRappor, Rappor
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
        (rappor.report_event(), rappor.report_odds),
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


def test_days_and_shards_add_up():
    rappor = Rappor(8, 2, 2, *NOISE, "add")
    one, two = (rappor.draw_counts([b"a"], [50], seeded_bits(seed)) for seed in (1, 2))
    both = one + two
    assert both.n == 100
    assert (both.ones == one.ones + two.ones).all()


def test_noise_is_read_exactly_and_texts_in_utf8() -> None:
    exact = Rappor(32, 2, 4, Fraction(1, 2), Fraction(1, 10), Fraction(3, 4), "x")
    for given in ((0.5, 0.1, 0.75), ("1/2", "0.1", "3/4")):
        found = Rappor(32, 2, 4, *given, "x")
        assert found == exact
        assert found.epsilon == exact.epsilon
    for wrong in ("half", None, float("nan")):
        with pytest.raises(BadParameter, match=r"^f is"):
            Rappor(32, 2, 4, wrong, Fraction(1, 10), Fraction(3, 4), "x")  # type: ignore[arg-type]
    assert exact.filter("naïve", 3) == exact.filter("naïve".encode(), 3)
    assert (exact.filter_all(["é"]) == exact.filter_all(["é".encode()])).all()
    for value in (7, chr(0xD800)):
        with pytest.raises(BadValues, match="not all texts"):
            exact.filter(value, 0)
