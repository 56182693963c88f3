"""The store in a file: links, folders, other files, a disk that may not be written, limits on its size, clocks that jump."""

import ast
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
from uuid import UUID

import pytest

import discreet.ledger
import discreet.ledger.sqlite
from discreet.errors import BadParameter, LedgerUnavailable
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
    with pytest.raises(LedgerUnavailable, match="its write-ahead log was removed"):
        spend_beside_others(file)
    account = open_ledger(file).get_account("hr")
    assert account.budget.spent == 1
    account.pay(compose(Claim(Fraction(1), Fraction(0))))
    let_another_process_open_and_close(file)
    assert open_ledger(file).get_account("hr").budget.spent == 2


def test_a_removed_log_that_goes_unnoticed_loses_debits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant of both."""
    monkeypatch.setattr("discreet.ledger.sqlite.create_file", lambda path: path.open("ab").close())
    monkeypatch.setattr(WriteAheadLog, "is_removed", False)
    assert spend_beside_others(folder / "hr.ledger") == 1
