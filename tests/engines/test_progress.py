"""Progress is reported while a statement runs, and a callback that fails does not fail the query."""

import threading
from pathlib import Path

import pytest

from discreet.engines.duckdb.engine import DuckDB
from discreet.session.executor import report_progress
from tests.support.people import BY_DEPARTMENT, people, session

WAIT_SECONDS = 60


class HalfDone:
    """An engine that is always half done, and at every other call does not know."""

    def __init__(self) -> None:
        self.looks = 0

    def progress(self) -> float | None:
        self.looks += 1
        return None if self.looks % 2 else 0.5


def test_progress_is_reported_from_another_thread_until_the_end() -> None:
    reported: list[tuple[float, int]] = []
    enough = threading.Event()

    def listen(share: float) -> None:
        reported.append((share, threading.get_ident()))
        if len(reported) == 3:
            enough.set()

    engine = HalfDone()
    with report_progress(engine, listen, every=0.001):
        assert enough.wait(WAIT_SECONDS)
    looks = engine.looks
    assert {share for share, _ in reported} == {0.5}
    assert threading.get_ident() not in {thread for _, thread in reported}
    with report_progress(engine, None):
        pass
    assert engine.looks == looks


def test_a_callback_that_raises_is_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    failed = threading.Event()

    def listen(share: float) -> None:
        failed.set()
        raise RuntimeError("full")

    with report_progress(HalfDone(), listen, every=0.001):
        assert failed.wait(WAIT_SECONDS)
    assert "progress callback" in caplog.text


def test_the_engine_counts_and_does_not_print(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    people().execute(f"COPY people TO '{tmp_path}/people.parquet'")
    engine = DuckDB.open(tmp_path / "people.parquet")
    settings = "SELECT current_setting('enable_progress_bar'), current_setting('enable_progress_bar_print')"
    assert engine.connection.execute(settings).fetchall() == [(True, False)]
    share = engine.progress()
    assert share is None or 0 <= share <= 1
    assert not session().engine.progress()  # a connection of the user's stays as it is
    assert len(session().ask(BY_DEPARTMENT, epsilon=1, progress=lambda share: None)) == 3
    assert capfd.readouterr() == ("", "")
