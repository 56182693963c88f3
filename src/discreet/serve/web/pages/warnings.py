"""What a query costs without answering anything, said before it is charged. Public facts decide it, and no row: the declared
unit, keys and bounds, and the threshold of partition selection, which follows from ε and δ.
"""

from collections.abc import Iterator

from discreet.query import ast
from discreet.query.contribution import BoundedQuery
from discreet.query.schema import Key, Table
from discreet.serve.quoting import Priced

MAX_NAMED = 8


def list_warnings(priced: Priced, rows_at_most: int | None) -> tuple[str, ...]:
    """Return why the answer of a query is empty or 0, as far as declarations tell."""
    bounded = priced.calibrated.bounded
    return (*_find_blank(priced, bounded, rows_at_most), *_find_undeclared(bounded))


def _find_blank(priced: Priced, bounded: BoundedQuery, rows_at_most: int | None) -> Iterator[str]:
    selection = priced.calibrated.measurement.selection
    if selection is None:
        return
    table, needed = bounded.table, f"a key is shown if about {selection.threshold:,} units have it"
    by = {each.value.column for each in bounded.query.groups if isinstance(each.value, ast.Ref)}
    spent = "The answer would be empty, and it would be charged all the same"
    if table.unit_columns and by >= set(table.unit_columns):
        yield f"{spent}: each key is one {table.unit}, which is the privacy unit, and {needed}. Group by something else."
    elif rows_at_most is not None and rows_at_most < selection.threshold:
        yield (
            f"{spent}: the table has at most {rows_at_most:,} rows, and {needed}. Ask at a larger ε, or ask a steward to "
            "declare the keys."
        )


def _find_undeclared(bounded: BoundedQuery) -> Iterator[str]:
    """Name values that a condition wants and the policy does not declare: rows with such a value count as NULL, or there
    are none."""
    for column, value in dict.fromkeys(_list_equal(bounded.query.where)):
        keys = _find_keys(bounded.table, column)
        if keys is not None and value not in keys:
            shown = ", ".join("NULL" if each is None else str(each) for each in keys[:MAX_NAMED])
            more = f" and {len(keys) - MAX_NAMED:,} more" if len(keys) > MAX_NAMED else ""
            yield f"{value!r} is not a declared key of {column}; the keys are {shown}{more}. Check the spelling."


def _find_keys(table: Table, column: str) -> tuple[Key, ...] | None:
    found = table.columns.get(column)
    return None if found is None else found.keys


def _list_equal(condition: ast.Condition | None) -> Iterator[tuple[str, Key]]:
    """List the columns that a condition compares for equality with a text or truth value, and these values."""
    match condition:
        case ast.Compare(ast.Order.EQUAL, ast.Ref(column), ast.Constant(value)):
            yield column, value
        case ast.OneOf(ast.Ref(column), among):
            for each in among:
                if isinstance(each, ast.Constant):
                    yield column, each.value
        case ast.All(parts) | ast.Any(parts):
            for part in parts:
                yield from _list_equal(part)
        case _:
            return
