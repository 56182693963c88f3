"""Laws that hold for every kind of loss."""

from fractions import Fraction
from itertools import pairwise
from math import exp, inf

import numpy as np
import pytest

from discreet._numbers import Bounds
from discreet.accounting.compare import compare_guarantees
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.dominating_pairs import build_direction
from discreet.accounting.pld import Pld
from discreet.accounting.pure import pure
from discreet.accounting.rewrite import list_alternatives
from discreet.accounting.risk import advantage, trade_off, true_positive_rate
from discreet.accounting.running import RunningTotal
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
    OptimalPartitionSelectionEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
    compose,
)
from discreet.units import Sensitivity, to_sensitivity

from .facts import EVERY

ONE, THREE = to_sensitivity(1), Sensitivity(l0=3, linf=2)
HALF = Fraction(1, 2)

PLAIN: dict[str, Event] = {
    "laplace": LaplaceEvent(Fraction(2), ONE),
    "laplace in l1": LaplaceEvent(Fraction(5), Sensitivity(l1=3)),
    "discrete laplace": DiscreteLaplaceEvent(Fraction(7), THREE),
    "truncated": TruncatedGeometricEvent(Fraction(3), 0, 10, ONE),
    "gaussian": GaussianEvent(Fraction(2), THREE),
    "discrete gaussian": DiscreteGaussianEvent(Fraction(4), ONE),
    "narrow discrete gaussian": DiscreteGaussianEvent(Fraction(2, 5), ONE),
    "discrete gaussian in l2": DiscreteGaussianEvent(Fraction(9), Sensitivity(l2=3)),
    "binomial": BinomialEvent(60, ONE),
    "response": RandomizedResponseEvent(Fraction(3, 4), 2),
    "choices": RandomizedResponseEvent(Fraction(2, 5), 7),
    "exponential": ExponentialEvent(HALF),
    "permute and flip": PermuteAndFlipEvent(HALF),
    "threshold": ThresholdEvent(Fraction(2), 40, 2),
    "keep": OptimalPartitionSelectionEvent(HALF, Fraction(1, 10**7), 2),
    "claim": Claim(Fraction(1), Fraction(1, 10**6)),
}
NESTED: dict[str, Event] = {
    "composition": compose(PLAIN["laplace"], PLAIN["choices"], PLAIN["gaussian"]),
    "parallel": Parallel((PLAIN["laplace"], PLAIN["gaussian"])),
    "group": Group(PLAIN["discrete laplace"], 2),
    "sampled gaussian": Subsampled(GaussianEvent(Fraction(1), ONE), Fraction(1, 10)) * 100,
    "sampled response": Subsampled(PLAIN["response"], Fraction(1, 5)),
    "sampled binomial": Subsampled(PLAIN["binomial"], Fraction(1, 5)),
    "sampled laplace": Subsampled(PLAIN["laplace"], Fraction(1, 5)),
    "sampled composition": Subsampled(compose(PLAIN["response"], PLAIN["claim"]), Fraction(1, 5)),
}
ZOO = {**PLAIN, **NESTED}
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
def test_a_group_of_one_is_nobody_else_and_larger_groups_cost_more(name: str) -> None:
    alone = epsilon(ZOO[name], 1e-3, 1e-4)
    assert epsilon(Group(ZOO[name], 1), 1e-3, 1e-4) == alone
    assert ordered(alone, epsilon(Group(ZOO[name], 2), 1e-3, 1e-4))


@every
def test_a_sample_of_everyone_is_everyone_and_of_nobody_is_free(name: str) -> None:
    whole = epsilon(ZOO[name], 1e-3, 1e-4)
    assert epsilon(Subsampled(ZOO[name], Fraction(1)), 1e-3, 1e-4) == whole
    assert epsilon(Subsampled(ZOO[name], Fraction(0)), 0) == epsilon(NO_EVENT, 0)
    assert ordered(epsilon(Subsampled(ZOO[name], HALF), 1e-3, 1e-4), whole)


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("name", {**ZOO, **EVERY})
def test_no_reading_is_below_the_certified_lower_end(name: str, times: int) -> None:
    loss = {**ZOO, **EVERY}[name] * times
    certified = epsilon(loss, 1e-4, 1e-4)
    for reading, value in compare_guarantees(loss, 1e-4).items():
        assert value >= certified.lower * (1 - 1e-12), reading
    if pure(loss) < inf:
        assert delta(loss, min(700.0, float(pure(loss)) * (1 + 1e-12)), 1e-4).lower == 0


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
    loss = ThresholdEvent(Fraction(2), 30, 3)
    a = exp(-0.5)
    p = a**29 / (1 + a)
    assert 1 - (1 - p) ** 3 in Bounds(*(x * s for x, s in zip(_ends(delta(loss, inf)), (1 - 1e-9, 1 + 1e-9), strict=True)))
    assert epsilon(loss, p).lower == inf


def _ends(bounds: Bounds) -> tuple[float, float]:
    return bounds.lower, bounds.upper


@every
def test_what_laws_promise_about_their_size(name: str) -> None:
    """`size` and `envelope` bound |M| at many points, and K is the logarithm of M on the axis."""
    s = np.linspace(0.3, 900.0, 4001)
    for choice in list_alternatives(ZOO[name]):
        for removed in (True, False):
            for law, _ in build_direction(choice, removed=removed).parts:
                check_size(law, s)


def check_size(law: Pld, s: np.ndarray) -> None:
    for c in (0.4, 3.0, 17.0):
        base, error = (float(x[0]) for x in law.cgf(np.array([c])))
        ratio = law.mgf_ratio(c, base, s[s < 30] if "Sampled" in type(law).__name__ else s)
        known = np.exp(ratio.log.real) - ratio.error  # |M|/M(c) is at least this
        fine = known > 1e-250
        points = s[: len(known)]
        assert (np.log(known[fine]) - error <= law.modulus_bounds(c, points)[fine] + 1e-9).all()
        for start in (1.0, 10.0, 100.0):
            later = known[points >= start]
            if len(later):
                assert later.max() <= np.exp(law.decay_bound(c, start) + error) * (1 + 1e-9)


def test_a_running_total_reads_as_the_whole_does() -> None:
    facts = [[LaplaceEvent, DiscreteGaussianEvent, GaussianEvent][i % 3](Fraction(40 + i), ONE) for i in range(90)]
    facts.insert(5, Subsampled(GaussianEvent(Fraction(3), ONE), Fraction(1, 50)))
    total = RunningTotal.for_delta(1e-6)
    for i, fact in enumerate(facts):
        total = total.append(fact, 1 + i % 2)
        if i in (3, 35, 90):
            whole = epsilon(compose(*(f * (1 + k % 2) for k, f in enumerate(facts[: i + 1]))), 1e-6)
            read = total.epsilon()
            assert ordered(whole, read)
            assert ordered(read, whole)
            assert read.width <= 1e-6 * read.upper


def test_the_risk_of_a_gaussian_is_its_trade_off_curve() -> None:
    from scipy.stats import norm

    loss = GaussianEvent(Fraction(2), ONE) * 4  # μ = 1
    exact = float(norm.cdf(norm.ppf(0.9) - 1))
    assert exact in trade_off(loss, 0.1)
    assert 1 - exact in true_positive_rate(loss, 0.1)
    assert trade_off(loss, 0.1).width < 1e-3
    assert 2 * float(norm.cdf(0.5)) - 1 in advantage(loss)


def test_a_sample_keeps_what_is_at_infinity() -> None:
    hopeless = RandomizedResponseEvent(Fraction(1), 2)
    for inner in (PLAIN["laplace"], PLAIN["gaussian"], PLAIN["response"]):
        assert delta(Subsampled(compose(inner, hopeless), HALF), 5).upper >= 0.5
    claims = Subsampled(compose(PLAIN["narrow discrete gaussian"], PLAIN["claim"]), HALF)
    assert delta(claims, inf).lower <= 5e-7 <= delta(claims, inf).upper
