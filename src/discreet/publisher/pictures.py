"""One picture per question: a panel per column, bars with their intervals, 800 pixels wide.

What is not reliable is hatched and pale, so that the eye is not led by it. Colours are Okabe and Ito's, safe for all eyes.
"""

from itertools import groupby
from pathlib import Path
from typing import Any

from discreet.query.cells import Cell
from discreet.query.release import Release

BLUE, BLACK, PALE = "#0072B2", "#000000", "#BFDDF0"
MOST_PANELS, MOST_LABELS, MOST_BARS = 6, 24, 400


def picture(answer: Release, name: str, path: Path) -> None:
    """Draw the answer into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = _panels(answer)[:MOST_PANELS]
    figure = Figure(figsize=(8, 1.2 + 2.8 * len(panels)), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    rooms = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, (title, bars) in zip(rooms, panels, strict=True):
        _draw(axes, title, bars)
    rooms[-1].set_xlabel(" · ".join(answer.groups))
    doubt = "" if all(cell.reliable for _, row in answer.rows for cell in row) else "; hatched: not reliable"
    figure.suptitle(f"{name}: intervals cover with probability {answer.confidence:.4g}{doubt}", fontsize=11)
    figure.savefig(path, metadata={"Software": "discreet"})


Bars = list[tuple[str, Cell]]


def _panels(answer: Release) -> list[tuple[str, Bars]]:
    """The columns, each with its bars; the cells of one histogram are one column."""
    panels: list[tuple[str, Bars]] = []
    for title, columns in groupby(enumerate(answer.columns), key=lambda each: each[1].partition("[")[0]):
        members = list(columns)
        bars = [(_label(keys, column.removeprefix(title)), row[i]) for keys, row in answer.rows for i, column in members]
        panels.append((title, bars[:MOST_BARS]))
    return panels


def _label(keys: tuple[Any, ...], cell: str) -> str:
    parts = ["NULL" if key is None else str(key) for key in keys]
    text = " · ".join([*parts, *([cell] if cell else [])]) or "all"
    return text if len(text) <= 24 else f"{text[:23]}…"


def _draw(axes: Any, title: str, bars: Bars) -> None:
    values = [cell.value for _, cell in bars]
    reach = [[max(0, c.value - c.lower) for _, c in bars], [max(0, c.upper - c.value) for _, c in bars]]
    colours = [BLUE if cell.reliable else PALE for _, cell in bars]
    drawn = axes.bar(range(len(bars)), values, yerr=reach, color=colours, ecolor=BLACK, capsize=4 if len(bars) < 40 else 0)
    for patch, (_, cell) in zip(drawn.patches, bars, strict=True):
        patch.set_hatch("" if cell.reliable else "///")
        patch.set_edgecolor(BLUE)
    step = -(-len(bars) // MOST_LABELS)
    labels = [label for label, _ in bars][::step]
    crowded = sum(map(len, labels)) > 70
    axes.set_xticks(
        range(0, len(bars), step), labels, rotation=40 if crowded else 0, ha="right" if crowded else "center", fontsize=9
    )
    axes.set_ylabel(title)
    axes.axhline(0, color=BLACK, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
