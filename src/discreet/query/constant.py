"""Constants that are given in Python, as a question holds them."""

from fractions import Fraction
from typing import Any

from discreet.errors import BadParameter, QuestionRefused
from discreet.exact import from_text, read_decimal
from discreet.query import plan
from discreet.query.edges import LARGEST_CONSTANT
from discreet.query.table import Kind, holds


def constant_of(value: Any) -> plan.Number | plan.Constant:
    """A constant to compare with."""
    if any(holds(kind, value) for kind in Kind if kind is not Kind.INTEGER):
        return plan.Constant(value)
    if value is None:
        raise QuestionRefused("nothing equals a missing value", 'write col("age").is_null()')
    return plan.Number(number_of(value))


def number_of(value: Any) -> Fraction:
    """An exact number. A float means the decimal that it is shown as: 0.1 is one tenth, as in SQL."""
    try:
        exact = from_text(value) if isinstance(value, str) else read_decimal(value)
    except BadParameter:
        raise QuestionRefused(f"{type(value).__name__} is not a finite number here", "give a number such as 1.5") from None
    if abs(exact) > LARGEST_CONSTANT or exact.denominator > LARGEST_CONSTANT:
        raise QuestionRefused("this number is too large or too fine", "keep constants below 10^15, with at most 15 decimals")
    return exact
