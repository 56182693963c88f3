"""Queries written in Python. They become the same `Query` as SQL text does.

Operators build parts of a `Query` and compute nothing. Names are resolved, and the query is checked, when it meets a table
(`Select.to_query`).

>>> from discreet import col, count, select, when
>>> adults = (col("age") >= 18) & col("dept").is_in(["a", "b"])
>>> query = select(n=count(), mean=col("pay").mean(), p90=col("pay").quantile("0.9")).where(adults)
>>> query = query.group_by("dept", decade=col("age") // 10)
>>> query = query.select(seniors=when(col("age") > 60).then(1).otherwise(0).sum())
>>> [name for name, _ in query.aggregates], [group.name for group in query.groups]
(['n', 'mean', 'p90', 'seniors'], ['dept', 'decade'])
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn, TypeAlias, TypeVar

from discreet._numbers import Number, check_int, parse_rational, read_decimal
from discreet.errors import BadParameter, QueryRefused
from discreet.query import aggregates, ast
from discreet.query.schema import Key, Kind, Table, accepts
from discreet.query.validate import (
    MAX_BIN_WIDTH,
    MAX_CONSTANT,
    MAX_DEPTH,
    MAX_DIGITS,
    Scope,
    check_edges,
    check_size,
    compute_edges,
)


def to_constant(value: Any) -> ast.Number | ast.Constant:
    """Return a constant to compare with."""
    if any(accepts(kind, value) for kind in Kind if kind is not Kind.INTEGER):
        return ast.Constant(value)
    if value is None:
        raise QueryRefused("No value equals None", 'write col("age").is_null()')
    return ast.Number(to_number(value))


def to_number(value: Any) -> Fraction:
    """Return an exact number. A float means the decimal that Python prints for it: 0.1 is one tenth, as in SQL."""
    try:
        exact = parse_rational(value) if isinstance(value, str) else read_decimal(value)
    except BadParameter:
        raise QueryRefused(f"A {type(value).__name__} is not a finite number", "give a number such as 1.5") from None
    if abs(exact) > MAX_CONSTANT or exact.denominator > MAX_CONSTANT:
        raise QueryRefused("A number is too large or too fine", "give at most 10^15, with at most 15 decimals")
    return exact


@dataclass(frozen=True, slots=True)
class EvenHistogram:
    """A histogram with cells of one width. Its edges follow from the declared bounds, so it waits for a table."""

    value: ast.Value
    width: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """Something that is true, false or unknown of a row. Combine conditions with &, | and ~."""

    node: ast.Condition
    is_chain: bool = False  # made by & or |, so that a & b & c is one list of three

    def __and__(self, other: Any) -> "Condition":
        return self._chain(ast.All, other)

    def __rand__(self, other: Any) -> "Condition":
        return to_condition(other) & self

    def __or__(self, other: Any) -> "Condition":
        return self._chain(ast.Any, other)

    def __ror__(self, other: Any) -> "Condition":
        return to_condition(other) | self

    def __invert__(self) -> "Condition":
        return Condition(ast.Not(self.node))

    def _chain(self, make: type[ast.All] | type[ast.Any], other: Any) -> "Condition":
        parts = self.node.parts if self.is_chain and isinstance(self.node, make) else (self.node,)
        return Condition(make((*parts, to_condition(other).node)), is_chain=True)

    def __bool__(self) -> NoReturn:
        raise QueryRefused(
            "A condition has no truth value in Python",
            "use &, | and ~ in place of and, or, not; between() for a < x < b; when() for if; is_in() for in",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """What can be compared: a numeric expression, or a truncated date."""

    node: ast.Value | ast.DateTrunc

    def __lt__(self, other: Any) -> Condition:
        return self._compare(ast.Order.LESS, other)

    def __le__(self, other: Any) -> Condition:
        return self._compare(ast.Order.AT_MOST, other)

    def __gt__(self, other: Any) -> Condition:
        return self._compare(ast.Order.MORE, other)

    def __ge__(self, other: Any) -> Condition:
        return self._compare(ast.Order.AT_LEAST, other)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compare(ast.Order.EQUAL, other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compare(ast.Order.NOT_EQUAL, other)

    __hash__ = None  # type: ignore[assignment]

    def _compare(self, order: ast.Order, other: Any) -> Condition:
        if isinstance(other, Expression):
            return Condition(ast.Compare(order, self.node, other.node))
        return Condition(ast.Compare(order, self.node, to_constant(other)))

    def between(self, low: Any, high: Any) -> Condition:
        """Return the condition low ≤ value ≤ high."""
        return Condition(ast.All(((self >= low).node, (self <= high).node)))

    def is_in(self, among: Iterable[Any]) -> Condition:
        """Return the condition that the value is one of these constants."""
        if isinstance(among, str) or not isinstance(among, Iterable):
            raise QueryRefused(
                f"is_in takes a list of constants, not a {type(among).__name__}", 'write col("dept").is_in(["a", "b"])'
            )
        constants = tuple(to_constant(each) for each in among)
        if not constants:
            raise QueryRefused("is_in takes at least one constant", 'write col("dept").is_in(["a", "b"])')
        return Condition(ast.OneOf(self.node, constants))

    def is_null(self) -> Condition:
        """Return the condition that the value is NULL."""
        return Condition(ast.Missing(self.node))

    def is_not_null(self) -> Condition:
        """Return the condition that the value is not NULL."""
        return ~self.is_null()

    def count_distinct(self) -> aggregates.CountDistinct:
        """Count the distinct values of a column, of bins of one, or of parts of dates.

        >>> str(type(col("dept").count_distinct()).__name__)
        'CountDistinct'
        """
        if not isinstance(self.node, ast.GroupValue):
            raise QueryRefused(
                "only a column, or bins of one, have distinct values to count", "write col(…).count_distinct()"
            )
        return aggregates.CountDistinct(self.node)


@dataclass(frozen=True, slots=True, eq=False)
class TruncatedDate(Operand):
    """The first day of a period, made by `Expression.date_trunc`: a date to group by, to count, or to compare."""

    node: ast.DateTrunc


@dataclass(frozen=True, slots=True, eq=False)
class Expression(Operand):
    """A column, a number, or an expression of them."""

    node: ast.Value

    def __add__(self, other: Any) -> "Expression":
        return Expression(ast.Plus(self.node, to_expression(other).node))

    def __radd__(self, other: Any) -> "Expression":
        return to_expression(other) + self

    def __sub__(self, other: Any) -> "Expression":
        return Expression(ast.Minus(self.node, to_expression(other).node))

    def __rsub__(self, other: Any) -> "Expression":
        return to_expression(other) - self

    def __mul__(self, other: Any) -> "Expression":
        return Expression(ast.Times(self.node, to_expression(other).node))

    def __rmul__(self, other: Any) -> "Expression":
        return to_expression(other) * self

    def __neg__(self) -> "Expression":
        return Expression(ast.Minus(ast.Number(Fraction(0)), self.node))

    def __floordiv__(self, width: Any) -> "Expression":
        if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width < MAX_BIN_WIDTH:
            raise QueryRefused("The width of a bin is not an integer above 0", 'write col("age") // 10')
        return Expression(ast.Bin(self.node, width))

    def __truediv__(self, divisor: Any) -> "Expression":
        if isinstance(divisor, Expression):
            raise QueryRefused(
                "A division by a column is not supported, because it can fail on a row",
                "divide by a number, divide the answers, or bin with // and an integer width",
            )
        exact = to_number(divisor)
        if exact == 0:
            raise QueryRefused("A division by zero", "divide by a number that is not 0")
        return Expression(ast.Divide(self.node, exact))

    def __rtruediv__(self, other: Any) -> NoReturn:
        raise QueryRefused("A division by a column is not supported, because it can fail on a row", "divide the answers")

    def __abs__(self) -> "Expression":
        return Expression(ast.Abs(self.node))

    def abs(self) -> "Expression":
        """Return the distance from 0: ABS(x)."""
        return abs(self)

    def round(self, digits: int = 0) -> "Expression":
        """Round to so many digits after the point, ties up: ROUND(x, digits). Negative digits round to tens, hundreds, ….

        >>> ast.format_value(col("pay").round(-2).node)
        'ROUND(pay, -2)'
        """
        if isinstance(digits, bool) or not isinstance(digits, int) or abs(digits) > MAX_DIGITS:
            raise QueryRefused(f"round takes {-MAX_DIGITS} to {MAX_DIGITS} digits", 'write col("pay").round(2)')
        return Expression(ast.Round(self.node, ast.Rounding.NEAREST, digits))

    def floor(self) -> "Expression":
        """Round down to an integer: FLOOR(x)."""
        return Expression(ast.Round(self.node, ast.Rounding.DOWN))

    def ceil(self) -> "Expression":
        """Round up to an integer: CEIL(x)."""
        return Expression(ast.Round(self.node, ast.Rounding.UP))

    def coalesce(self, *others: Any) -> "Expression":
        """Return the first that is not NULL, of this value and these: COALESCE(x, y, 0).

        >>> ast.format_value(col("bonus").coalesce(0).node)
        'COALESCE(bonus, 0)'
        """
        return Expression(ast.Coalesce(self._with(others, "coalesce")))

    def greatest(self, *others: Any) -> "Expression":
        """Return the greatest that is not NULL, of this value and these: GREATEST(x, y)."""
        return Expression(ast.Extreme(self._with(others, "greatest"), greatest=True))

    def least(self, *others: Any) -> "Expression":
        """Return the least that is not NULL, of this value and these: LEAST(x, y)."""
        return Expression(ast.Extreme(self._with(others, "least"), greatest=False))

    def null_if(self, other: Any) -> "Expression":
        """Return NULL where the value equals the other: NULLIF(x, -999)."""
        return Expression(ast.NullIf(self.node, to_expression(other).node))

    def _with(self, others: tuple[Any, ...], method: str) -> tuple[ast.Value, ...]:
        if not others:
            raise QueryRefused(f"{method} takes at least one other value", f'write col("pay").{method}(0)')
        return (self.node, *(to_expression(each).node for each in others))

    def year(self) -> "Expression":
        """Return the year of a date or timestamp.

        >>> ast.format_value(col("day").year().node)
        'EXTRACT(YEAR FROM day)'
        """
        return self._part(ast.Part.YEAR)

    def quarter(self) -> "Expression":
        """Return the quarter of a date or timestamp, 1 to 4."""
        return self._part(ast.Part.QUARTER)

    def month(self) -> "Expression":
        """Return the month of a date or timestamp, 1 to 12."""
        return self._part(ast.Part.MONTH)

    def day(self) -> "Expression":
        """Return the day of the month of a date or timestamp, 1 to 31."""
        return self._part(ast.Part.DAY)

    def hour(self) -> "Expression":
        """Return the hour of a timestamp in UTC, 0 to 23."""
        return self._part(ast.Part.HOUR)

    def isodow(self) -> "Expression":
        """Return the day of the week of a date or timestamp, Monday = 1 to Sunday = 7."""
        return self._part(ast.Part.ISODOW)

    def _part(self, part: ast.Part) -> "Expression":
        return Expression(ast.DatePart(part, self._ref(part.value)))

    def date_trunc(self, period: str) -> "TruncatedDate":
        """Return the first day of the day, week, month, quarter or year of a date: to group by, count or compare.

        >>> ast.format_value(col("day").date_trunc("month").node)
        "DATE_TRUNC('month', day)"
        """
        known = {each.value: each for each in ast.Period}
        if period not in known:
            raise QueryRefused(f"date_trunc takes a period, not {period!r}", f"use one of {', '.join(known)}")
        return TruncatedDate(ast.DateTrunc(known[period], self._ref("date_trunc")))

    def like(self, pattern: str) -> Condition:
        """Return the condition that a text matches a pattern: % is any text, _ any one character.

        >>> col("dept").like("s%").node
        Like(value=Ref(column='dept'), pattern='s%')
        """
        if not isinstance(pattern, str):
            raise QueryRefused(f"like takes a text, not a {type(pattern).__name__}", 'write col("dept").like("s%")')
        return Condition(ast.Like(self._ref("like"), pattern))

    def _ref(self, method: str) -> ast.Ref:
        if not isinstance(self.node, ast.Ref):
            raise QueryRefused(f"{method} works on a column, not on an expression", f'write col("name").{method}(…)')
        return self.node

    def __and__(self, other: Any) -> Condition:
        return to_condition(self) & to_condition(other)

    def __rand__(self, other: Any) -> Condition:
        return to_condition(other) & to_condition(self)

    def __ror__(self, other: Any) -> Condition:
        return to_condition(other) | to_condition(self)

    def __or__(self, other: Any) -> Condition:
        return to_condition(self) | to_condition(other)

    def __invert__(self) -> Condition:
        return ~to_condition(self)

    def __bool__(self) -> NoReturn:
        raise QueryRefused("A column has no truth value in Python", "use &, | and ~ in place of and, or, not; when() for if")

    def when(self, condition: "Condition | Expression") -> "When":
        """Add a case for the rows where no condition before it holds."""
        return When(to_condition(condition), self._open_cases())

    def otherwise(self, value: Any) -> "Expression":
        """Give the value of the rows where no condition holds."""
        return Expression(ast.Case(self._open_cases(), to_expression(value).node))

    def _open_cases(self) -> tuple[tuple[ast.Condition, ast.Value], ...]:
        if not isinstance(self.node, ast.Case) or self.node.default is not None:
            raise QueryRefused("There is no open case to continue", "write when(…).then(…).when(…).then(…).otherwise(…)")
        return self.node.branches

    def count(self) -> aggregates.CountValues:
        """Count the rows where the value is not NULL."""
        return aggregates.CountValues(self.node)

    def sum(self) -> aggregates.Sum:
        """Add the values up."""
        return aggregates.Sum(self.node)

    def mean(self) -> aggregates.Mean:
        """Average the values."""
        return aggregates.Mean(self.node)

    def variance(self) -> aggregates.Variance:
        """Compute the population variance."""
        return aggregates.Variance(self.node)

    def std(self) -> aggregates.Variance:
        """Compute the population standard deviation."""
        return aggregates.Variance(self.node, root=True)

    def covariance(self, other: Any) -> aggregates.Covariance:
        """Compute the population covariance with another value, over the rows where neither is NULL.

        >>> col("age").covariance(col("pay")).to_sql("id")
        'COVAR_POP(age, pay)'
        """
        return aggregates.Covariance(self.node, to_expression(other).node)

    def correlation(self, other: Any) -> aggregates.Correlation:
        """Compute the correlation with another value, between −1 and 1, over the rows where neither is NULL.

        >>> col("age").correlation(col("pay")).to_sql("id")
        'CORR(age, pay)'
        """
        return aggregates.Correlation(self.node, to_expression(other).node)

    def median(self) -> aggregates.Quantile:
        """Find the middle value."""
        return aggregates.Quantile(self.node, Fraction(1, 2))

    def quantile(self, q: Number | str) -> aggregates.Quantile:
        """Find the value below which a share q of the rows lies, 0 < q < 1. Both "0.9" and 0.9 are exactly nine tenths."""
        share = to_number(q)
        if not 0 < share < 1:
            raise QueryRefused(f"A quantile takes a share between 0 and 1, not {q}", "write .quantile(0.9)")
        return aggregates.Quantile(self.node, share)

    def min(self) -> aggregates.Quantile:
        """Find the 1% quantile: a true minimum is one person's value."""
        return aggregates.Quantile(self.node, aggregates.MIN_QUANTILE)

    def max(self) -> aggregates.Quantile:
        """Find the 99% quantile: a true maximum is one person's value."""
        return aggregates.Quantile(self.node, aggregates.MAX_QUANTILE)

    def histogram(self, *edges: Number | str) -> "aggregates.Histogram | EvenHistogram":
        """Count in cells of one width over the declared bounds, or between two or more edges."""
        numbers = [to_number(edge) for edge in edges]
        if len(numbers) == 1:
            return EvenHistogram(self.node, numbers[0])
        return aggregates.Histogram(self.node, check_edges(numbers))


@dataclass(frozen=True, slots=True)
class When:
    """A condition that waits for its value: when(…)."""

    condition: Condition
    earlier_branches: tuple[tuple[ast.Condition, ast.Value], ...] = ()

    def then(self, value: Any) -> Expression:
        """Give the value where the condition holds; NULL elsewhere, unless another when() or otherwise() follows."""
        return Expression(ast.Case((*self.earlier_branches, (self.condition.node, to_expression(value).node)), None))


def to_condition(condition: Any) -> Condition:
    """Return a condition. A column alone is the condition that it is true."""
    if isinstance(condition, Condition):
        return condition
    if isinstance(condition, Expression) and isinstance(condition.node, ast.Ref):
        return Condition(ast.Compare(ast.Order.EQUAL, condition.node, ast.Constant(True)))
    raise QueryRefused(
        f"A {type(condition).__name__} is not a condition",
        'compare a column, in parentheses: (col("age") >= 18) & (col("age") < 65)',
    )


def to_sort_keys(columns: Sequence[str], descending: bool, nulls_first: bool) -> tuple[ast.SortKey, ...]:
    """Return the keys that rows of an answer are sorted by."""
    for column in columns:
        if not isinstance(column, str):
            raise QueryRefused(
                f"order_by takes names of columns of the answer, not {type(column).__name__}",
                'write order_by("n", descending=True), or order_by("total", total=col("pay").sum())',
            )
    if not isinstance(descending, bool) or not isinstance(nulls_first, bool):
        raise QueryRefused("descending and nulls_first are True or False", 'write order_by("n", descending=True)')
    return tuple(ast.SortKey(column, descending, nulls_first) for column in columns)


def to_expression(value: Any) -> Expression:
    """Return an expression, or a number as one."""
    return value if isinstance(value, Expression) else Expression(ast.Number(to_number(value)))


AggregateLike: TypeAlias = ast.Aggregate | EvenHistogram


@dataclass(frozen=True, slots=True)
class Select:
    """A query under construction. Each method returns a new one."""

    aggregates: tuple[tuple[str, AggregateLike], ...] = ()
    condition: Condition | None = None
    groups: tuple[ast.Grouping, ...] = ()
    joins: tuple[ast.Join, ...] = ()
    view: ast.View = ast.WHOLE_ANSWER
    sets: tuple[tuple[str, ...], ...] = ()  # names of groupings, one set for each table; none of one table by all groups

    def select(self, **aggregates: AggregateLike) -> "Select":
        """Add aggregates, each by the name of its column in the answer."""
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, AggregateLike):
                raise QueryRefused(
                    f"`{name}` is not an aggregate", f"write {name}=count(), {name}=col(…).sum(), .mean(), .quantile(0.9) …"
                )
        return replace(self, aggregates=(*self.aggregates, *aggregates.items()))

    def where(self, *conditions: Condition | Expression) -> "Select":
        """Keep only the rows where all these conditions are true."""
        combined = self.condition
        for condition in conditions:
            combined = to_condition(condition) if combined is None else combined & condition
        return replace(self, condition=combined)

    def group_by(
        self, *columns: str | Expression, keys: Mapping[str, Sequence[Key]] | None = None, **named: Operand
    ) -> "Select":
        """Group the rows by columns and, under a name, by bins or parts of dates. `keys` lists public keys by grouping."""
        groups = [ast.Grouping(value.column.rpartition(".")[2], value) for value in map(_to_column, columns)]
        groups += [ast.Grouping(name, _to_group_value(value)) for name, value in named.items()]
        for name, listed in (keys or {}).items():
            if isinstance(listed, str) or not isinstance(listed, Sequence):
                raise QueryRefused(f"The keys of `{name}` are not a list", f'write keys={{"{name}": ["a", "b"]}}')
            if name not in [group.name for group in groups]:
                raise QueryRefused(f"Keys are given for `{name}`, which is not grouped by", "name a grouping of this call")
        groups = [replace(each, keys=tuple(keys[each.name])) if keys and each.name in keys else each for each in groups]
        return replace(self, groups=(*self.groups, *groups))

    def grouping_sets(self, *sets: Sequence[str]) -> "Select":
        """Ask for several tables that add up, each by some of the groupings; () is the total.

        >>> query = select(n=count()).group_by("dept", "ok").grouping_sets(("dept", "ok"), ("dept",), ())
        >>> query.sets
        (('dept', 'ok'), ('dept',), ())
        """
        known = [group.name for group in self.groups]
        for each in sets:
            if isinstance(each, str) or not isinstance(each, Sequence):
                raise QueryRefused(
                    "A set of groupings is a list of names", 'write grouping_sets(("dept", "ok"), ("dept",), ())'
                )
            for name in each:
                if name not in known:
                    raise QueryRefused(f"`{name}` is not grouped by", "name groupings of group_by")
        return replace(self, sets=(*self.sets, *map(tuple, sets)))

    def join(self, table: str, *, on: str | tuple[str, str], left: bool = False) -> "Select":
        """Join a public table: `on` is a column of both tables, or (the one here, the one there)."""
        ends = (on, on) if isinstance(on, str) else on
        if not isinstance(ends, tuple) or [type(end) for end in ends] != [str, str] or not isinstance(table, str):
            raise QueryRefused(
                "A join takes the name of a public table, and `on` one column of either table",
                'write join("cities", on="city"), or on=("home", "city")',
            )
        here, there = ends
        return replace(self, joins=(*self.joins, ast.Join(table, here, there, left)))

    def having(self, *conditions: Condition | Expression, **hidden: AggregateLike) -> "Select":
        """Show only the rows of the answer where all these conditions hold. `col` names a column of the answer, a noisy
        value or a group key; aggregates that are named here are measured, and not shown.

        >>> query = select(n=count()).group_by("dept").having(col("pay") > 1000, pay=col("pay").sum())
        >>> [name for name, _ in query.aggregates], query.view.hidden
        (['n', 'pay'], ('pay',))
        """
        combined = None if self.view.having is None else Condition(self.view.having)
        for condition in conditions:
            combined = to_condition(condition) if combined is None else combined & condition
        return self._hide(hidden, replace(self.view, having=None if combined is None else combined.node))

    def order_by(
        self, *columns: str, descending: bool = False, nulls_first: bool = False, **hidden: AggregateLike
    ) -> "Select":
        """Sort the rows of the answer by columns of it, noisy values or group keys, after those of an earlier `order_by`.
        Aggregates that are named here are measured, and not shown. NULL comes last unless `nulls_first`.

        >>> query = select(n=count()).group_by("dept").order_by("n", descending=True).order_by("dept").limit(3)
        >>> ast.format_view(query.view)
        ' ORDER BY n DESC, dept LIMIT 3'
        """
        keys = (*self.view.order_by, *to_sort_keys(columns, descending, nulls_first))
        return self._hide(hidden, replace(self.view, order_by=keys))

    def limit(self, rows: int, offset: int = 0) -> "Select":
        """Show so many rows of the answer, after leaving out `offset` of them."""
        view = replace(self.view, limit=check_int(rows, "rows", 1), offset=check_int(offset, "offset", 0))
        return replace(self, view=view)

    def _hide(self, aggregates: Mapping[str, AggregateLike], view: ast.View) -> "Select":
        """Return the query with this view, and with aggregates that are measured for it alone."""
        return replace(self.select(**aggregates), view=replace(view, hidden=(*view.hidden, *aggregates)))

    def to_query(self, table: Table) -> ast.Query:
        """Return the query about this table, with every name resolved."""
        check_size((self.aggregates, self.condition, self.groups))
        scope = Scope(table)
        for join in self.joins:
            scope = scope.add_join(replace(join, here=_resolve_name(join.here, scope)))
        where = None if self.condition is None else _resolve_names(self.condition.node, scope)
        aggregates = tuple((name, _resolve_aggregate(aggregate, scope)) for name, aggregate in self.aggregates)
        groups = tuple(replace(group, value=_resolve_names(group.value, scope)) for group in self.groups)
        places = {group.name: i for i, group in enumerate(groups)}
        margins = ast.sort_margins([places[name] for name in each] for each in self.sets)
        margins = () if margins == (tuple(range(len(groups))),) else margins
        return ast.Query(table.name, aggregates, where, groups, scope.joins, self.view, margins)


def select(**aggregates: AggregateLike) -> Select:
    """Begin a query with its aggregates, each by the name of its column in the answer.

    >>> [name for name, _ in select(n=count(), mean=col("pay").mean()).aggregates]
    ['n', 'mean']
    """
    return Select().select(**aggregates)


def count() -> aggregates.CountRows:
    """Count the rows: COUNT(*).

    >>> select(n=count()).aggregates
    (('n', CountRows()),)
    """
    return aggregates.CountRows()


def count_units() -> aggregates.CountUnits:
    """Count the privacy units: COUNT(DISTINCT unit).

    >>> select(people=count_units()).aggregates
    (('people', CountUnits()),)
    """
    return aggregates.CountUnits()


def col(name: str) -> Expression:
    """Name a column; one of a joined table as "cities.region".

    >>> (col("age") + 1).sum()
    Sum(value=Plus(left=Ref(column='age'), right=Number(value=Fraction(1, 1))))
    """
    if not isinstance(name, str) or not name:
        raise QueryRefused(f"col takes the name of a column, not {name!r}", 'write col("age")')
    return Expression(ast.Ref(name))


def when(condition: Condition | Expression) -> When:
    """Begin a CASE: when(…).then(…).otherwise(…).

    >>> when(col("age") >= 65).then(1).otherwise(0).sum().to_sql("id")
    'SUM(CASE WHEN age >= 65 THEN 1 ELSE 0 END)'
    """
    return When(to_condition(condition))


def _resolve_aggregate(aggregate: AggregateLike, scope: Scope) -> ast.Aggregate:
    if isinstance(aggregate, EvenHistogram):
        value = _resolve_names(aggregate.value, scope)
        return aggregates.Histogram(value, compute_edges(value, aggregate.width, scope.table))
    return _resolve_names(aggregate, scope)


Part = TypeVar("Part")


def _resolve_names(part: Part, scope: Scope, room: int = MAX_DEPTH) -> Part:
    """Return a part of a query with the column that each name means in place of the name."""
    if room == 0:
        raise QueryRefused("The query is nested too deeply", "simplify it")
    resolved: Any = part
    if isinstance(part, ast.Ref) and isinstance(part.column, str):
        resolved = ast.Ref(_resolve_name(part.column, scope))
    elif isinstance(part, tuple):
        resolved = tuple(_resolve_names(each, scope, room) for each in part)
    elif is_dataclass(part) and not isinstance(part, type):
        resolved = replace(part, **{f.name: _resolve_names(getattr(part, f.name), scope, room - 1) for f in fields(part)})
    return resolved  # type: ignore[no-any-return]


def _resolve_name(name: str, scope: Scope) -> str:
    table, _, column = name.partition(".")
    found = scope.find_columns(name) or (scope.find_columns(column, table) if column else [])
    if len(found) != 1:
        raise QueryRefused(*scope.explain_name(name, found))
    return found[0]


def _to_group_value(value: object) -> ast.GroupValue:
    node = ast.Ref(value) if isinstance(value, str) else value.node if isinstance(value, Operand) else None
    if not isinstance(node, ast.GroupValue):
        raise QueryRefused(
            "Rows can be grouped by columns, bins, integers and parts of dates only",
            'write group_by("dept"), or group_by(year=col("day").year())',
        )
    return node


def _to_column(value: object) -> ast.Ref:
    node = _to_group_value(value)
    if not isinstance(node, ast.Ref):
        raise QueryRefused("An expression that is grouped by needs a name", 'write group_by(decade=col("age") // 10)')
    return node
