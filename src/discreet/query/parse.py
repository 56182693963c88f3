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

from discreet.errors import QuestionRefused
from discreet.query import plan
from discreet.query.form import check_form
from discreet.query.frame import Select
from discreet.query.read_aggregate import SAMPLED, AggregateReader, is_aggregate
from discreet.query.read_join import read_join
from discreet.query.scope import Scope
from discreet.query.syntax import only, refused
from discreet.query.table import Table
from discreet.query.work import check_columns, check_text, check_tokens

DUCKDB = Dialect.get_or_raise("duckdb")
Question: TypeAlias = str | Select | plan.Query
"""A question as SQL text, as it is written in Python, or as the plan itself."""


def read_question(asked: Question, table: Table) -> plan.Query:
    """The plan of a question, however it is asked. Whether it can be answered is for `bound` to say."""
    match asked:
        case plan.Query():
            check_form(asked)
            return asked
        case Select():
            found = asked.query(table)
            check_form(found)
            return found
        case _:
            return parse(asked, table)


def parse(text: str, table: Table) -> plan.Query:
    """The question that `text` asks of `table`."""
    if not isinstance(text, str):
        raise QuestionRefused("a question is a text, a select(…) or a Query", "write SELECT … FROM …, or select(n=count())")
    check_text(text)
    if not text.isprintable() and not _printable(text):
        raise QuestionRefused("the question holds characters that cannot be printed", "write plain text")
    try:
        tokens = DUCKDB.tokenize(text)
        check_tokens(len(tokens))
        statements = _parser().parse(tokens, text) if _one_select(tokens) else []
    except QuestionRefused:
        raise
    except Exception as mistake:  # whatever goes wrong in reading, the text is at fault: this is the analyst's door
        raise _unreadable(mistake) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise QuestionRefused(
            "only one SELECT statement is understood", "write SELECT … FROM … [WHERE …] [GROUP BY …], no comments"
        )
    return _statement(statements[0], table)


QUANTILES = ("QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC")
FUNCTIONS = {name: build for name, build in DUCKDB.parser().FUNCTIONS.items() if name not in SAMPLED}
FUNCTION_PARSERS = {name: read for name, read in DUCKDB.parser().FUNCTION_PARSERS.items() if name not in QUANTILES}


def _parser() -> Parser:
    """The reader of DuckDB's SQL, but for functions of its own that lose the arguments that they do not expect."""
    parser = DUCKDB.parser()
    try:
        parser.FUNCTIONS, parser.FUNCTION_PARSERS = FUNCTIONS, FUNCTION_PARSERS  # type: ignore[misc]
    except AttributeError:
        raise QuestionRefused(
            "the compiled sqlglot would lose arguments, and cannot be taught not to", "pip uninstall sqlglotc"
        ) from None
    return parser


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


def _statement(select: exp.Select, table: Table) -> plan.Query:
    only(select, "expressions", "from_", "joins", "where", "group")
    _source(select, table)
    scope = Scope(table)
    for join in select.args.get("joins") or ():
        scope = read_join(join, scope)
    return _Statement(scope).query(select)


def _source(select: exp.Select, table: Table) -> None:
    source = select.args.get("from_")
    if source is None:
        raise refused(select, "there is no FROM", f"write FROM {_quote(table.name)}")
    only(source, "this")
    if not isinstance(source.this, exp.Table):
        raise refused(source, "FROM takes one table by name", f"write FROM {_quote(table.name)}")
    only(source.this, "this")
    if not isinstance(source.this.this, exp.Identifier) or source.this.name.lower() != table.name.lower():
        raise refused(source.this, "this table is not known", f"write FROM {_quote(table.name)}")


def _quote(name: str) -> str:
    """A table's name as SQL has it: in double quotes where it is not a plain word."""
    tokens = Tokenizer().tokenize(name)
    plain = name.isidentifier() and len(tokens) == 1 and tokens[0].token_type is TokenType.VAR
    return name if plain else '"' + name.replace('"', '""') + '"'


class _Statement(AggregateReader):
    """Reads one statement."""

    def query(self, select: exp.Select) -> plan.Query:
        group = select.args.get("group")
        groupings = 0 if group is None else len(group.expressions)
        check_columns(len(select.expressions) - groupings, groupings)
        groups = self._groups(select)
        shown: list[plan.Ref | plan.Bin] = []
        aggregates: dict[str, plan.Aggregate] = {}
        for item in select.expressions:
            node = self._unnamed(item)
            value = self._as_group(node, groups)
            aggregate = self.aggregate(node) if value is None else None
            name = self._name(item)
            if name in aggregates or name in [n for v, n in groups.items() if v != value]:
                raise refused(item, f"two columns of the answer are called {name}", "give one of them another name with AS")
            if value in shown:
                raise refused(item, f"{name} is the same as another column", "show each grouping once")
            if value is not None:
                shown.append(value)
                groups[value] = name
            elif aggregate is not None:
                aggregates[name] = aggregate
        if not aggregates:
            raise refused(select, "nothing is counted or added up", "add COUNT(*), SUM(column) or AVG(column)")
        where = select.args.get("where")
        return plan.Query(
            self.table.name,
            tuple(aggregates.items()),
            None if where is None else self.condition(where.this),
            tuple(plan.Grouping(groups[value], value) for value in dict.fromkeys((*shown, *groups))),
            self.scope.joins,
        )

    def _groups(self, select: exp.Select) -> "dict[plan.Ref | plan.Bin, str]":
        group = select.args.get("group")
        if group is None:
            return {}
        only(group, "expressions")
        if not group.expressions:
            raise refused(group, "GROUP BY names nothing", "name a column, or leave it out")
        aliases = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
        found: dict[plan.Ref | plan.Bin, str] = {}
        for node in group.expressions:
            alias = isinstance(node, exp.Column) and not node.table and not self.scope.find(node.name)
            named = aliases.get(node.name) if alias else None
            value = self.value(named or node)
            if not isinstance(value, plan.Ref | plan.Bin):
                raise refused(node, "rows are grouped by a column or by column // width", "name one of these")
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
        if is_aggregate(node):
            return None
        value = self.value(node)
        if value not in groups:
            raise refused(node, "this column is neither grouped by nor added up", "put it in GROUP BY, or aggregate it")
        return value
