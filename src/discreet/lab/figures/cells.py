"""Counts by gender and hair colour, private and not: parallel composition [B2]."""

from fractions import Fraction
from typing import Any

import numpy as np

from discreet.lab.figures.figure import BLACK, BLUE, ORANGE, Axes, Figure, Numbers
from discreet.mechanisms import Laplace
from discreet.testing import seeded_bits
from discreet.units import histogram

GENDERS = ("female", "male")
COLOURS = ("blond", "brown", "black", "red")
COUNTS = ((20, 32, 27, 9), (18, 40, 35, 10))
"""[B2]'s table, one row per gender. The text's order of columns is kept; the names of the columns are ours."""


def _cells(epsilon: Fraction = Fraction(1)) -> dict[str, Any]:
    exact = np.array(COUNTS).ravel()
    together = Laplace.for_epsilon(epsilon, histogram())
    apart = Laplace.for_epsilon(epsilon / exact.size, histogram())
    return {
        "cell": [f"{gender}, {colour}" for gender in GENDERS for colour in COLOURS],
        "exact": exact,
        "private at ε": together.release(exact, seeded_bits(8)),
        "private at ε/8": apart.release(exact, seeded_bits(9)),
        "scale at ε": float(together.scale),
        "scale at ε/8": float(apart.scale),
        "error at ε, 95%": together.error(0.95, exact.size),
        "error at ε/8, 95%": apart.error(0.95, exact.size),
    }


def _paint_cells(axes: Axes, n: Numbers) -> None:
    place = np.arange(len(n["cell"]))
    axes.bar(place - 0.27, n["exact"], 0.26, color=BLACK, alpha=0.55, label="exact, not private")
    axes.bar(
        place, n["private at ε"], 0.26, color=BLUE, hatch="///", edgecolor="white",
        label=f"each at ε, which costs ε: all within {n['error at ε, 95%']:g} (95%)",
    )  # fmt: skip
    axes.bar(
        place + 0.27, n["private at ε/8"], 0.26, color=ORANGE, hatch="...", edgecolor="white",
        label=f"each at ε/8, for no reason: all within {n['error at ε/8, 95%']:g} (95%)",
    )  # fmt: skip
    axes.set_xticks(place, [cell.replace(", ", " ") for cell in n["cell"]], fontsize=8)
    axes.set(ylabel="people", xlabel="cell", ylim=(min(0, n["private at ε/8"].min()), None))
    axes.legend(loc="upper right")


CELLS = Figure(
    "cells",
    "Counts by gender and hair colour at ε = {epsilon}: 2 × 4 disjoint cells",
    "One person is in one cell: by parallel composition all eight counts cost ε, not 8ε, if one person is added or removed.",
    "[B2], parallel composition",
    _cells, _paint_cells,
)  # fmt: skip
