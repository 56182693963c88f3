"""Bounds of a column, found privately: a noisy histogram over powers of two, paid for like any other question.

The answer keeps the magnitudes that hold clearly more rows than noise alone would show. What lies outside is clamped, so a
few extreme values cost nothing but themselves. Whatever is asked with these bounds was chosen after seeing an answer: that
is adaptive, and sound because an account is a filter, whose theorems allow it (`accounting.filters`).
"""

from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import QueryRefused
from discreet.exact import format_rational
from discreet.loss import Composition
from discreet.query import plan
from discreet.query.measure import Measurement
from discreet.query.record import LedgerReference
from discreet.query.release import Answer
from discreet.query.table import Kind, Table

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


def build_bounds_query(column: str, table: Table) -> plan.Query:
    """How many rows have which magnitude, from ±2^-10 (±1 for whole numbers) to ±2^40."""
    known = table.columns.get(column) if isinstance(column, str) else None
    if known is None or known.kind not in (Kind.INTEGER, Kind.REAL):
        raise QueryRefused(f"{column} is not a column of numbers", f"take one of {', '.join(table.columns)}")
    finest = 0 if known.kind is Kind.INTEGER else MIN_EXPONENT
    sizes = [Fraction(2) ** k for k in range(finest, MAX_EXPONENT + 1)]
    edges = (*(-size for size in reversed(sizes)), Fraction(0), *sizes)
    return plan.Query(table.name, ((column, plan.Histogram(plan.Ref(column), edges)),))


def read_bounds(measurement: Measurement, answer: Answer) -> tuple[Fraction, Fraction]:
    """The outer edges of the first and the last magnitude with clearly more rows than noise."""
    [(column, histogram)] = measurement.bounded.query.aggregates
    assert isinstance(histogram, plan.Histogram)
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


def columns_without_bounds(query: plan.Query, table: Table) -> tuple[str, ...]:
    """The numeric columns without declared bounds that are added up, averaged or otherwise computed with."""
    found: dict[str, None] = {}
    for _, aggregate in query.aggregates:
        match aggregate:
            case (
                plan.CountRows() | plan.CountUnits() | plan.CountValues(value=plan.Ref()) | plan.Histogram(value=plan.Ref())
            ):
                continue
            case _:
                found |= dict.fromkeys(_columns_in_value(aggregate.value))
    for group in query.groups:
        if not isinstance(group.value, plan.Ref):
            found |= dict.fromkeys(_columns_in_value(group.value))
    if query.where is not None:
        found |= dict.fromkeys(_columns_in_condition(query.where))
    columns = table.columns
    return tuple(
        name
        for name in found
        if name in columns and columns[name].kind in (Kind.INTEGER, Kind.REAL) and columns[name].lower is None
    )


def _columns_in_value(value: plan.Value) -> list[str]:
    match value:
        case plan.Ref(column=name):
            return [name]
        case plan.Number():
            return []
        case plan.Bin(value=inner):
            return _columns_in_value(inner)
        case plan.Case(branches=branches, default=default):
            names = [name for when, then in branches for name in (*_columns_in_condition(when), *_columns_in_value(then))]
            return names if default is None else [*names, *_columns_in_value(default)]
    return [*_columns_in_value(value.left), *_columns_in_value(value.right)]


def _columns_in_condition(condition: plan.Condition) -> list[str]:
    """A plain column that is compared with a constant needs no bounds."""
    match condition:
        case plan.Compare(left=plan.Ref(), right=plan.Number() | plan.Constant()) | plan.OneOf() | plan.Missing():
            return []
        case plan.Compare(left=left, right=right):
            assert not isinstance(right, plan.Constant)
            return [*_columns_in_value(left), *_columns_in_value(right)]
        case plan.All(parts=parts) | plan.Any(parts=parts):
            return [name for part in parts for name in _columns_in_condition(part)]
        case plan.Not(part=part):
            return _columns_in_condition(part)
