"""Bounds of a column, found privately: a noisy histogram over powers of two, paid for like any other question.

The answer keeps the magnitudes that hold clearly more rows than noise alone would show. What lies outside is clamped, so a
few extreme values cost nothing but themselves. Whatever is asked with these bounds was chosen after seeing an answer: that
is adaptive, and sound because an account is a filter, whose theorems allow it (`accounting.filters`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TypeAlias

from discreet._numbers import Bounds, format_rational, to_rational
from discreet.errors import QueryRefused
from discreet.events import Composition, compose
from discreet.query import ast
from discreet.query.accuracy import Calibrator
from discreet.query.answer import Answer
from discreet.query.calibrate import Measurement
from discreet.query.contribution import BoundedQuery
from discreet.query.record import LedgerReference
from discreet.query.schema import Key, Kind, Table

BUDGET_SHARE = Fraction(1, 4)
"""The part of a question's price that goes into finding bounds, where some must be found."""

MAX_EXPONENT, MIN_EXPONENT = 40, -10
DETECTION_CONFIDENCE = 0.99
"""How often no empty magnitude at all is mistaken for one that holds rows."""


@dataclass(frozen=True, slots=True)
class DiscoveredBounds:
    """Bounds that were found, and what was paid for them."""

    column: str
    bounds: tuple[Fraction, Fraction]
    event: Composition
    amount: Fraction  # in the account's currency
    reference: LedgerReference

    def __str__(self) -> str:
        low, high = map(format_rational, self.bounds)
        return f"The bounds of {self.column} were found privately, as part of the price: {low} to {high}."


def build_bounds_query(column: str, table: Table) -> ast.Query:
    """How many rows have which magnitude, from ±2^-10 (±1 for whole numbers) to ±2^40."""
    known = table.columns.get(column) if isinstance(column, str) else None
    if known is None or known.kind not in (Kind.INTEGER, Kind.REAL):
        raise QueryRefused(f"{column} is not a column of numbers", f"take one of {', '.join(table.columns)}")
    finest = 0 if known.kind is Kind.INTEGER else MIN_EXPONENT
    sizes = [Fraction(2) ** k for k in range(finest, MAX_EXPONENT + 1)]
    edges = (*(-size for size in reversed(sizes)), Fraction(0), *sizes)
    return ast.Query(table.name, ((column, ast.Histogram(ast.Ref(column), edges)),))


def read_bounds(measurement: Measurement, answer: Answer) -> tuple[Fraction, Fraction]:
    """The outer edges of the first and the last magnitude with clearly more rows than noise."""
    [(column, histogram)] = measurement.bounded.query.aggregates
    assert isinstance(histogram, ast.Histogram)
    [counts] = measurement.bounded.cell_counts
    enough = measurement.noise(counts).error(DETECTION_CONFIDENCE, counts.cells)
    [(_, row)] = answer.rows
    held = [i for i, cell in enumerate(row) if cell.value > enough]
    if not held:
        raise QueryRefused(
            f"no magnitude of {column} stands out from the noise at this price",
            f"the search is paid for; pay more, or declare the bounds, for example --bounds {column}=0:100",
        )
    return histogram.edges[held[0]], histogram.edges[held[-1] + 1]


def columns_without_bounds(query: ast.Query, table: Table) -> tuple[str, ...]:
    """The numeric columns without declared bounds that are added up, averaged or otherwise computed with."""
    found: dict[str, None] = {}
    for _, aggregate in query.aggregates:
        match aggregate:
            case ast.CountRows() | ast.CountUnits() | ast.CountValues(value=ast.Ref()) | ast.Histogram(value=ast.Ref()):
                continue
            case _:
                found |= dict.fromkeys(_columns_in_value(aggregate.value))
    for group in query.groups:
        if not isinstance(group.value, ast.Ref):
            found |= dict.fromkeys(_columns_in_value(group.value))
    if query.where is not None:
        found |= dict.fromkeys(_columns_in_condition(query.where))
    columns = table.columns
    return tuple(
        name
        for name in found
        if name in columns and columns[name].kind in (Kind.INTEGER, Kind.REAL) and columns[name].lower is None
    )


def _columns_in_value(value: ast.Value) -> list[str]:
    match value:
        case ast.Ref(column=name):
            return [name]
        case ast.Number():
            return []
        case ast.Bin(value=inner):
            return _columns_in_value(inner)
        case ast.Case(branches=branches, default=default):
            names = [name for when, then in branches for name in (*_columns_in_condition(when), *_columns_in_value(then))]
            return names if default is None else [*names, *_columns_in_value(default)]
    return [*_columns_in_value(value.left), *_columns_in_value(value.right)]


def _columns_in_condition(condition: ast.Condition) -> list[str]:
    """A plain column that is compared with a constant needs no bounds."""
    match condition:
        case ast.Compare(left=ast.Ref(), right=ast.Number() | ast.Constant()) | ast.OneOf() | ast.Missing():
            return []
        case ast.Compare(left=left, right=right):
            assert not isinstance(right, ast.Constant)
            return [*_columns_in_value(left), *_columns_in_value(right)]
        case ast.All(parts=parts) | ast.Any(parts=parts):
            return [name for part in parts for name in _columns_in_condition(part)]
        case ast.Not(part=part):
            return _columns_in_condition(part)


# A size that nobody gave, found by a small private count.
#
# A relative error needs to know relative to what. The count is an ordinary question with an ordinary price, asked first. The
# price of the question proper then depends on its answer: it is chosen adaptively. Sums of prices chosen in advance say
# nothing about that; filters do, and every account here is one [RRUV16; WRRW23, Thm 1; FZ21; ST22; KTH23], see
# accounting/filters.py. What is promised is the budget, which was fixed before the first answer.


PILOT_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Pilot:
    """What a pilot found and what was paid for it."""

    size: int
    group: tuple[Key, ...]  # the group that has it; empty where there are no groups
    epsilon: Fraction
    event: Composition
    amount: Fraction  # in the account's currency
    reference: LedgerReference

    def __str__(self) -> str:
        where = f" in the smallest group that could be told, {' · '.join(map(str, self.group))}" if self.group else ""
        return (
            f"The size was found privately: a pilot count at ε = {float(self.epsilon):.6g}, part of the price, "
            f"gave at least {self.size:,} rows{where}."
        )


def build_pilot_query(bounded: BoundedQuery) -> ast.Query:
    """COUNT(*) over the same rows and groups. Unknown keys would cost a δ of their own, so they must be known."""
    if bounded.keys is None:
        raise QueryRefused(
            "a pilot counts groups whose keys are known", "list the keys, for example --keys dept=a,b,c, or give a size"
        )
    return replace(bounded.query, aggregates=(("n", ast.CountRows()),))


def find_smallest_group(answer: Answer) -> tuple[int, tuple[Key, ...]]:
    """The lower end of the total, at least 1, or that of the smallest group that is reliable and not empty; and which
    group that is."""
    if not answer.groups:
        [(_, (cell,))] = answer.rows
        return max(1, floor(cell.lower)), ()
    sure = [(row[0].lower, keys) for keys, row in answer.rows if row[0].reliable and row[0].lower >= 1]
    if not sure:
        raise QueryRefused("no group is large enough for the pilot to tell its size", "take a larger pilot, or give a size")
    lower, keys = min(sure, key=lambda found: found[0])
    return floor(lower), keys


PaidStep: TypeAlias = DiscoveredBounds | Pilot
"""What was paid on the way to an answer."""


def combine_costs(calibrator: Calibrator, answer: Answer, earlier_steps: Sequence[PaidStep]) -> Answer:
    """An answer and what was paid for on the way to it, as one. ε at δ is what the account's currency says of the sum:
    prices that depend on answers have a filter in one currency, and none on the certified curve."""
    assert answer.cost is not None
    spent = sum((paid.amount for paid in earlier_steps), to_rational(answer.cost.amount))
    promise = replace(calibrator.budget, limit=spent, spent=Fraction(0)).epsilon(calibrator.delta)
    whole_price = replace(answer.cost, event_or_bounds=Bounds(promise, promise), amount=spent)
    explanation = " ".join([answer.explanation, *map(str, earlier_steps)])
    losses = [paid.event for paid in earlier_steps]
    return replace(answer, event=compose(*losses, answer.event), cost=whole_price, explanation=explanation)
