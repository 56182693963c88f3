"""Columns and conditions in Python: operators build pieces of a plan and compute nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from discreet.errors import QueryRefused
from discreet.exact import Number
from discreet.query import plan
from discreet.query.check import MAX_BIN_WIDTH
from discreet.query.constant import to_constant, to_number
from discreet.query.edges import check_edges


@dataclass(frozen=True, slots=True)
class EvenHistogram:
    """A histogram whose edges are the multiples of a width; how many there are depends on the declared bounds."""

    value: plan.Value
    width: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """Something that is true, false or unknown of a row. Combine conditions with &, | and ~."""

    node: plan.Condition
    is_chain: bool = False  # made by & or |, so that a & b & c is one list of three

    def __and__(self, other: Any) -> "Condition":
        return self._chain(plan.All, other)

    def __rand__(self, other: Any) -> "Condition":
        return to_condition(other) & self

    def __or__(self, other: Any) -> "Condition":
        return self._chain(plan.Any, other)

    def __ror__(self, other: Any) -> "Condition":
        return to_condition(other) | self

    def __invert__(self) -> "Condition":
        return Condition(plan.Not(self.node))

    def _chain(self, make: type[plan.All] | type[plan.Any], other: Any) -> "Condition":
        before = self.node.parts if self.is_chain and isinstance(self.node, make) else (self.node,)
        return Condition(make((*before, to_condition(other).node)), is_chain=True)

    def __bool__(self) -> NoReturn:
        raise QueryRefused(
            "a condition is neither true nor false before it meets a row",
            "use & and | and ~ in place of and, or, not; between() for a < x < b; when() for if; is_in() for in",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A column, a number, or an expression of them."""

    node: plan.Value

    def __add__(self, other: Any) -> "Expression":
        return Expression(plan.Plus(self.node, to_expression(other).node))

    def __radd__(self, other: Any) -> "Expression":
        return to_expression(other) + self

    def __sub__(self, other: Any) -> "Expression":
        return Expression(plan.Minus(self.node, to_expression(other).node))

    def __rsub__(self, other: Any) -> "Expression":
        return to_expression(other) - self

    def __mul__(self, other: Any) -> "Expression":
        return Expression(plan.Times(self.node, to_expression(other).node))

    def __rmul__(self, other: Any) -> "Expression":
        return to_expression(other) * self

    def __neg__(self) -> "Expression":
        return Expression(plan.Minus(plan.Number(Fraction(0)), self.node))

    def __floordiv__(self, width: Any) -> "Expression":
        if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width < MAX_BIN_WIDTH:
            raise QueryRefused("a bin has a whole width of at least 1", 'write col("age") // 10')
        return Expression(plan.Bin(self.node, width))

    def __truediv__(self, other: Any) -> NoReturn:
        raise QueryRefused("a division can fail on somebody's row", "divide the answers, or bin with // and a whole width")

    __rtruediv__ = __truediv__

    def __lt__(self, other: Any) -> Condition:
        return self._compare(plan.Order.LESS, other)

    def __le__(self, other: Any) -> Condition:
        return self._compare(plan.Order.AT_MOST, other)

    def __gt__(self, other: Any) -> Condition:
        return self._compare(plan.Order.MORE, other)

    def __ge__(self, other: Any) -> Condition:
        return self._compare(plan.Order.AT_LEAST, other)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compare(plan.Order.EQUAL, other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compare(plan.Order.NOT_EQUAL, other)

    __hash__ = None  # type: ignore[assignment]

    def _compare(self, order: plan.Order, other: Any) -> Condition:
        if isinstance(other, Expression):
            return Condition(plan.Compare(order, self.node, other.node))
        return Condition(plan.Compare(order, self.node, to_constant(other)))

    def between(self, low: Any, high: Any) -> Condition:
        """Whether low ≤ value ≤ high."""
        return Condition(plan.All(((self >= low).node, (self <= high).node)))

    def is_in(self, among: Iterable[Any]) -> Condition:
        """Whether a column's value is one of these constants."""
        if isinstance(among, str) or not isinstance(among, Iterable):
            raise QueryRefused("is_in takes a list of constants", 'write col("dept").is_in(["a", "b"])')
        listed = tuple(to_constant(each) for each in among)
        if not listed:
            raise QueryRefused("is_in takes at least one constant", 'write col("dept").is_in(["a", "b"])')
        return Condition(plan.OneOf(self._ref("is_in"), listed))

    def is_null(self) -> Condition:
        """Whether a column's value is missing."""
        return Condition(plan.Missing(self._ref("is_null")))

    def is_not_null(self) -> Condition:
        """Whether a column's value is there."""
        return ~self.is_null()

    def _ref(self, what: str) -> plan.Ref:
        if not isinstance(self.node, plan.Ref):
            raise QueryRefused(f"{what} is asked of a column, not of an expression", f'write col("name").{what}(…)')
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
        raise QueryRefused("a column has no value before it meets a row", "use & and | and ~, when() for if")

    def when(self, condition: "Condition | Expression") -> "When":
        """Another case, for rows where no condition before it holds."""
        return When(to_condition(condition), self._open_cases())

    def otherwise(self, value: Any) -> "Expression":
        """The value where no condition holds."""
        return Expression(plan.Case(self._open_cases(), to_expression(value).node))

    def _open_cases(self) -> tuple[tuple[plan.Condition, plan.Value], ...]:
        if not isinstance(self.node, plan.Case) or self.node.default is not None:
            raise QueryRefused("there is no open case here", "write when(…).then(…).when(…).then(…).otherwise(…)")
        return self.node.branches

    def count(self) -> plan.CountValues:
        """How many rows have a value."""
        return plan.CountValues(self.node)

    def sum(self) -> plan.Sum:
        """The sum of the values."""
        return plan.Sum(self.node)

    def mean(self) -> plan.Mean:
        """The average."""
        return plan.Mean(self.node)

    def variance(self) -> plan.Variance:
        """The population's variance."""
        return plan.Variance(self.node)

    def std(self) -> plan.Variance:
        """The population's standard deviation."""
        return plan.Variance(self.node, root=True)

    def median(self) -> plan.Quantile:
        """The middle value."""
        return plan.Quantile(self.node, Fraction(1, 2))

    def quantile(self, q: Number | str) -> plan.Quantile:
        """The value below which a share q of the rows lies. As a text, "0.9" is exactly nine tenths; so is the float 0.9."""
        share = to_number(q)
        if not 0 < share < 1:
            raise QueryRefused("a quantile takes a share between 0 and 1", "write .quantile(0.9)")
        return plan.Quantile(self.node, share)

    def min(self) -> plan.Quantile:
        """The 1% quantile: a true minimum is one person's value."""
        return plan.Quantile(self.node, plan.MIN_QUANTILE)

    def max(self) -> plan.Quantile:
        """The 99% quantile: a true maximum is one person's value."""
        return plan.Quantile(self.node, plan.MAX_QUANTILE)

    def histogram(self, *edges: Number | str) -> "plan.Histogram | EvenHistogram":
        """Counts in cells of one width over the declared bounds, or between two or more edges."""
        numbers = [to_number(edge) for edge in edges]
        return EvenHistogram(self.node, numbers[0]) if len(numbers) == 1 else plan.Histogram(self.node, check_edges(numbers))


@dataclass(frozen=True, slots=True)
class When:
    """A condition that waits for its value."""

    condition: Condition
    earlier_branches: tuple[tuple[plan.Condition, plan.Value], ...] = ()

    def then(self, value: Any) -> Expression:
        """The value where the condition holds; missing elsewhere, unless another when() or otherwise() follows."""
        return Expression(plan.Case((*self.earlier_branches, (self.condition.node, to_expression(value).node)), None))


def col(name: str) -> Expression:
    """A column by its name; one of a joined table as "cities.region"."""
    if not isinstance(name, str) or not name:
        raise QueryRefused("a column has a name", 'write col("age")')
    return Expression(plan.Ref(name))


def when(condition: Condition | Expression) -> When:
    """The beginning of a CASE: when(…).then(…).otherwise(…)."""
    return When(to_condition(condition))


def to_condition(condition: Any) -> Condition:
    """A condition; a column by itself must be true."""
    if isinstance(condition, Condition):
        return condition
    if isinstance(condition, Expression) and isinstance(condition.node, plan.Ref):
        return Condition(plan.Compare(plan.Order.EQUAL, condition.node, plan.Constant(True)))
    raise QueryRefused(
        f"{type(condition).__name__} is not a condition", 'compare something: col("age") >= 18, and mind the parentheses'
    )


def to_expression(value: Any) -> Expression:
    """An expression, or a number as one."""
    return value if isinstance(value, Expression) else Expression(plan.Number(to_number(value)))
