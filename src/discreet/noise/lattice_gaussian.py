"""The discrete Gaussian sampler: P(k) proportional to e^{-k²/2σ²} on the integers.

For a small σ it inverts a table. For a large σ it rejects draws of the rounded Gaussian, whose P(k) is ∫ φ over
[k−½, k+½]. With b = k/σ²,

    P_discrete(k)/P_rounded(k) ∝ 1 / ∫_{-½}^{½} e^{-t²/2σ²}·cosh(bt) dt,

which is largest at k = 0. So k is accepted with probability A(0)/A(k), A(k) being that integral. As cosh(bt) ≤ cosh(b/2),
1 − A(0)/A(k) ≤ 1 − 1/cosh(b/2) ≤ b²/8: at σ > 256 at most one draw in 500,000 needs A. Up to 11σ this is below 2^-12, so the
first bits of the uniform accept all but one draw in 4,096.
"""

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache, partial
from itertools import count as count_from
from math import ceil, factorial, isqrt

import numpy as np

from discreet._numbers import Number
from discreet.noise import fixed
from discreet.noise.bits import (
    BLOCK_SIZE,
    MAX_SCALAR_DRAWS,
    SPAN_SIZE,
    SYSTEM,
    Bits,
    Ints,
    LazyUniform,
    Workspace,
    check_bits,
    draw_array,
    draw_signs,
)
from discreet.noise.gaussian import MAX_SINGLE_DRAWS, fill_rounded
from discreet.noise.laplace import check_sampler_scale
from discreet.noise.table import InversionTable, Weights

MAX_TABLE_SIGMA = 1 << 8
CLOSE_BITS = 12
CLOSE = np.uint16((1 << 16) - (1 << 16 - CLOSE_BITS))
"""The least number of 16 bits of which the first `CLOSE_BITS` are ones."""


def discrete_gaussian(sigma: Number, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers with P(k) proportional to e^{-k²/2σ²}.

    >>> discrete_gaussian(Fraction(1, 100), 3).tolist()
    [0, 0, 0]
    """
    exact, source = check_sampler_scale(sigma, "sigma"), SYSTEM if bits is None else check_bits(bits)
    if exact.numerator > exact.denominator * MAX_TABLE_SIGMA:
        return draw_array(size, partial(_fill_by_rejection, exact), np.int64, source, SPAN_SIZE)
    table = _table(exact)

    def fill(out: Ints, source: Bits, workspace: Workspace) -> None:
        if out.size <= MAX_SCALAR_DRAWS:
            for i, word in enumerate(source.words(out.size).tolist()):
                size = table.draw_one(word, source)
                out[i] = -size if word & 1 else size
            return
        sizes, words = table.draw(out.size, source, workspace)
        np.multiply(sizes, draw_signs(words), out=out)

    return draw_array(size, fill, np.int64, source, BLOCK_SIZE)


@lru_cache(maxsize=32)
def _table(sigma: Fraction) -> InversionTable:
    return InversionTable.of(lambda bits: weights(sigma**2, bits))


def weights(variance: Fraction, bits: int) -> Weights:
    """Return e^{-k²/2σ²}, twice for k ≥ 1, in units of 2^-P, by w_{k+1} = w_k·r_k and r_{k+1} = r_k·q, q = e^{-1/σ²}."""
    last = isqrt(ceil(2 * variance * (bits + 8))) + 2
    precision = bits + 16 + 4 * last.bit_length()
    q, r = (max(0, fixed.exp_neg(x / variance, precision) - 1) for x in (Fraction(1), Fraction(1, 2)))
    w, values = 1 << precision, [1 << precision]
    for _ in range(last):
        w = w * r >> precision
        r = r * q >> precision
        values.append(2 * w)
    # q and r start at most 2 units low, so r_k is at most 3(k + 1) low and w_k at most 2(k + 1)²; each counts twice.
    # What is missing: Σ_{j≥1} w_{K+j} ≤ w_K·Σ e^{-jK/σ²} ≤ w_K·σ²/K.
    lost = 4 * (last + 1) ** 2
    return Weights(values, lost + ceil((values[-1] + lost) * variance / last))


def _fill_by_rejection(sigma: Fraction, out: Ints, source: Bits, workspace: Workspace) -> None:
    fill_rounded(sigma, out, source, workspace)
    rejected = _draw_rejections(out, sigma, source, workspace)
    if rejected:
        again = np.empty(len(rejected), np.int64)
        _fill_by_rejection(sigma, again, source, workspace)
        out[rejected] = again


def _draw_rejections(values: Ints, sigma: Fraction, source: Bits, workspace: Workspace) -> list[int]:
    """Return the positions of the values that are rejected: those with U ≥ A(0)/A(k).

    The first 16 bits of every U are drawn. Unless `CLOSE_BITS` of them are ones, U < 1 − 2^-CLOSE_BITS, and a value with
    b²/8 ≤ 2^-CLOSE_BITS is accepted. The others get the rest of a word w: U < (w + 1)/2^64, so those with
    k²·2^61/σ⁴ ≤ 2^64 − 1 − w are accepted, most of them in doubles, which are off by less than 2^-50 of
    the size of both sides.
    """
    open_words: Iterable[tuple[int, int]]
    if values.size <= MAX_SINGLE_DRAWS:
        open_words = enumerate(source.words(values.size).tolist())
    else:
        coins = workspace.words(-(-values.size // 4), source, "shared").view(np.uint16)[: values.size]
        largest = isqrt(sigma.numerator**4 * 8 >> CLOSE_BITS) // sigma.denominator**2
        close = np.greater_equal(coins, CLOSE, out=workspace.array("close", np.bool_, values.size)).nonzero()[0]
        if max(int(values.max()), -int(values.min())) > largest:
            close = np.union1d(close, (np.abs(values) > largest).nonzero()[0])
        words = source.words(close.size) >> np.uint64(16)
        words |= coins.take(close).astype(np.uint64) << np.uint64(48)
        squares = values.take(close).astype(np.float64) ** 2
        is_open = squares * (float((1 << 61) / sigma**4) * (1 + 2.0**-50)) > (~words).astype(np.float64)
        open_words = zip(close[is_open].tolist(), words[is_open].tolist(), strict=True)
    top, bottom = 8 * sigma.numerator**4, sigma.denominator**4
    rejected = []
    for i, word in open_words:
        k = int(values[i])
        surely_accepted = (k * k * bottom << 64) <= top * ((1 << 64) - 1 - word)
        if not surely_accepted and not accept(LazyUniform(source, word, 64), k, sigma**2):
            rejected.append(i)
    return rejected


def accept(u: LazyUniform, k: int, variance: Fraction) -> bool:
    """Decide exactly whether U < A(0)/A(k)."""
    for terms in count_from(8, 8):
        (top, top_error), (bottom, bottom_error) = (_integral(j, variance, terms) for j in (0, k))
        if bottom > bottom_error:
            if Fraction(u.number + 1, 1 << u.known) <= (top - top_error) / (bottom + bottom_error):
                return True
            if Fraction(u.number, 1 << u.known) >= (top + top_error) / (bottom - bottom_error):
                return False
            u.refine()
    raise AssertionError("unreachable: the intervals shrink to a point")


def _integral(k: int, variance: Fraction, terms: int) -> tuple[Fraction, Fraction]:
    """Return A(k) and a bound on its error, by powers of t: Σ_m c_m/((2m+1)·4^m), c_m = Σ_{i+j=m} (−s)^i/i!·b^{2j}/(2j)!.

    |c_m| ≤ (s + b²)^m/m! since (2j)! ≥ j!, so from m ≥ (s + b²)/2 on the terms at least halve.
    """
    s, b_squared = 1 / (2 * variance), (k / variance) ** 2
    value = sum(
        ((-s) ** i / factorial(i) * b_squared**j / factorial(2 * j) / ((2 * (i + j) + 1) * 4 ** (i + j)))
        for i in range(terms)
        for j in range(terms - i)
    )
    base = (s + b_squared) / 4
    error = 2 * base**terms / factorial(terms) if terms > 2 * base else Fraction(1 << 64)
    return Fraction(value), error
