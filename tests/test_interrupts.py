"""Ctrl-C while DuckDB runs a statement is a KeyboardInterrupt, wherever the statement runs."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pytest

from discreet import prepare
from discreet.auditor import sampling
from discreet.auditor.parse_output import NO_OUTPUT, FailedCall
from discreet.engines.duckdb import connection as connections
from discreet.engines.duckdb.connection import list_tables, open_database
from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import raise_interrupts
from discreet.session import preparing
from discreet.session.options import SourceOptions
from discreet.session.source import open_source
from tests.support import console

LONG = "SELECT count(*) FROM range(3000000000) t(i) WHERE hash(i) % 7 = 3"


def test_duckdb_drops_what_a_handler_raises() -> None:
    """The reason for the translation. If DuckDB raises KeyboardInterrupt one day, it can go."""

    def stop(*given: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with duckdb.connect(config={"threads": 1}) as connection:  # so that this thread runs the statement
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(RuntimeError, match=r"^Query interrupted$"):
                connection.execute(LONG)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt), raise_interrupts():
                connection.execute(LONG)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="another"), raise_interrupts():
        raise RuntimeError("another")


class Interrupted:
    """A connection whose `after`-th statement is interrupted, as DuckDB reports it."""

    def __init__(self, inner: duckdb.DuckDBPyConnection, after: int) -> None:
        self.inner, self.remaining = inner, after

    def __getattr__(self, name: str) -> Any:
        if name not in ("execute", "sql", "fetchmany", "fetchall", "fetchone"):
            return getattr(self.inner, name)

        def run(*given: Any) -> Any:
            self.remaining -= 1
            if self.remaining < 0:
                raise RuntimeError("Query interrupted")
            found = getattr(self.inner, name)(*given)
            return self if found is self.inner else found

        return run

    def __enter__(self) -> "Interrupted":
        return self

    def __exit__(self, *given: Any) -> None:
        self.inner.close()


REAL = connections._open_without_display


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let every connection that is opened from now on be interrupted."""

    def open_interrupted(*given: Any, **more: Any) -> Interrupted:
        return Interrupted(REAL(*given, **more), after)

    monkeypatch.setattr(connections, "_open_without_display", open_interrupted)


def write_people(folder: Path) -> dict[str, Any]:
    """Sources of every kind that DuckDB opens."""
    frame = pandas.DataFrame({"id": [1, 2, 3], "dept": ["a", "b", "a"], "pay": [1, 2, 3]})
    frame.to_csv(folder / "people.csv", index=False)
    frame.to_json(folder / "people.jsonl", orient="records", lines=True)
    frame.to_parquet(folder / "people.parquet")
    prepare(folder / "people.csv", unit="id", output=folder / "people.duckdb")
    return {each: folder / f"people.{each}" for each in ("csv", "jsonl", "parquet", "duckdb")} | {"frame": frame}


def test_every_statement_of_every_source_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt the first statement, the second, and so on, until a run has none left: each time KeyboardInterrupt comes."""
    sources = write_people(tmp_path)

    def run(source: Any) -> None:
        opened = open_source(SourceOptions(source=source, unit="id", table="people", public={"depts": sources["csv"]}))
        opened.validate()
        engine = opened.engine
        assert isinstance(engine, DuckDB)
        assert list(engine._execute("SELECT 1"))
        assert list(engine._execute_blocks("SELECT 1::BIGINT, 2::BIGINT", 1))
        engine.run_statement("CREATE TEMP TABLE found AS SELECT 1 AS one")

    interrupted = 0
    for name, source in sources.items():
        for after in range(200):
            interrupt(monkeypatch, after)
            try:
                run(source)
            except KeyboardInterrupt:
                interrupted += 1
                continue
            assert after > 5, name
            break
        else:
            raise AssertionError("no run ended")
    assert interrupted > 50


def test_lists_of_tables_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_people(tmp_path)
    calls: tuple[Callable[[str], Any], ...] = (open_database, list_tables)
    for call in calls:
        interrupt(monkeypatch, 0)
        with pytest.raises(KeyboardInterrupt):
            call(str(tmp_path / "people.duckdb"))


def test_an_audited_function_is_timed_out_while_duckdb_runs() -> None:
    """The alarm of the auditor is dropped too; it is no interrupt of the user."""

    def slow(data: Any) -> int:
        with duckdb.connect(config={"threads": 1}) as connection, raise_interrupts():
            connection.execute(LONG)
        return 1

    with sampling._open_timer() as set_timer:
        found = sampling.call_once(slow, None, set_timer, 0.1)
        assert isinstance(found, FailedCall)
        assert found.name.startswith(NO_OUTPUT)

        def interrupted(data: Any) -> int:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sampling.call_once(interrupted, None, set_timer, 5)


def test_an_interrupted_command_says_that_nothing_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.csv").write_text("id,dept\n1,a\n2,b\n", encoding="utf-8")
    for after in range(200):
        interrupt(monkeypatch, after)
        done = console.run("prepare", tmp_path / "people.csv", "--unit", "id")
        if done.returncode == 0:
            break
        assert (done.returncode, done.stdout) == (130, "")
        assert done.stderr == "discreet: Interrupted. Nothing was written.\n"
        assert [each.name for each in tmp_path.iterdir()] == ["people.csv"]
    assert after > 20


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_leaves_nothing_either(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people.csv").write_text("id,dept\n1,a\n2,b\n", encoding="utf-8")
    written = preparing._write

    def end(*given: Any) -> None:
        assert len(list(tmp_path.iterdir())) == 2
        signal.raise_signal(number)
        written(*given)

    monkeypatch.setattr(preparing, "_write", end)
    done = console.run("prepare", tmp_path / "people.csv", "--unit", "id")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "discreet: Interrupted. Nothing was written.\n")
    assert [each.name for each in tmp_path.iterdir()] == ["people.csv"]
    assert signal.getsignal(number) is signal.SIG_DFL
    signal.signal(number, signal.SIG_IGN)  # as nohup does
    try:
        assert console.run("prepare", tmp_path / "people.csv", "--unit", "id").returncode == 0
    finally:
        signal.signal(number, signal.SIG_DFL)


def test_an_interrupted_query_ends_with_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.csv").write_text("id,dept\n1,a\n2,b\n", encoding="utf-8")
    asking = "ask", tmp_path / "people.csv", "SELECT COUNT(*) AS n FROM people", "--unit", "id", "--epsilon", "1", "--json"
    for after in range(200):
        interrupt(monkeypatch, after)
        done = console.run(*asking)
        if done.returncode == 0:
            break
        assert (done.returncode, done.stdout) == (130, "")
    assert after > 10
