"""Rationals become doubles and decimals in the direction that the name of the function says."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import inf, nextafter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discreet._numbers import (
    MAX_CONFIDENCE,
    MIN_CONFIDENCE,
    check_confidence,
    check_positive,
    decimal_down,
    decimal_up,
    parse_rational,
    to_rational,
)
from discreet.accounting.currencies import parse_currency
from discreet.errors import BadParameter, QueryRefused
from discreet.query.builder import to_number
from discreet.query.calibrate import read_error
from discreet.query.policy import read_policy

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


HUGE = "1e999999999"
READERS: list[Callable[[], Any]] = [
    lambda: read_error(HUGE),
    lambda: read_error(HUGE + "%"),
    lambda: parse_currency(f"rdp({HUGE})"),
    lambda: to_number(HUGE),
    lambda: to_number(Decimal(HUGE)),
    lambda: to_rational(Decimal(HUGE)),
    lambda: to_rational(Decimal("-1e-999999999")),
    lambda: parse_rational(HUGE),
    lambda: parse_rational("0." + "1" * 10**6),
    lambda: parse_rational("1/0"),
    lambda: check_positive(-(10**5000), "scale"),
    lambda: read_policy(f'table = "t"\nunit = "i"\n[columns.i]\nkind = "integer"\nlower = 0\nupper = {HUGE}'),
    lambda: read_policy(f"max_rows = {'9' * 5000}"),
    lambda: read_policy(f"max_rows = {HUGE}{HUGE[2:]}9999999999"),
]


@pytest.mark.parametrize("read", READERS)
def test_numbers_of_a_billion_digits_are_never_written_out(read: Callable[[], Any]) -> None:
    with pytest.raises((BadParameter, QueryRefused)):
        read()


def test_what_can_be_written_is_read() -> None:
    assert parse_rational(" 1e-300 ") == Fraction(1, 10**300)
    assert parse_rational("3/2") == Fraction(3, 2) == parse_currency("rdp(3/2)").order  # type: ignore[union-attr]
    assert parse_rational(f"0{HUGE[1:]}") == 0
    assert to_rational(Decimal("5e-324")) == Fraction(5, 10**324)
