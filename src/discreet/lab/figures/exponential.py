"""The bounds on e^x that every proof leans on."""

from fractions import Fraction
from math import exp
from typing import Any

import numpy as np

from discreet.accounting.elementary import exp_bounds
from discreet.lab.figures.figure import Axes, Figure, Numbers
from discreet.lab.figures.pens import BLACK, EXACT, FIRST, MARK, SECOND, THIRD


def _crossing(low: float, high: float, order: int) -> float:
    """Where e^x passes its upper bound again: 1 + 2x (order 1) or 1 + x + x² (order 2)."""
    for _ in range(60):
        middle = (low + high) / 2
        bound = 1 + 2 * middle if order == 1 else 1 + middle + middle**2
        low, high = (middle, high) if exp(middle) < bound else (low, middle)
    return low


def _exp_bounds_numbers() -> dict[str, Any]:
    x = np.linspace(-1.5, 2.0, 141)
    ends = [exp_bounds(Fraction(float(point))) for point in x]
    return {
        "x": x,
        "e^x": np.exp(x),
        "e^x from below": [float(low) for low, _ in ends],
        "e^x from above": [float(high) for _, high in ends],
        "1 + x": 1 + x,
        "1 + x + x²": 1 + x + x**2,
        "1 + 2x": 1 + 2 * x,
        "1 + 2x holds to": _crossing(1, 2, 1),
        "1 + x + x² holds to": _crossing(1, 3, 2),
    }


def _paint_exp_bounds(axes: Axes, n: Numbers) -> None:
    x = n["x"]
    inside, right = x <= float(n["1 + x + x² holds to"]), (x >= 0) & (x <= float(n["1 + 2x holds to"]))
    axes.plot(x, n["e^x"], **EXACT, label="e^x")
    axes.plot(x, n["1 + x"], **FIRST, label="1 + x ≤ e^x, everywhere, and equal at 0")
    axes.plot(
        x[inside], n["1 + x + x²"][inside], **SECOND, label=f"1 + x + x² ≥ e^x up to x = {n['1 + x + x² holds to']:.3f}"
    )
    axes.plot(x[right], n["1 + 2x"][right], **THIRD, label=f"1 + 2x ≥ e^x for 0 ≤ x ≤ {n['1 + 2x holds to']:.3f}")
    axes.axvline(0, **MARK)
    axes.plot([0], [1], "o", color=BLACK, markersize=6)
    axes.set(xlabel="x", ylabel="value", xlim=(-1.5, 2.0), ylim=(-0.6, 6.5))
    axes.legend(loc="upper left")


EXP_BOUNDS = Figure(
    "exp-bounds",
    "Bounds on e^x",
    "Why e^ε is read as 1 + ε for small ε, and how far that goes. discreet computes e^ε as a pair of rationals around it.",
    "[S4, fig. 6]",
    _exp_bounds_numbers, _paint_exp_bounds, (7,),
)  # fmt: skip
