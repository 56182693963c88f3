"""The folder of measurements of a hierarchy: every part is drawn once, synced to disk, and never drawn again.

    measurements/
      spool.json         the random identity of the folder, and the hash of the plan that it is for
      subtree-000000.npz the noisy tables of a subtree, one array per level and table
      upper.npz          those of the levels above the subtrees; it is drawn last
      private/           while the work goes on: a keyed hash of the exact cells of each part (see below)

**Theory of operation.** A part is written to a draft, synced, and linked into place under its name, and the folder is
synced, before the next part is drawn. A part is complete if its name is there. After a crash, drafts are deleted, which were
never shown, and the work goes on behind the last complete part.

**One debit, one set of noise.** Noise that was drawn a second time for the same debit would be a second measurement, and
unpaid. Three rules exclude it:

1. *A debit is bound to one folder.* Before anything is debited, a folder with a random identity is made and synced, and the
   account records that identity, as the answer of a debit of no cost: the first record wins, for all processes. It is part
   of what the paid measurement is (of its hash), so the debit is for this folder. A process that continues it gets the
   identity from the account, and works in a folder that has it or not at all. A folder that was deleted, or that lies
   elsewhere, is refused: its cost is not refunded, and a fresh publication gets a new identity and a new debit.
2. *A part is never replaced.* It is linked into place, which fails if the name is taken, under a lock that one process has.
3. *Only what is recorded is shown.* When all parts are complete, the account records the hash of each, and their Merkle
   root, as the answer of the paid debit: again the first record wins. Until then the folder is for the owner alone. From
   then on only parts with these hashes are read, published or estimated from. So if an old copy of an unfinished folder is
   put back in its place, parts are drawn anew that were never shown, as for a query whose answer was not recorded; and if
   that is done after the record, they have other hashes, and are refused. So is a copy of an unfinished folder that is
   continued beside it: of two sets of parts, the first that is recorded is the one that was paid for, and the other stays
   closed to readers.

**One state of the data.** A unit that moved while the work was interrupted must not count in a subtree that was drawn before
and in one that is drawn after. That each cell has as many rows as before does not exclude it: two units may have changed
places. So a keyed hash is kept of each part: of its exact cells, and of which units are in each of them, which the engine
returns in the same pass (`sql/cells.py`). The key is random, and both are for the owner alone; they are deleted before the
parts are recorded. Work is continued only if every part that is there has the same units in the same cells as the rows have
now. The part of the upper levels, which is drawn last, is bound to the units of all subtrees.

*Proof* that one unit then moves all parts together by no more than was paid for. Let S be the cells in which the rows, as
they are now, keep the unit: at most m, with at most b in each. A part that is drawn now has the unit in its cells of S. A
part that was there has the unit in the same cells as the rows now have it, so in its cells of S, with at most b in each. So
the unit is in no cell outside of S, and what `query/cells.py` shows of one state of the rows holds for all parts. Rows of
subtrees that are not drawn yet may have changed: they count as they are now, as if the work had begun later.

Where each row is a unit of its own, a unit has no identity that could be found again: a row that changed is another row,
and as many rows in each cell are the same rows. Hashes of units have 63 bits and no key, so that owners must not choose the
names of units in order to make them collide.

*What a refusal shows.* It depends on rows, and no noise was paid for it. It is for the owner alone, who reads the rows and
the private part of the folder in order to continue. It is no answer: nothing of the folder was shown or recorded, the
debit stays, and a fresh one is charged again whatever the rows were. It is neither hidden, as a failure of the engine is,
nor does it close the source: the rows can be read, and nothing is wrong with them.
"""

import hmac
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadParameter, DiscreetError, SourceRefused
from discreet.ledger.sqlite import sync_folder
from discreet.paths import reason_of
from discreet.tabulation.margins import Margin
from discreet.tabulation.node_residuals import Tables

IDENTITY_FILE, LOCK_FILE, PRIVATE_FOLDER, KEY_FILE = "spool.json", "lock", "private", "key"
UPPER = "upper"
DRAFT = ".draft"
KEY_BYTES = 32


def name_subtree(place: int) -> str:
    """Return the name of the part of a subtree."""
    return f"subtree-{place:06d}"


AFRESH_HINT = "measure afresh, with fresh=True and a new folder: that is charged again, and the first debit is not refunded"


class DataChanged(SourceRefused):
    """The rows are not those that complete parts were drawn from; for the owner (see above)."""


@dataclass(frozen=True)
class Spool:
    """A folder that has its identity."""

    folder: Path
    identity: str

    @classmethod
    def create(cls, folder: Path, plan: str, *, reuse: bool = True) -> "Spool":
        """Make a folder with a random identity, durably. One for the same plan in which nothing was drawn is taken over.

        Raises:
            BadParameter: there is a folder with other measurements, or it cannot be made.
        """
        found = _read_identity(folder)
        if found is None:
            return cls(folder, _make_folder(folder, plan))
        if not reuse or found.get("plan") != plan or any(folder.glob("*.npz")):
            raise BadParameter(
                "folder", str(folder.parent), "it holds the measurements of another debit",
                "name another folder; if they were never published and never will be, delete it",
            )  # fmt: skip
        return cls(folder, str(found["spool"]))

    @classmethod
    def open(cls, folder: Path, identity: str, *, is_paid: bool = True) -> "Spool":
        """Open the folder that a debit is bound to. `is_paid` is whether there is such a debit already.

        Raises:
            BadParameter: it is not this one.
        """
        found = _read_identity(folder)
        if found is None or found.get("spool") != identity:
            reason = "its measurements were begun in another folder" if found is None else "it holds other measurements"
            hint = (
                "name the folder in which they were begun; if it is lost, its cost is not refunded: give fresh=True and a "
                "new folder to measure afresh, which is charged again"
            )
            if not is_paid:
                reason = "this plan was prepared for another folder, and nothing was charged for it"
                hint = "name that folder, or give fresh=True and a new folder"
            raise BadParameter("folder", str(folder.parent), reason, hint)
        return cls(folder, identity)

    # -- writing -----------------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from working in this folder, and delete drafts of an earlier one."""
        with _refuse_unwritable(self.folder), open(self.folder / LOCK_FILE, "ab") as handle:
            _lock_file(handle.fileno(), self.folder)
            for draft in self.folder.rglob(f"*{DRAFT}"):
                draft.unlink()
            yield

    def has_part(self, name: str) -> bool:
        """Whether a part is complete."""
        return self._path(name).exists()

    def write_part(self, name: str, levels: Sequence[Tables], first_level: int, checked: Mapping[Any, NDArray[Any]]) -> None:
        """Write a part once. `checked` are the exact cells that it was made from: their keyed hash is kept until the end."""
        _write_durably(self._private(name), self._hash_cells(checked), replace=True)
        arrays = {
            _name_array(level, margin): _shrink(table)
            for level, tables in enumerate(levels, first_level)
            for margin, table in tables.items()
        }
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **arrays)
        _write_durably(self._path(name), content.getbuffer(), replace=False)

    def check_cells(self, name: str, cells: Mapping[Any, NDArray[Any]]) -> None:
        """Compare the exact cells of a complete part with those that it was made from.

        Raises:
            DataChanged: they differ, or are not known any more.
        """
        check = self._private(name)
        if not (check.exists() and self._private(KEY_FILE).exists()):
            raise DataChanged(
                f"the measurement of {self.folder.parent} was interrupted and cannot be continued: what shows whether the "
                f"rows are the same, {PRIVATE_FOLDER}/{name} or {PRIVATE_FOLDER}/{KEY_FILE}, is missing",
                f"put it back; or {AFRESH_HINT}",
            )
        if not hmac.compare_digest(check.read_bytes(), self._hash_cells(cells)):
            raise DataChanged(
                f"the measurement of {self.folder.parent} was interrupted, and the rows have changed since: {name} was "
                "drawn from other rows, so it cannot be continued",
                f"put the same rows back and run the same again, which is free; or {AFRESH_HINT}",
            )

    def finish(self, names: Sequence[str]) -> dict[str, str]:
        """Delete what is private, and return the hash of each part."""
        hashes = {name: self.hash_part(name) for name in names}
        self._delete_private()
        return hashes

    def _delete_private(self) -> None:
        private = self.folder / PRIVATE_FOLDER
        if private.exists():
            for each in private.iterdir():
                each.unlink()
            private.rmdir()
        sync_folder(self.folder)

    def check_parts(self, recorded: Mapping[str, str]) -> None:
        """Refuse a folder whose parts are not the recorded ones: a copy of one that was unfinished, or an older one.

        Raises:
            SourceRefused: a part is missing, or has another hash. Nothing in the folder was changed.
        """
        for name, expected in recorded.items():
            if self.hash_part(name) != expected:
                raise _refuse(f"{name}.npz is not the file that was recorded: its hash differs")

    def open_to_readers(self) -> None:
        """Give the folder and its files the rights of ordinary ones, once its parts are recorded and may be published.
        What is private in it is deleted first: a copy from before the record has some."""
        with _refuse_unwritable(self.folder):
            self._delete_private()
        mask = os.umask(0)
        os.umask(mask)
        with suppress(OSError):
            for each in (self.folder / IDENTITY_FILE, *self.folder.glob("*.npz")):
                os.chmod(each, 0o666 & ~mask)
            os.chmod(self.folder, 0o777 & ~mask)
            (self.folder / LOCK_FILE).unlink(missing_ok=True)

    def _hash_cells(self, cells: Mapping[Any, NDArray[Any]]) -> bytes:
        """A hash of exact cells that says nothing without the key, which is deleted with it."""
        path = self._private(KEY_FILE)
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _write_durably(path, os.urandom(KEY_BYTES), replace=True)
        digest = blake2b(key=path.read_bytes(), digest_size=32)
        for key, table in cells.items():
            digest.update(repr((key, table.shape)).encode())
            digest.update(np.ascontiguousarray(table, "<i8").data)
        return digest.digest()

    # -- reading -----------------------------------------------------------------------------------------------------------

    def read_part(self, name: str, expected: str | None = None) -> dict[tuple[int, Margin], NDArray[Any]]:
        """Return the noisy tables of a part, by level and margin. Refuse one that does not have the expected hash."""
        try:
            content = self._path(name).read_bytes()
            if expected is not None and sha256(content).hexdigest() != expected:
                raise _refuse(f"{name}.npz is not the file that was recorded: its hash differs")
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return {_read_name(key): arrays[key] for key in arrays.files}
        except DiscreetError:
            raise
        except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
            raise _refuse(f"{name}.npz cannot be read ({type(error).__name__})") from None

    def hash_part(self, name: str) -> str:
        """Return the SHA-256 of a part's file."""
        digest = sha256()
        try:
            with open(self._path(name), "rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
        except OSError as error:
            raise _refuse(f"{name}.npz cannot be read ({reason_of(error)})") from None
        return digest.hexdigest()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npz"

    def _private(self, name: str) -> Path:
        return self.folder / PRIVATE_FOLDER / name


def merkle_root(hashes: Mapping[str, str]) -> str:
    """Return the root of the binary tree over the parts, in their order. Leaves and inner nodes are hashed differently, as
    in RFC 6962; a node without a sibling moves up as it is.

    >>> one, two = (sha256(text).hexdigest() for text in (b"1", b"2"))
    >>> merkle_root({"a": one, "b": two}) == merkle_root({"a": two, "b": one})
    False
    """
    row = [sha256(b"\0" + name.encode() + b"\0" + bytes.fromhex(each)).digest() for name, each in hashes.items()]
    while len(row) > 1:
        pairs = [sha256(b"\1" + row[i] + row[i + 1]).digest() for i in range(0, len(row) - 1, 2)]
        row = pairs + row[len(pairs) * 2 :]
    return row[0].hex()


def _make_folder(folder: Path, plan: str) -> str:
    identity = os.urandom(16).hex()
    text = json.dumps({"spool": identity, "plan": plan}).encode()
    with _refuse_unwritable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        _write_durably(folder / IDENTITY_FILE, text, replace=False)
        sync_folder(folder.parent)
        sync_folder(folder.parent.parent)
    found = _read_identity(folder)  # of two processes, the first one's is taken
    assert found is not None
    return str(found["spool"])


def _read_identity(folder: Path) -> dict[str, Any] | None:
    """What a folder says of itself; None if there is none, or nothing that a tabulation wrote."""
    try:
        found = json.loads((folder / IDENTITY_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _refuse(f"{IDENTITY_FILE} cannot be read ({type(error).__name__})") from None
    return found if isinstance(found, dict) and isinstance(found.get("spool"), str) else None


def _write_durably(path: Path, content: Any, *, replace: bool) -> None:
    """Write a file under its name in one step, and sync both the file and the folder. Unless it may replace one, a name that
    is taken stays as it is."""
    draft = path.with_name(f"{path.name}{DRAFT}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _pause("written", path)
    if replace:
        os.replace(draft, path)
    else:
        with suppress(FileExistsError):
            os.link(draft, path)
        os.unlink(draft)
    sync_folder(path.parent)
    _pause("placed", path)


def _pause(what: str, path: Path) -> None:
    """Where tests stop the process."""


def _lock_file(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise BadParameter(
            "folder", str(folder.parent), "another process measures in it", "wait for it: what it measures is not lost"
        ) from None


@contextmanager
def _refuse_unwritable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadParameter(
            "folder", str(folder.parent), f"it cannot be written ({reason_of(error)})",
            "make room or allow it, and run the same again: what is complete is kept, and nothing is charged twice",
        ) from None  # fmt: skip


def _refuse(reason: str) -> SourceRefused:
    return SourceRefused(reason, "name the folder of a tabulation, as it was published", parameter="folder")


def _shrink(table: NDArray[Any]) -> NDArray[Any]:
    """The same integers in the narrowest type that holds them all. They are noisy: their size was paid for."""
    least, most = (int(table.min()), int(table.max())) if table.size else (0, 0)
    kind = next(kind for kind in ("<i2", "<i4", "<i8") if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return np.ascontiguousarray(table, kind)


def _name_array(level: int, margin: Margin) -> str:
    """`level.column.column…`, in numbers."""
    return ".".join(map(str, (level, *margin)))


def _read_name(name: str) -> tuple[int, Margin]:
    level, *margin = map(int, name.split("."))
    return level, tuple(margin)
