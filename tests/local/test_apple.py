"""Apple's sketches: exact distribution, variance with the floor of shared hashes, published figures, new words."""

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy.stats import binom, norm

from discreet.errors import BadParameter
from discreet.local.apple import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    SequenceFragmentPuzzle,
    Sketch,
    solve_dictionary,
)
from discreet.testing import seeded_bits
from tests.support.local_distributions import distribute_reports, largest_ratio

FALSE_ALARM = 1e-9


class GivenCms(CountMeanSketch, frozen=True, tag="given cms"):
    """Count Mean Sketch of integers, with given functions: row j has the bucket of each value."""

    table: tuple[tuple[int, ...], ...]

    def hash(self, function, value):
        return self.table[function][value]

    def hash_all(self, values):
        return np.array([[row[value] for value in values] for row in self.table])


class GivenHcms(HadamardCountMeanSketch, frozen=True, tag="given hcms"):
    """Hadamard Count Mean Sketch of integers, with given functions."""

    table: tuple[tuple[int, ...], ...]

    hash = GivenCms.hash
    hash_all = GivenCms.hash_all


# Distribution and ε


@pytest.mark.parametrize(
    "sketch",
    [
        GivenCms(Fraction(4), 2, 3, "", ((0, 1, 2), (1, 1, 0))),
        GivenCms(Fraction(9, 4), 1, 2, "", ((0, 1, 1),)),
        GivenHcms(Fraction(3), 2, 4, "", ((0, 1, 2), (3, 3, 1))),
        GivenHcms(Fraction(5, 2), 1, 2, "", ((0, 1, 1),)),
    ],
)
def test_reports_are_the_stated_set_response(sketch):
    """R(x)(y) = γ·base(y)·X^[x ∈ y] for every report and value; ε by enumeration; the stated pair is the worst."""
    event = sketch.event()
    gamma = 1 / (1 + (event.odds - 1) * event.share)
    found = [distribute_reports(sketch, value) for value in range(3)]
    bases = [
        {y: chance / gamma / (event.odds if sketch.supports(y, value) else 1) for y, chance in distribution.items()}
        for value, distribution in enumerate(found)
    ]
    assert bases[0] == bases[1] == bases[2]
    assert sum(bases[0].values()) == 1
    pairs = []
    for one, two in ((0, 1), (0, 2), (1, 2)):
        assert sum(chance for y, chance in bases[0].items() if sketch.supports(y, one)) == event.share
        pairs.append(sum(chance for y, chance in bases[0].items() if sketch.supports(y, one) and sketch.supports(y, two)))
    assert min(pairs) >= event.pair
    if sketch.functions == 1:
        assert min(pairs) == event.pair
    assert largest_ratio(found) == sketch.odds


def test_bits_of_count_mean_sketch_have_the_stated_probabilities():
    sketch = GivenCms(Fraction(4), 2, 3, "", ((0, 1, 2), (1, 1, 0)))
    assert sketch.flip == Fraction(1, 3)
    for value in range(3):
        for report, chance in distribute_reports(sketch, value).items():
            stated = Fraction(1, 2)
            for place in range(3):
                right = (report[1] >> place & 1) == (place == sketch.table[report[0]][value])
                stated *= 1 - sketch.flip if right else sketch.flip
            assert chance == stated


def test_odds_without_a_rational_root_are_refused():
    with pytest.raises(BadParameter, match="for_epsilon"):
        CountMeanSketch(Fraction(3), 4, 8, "")
    with pytest.raises(BadParameter, match="power of two"):
        HadamardCountMeanSketch(Fraction(3), 4, 6, "")


# Variance


def enumerate_moments(kind, odds, functions, width, people) -> tuple[Fraction, Fraction]:
    """Mean and variance of the estimate of value 0, over all functions, all choices of them, and all noise.

    Given functions, people are independent: the variance is the mean of variances and the variance of means.
    """
    values, n = len(people), sum(people)
    means, variances = [], []
    rows = list(product(range(width), repeat=values))
    for table in product(rows, repeat=functions):
        sketch = kind(odds, functions, width, "", table)
        mean = variance = Fraction(0)
        for value, many in enumerate(people):
            readings = [
                (chance, sketch.estimate(sketch.count([report]), [0])[0])
                for report, chance in cached_reports(
                    kind, odds, functions, width, tuple(row[value] for row in table)
                ).items()
            ]
            # The estimate is read for value 0, whose buckets the table has.
            one = sum(chance * reading for chance, reading in readings)
            mean += many * one
            variance += many * sum(chance * (reading - one) ** 2 for chance, reading in readings)
        means.append(mean)
        variances.append(variance)
    average = sum(means) / len(means)
    assert n == sum(people)
    return average, sum(variances) / len(variances) + sum((mean - average) ** 2 for mean in means) / len(means)


CACHE: dict = {}


def cached_reports(kind, odds, functions, width, buckets):
    key = (kind, odds, functions, width, buckets)
    if key not in CACHE:
        CACHE[key] = distribute_reports(kind(odds, functions, width, "", tuple((bucket,) for bucket in buckets)), 0)
    return CACHE[key]


@pytest.mark.parametrize(("functions", "people"), [(1, (1, 2, 1)), (1, (0, 3, 0)), (1, (2, 2, 3)), (2, (1, 2))])
@pytest.mark.parametrize(("kind", "odds"), [(GivenCms, Fraction(4)), (GivenHcms, Fraction(3))])
def test_variance_with_its_floor_equals_enumeration_of_all_functions(kind, odds, functions, people):
    mean, variance = enumerate_moments(kind, odds, functions, 2, people)
    stated = kind(odds, functions, 2, "", ((0,) * len(people),) * functions).variance(people[0], people[1:])
    assert mean == people[0]
    assert variance == stated


def test_variance_of_three_buckets_equals_enumeration():
    mean, variance = enumerate_moments(GivenCms, Fraction(4), 1, 3, (1, 2, 1))
    assert (mean, variance) == (1, GivenCms(Fraction(4), 1, 3, "", ((0, 0, 0),)).variance(1, (2, 1)))


def test_the_published_hadamard_formula_is_only_its_leading_term():
    """The mutant: (m/(m−1))²·n·c², which leaves out what the truth and the collisions take away and add."""
    sketch = GivenHcms(Fraction(3), 1, 2, "", ((0, 0),))
    assert enumerate_moments(GivenHcms, Fraction(3), 1, 2, (1, 2))[1] != 4 * 3 * sketch.spread**2


# Published figures


def test_apple_figures():
    """ε = 4, m = 1024, k = 65,536."""
    sketch = CountMeanSketch.for_epsilon(4, width=1024, functions=65536, salt="emoji")
    assert sketch.epsilon <= 4
    assert float(sketch.flip) == pytest.approx(0.119203, abs=1e-6)
    assert float(sketch.spread) == pytest.approx(1.313035, abs=1e-6)
    assert float(sketch.noise_variance) == pytest.approx(0.181015, abs=1e-6)
    assert sketch.noise_variance == (sketch.spread**2 - 1) / 4
    one = sqrt(sketch.variance(0, [1] * 10**6))
    assert one == pytest.approx(427.0, abs=0.05)
    assert norm.isf(0.025) * one / 10**6 == pytest.approx(0.000837, abs=5e-7)
    many = float(sketch._scale**2) * 10**8 * (float(sketch.noise_variance) + 1023 / 1024**2)
    assert sqrt(many) == pytest.approx(4270, abs=0.5)


def test_apple_floor_figures():
    """One other word that everyone holds adds a standard deviation of 122 at n = 10⁶, and of 12,213 at n = 10⁸."""
    sketch = CountMeanSketch.for_epsilon(4, width=1024, functions=65536, salt="emoji")
    for n, floor, noise in ((10**6, 122, 426), (10**8, 12213, 4259)):
        added = sketch.variance(0, [n]) - sketch._scale**2 * n * (sketch.noise_variance + Fraction(1023, 1024**2))
        assert sqrt(added) == pytest.approx(floor, abs=0.6)
        assert sqrt(sketch._scale**2 * n * sketch.noise_variance) == pytest.approx(noise, abs=0.6)


def test_apple_hadamard_figures():
    sketch = HadamardCountMeanSketch.for_epsilon(4, width=1024, functions=65536, salt="emoji")
    plain = CountMeanSketch.for_epsilon(4, width=1024, functions=65536, salt="emoji")
    assert float(sketch.spread**2) == pytest.approx(1.076022, abs=1e-6)
    assert sqrt(sketch.variance(0, [1] * 10**6)) == pytest.approx(1038, abs=0.5)
    assert float(sketch.spread**2 / plain.noise_variance) == pytest.approx(5.9, abs=0.05)


def test_apple_health_figures():
    sketch = CountMeanSketch.for_epsilon(2, width=256, functions=65536, salt="health")
    assert float(sketch.noise_variance) == pytest.approx(0.920674, abs=1e-6)


def test_count_mean_sketch_against_optimised_unary_encoding():
    """Its noise is that of symmetric unary encoding, (z + 1)²/(4z) times the optimum: 1.06, 1.27, 2.38 at ε = 1, 2, 4."""
    from discreet.local.oracles import Unary

    for epsilon, stated in ((1, 1.06), (2, 1.27), (4, 2.38)):
        sketch = CountMeanSketch.for_epsilon(epsilon, width=64, functions=4, salt="")
        ratio = sketch.noise_variance / Unary.optimised(64, sketch.odds).null_variance
        assert ratio == (sketch.root + 1) ** 2 / (4 * sketch.root)
        assert float(ratio) == pytest.approx(stated, abs=6e-3)
        assert sketch.noise_variance == Unary.symmetric(64, sketch.root).null_variance


# Sketches


@pytest.mark.parametrize(
    "kind", [CountMeanSketch(Fraction(9), 8, 32, "bulk"), HadamardCountMeanSketch(Fraction(9), 8, 32, "bulk")]
)
def test_estimates_of_many_meet_their_variance(kind):
    """The functions are drawn with the salt: over 400 salts, the mean squared error is the stated variance."""
    words, people = [b"a", b"b", b"c"], [150, 60, 0]
    kinds = [type(kind)(kind.odds, kind.functions, kind.width, f"salt {i}") for i in range(400)]
    errors = np.array(
        [
            [
                float(e) - n
                for e, n in zip(each.estimate(each.draw_sketch(words, people, seeded_bits(i)), words), people, strict=True)
            ]
            for i, each in enumerate(kinds)
        ]
    )
    for place in range(3):
        others = [n for i, n in enumerate(people) if i != place]
        variance = float(kind.variance(people[place], others))
        assert abs(errors[:, place].mean()) < norm.isf(FALSE_ALARM) * sqrt(variance / 400)
        fourth = ((errors[:, place] ** 2).std() / variance) / sqrt(400)
        assert abs((errors[:, place] ** 2).mean() / variance - 1) < norm.isf(FALSE_ALARM) * fourth


def test_a_bulk_sketch_has_the_distribution_of_single_reports():
    sketch, n = CountMeanSketch(Fraction(4), 2, 8, "one"), 40_000
    drawn = sketch.draw_sketch([b"a"], [n], seeded_bits(4))
    rows = [drawn.cells[j].sum() / (1 / 3 * 7 + 2 / 3) for j in range(2)]
    assert sum(rows) == pytest.approx(n, rel=0.02)
    for j in range(2):
        own = sketch.hash(j, b"a")
        for place in range(8):
            p = 1 / 2 * (2 / 3 if place == own else 1 / 3)
            assert binom.ppf(FALSE_ALARM, n, p) <= drawn.cells[j, place] <= binom.isf(FALSE_ALARM, n, p)
    hadamard = HadamardCountMeanSketch(Fraction(3), 2, 4, "one")
    drawn = hadamard.draw_sketch([b"a"], [n], seeded_bits(4))
    for j, row in product(range(2), range(4)):
        sign = 1 - 2 * ((row & hadamard.hash(j, b"a")).bit_count() % 2)
        # Mean n/8·sign/2; the variance of a term of ±1 or 0 is at most 1/8.
        assert abs(drawn.cells[j, row] - n / 16 * sign) < norm.isf(FALSE_ALARM) * sqrt(n / 8)


@pytest.mark.parametrize("kind", [GivenCms, GivenHcms])
def test_a_dictionary_is_unbiased_for_published_functions(kind):
    """Expected sketches, as integers: least squares returns the truth where the estimate is biased."""
    table = ((0, 1, 2, 0), (3, 3, 1, 2), (1, 0, 0, 0))
    sketch = kind(Fraction(4), 3, 4, "", table)
    people = [3 * 5 * 4 * 3 * factor for factor in (1, 0, 2, 5)]
    cells = [[Fraction(0)] * 4 for _ in range(3)]
    for value, many in enumerate(people):
        for report, chance in distribute_reports(sketch, value).items():
            if kind is GivenCms:
                for place in range(4):
                    cells[report[0]][place] += many * chance * (report[1] >> place & 1)
            else:
                cells[report[0]][report[1]] += many * chance * (1 - 2 * report[2])
    assert all(cell.denominator == 1 for row in cells for cell in row)
    expected = Sketch(sum(people), np.array([[int(cell) for cell in row] for row in cells]))
    assert solve_dictionary(sketch, expected, range(4)) == pytest.approx(people, abs=1e-6)
    assert float(sketch.estimate(expected, range(4))[0]) != pytest.approx(people[0], rel=0.01)
    with pytest.raises(BadParameter, match="too many"):
        solve_dictionary(kind(Fraction(4), 3, 4, "", ((0, 0),) * 3), expected, range(2))


def test_days_and_shards_add_up():
    sketch = CountMeanSketch(Fraction(4), 2, 8, "add")
    one, two = (sketch.draw_sketch([b"a"], [10], seeded_bits(i)) for i in (1, 2))
    assert (one + two).n == 20
    assert ((one + two).cells == one.cells + two.cells).all()


# New words


def make_puzzle() -> SequenceFragmentPuzzle:
    return SequenceFragmentPuzzle(
        6, "_abcd", CountMeanSketch(Fraction(64), 16, 128, "fragments"), CountMeanSketch(Fraction(64), 16, 128, "words")
    )


def test_a_puzzle_report_is_both_sketches():
    puzzle = make_puzzle()
    drawn = (1, *([0] * (len(puzzle.moduli) - 1)))
    report = puzzle.select(b"abcdab", drawn)
    name = puzzle.name_fragment(1, puzzle.piece(b"abcdab"), "cd")
    assert report == (1, *puzzle.fragment.select(name, drawn[1:130]), *puzzle.word.select(b"abcdab", drawn[130:]))
    assert len(report) == len(puzzle.fields)
    fragments, words = puzzle.count([report])
    assert [sketch.n for sketch in fragments] == [0, 1, 0]
    assert words.n == 1
    assert puzzle.epsilon == pytest.approx(puzzle.fragment.epsilon + puzzle.word.epsilon)
    assert [(part.odds, times) for part, times in puzzle.event().parts] == [(Fraction(64), 2)]


def test_new_words_are_found():
    puzzle = make_puzzle()
    people = {b"abcdab": 6000, b"dada": 4000, b"cc": 3000}
    fragments, words = puzzle.draw_sketches(people, seeded_bits(8))
    found = puzzle.find_words(fragments, words, top=12)
    assert [word for word, _ in found[:3]] == [b"abcdab", b"dada__", b"cc____"]
    for (_, estimate), n in zip(found, people.values(), strict=False):
        others = [m for m in people.values() if m != n]
        assert abs(estimate - n) < norm.isf(FALSE_ALARM) * sqrt(puzzle.word.variance(n, others)) * 1.2
    with pytest.raises(BadParameter, match="limit"):
        puzzle.find_words(fragments, words, top=12, limit=1)


def test_a_puzzle_needs_two_salts():
    with pytest.raises(BadParameter, match="salt"):
        SequenceFragmentPuzzle(4, "_ab", *(CountMeanSketch(Fraction(4), 2, 8, "same"),) * 2)
