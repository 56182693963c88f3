"""Constants that are given in Python, as a question holds them."""

from fractions import Fraction
from typing import Any

from discreet.errors import BadParameter, QueryRefused
from discreet.exact import parse_rational, read_decimal
from discreet.query import plan
from discreet.query.edges import MAX_CONSTANT
from discreet.query.table import Kind, accepts


def to_constant(value: Any) -> plan.Number | plan.Constant:
    """A constant to compare with."""
    if any(accepts(kind, value) for kind in Kind if kind is not Kind.INTEGER):
        return plan.Constant(value)
    if value is None:
        raise QueryRefused("nothing equals a missing value", 'write col("age").is_null()')
    return plan.Number(to_number(value))


def to_number(value: Any) -> Fraction:
    """An exact number. A float means the decimal that it is shown as: 0.1 is one tenth, as in SQL."""
    try:
        exact = parse_rational(value) if isinstance(value, str) else read_decimal(value)
    except BadParameter:
        raise QueryRefused(f"{type(value).__name__} is not a finite number here", "give a number such as 1.5") from None
    if abs(exact) > MAX_CONSTANT or exact.denominator > MAX_CONSTANT:
        raise QueryRefused("this number is too large or too fine", "keep constants below 10^15, with at most 15 decimals")
    return exact
