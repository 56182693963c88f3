"""Post-processing of answers: no negative counts, whole numbers, groups that add up to their total.

It sees the noisy answer and nothing else, so it is free, and the answer's explanation says that it was done. Values move;
what an interval covers, the clipped statistic, stays what it was.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple, Protocol, TypeAlias

from discreet._numbers import Number, format_rational, to_rational
from discreet.errors import BadParameter
from discreet.query.estimates import AnswerColumn, Estimate
from discreet.query.schema import Key

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


class PostprocessedAnswer(NamedTuple):
    """What post-processing changes of an answer."""

    rows: AnswerRows
    schema: tuple[AnswerColumn, ...]
    explanation: str


def check_additive(groups: Sequence[object], additive: Sequence[bool]) -> None:
    """Refuse an answer in which nothing can be made to add up; all of this is known before the query is asked."""
    if not groups:
        raise BadParameter("answer", "one row", "nothing adds up to it", "ask by group, with GROUP BY")
    if not any(additive):
        raise BadParameter("answer", "without counts and sums", "no column adds up", "ask for a count or a sum")


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
    check_additive(answer.groups, [column.is_additive for column in answer.schema])
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
