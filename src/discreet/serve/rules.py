"""May this person ask this query? Rules as a pure function of what is declared and quoted: no row, no clock, no database.

A query is allowed, needs a steward's approval, or is refused. It is refused where no approval helps: the person, the token
or the account may not ask. It needs approval where it exceeds what the steward of the table allows without being asked. A
decision depends on the policy, the grant and the quote alone, so it tells nothing about the data.

An answer that another analyst under the same root has paid for is free, but only for a person whose own grant and rules
allow the query. So a recorded answer is no way around the rules, and "free" shows no more than that the query was asked.

**Templates.** A template is a query with holes, such as `SELECT COUNT(*) AS n FROM people WHERE age >= {age}`. A query
matches if it has the same words and signs in the same order and one number or one string for each hole; a hole that occurs
twice stands for the same literal. Words are those of the SQL tokenizer, so no literal ends a string and goes on as SQL.
Blanks and comments do not matter, nor does the case of reserved words and functions. That of a column or an alias does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import TypeAlias

from sqlglot.tokenizer_core import Token as Word
from sqlglot.tokenizer_core import TokenType

from discreet._numbers import format_down, format_up
from discreet.errors import BadParameter, DiscreetError
from discreet.query.parser import DUCKDB, read_query
from discreet.query.schema import Table
from discreet.serve.control.model import Grant, Person, Role, Rules, Scope, TableEntry, Token


@dataclass(frozen=True, slots=True)
class QuoteFacts:
    """What the rules need of a quote."""

    query: str
    epsilon: Fraction
    spent_today: Fraction = Fraction(0)  # the sum of ε that the person asked of the table since midnight UTC
    needs_undeclared_keys: bool = False  # whether group keys must be discovered, which costs δ
    fresh: bool = False  # whether new noise is wanted for a query that is answered


@dataclass(frozen=True, slots=True)
class Allowed:
    """The query may be asked. `is_free`: its answer is recorded and may be shown for nothing."""

    is_free: bool = False


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """A steward must approve the query. `reason` names every rule that it exceeds."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """No approval helps."""

    error: DiscreetError


Decision: TypeAlias = Allowed | NeedsApproval | Refused


class NotAllowed(DiscreetError):
    """The person, the token or the account may not ask. Nothing was charged."""

    see = "docs/serve.md#rules"

    def __init__(self, reason: str, hint: str) -> None:
        self.reason, self.hint = reason, hint
        super().__init__(f"{reason}. {hint[:1].upper()}{hint[1:]}.")


class NoSuchTable(NotAllowed):
    """There is no such table, or none that the person or the token may ask of: the message is the same."""

    def __init__(self) -> None:
        super().__init__("There is no such table", "check its name, or ask a steward for a grant")


def decide(
    person: Person,
    token: Token | None,
    grant: Grant | None,
    table: TableEntry,
    facts: QuoteFacts,
    recorded: bool = False,
) -> Decision:
    """Decide whether a person may ask a query of a table.

    `token` is None for a person in a browser. It has been looked up by `Control.find_token`, so it has not expired.
    """
    refusal = find_refusal(person, token, grant, table)
    if refusal is not None:
        return Refused(refusal)
    if grant is not None and grant.paused is not None:
        return Refused(NotAllowed("The account is paused", "ask a steward to resume it"))
    reasons = _find_exceeded(table, facts)
    if reasons:
        return NeedsApproval("; ".join(reasons))
    return Allowed(is_free=recorded and not facts.fresh)


def find_refusal(person: Person, token: Token | None, grant: Grant | None, table: TableEntry) -> DiscreetError | None:
    """Return why a person may ask nothing of a table; None if they may, unless their account is paused. A worker decides it
    again when it takes what was asked."""
    if grant is None or (grant.person, grant.table) != (person.id, table.name):
        return NoSuchTable()
    if person.disabled:
        return NotAllowed("This person may not sign in any more", "ask a steward")
    if person.role is Role.READER:
        return NotAllowed("Readers see released answers and do not ask", "ask a steward for the role of an analyst")
    if person.role is Role.STUDENT and not table.invented:
        return NoSuchTable()
    if token is not None:
        if token.tables is not None and table.name not in token.tables:
            return NoSuchTable()
        if token.person != person.id or token.revoked is not None:
            return NotAllowed("The token was revoked", "make a new token")
        if Scope.ASK not in token.scopes:
            return NotAllowed("The token may not be used to ask", 'make a token with the scope "ask"')
    if not table.is_open:
        return NotAllowed("The table takes no asks at present", "ask a steward when it will")
    return None


def _find_exceeded(table: TableEntry, facts: QuoteFacts) -> list[str]:
    """Return a sentence for each rule that a query exceeds."""
    rules, reasons = table.rules, list[str]()
    if rules.templates and not any(matches_template(template, facts.query) for template in rules.templates):
        reasons.append("no template of the table allows this query")
    if rules.declared_keys_only and facts.needs_undeclared_keys:
        reasons.append("its group keys are not declared")
    asked = f"it asks ε = {format_up(facts.epsilon, 3)}"
    if rules.epsilon_per_ask is not None and facts.epsilon > Fraction(rules.epsilon_per_ask):
        reasons.append(f"{asked}, and the rules allow ε = {format_down(Fraction(rules.epsilon_per_ask), 3)} at once")
    if rules.epsilon_per_day is not None and facts.spent_today + facts.epsilon > Fraction(rules.epsilon_per_day):
        reasons.append(f"{asked}, and {describe_day(rules.epsilon_per_day, facts.spent_today)}")
    if facts.fresh and not rules.fresh:
        reasons.append("it asks for new noise")
    return reasons


def describe_day(limit: str, asked: Fraction) -> str:
    """Say how much of what the rules allow in a day is used.

    >>> describe_day("3/10", Fraction(1, 5))
    'the rules allow ε = 0.3 in a day (UTC), of which 0.2 was asked'
    """
    return f"the rules allow ε = {format_down(Fraction(limit), 3)} in a day (UTC), of which {format_up(asked, 3)} was asked"


def count_stewards(rules: Rules, epsilon: Fraction | float) -> int:
    """Return how many stewards must approve what costs this ε.

    >>> [count_stewards(Rules(two_stewards_above="1/2"), Fraction(each)) for each in ("0.5", "0.51")]
    [1, 2]
    """
    return 1 if rules.two_stewards_above is None or epsilon <= Fraction(rules.two_stewards_above) else 2


# Templates

_LITERALS = (TokenType.NUMBER, TokenType.STRING)
_RESERVED = frozenset(
    {
        TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.HAVING,
        TokenType.LIMIT, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.ALIAS, TokenType.IN, TokenType.IS,
        TokenType.BETWEEN, TokenType.NULL, TokenType.CASE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.END,
        TokenType.JOIN, TokenType.ON, TokenType.DISTINCT,
    }
)  # fmt: skip
"""Words that are never the name of a column, so their case says nothing."""
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
MAX_TRIED = 6
"""How many holes are tried with numbers and with strings; with more, all are numbers."""


@dataclass(frozen=True, slots=True)
class _Hole:
    name: str


def matches_template(template: str, query: str) -> bool:
    """Whether a query is a template with literals in its holes. A text that is no SQL matches nothing.

    >>> template = "SELECT COUNT(*) AS n FROM people WHERE age >= {age}"
    >>> matches_template(template, "select count(*) as n from people where age >= 65")
    True
    >>> matches_template(template, "SELECT COUNT(*) AS n FROM people WHERE pay >= 65")
    False
    """
    try:
        parts, words = parse_template(template), _read_words(query)
    except Exception:  # the text is at fault, however sqlglot fails on it
        return False
    if len(parts) != len(words):
        return False
    filled: dict[str, tuple[TokenType, str]] = {}
    for part, word in zip(parts, words, strict=True):
        if not isinstance(part, _Hole):
            if part != word:
                return False
        elif word[0] not in _LITERALS or filled.setdefault(part.name, word) != word:
            return False
    return True


@lru_cache(maxsize=1000)
def parse_template(template: str) -> "tuple[_Hole | tuple[TokenType, str], ...]":
    """Return the words and holes of a template.

    Raises:
        BadParameter: if it is no SQL, or a hole has no name.
    """
    try:
        words = list(_read_words(template))
    except Exception:
        raise _template_error(template, "it is no SQL") from None
    parts: list[_Hole | tuple[TokenType, str]] = []
    while words:
        word = words.pop(0)
        if word[0] is TokenType.L_BRACE:
            is_named = len(words) > 1 and words[0][0] not in _QUOTED and _NAME.fullmatch(words[0][1])
            if not is_named or words[1][0] is not TokenType.R_BRACE:
                raise _template_error(template, "a hole has no name")
            parts.append(_Hole(words[0][1]))
            del words[:2]
        elif word[0] is TokenType.R_BRACE:
            raise _template_error(template, "a hole has no beginning")
        else:
            parts.append(word)
    if not parts:
        raise _template_error(template, "it is empty")
    return tuple(parts)


def check_templates(rules: Rules, table: Table) -> None:
    """Refuse templates that no query of a table can match: what is left when literals fill the holes must be a query.

    Raises:
        BadParameter: with the template, and why.
    """
    for template in rules.templates:
        names = sorted({part.name for part in parse_template(template) if isinstance(part, _Hole)})
        tried = product(("1", "'x'"), repeat=len(names)) if len(names) <= MAX_TRIED else (("1",) * len(names),)
        refusals = list[str]()
        for literals in tried:
            try:
                read_query(_fill(template, dict(zip(names, literals, strict=True))), table)
            except DiscreetError as refused:
                refusals.append(str(refused))
            else:
                break
        else:
            raise _template_error(template, f"no query of `{table.name}` ({refusals[0].rstrip('.')})")


def _fill(template: str, literals: Mapping[str, str]) -> str:
    return re.sub(r"\{\s*(\w+)\s*\}", lambda hole: literals.get(hole[1], hole[0]), template)


def _template_error(template: str, reason: str) -> BadParameter:
    return BadParameter("templates", repr(template), reason, "write a query with holes such as {age}")


def _read_words(text: str) -> tuple[tuple[TokenType, str], ...]:
    """Return the kind and the text of each word and sign, without a semicolon at the end."""
    tokens: list[Word] = list(DUCKDB.tokenize(text))
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    following = [each.token_type for each in tokens[1:]] + [TokenType.SEMICOLON]
    return tuple(map(_normalise, tokens, following))


def _normalise(token: Word, following: TokenType) -> tuple[TokenType, str]:
    """Return a word; a reserved one and the name of a function without its case."""
    is_function = token.token_type is not TokenType.IDENTIFIER and following is TokenType.L_PAREN
    is_word = token.token_type in _RESERVED or (is_function and token.token_type not in _LITERALS)
    return token.token_type, token.text.upper() if is_word else token.text
