"""The rounded Gaussian, round(N(0, σ²)): an exact normal number, scaled and correctly rounded.

For an integer x, x + round(Z) = round(x + Z): rounding is post-processing of the continuous mechanism, so its whole privacy
curve holds here too, in any dimension and for any direction of change. Only the rounding must be right, and it is exact.

`noise.normal` gives X as a cell j and some bits of a lazily refined U, X = (j + U)·h. Doubles round σ·X in bulk; where the
bound on their error does not decide it, exact integers do, with more bits of the same U: it is refined, never drawn again.

**Proof** of the error bound, in units of σ. A rectangle's word gives w = 1 + u·2^-4 exactly, with the 48 bits u of U, and
the table j/16 − 1; y = fl(w + j/16 − 1) is (j + u)/16 with one rounding, and the undrawn bits of U add less than 2^-52. The
factor fl(16·h·σ) has one rounding, as σ is a correctly rounded rational and 16·h is a power of two; the product t has
another. As |X| < 4 in the cells of rectangles, |t − σ·X| < 3.01·2^-53·4 + 16·h·2^-52 < 2^-49. A draw of the remainder has
x = fl(j + fl(u))·h from 64 bits of U, and two roundings more in σ·x; as |X| ≤ 6, it errs by less than 4.01·2^-53·6 + 2^-64
< 2^-48.4. Both are below MARGIN = 2^-48. The difference of t and the nearest integer is exact, so if it is at most
½ − σ·MARGIN, then t rounds as σ·X does; where σ·MARGIN ≥ ½, no draw is settled so. Adding 1.5·2^52 rounds |t| < 2^51 to an
integer, which is what the last bits of the sum hold.

**A wide σ**, above MAX_WHOLE_SIGMA = 2^34, would leave too many draws open: a double has too few bits for all of σ·X, and
the 48 bits of U are too few as well. There U has 64 bits from the start, 16 of them from words that four draws share, and
σ·X is computed in two parts. Let s = σ·h, y = j + U = y₁ + y₂ with the first 16 bits of U in y₁, and s = a + b, a the
largest multiple of 2^e that leaves b ≥ 0, e ≥ 16, so that a/2^e < 2^26. Then s·y = a·y₁ + (a·y₂ + b·y).

**Proof** of its error bound, for σ ≤ MAX_SIGMA = 2^57. The first part is an integer without error: y₁ is a multiple of
2^-16 with |y₁| ≤ 6/h = 384, so (a/2^e)·(2^16·y₁) is an integer below 2^51 and exact in doubles, and 2^(e − 16) times it is
a·y₁, below 2^60. In the second part y₂ < 2^-16 is exact, with 48 bits. As a ≤ s ≤ 2^51, a·y₂ < 2^35 has one rounding,
2^-18; b < 2^26, so b·y < 2^34.6 has three (b, y, the product), 3.01·2^-18.4; the sum is below 2^35.9, and its rounding below
2^-17.1. That is less than 1.3·2^-16 < FINE_MARGIN = 2^-15; the undrawn bits of U add less than s·2^-64. Rounding the second
part to an integer therefore rounds σ·X, unless it is closer to a half-integer than FINE_MARGIN + s·2^-64.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ldexp
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet._numbers import Number
from discreet.noise.bits import (
    BLOCK_SIZE,
    SPAN_SIZE,
    SYSTEM,
    Bits,
    Ints,
    LazyUniform,
    Workspace,
    check_bits,
    draw_array,
    saturate,
)
from discreet.noise.laplace import check_sampler_scale
from discreet.noise.normal import POSITION_BITS, NormalTable, normal_table

MARGIN = 2.0**-48
FINE_MARGIN = 2.0**-15
MAX_WHOLE_SIGMA = 1 << 34
"""Up to this σ, one double holds σ·X: one draw in 8,192 or fewer is left open."""

MAX_SIGMA = 1 << 57
LEADING_BITS = 16
"""Of U: those in the first part of y, and as many as a wide σ adds to those of a word."""

MAX_SINGLE_DRAWS = 4
"""Up to this many draws are settled in integers at once: it takes less time than a dozen array operations."""

Floats: TypeAlias = NDArray[np.float64]
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = np.float64(_ROUNDER).view(np.int64)
_POSITION_MASK = np.uint64((1 << POSITION_BITS) - 1)
_ONE_BITS = np.float64(1).view(np.uint64)
_LEADING_MASK = np.uint64(((1 << LEADING_BITS) - 1) << POSITION_BITS - LEADING_BITS)
_TRAILING_MASK = np.uint64((1 << POSITION_BITS) - (1 << LEADING_BITS))


def rounded_gaussian(sigma: Number, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers round(N(0, σ²)).

    >>> rounded_gaussian(10, 3).dtype
    dtype('int64')
    """
    exact = check_sampler_scale(sigma, "sigma")
    return draw_array(size, partial(fill_rounded, exact), np.int64, SYSTEM if bits is None else check_bits(bits), SPAN_SIZE)


def fill_rounded(sigma: Fraction, out: Ints, source: Bits, workspace: Workspace) -> None:
    """Fill an array with draws of round(N(0, σ²))."""
    table = normal_table()
    if out.size <= MAX_SINGLE_DRAWS:
        for i, word in enumerate(source.words(out.size).tolist()):
            negative, cell, u = table.draw_one(word, source)
            value = round_scaled(cell, u, sigma, table.cell_bits)
            out[i] = -value if negative else value
        return
    waiting = _fill_rectangles(table, sigma, out, source, workspace)
    while waiting.size:
        waiting = waiting[_fill_remainder(table, sigma, out, waiting, source) :]


@dataclass(frozen=True, slots=True)
class WideFactor:
    """σ·h = a + b for a wide σ: see the proof above."""

    high: int  # a
    low: float  # b
    shift: int  # a is a multiple of 2^(shift + LEADING_BITS)
    limit: float  # a draw no farther than this from an integer is rounded rightly

    @classmethod
    def of(cls, sigma: Fraction, cell_bits: int) -> "WideFactor":
        """Take σ·h apart."""
        width = sigma / (1 << cell_bits)
        whole = width.numerator // width.denominator
        shift = max(0, whole.bit_length() - 26 - LEADING_BITS)
        high = whole >> shift + LEADING_BITS << shift + LEADING_BITS
        return cls(high, float(width - high), shift, 0.5 - FINE_MARGIN - ldexp(float(width), -64))

    def round(self, y: Floats, rest: Floats, spare: Floats, out: Ints) -> Floats:
        """Fill in round(σ·X), and return how far σ·X is from it, all in the given arrays.

        y holds y₁/16 and `rest` 2^12·y₂; NaN stays NaN.
        """
        np.multiply(y, ldexp(self.high, 4 - self.shift), out=spare)
        spare += _ROUNDER
        np.subtract(spare.view(np.int64), _ROUNDER_BITS, out=out)
        out <<= self.shift
        np.multiply(rest, 2.0**-16, out=spare)
        y += spare
        y *= 16 * self.low
        rest *= ldexp(self.high, -12)
        y += rest
        np.add(y, _ROUNDER, out=spare)
        np.subtract(spare.view(np.int64), _ROUNDER_BITS, out=rest.view(np.int64))
        out += rest.view(np.int64)
        spare -= _ROUNDER
        y -= spare
        return np.abs(y, out=y)


def _fill_rectangles(table: NormalTable, sigma: Fraction, out: Ints, source: Bits, workspace: Workspace) -> Ints:
    """Fill in the draws that are in a rectangle, and return the positions of the others."""
    factor, limit = ldexp(float(sigma), 4 - table.cell_bits), 0.5 - float(sigma) * MARGIN
    wide = WideFactor.of(sigma, table.cell_bits) if sigma > MAX_WHOLE_SIGMA else None
    remainder = []
    for start in range(0, out.size, BLOCK_SIZE):
        part = out[start : start + BLOCK_SIZE]
        words = workspace.words(part.size, source)
        index = workspace.array("index", np.uint64, part.size)
        t, spare = (workspace.array(name, np.float64, part.size) for name in ("product", "sum"))
        unsettled = workspace.array("unsettled", np.bool_, part.size)
        np.right_shift(words, np.uint64(64 - table.index_bits), out=index)
        table.bases.take(index.view(np.int64), out=t, mode="clip")  # "raise" would copy; no index is out of range
        if wide is None:
            words &= _POSITION_MASK
            words |= _ONE_BITS
            t += words.view(np.float64)
            t *= factor
            np.add(t, _ROUNDER, out=spare)
            np.subtract(spare.view(np.int64), _ROUNDER_BITS, out=part)
            spare -= _ROUNDER
            t -= spare
            np.abs(t, out=t)
            np.less_equal(t, limit, out=unsettled)  # false for NaN: the remainder
        else:
            more = workspace.words(-(-part.size // 4), source, "shared").view(np.uint16)[: part.size]
            rest = workspace.array("rest", np.uint64, part.size)
            np.bitwise_and(words, _LEADING_MASK, out=rest)
            rest |= _ONE_BITS
            t += rest.view(np.float64)
            np.left_shift(words, np.uint64(LEADING_BITS), out=rest)
            rest &= _TRAILING_MASK
            rest |= _ONE_BITS
            rest |= more
            trailing = rest.view(np.float64)
            trailing -= 1.0
            np.less_equal(wide.round(t, trailing, spare, part), wide.limit, out=unsettled)
        waiting = np.logical_not(unsettled, out=unsettled).nonzero()[0]
        in_rectangle = index.take(waiting) < table.entries.size
        for i in waiting[in_rectangle].tolist():
            u = LazyUniform(source, int(words[i] & _POSITION_MASK), POSITION_BITS)
            if wide is not None:
                u = LazyUniform(source, u.number << LEADING_BITS | int(more[i]), POSITION_BITS + LEADING_BITS)
            part[i] = round_scaled(table.entries.item(int(index[i])), u, sigma, table.cell_bits)
        remainder.append(waiting[~in_rectangle] + start)
    return np.concatenate(remainder)


def _fill_remainder(table: NormalTable, sigma: Fraction, out: Ints, positions: Ints, source: Bits) -> int:
    """Fill in draws of the remainder at the first positions, and return how many there were."""
    drawn = table.draw_remainder(positions.size, source)
    if sigma > MAX_WHOLE_SIGMA:
        wide, values = WideFactor.of(sigma, table.cell_bits), np.empty(drawn.cells.size, np.int64)
        y = (drawn.words >> np.uint64(64 - LEADING_BITS)).astype(np.float64)
        y *= 2.0**-LEADING_BITS
        y += drawn.cells
        y *= 2.0**-4
        rest = (drawn.words & np.uint64((1 << 64 - LEADING_BITS) - 1)).astype(np.float64)
        rest *= 2.0**-52
        unsettled = wide.round(y, rest, np.empty_like(y), values) > wide.limit
    else:
        t = drawn.words.astype(np.float64)
        t *= 2.0**-64
        t += drawn.cells
        t *= ldexp(float(sigma), -table.cell_bits)
        rounded = np.rint(t)
        t -= rounded
        unsettled = np.abs(t, out=t) > 0.5 - float(sigma) * MARGIN
        values = rounded.astype(np.int64)
    for i in {*unsettled.nonzero()[0].tolist(), *drawn.refined}:
        cell, u = drawn.refined.get(i) or (int(drawn.cells[i]), LazyUniform(source, int(drawn.words[i]), 64))
        values[i] = round_scaled(cell, u, sigma, table.cell_bits)
    np.negative(values, out=values, where=drawn.negative)
    out[positions[: values.size]] = values
    return values.size


def round_scaled(cell: int, u: LazyUniform, sigma: Fraction, cell_bits: int) -> int:
    """Return round(σ·(cell + U)·2^-cell_bits), saturated. U gets more bits until they determine it."""
    while True:
        number, unit = (cell << u.known) + u.number, sigma.denominator << u.known + cell_bits
        below, above = ((2 * x * sigma.numerator + unit) // (2 * unit) for x in (number, number + 1))
        if below == above:
            return saturate(below)
        u.refine()
