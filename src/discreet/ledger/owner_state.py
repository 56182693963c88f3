"""The owner's state: where failures of sources are recorded when no ledger is charged, and what passed validation.

It is a folder for the owner alone. The quarantine in it is a ledger without accounts, in one file.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from discreet.errors import LedgerUnavailable
from discreet.ledger.account import Account
from discreet.ledger.chain import Ledger
from discreet.ledger.quarantine import FailureKind, MemoryQuarantine, Quarantine, QuarantinedSource, not_quarantined_error
from discreet.paths import describe_kind, reason_of


class FileQuarantine:
    """A quarantine in the owner's state: a ledger without accounts, in one SQLite file that the first failure makes.

    While there is no file, no failure was recorded, and a check is a look at the folder. Every check looks again, so it sees
    what another process recorded before it. The first check also makes sure that the folder can be written: a source whose
    failures could not be recorded is not queried.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._is_writable = False

    def check(self, source: str) -> None:
        """As in `Quarantine`."""
        ledger = self._find_ledger()
        if ledger is not None:
            ledger.quarantine.check(source)

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """As in `Quarantine`."""
        ledger = self._find_ledger()
        if ledger is None:
            _make_file(self.path)
            ledger = self._find_ledger()
        assert ledger is not None
        ledger.quarantine.record_failure(source, kind)

    def lift(self, source: str) -> None:
        """As in `Quarantine`."""
        ledger = self._find_ledger()
        if ledger is None:
            raise not_quarantined_error(source, ())
        ledger.quarantine.lift(source)

    def list_quarantined(self) -> tuple[QuarantinedSource, ...]:
        """As in `Quarantine`."""
        ledger = self._find_ledger()
        return () if ledger is None else ledger.quarantine.list_quarantined()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.close()

    def _find_ledger(self) -> "Ledger | None":
        """Open the file, once; return None while there is none."""
        with self._lock:
            if self._ledger is not None:
                return self._ledger
            if not self._is_writable:
                _make_folder(self.path.parent)
            try:
                found = os.stat(self.path)
            except FileNotFoundError:
                if not self._is_writable:
                    _check_writable(self.path)
                    self._is_writable = True
                return None
            except OSError as error:
                raise LedgerUnavailable(str(self.path), f"it cannot be looked at ({reason_of(error)})", _ELSEWHERE) from None
            if (kind := describe_kind(found.st_mode)) is not None:
                raise LedgerUnavailable(str(self.path), kind, "move it away")
            if not found.st_size:  # SQLite would take an empty file for an empty database
                raise LedgerUnavailable(str(self.path), "the file is empty, so what it held is lost", _RESTORE)
            self._ledger = _open_file(self.path)
            return self._ledger


_in_memory: WeakKeyDictionary[object, MemoryQuarantine] = WeakKeyDictionary()


def open_quarantine(account: Account, *, lasting: bool, anchor: object) -> Quarantine:
    """Return where failures of a source are recorded. For a source that ends with its `anchor`, a connection or a frame,
    that is memory, shared by all sessions on that anchor."""
    if not lasting:
        return _in_memory.setdefault(anchor, MemoryQuarantine())
    return account.quarantine or FileQuarantine(default_state_path())


def default_state_folder() -> Path:
    """Return the folder of the owner's state: $DISCREET_STATE, $XDG_STATE_HOME/discreet, or ~/.local/state/discreet.

    It is made with mode 0700 if it is missing.

    Raises:
        LedgerUnavailable: if other users have rights to it.
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
    """Return the file of the quarantine in the owner's state."""
    return default_state_folder() / "sources.ledger"


_RESTORE = "restore it from a backup; if there is none, look into every source, then delete the file"
_ELSEWHERE = "allow it, name another folder in DISCREET_STATE, or charge a ledger"
_PROBE_BYTES = 1 << 17
"""More than an empty ledger with its write-ahead log takes."""


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


def _check_writable(path: Path) -> None:
    """Refuse a folder in which no failure could be recorded."""
    draft = _draft_path(path)
    try:
        draft.write_bytes(bytes(_PROBE_BYTES))
    except OSError as error:
        raise _cannot_be_made_error(path, str(error.strerror)) from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _make_file(path: Path) -> None:
    """Make an empty ledger under another name, then link it into place: no process ever opens one that is half made."""
    from discreet.ledger.sqlite import SqliteStore, sync_folder

    draft = _draft_path(path)
    try:
        SqliteStore(draft, create=True).close()
        with suppress(FileExistsError):  # another process was first
            os.link(draft, path)
        sync_folder(path.parent)
    except (OSError, LedgerUnavailable) as error:
        reason = error.reason if isinstance(error, LedgerUnavailable) else str(error.strerror)
        raise _cannot_be_made_error(path, reason) from None
    finally:
        draft.unlink(missing_ok=True)


def _open_file(path: Path) -> Ledger:
    from discreet.ledger.sqlite import SqliteStore

    return Ledger(SqliteStore(path))


def _draft_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")


def _cannot_be_made_error(path: Path, reason: str) -> LedgerUnavailable:
    return LedgerUnavailable(str(path), f"the file of the owner's state cannot be made ({reason})", _ELSEWHERE)
