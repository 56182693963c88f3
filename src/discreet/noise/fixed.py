"""Logarithm, exponential and π with known error: assumed of NumPy's doubles, proven in fixed point.

**In doubles.** NumPy chooses its kernels by processor, so the margin is wide: log and exp are taken to be within `ULPS`
units in the last place of the true value of their (double) argument. The kernels measured so far stay within 1; the
tests measure those of this machine against Arb, on random and on hard arguments. +, −, ×, ÷, √, floor and conversions are
IEEE-754 correctly rounded: relative error at most `HALF_ULP`. Every exact sampler depends on these two sentences.

**In fixed point**, for the draws that doubles leave open.

A real x is an integer near x·2^P. Every function below works with GUARD extra bits and cuts them off at the
end; the comment at each loop counts the units lost on the way, and all counts stay below 2^(GUARD−1). So each result
r satisfies |r − 2^P·f(x)| ≤ 1: at most half a unit from the guarded work, and at most half from rounding.
"""

from fractions import Fraction
from functools import lru_cache

ULPS = 4
HALF_ULP = 2.0**-53
FUNCTION_ERROR = ULPS * 2 * HALF_ULP
"""Relative error of NumPy's log and exp: ULPS units of at most 2^-52 each."""

GUARD_BITS = 32
_TABLE_BITS = 7  # log splits [1, 2) into 2^7 parts


def round_shift(value: int, drop: int = GUARD_BITS) -> int:
    """Return `value` without its last `drop` bits, rounded to nearest."""
    return (value + (1 << (drop - 1))) >> drop


def exp_neg(x: Fraction, precision: int) -> int:
    """Return 2^P·e^{-x} for x ≥ 0, within 1."""
    if x > precision:  # e^{-x} < 2^{-P}: zero is within one unit
        return 0
    work = precision + GUARD_BITS
    halvings = int(x).bit_length() + 8
    one, step = 1 << work, (x.numerator << work) // (x.denominator << halvings)  # step/2^work < 2^-8, 1 unit low
    term = total = one
    k = 0
    while term:  # alternating Taylor terms, each cut by under 1 unit; the rest of the series is below 1 unit
        k += 1
        term = (term * step >> work) // k
        total += -term if k & 1 else term
    # `total` = e^{-x/2^h}·2^work is off by e₀ < 3·(work/8 + 2) units. A squaring turns an error e at value y into at
    # most 2ye + 1, and the y's multiply up to about e^{-x} while 2^h ≤ 2^9·max(x, 1), so e₀ grows by at most
    # 2^10·max x·e^{-x/2} < 2^10 in all: e₀·2^10 < 2^31 for every work below 2^20.
    for _ in range(halvings):
        total = total * total >> work
    return round_shift(total)


@lru_cache(maxsize=1024)
def _log_ratio(top: int, bottom: int, work: int) -> int:
    """Return 2^work·ln(top/bottom), low by at most work units, for 1 ≤ top/bottom ≤ 2."""
    return 2 * _atanh(((top - bottom) << work) // (top + bottom), work)


def _atanh(z: int, work: int) -> int:
    """Return z + z³/3 + z⁵/5 + … for 0 ≤ z ≤ 1/3; each of at most work/3 terms is low by under 2 units."""
    square, power, total, k = z * z >> work, z, 0, 1
    while power:
        total += power // k
        power = power * square >> work
        k += 2
    return total


def log_int(n: int, precision: int) -> int:
    """Return 2^P·ln n for an integer n ≥ 1, within 1: ln n = e·ln 2 + ln c + 2·atanh((m−c)/(m+c)), m in [c, c + 2^-7)."""
    work = precision + GUARD_BITS
    exponent = n.bit_length() - 1
    m = n << (work - exponent) if exponent <= work else n >> (exponent - work)  # 1 unit low at worst
    head = m >> (work - _TABLE_BITS)
    c = head << (work - _TABLE_BITS)
    z = ((m - c) << work) // (m + c)
    total = 2 * _atanh(z, work) + _log_ratio(head, 1 << _TABLE_BITS, work)
    return round_shift(total + exponent * _log_ratio(2, 1, work))  # ln 2 is low by ≤ work units: exponent·work < 2^31


@lru_cache(maxsize=64)
def ln2(precision: int) -> int:
    """Return 2^P·ln 2, within 1."""
    return log_int(2, precision)


@lru_cache(maxsize=64)
def half_pi(precision: int) -> int:
    """Return 2^P·π/2, within 1. Machin: π/4 = 4·arctan(1/5) − arctan(1/239)."""
    work = precision + GUARD_BITS
    return round_shift(2 * (4 * _arctan_inverse(5, work) - _arctan_inverse(239, work)))


def _arctan_inverse(n: int, work: int) -> int:
    power, total, k = (1 << work) // n, 0, 1
    while power:  # fewer than work/2 terms, each cut by under 2 units
        total += power // k if k & 2 == 0 else -(power // k)
        power //= n * n
        k += 2
    return total
