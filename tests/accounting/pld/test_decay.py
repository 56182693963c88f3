"""Bounds on |M| far along the contour, for samples: against |M| itself, and mutants that forget a part of the proof."""

from fractions import Fraction
from functools import cache
from math import exp

import numpy as np
import pytest

from discreet.accounting.pld import Pld
from discreet.accounting.pld.gaussian import GaussianPld
from discreet.accounting.pld.laplace import LaplacePld
from discreet.accounting.pld.sampled import SampledGaussianPld, SampledLaplacePld
from discreet.accounting.pld.without_replacement import OffKinkPld, WithoutReplacementPld

RATES = [Fraction(1, 100), Fraction(7, 10)]
POWERS = (0.01, 0.7, 9.0)


def list_plds() -> list[Pld]:
    found: list[Pld] = []
    for rate in RATES:
        for size in (Fraction(1, 10), Fraction(3)):
            found += [WithoutReplacementPld(GaussianPld(size), rate), WithoutReplacementPld(LaplacePld(size), rate)]
            found.append(OffKinkPld(WithoutReplacementPld(GaussianPld(size), rate), 3))
            for removed in (True, False):
                found += [SampledGaussianPld(size, rate, removed), SampledLaplacePld(size, rate, removed)]
                found.append(SampledLaplacePld(size, rate, removed, ends=False))
    return found


@cache
def list_moduli(pld: Pld, c: float) -> np.ndarray:
    """What |M(c + is)|/M(c) certainly is at least, at each of `S`."""
    return least_modulus(pld, c, S)


def least_modulus(pld: Pld, c: float, s: np.ndarray) -> np.ndarray:
    """What |M(c + is)|/M(c) certainly is at least."""
    base, error = (float(x[0]) for x in pld.cgf(np.array([c])))
    ratio = pld.mgf_ratio(c, base, s)
    return np.asarray((np.exp(ratio.log.real) - ratio.error) * exp(-error))


S = np.concatenate([np.arange(0.0, 60.0, 0.73), np.arange(60.0, 2000.0, 7.3)])


PLDS = list_plds()


@pytest.mark.parametrize("pld", PLDS, ids=repr)
def test_no_modulus_is_above_its_decay_bound(pld: Pld) -> None:
    for c in POWERS:
        known = list_moduli(pld, c)
        for start in (0.5, 7.0, 60.0, 900.0):
            assert known[start <= S].max() <= exp(pld.decay_bound(c, start)) * (1 + 1e-9)


@pytest.mark.parametrize("pld", PLDS, ids=repr)
def test_no_modulus_is_above_its_quick_bounds(pld: Pld) -> None:
    for c in POWERS:
        known = list_moduli(pld, c)
        assert (known[1:] <= np.exp(pld.modulus_bounds(c, S[1:])) * (1 + 1e-9)).all()
        for start in (0.5, 7.0, 60.0, 900.0):
            assert known[start <= S].max() <= exp(pld.quick_decay_bound(c, start)) * (1 + 1e-9)


def test_the_bound_is_of_use() -> None:
    """Samples without an atom decay to nothing, and with atoms to the atoms' share: a bound of 1 would be sound too."""
    assert SampledGaussianPld(Fraction(1), Fraction(1, 10), removed=True).decay_bound(5.0, 2000.0) < -4
    assert SampledLaplacePld(Fraction(1), Fraction(1, 10), removed=True, ends=False).decay_bound(5.0, 2000.0) < -2
    assert -1 < SampledLaplacePld(Fraction(1), Fraction(1, 10), removed=True).decay_bound(5.0, 2000.0) < -0.2
    assert WithoutReplacementPld(GaussianPld(Fraction(1)), Fraction(1, 10)).decay_bound(5.0, 2000.0) < -1
    for s in (100.0, 1000.0):  # the square of a slope's variation over s²
        pld = OffKinkPld(WithoutReplacementPld(GaussianPld(Fraction(1)), Fraction(1, 10)), 3)
        assert pld.decay_bound(5.0, s) < np.log(least_modulus(pld, 5.0, np.array([s])))[0] + np.log(5.0)


@pytest.mark.parametrize("removed", [True, False])
def test_a_mutant_without_the_atoms_is_caught(removed: bool) -> None:
    """The density's variation alone, as if Laplace noise on a sample had no atoms."""
    pld = SampledLaplacePld(Fraction(1), Fraction(1, 10), removed)
    mutant = SampledLaplacePld(Fraction(1), Fraction(1, 10), removed, ends=False)
    known = least_modulus(pld, 5.0, S)
    assert known[S >= 900].max() > exp(mutant.decay_bound(5.0, 900.0))


def test_a_mutant_without_the_kink_is_caught() -> None:
    """Sampling without replacement has an atom at 0 even where the noise has none."""
    known = least_modulus(WithoutReplacementPld(GaussianPld(Fraction(1)), Fraction(1, 10)), 5.0, S)
    mutant = SampledGaussianPld(Fraction(1), Fraction(1, 10), removed=True)
    assert known[S >= 900].max() > exp(mutant.decay_bound(5.0, 900.0))


def test_a_mutant_without_the_jump_is_caught() -> None:
    """A density that is cut off at an end falls as 1/s. A bound that takes only what lies between the ends misses that."""
    pld = SampledLaplacePld(Fraction(1), Fraction(1, 10), removed=True, ends=False)
    known = least_modulus(pld, 0.7, S) * S
    smooth = SampledGaussianPld(Fraction(1), Fraction(1, 10), removed=True)
    assert known[S >= 900].max() > 900 * exp(smooth.decay_bound(0.7, 900.0))


def test_mutants_without_the_kink_between_or_with_its_slope_off_are_caught() -> None:
    """Without the atom's mass between rounds off the kink; with a cube of the slope's variation for its square."""
    rounds = WithoutReplacementPld(GaussianPld(Fraction(1)), Fraction(1, 10))
    pld = OffKinkPld(rounds, 3)
    known = least_modulus(pld, 0.7, S)
    for start in (300.0, 900.0):
        far, bound = known[start <= S].max(), pld.decay_bound(0.7, start)
        assert far <= exp(bound)
        assert far > exp(1.5 * bound)
        (base,) = rounds.cgf(np.array([0.7]))[0]
        (at,) = pld.cgf(np.array([0.7]))[0]
        rest = float(pld._bound_rest(0.7, np.array([start]))[0])
        assert far > exp(3 * base - at) * rest**3
