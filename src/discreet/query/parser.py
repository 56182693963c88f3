"""SQL text to a `Query`.

sqlglot turns the text into a tree of nodes. One pass over that tree reads it: every node and every argument of it is
allow-listed here, and what is not named is refused, with its place. Nothing that an analyst writes goes further than this
file as text: names are looked up among the declared columns, and constants become values.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import TypeAlias
from unicodedata import category

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError

from discreet.errors import QueryRefused
from discreet.query import aggregates, ast
from discreet.query.builder import Select
from discreet.query.postprocess import list_column_kinds
from discreet.query.refusals import (
    AGGREGATES_HINT,
    DAY_OF_WEEK_HINT,
    DIVISION_HINT,
    EXAMPLES,
    GROUPS_HINT,
    JOIN_HINT,
    LIKE_HINT,
    ORDER_HINT,
    STATEMENT_HINT,
    VALUES_HINT,
    allow_only,
    explain_open_quote,
    explain_syntax,
    format_name,
    make_refusal,
    quote_node,
    refuse_condition,
    refuse_node,
    refuse_other_statements,
    refuse_value,
)
from discreet.query.schema import ROW, Column, Kind, PublicTable, Table, parse_moment, suggest_name
from discreet.query.validate import (
    MAX_BIN_WIDTH,
    MAX_CONSTANT,
    MAX_DIGITS,
    MAX_MARGINS,
    Scope,
    check_column_count,
    check_condition,
    check_edges,
    check_size,
    check_types,
    compute_edges,
    suggest_table,
)

QueryLike: TypeAlias = str | Select | ast.Query
"""A query as SQL text, as it is built in Python, or as it is."""

MAX_CHARACTERS = 20_000
MAX_TOKENS = 10_000
MAX_SQL_DEPTH = 60
HIDDEN = ("Cc", "Cs", "Cf", "Cn", "Co")
"""Control characters, halves of pairs, invisible and bidirectional formatting, unassigned and private characters."""

NUMERAL = re.compile(r"(?=\.?[0-9])[0-9]{0,40}(\.[0-9]{0,40})?(e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)

DUCKDB = Dialect.get_or_raise("duckdb")
SAMPLE_FUNCTIONS = ("VAR_SAMP", "VARIANCE_SAMP", "STDDEV_SAMP")
"""Functions that divide by n − 1. They are refused by name, so sqlglot must not take them for VARIANCE."""
LOSSY_PARSERS = ("QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "FLOOR", "CEIL")
"""Functions whose parsers in sqlglot's DuckDB lose the arguments that they do not expect."""


def _build_trunc(args: list[exp.Expr]) -> exp.Expr:
    """Return DATE_TRUNC('month', column). sqlglot's own builder loses further arguments."""
    if len(args) != 2:
        return exp.Anonymous(this="DATE_TRUNC", expressions=args)
    return exp.TimestampTrunc(this=args[1], unit=args[0])


def _build_part(args: list[exp.Expr]) -> exp.Expr:
    """Return DATE_PART('year', column), which is EXTRACT(year FROM column)."""
    if len(args) != 2:
        return exp.Anonymous(this="DATE_PART", expressions=args)
    return exp.Extract(this=args[0], expression=args[1])


FUNCTIONS = {
    **{name: build for name, build in DUCKDB.parser().FUNCTIONS.items() if name not in SAMPLE_FUNCTIONS},
    **dict.fromkeys(("DATE_TRUNC", "DATETRUNC"), _build_trunc),
    **dict.fromkeys(("DATE_PART", "DATEPART"), _build_part),
}
FUNCTION_PARSERS = {name: parse for name, parse in DUCKDB.parser().FUNCTION_PARSERS.items() if name not in LOSSY_PARSERS}

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
PARTS: dict[type[exp.Expr], ast.Part] = {
    exp.Year: ast.Part.YEAR,
    exp.Quarter: ast.Part.QUARTER,
    exp.Month: ast.Part.MONTH,
    exp.Day: ast.Part.DAY,
    exp.DayOfMonth: ast.Part.DAY,
    exp.Hour: ast.Part.HOUR,
    exp.DayOfWeekIso: ast.Part.ISODOW,
}
"""Functions of a date that EXTRACT has too."""

ROUNDINGS: dict[type[exp.Expr], ast.Rounding] = {
    exp.Round: ast.Rounding.NEAREST,
    exp.Floor: ast.Rounding.DOWN,
    exp.Ceil: ast.Rounding.UP,
}
PERIODS = {period.value: period for period in ast.Period}
PART_NAMES = {part.value: part for part in ast.Part}
MOMENT_TYPES = {
    exp.DType.DATE: Kind.DATE,
    exp.DType.TIMESTAMP: Kind.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: Kind.TIMESTAMP,
}
"""Types that a constant may be written as: DATE '2024-12-31'. One with a time zone is none of them."""

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

PAIR_AGGREGATES: dict[type[exp.Expr], Callable[[ast.Value, ast.Value], ast.Aggregate]] = {
    exp.CovarPop: aggregates.Covariance,
    exp.Corr: aggregates.Correlation,
}
"""Aggregates of two values."""


GroupingSets: TypeAlias = list[frozenset[ast.GroupValue]]
"""Sets of what rows are grouped by, one for each table."""


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
        raise QueryRefused(
            f"A query is a text, a select(…) or a Query, not {type(text).__name__}",
            "write 'SELECT … FROM …', or select(n=count())",
        )
    if len(text) > MAX_CHARACTERS:
        raise QueryRefused(f"The query is longer than {MAX_CHARACTERS:,} characters", "ask several shorter ones")
    hidden = [] if text.isprintable() else [each for each in text if category(each) in HIDDEN and each not in "\n\r\t"]
    if hidden:
        raise QueryRefused(f"The query holds the invisible character U+{ord(hidden[0]):04X}", "delete it")
    query = _Reader(Scope(table)).read_query(_parse_select(text, table))
    check_size(query)
    return query


def _combine_sets(parts: "list[GroupingSets]", node: exp.Expr) -> GroupingSets:
    """Return the unions of one set of each part, as GROUP BY combines its parts."""
    _check_set_count(prod(map(len, parts)), node)
    return [*dict.fromkeys(frozenset[ast.GroupValue]().union(*chosen) for chosen in product(*parts))]


def _check_set_count(count: int, node: exp.Expr) -> None:
    """Refuse more sets than a query may have, before they are listed."""
    if count > MAX_MARGINS:
        raise make_refusal(
            node, f"The query asks for more than {MAX_MARGINS:,} tables at once", "name fewer: GROUPING SETS ((a, b), (a))"
        )


def _find_margins(groups: list[ast.GroupValue], sets: GroupingSets) -> tuple[ast.Margin, ...]:
    """Return the margins of these sets; none if they are one table by all groups."""
    places = {value: i for i, value in enumerate(groups)}
    margins = ast.sort_margins({places[value] for value in each} for each in sets)
    return () if margins == (tuple(range(len(groups))),) else margins


def _parse_select(text: str, table: Table) -> exp.Select:
    """Return the tree of the one SELECT statement about a table that a text holds."""
    try:
        tokens = DUCKDB.tokenize(text)
        if len(tokens) > MAX_TOKENS:
            raise QueryRefused(f"The query has more than {MAX_TOKENS:,} words and signs", "ask several shorter ones")
        refuse_other_statements(text, tokens)  # before parsing: sqlglot writes a statement that it does not know to a log
        parser = DUCKDB.parser()
        try:
            parser.FUNCTIONS, parser.FUNCTION_PARSERS = FUNCTIONS, FUNCTION_PARSERS  # type: ignore[misc]
        except AttributeError:
            raise QueryRefused(
                "The compiled sqlglot drops arguments of QUANTILE, and cannot be configured not to",
                "pip uninstall sqlglotc",
            ) from None
        statements = parser.parse(tokens, text)
    except QueryRefused:
        raise
    except Exception as error:  # the text is at fault, however sqlglot fails on it
        first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        if not first and text.count("'") % 2:
            raise explain_open_quote(text) from None
        columns = [*table.columns, *(name for public in table.public.values() for name in public.columns)]
        raise explain_syntax(first, [table.name, *table.public, *columns]) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise QueryRefused("The text is not one SELECT statement", STATEMENT_HINT)
    statements[0].meta.update(text=text, tokens=tokens)  # so that a refusal can quote it
    return statements[0]


@dataclass(slots=True)
class _Reader:
    """Reads one statement. `room` is how much deeper values and conditions may be nested."""

    scope: Scope

    # -- the statement -----------------------------------------------------------------------------------------------------

    def read_query(self, select: exp.Select) -> ast.Query:
        """Return the query of a statement."""
        allow_only(select, "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset")
        self._check_source(select)
        for join in select.args.get("joins") or ():
            self._read_join(join)
        groups, sets = self._read_groups(select)
        shown: list[ast.GroupValue] = []
        aggregates: dict[str, ast.Aggregate] = {}
        names: list[str] = []  # of the columns in the order of SELECT
        for item in select.expressions:
            node = item
            if isinstance(item, exp.Alias):
                allow_only(item, "this", "alias")
                node = item.this
            is_aggregate = _is_aggregate(node)
            value = self.read_aggregate(node) if is_aggregate else self.read_operand(node)
            if not is_aggregate and value not in groups:
                raise make_refusal(
                    node,
                    f"`{quote_node(node)}` is neither in GROUP BY nor aggregated",
                    "add it to GROUP BY, or aggregate it, for example with AVG(…)",
                )
            # only what has been understood is written out again: writing out anything else may fail
            name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else item.sql(dialect="duckdb").lower()
            if name in aggregates or name in [other for group, other in groups.items() if group != value]:
                raise make_refusal(
                    item, f"Two columns of the answer are called `{name}`", "give one of them another name with AS"
                )
            if value in shown:
                raise make_refusal(item, f"`{name}` is the same as another column", "select each grouping once")
            names.append(name)
            if isinstance(value, ast.GroupValue):
                shown.append(value)
                groups[value] = name
            elif isinstance(value, ast.Aggregate):
                aggregates[name] = value
                check_column_count(len(aggregates))
        if not aggregates:
            raise make_refusal(
                select, "The query has no aggregate, and rows are private", "add COUNT(*), SUM(column) or AVG(column)"
            )
        where = select.args.get("where")
        if where is not None:
            allow_only(where, "this")
        ordered = [*dict.fromkeys((*shown, *groups))]
        measured = ast.Query(
            self.scope.table.name,
            tuple(aggregates.items()),
            None if where is None else self.read_condition(where.this),
            tuple(ast.Grouping(groups[value], value) for value in ordered),
            self.scope.joins,
            margins=_find_margins(ordered, sets),
        )
        has_view = any(select.args.get(clause) for clause in ("having", "order", "limit", "offset"))
        return _ViewReader(self, measured, names).read_view(select) if has_view else measured

    def _check_source(self, select: exp.Select) -> None:
        """Refuse a statement that is not about the table."""
        name, source = self.scope.table.name, select.args.get("from_")
        if source is None:
            raise make_refusal(select, "The query has no FROM", f"write FROM {format_name(name)}")
        allow_only(source, "this")
        if not isinstance(source.this, exp.Table):
            raise make_refusal(source.this, "FROM takes the name of one table", f"write FROM {format_name(name)}")
        allow_only(source.this, "this")
        if not isinstance(source.this.this, exp.Identifier) or source.this.name.lower() != name.lower():
            written = source.this.name or quote_node(source.this.this)
            raise make_refusal(source.this, f"The table `{written}` is not known", f"write FROM {format_name(name)}")

    def _read_groups(self, select: exp.Select) -> tuple[dict[ast.GroupValue, str], "GroupingSets"]:
        """Return what rows are grouped by, with the name of each: a column, a bin, a part of a date, or an alias of one; and
        the sets of them that tables are asked for."""
        group = select.args.get("group")
        if group is None:
            return {}, [frozenset()]
        allow_only(group, "expressions")
        if not group.expressions:
            raise make_refusal(group, "GROUP BY names no column", "name one, or leave GROUP BY out")
        groups: dict[ast.GroupValue, str] = {}
        sets: GroupingSets = [frozenset()]
        for written in group.expressions:
            sets = _combine_sets([sets, self._read_grouping_sets(written, select, groups)], written)
        return groups, sets

    def _read_grouping_sets(self, node: exp.Expr, select: exp.Select, groups: dict[ast.GroupValue, str]) -> "GroupingSets":
        """Return the sets of one part of GROUP BY: CUBE has all subsets of its columns, ROLLUP all beginnings, GROUPING SETS
        what it lists, and a column is one set."""
        if not isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets):
            return [frozenset([self._read_group(node, select, groups)])]
        allow_only(node, "expressions")
        if not node.expressions:
            raise make_refusal(select, f"{node.key.upper()} names no column", "name one, or leave it out")
        if isinstance(node, exp.GroupingSets):
            found: GroupingSets = []
            for item in node.expressions:
                found += self._read_set_item(item, select, groups)
                _check_set_count(len(found), node)
            return found
        parts = [self._read_set_item(item, select, groups) for item in node.expressions]
        if isinstance(node, exp.Cube):
            return _combine_sets([[frozenset(), *part] for part in parts], node)
        return [frozenset[ast.GroupValue]().union(*(part[0] for part in parts[:end])) for end in range(len(parts) + 1)]

    def _read_set_item(self, node: exp.Expr, select: exp.Select, groups: dict[ast.GroupValue, str]) -> "GroupingSets":
        """Return the sets of one item between the parentheses of CUBE, ROLLUP or GROUPING SETS: (a, b) is one set, and so is
        (); GROUPING SETS may hold others of its kind."""
        if isinstance(node, exp.Tuple | exp.Paren):
            items = node.expressions if isinstance(node, exp.Tuple) else [node.this]
            return [frozenset(self._read_group(item, select, groups) for item in items)]
        if isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets) and not isinstance(node.parent, exp.GroupingSets):
            name, outer = node.key.upper(), node.parent.key.upper() if node.parent else ""
            raise make_refusal(select, f"{name} cannot stand in {outer}", "write both in GROUPING SETS (…)")
        return self._read_grouping_sets(node, select, groups)

    def _read_group(self, written: exp.Expr, select: exp.Select, groups: dict[ast.GroupValue, str]) -> ast.GroupValue:
        """Return what one part of GROUP BY groups rows by, and add its name to the groups."""
        aliases = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
        node = _find_selected(written, select) if isinstance(written, exp.Literal) else written
        is_alias = isinstance(node, exp.Column) and not node.table and not self.scope.find_columns(node.name)
        value = self.read_operand(aliases.get(node.name, node) if is_alias else node)
        if not isinstance(value, ast.GroupValue):
            raise make_refusal(
                written, "Rows can be grouped by columns, bins, integers and parts of dates only", GROUPS_HINT
            )
        if is_alias or isinstance(value, ast.Ref):
            groups[value] = node.name
        else:
            groups[value] = node.sql() if isinstance(value, ast.Bin) else node.sql(dialect="duckdb").lower()
        return value

    # -- joins: to a public table by its name, where one column equals another ---------------------------------------------

    def _read_join(self, node: exp.Expr) -> None:
        """Add a JOIN to the scope."""
        allow_only(node, "this", "on", "using", "side", "kind")
        public, side = self._find_public_table(node), node.args.get("side") or ""
        if (side, node.args.get("kind") or "") not in (("", ""), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER")):
            raise make_refusal(node, "Only JOIN and LEFT JOIN are supported", JOIN_HINT)
        here, there = self._read_join_columns(node, public)
        try:
            self.scope = self.scope.add_join(ast.Join(public.name, here, there, left=side == "LEFT"))
        except QueryRefused as refusal:
            raise make_refusal(node, refusal.reason, refusal.hint) from None

    def _find_public_table(self, join: exp.Expr) -> PublicTable:
        tables = self.scope.table.public
        if not isinstance(join.this, exp.Table):
            raise make_refusal(join, "JOIN takes a public table by name", suggest_table("", tables))
        allow_only(join.this, "this")
        if isinstance(join.this.this, exp.Identifier):
            for public in tables.values():
                if public.name.lower() == join.this.name.lower():
                    return public
        name = join.this.name or quote_node(join.this.this)
        raise make_refusal(join.this, f"`{name}` is not a public table", suggest_table(name, tables))

    def _read_join_columns(self, join: exp.Expr, public: PublicTable) -> tuple[str, str]:
        """Return the columns here and there that must be equal."""
        on, using = join.args.get("on"), join.args.get("using") or []
        if (on is None) == (not using):
            raise make_refusal(join, f"The join to `{public.name}` needs either ON or USING", JOIN_HINT)
        if on is None:
            if len(using) != 1 or not isinstance(using[0], exp.Identifier):
                raise make_refusal(join, "USING takes one column", JOIN_HINT)
            column = exp.Column(this=using[0].copy())
            return self._find_own_column(column), _find_public_column(column, public)
        equal = _strip_parentheses(on)
        if not isinstance(equal, exp.EQ):
            raise make_refusal(join, "ON takes one equality of two columns", JOIN_HINT)
        allow_only(equal, "this", "expression")
        left, right = _strip_parentheses(equal.this), _strip_parentheses(equal.expression)
        left_is_public, right_is_public = (self._is_public_column(each, public) for each in (left, right))
        if left_is_public == right_is_public:
            raise make_refusal(
                join, f"ON must compare a column of `{self.scope.table.name}` with one of `{public.name}`", JOIN_HINT
            )
        own, other = (right, left) if left_is_public else (left, right)
        return self._find_own_column(own), _find_public_column(other, public)

    def _is_public_column(self, node: exp.Expr, public: PublicTable) -> bool:
        """Return whether it names a column of the public table: by its prefix, or because no other is called so."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise make_refusal(node, f"ON takes columns, and `{quote_node(node)}` is none", JOIN_HINT)
        allow_only(node, "this", "table")
        if node.table:
            return bool(node.table.lower() == public.name.lower())
        return not self.scope.find_columns(node.name, exact=False)

    def _find_own_column(self, node: exp.Expr) -> str:
        found = self.scope.find_columns(node.name, node.text("table") or None, exact=bool(node.this.args.get("quoted")))
        if len(found) != 1:
            raise make_refusal(node, *self.scope.explain_name(f"{node.text('table')}.{node.name}".strip("."), found))
        return found[0]

    # -- aggregates --------------------------------------------------------------------------------------------------------

    def read_aggregate(self, node: exp.Expr) -> ast.Aggregate:
        """Return an aggregate."""
        if type(node) in AGGREGATES:
            allow_only(node, "this")
            return AGGREGATES[type(node)](self.read_value(node.this))
        if type(node) in PAIR_AGGREGATES:
            allow_only(node, "this", "expression")
            left, right = self.read_value(node.this), self.read_value(node.expression)
            return PAIR_AGGREGATES[type(node)](left, right)
        match node:
            case exp.Count(this=exp.Star()):
                allow_only(node, "this", "big_int")
                allow_only(node.this)
                return aggregates.CountRows()
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
            case exp.Anonymous(this=str(name)) if name.upper() == "HISTOGRAM":
                return self._read_histogram(node)
        raise refuse_node(node, AGGREGATES_HINT)

    def _read_count(self, node: exp.Count) -> ast.Aggregate:
        """Return COUNT(value) or COUNT(DISTINCT value)."""
        if not isinstance(node.this, exp.Distinct):
            return aggregates.CountValues(self.read_value(node.this))
        allow_only(node.this, "expressions")
        if not self.scope.table.unit_columns and _is_row(node.this.expressions):
            return aggregates.CountUnits()
        values = [self.read_operand(part) for part in node.this.expressions]
        if values and set(values) == {ast.Ref(name) for name in self.scope.table.unit_columns}:
            return aggregates.CountUnits()
        if len(values) != 1 or not isinstance(values[0], ast.GroupValue):
            raise make_refusal(
                node,
                "COUNT(DISTINCT …) takes one column, or bins of one",
                "write COUNT(DISTINCT column) or COUNT(DISTINCT column // 10)",
            )
        return aggregates.CountDistinct(values[0])

    def _read_within_group(self, node: exp.WithinGroup) -> aggregates.Quantile:
        """Return PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)."""
        allow_only(node, "this", "expression")
        order = node.expression
        if not isinstance(node.this, exp.PercentileCont | exp.PercentileDisc) or not isinstance(order, exp.Order):
            raise make_refusal(
                node,
                "WITHIN GROUP goes with PERCENTILE_CONT and PERCENTILE_DISC only",
                "write QUANTILE(column, 0.9) or MEDIAN(column)",
            )
        allow_only(node.this, "this")
        allow_only(order, "expressions")
        if len(order.expressions) != 1 or not isinstance(order.expressions[0], exp.Ordered):
            raise make_refusal(node, "A percentile is ordered by one value", "write WITHIN GROUP (ORDER BY column)")
        allow_only(order.expressions[0], "this")
        return aggregates.Quantile(self.read_value(order.expressions[0].this), _read_share(node, node.this.this))

    def _read_histogram(self, node: exp.Anonymous) -> aggregates.Histogram:
        allow_only(node, "this", "expressions")
        if len(node.expressions) < 2:
            raise make_refusal(
                node, "HISTOGRAM needs a width or edges", "write HISTOGRAM(column, 10) or HISTOGRAM(column, 0, 10, 20)"
            )
        value = self.read_value(node.expressions[0])
        numbers = [_read_number(part) for part in node.expressions[1:]]
        try:
            edges = check_edges(numbers) if len(numbers) > 1 else compute_edges(value, numbers[0], self.scope.table)
        except QueryRefused as refusal:
            raise make_refusal(node, refusal.reason, refusal.hint) from None
        return aggregates.Histogram(value, edges)

    # -- values ------------------------------------------------------------------------------------------------------------

    def read_value(self, node: exp.Expr | None, room: int = MAX_SQL_DEPTH) -> ast.Value:
        """Return a number, a column, or an expression of them."""
        if node is None:
            raise make_refusal(None, "An aggregate has no argument", "name a column in its parentheses: SUM(column)")
        if room == 0:
            raise make_refusal(node, "The expression is nested too deeply", "simplify it")
        match node:
            case exp.Paren():
                allow_only(node, "this")
                return self.read_value(node.this, room - 1)
            case exp.Column():
                return self._read_column(node)
            case exp.Literal() if not node.is_string:
                return ast.Number(_read_number(node))
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
            case exp.Div():
                allow_only(node, "this", "expression", "typed", "safe")
                return ast.Divide(self.read_value(node.this, room - 1), _read_divisor(node.expression))
            case exp.Round() | exp.Floor() | exp.Ceil():
                allow_only(node, "this", *(["decimals"] if isinstance(node, exp.Round) else []))
                digits = _read_digits(node.args.get("decimals"))
                return ast.Round(self.read_value(node.this, room - 1), ROUNDINGS[type(node)], digits)
            case exp.Abs():
                allow_only(node, "this")
                return ast.Abs(self.read_value(node.this, room - 1))
            case exp.Coalesce():
                allow_only(node, "this", "expressions")
                return ast.Coalesce(self._read_values(node, room))
            case exp.Greatest() | exp.Least():
                allow_only(node, "this", "expressions", "ignore_nulls")
                return ast.Extreme(self._read_values(node, room), isinstance(node, exp.Greatest))
            case exp.Nullif():
                allow_only(node, "this", "expression")
                value, other = self.read_value(node.this, room - 1), _strip_parentheses(node.expression)
                is_number = isinstance(other, exp.Neg) and isinstance(other.this, exp.Literal)  # -999 is one number
                return ast.NullIf(value, ast.Number(_read_number(other)) if is_number else self.read_value(other, room - 1))
            case exp.Extract():
                allow_only(node, "this", "expression")
                return ast.DatePart(_read_part(node), self._read_moment_column(node, node.expression, room))
            case exp.Literal():
                name = format_name(node.this) if self.scope.find_columns(node.this) else "the name of a column"
                name = node.this if NUMERAL.fullmatch(node.this) else name
                raise make_refusal(
                    node,
                    f"{quote_node(node)} is a text, because it is in single quotes, where a column or a number is expected",
                    f"write {name}, without single quotes",
                )
        if type(node) in PARTS:
            allow_only(node, "this")
            return ast.DatePart(PARTS[type(node)], self._read_moment_column(node, node.this, room))
        raise refuse_value(node)

    def read_operand(self, node: exp.Expr, room: int = MAX_SQL_DEPTH) -> ast.Value | ast.DateTrunc:
        """Return what can be grouped by or compared with a constant: a value, or a truncated date."""
        inner = _strip_parentheses(node)
        if not isinstance(inner, exp.TimestampTrunc):
            return self.read_value(node, room)
        allow_only(inner, "this", "unit")
        written = inner.args["unit"].name.lower()
        if written not in PERIODS:
            raise make_refusal(
                inner, f"`{written}` is not a period that DATE_TRUNC knows", f"use one of {', '.join(PERIODS)}"
            )
        return ast.DateTrunc(PERIODS[written], self._read_moment_column(inner, inner.this, room))

    def _read_values(self, node: exp.Expr, room: int) -> tuple[ast.Value, ...]:
        """Return all arguments of COALESCE, GREATEST or LEAST."""
        return tuple(self.read_value(part, room - 1) for part in (node.this, *node.expressions))

    def _read_moment_column(self, node: exp.Expr, argument: exp.Expr, room: int) -> ast.Ref:
        """Return the column of dates or timestamps that a function is taken of."""
        inner = _strip_parentheses(argument)
        if not isinstance(inner, exp.Column):
            raise make_refusal(
                node, f"`{quote_node(node)}` takes a column of dates, not `{quote_node(inner)}`", "write YEAR(column)"
            )
        column = self.read_value(inner, room - 1)
        assert isinstance(column, ast.Ref)
        kind = self.scope.table.columns[column.column].kind
        if kind not in (Kind.DATE, Kind.TIMESTAMP):
            raise make_refusal(
                node,
                f"`{quote_node(node)}` takes a date or a timestamp, and `{column.column}` is of kind {kind.value}",
                "name a column of dates, or declare its kind in the policy",
            )
        return column

    def _read_column(self, node: exp.Column) -> ast.Ref:
        allow_only(node, "this", "table")
        table, joins = self.scope.table, self.scope.joins
        tables = (table.name, *(join.table for join in joins))
        if node.table and node.table.lower() not in [name.lower() for name in tables]:
            raise make_refusal(
                node,
                f"The table `{node.table}` is not known here",
                f"write {' or '.join(f'{name}.{node.name}' for name in tables)}, or {node.name} alone",
            )
        if not isinstance(node.this, exp.Identifier):
            raise refuse_node(node, VALUES_HINT)
        is_quoted = bool(node.this.args.get("quoted"))
        found = self.scope.find_columns(node.name, node.table or None, exact=is_quoted)
        if len(found) == 1:
            return ast.Ref(found[0])
        reason, hint = self.scope.explain_name(f"{node.table}.{node.name}".strip("."), found)
        if is_quoted and not found and not node.table:
            reason = f'"{node.name}" is in double quotes, which name a column, and no such column is declared'
            hint = f"write '{node.name}' in single quotes if you mean the text; otherwise {hint}"
        raise make_refusal(node, reason, hint)

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
            raise make_refusal(node, "The condition is nested too deeply", "simplify it")
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
                    raise make_refusal(
                        node,
                        f"IS takes NULL only, not `{quote_node(node.expression)}`",
                        "write column IS NULL, or column = value",
                    )
                return ast.Missing(self.read_operand(node.this, room - 1))
            case exp.In():
                allow_only(node, "this", "expressions")
                value = self.read_operand(node.this, room - 1)
                if not node.expressions:
                    raise make_refusal(node, "IN takes a list of constants", "write column IN ('a', 'b')")
                return ast.OneOf(value, tuple(self._read_constant(part, value) for part in node.expressions))
            case exp.Between():
                allow_only(node, "this", "low", "high")
                return self._read_between(node, room)
            case exp.Like():
                allow_only(node, "this", "expression", "negate")
                like = self._read_like(node, room)
                return ast.Not(like) if node.args.get("negate") else like
            case exp.Column():
                column = self._read_column(node)
                if self.scope.table.columns[column.column].kind is not Kind.BOOLEAN:
                    raise make_refusal(
                        node, f"The column `{column.column}` is not true or false", f"compare it: {quote_node(node)} = …"
                    )
                return ast.Compare(ast.Order.EQUAL, column, ast.Constant(True))
        if type(node) in COMPARISONS:
            allow_only(node, "this", "expression")
            return self._read_comparison(COMPARISONS[type(node)], node.this, node.expression, room)
        raise refuse_condition(node)

    def _read_between(self, node: exp.Between, room: int) -> ast.Condition:
        """Return low ≤ value AND value ≤ high. The value is read once: reading it twice would double with each nesting."""
        inner = _strip_parentheses(node.this)
        ends = [_strip_parentheses(node.args[name]) for name in ("low", "high")]
        if _is_constant(inner):
            low = self._read_comparison(ast.Order.AT_LEAST, inner, ends[0], room)
            return ast.All((low, self._read_comparison(ast.Order.AT_MOST, inner, ends[1], room)))
        value = self.read_operand(inner, room - 1)
        least, most = (self._read_right(value, end, room) for end in ends)
        return ast.All((ast.Compare(ast.Order.AT_LEAST, value, least), ast.Compare(ast.Order.AT_MOST, value, most)))

    def _read_comparison(self, order: ast.Order, left: exp.Expr, right: exp.Expr, room: int) -> ast.Compare:
        left, right = _strip_parentheses(left), _strip_parentheses(right)
        if _is_constant(left) and _is_constant(right) and isinstance(left, exp.Literal) and left.is_string:
            self.read_value(left)  # refuses it: a text in single quotes names no column
        if _is_constant(left) or isinstance(right, exp.TimestampTrunc):
            order, left, right = order.mirrored, right, left
        value = self.read_operand(left, room - 1)
        return ast.Compare(order, value, self._read_right(value, right, room))

    def _read_right(self, left: ast.Value | ast.DateTrunc, node: exp.Expr, room: int) -> ast.Value | ast.Constant:
        """Return what a value is compared with."""
        if isinstance(left, ast.Ref | ast.DateTrunc) and _is_constant(node):
            return self._read_constant(node, left)
        if (
            isinstance(left, ast.Ref)
            and isinstance(node, exp.Column)
            and not node.table
            and not node.this.args.get("quoted")
        ):
            kind = self.scope.table.columns[left.column].kind
            if kind is Kind.TEXT and not self.scope.find_columns(node.name, exact=False):
                reason, hint = self.scope.explain_name(node.name, [])
                raise make_refusal(
                    node, reason, f"write '{node.name}' in single quotes if you mean the text; otherwise {hint}"
                )
        return self.read_value(node, room - 1)

    def _read_like(self, node: exp.Like, room: int) -> ast.Like:
        """Return column LIKE 'pattern'."""
        column, pattern = _strip_parentheses(node.this), _strip_parentheses(node.expression)
        if not isinstance(column, exp.Column):
            raise make_refusal(node, f"LIKE takes a column, not `{quote_node(column)}`", LIKE_HINT)
        value = self._read_column(column)
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise make_refusal(pattern, f"LIKE takes a text in single quotes, not `{quote_node(pattern)}`", LIKE_HINT)
        allow_only(pattern, "this", "is_string")
        like = ast.Like(value, pattern.this)
        try:
            check_condition(like, self.scope.table)
        except QueryRefused as refusal:
            is_text = self.scope.table.columns[value.column].kind is Kind.TEXT
            raise make_refusal(pattern if is_text else column, refusal.reason, refusal.hint) from None
        return like

    def _read_constant(self, node: exp.Expr, value: ast.Value | ast.DateTrunc) -> ast.Number | ast.Constant:
        """Return a constant of the value's own kind: nothing is cast."""
        node = _strip_parentheses(node)
        if not isinstance(value, ast.Ref | ast.DateTrunc):
            return ast.Number(_read_number(node))
        kind = self.scope.table.columns[value.column].kind if isinstance(value, ast.Ref) else Kind.DATE
        is_text = isinstance(node, exp.Literal) and node.is_string
        if kind in (Kind.INTEGER, Kind.REAL) and isinstance(node, exp.Neg | exp.Literal) and not is_text:
            return ast.Number(_read_number(node))
        if kind is Kind.BOOLEAN and isinstance(node, exp.Boolean):
            allow_only(node, "this")
            return ast.Constant(bool(node.this))
        if is_text and kind is Kind.TEXT:
            allow_only(node, "this", "is_string")
            return ast.Constant(node.this)
        if kind in (Kind.DATE, Kind.TIMESTAMP) and (is_text or isinstance(node, exp.Cast)):
            moment = _read_moment(node, kind)
            if moment is not None:
                return ast.Constant(moment)
        subject = f"The column `{value.column}`" if isinstance(value, ast.Ref) else f"`{ast.format_value(value)}`"
        if isinstance(value, ast.Ref) and not self.scope.table.unit and kind is Kind.REAL:  # in HAVING
            reason = f"`{value.column}` is an aggregate, such as a count, and `{quote_node(node)}` is not a number"
            raise make_refusal(node, reason, "write a number such as 100")
        raise make_refusal(
            node,
            f"{subject} holds {kind.value} values, and `{quote_node(node)}` is not one",
            f"write a constant such as {EXAMPLES[kind]}",
        )


# -- the view: HAVING, ORDER BY, LIMIT, OFFSET ------------------------------------------------------------------------------


@dataclass(slots=True)
class _ViewReader:
    """Reads which rows of the answer a statement shows. Aggregates that stand only here become hidden columns."""

    statement: _Reader
    query: ast.Query  # with the hidden columns that were found so far
    names: list[str]  # of the columns of SELECT, in order

    def read_view(self, select: exp.Select) -> ast.Query:
        """Return the query with its view, and with the aggregates that only its view needs."""
        shown, order, having = len(self.query.aggregates), select.args.get("order"), select.args.get("having")
        if order is not None:
            allow_only(order, "expressions")
        keys = tuple(self._read_sort_key(node) for node in (order.expressions if order is not None else ()))
        condition = None if having is None else self._read_having(having)
        limit, offset = (self._read_rows(select.args.get(name), name) for name in ("limit", "offset"))
        hidden = tuple(name for name, _ in self.query.aggregates[shown:])
        return replace(self.query, view=ast.View(condition, keys, limit, offset or 0, hidden))

    def _read_having(self, having: exp.Expr) -> ast.Condition:
        """Return the condition of HAVING, about columns of the answer.

        The names of those columns take the place of what stands for them; a reader of conditions then reads the rest.
        """
        allow_only(having, "this")
        having.transform(self._replace_with_column, copy=False)
        kinds = list_column_kinds(self.query, self.statement.scope.table)
        columns = {"": Column(Kind.TEXT)} | {name: Column(kind) for name, kind in kinds.items()}
        return _Reader(Scope(Table("answer", "", columns))).read_condition(having.this)

    def _replace_with_column(self, node: exp.Expr) -> exp.Expr:
        """Return the column of the answer that a node of HAVING stands for, or the node."""
        is_group = isinstance(node, exp.IntDiv | exp.Func) and not isinstance(node, exp.Connector)
        if not _is_aggregate(node) and not isinstance(node, exp.Column) and not (is_group and self._find_group(node)):
            return node
        found = exp.Column(this=exp.Identifier(this=self._find_column(node, "HAVING"), quoted=True))
        found.this.meta.update(next((part.meta for part in node.walk() if "start" in part.meta), {}))
        return found

    def _read_sort_key(self, ordered: exp.Expr) -> ast.SortKey:
        if not isinstance(ordered, exp.Ordered):
            raise refuse_node(ordered, ORDER_HINT)
        allow_only(ordered, "this", "desc", "nulls_first")
        node = _strip_parentheses(ordered.this)
        if isinstance(node, exp.Literal) and not node.is_string:
            place = _read_number(node)
            if place.denominator != 1 or not 1 <= place <= len(self.names):
                raise make_refusal(node, f"`{quote_node(node)}` is not the place of a column in SELECT", ORDER_HINT)
            name = self._check_single(node, self.names[int(place) - 1])
        else:
            name = self._find_column(node, "ORDER BY")
        return ast.SortKey(name, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))

    def _find_column(self, node: exp.Expr, clause: str) -> str:
        """Return the name of the column of the answer that a node stands for: by its name or alias, as an aggregate, or as
        what rows are grouped by. An aggregate that is in no column yet becomes a hidden one."""
        if _is_aggregate(node):
            return self._check_single(node, self._find_aggregate(node))
        if isinstance(node, exp.Column) and not node.table:
            kinds = list(list_column_kinds(self.query, self.statement.scope.table))
            exact = bool(node.this.args.get("quoted")) if isinstance(node.this, exp.Identifier) else True
            alike = [n for n in kinds if n == node.name] or [
                n for n in kinds if n.lower() == node.name.lower() and not exact
            ]
            if len(alike) == 1:
                return alike[0]
            if node.name in [name for name, _ in self.query.aggregates]:
                return self._check_single(node, node.name)
        group = self._find_group(node)
        if group is None:
            raise make_refusal(
                node,
                f"{clause} names `{quote_node(node)}`, which is no column of the answer",
                f"use one of {', '.join(f'`{n}`' for n in self.names)}, or an aggregate such as COUNT(*)",
            )
        return group

    def _find_group(self, node: exp.Expr) -> str | None:
        try:
            value = self.statement.read_operand(node)
        except QueryRefused:
            return None
        return next((group.name for group in self.query.groups if group.value == value), None)

    def _find_aggregate(self, node: exp.Expr) -> str:
        """Return the name of the column with this aggregate, added if there is none."""
        aggregate = self.statement.read_aggregate(node)
        for name, known in self.query.aggregates:
            if known == aggregate:
                return name
        name = node.sql(dialect="duckdb").lower()
        if name in (*(known for known, _ in self.query.aggregates), *(group.name for group in self.query.groups)):
            raise make_refusal(node, f"Another column is called `{name}`", "give that one another name with AS")
        check_column_count(len(self.query.aggregates) + 1)
        self.query = replace(self.query, aggregates=(*self.query.aggregates, (name, aggregate)))
        return name

    def _check_single(self, node: exp.Expr, name: str) -> str:
        aggregate = dict(self.query.aggregates).get(name)
        if aggregate is not None and aggregate.has_cells:
            raise make_refusal(
                node, f"`{name}` is a histogram, which is several columns", 'name one cell: "h[0,10)", in double quotes'
            )
        return name

    def _read_rows(self, node: exp.Expr | None, clause: str) -> int | None:
        """Return the number of LIMIT or OFFSET."""
        if node is None:
            return None
        if not isinstance(node, exp.Limit | exp.Offset):
            raise make_refusal(node, f"`{quote_node(node)}` is not supported", "write LIMIT 3")
        allow_only(node, "expression")
        literal = node.expression
        rows = _read_number(literal) if isinstance(literal, exp.Literal) and not literal.is_string else None
        if rows is None or rows.denominator != 1 or rows < (clause == "limit"):
            written = literal.name.upper() if isinstance(literal, exp.Var) else quote_node(literal)  # LIMIT ALL
            raise make_refusal(
                literal,
                f"{clause.upper()} takes an integer of at least {int(clause == 'limit')}, not `{written}`",
                f"write {clause.upper()} 3",
            )
        return int(rows)


def _find_selected(place: exp.Literal, select: exp.Select) -> exp.Expr:
    """Return what stands at a place of SELECT, such as the first in GROUP BY 1."""
    number = 0 if place.is_string else _read_number(place)
    if number not in range(1, len(select.expressions) + 1):
        raise make_refusal(place, f"`{quote_node(place)}` is not the place of a column in SELECT", GROUPS_HINT)
    item = select.expressions[int(number) - 1]
    node: exp.Expr = item.this if isinstance(item, exp.Alias) else item
    if _is_aggregate(node):
        reason = f"The column {quote_node(place)} of SELECT is an aggregate, and rows are not grouped by it"
        raise make_refusal(place, reason, GROUPS_HINT)
    return node


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc | exp.WithinGroup | exp.Anonymous)


# -- parts of nodes --------------------------------------------------------------------------------------------------------


def _strip_parentheses(node: exp.Expr) -> exp.Expr:
    """Return what stands inside parentheses."""
    while isinstance(node, exp.Paren):
        allow_only(node, "this")
        node = node.this
    return node


def _read_number(node: exp.Expr | None) -> Fraction:
    """Return a number with or without a sign, exactly as it is written."""
    if isinstance(node, exp.Neg):
        allow_only(node, "this")
        return -_read_numeral(node.this)
    return _read_numeral(node)


def _read_numeral(node: exp.Expr | None) -> Fraction:
    if not isinstance(node, exp.Literal) or node.is_string:
        written = "Nothing" if node is None else f"`{quote_node(node)}`"
        raise make_refusal(node, f"{written} stands where a number is expected", "write a decimal such as 1.5")
    allow_only(node, "this", "is_string")
    value = Fraction(node.this) if NUMERAL.fullmatch(node.this) else None
    if value is None or abs(value) > MAX_CONSTANT or value.denominator > MAX_CONSTANT:
        raise make_refusal(
            node,
            f"The number `{quote_node(node)}` is too large or too fine",
            "write at most 10^15, with at most 15 decimals",
        )
    return value


def _is_constant(node: exp.Expr) -> bool:
    """Return whether it is written as a constant: a number with or without a sign, a text, a date, a truth value."""
    inner = node.this if isinstance(node, exp.Neg | exp.Cast) else node
    return isinstance(inner, exp.Literal) or isinstance(node, exp.Boolean)


def _list_operands(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a chain of ANDs, or of ORs, from left to right."""
    operands, rest = [], [node]
    while rest:
        part = rest.pop()
        if type(part) is type(node):
            allow_only(part, "this", "expression")
            rest += (part.expression, part.this)
        else:
            operands.append(_strip_parentheses(part))
    return operands


def _read_width(node: exp.Expr) -> int:
    width = _read_number(node) if isinstance(node, exp.Literal) and not node.is_string else None
    if width is None or width.denominator != 1 or not 1 <= width < MAX_BIN_WIDTH:
        raise make_refusal(node, f"The width `{quote_node(node)}` of a bin is not an integer above 0", "write column // 10")
    return int(width)


def _read_share(node: exp.Expr, literal: exp.Expr | None) -> Fraction:
    share = _read_number(literal) if isinstance(literal, exp.Literal) else None
    if share is None or not 0 < share < 1:
        written = "nothing" if literal is None else f"`{quote_node(literal)}`"
        raise make_refusal(node, f"A quantile takes a share between 0 and 1, not {written}", "write QUANTILE(column, 0.9)")
    return share


def _read_divisor(node: exp.Expr) -> Fraction:
    inner = _strip_parentheses(node)
    sign, numeral = (-1, inner.this) if isinstance(inner, exp.Neg) else (1, inner)
    if not isinstance(numeral, exp.Literal) or numeral.is_string:
        raise make_refusal(
            node,
            f"`/` divides by a constant only, not by `{quote_node(inner)}`: a division can fail on a row",
            DIVISION_HINT,
        )
    divisor = sign * _read_numeral(numeral)
    if divisor == 0:
        raise make_refusal(node, "`/` divides by zero", "divide by a number that is not 0")
    return divisor


def _read_digits(node: exp.Expr | None) -> int:
    digits = Fraction(0) if node is None else _read_number(node)
    if digits.denominator != 1 or abs(digits) > MAX_DIGITS:
        raise make_refusal(node, f"ROUND takes {-MAX_DIGITS} to {MAX_DIGITS} digits", "write ROUND(x, 2)")
    return int(digits)


def _read_part(node: exp.Extract) -> ast.Part:
    written = node.this.name.lower() if isinstance(node.this, exp.Var | exp.Literal | exp.Column) else ""
    if written not in PART_NAMES:
        known = ", ".join(part.value for part in ast.Part)
        hint = DAY_OF_WEEK_HINT if written in ("dow", "dayofweek", "weekday") else f"use one of {known}"
        raise make_refusal(node, f"`{written or quote_node(node.this)}` is not a part of a date that can be taken", hint)
    return PART_NAMES[written]


def _read_moment(node: exp.Expr, kind: Kind) -> date | None:
    """Return a date or a time in UTC from 'text', DATE 'text' or TIMESTAMP 'text'; None if it is not of this kind."""
    text, written_as = node, kind
    if isinstance(node, exp.Cast):
        allow_only(node, "this", "to")
        text, written_as = node.this, MOMENT_TYPES.get(node.to.this, Kind.TEXT)
        if node.to.expressions or type(node) is not exp.Cast or written_as is Kind.TEXT:
            return None
    if not isinstance(text, exp.Literal) or not text.is_string:
        return None
    allow_only(text, "this", "is_string")
    moment = parse_moment(text.this, written_as)
    if written_as is kind or moment is None:
        return moment
    return datetime.combine(moment, time.min) if kind is Kind.TIMESTAMP else None  # no time is cut off


def _find_public_column(node: exp.Expr, public: PublicTable) -> str:
    alike = [name for name in public.columns if name == node.name]
    alike = alike or [name for name in public.columns if name.lower() == node.name.lower()]
    if len(alike) != 1:
        raise make_refusal(node, f"`{public.name}` has no column `{node.name}`", suggest_name(node.name, public.columns))
    return alike[0]


def _is_row(values: list[exp.Expr]) -> bool:
    """Whether COUNT(DISTINCT …) is of `row`, which no column is called where each row is a privacy unit."""
    match values:
        case [exp.Column(this=exp.Identifier(this=str(name)), args=args)]:
            return name.lower() == ROW and not args.get("table")
    return False
