"""Post-processing of answers: no negative counts, whole numbers, groups that add up to their total, shares of it.

It sees the noisy answer and nothing else, so it is free, and the answer's explanation says that it was done. Values move;
what an interval covers, the clipped statistic, stays what it was.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple, Protocol, TypeAlias

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
from discreet.errors import PARAMETER_PAGES, BadParameter
from discreet.query.ast import View
from discreet.query.estimates import AnswerColumn, Estimate
from discreet.query.schema import Key

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
