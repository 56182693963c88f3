"""What every command shares at the edge: numbers as typed, JSON only where JSON is asked for, tables for people."""

import json
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

from discreet._numbers import parse_rational
from discreet.text import to_printable, to_printable_lines


def parse_number(text: str, name: str) -> Fraction:
    """Exactly the decimal that was typed."""
    return parse_rational(text, name)


def print_json(value: Any) -> None:
    """One JSON document on stdout; infinity is the string "inf"."""
    print(json.dumps(_to_json_value(value)))


def _to_json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(part) for part in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def print_line(text: str) -> None:
    """One line for a person, as it is, with a box for every character that is not to be shown."""
    print(to_printable(text))


def print_data(text: str) -> None:
    """Lines for a program, as they are; in a terminal with a box for every character that is not to be shown."""
    print(to_printable_lines(text) if sys.stdout.isatty() else text, end="")


def print_styled(text: str, style: str = "dim") -> None:
    """The same, folded at the width of the terminal and in a style of rich's."""
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(Text(to_printable(text), style=style))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table for a person: first column left, the others right."""
    from rich.console import Console

    from discreet.formats import make_rich_table

    Console().print(make_rich_table(title, columns, list(rows)))
