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

MIN_UNIFORM = 2.0**-14
MARGIN = 2.0**-45
Shift: TypeAlias = Callable[[int], int]
"""2^P·κ within 1, for any precision P."""


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

    def fill(out: Ints, source: Bits, workspace: Workspace) -> None:
        if out.size <= MAX_SCALAR_DRAWS:
            out[:] = [settle(LazyUniform(source, word >> 1, 63), s, _no_shift) for word in source.words(out.size).tolist()]
        else:
            out[:] = _draw_floors(s, 0.0, _no_shift, out.size, source)[0]

    return draw_array(size, fill, np.int64, SYSTEM if bits is None else check_bits(bits))


def discrete_laplace(scale: Number, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers with P(k) = (1−a)/(1+a)·a^|k|, a = e^{-1/scale}.

    >>> discrete_laplace(5, 4).shape
    (4,)
    """
    s = check_sampler_scale(scale)
    shift = partial(_kappa, s)

    def fill(out: Ints, source: Bits, workspace: Workspace) -> None:
        if out.size <= MAX_SCALAR_DRAWS:
            for i, word in enumerate(source.words(out.size).tolist()):
                floor = settle(LazyUniform(source, word >> 1, 63), s, shift)
                out[i] = -floor if word & 1 else floor
        else:
            kappa = log(2 / (1 + exp(-1 / float(s))))
            sizes, words = _draw_floors(s, kappa, shift, out.size, source)
            np.multiply(sizes, draw_signs(words), out=out)

    return draw_array(size, fill, np.int64, SYSTEM if bits is None else check_bits(bits))


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
