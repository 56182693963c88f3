"""Where no single pair is both worst and reached, the lower end must be a neighbour that exists."""

from fractions import Fraction
from math import inf, log

import pytest
from flint import arb

from discreet.accounting import compare_guarantees, delta, epsilon
from discreet.accounting.running import RunningTotal
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
    RandomizedResponseEvent,
    Subsampled,
)
from discreet.units import Sensitivity, count

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
def test_whole_answers_move_by_whole_numbers(kind, shift: Fraction) -> None:  # type: ignore[no-untyped-def]
    found = epsilon(kind(Fraction(1), Sensitivity(l0=1, linf=shift)), 1e-5)
    truth = epsilon(kind(Fraction(1), Sensitivity(l0=1, linf=max(1, int(shift)))), 1e-5)
    assert found.lower <= (truth.upper if shift >= 1 else 0)
    assert found.upper >= truth.lower


def test_a_sample_of_what_is_told_apart_for_certain() -> None:
    """With probability ½ the one unit is not sampled, and then nothing tells: δ = ½ at every ε in the removed direction."""
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


@pytest.mark.parametrize("loss", GROUPS, ids=str)
def test_no_reading_lies_below_the_lower_end_of_a_group(loss: Event) -> None:
    found = epsilon(loss, 1e-6)
    for name, value in compare_guarantees(loss, 1e-6).items():
        assert value >= found.lower * (1 - 1e-9), name


def test_a_group_of_a_binomial_on_two_coordinates_by_brute_force() -> None:
    from math import comb

    law = [Fraction(comb(6, k), 64) for k in range(7)]
    zero = [Fraction(0)] * 4
    p = [a * b for a in law + zero for b in law + zero]
    q = [a * b for a in zero + law for b in zero + law]
    truth = hockey_stick(p, q, 5.9)
    found = delta(Group(BinomialEvent(6, Sensitivity(l0=2, linf=2)), 2), 5.9)
    assert found.lower <= truth + 1e-12
    assert found.upper >= truth - 1e-12


@pytest.mark.parametrize("k", [10**5, 10**10, 10**12])
def test_a_smoothing_too_wide_for_its_lemma_gives_no_lower_end(k: int) -> None:
    """κ = √2·e^{-μ²/8} − 1 must be positive; where it was not, the lower end used to exceed the truth."""
    loss = RandomizedResponseEvent(Fraction(9, 10), 5) * k
    middle = 0.875 * k * log(36)  # the mean of the loss: about half of it lies above
    for tolerance in (1e-6, 0.1):
        found = delta(loss, middle, rtol=tolerance)
        assert found.lower <= 0.5 + 2 / k**0.5
        assert found.upper >= 0.5 - 2 / k**0.5


ODD: list[Event] = [
    Claim(Fraction(10**309), Fraction(0)),
    Claim(Fraction(10**310), Fraction(0)) * 2,
    Claim(Fraction(10**308), Fraction(0)) * 2 + LAPLACE,
    DiscreteGaussianEvent(Fraction(1, 10**154), count()),
    DiscreteLaplaceEvent(Fraction(1, 10**309), count()),
    LaplaceEvent(Fraction(1, 10**300), count()),
    GaussianEvent(Fraction(1, 10**200), count()) + LAPLACE,
]


@pytest.mark.parametrize("loss", ODD, ids=lambda loss: str(loss)[:40])
def test_ratios_past_the_doubles_never_read_as_free(loss: Event) -> None:
    """An overflow is not a zero: whatever cannot be computed is ∞ from above."""
    assert epsilon(loss, 1e-6).upper > 100
    assert delta(loss, 1).upper > 0.6


def test_the_running_total_charges_one_branch_not_all() -> None:
    branches = Parallel((GAUSSIAN, LAPLACE, RandomizedResponseEvent(Fraction(3, 4), 2)))
    total = RunningTotal.for_delta(1e-6)
    for _ in range(3):
        total = total.append(branches)
    found, worst = total.epsilon(), epsilon(GAUSSIAN * 3, 1e-6)
    assert found.lower <= epsilon(branches * 3, 1e-6).upper
    assert worst.lower * (1 - 1e-6) <= found.upper < inf
