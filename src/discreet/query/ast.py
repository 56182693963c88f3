"""A question, as a frozen value: what is counted or added up, of which rows, per which keys.

Expressions are total functions. Nothing in this vocabulary can raise, divide by zero or depend on the order of rows.
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TypeAlias, assert_never

from discreet.query.schema import Key


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a column."""

    column: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Plus:
    left: "Value"
    right: "Value"


@dataclass(frozen=True, slots=True)
class Minus:
    left: "Value"
    right: "Value"


@dataclass(frozen=True, slots=True)
class Times:
    left: "Value"
    right: "Value"


@dataclass(frozen=True, slots=True)
class Bin:
    """⌊value/width⌋ for a width above 0; what an analyst writes has a whole one."""

    value: "Value"
    width: int | Fraction


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition holds; else the default, which may be missing (NULL)."""

    branches: "tuple[tuple[Condition, Value], ...]"
    default: "Value | None"


Value: TypeAlias = Ref | Number | Plus | Minus | Times | Bin | Case


class Order(Enum):
    """How two values compare."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    """A column against a constant, or two numeric values against each other. Unknown if either is missing."""

    order: Order
    left: Value
    right: "Value | Constant"


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, truth value, date or time to compare a column with."""

    value: Key


@dataclass(frozen=True, slots=True)
class OneOf:
    """Whether a column's value is among these."""

    value: Ref
    among: "tuple[Number | Constant, ...]"


@dataclass(frozen=True, slots=True)
class Missing:
    """Whether a column's value is NULL (or NaN, which counts as NULL)."""

    value: Ref


@dataclass(frozen=True, slots=True)
class All:
    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Any:
    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    part: "Condition"


Condition: TypeAlias = Compare | OneOf | Missing | All | Any | Not


@dataclass(frozen=True, slots=True)
class CountRows:
    """COUNT(*)."""


@dataclass(frozen=True, slots=True)
class CountValues:
    """COUNT(value): the rows where it is not missing."""

    value: Value


@dataclass(frozen=True, slots=True)
class CountUnits:
    """COUNT(DISTINCT unit)."""


@dataclass(frozen=True, slots=True)
class Sum:
    value: Value


@dataclass(frozen=True, slots=True)
class Mean:
    value: Value


@dataclass(frozen=True, slots=True)
class Variance:
    """The population's variance, or with `root` its standard deviation."""

    value: Value
    root: bool = False


MIN_QUANTILE, MAX_QUANTILE = Fraction(1, 100), Fraction(99, 100)
"""MIN and MAX are the 1% and 99% quantiles: a true extreme is one person's value."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """The value below which a share `q` of the rows lies, 0 < q < 1."""

    value: Value
    q: Fraction


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts between these edges: [e₀, e₁), [e₁, e₂), …, of which the last is closed. What lies outside is not counted."""

    value: Value
    edges: tuple[Fraction, ...]


ScalarAggregate: TypeAlias = CountRows | CountValues | CountUnits | Sum | Mean | Variance
Aggregate: TypeAlias = ScalarAggregate | Quantile | Histogram


@dataclass(frozen=True, slots=True)
class Grouping:
    """A column of the answer that rows are grouped by: a column of the table or a binned value."""

    name: str
    value: "Ref | Bin"
    keys: tuple[Key, ...] | None = None  # None: as declared, or unknown


@dataclass(frozen=True, slots=True)
class Join:
    """Each row gets the columns of the row of a public table whose `there` equals its `here`: there is at most one.

    A row without a match is dropped, or with `left` kept, its new columns being missing. The new columns are called
    "table.column".
    """

    table: str
    here: str
    there: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """The whole question."""

    table: str
    aggregates: tuple[tuple[str, Aggregate], ...]
    where: Condition | None = None
    groups: tuple[Grouping, ...] = ()
    joins: tuple[Join, ...] = ()


# A question as SQL text, for people to read. The engine never sees it.


def to_sql(query: Query, unit: str = "unit") -> str:
    """The text of a question about a table with this unit.

    >>> older = Compare(Order.AT_LEAST, Ref("age"), Number(Fraction(18)))
    >>> to_sql(Query("people", (("n", CountRows()),), older, (Grouping("dept", Ref("dept")),)))
    'SELECT dept, COUNT(*) AS n FROM people WHERE age >= 18 GROUP BY dept'
    """
    items = [_format_item(_format_value(group.value), group.name) for group in query.groups]
    items += [f"{_format_aggregate(aggregate, unit)} AS {_quote_name(name)}" for name, aggregate in query.aggregates]
    joins = "".join(_format_join(join, query.table) for join in query.joins)
    where = "" if query.where is None else f" WHERE {_format_condition(query.where)}"
    groups = f" GROUP BY {', '.join(_format_value(group.value) for group in query.groups)}" if query.groups else ""
    return f"SELECT {', '.join(items)} FROM {_quote_name(query.table)}{joins}{where}{groups}"


def _quote_name(name: str) -> str:
    plain = name.isidentifier() and name.upper() not in ("TRUE", "FALSE", "NULL")
    return name if plain else '"' + name.replace('"', '""') + '"'


def _format_item(text: str, name: str) -> str:
    return text if text == _quote_name(name) else f"{text} AS {_quote_name(name)}"


def _format_join(join: Join, table: str) -> str:
    here = _format_value(Ref(join.here)) if "." in join.here else f"{_quote_name(table)}.{_quote_name(join.here)}"
    kind = "LEFT JOIN" if join.left else "JOIN"
    return f" {kind} {_quote_name(join.table)} ON {here} = {_quote_name(join.table)}.{_quote_name(join.there)}"


def _format_number(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number)!r}"


def _format_value(value: Value) -> str:
    match value:
        case Ref(column=column):
            return ".".join(_quote_name(part) for part in column.split("."))
        case Number(value=number):
            return _format_number(number)
        case Plus(left=left, right=right):
            return f"({_format_value(left)} + {_format_value(right)})"
        case Minus(left=left, right=right):
            return f"({_format_value(left)} - {_format_value(right)})"
        case Times(left=left, right=right):
            return f"({_format_value(left)} * {_format_value(right)})"
        case Bin(value=inner, width=width):
            return f"({_format_value(inner)} // {_format_number(Fraction(width))})"
        case Case(branches=branches, default=default):
            whens = " ".join(f"WHEN {_format_condition(c)} THEN {_format_value(v)}" for c, v in branches)
            return f"CASE {whens}{'' if default is None else f' ELSE {_format_value(default)}'} END"
        case _:
            assert_never(value)


def _format_constant(constant: "Value | Constant") -> str:
    if not isinstance(constant, Constant):
        return _format_value(constant)
    shown = constant.value
    return str(shown).upper() if isinstance(shown, bool) else "'" + str(shown).replace("'", "''") + "'"


def _format_condition(condition: Condition) -> str:
    match condition:
        case Compare(order=order, left=left, right=right):
            return f"{_format_value(left)} {order.value} {_format_constant(right)}"
        case OneOf(value=ref, among=among):
            return f"{_format_value(ref)} IN ({', '.join(map(_format_constant, among))})"
        case Missing(value=ref):
            return f"{_format_value(ref)} IS NULL"
        case All(parts=parts):
            return "(" + " AND ".join(map(_format_condition, parts)) + ")"
        case Any(parts=parts):
            return "(" + " OR ".join(map(_format_condition, parts)) + ")"
        case Not(part=part):
            return f"NOT ({_format_condition(part)})"
        case _:
            assert_never(condition)


def _format_aggregate(aggregate: Aggregate, unit: str) -> str:
    match aggregate:
        case CountRows():
            return "COUNT(*)"
        case CountUnits():
            return f"COUNT(DISTINCT {_quote_name(unit)})"
        case CountValues(value=value):
            return f"COUNT({_format_value(value)})"
        case Sum(value=value):
            return f"SUM({_format_value(value)})"
        case Mean(value=value):
            return f"AVG({_format_value(value)})"
        case Variance(value=value, root=root):
            return f"{'STDDEV' if root else 'VARIANCE'}({_format_value(value)})"
        case Quantile(value=value, q=q):
            return f"QUANTILE({_format_value(value)}, {_format_number(q)})"
        case Histogram(value=value, edges=edges):
            return f"HISTOGRAM({', '.join([_format_value(value), *map(_format_number, edges)])})"
        case _:
            assert_never(aggregate)
