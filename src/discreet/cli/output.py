"""What every command shares at the edge: numbers as typed, JSON only where JSON is asked for, tables for people."""

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import isfinite
from typing import Any

from discreet.errors import BadParameter

MOST_DIGITS = 300


def number(text: str, name: str) -> Fraction:
    """Exactly the decimal that was typed."""
    try:
        exact = Decimal(text)
        huge = exact.is_finite() and exact != 0 and abs(exact.adjusted()) > MOST_DIGITS
        if not huge:  # 1e999999999 would be written out with that many digits
            return Fraction(exact)
    except (InvalidOperation, ValueError, OverflowError):
        raise BadParameter(name, repr(text), "not a number", "type a decimal such as 0.5 or 1e-6") from None
    raise BadParameter(name, repr(text), f"beyond 1e±{MOST_DIGITS}", "type a number of a size that noise can have")


def print_json(value: Any) -> None:
    """One JSON document on stdout; infinity is the string "inf"."""
    print(json.dumps(_plain(value)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table for a person: first column left, the others right."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=title)
    for i, column in enumerate(columns):
        shown.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        shown.add_row(*row)
    Console().print(shown)
