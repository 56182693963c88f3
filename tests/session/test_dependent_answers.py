"""Answers that rest on other answers: on discovered bounds, or on the count of a pilot."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.errors import BadParameter, BudgetExceeded
from discreet.ledger import open_ledger
from discreet.ledger.keys import load_key
from discreet.ledger.verify import verify
from discreet.session.connect import connect
from tests.support.certificates import list_false_claims, sign_again
from tests.support.ledger_sessions import open_session, read_spent

MEAN = "SELECT AVG(pay) AS m FROM people"
TOTAL = "SELECT SUM(pay) AS s FROM people"
AUTO: dict[str, Any] = {"account": "pure", "bounds": {"pay": "auto"}}


def test_a_certificate_guarantees_what_all_steps_cost(charged_folder: Path) -> None:
    session, key = open_session(charged_folder, **AUTO), load_key(charged_folder / "key")
    first, later = session.ask(MEAN, epsilon=1), session.ask(TOTAL, epsilon=Fraction(1, 2))
    with open_ledger(charged_folder / "hr.ledger") as ledger:
        for answer, cost in ((first, 1), (later, 0.75)):  # the later one shows the bounds too: 1/4 of the first cost
            found = session.certify(answer, key)
            assert found["guarantee"]["epsilon"] == pytest.approx(cost, rel=1e-9)
            assert "rests on (entries 3)" in found["guarantee"]["words"]
            assert verify(found, ledger=ledger).is_valid
            alone = found | {"earlier": [], "guarantee": found["guarantee"] | {"after": []}}
            assert "every answer that it rests on is included" in list_false_claims(verify(sign_again(alone, key)))


def test_the_cost_of_a_pilot_is_in_the_certificate(charged_folder: Path) -> None:
    session = open_session(charged_folder, "pure")
    answer = session.ask(MEAN, error="20%", pilot=Fraction(1, 2))
    found = session.certify(answer, load_key(charged_folder / "key"))
    assert answer.cost is not None
    assert found["guarantee"]["epsilon"] == pytest.approx(answer.cost.epsilon.upper, rel=1e-9)
    assert verify(found).is_valid


def test_a_retry_with_discovered_bounds_is_free(charged_folder: Path) -> None:
    session = open_session(charged_folder, **AUTO)
    first = session.ask(MEAN, epsilon=1, id="x")
    cost = read_spent(charged_folder, "pure")
    for again in (
        session.ask(MEAN, epsilon=1),
        session.ask(MEAN, epsilon=1, id="x"),
        open_session(charged_folder, **AUTO).ask(MEAN, epsilon=1),
    ):
        assert again.rows == first.rows
    assert read_spent(charged_folder, "pure") == cost == 1


def test_a_query_whose_steps_do_not_all_fit_is_refused_before_the_first(charged_folder: Path) -> None:
    for session in (
        open_session(charged_folder, **AUTO),
        connect(charged_folder / "people.parquet", unit="id", unique=True, bounds={"pay": "auto"}, epsilon=2),
    ):
        session.ask("SELECT COUNT(*) AS n FROM people", epsilon=Fraction(3, 2))
        before = session.account.budget.spent
        with pytest.raises(BudgetExceeded, match="would fit"):
            session.ask(MEAN, epsilon=Fraction(3, 5))
        assert session.account.budget.spent == before


@pytest.mark.parametrize("wrong", [np.bool_(True), "no", 1, None])
def test_bad_interval_options_are_refused_without_a_debit(charged_folder: Path, wrong: Any) -> None:
    with pytest.raises(BadParameter, match="neither True nor False"):
        open_session(charged_folder).ask(MEAN, epsilon=1, simultaneous=wrong)
    assert read_spent(charged_folder) == 0


def test_one_confidence_in_two_spellings(charged_folder: Path) -> None:
    first = open_session(charged_folder).ask(MEAN, epsilon=1, confidence=Fraction(19, 20))  # type: ignore[arg-type]
    assert open_session(charged_folder).ask(MEAN, epsilon=1).rows == first.rows
    with pytest.raises(BadParameter, match=r"simultaneous is True: this query was answered before, with False"):
        open_session(charged_folder).ask(MEAN, epsilon=1, simultaneous=True)


class FalseBits:
    """Bits that claim to be the system's."""

    tainted = False

    def words(self, n: int) -> Any:
        return np.zeros(n, np.uint64)


def test_a_ledger_accepts_only_the_bits_of_the_system(charged_folder: Path) -> None:
    with pytest.raises(BadParameter, match="seeded"):
        open_session(charged_folder).ask(MEAN, epsilon=1, bits=FalseBits())  # type: ignore[arg-type]
    assert read_spent(charged_folder) == 0
