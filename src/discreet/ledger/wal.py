"""Room ahead in the write-ahead log of a SQLite file, so that a commit waits for the disk no longer than it must.

A sync of a file that has grown waits for its new blocks and its length, too, not only for its bytes. So zeros are written
behind the end of the log before it is needed, and most commits write over what is there. The length doubles, by at most
`MAX_EXTENSION_BYTES`: a short log has little room, and a long one rarely grows.

**Proof** that no commit is lost and none is added. *Lost*: only a writer appends frames to a log or starts it again, and
the transaction that extends it is the one writer, in this process and all others. So the end of the file is behind the last
frame of every commit, and stays there until the zeros are written. *Added*: SQLite takes a frame as one of the log only if
it names a page above 0 and its salt and its checksum continue the log; zeros name page 0. So after a crash at any step,
also one that leaves a part of the zeros, the log ends where it would have ended without them. *The same file*: SQLite
removes a log only when the last connection is closed, and the one that extends it is open. No lock is on the log itself, so
to close a second handle of it releases none.

**The index** of the log, in a file beside it (`-shm`), is shared by all connections, and holds their locks. Where it was
removed while a connection is open, others make a new one, and neither side sees what the other commits; a connection that
is closed then would remove a log that holds entries of others. SQLite does so only if it can lock the file for itself, and
`keep` puts a lock of its own on it that prevents that, until the process ends.
"""

import os
import struct
from contextlib import suppress
from io import FileIO

from discreet.paths import NO_FILE, identify

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

LOG_BYTES = 1 << 22
"""How long a log grows before SQLite moves it into the file, whatever the size of a page."""
LOG_STEP_BYTES = 1 << 15
"""A log is extended to a multiple of this. SQLite's own ends are none, but for one frame in thousands, after which the log
is extended one commit later: a frame is a page and 24 bytes, and the log begins with 32."""
MAX_EXTENSION_BYTES = 1 << 18
"""So much is written at once, or a step more."""
_SHARED_FIRST, _SHARED_BYTES = 0x40000002, 510
"""The bytes of a database that SQLite locks to have the file for itself."""


class WriteAheadLog:
    """The log of a database that an open connection has read. Close it before the connection."""

    _file: FileIO | None = None

    def __init__(self, database: str) -> None:
        self._database = database
        self._beside = {path: identify(path) for path in (f"{database}-wal", f"{database}-shm")}
        with suppress(OSError):  # then it is not extended, and all else is the same
            self._file = FileIO(f"{database}-wal", "r+")

    def find_lost(self) -> str | None:
        """Return the name of the log or of the index, if what the connection has is no longer what is at its path.

        SQLite removes a log where no connection has a lock on the database; people move, remove and restore files.
        """
        for path, found in self._beside.items():
            if found != NO_FILE and found != identify(path):
                return os.path.basename(path)
        return None

    def keep(self) -> None:
        """Keep SQLite from removing the log when the connection is closed.

        The lock belongs to the handle, not to the process, so that SQLite's own lock conflicts with it. The handle is never
        closed: to close it would take SQLite's locks off the file.
        """
        if hasattr(fcntl, "F_OFD_SETLK"):
            shared = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, _SHARED_FIRST, _SHARED_BYTES, 0)
            with suppress(OSError):
                fcntl.fcntl(os.open(self._database, os.O_RDONLY), fcntl.F_OFD_SETLK, shared)

    def extend(self) -> None:
        """Write zeros behind the end, unless the log was extended and is not yet full. Call it inside a write transaction.

        If the disk is full or a limit on the size of files is reached, nothing is said: where a commit needs the space,
        SQLite says so itself.
        """
        if self._file is None:
            return
        with suppress(OSError):
            length = os.fstat(self._file.fileno()).st_size
            if length % LOG_STEP_BYTES and length < LOG_BYTES:
                wanted = length + min(length, MAX_EXTENSION_BYTES)
                self._file.seek(length)
                self._file.write(bytes(wanted + -wanted % LOG_STEP_BYTES - length))

    def close(self) -> None:
        """Close this handle of the log."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __del__(self) -> None:
        self.close()
