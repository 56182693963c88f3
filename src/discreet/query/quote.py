"""Quotes: what a query would cost and how accurate its answer would be, before anything is paid or any row is read.

The error of counts and sums is known outright. That of an average depends on how many rows it is taken over, which is
private; so it is stated for a size that is given, or for a few.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from discreet import formats
from discreet._numbers import check_confidence, format_down, format_up
from discreet.accounting.cost import Cost
from discreet.accounting.currencies import CurrencyCost, compare_costs
from discreet.events import Composition
from discreet.query.answer import explain_sensitivity, explain_threshold
from discreet.query.ast import format_view, to_sql
from discreet.query.calibrate import AccuracyTarget, Calibrator, ColumnAccuracy, Measurement, check_size
from discreet.query.contribution import BoundedQuery
from discreet.query.estimates import SHARE_OF_ROWS
from discreet.query.parser import QueryLike
from discreet.query.view import explain_view

DEFAULT_SIZES = (100, 1_000, 10_000)


@dataclass(frozen=True, slots=True, repr=False)
class Quote:
    """What `Session.quote` returns. `print`, a shell and a notebook show it as a table."""

    query_text: str
    cost: Cost
    event: Composition
    confidence: float
    columns: tuple[ColumnAccuracy, ...]
    selection: str | None  # how keys that are not declared are selected
    explanation: str
    notes: tuple[str, ...]

    @property
    def costs(self) -> tuple[CurrencyCost, ...]:
        """The cost in every currency. Computed on access: some guarantees are searched for."""
        return compare_costs(self.event, self.cost.delta)

    def to_dict(self) -> dict[str, Any]:
        """Return cost, noise and half-width per column as plain values."""
        return {
            "query": self.query_text,
            "cost": self.cost.to_dict(),
            "costs": {each.name: each.to_dict() for each in self.costs},
            "confidence": float(self.confidence),
            "columns": [column.to_dict() for column in self.columns],
            "selection": self.selection,
            "explanation": self.explanation,
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return formats.to_json(self.to_dict())

    def __rich__(self) -> Any:
        header, lines = self._format_table()
        return formats.add_rich_notes(formats.make_rich_table(None, header, lines, left=2), self._footnotes())

    def __repr__(self) -> str:
        return formats.render_text(self.__rich__())

    def _repr_html_(self) -> str:
        return formats.make_html_table(*self._format_table(), self._footnotes(), left=2)

    def _format_table(self) -> tuple[list[str], list[formats.TableRow]]:
        sized = any(size is not None for column in self.columns for size, _ in column.half_widths)
        header = [
            "column",
            "noise",
            *(["size"] if sized else []),
            f"± at {format_down(100 * Fraction(repr(float(self.confidence))), 6)}%",
        ]
        return header, [line for column in self.columns for line in _format_lines(column, sized)]

    def _footnotes(self) -> list[str]:
        everywhere = f"The same in every currency: {', '.join(map(str, self.costs))}."
        selection = [self.selection] if self.selection else []
        return [str(self.cost), *self.cost.explain_addition(), everywhere, self.explanation, *selection, *self.notes]


def make_quote(
    calibrator: Calibrator, bounded: BoundedQuery, target: AccuracyTarget, query: QueryLike, notes: tuple[str, ...] = ()
) -> Quote:
    """Return what a query would cost in an account, and how accurate its answer would be, from declarations alone: it needs
    neither an engine nor the account itself.

    Args:
        calibrator: the account's budget, as it is now or as it was last seen.
        bounded: the query with its sensitivities.
        target: its ε, or the error that it may have.
        query: the query as it was given, for its text.
        notes: what else must be said about the source and the account.
    """
    choice = calibrator.choose_epsilon(bounded, target)
    measurement = calibrator.calibrate(bounded, choice.epsilon, choice.weights)
    cost = calibrator.cost_of(measurement.event)
    text = query if isinstance(query, str) else to_sql(bounded.query, bounded.table.unit) + format_view(bounded.query.view)
    explained = cost.explain_epsilon(choice.epsilon)
    notes = (*(() if explained is None else (explained,)), *notes, *choice.notes, *explain_view(bounded.query))
    return quote(measurement, cost, query_text=text, confidence=target.confidence, size=target.size, notes=notes)


def quote(
    measurement: Measurement,
    cost: Cost,
    *,
    query_text: str,
    confidence: float = 0.95,
    size: int | None = None,
    notes: tuple[str, ...] = (),
) -> Quote:
    """Return everything that is known of a measurement before it is paid for."""
    confidence = check_confidence(confidence)
    sizes = DEFAULT_SIZES if size is None else (check_size(size),)
    columns = tuple(measurement.predict(name, confidence, sizes) for name, _ in measurement.bounded.query.aggregates)
    selection, explanation = _explain_selection(measurement, confidence), explain_sensitivity(measurement.bounded)
    return Quote(query_text, cost, measurement.event, confidence, columns, selection, explanation, notes)


def _explain_selection(measurement: Measurement, confidence: float) -> str | None:
    if measurement.selection is None:
        return None
    return f"Keys are not declared: {explain_threshold(measurement.selection, confidence)}."


def _format_half_width(half_width: float, unit: str) -> str:
    """Write a half-width with three digits, or all of a whole number, rounded up; a share in percent.

    >>> _format_half_width(118.951, ""), _format_half_width(12345, ""), _format_half_width(0.123045, "of the rows")
    ('119', '12,345', '12.4% of the rows')
    >>> _format_half_width(0.311, "if values are spread evenly")
    '0.311 if values are spread evenly'
    """
    if unit == SHARE_OF_ROWS:
        return f"{format_up(100 * half_width, 3)}% {unit}"
    number = f"{ceil(half_width):,}" if half_width >= 100 else format_up(half_width, 3)
    return f"{number} {unit}".rstrip()


def _format_lines(accuracy: ColumnAccuracy, sized: bool) -> list[formats.TableRow]:
    noise = tuple(f"{statistic}: {mechanism}" for statistic, mechanism in accuracy.noises)
    lines: list[formats.TableRow] = []
    for i, (size, half_width) in enumerate(accuracy.half_widths):
        first: list[str | tuple[str, ...]] = [accuracy.column, noise] if i == 0 else ["", ""]
        lines.append(
            [
                *first,
                *(["" if size is None else f"{size:,} rows"] if sized else []),
                _format_half_width(half_width, accuracy.unit),
            ]
        )
    return lines
