"""SQL text to a `Query`.

sqlglot turns the text into a tree of nodes. One pass over that tree reads it: every node and every argument of it is
allow-listed here, and what is not named is refused, with its place. Nothing that an analyst writes goes further than this
file as text: names are looked up among the declared columns, and constants become values.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from functools import partial
from typing import TypeAlias
from unicodedata import category

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from discreet.errors import QueryRefused
from discreet.query import aggregates, ast
from discreet.query.builder import Select
from discreet.query.schema import Kind, PublicTable, Table
from discreet.query.validate import MAX_BIN_WIDTH, MAX_CONSTANT, Scope, check_edges, check_types, compute_edges

QueryLike: TypeAlias = str | Select | ast.Query
"""A query as SQL text, as it is built in Python, or as it is."""

MAX_CHARACTERS = 20_000
MAX_TOKENS = 10_000
MAX_SQL_DEPTH = 60
HIDDEN_CATEGORIES = ("Cc", "Cs", "Cf", "Cn", "Co")
"""Control characters, halves of pairs, invisible and bidirectional formatting, unassigned and private characters."""

NUMERAL = re.compile(r"(?=\.?[0-9])[0-9]{0,40}(\.[0-9]{0,40})?(e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)

DUCKDB = Dialect.get_or_raise("duckdb")
SAMPLE_FUNCTIONS = ("VAR_SAMP", "VARIANCE_SAMP", "STDDEV_SAMP")
"""Functions that divide by n − 1. They are refused by name, so sqlglot must not take them for VARIANCE."""
QUANTILES = ("QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC")
"""Functions whose parsers in sqlglot's DuckDB lose the arguments that they do not expect."""
FUNCTIONS = {name: build for name, build in DUCKDB.parser().FUNCTIONS.items() if name not in SAMPLE_FUNCTIONS}
FUNCTION_PARSERS = {name: parse for name, parse in DUCKDB.parser().FUNCTION_PARSERS.items() if name not in QUANTILES}

COMPARISONS: dict[type[exp.Expr], ast.Order] = {
    exp.EQ: ast.Order.EQUAL,
    exp.NEQ: ast.Order.NOT_EQUAL,
    exp.LT: ast.Order.LESS,
    exp.LTE: ast.Order.AT_MOST,
    exp.GT: ast.Order.MORE,
    exp.GTE: ast.Order.AT_LEAST,
}
MIRRORED_ORDERS = {
    ast.Order.LESS: ast.Order.MORE,
    ast.Order.MORE: ast.Order.LESS,
    ast.Order.AT_MOST: ast.Order.AT_LEAST,
    ast.Order.AT_LEAST: ast.Order.AT_MOST,
}
ARITHMETIC: dict[type[exp.Expr], type[ast.Plus | ast.Minus | ast.Times]] = {
    exp.Add: ast.Plus,
    exp.Sub: ast.Minus,
    exp.Mul: ast.Times,
}
AGGREGATES: dict[type[exp.Expr], Callable[[ast.Value], ast.Aggregate]] = {
    exp.Sum: aggregates.Sum,
    exp.Avg: aggregates.Mean,
    exp.Variance: aggregates.Variance,
    exp.VariancePop: aggregates.Variance,
    exp.Stddev: partial(aggregates.Variance, root=True),
    exp.StddevPop: partial(aggregates.Variance, root=True),
    exp.Min: partial(aggregates.Quantile, q=aggregates.MIN_QUANTILE),
    exp.Max: partial(aggregates.Quantile, q=aggregates.MAX_QUANTILE),
    exp.Median: partial(aggregates.Quantile, q=Fraction(1, 2)),
}
"""Aggregates of one value."""

AGGREGATES_HINT = "use COUNT, SUM, AVG, VARIANCE, STDDEV, MIN, MAX, MEDIAN, QUANTILE or HISTOGRAM"
JOIN_HINT = "write JOIN cities ON people.city = cities.city, or JOIN cities USING (city)"


def read_query(query: QueryLike, table: Table) -> ast.Query:
    """Return a query in any form as a `Query` about this table. `check_query` says whether it can be answered."""
    if isinstance(query, Select):
        query = query.to_query(table)
    if not isinstance(query, ast.Query):
        return parse_sql(query, table)
    check_types(query)
    return query


def parse_sql(text: str, table: Table) -> ast.Query:
    """Return the query that a text asks of a table.

    >>> from discreet.query.schema import Column
    >>> people = Table("people", "id", {"id": Column(Kind.INTEGER)})
    >>> parse_sql("SELECT COUNT(*) AS n FROM people", people).aggregates
    (('n', CountRows()),)
    """
    if not isinstance(text, str):
        raise QueryRefused("a question is a text, a select(…) or a Query", "write SELECT … FROM …, or select(n=count())")
    if len(text) > MAX_CHARACTERS:
        raise QueryRefused(f"the question is longer than {MAX_CHARACTERS:,} characters", "ask several shorter ones")
    if not text.isprintable() and any(category(each) in HIDDEN_CATEGORIES and each not in "\n\r\t" for each in text):
        raise QueryRefused("the question holds characters that cannot be printed", "write plain text")
    return _Reader(Scope(table)).read_query(_parse_select(text))


def _parse_select(text: str) -> exp.Select:
    """Return the tree of the one SELECT statement that a text holds."""
    try:
        tokens = DUCKDB.tokenize(text)
        if len(tokens) > MAX_TOKENS:
            raise QueryRefused(f"the question has more than {MAX_TOKENS:,} words and signs", "ask several shorter ones")
        kinds = [token.token_type for token in tokens]
        is_select = bool(kinds) and kinds[0] in (TokenType.SELECT, TokenType.FROM)
        statements: list[exp.Expr | None] = []
        # Seen before parsing, because sqlglot writes a statement that it does not know to a log.
        if is_select and TokenType.SEMICOLON not in kinds[:-1] and not any(token.comments for token in tokens):
            parser = DUCKDB.parser()
            try:
                parser.FUNCTIONS, parser.FUNCTION_PARSERS = FUNCTIONS, FUNCTION_PARSERS  # type: ignore[misc]
            except AttributeError:
                raise QueryRefused(
                    "the compiled sqlglot would lose arguments, and cannot be taught not to", "pip uninstall sqlglotc"
                ) from None
            statements = parser.parse(tokens, text)
    except QueryRefused:
        raise
    except Exception as error:  # the text is at fault, however sqlglot fails on it
        first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        raise QueryRefused(
            "this is not SQL that can be read", "check the spelling and the commas", first.get("line"), first.get("col")
        ) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise QueryRefused(
            "only one SELECT statement is understood", "write SELECT … FROM … [WHERE …] [GROUP BY …], no comments"
        )
    return statements[0]


# -- what all readers of nodes share ---------------------------------------------------------------------------------------


def make_refusal(node: exp.Expr | None, reason: str, hint: str) -> QueryRefused:
    """Return a refusal with the place of a node, or of the first part of it that has one."""
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
    """Return what stands inside parentheses."""
    while isinstance(node, exp.Paren):
        allow_only(node, "this")
        node = node.this
    return node


def read_number(node: exp.Expr | None) -> Fraction:
    """Return a number with or without a sign, exactly as it is written."""
    if isinstance(node, exp.Neg):
        allow_only(node, "this")
        return -_read_numeral(node.this)
    return _read_numeral(node)


def _read_numeral(node: exp.Expr | None) -> Fraction:
    if not isinstance(node, exp.Literal) or node.is_string or not NUMERAL.fullmatch(node.this):
        raise make_refusal(node, "this is not a number, or a very long one", "write a decimal such as 1.5")
    allow_only(node, "this", "is_string")
    value = Fraction(node.this)
    if abs(value) > MAX_CONSTANT or value.denominator > MAX_CONSTANT:
        raise make_refusal(
            node, "this number is too large or too fine", "keep constants below 10^15, with at most 15 decimals"
        )
    return value


@dataclass(slots=True)
class _Reader:
    """Reads one statement. `room` is how much deeper values and conditions may be nested."""

    scope: Scope

    # -- the statement -----------------------------------------------------------------------------------------------------

    def read_query(self, select: exp.Select) -> ast.Query:
        """Return the query of a statement."""
        allow_only(select, "expressions", "from_", "joins", "where", "group")
        self._check_source(select)
        for join in select.args.get("joins") or ():
            self._read_join(join)
        groups = self._read_groups(select)
        shown: list[ast.Ref | ast.Bin] = []
        aggregates: dict[str, ast.Aggregate] = {}
        for item in select.expressions:
            node = item
            if isinstance(item, exp.Alias):
                allow_only(item, "this", "alias")
                node = item.this
            is_aggregate = isinstance(node, exp.AggFunc | exp.WithinGroup | exp.Anonymous)
            value = self.read_aggregate(node) if is_aggregate else self.read_value(node)
            if not is_aggregate and value not in groups:
                raise make_refusal(
                    node, "this column is neither grouped by nor added up", "put it in GROUP BY, or aggregate it"
                )
            # only what has been understood is written out again: writing out anything else may fail
            name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else item.sql(dialect="duckdb").lower()
            if name in aggregates or name in [other for group, other in groups.items() if group != value]:
                raise make_refusal(
                    item, f"two columns of the answer are called {name}", "give one of them another name with AS"
                )
            if value in shown:
                raise make_refusal(item, f"{name} is the same as another column", "show each grouping once")
            if isinstance(value, ast.Ref | ast.Bin):
                shown.append(value)
                groups[value] = name
            elif isinstance(value, ast.Aggregate):
                aggregates[name] = value
        if not aggregates:
            raise make_refusal(select, "nothing is counted or added up", "add COUNT(*), SUM(column) or AVG(column)")
        where = select.args.get("where")
        if where is not None:
            allow_only(where, "this")
        return ast.Query(
            self.scope.table.name,
            tuple(aggregates.items()),
            None if where is None else self.read_condition(where.this),
            tuple(ast.Grouping(groups[value], value) for value in dict.fromkeys((*shown, *groups))),
            self.scope.joins,
        )

    def _check_source(self, select: exp.Select) -> None:
        """Refuse a statement that is not about the table."""
        name, source = self.scope.table.name, select.args.get("from_")
        if source is None:
            raise make_refusal(select, "there is no FROM", f"write FROM {_format_name(name)}")
        allow_only(source, "this")
        if not isinstance(source.this, exp.Table):
            raise make_refusal(source, "FROM takes one table by name", f"write FROM {_format_name(name)}")
        allow_only(source.this, "this")
        if not isinstance(source.this.this, exp.Identifier) or source.this.name.lower() != name.lower():
            raise make_refusal(source.this, "this table is not known", f"write FROM {_format_name(name)}")

    def _read_groups(self, select: exp.Select) -> dict[ast.Ref | ast.Bin, str]:
        """Return what rows are grouped by, with the name of each: a column, a bin, or the alias of one."""
        group = select.args.get("group")
        if group is None:
            return {}
        allow_only(group, "expressions")
        if not group.expressions:
            raise make_refusal(group, "GROUP BY names nothing", "name a column, or leave it out")
        aliases = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
        groups: dict[ast.Ref | ast.Bin, str] = {}
        for node in group.expressions:
            is_alias = isinstance(node, exp.Column) and not node.table and not self.scope.find_columns(node.name)
            value = self.read_value(aliases.get(node.name, node) if is_alias else node)
            if not isinstance(value, ast.Ref | ast.Bin):
                raise make_refusal(node, "rows are grouped by a column or by column // width", "name one of these")
            groups[value] = node.name or node.sql()
        return groups

    # -- joins: to a public table by its name, where one column equals another ---------------------------------------------

    def _read_join(self, node: exp.Expr) -> None:
        """Add a JOIN to the scope."""
        allow_only(node, "this", "on", "using", "side", "kind")
        public, side = self._find_public_table(node), node.args.get("side") or ""
        if (side, node.args.get("kind") or "") not in (("", ""), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER")):
            raise make_refusal(node, "only JOIN and LEFT JOIN are in the language", JOIN_HINT)
        here, there = self._read_join_columns(node, public)
        self.scope = self.scope.add_join(ast.Join(public.name, here, there, left=side == "LEFT"))

    def _find_public_table(self, join: exp.Expr) -> PublicTable:
        tables = self.scope.table.public
        hint = f"public tables: {', '.join(tables) or 'none is declared'}"
        if not isinstance(join.this, exp.Table):
            raise make_refusal(join, "JOIN takes a public table by name", hint)
        allow_only(join.this, "this")
        if isinstance(join.this.this, exp.Identifier):
            for public in tables.values():
                if public.name.lower() == join.this.name.lower():
                    return public
        raise make_refusal(join.this, "this is not a public table", hint)

    def _read_join_columns(self, join: exp.Expr, public: PublicTable) -> tuple[str, str]:
        """Return the columns here and there that must be equal."""
        on, using = join.args.get("on"), join.args.get("using") or []
        if (on is None) == (not using):
            raise make_refusal(join, "a join needs ON or USING", JOIN_HINT)
        if on is None:
            if len(using) != 1 or not isinstance(using[0], exp.Identifier):
                raise make_refusal(join, "tables are joined by one column", JOIN_HINT)
            column = exp.Column(this=using[0].copy())
            return self._find_own_column(column), _find_public_column(column, public)
        equal = strip_parentheses(on)
        if not isinstance(equal, exp.EQ):
            raise make_refusal(join, "ON takes one column that equals another", JOIN_HINT)
        allow_only(equal, "this", "expression")
        left, right = strip_parentheses(equal.this), strip_parentheses(equal.expression)
        left_is_public, right_is_public = (self._is_public_column(each, public) for each in (left, right))
        if left_is_public == right_is_public:
            raise make_refusal(join, f"ON compares a column of {self.scope.table.name} with one of {public.name}", JOIN_HINT)
        own, other = (right, left) if left_is_public else (left, right)
        return self._find_own_column(own), _find_public_column(other, public)

    def _is_public_column(self, node: exp.Expr, public: PublicTable) -> bool:
        """Return whether it names a column of the public table: by its prefix, or because no other is called so."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise make_refusal(node, "ON takes columns, no expressions", JOIN_HINT)
        allow_only(node, "this", "table")
        if node.table:
            return bool(node.table.lower() == public.name.lower())
        return not self.scope.find_columns(node.name, exact=False)

    def _find_own_column(self, node: exp.Expr) -> str:
        found = self.scope.find_columns(node.name, node.text("table") or None, exact=bool(node.this.args.get("quoted")))
        if len(found) != 1:
            raise make_refusal(node, "this column is not known, or two are called so", "write table.column")
        return found[0]

    # -- aggregates --------------------------------------------------------------------------------------------------------

    def read_aggregate(self, node: exp.Expr) -> ast.Aggregate:
        """Return an aggregate."""
        if type(node) in AGGREGATES:
            allow_only(node, "this")
            return AGGREGATES[type(node)](self.read_value(node.this))
        match node:
            case exp.Count():
                allow_only(node, "this", "big_int")
                return self._read_count(node)
            case exp.Quantile() if type(node) is exp.Quantile:  # APPROX_QUANTILE is another
                allow_only(node, "this", "quantile")
                return aggregates.Quantile(self.read_value(node.this), _read_share(node, node.args.get("quantile")))
            case exp.PercentileCont() | exp.PercentileDisc():
                allow_only(node, "this", "expression")
                return aggregates.Quantile(self.read_value(node.this), _read_share(node, node.args.get("expression")))
            case exp.WithinGroup():
                return self._read_within_group(node)
            case exp.Anonymous():
                name = node.this.upper() if isinstance(node.this, str) else ""
                if name == "HISTOGRAM":
                    return self._read_histogram(node)
                if name in SAMPLE_FUNCTIONS:
                    raise make_refusal(
                        node, "variances here are the population's, not a sample's", "write VAR_POP or STDDEV_POP"
                    )
                raise make_refusal(node, "this function is not in the language", AGGREGATES_HINT)
        raise make_refusal(node, f"{node.key.upper()} is not in the language", AGGREGATES_HINT)

    def _read_count(self, node: exp.Count) -> ast.Aggregate:
        if isinstance(node.this, exp.Star):
            allow_only(node.this)
            return aggregates.CountRows()
        if not isinstance(node.this, exp.Distinct):
            return aggregates.CountValues(self.read_value(node.this))
        allow_only(node.this, "expressions")
        unit = self.scope.table.unit
        if [self.read_value(part) for part in node.this.expressions] != [ast.Ref(unit)]:
            raise make_refusal(node, "only distinct units can be counted", f"write COUNT(DISTINCT {unit})")
        return aggregates.CountUnits()

    def _read_within_group(self, node: exp.WithinGroup) -> aggregates.Quantile:
        """Return PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)."""
        allow_only(node, "this", "expression")
        order = node.expression
        if not isinstance(node.this, exp.PercentileCont | exp.PercentileDisc) or not isinstance(order, exp.Order):
            raise make_refusal(node, "WITHIN GROUP goes with PERCENTILE_CONT or PERCENTILE_DISC only", AGGREGATES_HINT)
        allow_only(node.this, "this")
        allow_only(order, "expressions")
        if len(order.expressions) != 1 or not isinstance(order.expressions[0], exp.Ordered):
            raise make_refusal(node, "a percentile is ordered by one value", "write WITHIN GROUP (ORDER BY column)")
        allow_only(order.expressions[0], "this")
        return aggregates.Quantile(self.read_value(order.expressions[0].this), _read_share(node, node.this.this))

    def _read_histogram(self, node: exp.Anonymous) -> aggregates.Histogram:
        allow_only(node, "this", "expressions")
        if len(node.expressions) < 2:
            raise make_refusal(
                node, "a histogram needs a width or edges", "write HISTOGRAM(column, 10) or HISTOGRAM(column, 0, 10, 20)"
            )
        value = self.read_value(node.expressions[0])
        numbers = [read_number(part) for part in node.expressions[1:]]
        try:
            edges = check_edges(numbers) if len(numbers) > 1 else compute_edges(value, numbers[0], self.scope.table)
        except QueryRefused as refusal:
            raise make_refusal(node, refusal.reason, refusal.hint) from None
        return aggregates.Histogram(value, edges)

    # -- values ------------------------------------------------------------------------------------------------------------

    def read_value(self, node: exp.Expr | None, room: int = MAX_SQL_DEPTH) -> ast.Value:
        """Return a number, a column, or an expression of them."""
        if node is None:
            raise make_refusal(None, "a function has nothing in its parentheses", "name a column in them")
        if room == 0:
            raise make_refusal(node, "this is nested too deeply", "ask something simpler")
        match node:
            case exp.Paren():
                allow_only(node, "this")
                return self.read_value(node.this, room - 1)
            case exp.Column():
                return self._read_column(node)
            case exp.Literal() if not node.is_string:
                return ast.Number(read_number(node))
            case exp.Neg():
                allow_only(node, "this")
                return ast.Minus(ast.Number(Fraction(0)), self.read_value(node.this, room - 1))
            case exp.Add() | exp.Sub() | exp.Mul():
                allow_only(node, "this", "expression")
                left, right = self.read_value(node.this, room - 1), self.read_value(node.expression, room - 1)
                return ARITHMETIC[type(node)](left, right)
            case exp.IntDiv():
                allow_only(node, "this", "expression")
                return ast.Bin(self.read_value(node.this, room - 1), _read_width(node.expression))
            case exp.Case():
                return self._read_case(node, room)
        raise make_refusal(node, f"{node.key.upper()} is not in the language", "use columns, numbers, +, -, *, // and CASE")

    def _read_column(self, node: exp.Column) -> ast.Ref:
        allow_only(node, "this", "table")
        table, joins = self.scope.table, self.scope.joins
        tables = (table.name, *(join.table for join in joins))
        if node.table and node.table.lower() not in [name.lower() for name in tables]:
            raise make_refusal(node, "this table is not known", f"leave out the prefix, or write {' or '.join(tables)}")
        if not isinstance(node.this, exp.Identifier):
            raise make_refusal(node, "a column by name is expected", f"take one of {', '.join(table.columns)}")
        found = self.scope.find_columns(node.name, node.table or None, exact=bool(node.this.args.get("quoted")))
        if not found:
            raise make_refusal(node, "this column is not declared", f"take one of {', '.join(table.columns)}")
        if len(found) > 1:
            raise make_refusal(node, "two columns are called so", f"write one of {', '.join(found)}")
        return ast.Ref(found[0])

    def _read_case(self, node: exp.Case, room: int) -> ast.Case:
        allow_only(node, "ifs", "default")
        branches = []
        for branch in node.args["ifs"]:
            allow_only(branch, "this", "true")
            condition = self.read_condition(branch.this, room - 1)
            branches.append((condition, self.read_value(branch.args["true"], room - 1)))
        default = node.args.get("default")
        if default is None or isinstance(default, exp.Null):
            return ast.Case(tuple(branches), None)
        return ast.Case(tuple(branches), self.read_value(default, room - 1))

    # -- conditions --------------------------------------------------------------------------------------------------------

    def read_condition(self, node: exp.Expr, room: int = MAX_SQL_DEPTH) -> ast.Condition:
        """Return something that is true, false or unknown of a row."""
        if room == 0:
            raise make_refusal(node, "this is nested too deeply", "ask something simpler")
        match node:
            case exp.Paren():
                allow_only(node, "this")
                return self.read_condition(node.this, room - 1)
            case exp.And():
                return ast.All(tuple(self.read_condition(part, room - 1) for part in _list_operands(node)))
            case exp.Or():
                return ast.Any(tuple(self.read_condition(part, room - 1) for part in _list_operands(node)))
            case exp.Not():
                allow_only(node, "this")
                return ast.Not(self.read_condition(node.this, room - 1))
            case exp.Is():
                allow_only(node, "this", "expression")
                if not isinstance(node.expression, exp.Null):
                    raise make_refusal(node, "IS takes NULL only", "write column IS NULL, or column = value")
                return ast.Missing(self._read_ref(node.this, room))
            case exp.In():
                allow_only(node, "this", "expressions")
                column = self._read_ref(node.this, room)
                if not node.expressions:
                    raise make_refusal(node, "IN takes a list of constants", "write column IN ('a', 'b')")
                return ast.OneOf(column, tuple(self._read_constant(part, column) for part in node.expressions))
            case exp.Between():
                allow_only(node, "this", "low", "high")
                low = self._read_comparison(ast.Order.AT_LEAST, node.this, node.args["low"], room)
                return ast.All((low, self._read_comparison(ast.Order.AT_MOST, node.this, node.args["high"], room)))
            case exp.Column():
                column = self._read_ref(node, room)
                if self.scope.table.columns[column.column].kind is not Kind.BOOLEAN:
                    raise make_refusal(node, "this column is not true or false", "compare it with something")
                return ast.Compare(ast.Order.EQUAL, column, ast.Constant(True))
        if type(node) in COMPARISONS:
            allow_only(node, "this", "expression")
            return self._read_comparison(COMPARISONS[type(node)], node.this, node.expression, room)
        raise make_refusal(
            node, f"{node.key.upper()} is not in the language", "use comparisons, IN, BETWEEN, IS NULL, AND, OR, NOT"
        )

    def _read_ref(self, node: exp.Expr, room: int) -> ast.Ref:
        value = self.read_value(node, room - 1)
        if not isinstance(value, ast.Ref):
            columns = ", ".join(self.scope.table.columns)
            raise make_refusal(node, "a column by name is expected here", f"take one of {columns}")
        return value

    def _read_comparison(self, order: ast.Order, left: exp.Expr, right: exp.Expr, room: int) -> ast.Compare:
        left, right = strip_parentheses(left), strip_parentheses(right)
        if _is_constant(left):
            order, left, right = MIRRORED_ORDERS.get(order, order), right, left
        value = self.read_value(left, room - 1)
        if isinstance(value, ast.Ref) and _is_constant(right):
            return ast.Compare(order, value, self._read_constant(right, value))
        return ast.Compare(order, value, self.read_value(right, room - 1))

    def _read_constant(self, node: exp.Expr, column: ast.Ref) -> ast.Number | ast.Constant:
        """Return a constant of the column's own kind: nothing is cast."""
        kind = self.scope.table.columns[column.column].kind
        is_text = isinstance(node, exp.Literal) and node.is_string
        if kind in (Kind.INTEGER, Kind.REAL) and isinstance(node, exp.Neg | exp.Literal) and not is_text:
            return ast.Number(read_number(node))
        if kind is Kind.BOOLEAN and isinstance(node, exp.Boolean):
            allow_only(node, "this")
            return ast.Constant(bool(node.this))
        if is_text and kind in (Kind.TEXT, Kind.DATE, Kind.TIMESTAMP):
            allow_only(node, "this", "is_string")
            return ast.Constant(node.this if kind is Kind.TEXT else _read_moment(node, kind))
        raise make_refusal(node, f"this is not a {kind.value}, which {column.column} holds", "compare like with like")


# -- parts of nodes --------------------------------------------------------------------------------------------------------


def _is_constant(node: exp.Expr) -> bool:
    """Return whether it is written as a constant: a number with or without a sign, a text, a truth value."""
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal | exp.Boolean | exp.Cast)


def _list_operands(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a chain of ANDs, or of ORs, from left to right."""
    operands, rest = [], [node]
    while rest:
        part = rest.pop()
        if type(part) is type(node):
            allow_only(part, "this", "expression")
            rest += (part.expression, part.this)
        else:
            operands.append(strip_parentheses(part))
    return operands


def _read_width(node: exp.Expr) -> int:
    width = read_number(node) if isinstance(node, exp.Literal) and not node.is_string else None
    if width is None or width.denominator != 1 or not 1 <= width < MAX_BIN_WIDTH:
        raise make_refusal(node, "a bin has a whole width of at least 1", "write column // 10")
    return int(width)


def _read_share(node: exp.Expr, literal: exp.Expr | None) -> Fraction:
    share = read_number(literal) if isinstance(literal, exp.Literal) else None
    if share is None or not 0 < share < 1:
        raise make_refusal(node, "a quantile takes a share between 0 and 1", "write QUANTILE(column, 0.9)")
    return share


def _read_moment(node: exp.Expr, kind: Kind) -> date | datetime:
    try:
        moment = date.fromisoformat(node.this) if kind is Kind.DATE else datetime.fromisoformat(node.this)
    except ValueError:
        raise make_refusal(node, "this is not a date", "write '2024-12-31'") from None
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        raise make_refusal(node, "a time zone is not in the language", "write '2024-12-31 12:00:00'")
    return moment


def _find_public_column(node: exp.Expr, public: PublicTable) -> str:
    alike = [name for name in public.columns if name == node.name]
    alike = alike or [name for name in public.columns if name.lower() == node.name.lower()]
    if len(alike) != 1:
        raise make_refusal(node, f"{public.name} has no such column", f"take one of {', '.join(public.columns)}")
    return alike[0]


def _format_name(name: str) -> str:
    """Return a table's name as SQL has it: in double quotes where it is not a plain word."""
    tokens = Tokenizer().tokenize(name)
    plain = name.isidentifier() and len(tokens) == 1 and tokens[0].token_type is TokenType.VAR
    return name if plain else '"' + name.replace('"', '""') + '"'
