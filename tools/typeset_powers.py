"""A hook of MkDocs: shows `e^{-x/2}` in running text as a power.

Docstrings are read in a terminal by `help()` first, so they hold plain text and no LaTeX. On the site the same
text is typeset. Code and formulas are left alone.
"""

import re
from typing import Any

UNTOUCHED = re.compile(
    r"(<(?:pre|code|script|style)\b.*?</(?:pre|code|script|style)>|<[^>]*arithmatex[^>]*>.*?</\w+>|<[^>]+>)", re.S
)
POWER = re.compile(r"\^\{([^{}]*)\}")


def typeset_powers(html: str) -> str:
    """Put the exponents of a page's text into <sup>.

    >>> typeset_powers("<p>e^{-x} and <code>e^{-x}</code></p>")
    '<p>e<sup>-x</sup> and <code>e^{-x}</code></p>'
    """
    parts = UNTOUCHED.split(html)
    return "".join(part if i % 2 else POWER.sub(r"<sup>\1</sup>", part) for i, part in enumerate(parts))


def on_page_content(html: str, **_: Any) -> str:
    """Typeset a page; MkDocs calls it by this name."""
    return typeset_powers(html)
