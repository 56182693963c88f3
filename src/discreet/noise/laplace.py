"""Geometric and discrete Laplace samplers: exact, with one logarithm for each draw.

With a = e^{-1/s} and V uniform on (0, 1), ⌊−s·ln V⌋ ≥ k exactly if V ≤ a^k: it is geometric, P(k) = (1−a)·a^k. The
discrete Laplace distribution P(k) = (1−a)/(1+a)·a^|k| has P(|X| ≥ k) = 2a^k/(1+a) for k ≥ 1, so |X| = ⌊s·(κ − ln V)⌋ with
κ = ln(2/(1+a)), and a fair sign. No draw is rejected, and the sign of zero does no harm.

**Proof** of the error bound. Let w be the 63 drawn bits of V, v = fl(w)·2^-63 and t = fl(s·(κ − ln v)), and keep only draws
with v ≥ MIN_UNIFORM = 2^-14, so that −ln v < 9.71. Then, in units of s,
    conversion of w to double              2^-53           (relative in v, so absolute in ln v)
    bits of V not yet drawn                2^-63/v ≤ 2^-49
    np.log, ULPS = 4 units                 9.71·2^-50      < 2^-46.7
    κ in doubles, at most 0.7              8 roundings     < 2^-50
    the difference, the float s and the product: 3 roundings of a number below 10.5
                                           3·10.5·2^-53    < 2^-48
which add up to less than MARGIN = 2^-45. A t farther than s·MARGIN from every integer above 0 has the floor of the true
value (which is never negative). The others, and v < MIN_UNIFORM, are settled in fixed point.

**A wide scale**, above MAX_WHOLE_SCALE = 2^31, would leave too many draws open: a double has too few bits for all of
−s·ln V. There a geometric number is drawn as G = 2^g·H + L with 0 ≤ L < 2^g. As a^G = (a^{2^g})^H·a^L, H and L are
independent, H is geometric with scale s/2^g, and P(L) ∝ e^{-L/s}. H takes a logarithm as above, with s/2^g < 2^HIGH_BITS.
L is a uniform number of g bits that is accepted if U < e^{-L/s}, else drawn again with another U; the other bits of its word
are the first ones of U. Since e^{-L/s} ≥ 1 − L/s > 1 − 2^(1−HIGH_BITS), every U of which the first HIGH_BITS − 1 bits are
not all ones accepts, and the others are compared exactly. A discrete Laplace number is G with a fair sign, where −0 is drawn
again: P(k) ∝ (1−a)/2·a^|k|, at k = 0 as elsewhere.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from math import exp, log
from typing import TypeAlias

import numpy as np

from discreet._numbers import Number, check_positive, format_rational
from discreet.errors import BadParameter
from discreet.noise import fixed
from discreet.noise.bits import (
    INT64_MAX,
    MAX_SCALAR_DRAWS,
    SPARE_BITS,
    SYSTEM,
    Bits,
    Ints,
    LazyUniform,
    Words,
    Workspace,
    check_bits,
    draw_array,
    draw_signs,
    saturate,
)
from discreet.noise.uniform import exp_bounds

MIN_UNIFORM = 2.0**-14
MARGIN = 2.0**-45
MAX_WHOLE_SCALE = 1 << 31
"""Up to this scale, one logarithm gives the whole number: one draw in 8,192 or fewer is left open."""

HIGH_BITS = 24
Shift: TypeAlias = Callable[[int], int]
"""2^P·κ within 1, for any precision P."""

_CLOSE = np.uint64((1 << 64) - (1 << 65 - HIGH_BITS))
"""The least word of which the first HIGH_BITS − 1 bits are ones."""


def check_sampler_scale(scale: Number, name: str = "scale") -> Fraction:
    """Return `scale` as a rational; refuse it unless it lies between 2⁻⁶⁰ and 2⁵⁰, for which the samplers are proven."""
    exact = check_positive(scale, name)
    if exact.numerator << 60 < exact.denominator or exact.numerator > exact.denominator << 50:
        raise BadParameter(name, format_rational(exact), "must lie between 2^-60 and 2^50 grid steps", "change the grid")
    return exact


def geometric(scale: Number, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers from 0, 1, 2, … with P(k) = (1−a)·a^k, a = e^{-1/scale}.

    >>> bool((geometric(2, 1000) >= 0).all())
    True
    """
    s = check_sampler_scale(scale)
    return draw_array(size, partial(fill_geometric, s), np.int64, SYSTEM if bits is None else check_bits(bits))


def discrete_laplace(scale: Number, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers with P(k) = (1−a)/(1+a)·a^|k|, a = e^{-1/scale}.

    >>> discrete_laplace(5, 4).shape
    (4,)
    """
    s = check_sampler_scale(scale)
    return draw_array(size, partial(fill_laplace, s), np.int64, SYSTEM if bits is None else check_bits(bits))


def fill_geometric(s: Fraction, out: Ints, source: Bits, workspace: Workspace) -> None:
    """Fill an array with geometric draws."""
    if out.size <= MAX_SCALAR_DRAWS:
        out[:] = [settle(LazyUniform(source, word >> 1, 63), s, _no_shift) for word in source.words(out.size).tolist()]
    elif s <= MAX_WHOLE_SCALE:
        out[:] = _draw_floors(s, 0.0, _no_shift, out.size, source)[0]
    else:
        out[:] = _draw_wide(s, out.size, source)[0]


def fill_laplace(s: Fraction, out: Ints, source: Bits, workspace: Workspace) -> None:
    """Fill an array with discrete Laplace draws."""
    shift = partial(_kappa, s)
    if out.size <= MAX_SCALAR_DRAWS:
        for i, word in enumerate(source.words(out.size).tolist()):
            floor = settle(LazyUniform(source, word >> 1, 63), s, shift)
            out[i] = -floor if word & 1 else floor
    elif s <= MAX_WHOLE_SCALE:
        kappa = log(2 / (1 + exp(-1 / float(s))))
        sizes, words = _draw_floors(s, kappa, shift, out.size, source)
        np.multiply(sizes, draw_signs(words), out=out)
    else:
        sizes, words = _draw_wide(s, out.size, source)
        signs = draw_signs(words)
        while (again := ((sizes == 0) & (signs < 0)).nonzero()[0]).size:
            sizes[again], words = _draw_wide(s, again.size, source)
            signs[again] = draw_signs(words)
        np.multiply(sizes, signs, out=out)


def _draw_floors(s: Fraction, kappa: float, shift: Shift, count: int, source: Bits) -> tuple[Ints, Words]:
    """Return ⌊s·(κ − ln V)⌋ for `count` fresh V, and the words of which the lowest bit is still unused."""
    words = source.words(count)
    v = (words >> np.uint64(1)).astype(np.float64)
    v *= 2.0**-63
    unsettled = v < MIN_UNIFORM
    np.maximum(v, MIN_UNIFORM, out=v)
    t = np.log(v, out=v)
    np.subtract(kappa, t, out=t)
    t *= float(s)
    error = float(s) * MARGIN
    gap = np.rint(t)
    gap -= t
    np.abs(gap, out=gap)
    unsettled |= (gap <= error) & (t >= 1 - error)
    out = t.astype(np.int64)
    for i in unsettled.nonzero()[0]:
        out[i] = settle(LazyUniform(source, int(words[i]) >> 1, 63), s, shift)
    return out, words


def _draw_wide(s: Fraction, count: int, source: Bits) -> tuple[Ints, Words]:
    """Return `count` geometric numbers of a wide scale, saturated, and words of which the lowest bit is still unused."""
    low_bits = (s.numerator // s.denominator).bit_length() - HIGH_BITS
    high, words = _draw_floors(s / (1 << low_bits), 0.0, _no_shift, count, source)
    beyond = high > INT64_MAX >> low_bits
    high <<= low_bits
    high |= _draw_low_bits(s, low_bits, count, source)
    high[beyond] = INT64_MAX
    return high, words


def _draw_low_bits(s: Fraction, low_bits: int, count: int, source: Bits) -> Ints:
    """Return `count` integers L below 2^low_bits with P(L) ∝ e^{-L/s}."""
    words, mask = source.words(count), (1 << low_bits) - 1
    for i in (words >= _CLOSE).nonzero()[0].tolist():
        word = int(words[i])
        while not accept_low(word & mask, LazyUniform(source, word >> low_bits, 64 - low_bits), s):
            word = int(source.words(1)[0])
        words[i] = word
    words &= np.uint64(mask)
    return words.view(np.int64)


def accept_low(low: int, u: LazyUniform, s: Fraction) -> bool:
    """Decide exactly whether U < e^{-L/s}."""
    return u.is_below(partial(exp_bounds, low / s))


def settle(v: LazyUniform, s: Fraction, shift: Shift) -> int:
    """Return ⌊s·(κ − ln V)⌋ for one lazily refined V, computed in fixed point."""
    while True:
        if v.number:
            precision = v.known + SPARE_BITS
            low, high = v.neg_log(precision)
            kappa, unit = shift(precision), s.denominator << precision
            floor_low = max(0, (low + kappa - 1) * s.numerator // unit)
            if floor_low == max(0, (high + kappa + 1) * s.numerator // unit):
                return saturate(floor_low)
        v.refine()


def _no_shift(precision: int) -> int:
    return 0


def _kappa(s: Fraction, precision: int) -> int:
    """Return 2^P·ln(2/(1+e^{-1/s})) within 1."""
    return _kappa_of_ratio(s.numerator, s.denominator, precision)


@lru_cache(maxsize=64)
def _kappa_of_ratio(top: int, bottom: int, precision: int) -> int:
    """Return κ for s = top/bottom: some hundred units are lost at 40 further bits. (Fractions take microseconds to hash.)"""
    finer = precision + 40
    one_plus_a = (1 << finer) + fixed.exp_neg(Fraction(bottom, top), finer)
    return fixed.round_shift((finer + 1) * fixed.ln2(finer) - fixed.log_int(one_plus_a, finer), 40)
