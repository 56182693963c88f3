"""Rationals become doubles and decimals in the direction that the name of the function says."""

from fractions import Fraction
from math import inf, nextafter

from hypothesis import example, given
from hypothesis import strategies as st

from discreet._numbers import MAX_CONFIDENCE, MIN_CONFIDENCE, check_confidence, decimal_down, decimal_up

BETWEEN = Fraction(1, 10) + Fraction(1, 10**18)
"""Above the decimal 0.1 and below the double 0.1."""


@example(BETWEEN)
@example(-BETWEEN)
@given(st.fractions(-(10**6), 10**6))
def test_the_decimal_that_json_shows_is_on_the_stated_side(exact: Fraction) -> None:
    up, down = decimal_up(exact), decimal_down(exact)
    assert Fraction(repr(down)) <= exact <= Fraction(repr(up))
    assert Fraction(repr(nextafter(up, -inf))) < exact < Fraction(repr(nextafter(down, inf)))


@given(st.fractions(MIN_CONFIDENCE, MAX_CONFIDENCE))
def test_a_confidence_is_never_read_as_a_smaller_one(exact: Fraction) -> None:
    assert Fraction(repr(check_confidence(exact))) >= exact
