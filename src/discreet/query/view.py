"""Views: which rows of an answer are shown, and in which order (ORDER BY, LIMIT, OFFSET, HAVING).

A view is a function of the noisy answer alone, so it is post-processing: it costs nothing, and all views of one query show
parts of one recorded answer.

**Intervals of selected rows.** An interval that contains its statistic with probability 1 − α does so for a row that is
fixed beforehand. A row that was chosen by its noisy value was chosen by its noise: of 20 equal groups the largest noisy
count is the one whose noise is largest, and its own interval misses far more often than α. An order by noisy values selects
as LIMIT does: readers look at the first rows, and charts and printed tables end after so many. So where noisy values decide
which rows are shown, or which come first, the intervals of the answer become simultaneous.

**Proof** that simultaneous intervals hold for selected rows. Let E be the event that every interval of the *whole* answer
contains its statistic; simultaneous intervals are calibrated so that P(E) ≥ 1 − α. The rows shown are a subset of the whole
answer, however they were chosen, and on E every interval of every subset contains its statistic. So all shown intervals hold
together with probability at least 1 − α.

Counts and sums have one half-width for all groups, known from the noise alone, so their recorded intervals can be widened
(`postprocess.widen_intervals`). The intervals of averages, variances and quantiles follow from noisy statistics that are not
recorded: they are simultaneous if they were measured so, and otherwise the answer says that they are conditional.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from discreet.errors import BadParameter, QueryRefused
from discreet.query import ast
from discreet.query.postprocess import AnswerRows
from discreet.query.schema import Kind, Table, accepts, suggest_name

HAVING_HINT = "compare columns of the answer with constants or with each other: HAVING n > 100 AND n < total"


# -- which views a query may have ------------------------------------------------------------------------------------------


def list_column_kinds(query: ast.Query, table: Table) -> dict[str, Kind]:
    """Return the kind of each column of a query's answer that a view can name, group keys first."""
    kinds = {group.name: _kind_of_keys(group.value, table) for group in query.groups}
    for name, aggregate in query.aggregates:
        # bounds may still have to be discovered, and only the names of cells are needed here
        cells = [column.name for column in aggregate.columns(name, table, 1)] if aggregate.has_cells else [name]
        kinds |= dict.fromkeys(cells, Kind.REAL)
    return kinds


def _kind_of_keys(value: ast.GroupValue, table: Table) -> Kind:
    """Return the kind of a grouping's keys: no bounds are needed to tell, and no keys are reals."""
    if isinstance(value, ast.Ref):
        return table.columns[value.column].kind
    return Kind.DATE if isinstance(value, ast.DateTrunc) else Kind.INTEGER


def check_view(query: ast.Query, table: Table) -> None:
    """Refuse a view that names no column of the answer, or compares unlike things."""
    view = query.view
    if view == ast.View():
        return
    kinds = list_column_kinds(query, table)
    for key in view.order_by:
        _find_kind(key.column, kinds, "ORDER BY")
    if view.having is not None:
        _check_having(view.having, kinds)
    for name, value, least in (("LIMIT", view.limit, 1), ("OFFSET", view.offset, 0)):
        if value is not None and (isinstance(value, bool) or value < least):
            raise QueryRefused(f"{name} takes an integer of at least {least}", f"write {name} 3")
    shown = [name for name, _ in query.aggregates if name not in view.hidden]
    if not shown or len(query.aggregates) - len(shown) != len(set(view.hidden)):
        raise QueryRefused("A view hides columns that are not there, or all of them", "show at least one aggregate")


def _find_kind(name: str, kinds: Mapping[str, Kind], clause: str) -> Kind:
    if name not in kinds:
        raise QueryRefused(f"{clause} names `{name}`, which is no column of the answer", suggest_name(name, kinds))
    return kinds[name]


def _check_having(condition: ast.Condition, kinds: Mapping[str, Kind]) -> None:
    match condition:
        case ast.All(parts=parts) | ast.Any(parts=parts):
            for part in parts:
                _check_having(part, kinds)
        case ast.Not(part=part):
            _check_having(part, kinds)
        case ast.Missing(value=ast.Ref(column=name)):
            _find_kind(name, kinds, "HAVING")
        case ast.OneOf(value=ast.Ref(column=name), among=among):
            for constant in among:
                _check_comparable(name, constant, kinds)
        case ast.Compare(left=ast.Ref(column=name), right=ast.Ref() | ast.Number() | ast.Constant() as right):
            _check_comparable(name, right, kinds)
        case _:
            raise QueryRefused("HAVING takes comparisons of columns of the answer only", HAVING_HINT)


def _check_comparable(name: str, other: ast.Ref | ast.Number | ast.Constant, kinds: Mapping[str, Kind]) -> None:
    kind, numeric = _find_kind(name, kinds, "HAVING"), (Kind.INTEGER, Kind.REAL)
    if isinstance(other, ast.Ref):
        second = _find_kind(other.column, kinds, "HAVING")
        fits = kind is second or (kind in numeric and second in numeric)
    else:
        fits = kind in numeric if isinstance(other, ast.Number) else accepts(kind, other.value)
    if not fits:
        raise QueryRefused(f"HAVING compares `{name}`, which holds {kind.value} values, with another kind", HAVING_HINT)


def explain_view(query: ast.Query) -> tuple[str, ...]:
    """Say what a quote knows of a view: which columns are paid for and not shown, and what happens to the intervals."""
    notes = [f"Measured for HAVING or ORDER BY, and not shown: {', '.join(query.view.hidden)}."] if query.view.hidden else []
    if query.selects_by_noise:
        notes.append(
            "Noisy values decide which rows are shown or come first, so the answer's intervals hold together over all rows "
            "and are wider than each ± here. All ORDER BY, LIMIT and HAVING of the same query are one measurement, and are "
            "charged once."
        )
    return tuple(notes)


# -- what a view shows -----------------------------------------------------------------------------------------------------


class ShownRows(NamedTuple):
    """The places of the rows that a view shows, in its order, and what it did in words."""

    places: tuple[int, ...]
    explanation: str


def select_rows(
    groups: tuple[str, ...],
    columns: tuple[str, ...],
    rows: AnswerRows,
    view: ast.View,
    *,
    keys_selected: bool,
    sorted_before: tuple[ast.SortKey, ...] = (),
) -> ShownRows:
    """Filter, sort and cut the rows of an answer. Rows that tie stay in the order that they have: that of the whole answer,
    which is public, or the one of `sorted_before`, whose columns may be hidden by now.

    How many rows the whole answer has is public too: the declared keys, or those that partition selection paid for.
    """
    for name in _names_in(view):
        if name not in (*groups, *columns):
            raise BadParameter("column", repr(name), "not in this answer", suggest_name(name, (*groups, *columns)))
    records: list[tuple[dict[str, Any], int]] = [
        (dict(zip(groups, keys, strict=True)) | {n: e.value for n, e in zip(columns, row, strict=True)}, place)
        for place, (keys, row) in enumerate(rows)
    ]
    what = "keys that partition selection shows" if keys_selected else "groups"
    notes, total = [], len(records)
    if view.having is not None:
        condition = view.having
        records = [each for each in records if evaluate(condition, each[0]) is True]
        text = ast.format_view(ast.View(having=condition)).strip()
        notes.append(f"{text} leaves {len(records)} of {total} {what}")
        total = len(records)
    for key in reversed(view.order_by):  # a stable sort by the last key first is a sort by all of them
        present = [each for each in records if each[0][key.column] is not None]
        missing = [each for each in records if each[0][key.column] is None]
        present.sort(key=lambda each: each[0][key.column], reverse=key.descending)
        records = [*missing, *present] if key.nulls_first else [*present, *missing]
    shown = records[view.offset :] if view.limit is None else records[view.offset : view.offset + view.limit]
    if view.limit is not None or view.offset:
        view = replace(view, order_by=(*view.order_by, *sorted_before))
    notes += _explain_order(view, groups, len(shown), total, what)
    explanation = f"Shown: {'; '.join(notes)} (post-processing)." if notes else ""
    return ShownRows(tuple(place for _, place in shown), explanation)


def _names_in(view: ast.View) -> list[str]:
    having = sorted(ast.columns_in(view.having)) if view.having is not None else []
    return [*(key.column for key in view.order_by), *having]


def _explain_order(view: ast.View, groups: tuple[str, ...], shown: int, total: int, what: str) -> list[str]:
    def describe(key: ast.SortKey) -> str:
        return f"{'' if key.column in groups else 'noisy '}{key.column}"

    order = ", ".join(f"{describe(key)}{' descending' * key.descending}" for key in view.order_by)
    if view.limit is None and not view.offset:
        return [f"sorted by {order}"] if order else []
    if len(view.order_by) == 1 and not view.offset and view.order_by[0].column not in groups:
        which = "largest" if view.order_by[0].descending else "smallest"
        return [f"the {shown} {which} of {total} {what} by {describe(view.order_by[0])}"]
    places = f"{view.offset + 1} to {view.offset + shown}" if shown else "none"
    return [f"rows {places} of {total} {what}{f', sorted by {order}' if order else ''}"]


def evaluate(condition: ast.Condition, values: Mapping[str, Any]) -> bool | None:
    """Return whether a condition of HAVING is true, false or unknown (None) of the values of one row.

    >>> from fractions import Fraction
    >>> both = ast.All((ast.Compare(ast.Order.MORE, ast.Ref("n"), ast.Number(Fraction(5))), ast.Missing(ast.Ref("dept"))))
    >>> evaluate(both, {"n": 7.5, "dept": None}), evaluate(both, {"n": 5, "dept": None})
    (True, False)
    """
    match condition:
        case ast.Compare(order=order, left=ast.Ref(column=name), right=right):
            other = values[right.column] if isinstance(right, ast.Ref) else getattr(right, "value", None)
            return _compare(order, values[name], other)
        case ast.OneOf(value=ast.Ref(column=name), among=among):
            found = [_compare(ast.Order.EQUAL, values[name], each.value) for each in among]
            return True if True in found else None if None in found else False
        case ast.Missing(value=ast.Ref(column=name)):
            return values[name] is None
        case ast.All(parts=parts):
            found = [evaluate(part, values) for part in parts]
            return False if False in found else None if None in found else True
        case ast.Any(parts=parts):
            found = [evaluate(part, values) for part in parts]
            return True if True in found else None if None in found else False
        case ast.Not(part=part):
            inner = evaluate(part, values)
            return None if inner is None else not inner
        case _:
            raise BadParameter("having", "a condition that computes", "it is not one of columns and constants", HAVING_HINT)


def _compare(order: ast.Order, left: Any, right: Any) -> bool | None:
    """Compare two values exactly: Python compares a double with a fraction without rounding either."""
    if left is None or right is None:
        return None
    try:
        match order:
            case ast.Order.EQUAL:
                return bool(left == right)
            case ast.Order.NOT_EQUAL:
                return bool(left != right)
            case ast.Order.LESS:
                return bool(left < right)
            case ast.Order.AT_MOST:
                return bool(left <= right)
            case ast.Order.MORE:
                return bool(left > right)
            case ast.Order.AT_LEAST:
                return bool(left >= right)
    except TypeError:
        raise BadParameter(
            "having", type(right).__name__, f"a {type(left).__name__} is compared with it", HAVING_HINT
        ) from None
