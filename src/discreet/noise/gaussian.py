"""The rounded Gaussian, round(N(0, σ²)), by Box–Muller on lazily refined uniforms.

For an integer x, x + round(Z) = round(x + Z): rounding is post-processing of the continuous mechanism, so its whole privacy
curve holds here too, in any dimension and for any direction of change. Only the rounding must be right, and it is exact.

With U uniform on (0, 1) and θ uniform on (−π, π), σ√(−2 ln U)·cos θ and σ√(−2 ln U)·sin θ are two independent N(0, σ²).
Both share U and θ, so a pair that one of them leaves open is refined, never drawn again.

**Proof** of the error bound. u = fl(w)·2^-64 from the 64 bits of U, angle φ = fl(fl(w')·c) from the 64 (signed) bits of θ,
c = fl(π)·2^-63, r = fl(√(−2 ln u)). Keep only r in [MIN_RADIUS, MAX_RADIUS] = [2^-8, 4.5]: then u > 2^-14.7. In units of σ:
    U: conversion (2^-53) and undrawn bits (2^-64/u) move ln u absolutely, np.log by 2^-50·|ln u|; √(−2·) divides by r.
       Where r < 1, u > 0.6: below 2^-52.9/r. Where r ≥ 1: below 2^-52.9/r + 2^-51.5. np.log: 2^-51·r; √: 2^-53·r.
    θ: conversion, c and product lose 3 roundings of at most π, undrawn bits 2^-61: below 2^-49.7; np.cos and np.sin
       2^-50; times r ≤ 4.5: below 2^-46.6.
    products: σ as a double, σ·r, times cos: 3·2^-53·4.5, below 2^-49.
All of it is below MARGIN + INVERSE_MARGIN/r = 1.5·2^-46 + 2^-52/r. A product farther than σ times that from every
half-integer rounds as the true value does. The others, and r outside its range (5e-5 of all), are settled in fixed point.
"""

from fractions import Fraction
from math import isqrt, pi

import numpy as np

from discreet._numbers import Number
from discreet.noise import fixed
from discreet.noise.bits import MAX_SCALAR_DRAWS, SPARE_BITS, SYSTEM, Bits, Ints, LazyUniform, draw_in_chunks, saturate
from discreet.noise.laplace import check_sampler_scale

MIN_RADIUS, MAX_RADIUS = 2.0**-8, 4.5
MARGIN, INVERSE_MARGIN = 1.5 * 2.0**-46, 2.0**-52


def rounded_gaussian(sigma: Number, size: int, bits: Bits | None = None) -> Ints:
    """Draw `size` integers round(N(0, σ²)).

    >>> rounded_gaussian(10, 3).dtype
    dtype('int64')
    """
    exact, source = check_sampler_scale(sigma, "sigma"), SYSTEM if bits is None else bits
    return draw_in_chunks(size, lambda count: _draw_pairs(exact, (count + 1) // 2, source)[:count], np.int64)


def _draw_pairs(sigma: Fraction, count: int, source: Bits) -> Ints:
    """Draw `count` Box–Muller pairs: return all first halves, then all second halves."""
    words = source.words(2 * count)
    radial, angular = words[:count], words[count:]
    if count <= MAX_SCALAR_DRAWS:
        pairs = [settle(LazyUniform(source, int(w), 64), int(a), sigma) for w, a in zip(radial, angular, strict=True)]
        return np.array(pairs, np.int64).reshape(-1)
    r = radial.astype(np.float64)
    r *= 2.0**-64
    np.maximum(r, 2.0**-64, out=r)  # settled below, as every r outside [MIN_RADIUS, MAX_RADIUS]
    np.log(r, out=r)
    r *= -2.0
    np.sqrt(r, out=r)
    unsettled = (r < MIN_RADIUS) | (r > MAX_RADIUS)
    np.maximum(r, MIN_RADIUS, out=r)
    scale = float(sigma)
    slack = np.divide(scale * INVERSE_MARGIN, r)
    r *= scale
    angle = angular.view(np.int64).astype(np.float64)
    angle *= pi * 2.0**-63
    values = np.empty((2, count))
    np.cos(angle, out=values[0])
    np.sin(angle, out=values[1])
    values *= r
    rounded = np.rint(values)
    values -= rounded
    np.abs(values, out=values)
    values += slack
    near = values >= 0.5 - scale * MARGIN
    unsettled |= near[0]
    unsettled |= near[1]
    out = rounded.astype(np.int64)
    for i in unsettled.nonzero()[0]:
        out[:, i] = settle(LazyUniform(source, int(radial[i]), 64), int(angular[i]), sigma)
    return out.reshape(-1)


def settle(u: LazyUniform, angular: int, sigma: Fraction) -> tuple[int, int]:
    """Return (round(σ√(−2 ln U)·cos θ), round(σ√(−2 ln U)·sin θ)), computed in fixed point.

    The two leading bits of θ (in two's complement) are its quadrant; the rest is refined together with U.
    """
    theta = LazyUniform(u.bits, angular & (1 << 62) - 1, 62)
    while not (pair := _try_settle(u, theta, sigma) if u.number else None):
        u.refine()
        theta.refine()
    x, y = pair
    return ((x, y), (-y, x), (-x, -y), (y, -x))[angular >> 62]


def _try_settle(u: LazyUniform, theta: LazyUniform, sigma: Fraction) -> tuple[int, int] | None:
    """Return the pair if the drawn bits determine it. Intervals are in units of 2^-P, rounded outwards."""
    precision = u.known + SPARE_BITS
    e_low, e_high = u.neg_log(precision)
    r_low, r_high = isqrt(2 * e_low << precision), isqrt(2 * e_high << precision) + 1
    # Within its quadrant θ lies in [t, t + w]; cos falls and sin rises, each by at most w; each is computed within 1 unit,
    # of an angle that is 3 units low at worst.
    start = theta.number * (fixed.half_pi(precision) - 1) >> theta.known
    spread = (fixed.half_pi(precision) >> theta.known) + 8
    cosine, sine = fixed.cos_sin(start, precision)
    first = _round_interval(r_low * max(0, cosine - spread), r_high * (cosine + spread), sigma, precision)
    second = _round_interval(r_low * max(0, sine - spread), r_high * (sine + spread), sigma, precision)
    return None if first is None or second is None else (first, second)


def _round_interval(low: int, high: int, sigma: Fraction, precision: int) -> int | None:
    """Return round(σ·x) if it is the same for every x in [low, high]/2^(2P). Ties have probability zero."""
    bottom = sigma.denominator << (2 * precision + 1)
    below, above = ((2 * x * sigma.numerator + (sigma.denominator << 2 * precision)) // bottom for x in (low, high))
    return saturate(below) if below == above else None
