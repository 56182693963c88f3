"""ln, e^-x and tanh of a rational between two rationals about 2^-128 apart: no float, so no ulp to trust."""

from fractions import Fraction

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


def exp_neg_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """e^-x, x ≥ 0."""
    near = fixed.exp_neg(x, PRECISION)
    return max(0, near - 1) * _UNIT, min(1 << PRECISION, near + 1) * _UNIT


def tanh_half_up(x: Fraction) -> Fraction:
    """tanh(x/2) = (1 − e^-x)/(1 + e^-x), x ≥ 0, rounded up; at most x/2."""
    low, _ = exp_neg_bounds(x)
    return min(x / 2, (1 - low) / (1 + low))
