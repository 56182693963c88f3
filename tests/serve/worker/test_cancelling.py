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
from tests.support.hand_clock import PATIENCE, at, wait_until
from tests.support.postgres_server import Server, cluster_address, postgres
from tests.support.served_tables import configure, start_by_hand, write_table

__all__ = ["cluster_address", "postgres"]

ENDLESS = "SELECT SUM(hash(a.range + b.range)) FROM range(10000000) a, range(10000000) b"


def run_for_ever(engine: Any, begun: list[float] | None = None, clock: Any = None) -> Any:
    """Return a run that reads on and on, and notes when it begins."""

    def run(original: Any, bounded: Any) -> Any:
        if begun is not None:
            begun.append(clock.now())
        for _ in engine._execute(ENDLESS):
            pass
        return original(bounded)

    return run


def test_a_late_statement_is_cancelled_and_its_slot_is_free(tmp_path: Path) -> None:
    """The mutant without `cancel` runs on: the second ask, on the same slot, never ends."""
    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data", classes=(2.0, 3.5)), "ada", "bob", slots=1) as service:
        engine: Any = service.worker.tables._tables["people"].source.engine
        original, begun = engine.run, list[float]()
        endless = run_for_ever(engine, begun, service.clock)

        def run(original: Any, bounded: Any) -> Any:
            try:
                return endless(original, bounded)
            finally:  # it takes a moment to end
                wait_until(lambda: service.clock.now() > ask.accepted_at + 3.5)

        service.change_engine(run)
        ask = service.ask("ada")
        wait_until(lambda: begun)
        service.set_time(ask.accepted_at + 3.49)
        assert service.find(ask).state is AskState.RUNNING
        service.set_time(ask.accepted_at + 3.5)
        failed = service.find(ask)
        assert failed.state is AskState.FAILED
        assert failed.answered_at == at(ask.accepted_at + 3.5)
        assert failed.problem is not None
        assert failed.problem["detail"] == str(EngineFailed())
        engine.run = original
        service.set_time(ask.accepted_at + 3.6)
        second = service.ask("bob", epsilon="0.02")
        service.wait_until_ready(second, ask)
        assert not service.list_entries(FailureRecorded)
        service.set_time(ask.accepted_at + 6.99)  # the head of the ledger does not tell when the statement ended
        assert not service.list_entries(FailureRecorded)
        service.set_time(ask.accepted_at + 7.0)
        assert len(service.list_entries(FailureRecorded)) == 1
        ended = service.find(second)
        assert ended.state is AskState.ANSWERED
        assert ended.overruns == 0


def test_what_waited_too_long_for_the_engine_reads_no_row(tmp_path: Path) -> None:
    """Three asks, of which the first has the engine until its last class. The others have a moment left then, and must not
    begin: each would be a failure of the source, and the third closes it for everybody. The mutant without `may_start`
    begins them."""
    write_table(tmp_path / "data")
    with start_by_hand(configure(tmp_path / "data", classes=(2.0, 5.0)), "ada", "bob", slots=3) as service:
        engine: Any = service.worker.tables._tables["people"].source.engine
        begun, original = list[float](), engine.run
        service.change_engine(run_for_ever(engine, begun, service.clock))
        asks = [service.ask("ada", epsilon="0.02")]
        wait_until(lambda: begun)
        service.set_time(service.clock.now() + 0.1)
        asks += service.ask_at_once(*(service.make_ask("ada", epsilon=f"0.02{i}") for i in range(1, 3)))
        wait_until(lambda: len(service.list_entries(Debit)) == 3)
        service.set_time(asks[0].accepted_at + 5.0)
        wait_until(lambda: len(service.starts) == 3 or len(begun) > 1)
        assert service.starts == [True, False, False]
        service.set_time(asks[1].accepted_at + 5.0)
        ended = [service.find(each) for each in asks]
        assert [each.state for each in ended] == [AskState.FAILED] * 3
        assert [each.problem for each in ended] == [ended[0].problem] * 3
        assert [each.answered_at for each in ended] == at([each.accepted_at + 5.0 for each in asks])
        engine.run = original
        assert service.wait(service.ask("bob", epsilon="0.04")).state is AskState.ANSWERED
        assert len(begun) == 1
        assert len(service.list_entries(Debit)) == 4  # each stays charged
        service.set_time(asks[0].accepted_at + 10.0)
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
            leave.wait(PATIENCE)

    thread = threading.Thread(target=run)
    thread.start()
    assert entered.wait(PATIENCE)
    assert not waits.cancel()
    assert engine.cancelled == 0
    with waits.allow(), pytest.raises(NotStarted), watch_cancellation(engine):
        raise AssertionError("it was cancelled before")
    assert runs.cancel()
    assert engine.cancelled == 1
    leave.set()
    thread.join(PATIENCE)
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
    deadline = time.monotonic() + PATIENCE
    while thread.is_alive():
        assert time.monotonic() < deadline
        engine.cancel()
        thread.join(0.1)
    assert [type(each) for each in failures] == [OutOfResources]
    engine.cancel()  # nothing runs
    assert list(engine._execute("SELECT 1")) == [(1,)]
