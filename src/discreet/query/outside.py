"""What becomes of values that lie outside of declared bounds, in words: they stand in a group, or are not counted.

Everything here follows from the query and the declarations, which are public. How many values lie outside is private.
"""

from discreet._numbers import nearest_float
from discreet.query import ast
from discreet.query.aggregates import Histogram
from discreet.query.ast import format_value
from discreet.query.contribution import BoundedQuery
from discreet.query.grid import MAX_QUOTED, columns_in, grid_range_of


def explain_outside(bounded: BoundedQuery) -> str:
    """Say where values outside of the bounds are: of the columns that rows are grouped by, and of histograms."""
    groups = [_explain_group(group, bounded) for group in bounded.query.groups if not isinstance(group.value, ast.Ref)]
    histograms = [_explain_histogram(each) for _, each in bounded.query.aggregates if isinstance(each, Histogram)]
    return " ".join(dict.fromkeys(filter(None, (*groups, *histograms))))


def _explain_group(group: ast.Grouping, bounded: BoundedQuery) -> str:
    """A group that is computed from a column is computed from its clipped values."""
    declared = [name for name in columns_in(group.value) if bounded.table.columns[name].lower is not None]
    clipped = [f"`{name}` is clipped to {format_bounds(ast.Ref(name), bounded)}" for name in dict.fromkeys(declared)]
    if not clipped:
        return ""
    ends = "the first and last group" if _keeps_order(group) else "the groups that these bounds fall into"
    return f"{' and '.join(clipped)}: {ends} also hold what lies outside. Filter with WHERE to leave it out."


def _keeps_order(group: ast.Grouping) -> bool:
    """Return whether larger values of one column are in later groups, and all of these are shown."""
    match group.value:
        case ast.Bin(value=ast.Ref()) | ast.Round(value=ast.Ref()) | ast.DateTrunc() | ast.DatePart(part=ast.Part.YEAR):
            return not group.keys
        case _:
            return False


def _explain_histogram(histogram: Histogram) -> str:
    edges = f"[{nearest_float(histogram.edges[0]):.6g}, {nearest_float(histogram.edges[-1]):.6g}]"
    return (
        f"A histogram of `{shorten(format_value(histogram.value))}` counts what lies in {edges}; other rows are in no cell."
    )


def format_bounds(value: ast.Value, bounded: BoundedQuery) -> str:
    """Write the bounds of a column as they were declared, those of an expression as they follow from them."""
    discovered = " (discovered)" if isinstance(value, ast.Ref) and value.column in bounded.table.discovered else ""
    column = bounded.table.columns[value.column] if isinstance(value, ast.Ref) else None
    if column is not None and column.lower is not None and column.number_bounds is None:
        return f"[{', '.join(end.isoformat() for end in column.moment_bounds)}]"
    declared = None if column is None else column.number_bounds
    grid_range = grid_range_of(value, bounded.table)
    ends = declared or (grid_range.lower * grid_range.grid, grid_range.upper * grid_range.grid)
    return f"[{', '.join(f'{nearest_float(end):.6g}' for end in ends)}]{discovered}"


def shorten(text: str) -> str:
    """Return the beginning of a text that is too long to be quoted."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"
