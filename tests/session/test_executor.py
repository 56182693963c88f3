"""The executor when something fails between the debit and the answer."""

from dataclasses import replace
from typing import Any

import pytest

from discreet.errors import EngineFailed, LedgerUnavailable, SourceQuarantined
from discreet.ledger.quarantine import FailureKind, MemoryQuarantine
from discreet.session.session import Session
from tests.support.people import BY_DEPARTMENT, people, session


class FullDisk(MemoryQuarantine):
    """A quarantine that can be read and not written."""

    def record_failure(self, source: str, kind: FailureKind) -> None:
        raise LedgerUnavailable("sources.ledger", "the disk is full", "make room")


def failing_session(quarantine: Any) -> Session:
    """A session whose queries fail in the engine, on a table that is gone."""
    found: Any = replace(session(epsilon=1, source=people()), quarantine=quarantine)
    found.engine.connection.execute("DROP TABLE people")
    return found  # type: ignore[no-any-return]


def test_a_failure_that_cannot_be_recorded_looks_like_any_other_and_closes_the_source() -> None:
    """Otherwise each such failure would be one more bit about the rows."""
    messages = []
    for quarantine in (MemoryQuarantine(), FullDisk()):
        failing = failing_session(quarantine)
        with pytest.raises(EngineFailed) as failed:
            failing.ask(BY_DEPARTMENT, epsilon=0.25)
        messages.append(str(failed.value))
        with pytest.raises(SourceQuarantined):
            failing.ask("SELECT COUNT(*) AS n FROM people", epsilon=0.25)
        assert float(failing.account.budget.remaining) == 0.75
    assert messages[0] == messages[1]
