"""Which neighbours a rewriting covers: groups of samples, replaced units in samples, partitions chosen after answers."""

from fractions import Fraction
from math import exp, log1p

import numpy as np
import pytest

from discreet.accounting.curve import delta, epsilon
from discreet.accounting.pld.binomial import build_binomial_pld
from discreet.accounting.pld.discrete import DiscretePld, sample_poisson
from discreet.accounting.pld.gaussian import DiscreteGaussianPld, gaussian_delta
from discreet.accounting.pld.laplace import DiscreteLaplacePld
from discreet.accounting.rewrite import GroupShape, rewrite_group
from discreet.events import (
    BinomialEvent,
    Claim,
    DiscreteLaplaceEvent,
    GaussianEvent,
    Parallel,
    RandomizedResponseEvent,
    SampledWithoutReplacement,
    Subsampled,
    compose,
    group,
)
from discreet.units import to_sensitivity

from . import neighbours as truth
from .curve_truth import ball, response
from .facts import EVERY
from .test_without_replacement import adaptive_delta

ONE = to_sensitivity(1)


def laplace(scale: Fraction, by: int = 1) -> DiscreteLaplaceEvent:
    return DiscreteLaplaceEvent(scale, to_sensitivity(by))


def worst_of_two(rate: Fraction, at: float) -> float:
    """The enumerated truth for two units of `laplace(1/5)` sampled at `rate`, and `laplace(4/5)` on everyone."""
    first = truth.Sampled(truth.Noise(ONE, truth.discrete_laplace(Fraction(1, 5))), rate)
    second = truth.Noise(ONE, truth.discrete_laplace(Fraction(4, 5)))
    shapes = [[m.every(i, 2 - i) for m in (first, second)] for i in range(3)]
    return max(truth.worst_fixed(parts, at) for parts in shapes)


def test_group_privacy_of_a_poisson_sample_in_a_composition() -> None:
    """D + x against D + y is a group of two: 0.75844 by enumeration, where all units on one side give 0.73148."""
    rate, at = Fraction(47, 100), 1.18
    exact = worst_of_two(rate, at)
    assert exact == pytest.approx(0.75844, abs=5e-6)
    loss = compose(Subsampled(laplace(Fraction(1, 5)), rate), laplace(Fraction(4, 5)))
    found = delta(group(loss, 2), at)
    assert found.lower <= exact <= found.upper < 0.78
    assert delta(compose(*(group(part, 2) for part, _ in loss.parts)), at).upper >= exact
    mutant = rewrite_group(loss, 2, GroupShape.ONE_SIDED)
    assert delta(mutant, at).upper < exact


def test_a_sample_of_a_replaced_unit_is_read_in_both_directions_at_once() -> None:
    """Beside a sample without replacement neighbours replace a unit, also for a Poisson sample in the same composition."""
    noise, rate = RandomizedResponseEvent(Fraction(9, 10), 2), Fraction(1, 4)
    pair = [((1 - ball(rate)) * b + ball(rate) * a, b) for a, b in response(Fraction(9, 10), 2)]
    exact = adaptive_delta([pair, [(q, p) for p, q in pair]], 6, 0.5)
    mixed = Subsampled(noise, rate) * 5 + SampledWithoutReplacement(noise, rate)
    assert delta(mixed, 0.5).upper >= exact
    assert delta(Subsampled(noise, rate) * 6, 0.5).upper < exact  # the mutant: one direction of add or remove


def test_a_partition_that_is_chosen_after_an_answer() -> None:
    """Which branch a unit is in may depend on the first answer: worse than every branch that is settled beforehand."""
    first, branches = (
        RandomizedResponseEvent(Fraction(3, 4), 2),
        (Claim(Fraction(1), Fraction(0)), Claim(Fraction(0), Fraction(1, 5))),
    )
    pairs = [
        truth.Response(Fraction(3, 4), 2).every(1, 0),
        truth.OneOf(tuple(truth.Private(b.epsilon, b.delta) for b in branches)).every(1, 0),
    ]
    chosen, settled = truth.worst(pairs, 1.0), truth.worst_fixed(pairs, 1.0)
    assert chosen == pytest.approx(0.415, abs=1e-3)
    found = delta(compose(first, Parallel(branches)), 1.0)
    assert found.lower <= settled < chosen <= found.upper
    assert max(delta(compose(first, branch), 1.0).upper for branch in branches) < chosen  # the mutant: branches one by one


def test_a_sample_of_binomial_noise_keeps_the_mass_of_both_laws() -> None:
    """The two laws are 39 standard deviations apart: told apart if sampled, else half as likely."""
    loss = compose(
        Subsampled(BinomialEvent(10000, to_sensitivity(1950)), Fraction(1, 2)), GaussianEvent(Fraction(1, 3), ONE)
    )
    exact = 0.5 + 0.5 * gaussian_delta(3, Fraction(3 - log1p(-0.5))).upper
    assert exact == pytest.approx(0.73961, abs=5e-6)
    found = delta(loss, 3)
    assert found.lower <= exact * (1 + 1e-9)
    assert found.upper >= exact * (1 - 1e-9)


LISTED = {
    **{f"binomial {n}, {r}": build_binomial_pld(n, r) for n in (2, 9, 100, 10**4, 10**6) for r in (1, 2, n // 3 + 1)},
    "very many coins": build_binomial_pld(10**7 + 2, 40_000),
    **{
        f"gaussian {s}, {r}": (DiscreteGaussianPld(s, r).atoms(), r)
        for s in (Fraction(1, 3), Fraction(20))
        for r in (1, 30, 500)
    },
    **{
        f"laplace {s}, {r}": (DiscreteLaplacePld(s, r).atoms(), r)
        for s in (Fraction(1, 9), Fraction(50))
        for r in (1, 7, 900)
    },
}


def masses(name: str) -> tuple[DiscretePld, float]:
    """The list, and what is at infinity or left out."""
    match LISTED[name]:
        case (DiscretePld() as law, float(low), float(high)):
            return law, (low + high) / 2
        case ((law, float(outside)), _):
            return law, outside
    raise AssertionError(name)


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("removed", [True, False])
def test_a_list_holds_both_laws(name: str, removed: bool) -> None:
    """P's masses, and Q's, add up to 1 with what is at infinity: of the release and of a sample of it."""
    law, beyond = masses(name)
    slip = float((np.exp(law.log_mass) * law.mass_error).sum())
    assert float(np.exp(law.log_mass).sum()) + beyond == pytest.approx(1, abs=1e-9 + slip)
    other = np.exp(law.log_mass - law.loss)
    wrong = float((other * np.minimum(law.mass_error + law.loss_error, 1)).sum())
    assert float(other.sum()) + beyond == pytest.approx(1, abs=1e-9 + 2 * wrong)
    mixed, low, high = sample_poisson(law, (beyond, beyond), Fraction(1, 3), removed)
    assert float(np.exp(mixed.log_mass).sum()) + (low + high) / 2 == pytest.approx(1, abs=1e-9 + slip + 2 * wrong)


def test_a_window_around_one_law_is_noticed() -> None:
    """Mutant: the same list cut to where P has its mass."""
    law, beyond = masses("binomial 10000, 3334")
    near = law.log_mass > -400
    assert near.any()
    assert float(np.exp((law.log_mass - law.loss)[near]).sum()) + beyond < 0.5


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("name", EVERY)
def test_a_group_costs_no_less_than_a_replaced_pair(name: str, size: int) -> None:
    """Every group of two or more holds each of its own units alone, and reads at most what one-sided and two-sided give."""
    loss = EVERY[name]
    one, many = epsilon(loss, 1e-3, 1e-3), epsilon(group(loss, size), 1e-3, 1e-3)
    assert one.lower <= many.upper * (1 + 1e-9)
    assert many.lower <= many.upper


def test_a_group_of_a_pure_claim_is_discrete_laplace_noise() -> None:
    """f_ε composed with itself: δ(0) is 1 − e^-ε for two units, not tanh ε as for randomised response of 2ε."""
    eps = Fraction(1)
    found = delta(group(Claim(eps, Fraction(0)), 2), 0)
    assert found.lower <= 1 - exp(-1) <= found.upper
    assert found.width < 1e-9
    chain = truth.Private(eps, Fraction(0)).every(2, 0)
    assert truth.worst([chain], 0.0) == pytest.approx(1 - exp(-1), abs=1e-12)
