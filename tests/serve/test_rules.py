"""Rules: who may ask what, as a pure function. A recorded answer is no way around them."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discreet.errors import BadParameter, DiscreetError
from discreet.serve.control.model import Grant, Person, Role, Rules, Scope, TableEntry, Token
from discreet.serve.rules import (
    Allowed,
    Decision,
    NeedsApproval,
    NoSuchTable,
    QuoteFacts,
    Refused,
    decide,
    matches_template,
    parse_template,
)

QUERY = "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 GROUP BY dept"
ADA = Person(id="ada", name="Ada", role=Role.ANALYST)
GRANT = Grant(person="ada", table="people", account="employees/ada", created=0.0, by="steward")
TABLE = TableEntry(
    name="people", population="employees", policy="", policy_hash="h", policy_version=1, identity="serve:people",
    neighbours="add or remove",
)  # fmt: skip
TOKEN = Token(id="t", person="ada", digest="d", label="nb", scopes=(Scope.ASK,), created=0.0)


def ask(
    person: Person = ADA,
    token: Token | None = None,
    grant: Grant | None = GRANT,
    table: TableEntry = TABLE,
    recorded: bool = False,
    **facts: Any,
) -> Decision:
    return decide(person, token, grant, table, QuoteFacts(**{"query": QUERY, "epsilon": Fraction(1, 10)} | facts), recorded)


def with_rules(**rules: Any) -> TableEntry:
    return msgspec.structs.replace(TABLE, rules=Rules(**rules))


def change(value: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(value, **fields)


def refusal(decision: Decision) -> DiscreetError:
    assert isinstance(decision, Refused)
    return decision.error


def reason(decision: Decision) -> str:
    assert isinstance(decision, NeedsApproval)
    return decision.reason


def test_an_analyst_with_a_grant_may_ask() -> None:
    assert ask() == ask(token=TOKEN) == Allowed()
    assert ask(person=change(ADA, role=Role.STEWARD)) == Allowed()


@pytest.mark.parametrize("recorded", [False, True])
def test_without_a_grant_the_table_is_not_there(recorded: bool) -> None:
    hidden = [
        ask(grant=None, recorded=recorded),
        ask(grant=change(GRANT, person="bob"), recorded=recorded),
        ask(grant=change(GRANT, table="other"), recorded=recorded),
        ask(token=change(TOKEN, tables=("other",)), recorded=recorded),
        ask(token=change(TOKEN, tables=()), recorded=recorded),
        ask(person=change(ADA, role=Role.STUDENT), recorded=recorded),
        ask(person=change(ADA, role=Role.STEWARD), grant=None, recorded=recorded),
    ]
    assert {type(refusal(each)) for each in hidden} == {NoSuchTable}
    assert len({str(refusal(each)) for each in hidden}) == 1


def test_students_ask_of_invented_tables_alone() -> None:
    student = change(ADA, role=Role.STUDENT)
    assert isinstance(ask(person=student), Refused)
    assert ask(person=student, table=change(TABLE, invented=True)) == Allowed()


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"person": change(ADA, role=Role.READER)}, "Readers"),
        ({"person": change(ADA, role=Role.READER), "table": change(TABLE, invented=True)}, "Readers"),
        ({"person": change(ADA, disabled=True)}, "sign in"),
        ({"token": change(TOKEN, scopes=(Scope.READ, Scope.STEWARD))}, "may not be used to ask"),
        ({"token": change(TOKEN, scopes=())}, "may not be used to ask"),
        ({"token": change(TOKEN, revoked=1.0)}, "revoked"),
        ({"token": change(TOKEN, person="bob")}, "revoked"),
        ({"table": change(TABLE, is_open=False)}, "no asks"),
        ({"grant": change(GRANT, paused="3 queries failed")}, "paused"),
    ],
)
def test_no_approval_helps_who_may_not_ask(fields: dict[str, Any], words: str, recorded: bool) -> None:
    assert words in str(refusal(ask(recorded=recorded, **fields)))


def test_limits_of_epsilon_are_exact() -> None:
    tenth, more = Fraction(1, 10), Fraction(1, 10) + Fraction(1, 10**30)
    table = with_rules(epsilon_per_ask="1/10")
    assert ask(table=table, epsilon=tenth) == Allowed()
    assert "at once" in reason(ask(table=table, epsilon=more))
    table = with_rules(epsilon_per_day="3/10")
    assert ask(table=table, spent_today=2 * tenth) == Allowed()
    assert "in a day" in reason(ask(table=table, spent_today=2 * tenth, epsilon=more))
    assert "in a day" in reason(ask(table=with_rules(epsilon_per_day="0")))


def test_keys_and_new_noise_need_approval_where_the_rules_say_so() -> None:
    assert ask(needs_undeclared_keys=True) == Allowed()
    assert "not declared" in reason(ask(table=with_rules(declared_keys_only=True), needs_undeclared_keys=True))
    assert ask(table=with_rules(declared_keys_only=True)) == Allowed()
    assert "new noise" in reason(ask(fresh=True))
    assert ask(table=with_rules(fresh=True), fresh=True, recorded=True) == Allowed(is_free=False)


def test_every_rule_that_is_exceeded_is_named() -> None:
    table = with_rules(
        epsilon_per_ask="0", epsilon_per_day="0", declared_keys_only=True, templates=("SELECT COUNT(*) FROM people",)
    )
    assert reason(ask(table=table, needs_undeclared_keys=True, fresh=True)).count(";") == 4


@given(
    st.sampled_from(Role), st.booleans(), st.booleans(), st.booleans(),
    st.sampled_from([None, "0", "1/10"]), st.sampled_from([None, "0", "1/2"]),
    st.fractions(0, 1), st.fractions(0, 1), st.booleans(), st.booleans(),
)  # fmt: skip
def test_a_recorded_answer_is_free_exactly_for_who_may_ask(
    role: Role, invented: bool, only_declared: bool, undeclared: bool, per_ask: str | None, per_day: str | None,
    epsilon: Fraction, spent: Fraction, fresh: bool, may_fresh: bool,
) -> None:  # fmt: skip
    rules = Rules(epsilon_per_ask=per_ask, epsilon_per_day=per_day, declared_keys_only=only_declared, fresh=may_fresh)
    table, person = change(TABLE, rules=rules, invented=invented), change(ADA, role=role)
    facts = {"epsilon": epsilon, "spent_today": spent, "needs_undeclared_keys": undeclared, "fresh": fresh}
    new, recorded = (ask(person, TOKEN, GRANT, table, known, **facts) for known in (False, True))
    assert type(new) is type(recorded)
    if isinstance(recorded, Allowed):
        assert recorded.is_free is not fresh
        assert new == Allowed(is_free=False)
    else:
        assert str(getattr(new, "error", new)) == str(getattr(recorded, "error", recorded))


# Templates

TEMPLATE = "SELECT dept, COUNT(*) AS n FROM people WHERE age >= {age} AND city = {city} GROUP BY dept"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = 'Bern' GROUP BY dept",
        "select dept , count( * )\nas n from people where age>=6.5e1 and city='O''Brien' group  by dept ;",
        "SELECT dept, COUNT(*) AS n /* why */ FROM people WHERE age >= 65 AND city = '{age}' GROUP BY dept -- so",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 'x' AND city = 5 GROUP BY dept",
    ],
)
def test_a_template_with_literals_matches(query: str) -> None:
    assert matches_template(TEMPLATE, query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = 'Bern' OR 1 = 1 GROUP BY dept",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= pay AND city = 'Bern' GROUP BY dept",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = name GROUP BY dept",
        'SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = "name" GROUP BY dept',
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= -65 AND city = 'Bern' GROUP BY dept",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = 'Bern' GROUP BY \"dept \"",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = 'Bern' GROUP BY Dept",
        "SELECT dept, SUM(*) AS n FROM people WHERE age >= 65 AND city = 'Bern' GROUP BY dept",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= {age} AND city = {city} GROUP BY dept",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = 'Bern' GROUP BY dept; SELECT 1",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = 'Be' 'rn' GROUP BY dept",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = 'Bern GROUP BY dept",
        "SELECT dept, COUNT(*) AS n FROM people WHERE age > 65 AND city = 'Bern' GROUP BY dept",
        "",
        ";",
        "\0",
        "'",
    ],
)
def test_what_is_not_the_template_does_not_match(query: str) -> None:
    assert not matches_template(TEMPLATE, query)


def test_a_hole_that_occurs_twice_is_one_literal() -> None:
    template = "SELECT COUNT(*) AS n FROM people WHERE age >= {a} AND pay >= {a}"
    assert matches_template(template, "SELECT COUNT(*) AS n FROM people WHERE age >= 5 AND pay >= 5")
    assert not matches_template(template, "SELECT COUNT(*) AS n FROM people WHERE age >= 5 AND pay >= 6")
    assert not matches_template(template, "SELECT COUNT(*) AS n FROM people WHERE age >= 5 AND pay >= '5'")


@given(st.text(max_size=40))
@example("' OR '1' = '1")
@example("x' --")
@example("\\'")
@example("$$")
@example("{city}")
def test_a_string_in_a_hole_stays_a_string(text: str) -> None:
    """Whatever an analyst writes between quotes, what matches has one literal there and the rest of the template around."""
    query = f"SELECT dept, COUNT(*) AS n FROM people WHERE age >= 65 AND city = '{text}' GROUP BY dept"
    if matches_template(TEMPLATE, query):
        from discreet.query.parser import DUCKDB

        words = [word.text for word in DUCKDB.tokenize(query)]
        assert len(words) == 21
        assert words[-3:-1] == [words[18], "GROUP BY"]
    elif "'" not in text and "\0" not in text:
        pytest.fail(f"a plain string did not match: {text!r}")


@pytest.mark.parametrize(
    "template", ["", ";", "SELECT {", "SELECT {}", "SELECT {a b}", "SELECT }", "SELECT {'a'}", "SELECT '"]
)
def test_a_template_that_is_none_is_refused_and_matches_nothing(template: str) -> None:
    with pytest.raises(BadParameter, match="templates"):
        parse_template(template)
    assert not matches_template(template, template)


def test_a_query_that_matches_no_template_needs_approval() -> None:
    table = with_rules(templates=("SELECT COUNT(*) AS n FROM people", QUERY.replace("65", "{age}")))
    assert ask(table=table) == Allowed()
    assert "template" in reason(ask(table=table, query=QUERY.replace("age", "pay")))
    assert "template" in reason(ask(table=table, query=QUERY.replace("age", "pay"), recorded=True))
