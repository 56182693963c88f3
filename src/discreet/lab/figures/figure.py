"""A figure: what it shows, the plain numbers behind it, and how they are drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.lab.errata import ERRATA

Numbers: TypeAlias = dict[str, NDArray[Any]]
Axes: TypeAlias = Any  # of matplotlib, which is imported only to draw


@dataclass(frozen=True, slots=True)
class Figure:
    """One picture of one text, redrawn from discreet's own functions. The same numbers, and the same picture, every time.

    >>> from discreet.lab import FIGURES
    >>> sorted(FIGURES["noise-l1"].numbers())
    ['k', 'sequential', 'vectorised']
    """

    name: str
    title: str
    description: str
    source: str
    compute: Callable[[], Mapping[str, Any]]
    paint: Callable[[Axes, Numbers], None]
    errata: tuple[int, ...] = ()

    @property
    def caption(self) -> str:
        """What it shows, where it comes from, and what the text has wrong about it: a paragraph each."""
        wrong = [ERRATA[f"erratum-{number}"].caption for number in self.errata]
        return "\n".join([f"{self.description} Source: {self.source}.", *wrong])

    def numbers(self) -> Numbers:
        """The plain data, by name; a single number is an array without dimensions."""
        return {name: np.asarray(values) for name, values in self.compute().items()}

    def draw(self, axes: Axes) -> None:
        """Onto somebody's axes."""
        self.paint(axes, self.numbers())
