"""A question that is paid from a ledger in a file, cut off half-way, and asked again with the same id."""

import logging
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet import EngineFailed, connect
from discreet.ledger import open_ledger
from discreet.session.session import Session

DECLARED: dict[str, Any] = {"unit": "id", "keys": {"dept": ("a", "b")}, "unique": True, "bounds": {"pay": (0, 100)}}
QUESTION = "SELECT dept, COUNT(*) AS n FROM {} GROUP BY dept"
COUNTS = {"a": 300, "b": 600}
"""Of 900 people, every third in department a."""


class Ledger:
    """One account in one file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hr.ledger"
        with open_ledger(self.path, create=True) as made:
            made.open_account("hr", 10**6)

    def session(self, source: Any, **more: Any) -> Session:
        return connect(source, ledger=self.path, account="hr", **(DECLARED | more))

    @property
    def kinds(self) -> list[str]:
        """What is written in it."""
        with open_ledger(self.path) as opened:
            return [type(entry).__name__ for entry in opened.iter_entries()]

    @property
    def spent(self) -> Fraction:
        with open_ledger(self.path) as opened:
            return opened.get_account("hr").budget.spent

    def fails(self, session: Session, caplog: pytest.LogCaptureFixture, **more: Any) -> None:
        """Paid, no answer, one constant message; the owner is told why."""
        before, paid = self.kinds, self.spent
        caplog.clear()
        with (
            caplog.at_level(logging.WARNING, "discreet.owner"),
            pytest.raises(EngineFailed, match="after the budget was charged") as failure,
        ):
            asked(session, **more)
        assert str(failure.value) == str(EngineFailed())
        assert failure.value.__suppress_context__
        assert caplog.messages
        recorded = ["FailureRecorded"] if session.engine.lasting else []  # else the failure is kept in memory
        assert self.kinds == [*before, "Debit", *recorded]
        assert self.spent > paid

    def is_answered(self, session: Session) -> None:
        """Under the debit that stands, and a third time from the record."""
        before, paid = self.kinds, self.spent
        assert asked(session) == COUNTS
        assert self.kinds == [*before, "AnswerRecorded"]
        assert asked(session) == COUNTS
        assert self.kinds == [*before, "AnswerRecorded"]
        assert self.spent == paid


def asked(session: Session, id: str | None = "monday", **more: Any) -> dict[Any, int]:
    """The counts, nearly without noise."""
    answer = session.ask(QUESTION.format(session.table.name), epsilon=1000, id=id, **more)
    return {keys[0]: int(row[0].value) for keys, row in answer.rows}
