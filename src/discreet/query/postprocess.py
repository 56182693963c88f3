"""Post-processing of answers: no negative counts, whole numbers, groups that add up to their total, shares of it.

It sees the noisy answer and nothing else, so it is free, and the answer's explanation says that it was done. Values move;
what an interval covers, the clipped statistic, stays what it was.

**Views** say which rows of an answer are shown, and in which order (ORDER BY, LIMIT, OFFSET, HAVING). A view
is a function of the noisy answer alone, so it is post-processing: it costs nothing, and all views of one query show parts
of one recorded answer.

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
(`widen_intervals`). The intervals of averages, variances and quantiles follow from noisy statistics that are not
recorded: they are simultaneous if they were measured so, and otherwise the answer says that they are conditional.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Any, NamedTuple, Protocol, TypeAlias

from discreet._numbers import (
    Number,
    ceil_float,
    check_confidence,
    floor_float,
    format_rational,
    nearest_float,
    read_decimal,
    to_rational,
)
from discreet.errors import PARAMETER_PAGES, BadParameter, QueryRefused
from discreet.query import ast
from discreet.query.ast import View
from discreet.query.estimates import AnswerColumn, Estimate
from discreet.query.schema import Key, Kind, Table, accepts, suggest_name

WHOLE_HINT = "ask without HAVING and LIMIT, which is free, and select rows afterwards: answer.order_by(…).limit(3)"
AnswerRows: TypeAlias = tuple[tuple[tuple[Key, ...], tuple[Estimate, ...]], ...]


class AnswerLike(Protocol):
    """The parts of an answer that post-processing looks at."""

    @property
    def groups(self) -> tuple[str, ...]: ...
    @property
    def schema(self) -> tuple[AnswerColumn, ...]: ...
    @property
    def rows(self) -> AnswerRows: ...
    @property
    def explanation(self) -> str: ...
    @property
    def keys_selected(self) -> bool: ...
    @property
    def confidence(self) -> float: ...
    @property
    def simultaneous(self) -> bool: ...
    @property
    def view(self) -> View: ...


class PostprocessedAnswer(NamedTuple):
    """What post-processing changes of an answer."""

    rows: AnswerRows
    schema: tuple[AnswerColumn, ...]
    explanation: str


def check_additive(groups: Sequence[object], additive: Sequence[bool], view: View) -> None:
    """Refuse an answer in which nothing can be made to add up; all of this is known before the query is asked."""
    if view.drops_rows():
        raise _not_additive("a part of its rows", "rows that are left out are missing from the total", WHOLE_HINT)
    if not groups:
        raise _not_additive("one row", "nothing adds up to it", "ask by group, with GROUP BY")
    if not any(additive):
        raise _not_additive("without counts and sums", "no column adds up", "ask for a count or a sum")


def _not_additive(what: str, reason: str, hint: str) -> BadParameter:
    error = BadParameter("answer", what, reason, hint)
    error.see = PARAMETER_PAGES["consistent"]
    return error


def clip_negative(answer: AnswerLike, columns: Sequence[str]) -> PostprocessedAnswer:
    """Show as at least 0 what cannot be negative."""
    for name in columns:
        if not answer.schema[find_column(answer, name)].is_non_negative:
            raise BadParameter("column", repr(name), "its exact value may be negative", "leave it as it is")
    chosen = _choose_columns(answer, columns, [column.is_non_negative for column in answer.schema])

    def clip(i: int) -> list[Estimate]:
        return [each.adjust(max(each.value, 0), max(each.lower, 0), max(each.upper, 0)) for each in _estimates(answer, i)]

    note = _extend_explanation(answer, chosen, "Negative values are shown as 0 (post-processing)")
    return PostprocessedAnswer(_replace_columns(answer, chosen, clip), answer.schema, note)


def round_to_integers(answer: AnswerLike, columns: Sequence[str]) -> PostprocessedAnswer:
    """Round to whole numbers, the intervals outward. A column that was made consistent keeps its total, rounded itself."""
    chosen = _choose_columns(answer, columns, [column.is_count for column in answer.schema])

    def round_column(i: int) -> list[Estimate]:
        estimates, total = _estimates(answer, i), answer.schema[i].fixed_total
        values = [each.value for each in estimates]
        whole = [round(value) for value in values] if total is None else apportion(values, round(total))
        pairs = zip(estimates, whole, strict=True)
        return [each.adjust(value, floor(each.lower), ceil(each.upper)) for each, value in pairs]

    note = _extend_explanation(answer, chosen, "Values are rounded to whole numbers (post-processing)")
    return PostprocessedAnswer(_replace_columns(answer, chosen, round_column), answer.schema, note)


def make_consistent(answer: AnswerLike, total: Mapping[str, Number] | None) -> PostprocessedAnswer:
    """Move counts and sums to the nearest values that add up to their total, none below 0 where that is known."""
    check_additive(answer.groups, [column.is_additive for column in answer.schema], answer.view)
    given = {name: to_rational(value, "total") for name, value in (total or {}).items()}
    for name in given:
        if not answer.schema[find_column(answer, name)].is_additive:
            raise BadParameter("total", repr(name), "its groups do not add up", "give totals of counts and sums")
    chosen = _choose_columns(answer, (), [column.is_additive for column in answer.schema])
    totals = [_find_total(answer, i, given.get(each.name)) if i in chosen else None for i, each in enumerate(answer.schema)]

    def move(i: int) -> list[Estimate]:
        estimates, target = _estimates(answer, i), totals[i]
        assert target is not None
        exact = [to_rational(each.value) for each in estimates]
        values = project_to_total(exact, target, positive=answer.schema[i].is_non_negative)
        pairs = zip(estimates, values, strict=True)
        return [each.adjust(_to_number(value), each.lower, each.upper) for each, value in pairs]

    note = _extend_explanation(
        answer, chosen, "Values are moved to the nearest ones that add up to their total (post-processing)"
    )
    note += " The intervals stay as they were; a value outside of its own interval is not reliable."
    hidden = " Keys that are not shown are no part of these totals." if answer.keys_selected else ""
    schema = tuple(replace(each, fixed_total=fixed) for each, fixed in zip(answer.schema, totals, strict=True))
    return PostprocessedAnswer(_replace_columns(answer, chosen, move), schema, note + hidden)


def widen_intervals(answer: AnswerLike) -> tuple[AnswerRows, tuple[AnswerColumn, ...]]:
    """Return the rows and columns with intervals that hold together over the whole answer, where that is known.

    The margin of a column takes every end n ± e to n ± e′, with the e′ of simultaneous intervals; what clipped or rounded
    the ends outward before stays valid. A column without a margin is left as it is.
    """
    chosen = frozenset(i for i, column in enumerate(answer.schema) if column.joint_margin)

    def widen(i: int) -> list[Estimate]:
        margin = answer.schema[i].joint_margin
        assert margin is not None
        return [e.adjust(e.value, _move_down(e.lower, margin), -_move_down(-e.upper, margin)) for e in _estimates(answer, i)]

    done = tuple(replace(each, joint_margin=each.joint_margin and Fraction(0)) for each in answer.schema)
    return _replace_columns(answer, chosen, widen), done


def _move_down(end: float, margin: Fraction) -> float:
    """Return end − margin, a whole number if both are, else rounded down."""
    exact = Fraction(end) - margin
    return exact.numerator if isinstance(end, int) and exact.denominator == 1 else floor_float(exact)


def compute_shares(
    answer: AnswerLike, columns: Sequence[str], total: AnswerLike | None
) -> tuple[PostprocessedAnswer, float]:
    """Return counts and sums as percentages of a total, and the confidence with which all their intervals hold together.

    **Proof** of the intervals, for statistics xᵢ that are not negative. Let all intervals [lᵢ, uᵢ] of the whole answer hold,
    which simultaneous ones do with their confidence. Then the rest Rᵢ of the total, Σⱼ xⱼ − xᵢ, lies between the sums of the
    other lⱼ and uⱼ, and xᵢ/(xᵢ + Rᵢ), which grows with xᵢ and falls with Rᵢ, lies between lᵢ/(lᵢ + most Rᵢ) and
    uᵢ/(uᵢ + least Rᵢ). With a total t of its own in [l, u], l > 0, the share lies between lᵢ/u and uᵢ/l if that interval
    holds as well: the probabilities of a miss add up, whether or not the two answers are independent.
    """
    if not answer.groups:
        raise BadParameter("answer", "one row", "a share needs parts", "ask by group, with GROUP BY")
    if total is None and answer.keys_selected:
        raise BadParameter(
            "total",
            "missing",
            "the keys were selected privately, so those that are shown do not add up to a whole",
            "ask for the total with the same query without GROUP BY, and give it as total=",
        )
    if total is None:
        check_additive(answer.groups, [column.is_additive for column in answer.schema], answer.view)
    fitting = [c.is_non_negative and (c.is_additive or (total is not None and c.is_count)) for c in answer.schema]
    chosen = sorted(_choose_columns(answer, columns, fitting))
    for i in chosen:
        _check_share(answer.schema[i], fits=fitting[i])
    if not chosen:
        raise BadParameter("answer", ", ".join(c.name for c in answer.schema), "no column has shares", "ask for a count")
    whole = None if total is None else _read_totals(total, [answer.schema[i].name for i in chosen])
    rows, _ = widen_intervals(answer)
    parts = [[row[i] for _, row in rows] for i in chosen]
    shares = [
        _divide_by_sum(column) if whole is None else [_divide_by_total(part, whole[k]) for part in column]
        for k, column in enumerate(parts)
    ]
    named = [answer.schema[i].name for i in chosen]
    miss = 1 - read_decimal(answer.confidence)
    if total is not None:
        miss += (1 if total.simultaneous else len(chosen)) * (1 - read_decimal(total.confidence))
    base = "a total of its own" if total is not None else "the sum over all declared keys"
    note = f"{answer.explanation} Percentages are shares of {base} (post-processing): {', '.join(named)}."
    schema = tuple(AnswerColumn(f"{name}_percent", Fraction(0), joint_margin=Fraction(0)) for name in named)
    shown = tuple((keys, tuple(column[j] for column in shares)) for j, (keys, _) in enumerate(rows))
    return PostprocessedAnswer(shown, schema, note), check_confidence(1 - miss)


def _check_share(column: AnswerColumn, *, fits: bool) -> None:
    if not column.is_non_negative:
        raise BadParameter("column", repr(column.name), "its parts may be negative", "take shares of a count")
    if not fits:
        raise BadParameter("column", repr(column.name), "its groups do not add up", "take shares of a count or a sum")
    if column.joint_margin is None:
        reason = "its intervals do not hold together"
        raise BadParameter("column", repr(column.name), reason, "ask with simultaneous=True")


def _read_totals(total: AnswerLike, names: Sequence[str]) -> list[Estimate]:
    """Return the paid total of each column."""
    if total.groups or len(total.rows) != 1:
        raise BadParameter("total", f"{len(total.rows)} rows", "a total is one row", "ask for it without GROUP BY")
    [(_, row)] = total.rows
    only = len(total.schema) == 1 and len(names) == 1
    found = [row[0]] if only else [row[find_column(total, name)] for name in names]
    for each, name in zip(found, names, strict=True):
        if each.lower <= 0:
            reason = "its interval reaches 0, so a share of it has no upper end"
            raise BadParameter("total", f"{each.value} for {name}", reason, "ask for it with a smaller error")
    return found


def _divide_by_sum(parts: Sequence[Estimate]) -> list[Estimate]:
    """Return each part as a percentage of the sum of all parts."""
    lows, highs, values = ([max(Fraction(end), Fraction(0)) for end in ends] for ends in _split_ends(parts))
    low_sum, high_sum, total = sum(lows), sum(highs), sum(values)
    shares = []
    for part, low, high, value in zip(parts, lows, highs, values, strict=True):
        most, least = high_sum - high, low_sum - low
        bounds = low / (low + most) if low else Fraction(0), high / (high + least) if high + least else Fraction(1)
        shares.append(_to_percentage(part, value / total if total else Fraction(0), bounds))
    return shares


def _divide_by_total(part: Estimate, total: Estimate) -> Estimate:
    low, high, value = (max(Fraction(end), Fraction(0)) for end in (part.lower, part.upper, part.value))
    return _to_percentage(part, value / Fraction(total.value), (low / Fraction(total.upper), high / Fraction(total.lower)))


def _split_ends(parts: Sequence[Estimate]) -> tuple[list[float], list[float], list[float]]:
    return [each.lower for each in parts], [each.upper for each in parts], [each.value for each in parts]


def _to_percentage(part: Estimate, share: Fraction, bounds: tuple[Fraction, Fraction]) -> Estimate:
    low, high = floor_float(100 * bounds[0]), ceil_float(100 * bounds[1])
    return part.adjust(min(max(nearest_float(100 * share), low), high), low, high)


def project_to_total(values: Sequence[Fraction], total: Fraction, *, positive: bool) -> list[Fraction]:
    """The point of {Σx = total}, or of {x ≥ 0, Σx = total}, at the least Euclidean distance.

    It is max(x − t, 0) for the one t that makes the sum right: the multipliers of the constraints that bind are then not
    negative, which for a convex problem is enough. The k largest stay above 0, for the largest k that t allows.

    >>> project_to_total([Fraction(5), Fraction(3), Fraction(-2)], Fraction(6), positive=True)
    [Fraction(4, 1), Fraction(2, 1), Fraction(0, 1)]
    """
    if not values:
        return []
    if not positive:
        step = (total - sum(values)) / len(values)
        return [value + step for value in values]
    run, shift = Fraction(0), None
    for k, value in enumerate(sorted(values, reverse=True), start=1):
        run += value
        if value > (run - total) / k:
            shift = (run - total) / k
    return [Fraction(0) if shift is None else max(value - shift, Fraction(0)) for value in values]


def apportion(values: Sequence[float], total: int) -> list[int]:
    """Whole numbers that add up to `total`: every value rounded down, and the largest remainders up.

    >>> apportion([1.5, 2.25, 0.25], 4)
    [2, 2, 0]
    """
    if not values:
        return []
    lows = [floor(value) for value in values]
    each, more = divmod(total - sum(lows), len(lows))  # `each` is 0 but where doubles are too coarse to hold a unit
    last = sorted(range(len(lows)), key=lambda i: (lows[i] - values[i], i))
    raised = frozenset(last[:more])
    return [low + each + (i in raised) for i, low in enumerate(lows)]


def find_column(answer: AnswerLike, name: str) -> int:
    """Return the position of a column."""
    names = [column.name for column in answer.schema]
    if name not in names:
        raise BadParameter("column", repr(name), "not in this answer", f"take one of {', '.join(names)}")
    return names.index(name)


def _find_total(answer: AnswerLike, i: int, given: Fraction | None) -> Fraction:
    non_negative = answer.schema[i].is_non_negative
    if given is None:
        own = sum((to_rational(each.value) for each in _estimates(answer, i)), Fraction(0))
        return max(own, Fraction(0)) if non_negative else own
    if given < 0 and non_negative:
        raise BadParameter("total", format_rational(given), "this column is never negative", "give a total of at least 0")
    return given


def _choose_columns(answer: AnswerLike, names: Sequence[str], default: Sequence[bool]) -> frozenset[int]:
    if names:
        return frozenset(find_column(answer, name) for name in names)
    return frozenset(i for i, chosen in enumerate(default) if chosen)


def _estimates(answer: AnswerLike, i: int) -> list[Estimate]:
    return [row[i] for _, row in answer.rows]


def _replace_columns(answer: AnswerLike, chosen: frozenset[int], change: Callable[[int], list[Estimate]]) -> AnswerRows:
    columns = [change(i) if i in chosen else _estimates(answer, i) for i in range(len(answer.schema))]
    return tuple((keys, tuple(column[j] for column in columns)) for j, (keys, _) in enumerate(answer.rows))


def _extend_explanation(answer: AnswerLike, chosen: frozenset[int], note: str) -> str:
    names = ", ".join(column.name for i, column in enumerate(answer.schema) if i in chosen)
    return f"{answer.explanation} {note}: {names}." if names else answer.explanation


def _to_number(exact: Fraction) -> float:
    return exact.numerator if exact.denominator == 1 else float(exact)


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
