"""SQL text to a Query. Every node and every argument of it is allow-listed; whatever is not named here is refused.

Nothing that an analyst writes goes further than this file as text: names are looked up among the declared columns, and
constants become values.
"""

import re
from datetime import date, datetime
from fractions import Fraction
from typing import Any as Anything
from typing import TypeAlias
from unicodedata import category

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from discreet.errors import QueryRefused
from discreet.query import aggregates, ast
from discreet.query.builder import Select
from discreet.query.edges import check_edges, compute_edges
from discreet.query.schema import Kind, PublicTable, Table
from discreet.query.scope import Scope
from discreet.query.validate import check_columns, check_text, check_tokens, check_types

# What all readers of SQL nodes share: how to refuse one, and how to read a constant number.


NUMERAL = re.compile(r"(?=\.?[0-9])[0-9]{0,40}(\.[0-9]{0,40})?(e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)


def make_refusal(node: exp.Expr | None, reason: str, hint: str) -> QueryRefused:
    """What is not in the language, and where."""
    for part in node.walk() if node is not None else ():
        if "line" in part.meta:
            column = part.meta["col"] - (part.meta["end"] - part.meta["start"])
            return QueryRefused(reason, hint, part.meta["line"], column)
    return QueryRefused(reason, hint)


def allow_only(node: exp.Expr, *allowed: str) -> None:
    """Refuse a node that carries any argument besides the allowed ones."""
    for name, value in node.args.items():
        if value not in (None, False, [], "") and name not in allowed:
            raise make_refusal(
                node, f"{node.key.upper()} with {name.rstrip('_').upper()} is not in the language", "leave it out"
            )


def strip_parentheses(node: exp.Expr) -> exp.Expr:
    """What stands inside parentheses."""
    while isinstance(node, exp.Paren):
        allow_only(node, "this")
        node = node.this
    return node


def is_constant(node: exp.Expr) -> bool:
    """Whether it is written as a constant: a number with or without a sign, a text, a truth value."""
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal | exp.Boolean | exp.Cast)


def read_number(node: exp.Expr) -> Fraction:
    """A number as it is written, exactly."""
    allow_only(node, "this", "is_string")
    if not isinstance(node, exp.Literal) or node.is_string or not NUMERAL.fullmatch(node.this):
        raise make_refusal(node, "this is not a number, or a very long one", "write a decimal such as 1.5")
    value = Fraction(node.this)
    if abs(value) > 10**15 or value.denominator > 10**15:
        raise make_refusal(
            node, "this number is too large or too fine", "keep constants below 10^15, with at most 15 decimals"
        )
    return value


def read_signed_number(node: exp.Expr) -> Fraction:
    """A number with or without a sign."""
    if not isinstance(node, exp.Neg):
        return read_number(node)
    allow_only(node, "this")
    return -read_number(node.this)


# Values and conditions of SQL, each node and each of its arguments allow-listed.


MAX_SQL_DEPTH = 60

COMPARISONS: dict[type[exp.Expr], ast.Order] = {
    exp.EQ: ast.Order.EQUAL,
    exp.NEQ: ast.Order.NOT_EQUAL,
    exp.LT: ast.Order.LESS,
    exp.LTE: ast.Order.AT_MOST,
    exp.GT: ast.Order.MORE,
    exp.GTE: ast.Order.AT_LEAST,
}
ARITHMETIC: dict[type[exp.Expr], type[ast.Plus | ast.Minus | ast.Times]] = {
    exp.Add: ast.Plus,
    exp.Sub: ast.Minus,
    exp.Mul: ast.Times,
}
MIRRORED_ORDERS = {
    ast.Order.LESS: ast.Order.MORE,
    ast.Order.MORE: ast.Order.LESS,
    ast.Order.AT_MOST: ast.Order.AT_LEAST,
    ast.Order.AT_LEAST: ast.Order.AT_MOST,
}


class ExpressionReader:
    """Reads expressions against the declared columns of a table and of those that it is joined to."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.table, self.depth = scope, scope.table, 0

    def read_value(self, node: exp.Expr | None) -> ast.Value:
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

    def _read_value_node(self, node: exp.Expr) -> ast.Value:
        match node:
            case exp.Paren():
                allow_only(node, "this")
                return self.read_value(node.this)
            case exp.Column():
                return self._read_column(node)
            case exp.Literal() if not node.is_string:
                return ast.Number(read_number(node))
            case exp.Neg():
                allow_only(node, "this")
                return ast.Minus(ast.Number(Fraction(0)), self.read_value(node.this))
            case exp.Add() | exp.Sub() | exp.Mul():
                allow_only(node, "this", "expression")
                return ARITHMETIC[type(node)](self.read_value(node.this), self.read_value(node.expression))
            case exp.IntDiv():
                allow_only(node, "this", "expression")
                return ast.Bin(self.read_value(node.this), self._read_width(node.expression))
            case exp.Case():
                return self._read_case(node)
        raise make_refusal(node, f"{node.key.upper()} is not in the language", "use columns, numbers, +, -, *, // and CASE")

    def _read_column(self, node: exp.Column) -> ast.Ref:
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
        return ast.Ref(found[0])

    def _read_width(self, node: exp.Expr) -> int:
        width = read_number(node) if isinstance(node, exp.Literal) and not node.is_string else None
        if width is None or width.denominator != 1 or not 1 <= width < 2**31:
            raise make_refusal(node, "a bin has a whole width of at least 1", "write column // 10")
        return int(width)

    def _read_case(self, node: exp.Case) -> ast.Case:
        allow_only(node, "ifs", "default")
        branches = []
        for branch in node.args["ifs"]:
            allow_only(branch, "this", "true")
            branches.append((self.read_condition(branch.this), self.read_value(branch.args["true"])))
        default = node.args.get("default")
        if default is None or isinstance(default, exp.Null):
            return ast.Case(tuple(branches), None)
        return ast.Case(tuple(branches), self.read_value(default))

    def read_condition(self, node: exp.Expr) -> ast.Condition:
        """Something that is true, false or unknown of a row."""
        self.depth += 1
        if self.depth > MAX_SQL_DEPTH:
            raise make_refusal(node, "this is nested too deeply", "ask something simpler")
        try:
            return self._read_condition_node(node)
        finally:
            self.depth -= 1

    def _read_condition_node(self, node: exp.Expr) -> ast.Condition:
        match node:
            case exp.Paren():
                allow_only(node, "this")
                return self.read_condition(node.this)
            case exp.And() | exp.Or():
                allow_only(node, "this", "expression")
                make = ast.All if isinstance(node, exp.And) else ast.Any
                return make(tuple(self.read_condition(part) for part in node.flatten()))
            case exp.Not():
                allow_only(node, "this")
                return ast.Not(self.read_condition(node.this))
            case exp.Is():
                allow_only(node, "this", "expression")
                if not isinstance(node.expression, exp.Null):
                    raise make_refusal(node, "IS takes NULL only", "write column IS NULL, or column = value")
                return ast.Missing(self._read_ref(node.this))
            case exp.In():
                allow_only(node, "this", "expressions")
                column = self._read_ref(node.this)
                if not node.expressions:
                    raise make_refusal(node, "IN takes a list of constants", "write column IN ('a', 'b')")
                return ast.OneOf(column, tuple(self._read_constant(part, column) for part in node.expressions))
            case exp.Between():
                allow_only(node, "this", "low", "high")
                low = self._read_comparison(ast.Order.AT_LEAST, node.this, node.args["low"])
                return ast.All((low, self._read_comparison(ast.Order.AT_MOST, node.this, node.args["high"])))
            case exp.Column():
                column = self._read_ref(node)
                if self.table.columns[column.column].kind is not Kind.BOOLEAN:
                    raise make_refusal(node, "this column is not true or false", "compare it with something")
                return ast.Compare(ast.Order.EQUAL, column, ast.Constant(True))
        if type(node) in COMPARISONS:
            allow_only(node, "this", "expression")
            return self._read_comparison(COMPARISONS[type(node)], node.this, node.expression)
        raise make_refusal(
            node, f"{node.key.upper()} is not in the language", "use comparisons, IN, BETWEEN, IS NULL, AND, OR, NOT"
        )

    def _read_ref(self, node: exp.Expr) -> ast.Ref:
        value = self.read_value(node)
        if not isinstance(value, ast.Ref):
            raise make_refusal(node, "a column by name is expected here", f"take one of {', '.join(self.table.columns)}")
        return value

    def _read_comparison(self, order: ast.Order, left: exp.Expr, right: exp.Expr) -> ast.Compare:
        left, right = strip_parentheses(left), strip_parentheses(right)
        if is_constant(left):
            order, left, right = MIRRORED_ORDERS.get(order, order), right, left
        value = self.read_value(left)
        if isinstance(value, ast.Ref) and is_constant(right):
            return ast.Compare(order, value, self._read_constant(right, value))
        return ast.Compare(order, value, self.read_value(right))

    def _read_constant(self, node: exp.Expr, column: ast.Ref) -> "ast.Number | ast.Constant":
        """A constant of the column's own kind: nothing is cast."""
        kind = self.table.columns[column.column].kind
        if isinstance(node, exp.Neg) and kind in (Kind.INTEGER, Kind.REAL):
            allow_only(node, "this")
            return ast.Number(-read_number(node.this))
        if isinstance(node, exp.Literal) and not node.is_string and kind in (Kind.INTEGER, Kind.REAL):
            return ast.Number(read_number(node))
        if isinstance(node, exp.Boolean) and kind is Kind.BOOLEAN:
            return ast.Constant(bool(node.this))
        if isinstance(node, exp.Literal) and node.is_string and kind is Kind.TEXT:
            return ast.Constant(node.this)
        if isinstance(node, exp.Literal) and node.is_string and kind in (Kind.DATE, Kind.TIMESTAMP):
            return ast.Constant(self._read_moment(node, kind))
        raise make_refusal(node, f"this is not a {kind.value}, which {column.column} holds", "compare like with like")

    def _read_moment(self, node: exp.Expr, kind: Kind) -> Anything:
        try:
            moment = date.fromisoformat(node.this) if kind is Kind.DATE else datetime.fromisoformat(node.this)
        except ValueError:
            raise make_refusal(node, "this is not a date", "write '2024-12-31'") from None
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            raise make_refusal(node, "a time zone is not in the language", "write '2024-12-31 12:00:00'")
        return moment


# The aggregates of SQL.


AGGREGATES_HINT = "use COUNT, SUM, AVG, VARIANCE, STDDEV, MIN, MAX, MEDIAN, QUANTILE or HISTOGRAM"


class AggregateReader(ExpressionReader):
    """Reads aggregates of expressions."""

    def read_aggregate(self, node: exp.Expr) -> ast.Aggregate:
        """An aggregate function of the language."""
        match node:
            case exp.Count():
                allow_only(node, "this", "big_int")
                return self._read_count(node)
            case exp.Sum():
                allow_only(node, "this")
                return aggregates.Sum(self.read_value(node.this))
            case exp.Avg():
                allow_only(node, "this")
                return aggregates.Mean(self.read_value(node.this))
            case exp.VariancePop() | exp.Variance():
                allow_only(node, "this")
                return aggregates.Variance(self.read_value(node.this))
            case exp.StddevPop() | exp.Stddev():
                allow_only(node, "this")
                return aggregates.Variance(self.read_value(node.this), root=True)
            case exp.Min() | exp.Max():
                allow_only(node, "this")
                return aggregates.Quantile(
                    self.read_value(node.this),
                    aggregates.MIN_QUANTILE if isinstance(node, exp.Min) else aggregates.MAX_QUANTILE,
                )
            case exp.Median():
                allow_only(node, "this")
                return aggregates.Quantile(self.read_value(node.this), Fraction(1, 2))
            case exp.Quantile() if type(node) is exp.Quantile:  # APPROX_QUANTILE is another
                allow_only(node, "this", "quantile")
                return aggregates.Quantile(self.read_value(node.this), self._read_share(node, node.args.get("quantile")))
            case exp.PercentileCont() | exp.PercentileDisc():
                allow_only(node, "this", "expression")
                return aggregates.Quantile(self.read_value(node.this), self._read_share(node, node.args.get("expression")))
            case exp.WithinGroup():
                return self._read_within_group(node)
            case exp.Anonymous():
                if is_sample_variance(node):
                    raise make_refusal(
                        node, "variances here are the population's, not a sample's", "write VAR_POP or STDDEV_POP"
                    )
                return self._read_histogram(node)
        raise make_refusal(node, f"{node.key.upper()} is not in the language", AGGREGATES_HINT)

    def _read_count(self, node: exp.Count) -> ast.Aggregate:
        if isinstance(node.this, exp.Star):
            allow_only(node.this)
            return aggregates.CountRows()
        if not isinstance(node.this, exp.Distinct):
            return aggregates.CountValues(self.read_value(node.this))
        allow_only(node.this, "expressions")
        if [self.read_value(part) for part in node.this.expressions] != [ast.Ref(self.table.unit)]:
            raise make_refusal(node, "only distinct units can be counted", f"write COUNT(DISTINCT {self.table.unit})")
        return aggregates.CountUnits()

    def _read_share(self, node: exp.Expr, literal: exp.Expr | None) -> Fraction:
        share = read_number(literal) if isinstance(literal, exp.Literal) else None
        if share is None or not 0 < share < 1:
            raise make_refusal(node, "a quantile takes a share between 0 and 1", "write QUANTILE(column, 0.9)")
        return share

    def _read_within_group(self, node: exp.WithinGroup) -> aggregates.Quantile:
        """PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)."""
        allow_only(node, "this", "expression")
        order = node.expression
        if not isinstance(node.this, exp.PercentileCont | exp.PercentileDisc) or not isinstance(order, exp.Order):
            raise make_refusal(node, "WITHIN GROUP goes with PERCENTILE_CONT or PERCENTILE_DISC only", AGGREGATES_HINT)
        allow_only(node.this, "this")
        allow_only(order, "expressions")
        if len(order.expressions) != 1 or not isinstance(order.expressions[0], exp.Ordered):
            raise make_refusal(node, "a percentile is ordered by one value", "write WITHIN GROUP (ORDER BY column)")
        allow_only(order.expressions[0], "this")
        return aggregates.Quantile(self.read_value(order.expressions[0].this), self._read_share(node, node.this.this))

    def _read_histogram(self, node: exp.Anonymous) -> aggregates.Histogram:
        if not is_histogram(node):
            raise make_refusal(node, "this function is not in the language", AGGREGATES_HINT)
        allow_only(node, "this", "expressions")
        if len(node.expressions) < 2:
            raise make_refusal(
                node, "a histogram needs a width or edges", "write HISTOGRAM(column, 10) or HISTOGRAM(column, 0, 10, 20)"
            )
        value = self.read_value(node.expressions[0])
        numbers = [read_signed_number(part) for part in node.expressions[1:]]
        try:
            if len(numbers) > 1:
                return aggregates.Histogram(value, check_edges(numbers))
            return aggregates.Histogram(value, compute_edges(value, numbers[0], self.table))
        except QueryRefused as refusal:
            raise make_refusal(node, refusal.reason, refusal.hint) from None


def is_histogram(node: exp.Expr) -> bool:
    """Whether it is the one function that the reader of SQL has no node for."""
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.upper() == "HISTOGRAM"


SAMPLE_FUNCTIONS = ("VAR_SAMP", "VARIANCE_SAMP", "STDDEV_SAMP")
"""Functions that divide by n − 1. They are refused by name, so the reader of SQL must not take them for VARIANCE."""


def is_sample_variance(node: exp.Expr) -> bool:
    """Whether it is a variance of a sample."""
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.upper() in SAMPLE_FUNCTIONS


def is_aggregate(node: exp.Expr) -> bool:
    """Whether it is written as an aggregate."""
    return isinstance(node, exp.AggFunc | exp.WithinGroup) or is_histogram(node) or is_sample_variance(node)


# JOIN of SQL: to a public table by name, by one equal column.


JOIN_HINT = "write JOIN cities ON people.city = cities.city, or JOIN cities USING (city)"


def read_join(node: exp.Expr, scope: Scope) -> Scope:
    """The scope with what this JOIN adds to it."""
    allow_only(node, "this", "on", "using", "side", "kind")
    lookup, side = _find_public_table(node, scope), node.args.get("side") or ""
    if (side, node.args.get("kind") or "") not in (("", ""), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER")):
        raise make_refusal(node, "only JOIN and LEFT JOIN are in the language", JOIN_HINT)
    here, there = _read_join_columns(node, scope, lookup)
    return scope.with_join(ast.Join(lookup.name, here, there, left=side == "LEFT"))


def _find_public_table(node: exp.Expr, scope: Scope) -> PublicTable:
    known = ", ".join(scope.base.public) or "none is declared"
    if not isinstance(node.this, exp.Table):
        raise make_refusal(node, "JOIN takes a public table by name", f"public tables: {known}")
    allow_only(node.this, "this")
    if isinstance(node.this.this, exp.Identifier):
        for lookup in scope.base.public.values():
            if lookup.name.lower() == node.this.name.lower():
                return lookup
    raise make_refusal(node.this, "this is not a public table", f"public tables: {known}")


def _read_join_columns(node: exp.Expr, scope: Scope, public: PublicTable) -> tuple[str, str]:
    on, using = node.args.get("on"), node.args.get("using") or []
    if (on is None) == (not using):
        raise make_refusal(node, "a join needs ON or USING", JOIN_HINT)
    if on is None:
        if len(using) != 1 or not isinstance(using[0], exp.Identifier):
            raise make_refusal(node, "tables are joined by one column", JOIN_HINT)
        column = exp.Column(this=using[0].copy())
        return _find_own_column(column, scope), _find_public_column(column, public)
    equal = strip_parentheses(on)
    if not isinstance(equal, exp.EQ):
        raise make_refusal(node, "ON takes one column that equals another", JOIN_HINT)
    allow_only(equal, "this", "expression")
    left, right = strip_parentheses(equal.this), strip_parentheses(equal.expression)
    if _is_public_column(right, scope, public) and not _is_public_column(left, scope, public):
        return _find_own_column(left, scope), _find_public_column(right, public)
    if _is_public_column(left, scope, public) and not _is_public_column(right, scope, public):
        return _find_own_column(right, scope), _find_public_column(left, public)
    raise make_refusal(node, f"ON compares a column of {scope.base.name} with one of {public.name}", JOIN_HINT)


def _is_public_column(node: exp.Expr, scope: Scope, public: PublicTable) -> bool:
    """Whether this names a column of the lookup table: by its prefix, or because nothing else is called so."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        raise make_refusal(node, "ON takes columns, no expressions", JOIN_HINT)
    allow_only(node, "this", "table")
    if node.table:
        return bool(node.table.lower() == public.name.lower())
    return not scope.find(node.name, exact=False)


def _find_own_column(node: exp.Expr, scope: Scope) -> str:
    assert isinstance(node, exp.Column)
    found = scope.find(node.name, node.table or None, exact=bool(node.this.args.get("quoted")))
    if len(found) != 1:
        raise make_refusal(node, "this column is not known, or two are called so", "write table.column")
    return found[0]


def _find_public_column(node: exp.Expr, public: PublicTable) -> str:
    alike = [name for name in public.columns if name == node.name]
    alike = alike or [name for name in public.columns if name.lower() == node.name.lower()]
    if len(alike) != 1:
        raise make_refusal(node, f"{public.name} has no such column", f"take one of {', '.join(public.columns)}")
    return alike[0]


DUCKDB = Dialect.get_or_raise("duckdb")
QueryLike: TypeAlias = str | Select | ast.Query
"""A question as SQL text, as it is written in Python, or as the plan itself."""


def read_query(query: QueryLike, table: Table) -> ast.Query:
    """The plan of a question, however it is asked. Whether it can be answered is for `bound` to say."""
    match query:
        case ast.Query():
            check_types(query)
            return query
        case Select():
            found = query.to_query(table)
            check_types(found)
            return found
        case _:
            return parse_sql(query, table)


def parse_sql(text: str, table: Table) -> ast.Query:
    """The question that `text` asks of `table`."""
    if not isinstance(text, str):
        raise QueryRefused("a question is a text, a select(…) or a Query", "write SELECT … FROM …, or select(n=count())")
    check_text(text)
    if not text.isprintable() and not _is_printable(text):
        raise QueryRefused("the question holds characters that cannot be printed", "write plain text")
    try:
        tokens = DUCKDB.tokenize(text)
        check_tokens(len(tokens))
        statements = _make_parser().parse(tokens, text) if _is_one_select(tokens) else []
    except QueryRefused:
        raise
    except Exception as mistake:  # whatever goes wrong in reading, the text is at fault: this is the analyst's door
        raise _make_parse_refusal(mistake) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise QueryRefused(
            "only one SELECT statement is understood", "write SELECT … FROM … [WHERE …] [GROUP BY …], no comments"
        )
    return _read_statement(statements[0], table)


QUANTILES = ("QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC")
FUNCTIONS = {name: build for name, build in DUCKDB.parser().FUNCTIONS.items() if name not in SAMPLE_FUNCTIONS}
FUNCTION_PARSERS = {name: read for name, read in DUCKDB.parser().FUNCTION_PARSERS.items() if name not in QUANTILES}


def _make_parser() -> Parser:
    """The reader of DuckDB's SQL, but for functions of its own that lose the arguments that they do not expect."""
    parser = DUCKDB.parser()
    try:
        parser.FUNCTIONS, parser.FUNCTION_PARSERS = FUNCTIONS, FUNCTION_PARSERS  # type: ignore[misc]
    except AttributeError:
        raise QueryRefused(
            "the compiled sqlglot would lose arguments, and cannot be taught not to", "pip uninstall sqlglotc"
        ) from None
    return parser


def _is_one_select(tokens: list[Token]) -> bool:
    """Seen before parsing, because the parser writes a statement that it does not know to a log."""
    kinds = [token.token_type for token in tokens]
    starts = bool(kinds) and kinds[0] in (TokenType.SELECT, TokenType.FROM)
    return starts and TokenType.SEMICOLON not in kinds[:-1] and not any(token.comments for token in tokens)


def _is_printable(text: str) -> bool:
    """No control characters besides line breaks and tabs, no halves of characters, nothing that turns the writing round."""
    return all(category(c) not in ("Cc", "Cs", "Cf", "Cn", "Co") or c in "\n\r\t" for c in text)


def _make_parse_refusal(error: Exception) -> QueryRefused:
    first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    return QueryRefused(
        "this is not SQL that can be read", "check the spelling and the commas", first.get("line"), first.get("col")
    )


def _read_statement(select: exp.Select, table: Table) -> ast.Query:
    allow_only(select, "expressions", "from_", "joins", "where", "group")
    _check_source(select, table)
    scope = Scope(table)
    for join in select.args.get("joins") or ():
        scope = read_join(join, scope)
    return _StatementReader(scope).read_query(select)


def _check_source(select: exp.Select, table: Table) -> None:
    source = select.args.get("from_")
    if source is None:
        raise make_refusal(select, "there is no FROM", f"write FROM {_format_table_name(table.name)}")
    allow_only(source, "this")
    if not isinstance(source.this, exp.Table):
        raise make_refusal(source, "FROM takes one table by name", f"write FROM {_format_table_name(table.name)}")
    allow_only(source.this, "this")
    if not isinstance(source.this.this, exp.Identifier) or source.this.name.lower() != table.name.lower():
        raise make_refusal(source.this, "this table is not known", f"write FROM {_format_table_name(table.name)}")


def _format_table_name(name: str) -> str:
    """A table's name as SQL has it: in double quotes where it is not a plain word."""
    tokens = Tokenizer().tokenize(name)
    plain = name.isidentifier() and len(tokens) == 1 and tokens[0].token_type is TokenType.VAR
    return name if plain else '"' + name.replace('"', '""') + '"'


class _StatementReader(AggregateReader):
    """Reads one statement."""

    def read_query(self, select: exp.Select) -> ast.Query:
        group = select.args.get("group")
        groupings = 0 if group is None else len(group.expressions)
        check_columns(len(select.expressions) - groupings, groupings)
        groups = self._read_groups(select)
        shown: list[ast.Ref | ast.Bin] = []
        aggregates: dict[str, ast.Aggregate] = {}
        for item in select.expressions:
            node = self._strip_alias(item)
            value = self._match_group(node, groups)
            aggregate = self.read_aggregate(node) if value is None else None
            name = self._column_name(item)
            if name in aggregates or name in [n for v, n in groups.items() if v != value]:
                raise make_refusal(
                    item, f"two columns of the answer are called {name}", "give one of them another name with AS"
                )
            if value in shown:
                raise make_refusal(item, f"{name} is the same as another column", "show each grouping once")
            if value is not None:
                shown.append(value)
                groups[value] = name
            elif aggregate is not None:
                aggregates[name] = aggregate
        if not aggregates:
            raise make_refusal(select, "nothing is counted or added up", "add COUNT(*), SUM(column) or AVG(column)")
        where = select.args.get("where")
        return ast.Query(
            self.table.name,
            tuple(aggregates.items()),
            None if where is None else self.read_condition(where.this),
            tuple(ast.Grouping(groups[value], value) for value in dict.fromkeys((*shown, *groups))),
            self.scope.joins,
        )

    def _read_groups(self, select: exp.Select) -> "dict[ast.Ref | ast.Bin, str]":
        group = select.args.get("group")
        if group is None:
            return {}
        allow_only(group, "expressions")
        if not group.expressions:
            raise make_refusal(group, "GROUP BY names nothing", "name a column, or leave it out")
        aliases = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
        found: dict[ast.Ref | ast.Bin, str] = {}
        for node in group.expressions:
            alias = isinstance(node, exp.Column) and not node.table and not self.scope.find(node.name)
            named = aliases.get(node.name) if alias else None
            value = self.read_value(named or node)
            if not isinstance(value, ast.Ref | ast.Bin):
                raise make_refusal(node, "rows are grouped by a column or by column // width", "name one of these")
            found[value] = node.name or node.sql()
        return found

    def _strip_alias(self, item: exp.Expr) -> exp.Expr:
        if not isinstance(item, exp.Alias):
            return item
        allow_only(item, "this", "alias")
        return item.this  # type: ignore[no-any-return]

    def _column_name(self, item: exp.Expr) -> str:
        """Only of what has been understood: writing out anything else may fail."""
        if isinstance(item, exp.Alias):
            return item.alias
        return item.name if isinstance(item, exp.Column) else item.sql(dialect="duckdb").lower()

    def _match_group(self, node: exp.Expr, groups: "dict[ast.Ref | ast.Bin, str]") -> "ast.Ref | ast.Bin | None":
        if is_aggregate(node):
            return None
        value = self.read_value(node)
        if value not in groups:
            raise make_refusal(node, "this column is neither grouped by nor added up", "put it in GROUP BY, or aggregate it")
        return value
