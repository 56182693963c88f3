"""Shuffled reports: the intervals against enumeration, published values, independent sums and wrong shortcuts."""

import random
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from math import exp, log, pi, sqrt
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import gammaln

from discreet import BadParameter, TheoremNotApplicable, delta, epsilon, pure, shuffle, shuffled_epsilon, subsample
from discreet._numbers import Bounds, ceil_float
from discreet.accounting import compare_guarantees, shuffle_pairs
from discreet.accounting.elementary import exp_bounds, log_bounds
from discreet.accounting.rewrite import list_alternatives
from discreet.accounting.shuffle_pairs import (
    bound_delta,
    build_dominating_pld,
    build_pair,
    list_attained_pairs,
    list_outcomes,
)
from discreet.accounting.shuffling import pair_delta, pair_epsilon
from discreet.accounting.strategies import DiscreteCurve
from discreet.accounting.textbook import shuffle_amplification
from discreet.events import (
    BinomialEvent,
    Claim,
    Composition,
    DiscreteGaussianEvent,
    Event,
    GaussianEvent,
    Group,
    LaplaceEvent,
    OptimalPartitionSelectionEvent,
    Parallel,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    SetResponseEvent,
    Shuffled,
    Subsampled,
    ThresholdEvent,
    has_pure_epsilon,
)
from discreet.units import Sensitivity, to_sensitivity
from tests.support.every_event import EVERY
from tests.support.shuffled_reports import list_worst_deltas, pair_deltas
from tests.support.small_randomisers import (
    Table,
    make_direct,
    make_hadamard,
    make_response,
    make_subset,
    make_unary,
)

POINTS = (0.0, 0.25, 0.5)
THREE, SMALL = Fraction(3), Fraction(3, 2)
RANDOMISERS: dict[str, tuple[tuple[Table, RandomizedResponseEvent | SetResponseEvent], int]] = {
    "2-RR": (make_response(Fraction(3, 4), 2), 6),
    "3-RR": (make_response(Fraction(3, 5), 3), 6),
    "4-RR": (make_response(Fraction(1, 2), 4), 4),
    "2-RR that mostly lies": (make_response(Fraction(1, 4), 2), 6),
    "3-RR that mostly lies": (make_response(Fraction(1, 5), 3), 5),
    "direct 3": (make_direct(SMALL, 3), 5),
    "unary 3": (make_unary(THREE, 3), 3),
    "unary 2": (make_unary(SMALL, 2), 6),
    "subset 2 of 3": (make_subset(THREE, 3, 2), 6),
    "subset 2 of 4": (make_subset(THREE, 4, 2), 3),
    "hadamard 3": (make_hadamard(THREE, 3), 3),
}


def contains(bounds: Bounds, find: Callable[[Fraction], Fraction], point: float) -> bool:
    """Whether an interval around a function that falls with e^ε holds its value at a double."""
    low, high = exp_bounds(Fraction(point))
    return bounds.lower <= find(low) and find(high) <= bounds.upper


@pytest.mark.parametrize("name", RANDOMISERS)
def test_the_interval_holds_the_worst_neighbours_by_enumeration(name: str) -> None:
    (table, event), most = RANDOMISERS[name]
    for users in range(1, most + 1):
        powers = [power for point in POINTS for power in exp_bounds(Fraction(point))]
        worst = list_worst_deltas(table, users, powers)
        for i, point in enumerate(POINTS):
            found = delta(Shuffled(event, users), point)
            assert found.lower <= worst[2 * i]
            assert worst[2 * i + 1] <= found.upper


def build_exact_pair(event: RandomizedResponseEvent | SetResponseEvent, users: int, power: Fraction) -> tuple[Fraction, ...]:
    """The blanket pair by enumeration, from the definition: four kinds of sets, or k answers."""
    if isinstance(event, RandomizedResponseEvent):
        table, _ = make_response(event.truth, event.choices)
        blanket = event.choices * min(table[0][:2])
        base = [Fraction(1, event.choices)] * event.choices
        return pair_deltas(blanket, base, table[0], table[1], users, power)
    odds, share, pair = event.odds, event.share, event.pair
    base = [share - pair, share - pair, pair, 1 - 2 * share + pair]
    blanket = 1 / (1 + (odds - 1) * share)
    own = [blanket * b * factor for b, factor in zip(base, (odds, 1, odds, 1), strict=True)]
    other = [blanket * b * factor for b, factor in zip(base, (1, odds, odds, 1), strict=True)]
    return pair_deltas(blanket, base, own, other, users, power)


@pytest.mark.parametrize("name", RANDOMISERS)
def test_the_pair_is_its_enumeration_in_both_orders(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, event), most = RANDOMISERS[name]
    for users in range(1, most + 1):
        for point in POINTS:
            first, second = (build_exact_pair(event, users, exp_bounds(Fraction(point))[0])[order] for order in (0, 1))
            assert first == second
            crowd = Shuffled(event, users)
            found = pair_delta(crowd, point)
            assert contains(found, lambda power, n=users: max(build_exact_pair(event, n, power)), point)
            assert found.width <= 1e-9
            # the contour, which serves where multisets are too many to list, is right for few of them too
            low, high = bound_delta(build_pair(crowd), point, 1e-3)
            assert low <= first <= high


@pytest.mark.parametrize("seed", range(12))
def test_clones_dominate_arbitrary_randomisers(seed: int) -> None:
    draw = random.Random(seed)
    values, reports = draw.choice([(2, 2), (2, 3), (3, 2), (3, 3), (2, 4)])
    rows = [[draw.randint(2, 9) for _ in range(reports)] for _ in range(values)]
    table = tuple(tuple(Fraction(p, sum(row)) for p in row) for row in rows)
    odds = max(a / b for p, q in permutations(table, 2) for a, b in zip(p, q, strict=True))
    if odds == 1:
        return
    event = Claim(log_bounds(odds)[1], Fraction(0))
    for users in range(1, 6):
        powers = [exp_bounds(Fraction(point))[1] for point in POINTS]
        worst = list_worst_deltas(table, users, powers)
        for point, exact in zip(POINTS, worst, strict=True):
            assert exact <= pair_delta(Shuffled(event, users), point).upper


def test_the_clone_pair_is_its_enumeration() -> None:
    for epsilon0 in (Fraction(1, 2), Fraction(2)):
        a = exp_bounds(-epsilon0)[0]  # short of 2^-120 of it
        rounded = Fraction(int(a * (1 << 60)), 1 << 60)
        coin = [1 / (1 + rounded), rounded / (1 + rounded)]
        for users in (1, 2, 5, 9):
            for point in POINTS:
                exact = pair_deltas(rounded, [Fraction(1, 2)] * 2, coin, coin[::-1], users, Fraction(exp(point)))
                found = pair_delta(Shuffled(Claim(epsilon0, Fraction(0)), users), point)
                assert float(max(exact)) == pytest.approx(found.upper, rel=1e-9)
                assert exact[0] == exact[1]


# LOCAL privacy, shuffled: values computed by other programs, at δ = 1e-6.

CLONES = {
    (10**4, 1): "0.05300 0.05301", (10**4, 2): "0.15504", (10**4, 3): "0.32072", (10**4, 4): "0.60091",
    (10**5, 1): "0.01528", (10**5, 2): "0.04503", (10**5, 3): "0.09276", (10**5, 4): "0.16974 0.16980",
    (10**6, 1): "0.004335", (10**6, 2): "0.01296", (10**6, 3): "0.02687", (10**6, 4): "0.04931",
    (10**7, 1): "0.0011993", (10**7, 2): "0.003665", (10**7, 3): "0.007685", (10**7, 4): "0.014204",
    (10**8, 1): "0.00031921", (10**8, 2): "0.00101004", (10**8, 3): "0.0021532", (10**8, 4): "0.0040241",
}  # fmt: skip

BINARY = {
    (10**4, 1): "0.03566", (10**4, 2): "0.08702", (10**4, 3): "0.16923", (10**4, 4): "0.31464",
    (10**5, 1): "0.01014", (10**5, 2): "0.02466", (10**5, 3): "0.04719", (10**5, 4): "0.08471",
    (10**6, 1): "0.002849", (10**6, 2): "0.007000", (10**6, 3): "0.01343", (10**6, 4): "0.02401",
    (10**7, 1): "0.0007792", (10**7, 2): "0.001954", (10**7, 3): "0.003787", (10**7, 4): "0.006815",
    (10**8, 1): "0.0002037", (10**8, 2): "0.0005286",
}  # fmt: skip

BLANKET = {
    (16, 1): "0.01858 0.01860", (16, 2): "0.0674 0.0676", (16, 3): "0.1711 0.1718", (16, 4): "0.3603 0.3629",
    (128, 1): "0.006290 0.006292", (128, 2): "0.02575 0.02577", (128, 3): "0.07941 0.07953", (128, 4): "0.2133 0.2138",
}  # fmt: skip


def read_range(text: str) -> tuple[float, float]:
    """The printed ends, each widened by one unit of its last digit."""
    ends = text.split()
    unit = 10.0 ** -len(ends[0].partition(".")[2])
    return float(ends[0]) - unit, float(ends[-1]) + unit


def name_row(row: tuple[int, int]) -> str:
    return f"{row[0]}, ε0 = {row[1]}"


def make_response_event(epsilon0: int, choices: int) -> RandomizedResponseEvent:
    odds = sum(exp_bounds(Fraction(epsilon0)), Fraction(0)) / 2
    return RandomizedResponseEvent(Fraction(round(odds / (odds + choices - 1) * (1 << 80)), 1 << 80), choices)


@pytest.mark.parametrize("row", CLONES, ids=name_row)
def test_the_clones_of_2021_are_the_published_row(row: tuple[int, int]) -> None:
    low, high = read_range(CLONES[row])
    found = shuffled_epsilon(*row, 1e-6)
    assert low <= found.lower <= found.upper <= high
    assert found.width <= 1e-6 * found.lower
    try:
        assert found.upper <= shuffle_amplification(*row, 1e-6).epsilon
    except TheoremNotApplicable:
        assert row == (10**4, 4)


@pytest.mark.parametrize("row", BINARY, ids=name_row)
def test_binary_response_is_the_published_row(row: tuple[int, int]) -> None:
    """The lower end: all others hold one of the two values, which is a neighbour that exists."""
    users, epsilon0 = row
    low, high = read_range(BINARY[row])
    found = epsilon(Shuffled(make_response_event(epsilon0, 2), users), 1e-6)
    assert low <= found.lower <= high
    assert found.upper < shuffled_epsilon(users, epsilon0, 1e-6).lower
    claimed = epsilon(Shuffled(Claim(Fraction(epsilon0), Fraction(0)), users), 1e-6)
    assert claimed.lower == pytest.approx(found.lower, rel=1e-6)


@pytest.mark.parametrize("row", BLANKET, ids=name_row)
def test_the_blanket_of_k_rr_is_the_published_row(row: tuple[int, int]) -> None:
    choices, epsilon0 = row
    low, high = read_range(BLANKET[row])
    found = pair_epsilon(Shuffled(make_response_event(epsilon0, choices), 10**4), 1e-6)
    assert low <= found.lower <= found.upper <= high
    assert found.width <= 1e-6 * found.lower


@pytest.mark.parametrize(
    ("choices", "true", "shortcut", "blanket"), [(3, 0.052222, 0.049888, 0.054843), (4, 0.033445, 0.032419, 0.036737)]
)
def test_two_counters_alone_are_refuted(choices: int, true: float, shortcut: float, blanket: float) -> None:
    """The mutant keeps the counts of x0 and x1 and forgets that other reports tell how many came from the blanket."""
    users, point = 5, 0.5
    odds = Fraction(round(exp(1) * (1 << 60)), 1 << 60)
    truth = odds / (odds + choices - 1)
    table, event = make_response(truth, choices)
    (worst,) = list_worst_deltas(table, users, [Fraction(exp(point))])
    found = pair_delta(Shuffled(event, users), point)
    assert float(worst) == pytest.approx(true, abs=1e-6)
    assert found.upper == pytest.approx(blanket, abs=1e-6)
    assert worst <= found.upper
    mutant = count_two_only(table, event, users, Fraction(exp(point)))
    assert float(mutant) == pytest.approx(shortcut, abs=1e-6)
    assert mutant < worst


def count_two_only(table: Table, event: RandomizedResponseEvent, users: int, power: Fraction) -> Fraction:
    """The blanket pair with all answers but x0 and x1 thrown away, for everyone."""
    choices = event.choices
    blanket = choices * min(table[0][:2])
    seen = [[row[0], row[1], 1 - row[0] - row[1]] for row in (table[0], table[1])]
    base = [Fraction(1, choices), Fraction(1, choices), 1 - Fraction(2, choices)]
    silent = [blanket * b for b in base[:2]]
    base_all = [*silent, 1 - sum(silent)]
    return max(pair_deltas(Fraction(1), base_all, seen[0], seen[1], users, power))


# Large n: independent sums.


def sum_directly(pair: shuffle_pairs.ShufflePair, point: float) -> float:
    """δ of a pair with two kinds of reports, by a sum over their numbers within ten standard deviations."""
    (first, second), n, blanket = pair.classes, pair.users, float(pair.blanket)
    p, q = blanket * float(first.base), blanket * float(second.base)

    def list_counts(share: float) -> Any:
        spread = 10 * sqrt(n * share) + 40
        return np.arange(max(0, int(n * share - spread)), min(n, int(n * share + spread)) + 1)

    i, j = list_counts(p)[:, None], list_counts(q)[None, :]
    logs = gammaln(n + 1) - gammaln(i + 1) - gammaln(j + 1) - gammaln(np.maximum(n - i - j, 0) + 1)
    logs = logs + i * log(p) + j * log(q) + (n - i - j) * np.log1p(-p - q)
    own, other = (i * float(first.own) + j * float(second.own)), (i * float(first.other) + j * float(second.other))
    return float(np.where(i + j <= n, np.exp(logs) * np.maximum(own - exp(point) * other, 0), 0).sum()) / (blanket * n)


@pytest.mark.parametrize(("users", "epsilon0", "point"), [(2_000, 1, 0.12), (20_000, 2, 0.1), (20_000, 3, 0.2)])
def test_a_sum_over_all_counts_is_in_the_interval(users: int, epsilon0: int, point: float) -> None:
    crowd = Shuffled(Claim(Fraction(epsilon0), Fraction(0)), users)
    exact, listed = sum_directly(build_pair(crowd), point), pair_delta(crowd, point, 1e-7)
    for low, high in (bound_delta(build_pair(crowd), point, 1e-7), (listed.lower, listed.upper)):
        assert high - low <= 1e-7 * high
        assert exact == pytest.approx(high, rel=3e-7)


@pytest.mark.parametrize("users", [10**7, 10**9])
@pytest.mark.parametrize("kind", ["clones", "unary", "4-RR"])
def test_the_integral_at_forty_digits_is_in_the_interval(users: int, kind: str) -> None:
    """E[S₊] on another line, by Gauss–Legendre in mpmath; what lies beyond 60 standard deviations is below 1e-6 of it."""
    event: Event = {
        "clones": Claim(Fraction(2), Fraction(0)),
        "unary": SetResponseEvent(THREE, Fraction(1, 4), Fraction(1, 16)),
        "4-RR": RandomizedResponseEvent(Fraction(1, 2), 4),
    }[kind]
    crowd = Shuffled(event, users)
    point = pair_epsilon(crowd, 1e-6).upper
    pair = build_pair(crowd)
    with mpmath.workdps(40):
        power, n = mpmath.exp(mpmath.mpf(point)), mpmath.mpf(users)
        values = [
            mpmath.mpf(c.own.numerator) / c.own.denominator - power * c.other.numerator / c.other.denominator
            for c in pair.classes
        ]
        masses = [mpmath.mpf((pair.blanket * c.base).numerator) / (pair.blanket * c.base).denominator for c in pair.classes]
        variance = mpmath.fsum(p * v**2 for p, v in zip(masses, values, strict=True))
        c = 4 / mpmath.sqrt(n * variance)

        def integrand(t: Any) -> Any:
            z = mpmath.mpc(c, t)
            moment = mpmath.fsum(p * mpmath.expm1(z * v) for p, v in zip(masses, values, strict=True))
            return (mpmath.exp(n * mpmath.log1p(moment)) / z**2).real

        end = 12 / mpmath.sqrt(n * variance)
        total = mpmath.quad(integrand, mpmath.linspace(0, end, 5), maxdegree=6) / pi
        blanket = mpmath.mpf(pair.blanket.numerator) / pair.blanket.denominator
        exact = float(total / (blanket * n))
    found = pair_delta(crowd, point, 1e-6)
    assert exact == pytest.approx((found.lower + found.upper) / 2, rel=3e-6)


# Properties.


def test_epsilon_falls_with_users_and_with_delta() -> None:
    for event in (Claim(Fraction(2), Fraction(0)), SetResponseEvent(THREE, Fraction(1, 4), Fraction(1, 16))):
        last = float("inf")
        for users in (1, 2, 10, 40, 200, 900, 3_000, 10**5, 10**9):
            found = pair_epsilon(Shuffled(event, users), 1e-6)
            assert found.lower <= last
            assert found.width <= 1e-6 * found.upper
            last = found.upper
        last = float("inf")
        for target in (1e-30, 1e-12, 1e-6, 1e-3):
            found = pair_epsilon(Shuffled(event, 5_000), target)
            assert found.lower <= last
            last = found.upper


@pytest.mark.parametrize("odds", [Fraction(1001, 1000), Fraction(5, 2), Fraction(1000)])
@pytest.mark.parametrize("delta", ["1e-300", "1e-30", "1e-15"])
def test_shuffling_never_costs(odds: Fraction, delta: str) -> None:
    for event in (
        RandomizedResponseEvent(odds / (odds + 1), 2),
        SetResponseEvent(odds, 1 / (odds + 1), 1 / (odds + 1) ** 2),
    ):
        for users in (1, 3, 10):
            assert epsilon(shuffle(event, users), Fraction(delta)).upper <= ceil_float(pure(event))


def test_epsilon_and_delta_invert_each_other() -> None:
    for users in (3, 300, 30_000):
        crowd = Shuffled(RandomizedResponseEvent(Fraction(2, 5), 7), users)
        found = pair_epsilon(crowd, 1e-5)
        assert pair_delta(crowd, found.upper).lower <= 1e-5 <= pair_delta(crowd, found.lower).upper


def test_extreme_parameters_have_true_answers() -> None:
    for crowd in (
        Shuffled(Claim(Fraction(40), Fraction(0)), 10**9),
        Shuffled(Claim(Fraction(1, 10**6), Fraction(0)), 10**6),
        Shuffled(SetResponseEvent(Fraction(10**12), Fraction(1, 10**6), Fraction(0)), 10**4),
        Shuffled(RandomizedResponseEvent(Fraction(1, 2), 10**6), 10**4),
    ):
        most = float(pure(crowd)) * (1 + 1e-12)
        for target in (1e-300, 1e-20, 1e-6, 0.5):
            found = pair_epsilon(crowd, target)
            assert 0 <= found.lower <= found.upper <= most
            assert found.width <= 1e-6 * found.upper
        assert epsilon(crowd, 0).upper <= most


def test_no_information_costs_nothing() -> None:
    for event in (Claim(Fraction(0), Fraction(0)), RandomizedResponseEvent(Fraction(1, 3), 3)):
        crowd = Shuffled(event, 10)
        assert epsilon(crowd, 1e-6) == Bounds(0.0, 0.0)
        assert pair_delta(crowd, 0) == Bounds(0.0, 0.0)
        assert epsilon(crowd * 3 + Claim(Fraction(1), Fraction(0)), 1e-6).upper <= 1.0000001


def test_attained_neighbours_are_below_the_pair() -> None:
    for event in (RandomizedResponseEvent(Fraction(1, 2), 4), SetResponseEvent(THREE, Fraction(1, 4), Fraction(1, 16))):
        for users in (2, 50, 4_000, 10**7):
            crowd = Shuffled(event, users)
            point = pair_epsilon(crowd, 1e-4).lower
            worst = pair_delta(crowd, point).upper
            for attained in list_attained_pairs(crowd):
                assert bound_delta(attained, point, 1e-4)[0] <= worst


# Among other events.


def test_the_losses_that_stand_for_a_shuffled_event_dominate_its_pair() -> None:
    for crowd in (
        Shuffled(Claim(Fraction(2), Fraction(0)), 20_000),
        Shuffled(SetResponseEvent(THREE, Fraction(1, 4), Fraction(1, 16)), 10**8),
        Shuffled(RandomizedResponseEvent(Fraction(3, 4), 2), 40),
    ):
        pair = build_pair(crowd)
        pld, log_mass = build_dominating_pld(pair)
        curve = DiscreteCurve(pld)
        for target in (1e-3, 1e-6, 1e-12):
            point = pair_epsilon(crowd, target).lower
            exact, found = pair_delta(crowd, point), curve.bound_delta(point)[1] - np.expm1(log_mass)
            assert exact.lower <= found <= 1.03 * exact.upper


def test_a_composition_is_above_its_enumeration_and_near_it() -> None:
    """Two shuffled crowds about the same people: the product of the pairs, by enumeration."""
    event, users = RandomizedResponseEvent(Fraction(3, 4), 2), 4
    pld, omitted = list_outcomes(build_pair(Shuffled(event, users))) or (None, 0.0)
    assert pld is not None
    assert omitted == 0
    loss, mass = np.add.outer(pld.loss, pld.loss), np.exp(np.add.outer(pld.log_mass, pld.log_mass))
    for point in (0.2, 0.7):
        exact = float((mass * -np.expm1(np.minimum(0, point - loss))).sum())
        found = delta(Shuffled(event, users) * 2, point)
        assert exact * (1 - 1e-9) <= found.upper <= exact * (1 + 1e-6)


def test_a_long_composition_costs_far_less_than_pure_epsilon() -> None:
    crowd = Shuffled(RandomizedResponseEvent(Fraction(3, 4), 2), 10**5)
    one, many = epsilon(crowd, 1e-8).upper, epsilon(crowd * 100, 1e-6).upper
    assert 5 * one < many < 13 * one
    mixed = epsilon(crowd * 10 + Claim(Fraction(1, 10), Fraction(0)), 1e-6)
    assert mixed.upper < 10 * one + 0.1
    assert epsilon(crowd * 10, 0).upper <= float(pure(crowd * 10)) * (1 + 1e-9)


def test_every_notion_has_a_bound_by_the_local_epsilon_at_least() -> None:
    crowd = Shuffled(Claim(Fraction(1), Fraction(0)), 10**4)
    assert compare_guarantees(crowd, 1e-6) == compare_guarantees(Claim(Fraction(1), Fraction(0)), 1e-6)
    assert epsilon(Group(crowd, 2), 1e-6).upper <= 2
    share = SampledWithoutReplacement(crowd, Fraction(1, 10))
    assert epsilon(share, 1e-6).upper < 0.2 * epsilon(crowd, 1e-6).upper
    assert epsilon(Parallel((crowd, Claim(Fraction(1, 100), Fraction(0)))), 1e-6).upper == epsilon(crowd, 1e-6).upper


def test_a_poisson_sample_beside_a_shuffled_event_is_for_neighbours_that_replace() -> None:
    noise, rate = LaplaceEvent(Fraction(1), to_sensitivity(1)), Fraction(1, 10)
    crowd = Shuffled(Claim(Fraction(1), Fraction(0)), 10**6)
    (choice,) = list_alternatives(crowd + subsample(noise, rate))
    twice = LaplaceEvent(Fraction(1), to_sensitivity(2))  # the unit that is removed and the one that is added
    assert choice == crowd + SampledWithoutReplacement(twice, rate)


# Refusals.

ONE = to_sensitivity(1)
UNBOUNDED: dict[str, Event] = {
    "gaussian": GaussianEvent(Fraction(1), ONE),
    "discrete gaussian": DiscreteGaussianEvent(Fraction(1), ONE),
    "binomial": BinomialEvent(100, ONE),
    "threshold": ThresholdEvent(Fraction(1), 20, 1),
    "selection": OptimalPartitionSelectionEvent(Fraction(1), Fraction(1, 10**6), 1),
    "claim with δ": Claim(Fraction(1), Fraction(1, 10**6)),
    "laplace in l2": LaplaceEvent(Fraction(1), Sensitivity(l2=1)),
    "truth": RandomizedResponseEvent(Fraction(1), 2),
    "sampled gaussian": Subsampled(GaussianEvent(Fraction(1), ONE), Fraction(1, 10)),
    "composition": Composition(((Claim(Fraction(1), Fraction(0)), 1), (GaussianEvent(Fraction(1), ONE), 1))),
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_what_has_no_pure_epsilon_is_not_shuffled(name: str) -> None:
    with pytest.raises(BadParameter, match="finite ε and no δ"):
        Shuffled(UNBOUNDED[name], 100)


@pytest.mark.parametrize("name", EVERY)
def test_an_event_is_known_to_have_a_pure_epsilon_exactly_if_it_has_one(name: str) -> None:
    assert has_pure_epsilon(EVERY[name]) == (pure(EVERY[name]) < float("inf"))


def test_pure_samples_may_be_shuffled() -> None:
    inner = Subsampled(Claim(Fraction(2), Fraction(0)), Fraction(1, 2))
    assert pair_epsilon(Shuffled(inner, 1000), 1e-6).upper < pair_epsilon(Shuffled(inner.event, 1000), 1e-6).upper


def test_adding_or_removing_users_is_refused() -> None:
    crowd = shuffle(Claim(Fraction(1), Fraction(0)), 100)
    for event in (crowd, crowd * 3, Parallel((crowd,)), Group(crowd, 2)):
        with pytest.raises(BadParameter, match="neighbours replace one"):
            Subsampled(event, Fraction(1, 2))
    with pytest.raises(BadParameter, match="shuffled already"):
        Shuffled(crowd, 10)
    for users in (0, -1):
        with pytest.raises(BadParameter):
            Shuffled(Claim(Fraction(1), Fraction(0)), users)


def test_wrong_arguments_are_named() -> None:
    for arguments, name in (
        ((0, 1, 1e-6), "n is"),
        ((10, 0, 1e-6), "epsilon0 is"),
        ((10, 1, 0), "delta is"),
        ((10, 1, 2), "delta is"),
    ):
        with pytest.raises(BadParameter, match=name):
            shuffled_epsilon(*arguments)
    with pytest.raises(BadParameter, match="not shuffled"):
        pair_epsilon(Claim(Fraction(1), Fraction(0)), 1e-6)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="rtol"):
        shuffled_epsilon(10, 1, 1e-6, rtol=0)
    with pytest.raises(BadParameter, match="negative"):
        pair_delta(Shuffled(Claim(Fraction(1), Fraction(0)), 10), -1)


# Mutants of the computation: each is caught by a comparison above.


def test_a_smoothing_that_is_not_taken_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Shuffled(Claim(Fraction(1), Fraction(0)), 2_000)
    exact = sum_directly(build_pair(crowd), 0.12)
    original = shuffle_pairs._integrate

    def mutant(total: Any, c: float, deviation: float, excess: float, accuracy: float) -> tuple[float, float]:
        _, high = original(total, c, deviation, 1e-2, accuracy)
        return high * (1 - 1e-9), high

    monkeypatch.setattr(shuffle_pairs, "_integrate", mutant)
    low, _ = bound_delta(build_pair(crowd), 0.12, 1e-6)
    assert low > exact * (1 + 1e-4)


@pytest.mark.parametrize("users", [1, 10, 10**6, 10**9])
@pytest.mark.parametrize("epsilon0", [1, 50, 690, 700, 750, 800, 5000])
@pytest.mark.parametrize("target", [1e-320, 1e-6, 0.5, 1 - 1e-9])
def test_shuffling_never_costs_and_every_claim_has_an_answer(users: int, epsilon0: int, target: float) -> None:
    """Also where e^{-ε0} is no double; at such an ε0 the pair is that of one person alone, but for δ."""
    found = shuffled_epsilon(users, epsilon0, target)
    assert 0 <= found.lower <= found.upper <= epsilon0
    if epsilon0 >= 690:
        alone = epsilon0 + log(1 - target)
        assert found.lower <= alone * (1 + 1e-9)
        assert found.upper >= alone * (1 - 1e-9)
        event = shuffle(Claim(Fraction(epsilon0), Fraction(0)), users)
        bounds = epsilon(event, target)
        assert bounds.lower <= found.upper
        assert pair_delta(event, epsilon0 - 1).upper == pytest.approx(1 - exp(-1))


def test_neighbours_of_hundreds_of_epsilon_are_below_the_pair() -> None:
    """All others hold the other value: the exact δ of ten people, by rationals."""
    for users in (2, 10):
        odds = Fraction(10) ** 400
        for pair in shuffle_pairs.build_attained_pairs(odds, 1 / (odds + 1), users):
            assert pair.is_bare
            for point in (0, 1, 300, 700, 900):
                bounds = shuffle_pairs.bound_delta(pair, float(point), 1e-6)
                assert bounds[0] <= _enumerate_bare(pair, point) <= bounds[1]


def _enumerate_bare(pair: Any, point: int) -> float:
    """E[S₊]/n over all counts of two classes."""
    from math import comb

    one, two = pair.classes
    power, total = exp_bounds(Fraction(point))[0], Fraction(0)
    for k in range(pair.users + 1):
        mass = comb(pair.users, k) * one.base**k * two.base ** (pair.users - k)
        sum_ = k * (one.own - power * one.other) + (pair.users - k) * (two.own - power * two.other)
        total += mass * max(sum_, Fraction(0))
    return float(total / pair.users)
