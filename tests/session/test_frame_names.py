"""A frame that its owner gives a name has an identity: the owner's word, which every answer and certificate repeats."""

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from discreet import BadParameter, connect
from discreet.ledger import open_ledger
from discreet.ledger.keys import load_key, resolve_key_path
from tests.support.console import run

QUERY = "SELECT COUNT(*) AS n FROM visits_2026"
FRAMES = {
    "pandas": lambda: pd.DataFrame({"id": range(100)}),
    "polars": lambda: pl.DataFrame({"id": range(100)}),
    "arrow": lambda: pa.table({"id": range(100)}),
}
CLAIM = 'a frame that its owner names "visits_2026"'


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    run("ledger", "open", str(tmp_path / "hr.ledger"), "--account", "hr", "--epsilon", "1")
    return str(tmp_path / "hr.ledger")


@pytest.mark.parametrize("kind", FRAMES)
def test_a_repeated_question_is_free_in_a_new_session(kind: str, ledger: str) -> None:
    answers = []
    for _ in range(3):
        session = connect(FRAMES[kind](), name="visits_2026", unit="id", unique=True, ledger=ledger)
        answers.append(session.ask(QUERY, epsilon=0.5))
    assert answers[0].rows == answers[1].rows == answers[2].rows
    assert open_ledger(ledger).get_account("hr").budget.spent == answers[0].cost.amount  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", FRAMES)
def test_without_a_name_nothing_is_reused(kind: str, ledger: str) -> None:
    for _ in range(2):
        session = connect(FRAMES[kind](), table="visits_2026", unit="id", unique=True, ledger=ledger)
        assert not session.engine.lasting
        session.ask(QUERY, epsilon=0.25)
    assert open_ledger(ledger).get_account("hr").budget.remaining < 0.51


def test_frames_of_other_names_are_other_data(ledger: str) -> None:
    for name in ("visits_2026", "visits_2027"):
        session = connect(FRAMES["pandas"](), name=name, unit="id", unique=True, ledger=ledger)
        session.ask(f"SELECT COUNT(*) AS n FROM {name}", epsilon=0.25)
    assert open_ledger(ledger).get_account("hr").budget.remaining < 0.51


def test_answers_and_certificates_say_whose_word_it_is(ledger: str) -> None:
    session = connect(FRAMES["pandas"](), name="visits_2026", unit="id", unique=True, ledger=ledger)
    answer = session.ask(QUERY, epsilon=0.5)
    assert 'called "visits_2026" is the word of the data owner' in answer.explanation
    assert any("word of the data owner" in note for note in session.quote(QUERY, epsilon=0.5).notes)
    certificate = session.certify(answer, load_key(resolve_key_path(ledger, None, "key")))
    assert certificate["measurement"]["source"] == CLAIM


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "1st", "a" * 64, "a;b", 'a"b', "visits-2026", "ä", "a\n", "_x", 5, b"a", ["a"]]
)
def test_bad_names_are_refused(name: Any) -> None:
    with pytest.raises(BadParameter, match="not a name for a frame"):
        connect(FRAMES["pandas"](), name=name, unit="id", epsilon=1)


def test_only_a_frame_takes_a_name(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id\n1\n")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (id BIGINT)")
    for source in (tmp_path / "people.csv", str(tmp_path / "people.csv"), connection, "postgresql://localhost/x"):
        with pytest.raises(BadParameter, match="only a frame has no identity of its own"):
            connect(source, name="people", unit="id", epsilon=1)
    with pytest.raises(BadParameter, match="queries call it so"):
        connect(FRAMES["pandas"](), name="a", table="b", unit="id", epsilon=1)
    assert connect(FRAMES["pandas"](), name="a", table="a", unit="id", epsilon=1).table.name == "a"
