"""What is said of SQL that is not supported: the word or sign that was written, its place, and the nearest thing that works.

`query.parser` lists what is allowed; everything else ends here. The tables say what to write instead, by the name of a
function, a sign or a clause. sqlglot keeps the place of names, constants and most functions; of the others,
`_find_own_token` finds the word or sign among the tokens.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from discreet.errors import QueryRefused
from discreet.query.schema import Kind

MAX_QUOTED = 60  # characters of the query in a message

FUNCTION_NAMES = [
    *("COUNT", "SUM", "AVG", "VARIANCE", "VAR_POP", "STDDEV", "STDDEV_POP", "MIN", "MAX", "MEDIAN", "QUANTILE"),
    *("QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE_CONT", "PERCENTILE_DISC", "HISTOGRAM", "COVAR_POP", "CORR"),
    *("ROUND", "FLOOR", "CEIL", "CEILING", "ABS", "COALESCE", "IFNULL", "NVL", "GREATEST", "LEAST", "NULLIF"),
    *("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "ISODOW", "EXTRACT", "DATE_PART", "DATE_TRUNC"),
]
STATEMENT_HINT = "write SELECT … FROM … [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT …]"
AGGREGATES_HINT = "use COUNT, SUM, AVG, VARIANCE, STDDEV, MIN, MAX, MEDIAN, QUANTILE, HISTOGRAM, COVAR_POP or CORR"
ORDER_HINT = "write ORDER BY n DESC, ORDER BY COUNT(*) or ORDER BY 2, the second column of SELECT"
VALUES_HINT = (
    "use columns, numbers, +, -, *, / and // by a constant, CASE, ROUND, FLOOR, CEIL, ABS, COALESCE, GREATEST, LEAST, "
    "NULLIF, YEAR and MONTH"
)
CONDITIONS_HINT = "use comparisons, BETWEEN, IN, LIKE, IS NULL, AND, OR and NOT"
GROUPS_HINT = "write GROUP BY column, column // 10, YEAR(day) or DATE_TRUNC('month', day)"
DIVISION_HINT = "divide by a number (x / 12), divide the answers, or bin with x // 10"
LIKE_HINT = "write column LIKE 'a%', where % is any text and _ any one character"
PART_HINT = "write EXTRACT(year FROM day), or one of YEAR, QUARTER, MONTH, DAY, HOUR and ISODOW"
TRUNC_HINT = "write DATE_TRUNC('month', day), with one of day, week, month, quarter and year"
DAY_OF_WEEK_HINT = "write ISODOW(day): Monday = 1 to Sunday = 7; engines number other days of the week differently"
JOIN_HINT = "write JOIN cities ON people.city = cities.city, or JOIN cities USING (city)"
COUNT_HINT = "count each value: SELECT x, COUNT(*) AS n FROM … GROUP BY x"
DATE_HINT = "compare the column with dates: day BETWEEN DATE '2024-01-01' AND DATE '2024-12-31'"
SUBQUERY_HINT = "ask two queries, or join a public table"
TEXT_HINT = "compare the column with texts: dept = 'a', dept IN ('a', 'b'), or dept LIKE 'a%'"
INSTEAD = {
    name: hint
    for names, hint in {
        "% MOD": "bin with x // 10",
        "^ ** POW POWER": "write x * x",
        "IF IIF NVL2 DECODE": "write CASE WHEN … THEN … ELSE … END",
        "TRUNC TRUNCATE": "write FLOOR(x), or CEIL(x) where x is negative",
        "ROUND_EVEN ROUNDBANKERS": "write ROUND(x, 2), where ties go up",
        "SIGN": "write CASE WHEN x < 0 THEN -1 WHEN x > 0 THEN 1 ELSE 0 END",
        "CAST TRY_CAST": "declare the column's kind in the policy: a cast can fail on a row; of a timestamp, write "
        "DATE_TRUNC('day', at)",
        "DATE TO_DATE DATE_ADD DATE_SUB": "write DATE '2024-12-31' for a constant, and DATE_TRUNC('day', at) for a column",
        "NULL": "write column IS NULL; a CASE without ELSE is NULL where no condition holds",
        "INTERVAL CURRENT_DATE CURRENT_TIMESTAMP NOW TODAY DATE_DIFF DATEDIFF AGE EPOCH STRFTIME": DATE_HINT,
        "DATE_PART DATEPART WEEK WEEKOFYEAR DAYOFYEAR MONTHNAME MINUTE SECOND": PART_HINT,
        "DAYOFWEEK DAYOFWEEKISO DAYNAME WEEKDAY": DAY_OF_WEEK_HINT,
        "DATE_TRUNC DATETRUNC LAST_DAY": TRUNC_HINT,
        "ILIKE": "write LIKE, which tells capitals from small letters, or dept LIKE 'a%' OR dept LIKE 'A%'",
        "ESCAPE": "leave ESCAPE out, and write _ for a character that is % or _ itself",
        "GLOB SIMILAR REGEXP_MATCHES REGEXP_LIKE REGEXP_FULL_MATCH STARTS_WITH ENDS_WITH CONTAINS ^@ ~": LIKE_HINT,
        "|| CONCAT LENGTH LEN LOWER UPPER SUBSTRING SUBSTR TRIM REPLACE": TEXT_HINT,
        "SUBQUERY EXISTS ANY ALL": SUBQUERY_HINT,
        "FILTER": "write WHERE …, or SUM(CASE WHEN … THEN 1 ELSE 0 END)",
        "COUNT_IF COUNTIF BOOL_AND BOOL_OR": "write SUM(CASE WHEN … THEN 1 ELSE 0 END)",
        "MODE LIST ARRAY_AGG STRING_AGG GROUP_CONCAT": COUNT_HINT,
        "FIRST LAST ANY_VALUE ARG_MIN ARG_MAX": "write MEDIAN(x), MIN(x) or MAX(x): the value of one row is private",
        "APPROX_COUNT_DISTINCT": "write COUNT(DISTINCT x)",
        "APPROX_QUANTILE RESERVOIR_QUANTILE PERCENTILE PERCENTILE_APPROX": "write QUANTILE(x, 0.9) for the 90th percentile",
        "COVAR_SAMP": "write COVAR_POP: covariances are the population's, not a sample's",
        "REGR_SLOPE": "ask for COVAR_POP(y, x) and VAR_POP(x), and divide the answers",
        "VAR_SAMP VARIANCE_SAMP STDDEV_SAMP": "write VAR_POP or STDDEV_POP: variances are the population's, not a sample's",
        "ROLLUP CUBE": "write it in GROUP BY",
        "GROUPING GROUPING_ID": "leave it out: each table of a tabulation comes by itself",
        "OVER": "group the rows with GROUP BY",
        "*": "name aggregates such as COUNT(*) and AVG(column): rows are private",
        "DISTINCT": "leave it out, or write COUNT(DISTINCT x)",
        "=": "use a comparison in WHERE or CASE only; for a < x < b write a < x AND x < b",
    }.items()
    for name in names.split()
}
"""What to write instead of SQL that is not supported, by its name or sign."""

CLAUSES = {
    "distinct": ("DISTINCT", "name the columns in GROUP BY"),
    "order": ("ORDER BY in this place", "write it at the end of the query"),
    "limit": ("LIMIT in this place", "write it at the end of the query"),
    "null_on_zero_variance": ("A third argument", "leave it out"),
    "limit_options": ("PERCENT or WITH TIES", "write LIMIT 3"),
    "with_fill": ("WITH FILL", "leave it out: declared keys are all there"),
    "rollup": ("WITH ROLLUP", "write GROUP BY ROLLUP(a, b)"),
    "cube": ("WITH CUBE", "write GROUP BY CUBE(a, b)"),
    "qualify": ("QUALIFY", "write HAVING, or filter the answer: post-processing is free"),
    "with_": ("WITH", "write one SELECT, with its conditions in WHERE"),
    "alias": ("An alias of a table", "write the table's own name"),
    "db": ("A schema before a table", "write the table's name alone"),
    "method": ("A method of joining such as NATURAL or ASOF", JOIN_HINT),
    "query": ("A subquery", SUBQUERY_HINT),
    "expressions": ("A second argument", "leave it out"),
    "count": ("A second argument", "leave it out"),
    "sample": ("A sample of the rows", "leave it out: every row can be counted"),
    "desc": ("DESC", "write ORDER BY column, and QUANTILE at 0.1 instead of 0.9"),
    "symmetric": ("SYMMETRIC", "write the smaller bound first"),
    "decimals": ("A second argument of FLOOR or CEIL", "leave it out, or write ROUND(x, 2)"),
    "truncate": ("A third argument of ROUND", "leave it out: ties go up"),
}
"""Arguments of nodes that are not supported, as an analyst knows them, and what to do instead."""

CLAUSE_WORDS = {"distinct": "DISTINCT", "qualify": "QUALIFY", "with_": "WITH", "symmetric": "SYMMETRIC"}
"""The words of clauses whose place sqlglot does not keep."""

TWO_ARGUMENTS = ("DATE_TRUNC", "DATETRUNC", "DATE_PART", "DATEPART")
PARENTHESES = (TokenType.L_PAREN, TokenType.R_PAREN)
SIGNS: dict[type[exp.Expr], str] = {
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), "="),
    exp.Add: "+",
    exp.Sub: "-",
    exp.Neg: "-",
    exp.Mul: "*",
    exp.Paren: "( )",
    exp.Div: "/",
    exp.Mod: "%",
    exp.Pow: "^",
    exp.DPipe: "||",
    exp.Star: "*",
    exp.Bracket: "[ ]",
    exp.Tuple: "( , )",
    exp.Placeholder: "?",
    exp.Window: "OVER",
    exp.TryCast: "CAST",
    exp.SimilarTo: "SIMILAR",
    exp.Subquery: "(SELECT …)",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
"""Nodes that do not know what they were written as."""

EXAMPLES = {
    Kind.INTEGER: "3",
    Kind.REAL: "1.5",
    Kind.BOOLEAN: "TRUE",
    Kind.TEXT: "'a'",
    Kind.DATE: "DATE '2024-12-31'",
    Kind.TIMESTAMP: "TIMESTAMP '2024-12-31 12:00:00', in UTC and without an offset",
}
"""How a constant of each kind is written."""


ARGUMENTS = {
    "CORR": "CORR(x, y)",
    "COVAR_POP": "COVAR_POP(x, y)",
    "QUANTILE": "QUANTILE(x, 0.9)",
    "QUANTILE_CONT": "QUANTILE_CONT(x, 0.9)",
    "QUANTILE_DISC": "QUANTILE_DISC(x, 0.9)",
    "NULLIF": "NULLIF(x, 0)",
}
"""How functions of more than one argument are written."""

KEYWORDS = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "BETWEEN")
KEYWORD_SIMILARITY = 0.75
_LAST_WORD = re.compile(r"\w+(?=\s*$)")
_OPEN_CALL = re.compile(r"(\w+)\s*\([^()]*$")


def refuse_other_statements(text: str, tokens: list[Token]) -> None:
    """Refuse what is not one statement that begins with SELECT or FROM, or that has a comment."""
    if not tokens:
        reason = "The query is a comment only" if text.strip() else "The query is empty"
        raise QueryRefused(reason, STATEMENT_HINT)
    first, kinds = tokens[0], [token.token_type for token in tokens]
    if first.token_type not in (TokenType.SELECT, TokenType.FROM):
        hint = CLAUSES["with_"][1] if first.token_type is TokenType.WITH else STATEMENT_HINT
        place = first.line, first.col - (first.end - first.start)
        raise QueryRefused(f"A query begins with SELECT, not with `{shorten_text(first.text)}`", hint, *place)
    if TokenType.SEMICOLON in kinds[:-1]:
        raise QueryRefused("The text holds several statements", "write one SELECT, and no semicolon inside of it")
    if any(token.comments for token in tokens):
        raise QueryRefused("The query holds a comment", "leave it out")


def explain_syntax(error: Mapping[str, Any], names: Iterable[str]) -> QueryRefused:
    """Return the refusal of a text that is not SQL, from what sqlglot says of it and the names that the query may use."""
    token = str(error.get("highlight") or "")
    place = (error["line"], error["col"] - len(token) + 1) if error else (None, None)
    called = _OPEN_CALL.search(str(error.get("start_context", "")))
    if token == ")" and called is not None and "missing for" in str(error.get("description")):
        name = called[1].upper()
        return QueryRefused(f"`{name}` lacks an argument", f"write {ARGUMENTS.get(name, f'{name}(column)')}", *place)
    before, after = str(error.get("start_context", "")), str(error.get("end_context", ""))
    known = {name.lower(): name for name in names}
    for name in known.values():  # such as a column `when`, or a table adult-2026
        if token and token.lower() in name.lower() and format_name(name) != name:
            near = f"{before[-len(name) :]}{token}{after[: len(name)]}"
            if name.lower() in near.lower():
                hint = f"write {format_name(name)}, in double quotes"
                return QueryRefused(f"The SQL cannot be parsed near `{shorten_text(token)}`", hint, *place)
    reason = f"The SQL cannot be parsed near `{shorten_text(token)}`" if token else "The SQL cannot be parsed"
    word_before = _LAST_WORD.search(before)
    if word_before and word_before[0].upper() == "TOP":
        line, column = place[0], None if place[1] is None else place[1] - len(before) + word_before.start()
        return QueryRefused("TOP is not supported", f"write LIMIT {token} at the end of the query", line, column)
    for word in (token, word_before[0] if word_before else ""):  # a misspelt WHERE is read as the name of a table
        close = get_close_matches(word.upper(), KEYWORDS, 1, KEYWORD_SIMILARITY)
        if close and close[0] != word.upper() and word.lower() not in known:
            return QueryRefused(reason, f"did you mean {close[0]} instead of `{shorten_text(word)}`?", *place)
    return QueryRefused(reason, "check commas, parentheses and quotes", *place)


def explain_open_quote(text: str) -> QueryRefused:
    """Return the refusal of a text in which a single quote is not closed.

    >>> raise explain_open_quote("SELECT COUNT(*) AS n FROM people WHERE name = 'O'Brien'")
    Traceback (most recent call last):
    discreet.errors.QueryRefused: line 1, column 55: A single quote is not closed. Close it; inside of a text, double it: \
'O''Brien'.
    """
    before = text[: text.rindex("'")]
    place = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return QueryRefused("A single quote is not closed", "close it; inside of a text, double it: 'O''Brien'", *place)


def allow_only(node: exp.Expr, *allowed: str) -> None:
    """Refuse a node that carries any argument besides the allowed ones."""
    for name, value in node.args.items():
        if value not in (None, False, [], "") and name not in allowed:
            clause, hint = CLAUSES.get(name, (f"`{quote_node(node)}` with {name.rstrip('_').upper()}", "leave it out"))
            refused = make_refusal(node, f"{clause} is not supported", hint)
            word = None if name not in CLAUSE_WORDS else _find_word(node, CLAUSE_WORDS[name])
            raise refused if word is None else QueryRefused(f"{clause} is not supported", hint, *word)


def make_refusal(node: exp.Expr | None, reason: str, hint: str) -> QueryRefused:
    """Return a refusal with the place of a node's own word or sign, or of the leftmost part of it that has a place."""
    if node is None:
        return QueryRefused(reason, hint)
    own = _find_own_token(node)
    place = None if own is None else (own.line, own.col, own.start, own.end)
    place = place or _find_first_place(node)
    if place is None:
        return QueryRefused(reason, hint)
    line, column, start, end = place
    return QueryRefused(reason, hint, line, column - (end - start))


def _find_word(node: exp.Expr, word: str) -> tuple[int, int] | None:
    """Return line and column of a word of the query, if it is written once: then it is the node's."""
    tokens: list[Token] = node.root().meta.get("tokens") or []
    found = [each for each in tokens if each.text.upper() == word and each.token_type is not TokenType.STRING]
    return (found[0].line, found[0].col - (found[0].end - found[0].start)) if len(found) == 1 else None


def refuse_node(node: exp.Expr, hint: str) -> QueryRefused:
    """Return the refusal of something that is not supported, with what to write instead of it if that is known."""
    written = quote_node(node)
    instead = INSTEAD.get(written.upper()) or INSTEAD.get(node.key.upper())
    if instead is None and isinstance(node, exp.Func):
        instead = INSTEAD.get(node.sql_name().upper())
    if instead is None and isinstance(node, exp.Anonymous):
        close = get_close_matches(written.upper(), FUNCTION_NAMES, 1)
        instead = f"did you mean {close[0]}?" if close else None
    if isinstance(node, exp.Anonymous) and written.upper() in TWO_ARGUMENTS:
        return make_refusal(node, f"`{written}` takes two arguments, not {len(node.expressions)}", instead or hint)
    return make_refusal(node, f"`{written}` is not supported", instead or hint)


def refuse_value(node: exp.Expr) -> QueryRefused:
    """Return the refusal of what stands where a number is expected: a date, an aggregate, or what is not supported."""
    match node:
        case exp.TimestampTrunc():
            return make_refusal(
                node,
                f"`{quote_node(node)}` is a date, where a number is expected",
                "group by it, count its distinct values, or compare it with a date",
            )
        case exp.Cast(this=exp.Literal()):
            return make_refusal(node, f"`{quote_node(node)}` stands where a column or a number is expected", DATE_HINT)
        case exp.AggFunc():
            return make_refusal(
                node,
                f"The aggregate `{quote_node(node)}` stands inside of an expression",
                "ask for the aggregate alone, and compute with the answer: post-processing is free",
            )
    return refuse_node(node, VALUES_HINT)


def refuse_condition(node: exp.Expr) -> QueryRefused:
    """Return the refusal of what stands where a condition is expected: a constant, or what is not supported."""
    if isinstance(node, exp.Literal | exp.Boolean | exp.Null):
        return make_refusal(node, f"`{quote_node(node)}` is not a condition", "compare a column with it: column = …")
    return refuse_node(node, CONDITIONS_HINT)


def quote_node(node: exp.Expr) -> str:
    """Return what was written: a name, a constant, the name of a function, or a sign."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{quote_node(node.this)}"
    text, named = node.root().meta.get("text"), node.find_all(exp.Identifier) if isinstance(node, exp.Column) else [node]
    places = [part.meta for part in named if "start" in part.meta]
    if isinstance(node, exp.Boolean):
        return str(node.this).upper()
    if text and places:
        return shorten_text(text[min(place["start"] for place in places) : max(place["end"] for place in places) + 1])
    own = _find_own_token(node)
    if text and own is not None and isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return shorten_text(text[own.start : max(own.end, node.this.meta["end"]) + 1])  # DATE '2024-12-31'
    word = str(text[own.start : own.end + 1]) if text and own is not None else ""
    if word and (type(node) not in SIGNS or word in INSTEAD):  # ** and ^ are the same to sqlglot
        return shorten_text(word)
    if type(node) in SIGNS:
        return SIGNS[type(node)]
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()


def _find_first_place(node: exp.Expr) -> tuple[int, int, int, int] | None:
    """Return line, column of the end, start and end of the leftmost part of a node that has a place."""
    places = [part.meta for part in node.walk() if "start" in part.meta]
    if not places:
        return None
    place = min(places, key=lambda meta: meta["start"])
    return place["line"], place["col"], place["start"], place["end"]


def _find_own_token(node: exp.Expr) -> Token | None:
    """Return the word or sign that a node was written with, for the nodes whose place sqlglot does not keep: a sign between
    two operands, the name before a parenthesis, or a word such as CURRENT_DATE."""
    tokens: list[Token] = node.root().meta.get("tokens") or []
    if not tokens or "start" in node.meta or isinstance(node, exp.Column | exp.Literal | exp.Paren | exp.Select):
        return None
    if isinstance(node, exp.Binary | exp.Escape | exp.Cast):
        left = max((part.meta["end"] for part in node.this.walk() if "end" in part.meta), default=None)
        after = [each for each in tokens if left is not None and each.start > left and each.token_type not in PARENTHESES]
        if after and (not isinstance(node, exp.Cast) or after[0].token_type is TokenType.DCOLON):
            return after[0]
    first = _find_first_place(node)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and first is not None:
        before = [each for each in tokens if each.end < first[2]]
        if before and before[-1].token_type not in PARENTHESES:
            return before[-1]
    if first is None:
        words = (node.key.upper(), node.sql_name() if isinstance(node, exp.Func) else "")
        return next((each for each in tokens if each.text.upper() in words), None)
    depth = 0
    for i in range(len(tokens) - 1, 0, -1):
        if tokens[i].start >= first[2]:
            continue
        depth += {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}.get(tokens[i].token_type, 0)
        if depth < 0:
            if isinstance(node, exp.Subquery):
                return tokens[i]
            return tokens[i - 1] if isinstance(node, exp.Func | exp.Rollup | exp.Cube) else None
    return None


def shorten_text(text: str) -> str:
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def format_name(name: str) -> str:
    """Return a table's name as SQL has it: in double quotes where it is not a plain word."""
    tokens = Tokenizer().tokenize(name)
    plain = name.isidentifier() and len(tokens) == 1 and tokens[0].token_type is TokenType.VAR
    return name if plain else '"' + name.replace('"', '""') + '"'
