"""A worker says that it is there, whatever else fails: who is not heard counts as gone."""

import time
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import LedgerUnavailable
from discreet.serve.worker.worker import WorkerSettings
from tests.support.served_tables import configure, start_service, write_table

LEASE = 0.9


@pytest.mark.parametrize("error", [OSError("no space left"), LedgerUnavailable("ledger", "it is locked", "try again")])
def test_slots_are_renewed_whatever_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A lease and the mark of the ledger cannot be renewed for a while. The mutant in which one of them ends the round, or
    the thread, is gone for the web process after one lease: "No worker of the service is running"."""
    write_table(tmp_path / "data")
    settings = WorkerSettings(slots=2, lease_seconds=LEASE, idle_seconds=0.2, drain_seconds=0.1)
    with start_service(configure(tmp_path / "data", classes=(5.0, 9.0)), "ada", settings=settings) as service:
        ask = service.ask()
        while not service.worker.jobs.leased:
            time.sleep(0.01)
        failed = list[str]()

        def fail(name: str) -> Any:
            def renew(*_: Any) -> None:
                failed.append(name)
                raise error

            return renew

        with monkeypatch.context() as patch:
            patch.setattr(service.control, "renew", fail("lease"))
            patch.setattr(service.worker.tables, "renew_serving", fail("ledger"))
            end = service.clock.now() + 2 * LEASE
            while service.clock.now() < end:
                assert service.control.count_slots() == 2
                time.sleep(0.05)
        assert {*failed} == {"lease", "ledger"}
        assert len(failed) > 2 * 2 * 3  # what failed was tried more often than once in a third of a lease
        assert service.find(ask).state.value == "running"
