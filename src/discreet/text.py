"""Text from data and users, made safe to show in a terminal, a page or a picture.

Group keys, column names and messages of engines may hold escape sequences that clear a screen, characters that reverse the
direction of writing, or line ends that forge a line. Every text that a person sees passes through here; data that goes to a
program (CSV, JSON, frames) stays as it is.
"""

import json
import re
from typing import Any
from unicodedata import category

BOX = "□"
"""Replaces one character that is not shown: controls (C0, C1, ESC, line ends), invisible and bidirectional formatting,
unpaired surrogates, private and unassigned characters."""

MARKDOWN_ESCAPES = str.maketrans({sign: f"\\{sign}" for sign in r"\`*_[]<>|~&$"})
FORMULA_SIGNS = "=+-@＝＋－＠\t\r\n'"
"""And the apostrophe itself, so that a text that had one differs from a text that got one."""


def to_printable(text: str) -> str:
    """Return the text on one line, with a box for every character that must not be shown.

    >>> to_printable("sales \\x1b[2J\\n\\u202egnp.exe")
    'sales □[2J□□gnp.exe'
    """
    return text if text.isprintable() else "".join(each if _is_printable(each) else BOX for each in text)


def to_printable_lines(text: str) -> str:
    """Do the same for each line of a text whose line ends are discreet's own."""
    return "\n".join(map(to_printable, text.split("\n")))


def escape_markdown(text: str) -> str:
    """Escape a text so that Markdown shows it literally.

    >>> print(escape_markdown("a|b <script> *x*"))
    a\\|b \\<script\\> \\*x\\*
    """
    return to_printable(text).translate(MARKDOWN_ESCAPES)


def parse_json(text: str) -> Any:
    """Parse JSON in which no object names a key twice: readers differ in which of the two they take.

    >>> parse_json('{"a": 1}')
    {'a': 1}

    Raises:
        ValueError: it is not JSON, or names a key twice.
    """
    return json.loads(text, object_pairs_hook=_make_object)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object names a key twice")
    return made


def is_escaped_markdown(text: str) -> bool:
    """Return whether a text is what `escape_markdown` writes: nothing in it is markup, and all of it can be seen.

    >>> is_escaped_markdown(escape_markdown("<!-- a_b")), is_escaped_markdown("<!-- a_b")
    (True, False)
    """
    return escape_markdown(re.sub(r"\\([\\`*_\[\]<>|~&$])", r"\1", text)) == text


def format_markdown_code(text: str) -> str:
    """Format a text as inline code of Markdown, whatever backticks it holds; in a table, bars must still be escaped.

    >>> print(format_markdown_code("n"), format_markdown_code("a`b"), format_markdown_code("`"))
    `n` ``a`b`` `` ` ``
    """
    printable = to_printable(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", printable)), default=0))
    space = " " if printable[:1] == "`" or printable[-1:] == "`" else ""
    return f"{ticks}{space}{printable}{space}{ticks}"


def escape_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula, or that begins with an apostrophe.

    >>> escape_formula("=cmd|' /C calc'!A0"), escape_formula("'=x"), escape_formula("sales")
    ("'=cmd|' /C calc'!A0", "''=x", 'sales')
    """
    first = text.lstrip(" \u00a0\u3000\ufeff")[:1]
    return f"'{text}" if first and first in FORMULA_SIGNS else text


def _is_printable(each: str) -> bool:
    return each.isprintable() or category(each) == "Zs"
