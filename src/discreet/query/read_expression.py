"""Values and conditions of SQL, each node and each of its arguments allow-listed."""

from datetime import date, datetime
from fractions import Fraction
from typing import Any as Anything

from sqlglot import exp

from discreet.query import plan
from discreet.query.scope import Scope
from discreet.query.syntax import bare, is_constant, only, read_number, refused
from discreet.query.table import Kind

DEEPEST = 60

COMPARISONS: dict[type[exp.Expr], plan.Order] = {
    exp.EQ: plan.Order.EQUAL,
    exp.NEQ: plan.Order.NOT_EQUAL,
    exp.LT: plan.Order.LESS,
    exp.LTE: plan.Order.AT_MOST,
    exp.GT: plan.Order.MORE,
    exp.GTE: plan.Order.AT_LEAST,
}
ARITHMETIC: dict[type[exp.Expr], type[plan.Plus | plan.Minus | plan.Times]] = {
    exp.Add: plan.Plus,
    exp.Sub: plan.Minus,
    exp.Mul: plan.Times,
}
TURNED = {
    plan.Order.LESS: plan.Order.MORE,
    plan.Order.MORE: plan.Order.LESS,
    plan.Order.AT_MOST: plan.Order.AT_LEAST,
    plan.Order.AT_LEAST: plan.Order.AT_MOST,
}


class ExpressionReader:
    """Reads expressions against the declared columns of a table and of those that it is joined to."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.table, self.depth = scope, scope.table, 0

    def value(self, node: exp.Expr | None) -> plan.Value:
        """A number, a column, or an expression of them."""
        if node is None:
            raise refused(None, "a function has nothing in its parentheses", "name a column in them")
        self.depth += 1
        if self.depth > DEEPEST:
            raise refused(node, "this is nested too deeply", "ask something simpler")
        try:
            return self._value(node)
        finally:
            self.depth -= 1

    def _value(self, node: exp.Expr) -> plan.Value:
        match node:
            case exp.Paren():
                only(node, "this")
                return self.value(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal() if not node.is_string:
                return plan.Number(read_number(node))
            case exp.Neg():
                only(node, "this")
                return plan.Minus(plan.Number(Fraction(0)), self.value(node.this))
            case exp.Add() | exp.Sub() | exp.Mul():
                only(node, "this", "expression")
                return ARITHMETIC[type(node)](self.value(node.this), self.value(node.expression))
            case exp.IntDiv():
                only(node, "this", "expression")
                return plan.Bin(self.value(node.this), self._width(node.expression))
            case exp.Case():
                return self._case(node)
        raise refused(node, f"{node.key.upper()} is not in the language", "use columns, numbers, +, -, *, // and CASE")

    def _column(self, node: exp.Column) -> plan.Ref:
        only(node, "this", "table")
        known = (self.scope.own.name, *(join.table for join in self.scope.joins))
        if node.table and node.table.lower() not in [name.lower() for name in known]:
            raise refused(node, "this table is not known", f"leave out the prefix, or write {' or '.join(known)}")
        if not isinstance(node.this, exp.Identifier):
            raise refused(node, "a column by name is expected", f"take one of {', '.join(self.table.columns)}")
        found = self.scope.find(node.name, node.table or None, exact=bool(node.this.args.get("quoted")))
        if not found:
            raise refused(node, "this column is not declared", f"take one of {', '.join(self.table.columns)}")
        if len(found) > 1:
            raise refused(node, "two columns are called so", f"write one of {', '.join(found)}")
        return plan.Ref(found[0])

    def _width(self, node: exp.Expr) -> int:
        width = read_number(node) if isinstance(node, exp.Literal) and not node.is_string else None
        if width is None or width.denominator != 1 or not 1 <= width < 2**31:
            raise refused(node, "a bin has a whole width of at least 1", "write column // 10")
        return int(width)

    def _case(self, node: exp.Case) -> plan.Case:
        only(node, "ifs", "default")
        branches = []
        for branch in node.args["ifs"]:
            only(branch, "this", "true")
            branches.append((self.condition(branch.this), self.value(branch.args["true"])))
        default = node.args.get("default")
        if default is None or isinstance(default, exp.Null):
            return plan.Case(tuple(branches), None)
        return plan.Case(tuple(branches), self.value(default))

    def condition(self, node: exp.Expr) -> plan.Condition:
        """Something that is true, false or unknown of a row."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise refused(node, "this is nested too deeply", "ask something simpler")
        try:
            return self._condition(node)
        finally:
            self.depth -= 1

    def _condition(self, node: exp.Expr) -> plan.Condition:
        match node:
            case exp.Paren():
                only(node, "this")
                return self.condition(node.this)
            case exp.And() | exp.Or():
                only(node, "this", "expression")
                make = plan.All if isinstance(node, exp.And) else plan.Any
                return make(tuple(self.condition(part) for part in node.flatten()))
            case exp.Not():
                only(node, "this")
                return plan.Not(self.condition(node.this))
            case exp.Is():
                only(node, "this", "expression")
                if not isinstance(node.expression, exp.Null):
                    raise refused(node, "IS takes NULL only", "write column IS NULL, or column = value")
                return plan.Missing(self._ref(node.this))
            case exp.In():
                only(node, "this", "expressions")
                column = self._ref(node.this)
                if not node.expressions:
                    raise refused(node, "IN takes a list of constants", "write column IN ('a', 'b')")
                return plan.OneOf(column, tuple(self._constant(part, column) for part in node.expressions))
            case exp.Between():
                only(node, "this", "low", "high")
                low = self._compare(plan.Order.AT_LEAST, node.this, node.args["low"])
                return plan.All((low, self._compare(plan.Order.AT_MOST, node.this, node.args["high"])))
            case exp.Column():
                column = self._ref(node)
                if self.table.columns[column.column].kind is not Kind.BOOLEAN:
                    raise refused(node, "this column is not true or false", "compare it with something")
                return plan.Compare(plan.Order.EQUAL, column, plan.Constant(True))
        if type(node) in COMPARISONS:
            only(node, "this", "expression")
            return self._compare(COMPARISONS[type(node)], node.this, node.expression)
        raise refused(
            node, f"{node.key.upper()} is not in the language", "use comparisons, IN, BETWEEN, IS NULL, AND, OR, NOT"
        )

    def _ref(self, node: exp.Expr) -> plan.Ref:
        value = self.value(node)
        if not isinstance(value, plan.Ref):
            raise refused(node, "a column by name is expected here", f"take one of {', '.join(self.table.columns)}")
        return value

    def _compare(self, order: plan.Order, left: exp.Expr, right: exp.Expr) -> plan.Compare:
        left, right = bare(left), bare(right)
        if is_constant(left):
            order, left, right = TURNED.get(order, order), right, left
        value = self.value(left)
        if isinstance(value, plan.Ref) and is_constant(right):
            return plan.Compare(order, value, self._constant(right, value))
        return plan.Compare(order, value, self.value(right))

    def _constant(self, node: exp.Expr, column: plan.Ref) -> "plan.Number | plan.Constant":
        """A constant of the column's own kind: nothing is cast."""
        kind = self.table.columns[column.column].kind
        if isinstance(node, exp.Neg) and kind in (Kind.INTEGER, Kind.REAL):
            only(node, "this")
            return plan.Number(-read_number(node.this))
        if isinstance(node, exp.Literal) and not node.is_string and kind in (Kind.INTEGER, Kind.REAL):
            return plan.Number(read_number(node))
        if isinstance(node, exp.Boolean) and kind is Kind.BOOLEAN:
            return plan.Constant(bool(node.this))
        if isinstance(node, exp.Literal) and node.is_string and kind is Kind.TEXT:
            return plan.Constant(node.this)
        if isinstance(node, exp.Literal) and node.is_string and kind in (Kind.DATE, Kind.TIMESTAMP):
            return plan.Constant(self._moment(node, kind))
        raise refused(node, f"this is not a {kind.value}, which {column.column} holds", "compare like with like")

    def _moment(self, node: exp.Expr, kind: Kind) -> Anything:
        try:
            moment = date.fromisoformat(node.this) if kind is Kind.DATE else datetime.fromisoformat(node.this)
        except ValueError:
            raise refused(node, "this is not a date", "write '2024-12-31'") from None
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            raise refused(node, "a time zone is not in the language", "write '2024-12-31 12:00:00'")
        return moment
