"""Soundness of rounds: one event several times, on everyone, on Poisson samples or on samples without replacement, against
all samples of tiny data sets and all answers, with every next query chosen after the answers so far.

The kinds of events are those whose rounds are hard to account for: exponential mechanisms, noise on integers with any norms,
noise on the line (its outputs in cells, which is post-processing, so that only upper ends can be compared), two kinds of
noise on one sample, and shares of all of them.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations
from math import exp, expm1
from random import Random

import msgspec
import numpy as np
import pytest
from scipy.special import ndtr

from discreet.accounting.compare import compare_guarantees
from discreet.accounting.curve import delta, epsilon
from discreet.events import (
    BinomialEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    compose,
    repeat,
)
from discreet.units import Sensitivity, to_sensitivity
from tests.support import neighbour_oracle as oracle
from tests.support.rounds import every_nth_by_day

SLACK, ROUGH = 1e-11, 1e-9  # the truth is summed in doubles
Noise = Callable[[int, int, int], oracle.Masses]


def fraction(random: Random, low: float, high: float) -> Fraction:
    return Fraction(random.uniform(low, high)).limit_denominator(50) + Fraction(1, 50)


def worst(pairs: list[oracle.Pair], times: int, eps: float) -> float:
    """δ(ε) of `times` rounds that each meet any of these pairs of one size, chosen after the answers so far."""
    p, q = (np.array([pair[side] for pair in pairs]) for side in (0, 1))

    def most(left: int, a: oracle.Masses, b: oracle.Masses) -> oracle.Masses:
        if left == 0:
            return np.maximum(0.0, a - exp(eps) * b)
        return np.asarray(most(left - 1, a[..., None, None] * p, b[..., None, None] * q).sum(axis=-1).max(axis=-1))

    return float(most(times, np.ones(()), np.ones(())))


def swapped(pairs: list[oracle.Pair]) -> list[oracle.Pair]:
    return [(b, a) for a, b in pairs]


def misses(event: Event, shapes: list[list[oracle.Pair]], times: int, eps: float) -> bool:
    """Whether some shape of neighbours has a larger δ than the upper end."""
    truth = max(worst(pairs, times, eps) for pairs in shapes)
    return delta(repeat(event, times), eps, 1e-4).upper < truth * (1 - ROUGH) - SLACK


def check_upper(event: Event, shapes: list[list[oracle.Pair]], times: int, random: Random, compare: bool) -> None:
    """No upper end, of δ or of ε or of any notion's ε, is below the worst of these shapes of neighbours."""
    for eps in (0.0, random.uniform(0, 1), random.uniform(0, 3)):
        assert not misses(event, shapes, times, eps), (event, times, eps)
    target = random.choice([1e-4, 1e-2, 0.1])
    ends = {"certified": epsilon(repeat(event, times), target, 1e-4).upper}
    for name, end in (ends | (compare_guarantees(repeat(event, times), target) if compare else {})).items():
        if end < 100:
            found = max(worst(pairs, times, end) for pairs in shapes)
            assert found <= target * (1 + ROUGH) + SLACK, (event, times, target, name)


def choices(eps: float, parts: int, random: Random) -> list[oracle.Pair]:
    """Exponential mechanisms: of two candidates all losses u and u − ε, and some of three whose scores move at will; the
    third outcome of the former never occurs."""
    found = []
    for i in range(1, parts):
        u = eps * i / parts
        low = expm1(u - eps) / (exp(u - eps) - exp(u))  # Q of the loss u
        found.append((np.array([exp(u) * low, 1 - exp(u) * low, 0.0]), np.array([low, 1 - low, 0.0])))
    for _ in range(4):
        scores, moves = np.array([[random.uniform(-2, 2), random.uniform(0, eps)] for _ in range(3)]).T
        one, two = np.exp(scores), np.exp(scores + moves)
        found.append((one / one.sum(), two / two.sum()))
    return found


def sample(pairs: list[oracle.Pair], rate: Fraction) -> list[oracle.Pair]:
    q = float(rate)
    return [((1 - q) * b + q * a, b) for a, b in pairs]


def check_choices(seed: int, compare: bool = False) -> None:
    """Exponential mechanisms on everyone or on a Poisson sample, one to three times."""
    random = Random(seed)
    eps, times = fraction(random, 0.1, 2), random.randint(1, 3)
    rate = random.choice([Fraction(1), Fraction(1, 100), fraction(random, 0.05, 0.9)])
    # As many losses as the time allows, and what the truth between two of them may be above both.
    tried, margin = {1: (400, 1.005), 2: (128, 1.02), 3: (40, 1.06)}[times]
    pairs = sample(choices(float(eps), tried, random), rate)
    event = ExponentialEvent(eps) if rate == 1 else Subsampled(ExponentialEvent(eps), rate)
    check_upper(event, [pairs, swapped(pairs)], times, random, compare)
    at = random.uniform(0, 0.6) * times * float(np.log1p(float(rate) * expm1(float(eps))))
    truth = max(worst(shape, times, at) for shape in (pairs, swapped(pairs)))
    found = delta(repeat(event, times), at, 1e-4)
    assert found.lower <= truth * margin + SLACK, (seed, event, times, at)
    assert (rate < 1 and times > 1) or found.upper <= truth * (margin + 0.02) + 1e-9


@pytest.mark.parametrize("block", every_nth_by_day(range(4), 2))
def test_rounds_of_choices_against_all_answers(block: int) -> None:
    for seed in range(6 * block, 6 * block + 6):
        check_choices(seed, compare=seed % 6 == 0)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_rounds_of_choices_against_all_answers_nightly(block: int) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        check_choices(seed, compare=True)


def test_a_smaller_range_or_rate_is_noticed() -> None:
    """Mutants: a range 2% too small, a rate 2% too small."""
    pairs = sample(choices(1.0, 32, Random(0)), Fraction(1, 2))
    shapes = [pairs, swapped(pairs)]
    one = ExponentialEvent(Fraction(1))
    assert not misses(Subsampled(one, Fraction(1, 2)), shapes, 1, 0.3)
    assert misses(Subsampled(ExponentialEvent(Fraction(98, 100)), Fraction(1, 2)), shapes, 1, 0.3)
    assert misses(Subsampled(one, Fraction(49, 100)), shapes, 1, 0.3)


def gaussian_cells(sigma: Fraction) -> Noise:
    def masses(x: int, low: int, high: int) -> oracle.Masses:
        edges = np.linspace(low - 2 * float(sigma), high + 2 * float(sigma), 9)
        inside = np.concatenate([[0.0], ndtr((edges - x) / float(sigma)), [1.0]])
        return np.diff(inside)

    return masses


def laplace_cells(scale: Fraction) -> Noise:
    def masses(x: int, low: int, high: int) -> oracle.Masses:
        y = (np.linspace(low, high, 5) - x) / float(scale)
        below = np.where(y < 0, np.exp(np.minimum(y, 0)) / 2, 1 - np.exp(-np.maximum(y, 0)) / 2)
        return np.diff(np.concatenate([[0.0], below, [1.0]]))

    return masses


def draw_noise(random: Random, kinds: tuple[str, ...], top: int) -> tuple[Event, Noise, bool]:
    """An event of sensitivity `top` (replacing a unit moves a sum of values 0 … top by no more), its masses, and whether
    these are exact."""
    moved = to_sensitivity(top)
    match random.choice(kinds):
        case "discrete laplace":
            scale = fraction(random, 0.3, 3)
            return DiscreteLaplaceEvent(scale, moved), oracle.discrete_laplace(scale), True
        case "discrete gaussian":
            sigma = fraction(random, 0.3, 0.9)
            return DiscreteGaussianEvent(sigma, moved), oracle.discrete_gaussian(sigma, 9), True
        case "binomial":
            n = random.choice([4, 6, 8])
            return BinomialEvent(n, moved), oracle.binomial(n), True
        case "gaussian":
            sigma = fraction(random, 0.5, 3)
            return GaussianEvent(sigma, moved), gaussian_cells(sigma), False
        case "laplace":
            scale = fraction(random, 0.5, 3)
            return LaplaceEvent(scale, moved), laplace_cells(scale), False
        case _:  # two kinds of noise on the same sample
            one, two = draw_noise(random, kinds[:2], top), draw_noise(random, kinds[-3:-1], top)
            return (
                compose(one[0], two[0]),
                lambda x, low, high: oracle.together([one[1](x, low, high), two[1](x, low, high)]),
                one[2] and two[2],
            )


KINDS = ("discrete laplace", "binomial", "discrete gaussian", "gaussian", "laplace", "both")


def output(data: tuple[int, ...], values: dict[int, int], m: int, noise: Noise) -> oracle.Masses:
    """The sum of the values of m units without replacement, under noise."""
    samples = list(combinations(data, m))
    high = m * max(values.values())
    return np.asarray(sum(noise(sum(values[u] for u in one), 0, high) for one in samples) / len(samples))


def shares(noise: Noise, top: int, n: int, m: int) -> list[list[oracle.Pair]]:
    """For every two data sets that differ in one unit: the pairs of all queries, which give each person's mark a value.

    Marks 0, 1 and 2 are all that matters: that of the unit, of the other one in its place, and of each of the rest."""
    queries = [dict(enumerate(values)) for values in set(permutations([0, top, top], 3)) | set(permutations([0, 0, top], 3))]
    shapes = []
    for rest in combinations_with_replacement(range(3), n - 1):
        pairs = [(output((0, *rest), value, m, noise), output((1, *rest), value, m, noise)) for value in queries]
        shapes += [pairs, swapped(pairs)]
    return shapes


def check_shares(seed: int, compare: bool = False) -> None:
    random = Random(seed)
    (n, m), top = random.choice([(3, 1), (3, 2), (4, 1), (4, 2)]), random.randint(1, 2)
    event, noise, exact = draw_noise(random, KINDS, top)
    times = random.randint(1, 3 if isinstance(event, DiscreteLaplaceEvent) else 2)
    share = SampledWithoutReplacement(event, Fraction(m, n))
    shapes = shares(noise, top, n, m)
    if len(shapes[0][0][0]) > 40:
        times = 1
    check_upper(share, shapes, times, random, compare)
    if exact:  # lower ends lean on neighbours whose others are all alike: they are among these
        at = random.uniform(0, 1)
        truth = max(worst(pairs, times, at) for pairs in shapes)
        assert delta(repeat(share, times), at, 1e-4).lower <= truth * (1 + ROUGH) + SLACK, (seed, share, times, at)


@pytest.mark.parametrize("block", range(4))
def test_rounds_on_shares_against_all_samples(block: int) -> None:
    for seed in range(6 * block, 6 * block + 6):
        check_shares(seed, compare=seed % 6 == 0)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_rounds_on_shares_against_all_samples_nightly(block: int) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        check_shares(seed, compare=True)


def test_shares_of_responses_and_choices_against_all_samples() -> None:
    """The answer of one unit of n, or a choice by its mark: mixtures of three distributions that are neighbours."""
    for n in (2, 3, 5):
        rate = Fraction(1, n)
        truth, eps = Fraction(3, 4), Fraction(3, 2)
        answers = [np.array([0.75, 0.25]), np.array([0.25, 0.75])]
        for event, worlds in (
            (RandomizedResponseEvent(truth, 2), answers),
            (ExponentialEvent(eps), [np.array([1, e]) / (1 + e) for e in (1.0, exp(1.5), exp(0.75))]),
        ):
            q = float(rate)
            triples = [(a, b, c) for a in worlds for b in worlds for c in worlds]
            pairs = [((1 - q) * c + q * a, (1 - q) * c + q * b) for a, b, c in triples]
            for times in (1, 2, 3):
                check_upper(SampledWithoutReplacement(event, rate), [pairs], times, Random(n), compare=True)


def test_a_share_that_is_too_small_is_noticed() -> None:
    """Mutants: m/(n + 1) for m/n, and a Poisson sample's two directions for a share."""
    noise = DiscreteLaplaceEvent(Fraction(1, 2), to_sensitivity(1))
    shapes = shares(oracle.discrete_laplace(Fraction(1, 2)), 1, 4, 1)
    assert not misses(SampledWithoutReplacement(noise, Fraction(1, 4)), shapes, 3, 0.4)
    assert misses(SampledWithoutReplacement(noise, Fraction(1, 5)), shapes, 3, 0.4)
    assert misses(Subsampled(noise, Fraction(1, 4)), shapes, 3, 0.4)


def check_poisson(seed: int, compare: bool = False) -> None:
    """A Poisson sample of up to three others and one unit: every sample, every answer, both directions."""
    random = Random(seed)
    event, noise, exact = draw_noise(random, KINDS, 1)
    rate, others = random.choice([Fraction(1, 100), fraction(random, 0.05, 0.9)]), random.randint(0, 2)
    q, high, pairs = float(rate), others + 1, []
    for up in range(others + 1):  # others whose value is 1
        rest = [(q**k * (1 - q) ** (up - k) * len(list(combinations(range(up), k))), k) for k in range(up + 1)]
        away, there = (np.sum([chance * noise(k + up_one, 0, high) for chance, k in rest], axis=0) for up_one in (0, 1))
        pairs.append(((1 - q) * away + q * there, away))
    times = random.randint(1, 3 if len(pairs[0][0]) * len(pairs) < 60 else 2 if len(pairs[0][0]) < 60 else 1)
    sampled = Subsampled(event, rate)
    check_upper(sampled, [pairs, swapped(pairs)], times, random, compare)
    if exact:
        at = random.uniform(0, 1)
        truth = max(worst(shape, times, at) for shape in (pairs, swapped(pairs)))
        assert delta(repeat(sampled, times), at, 1e-4).lower <= truth * (1 + ROUGH) + SLACK, (seed, sampled, times, at)


@pytest.mark.parametrize("block", range(4))
def test_rounds_on_poisson_samples_against_all_samples(block: int) -> None:
    for seed in range(6 * block, 6 * block + 6):
        check_poisson(seed, compare=seed % 6 == 0)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_rounds_on_poisson_samples_against_all_samples_nightly(block: int) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        check_poisson(seed, compare=True)


@pytest.mark.parametrize("square", [2, 3, 4])
@pytest.mark.parametrize("times", [1, 2])
def test_rounds_of_discrete_gaussians_with_only_an_l2_bound(square: int, times: int) -> None:
    """All changes of integers of that length, and another one in every round; a bound for one round fewer is noticed."""
    sigma, moved = Fraction(4, 5), Sensitivity(l2_squared=square)
    event = DiscreteGaussianEvent(sigma, moved)
    for change in oracle.vectors(moved)[:4]:
        line = [
            oracle.together([oracle.discrete_gaussian(sigma, 4 if square > 2 else 6)(x, 0, 2) for x in moves])
            for moves in (change, (0,) * len(change))
        ]
        if len(line[0]) > 2000:  # the others' noise is as without them
            continue
        pair = (line[0], line[1])
        for eps in (0.0, 1.0, 2.5):
            powers = [oracle.together([one] * times) if len(one) ** times < 10**6 else None for one in pair]
            if powers[0] is None or powers[1] is None:
                continue
            truth = float(np.maximum(0.0, powers[0] - exp(eps) * powers[1]).sum())
            assert truth <= delta(repeat(event, times), eps, 1e-4).upper * (1 + 1e-6) + 1e-6
    single = repeat(DiscreteGaussianEvent(sigma, to_sensitivity(1)), square)  # (1, …, 1) is one of these changes
    for eps in (0.0, 1.0, 2.5):
        exact = delta(repeat(single, times), eps)
        assert exact.lower <= delta(repeat(event, times), eps, 1e-4).upper
        assert times == 1 or exact.lower > delta(event, eps).upper


def test_narrow_discrete_gaussians_on_five_coordinates() -> None:
    """Five coordinates, each moved by one: the same as five events of one coordinate."""
    narrow = DiscreteGaussianEvent(Fraction(1, 2), Sensitivity(l0=5, linf=1))
    pair = [oracle.discrete_gaussian(Fraction(1, 2), 6)(x, 0, 1) for x in (0, 1)]
    inside = [one[2:-2] for one in pair]  # the rest has a mass below 1e-13
    joint = [oracle.together([one] * 5) for one in inside]
    for eps in (0.0, 3.0, 12.0):
        truth = float(np.maximum(0.0, joint[0] - exp(eps) * joint[1]).sum())
        found = delta(narrow, eps)
        assert found.lower * (1 - 1e-9) - 1e-9 <= truth <= found.upper * (1 + 1e-9) + 1e-9
        fewer = msgspec.structs.replace(narrow, sensitivity=Sensitivity(l0=4, linf=1))
        assert delta(fewer, eps).upper < truth
