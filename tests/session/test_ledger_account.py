"""A session that charges a ledger: the same measurement is debited once, also after a crash."""

from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from discreet._numbers import format_down
from discreet.engines.base import OutOfResources
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed
from discreet.ledger import open_ledger
from discreet.ledger.keys import load_key
from discreet.ledger.verify import verify
from discreet.query.answer import Answer
from discreet.query.estimates import Estimate
from discreet.query.record import from_record, to_record
from discreet.session.connect import connect
from discreet.testing import seeded_bits
from tests.support.ledger_sessions import open_session, read_spent
from tests.support.people import BY_DEPARTMENT, people

QUERIES = [
    BY_DEPARTMENT,
    "SELECT dept, AVG(pay) AS m, VARIANCE(pay) AS v, SUM(pay) AS s FROM people GROUP BY dept",
    "SELECT MEDIAN(pay) AS q, HISTOGRAM(age, 20, 45, 70) AS h FROM people",
]


@pytest.mark.parametrize("account", ["hr", "pure"])
@pytest.mark.parametrize("sql", QUERIES)
def test_the_same_measurement_has_the_same_answer_for_free(charged_folder: Path, sql: str, account: str) -> None:
    first = open_session(charged_folder, account).ask(sql, epsilon=Fraction(1, 2))
    cost = read_spent(charged_folder, account)
    again = open_session(charged_folder, account).ask(sql, epsilon=Fraction(1, 2))
    assert again.rows == first.rows
    assert again.event == first.event
    assert (first.charged, again.charged) == (True, False)
    assert any(f"data as of entry {again.reference.entry}" in note and "label=" in note for note in again.notes)
    assert again.list_costs()[0].startswith(f"Free: recorded before (entry {again.reference.entry}); its cost was ε = ")
    assert again.to_dict()["charged"] is False
    assert read_spent(charged_folder, account) == cost > 0
    assert again.non_negative().rows == first.non_negative().rows
    fresh = open_session(charged_folder, account).ask(sql, epsilon=Fraction(1, 2), fresh=True)
    assert read_spent(charged_folder, account) == 2 * cost
    assert fresh.reference.entry > first.reference.entry


@pytest.mark.parametrize(
    "other",
    [{"max_rows": 2, "unique": False}, {"bounds": {"pay": (0, 201), "age": (0, 100)}}, {"keys": {"dept": ("a", "b")}}],
)
def test_another_policy_is_another_measurement(charged_folder: Path, other: dict[str, Any]) -> None:
    open_session(charged_folder).ask(QUERIES[1], epsilon=Fraction(1, 4))
    spent = read_spent(charged_folder)
    open_session(charged_folder, **other).ask(QUERIES[1], epsilon=Fraction(1, 4))
    assert read_spent(charged_folder) > spent


class FailingEngine:
    """An engine that fails after the debit."""

    def __init__(self, engine: Any) -> None:
        self.identity, self.origins, self.lock = engine.identity, engine.origins, engine.lock

    def run(self, bounded: Any) -> Any:
        raise OutOfResources


def test_a_crash_after_the_debit_is_continued(charged_folder: Path) -> None:
    session = open_session(charged_folder)
    with pytest.raises(EngineFailed):
        replace(session, engine=FailingEngine(session.engine)).ask(BY_DEPARTMENT, epsilon=1, id="monday")  # type: ignore[arg-type]
    spent = read_spent(charged_folder)
    assert spent > 0
    answer = open_session(charged_folder).ask(BY_DEPARTMENT, epsilon=1, id="monday")
    assert read_spent(charged_folder) == spent
    assert open_session(charged_folder).ask(BY_DEPARTMENT, epsilon=1, id="monday").rows == answer.rows
    with pytest.raises(BadParameter, match="another measurement"):
        open_session(charged_folder).ask(BY_DEPARTMENT, epsilon=Fraction(1, 2), id="monday")
    assert read_spent(charged_folder) == spent


def test_the_steps_of_a_query_are_continued_too(charged_folder: Path) -> None:
    sql = "SELECT AVG(pay) AS m FROM people"
    more: dict[str, Any] = {"account": "pure", "bounds": {"pay": "auto"}}
    first = open_session(charged_folder, **more).ask(sql, epsilon=1, id="x")
    spent = read_spent(charged_folder, "pure")
    again = open_session(charged_folder, **more).ask(sql, epsilon=1, id="x")
    assert (again.rows, read_spent(charged_folder, "pure")) == (first.rows, spent)
    assert spent == 1
    piloted = open_session(charged_folder, "pure").ask(sql, error="20%", pilot=Fraction(1, 10), id="y")
    spent = read_spent(charged_folder, "pure")
    assert open_session(charged_folder, "pure").ask(sql, error="20%", pilot=Fraction(1, 10), id="y").rows == piloted.rows
    assert read_spent(charged_folder, "pure") == spent


def test_what_a_session_with_a_ledger_refuses(charged_folder: Path) -> None:
    with pytest.raises(BadParameter, match="seeded"):
        open_session(charged_folder).ask(BY_DEPARTMENT, epsilon=1, bits=seeded_bits(1))
    with pytest.raises(BadParameter, match="which cannot be changed"):
        open_session(charged_folder, epsilon=1)
    with pytest.raises(BadParameter, match="accounts are"):
        open_session(charged_folder, "unknown")
    with pytest.raises(BudgetExceeded, match="would fit"):
        open_session(charged_folder).ask(BY_DEPARTMENT, epsilon=3)
    assert read_spent(charged_folder) == 0
    answer = open_session(charged_folder).ask(BY_DEPARTMENT, epsilon=1)
    with pytest.raises(BadParameter, match=r"0\.95"):
        open_session(charged_folder).ask(BY_DEPARTMENT, epsilon=1, confidence=0.9)
    assert answer.reference is not None


def test_a_certificate_verifies_and_a_changed_one_does_not(charged_folder: Path) -> None:
    session, key = open_session(charged_folder), load_key(charged_folder / "hr.key")
    for sql in QUERIES:
        answer = session.ask(sql, epsilon=Fraction(1, 4))
        found = session.certify(answer, key)
        with open_ledger(charged_folder / "hr.ledger") as ledger:
            assert verify(found, public=key.public, ledger=ledger).is_valid
            changed = {**found, "release": {**found["release"], "explanation": "nothing to see"}}
            assert not verify(changed, public=key.public, ledger=ledger).is_valid
    with pytest.raises(BadParameter, match="ledger"):
        connect(people(), table="people", unit="id", epsilon=1).certify(answer, key)


def test_an_answer_reads_back_as_it_was() -> None:
    keys = ("a", "", "2024-01-01", date(2024, 1, 1), datetime(2024, 1, 1, 12, 30, 0, 5), True, False, 7, -(2**62), None)
    session = connect(people(), table="people", unit="id", epsilon=1)
    base = session.ask("SELECT COUNT(*) AS n FROM people", epsilon=1)
    rows = tuple(((key,), (Estimate(2**62 + 1, -0.5, 1e300, True),)) for key in keys)
    schema = (replace(base.schema[0], lower_limit=Fraction(1, 3)),)
    answer = replace(base, groups=("k",), schema=schema, rows=rows, cost=None, reference=None)
    assert from_record(to_record(answer), answer.event, schema) == answer
    assert isinstance(from_record(to_record(answer), answer.event), Answer)


def test_an_identity_is_where_the_data_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people().execute(f"COPY people TO '{tmp_path}/people.parquet'")
    monkeypatch.chdir(tmp_path)
    relative, absolute = (
        connect(at, unit="id", epsilon=1).engine.identity for at in ("people.parquet", tmp_path / "people.parquet")
    )
    assert relative == absolute
    assert connect(people(), table="people", unit="id", epsilon=1).engine.identity.startswith("in memory")
    with duckdb.connect(tmp_path / "x.duckdb") as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS id")
        inside = connect(made, table="t", unit="id", epsilon=1).engine.identity
    assert inside == connect(tmp_path / "x.duckdb", table="t", unit="id", epsilon=1).engine.identity


def test_accounts_without_a_common_parent_are_named_once_both_are_about_the_same_unit(charged_folder: Path) -> None:
    first = open_session(charged_folder, "hr")
    assert "no parent in common" not in repr(first), "the other account has no debit yet"
    first.ask(BY_DEPARTMENT, epsilon=Fraction(1, 2))
    second = open_session(charged_folder, "pure")
    [said] = second.account_notes
    assert said == (
        'Account "pure" has no parent in common with "hr". If they cover the same people, their budgets add up to ε = 4 at '
        "δ = 1e-6. Accounts that are opened under a common parent share its budget."
    )
    assert said in second.quote(BY_DEPARTMENT, epsilon=Fraction(1, 2)).notes
    assert "no parent in common" in repr(second)
    answer = second.ask(BY_DEPARTMENT, epsilon=Fraction(1, 2))
    for shared in (answer.explanation, repr(answer), answer.to_json(), answer._repr_html_(), str(answer.plot().spec)):
        assert "hr" not in shared, "an answer is shared with others than who asked"
    other_unit = open_session(charged_folder, "pure", neighbours="replace")
    assert not other_unit.account_notes, "its debits are about another relation"


def test_a_child_has_no_more_than_its_parents_allow(charged_folder: Path) -> None:
    with open_ledger(charged_folder / "hr.ledger") as ledger:
        ledger.open_account("child", 1, 1e-6, parent="hr")
        ledger.open_account("sister", 2, 1e-6, parent="hr")
    child, sister = open_session(charged_folder, "child"), open_session(charged_folder, "sister")
    assert float(child.remaining) == float(child.budget.epsilon) == 1
    sister.ask(BY_DEPARTMENT, epsilon=float(sister.remaining) - Fraction(1, 100))
    assert not child.account_notes, "the sister has the same parent"
    assert 0 < float(child.remaining) < float(child.budget.epsilon) == 1
    assert f'Capped by "hr": remaining: ε = {format_down(child.remaining.epsilon, 3)} at δ = 1e-6, ' in repr(child)
    with pytest.raises(BudgetExceeded):
        child.ask(BY_DEPARTMENT, epsilon=float(child.remaining) * 1.01)
    child.ask(BY_DEPARTMENT, epsilon=float(child.remaining))


def test_a_recorded_answer_is_shown_as_the_first_one_was(charged_folder: Path) -> None:
    query = "SELECT dept, COUNT(*) AS n, COUNT(DISTINCT id) AS people, MEDIAN(age) AS age FROM people GROUP BY dept"
    first, again = (open_session(charged_folder, "pure").ask(query, epsilon=Fraction(1, 2)) for _ in range(2))
    assert repr(first).split("Cost:")[0] == repr(again).split("Free:")[0]
    assert [column.unit for column in again.schema] == ["rows", "distinct id", ""]
    assert all(isinstance(row[2].value, int) for _, row in again.rows)


COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.mark.parametrize(
    ("sql", "epsilon", "options", "said"),
    [
        (COUNT, Fraction(1, 8), {}, "its cost was ε = 0.25, and that of this one is ε = 0.125"),
        ("SELECT COUNT(*) AS m FROM people", Fraction(1, 4), {}, "its columns are n, and those of this one are m"),
        (BY_DEPARTMENT, Fraction(1, 4), {}, "its columns are n, and those of this one are dept, "),
        (COUNT, Fraction(1, 4), {"neighbours": "replace"}, "it is about (id: add or remove one unit), and this one about ("),
        (f"{COUNT} WHERE age > 30", Fraction(1, 4), {}, "the cost and the noise are the same, so the query's text, the "),
        (COUNT, Fraction(1, 4), {"label": "2026-11"}, "the cost and the noise are the same, so the query's text, the "),
    ],
)
@pytest.mark.parametrize("account", ["hr", "pure"])
def test_an_id_that_is_taken_says_what_differs(
    charged_folder: Path, account: str, sql: str, epsilon: Fraction, options: dict[str, Any], said: str
) -> None:
    open_session(charged_folder, account).ask(COUNT, epsilon=Fraction(1, 4), id="monday")
    spent = read_spent(charged_folder, account)
    with pytest.raises(BadParameter) as refused:
        open_session(charged_folder, account, **options).ask(sql, epsilon=epsilon, id="monday")
    assert said in str(refused.value)
    assert "Take a new id for a new query." in str(refused.value)
    assert read_spent(charged_folder, account) == spent


def test_an_id_that_is_taken_in_memory_says_what_differs() -> None:
    session = connect(people(), table="people", unit="id", unique=True, epsilon=2)
    session.ask(COUNT, epsilon=1, id="monday")
    with pytest.raises(BadParameter, match=r"its cost was ε = 1, and that of this one is ε = 0\.5"):
        session.ask(COUNT, epsilon=Fraction(1, 2), id="monday")
