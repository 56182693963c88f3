"""Folders of publications: a folder of that name is a whole publication or does not exist."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, ENOTEMPTY
from pathlib import Path
from uuid import uuid4

from discreet.errors import BadParameter
from discreet.paths import resolve


def resolve_folder(to: Path) -> Path:
    """Return the real path of the folder, following links."""
    return resolve(to, lambda reason: BadParameter("folder", repr(str(to)), reason, "name another folder"))


@contextmanager
def create_folder(to: Path, mark: str, *, force: bool = False) -> Iterator[Path]:
    """Yield a hidden folder to fill, and rename it when it is complete. Every such folder holds a file called `mark`.

    No incomplete folder ever has the name, and an earlier publication is removed only when the new one has its name.
    """
    if os.path.exists(to) and not force:
        raise BadParameter("folder", str(to), "it exists", "name another folder, or replace it with force=True")
    if os.path.exists(to) and Path.cwd().is_relative_to(to):
        raise BadParameter("folder", str(to), "it is the current folder", "name another, or change to another folder")
    if _holds_no_publication(to, mark):
        raise BadParameter(
            "folder",
            str(to),
            f"not a publication (it has no {mark}), so it is not replaced",
            "name another folder",
        )
    own = uuid4().hex[:12]  # two publications at once use different hidden folders
    part, old = (to.with_name(f".{to.name}.{own}.{what}") for what in ("part", "old"))
    try:
        part.mkdir(parents=True)
    except OSError as error:
        raise BadParameter("folder", str(to), f"cannot be created ({error.strerror})", "name another folder") from None
    try:
        yield part
        _rename_into_place(part, to, old, force)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _holds_no_publication(to: Path, mark: str) -> bool:
    """Whether the folder exists and is not a publication; checked again if it is replaced meanwhile.

    A folder that cannot be read is refused.
    """
    try:
        while True:
            inode = to.stat().st_ino
            if (to / mark).is_file():
                return False
            if to.stat().st_ino == inode:
                return True
    except PermissionError as error:
        reason = f"it cannot be read ({error.strerror}), so it is not replaced"
        raise BadParameter("folder", str(to), reason, "name another folder") from None
    except OSError:  # it does not exist, or cannot: then mkdir raises
        return False


def _rename_into_place(part: Path, to: Path, old: Path, force: bool) -> None:
    """Rename the complete folder. Of several publications at once with `force`, each replaces the one before."""
    try:
        while True:
            try:
                part.rename(to)
                break
            except OSError as error:
                if not force or error.errno not in (ENOTEMPTY, EEXIST):
                    raise
            with suppress(FileNotFoundError):  # another publication has moved it away
                shutil.rmtree(old, ignore_errors=True)
                to.rename(old)
    except OSError as error:
        if os.path.exists(old):
            with suppress(OSError):
                old.rename(to)
        taken = error.errno in (ENOTEMPTY, EEXIST)
        reason = "another publication got this name first" if taken else f"it cannot be renamed ({error.strerror})"
        raise BadParameter(
            "folder", str(to), reason, "publish to another folder; recorded answers of a ledger are not charged again"
        ) from None
    shutil.rmtree(old, ignore_errors=True)
