"""ln, e^x, √ and tanh of a rational, between two rationals about 2^-128 apart: computed in integers, without any double."""

from fractions import Fraction
from functools import lru_cache
from math import floor, log

from discreet._numbers import sqrt_up
from discreet.noise import fixed

PRECISION = 128
_UNIT = Fraction(1, 1 << PRECISION)


def log_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """ln x, x > 0.

    >>> low, high = log_bounds(Fraction(2))
    >>> float(low) <= 0.6931471805599453 <= float(high)
    True
    """
    near = fixed.log_int(x.numerator, PRECISION) - fixed.log_int(x.denominator, PRECISION)
    return (near - 2) * _UNIT, (near + 2) * _UNIT


@lru_cache(maxsize=1 << 12)  # several guarantees of one event need the same powers
def exp_neg_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """e^-x, x ≥ 0."""
    near = fixed.exp_neg(x, PRECISION)
    return max(0, near - 1) * _UNIT, min(1 << PRECISION, near + 1) * _UNIT


def tanh_half_up(x: Fraction) -> Fraction:
    """tanh(x/2) = (1 − e^-x)/(1 + e^-x), x ≥ 0, rounded up; at most x/2."""
    low, _ = exp_neg_bounds(x)
    return min(x / 2, (1 - low) / (1 + low))


LARGEST_EXPONENT = 1 << 17


@lru_cache(maxsize=1 << 12)
def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """e^x with *relative* width about 2^-120, however small e^x is; x at most `LARGEST_EXPONENT`.

    >>> low, high = exp_bounds(Fraction(-700))
    >>> low < high < low * (1 + Fraction(1, 1 << 100))
    True
    """
    if x > LARGEST_EXPONENT:
        raise OverflowError(f"e^x is only taken up to x = {LARGEST_EXPONENT}")
    if x < -LARGEST_EXPONENT:
        return Fraction(0), Fraction(1, 1 << LARGEST_EXPONENT)
    # e^x = 2^k·e^-r with r = k·ln 2 − x between 0.6 and 1.5, so that e^-r keeps its leading bits.
    k = floor(float(x) / log(2)) + 2
    places = PRECISION + k.bit_length()
    near, unit = fixed.ln2(places), Fraction(1, 1 << places)
    r_low, r_high = (k * near - abs(k)) * unit - x, (k * near + abs(k)) * unit - x
    power = Fraction(1 << k) if k >= 0 else Fraction(1, 1 << -k)
    return power * exp_neg_bounds(r_high)[0], power * exp_neg_bounds(r_low)[1]


def sqrt_down(exact: Fraction) -> Fraction:
    """A rational at or just below √exact: x/√x with the root rounded up."""
    return exact / sqrt_up(exact) if exact else Fraction(0)


def round_up_bits(exact: Fraction) -> Fraction:
    """At or just above `exact` > 0, with `PRECISION` leading bits: sums of many such stay short."""
    places = PRECISION + exact.denominator.bit_length() - exact.numerator.bit_length()
    if places <= 0 or exact.denominator.bit_length() <= PRECISION:
        return exact
    return Fraction(-(-(exact.numerator << places) // exact.denominator), 1 << places)


def probability_of_any(delta: Fraction, times: int) -> Fraction:
    """1 − (1 − δ)^times, the probability that at least one of independent events of probability δ happens, rounded up."""
    if delta >= 1 or delta == 0 or times == 0:
        return Fraction(1 if delta and times else 0)
    # (1 − δ)^times in fixed point, rounded down at every product: a few of the last bits are lost, all to the safe side
    places = 2 * PRECISION + delta.denominator.bit_length() - delta.numerator.bit_length() + times.bit_length()
    factor = ((delta.denominator - delta.numerator) << places) // delta.denominator
    power = 1 << places
    for bit in bin(times)[2:]:
        power = power * power >> places
        if bit == "1":
            power = power * factor >> places
    return min(Fraction(1), round_up_bits(Fraction((1 << places) - power, 1 << places)))


def singleton_probability(scale: Fraction, threshold: int) -> Fraction:
    """P(1 + noise ≥ τ) = a^{τ−1}/(1 + a), a = e^{−1/scale}, rounded up; 1 for a threshold below 1, which protects
    nothing."""
    if threshold < 1:
        return Fraction(1)
    low, _ = exp_bounds(-1 / scale)
    return min(Fraction(1), round_up_bits(exp_bounds(Fraction(1 - threshold) / scale)[1] / (1 + low)))
