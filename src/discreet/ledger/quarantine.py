"""Sources that may not be queried because a query on them failed, until their owner says otherwise.

`failures` states the rule and why it is needed. Here is where it is kept: in the ledger, as entries of its chain, so that
`ledger check` covers it; without a ledger, in a ledger without accounts in the owner's state folder; and in memory for a
source that ends with the process. A failure is durable before `record_failure` returns, and two processes that record at
once count both.
"""

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from discreet.errors import BadParameter, LedgerUnavailable, SourceQuarantined
from discreet.ledger.account import Account
from discreet.ledger.entries import FailureRecorded, QuarantineLifted
from discreet.ledger.failures import RESOURCE_LIMIT, FailureCounts, FailureKind, Quarantine, QuarantinedSource
from discreet.ledger.store import Store
from discreet.paths import exists

if TYPE_CHECKING:
    from discreet.ledger.sqlite import SqliteStore

__all__ = [
    "RESOURCE_LIMIT",
    "FailureCounts",
    "FailureKind",
    "FileQuarantine",
    "LedgerQuarantine",
    "MemoryQuarantine",
    "Quarantine",
    "QuarantinedSource",
    "default_state_folder",
    "default_state_path",
    "open_quarantine",
]


@dataclass(frozen=True, slots=True)
class LedgerQuarantine:
    """A quarantine in a ledger's chain, for all its accounts.

    >>> import tempfile
    >>> from discreet.ledger import open_ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = open_ledger(f"{folder.name}/hr.ledger", create=True)
    >>> ledger.quarantine.record_failure("people.csv", FailureKind.DECODING)
    >>> [each.source for each in ledger.quarantine.list_quarantined()]
    ['people.csv']
    >>> ledger.quarantine.lift("people.csv"); ledger.quarantine.check("people.csv")
    >>> ledger.close(); folder.cleanup()
    """

    store: Store

    def check(self, source: str) -> None:
        """As in `Quarantine`."""
        with self.store.read_transaction() as transaction:
            counts = transaction.read_failures(_to_storable(source))
        if counts.quarantined:
            raise SourceQuarantined(source)

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """As in `Quarantine`."""
        name = _to_storable(source)
        with self.store.write_transaction() as transaction:
            head = transaction.read_head()
            transaction.append(FailureRecorded(number=head.number + 1, previous=head.hash.hex(), source=name, failure=kind))

    def lift(self, source: str) -> None:
        """As in `Quarantine`."""
        name = _to_storable(source)
        with self.store.write_transaction() as transaction:
            if not transaction.read_failures(name).quarantined:
                raise _not_quarantined_error(source, _select_quarantined(transaction.list_failures()))
            head = transaction.read_head()
            transaction.append(QuarantineLifted(number=head.number + 1, previous=head.hash.hex(), source=name))

    def list_quarantined(self) -> tuple[QuarantinedSource, ...]:
        """As in `Quarantine`."""
        with self.store.read_transaction() as transaction:
            return _select_quarantined(transaction.list_failures())


class FileQuarantine:
    """A quarantine in the owner's state: a ledger without accounts, in one SQLite file.

    The file is made when it is first needed, also by `check`: a source whose failures could not be recorded is not queried.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._store: SqliteStore | None = None

    def check(self, source: str) -> None:
        """As in `Quarantine`."""
        self._ledger_quarantine.check(source)

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """As in `Quarantine`."""
        self._ledger_quarantine.record_failure(source, kind)

    def lift(self, source: str) -> None:
        """As in `Quarantine`."""
        self._ledger_quarantine.lift(source)

    def list_quarantined(self) -> tuple[QuarantinedSource, ...]:
        """As in `Quarantine`."""
        return self._ledger_quarantine.list_quarantined()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._store is not None:
                self._store.close()

    def _refuse(self, reason: str) -> LedgerUnavailable:
        return LedgerUnavailable(str(self.path), reason, _ELSEWHERE)

    @property
    def _ledger_quarantine(self) -> LedgerQuarantine:
        from discreet.ledger.sqlite import SqliteStore

        with self._lock:
            if self._store is None:
                _make_folder(self.path.parent)
                if not exists(self.path, self._refuse):
                    _make_file(self.path)
                if not self.path.stat().st_size:  # SQLite takes an empty file for an empty database
                    raise LedgerUnavailable(str(self.path), "the file is empty, so what it held is lost", _RESTORE)
                self._store = SqliteStore(self.path)
            return LedgerQuarantine(self._store)


class MemoryQuarantine:
    """A quarantine for sources that end with the process, such as a frame.

    >>> quarantine = MemoryQuarantine()
    >>> quarantine.record_failure("a frame", FailureKind.RESOURCE); quarantine.check("a frame")
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, FailureCounts] = {}

    def check(self, source: str) -> None:
        """As in `Quarantine`."""
        if self._counts.get(source, FailureCounts()).quarantined:
            raise SourceQuarantined(source)

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """As in `Quarantine`; durable as long as the source is."""
        with self._lock:
            self._counts[source] = self._counts.get(source, FailureCounts()).add_failure(kind)

    def lift(self, source: str) -> None:
        """As in `Quarantine`."""
        with self._lock:
            if not self._counts.get(source, FailureCounts()).quarantined:
                raise _not_quarantined_error(source, _select_quarantined(self._counts))
            self._counts[source] = FailureCounts()

    def list_quarantined(self) -> tuple[QuarantinedSource, ...]:
        """As in `Quarantine`."""
        with self._lock:
            return _select_quarantined(self._counts)


_in_memory: WeakKeyDictionary[object, MemoryQuarantine] = WeakKeyDictionary()


def open_quarantine(account: Account, *, lasting: bool, anchor: object) -> Quarantine:
    """Where failures of a source are kept. One that ends with its `anchor`, a connection or a frame, needs no more than
    memory: one for all sessions on that anchor."""
    if not lasting:
        return _in_memory.setdefault(anchor, MemoryQuarantine())
    return account.quarantine or FileQuarantine(default_state_path())


def default_state_folder() -> Path:
    """The folder of the owner's state: $DISCREET_STATE, $XDG_STATE_HOME/discreet, or ~/.local/state/discreet.

    It is made with mode 0700 if it is missing, and refused if other users have rights to it.
    """
    if chosen := os.environ.get("DISCREET_STATE"):
        folder = Path(chosen)
    elif home := os.environ.get("XDG_STATE_HOME"):
        folder = Path(home) / "discreet"
    else:
        folder = Path(os.path.expanduser("~")) / ".local" / "state" / "discreet"
    _make_folder(folder)
    return folder


def default_state_path() -> Path:
    """The file of the quarantine in the owner's state."""
    return default_state_folder() / "sources.ledger"


_RESTORE = "restore it from a backup; if there is none, look into every source, then delete the file"
_ELSEWHERE = "allow it, name another folder in DISCREET_STATE, or pay from a ledger"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        open_to_others = folder.stat().st_mode & 0o077
    except OSError as error:
        reason = f"the folder of the owner's state cannot be made ({error.strerror})"
        raise LedgerUnavailable(str(folder), reason, _ELSEWHERE) from None
    if open_to_others and os.name == "posix":
        raise LedgerUnavailable(
            str(folder), "other users have rights to the folder of the owner's state", f"take them away: chmod 700 {folder}"
        )


def _make_file(path: Path) -> None:
    """Make an empty ledger under another name, then link it into place: no process ever opens one that is half made."""
    from discreet.ledger.sqlite import SqliteStore, sync_folder

    draft = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        SqliteStore(draft, create=True).close()
        with suppress(FileExistsError):  # another process was first
            os.link(draft, path)
        sync_folder(path.parent)
    except (OSError, LedgerUnavailable) as error:
        cause = error.strerror if isinstance(error, OSError) else error.reason
        reason = f"the file of the owner's state cannot be made ({cause})"
        raise LedgerUnavailable(str(path), reason, _ELSEWHERE) from None
    finally:
        draft.unlink(missing_ok=True)


def _to_storable(source: str) -> str:
    """The source as every store can hold it: a path may hold bytes that are no text, and PostgreSQL's texts hold no NUL."""
    return source.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _select_quarantined(sources: dict[str, FailureCounts]) -> tuple[QuarantinedSource, ...]:
    return tuple(QuarantinedSource(name, counts) for name, counts in sorted(sources.items()) if counts.quarantined)


def _not_quarantined_error(source: str, quarantined: tuple[QuarantinedSource, ...]) -> BadParameter:
    names = ", ".join(repr(each.source) for each in quarantined) or "none"
    return BadParameter("source", repr(source), "it is not quarantined", f"the quarantined sources are: {names}")
