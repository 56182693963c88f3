"""An answer as a page shows it: cells as texts, what is not reliable marked by a word, and a sentence about the chart."""

from dataclasses import dataclass
from typing import Any

from discreet.errors import BadParameter, DiscreetError
from discreet.formats import format_interval, format_value
from discreet.query.answer import Answer

MAX_SHOWN = 1_000
SWITCHES = {
    "non_negative": "nothing below 0",
    "consistent": "groups add up",
    "integers": "whole numbers",
}
"""What can be done to an answer afterwards for nothing, in this order."""


@dataclass(frozen=True, slots=True)
class Cell:
    """An estimate."""

    value: str
    interval: str
    is_reliable: bool


@dataclass(frozen=True, slots=True)
class AnswerView:
    """An answer as texts."""

    groups: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]  # name and unit
    rows: tuple[tuple[tuple[str | None, ...], tuple[Cell, ...]], ...]
    left_out: int
    confidence: str
    sentence: str  # what the chart shows
    explanation: str

    @property
    def has_unreliable(self) -> bool:
        """Whether a cell is marked."""
        return any(not cell.is_reliable for _, cells in self.rows for cell in cells)


def view_answer(answer: Answer) -> AnswerView:
    """Return an answer as texts."""
    rows = tuple(
        (
            tuple(None if key is None else str(key) for key in keys),
            tuple(_view_cell(each.value, each.lower, each.upper, each.reliable) for each in estimates),
        )
        for keys, estimates in answer.rows[:MAX_SHOWN]
    )
    columns = tuple((column.name, column.unit) for column in answer.schema)
    confidence = f"{100 * float(answer.confidence):g}%"
    return AnswerView(
        answer.groups, columns, rows, max(0, len(answer.rows) - MAX_SHOWN), confidence,
        describe_chart(answer, confidence), answer.explanation,
    )  # fmt: skip


def _view_cell(value: float, lower: float, upper: float, reliable: bool) -> Cell:
    text = format_interval(value, lower, upper)
    shown = format_value(value, lower, upper)
    interval = text.removeprefix(shown).strip()
    if interval.startswith("±"):
        low, high = format_value(lower, lower, upper), format_value(upper, lower, upper)
    else:
        low, _, high = interval.strip("[]").partition(", ")
    return Cell(shown, f"{low} – {high}", reliable)


def describe_chart(answer: Answer, confidence: str) -> str:
    """Say what the chart of an answer shows."""
    measured = _join([column.name for column in answer.schema[:3]]) + (" and more" if len(answer.schema) > 3 else "")
    count = len(answer.rows)
    if not answer.groups:
        return f"{measured} over all rows, with {'intervals' if len(answer.schema) > 1 else 'its interval'} ({confidence})."
    by = _join(answer.groups)
    marked = sum(any(not each.reliable for each in row) for _, row in answer.rows)
    unreliable = f" {marked} of {count} groups have a value that is not reliable." if marked else ""
    return f"{measured} by {by} in {count} group{'s' * (count != 1)}, with {confidence} intervals.{unreliable}"


def _join(names: Any) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else str(last)


def postprocess(answer: Answer, switches: tuple[str, ...]) -> tuple[Answer, tuple[str, ...]]:
    """Apply the switches that are on, and return what could not be done. The intervals still cover."""
    refused = []
    for name in SWITCHES:
        if name in switches:
            try:
                answer = getattr(answer, name)()
            except (BadParameter, DiscreetError) as error:
                refused.append(f"{SWITCHES[name]}: {error}")
    return answer, tuple(refused)
