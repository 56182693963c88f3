"""Which neighbours a rewriting covers: groups of samples, replaced units in samples, partitions chosen after answers."""

from fractions import Fraction
from math import comb, exp, log

import numpy as np
import pytest

from discreet.accounting.curve import delta, epsilon
from discreet.accounting.neighbours import to_replace_neighbours
from discreet.accounting.pure import pure
from discreet.accounting.renyi import renyi
from discreet.accounting.rewrite import GroupShape, list_alternatives, rewrite_group
from discreet.accounting.running import RunningTotal
from discreet.accounting.selection import NegativeBinomialRuns, Selection
from discreet.accounting.tcdp import tcdp
from discreet.accounting.zcdp import zcdp
from discreet.events import (
    Claim,
    DiscreteLaplaceEvent,
    Event,
    Group,
    OptimalPartitionSelectionEvent,
    Parallel,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    ThresholdEvent,
    compose,
    group,
    shuffle,
)
from discreet.units import to_sensitivity
from tests.support import neighbour_oracle as oracle
from tests.support.every_event import EVERY
from tests.support.outcome_oracle import adaptive_delta, ball, response

ONE = to_sensitivity(1)


def laplace(scale: Fraction, by: int = 1) -> DiscreteLaplaceEvent:
    return DiscreteLaplaceEvent(scale, to_sensitivity(by))


def worst_of_two(rate: Fraction, at: float) -> float:
    """The enumerated truth for two units of `laplace(1/5)` sampled at `rate`, and `laplace(4/5)` on everyone."""
    first = oracle.Sampled(oracle.Noise(ONE, oracle.discrete_laplace(Fraction(1, 5))), rate)
    second = oracle.Noise(ONE, oracle.discrete_laplace(Fraction(4, 5)))
    shapes = [[m.every(i, 2 - i) for m in (first, second)] for i in range(3)]
    return max(oracle.worst_fixed(parts, at) for parts in shapes)


def test_group_privacy_of_a_poisson_sample_in_a_composition() -> None:
    """D + x against D + y is a group of two: 0.75844 by enumeration, where all units on one side give 0.73148."""
    rate, at = Fraction(47, 100), 1.18
    exact = worst_of_two(rate, at)
    assert exact == pytest.approx(0.75844, abs=5e-6)
    event = compose(Subsampled(laplace(Fraction(1, 5)), rate), laplace(Fraction(4, 5)))
    found = delta(group(event, 2), at)
    assert found.lower <= exact <= found.upper < 0.78
    assert delta(compose(*(group(part, 2) for part, _ in event.parts)), at).upper >= exact
    mutant = rewrite_group(event, 2, GroupShape.ONE_SIDED)
    assert delta(mutant, at).upper < exact


def test_a_sample_of_a_replaced_unit_covers_both_directions_at_once() -> None:
    """Beside a sample without replacement neighbours replace a unit, also for a Poisson sample in the same composition."""
    noise, rate = RandomizedResponseEvent(Fraction(9, 10), 2), Fraction(1, 4)
    pair = [((1 - ball(rate)) * b + ball(rate) * a, b) for a, b in response(Fraction(9, 10), 2)]
    exact = adaptive_delta([pair, [(q, p) for p, q in pair]], 6, 0.5)
    mixed = Subsampled(noise, rate) * 5 + SampledWithoutReplacement(noise, rate)
    assert delta(mixed, 0.5).upper >= exact
    assert delta(Subsampled(noise, rate) * 6, 0.5).upper < exact  # the mutant: one direction of add or remove


@pytest.mark.parametrize(
    ("rate", "at"), [(Fraction(1, 5), 0.0), (Fraction(1, 5), 0.15), (Fraction(4, 5), 0.0), (Fraction(4, 5), 0.5)]
)
def test_a_replaced_unit_leaves_a_poisson_sample_and_another_enters_it(rate: Fraction, at: float) -> None:
    """One unit adds 1 to a sum, another takes 1 from it. Replacing one by the other moves the sum by 2, though adding or
    removing either moves it by 1, which is what the sensitivity in a Poisson sample states."""
    noise, replaces = laplace(Fraction(2)), SampledWithoutReplacement(Claim(Fraction(1, 10**9), Fraction(0)), Fraction(1, 2))
    mass = {k: (1 - exp(-0.5)) / (1 + exp(-0.5)) * exp(-abs(k) / 2) for k in range(-202, 203)}
    p, q = ([float(1 - rate) * mass[k] + float(rate) * mass[k - by] for k in range(-200, 201)] for by in (1, -1))
    exact = sum(max(0.0, a - exp(at) * b) for a, b in zip(p, q, strict=True))
    assert exact <= delta(Subsampled(noise, rate) + replaces, at).upper + 1e-8
    assert delta(SampledWithoutReplacement(noise, rate) + replaces, at).upper < exact  # the mutant: moved by one unit's 1


def test_a_partition_that_is_chosen_after_an_answer() -> None:
    """Which branch a unit is in may depend on the first answer: worse than every branch that is settled beforehand."""
    first, branches = (
        RandomizedResponseEvent(Fraction(3, 4), 2),
        (Claim(Fraction(1), Fraction(0)), Claim(Fraction(0), Fraction(1, 5))),
    )
    pairs = [
        oracle.Response(Fraction(3, 4), 2).every(1, 0),
        oracle.OneOf(tuple(oracle.Private(b.epsilon, b.delta) for b in branches)).every(1, 0),
    ]
    chosen, settled = oracle.worst(pairs, 1.0), oracle.worst_fixed(pairs, 1.0)
    assert chosen == pytest.approx(0.415, abs=1e-3)
    found = delta(compose(first, Parallel(branches)), 1.0)
    assert found.lower <= settled < chosen <= found.upper
    assert max(delta(compose(first, branch), 1.0).upper for branch in branches) < chosen  # the mutant: branches one by one


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("name", EVERY)
def test_a_group_costs_no_less_than_a_replaced_pair(name: str, size: int) -> None:
    """Every group of two or more holds each of its own units alone, and costs at most what one-sided and two-sided give."""
    event = EVERY[name]
    one, many = epsilon(event, 1e-3, 1e-3), epsilon(group(event, size), 1e-3, 1e-3)
    assert one.lower <= many.upper * (1 + 1e-9)
    assert many.lower <= many.upper


def test_a_group_of_a_pure_claim_is_discrete_laplace_noise() -> None:
    """f_ε composed with itself: δ(0) is 1 − e^-ε for two units, not tanh ε as for randomised response of 2ε."""
    eps = Fraction(1)
    found = delta(group(Claim(eps, Fraction(0)), 2), 0)
    assert found.lower <= 1 - exp(-1) <= found.upper
    assert found.width < 1e-9
    chain = oracle.Private(eps, Fraction(0)).every(2, 0)
    assert oracle.worst([chain], 0.0) == pytest.approx(1 - exp(-1), abs=1e-12)


def test_a_shuffled_event_makes_neighbours_replace_a_unit_too() -> None:
    """The case above: every guarantee, also of a running total and of a selection, and in either order."""
    noise, rate = laplace(Fraction(2)), Fraction(4, 5)
    mass = {k: (1 - exp(-0.5)) / (1 + exp(-0.5)) * exp(-abs(k) / 2) for k in range(-202, 203)}
    p, q = ([float(1 - rate) * mass[k] + float(rate) * mass[k - by] for k in range(-200, 201)] for by in (1, -1))
    truth = max(log(a / b) for a, b in zip(p, q, strict=True))
    square = log(sum(a * a / b for a, b in zip(p, q, strict=True)))
    shuffled, sample = shuffle(RandomizedResponseEvent(Fraction(5, 10) + Fraction(1, 10**9), 2), 10), Subsampled(noise, rate)
    for event in (compose(sample, shuffled), compose(shuffled, sample)):
        found = epsilon(event, 0)
        assert found.lower <= truth <= found.upper < 1.06 * truth
        assert epsilon(event, 1e-6).upper <= found.upper
        assert pure(event) >= truth
        assert renyi(event, 2) >= square
        assert 2 * zcdp(event) >= square
        assert tcdp(event, 3) * 2 >= square
        assert delta(event, truth / 2).lower <= sum(max(0.0, a - exp(truth / 2) * b) for a, b in zip(p, q, strict=True))
    for first, second in ((sample, shuffled), (shuffled, sample)):
        total = RunningTotal.for_delta(1e-6).append(first).append(second)
        assert total.epsilon().upper == epsilon(compose(first, second), 1e-6).upper
    runs = NegativeBinomialRuns()
    assert Selection(sample, shuffled, runs=runs).renyi(2) > Selection(sample, runs=runs).renyi(2)


def test_to_replace_neighbours_changes_nothing_twice() -> None:
    replaces = SampledWithoutReplacement(laplace(Fraction(2)), Fraction(1, 2))
    for event in EVERY.values():
        once = to_replace_neighbours(compose(event, replaces))
        assert to_replace_neighbours(once) == once
        assert all(pure(part) <= pure(once) for part, _ in once.parts)


@pytest.mark.parametrize(
    "replaces",
    [
        SampledWithoutReplacement(laplace(Fraction(2)), Fraction(1, 2)),
        shuffle(RandomizedResponseEvent(Fraction(3, 4), 2), 1000),
    ],
)
@pytest.mark.parametrize("name", EVERY)
def test_the_curve_sees_every_event_as_its_neighbours_are(name: str, replaces: Event) -> None:
    """No event is plain enough for the curve to leave this step out."""
    event = compose(EVERY[name], replaces)
    assert list_alternatives(event) == list_alternatives(to_replace_neighbours(event))


def test_a_replaced_unit_leaves_one_key_and_enters_another_beside_shuffled_reports() -> None:
    """One key has 10 units and 9 without this one, the other 9 and 10 with it: it may be shown in the place of the first."""
    event = compose(shuffle(RandomizedResponseEvent(Fraction(3, 4), 2), 1000), ThresholdEvent(Fraction(1), 10, 1))
    shown, hidden = 1 / (1 + exp(-1)), exp(-1) / (1 + exp(-1))
    for at in (0.0, 1.5, 1.9):
        truth = shown * shown - exp(at) * hidden * hidden
        assert delta(event, at).upper >= truth
        assert epsilon(event, truth * (1 - 1e-9)).upper >= at


def test_one_of_equal_branches_or_two_change_where_a_unit_is_replaced() -> None:
    """A unit that leaves a branch and enters another changes both by one, however many there are."""
    branch, replaces = (
        laplace(Fraction(1)),
        SampledWithoutReplacement(Claim(Fraction(1, 10**9), Fraction(0)), Fraction(1, 2)),
    )
    mass = {k: (1 - exp(-1)) / (1 + exp(-1)) * exp(-abs(k)) for k in range(-42, 43)}
    pairs = [(mass[a - 1] * mass[b], mass[a] * mass[b - 1]) for a in range(-40, 41) for b in range(-40, 41)]
    for many in (2, 30):
        event = compose(Parallel((branch,) * many), replaces)
        for at in (0.0, 1.0, 1.5):
            assert sum(max(0.0, a - exp(at) * b) for a, b in pairs) <= delta(event, at).upper
        assert 2 <= epsilon(event, 0).upper < 2.1
    nested = Parallel((compose(branch, replaces), branch))
    assert pure(nested) >= 2


# -- partition selection on samples: how many of the others have a key is random ------------------------------------------


def bernoulli_delta(p: float, q: float, at: float) -> float:
    """δ of one key that is shown with either probability."""
    pairs = ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p))
    return max(0.0, *(a - exp(at) * b for a, b in pairs))


def worst_key_on_a_poisson_sample(shown: tuple[float, ...], rate: float, at: float) -> float:
    """The enumerated truth for one key of a unit, whichever number of the others have it."""
    found, chances = [], np.array([*shown, *[shown[-1]] * 60])
    for others in range(60):
        mass = np.array([comb(others, i) * rate**i * (1 - rate) ** (others - i) for i in range(others + 1)])
        without, beside = float(mass @ chances[: others + 1]), float(mass @ chances[1 : others + 2])
        found.append(bernoulli_delta((1 - rate) * without + rate * beside, without, at))
    return max(found)


def worst_keys_on_a_share(shown: tuple[float, ...], size: int, units: int, at: float) -> float:
    """The same for `size` of `units` units, one of which is replaced and takes another key, or none, in its place."""
    chances, others, found = [*shown, *[shown[-1]] * units], units - 1, 0.0
    total = comb(units, size)
    for a in range(units):
        for b in range(units - a):
            first, second = np.zeros(4), np.zeros(4)
            for drawn, moves in ((size - 1, 1), (size, 0)):
                for i in range(min(a, drawn) + 1):
                    for j in range(min(b, drawn - i) + 1):
                        share = comb(a, i) * comb(b, j) * comb(others - a - b, drawn - i - j) / total
                        for into, x, y in ((first, i + moves, j), (second, i, j + moves)):
                            p, q = chances[x], chances[y]
                            into += share * np.array([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)])
            found = max(found, float(np.maximum(0, first - exp(at) * second).sum()))
    return found


RARE, OFTEN = ThresholdEvent(Fraction(1, 4), 10, 1), ThresholdEvent(Fraction(1), 5, 1)
OPTIMAL = OptimalPartitionSelectionEvent(Fraction(1), Fraction(1, 1000), 1)
SHOWN = {
    RARE: oracle.threshold_shown(RARE.scale, RARE.threshold),
    OFTEN: oracle.threshold_shown(OFTEN.scale, OFTEN.threshold),
    OPTIMAL: oracle.optimal_shown(OPTIMAL.epsilon, OPTIMAL.delta),
}


@pytest.mark.parametrize("inner", SHOWN, ids=repr)
@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(3, 10), Fraction(1, 2)])
@pytest.mark.parametrize("at", [0.0, 0.2])
def test_a_key_on_a_poisson_sample_is_attained(inner: Event, rate: Fraction, at: float) -> None:
    """The unit whose key nobody else has is one of the enumerated ones."""
    nothing = Claim(Fraction(0), Fraction(0))
    truth = worst_key_on_a_poisson_sample(SHOWN[inner], float(rate), at)
    most, alone = truth * (1 + 1e-9) + 1e-12, float(rate) * SHOWN[inner][1] * (1 - 1e-9)
    for event in (inner, compose(inner, nothing), Parallel((inner, nothing)), Subsampled(inner, Fraction(1))):
        found = delta(Subsampled(event, rate), at)
        assert alone <= found.lower <= most
        assert found.upper >= truth * (1 - 1e-9) - 1e-12
    half = Subsampled(compose(nothing, Subsampled(inner, rate)), Fraction(1, 2))
    assert delta(half, at).lower <= worst_key_on_a_poisson_sample(SHOWN[inner], float(rate) / 2, at) * (1 + 1e-9) + 1e-12
    assert delta(group(Subsampled(inner, rate), 2), at).lower <= most


@pytest.mark.parametrize(("size", "units"), [(1, 2), (4, 6), (6, 9), (3, 7)])
def test_a_key_on_a_share_is_attained(size: int, units: int) -> None:
    rate = Fraction(size, units)
    truth = worst_keys_on_a_share(SHOWN[OFTEN], size, units, 0.0)
    found = delta(SampledWithoutReplacement(OFTEN, rate), 0)
    assert float(rate) * SHOWN[OFTEN][1] * (1 - 1e-9) <= found.lower <= truth <= found.upper
    inside = SampledWithoutReplacement(compose(OFTEN, Claim(Fraction(0), Fraction(0))), rate)
    assert delta(inside, 0).lower <= truth
    assert delta(SampledWithoutReplacement(Parallel((OFTEN, OFTEN)), rate), 0).lower <= truth


def test_a_sample_of_everyone_still_has_keys_near_the_threshold() -> None:
    for sample in (Subsampled, SampledWithoutReplacement):
        assert delta(sample(RARE, Fraction(1)), 0).lower >= delta(RARE, 0).lower > 0.9


def worst_inside_two_steps(rate: Fraction, at: float, truth: Fraction, scale: Fraction) -> float:
    """The enumerated δ of one pair of neighbours two steps apart. Each step adds a unit to the first sample, replaces one in
    the second, whose own neighbours are two units apart, and moves the noise by one."""
    right, wrong = float(truth), float(1 - truth)
    one = [np.array([right, wrong]), np.array([wrong, right])]
    other = [np.full(3, wrong / 2) for _ in range(3)]
    for i, each in enumerate(other):
        each[i] = right
    first, second = 1 - (1 - 0.54) ** 2, 1 - (1 - float(rate)) ** 2
    places, a = np.arange(-200, 201), exp(-float(1 / scale))
    noise = [(1 - a) / (1 + a) * a ** np.abs(places - shift) for shift in (0, 2)]
    p = [one[0], (1 - second) * other[0] + second * other[1], noise[0]]
    q = [(1 - first) * one[0] + first * one[1], (1 - second) * other[0] + second * other[2], noise[1]]
    joint = [np.multiply.outer(np.multiply.outer(x, y).ravel(), z).ravel() for x, y, z in (p, q)]
    return max(float(np.maximum(0.0, x - exp(at) * y).sum()) for x, y in (joint, joint[::-1]))


@pytest.mark.parametrize(("rate", "at"), [(Fraction(117, 1000), 3.87), (Fraction(117, 1000), 4), (Fraction(3, 100), 3.5)])
def test_a_group_in_a_group_may_lead_to_both_sides(rate: Fraction, at: float) -> None:
    """Wherever the outer steps lead. The mutant takes the inner steps for outer ones."""
    truth, scale = Fraction(99999, 100000), Fraction(100, 255)
    first = Subsampled(RandomizedResponseEvent(truth, 2), Fraction(54, 100))
    second = Subsampled(RandomizedResponseEvent(truth, 3), rate)
    worst = worst_inside_two_steps(rate, at, truth, scale)
    assert delta(group(compose(first, Group(second, 2), laplace(scale)), 2), at).upper >= worst
    mutant = [
        compose(rewrite_group(first, 2, units), rewrite_group(second, 4, units), laplace(scale, 2))
        for units in (GroupShape.ONE_SIDED, GroupShape.TWO_SIDED)
    ]
    assert max(delta(each, at).upper for each in mutant) < worst
