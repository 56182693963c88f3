"""The chart of an answer as lines of text, for a terminal: one bar per estimate, with its interval in numbers."""

from typing import TYPE_CHECKING

from discreet.formats import format_interval
from discreet.query.estimates import Estimate
from discreet.query.series import split_series
from discreet.text import to_printable

if TYPE_CHECKING:
    from discreet.query.answer import Answer

SOLID, PALE, EIGHTHS = "█", "░", " ▏▎▍▌▋▊▉"
MAX_LABEL, MIN_BAR, MAX_BAR = 30, 10, 50


def draw_text_chart(answer: "Answer", width: int = 80) -> list[str]:
    """Return the lines of the chart. Pale bars are not reliable; a negative value has no bar.

    >>> from types import SimpleNamespace
    >>> from discreet.query.estimates import AnswerColumn
    >>> rows = ((("sales",), (Estimate(80, 75, 85, True),)), (("legal",), (Estimate(10, 5, 15, False),)))
    >>> answer = SimpleNamespace(groups=("dept",), schema=(AnswerColumn("n", is_count=True),), rows=rows)
    >>> print("\\n".join(draw_text_chart(answer, 40)))
    n (count) by dept
    sales █████████████████████████ 80 ± 5
    legal ░░░ 10 ± 5 ?
    """
    lines: list[str] = []
    for series in split_series(answer.schema):
        by = f" by {', '.join(answer.groups)}" if answer.groups else ""
        lines.append(to_printable(series.label + by))
        cells = [f" {cell}" for cell in series.cells] or [""]
        bars = [
            (_label(keys, cell), estimate)
            for keys, row in answer.rows
            for cell, estimate in zip(cells, row[series.first :], strict=False)
        ]
        lines += _draw_bars(bars, width)
    return lines


def _label(keys: tuple[object, ...], cell: str) -> str:
    text = to_printable(" · ".join("NULL" if key is None else str(key) for key in keys) + cell).strip() or "all"
    return text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"


def _draw_bars(bars: list[tuple[str, Estimate]], width: int) -> list[str]:
    numbers = [format_interval(each.value, each.lower, each.upper) + ("" if each.reliable else " ?") for _, each in bars]
    side = max((len(label) for label, _ in bars), default=0)
    room = min(MAX_BAR, max(MIN_BAR, width - side - max(map(len, numbers), default=0) - 2))
    greatest = max((each.value for _, each in bars), default=0)
    return [
        f"{label:<{side}} {_draw_bar(each, greatest, room)}{text}" for (label, each), text in zip(bars, numbers, strict=True)
    ]


def _draw_bar(estimate: Estimate, greatest: float, room: int) -> str:
    """A bar with a space behind it, to an eighth of a character; a pale one to a whole one."""
    if estimate.value <= 0:
        return ""
    eighths = round(8 * room * (estimate.value / greatest))
    if not estimate.reliable:
        return f"{PALE * max(1, eighths // 8)} "
    return f"{SOLID * (eighths // 8)}{EIGHTHS[eighths % 8].strip()} "
