"""Answers made tidier after the fact: no negative counts, whole numbers, groups that add up to their total.

All of it is post-processing: it sees the noisy answer and nothing else, so it costs nothing, and the answer's explanation
says that it was done. Values move; what an interval covers, the bounded total, stays what it was.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple, Protocol, TypeAlias

from discreet._numbers import Number, format_rational, to_rational
from discreet.errors import BadParameter
from discreet.query import ast
from discreet.query.contribution import BoundedQuery
from discreet.query.estimates import Estimate
from discreet.query.schema import Key

AnswerRows: TypeAlias = tuple[tuple[tuple[Key, ...], tuple[Estimate, ...]], ...]


class AnswerLike(Protocol):
    """What is looked at of a release."""

    @property
    def groups(self) -> tuple[str, ...]: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> AnswerRows: ...
    @property
    def explanation(self) -> str: ...
    @property
    def lower_limits(self) -> tuple[Fraction | None, ...]: ...
    @property
    def is_count(self) -> tuple[bool, ...]: ...
    @property
    def additive(self) -> tuple[bool, ...]: ...
    @property
    def keys_selected(self) -> bool: ...
    @property
    def fixed_totals(self) -> tuple[Fraction | None, ...]: ...


class PostprocessedAnswer(NamedTuple):
    """What changes of it."""

    rows: AnswerRows
    explanation: str
    fixed_totals: tuple[Fraction | None, ...]


def is_additive(aggregate: ast.Aggregate, bounded: BoundedQuery) -> bool:
    """Whether the groups of a column add up to the same column over everybody: rows and sums do, and units if each is
    counted in one group only."""
    if isinstance(aggregate, ast.CountUnits):
        return bounded.max_groups == 1
    return isinstance(aggregate, ast.CountRows | ast.CountValues | ast.Histogram | ast.Sum)


def check_additive(groups: Sequence[object], additive: Sequence[bool]) -> None:
    """Refuse an answer in which nothing can be made to add up; all of this is known before the question is asked."""
    if not groups:
        raise BadParameter("answer", "one row", "nothing adds up to it", "ask by group, with GROUP BY")
    if not any(additive):
        raise BadParameter("answer", "without counts and sums", "no column adds up", "ask for a count or a sum")


def clip_negative(answer: AnswerLike, columns: Sequence[str]) -> PostprocessedAnswer:
    """What cannot be negative, as at least 0."""
    sure = [least is not None and least >= 0 for least in answer.lower_limits]
    for name in columns:
        if not sure[find_column(answer, name)]:
            raise BadParameter("column", repr(name), "its true value may be negative", "leave it as it is")
    chosen = _choose_columns(answer, columns, sure)
    rows = _replace_columns(answer, chosen, lambda i: [_clip_estimate(cell) for cell in _column_estimates(answer, i)])
    return PostprocessedAnswer(
        rows, _extend_explanation(answer, chosen, "Negative values are shown as 0 (post-processing)"), answer.fixed_totals
    )


def round_to_integers(answer: AnswerLike, columns: Sequence[str]) -> PostprocessedAnswer:
    """Whole numbers, intervals rounded outward. A column that was made consistent keeps its total, rounded itself."""
    chosen = _choose_columns(answer, columns, answer.is_count)

    def rounded(i: int) -> list[Estimate]:
        cells, kept = _column_estimates(answer, i), answer.fixed_totals[i] if answer.fixed_totals else None
        values = [cell.value for cell in cells]
        whole = [round(value) for value in values] if kept is None else apportion(values, round(kept))
        return [_round_estimate(cell, value) for cell, value in zip(cells, whole, strict=True)]

    said = _extend_explanation(answer, chosen, "Values are rounded to whole numbers (post-processing)")
    return PostprocessedAnswer(_replace_columns(answer, chosen, rounded), said, answer.fixed_totals)


def make_consistent(answer: AnswerLike, total: Mapping[str, Number] | None) -> PostprocessedAnswer:
    """Counts and sums moved to the nearest values that add up to their total, none below 0 where that is known."""
    check_additive(answer.groups, answer.additive)
    given = {name: to_rational(value, "total") for name, value in (total or {}).items()}
    for name in given:
        if not answer.additive[find_column(answer, name)]:
            raise BadParameter("total", repr(name), "its groups do not add up", "give totals of counts and sums")
    chosen = _choose_columns(answer, (), answer.additive)
    sums = tuple(_target_total(answer, i, given.get(name)) if i in chosen else None for i, name in enumerate(answer.columns))

    def moved(i: int) -> list[Estimate]:
        cells, wanted = _column_estimates(answer, i), sums[i]
        assert wanted is not None
        values = project_to_total([to_rational(cell.value) for cell in cells], wanted, positive=_is_non_negative(answer, i))
        return [cell.adjust(_to_number(value), cell.lower, cell.upper) for cell, value in zip(cells, values, strict=True)]

    said = _extend_explanation(
        answer, chosen, "Values are moved to the nearest ones that add up to their total (post-processing)"
    )
    said += " The intervals stay where they were and cover the bounded totals; a value outside of its own is not reliable."
    hidden = " Keys that are not shown are no part of these totals." if answer.keys_selected else ""
    return PostprocessedAnswer(_replace_columns(answer, chosen, moved), said + hidden, sums)


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
    """Where a column stands."""
    if name not in answer.columns:
        raise BadParameter("column", repr(name), "not in this answer", f"take one of {', '.join(answer.columns)}")
    return answer.columns.index(name)


def _target_total(answer: AnswerLike, i: int, given: Fraction | None) -> Fraction:
    if given is None:
        own = sum((to_rational(cell.value) for cell in _column_estimates(answer, i)), Fraction(0))
        return max(own, Fraction(0)) if _is_non_negative(answer, i) else own
    if given < 0 and _is_non_negative(answer, i):
        raise BadParameter("total", format_rational(given), "this column is never negative", "give a total of at least 0")
    return given


def _is_non_negative(answer: AnswerLike, i: int) -> bool:
    least = answer.lower_limits[i]
    return least is not None and least >= 0


def _choose_columns(answer: AnswerLike, names: Sequence[str], default: Sequence[bool]) -> frozenset[int]:
    if names:
        return frozenset(find_column(answer, name) for name in names)
    return frozenset(i for i, wanted in enumerate(default) if wanted)


def _column_estimates(answer: AnswerLike, i: int) -> list[Estimate]:
    return [row[i] for _, row in answer.rows]


def _replace_columns(answer: AnswerLike, chosen: frozenset[int], change: Callable[[int], list[Estimate]]) -> AnswerRows:
    columns = [change(i) if i in chosen else _column_estimates(answer, i) for i in range(len(answer.columns))]
    return tuple((keys, tuple(column[j] for column in columns)) for j, (keys, _) in enumerate(answer.rows))


def _extend_explanation(answer: AnswerLike, chosen: frozenset[int], note: str) -> str:
    names = ", ".join(name for i, name in enumerate(answer.columns) if i in chosen)
    return f"{answer.explanation} {note}: {names}." if names else answer.explanation


def _clip_estimate(estimate: Estimate) -> Estimate:
    return estimate.adjust(max(estimate.value, 0), max(estimate.lower, 0), max(estimate.upper, 0))


def _round_estimate(estimate: Estimate, value: int) -> Estimate:
    return estimate.adjust(value, floor(estimate.lower), ceil(estimate.upper))


def _to_number(exact: Fraction) -> float:
    return exact.numerator if exact.denominator == 1 else float(exact)
