"""Text of others on its way to a person: what a terminal, a page or a picture shows cannot do anything there.

Keys, names of columns and what a file says of itself may hold escape sequences that clear a screen, characters that turn the
writing round, or line ends that forge a line of their own. Every text that is shown passes through here; data that is handed
on to a program (CSV, JSON, frames) stays as it is.
"""

import re
from unicodedata import category

BOX = "□"
"""Stands for one character that is not shown: controls (C0, C1, ESC, line ends), invisible and bidirectional formatting,
halves of pairs, private and unassigned characters."""

MARKDOWN_ESCAPES = str.maketrans({sign: f"\\{sign}" for sign in r"\`*_[]<>|~&$"})
FORMULA_SIGNS = "=+-@＝＋－＠\t\r\n'"
"""And the apostrophe itself, so that what had one is told from what got one."""


def to_printable(text: str) -> str:
    """The text on one line, with a box for every character that is not to be shown.

    >>> to_printable("sales \\x1b[2J\\n\\u202egnp.exe")
    'sales □[2J□□gnp.exe'
    """
    return text if text.isprintable() else "".join(each if _is_printable(each) else BOX for each in text)


def to_printable_lines(text: str) -> str:
    """The same for a text of several lines that are our own."""
    return "\n".join(map(to_printable, text.split("\n")))


def escape_markdown(text: str) -> str:
    """The text as Markdown that says just that.

    >>> print(escape_markdown("a|b <script> *x*"))
    a\\|b \\<script\\> \\*x\\*
    """
    return to_printable(text).translate(MARKDOWN_ESCAPES)


def format_markdown_code(text: str) -> str:
    """The text as code within a line of Markdown, whatever ticks it holds; in a table, bars are still to be escaped.

    >>> print(format_markdown_code("n"), format_markdown_code("a`b"), format_markdown_code("`"))
    `n` ``a`b`` `` ` ``
    """
    shown = to_printable(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    room = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{ticks}{room}{shown}{room}{ticks}"


def escape_formula(text: str) -> str:
    """The text with an apostrophe before it if a spreadsheet would take it for a formula, or if it begins with one already.

    >>> escape_formula("=cmd|' /C calc'!A0"), escape_formula("'=x"), escape_formula("sales")
    ("'=cmd|' /C calc'!A0", "''=x", 'sales')
    """
    first = text.lstrip(" \u00a0\u3000\ufeff")[:1]
    return f"'{text}" if first and first in FORMULA_SIGNS else text


def _is_printable(each: str) -> bool:
    return each.isprintable() or category(each) == "Zs"
