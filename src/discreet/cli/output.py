"""What every command shares at the edge: numbers as typed, JSON only where JSON is asked for, tables for people."""

import json
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

from discreet.exact import from_text
from discreet.text import printable, printable_lines


def number(text: str, name: str) -> Fraction:
    """Exactly the decimal that was typed."""
    return from_text(text, name)


def print_json(value: Any) -> None:
    """One JSON document on stdout; infinity is the string "inf"."""
    print(json.dumps(_plain(value)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def print_line(text: str) -> None:
    """One line for a person, as it is, with a box for every character that is not to be shown."""
    print(printable(text))


def print_data(text: str) -> None:
    """Lines for a program, as they are; in a terminal with a box for every character that is not to be shown."""
    print(printable_lines(text) if sys.stdout.isatty() else text, end="")


def print_styled(text: str, style: str = "dim") -> None:
    """The same, folded at the width of the terminal and in a style of rich's."""
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(Text(printable(text), style=style))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table for a person: first column left, the others right."""
    from rich.console import Console

    from discreet.formats import rich_table

    Console().print(rich_table(title, columns, list(rows)))
