"""A session that pays from a ledger: what is asked again, after a crash or not, is paid for once."""

from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from discreet.engines.base import OutOfResources
from discreet.errors import BadParameter, BudgetExceeded, EngineFailed
from discreet.ledger import open_ledger
from discreet.ledger.keys import load_key
from discreet.ledger.verify import verify
from discreet.query.answer import Answer
from discreet.query.estimates import Estimate
from discreet.query.record import from_record, to_record
from discreet.session.connect import connect
from discreet.session.session import Session
from discreet.testing import seeded_bits
from tests.support.people import BY_DEPARTMENT, COUNTS, people

ANSWERS = [
    BY_DEPARTMENT,
    "SELECT dept, AVG(pay) AS m, VARIANCE(pay) AS v, SUM(pay) AS s FROM people GROUP BY dept",
    "SELECT MEDIAN(pay) AS q, HISTOGRAM(age, 20, 45, 70) AS h FROM people",
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    people().execute(f"COPY people TO '{tmp_path}/people.parquet'")
    with open_ledger(tmp_path / "hr.ledger", create=True) as ledger:
        ledger.open_account("hr", 2, 1e-6)
        ledger.open_account("pure", 2)
    return tmp_path


def opened(place: Path, account: str = "hr", **more: Any) -> Session:
    declared: dict[str, Any] = {
        "unit": "id", "bounds": {"pay": (0, 200), "age": (0, 100)}, "keys": {"dept": tuple(COUNTS)}, "unique": True,
    }  # fmt: skip
    return connect(place / "people.parquet", ledger=place / "hr.ledger", account=account, **(declared | more))


def spent(place: Path, account: str = "hr") -> Fraction:
    with open_ledger(place / "hr.ledger") as ledger:
        return ledger.get_account(account).budget.spent


@pytest.mark.parametrize("account", ["hr", "pure"])
@pytest.mark.parametrize("question", ANSWERS)
def test_the_same_question_has_the_same_answer_for_free(place: Path, question: str, account: str) -> None:
    first = opened(place, account).ask(question, epsilon=Fraction(1, 2))
    paid = spent(place, account)
    again = opened(place, account).ask(question, epsilon=Fraction(1, 2))
    assert again.rows == first.rows
    assert again.event == first.event
    assert "cost nothing now" in again.explanation
    assert spent(place, account) == paid > 0
    assert again.non_negative().rows == first.non_negative().rows
    fresh = opened(place, account).ask(question, epsilon=Fraction(1, 2), fresh=True)
    assert spent(place, account) == 2 * paid
    assert fresh.reference.entry > first.reference.entry


@pytest.mark.parametrize(
    "other",
    [{"max_rows": 2, "unique": False}, {"bounds": {"pay": (0, 201), "age": (0, 100)}}, {"keys": {"dept": ("a", "b")}}],
)
def test_another_policy_is_another_question(place: Path, other: dict[str, Any]) -> None:
    opened(place).ask(ANSWERS[1], epsilon=Fraction(1, 4))
    paid = spent(place)
    opened(place, **other).ask(ANSWERS[1], epsilon=Fraction(1, 4))
    assert spent(place) > paid


class Dies:
    """An engine that fails after the debit."""

    def __init__(self, engine: Any) -> None:
        self.identity, self.origins, self.lock = engine.identity, engine.origins, engine.lock

    def run(self, bounded: Any) -> Any:
        raise OutOfResources


def test_a_crash_after_the_debit_is_continued(place: Path) -> None:
    session = opened(place)
    with pytest.raises(EngineFailed):
        replace(session, engine=Dies(session.engine)).ask(BY_DEPARTMENT, epsilon=1, id="monday")  # type: ignore[arg-type]
    paid = spent(place)
    assert paid > 0
    answer = opened(place).ask(BY_DEPARTMENT, epsilon=1, id="monday")
    assert spent(place) == paid
    assert opened(place).ask(BY_DEPARTMENT, epsilon=1, id="monday").rows == answer.rows
    with pytest.raises(BadParameter, match="another measurement"):
        opened(place).ask(BY_DEPARTMENT, epsilon=Fraction(1, 2), id="monday")
    assert spent(place) == paid


def test_steps_on_the_way_are_continued_too(place: Path) -> None:
    question = "SELECT AVG(pay) AS m FROM people"
    more: dict[str, Any] = {"account": "pure", "bounds": {"pay": "auto"}}
    first = opened(place, **more).ask(question, epsilon=1, id="x")
    paid = spent(place, "pure")
    again = opened(place, **more).ask(question, epsilon=1, id="x")
    assert (again.rows, spent(place, "pure")) == (first.rows, paid)
    assert paid == 1
    piloted = opened(place, "pure").ask(question, error="20%", pilot=Fraction(1, 10), id="y")
    paid = spent(place, "pure")
    assert opened(place, "pure").ask(question, error="20%", pilot=Fraction(1, 10), id="y").rows == piloted.rows
    assert spent(place, "pure") == paid


def test_what_is_asked_of_a_ledger(place: Path) -> None:
    with pytest.raises(BadParameter, match="seeded"):
        opened(place).ask(BY_DEPARTMENT, epsilon=1, bits=seeded_bits(1))
    with pytest.raises(BadParameter, match="for life"):
        opened(place, epsilon=1)
    with pytest.raises(BadParameter, match="accounts are"):
        opened(place, "nobody")
    with pytest.raises(BudgetExceeded, match="would fit"):
        opened(place).ask(BY_DEPARTMENT, epsilon=3)
    assert spent(place) == 0
    answer = opened(place).ask(BY_DEPARTMENT, epsilon=1)
    with pytest.raises(BadParameter, match=r"0\.95"):
        opened(place).ask(BY_DEPARTMENT, epsilon=1, confidence=0.9)
    assert answer.reference is not None


def test_a_certificate_holds_and_a_lie_shows(place: Path) -> None:
    session, key = opened(place), load_key(place / "hr.key")
    for question in ANSWERS:
        answer = session.ask(question, epsilon=Fraction(1, 4))
        found = session.certify(answer, key)
        with open_ledger(place / "hr.ledger") as ledger:
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
    answer = replace(base, groups=("k",), rows=rows, cost=None, reference=None, lower_limits=(Fraction(1, 3),))
    assert from_record(to_record(answer), answer.event) == answer
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
