"""Sources that may not be queried because a query on them failed, until their owner lifts the quarantine.

**Why.** An engine that fails on particular rows reveals one bit about them. The analyst's filter decides which rows are
read, so repeated failures would find one person's row by bisection, at almost no cost.

**The rule.** A failure to *decode* what the source holds quarantines the source at once. A failure of *resources* (memory,
time, a connection) also happens where no row is at fault, so the third one quarantines. A failure is durable before
`record_failure` returns, and two processes that record at once count both.

**Where it is recorded.** In the ledger that the session charges, as entries of its chain, so that `discreet ledger check`
covers them (`chain.LedgerQuarantine`). Without a ledger, in the owner's state: a ledger without accounts, in one file
(`FileQuarantine`). In memory for a source that ends with the process (`MemoryQuarantine`).
"""

import enum
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never
from weakref import WeakKeyDictionary

from discreet.errors import BadParameter, LedgerUnavailable, SourceQuarantined
from discreet.paths import reason_of

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.chain import Ledger

RESOURCE_LIMIT = 3
"""The resource failure that quarantines a source."""


class FailureKind(enum.Enum):
    """Why an engine failed."""

    DECODING = "decoding"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """How often queries on a source failed since the owner last lifted its quarantine.

    >>> counts = FailureCounts().add_failure(FailureKind.RESOURCE).add_failure(FailureKind.RESOURCE)
    >>> counts.is_quarantined, counts.add_failure(FailureKind.RESOURCE).is_quarantined
    (False, True)
    >>> FailureCounts().add_failure(FailureKind.DECODING).is_quarantined
    True
    """

    decoding: int = 0
    resource: int = 0

    @property
    def is_quarantined(self) -> bool:
        """Whether the source may not be queried."""
        return self.decoding > 0 or self.resource >= RESOURCE_LIMIT

    def add_failure(self, kind: FailureKind) -> "FailureCounts":
        """Return the counts with one more failure."""
        match kind:
            case FailureKind.DECODING:
                return replace(self, decoding=self.decoding + 1)
            case FailureKind.RESOURCE:
                return replace(self, resource=self.resource + 1)
            case _:
                assert_never(kind)


@dataclass(frozen=True, slots=True)
class QuarantinedSource:
    """A source that may not be queried, and the failures that led to it. For its owner only."""

    source: str
    failures: FailureCounts


class Quarantine(Protocol):
    """Sources that may not be queried. A source is named by its identity, the text by which a ledger knows it."""

    def check(self, source: str) -> None:
        """Raise `SourceQuarantined` if the source may not be queried."""
        ...

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """Count a failed query; the count is durable when this returns."""
        ...

    def lift(self, source: str) -> None:
        """Allow queries again and count failures from 0. Raise `BadParameter` if the source is not quarantined."""
        ...

    def list_quarantined(self) -> tuple[QuarantinedSource, ...]:
        """Return every source that may not be queried, sorted by name."""
        ...


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
        if self._counts.get(source, FailureCounts()).is_quarantined:
            raise SourceQuarantined(source)

    def record_failure(self, source: str, kind: FailureKind) -> None:
        """As in `Quarantine`; durable as long as the source is."""
        with self._lock:
            self._counts[source] = self._counts.get(source, FailureCounts()).add_failure(kind)

    def lift(self, source: str) -> None:
        """As in `Quarantine`."""
        with self._lock:
            if not self._counts.get(source, FailureCounts()).is_quarantined:
                raise not_quarantined_error(source, select_quarantined(self._counts))
            self._counts[source] = FailureCounts()

    def list_quarantined(self) -> tuple[QuarantinedSource, ...]:
        """As in `Quarantine`."""
        with self._lock:
            return select_quarantined(self._counts)


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
                size = os.stat(self.path).st_size
            except FileNotFoundError:
                if not self._is_writable:
                    _check_writable(self.path)
                    self._is_writable = True
                return None
            except OSError as error:
                raise LedgerUnavailable(str(self.path), f"it cannot be looked at ({reason_of(error)})", _ELSEWHERE) from None
            if not size:  # SQLite would take an empty file for an empty database
                raise LedgerUnavailable(str(self.path), "the file is empty, so what it held is lost", _RESTORE)
            self._ledger = _open_file(self.path)
            return self._ledger


_in_memory: WeakKeyDictionary[object, MemoryQuarantine] = WeakKeyDictionary()


def open_quarantine(account: "Account", *, lasting: bool, anchor: object) -> Quarantine:
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


def select_quarantined(sources: Mapping[str, FailureCounts]) -> tuple[QuarantinedSource, ...]:
    """Return the quarantined ones of some sources, sorted by name."""
    return tuple(QuarantinedSource(name, counts) for name, counts in sorted(sources.items()) if counts.is_quarantined)


def not_quarantined_error(source: str, quarantined: tuple[QuarantinedSource, ...]) -> BadParameter:
    """A source whose quarantine cannot be lifted because it has none."""
    names = ", ".join(repr(each.source) for each in quarantined) or "none"
    return BadParameter("source", repr(source), "it is not quarantined", f"the quarantined sources are: {names}")


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


def _open_file(path: Path) -> "Ledger":
    from discreet.ledger.chain import Ledger
    from discreet.ledger.sqlite import SqliteStore

    return Ledger(SqliteStore(path))


def _draft_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")


def _cannot_be_made_error(path: Path, reason: str) -> LedgerUnavailable:
    return LedgerUnavailable(str(path), f"the file of the owner's state cannot be made ({reason})", _ELSEWHERE)
