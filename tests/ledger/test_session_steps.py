"""Answers that rest on other answers: bounds that were found, a size that was counted."""

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
from tests.ledger.test_certificate import failed, signed
from tests.ledger.test_session import opened, place, spent

__all__ = ["place"]

MEAN = "SELECT AVG(pay) AS m FROM people"
TOTAL = "SELECT SUM(pay) AS s FROM people"
AUTO: dict[str, Any] = {"account": "pure", "bounds": {"pay": "auto"}}


def test_a_certificate_promises_what_all_steps_cost(place: Path) -> None:
    session, key = opened(place, **AUTO), load_key(place / "key")
    first, later = session.ask(MEAN, epsilon=1), session.ask(TOTAL, epsilon=Fraction(1, 2))
    with open_ledger(place / "hr.ledger") as ledger:
        for answer, cost in ((first, 1), (later, 0.75)):  # the later one shows the bounds too: 1/4 of the first price
            found = session.certify(answer, key)
            assert found["guarantee"]["epsilon"] == pytest.approx(cost, rel=1e-9)
            assert "rests on (entries 3)" in found["guarantee"]["words"]
            assert verify(found, ledger=ledger).is_valid
            alone = found | {"earlier": [], "guarantee": found["guarantee"] | {"after": []}}
            assert "every answer that it rests on is included" in failed(verify(signed(alone, key)))


def test_a_pilots_price_is_in_the_certificate(place: Path) -> None:
    session = opened(place, "pure")
    answer = session.ask(MEAN, error="20%", pilot=Fraction(1, 2))
    found = session.certify(answer, load_key(place / "key"))
    assert answer.cost is not None
    assert found["guarantee"]["epsilon"] == pytest.approx(answer.cost.epsilon.upper, rel=1e-9)
    assert verify(found).is_valid


def test_asking_again_is_free_with_found_bounds_too(place: Path) -> None:
    session = opened(place, **AUTO)
    first = session.ask(MEAN, epsilon=1, id="x")
    paid = spent(place, "pure")
    for again in (
        session.ask(MEAN, epsilon=1),
        session.ask(MEAN, epsilon=1, id="x"),
        opened(place, **AUTO).ask(MEAN, epsilon=1),
    ):
        assert again.rows == first.rows
    assert spent(place, "pure") == paid == 1


def test_what_does_not_fit_as_a_whole_is_not_begun(place: Path) -> None:
    for session in (
        opened(place, **AUTO),
        connect(place / "people.parquet", unit="id", unique=True, bounds={"pay": "auto"}, epsilon=2),
    ):
        session.ask("SELECT COUNT(*) AS n FROM people", epsilon=Fraction(3, 2))
        before = session.account.budget.spent
        with pytest.raises(BudgetExceeded, match="would fit"):
            session.ask(MEAN, epsilon=Fraction(3, 5))
        assert session.account.budget.spent == before


@pytest.mark.parametrize("wrong", [np.bool_(True), "no", 1, None])
def test_a_shape_that_is_none_is_refused_unpaid(place: Path, wrong: Any) -> None:
    with pytest.raises(BadParameter, match="neither True nor False"):
        opened(place).ask(MEAN, epsilon=1, simultaneous=wrong)
    assert spent(place) == 0


def test_one_confidence_in_two_spellings(place: Path) -> None:
    first = opened(place).ask(MEAN, epsilon=1, confidence=Fraction(19, 20))  # type: ignore[arg-type]
    assert opened(place).ask(MEAN, epsilon=1).rows == first.rows
    with pytest.raises(BadParameter, match=r"simultaneous is True: this was answered before, with False"):
        opened(place).ask(MEAN, epsilon=1, simultaneous=True)


class Sly:
    """Bits that claim to be real."""

    tainted = False

    def words(self, n: int) -> Any:
        return np.zeros(n, np.uint64)


def test_a_ledger_takes_the_systems_bits_alone(place: Path) -> None:
    with pytest.raises(BadParameter, match="seeded"):
        opened(place).ask(MEAN, epsilon=1, bits=Sly())  # type: ignore[arg-type]
    assert spent(place) == 0
