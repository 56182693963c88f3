"""SQL text to a Query. Every node and every argument of it is allow-listed; whatever is not named here is refused.

Nothing that an analyst writes goes further than this file as text: names are looked up among the declared columns, and
constants become values.
"""

import re
from datetime import date, datetime
from fractions import Fraction
from typing import Any as Anything
from typing import NoReturn
from unicodedata import category

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from discreet.errors import QuestionRefused
from discreet.query import plan
from discreet.query.table import Kind, Table

DUCKDB = Dialect.get_or_raise("duckdb")
LONGEST = 20_000
DEEPEST = 60


def parse(text: str, table: Table) -> plan.Query:
    """The question that `text` asks of `table`."""
    if not isinstance(text, str) or (not text.isprintable() and not _printable(text)):
        raise QuestionRefused("the question holds characters that cannot be printed", "write plain text")
    if len(text) > LONGEST:
        raise QuestionRefused(f"the question is longer than {LONGEST} characters", "ask several shorter ones")
    try:
        tokens = DUCKDB.tokenize(text)
        statements = DUCKDB.parser().parse(tokens, text) if _one_select(tokens) else []
    except Exception as mistake:  # whatever goes wrong in reading, the text is at fault: this is the analyst's door
        raise _unreadable(mistake) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise QuestionRefused(
            "only one SELECT statement is understood", "write SELECT … FROM … [WHERE …] [GROUP BY …], no comments"
        )
    return _Reader(table).query(statements[0])


def _one_select(tokens: list[Token]) -> bool:
    """Seen before parsing, because the parser writes a statement that it does not know to a log."""
    kinds = [token.token_type for token in tokens]
    starts = bool(kinds) and kinds[0] in (TokenType.SELECT, TokenType.FROM)
    return starts and TokenType.SEMICOLON not in kinds[:-1] and not any(token.comments for token in tokens)


def _printable(text: str) -> bool:
    """No control characters besides line breaks and tabs, no halves of characters, nothing that turns the writing round."""
    return all(category(c) not in ("Cc", "Cs", "Cf", "Cn", "Co") or c in "\n\r\t" for c in text)


def _unreadable(mistake: Exception) -> QuestionRefused:
    first = mistake.errors[0] if isinstance(mistake, ParseError) and mistake.errors else {}
    return QuestionRefused(
        "this is not SQL that can be read", "check the spelling and the commas", first.get("line"), first.get("col")
    )


def refuse(node: exp.Expr | None, reason: str, way_out: str) -> NoReturn:
    """Say what is not in the language, and where."""
    for part in node.walk() if node is not None else ():
        if "line" in part.meta:
            raise QuestionRefused(
                reason, way_out, part.meta["line"], part.meta["col"] - (part.meta["end"] - part.meta["start"])
            )
    raise QuestionRefused(reason, way_out)


def only(node: exp.Expr, *allowed: str) -> None:
    """Refuse a node that carries any argument besides the allowed ones."""
    for name, value in node.args.items():
        if value not in (None, False, [], "") and name not in allowed:
            refuse(node, f"{node.key.upper()} with {name.rstrip('_').upper()} is not in the language", "leave it out")


NUMERAL = re.compile(r"(?=\.?[0-9])[0-9]{0,40}(\.[0-9]{0,40})?(e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)

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


def bare(node: exp.Expr) -> exp.Expr:
    """What stands inside parentheses."""
    while isinstance(node, exp.Paren):
        only(node, "this")
        node = node.this
    return node


def is_constant(node: exp.Expr) -> bool:
    """Whether it is written as a constant: a number with or without a sign, a text, a truth value."""
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal | exp.Boolean | exp.Cast)


TURNED = {
    plan.Order.LESS: plan.Order.MORE,
    plan.Order.MORE: plan.Order.LESS,
    plan.Order.AT_MOST: plan.Order.AT_LEAST,
    plan.Order.AT_LEAST: plan.Order.AT_MOST,
}


class _Reader:
    """Reads one statement against one table's declared columns."""

    def __init__(self, table: Table) -> None:
        self.table, self.depth = table, 0

    def query(self, select: exp.Select) -> plan.Query:
        only(select, "expressions", "from_", "where", "group")
        self._source(select)
        groups = self._groups(select)
        aggregates: dict[str, plan.Aggregate] = {}
        for item in select.expressions:
            node = self._unnamed(item)
            value = self._as_group(node, groups)
            aggregate = self.aggregate(node) if value is None else None
            name = self._name(item)
            if name in aggregates or name in [n for v, n in groups.items() if v != value]:
                refuse(item, f"two columns of the answer are called {name}", "give one of them another name with AS")
            if value is not None:
                groups[value] = name
            elif aggregate is not None:
                aggregates[name] = aggregate
        if not aggregates:
            refuse(select, "nothing is counted or added up", "add COUNT(*), SUM(column) or AVG(column)")
        where = select.args.get("where")
        return plan.Query(
            self.table.name,
            tuple(aggregates.items()),
            None if where is None else self.condition(where.this),
            tuple(plan.Grouping(name, value) for value, name in groups.items()),
        )

    def _source(self, select: exp.Select) -> None:
        source = select.args.get("from_")
        if source is None:
            refuse(select, "there is no FROM", f"write FROM {self.table.name}")
        only(source, "this")
        if not isinstance(source.this, exp.Table):
            refuse(source, "FROM takes one table by name", f"write FROM {self.table.name}")
        only(source.this, "this")
        if not isinstance(source.this.this, exp.Identifier) or source.this.name.lower() != self.table.name.lower():
            refuse(source.this, "this table is not known", f"write FROM {self.table.name}")

    def _groups(self, select: exp.Select) -> "dict[plan.Ref | plan.Bin, str]":
        group = select.args.get("group")
        if group is None:
            return {}
        only(group, "expressions")
        if not group.expressions:
            refuse(group, "GROUP BY names nothing", "name a column, or leave it out")
        aliases = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
        found: dict[plan.Ref | plan.Bin, str] = {}
        for node in group.expressions:
            named = aliases.get(node.name) if isinstance(node, exp.Column) and node.name not in self.table.columns else None
            value = self.value(named or node)
            if not isinstance(value, plan.Ref | plan.Bin):
                refuse(node, "rows are grouped by a column or by column // width", "name one of these")
            found[value] = node.name or node.sql()
        return found

    def _unnamed(self, item: exp.Expr) -> exp.Expr:
        if not isinstance(item, exp.Alias):
            return item
        only(item, "this", "alias")
        return item.this  # type: ignore[no-any-return]

    def _name(self, item: exp.Expr) -> str:
        """Only of what has been understood: writing out anything else may fail."""
        if isinstance(item, exp.Alias):
            return item.alias
        return item.name if isinstance(item, exp.Column) else item.sql(dialect="duckdb").lower()

    def _as_group(self, node: exp.Expr, groups: "dict[plan.Ref | plan.Bin, str]") -> "plan.Ref | plan.Bin | None":
        if isinstance(node, exp.AggFunc):
            return None
        value = self.value(node)
        if value not in groups:
            refuse(node, "this column is neither grouped by nor added up", "put it in GROUP BY, or aggregate it")
        return value

    def aggregate(self, node: exp.Expr) -> plan.Aggregate:
        """An aggregate function of the language."""
        match node:
            case exp.Count():
                only(node, "this", "big_int")
                return self._count(node)
            case exp.Sum():
                only(node, "this")
                return plan.Sum(self.value(node.this))
            case exp.Avg():
                only(node, "this")
                return plan.Mean(self.value(node.this))
            case exp.VariancePop() | exp.Variance():
                only(node, "this")
                return plan.Variance(self.value(node.this))
            case exp.StddevPop() | exp.Stddev():
                only(node, "this")
                return plan.Variance(self.value(node.this), root=True)
        refuse(node, f"{node.key.upper()} is not in the language", "use COUNT, SUM, AVG, VARIANCE or STDDEV")

    def _count(self, node: exp.Count) -> plan.Aggregate:
        if isinstance(node.this, exp.Star):
            only(node.this)
            return plan.CountRows()
        if not isinstance(node.this, exp.Distinct):
            return plan.CountValues(self.value(node.this))
        only(node.this, "expressions")
        if [self.value(part) for part in node.this.expressions] != [plan.Ref(self.table.unit)]:
            refuse(node, "only distinct units can be counted", f"write COUNT(DISTINCT {self.table.unit})")
        return plan.CountUnits()

    def value(self, node: exp.Expr) -> plan.Value:
        """A number, a column, or an expression of them."""
        self.depth += 1
        if self.depth > DEEPEST:
            refuse(node, "this is nested too deeply", "ask something simpler")
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
                return plan.Number(self._number(node))
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
        refuse(node, f"{node.key.upper()} is not in the language", "use columns, numbers, +, -, *, // and CASE")

    def _column(self, node: exp.Column) -> plan.Ref:
        only(node, "this", "table")
        table = node.args.get("table")
        if table is not None and table.name.lower() != self.table.name.lower():
            refuse(node, "this table is not known", f"leave out the prefix, or write {self.table.name}")
        if not isinstance(node.this, exp.Identifier):
            refuse(node, "a column by name is expected", f"take one of {', '.join(self.table.columns)}")
        name = self._match(node.name, quoted=bool(node.this.args.get("quoted")))
        if name is None:
            refuse(node, "this column is not declared", f"take one of {', '.join(self.table.columns)}")
        return plan.Ref(name)

    def _match(self, written: str, *, quoted: bool) -> str | None:
        if written in self.table.columns:
            return written
        alike = [name for name in self.table.columns if name.lower() == written.lower()]
        return alike[0] if len(alike) == 1 and not quoted else None

    def _number(self, node: exp.Expr) -> Fraction:
        only(node, "this", "is_string")
        if not isinstance(node, exp.Literal) or not NUMERAL.fullmatch(node.this):
            refuse(node, "this is not a number, or a very long one", "write a decimal such as 1.5")
        value = Fraction(node.this)
        if abs(value) > 10**15 or value.denominator > 10**15:
            refuse(node, "this number is too large or too fine", "keep constants below 10^15, with at most 15 decimals")
        return value

    def _width(self, node: exp.Expr) -> int:
        width = self._number(node) if isinstance(node, exp.Literal) and not node.is_string else None
        if width is None or width.denominator != 1 or not 1 <= width < 2**31:
            refuse(node, "a bin has a whole width of at least 1", "write column // 10")
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
            refuse(node, "this is nested too deeply", "ask something simpler")
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
                    refuse(node, "IS takes NULL only", "write column IS NULL, or column = value")
                return plan.Missing(self._ref(node.this))
            case exp.In():
                only(node, "this", "expressions")
                column = self._ref(node.this)
                if not node.expressions:
                    refuse(node, "IN takes a list of constants", "write column IN ('a', 'b')")
                return plan.OneOf(column, tuple(self._constant(part, column) for part in node.expressions))
            case exp.Between():
                only(node, "this", "low", "high")
                low = self._compare(plan.Order.AT_LEAST, node.this, node.args["low"])
                return plan.All((low, self._compare(plan.Order.AT_MOST, node.this, node.args["high"])))
            case exp.Column():
                column = self._ref(node)
                if self.table.columns[column.column].kind is not Kind.BOOLEAN:
                    refuse(node, "this column is not true or false", "compare it with something")
                return plan.Compare(plan.Order.EQUAL, column, plan.Constant(True))
        if type(node) in COMPARISONS:
            only(node, "this", "expression")
            return self._compare(COMPARISONS[type(node)], node.this, node.expression)
        refuse(node, f"{node.key.upper()} is not in the language", "use comparisons, IN, BETWEEN, IS NULL, AND, OR, NOT")

    def _ref(self, node: exp.Expr) -> plan.Ref:
        value = self.value(node)
        if not isinstance(value, plan.Ref):
            refuse(node, "a column by name is expected here", f"take one of {', '.join(self.table.columns)}")
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
            return plan.Number(-self._number(node.this))
        if isinstance(node, exp.Literal) and not node.is_string and kind in (Kind.INTEGER, Kind.REAL):
            return plan.Number(self._number(node))
        if isinstance(node, exp.Boolean) and kind is Kind.BOOLEAN:
            return plan.Constant(bool(node.this))
        if isinstance(node, exp.Literal) and node.is_string and kind is Kind.TEXT:
            return plan.Constant(node.this)
        if isinstance(node, exp.Literal) and node.is_string and kind in (Kind.DATE, Kind.TIMESTAMP):
            return plan.Constant(self._moment(node, kind))
        refuse(node, f"this is not a {kind.value}, which {column.column} holds", "compare like with like")

    def _moment(self, node: exp.Expr, kind: Kind) -> Anything:
        try:
            moment = date.fromisoformat(node.this) if kind is Kind.DATE else datetime.fromisoformat(node.this)
        except ValueError:
            refuse(node, "this is not a date", "write '2024-12-31'")
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            refuse(node, "a time zone is not in the language", "write '2024-12-31 12:00:00'")
        return moment
