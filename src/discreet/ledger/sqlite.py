"""The store in one SQLite file: for one machine, any number of processes and threads.

Write-ahead log, `synchronous=FULL` and immediate transactions: a commit is on the disk when it returns, and writers queue.
Every failure (a full disk, a failing one, a file that was replaced) is an error before anything is shown.

**Group commit.** Waiting for the disk takes longer than writing an entry, and so does handing a lock to another thread. So
the bodies of write transactions that threads bring to `transact` at the same time become one transaction of SQLite, a batch:
the thread that has the connection runs them one after the other, its own and those of the threads that wait, each sees what
those before it wrote, and it commits once for all. **Proof** that each is still a transaction of its own. *Durable when it
returns*: a thread leaves `transact` after the commit of its batch has returned, so nothing that follows it, above all no row
that is read, comes before the disk has its entry. *Undone if it fails*: a body that fails before it has written anything
leaves nothing to undo. One that fails later undoes the whole batch, and the other bodies run again without it, as if it had
never come; nothing was shown of their first run. So does one that fails in SQLite, be it by a value or a row of its own: if
the disk has failed, the others find out for themselves. *All or none*: if the commit fails, SQLite has written none of the
batch, and every member raises, also those whose bodies failed, since what they saw is undone. *Isolated*: the lock is held
from before a batch begins until after it has ended, so no other thread is shown what may yet be undone. *Interrupted*:
Ctrl-C may come between any two steps. The thread that has the connection then undoes the open batch, so that the file is
not left locked, and every member raises; so does one that was not told how its batch ended. The entry of a member that is
interrupted may be on the disk: a debit without an answer, which a retry continues. A member that is not woken looks for
itself after a while (`BATCH_WAIT_SECONDS`).

**What is remembered.** From one batch to the next the store remembers the end of the chain and the totals of the accounts
that it debited (`Memory`), and reads them again if another connection has committed anything since, which SQLite's
`data_version` says, or if this one has done anything but run such batches. The debits of a batch write their rows, their
totals and the counts of their events together, before the commit: until then they are remembered, and bodies see them. A
body that fails after it has changed what is remembered has written something, too. **Proof** that bodies see the rows: by
number, id or measurement a body finds what the table holds; whatever a row that is only remembered could add to that is
written first; and all else that reads entries writes all of them first.
"""

import errno
import os
import sqlite3
import threading
import time
import weakref
from _thread import interrupt_main
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any

from discreet.errors import PARAMETER_PAGES, BadParameter, DiscreetError, LedgerCorrupted, LedgerUnavailable
from discreet.ledger.sql_store import (
    LATEST_VERSION,
    Memory,
    RunStatement,
    SqlTransaction,
    check_version,
    locked_ledger_error,
    missing_ledger_error,
    report_waiting,
    upgrade,
)
from discreet.ledger.store import Returned
from discreet.ledger.wal import LOG_BYTES, WriteAheadLog
from discreet.paths import NO_FILE, count_names, create_file, describe_kind, exists, identify, may, resolve

WAIT_SECONDS = 1.0
MAX_TRIES = 120
"""A writer waits for others this many times `WAIT_SECONDS`, and says so after the first of them. Tries are counted, not
timed: no clock is read."""

PAGE_BYTES = 512
"""Of a new file; one that exists keeps its own. A debit changes a page of each of five tables and indexes, and its commit
waits until the log has all of them: smaller pages are fewer bytes."""

_REASONS = {
    sqlite3.SQLITE_FULL: ("the disk is full", "make room"),
    sqlite3.SQLITE_IOERR: ("the disk failed, or a limit on the size of files was reached", "check the disk"),
    sqlite3.SQLITE_READONLY: ("it may not be written", "allow writing to the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "name a file in a folder that may be written"),
    sqlite3.SQLITE_PERM: ("it may not be opened", "allow reading and writing it"),
    sqlite3.SQLITE_AUTH: ("it may not be opened", "allow reading and writing it"),
}
_TYPES = {"key": "INTEGER PRIMARY KEY", "bytes": "BLOB"}
_ALLOW = "allow it, or name another file"
_NO_TEXT = "a column that holds text holds something else"
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_CORRUPTED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT}


_FAILURES = (sqlite3.Error, UnicodeDecodeError, OSError)

_SIGNATURE = b"SQLite format 3\0"

_STORES: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()


class Member:
    """The write transaction of one thread, in a batch."""

    __slots__ = ("body", "ended", "error", "failure", "gate", "returned")

    def __init__(self, body: Callable[[SqlTransaction], Any]) -> None:
        self.body = body
        self.returned: Any = None
        self.error: Exception | None = None  # of its own body
        self.failure: BaseException | None = None  # of its batch
        self.ended = False
        self.gate = threading.Lock()  # a `threading.Event` costs as much as an entry
        self.gate.acquire()

    def wake(self) -> None:
        """Let its thread go on, or look whether it is to run the next batch."""
        try:  # noqa: SIM105  `suppress` takes as long again
            self.gate.release()
        except RuntimeError:  # it was woken before
            pass

    def end(self, failure: BaseException | None = None) -> None:
        """Let its thread go on: its batch is on the disk, or `failure` says why none of it is. Only the first end counts."""
        if not self.ended:
            self.failure, self.ended = failure, True
            self.wake()


MAX_BATCH = 64
"""How many write transactions share one commit: those that queue behind them wait no longer for theirs."""
BATCH_WAIT_SECONDS = 0.1
"""After this time a member looks for itself: the thread that was to run it may have been interrupted."""


class SqliteStore:
    """The file, through one connection per process."""

    _connection: sqlite3.Connection | None = None
    _log: WriteAheadLog | None = None
    _memory: Memory | None = None
    _is_log_in_doubt = False

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        if str(path) in ("", ":memory:"):
            raise BadParameter(
                "ledger", repr(str(path)), "a budget in memory ends with the process", "name a file, or leave ledger= out"
            )
        self.path = resolve(path, lambda reason: LedgerUnavailable(str(path), reason, "name another file"))
        self.location = str(self.path)
        self._lock, self._waiting = threading.RLock(), deque[Member]()
        self._file = NO_FILE
        with self._lock:  # so that a fork waits until the connection is made, and finds it
            _STORES.add(self)
            self._connect(create)

    def transact(self, body: Callable[[SqlTransaction], Returned]) -> Returned:
        """As in `Store`. Threads that write at the same time share one commit."""
        member = Member(body)
        try:
            self._waiting.append(member)
            if not self._is_first(member):
                member.gate.acquire(timeout=BATCH_WAIT_SECONDS)
            while not member.ended:
                with self._lock:
                    self._lead(member)
                self._wake_first()
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(member)  # unless another thread runs it
            self._wake_first()
            raise
        if member.failure is not None:
            error = self._translate(member.failure)
            raise error from None if error is member.failure else member.failure
        if member.error is not None:
            raise member.error
        returned: Returned = member.returned
        return returned

    @contextmanager
    def write_transaction(self) -> Iterator[SqlTransaction]:
        """As in `Store`."""
        with self._transaction("BEGIN IMMEDIATE") as transaction:
            yield transaction

    @contextmanager
    def read_transaction(self) -> Iterator[SqlTransaction]:
        """As in `Store`."""
        with self._transaction("BEGIN") as transaction:
            yield transaction

    def close(self) -> None:
        """As in `Store`."""
        with self._lock, self._translate_errors():
            self._require_no_transaction()
            self._disconnect()

    def check_integrity(self) -> str | None:
        """As in `Store`: SQLite checks its own pages. Triggers, or other rules of a table, would change what discreet
        writes, and without its indexes one id could stand twice."""
        with self.read_transaction() as transaction:
            finding = str(transaction.run("PRAGMA integrity_check(1)", ()).fetchone()[0])
            found = _read_rules(transaction.run)
        if finding != "ok":
            return finding
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
            upgrade(made.execute, self.location, create=True, **_TYPES)
            expected = _read_rules(made.execute)
        triggers = [name for kind, name, _ in found if kind == "trigger"]
        missing = [f"the {kind} {name!r}" for kind, name, _ in sorted(expected - found)]
        if triggers:
            return f"the file has the trigger {triggers[0]!r}, which discreet did not make"
        return f"{missing[0]} is missing, or another one" if missing else None

    def __del__(self) -> None:
        self._disconnect()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[SqlTransaction]:
        """One transaction alone."""
        with self._lock:
            try:
                connection = self._begin(begin)
                changes = connection.total_changes
                yield SqlTransaction(connection.execute, self.location)
                connection.execute("COMMIT")
                if connection.total_changes != changes:
                    self._memory = None
            except BaseException as error:
                self._undo(error)
                raise

    def _is_first(self, member: Member) -> bool:
        """Whether no other member waits that would run this one. If it waits no longer, another thread runs it."""
        try:
            return self._waiting[0] is member
        except IndexError:
            return False

    def _wake_first(self) -> None:
        """Let the member that has waited longest run the next batch, if there is one."""
        if self._waiting:
            with suppress(IndexError):  # it was interrupted, and waits no longer
                self._waiting[0].wake()

    def _lead(self, member: Member) -> None:
        """Run a batch, unless the member has been run. It is called where the lock is held, so no batch is open."""
        if member in self._waiting:
            self._run_batch()
        elif not member.ended:
            member.end(KeyboardInterrupt())  # the thread that ran it was interrupted before it could say how it ended

    def _run_batch(self) -> None:
        """Run the members that wait, and those that come meanwhile, and commit. Then let their threads go on."""
        batch: list[Member] = []
        try:
            self._join(batch)
            connection = self._begin("BEGIN IMMEDIATE")
            if self._log is not None:
                self._log.extend()
            if self._memory is None:
                self._memory = Memory(self._data_version(connection))
            memory = self._memory
            transaction = SqlTransaction(connection.execute, self.location, memory)
            for member in batch:
                changes = connection.total_changes, memory.changes
                try:
                    member.returned = member.body(transaction)
                except _FAILURES as error:
                    self._run_again_without(member, batch, error)
                    return
                except Exception as error:
                    member.error = error
                    if (connection.total_changes, memory.changes) != changes:
                        self._run_again_without(member, batch)
                        return
                self._join(batch)
            transaction.flush()
            connection.execute("COMMIT")
        except BaseException as error:
            self._memory = None
            try:
                self._distrust(error)
                self._roll_back()
                self._disconnect()
            finally:
                for member in batch:
                    member.end(error)
            if not isinstance(error, Exception):
                raise
        else:
            for member in batch:
                member.end()

    def _join(self, batch: list[Member]) -> None:
        """Let the members that wait join a batch."""
        while self._waiting and len(batch) < MAX_BATCH:
            try:
                member = self._waiting.popleft()
            except IndexError:  # the last one was interrupted, and waits no longer
                return
            if not member.ended:
                batch.append(member)

    def _run_again_without(self, failed: Member, batch: list[Member], failure: Exception | None = None) -> None:
        """Undo a batch of which one body failed after it had written, or in SQLite, and let the others wait for the next
        one."""
        self._memory = None
        self._roll_back()
        if failure is not None:
            self._distrust(failure)
            self._disconnect()
        others = [member for member in batch if member is not failed]
        for member in others:
            member.returned = member.error = None
        self._waiting.extendleft(reversed(others))
        failed.end(failure)

    def _require_no_transaction(self) -> None:
        """Refuse a transaction around this call, in the same thread, or one that was interrupted while it was undone. To go
        on would commit the half of it that is written."""
        if self._connection is not None and self._connection.in_transaction:
            raise sqlite3.OperationalError("cannot start a transaction within a transaction")

    def _begin(self, statement: str) -> sqlite3.Connection:
        """Begin a transaction on a schema of a known version. Forget what was remembered if another connection has written
        since; if none has, the version is the same, too."""
        self._require_no_transaction()
        connection = self._current_connection()
        self._execute_with_retry(statement)
        self._require_same_files()  # now, since it may have waited for others
        if self._memory is None or self._memory.data_version != self._data_version(connection):
            self._memory = None
            check_version(connection.execute("SELECT version FROM discreet_schema").fetchone(), self.location)
        return connection

    def _data_version(self, connection: sqlite3.Connection) -> int:
        """Return a number that changes when another connection has committed something."""
        return int(connection.execute("PRAGMA data_version").fetchone()[0])

    def _undo(self, error: BaseException) -> None:
        """Undo the transaction that ends with this error. After an error of SQLite or the system, and after an interruption,
        which may have come at any step, the connection is closed.

        It is called where the lock is held, and by the frame that holds it: a context manager of its own can be left behind
        by an interruption, and would undo something else when it is collected.
        """
        self._distrust(error)
        self._roll_back()
        if not isinstance(error, Exception) or isinstance(error, _FAILURES):
            self._disconnect()
            if isinstance(error, Exception):
                raise self._translate(error) from error

    def _distrust(self, error: BaseException) -> None:
        """Remember that the disk may have failed: `_settle_log` looks after its log before the next transaction."""
        if isinstance(error, sqlite3.Error) and _error_code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL):
            self._is_log_in_doubt = True

    def _settle_log(self) -> None:
        """Move all of the log into the file, and begin a new one.

        After a sync that failed, the system may hold bytes of the log for written that are not on the disk, and will not
        write them again. A connection that is opened then reads them back, and takes them for entries; those that follow
        are synced, and after a loss of power the log would end before them. The file is written and synced anew.
        """
        for _ in range(MAX_TRIES):  # each waits for others who read, for `WAIT_SECONDS`
            if not self._execute_with_retry("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                self._is_log_in_doubt = False
                return
        raise locked_ledger_error(self.location, round(WAIT_SECONDS * MAX_TRIES))

    def _roll_back(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _current_connection(self) -> sqlite3.Connection:
        """Return the connection, opened again after a fork or a failure."""
        if self._connection is None:
            self._connect(create=False)
        assert self._connection is not None
        return self._connection

    def _require_same_files(self) -> None:
        """Refuse a file that is no longer at its path, or whose log or index is not: others would never see what is
        committed, or write over it."""
        if self._file != identify(self.location):
            self._disconnect()
            raise LedgerUnavailable(
                self.location, "the file was moved, removed or replaced", "put it back, then open it again"
            )
        lost = None if self._log is None else self._log.find_lost()
        if self._log is not None and lost is not None:
            self._log.keep()
            self._disconnect()
            raise LedgerUnavailable(
                self.location,
                f"{lost} was moved, removed or replaced while it was open",
                "find out what did that, then try again: what is on the disk is read anew",
            )

    def _connect(self, create: bool) -> None:
        if not create and not exists(self.path, lambda reason: LedgerUnavailable(self.location, reason, _ALLOW)):
            raise missing_ledger_error(self.location, self.location)
        if create and not exists(self.path.parent, lambda reason: LedgerUnavailable(self.location, reason, _ALLOW)):
            hint = "create the folder first, or name a file in another one"
            raise LedgerUnavailable(self.location, "its folder does not exist", hint)
        self._check_kind(create)
        with self._translate_errors(opening=True):
            if create:  # for its owner alone, who may give others rights
                create_file(self.path)
            uri = f"{self.path.as_uri()}?mode=rw"
            self._connection = sqlite3.connect(
                uri, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=True
            )
            self._file = identify(self.location)
            if not create:
                self._check_tables()
            self._connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            if self._execute_with_retry("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
                raise LedgerUnavailable(
                    self.location, "SQLite has no write-ahead log here", "put it on a local disk, or use PostgreSQL"
                )
            self._connection.execute("PRAGMA synchronous=FULL")
            page_bytes = self._connection.execute("PRAGMA page_size").fetchone()[0]
            self._connection.execute(f"PRAGMA wal_autocheckpoint={LOG_BYTES // page_bytes}")
            if self._version() != LATEST_VERSION:
                self._upgrade(create)
            if self._is_log_in_doubt:
                self._settle_log()
            self._log = WriteAheadLog(self.location)

    def _check_kind(self, create: bool) -> None:
        """Refuse what is no file: SQLite would write to a device, wait for a named pipe, and blame the disk. Refuse an empty
        file that should hold a ledger: SQLite would take it for an empty database, and begin to write one. The file of a
        ledger is never empty, since its first page is written before its log is begun."""
        try:
            found = os.stat(self.path)
        except OSError:  # as that of a file that is not there yet; what opens it says why
            return
        reason, hint = describe_kind(found.st_mode), "name the file of a ledger"
        if reason is None and not create and found.st_size == 0:
            reason, hint = "this file is empty, so it holds no ledger", "name another file; if it was a ledger, restore it"
        if reason is not None:
            raise self._not_a_ledger_error(reason, hint)
        if found.st_size > 0 and (names := count_names(self.path)) > 1:  # an empty one may be about to lose its draft
            raise LedgerUnavailable(
                self.location,
                f"the file has {names} names (hard links), and its log stands beside one of them",
                "keep one name, and copy the file in place of linking it",
            )

    def _check_tables(self) -> None:
        """Refuse the database of another program, before its pragmas are set: they would stay in the file."""
        tables = self._execute_with_retry("SELECT MAX(name = 'discreet_schema') FROM sqlite_master").fetchone()
        if tables[0] == 0:  # NULL if there is no table, as in a ledger that another process is making
            raise self._not_a_ledger_error(
                "this is a database of another program, not a ledger", "name another file; if it was a ledger, restore it"
            )

    def _not_a_ledger_error(self, reason: str, hint: str) -> LedgerUnavailable:
        error = LedgerUnavailable(self.location, reason, hint)
        error.see = PARAMETER_PAGES["ledger"]
        return error

    def _version(self) -> int:
        assert self._connection is not None
        table = self._execute_with_retry("SELECT 1 FROM sqlite_master WHERE name = 'discreet_schema'").fetchone()
        return (
            check_version(self._connection.execute("SELECT version FROM discreet_schema").fetchone(), self.location)
            if table
            else 0
        )

    def _upgrade(self, create: bool) -> None:
        connection = self._connection
        assert connection is not None
        self._execute_with_retry("BEGIN IMMEDIATE")
        try:
            upgrade(connection.execute, self.location, create=create, **_TYPES)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        sync_folder(self.path.parent)

    def _execute_with_retry(self, statement: str) -> Any:
        assert self._connection is not None
        for attempt in range(MAX_TRIES):
            try:
                return self._connection.execute(statement)
            except sqlite3.OperationalError as error:
                if _error_code(error) not in _BUSY or attempt == MAX_TRIES - 1:
                    raise
                if attempt == 0:
                    report_waiting(self.location)
                time.sleep(min(0.01 * attempt, 0.2))
        raise AssertionError("unreachable")

    def _has_signature(self) -> bool:
        """Whether the file starts as those of SQLite do. SQLite could not read it, so no connection has a lock on it that
        closing it here would release."""
        try:
            with open(self.path, "rb") as file:
                return file.read(len(_SIGNATURE)) == _SIGNATURE
        except OSError:
            return True

    def _disconnect(self) -> None:
        self._memory = None
        log, connection = self._log, self._connection
        self._log = self._connection = None  # first: an interruption may come at any step
        if log is not None:
            log.close()
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def _translate_errors(self, *, opening: bool = False) -> Iterator[None]:
        """Raise the errors of SQLite and the system as errors of discreet. After one of them the connection is closed."""
        try:
            yield
        except _FAILURES as error:
            self._roll_back()
            self._disconnect()
            denied = self._find_denial() if opening else None
            raise denied or self._translate(error) from error

    def _find_denial(self) -> LedgerUnavailable | None:
        """Return the error of a file that this user may not read: SQLite says only that it cannot be opened. It is not
        opened to find out: to close it would take the locks of other connections of this process off it (`create_file`)."""
        if not os.path.lexists(self.path) or may(self.path, os.R_OK):
            return None
        reason = f"it cannot be opened ({os.strerror(errno.EACCES)})"
        hint = "let its owner run this, or allow this user to read and write the file and its folder"
        return LedgerUnavailable(self.location, reason, hint)

    def _find_protected(self) -> tuple[str, str] | None:
        """Say which of the ledger's files, or that their folder, may not be written by this user, and what to do. A log and
        an index that were made while the ledger was read-only stay so."""
        for path in (self.location, f"{self.location}-wal", f"{self.location}-shm"):
            if os.path.lexists(path) and not may(path, os.W_OK):
                return f"{os.path.basename(path)} may not be written", f"allow writing: chmod u+w {quote(path)}"
        if not may(self.path.parent, os.W_OK):
            hint = "allow writing to the folder, or copy the ledger to another one while no program has it open"
            return "its folder may not be written, and SQLite makes files there even to read it", hint
        return None

    def _translate(self, error: BaseException) -> BaseException:
        """Return the error of discreet that says the same."""
        match error:
            case sqlite3.Error():
                return self._translate_error(error)
            case UnicodeDecodeError():
                return LedgerCorrupted(self.location, _NO_TEXT)
            case OSError():
                hint = _ALLOW if isinstance(error, PermissionError) else "check the disk"
                return LedgerUnavailable(self.location, f"the system refused it ({error.strerror})", hint)
            case Exception():
                return error
            case _:
                reason = "the thread that wrote for several others was interrupted, so nothing is shown"
                return LedgerUnavailable(self.location, reason, "ask again with the same id")

    def _translate_error(self, error: sqlite3.Error) -> DiscreetError:
        code = _error_code(error)
        if code == sqlite3.SQLITE_NOTADB and not self._has_signature():
            hint = "name another file; if it was a ledger, restore it"
            return self._not_a_ledger_error("this file is not a ledger", hint)
        if code in _CORRUPTED:
            return LedgerCorrupted(self.location, f"SQLite reports: {error}")
        if code == 0 and "decode to UTF-8" in str(error):  # the module's own, whose text quotes the column
            return LedgerCorrupted(self.location, _NO_TEXT)
        if code in _BUSY:
            return locked_ledger_error(self.location, round(WAIT_SECONDS * MAX_TRIES))
        reason, hint = _REASONS.get(code, (f"SQLite reports: {error}", "check the file"))
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            reason, hint = self._find_protected() or (reason, hint)
        return LedgerUnavailable(self.location, f"{reason}, so nothing is shown", f"{hint}, then ask again with the same id")


def _read_rules(run: RunStatement) -> set[tuple[str, str, str]]:
    """Return the tables, indexes and triggers of a file, except those that SQLite makes itself: their kind, name and
    statement."""
    rules = "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'index', 'trigger') AND sql IS NOT NULL"
    return {(str(kind), str(name), str(sql)) for kind, name, sql in run(rules, ()).fetchall()}


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _error_code(error: sqlite3.Error) -> int:
    """Return the primary error code; 0 if there is none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


# SQLite forbids to carry a connection across a fork, even unused: each side opens its own when it next needs one.
_held_stores: "dict[SqliteStore, bool]" = {}
"""The stores that a fork holds, and whether its thread did not hold them before."""
_forking = threading.RLock()
"""Held from before a fork until after it: two threads that fork at once would release each other's stores."""
_interruptions: list[BaseException] = []


def _before_fork() -> None:
    """Wait until no thread uses a store, and disconnect them all. What interrupts this comes after the fork: Python would
    drop it, and fork while half of the stores are held."""
    while True:
        try:
            _hold_stores()
            return
        except BaseException as interruption:
            _interruptions.append(interruption)


def _hold_stores() -> None:
    """Go on where an interruption left off."""
    _hold(_forking)
    while missing := [store for store in _list_stores() if store not in _held_stores]:  # others are opened meanwhile
        for store in missing:
            _held_stores[store] = not store._lock._is_owned()  # type: ignore[attr-defined]
            _hold(store._lock)
    for store in _held_stores:
        _hold(store._lock)  # an interruption may have come before
        store._disconnect()


def _hold(lock: Any) -> None:
    if not lock._is_owned():
        lock.acquire()


def _list_stores() -> "list[SqliteStore]":
    while True:
        try:
            return [*_STORES]
        except RuntimeError:  # another thread opened one meanwhile
            continue


def _after_fork() -> None:
    while _held_stores:
        store, is_new = _held_stores.popitem()
        if is_new:
            store._lock.release()
    interrupted = any(isinstance(each, KeyboardInterrupt) for each in _interruptions)
    _interruptions.clear()
    _forking.release()
    if interrupted:  # not from here, where Python would drop it
        threading.Timer(0.05, interrupt_main).start()


def _after_fork_in_child() -> None:
    for store in _held_stores:
        store._waiting.clear()  # the threads that waited are not there
    _interruptions.clear()
    _after_fork()


if hasattr(os, "register_at_fork"):  # not where there is no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
