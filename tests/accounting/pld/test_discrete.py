"""Lists of atoms have the mass of both distributions, and the gridded transform agrees with plain sums."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import comb, log, log1p

import numpy as np
import pytest
from flint import arb, arb_poly

from discreet.accounting.curve import delta, epsilon
from discreet.accounting.pld import discrete
from discreet.accounting.pld.binomial import build_binomial_pld
from discreet.accounting.pld.discrete import DiscretePld, convolve_lattice, sample_poisson, sum_directly, sum_exponentials
from discreet.accounting.pld.gaussian import DiscreteGaussianPld, gaussian_delta
from discreet.accounting.pld.laplace import DiscreteLaplacePld
from discreet.events import (
    BinomialEvent,
    Claim,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    Subsampled,
    compose,
    repeat,
)
from discreet.units import to_sensitivity

ONE = to_sensitivity(1)


def laplace(scale: Fraction, by: int = 1) -> DiscreteLaplaceEvent:
    return DiscreteLaplaceEvent(scale, to_sensitivity(by))


def test_a_sample_of_binomial_noise_keeps_the_mass_of_both_distributions() -> None:
    """The two distributions are 39 standard deviations apart: distinguished if sampled, else half as likely."""
    event = compose(
        Subsampled(BinomialEvent(10000, to_sensitivity(1950)), Fraction(1, 2)), GaussianEvent(Fraction(1, 3), ONE)
    )
    exact = 0.5 + 0.5 * gaussian_delta(3, Fraction(3 - log1p(-0.5))).upper
    assert exact == pytest.approx(0.73961, abs=5e-6)
    found = delta(event, 3)
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
        case (DiscretePld() as pld, float(low), float(high)):
            return pld, (low + high) / 2
        case ((pld, float(outside)), _):
            return pld, outside
    raise AssertionError(name)


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("removed", [True, False])
def test_a_list_holds_both_distributions(name: str, removed: bool) -> None:
    """P's masses, and Q's, add up to 1 with what is at infinity: of the event and of a sample of it."""
    pld, beyond = masses(name)
    slip = float((np.exp(pld.log_mass) * pld.mass_error).sum())
    assert float(np.exp(pld.log_mass).sum()) + beyond == pytest.approx(1, abs=1e-9 + slip)
    other = np.exp(pld.log_mass - pld.loss)
    wrong = float((other * np.minimum(pld.mass_error + pld.loss_error, 1)).sum())
    assert float(other.sum()) + beyond == pytest.approx(1, abs=1e-9 + 2 * wrong)
    mixed, low, high = sample_poisson(pld, (beyond, beyond), Fraction(1, 3), removed)
    assert float(np.exp(mixed.log_mass).sum()) + (low + high) / 2 == pytest.approx(1, abs=1e-9 + slip + 2 * wrong)


def test_a_window_around_one_distribution_is_noticed() -> None:
    """Mutant: the same list cut to where P has its mass."""
    pld, beyond = masses("binomial 10000, 3334")
    near = pld.log_mass > -400
    assert near.any()
    assert float(np.exp((pld.log_mass - pld.loss)[near]).sum()) + beyond < 0.5


@pytest.mark.parametrize("first", [0, 777])
def test_the_grid_keeps_its_promise(first: int) -> None:
    random = np.random.default_rng(3)
    s = 0.125 * np.arange(first, first + 5000.0)
    at, weight = np.append(random.normal(size=600) * 5, [0.0, -1e-300, -1e-17]), random.random(603)
    found, error = sum_exponentials(s, at, weight)
    slip = 2.0**-50 * s * float((weight * np.abs(at)).sum())
    assert (np.abs(found - sum_directly(s, at, weight)) <= error * weight.sum() + 2 * slip + 1e-12 * weight.sum()).all()
    assert error < 1e-10


@pytest.mark.parametrize("count", [9, 64, 96, 97, 300])
@pytest.mark.parametrize("first", [0, 5000])
def test_few_points_by_products_keep_their_promise(count: int, first: int) -> None:
    """Also with nodes left out, and one with a mutant whose steps are one off."""
    random = np.random.default_rng(count)
    index = np.sort(random.choice(4 * count, count, replace=False)).astype(float)
    index[:2] = -2, -1
    s = 0.125 * (index + first + 2)
    at, weight = random.normal(size=70) * 5, random.random(70)
    found, error = sum_exponentials(s, at, weight)
    slip = 2.0**-50 * s * float((weight * np.abs(at)).sum())
    truth = sum_directly(s, at, weight)
    assert (np.abs(found - truth) <= error * weight.sum() + 2 * slip + 1e-14 * weight.sum()).all()
    assert np.abs(found - sum_directly(s + 0.125, at, weight)).max() > 1e-3


def find_faults(times: int, p: Fraction) -> set[str]:
    """What `convolve_lattice` says of a binomial, with values 3 apart, that is not so."""
    one = DiscretePld.of([2.0, -1.0], [log(p), log(1 - p)], 0.0, 1e-15)
    found = convolve_lattice([(one, times // 3), (one, times - times // 3)])
    assert found is not None
    (pld, omitted), faults = found, set[str]()
    exact = [comb(times, k) * p ** (times - k) * (1 - p) ** k for k in range(times + 1)]
    first = round((2 * times - float(pld.loss[0])) / 3)
    inside = exact[first : first + len(pld.loss)]
    if (np.abs(pld.loss - (2 * times - 3 * (first + np.arange(len(inside))))) > pld.loss_error).any():
        faults.add("loss")
    low, high = (np.exp(pld.log_mass + sign * pld.mass_error) * (1 + sign * 1e-12) for sign in (-1, 1))
    masses = np.array([float(each) for each in inside])
    if (low > masses).any() or (high < masses).any():
        faults.add("mass")
    if sum(exact) - sum(inside) > Fraction(omitted):
        faults.add("omitted")
    return faults


@pytest.mark.parametrize(("times", "p"), [(1, Fraction(1, 3)), (7, Fraction(1, 2)), (2500, Fraction(3, 10))])
def test_sums_on_a_lattice_hold_a_binomial(times: int, p: Fraction) -> None:
    assert find_faults(times, p) == set()


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (lambda one: replace(one, omitted=0.0), "omitted"),
        (lambda one: replace(one, low=one.low * (1 - 1e-9), high=one.high * (1 - 1e-9)), "mass"),
        (lambda one: replace(one, top=one.top + 1e-6), "loss"),
    ],
)
def test_wrong_sums_on_a_lattice_are_noticed(
    wrong: Callable[[discrete._Lattice], discrete._Lattice], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutants."""
    right = discrete._Lattice.add
    monkeypatch.setattr(discrete._Lattice, "add", lambda self, other: wrong(right(self, other)))
    assert find_faults(2500, Fraction(3, 10)) == {fault}


def test_losses_that_are_on_no_lattice_are_left_alone() -> None:
    uneven = DiscretePld.of([2.0, 1.0, -1.5], [log(0.25), log(0.25), log(0.5)])
    other = DiscretePld.of([1.0, -1.0], [log(0.5), log(0.5)])
    assert convolve_lattice([(uneven, 2)]) is None
    assert convolve_lattice([(other, 2), (DiscretePld.of([1.5, -1.0], [log(0.5), log(0.5)]), 1)]) is None


@pytest.mark.parametrize(("sigma", "times"), [("3/10", 100), ("7/20", 150), ("1/4", 400), ("1/2", 100)])
def test_many_narrow_discrete_gaussians_have_the_curve_of_their_sum(sigma: str, times: int) -> None:
    """The sum of all noise is what decides: its distribution by the power of a polynomial with balls for coefficients."""
    width = Fraction(sigma)
    event = repeat(DiscreteGaussianEvent(width, ONE), times)
    found = epsilon(event, 1e-6)
    assert 0 < found.upper - found.lower < 1e-11 * found.upper
    reach = 12  # what is farther has a mass below 1e-120
    square = 2 * arb(width.numerator) ** 2 / arb(width.denominator) ** 2
    weights = [(-(arb(k) ** 2) / square).exp() for k in range(-reach, reach + 1)]
    chances = arb_poly([each / sum(weights, arb(0)) for each in weights]) ** times
    for at, is_low in ((found.lower, True), (found.upper, False)):
        losses = [(times - 2 * (k - reach * times)) / square for k in range(2 * reach * times + 1)]
        above = [(p, loss) for p, loss in zip(chances.coeffs(), losses, strict=True) if loss > at]
        truth = sum((p * (1 - (arb(at) - loss).exp()) for p, loss in above), arb(0))
        assert truth >= arb("1e-6") * (1 - arb("1e-12")) if is_low else truth <= arb("1e-6") * (1 + arb("1e-12"))


@pytest.mark.parametrize("sigma", ["1234/10000", "1255/10000", "1276/10000", "1319/10000"])
@pytest.mark.parametrize("target", [1e-30, 1e-100])
def test_one_narrow_discrete_gaussian_at_a_small_delta(sigma: str, target: float) -> None:
    """δ is far below the rounding of the masses that it is a difference of."""
    width = Fraction(sigma)
    found = epsilon(DiscreteGaussianEvent(width, ONE), target)
    assert 0 < found.upper - found.lower < 1e-9 * found.upper
    square = 2 * arb(width.numerator) ** 2 / arb(width.denominator) ** 2
    weights = {k: (-(arb(k) ** 2) / square).exp() for k in range(-30, 31)}
    total = sum(weights.values(), arb(0))
    for at, is_low in ((found.lower, True), (found.upper, False)):
        losses = {k: (1 - 2 * arb(k)) / square for k in weights}
        truth = sum((weights[k] / total * (1 - (arb(at) - losses[k]).exp()) for k in weights if losses[k] > at), arb(0))
        assert truth >= arb(target) * (1 - arb("1e-9")) if is_low else truth <= arb(target) * (1 + arb("1e-9"))


def test_a_sum_on_a_lattice_is_listed_beside_what_is_not_on_it() -> None:
    """The claim costs no less than half of its ε, and no more than all of it."""
    noise = repeat(DiscreteGaussianEvent(Fraction(39, 100), ONE), 100)
    alone, both = epsilon(noise, 1e-6), epsilon(noise + Claim(Fraction(1, 10), Fraction(0)), 1e-6)
    assert both.upper - both.lower < 1e-9 * both.upper
    assert alone.lower <= both.lower <= both.upper <= alone.upper + 0.1
