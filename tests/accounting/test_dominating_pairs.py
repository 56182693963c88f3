"""Dominating pairs: where no single pair is both worst and attained, the lower end is a neighbour that exists; sensitivities
with several norms meet all of them.
"""

from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from math import exp, floor, isqrt
from random import Random

import numpy as np
import pytest
from flint import arb

from discreet import Binomial, DiscreteGaussian, Gaussian, Laplace, OptimalPartitionSelection, Threshold, TruncatedGeometric
from discreet.accounting import compare_guarantees
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.pld.gaussian import DiscreteGaussianPld
from discreet.accounting.pure import pure
from discreet.accounting.rewrite import find_attained_change, max_squared_length
from discreet.accounting.strategies import DiscreteCurve
from discreet.errors import BadParameter
from discreet.events import (
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    Group,
    LaplaceEvent,
    Parallel,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    Subsampled,
    ThresholdEvent,
    TruncatedGeometricEvent,
)
from discreet.units import Sensitivity, count, to_sensitivity
from tests.support import neighbour_oracle as oracle

GAUSSIAN, LAPLACE = GaussianEvent(Fraction(1), count()), LaplaceEvent(Fraction(1), count())


def hockey_stick(p: list[Fraction], q: list[Fraction], eps: float) -> float:
    e = arb(eps).exp()
    return float(
        sum(
            (
                max(arb(0), arb(a.numerator) / a.denominator - e * b.numerator / b.denominator)
                for a, b in zip(p, q, strict=True)
            ),
            arb(0),
        )
    )


def discrete_gaussian(sigma: float, reach: int = 40) -> list[float]:
    from math import exp

    weights = [exp(-(k**2) / (2 * sigma**2)) for k in range(-reach, reach + 1)]
    return [w / sum(weights) for w in weights]


@pytest.mark.parametrize(("sigma", "eps"), [(1.0, 1.0), (0.5, 5.0)])
def test_a_discrete_gaussian_neighbour_obeys_linf_too(sigma: float, eps: float) -> None:
    """l0 = 9, l2 = 2, linf = 1: the worst whole change is four coordinates by one, not one coordinate by two."""
    from itertools import product
    from math import exp

    one = discrete_gaussian(sigma, 8)
    pairs = [(a, b) for a, b in zip([0.0, *one], [*one, 0.0], strict=True) if a > 1e-15 or b > 1e-15]
    total = 0.0
    for combo in product(pairs, repeat=4):
        p = q = 1.0
        for a, b in combo:
            p, q = p * a, q * b
        total += max(0.0, p - exp(eps) * q)
    found = delta(DiscreteGaussianEvent(Fraction(sigma), Sensitivity(l0=9, l2=2, linf=1)), eps)
    assert found.lower <= total * (1 + 1e-6) + 1e-9
    assert found.upper >= total * (1 - 1e-6) - 1e-9


@pytest.mark.parametrize("shift", [Fraction(3, 2), Fraction(1, 2), Fraction(29, 10)])
@pytest.mark.parametrize("kind", [DiscreteLaplaceEvent, DiscreteGaussianEvent])
def test_integers_move_by_integers(kind, shift: Fraction) -> None:  # type: ignore[no-untyped-def]
    found = epsilon(kind(Fraction(1), Sensitivity(l0=1, linf=shift)), 1e-5)
    truth = epsilon(kind(Fraction(1), Sensitivity(l0=1, linf=max(1, int(shift)))), 1e-5)
    assert found.lower <= (truth.upper if shift >= 1 else 0)
    assert found.upper >= truth.lower


def test_a_sample_of_what_is_distinguished_for_certain() -> None:
    """With probability ½ the one unit is not sampled, and then nothing is revealed: δ = ½ at every ε in the removed
    direction."""
    found = delta(
        Subsampled(Claim(Fraction(1), Fraction(1)) + RandomizedResponseEvent(Fraction(3, 4), 2), Fraction(1, 2)), 0.1
    )
    assert found.lower <= 0.5 <= found.upper
    assert found.upper < 0.51


GROUPS: list[Event] = [
    Group(Parallel((GAUSSIAN, LAPLACE)), 2),
    Group(BinomialEvent(6, Sensitivity(l0=2, linf=2)), 2),
    Group(Subsampled(GAUSSIAN, Fraction(1, 10)), 3),
    Group(DiscreteLaplaceEvent(Fraction(3), Sensitivity(l0=4, linf=1)), 2) * 5,
    Parallel((Group(LaplaceEvent(Fraction(2), Sensitivity(l0=3, linf=1)), 2), GAUSSIAN)) * 3,
]


@pytest.mark.parametrize("event", GROUPS, ids=str)
def test_no_guarantee_lies_below_the_lower_end_of_a_group(event: Event) -> None:
    found = epsilon(event, 1e-6)
    for name, value in compare_guarantees(event, 1e-6).items():
        assert value >= found.lower * (1 - 1e-9), name


def test_a_group_of_a_binomial_on_two_coordinates_by_brute_force() -> None:
    from math import comb

    masses = [Fraction(comb(6, k), 64) for k in range(7)]
    zero = [Fraction(0)] * 4
    p = [a * b for a in masses + zero for b in masses + zero]
    q = [a * b for a in zero + masses for b in zero + masses]
    truth = hockey_stick(p, q, 5.9)
    found = delta(Group(BinomialEvent(6, Sensitivity(l0=2, linf=2)), 2), 5.9)
    assert found.lower <= truth + 1e-12
    assert found.upper >= truth - 1e-12


ODD: list[Event] = [
    Claim(Fraction(10**309), Fraction(0)),
    Claim(Fraction(10**310), Fraction(0)) * 2,
    Claim(Fraction(10**308), Fraction(0)) * 2 + LAPLACE,
    DiscreteGaussianEvent(Fraction(1, 10**154), count()),
    DiscreteLaplaceEvent(Fraction(1, 10**309), count()),
    LaplaceEvent(Fraction(1, 10**300), count()),
    GaussianEvent(Fraction(1, 10**200), count()) + LAPLACE,
]


@pytest.mark.parametrize("event", ODD, ids=lambda event: str(event)[:40])
def test_ratios_beyond_the_doubles_are_never_free(event: Event) -> None:
    """An overflow is not a zero: whatever cannot be computed is ∞ from above."""
    assert epsilon(event, 1e-6).upper > 100
    assert delta(event, 1).upper > 0.6


MIXED = Sensitivity(l0=5, linf=8, l1=20)

CLOSE = 1 + 1e-9


def random_norms(random: Random, whole: bool) -> Sensitivity:
    """Any norms that do not contradict each other, and that bound l1."""
    while True:
        linf = Fraction(random.randint(1, 9)) if whole else Fraction(random.randint(4, 40), 4)
        l0 = random.choice([None, *range(1, 9)])
        l1 = random.choice([None, linf * Fraction(random.randint(4, 20), 4), linf + random.randint(0, 20)])
        squares = random.choice([None, linf**2 * Fraction(random.randint(8, 40), 8)])
        try:
            moved = Sensitivity(l0=l0, l1=l1, l2_squared=squares, linf=linf)
        except BadParameter:
            continue
        if moved.l1 is not None:
            return moved


def calibrated(random: Random, moved: Sensitivity, eps: float, target: float) -> list[tuple[Event, float]]:
    """Every mechanism that is calibrated by a sensitivity, with the δ at which it promises ε."""
    keys = Sensitivity(l0=random.randint(1, 5), linf=1)
    found: list[tuple[Event, float]] = [
        (Laplace.for_epsilon(eps, moved).event(moved), random.choice([0.0, target])),
        (TruncatedGeometric.for_epsilon(eps, moved, 0, 5).event(moved), random.choice([0.0, target])),
        (Gaussian.for_epsilon(eps, target, moved).event(moved), target),
        (DiscreteGaussian.for_epsilon(eps, target, moved).event(moved), target),
        (Threshold.for_epsilon(eps, target, keys).event(keys), target),
        (OptimalPartitionSelection.for_epsilon(eps, target, keys).event(keys), target),
    ]
    if moved.l0 is not None and moved.l0 <= 3:
        found.append((Binomial.for_epsilon(eps, target, moved).event(moved), target))
    return found


@pytest.mark.parametrize("block", range(5))
def test_every_calibration_meets_its_target(block: int) -> None:
    for seed in range(block * 4, block * 4 + 4):
        random = Random(seed)
        moved, eps = random_norms(random, whole=seed % 2 == 0), random.choice([0.01, 0.3, 1.0, 4.0])
        target = random.choice([1e-9, 1e-5, 1e-2, 0.3])
        for event, at in calibrated(random, moved, eps, target):
            if isinstance(event, BinomialEvent) and eps < 0.3:
                continue  # millions of coins
            exact = Fraction(target) * (1 + Fraction(1, 1 << 40)) if at else Fraction(0)  # a share of δ is rounded
            assert epsilon(event, exact, 1e-4).upper <= eps * CLOSE, (seed, event, at)


def test_laplace_noise_for_mixed_norms_has_its_epsilon() -> None:
    """It was 2, with a lower end of 1.99999, for a change of five coordinates by 8: l1 = 20 forbids it."""
    for event in (Laplace.for_epsilon(1, MIXED).event(MIXED), LaplaceEvent(Fraction(20), MIXED)):
        found = epsilon(event, 0)
        assert 1 in found
        assert found.width < 1e-9
        assert epsilon(event, 1e-5).upper <= 1


def test_a_discrete_gaussian_on_several_coordinates_has_its_own_bound_once() -> None:
    """The bound by l2 was multiplied by the number of coordinates: 1.99 for 0.837."""
    for moved in (MIXED, Sensitivity(l0=4, linf=3, l2=4), Sensitivity(l2=3), Sensitivity(l0=9, l2=2, linf=1)):
        found = epsilon(DiscreteGaussian.for_epsilon(1, 1e-6, moved).event(moved), 1e-6)
        assert found.lower <= found.upper <= 1


def test_a_threshold_at_a_large_delta_meets_its_epsilon() -> None:
    """0.68 was computed for 0.01: the pair of a unit alone is (ε, p)-private for every ε, and p is below δ."""
    for eps, target in product((0.01, 0.1, 1), (0.5, 0.1, 0.9)):
        for keys in (to_sensitivity(1), Sensitivity(l0=3, linf=1)):
            assert epsilon(Threshold.for_epsilon(eps, target, keys).event(keys), target).upper <= eps * CLOSE


@pytest.mark.parametrize("threshold", [1, 2, 3, 6])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(100)])
def test_a_threshold_alone_is_exact(scale: Fraction, threshold: int) -> None:
    pairs = oracle.Selection(oracle.threshold_shown(scale, threshold), 1).every(1, 0)
    for at in (0.0, 0.01, 0.3, 2.0):
        exact = max(oracle.worst([pairs], at), oracle.worst([[(q, p) for p, q in pairs]], at))
        found = delta(ThresholdEvent(scale, threshold, 1), at)
        assert found.lower <= exact * CLOSE
        assert found.upper >= exact / CLOSE
        assert threshold == 1 or found.width <= 1e-9


def test_a_fractional_sensitivity_of_integers_is_rounded_outwards() -> None:
    """`Laplace(1).event(1.5)` was taken for a move by 1; `pure` says 3/2. It may be a move by 1, and is never more "
    "than 3/2."""
    event = Laplace(1).event(1.5)
    found = epsilon(event, 0)
    assert found.lower <= 1
    assert pure(event) <= found.upper <= float(pure(event)) * CLOSE
    for at in (0.0, 0.4, 1.2):
        assert delta(event, at).upper >= delta(Laplace(1).event(1), at).upper
        assert delta(event, at).lower <= delta(Laplace(1).event(1), at).upper
        assert delta(event, at).upper <= delta(Laplace(1).event(2), at).upper * CLOSE


def test_a_truncated_range_cannot_be_left() -> None:
    """Values within [0, 2] move by 2 at most, whatever the sensitivity says."""
    event = TruncatedGeometricEvent(Fraction(1), 0, 2, to_sensitivity(5))
    for at in (0.0, 1.0, 3.0):
        assert delta(event, at).lower <= delta(DiscreteLaplaceEvent(Fraction(1), to_sensitivity(2)), at).upper
        assert delta(event, at).upper >= delta(DiscreteLaplaceEvent(Fraction(1), to_sensitivity(5)), at).lower
    assert delta(Group(event, 3), 1).lower <= delta(DiscreteLaplaceEvent(Fraction(1), to_sensitivity(2)), 1).upper


@pytest.mark.parametrize("kind", [DiscreteLaplaceEvent, DiscreteGaussianEvent])
def test_a_group_of_fractional_shifts_moves_by_integers(
    kind: type[DiscreteLaplaceEvent | DiscreteGaussianEvent],
) -> None:
    """Two units that move a whole answer by at most 3/2 each move it by 2, not by 3."""
    found, exact = (
        delta(Group(kind(Fraction(2), to_sensitivity(Fraction(3, 2))), 2), 0.3),
        delta(kind(Fraction(2), to_sensitivity(2)), 0.3),
    )
    assert found.lower <= exact.upper
    assert found.upper >= exact.lower


def test_gaussian_noise_for_norms_that_forbid_its_l2() -> None:
    """l1 = 20 and linf = 8 bound l2² by 160, and (8, 8, 4), the longest such change, has 144."""
    assert MIXED.l2_squared == 160
    assert max_squared_length(GaussianEvent(Fraction(1), MIXED)) == 144
    found = epsilon(GaussianEvent(Fraction(30), MIXED), 1e-6)
    assert found.lower <= epsilon(GaussianEvent(Fraction(30), Sensitivity(l2=12)), 1e-6).upper
    assert found.upper >= epsilon(GaussianEvent(Fraction(30), Sensitivity(l2_squared=160)), 1e-6).lower


def test_permute_and_flip_is_not_randomised_response() -> None:
    """Enumerated over two candidates, δ(0) is below that of randomised response, which dominates it."""
    found = delta(PermuteAndFlipEvent(Fraction(1)), 0)
    pairs = oracle.Choice(Fraction(1), True, 0.0).every(1, 0)
    assert found.lower <= oracle.worst([pairs], 0.0) < found.upper
    assert 1 in epsilon(PermuteAndFlipEvent(Fraction(1)), 0)


@pytest.mark.parametrize("seed", range(60))
def test_changes_are_within_all_norms(seed: int) -> None:
    moved = random_norms(Random(seed), whole=False)
    scale = Fraction(1)
    reals, integers = LaplaceEvent(scale, moved), DiscreteLaplaceEvent(scale, moved)
    for change in map(find_attained_change, (reals, integers, TruncatedGeometricEvent(scale, 0, 2, moved))):
        if change:
            assert moved.l0 is None or sum(n for _, n in change) <= moved.l0
            assert moved.l1 is None or sum(r * n for r, n in change) <= moved.l1
            assert sum(r**2 * n for r, n in change) <= moved.l2_squared
            assert all(r <= moved.linf for r, _ in change)
    assert all(r.denominator == 1 for r, _ in find_attained_change(integers))
    assert max_squared_length(GaussianEvent(scale, moved)) <= moved.l2_squared
    mutant = ((moved.linf, moved.l0 or floor(moved.l1 or 1)),)  # as many coordinates as l0 says, each by linf
    if moved.l1 is not None and sum(r * n for r, n in mutant) > moved.l1:
        assert mutant != find_attained_change(reals)


def binned_laplace(shift: float, scale: float, bins: int) -> tuple[list[float], list[float]]:
    """Continuous Laplace noise about 0 and about `shift`, known only up to bins, which reveals less."""
    edges = [shift * (k - bins) / bins for k in range(3 * bins + 1)]

    def below(x: float) -> float:
        return exp(x / scale) / 2 if x < 0 else 1 - exp(-x / scale) / 2

    def masses(centre: float) -> list[float]:
        marks = [0.0, *(below(edge - centre) for edge in edges), 1.0]
        return [b - a for a, b in pairwise(marks)]

    return masses(0.0), masses(shift)


@pytest.mark.parametrize("at", [0.0, 0.3, 0.8])
def test_continuous_laplace_noise_covers_every_change_within_its_norms(at: float) -> None:
    """l1 = 3 and linf = 2 on two coordinates: (2, 1) is the longest change, and no shape."""
    event = LaplaceEvent(Fraction(2), Sensitivity(l0=2, l1=3, linf=2))
    found = delta(event, at)
    least = 0.0
    for shift in ((2.0, 1.0), (1.5, 1.5), (2.0, 0.5)):
        pairs = [binned_laplace(by, 2.0, 60) for by in shift]
        p, q = (np.multiply.outer(*pair).ravel() for pair in zip(*pairs, strict=True))
        least = max(least, float(np.maximum(0, p - exp(at) * q).sum()))
    assert least <= found.upper
    assert found.lower <= least + 2e-3  # bins reveal a little less


WHOLE_NORMS = [
    Sensitivity(l2_squared=5),
    Sensitivity(l2_squared=9),
    Sensitivity(l0=3, l2_squared=9, linf=2),
    Sensitivity(l1=4, l2_squared=8),
    Sensitivity(l0=2, linf=2),
]


def all_changes(norms: Sensitivity) -> set[tuple[int, ...]]:
    """Every change of integers within all norms, largest coordinate first, by brute force."""
    found = set()
    for size in range(1, int(norms.l2_squared) + 1):
        for change in combinations_with_replacement(range(min(3, floor(norms.linf)), 0, -1), size):
            fits = sum(v * v for v in change) <= norms.l2_squared and (norms.l1 is None or sum(change) <= norms.l1)
            if fits and (norms.l0 is None or size <= norms.l0):
                found.add(change)
    return found


@pytest.mark.parametrize("norms", WHOLE_NORMS, ids=repr)
def test_a_discrete_gaussian_has_the_curve_of_its_worst_change(norms: Sensitivity) -> None:
    """Against the largest divergence over all integer vectors within the norms, coordinate by coordinate."""
    event = DiscreteGaussianEvent(Fraction(1), norms)
    for eps in (0.0, 0.7, 2.5, 5.0):
        exact = max(float(DiscreteCurve.match(to_parts(change)).bound_delta(eps)[1]) for change in all_changes(norms))
        found = delta(event, eps)
        assert found.lower <= exact * (1 + 1e-9)
        assert exact <= found.upper * (1 + 1e-9)
        assert found.upper <= found.lower * (1 + 1e-6) + 1e-12
    # The mutant takes one vector for all of them, the longest single coordinate.
    lone = DiscreteGaussianEvent(Fraction(1), Sensitivity(l0=1, linf=isqrt(floor(norms.l2_squared))))
    worse = [delta(event, eps).lower > delta(lone, eps).upper for eps in (0.0, 0.7, 2.5, 5.0)]
    assert any(worse) or len(all_changes(norms)) == 1


def to_parts(change: tuple[int, ...]) -> list[tuple[DiscreteGaussianPld, int]]:
    return [(DiscreteGaussianPld(Fraction(1), shift), change.count(shift)) for shift in sorted(set(change))]
