"""Sessions on one file share a database: whoever opens or closes what, and in which thread, each session keeps its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import duckdb
import pytest

from discreet import connect, prepare
from discreet.engines.duckdb import connection as opening
from discreet.engines.duckdb.connection import list_tables, open_database, visit_database
from discreet.engines.duckdb.engine import DuckDB
from discreet.errors import BadParameter

OPEN_FILES = Path("/proc/self/fd")
needs_a_list = pytest.mark.skipif(not OPEN_FILES.exists(), reason="the system does not list the open files of a process")
READ = "SELECT count(*) FROM people"
THREADS = 8


def make_database(path: Path, people: int = 7) -> Path:
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT range AS uid, 'a' AS dept FROM range({people})")
    return path


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(make_database(tmp_path / "people.duckdb"))


def count(connection: duckdb.DuckDBPyConnection) -> int:
    [[people]] = connection.execute(READ).fetchall()
    return int(people)


def is_open(path: str) -> bool:
    links = (os.readlink(each) for each in OPEN_FILES.iterdir() if each.is_symlink())
    return path in links


def in_threads(run: Callable[[], Any]) -> list[Any]:
    """Run a function in several threads at once, and return what each returns."""
    barrier = Barrier(THREADS)

    def begin() -> Any:
        barrier.wait()
        return run()

    with ThreadPoolExecutor(THREADS) as pool:
        return [each.result() for each in [pool.submit(begin) for _ in range(THREADS)]]


# -- settings --------------------------------------------------------------------------------------------------------------


def test_a_database_is_locked_before_anything_shares_it(path: str) -> None:
    """Two threads that lock shared settings would meet settings that the other has locked half-way."""
    with pytest.raises(duckdb.InvalidInputException, match="the configuration has been locked"):
        open_database(path).execute("SET allowed_paths = []")
    with visit_database(path) as connection, pytest.raises(duckdb.InvalidInputException):
        connection.execute("SET threads = 1")


def test_threads_open_one_file_at_once(tmp_path: Path) -> None:
    for i in range(25):
        path = make_database(tmp_path / f"{i}.duckdb")
        assert (
            in_threads(lambda path=path: DuckDB.open(path, "people").connection.execute(READ).fetchall())
            == [[(7,)]] * THREADS
        )


def test_the_first_session_counts_progress(path: str) -> None:
    [[counts]] = open_database(path).execute("SELECT current_setting('enable_progress_bar')").fetchall()
    assert counts is True


# -- closing ---------------------------------------------------------------------------------------------------------------


def test_a_session_reads_on_when_what_was_opened_before_it_is_closed(path: str) -> None:
    with open_database(path):
        during = open_database(path)
    with visit_database(path):
        later = open_database(path)
    first, second = open_database(path), open_database(path)
    first.close()
    assert [count(each) for each in (during, later, second)] == [7, 7, 7]
    del during, later, first
    assert count(second) == 7


def test_a_session_on_a_prepared_file_answers_after_a_look_at_the_file(tmp_path: Path) -> None:
    """As `prepare(…, force=True)` looks, in another thread, at the file that it is about to replace."""
    (tmp_path / "people.csv").write_text("id,dept\n" + "".join(f"{i},a\n" for i in range(50)))
    file = prepare(tmp_path / "people.csv", unit="id")
    with open_database(str(file)):
        session = connect(file, keys={"dept": ["a"]}, epsilon=1000)
    [row] = session.ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=100).to_dicts()
    assert row["n"]["value"] == 50


def test_threads_open_and_close_one_file_all_the_time(path: str) -> None:
    def look() -> list[int]:
        found = []
        for _ in range(25):
            with visit_database(path) as connection:
                found.append(count(connection))
            found.append(count(open_database(path)))
            assert list_tables(path) == ["people"]
        return found

    assert in_threads(look) == [[7] * 50] * THREADS
    assert not opening._OPENED


@needs_a_list
def test_a_file_is_open_as_long_as_a_session_is(path: str) -> None:
    first, second = open_database(path), open_database(path)
    del first
    assert is_open(path)
    del second
    assert not is_open(path)
    assert count(open_database(path)) == 7


@needs_a_list
def test_a_visit_ends_even_if_an_error_still_refers_to_its_connection(path: str) -> None:
    def fail() -> None:
        with visit_database(path) as connection:
            connection.execute("SELECT nothing")

    with pytest.raises(duckdb.Error) as kept:
        fail()
    assert kept.tb is not None
    assert not is_open(path)


@needs_a_list
def test_a_thread_that_holds_the_lock_closes_what_is_deleted_meanwhile(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [open_database(path)]
    other = str(make_database(Path(path).with_name("other.duckdb"), 3))
    identify = opening._identify_file

    def delete(path: str) -> tuple[str, int, int]:
        sessions.clear()
        return identify(path)

    monkeypatch.setattr(opening, "_identify_file", delete)
    assert count(open_database(other)) == 3
    assert not is_open(path)


def test_a_file_that_took_the_place_of_another_is_read_beside_it(path: str) -> None:
    before = open_database(path)
    os.replace(make_database(Path(path).with_name("next.duckdb"), 3), path)
    after, again = open_database(path), open_database(path)
    assert [count(each) for each in (before, after, again)] == [7, 3, 3]
    after.close()
    assert (count(before), count(again)) == (7, 3)


def test_the_folder_for_rows_goes_with_the_last_session(path: str) -> None:
    first, second = open_database(path), open_database(path)
    [[rows]] = first.execute("SELECT current_setting('temp_directory')").fetchall()
    del first
    assert Path(rows).parent.is_dir()
    del second
    assert not Path(rows).parent.exists()


# -- forks -----------------------------------------------------------------------------------------------------------------

FORK = """
import os, sys
from discreet.engines.duckdb.connection import open_database

parent = open_database(sys.argv[1])
child = os.fork()
if not child:
    if sys.argv[2] == "delete":
        del parent
    print(open_database(sys.argv[1]).execute("SELECT count(*) FROM people").fetchall(), flush=True)
    sys.exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, parent.execute("SELECT count(*) FROM people").fetchall())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("then", ["keep", "delete"])
def test_a_fork_opens_a_file_anew_and_ends(path: str, then: str) -> None:
    """DuckDB would wait for threads that the child does not have, if the child closed its parent's database."""
    ended = subprocess.run([sys.executable, "-c", FORK, path, then], capture_output=True, text=True, timeout=60)
    assert ended.stdout.splitlines() == ["[(7,)]", "0 [(7,)]"], ended.stderr


IN_MEMORY_FORK = """
import gc, os, sys
import pyarrow
from discreet import connect

source = {"source": sys.argv[2], "data": pyarrow.table({"id": list(range(9))})}[sys.argv[1]]
session = connect(source, unit="id", epsilon=9)
child = os.fork()
if not child:
    if sys.argv[3] == "delete":
        del session
    if sys.argv[3] == "open":
        connect(source, unit="id", epsilon=9).ask(f"SELECT COUNT(*) AS n FROM {sys.argv[1]}", epsilon=1)
    gc.collect()
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
session.ask(f"SELECT COUNT(*) AS n FROM {sys.argv[1]}", epsilon=1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("then", ["keep", "delete", "open"])
@pytest.mark.parametrize("table", ["source", "data"])
def test_a_fork_ends_that_has_a_database_in_memory(table: str, then: str, tmp_path: Path) -> None:
    """The same for files that are copied, and for frames, whose table is called data."""
    (tmp_path / "source.csv").write_text("id\n" + "\n".join(map(str, range(9))))
    arguments = [sys.executable, "-c", IN_MEMORY_FORK, table, str(tmp_path / "source.csv"), then]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "0\n"), ended.stderr


WRITER = """
import sys
import duckdb
try:
    duckdb.connect(sys.argv[1])
except duckdb.IOException:
    sys.exit(3)
"""


def test_no_session_takes_the_locks_of_another_off_its_file(path: str) -> None:
    """POSIX takes all locks of a process off a file of which it closes any handle."""
    sessions = [connect(path, table="people", unit="uid", epsilon=1) for _ in range(2)]
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", WRITER, path], check=False).returncode == 3
        with pytest.raises(BadParameter, match="not a prepared file"):
            prepare(write_csv(Path(path).parent), unit="id", output=path, force=True)
    assert len(sessions) == 2


def write_csv(folder: Path) -> Path:
    (folder / "others.csv").write_text("id\n1\n")
    return folder / "others.csv"
