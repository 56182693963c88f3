"""Sensitivities with several norms: calibrations meet their target, and lower ends are changes that all norms allow."""

from fractions import Fraction
from itertools import pairwise, product
from math import exp, floor
from random import Random

import numpy as np
import pytest

from discreet import Binomial, DiscreteGaussian, Gaussian, Laplace, OptimalPartitionSelection, Threshold, TruncatedGeometric
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.pure import pure
from discreet.accounting.rewrite import find_attained_change, max_squared_length
from discreet.errors import BadParameter
from discreet.events import (
    BinomialEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    Group,
    LaplaceEvent,
    PermuteAndFlipEvent,
    ThresholdEvent,
    TruncatedGeometricEvent,
)
from discreet.units import Sensitivity, to_sensitivity

from . import neighbours as truth

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
        for loss, at in calibrated(random, moved, eps, target):
            if isinstance(loss, BinomialEvent) and eps < 0.3:
                continue  # millions of coins
            exact = Fraction(target) * (1 + Fraction(1, 1 << 40)) if at else Fraction(0)  # a share of δ is rounded
            assert epsilon(loss, exact, 1e-4).upper <= eps * CLOSE, (seed, loss, at)


def test_laplace_noise_for_mixed_norms_reads_its_epsilon() -> None:
    """It read 2, with a lower end of 1.99999, for a change of five coordinates by 8: l1 = 20 forbids it."""
    for loss in (Laplace.for_epsilon(1, MIXED).event(MIXED), LaplaceEvent(Fraction(20), MIXED)):
        found = epsilon(loss, 0)
        assert 1 in found
        assert found.width < 1e-9
        assert epsilon(loss, 1e-5).upper <= 1


def test_a_discrete_gaussian_on_several_coordinates_reads_its_own_bound_once() -> None:
    """The bound by l2 was multiplied by the number of coordinates: 1.99 for 0.837."""
    for moved in (MIXED, Sensitivity(l0=4, linf=3, l2=4), Sensitivity(l2=3), Sensitivity(l0=9, l2=2, linf=1)):
        found = epsilon(DiscreteGaussian.for_epsilon(1, 1e-6, moved).event(moved), 1e-6)
        assert found.lower <= found.upper <= 1


def test_a_threshold_at_a_large_delta_meets_its_epsilon() -> None:
    """0.68 was read for 0.01: the pair of a unit alone is (ε, p)-private for every ε, and p is below δ."""
    for eps, target in product((0.01, 0.1, 1), (0.5, 0.1, 0.9)):
        for keys in (to_sensitivity(1), Sensitivity(l0=3, linf=1)):
            assert epsilon(Threshold.for_epsilon(eps, target, keys).event(keys), target).upper <= eps * CLOSE


@pytest.mark.parametrize("threshold", [1, 2, 3, 6])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(100)])
def test_a_threshold_alone_is_read_exactly(scale: Fraction, threshold: int) -> None:
    pairs = truth.Selection(truth.threshold_shown(scale, threshold), 1).every(1, 0)
    for at in (0.0, 0.01, 0.3, 2.0):
        exact = max(truth.worst([pairs], at), truth.worst([[(q, p) for p, q in pairs]], at))
        found = delta(ThresholdEvent(scale, threshold, 1), at)
        assert found.lower <= exact * CLOSE
        assert found.upper >= exact / CLOSE
        assert threshold == 1 or found.width <= 1e-9


def test_a_fraction_for_whole_answers_is_read_on_the_cautious_side() -> None:
    """`Laplace(1).event(1.5)` was read as a move by 1; `pure` says 3/2. It may be a move by 1, and is never more "
    "than 3/2."""
    loss = Laplace(1).event(1.5)
    found = epsilon(loss, 0)
    assert found.lower <= 1
    assert pure(loss) <= found.upper <= float(pure(loss)) * CLOSE
    for at in (0.0, 0.4, 1.2):
        assert delta(loss, at).upper >= delta(Laplace(1).event(1), at).upper
        assert delta(loss, at).lower <= delta(Laplace(1).event(1), at).upper
        assert delta(loss, at).upper <= delta(Laplace(1).event(2), at).upper * CLOSE


def test_a_truncated_range_cannot_be_left() -> None:
    """Values within [0, 2] move by 2 at most, whatever the sensitivity says."""
    loss = TruncatedGeometricEvent(Fraction(1), 0, 2, to_sensitivity(5))
    for at in (0.0, 1.0, 3.0):
        assert delta(loss, at).lower <= delta(DiscreteLaplaceEvent(Fraction(1), to_sensitivity(2)), at).upper
        assert delta(loss, at).upper >= delta(DiscreteLaplaceEvent(Fraction(1), to_sensitivity(5)), at).lower
    assert delta(Group(loss, 3), 1).lower <= delta(DiscreteLaplaceEvent(Fraction(1), to_sensitivity(2)), 1).upper


@pytest.mark.parametrize("kind", [DiscreteLaplaceEvent, DiscreteGaussianEvent])
def test_a_group_of_fractional_shifts_moves_by_whole_numbers(
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
    pairs = truth.Choice(Fraction(1), True, 0.0).every(1, 0)
    assert found.lower <= truth.worst([pairs], 0.0) < found.upper
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
    """Continuous Laplace noise about 0 and about `shift`, told only up to bins: what is told then is less."""
    edges = [shift * (k - bins) / bins for k in range(3 * bins + 1)]

    def below(x: float) -> float:
        return exp(x / scale) / 2 if x < 0 else 1 - exp(-x / scale) / 2

    def law(centre: float) -> list[float]:
        marks = [0.0, *(below(edge - centre) for edge in edges), 1.0]
        return [b - a for a, b in pairwise(marks)]

    return law(0.0), law(shift)


@pytest.mark.parametrize("at", [0.0, 0.3, 0.8])
def test_continuous_laplace_noise_covers_every_change_within_its_norms(at: float) -> None:
    """l1 = 3 and linf = 2 on two coordinates: (2, 1) is the longest change, and no shape."""
    loss = LaplaceEvent(Fraction(2), Sensitivity(l0=2, l1=3, linf=2))
    found = delta(loss, at)
    least = 0.0
    for shift in ((2.0, 1.0), (1.5, 1.5), (2.0, 0.5)):
        pairs = [binned_laplace(by, 2.0, 60) for by in shift]
        p, q = (np.multiply.outer(*laws).ravel() for laws in zip(*pairs, strict=True))
        least = max(least, float(np.maximum(0, p - exp(at) * q).sum()))
    assert least <= found.upper
    assert found.lower <= least + 2e-3  # bins tell a little less
