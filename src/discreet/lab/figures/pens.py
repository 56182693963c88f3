"""Colours that everybody can tell apart (Okabe and Ito), each with a line of its own for those who see no colour."""

from types import MappingProxyType
from typing import Any

BLACK, BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, GREY = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777",
)  # fmt: skip


def _pen(colour: str, line: Any, width: float = 2.0) -> MappingProxyType[str, Any]:
    return MappingProxyType({"color": colour, "linestyle": line, "linewidth": width})


EXACT = _pen(BLACK, "-", 2.4)
"""What is true, where a text has a bound."""
WRONG = _pen(VERMILLION, (0, (6, 2)))
"""What a text prints and should not."""
FIRST = _pen(BLUE, "-")
SECOND = _pen(GREEN, (0, (8, 2, 2, 2)))
THIRD = _pen(PURPLE, (0, (2, 1.5)))
FOURTH = _pen(ORANGE, (0, (10, 3)))
MARK = _pen(GREY, ":", 1.2)
"""A place worth a line of its own."""
