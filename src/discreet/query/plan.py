"""A question, as a frozen value: what is counted or added up, of which rows, per which keys.

Expressions are total functions. Nothing in this vocabulary can raise, divide by zero or depend on the order of rows.
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

from discreet.query.table import Key


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
