"""The worst of several changes of integers, against every one of them outcome by outcome.

The truth is summed over a dictionary from Σ v_i·k_i to its mass, one coordinate after another; nothing here knows of
lattices, chords or theta functions.
"""

from fractions import Fraction
from math import exp, fsum

import numpy as np
import pytest

from discreet.accounting.curve import delta, epsilon
from discreet.accounting.dominating_pairs import list_integer_changes
from discreet.accounting.pld import integer_changes
from discreet.accounting.pld.integer_changes import build_worst_change_pld
from discreet.events import DiscreteGaussianEvent, LaplaceEvent, Subsampled, repeat
from discreet.units import Sensitivity, count

Change = tuple[tuple[int, int], ...]


def list_changes(square: int) -> tuple[Change, ...]:
    return tuple(tuple(change) for change in list_integer_changes(Sensitivity(l2_squared=square)))


def sums(sigma: float, change: Change, reach: int) -> dict[int, float]:
    """The masses of Σ v_i·k_i."""
    weights = {k: exp(-k * k / (2 * sigma**2)) for k in range(-reach, reach + 1)}
    norm, found = fsum(weights.values()), {0: 1.0}
    for shift in (shift for shift, many in change for _ in range(many)):
        terms: dict[int, list[float]] = {}
        for s, mass in found.items():
            for k, weight in weights.items():
                terms.setdefault(s + shift * k, []).append(mass * weight / norm)
        found = {s: fsum(some) for s, some in terms.items()}
    return found


def losses(sigma: float, change: Change, reach: int) -> tuple[np.ndarray, np.ndarray]:
    square = sum(many * shift**2 for shift, many in change)
    found = sums(sigma, change, reach)
    return np.array([(square - 2 * s) / (2 * sigma**2) for s in found]), np.array(list(found.values()))


def divergence(loss: np.ndarray, mass: np.ndarray, at: float) -> float:
    """H at e^at, also for at < 0."""
    return fsum((mass * np.maximum(0.0, -np.expm1(np.minimum(700.0, at - loss)))).tolist())


CASES = [(0.6, 2, 6), (0.8, 3, 6), (1.0, 4, 8), (1.0, 9, 8), (2.0, 5, 14), (3.0, 9, 20), (3.0, 4, 24)]


@pytest.mark.parametrize(("sigma", "square", "reach"), CASES)
def test_no_change_is_above_and_one_is_near(sigma, square, reach):
    changes = list_changes(square)
    pld, infinite = build_worst_change_pld(Fraction(sigma), changes)
    single = [losses(sigma, change, reach) for change in changes]
    listed = (pld.loss, np.exp(pld.log_mass))
    points = np.arange(-5, 6) / (2 * sigma**2) * 3
    for at in (*points, 0.37 / sigma, -0.61 / sigma, 2.2 / sigma):
        worst = max(divergence(*one, at) for one in single)
        found = divergence(*listed, at) + infinite
        assert worst <= found * (1 + 1e-9) + 1e-12
        if at in points:  # on the lattice the chords meet the largest of them
            assert found <= worst * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize(("sigma", "square", "reach"), [case for case in CASES if case[1] in (4, 9)])
def test_a_change_that_is_left_out_is_noticed(sigma, square, reach):
    """Mutant: all changes but the one that moves a single coordinate."""
    changes = list_changes(square)
    pld, infinite = build_worst_change_pld(Fraction(sigma), changes[1:])
    left_out = losses(sigma, changes[0], reach)
    assert any(
        divergence(*left_out, at) > (divergence(pld.loss, np.exp(pld.log_mass), at) + infinite) * (1 + 1e-7)
        for at in np.arange(1, 40) / (2 * sigma**2)
    )


def test_the_list_is_its_own_mirror_image():
    pld, infinite = build_worst_change_pld(Fraction(3), list_changes(9))
    masses = np.exp(pld.log_mass)
    assert np.array_equal(pld.loss[::-1], -pld.loss)
    assert np.allclose(masses[::-1], masses * np.exp(-pld.loss), rtol=1e-12, atol=0)
    assert 1 <= masses.sum() + infinite <= 1 + float(pld.mass_error.max())


@pytest.mark.parametrize(
    ("change", "sigma"),
    [
        (((1, 2),), 0.7),
        (((1, 2),), 0.9),
        (((1, 3),), 0.9),
        (((2, 1), (1, 1)), 1.0),
        (((2, 1), (1, 1)), 1.3),
        (((3, 1), (2, 1)), 2.0),
        (((2, 3),), 0.9),
        (((4, 1), (2, 1)), 1.2),
    ],
)
def test_sums_are_as_even_as_stated(change, sigma):
    """τ bounds how far the masses are from those of a Gaussian; mutant: a dual lattice that is twice as wide."""
    found = sums(sigma, change, 12)
    square, divisor = integer_changes._square(change), integer_changes._divisor(change)
    near = range(-6 * divisor, 6 * divisor + 1, divisor)
    ratios = [found[s] * exp(s * s / (2 * sigma**2 * square)) for s in near]
    unevenness = integer_changes._bound_unevenness(sigma, change)
    uneven = (max(ratios) - min(ratios)) / (max(ratios) + min(ratios))
    assert uneven <= unevenness * (1 + 1e-6) + 1e-12
    if change == ((1, 2),):
        assert uneven > integer_changes._bound_unevenness(2 * sigma, change)


def test_both_ways_to_the_masses_agree(monkeypatch):
    for change in list_changes(9):
        wide = integer_changes._list_sums(4.0, change, 400)
        with monkeypatch.context() as patched:
            patched.setattr(integer_changes, "_bound_unevenness", lambda *_: 1.0)
            narrow = integer_changes._list_sums(4.0, change, 400)
        assert np.allclose(wide[0], narrow[0], rtol=1e-10, atol=1e-150)


def test_rounds_chosen_after_the_answers_so_far():
    """Two rounds whose changes an analyst chooses; mutant: the worst two changes of an analyst who does not look."""
    sigma, square, at = 1.5, 9, 12.0
    changes = list_changes(square)
    single = [losses(sigma, change, 14) for change in changes]
    table = {}

    def once(x: float) -> float:
        key = round(x * 2 * sigma**2)
        if key not in table:
            table[key] = max(divergence(*one, x) for one in single)
        return table[key]

    best = max(fsum(p * once(at - loss) for loss, p in zip(*one, strict=True)) for one in single)
    event = repeat(DiscreteGaussianEvent(Fraction(sigma), Sensitivity(l2_squared=square)), 2)
    found = delta(event, at, 1e-6)
    assert found.lower <= best * (1 + 1e-9)
    assert best <= found.upper * (1 + 1e-9)
    fixed = max(
        fsum(p * divergence(*two, at - loss) for loss, p in zip(*one, strict=True)) for one in single for two in single
    )
    assert fixed < best * 0.95


def test_rounds_are_narrow():
    only_l2 = DiscreteGaussianEvent(Fraction(10), Sensitivity(l2_squared=9))
    for event in (
        5 * only_l2,
        50 * only_l2,
        5 * only_l2 + 3 * LaplaceEvent(Fraction(5), count()),
        5 * only_l2 + DiscreteGaussianEvent(Fraction(20), Sensitivity(l2_squared=7)),
        10 * Subsampled(only_l2, Fraction(1, 10)),
    ):
        found = epsilon(event, 1e-6)
        assert found.lower <= found.upper <= found.lower * (1 + 1e-3)


def test_what_would_take_too_long_or_overflow_is_left_to_others():
    assert build_worst_change_pld(Fraction(1, 20), list_changes(9)) is None
    assert build_worst_change_pld(Fraction(10**6), list_changes(9)) is None
    found = epsilon(5 * DiscreteGaussianEvent(Fraction(10**6), Sensitivity(l2_squared=9)), 1e-6)
    assert 0 < found.lower <= found.upper
