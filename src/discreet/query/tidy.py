"""Answers made tidier after the fact: no negative counts, whole numbers, groups that add up to their total.

All of it is post-processing: it sees the noisy answer and nothing else, so it costs nothing, and the answer's explanation
says that it was done. Values move; what an interval covers, the bounded total, stays what it was.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple, Protocol, TypeAlias

from discreet.errors import BadParameter
from discreet.exact import Number, rational, shown
from discreet.query import plan
from discreet.query.bound import Bounded
from discreet.query.cells import Cell
from discreet.query.table import Key

Rows: TypeAlias = tuple[tuple[tuple[Key, ...], tuple[Cell, ...]], ...]


class Answer(Protocol):
    """What is looked at of a release."""

    @property
    def groups(self) -> tuple[str, ...]: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> Rows: ...
    @property
    def explanation(self) -> str: ...
    @property
    def known_least(self) -> tuple[Fraction | None, ...]: ...
    @property
    def counted(self) -> tuple[bool, ...]: ...
    @property
    def additive(self) -> tuple[bool, ...]: ...
    @property
    def selected(self) -> bool: ...
    @property
    def sums(self) -> tuple[Fraction | None, ...]: ...


class Tidied(NamedTuple):
    """What changes of it."""

    rows: Rows
    explanation: str
    sums: tuple[Fraction | None, ...]


def adds_up(aggregate: plan.Aggregate, bounded: Bounded) -> bool:
    """Whether the groups of a column add up to the same column over everybody: rows and sums do, and units if each is
    counted in one group only."""
    if isinstance(aggregate, plan.CountUnits):
        return bounded.groups == 1
    return isinstance(aggregate, plan.CountRows | plan.CountValues | plan.Histogram | plan.Sum)


def check_additive(groups: Sequence[object], additive: Sequence[bool]) -> None:
    """Refuse an answer in which nothing can be made to add up; all of this is known before the question is asked."""
    if not groups:
        raise BadParameter("answer", "one row", "nothing adds up to it", "ask by group, with GROUP BY")
    if not any(additive):
        raise BadParameter("answer", "without counts and sums", "no column adds up", "ask for a count or a sum")


def non_negative(answer: Answer, columns: Sequence[str]) -> Tidied:
    """What cannot be negative, as at least 0."""
    sure = [least is not None and least >= 0 for least in answer.known_least]
    for name in columns:
        if not sure[index(answer, name)]:
            raise BadParameter("column", repr(name), "its true value may be negative", "leave it as it is")
    chosen = _chosen(answer, columns, sure)
    rows = _changed(answer, chosen, lambda i: [_raised(cell) for cell in _column(answer, i)])
    return Tidied(rows, _said(answer, chosen, "Negative values are shown as 0 (post-processing)"), answer.sums)


def integers(answer: Answer, columns: Sequence[str]) -> Tidied:
    """Whole numbers, intervals rounded outward. A column that was made consistent keeps its total, rounded itself."""
    chosen = _chosen(answer, columns, answer.counted)

    def rounded(i: int) -> list[Cell]:
        cells, kept = _column(answer, i), answer.sums[i] if answer.sums else None
        values = [cell.value for cell in cells]
        whole = [round(value) for value in values] if kept is None else apportioned(values, round(kept))
        return [_whole(cell, value) for cell, value in zip(cells, whole, strict=True)]

    said = _said(answer, chosen, "Values are rounded to whole numbers (post-processing)")
    return Tidied(_changed(answer, chosen, rounded), said, answer.sums)


def consistent(answer: Answer, total: Mapping[str, Number] | None) -> Tidied:
    """Counts and sums moved to the nearest values that add up to their total, none below 0 where that is known."""
    check_additive(answer.groups, answer.additive)
    given = {name: rational(value, "total") for name, value in (total or {}).items()}
    for name in given:
        if not answer.additive[index(answer, name)]:
            raise BadParameter("total", repr(name), "its groups do not add up", "give totals of counts and sums")
    chosen = _chosen(answer, (), answer.additive)
    sums = tuple(_total(answer, i, given.get(name)) if i in chosen else None for i, name in enumerate(answer.columns))

    def moved(i: int) -> list[Cell]:
        cells, wanted = _column(answer, i), sums[i]
        assert wanted is not None
        values = nearest([rational(cell.value) for cell in cells], wanted, positive=_never_negative(answer, i))
        return [cell.moved(_plain(value), cell.lower, cell.upper) for cell, value in zip(cells, values, strict=True)]

    said = _said(answer, chosen, "Values are moved to the nearest ones that add up to their total (post-processing)")
    said += " The intervals stay where they were and cover the bounded totals; a value outside of its own is not reliable."
    hidden = " Keys that are not shown are no part of these totals." if answer.selected else ""
    return Tidied(_changed(answer, chosen, moved), said + hidden, sums)


def nearest(values: Sequence[Fraction], total: Fraction, *, positive: bool) -> list[Fraction]:
    """The point of {Σx = total}, or of {x ≥ 0, Σx = total}, at the least Euclidean distance.

    It is max(x − t, 0) for the one t that makes the sum right: the multipliers of the constraints that bind are then not
    negative, which for a convex problem is enough. The k largest stay above 0, for the largest k that t allows.

    >>> nearest([Fraction(5), Fraction(3), Fraction(-2)], Fraction(6), positive=True)
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


def apportioned(values: Sequence[float], total: int) -> list[int]:
    """Whole numbers that add up to `total`: every value rounded down, and the largest remainders up.

    >>> apportioned([1.5, 2.25, 0.25], 4)
    [2, 2, 0]
    """
    if not values:
        return []
    lows = [floor(value) for value in values]
    each, more = divmod(total - sum(lows), len(lows))  # `each` is 0 but where doubles are too coarse to hold a unit
    last = sorted(range(len(lows)), key=lambda i: (lows[i] - values[i], i))
    raised = frozenset(last[:more])
    return [low + each + (i in raised) for i, low in enumerate(lows)]


def index(answer: Answer, name: str) -> int:
    """Where a column stands."""
    if name not in answer.columns:
        raise BadParameter("column", repr(name), "not in this answer", f"take one of {', '.join(answer.columns)}")
    return answer.columns.index(name)


def _total(answer: Answer, i: int, given: Fraction | None) -> Fraction:
    if given is None:
        own = sum((rational(cell.value) for cell in _column(answer, i)), Fraction(0))
        return max(own, Fraction(0)) if _never_negative(answer, i) else own
    if given < 0 and _never_negative(answer, i):
        raise BadParameter("total", shown(given), "this column is never negative", "give a total of at least 0")
    return given


def _never_negative(answer: Answer, i: int) -> bool:
    least = answer.known_least[i]
    return least is not None and least >= 0


def _chosen(answer: Answer, named: Sequence[str], default: Sequence[bool]) -> frozenset[int]:
    if named:
        return frozenset(index(answer, name) for name in named)
    return frozenset(i for i, wanted in enumerate(default) if wanted)


def _column(answer: Answer, i: int) -> list[Cell]:
    return [row[i] for _, row in answer.rows]


def _changed(answer: Answer, chosen: frozenset[int], change: Callable[[int], list[Cell]]) -> Rows:
    columns = [change(i) if i in chosen else _column(answer, i) for i in range(len(answer.columns))]
    return tuple((keys, tuple(column[j] for column in columns)) for j, (keys, _) in enumerate(answer.rows))


def _said(answer: Answer, chosen: frozenset[int], what: str) -> str:
    names = ", ".join(name for i, name in enumerate(answer.columns) if i in chosen)
    return f"{answer.explanation} {what}: {names}." if names else answer.explanation


def _raised(cell: Cell) -> Cell:
    return cell.moved(max(cell.value, 0), max(cell.lower, 0), max(cell.upper, 0))


def _whole(cell: Cell, value: int) -> Cell:
    return cell.moved(value, floor(cell.lower), ceil(cell.upper))


def _plain(exact: Fraction) -> float:
    return exact.numerator if exact.denominator == 1 else float(exact)
