"""Odds: how much likelier a report is under one value than under another, as an exact fraction.

A local mechanism is defined by its odds X = e^ε, because its coins need rational probabilities; ε = ln X is computed from
them and rounded up. `odds_for_epsilon` goes the other way and rounds down, so ε is never exceeded.
"""

from fractions import Fraction
from functools import lru_cache

import msgspec

from discreet._numbers import Number, ceil_float, format_rational, parse_rational, read_decimal, to_rational
from discreet.accounting.elementary import exp_bounds, log_bounds
from discreet.errors import BadParameter

MAX_DENOMINATOR = 1 << 12
"""The largest denominator of chosen odds: ε is met to about 1e-7, and the coins stay small integers."""

MAX_EPSILON = 16


def odds_for_epsilon(epsilon: Number, max_denominator: int = MAX_DENOMINATOR) -> Fraction:
    """Return the largest fraction of small terms that is at most e^ε.

    >>> odds_for_epsilon(1, 100)
    Fraction(106, 39)
    >>> epsilon_of_odds(odds_for_epsilon(1)) <= 1
    True
    """
    exact = read_decimal(epsilon, "epsilon")
    if not 0 < exact <= MAX_EPSILON:
        raise BadParameter("epsilon", format_rational(exact), f"not above 0 and at most {MAX_EPSILON}", "give one between")
    found = floor_fraction(exp_bounds(exact)[0], max_denominator)
    if found <= 1:
        raise BadParameter(
            "epsilon", format_rational(exact), "so small that reports would hold no information", "raise it to 0.001 or more"
        )
    return found


def read_odds(odds: Number) -> Fraction:
    """Check odds that were given as such.

    Raises:
        BadParameter: they are not above 1.
    """
    exact = to_rational(odds, "odds")
    if exact <= 1:
        raise BadParameter("odds", format_rational(exact), "must be above 1: a report has to hold information", "raise them")
    return exact


def make_fields_exact(mechanism: msgspec.Struct) -> None:
    """Turn the rational fields of a new mechanism into fractions. Floats and texts are the decimals that they show.

    Raises:
        BadParameter: a field is no number.
    """
    for name in _list_rational_fields(type(mechanism)):
        value = getattr(mechanism, name)
        if not isinstance(value, Fraction):
            exact = parse_rational(value, name) if isinstance(value, str) else read_decimal(value, name)
            msgspec.structs.force_setattr(mechanism, name, exact)


@lru_cache(maxsize=64)
def _list_rational_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(each.name for each in msgspec.structs.fields(kind) if each.type is Fraction)


def epsilon_of_odds(odds: Fraction) -> float:
    """Return ε = ln X, rounded up.

    >>> round(epsilon_of_odds(Fraction(3)), 6)
    1.098612
    """
    return ceil_float(log_bounds(odds)[1])


def floor_fraction(x: Fraction, max_denominator: int) -> Fraction:
    """Return the largest fraction that is at most x and has at most this denominator.

    >>> floor_fraction(Fraction(271828, 100000), 10)
    Fraction(19, 7)
    """
    near = x.limit_denominator(max_denominator)
    if near <= x:
        return near
    # `near` is the closest fraction, from above: its left neighbour among fractions of such denominators is the answer. For
    # neighbours p/q < near = P/Q, P·q − Q·p = 1, so q is the inverse of P mod Q, raised by multiples of Q.
    top, bottom = near.numerator, near.denominator
    if bottom == 1:
        return Fraction(top * max_denominator - 1, max_denominator)
    inverse = pow(top, -1, bottom)
    denominator = inverse + (max_denominator - inverse) // bottom * bottom
    return Fraction((top * denominator - 1) // bottom, denominator)
