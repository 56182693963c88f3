"""What all readers of SQL nodes share: how to refuse one, and how to read a constant number."""

import re
from fractions import Fraction

from sqlglot import exp

from discreet.errors import QueryRefused

NUMERAL = re.compile(r"(?=\.?[0-9])[0-9]{0,40}(\.[0-9]{0,40})?(e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)


def make_refusal(node: exp.Expr | None, reason: str, hint: str) -> QueryRefused:
    """What is not in the language, and where."""
    for part in node.walk() if node is not None else ():
        if "line" in part.meta:
            column = part.meta["col"] - (part.meta["end"] - part.meta["start"])
            return QueryRefused(reason, hint, part.meta["line"], column)
    return QueryRefused(reason, hint)


def allow_only(node: exp.Expr, *allowed: str) -> None:
    """Refuse a node that carries any argument besides the allowed ones."""
    for name, value in node.args.items():
        if value not in (None, False, [], "") and name not in allowed:
            raise make_refusal(
                node, f"{node.key.upper()} with {name.rstrip('_').upper()} is not in the language", "leave it out"
            )


def strip_parentheses(node: exp.Expr) -> exp.Expr:
    """What stands inside parentheses."""
    while isinstance(node, exp.Paren):
        allow_only(node, "this")
        node = node.this
    return node


def is_constant(node: exp.Expr) -> bool:
    """Whether it is written as a constant: a number with or without a sign, a text, a truth value."""
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal | exp.Boolean | exp.Cast)


def read_number(node: exp.Expr) -> Fraction:
    """A number as it is written, exactly."""
    allow_only(node, "this", "is_string")
    if not isinstance(node, exp.Literal) or node.is_string or not NUMERAL.fullmatch(node.this):
        raise make_refusal(node, "this is not a number, or a very long one", "write a decimal such as 1.5")
    value = Fraction(node.this)
    if abs(value) > 10**15 or value.denominator > 10**15:
        raise make_refusal(
            node, "this number is too large or too fine", "keep constants below 10^15, with at most 15 decimals"
        )
    return value


def read_signed_number(node: exp.Expr) -> Fraction:
    """A number with or without a sign."""
    if not isinstance(node, exp.Neg):
        return read_number(node)
    allow_only(node, "this")
    return -read_number(node.this)
