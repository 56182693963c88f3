"""Quotes: what a query would cost and how accurate its answer would be, before anything is paid or any row is read.

The error of counts and sums is known outright. That of an average depends on how many rows it is taken over, which is
private; so it is stated for a size that is given, or for a few.

`explain_currency` says, also beforehand, which currency suits which use. A δ makes an account additive in ρ or μ² instead
of ε. One count then has more noise, because its ε buys less of the currency; many counts have less, because noise grows
with the root of their number and not with the number.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

from discreet import formats
from discreet._numbers import check_confidence, format_down, format_up
from discreet.accounting.cost import SHOWN_DIGITS, Cost, format_at, notion_of
from discreet.accounting.currencies import CURRENCY_FAMILIES, Currency, CurrencyCost, Pure, amount_or_zero, compare_costs
from discreet.events import Composition
from discreet.query import ast
from discreet.query.answer import explain_threshold
from discreet.query.ast import format_view, to_sql
from discreet.query.calibrate import (
    COMPARISON_CONFIDENCE,
    AccuracyTarget,
    Calibrator,
    ColumnAccuracy,
    Measurement,
    check_size,
    least_error_mechanism,
)
from discreet.query.contribution import BoundedQuery, explain_sensitivity
from discreet.query.estimates import SHARE_OF_ROWS
from discreet.query.parser import QueryLike
from discreet.query.postprocess import explain_view
from discreet.query.schema import Table, suggest_name
from discreet.units import count

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
    approval_reason: str | None = None  # why a steward of a service must approve the query first
    arrives_in: float | None = None  # seconds from the ask to the answer, if a service states them beforehand
    is_recorded: bool = False  # whether a service answered it before, so that it is free
    refusal: str | None = None  # why a service would refuse it

    @property
    def needs_approval(self) -> bool:
        """Whether a steward of a service must approve the query before it runs."""
        return self.approval_reason is not None

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
            "needs_approval": self.needs_approval,
            "approval_reason": self.approval_reason,
            "arrives_in": self.arrives_in,
            "recorded": self.is_recorded,
            "refusal": self.refusal,
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
        said = [str(self.cost), *self._explain_service(), *self.cost.explain_addition()]
        return [*said, everywhere, self.explanation, *selection, *self.notes]

    def _explain_service(self) -> list[str]:
        """Say what a service would do with the query: refuse it, show a recorded answer, ask a steward, answer later."""
        if self.refusal is not None:
            return [f"It would be refused: {self.refusal}"]
        if self.approval_reason is not None:
            asks = f"A steward must approve it: {self.approval_reason}. Nothing is charged before."
            return [asks] if self.arrives_in is None else [asks, f"Then the answer takes {self._format_arrival()}."]
        if self.is_recorded:
            return ["It was answered before: asking it again is free."]
        return [] if self.arrives_in is None else [f"The answer arrives {self._format_arrival()} after the ask."]

    def _format_arrival(self) -> str:
        assert self.arrives_in is not None
        seconds = format_up(Fraction(self.arrives_in), SHOWN_DIGITS)
        return f"{seconds} second{'' if seconds == '1' else 's'}"


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
    notes = (*notes, *explain_unknown_keys(measurement.bounded.query, measurement.bounded.table))
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


# -- what the currency of an account does to counts ------------------------------------------------------------------------

USUAL_EPSILON = Fraction(1, 10)
"""The ε of the single count that is compared."""

MAX_COUNTS = 1 << 20


@lru_cache(maxsize=64)
def explain_currency(currency: Currency, epsilon: Fraction, delta: Fraction) -> tuple[str, ...]:
    """Say what an account of (ε, δ) in this currency does to counts, and which currency suits which use.

    >>> from discreet.accounting.currencies import Zcdp
    >>> for line in explain_currency(Zcdp(), Fraction(1), Fraction(1, 10**6)):
    ...     print(line)
    A single count at ε = 0.1 is ± 80 in zCDP at δ = 1e-6, and ± 30 in pure ε without δ. From about 10 counts on that share \
the budget, zCDP is the more accurate.
    Which currency suits which use: pure for a few queries, or a guarantee without δ; zcdp for many queries, many groups \
and partition selection; gdp for many queries with Gaussian noise only; rdp(16) for training (DP-SGD) and other events \
whose divergence at one order is known.
    """
    *others, last = (f"{kind.example} for {kind.suits}" for kind in CURRENCY_FAMILIES.values() if kind.suits)
    suits = f"Which currency suits which use: {'; '.join(others)}; {last}."
    return (_compare_with_pure(currency, epsilon, delta), suits) if delta else ()


def _compare_with_pure(currency: Currency, epsilon: Fraction, delta: Fraction) -> str:
    single = min(USUAL_EPSILON, epsilon)
    pure = f"± {count_error(Pure(), single):,.0f} in pure ε"
    said = f"A single count at ε = {format_up(single, SHOWN_DIGITS)} is"
    if currency.counts_epsilon:
        return f"{said} {pure}; δ is for partition selection, claims and publications."
    notion, amount = notion_of(currency), amount_or_zero(currency, single, delta)
    if amount == 0:
        return f"At δ = {format_up(delta, SHOWN_DIGITS)}, ε = {format_up(single, SHOWN_DIGITS)} buys nothing in {notion}."
    own = f"± {count_error(currency, amount):,.0f} in {notion}{format_at(delta)}"
    counts = find_break_even(currency, epsilon, delta)
    more = (
        "" if counts is None else f" From about {counts:,} counts on that share the budget, {notion} is the more accurate."
    )
    return f"{said} {own}, and {pure} without δ.{more if counts is None or counts > 1 else ''}"


def count_error(currency: Currency, amount: Fraction) -> float:
    """Return the half-width of one count at 95% that costs an amount of a currency, under add/remove of one unit."""
    return float(least_error_mechanism(count(), currency, amount).error(COMPARISON_CONFIDENCE))


def find_break_even(currency: Currency, epsilon: Fraction, delta: Fraction) -> int | None:
    """Return the smallest number of counts that share an account at which the currency has less noise than pure ε; None if
    there is none up to 2²⁰. The ratio of the two errors falls with the number, but for rounding to whole rows, so a
    bisection finds it."""
    amount = amount_or_zero(currency, epsilon, delta)

    def is_better(counts: int) -> bool:
        return count_error(currency, amount / counts) < count_error(Pure(), epsilon / counts)

    if amount == 0:
        return None
    high = 1
    while not is_better(high):
        high *= 2
        if high > MAX_COUNTS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_better(middle) else (middle, high)
    return high


MAX_NOTES = 5


def explain_unknown_keys(query: ast.Query, table: Table) -> tuple[str, ...]:
    """Name each constant of WHERE that is no declared key of its column, most often a typing error, with the closest key.

    Keys are public, so the note tells nothing of a row. The query is answered as it stands: rows may hold values besides the
    declared keys.

    >>> from discreet.query.parser import read_query
    >>> from discreet.query.schema import Column, Kind
    >>> table = Table("staff", "id", {"id": Column(Kind.INTEGER), "team": Column(Kind.TEXT, keys=("North", "South"))})
    >>> explain_unknown_keys(read_query("SELECT COUNT(*) AS n FROM staff WHERE team IN ('Nrth', 'South')", table), table)
    ("'Nrth' is no declared key of `team`: did you mean `North`?",)
    """
    notes = dict[str, None]()
    for column, value in _list_constants(query.where):
        declared = table.columns.get(column)
        if declared is not None and declared.keys is not None and value not in declared.keys:
            hint = suggest_name(value, [str(each) for each in declared.keys])
            notes[f"{str(value)!r} is no declared key of `{column}`: {hint}"] = None
    return tuple(notes)[:MAX_NOTES]


def _list_constants(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield each column of a condition with each constant that it is said to equal, or not to."""
    match part:
        case ast.Compare(ast.Order.EQUAL | ast.Order.NOT_EQUAL, ast.Ref(column), ast.Constant(value)):
            yield column, value
        case ast.OneOf(ast.Ref(column), among):
            yield from ((column, each.value) for each in among if isinstance(each, ast.Constant))
        case tuple():
            for each in part:
                yield from _list_constants(each)
        case _ if is_dataclass(part):
            for field in fields(part):
                yield from _list_constants(getattr(part, field.name))
