"""The cells of a histogram."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor

from discreet._numbers import nearest_float
from discreet.errors import QueryRefused
from discreet.query import ast
from discreet.query.grid import grid_range_of
from discreet.query.schema import Table

MAX_CELLS = 1000
MAX_CONSTANT = 10**15


def compute_edges(value: ast.Value, width: Fraction, table: Table) -> tuple[Fraction, ...]:
    """Multiples of `width` that cover the declared bounds.

    >>> from discreet.query.schema import Column, Kind
    >>> people = Table("people", "id", {"id": Column(Kind.INTEGER), "age": Column(Kind.INTEGER).with_bounds(18, 65)})
    >>> [str(edge) for edge in compute_edges(ast.Ref("age"), Fraction(20), people)]
    ['0', '20', '40', '60', '80']
    """
    if width <= 0:
        raise QueryRefused("a cell of a histogram has a width above 0", "write HISTOGRAM(column, 10)")
    lower, upper = _declared_range(value, table)
    first = floor(lower / width)
    last = max(ceil(upper / width), first + 1)
    if last - first > MAX_CELLS:
        raise QueryRefused(f"this histogram has more than {MAX_CELLS:,} cells", "make them wider")
    return check_edges(tuple(n * width for n in range(first, last + 1)))


def check_edges(edges: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The edges, refused unless there are at least two, and each lies above the one before."""
    if len(edges) < 2:
        raise QueryRefused("a histogram needs a width, or at least two edges", "write HISTOGRAM(column, 0, 10, 20)")
    if len(edges) > MAX_CELLS + 1:
        raise QueryRefused(f"this histogram has more than {MAX_CELLS:,} cells", "give fewer edges")
    for edge in edges:
        if not isinstance(edge, Fraction) or abs(edge) > MAX_CONSTANT or edge.denominator > MAX_CONSTANT:
            raise QueryRefused("an edge is too large or too fine", "keep edges below 10^15, with at most 15 decimals")
    if any(a >= b for a, b in pairwise(edges)):
        raise QueryRefused("the edges of a histogram must increase", "write them in order, each once")
    if len({f"{nearest_float(edge):.12g}" for edge in edges}) < len(edges):
        raise QueryRefused("two edges look the same in 12 digits, and so would their cells", "put them further apart")
    return tuple(edges)


def _declared_range(value: ast.Value, table: Table) -> tuple[Fraction, Fraction]:
    """Declared bounds of a column as they were declared; of an expression, what its span shows."""
    span = grid_range_of(value, table)
    if isinstance(value, ast.Ref):
        column = table.columns[value.column]
        if column.lower is not None and column.upper is not None:
            return column.lower, column.upper
    return span.lower * span.grid, span.upper * span.grid
