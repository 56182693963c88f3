"""A query as a frozen value: aggregates, of which rows, per which group keys; and as SQL text for people to read.

Expressions are total functions of a row. Nothing in this vocabulary can raise, divide by zero or depend on the order of
rows. `docs/asking.md` states the rule of each; `query.grid` has the range of each, `sql.expressions` its SQL.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, TypeAlias, assert_never

from discreet.query.schema import Key, Table

if TYPE_CHECKING:
    from discreet.query.estimates import AnswerColumn, Estimate, NoisyStatistics, PredictedError, StatisticNoise
    from discreet.query.statistics import Statistic


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a column."""

    column: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant number."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Plus:
    """left + right"""

    left: "Value"
    right: "Value"


@dataclass(frozen=True, slots=True)
class Minus:
    """left - right"""

    left: "Value"
    right: "Value"


@dataclass(frozen=True, slots=True)
class Times:
    """left * right"""

    left: "Value"
    right: "Value"


@dataclass(frozen=True, slots=True)
class Bin:
    """⌊value/width⌋ for a width above 0. An analyst's width is an integer."""

    value: "Value"
    width: int | Fraction


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch with a condition that holds; else the default, which may be NULL."""

    branches: "tuple[tuple[Condition, Value], ...]"
    default: "Value | None"


@dataclass(frozen=True, slots=True)
class Divide:
    """value / divisor for a constant divisor that is not 0, rounded to the nearest step of its grid (ties go up)."""

    value: "Value"
    divisor: Fraction


class Rounding(Enum):
    """Which multiple a value is rounded to."""

    NEAREST = "ROUND"  # ties go up, towards +∞: 2.5 becomes 3, and -2.5 becomes -2
    DOWN = "FLOOR"
    UP = "CEIL"


@dataclass(frozen=True, slots=True)
class Round:
    """value rounded to a multiple of 10^-digits. FLOOR and CEIL have 0 digits."""

    value: "Value"
    rounding: Rounding
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Abs:
    """|value|"""

    value: "Value"


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first of these values that is not NULL; NULL if all are."""

    values: "tuple[Value, ...]"


@dataclass(frozen=True, slots=True)
class Extreme:
    """The greatest or the least of the values that are not NULL; NULL if all are."""

    values: "tuple[Value, ...]"
    greatest: bool


@dataclass(frozen=True, slots=True)
class NullIf:
    """NULL where value equals other, else value. A column is compared with a number before it is clipped."""

    value: "Value"
    other: "Value"


class Part(Enum):
    """A part of a date or time, in UTC: an integer."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    ISODOW = "isodow"  # the day of the week, Monday = 1 to Sunday = 7


@dataclass(frozen=True, slots=True)
class DatePart:
    """A part of a column of dates or times, which are clipped to their bounds first."""

    part: Part
    column: Ref


class Period(Enum):
    """What a date or time is truncated to. A week begins on Monday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class DateTrunc:
    """The first day of the period that a date or time is in, after it was clipped to its bounds: a date, and no number."""

    period: Period
    column: Ref


Value: TypeAlias = (
    Ref | Number | Plus | Minus | Times | Bin | Case | Divide | Round | Abs | Coalesce | Extreme | NullIf | DatePart
)
"""A numeric expression."""

GroupValue: TypeAlias = Ref | Bin | Round | DatePart | DateTrunc
"""What rows can be grouped by, and of what distinct values can be counted."""


class Order(Enum):
    """How two values compare."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="

    @property
    def mirrored(self) -> "Order":
        """How the second value compares with the first."""
        mirrors = {"<": Order.MORE, "<=": Order.AT_LEAST, ">": Order.LESS, ">=": Order.AT_MOST}
        return mirrors.get(self.value, self)


@dataclass(frozen=True, slots=True)
class Compare:
    """A column, or a truncated one, compared with a constant; or one numeric expression with another. Unknown if either is
    NULL."""

    order: Order
    left: "Value | DateTrunc"
    right: "Value | Constant"


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, truth value, date or time to compare a column with."""

    value: Key


@dataclass(frozen=True, slots=True)
class OneOf:
    """The condition that the value of a column, or of a numeric expression, is among these."""

    value: "Value | DateTrunc"
    among: "tuple[Number | Constant, ...]"


@dataclass(frozen=True, slots=True)
class Missing:
    """The condition that a value is NULL (or NaN, which counts as NULL)."""

    value: "Value | DateTrunc"


@dataclass(frozen=True, slots=True)
class Like:
    """The condition that a column's text matches a pattern: % is any text, _ any one character, the rest itself."""

    value: Ref
    pattern: str


@dataclass(frozen=True, slots=True)
class All:
    """The condition that all these hold."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Any:
    """The condition that one of these holds."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """The condition that this does not hold."""

    part: "Condition"


Condition: TypeAlias = Compare | OneOf | Missing | Like | All | Any | Not


class Aggregate(ABC):
    """What is computed of each group's rows. `query.aggregates` has one class for each, a frozen dataclass.

    An aggregate knows the statistics that it is computed from, its estimate with an interval, its predicted error, whether
    it adds up over groups, and its SQL. Defaults are those of an aggregate with one column that is not a count.
    """

    __slots__ = ()
    depends_on_size: ClassVar[bool] = False  # whether its error depends on how many rows it is taken over
    has_cells: ClassVar[bool] = False  # whether it becomes several columns of the answer

    @abstractmethod
    def to_sql(self, unit: str) -> str:
        """Return it as SQL text about a table with this privacy unit."""

    @abstractmethod
    def check(self, table: Table) -> None:
        """Refuse what is not a total function of every possible row of the table."""

    @abstractmethod
    def statistics(self, table: Table) -> "tuple[Statistic, ...]":
        """Return the exact statistics that it is computed from."""

    @abstractmethod
    def estimate(self, noisy: "NoisyStatistics") -> "Iterator[tuple[Estimate, ...]]":
        """Yield its estimates, group by group: one for each of its columns."""

    @abstractmethod
    def columns(self, name: str, table: Table, max_groups: int) -> "tuple[AnswerColumn, ...]":
        """Return the columns of the answer that it becomes, with what is public about each; a unit is in at most
        `max_groups` groups."""

    @abstractmethod
    def predict(self, noise: "StatisticNoise", sizes: tuple[int, ...]) -> "PredictedError":
        """Return its half-widths: outright, or for groups of these sizes."""

    @abstractmethod
    def half_width_limits(self, table: Table, size: int) -> tuple[float, ...]:
        """Return the largest half-widths at which an estimate over `size` rows is reliable, were the values spread evenly
        over their declared range."""

    def row_count_error(self, noise: "StatisticNoise") -> float | None:
        """Return the error of the noisy row count that it divides by; None if it divides by none."""
        return None

    def values_with_bounds(self) -> tuple[Value, ...]:
        """Return the expressions in it whose columns need declared bounds."""
        return ()


@dataclass(frozen=True, slots=True)
class Grouping:
    """What rows are grouped by: a column of the table, a bin, or a part of a date; and its name in the answer."""

    name: str
    value: GroupValue
    keys: tuple[Key, ...] | None = None  # given with the query; None: the declared ones, if there are any


@dataclass(frozen=True, slots=True)
class Join:
    """A join to a public table: each row gets the columns of the at most one public row with `there` equal to its `here`.

    A row without a match is dropped; with `left` it stays, with NULL in the new columns. The new columns are called
    "table.column".
    """

    table: str
    here: str
    there: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column of the answer that its rows are sorted by. NULL comes last unless `nulls_first`, in both directions."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """Which rows and columns of an answer are shown, and in which order: ORDER BY, LIMIT, OFFSET and HAVING.

    A view is post-processing of the noisy answer. It is no part of what is measured, so that all views of the same query
    have the same measurement, and all but the first are free. Names are those of the answer's columns, group keys included.
    """

    having: Condition | None = None  # of columns of the answer
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    hidden: tuple[str, ...] = ()  # aggregates that are measured, and used in HAVING or ORDER BY, but not shown

    def drops_rows(self) -> bool:
        """Return whether some rows may not be shown."""
        return self.having is not None or self.limit is not None or self.offset > 0

    def selects_by_noise(self, keys: "tuple[str, ...]") -> bool:
        """Return whether noisy values decide which rows are shown, or which come first. `keys` are the names of the group
        keys, which are not noisy; without any there is one row, and nothing to sort."""
        used = {key.column for key in self.order_by} if keys else set()
        if self.having is not None:
            used |= columns_in(self.having)
        return not used <= set(keys)


def columns_in(condition: Condition) -> set[str]:
    """Return the columns that a HAVING compares."""
    match condition:
        case Compare(left=left, right=right):
            return {side.column for side in (left, right) if isinstance(side, Ref)}
        case OneOf(value=Ref(column=name)) | Missing(value=Ref(column=name)):
            return {name}
        case All(parts=parts) | Any(parts=parts):
            return set[str]().union(*map(columns_in, parts))
        case Not(part=part):
            return columns_in(part)
        case _:
            return set()


WHOLE_ANSWER = View()

Margin: TypeAlias = tuple[int, ...]
"""A set of groupings: their indexes in `Query.groups`, in ascending order. () is the total."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a table. All but the `view` is measured."""

    table: str
    aggregates: tuple[tuple[str, Aggregate], ...]
    where: Condition | None = None
    groups: tuple[Grouping, ...] = ()
    joins: tuple[Join, ...] = ()
    view: View = WHOLE_ANSWER
    margins: tuple[Margin, ...] = ()
    """The tables that GROUPING SETS, CUBE or ROLLUP ask for, in the order of `sort_margins`; none of one table by all
    groups."""

    @property
    def selects_by_noise(self) -> bool:
        """Whether noisy values decide which rows of the answer are shown, or which come first."""
        return self.view.selects_by_noise(tuple(group.name for group in self.groups))


def sort_margins(margins: Iterable[Iterable[int]]) -> tuple[Margin, ...]:
    """Return each margin once, those with more columns first.

    >>> sort_margins([(), {1, 0}, [0], (0, 1)])
    ((0, 1), (0,), ())
    """
    return tuple(sorted({tuple(sorted(set(margin))) for margin in margins}, key=lambda each: (-len(each), each)))


# -- a query as SQL text, which no engine sees -----------------------------------------------------------------------------


def to_sql(query: Query, unit: str = "unit") -> str:
    """Return what a query measures as SQL about a table with this privacy unit: the query without its view.

    >>> from discreet.query.aggregates import CountRows
    >>> older = Compare(Order.AT_LEAST, Ref("age"), Number(Fraction(18)))
    >>> to_sql(Query("people", (("n", CountRows()),), older, (Grouping("dept", Ref("dept")),)))
    'SELECT dept, COUNT(*) AS n FROM people WHERE age >= 18 GROUP BY dept'
    """
    items = []
    for group in query.groups:
        text, name = format_value(group.value), quote_name(group.name)
        items.append(text if text == name else f"{text} AS {name}")
    items += [f"{aggregate.to_sql(unit)} AS {quote_name(name)}" for name, aggregate in query.aggregates]
    joins = "".join(_format_join(join, query.table) for join in query.joins)
    where = "" if query.where is None else f" WHERE {_format_condition(query.where)}"
    names = [format_value(group.value) for group in query.groups]
    sets = ", ".join(f"({', '.join(names[i] for i in margin)})" for margin in query.margins)
    groups = f" GROUP BY {f'GROUPING SETS ({sets})' if sets else ', '.join(names)}" if query.groups else ""
    return f"SELECT {', '.join(items)} FROM {quote_name(query.table)}{joins}{where}{groups}"


def format_view(view: View) -> str:
    """Return the clauses of a view as SQL, to stand after the query.

    >>> format_view(View(order_by=(SortKey("n", descending=True),), limit=3))
    ' ORDER BY n DESC LIMIT 3'
    """
    having = "" if view.having is None else f" HAVING {_format_condition(view.having)}"
    keys = ", ".join(map(_format_sort_key, view.order_by))
    limit = "" if view.limit is None else f" LIMIT {view.limit}"
    return f"{having}{f' ORDER BY {keys}' if keys else ''}{limit}{f' OFFSET {view.offset}' if view.offset else ''}"


def _format_sort_key(key: SortKey) -> str:
    return f"{quote_name(key.column)}{' DESC' * key.descending}{' NULLS FIRST' * key.nulls_first}"


def quote_name(name: str) -> str:
    """Return a name as SQL, in double quotes where it is not a plain word."""
    plain = name.isidentifier() and name.upper() not in ("TRUE", "FALSE", "NULL")
    return name if plain else '"' + name.replace('"', '""') + '"'


def _format_join(join: Join, table: str) -> str:
    here = format_value(Ref(join.here)) if "." in join.here else f"{quote_name(table)}.{quote_name(join.here)}"
    kind = "LEFT JOIN" if join.left else "JOIN"
    return f" {kind} {quote_name(join.table)} ON {here} = {quote_name(join.table)}.{quote_name(join.there)}"


def format_number(number: Fraction) -> str:
    """Return a number as SQL."""
    return str(number.numerator) if number.denominator == 1 else f"{float(number)!r}"


def format_value(value: Value | DateTrunc) -> str:
    """Return an expression as SQL."""
    match value:
        case Ref(column=column):
            return ".".join(quote_name(part) for part in column.split("."))
        case Number(value=number):
            return format_number(number)
        case Plus(left=left, right=right):
            return f"({format_value(left)} + {format_value(right)})"
        case Minus(left=left, right=right):
            return f"({format_value(left)} - {format_value(right)})"
        case Times(left=left, right=right):
            return f"({format_value(left)} * {format_value(right)})"
        case Bin(value=inner, width=width):
            return f"({format_value(inner)} // {format_number(Fraction(width))})"
        case Case(branches=branches, default=default):
            whens = " ".join(f"WHEN {_format_condition(c)} THEN {format_value(v)}" for c, v in branches)
            return f"CASE {whens}{'' if default is None else f' ELSE {format_value(default)}'} END"
        case Divide(value=inner, divisor=divisor):
            return f"({format_value(inner)} / {format_number(divisor)})"
        case Round(value=inner, rounding=rounding, digits=digits):
            return f"{rounding.value}({format_value(inner)}{f', {digits}' if digits else ''})"
        case Abs(value=inner):
            return f"ABS({format_value(inner)})"
        case Coalesce(values=values):
            return f"COALESCE({', '.join(map(format_value, values))})"
        case Extreme(values=values, greatest=greatest):
            return f"{'GREATEST' if greatest else 'LEAST'}({', '.join(map(format_value, values))})"
        case NullIf(value=inner, other=other):
            return f"NULLIF({format_value(inner)}, {format_value(other)})"
        case DatePart(part=part, column=ref):
            return f"EXTRACT({part.value.upper()} FROM {format_value(ref)})"
        case DateTrunc(period=period, column=ref):
            return f"DATE_TRUNC('{period.value}', {format_value(ref)})"
        case _:
            assert_never(value)


def _format_constant(constant: Value | Constant) -> str:
    if not isinstance(constant, Constant):
        return format_value(constant)
    value = constant.value
    return str(value).upper() if isinstance(value, bool) else "'" + str(value).replace("'", "''") + "'"


def _format_condition(condition: Condition) -> str:
    match condition:
        case Compare(order=order, left=left, right=right):
            return f"{format_value(left)} {order.value} {_format_constant(right)}"
        case OneOf(value=ref, among=among):
            return f"{format_value(ref)} IN ({', '.join(map(_format_constant, among))})"
        case Missing(value=ref):
            return f"{format_value(ref)} IS NULL"
        case Like(value=ref, pattern=pattern):
            return f"{format_value(ref)} LIKE {_format_constant(Constant(pattern))}"
        case All(parts=parts):
            return "(" + " AND ".join(map(_format_condition, parts)) + ")"
        case Any(parts=parts):
            return "(" + " OR ".join(map(_format_condition, parts)) + ")"
        case Not(part=part):
            return f"NOT ({_format_condition(part)})"
        case _:
            assert_never(condition)
