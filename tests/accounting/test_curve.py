"""The certified curve: reference values, properties that hold for every kind of event, and the edges, where parameters are
far from any that noise has.
"""

from fractions import Fraction
from itertools import pairwise
from math import exp, inf, log, sqrt
from random import Random

import mpmath
import pytest

from discreet._numbers import Bounds
from discreet.accounting import curve
from discreet.accounting.compare import compare_guarantees
from discreet.accounting.contour import bound_epsilon_by_contour
from discreet.accounting.curve import bound_dominating_delta, bound_dominating_epsilon, delta, epsilon
from discreet.accounting.dominating_pairs import build_direction
from discreet.accounting.gdp import gdp
from discreet.accounting.pld.gaussian import gaussian_epsilon
from discreet.accounting.pure import pure
from discreet.accounting.rewrite import list_alternatives
from discreet.accounting.risk import advantage
from discreet.accounting.zcdp import zcdp
from discreet.errors import BadParameter
from discreet.events import (
    NO_EVENT,
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    Group,
    LaplaceEvent,
    Memoised,
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
    compose,
    contains_shuffled,
    repeat,
    shuffle,
)
from discreet.units import Sensitivity, to_sensitivity
from tests.support.every_event import EVERY
from tests.support.example_events import HALF, PLAIN, THREE, ZOO
from tests.support.rounds import at_night

ONE = to_sensitivity(1)


def gaussian(sigma: float | Fraction) -> GaussianEvent:
    return GaussianEvent(Fraction(sigma), ONE)


def laplace(scale: float) -> LaplaceEvent:
    return LaplaceEvent(Fraction(scale), ONE)


def response(eps: Fraction) -> Claim:
    return Claim(eps, Fraction(0))


SAMPLED = Subsampled(gaussian(1), Fraction(1, 100)) * 10**4

CASES: list[tuple[Event, float, float, float]] = [
    (gaussian(1000) * 10**4, 1e-6, 0.3968573776440836, 0.3968573776440836),
    (gaussian(200) * 100, 1e-5, 0.16004203445813212, 0.16004203445813212),
    (gaussian(200) * 500, 1e-5, 0.3846923540510616, 0.3846923540510616),
    (response(Fraction(1, 20)) * 1000, 1e-6, 8.283573346016258, 8.283573346016258),
    (response(Fraction(1)) * 500, 1e-5, 311.767604639710743, 311.767604639710743),
    (laplace(sqrt(30)) * 30, 1e-6, 4.362985902887, 4.362985903197),
    (laplace(sqrt(1000)) * 1000, 1e-6, 4.847031694251, 4.847031699670),
    (SAMPLED, 1e-5, 6.187712385, 6.187712395),
]


@pytest.mark.parametrize(("event", "at", "low", "high"), CASES)
def test_reference_values_are_inside_narrow_intervals(event: Event, at: float, low: float, high: float) -> None:
    found = epsilon(event, at)
    assert found.lower <= high
    assert found.upper >= low
    assert found.width <= 1e-6 * found.upper


def test_the_direction_in_which_a_sampled_unit_is_added_costs_less() -> None:
    (choice,) = list_alternatives(SAMPLED)
    low, high = bound_epsilon_by_contour(build_direction(choice, removed=False).parts, 1e-5, 1e-6, (0.0, 0.0))
    assert low <= 5.611508625
    assert high >= 5.611508615
    assert high - low <= 1e-6 * high


@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-8])
def test_the_tolerance_is_met_for_epsilon_and_for_delta(rtol: float) -> None:
    event = laplace(10) * 200 + gaussian(20)
    by_epsilon = epsilon(event, 1e-9, rtol)
    assert by_epsilon.width <= rtol * by_epsilon.upper
    by_delta = delta(event, by_epsilon.upper, rtol)
    assert by_delta.width <= rtol * by_delta.upper
    assert by_delta.lower <= 1e-9


@pytest.mark.parametrize("at", [1e-300, 1e-100, 1e-15, 1e-3, 0.5])
@pytest.mark.parametrize("event", [laplace(sqrt(30)) * 30, SAMPLED, laplace(1) + response(Fraction(1, 3)) * 40])
def test_no_delta_is_too_small(event: Event, at: float) -> None:
    found = epsilon(event, at)
    assert found.upper < inf
    if event is SAMPLED and at == 1e-100:  # K is too dear so far out: Chernoff's bound, and some ε below it
        assert found.width <= 0.05 * found.upper
    else:
        assert found.width <= 1e-5 * found.upper


def test_infinity_where_it_is_the_truth_and_zero_where_nothing_happened() -> None:
    assert epsilon(gaussian(1), 0).lower == inf
    assert epsilon(Claim(Fraction(1), Fraction(1, 100)), 0.001).lower == inf
    assert epsilon(NO_EVENT, 0).upper == 0
    assert delta(NO_EVENT, 0).upper == 0
    assert epsilon(gaussian(1) * 0, 1e-6).upper == 0
    assert 0.1 in epsilon(laplace(10), 0)
    assert epsilon(compose(laplace(10), gaussian(5)), 1).upper == 0


@pytest.mark.parametrize("bad", [-1, float("nan"), "1", True])
def test_bad_input_is_refused(bad: object) -> None:
    with pytest.raises(BadParameter):
        delta(laplace(1), bad)  # type: ignore[arg-type]
    with pytest.raises(BadParameter):
        epsilon(laplace(1), bad)  # type: ignore[arg-type]


def test_one_laplace_is_its_own_formula() -> None:
    found = delta(laplace(1), 0.5)  # δ(ε) = 1 − e^{(ε − ε₀)/2} for one Laplace
    assert found.lower <= -(2.718281828459045 ** (-0.25)) + 1 <= found.upper
    assert abs(log(1 - found.upper) + 0.25) < 1e-5


def test_huge_counts_are_answered() -> None:
    found = epsilon(laplace(10**6) * 10**6, 1e-6)
    assert found.width <= 1e-5 * found.upper
    assert epsilon(laplace(10) * 10**18, 1e-6).upper <= 10**18 / 10 * 1.000001


def test_what_is_not_known_is_infinite() -> None:
    beyond = epsilon(laplace(10) * 10**30, 1e-6)
    assert (beyond.lower, beyond.upper) == (0.0, inf)
    only_l2 = epsilon(LaplaceEvent(Fraction(1), Sensitivity(l2=1)), 1e-6)  # in any number of coordinates
    assert only_l2.lower <= epsilon(laplace(1), 1e-6).upper  # in one
    assert only_l2.upper >= gaussian_epsilon(1, 1e-6).lower  # in n, each by 1/√n: the Gaussian limit
    cut = Subsampled(DiscreteGaussianEvent(Fraction(1), ONE), Fraction(1, 2))
    assert epsilon(cut, 0).upper == inf
    short = epsilon(DiscreteGaussianEvent(Fraction(9), Sensitivity(l2=Fraction(1, 2))), 1e-6)
    assert 0 <= short.lower <= short.upper < 1


def test_a_claim_that_guarantees_next_to_nothing() -> None:
    weak = Claim(Fraction(1), 1 - Fraction(1, 10**12))
    assert delta(weak, 0).upper == pytest.approx(1)
    assert delta(weak, 2).lower <= 1 - 1e-12 <= delta(weak, 2).upper


every = pytest.mark.parametrize("name", ZOO)


def ordered(first: Bounds, second: Bounds) -> bool:
    """Whether first ≤ second is possible, given what is known."""
    return first.lower <= second.upper * (1 + 1e-12)


@every
def test_delta_falls_and_is_convex_in_the_exponential_of_epsilon(name: str) -> None:
    at = [0.0, 0.1, 0.3, 0.7, 1.1, 2.0]
    found = [delta(ZOO[name], eps, 1e-4) for eps in at]
    assert all(0 <= one.lower <= one.upper <= 1 for one in found)
    assert all(ordered(after, before) for before, after in pairwise(found))
    for i in range(len(at) - 2):
        x, y, z = (exp(eps) for eps in at[i : i + 3])
        chord = found[i].upper * (z - y) / (z - x) + found[i + 2].upper * (y - x) / (z - x)
        assert found[i + 1].lower <= chord * (1 + 1e-9) + 1e-300


@every
def test_epsilon_and_delta_are_inverse_to_each_other(name: str) -> None:
    there = epsilon(ZOO[name], 1e-3, 1e-5)
    if there.upper < inf:
        assert delta(ZOO[name], there.upper, 1e-5).lower <= 1e-3
    if there.lower > 0:
        assert delta(ZOO[name], there.lower * (1 - 1e-9), 1e-5).upper >= 1e-3 * (1 - 1e-9)


@every
def test_composition_is_never_cheaper_than_a_part(name: str) -> None:
    more = compose(ZOO[name], PLAIN["laplace"])
    assert ordered(epsilon(ZOO[name], 1e-4, 1e-4), epsilon(more, 1e-4, 1e-4))


@every
def test_k_times_is_composed_k_times(name: str) -> None:
    thrice, composed = epsilon(ZOO[name] * 3, 1e-4, 1e-4), epsilon(compose(*[ZOO[name]] * 3), 1e-4, 1e-4)
    assert ordered(thrice, composed)
    assert ordered(composed, thrice)
    assert epsilon(ZOO[name] * 0, 0).upper == 0


@every
def test_a_group_of_one_is_the_event_and_larger_groups_cost_more(name: str) -> None:
    alone = epsilon(ZOO[name], 1e-3, 1e-4)
    assert epsilon(Group(ZOO[name], 1), 1e-3, 1e-4) == alone
    assert ordered(alone, epsilon(Group(ZOO[name], 2), 1e-3, 1e-4))


@every
def test_a_sample_at_rate_one_is_the_event_and_at_rate_zero_is_free(name: str) -> None:
    whole = epsilon(ZOO[name], 1e-3, 1e-4)
    assert epsilon(Subsampled(ZOO[name], Fraction(1)), 1e-3, 1e-4) == whole
    assert epsilon(Subsampled(ZOO[name], Fraction(0)), 0) == epsilon(NO_EVENT, 0)
    assert ordered(epsilon(Subsampled(ZOO[name], HALF), 1e-3, 1e-4), whole)


ALL = {**ZOO, **EVERY}


@pytest.mark.parametrize(
    ("name", "times"),
    [*((name, 20) for name in ALL), *(at_night(name, 1) if place % 3 else (name, 1) for place, name in enumerate(ALL))],
)
def test_no_guarantee_is_below_the_certified_lower_end(name: str, times: int) -> None:
    event = ALL[name] * times
    certified = epsilon(event, 1e-4, 1e-4)
    for name_of_bound, value in compare_guarantees(event, 1e-4).items():
        assert value >= certified.lower * (1 - 1e-12), name_of_bound
    if pure(event) < inf:
        assert delta(event, min(700.0, float(pure(event)) * (1 + 1e-12)), 1e-4).lower == 0


def test_the_curve_of_a_choice_of_bounded_range() -> None:
    """Once it is (1 − e^{(x−ε)/2})²/(1 − e^-ε); many times, no dearer than (ε²/8)-zCDP nor than randomised response."""
    once = ExponentialEvent(Fraction(1))
    for x in (0.0, 0.25, 0.9):
        exact = (1 - exp((x - 1) / 2)) ** 2 / (1 - exp(-1))
        found = delta(once, x)
        assert found.lower <= exact * (1 + 1e-12)
        assert found.upper >= exact * (1 - 1e-12)
        assert found.width <= 2e-6 * exact
    assert epsilon(once * 20, 1e-6).upper <= compare_guarantees(once * 20, 1e-6)["zCDP"] * (1 + 1e-5)
    assert epsilon(once * 2, 1e-6).upper < epsilon(PermuteAndFlipEvent(Fraction(1)) * 2, 1e-6).lower


def test_many_branches_cost_no_more_than_the_worst_one_each_time() -> None:
    runs = Parallel((PLAIN["response"], PLAIN["laplace"], PLAIN["choices"])) * 30
    found = epsilon(runs, 1e-5)
    assert found.lower >= epsilon(PLAIN["response"] * 30, 1e-5).lower * (1 - 1e-5)
    assert found.upper <= compare_guarantees(runs, 1e-5)["RDP, best order"] * (1 + 1e-3)


def test_truncation_never_costs_more() -> None:
    for moved in (ONE, THREE):
        free = DiscreteLaplaceEvent(Fraction(3), moved)
        cut = TruncatedGeometricEvent(Fraction(3), 0, 5, moved)
        assert ordered(epsilon(cut * 5, 1e-6), epsilon(free * 5, 1e-6))


def test_parallel_is_the_worst_branch_and_not_the_sum() -> None:
    branches = PLAIN["laplace"], PLAIN["gaussian"], PLAIN["choices"]
    together = delta(Parallel(branches), 0.2)
    alone = [delta(branch, 0.2) for branch in branches]
    assert together == Bounds(max(one.lower for one in alone), max(one.upper for one in alone))
    assert epsilon(Parallel((PLAIN["laplace"],) * 8), 1e-6) == epsilon(PLAIN["laplace"], 1e-6)


def test_a_threshold_costs_its_chance_to_show_a_single_unit() -> None:
    event = ThresholdEvent(Fraction(2), 30, 3)
    a = exp(-0.5)
    p = a**29 / (1 + a)
    assert 1 - (1 - p) ** 3 in Bounds(*(x * s for x, s in zip(_ends(delta(event, inf)), (1 - 1e-9, 1 + 1e-9), strict=True)))
    assert epsilon(event, p).lower == inf


def _ends(bounds: Bounds) -> tuple[float, float]:
    return bounds.lower, bounds.upper


def test_a_sample_keeps_what_is_at_infinity() -> None:
    hopeless = RandomizedResponseEvent(Fraction(1), 2)
    for inner in (PLAIN["laplace"], PLAIN["gaussian"], PLAIN["response"]):
        assert delta(Subsampled(compose(inner, hopeless), HALF), 5).upper >= 0.5
    claims = Subsampled(compose(PLAIN["narrow discrete gaussian"], PLAIN["claim"]), HALF)
    assert delta(claims, inf).lower <= 5e-7 <= delta(claims, inf).upper


WIDE = Sensitivity(l0=10**400, linf=1)


def test_a_claim_at_its_own_delta_costs_its_epsilon() -> None:
    claim = Claim(Fraction(1), Fraction(1e-6))
    found = epsilon(claim, 1e-6)
    assert 1 in found
    assert found.width < 1e-12
    assert epsilon(claim, Fraction(1e-6) - Fraction(1, 10**40)).lower == inf
    above = epsilon(claim, Fraction(1e-6) + Fraction(1, 10**25))
    assert 0.999 < above.lower <= above.upper <= found.upper


@pytest.mark.parametrize("chosen", [ExponentialEvent(HALF), PermuteAndFlipEvent(HALF)], ids=repr)
@pytest.mark.parametrize("others", [(), (LaplaceEvent(Fraction(2), ONE),)], ids=len)
def test_claims_at_their_own_delta_beside_choices_cost_the_sum(chosen: Event, others: tuple[Event, ...]) -> None:
    """Both are known from above only. Mutant: a δ that is less by a part in 10³⁰ still has no ε."""
    for small in (Fraction(1, 10**6), Fraction(1, 3), Fraction(1, 7) ** 9):
        event = compose(Claim(Fraction(1), small), Claim(HALF, small), repeat(chosen, 3), *others)
        total = 1 - (1 - small) ** 2
        found = epsilon(event, total)
        sum_of_all = 3.0 + 0.5 * len(others)
        assert 0.7 * sum_of_all < found.lower <= found.upper <= sum_of_all * (1 + 1e-12)
        assert epsilon(event, total * (1 - Fraction(1, 10**30))).upper == inf


LOUD = (ExponentialEvent(Fraction(1)), laplace(1), DiscreteLaplaceEvent(Fraction(1), ONE))


@pytest.mark.parametrize("sample", [Subsampled, SampledWithoutReplacement])
@pytest.mark.parametrize("inner", LOUD, ids=repr)
def test_claims_at_their_own_delta_beside_samples_cost_the_sum(sample: type, inner: Event) -> None:
    """What is sampled has no mass at infinity. Mutant: a δ that is less by a part in 10³⁰ still has no ε."""
    small = Fraction(1, 10**6)
    for times, total in ((1, small), (2, 1 - (1 - small) ** 2)):
        event = compose(repeat(sample(inner, HALF), 3), repeat(Claim(HALF, small), times))
        found, above = epsilon(event, total), epsilon(event, total * (1 + Fraction(1, 10**8)))
        assert above.lower <= found.upper <= (3 * log((1 + exp(1)) / 2) + times / 2) * (1 + 1e-9)
        assert epsilon(event, total * (1 - Fraction(1, 10**30))).upper == inf
    assert epsilon(compose(sample(gaussian(1), HALF), Claim(HALF, small)), small).upper == inf


@pytest.mark.parametrize("sigma", [1000, 10**5])
@pytest.mark.parametrize("times", [2, 64, 100])
@pytest.mark.parametrize("rate", [HALF, Fraction(1, 200)])
def test_sampling_never_costs(sigma: int, times: int, rate: Fraction) -> None:
    """Nearly no loss at all: the contour of rounds without replacement says nothing there."""
    inner = GaussianEvent(Fraction(sigma), Sensitivity(l2=1))
    rounds, everyone = (repeat(event, times) for event in (SampledWithoutReplacement(inner, rate), inner))
    found, most = epsilon(rounds, 1e-6), epsilon(everyone, 1e-6)
    assert found.lower <= found.upper <= most.upper < 0.04
    assert delta(rounds, HALF).upper <= delta(everyone, HALF).upper < 1e-300
    # A unit that is replaced leaves one branch and enters another, whether or not the rounds are taken for sampled.
    beside = compose(rounds, Parallel((laplace(10), laplace(10))))
    assert epsilon(laplace(10) * 2, 1e-6).lower <= epsilon(beside, 1e-6).upper < 0.5
    assert delta(beside, 0).upper >= delta(laplace(10) * 2, 0).lower


def test_two_claims_at_their_exact_total_cost_the_sum() -> None:
    two = 2 * Claim(Fraction(1), Fraction(1, 1000)) + Claim(Fraction(3), Fraction(0))
    found = epsilon(two, 1 - Fraction(999, 1000) ** 2)
    assert 5 in found
    assert found.width < 1e-10


@pytest.mark.parametrize("times", [10**19, 10**400])
def test_more_runs_than_a_double_counts_are_never_free(times: int) -> None:
    assert epsilon(LaplaceEvent(Fraction(1), ONE) * times, 1e-6).upper == inf
    assert epsilon(LaplaceEvent(Fraction(1), ONE) * times + Claim(Fraction(1), Fraction(1e-6)), 1e-6).upper == inf


@pytest.mark.parametrize("times", [5000, 10000, 10**8])
def test_many_gaussians_with_little_noise(times: int) -> None:
    found, truth = epsilon(gaussian(1) * times, 1e-6), gaussian_epsilon(Fraction(times**0.5), 1e-6)
    assert found.lower <= truth.upper * (1 + 1e-12)
    assert found.upper >= truth.lower * (1 - 1e-12)
    assert found.width <= 1e-9 * found.upper


@pytest.mark.parametrize("exponent", [300, 301, 305])
@pytest.mark.parametrize("sigma", [Fraction(1, 10), Fraction(1), Fraction(30)])
def test_gaussians_at_a_delta_near_the_smallest_double(sigma: Fraction, exponent: int) -> None:
    found = epsilon(gaussian(sigma), Fraction(1, 10**exponent))
    truth = oracle_epsilon(1 / sigma, Fraction(1, 10**exponent))
    assert found.lower <= truth <= found.upper <= found.lower * (1 + 1e-4)


def oracle_epsilon(mu: Fraction, target: Fraction) -> float:
    """The ε of δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), by bisection with 40 digits."""
    mpf, ncdf = mpmath.mpf, mpmath.ncdf
    m, goal, low, high = mpf(mu.numerator) / mu.denominator, mpf(target.numerator) / target.denominator, mpf(0), mpf(10**6)
    for _ in range(120):
        eps = (low + high) / 2
        is_below = ncdf(m / 2 - eps / m) - mpmath.exp(eps) * ncdf(-m / 2 - eps / m) > goal
        low, high = (eps, high) if is_below else (low, eps)
    return float(low)


@pytest.mark.parametrize(
    ("event", "eps", "at_one"),
    [
        (Subsampled(gaussian(Fraction(1, 1000)), Fraction(1, 10)) * 3, 1000, 0.271),
        (Subsampled(gaussian(1), Fraction(1, 10**400)), 0, 0),
        (Subsampled(gaussian(1), Fraction(1, 10**400)) * 3, 0, 0),
        (OptimalPartitionSelectionEvent(Fraction(1), Fraction(1, 10**6), 10**400), inf, 1),
        (LaplaceEvent(Fraction(1), WIDE), inf, 1),
        (RandomizedResponseEvent(Fraction(1), 2), inf, 1),
        (RandomizedResponseEvent(Fraction(0), 2), inf, 1),
        (RandomizedResponseEvent(Fraction(0), 3), inf, 0.5),  # an answer that one of the two inputs never gives has mass 1/2
    ],
)
def test_what_doubles_cannot_hold_is_answered_soundly(event: Event, eps: float, at_one: float) -> None:
    found = epsilon(event, 1e-6)
    assert found.upper >= eps >= found.lower
    assert at_one in delta(event, 1)


def test_very_many_coins_agree_with_many_and_with_the_gaussian_limit() -> None:
    exact = epsilon(BinomialEvent(10**7, to_sensitivity(100)), 1e-6)
    shared = epsilon(BinomialEvent(10**7 + 1, to_sensitivity(100)), 1e-6)
    assert shared.lower < exact.lower <= exact.upper < shared.upper
    assert shared.width < 0.01 * shared.upper
    limit = gaussian_epsilon(2 * Fraction(10**9) ** -1 * Fraction(31622776, 1000), 1e-6)
    found = epsilon(BinomialEvent(10**9, ONE), 1e-6)
    assert 0.99 * limit.lower < found.upper < 1.02 * limit.upper


@pytest.mark.parametrize(("n", "shift"), [(10**8, 10**5), (10**18, 1), (10**18, 10**17)])
def test_no_number_of_coins_hangs(n: int, shift: int) -> None:
    found = epsilon(BinomialEvent(n, to_sensitivity(shift)), 1e-6)
    assert found.lower <= found.upper
    if n == 10**8:  # sigma is 5000: μ is 20, where the Gaussian's ε is about 293
        assert 290 < found.lower < found.upper < 300


@pytest.mark.parametrize(("times", "rate"), [(1, Fraction(1, 10)), (10, Fraction(1, 10)), (100, Fraction(1, 100))])
def test_the_curve_of_the_stated_pair_is_bounded_from_both_sides(times: int, rate: Fraction) -> None:
    """It is what the upper end comes from; mutant: the pair of one round fewer."""
    event = repeat(SampledWithoutReplacement(GaussianEvent(Fraction(1), ONE), rate), times)
    pair, whole = bound_dominating_epsilon(event, 1e-6), epsilon(event, 1e-6)
    assert pair is not None
    assert pair.lower <= whole.upper
    assert pair.upper <= pair.lower * (1 + 2e-6)
    assert whole.upper <= pair.lower * (1 + 2e-3)  # the upper end is computed roughly where the lower one is far below
    at = bound_dominating_delta(event, Fraction(pair.lower), 1e-4)
    assert at is not None
    assert at.upper >= 1e-6 * (1 - 1e-3)
    if times > 1:
        fewer = bound_dominating_epsilon(repeat(event.parts[0][0], times - 1), 1e-6)
        assert fewer is not None
        assert fewer.upper < pair.lower


@pytest.mark.parametrize(("times", "rate"), [(4, Fraction(1, 10)), (10, Fraction(1, 20))])
def test_rounds_of_much_noise_on_shares_have_an_epsilon(times: int, rate: Fraction) -> None:
    """The contour's K stood twice in its table, once as ∞, and [0, ∞] was the answer."""
    found = epsilon(repeat(SampledWithoutReplacement(GaussianEvent(Fraction(30), ONE), rate), times), 1e-10)
    assert 0.9 * found.upper < found.lower
    assert found.upper <= epsilon(repeat(GaussianEvent(Fraction(30), ONE), times), 1e-10).upper


def test_no_pair_is_stated_where_moments_are_all_that_is_known() -> None:
    unlike = repeat(Parallel((LaplaceEvent(Fraction(1), ONE), ExponentialEvent(Fraction(1)))), 2)
    claim = Claim(Fraction(1), Fraction(1, 100))
    found = bound_dominating_delta(claim, 1)
    assert found is not None
    assert 0.01 in found
    wide = DiscreteGaussianEvent(Fraction(10), Sensitivity(l2_squared=Fraction(19, 2)))
    assert bound_dominating_epsilon(2 * wide, 1e-6) is None
    assert bound_dominating_epsilon(unlike, 1e-6) is not None


ANSWER = RandomizedResponseEvent(Fraction(3, 4), 2)
LEAVES: tuple[Event, ...] = (
    laplace(1),
    gaussian(1),
    ANSWER,
    ExponentialEvent(Fraction(1)),
    PermuteAndFlipEvent(Fraction(1)),
    Claim(HALF, Fraction(1, 1000)),
    ThresholdEvent(Fraction(1), 5, 1),
    OptimalPartitionSelectionEvent(Fraction(1), Fraction(1, 100), 2),
    DiscreteLaplaceEvent(Fraction(1), to_sensitivity(2)),
    TruncatedGeometricEvent(Fraction(1), 0, 5, ONE),
    Memoised(ANSWER, ANSWER, RandomizedResponseEvent(Fraction(9, 10), 2), 3, 2),
)


def draw_nested(random: Random, depth: int) -> Event:
    """An event in `depth` wrappings of any kind."""
    if depth == 0:
        return shuffle(ANSWER, 20) if random.random() < 0.05 else random.choice(LEAVES)
    inner, rate = draw_nested(random, depth - 1), Fraction(1, random.choice([1, 2, 3, 50]))
    # A Poisson sample of reports whose number is public is refused.
    match random.randrange(4 if contains_shuffled(inner) else 6):
        case 0:
            return Group(inner, random.choice([1, 2, 3]), replaced=False)
        case 1:
            return Parallel((inner, draw_nested(random, random.randrange(depth))))
        case 2:
            return compose(inner, draw_nested(random, random.randrange(depth)))
        case 3:
            return SampledWithoutReplacement(inner, rate)
        case 4:
            return Subsampled(inner, rate)
        case _:
            return Group(Subsampled(inner, rate), 2, replaced=True)


@pytest.mark.parametrize("block", [*range(4), *(at_night(block) for block in range(4, 40))])
def test_no_nesting_is_too_much(block: int) -> None:
    """Of any event, and of a few rounds of a sample of it, there is an interval."""
    for seed in range(block * 10, block * 10 + 10):
        random = Random(seed)
        inner = draw_nested(random, random.randint(1, 3))
        for event in (inner, compose(inner, laplace(2)), repeat(SampledWithoutReplacement(inner, Fraction(1, 3)), 3)):
            for found in (delta(event, HALF, 1e-3), epsilon(event, 1e-3, 1e-3), advantage(event, 1e-3)):
                assert 0 <= found.lower <= found.upper, (seed, event)


@pytest.mark.parametrize("target", [1e-6, 1e-100, 1e-300])
def test_a_chain_of_neighbours_without_any_loss_is_tried_a_few_times(target: float, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, of_chain = list[Fraction](), curve._delta_of_chain
    monkeypatch.setattr(curve, "_delta_of_chain", lambda event, at: (tried.append(at), of_chain(event, at))[1])
    event = Group(Subsampled(RandomizedResponseEvent(Fraction(1, 2), 2), Fraction(1, 7)), 3)
    assert epsilon(event, target).upper < 1e-8
    assert len(tried) < 50


def test_a_large_group_is_a_chain_in_closed_form() -> None:
    """δ·(1 + e^{ε/K} + …) of K neighbours is no sum over K; a step of it is what one neighbour costs."""
    found = curve._delta_of_chain(Group(Claim(Fraction(1), Fraction(1, 10**300)), 10**6), Fraction(10**6))
    assert found == 1.0
    one = curve._delta_of_chain(Group(Claim(Fraction(1), Fraction(1, 10**9)), 3), Fraction(3))
    assert one == pytest.approx(1e-9 * (1 + exp(1) + exp(2)), rel=1e-12)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_threshold_that_shows_almost_every_key_has_delta_1(groups: int) -> None:
    """The chance of a key of one unit is rounded up, to no more than 1."""
    threshold = ThresholdEvent(Fraction(1, 100), 1, groups)
    for event in (threshold, Group(threshold, 2), compose(threshold, GaussianEvent(Fraction(9), to_sensitivity(1)))):
        assert (epsilon(event, 1).upper, epsilon(event, Fraction(1, 2)).upper) == (0, inf)
        assert delta(event, 3).upper == 1


def test_a_cost_above_the_largest_double_beside_an_infinite_one_is_infinite() -> None:
    huge = GaussianEvent(Fraction(1, 10**155), to_sensitivity(1))
    beside = compose(huge, BinomialEvent(10, to_sensitivity(1)))
    assert zcdp(beside) == gdp(beside) == inf
    assert pure(compose(LaplaceEvent(Fraction(1, 10**309), to_sensitivity(1)), huge)) == inf


def test_a_rough_upper_end_far_from_the_lower_one_is_computed_again() -> None:
    """It was 2.6 times what the pair that dominates it says."""
    rounds = repeat(SampledWithoutReplacement(GaussianEvent(Fraction(20), to_sensitivity(1)), Fraction(1, 100)), 3)
    assert epsilon(rounds, 1e-5).upper <= 0.00175
