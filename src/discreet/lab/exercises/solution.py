"""A question of a text, and an answer that is computed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Solution:
    """How it is computed, line by line, and what comes out."""

    work: tuple[str, ...]
    answer: str
    numbers: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question of a text, and the function that answers it."""

    name: str
    source: str
    question: str
    solve: Callable[..., Solution]
