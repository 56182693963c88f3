"""Writers of a database that has one writer at a time take turns: threads of one process, and processes of one machine.

**Why.** A plain lock does not hand over: a thread that releases it and takes it again at once keeps those out who wait for
it. SQLite is the same between processes: who waits sleeps up to 100 ms and tries again, and misses the moments between two
transactions of a process that writes without pause. A worker whose renewals wait in this way counts as gone although it
runs. So threads wait in a queue, first come first served, and processes pass a gate.

**The gate.** A process holds it from before it waits for the database until its transaction has begun, and not while it
writes. A process that writes one transaction after another finds the gate held by the one that waits, so each of two
processes waits for one transaction of the other at most. The gate is a lock on a file beside the database, which the system
gives back when a process dies. Where there can be no such file, writers wait for the database alone.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]

POLL_SECONDS = 0.002
"""How often a process looks whether the gate is free."""


class WriterQueue:
    """Lets one thread at a time write, in the order in which they came; urgent ones go before all others.

    >>> queue = WriterQueue()
    >>> queue.acquire(1.0), queue.acquire(0.0)
    (True, False)
    >>> queue.release()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: tuple[deque[threading.Lock], deque[threading.Lock]] = deque(), deque()  # urgent ones, others

    def acquire(self, seconds: float, *, urgent: bool = False) -> bool:
        """Wait for the turn of this thread, `seconds` at most. Returns whether it came; if so, call `release`."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting[0 if urgent else 1].append(turn)
        has_come = False
        try:
            has_come = turn.acquire(timeout=seconds)
        finally:
            if not has_come:
                self._leave(turn)
        return has_come

    def release(self) -> None:
        """Give the turn to the first who waits."""
        with self._lock:
            following = next((each for each in self._waiting if each), None)
            if following is None:
                self._is_taken = False
            else:
                following.popleft().release()

    def count_waiting(self) -> int:
        """Return how many threads wait."""
        with self._lock:
            return sum(map(len, self._waiting))

    def _leave(self, turn: threading.Lock) -> None:
        """Wait no more; a turn that came meanwhile is given to the next."""
        with self._lock:
            for each in self._waiting:
                if turn in each:
                    each.remove(turn)
                    return
        self.release()


class Gate:
    """The gate of one database in one process; one thread at a time uses it."""

    def __init__(self, database: str) -> None:
        self._file = _open_beside(database)

    @contextmanager
    def hold(self, deadline: float) -> Iterator[None]:
        """Hold the gate during this block. Without it, if it is not free before the deadline (`time.monotonic`): who holds
        it may be stopped, and the database says itself whether it is free."""
        is_held = self._file is not None and self._take(self._file, deadline)
        try:
            yield
        finally:
            if is_held and self._file is not None:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    @staticmethod
    def _take(file: int, deadline: float) -> bool:
        while True:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(POLL_SECONDS)
            except OSError:  # a file system without locks
                return False
            else:
                return True

    def __del__(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)


def begin_patiently(begin: Callable[[], object], is_busy: Callable[[Exception], bool], deadline: float) -> None:
    """Begin a transaction, again and again while others hold the database, until the deadline (`time.monotonic`)."""
    while True:
        try:
            begin()
        except Exception as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return


def _open_beside(database: str) -> int | None:
    """Open the file of the gate, for those who may write the database. None if there can be none."""
    if fcntl is None:
        return None
    with suppress(OSError):
        status = os.stat(database)
        file = os.open(f"{database}-gate", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with suppress(OSError):  # only the owner of the file may
            os.fchmod(file, status.st_mode & 0o666)
            os.fchown(file, status.st_uid, status.st_gid)
        return file
    return None
