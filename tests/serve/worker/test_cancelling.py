"""A statement that is late beyond its last class is ended, and its slot is free."""

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from discreet.engines.base import Cancellation, NotStarted, OutOfResources, watch_cancellation
from discreet.engines.duckdb.engine import DuckDB
from discreet.engines.postgres import Postgres
from discreet.errors import EngineFailed
from discreet.ledger.entries import Debit, FailureRecorded
from discreet.serve.control.model import AskState
from discreet.serve.worker.worker import WorkerSettings
from tests.support.postgres_server import Server, cluster_address, postgres
from tests.support.served_tables import configure, start_service, write_table

__all__ = ["cluster_address", "postgres"]

ENDLESS = "SELECT SUM(hash(a.range + b.range)) FROM range(10000000) a, range(10000000) b"
ONE_SLOT = WorkerSettings(slots=1, lease_seconds=3.0, idle_seconds=0.2, drain_seconds=2.0)


def run_for_ever(engine: Any) -> Any:
    """Return a run that reads on and on."""

    def run(original: Any, bounded: Any) -> Any:
        for _ in engine._execute(ENDLESS):
            pass
        return original(bounded)

    return run


def test_a_late_statement_is_cancelled_and_its_slot_is_free(tmp_path: Path) -> None:
    """The mutant without `cancel` runs on: the second ask, on the same slot, never ends."""
    write_table(tmp_path / "data")
    with start_service(configure(tmp_path / "data", classes=(2.0, 3.5)), "ada", "bob", settings=ONE_SLOT) as service:
        engine: Any = service.worker.tables._tables["people"].source.engine
        original = engine.run
        service.wait(service.ask("bob", epsilon="0.03"))  # the first ask of a process loads what later ones find
        service.change_engine(run_for_ever(engine))
        ask = service.ask("ada")
        failed = service.wait(ask)
        assert failed.state is AskState.FAILED
        assert failed.answered_at == pytest.approx(ask.accepted_at + 3.5, abs=1e-3)
        assert failed.problem is not None
        assert failed.problem["detail"] == str(EngineFailed())
        engine.run = original
        second = service.wait(service.ask("bob", epsilon="0.02"))
        assert second.state is AskState.ANSWERED
        assert second.overruns == 0
        while not service.list_entries(FailureRecorded):  # the head of the ledger does not tell when the statement ended
            assert service.clock.now() < failed.answered_at + 20
            time.sleep(0.01)
        assert service.clock.now() >= failed.answered_at + 3.5


def test_what_waited_too_long_for_the_engine_reads_no_row(tmp_path: Path) -> None:
    """Three asks, of which the first has the engine until its last class. The others have a moment left then, and must not
    begin: each would be a failure of the source, and the third closes it for everybody. The mutant without `may_start`
    begins them."""
    write_table(tmp_path / "data")
    settings = WorkerSettings(slots=3, lease_seconds=3.0, idle_seconds=0.2, drain_seconds=2.0)
    with start_service(configure(tmp_path / "data", classes=(2.0, 5.0)), "ada", "bob", settings=settings) as service:
        engine: Any = service.worker.tables._tables["people"].source.engine
        service.wait(service.ask("bob", epsilon="0.03"))
        begun, original = list[float](), engine.run
        endless = run_for_ever(engine)

        def run(original: Any, bounded: Any) -> Any:
            begun.append(service.clock.now())
            return endless(original, bounded)

        service.change_engine(run)
        asks = service.ask_at_once(*(service.make_ask("ada", epsilon=f"0.02{i}") for i in range(3)))
        ended = [service.wait(each) for each in asks]
        assert [each.state for each in ended] == [AskState.FAILED] * 3
        assert [each.problem for each in ended] == [ended[0].problem] * 3
        assert [each.answered_at for each in ended] == pytest.approx([each.accepted_at + 5.0 for each in asks], abs=1e-3)
        engine.run = original
        assert service.wait(service.ask("bob", epsilon="0.04")).state is AskState.ANSWERED
        assert len(begun) == 1
        assert len(service.list_entries(Debit)) == 5  # each stays charged
        while not service.list_entries(FailureRecorded):
            assert service.clock.now() < asks[0].accepted_at + 30
            time.sleep(0.01)
        assert len(service.list_entries(FailureRecorded)) == 1


def test_what_waits_for_the_connection_is_not_started_and_ends_no_other() -> None:
    """Two threads and one connection: cancelling the one that waits leaves the one that runs alone."""

    class Engine:
        cancelled = 0

        def cancel(self) -> None:
            self.cancelled += 1

    engine: Any = Engine()
    runs, waits = Cancellation(), Cancellation()
    entered, leave = threading.Event(), threading.Event()

    def run() -> None:
        with runs.allow(), watch_cancellation(engine):
            entered.set()
            leave.wait(5)

    thread = threading.Thread(target=run)
    thread.start()
    assert entered.wait(5)
    assert not waits.cancel()
    assert engine.cancelled == 0
    with waits.allow(), pytest.raises(NotStarted), watch_cancellation(engine):
        raise AssertionError("it was cancelled before")
    assert runs.cancel()
    assert engine.cancelled == 1
    leave.set()
    thread.join(5)
    assert not runs.cancel()
    assert engine.cancelled == 1
    with watch_cancellation(engine):  # nobody allowed it
        pass


def test_duckdb_ends_a_statement() -> None:
    check_engine(DuckDB.open(pa.table({"id": [1]}), "people"), ENDLESS)


def test_postgresql_ends_a_statement(postgres: Server) -> None:
    postgres.create_people(3)
    check_engine(
        Postgres.open(postgres.reader, "people"),
        "SELECT COUNT(*) FROM generate_series(1, 100000000) a, generate_series(1, 100000000) b",
    )


def check_engine(engine: Any, endless: str) -> None:
    """Check that a statement ends when another thread cancels it, that cancelling nothing does nothing, and that the engine
    goes on."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for _ in engine._execute(endless):
                pass
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while thread.is_alive():
        assert time.monotonic() < deadline
        engine.cancel()
        thread.join(0.1)
    assert [type(each) for each in failures] == [OutOfResources]
    engine.cancel()  # nothing runs
    assert list(engine._execute("SELECT 1")) == [(1,)]
