"""A query that is charged to a ledger in a file, fails half-way, and is retried with the same id."""

import logging
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet import EngineFailed, connect
from discreet.ledger import open_ledger
from discreet.session.session import Session

DECLARED: dict[str, Any] = {"unit": "id", "keys": {"dept": ("a", "b")}, "unique": True, "bounds": {"pay": (0, 100)}}
QUERY = "SELECT dept, COUNT(*) AS n FROM {} GROUP BY dept"
COUNTS = {"a": 300, "b": 600}
"""The counts of 900 people, of which every third is in department a."""


class FileLedger:
    """A ledger in a file, with one account."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hr.ledger"
        with open_ledger(self.path, create=True) as made:
            made.open_account("hr", 10**6)

    def session(self, source: Any, **more: Any) -> Session:
        """Open a session that is charged to the account."""
        return connect(source, ledger=self.path, account="hr", **(DECLARED | more))

    @property
    def kinds(self) -> list[str]:
        """The kinds of its entries, in their order."""
        with open_ledger(self.path) as opened:
            return [type(entry).__name__ for entry in opened.iter_entries()]

    @property
    def spent(self) -> Fraction:
        """What the account has spent."""
        with open_ledger(self.path) as opened:
            return opened.get_account("hr").budget.spent

    def check_failure(self, session: Session, caplog: pytest.LogCaptureFixture, **more: Any) -> None:
        """Check that a query fails after it was charged: with one constant message, and its reason in the owner's log."""
        before, spent = self.kinds, self.spent
        caplog.clear()
        with (
            caplog.at_level(logging.WARNING, "discreet.owner"),
            pytest.raises(EngineFailed, match="after the budget was charged") as failure,
        ):
            count_by_dept(session, **more)
        assert str(failure.value) == str(EngineFailed())
        assert failure.value.__suppress_context__
        assert caplog.messages
        recorded = ["FailureRecorded"] if session.engine.lasting else []  # else the failure is kept in memory
        assert self.kinds == [*before, "Debit", *recorded]
        assert self.spent > spent

    def check_retry(self, session: Session) -> None:
        """Check that a retry is answered under the same debit, and a third call from the record."""
        before, spent = self.kinds, self.spent
        assert count_by_dept(session) == COUNTS
        assert self.kinds == [*before, "AnswerRecorded"]
        assert count_by_dept(session) == COUNTS
        assert self.kinds == [*before, "AnswerRecorded"]
        assert self.spent == spent


def count_by_dept(session: Session, id: str | None = "monday", **more: Any) -> dict[Any, int]:
    """Return the counts by department, almost without noise."""
    answer = session.ask(QUERY.format(session.table.name), epsilon=1000, id=id, **more)
    return {keys[0]: int(row[0].value) for keys, row in answer.rows}
