"""The discrete Gaussian sampler: P(k) proportional to e^{-k²/2σ²} on the integers.

For a small σ it inverts a table. For a large σ it rejects draws of the rounded Gaussian, whose P(k) is ∫ φ over
[k−½, k+½]. With b = k/σ²,

    P_discrete(k)/P_rounded(k) ∝ 1 / ∫_{-½}^{½} e^{-t²/2σ²}·cosh(bt) dt,

which is largest at k = 0. So k is accepted with probability A(0)/A(k), A(k) being that integral. As cosh(bt) ≤ cosh(b/2),
1 − A(0)/A(k) ≤ 1 − 1/cosh(b/2) ≤ b²/8: at σ ≥ 1000 only about one draw in 10⁷ needs more than a comparison.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import count as count_from
from math import ceil, factorial, isqrt

import numpy as np

from discreet._numbers import Number
from discreet.noise import fixed
from discreet.noise.bits import MAX_SCALAR_DRAWS, SYSTEM, Bits, Ints, LazyUniform, apply_signs, draw_in_chunks
from discreet.noise.gaussian import rounded_gaussian
from discreet.noise.laplace import check_sampler_scale
from discreet.noise.table import InversionTable, Weights
from discreet.noise.uniform import Coins

MAX_TABLE_SIGMA = 1 << 10


def discrete_gaussian(sigma: Number, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers with P(k) proportional to e^{-k²/2σ²}.

    >>> discrete_gaussian(Fraction(1, 100), 3).tolist()
    [0, 0, 0]
    """
    exact, source = check_sampler_scale(sigma, "sigma"), SYSTEM if bits is None else bits
    if exact.numerator <= exact.denominator * MAX_TABLE_SIGMA:
        table = _table(exact)
        return draw_in_chunks(size, lambda count: apply_signs(*table.draw(count, source)), np.int64)
    return draw_in_chunks(size, lambda count: _draw_by_rejection(exact, count, source), np.int64)


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


def _draw_by_rejection(sigma: Fraction, count: int, source: Bits) -> Ints:
    out = rounded_gaussian(sigma, count, source)
    rejected = _draw_rejections(out, sigma, source)
    if rejected.any():
        out[rejected] = _draw_by_rejection(sigma, int(rejected.sum()), source)
    return out


def _draw_rejections(values: Ints, sigma: Fraction, source: Bits) -> Coins:
    """Decide for each value whether it is rejected.

    In doubles the bound b²/8 ≥ 1 − A(0)/A(k) is raised by 2% and by 2^-50 to cover every rounding.
    """
    words = source.words(values.size)
    if values.size <= MAX_SCALAR_DRAWS:
        top, bottom = 8 * sigma.numerator**4, sigma.denominator**4
        drawn = zip(values.tolist(), words.tolist(), strict=True)
        rejected = np.array([(k * k * bottom << 64) > top * ((1 << 64) - 1 - w) for k, w in drawn], np.bool_)
    else:
        bound = values * (1.01 * 2.0**32 / (8**0.5 * float(sigma) ** 2))
        bound *= bound
        bound += words
        rejected = bound >= 2.0**64 - 2.0**14
    for i in rejected.nonzero()[0]:
        rejected[i] = not accept(LazyUniform(source, int(words[i]), 64), int(values[i]), sigma**2)
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
