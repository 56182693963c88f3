"""The reference values of FACTS.md lie in the returned intervals, and the intervals are narrow."""

from fractions import Fraction
from math import inf, log, sqrt

import pytest

from discreet.accounting.contour import bound_epsilon_by_contour
from discreet.accounting.curve import delta, epsilon
from discreet.accounting.dominating_pairs import build_direction
from discreet.accounting.pld.gaussian import gaussian_epsilon
from discreet.accounting.rewrite import list_alternatives
from discreet.errors import BadParameter
from discreet.events import NO_EVENT, Claim, DiscreteGaussianEvent, Event, GaussianEvent, LaplaceEvent, Subsampled, compose
from discreet.units import Sensitivity, to_sensitivity

ONE = to_sensitivity(1)


def gaussian(sigma: float) -> GaussianEvent:
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


@pytest.mark.parametrize(("loss", "at", "low", "high"), CASES)
def test_reference_values_are_inside_narrow_intervals(loss: Event, at: float, low: float, high: float) -> None:
    found = epsilon(loss, at)
    assert found.lower <= high
    assert found.upper >= low
    assert found.width <= 1e-6 * found.upper


def test_the_direction_in_which_a_sampled_person_is_added_costs_less() -> None:
    (choice,) = list_alternatives(SAMPLED)
    low, high = bound_epsilon_by_contour(build_direction(choice, removed=False).parts, 1e-5, 1e-6, (0.0, 0.0))
    assert low <= 5.611508625
    assert high >= 5.611508615
    assert high - low <= 1e-6 * high


@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-8])
def test_the_tolerance_is_met_for_epsilon_and_for_delta(rtol: float) -> None:
    loss = laplace(10) * 200 + gaussian(20)
    by_epsilon = epsilon(loss, 1e-9, rtol)
    assert by_epsilon.width <= rtol * by_epsilon.upper
    by_delta = delta(loss, by_epsilon.upper, rtol)
    assert by_delta.width <= rtol * by_delta.upper
    assert by_delta.lower <= 1e-9


@pytest.mark.parametrize("at", [1e-300, 1e-100, 1e-15, 1e-3, 0.5])
@pytest.mark.parametrize("loss", [laplace(sqrt(30)) * 30, SAMPLED, laplace(1) + response(Fraction(1, 3)) * 40])
def test_no_delta_is_too_small(loss: Event, at: float) -> None:
    found = epsilon(loss, at)
    assert found.upper < inf
    if loss is SAMPLED and at == 1e-100:  # K is too dear so far out: Chernoff's bound, and some ε below it
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


def test_what_is_not_known_is_said() -> None:
    beyond = epsilon(laplace(10) * 10**30, 1e-6)
    assert (beyond.lower, beyond.upper) == (0.0, inf)
    only_l2 = epsilon(LaplaceEvent(Fraction(1), Sensitivity(l2=1)), 1e-6)  # in any number of coordinates
    assert only_l2.lower <= epsilon(laplace(1), 1e-6).upper  # in one
    assert only_l2.upper >= gaussian_epsilon(1, 1e-6).lower  # in n, each by 1/√n: the Gaussian limit
    cut = Subsampled(DiscreteGaussianEvent(Fraction(1), ONE), Fraction(1, 2))
    assert epsilon(cut, 0).upper == inf
    short = epsilon(DiscreteGaussianEvent(Fraction(9), Sensitivity(l2=Fraction(1, 2))), 1e-6)
    assert 0 <= short.lower <= short.upper < 1


def test_a_claim_that_promises_next_to_nothing() -> None:
    weak = Claim(Fraction(1), 1 - Fraction(1, 10**12))
    assert delta(weak, 0).upper == pytest.approx(1)
    assert delta(weak, 2).lower <= 1 - 1e-12 <= delta(weak, 2).upper
