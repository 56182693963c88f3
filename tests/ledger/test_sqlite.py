"""The store in a file: links, folders, other files, a disk that may not be written, limits on its size, clocks that jump."""

import ast
import gc
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest

import discreet.ledger
import discreet.ledger.sqlite
from discreet.errors import BadParameter, BudgetExceeded, LedgerUnavailable
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
from discreet.ledger.check import check_ledger
from discreet.ledger.owner_state import FileQuarantine
from discreet.ledger.sqlite import PAGE_BYTES, SqliteStore
from discreet.ledger.wal import LOG_BYTES, WriteAheadLog
from tests.ordinary_user import ordinary_user
from tests.support.small_ledger import debit_and_record, make_small_ledger


@pytest.mark.parametrize("nowhere", ["", ":memory:"])
def test_a_ledger_in_memory_is_refused(nowhere: str) -> None:
    with pytest.raises(BadParameter, match="ends with the process"):
        open_ledger(nowhere, create=True)


def test_a_ledger_that_is_missing_is_not_made_by_opening_it(folder: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="there is no ledger here"):
        open_ledger(folder / "l")
    assert not (folder / "l").exists()
    (folder / "empty").touch()
    for _ in range(2):
        with pytest.raises(LedgerUnavailable, match="this file is empty, so it holds no ledger"):
            open_ledger(folder / "empty")
    assert [each.name for each in folder.iterdir()] == ["empty"]
    assert (folder / "empty").stat().st_size == 0
    open_ledger(folder / "empty", create=True).close()  # a crash may leave one, in which nothing was opened yet
    assert open_ledger(folder / "empty").list_accounts() == ()


def test_other_files_and_folders(folder: Path) -> None:
    (folder / "text").write_text("no ledger at all, but long enough to be read as one\n" * 100)
    with pytest.raises(LedgerUnavailable, match="not a ledger"):
        open_ledger(folder / "text", create=True)
    with pytest.raises(LedgerUnavailable):
        open_ledger(folder, create=True)
    with pytest.raises(LedgerUnavailable):
        open_ledger(folder / "no folder" / "l", create=True)
    sqlite3.connect(folder / "other").execute("CREATE TABLE t (a)").connection.close()
    before = (folder / "other").read_bytes()
    with pytest.raises(LedgerUnavailable, match="this is a database of another program, not a ledger"):
        open_ledger(folder / "other")
    assert (folder / "other").read_bytes() == before, "the pragmas of a ledger would stay in it"


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("folder", Path.mkdir),
        ("named pipe", os.mkfifo),
        ("socket", make_socket),
        ("device", lambda path: path.symlink_to(os.devnull)),
    ],
)
@pytest.mark.parametrize("create", [False, True])
def test_what_is_no_file_is_called_by_its_name(folder: Path, kind: str, make: Callable[[Path], None], create: bool) -> None:
    """SQLite blames the disk, or waits for a named pipe."""
    make(folder / "l")
    message = f"this is a {kind}, not a regular file. Name the file of a ledger"
    with pytest.raises(LedgerUnavailable, match=message):
        open_ledger(folder / "l", create=create)
    with pytest.raises(LedgerUnavailable, match=f"this is a {kind}, not a regular file. Move it away"):
        FileQuarantine(folder / "l").check("people.csv")
    assert [each.name for each in folder.iterdir()] == ["l"]


def test_a_link_leads_to_the_ledger_itself(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real" / "l")
    make_small_ledger(folder / "link")
    debit_and_record(open_ledger(folder / "real" / "l"), 7)
    assert check_ledger(open_ledger(folder / "link")).accounts[1].debits == 4
    assert not list(folder.glob("link?*"))


@pytest.mark.parametrize("replace", [True, False])
def test_a_file_that_was_moved_is_not_written_to(folder: Path, replace: bool) -> None:
    """Debits in a file without a name would end with the process."""
    ledger = make_small_ledger(folder / "l")
    os.rename(folder / "l", folder / "elsewhere")
    if replace:
        make_small_ledger(folder / "other").close()
        os.rename(folder / "other", folder / "l")
    with pytest.raises(LedgerUnavailable, match="moved, removed or replaced"):
        debit_and_record(ledger, 50)


def test_a_disk_that_may_not_be_written(folder: Path) -> None:
    """As a user without rights: an administrator may write anywhere."""
    script = """
import os, sys
from fractions import Fraction
from discreet.ledger import open_ledger
from discreet.ledger.sql_store import LATEST_VERSION
from discreet.ledger.sqlite import SqliteStore
from discreet.ledger.chain import Ledger
from discreet.events import Claim, compose
from discreet.errors import LedgerUnavailable
import discreet.accounting.curve
event = compose(Claim(Fraction(1, 3), Fraction(0)))
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    open_ledger(sys.argv[1]).get_account("hr").reserve(event, measurement="m", id="q")
except LedgerUnavailable as failed:
    print(failed)
"""
    make_small_ledger(folder / "l").close()
    folder.chmod(0o555)
    (folder / "l").chmod(0o444)
    try:
        done = subprocess.run([sys.executable, "-c", script, str(folder / "l")], capture_output=True, text=True, check=False)
    finally:
        folder.chmod(0o755)
    assert "nothing is shown" in done.stdout, done.stderr
    assert "then ask again with the same id" in done.stdout


def test_what_keeps_a_ledger_from_being_written_is_named() -> None:
    """A log and an index that SQLite makes for a read-only ledger are read-only, and stay so when the ledger is not."""
    with ordinary_user(), TemporaryDirectory() as name:
        folder = Path(name)
        make_small_ledger(folder / "l").close()
        (folder / "l").chmod(0o444)
        reader = open_ledger(folder / "l")
        assert reader.get_account("hr").budget.remaining > 0
        (folder / "l").chmod(0o600)
        with pytest.raises(LedgerUnavailable, match=r"l-(shm|wal) may not be written, .*chmod u\+w \S*l-(shm|wal)"):
            debit_and_record(open_ledger(folder / "l"), 500)
        reader.close()
        for each in folder.iterdir():
            each.chmod(0o600)
        debit_and_record(open_ledger(folder / "l"), 500)
        open_ledger(folder / "l").close()
        gc.collect()
        folder.chmod(0o555)
        try:
            with pytest.raises(LedgerUnavailable, match="its folder may not be written, and SQLite makes files there"):
                open_ledger(folder / "l").list_accounts()
        finally:
            folder.chmod(0o700)


def test_a_limit_on_the_size_of_files_fails_closed(folder: Path) -> None:
    script = """
import resource, signal, sys
from fractions import Fraction
from discreet.ledger import open_ledger
from discreet.events import Claim, compose
ledger = open_ledger(sys.argv[1], create=True)
account = ledger.open_account("hr", 1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
event = compose(Claim(Fraction(1, 1000), Fraction(0)))
for i in range(1000):
    receipt = account.reserve(event, measurement=f"m{i}", id=f"q{i}")
    account.record(receipt, b"x" * 1000)
    print("shown", i, flush=True)
"""
    file = folder / "limited.ledger"
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=False)
    assert "discreet.errors.LedgerUnavailable" in done.stderr
    assert "nothing is shown" in done.stderr
    shown = len(done.stdout.split("\n")) - 1
    report = check_ledger(open_ledger(file))
    assert report.is_valid
    assert shown <= report.accounts[0].debits <= shown + 1


def list_bodies(location: Path) -> list[bytes]:
    ledger = make_small_ledger(location)
    debit_and_record(ledger, 5)
    with ledger.store.read_transaction() as transaction:
        return [stored.body for stored in transaction.iter_entries()]


def test_clocks_that_jump_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.ledger.store.uuid4", lambda: UUID(int=7))  # the identity of both
    steady = list_bodies(folder / "steady")
    jumps = iter([1e9, 0.0, 4e9, -1e6] * 1000)
    for clock in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, clock, lambda: next(jumps))
    assert list_bodies(folder / "jumping") == steady


def test_no_module_of_the_ledger_reads_a_clock() -> None:
    for file in Path(discreet.ledger.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if named and node.value.id in ("time", "datetime"):  # type: ignore[attr-defined]
                assert node.attr == "sleep", file  # type: ignore[attr-defined]
            assert not (isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime")), file


@pytest.mark.parametrize("create", [False, True])
def test_a_file_that_may_not_be_read_is_said_to_be_that(create: bool) -> None:
    with ordinary_user(), TemporaryDirectory() as folder:
        path = Path(folder, "hr.ledger")
        make_small_ledger(path).close()
        path.chmod(0)
        with pytest.raises(LedgerUnavailable, match=r"opened \(Permission denied\)\. Let its owner run this") as denied:
            open_ledger(path, create=create)
        assert "with the same id" not in str(denied.value)  # nothing was asked
        path.chmod(0o600)
        assert check_ledger(open_ledger(path)).is_valid


@pytest.mark.parametrize(("page_bytes", "is_few"), [(PAGE_BYTES, True), (2048, False), (4096, False)])
def test_a_debit_writes_few_bytes_to_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch, page_bytes: int, is_few: bool
) -> None:
    """Its commit waits for them. With larger pages they are more than 10,000."""
    monkeypatch.setattr(discreet.ledger.sqlite, "PAGE_BYTES", page_bytes)
    monkeypatch.setattr(WriteAheadLog, "extend", lambda log: None)  # so that the length is what SQLite wrote
    ledger = make_small_ledger(folder / "l")
    account, event = ledger.get_account("hr"), compose(Claim(Fraction(1, 10**6), Fraction(0)))
    account.reserve(event, measurement="first")
    log = folder / "l-wal"
    before = log.stat().st_size
    for i in range(50):
        account.reserve(event, measurement=f"m{i}")
    assert ((log.stat().st_size - before) / 50 < 6_000) is is_few


def test_a_file_keeps_its_pages_and_its_log_the_same_length(folder: Path) -> None:
    for size in (4096, 2048, 512):
        with closing(sqlite3.connect(folder / f"{size}")) as made:
            made.execute(f"PRAGMA page_size={size}")
            made.execute("CREATE TABLE other (a)")
        ledger = open_ledger(folder / f"{size}", create=True)
        assert isinstance(ledger.store, SqliteStore)
        connection = ledger.store._connection
        assert connection is not None
        pragmas = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "wal_autocheckpoint")]
        assert pragmas == [size, LOG_BYTES // size]


OPEN_AND_CLOSE = """
import sys
from discreet.ledger import open_ledger
with open_ledger(sys.argv[1]) as ledger:
    ledger.get_account("hr")
"""


def let_another_process_open_and_close(file: Path) -> None:
    subprocess.run([sys.executable, "-c", OPEN_AND_CLOSE, str(file)], check=True)


def spend_beside_others(file: Path) -> Fraction:
    """What another connection sees of three debits of 1, paid after this process made the ledger a second time and another
    process opened and closed it."""
    account = open_ledger(file, create=True).open_account("hr", epsilon=10)
    account.pay(compose(Claim(Fraction(1), Fraction(0))))
    open_ledger(file, create=True)
    let_another_process_open_and_close(file)
    for _ in range(2):
        account.pay(compose(Claim(Fraction(1), Fraction(0))))
    seen = subprocess.run(
        [sys.executable, "-c", OPEN_AND_CLOSE + "    print(ledger.get_account('hr').budget.spent)", str(file)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return Fraction(seen.stdout)


def test_a_ledger_that_is_made_again_keeps_its_locks(folder: Path) -> None:
    """POSIX takes all locks of a process off a file of which it closes any handle."""
    assert spend_beside_others(folder / "hr.ledger") == 3


def test_a_log_that_was_removed_takes_no_debit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locks are lost, as by `create_file` if it opened the file, or by whatever reads the file in this process."""
    file = folder / "hr.ledger"
    monkeypatch.setattr("discreet.ledger.sqlite.create_file", lambda path: path.open("ab").close())
    with pytest.raises(LedgerUnavailable, match=r"hr\.ledger-wal was moved, removed or replaced"):
        spend_beside_others(file)
    account = open_ledger(file).get_account("hr")
    assert account.budget.spent == 1
    account.pay(compose(Claim(Fraction(1), Fraction(0))))
    let_another_process_open_and_close(file)
    assert open_ledger(file).get_account("hr").budget.spent == 2


def test_a_removed_log_that_goes_unnoticed_loses_debits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant of both."""
    monkeypatch.setattr("discreet.ledger.sqlite.create_file", lambda path: path.open("ab").close())
    monkeypatch.setattr(WriteAheadLog, "find_lost", lambda log: None)
    assert spend_beside_others(folder / "hr.ledger") == 1


DEBITS = """
import os, sys
from fractions import Fraction
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
account = open_ledger(sys.argv[1]).get_account("hr")
for _ in range(4):
    account.pay(compose(Claim(Fraction(1), Fraction(0))))
os._exit(0)
"""


def spend_without_the_index(file: Path) -> tuple[Fraction, Fraction]:
    """Debits of 1 out of 10: as many as were acknowledged, and what the file says, where the index of the log was removed
    between this process's first three and four of another process."""
    account, acknowledged = open_ledger(file, create=True).open_account("hr", epsilon=10), Fraction(0)
    for i in range(12):
        if i == 3:
            file.with_name(f"{file.name}-shm").unlink()
            subprocess.run([sys.executable, "-c", DEBITS, str(file)], check=True)
            acknowledged += 4
        try:
            account.pay(compose(Claim(Fraction(1), Fraction(0))))
            acknowledged += 1
        except (LedgerUnavailable, BudgetExceeded):
            continue
    open_ledger(file).close()
    del account
    gc.collect()
    seen = subprocess.run(
        [sys.executable, "-c", OPEN_AND_CLOSE + "    print(ledger.get_account('hr').budget.spent)", str(file)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return acknowledged, Fraction(seen.stdout)


def test_a_ledger_whose_index_was_removed_loses_no_debit(folder: Path) -> None:
    assert spend_without_the_index(folder / "hr.ledger") == (10, 10)


@pytest.mark.parametrize(("name", "value"), [("find_lost", lambda log: None), ("keep", lambda log: None)])
def test_an_index_that_was_removed_unnoticed_loses_debits(
    name: str, value: object, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutants: nobody looks for it, or the log is removed with the connection that has the old one."""
    monkeypatch.setattr(WriteAheadLog, name, value)
    acknowledged, seen = spend_without_the_index(folder / "hr.ledger")
    assert acknowledged > seen


def move_log(file: Path) -> None:
    file.with_name(f"{file.name}-wal").rename(file.with_name("elsewhere"))


def link_and_remove_log(file: Path) -> None:
    """As by a backup of hard links."""
    log = file.with_name(f"{file.name}-wal")
    os.link(log, file.with_name("backup"))
    log.unlink()


def replace_file(file: Path) -> None:
    file.with_name("copy").write_bytes(file.read_bytes())
    file.with_name("copy").replace(file)


CHANGES = [
    lambda file: file.rename(file.with_name("moved")),
    lambda file: file.with_name(f"{file.name}-shm").unlink(),
    replace_file,
    move_log,
    link_and_remove_log,
]


def pay_while_files_change(file: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch) -> object:
    """A debit waits for another process, which releases the ledger after its files have changed."""
    account, execute = open_ledger(file, create=True).open_account("hr", epsilon=10), SqliteStore._execute_with_retry
    changes = [change]

    def wait(store: SqliteStore, statement: str) -> Any:
        if statement == "BEGIN IMMEDIATE" and changes:
            changes.pop()(file)
        return execute(store, statement)

    monkeypatch.setattr(SqliteStore, "_execute_with_retry", wait)
    account.pay(compose(Claim(Fraction(1), Fraction(0))))
    return account


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_change_while_a_debit_waits_take_none(
    change: Callable[[Path], object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LedgerUnavailable, match=r"(the file|l-wal|l-shm) was moved, removed or replaced"):
        pay_while_files_change(folder / "l", change, monkeypatch)


def test_a_log_that_moves_unnoticed_while_a_debit_waits_loses_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: files are looked at before the wait only."""
    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "_require_same_files", lambda store: None)
        account = pay_while_files_change(folder / "l", move_log, patched)
    script = OPEN_AND_CLOSE + "    print(ledger.get_account('hr').budget.spent)"
    seen = subprocess.run([sys.executable, "-c", script, str(folder / "l")], capture_output=True, check=False)
    assert seen.returncode != 0, "the account is in the log alone"
    assert account is not None


WAITING_FORK = """
import os, sys, threading, time
from fractions import Fraction
from discreet.events import Claim, compose
from discreet.ledger import open_ledger
event = compose(Claim(Fraction(1, 100), Fraction(0)))
ledger = open_ledger(sys.argv[1] + "/a", create=True)
account = ledger.open_account("hr", epsilon=1)
open_ledger(sys.argv[1] + "/b", create=True).open_account("hr", epsilon=1).store.close()
is_held = threading.Event()

def hold(store, seconds):
    with store.write_transaction():
        is_held.set()
        time.sleep(seconds)

def open_meanwhile():
    time.sleep(0.3)
    hold(open_ledger(sys.argv[1] + "/b").store, 0.7)

def debit(name):
    os._exit(open_ledger(sys.argv[1] + "/" + name).get_account("hr").reserve(event, measurement="child").entry - 2)

def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

threading.Thread(target=hold, args=(ledger.store, 0.6)).start()
is_held.wait()
"""
INTERRUPTED_FORK = (
    WAITING_FORK
    + """
import signal
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    child = os.fork() or debit("a")
    code = wait(child)
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted", code, account.reserve(event, measurement="parent").entry)
print(wait(os.fork() or os._exit(0)))
"""
)
FORK_BESIDE_AN_OPENING = (
    WAITING_FORK
    + """
opening = threading.Thread(target=open_meanwhile)
opening.start()
child = os.fork() or debit("b")
opening.join()
print(wait(child))
"""
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize(
    ("script", "printed"), [(INTERRUPTED_FORK, ["interrupted 0 3", "0"]), (FORK_BESIDE_AN_OPENING, ["0"])]
)
def test_a_fork_waits_for_every_ledger_whatever_comes_meanwhile(script: str, printed: list[str], folder: Path) -> None:
    """Ctrl-C is not lost, and comes after the fork. A ledger that another thread opens meanwhile is waited for, too."""
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == printed, done.stderr


def test_a_ledger_with_two_names_is_refused(folder: Path) -> None:
    """The log stands beside one name: debits by the other are not seen."""
    make_small_ledger(folder / "hr.ledger")
    os.link(folder / "hr.ledger", folder / "other")
    for name in ("hr.ledger", "other"):
        with pytest.raises(LedgerUnavailable, match=r"the file has 2 names \(hard links\)"):
            open_ledger(folder / name)
    (folder / "other").rename(folder / ".discreet-0123456789abcdef")  # as a process that was killed leaves it
    assert check_ledger(open_ledger(folder / "hr.ledger")).is_valid
    assert [each.name for each in folder.glob(".discreet*")] == []


class FailingConnection:
    """A connection whose next COMMIT fails, as by a sync that the disk refuses."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, statement: str, *values: Any) -> Any:
        if statement == "COMMIT":
            self.connection.execute("ROLLBACK")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return self.connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


@pytest.mark.parametrize("is_settled", [True, False])
def test_after_a_disk_failed_the_log_begins_anew(is_settled: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system holds for written may not be on the disk, so no later entry leans on it: the file alone, without its
    log, has all entries before the next one. Without the step, which is the mutant, it has not."""
    if not is_settled:
        monkeypatch.setattr(SqliteStore, "_settle_log", lambda store: None)
    file = folder / "hr.ledger"
    account = open_ledger(file, create=True).open_account("hr", epsilon=10)
    beside = sqlite3.connect(file)  # so that the log is not removed when the connection that failed is closed
    beside.execute("SELECT COUNT(*) FROM discreet_entries").fetchone()
    event, store = compose(Claim(Fraction(1), Fraction(0))), account.store
    account.pay(event)
    assert isinstance(store, SqliteStore)
    store._connection = FailingConnection(store._connection)  # type: ignore[assignment,arg-type]
    with pytest.raises(LedgerUnavailable, match="the disk failed"):
        account.pay(event)
    account.pay(event)
    (folder / "alone").write_bytes(file.read_bytes())
    with closing(sqlite3.connect(folder / "alone")) as alone:
        alone.execute("PRAGMA journal_mode=DELETE")
        tables = [name for (name,) in alone.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = alone.execute("SELECT COUNT(*) FROM discreet_entries").fetchone()[0] if "discreet_entries" in tables else 0
    assert (kept == 2) == is_settled
    assert account.budget.spent == 2
