"""What every command shares at the edge: numbers as typed, JSON only where JSON is asked for, tables for people."""

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

from discreet.exact import from_text


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
