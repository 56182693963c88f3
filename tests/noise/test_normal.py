"""Exact normal numbers: all bits of a tiny table in rationals, the table's bounds against Arb, doubles against integers."""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from discreet.noise import gaussian, normal, rounded_gaussian
from discreet.noise.bits import LazyUniform
from discreet.noise.normal import NormalTable, normal_table
from tests.support.distributions import rounded_gaussian_cdf
from tests.support.goodness_of_fit import edges_of, rejects
from tests.support.scripted_bits import Exhausted, NoBits, ScriptedBits

TINY = NormalTable.of(cell_bits=1, index_bits=5, reach=2, choice_bits=9)
DEPTH = 5
LEVELS = 6


@pytest.fixture(autouse=True)
def _precise() -> None:
    ctx.prec = 300


def exact(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def density(x: Fraction) -> arb:
    return (-(exact(x) ** 2) / 2).exp() / (2 * arb.pi()).sqrt()


# -- the bit tree -----------------------------------------------------------------------------------------------------------


def masses(table: NormalTable, sigma: Fraction) -> tuple[dict[int, Fraction], Fraction]:
    """Return the exact probability of all bit strings that lead to each outcome, and of those that decide nothing yet.

    Every index with every prefix of U; every integer that chooses a point of the remainder, with either sign and every
    prefix of U; in the tail every level, with every prefix of U and of V. A point of the remainder counts by its share of
    the area, one part in `parts` of a rectangle; those that are rejected count nothing.
    """
    known: dict[int, Fraction] = defaultdict(Fraction)
    undecided = Fraction(0)
    rectangle = Fraction(1, 1 << table.index_bits)

    def add(mass: Fraction, cell: int, u: LazyUniform, *, signed: bool) -> None:
        nonlocal undecided
        try:
            value = gaussian.round_scaled(cell, u, sigma, table.cell_bits)
        except Exhausted:
            undecided += mass * (1 + signed)
            return
        known[value] += mass
        if signed:
            known[-value] += mass

    prefixes = range(1 << DEPTH)
    for cell in table.entries.tolist():
        for prefix in prefixes:
            add(rectangle / (1 << DEPTH), cell, LazyUniform(NoBits(), prefix, DEPTH), signed=False)
    part = rectangle / table.parts
    tail = table.box_ends[-2]
    for choice in range(tail):
        for prefix in prefixes:
            try:
                point = table.settle(choice, LazyUniform(NoBits(), prefix, DEPTH))
            except Exhausted:
                undecided += 2 * part / (1 << DEPTH)
                continue
            if point is not None:
                add(part / (1 << DEPTH), *point, signed=True)
    size = part * (table.box_ends[-1] - tail)
    for level in range(LEVELS):
        for prefix in prefixes:
            for height in prefixes:
                mass = size / (2 << level) / (1 << 2 * DEPTH)
                try:
                    point = table.settle_tail(
                        level, LazyUniform(NoBits(), prefix, DEPTH), LazyUniform(NoBits(), height, DEPTH)
                    )
                except Exhausted:
                    undecided += 2 * mass
                    continue
                if point is not None:
                    add(mass, *point, signed=True)
    undecided += 2 * size / (1 << LEVELS)
    return known, undecided


def is_exact(table: NormalTable, sigma: Fraction) -> bool:
    """Say whether every outcome's mass is at most its probability, and misses no more of it than what is undecided."""
    known, undecided = masses(table, sigma)
    assert undecided < Fraction(1, 8)

    def below(k: int) -> arb:
        return (1 + (exact(Fraction(2 * k + 1, 2) / sigma) / arb(2).sqrt()).erf()) / 2

    gaps = [below(k) - below(k - 1) - exact(known[k]) for k in range(-6, 7)]
    return all(gap >= 0 and gap <= exact(undecided) for gap in gaps) and sum(known.values()) + undecided >= 1


def test_all_bit_strings_of_a_tiny_table_have_exactly_the_rounded_gaussian() -> None:
    assert is_exact(TINY, Fraction(1))
    assert is_exact(NormalTable.of(cell_bits=0, index_bits=4, reach=1, choice_bits=9), Fraction(4, 3))


def test_a_table_that_is_one_entry_off_is_noticed() -> None:
    """Mutants: one rectangle too many, one too few, one in another cell."""
    cells = TINY.entries.tolist()
    for wrong in ([*cells, 0], cells[1:], [*cells[1:], 0]):
        assert not is_exact(replace(TINY, entries=np.array(wrong)), Fraction(1))


def test_a_missing_tail_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NormalTable, "settle_tail", lambda *_: None)
    assert not is_exact(NormalTable.of(cell_bits=0, index_bits=4, reach=1, choice_bits=9), Fraction(4, 3))


def test_a_remainder_that_starts_above_its_rectangles_is_noticed() -> None:
    assert not is_exact(replace(TINY, offsets=TINY.offsets + TINY.parts // 4), Fraction(1))


# -- the table --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [TINY, normal_table()], ids=["tiny", "real"])
def test_rectangles_fit_under_the_density_and_boxes_reach_above_it(table: NormalTable) -> None:
    width, entries = Fraction(1, 1 << table.cell_bits), 1 << table.index_bits
    sizes = np.diff([0, *table.box_ends]).tolist()
    for j, n in enumerate(table.counts):
        scale = exact(entries * width)
        assert n <= scale * density((j + 1) * width) <= n + 1
        top = sizes[j] + table.parts * n
        assert top >= table.parts * scale * density(j * width) >= top - 2
        assert int(table.offsets[j]) == table.parts * n - sum(sizes[:j])
        assert np.count_nonzero(table.entries == j) == np.count_nonzero(table.entries == -j - 1) == n
    reach = len(table.counts) * width
    assert table.tail_height >= table.parts * exact(entries * width) * density(reach)
    assert sizes[-1] == 2 * table.tail_height / width
    assert table.box_ends[-1] <= 1 << table.choice_bits
    assert table.entries.size + sum(sizes) / table.parts >= entries / 2
    assert reach <= normal.MAX_REACH
    assert ((table.bases[: table.entries.size] + 1) * 16).tolist() == table.entries.tolist()
    assert np.isnan(table.bases[table.entries.size :]).all()
    assert max(abs(table.entries.min()), table.entries.max() + 1) * width < 4  # as the error bound of the rounding assumes


@pytest.mark.parametrize("table", [TINY, normal_table()], ids=["tiny", "real"])
def test_the_guide_names_the_box_of_every_integer_that_it_settles(table: NormalTable) -> None:
    width = 1 << table.choice_bits - table.guide_bits
    assert table.guide.size * width == 1 << table.choice_bits
    for i, box in enumerate(table.guide.tolist()):
        first, last = (bisect_right(table.box_ends, choice) for choice in (i * width, (i + 1) * width - 1))
        assert box == (first if first == last else -1)


def test_a_guide_that_is_one_box_off_is_noticed() -> None:
    wrong = np.where(normal_table().guide > 0, normal_table().guide - 1, -1)
    assert not compare_with_integers(replace(normal_table(), guide=wrong), 1008)


def test_bounds_of_the_density_enclose_it() -> None:
    for x in (Fraction(0), Fraction(1, 3), Fraction(5), Fraction(41, 2), Fraction(200)):
        for precision in (64, 200):
            low, high = normal.density_bounds(x, precision)
            assert low <= density(x) * arb(2) ** precision <= high
            assert high - low < 8


def test_heads_are_counted_across_words() -> None:
    ones = (1 << 64) - 1
    for script, heads in (([0], 0), ([1], 1), ([0b1011], 2), ([ones, 0b110], 64), ([ones, ones, 0b111], 131)):
        assert normal._count_heads(ScriptedBits(script)) == heads


# -- doubles and integers ---------------------------------------------------------------------------------------------------


def near_the_curve(table: NormalTable, tries: int) -> list[int]:
    """Words of points that lie within some hundred parts of the density, where doubles cannot tell on which side."""
    pick = Random(5)
    choices: list[int] = []
    words: list[int] = []
    while len(words) < tries:
        cell, word = pick.randrange(len(table.counts)), pick.getrandbits(64)
        x = (cell + Fraction(word, 1 << 64)) / (1 << table.cell_bits)
        edge = (density(x) * (table.parts << table.index_bits - table.cell_bits)).floor().unique_fmpz()
        choice = int(edge) - int(table.offsets[cell]) + pick.randrange(-200, 200)
        if (table.box_ends[cell - 1] if cell else 0) <= choice < table.box_ends[cell]:
            choices.append(choice << 64 - table.choice_bits | pick.getrandbits(1))
            words.append(word)
    return choices + words


def compare_with_integers(table: NormalTable, tries: int) -> bool:
    script = near_the_curve(table, tries)
    drawn = table.draw_remainder((tries - 8) // 2, ScriptedBits(script))
    accepted = []
    for choice, word in zip(script[:tries], script[tries:], strict=True):
        point = table.settle(choice >> 64 - table.choice_bits, LazyUniform(ScriptedBits([]), word, 64))
        if point is not None:
            accepted.append((bool(choice & 1), point[0], word))
    found = list(zip(drawn.negative.tolist(), drawn.cells.tolist(), drawn.words.tolist(), strict=True))
    return found == accepted[: len(found)] and len(found) == min(len(accepted), (tries - 8) // 2)


def test_doubles_accept_what_integers_accept() -> None:
    assert compare_with_integers(normal_table(), 1008)


def test_without_its_margin_the_density_in_doubles_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal, "DENSITY_MARGIN", 0.0)
    assert not compare_with_integers(normal_table(), 1008)


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(7, 2), Fraction(1 << 20)], ids=float)
def test_a_coarse_table_has_the_same_distribution(sigma: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the draws are in the remainder, one in twenty in the tail; a tail that is left out is noticed."""
    coarse = NormalTable.of(cell_bits=1, index_bits=5, reach=2)
    monkeypatch.setattr(gaussian, "normal_table", lambda: coarse)
    draws = rounded_gaussian(sigma, 40_000)
    assert not rejects(draws, rounded_gaussian_cdf(sigma), edges_of(float(sigma)))
    assert rejects(draws, rounded_gaussian_cdf(sigma * Fraction(11, 10)), edges_of(float(sigma)))
    singly = np.concatenate([rounded_gaussian(sigma, gaussian.MAX_SINGLE_DRAWS) for _ in range(1000)])
    assert not rejects(singly, rounded_gaussian_cdf(sigma), edges_of(float(sigma)))
    monkeypatch.setattr(NormalTable, "settle_tail", lambda *_: None)
    assert rejects(rounded_gaussian(sigma, 10_000), rounded_gaussian_cdf(sigma), edges_of(float(sigma)))
