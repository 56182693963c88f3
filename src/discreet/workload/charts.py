"""One chart per query of a publication: a panel per column, bars with their intervals, 800 pixels wide.

Values that are not reliable are pale and hatched. Colours are Okabe and Ito's, safe for colour-blind readers.
"""

import warnings
from itertools import groupby
from pathlib import Path
from typing import Any

from discreet._numbers import format_down
from discreet.engines.base import owner_log
from discreet.query.answer import Answer
from discreet.query.estimates import Estimate
from discreet.text import to_printable

BLUE, BLACK, PALE = "#0072B2", "#000000", "#BFDDF0"
MAX_PANELS, MAX_LABELS, MAX_BARS, MAX_CELLS = 6, 24, 60, 1_000
PANEL_INCHES = 2.8


def write_chart(answer: Answer, name: str, path: Path) -> bool:
    """Draw an answer into a PNG file.

    Returns False, and leaves no file, if that fails: the answers are charged by now, and a chart must not prevent them from
    being written.
    """
    from matplotlib import style

    try:
        with style.context("default"), warnings.catch_warnings():  # not the user's settings; a missing glyph is a box
            warnings.simplefilter("ignore")
            draw_chart(answer, name).savefig(path, metadata={"Software": "discreet"})
    except Exception as failed:
        owner_log.warning("no chart of %s: %s", name, failed)
        path.unlink(missing_ok=True)
        return False
    return True


def draw_chart(answer: Answer, name: str) -> Any:
    """Draw an answer as a figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = _split_panels(answer)[:MAX_PANELS]
    below = 1.3 if any(_is_crowded(bars) for _, bars in panels) else 0.6  # inches for labels
    height = 0.4 + (PANEL_INCHES + below) * len(panels)
    figure = Figure(figsize=(8, height), dpi=100)
    FigureCanvasAgg(figure)
    figure.subplots_adjust(left=0.11, right=0.985, top=1 - 0.4 / height, bottom=below / height, hspace=below / PANEL_INCHES)
    panel_axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, (title, bars) in zip(panel_axes, panels, strict=True):
        _draw_panel(axes, title, bars)
    panel_axes[-1].set_xlabel(" · ".join(map(to_printable, answer.groups)), parse_math=False)
    pale = "" if all(estimate.reliable for _, row in answer.rows for estimate in row) else "; pale: not reliable"
    figure.suptitle(
        f"{name}: intervals with confidence {format_down(100 * float(answer.confidence))}%{pale}",
        fontsize=11,
        y=1 - 0.12 / height,
        parse_math=False,
    )
    return figure


Bars = list[tuple[str, Estimate]]


def _split_panels(answer: Answer) -> list[tuple[str, Bars]]:
    """Return the columns, each with its bars; the bins of one histogram are one column."""
    panels: list[tuple[str, Bars]] = []
    for title, columns in groupby(enumerate(answer.columns), key=lambda each: each[1].partition("[")[0]):
        members = list(columns)
        bars = [
            (_format_label(keys, column.removeprefix(title)), row[i]) for keys, row in answer.rows for i, column in members
        ]
        panels.append((title, bars[:MAX_CELLS]))
    return panels


def _format_label(keys: tuple[Any, ...], bin_name: str) -> str:
    parts = ["NULL" if key is None else str(key) for key in keys]
    text = " · ".join([*parts, *([bin_name] if bin_name else [])]) or "all"
    return to_printable(text if len(text) <= 24 else f"{text[:23]}…")


def _place_ticks(bars: Bars) -> tuple[range, list[str]]:
    places = range(0, len(bars), max(1, -(-len(bars) // MAX_LABELS)))
    return places, [bars[i][0] for i in places]


def _is_crowded(bars: Bars) -> bool:
    return sum(map(len, _place_ticks(bars)[1])) > 70


def _draw_panel(axes: Any, title: str, bars: Bars) -> None:
    """Draw bars while there is room for them, else points; each with its interval."""
    for reliable, colour, hatch in ((True, BLUE, ""), (False, PALE, "///")):
        some = [(i, estimate) for i, (_, estimate) in enumerate(bars) if estimate.reliable is reliable]
        if not some:
            continue
        places, values = [i for i, _ in some], [estimate.value for _, estimate in some]
        reach = [[max(0, e.value - e.lower) for _, e in some], [max(0, e.upper - e.value) for _, e in some]]
        if len(bars) > MAX_BARS:
            axes.errorbar(places, values, yerr=reach, fmt="o", markersize=3, color=colour, ecolor=BLACK, elinewidth=1)
        else:
            axes.bar(places, values, yerr=reach, color=colour, edgecolor=BLUE, hatch=hatch, ecolor=BLACK, capsize=4)
    crowded = _is_crowded(bars)
    axes.set_xticks(
        *_place_ticks(bars), rotation=40 if crowded else 0, ha="right" if crowded else "center", fontsize=9, parse_math=False
    )
    axes.set_ylabel(to_printable(title), parse_math=False)
    axes.axhline(0, color=BLACK, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
