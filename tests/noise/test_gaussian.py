"""The rounded Gaussian sampler: the fast path against exact integers, where they are most likely to differ, and its tail."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from discreet.noise import gaussian, rounded_gaussian
from discreet.noise.bits import INT64_MAX, LazyUniform, Workspace
from discreet.noise.normal import POSITION_BITS, normal_table
from tests.support.scripted_bits import ConstantBits, ScriptedBits

UNEVEN = Fraction(10**11, 7)  # its double is rounded, and so is every product with it
SCALES = [Fraction(1, 3), Fraction(1), Fraction(1000), Fraction(1 << 30), UNEVEN, Fraction(1 << 42), Fraction(1 << 50)]


def near_halves(sigma: Fraction, count: int) -> list[int]:
    """Words of rectangles whose σ·X lies within some units of a double's last place of a half-integer."""
    table, pick = normal_table(), Random(8)
    words: list[int] = []
    firsts = {cell: i for i, cell in reversed(list(enumerate(table.entries.tolist())))}
    while len(words) < count:
        half = Fraction(2 * pick.randrange(int(-3 * sigma) - 2, int(3 * sigma) + 2) + 1, 2)
        place = half / sigma * (1 << table.cell_bits)
        cell = place.numerator // place.denominator
        if cell not in firsts:
            place = Fraction(cell := pick.choice(list(firsts)))
        nudge = pick.randrange(-(1 << 5), 1 << 5) if sigma < 1 << 44 else pick.getrandbits(47)
        position = int((place - cell) * (1 << POSITION_BITS)) + nudge
        words.append(firsts[cell] << 64 - table.index_bits | min(max(position, 0), (1 << POSITION_BITS) - 1))
    return words


def in_integers(word: int, sigma: Fraction) -> int:
    table = normal_table()
    u = LazyUniform(ConstantBits(), word & (1 << POSITION_BITS) - 1, POSITION_BITS)
    return gaussian.round_scaled(table.entries.item(word >> 64 - table.index_bits), u, sigma, table.cell_bits)


@pytest.mark.parametrize("sigma", SCALES, ids=float)
def test_fast_rounded_gaussian_agrees_with_exact(sigma: Fraction) -> None:
    words = near_halves(sigma, 4000)
    fast = np.empty(len(words), np.int64)
    assert gaussian._fill_rectangles(normal_table(), sigma, fast, ScriptedBits(words), Workspace()).size == 0
    assert fast.tolist() == [in_integers(word, sigma) for word in words]


@pytest.mark.parametrize("margin", [0.0, 2.0**-52])
def test_with_too_small_a_margin_the_fast_path_errs(margin: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants: doubles without an error bound, and with one that is an eighth of what the proof says."""
    monkeypatch.setattr(gaussian, "MARGIN", margin)
    words = near_halves(UNEVEN, 8000)
    fast = np.empty(len(words), np.int64)
    gaussian._fill_rectangles(normal_table(), UNEVEN, fast, ScriptedBits(words), Workspace())
    assert fast.tolist() != [in_integers(word, UNEVEN) for word in words]


def test_integers_round_exactly_and_refine_what_is_open() -> None:
    """round(σ·X) of an X known to many bits, in rationals; and a U that the first bits leave open takes more, not others."""
    pick = Random(2)
    for sigma in (*SCALES, Fraction(22, 7)):
        for _ in range(200):
            cell, number = pick.randrange(-300, 300), pick.getrandbits(300)
            x = sigma * (cell + Fraction(number, 1 << 300)) / 64
            assert gaussian.round_scaled(cell, LazyUniform(ConstantBits(), number, 300), sigma, 6) == (2 * x + 1) // 2
    for word, value in ((0, 0), ((1 << 64) - 1, 1)):  # X in [31/64, 32/64) times 1.02 passes ½: the next bits say where
        assert gaussian.round_scaled(31, LazyUniform(ScriptedBits([word]), 0, 0), Fraction(51, 50), 6) == value


def test_the_tail_lies_beyond_the_cells_and_saturates() -> None:
    """Scripted bits: the remainder, the box of the tail, level 1, a small V. A draw of 7.5 standard deviations."""
    table = normal_table()
    to_remainder, to_tail = (1 << 64) - 1, (table.box_ends[-1] - 1 << 64 - table.choice_bits) | 1
    for size in (1, gaussian.MAX_SINGLE_DRAWS + 1):
        words = [to_remainder, to_tail, 0, 0b01, 1 << 63, 1 << 40]
        if size > 1:  # all draws at once: the index of each, then all choices and positions
            tries = 2 * size + 8
            words = [to_remainder] * size + [to_tail] * tries + [0] * tries + [0b01, 1 << 63, 1 << 40] * tries
        out = np.empty(size, np.int64)
        gaussian.fill_rounded(Fraction(1000), out, ScriptedBits(words), Workspace())
        assert out.tolist() == [-7500] * size
    out = np.empty(1, np.int64)
    gaussian.fill_rounded(
        Fraction(1 << 62), out, ScriptedBits([to_remainder, to_tail - 1, 0, 0b01, 1 << 63, 1 << 40]), Workspace()
    )
    assert out.tolist() == [INT64_MAX]


def test_one_draw_and_many_have_the_same_first_word() -> None:
    """A draw in a rectangle is the same function of its word, whether in integers or in bulk."""
    words = near_halves(Fraction(1000), 64)
    many = rounded_gaussian(1000, 64, ScriptedBits(words))
    assert many.tolist() == [int(rounded_gaussian(1000, 1, ScriptedBits([word]))[0]) for word in words]
