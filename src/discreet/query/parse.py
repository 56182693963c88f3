"""SQL text to a Query. Every node and every argument of it is allow-listed; whatever is not named here is refused.

Nothing that an analyst writes goes further than this file as text: names are looked up among the declared columns, and
constants become values.
"""

from typing import TypeAlias
from unicodedata import category

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from discreet.errors import QueryRefused
from discreet.query import plan
from discreet.query.form import check_types
from discreet.query.frame import Select
from discreet.query.read_aggregate import SAMPLE_FUNCTIONS, AggregateReader, is_aggregate
from discreet.query.read_join import read_join
from discreet.query.scope import Scope
from discreet.query.syntax import allow_only, make_refusal
from discreet.query.table import Table
from discreet.query.work import check_columns, check_text, check_tokens

DUCKDB = Dialect.get_or_raise("duckdb")
QueryLike: TypeAlias = str | Select | plan.Query
"""A question as SQL text, as it is written in Python, or as the plan itself."""


def read_query(query: QueryLike, table: Table) -> plan.Query:
    """The plan of a question, however it is asked. Whether it can be answered is for `bound` to say."""
    match query:
        case plan.Query():
            check_types(query)
            return query
        case Select():
            found = query.to_query(table)
            check_types(found)
            return found
        case _:
            return parse_sql(query, table)


def parse_sql(text: str, table: Table) -> plan.Query:
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


def _read_statement(select: exp.Select, table: Table) -> plan.Query:
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

    def read_query(self, select: exp.Select) -> plan.Query:
        group = select.args.get("group")
        groupings = 0 if group is None else len(group.expressions)
        check_columns(len(select.expressions) - groupings, groupings)
        groups = self._read_groups(select)
        shown: list[plan.Ref | plan.Bin] = []
        aggregates: dict[str, plan.Aggregate] = {}
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
        return plan.Query(
            self.table.name,
            tuple(aggregates.items()),
            None if where is None else self.read_condition(where.this),
            tuple(plan.Grouping(groups[value], value) for value in dict.fromkeys((*shown, *groups))),
            self.scope.joins,
        )

    def _read_groups(self, select: exp.Select) -> "dict[plan.Ref | plan.Bin, str]":
        group = select.args.get("group")
        if group is None:
            return {}
        allow_only(group, "expressions")
        if not group.expressions:
            raise make_refusal(group, "GROUP BY names nothing", "name a column, or leave it out")
        aliases = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
        found: dict[plan.Ref | plan.Bin, str] = {}
        for node in group.expressions:
            alias = isinstance(node, exp.Column) and not node.table and not self.scope.find(node.name)
            named = aliases.get(node.name) if alias else None
            value = self.read_value(named or node)
            if not isinstance(value, plan.Ref | plan.Bin):
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

    def _match_group(self, node: exp.Expr, groups: "dict[plan.Ref | plan.Bin, str]") -> "plan.Ref | plan.Bin | None":
        if is_aggregate(node):
            return None
        value = self.read_value(node)
        if value not in groups:
            raise make_refusal(node, "this column is neither grouped by nor added up", "put it in GROUP BY, or aggregate it")
        return value
