"""The rounded Gaussian sampler: the fast path against exact integers, where they are most likely to differ, and its tail."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from discreet.noise import gaussian, rounded_gaussian
from discreet.noise.bits import INT64_MAX, LazyUniform, Workspace
from discreet.noise.normal import POSITION_BITS, normal_table
from tests.support.scripted_bits import ConstantBits, ScriptedBits

UNEVEN = Fraction(10**11, 7)  # its double is rounded, and so is every product with it
SCALES = [Fraction(1, 3), Fraction(1), Fraction(1000), Fraction(1 << 30), UNEVEN]
WIDE = [
    Fraction((1 << 34) + 1), Fraction(10**12, 7), Fraction(1 << 38), Fraction(1 << 42), Fraction(10**14, 3),
    Fraction(1 << 50), Fraction(2**59 - 1, 7), Fraction(1 << 57),
]  # fmt: skip


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
        nudge = pick.randrange(-(1 << 5), 1 << 5)
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


# -- wide scales ------------------------------------------------------------------------------------------------------------


def near_halves_of_64_bits(sigma: Fraction, count: int) -> tuple[list[int], list[int]]:
    """Entries of rectangles, and positions of 64 bits in them, where σ·X lies close to a half-integer, at all distances."""
    table, pick = normal_table(), Random(8)
    firsts = {cell: i for i, cell in reversed(list(enumerate(table.entries.tolist())))}
    entries: list[int] = []
    positions: list[int] = []
    while len(entries) < count:
        half = Fraction(2 * pick.randrange(int(-3 * sigma), int(3 * sigma)) + 1, 2)
        place = half / sigma * (1 << table.cell_bits)
        cell = place.numerator // place.denominator
        largest = 62 + table.cell_bits - int(sigma).bit_length()  # bits of a distance of 2^-2 or so
        nudge = pick.choice((-1, 1)) * pick.getrandbits(pick.randrange(1, largest))
        position = int((place - cell) * (1 << 64)) + nudge
        if cell in firsts and 0 <= position < 1 << 64:
            entries.append(firsts[cell])
            positions.append(position)
    return entries, positions


def agrees_with_integers(sigma: Fraction, count: int) -> bool:
    """Compare draws of a wide σ, of which 48 bits of U are in the words and 16 in the shared ones, with exact integers."""
    table = normal_table()
    entries, positions = near_halves_of_64_bits(sigma, count)
    words = [entry << 64 - table.index_bits | position >> 16 for entry, position in zip(entries, positions, strict=True)]
    lanes = np.array(positions, np.uint64).astype(np.uint16).view(np.uint64).tolist()
    fast = np.empty(count, np.int64)
    assert gaussian._fill_rectangles(table, sigma, fast, ScriptedBits([*words, *lanes]), Workspace()).size == 0
    return fast.tolist() == [
        gaussian.round_scaled(table.entries.item(entry), LazyUniform(ConstantBits(), position, 64), sigma, table.cell_bits)
        for entry, position in zip(entries, positions, strict=True)
    ]


@pytest.mark.parametrize("sigma", WIDE, ids=float)
def test_wide_rounded_gaussian_agrees_with_exact(sigma: Fraction) -> None:
    assert agrees_with_integers(sigma, 4000)


@pytest.mark.parametrize("sigma", [Fraction(10**14, 3), Fraction(2**59 - 1, 7)], ids=float)
@pytest.mark.parametrize("share", [0, Fraction(1, 64)])
def test_with_too_small_a_margin_the_wide_path_errs(
    sigma: Fraction, share: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants: an enclosure that is believed without its error bound, and with a small share of it."""
    right = gaussian.WideFactor.of(sigma, normal_table().cell_bits)
    wrong = replace(right, limit=0.5 - float(share) * (0.5 - right.limit - gaussian.FINE_MARGIN))
    monkeypatch.setattr(gaussian.WideFactor, "of", lambda *_: wrong)
    assert not agrees_with_integers(sigma, 8000)


def largest_error(sigma: Fraction, factor: gaussian.WideFactor) -> Fraction:
    """Return how far the distance from an integer is from that of σ·X, at random X of 64 bits in all cells."""
    pick, count = Random(6), 3000
    cells = [pick.randrange(-384, 384) for _ in range(count)]
    positions = [pick.getrandbits(64) for _ in range(count)]
    y = np.array([cell + (u >> 48) / 65536 for cell, u in zip(cells, positions, strict=True)]) / 16
    rest = np.array([u & (1 << 48) - 1 for u in positions]) * 2.0**-52
    values = np.empty(count, np.int64)
    gaps = factor.round(y, rest, np.empty(count), values)
    exact = [sigma / 64 * (cell + Fraction(u, 1 << 64)) for cell, u in zip(cells, positions, strict=True)]
    return max(abs(abs(x - int(value)) - Fraction(gap)) for x, value, gap in zip(exact, values, gaps.tolist(), strict=True))


@pytest.mark.parametrize("sigma", WIDE, ids=float)
def test_the_error_of_two_parts_is_below_its_bound(sigma: Fraction) -> None:
    factor = gaussian.WideFactor.of(sigma, 6)
    assert largest_error(sigma, factor) < Fraction(gaussian.FINE_MARGIN)
    assert factor.high % (1 << factor.shift + 16) == 0
    assert factor.high >> factor.shift + 16 < 1 << 26
    assert abs(factor.high + Fraction(factor.low) - sigma / 64) * 2**53 <= factor.low


def test_a_part_that_is_left_out_is_noticed() -> None:
    """The mutant: σ·h without its last bits, as a single double would have it."""
    sigma = Fraction(2**59 - 1, 7)
    factor = gaussian.WideFactor.of(sigma, 6)
    rounded = replace(factor, low=float(sigma / 64) - factor.high)
    assert largest_error(sigma, rounded) > Fraction(gaussian.FINE_MARGIN)


# -- integers ---------------------------------------------------------------------------------------------------------------


def test_integers_round_exactly_and_refine_what_is_open() -> None:
    """round(σ·X) of an X known to many bits, in rationals; and a U that the first bits leave open takes more, not others."""
    pick = Random(2)
    for sigma in (*SCALES, *WIDE, Fraction(22, 7)):
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
