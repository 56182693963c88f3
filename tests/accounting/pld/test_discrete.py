"""Lists of atoms have the mass of both distributions, and the gridded transform agrees with plain sums."""

from fractions import Fraction
from math import log1p

import numpy as np
import pytest

from discreet.accounting.curve import delta
from discreet.accounting.pld.binomial import build_binomial_pld
from discreet.accounting.pld.discrete import DiscretePld, sample_poisson, sum_directly, sum_exponentials
from discreet.accounting.pld.gaussian import DiscreteGaussianPld, gaussian_delta
from discreet.accounting.pld.laplace import DiscreteLaplacePld
from discreet.events import (
    BinomialEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    Subsampled,
    compose,
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
