"""Lists in cells: one below and one above the curve of what they stand for, for every kind of noise, and two mutants."""

from collections.abc import Callable
from fractions import Fraction
from math import expm1

import numpy as np
import pytest

from discreet.accounting.pld import Interval, Part
from discreet.accounting.pld import cells as module
from discreet.accounting.pld.binomial import build_binomial_pld
from discreet.accounting.pld.cells import Cells, list_cells
from discreet.accounting.pld.discrete import DiscretePld, convolve
from discreet.accounting.pld.gaussian import DiscreteGaussianPld, GaussianPld, gaussian_delta
from discreet.accounting.pld.laplace import DiscreteLaplacePld, LaplacePld
from discreet.accounting.pld.sampled import SampledGaussianPld, bound_sampled_delta
from discreet.accounting.strategies import DiscreteCurve

EPSILONS = (0.0, 0.013, 0.1, 0.4, 0.77, 1.0, 1.9)

Truth = Callable[[float], Interval]


def gaussian(squared: Fraction) -> Truth:
    mu = Fraction(float(squared) ** 0.5)
    return lambda e: (gaussian_delta(mu, e).lower * (1 - 1e-12), gaussian_delta(mu, e).upper * (1 + 1e-12))


def laplace(epsilon: float) -> Truth:
    return lambda e: (max(0.0, -expm1((e - epsilon) / 2)) * (1 - 1e-12), max(0.0, -expm1((e - epsilon) / 2)) * (1 + 1e-12))


def listed(*parts: tuple[DiscretePld, int]) -> Truth:
    total = convolve(parts, 1 << 18)
    assert total is not None
    return by_list(total)


def by_list(pld: DiscretePld) -> Truth:
    order = np.argsort(-pld.loss, kind="stable")
    curve = DiscreteCurve(DiscretePld(pld.loss[order], pld.log_mass[order], pld.loss_error[order], pld.mass_error[order]))
    return curve.bound_delta


def atoms(pld: DiscreteGaussianPld | DiscreteLaplacePld) -> DiscretePld:
    found = pld.list_outputs(1 << 20) if isinstance(pld, DiscreteGaussianPld) else pld.atoms()
    assert found is not None
    return found[0]


WIDE = DiscreteGaussianPld(Fraction(300), 250)
STEPS = DiscreteLaplacePld(Fraction(2000), 2500)
COINS = build_binomial_pld(10**5, 100)[0]
SMALL = DiscreteLaplacePld(Fraction(3), 5), DiscreteGaussianPld(Fraction(7, 3), 2)
SAMPLE = SampledGaussianPld(Fraction(2), Fraction(1, 5), removed=True)
ADDED = SampledGaussianPld(Fraction(2), Fraction(1, 5), removed=False)
GAUSS, FLAT = GaussianPld(Fraction(9, 10)), LaplacePld(Fraction(3, 2))

CASES: dict[str, tuple[tuple[Part, ...], Truth]] = {
    "Gaussian": (((GAUSS, 1),), gaussian(Fraction(9, 10))),
    "four Gaussians": (((GaussianPld(Fraction(1, 4)), 4),), gaussian(Fraction(1))),
    "Laplace": (((FLAT, 1),), laplace(1.5)),
    "removed from a sample": (((SAMPLE, 1),), lambda e: bound_sampled_delta(SAMPLE, e)),
    "added to a sample": (((ADDED, 1),), lambda e: bound_sampled_delta(ADDED, e)),
    "wide discrete Gaussian": (((WIDE, 1),), by_list(atoms(WIDE))),
    "wide discrete Laplace": (((STEPS, 1),), by_list(atoms(STEPS))),
    "coins": (((COINS, 1),), by_list(COINS)),
    "small lists": (((SMALL[0], 3), (SMALL[1], 2)), listed((atoms(SMALL[0]), 3), (atoms(SMALL[1]), 2))),
}


def lies_between(found: Cells, truth: Truth) -> bool:
    below, above = by_list(found.below), by_list(found.above)
    return all(
        below(e)[0] <= truth(e)[1] and truth(e)[0] <= above(e)[1] + found.omitted and is_near(below(e), above(e))
        for e in EPSILONS
    )


def is_near(low: Interval, high: Interval) -> bool:
    """Otherwise lists that say nothing would do: and a list below that is above another one's would not be noticed."""
    return low[0] <= high[1] <= 1.05 * low[1] + 1e-6


@pytest.mark.parametrize("name", CASES)
def test_the_curve_lies_between_its_lists(name: str) -> None:
    parts, truth = CASES[name]
    found = list_cells(parts)
    assert found is not None
    assert lies_between(found, truth)


@pytest.mark.parametrize("count", [40, 200])
@pytest.mark.parametrize("name", CASES)
def test_few_cells_are_wider_and_as_true(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CELLS", count)
    parts, truth = CASES[name]
    found = list_cells.__wrapped__(parts)
    assert found is not None
    below, above = by_list(found.below), by_list(found.above)
    assert all(below(e)[0] <= truth(e)[1] and truth(e)[0] <= above(e)[1] + found.omitted for e in EPSILONS)


def test_mutants_that_round_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every loss moved to the nearest edge, or to the edge below, as some accountants do; and the two lists exchanged."""
    monkeypatch.setattr(module, "_CELLS", 40)
    pld = atoms(WIDE)
    truth, edges = by_list(pld), np.linspace(-8, 8, 41)
    for nearest in (edges[np.abs(pld.loss[:, None] - edges).argmin(axis=1)], edges[np.searchsorted(edges, pld.loss) - 1]):
        mutant = by_list(DiscretePld.of(nearest, pld.log_mass))
        assert not all(truth(e)[0] <= mutant(e)[1] for e in EPSILONS)
    found = list_cells.__wrapped__(((WIDE, 1),))
    below = by_list(found.above)
    assert not all(below(e)[0] <= truth(e)[1] for e in EPSILONS)


def test_lists_are_a_pair() -> None:
    """Both masses add up to 1: under P, and under Q, which is P·e^{-L}."""
    for parts, _ in CASES.values():
        found = list_cells(parts)
        assert found is not None
        for one in (found.below, found.above):
            for total in (np.exp(one.log_mass).sum(), np.exp(one.log_mass - one.loss).sum()):
                assert abs(total - 1) < 1e-9


def test_what_has_no_lists_is_left_alone() -> None:
    assert list_cells(((GaussianPld(Fraction(10**4)), 1),)) is None
    assert list_cells(((FLAT, 1000),)) is None
    assert list_cells(((DiscreteGaussianPld(Fraction(10**9), 1), 1),)) is None
