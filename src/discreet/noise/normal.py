"""Exact standard normal numbers, by the rectangle–wedge–tail method [MMB64] on lazily refined uniforms.

*Theory of operation.* The line is cut into cells of width h = 2^-c. Under the density φ, as much of the area as fits is
filled with rectangles that are a cell wide and have an area of exactly 2^-m each: n_j of them, stacked, in cell j. A table
of 2^m entries has n_j times the cell j. Drawing a number takes one word: its first m bits choose an entry, its last 48 are
the first bits of the position U in the cell, X = (j + U)·h. No function is evaluated and nothing is compared.

The rest of the entries, 1.4%, stand for the *remainder*, the area between the rectangles and φ. It is drawn by
rejection. In cell j ≥ 0 of |X|, the box from the top of the rectangles to a bound on the largest φ in the cell contains the
remainder; the boxes have integer sizes W_j, so that one uniform integer chooses the box and the height Y in it. Beyond the
last cell, at R, the boxes are one unit wide and each is half as high as the one before: φ falls faster. A point (X, Y) is
accepted if it lies below φ, in doubles where an error bound decides it, otherwise in fixed point with more bits of U and Y.
A rejected point is drawn again, an undecided one never.

**Proof** that X is normal. Let A(x) = n_j/(2^m·h) for x in cell j: A ≤ φ, because n_j ≤ 2^m·h·min φ over the cell, with the
minimum rounded down. An entry of a rectangle has probability Σ n_j/2^m = ∫A, and given one, X has density A/∫A. Given the
remainder, with probability 1 − ∫A = ∫(φ − A), the points are uniform in the boxes, which contain all (x, y) with
A(x) ≤ y < φ(x) because the largest φ of a cell, that at its inner end, is rounded up; the accepted ones are uniform between
A and φ, so X has density (φ − A)/∫(φ − A). Together they have φ. In the tail, φ(R + i) ≤ φ(R)·2^-i because φ(x + 1)/φ(x) =
e^{-x − 1/2} ≤ ½ for x ≥ ½. Heights are counted in parts of which G are one rectangle: Y < G·2^m·h·φ(X).

**Proof** of the bound in doubles. x = fl((j + u)·h) with 0 ≤ x ≤ R ≤ MAX_REACH = 6: converting u and adding lose 2^-53 of x
each, and undrawn bits 2^-64·h. So x²/2 ≤ 18 is off by less than 18·6·2^-53 < 2^-46; np.exp loses FUNCTION_ERROR = 2^-50 of
its value, the constant and the product 4·2^-53. Y is converted with an error of 2^-53 and its undrawn bits are less than 1.
A density d in parts is therefore known within d·DENSITY_MARGIN + 2 with DENSITY_MARGIN = 2^-44, twice all of it.
"""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate
from math import isqrt, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from discreet.noise import fixed
from discreet.noise.bits import Bits, Ints, LazyUniform, Words

POSITION_BITS = 48
"""Of the word of a draw: the first bits of U. The table's index are the leading ones."""

GUIDE_BITS = 13
MAX_REACH = 6
DENSITY_MARGIN = 2.0**-44
_TABLE_PRECISION = 160


@dataclass(frozen=True, slots=True)
class Remainder:
    """Draws that no rectangle holds: |X| = (cell + U)·h."""

    negative: NDArray[np.bool_]
    cells: Ints
    words: Words  # the first 64 bits of U
    refined: dict[int, tuple[int, LazyUniform]]  # draws with a U of more bits, or beyond the cells: cell and U


@dataclass(frozen=True, slots=True)
class NormalTable:
    """The rectangles and the boxes of the remainder."""

    cell_bits: int  # h = 2^-cell_bits
    index_bits: int  # m: the table has 2^m entries
    counts: list[int]  # n_j of the cells j = 0, 1, … and, the same, of j = −1, −2, …
    entries: Ints  # the cell of every rectangle; the indices beyond them stand for the remainder
    parts: int  # G
    box_ends: list[int]  # cumulated W_j; the last is that of the tail
    tail_height: int  # of its first box, in parts
    choice_bits: int  # of the integer that chooses a box and a height; those beyond the last box are rejected
    bases: NDArray[np.float64]  # cell/16 − 1 by index, NaN for the remainder
    offsets: Ints  # Y minus the integer that chose it, by box
    ends: Words
    guide_bits: int
    guide: Ints  # the box by the leading bits of the integer that chooses it, −1 where they leave it open

    @classmethod
    def of(cls, cell_bits: int, index_bits: int, reach: int, choice_bits: int = 60) -> "NormalTable":
        """Build the table with cells from −reach to reach."""
        rows = reach << cell_bits
        rise = index_bits - cell_bits
        bounds = _densities(cell_bits, rows + 1)
        counts = [low << rise >> _TABLE_PRECISION for low, _ in bounds[1:]]
        tops = [high << rise for _, high in bounds]
        # Boxes that are G high for every rectangle's height: the largest G for which all of them fit.
        whole = sum(tops) - (sum(counts) << _TABLE_PRECISION) + (tops[-1] << cell_bits + 1)
        parts = ((1 << choice_bits) - rows - (2 << cell_bits)) * (1 << _TABLE_PRECISION) // whole
        heights = [-(-parts * top >> _TABLE_PRECISION) for top in tops]
        sizes = [height - parts * n for height, n in zip(heights, counts, strict=False)]
        box_ends = list(accumulate([*sizes, heights[-1] << cell_bits + 1]))
        assert box_ends[-1] <= 1 << choice_bits
        entries = np.repeat(np.arange(-rows, rows), [*reversed(counts), *counts])
        bases = np.full(1 << index_bits, np.nan)
        bases[: entries.size] = entries / 16 - 1
        starts = [0, *box_ends[:-2]]
        offsets = np.array([parts * n - start for n, start in zip(counts, starts, strict=True)], np.int64)
        ends, guide_bits = np.array(box_ends, np.uint64), min(GUIDE_BITS, choice_bits)
        firsts = np.arange(1 << guide_bits, dtype=np.uint64) << np.uint64(choice_bits - guide_bits)
        lasts = firsts | np.uint64((1 << choice_bits - guide_bits) - 1)
        first, last = (np.searchsorted(ends, choices, "right") for choices in (firsts, lasts))
        return cls(
            cell_bits, index_bits, counts, entries, parts, box_ends, heights[-1], choice_bits,
            bases, offsets, ends, guide_bits, np.where(first == last, first, -1),
        )  # fmt: skip

    def draw_one(self, word: int, source: Bits) -> tuple[bool, int, LazyUniform]:
        """Return the draw of a word: whether to negate it, its cell and its U. The remainder takes more words."""
        index = word >> 64 - self.index_bits
        if index < self.entries.size:
            u = LazyUniform(source, word & (1 << POSITION_BITS) - 1, POSITION_BITS)
            return False, self.entries.item(index), u
        while True:
            choice, word = (int(w) for w in source.words(2))
            point = self.settle(choice >> 64 - self.choice_bits, LazyUniform(source, word, 64))
            if point is not None:
                return bool(choice & 1), *point

    def draw_remainder(self, count: int, source: Bits) -> Remainder:
        """Draw at most `count` numbers of the remainder, and about so many."""
        tries = 2 * count + 8
        words = source.words(2 * tries)
        negative = (words[:tries] & np.uint64(1)).astype(np.bool_)
        choices, words = words[:tries] >> np.uint64(64 - self.choice_bits), words[tries:]
        boxes = self.guide.take((choices >> np.uint64(self.choice_bits - self.guide_bits)).view(np.int64))
        mixed = (boxes < 0).nonzero()[0]
        boxes[mixed] = np.searchsorted(self.ends, choices.take(mixed), "right")
        cells = np.minimum(boxes, len(self.counts) - 1)
        heights = (choices.view(np.int64) + self.offsets.take(cells)).astype(np.float64)
        x = words.astype(np.float64)
        x *= 2.0**-64
        x += cells
        x *= 2.0**-self.cell_bits
        x *= x
        x *= -0.5
        density = np.exp(x, out=x)
        density *= self.parts * 2.0 ** (self.index_bits - self.cell_bits) / sqrt(2 * pi)
        heights -= density
        density *= DENSITY_MARGIN
        density += 2.0
        accepted = heights < -density
        unsettled = (np.abs(heights) <= density) | (boxes == len(self.counts))
        accepted &= boxes < len(self.counts)
        points = {}
        for i in unsettled.nonzero()[0].tolist():
            point = self.settle(int(choices[i]), LazyUniform(source, int(words[i]), 64))
            accepted[i] = point is not None
            if point is not None:
                points[i] = point
        chosen = accepted.nonzero()[0][:count]
        refined = {n: points[i] for n, i in enumerate(chosen.tolist()) if i in points} if points else {}
        return Remainder(negative.take(chosen), cells.take(chosen), words.take(chosen), refined)

    def settle(self, choice: int, u: LazyUniform) -> tuple[int, LazyUniform] | None:
        """Return the cell and U of the point that an integer and a position choose, or None if it is rejected."""
        box = bisect_right(self.box_ends, choice)
        if box == len(self.counts):
            return self.settle_tail(_count_heads(u.bits), LazyUniform(u.bits), LazyUniform(u.bits))
        if box > len(self.counts):
            return None
        y = choice + int(self.offsets[box])
        start, width = Fraction(box, 1 << self.cell_bits), Fraction(1, 1 << self.cell_bits)
        return (box, u) if self._lies_below(start, width, u, Fraction(y), Fraction(1), LazyUniform(u.bits)) else None

    def settle_tail(self, level: int, u: LazyUniform, v: LazyUniform) -> tuple[int, LazyUniform] | None:
        """Do as `settle` for the point (U, V) of a box of the tail."""
        start = (len(self.counts) >> self.cell_bits) + level
        height = Fraction(self.tail_height, 1 << level)
        if not self._lies_below(Fraction(start), Fraction(1), u, Fraction(0), height, v):
            return None
        while u.known < self.cell_bits:
            u.refine()
        rest = u.known - self.cell_bits
        cell = (start << self.cell_bits) + (u.number >> rest)
        return cell, LazyUniform(u.bits, u.number & (1 << rest) - 1, rest)

    def _lies_below(
        self, start: Fraction, width: Fraction, u: LazyUniform, floor: Fraction, height: Fraction, v: LazyUniform
    ) -> bool:
        """Decide exactly whether floor + height·V < G·2^m·h·φ(start + width·U)."""
        scale = self.parts << self.index_bits - self.cell_bits
        while True:
            near, low = start + width * Fraction(u.number, 1 << u.known), floor + height * Fraction(v.number, 1 << v.known)
            far, high = near + width / (1 << u.known), low + height / (1 << v.known)
            precision = 64 + self.choice_bits + max(u.known, v.known)
            if high * (1 << precision) <= scale * density_bounds(far, precision)[0]:
                return True
            if low * (1 << precision) >= scale * density_bounds(near, precision)[1]:
                return False
            u.refine()
            v.refine()


@cache
def normal_table() -> NormalTable:
    """Return the table that the samplers use: 32,768 entries, of which 1.4% stand for the remainder."""
    return NormalTable.of(cell_bits=6, index_bits=15, reach=MAX_REACH)


def density_bounds(x: Fraction, precision: int) -> tuple[int, int]:
    """Bound 2^P·φ(x) = 2^P·e^{-x²/2}/(2·√(π/2)), for x ≥ 0. The root of an integer within 1 is off by less than 2."""
    power = fixed.exp_neg(x * x / 2, precision) << precision
    root = isqrt(fixed.half_pi(2 * precision))
    unit = 1 << precision
    return max(0, (power - unit) // (2 * root + 4)), -(-(power + unit) // (2 * root - 4))


def _densities(cell_bits: int, count: int) -> list[tuple[int, int]]:
    """Do as `density_bounds` for x = 0, h, 2h, …: w_{i+1} = w_i·r_i and r_{i+1} = r_i·q, with q = e^{-h²} and r_0 = √q.

    q and r start at most 2 units low, so r_i is at most 3(i + 1) low and w_i at most 2(i + 1)².
    """
    precision, square = _TABLE_PRECISION, Fraction(1, 1 << 2 * cell_bits)
    q, r = (fixed.exp_neg(x, precision) - 1 for x in (square, square / 2))
    w, root, bounds = 1 << precision, isqrt(fixed.half_pi(2 * precision)), []
    for i in range(count):
        lost = 2 * (i + 1) ** 2
        bounds.append(((w << precision) // (2 * root + 4), -(-(w + lost << precision) // (2 * root - 4))))
        w, r = w * r >> precision, r * q >> precision
    return bounds


def _count_heads(source: Bits) -> int:
    """Return how many fair coins show heads before the first that does not."""
    heads = 0
    while (word := int(source.words(1)[0])) == (1 << 64) - 1:
        heads += 64
    return heads + (word ^ word + 1).bit_length() - 1
