"""A worker says that it is there, whatever else fails: who is not heard counts as gone."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from discreet.errors import LedgerUnavailable
from tests.support.hand_clock import wait_until
from tests.support.served_tables import BY_HAND, configure, start_by_hand, write_table

ROUNDS = 8


class Rounds(Event):
    """Ends after some rounds, and notes for how long each would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once whether this is the end."""
        self.waits.append(timeout)
        return len(self.waits) > ROUNDS


@pytest.mark.parametrize("error", [OSError("no space left"), LedgerUnavailable("ledger", "it is locked", "try again")])
def test_slots_are_renewed_whatever_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A lease and the mark of the ledger cannot be renewed for a while. The mutant in which one of them ends the round, or
    the thread, is gone for the web process after one lease: "No worker of the service is running"."""
    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data"), "ada") as service:
        ask = service.ask()
        wait_until(lambda: service.worker.jobs.leased)
        done, rounds = list[str](), Rounds()

        def note(name: str, renew: Any = None) -> Any:
            def run(*given: Any) -> Any:
                done.append(name)
                if renew is None:
                    raise error
                return renew(*given)

            return run

        with monkeypatch.context() as patch:
            patch.setattr(service.control, "renew", note("lease"))
            patch.setattr(service.worker.tables, "renew_serving", note("ledger"))
            patch.setattr(service.control, "save_slots", note("slots", service.control.save_slots))
            patch.setattr(service.worker, "_stopped", rounds)
            service.worker._renew()
        assert [done.count(name) for name in ("slots", "ledger")] == [ROUNDS] * 2
        assert done.count("lease") >= ROUNDS
        assert service.control.count_slots() == 2
        lease = BY_HAND.lease_seconds
        assert rounds.waits[0] == lease / 3
        for seconds in rounds.waits[1:]:  # what failed is tried again sooner, and several times within a lease
            assert seconds is not None
            assert seconds <= lease / 10
        assert service.find(ask).state.value == "running"
