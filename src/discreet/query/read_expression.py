"""Values and conditions of SQL, each node and each of its arguments allow-listed."""

from datetime import date, datetime
from fractions import Fraction
from typing import Any as Anything

from sqlglot import exp

from discreet.query import plan
from discreet.query.scope import Scope
from discreet.query.syntax import allow_only, is_constant, make_refusal, read_number, strip_parentheses
from discreet.query.table import Kind

MAX_SQL_DEPTH = 60

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
MIRRORED_ORDERS = {
    plan.Order.LESS: plan.Order.MORE,
    plan.Order.MORE: plan.Order.LESS,
    plan.Order.AT_MOST: plan.Order.AT_LEAST,
    plan.Order.AT_LEAST: plan.Order.AT_MOST,
}


class ExpressionReader:
    """Reads expressions against the declared columns of a table and of those that it is joined to."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.table, self.depth = scope, scope.table, 0

    def read_value(self, node: exp.Expr | None) -> plan.Value:
        """A number, a column, or an expression of them."""
        if node is None:
            raise make_refusal(None, "a function has nothing in its parentheses", "name a column in them")
        self.depth += 1
        if self.depth > MAX_SQL_DEPTH:
            raise make_refusal(node, "this is nested too deeply", "ask something simpler")
        try:
            return self._read_value_node(node)
        finally:
            self.depth -= 1

    def _read_value_node(self, node: exp.Expr) -> plan.Value:
        match node:
            case exp.Paren():
                allow_only(node, "this")
                return self.read_value(node.this)
            case exp.Column():
                return self._read_column(node)
            case exp.Literal() if not node.is_string:
                return plan.Number(read_number(node))
            case exp.Neg():
                allow_only(node, "this")
                return plan.Minus(plan.Number(Fraction(0)), self.read_value(node.this))
            case exp.Add() | exp.Sub() | exp.Mul():
                allow_only(node, "this", "expression")
                return ARITHMETIC[type(node)](self.read_value(node.this), self.read_value(node.expression))
            case exp.IntDiv():
                allow_only(node, "this", "expression")
                return plan.Bin(self.read_value(node.this), self._read_width(node.expression))
            case exp.Case():
                return self._read_case(node)
        raise make_refusal(node, f"{node.key.upper()} is not in the language", "use columns, numbers, +, -, *, // and CASE")

    def _read_column(self, node: exp.Column) -> plan.Ref:
        allow_only(node, "this", "table")
        known = (self.scope.base.name, *(join.table for join in self.scope.joins))
        if node.table and node.table.lower() not in [name.lower() for name in known]:
            raise make_refusal(node, "this table is not known", f"leave out the prefix, or write {' or '.join(known)}")
        if not isinstance(node.this, exp.Identifier):
            raise make_refusal(node, "a column by name is expected", f"take one of {', '.join(self.table.columns)}")
        found = self.scope.find(node.name, node.table or None, exact=bool(node.this.args.get("quoted")))
        if not found:
            raise make_refusal(node, "this column is not declared", f"take one of {', '.join(self.table.columns)}")
        if len(found) > 1:
            raise make_refusal(node, "two columns are called so", f"write one of {', '.join(found)}")
        return plan.Ref(found[0])

    def _read_width(self, node: exp.Expr) -> int:
        width = read_number(node) if isinstance(node, exp.Literal) and not node.is_string else None
        if width is None or width.denominator != 1 or not 1 <= width < 2**31:
            raise make_refusal(node, "a bin has a whole width of at least 1", "write column // 10")
        return int(width)

    def _read_case(self, node: exp.Case) -> plan.Case:
        allow_only(node, "ifs", "default")
        branches = []
        for branch in node.args["ifs"]:
            allow_only(branch, "this", "true")
            branches.append((self.read_condition(branch.this), self.read_value(branch.args["true"])))
        default = node.args.get("default")
        if default is None or isinstance(default, exp.Null):
            return plan.Case(tuple(branches), None)
        return plan.Case(tuple(branches), self.read_value(default))

    def read_condition(self, node: exp.Expr) -> plan.Condition:
        """Something that is true, false or unknown of a row."""
        self.depth += 1
        if self.depth > MAX_SQL_DEPTH:
            raise make_refusal(node, "this is nested too deeply", "ask something simpler")
        try:
            return self._read_condition_node(node)
        finally:
            self.depth -= 1

    def _read_condition_node(self, node: exp.Expr) -> plan.Condition:
        match node:
            case exp.Paren():
                allow_only(node, "this")
                return self.read_condition(node.this)
            case exp.And() | exp.Or():
                allow_only(node, "this", "expression")
                make = plan.All if isinstance(node, exp.And) else plan.Any
                return make(tuple(self.read_condition(part) for part in node.flatten()))
            case exp.Not():
                allow_only(node, "this")
                return plan.Not(self.read_condition(node.this))
            case exp.Is():
                allow_only(node, "this", "expression")
                if not isinstance(node.expression, exp.Null):
                    raise make_refusal(node, "IS takes NULL only", "write column IS NULL, or column = value")
                return plan.Missing(self._read_ref(node.this))
            case exp.In():
                allow_only(node, "this", "expressions")
                column = self._read_ref(node.this)
                if not node.expressions:
                    raise make_refusal(node, "IN takes a list of constants", "write column IN ('a', 'b')")
                return plan.OneOf(column, tuple(self._read_constant(part, column) for part in node.expressions))
            case exp.Between():
                allow_only(node, "this", "low", "high")
                low = self._read_comparison(plan.Order.AT_LEAST, node.this, node.args["low"])
                return plan.All((low, self._read_comparison(plan.Order.AT_MOST, node.this, node.args["high"])))
            case exp.Column():
                column = self._read_ref(node)
                if self.table.columns[column.column].kind is not Kind.BOOLEAN:
                    raise make_refusal(node, "this column is not true or false", "compare it with something")
                return plan.Compare(plan.Order.EQUAL, column, plan.Constant(True))
        if type(node) in COMPARISONS:
            allow_only(node, "this", "expression")
            return self._read_comparison(COMPARISONS[type(node)], node.this, node.expression)
        raise make_refusal(
            node, f"{node.key.upper()} is not in the language", "use comparisons, IN, BETWEEN, IS NULL, AND, OR, NOT"
        )

    def _read_ref(self, node: exp.Expr) -> plan.Ref:
        value = self.read_value(node)
        if not isinstance(value, plan.Ref):
            raise make_refusal(node, "a column by name is expected here", f"take one of {', '.join(self.table.columns)}")
        return value

    def _read_comparison(self, order: plan.Order, left: exp.Expr, right: exp.Expr) -> plan.Compare:
        left, right = strip_parentheses(left), strip_parentheses(right)
        if is_constant(left):
            order, left, right = MIRRORED_ORDERS.get(order, order), right, left
        value = self.read_value(left)
        if isinstance(value, plan.Ref) and is_constant(right):
            return plan.Compare(order, value, self._read_constant(right, value))
        return plan.Compare(order, value, self.read_value(right))

    def _read_constant(self, node: exp.Expr, column: plan.Ref) -> "plan.Number | plan.Constant":
        """A constant of the column's own kind: nothing is cast."""
        kind = self.table.columns[column.column].kind
        if isinstance(node, exp.Neg) and kind in (Kind.INTEGER, Kind.REAL):
            allow_only(node, "this")
            return plan.Number(-read_number(node.this))
        if isinstance(node, exp.Literal) and not node.is_string and kind in (Kind.INTEGER, Kind.REAL):
            return plan.Number(read_number(node))
        if isinstance(node, exp.Boolean) and kind is Kind.BOOLEAN:
            return plan.Constant(bool(node.this))
        if isinstance(node, exp.Literal) and node.is_string and kind is Kind.TEXT:
            return plan.Constant(node.this)
        if isinstance(node, exp.Literal) and node.is_string and kind in (Kind.DATE, Kind.TIMESTAMP):
            return plan.Constant(self._read_moment(node, kind))
        raise make_refusal(node, f"this is not a {kind.value}, which {column.column} holds", "compare like with like")

    def _read_moment(self, node: exp.Expr, kind: Kind) -> Anything:
        try:
            moment = date.fromisoformat(node.this) if kind is Kind.DATE else datetime.fromisoformat(node.this)
        except ValueError:
            raise make_refusal(node, "this is not a date", "write '2024-12-31'") from None
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            raise make_refusal(node, "a time zone is not in the language", "write '2024-12-31 12:00:00'")
        return moment
